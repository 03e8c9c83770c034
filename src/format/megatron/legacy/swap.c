/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that was copied over another, or two that were exchanged, have all the names and shapes that they
 * should have.  Evidence against that: no two ranks hold the same bytes in all of their tensors, and args
 * have the number of the process that wrote the file, in which tensor ranks come first.
 * Source: megatron/core/parallel_state.py (RankGenerator, "tp-cp-ep-dp-pp" and "tp-cp-ep-pp-dp");
 * megatron/training/arguments.py (args.rank), 0.4 … 0.19.  tools/checkpoint writes all ranks from one
 * process, whose number is in all files then. */
#include "save.h"

#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/table.h>

#define SWAP_HEAD 64u /* elements of each tensor that are compared */

/* ---- copies --------------------------------------------------------------------------------- */

/* A file: by the hash of its names and the heads of its tensors, by the process that wrote it, or the last stage so far of
 * one tensor and expert rank. */
struct swap_seen {
    UT_hash_handle hh;
    uint32_t file; /* + 1 */
};

/* Is it one value again and again?  Fresh norms and biases are. */
static bool swap_is_plain(const uint8_t *p, uint64_t n, uint32_t width)
{
    return n < 2 || memcmp(p, p + width, (n - 1) * width) == 0;
}

static bool swap_add_tensor(const struct legacy_part *p, uint64_t *hash, bool *tells,
                            struct zf_err *err)
{
    const struct zf_tensor_ref *r = &p->weight.ref;
    uint64_t n = r->packed && r->src ? (r->n < SWAP_HEAD ? r->n : SWAP_HEAD) : 0;
    uint32_t width = zf_dtype_info(r->dtype)->bytes;
    uint8_t head[16 * SWAP_HEAD];

    if (n > 0 && !zf_source_pread(r->src, head, n * width, r->off, err))
        return false;
    *hash = zf_hash(zf_hash(*hash ^ p->chunk, p->name, p->name_n), r->shape,
                    r->ndim * sizeof *r->shape);
    *hash = zf_hash(*hash ^ (uint64_t)r->dtype, head, n * width);
    *tells = *tells || (n > 0 && !swap_is_plain(head, n, width));
    return true;
}

static bool swap_add_file(const struct legacy_save *ls, uint32_t i, struct swap_seen **files,
                          struct zf_err *err)
{
    const struct legacy_rank *r = &ls->rank[i];
    struct swap_seen *met;
    uint64_t hash = 0;
    bool tells = false;

    for (uint32_t k = r->first_part; k < r->first_part + r->n_parts; k++)
        if (!swap_add_tensor(&ls->part.at[k], &hash, &tells, err))
            return false;
    met = tells ? zf_table_make_id(*files, hash, err) : NULL;
    if (!met)
        return !tells;
    if (met->file) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%s and %s hold the same bytes in all tensors: one is a copy of the other",
                       ls->files.file[met->file - 1].dir, r->file->dir);
    }
    met->file = i + 1;
    return true;
}

/* ---- writers -------------------------------------------------------------------------------- */

static bool swap_one_wrote_all(const struct legacy_save *ls)
{
    for (uint32_t i = 1; i < ls->files.n; i++)
        if (ls->rank[i].writer != ls->rank[0].writer)
            return false;
    return true;
}

/* The tensor rank is the number's remainder. */
static bool swap_fits(const struct legacy_save *ls, uint32_t i, struct zf_err *err)
{
    const struct legacy_rank *r = &ls->rank[i];
    uint32_t n = zf_mesh_parts(&ls->files.mesh, ZF_AXIS_TENSOR);
    uint32_t tensor = r->file->at.at[ZF_AXIS_TENSOR];

    return r->writer == LEGACY_NO_WRITER || r->writer % n == tensor ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the folder is named for tensor rank %u, but by args.rank process %llu wrote "
                   "it, which is tensor rank %llu of %u: folders were exchanged",
                   tensor, (unsigned long long)r->writer, (unsigned long long)(r->writer % n), n) ||
           zf_err_in(err, "%s!", r->file->dir);
}

/* No process writes two files; and of those that differ in their stage only, which come in its order, the
 * later stage has the higher number. */
static bool swap_in_order(const struct legacy_save *ls, uint32_t i, struct swap_seen **processes,
                          struct swap_seen **lines, struct zf_err *err)
{
    const struct legacy_rank *r = &ls->rank[i];
    uint64_t line = (uint64_t)r->file->at.at[ZF_AXIS_TENSOR] << 32 | r->file->at.at[ZF_AXIS_EXPERT];

    if (r->writer == LEGACY_NO_WRITER)
        return true;
    struct swap_seen *p = zf_table_make_id(*processes, r->writer, err);
    struct swap_seen *l = p ? zf_table_make_id(*lines, line, err) : NULL;
    if (!l)
        return false;
    uint32_t of = p->file                                               ? p->file
                  : l->file && ls->rank[l->file - 1].writer > r->writer ? l->file
                                                                        : 0;
    p->file = l->file = i + 1;
    return of == 0 ||
           zf_fail(
               err, ZF_E_FORMAT, ZF_OFF_NONE,
               "by args.rank %s was written by process %llu and %s by %llu: folders were exchanged "
               "or copied",
               ls->rank[of - 1].file->dir, (unsigned long long)ls->rank[of - 1].writer,
               r->file->dir, (unsigned long long)r->writer);
}

static bool swap_wrote(const struct legacy_save *ls, struct zf_err *err)
{
    zf_auto(uthash) struct swap_seen *processes = NULL;
    zf_auto(uthash) struct swap_seen *lines = NULL;

    if (swap_one_wrote_all(ls))
        return true;
    for (uint32_t i = 0; i < ls->files.n; i++)
        if (!swap_fits(ls, i, err) || !swap_in_order(ls, i, &processes, &lines, err))
            return false;
    return true;
}

bool legacy_swap_check(const struct legacy_save *ls, struct zf_err *err)
{
    zf_auto(uthash) struct swap_seen *files = NULL;

    for (uint32_t i = 0; i < ls->files.n; i++)
        if (!swap_add_file(ls, i, &files, err))
            return false;
    return swap_wrote(ls, err);
}
