/* SPDX-License-Identifier: Apache-2.0 */
/* DTensors whose local tensors are composed of several others: collected file by file, added when all are there. */
#include "join_box.h"

#include <string.h>

#include <zf/assemble/composed.h>
#include <zf/assemble/degraded.h>

bool join_composed_box(struct zf_arena *a, const struct dim_ranges *dim, struct composed_chunk *c,
                       bool *empty, struct zf_err *err)
{
    uint32_t ndim = c->dt->ndim;
    uint64_t *box = zf_arena_get(a, 2 * (uint64_t)ndim + 1, sizeof *box, err);
    bool several = false;

    for (uint32_t k = 0; box && k < ndim; k++) {
        *empty = *empty || dim[k].total == 0;
        several = several || dim[k].n > 1;
        box[k] = dim[k].range[0].lo;
        box[ndim + k] = dim[k].range[0].hi - dim[k].range[0].lo;
    }
    c->start = several ? NULL : box;
    c->size = several || !box ? NULL : box + ndim;
    return box != NULL;
}

bool join_composed_add(struct zf_arena *a, struct part_key *key, const struct composed_chunk *c,
                       struct zf_err *err)
{
    const struct composed_chunk *first = key->chunk;
    struct composed_chunk *copy = zf_arena_get(a, 1, sizeof *copy, err);

    if (!copy)
        return false;
    *copy = *c;
    copy->next = NULL;
    *(key->last ? &key->last->next : &key->chunk) = copy;
    key->last = copy;
    if (!first ||
        (zf_type_equal((struct zf_type){c->dt->dtype, c->dt->ndim, c->dt->shape},
                       (struct zf_type){first->dt->dtype, first->dt->ndim, first->dt->shape}) &&
         parts_same_mesh(c->dt, first->dt)))
        return true;
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "it has another dtype, shape or mesh than in \"%.80s\": two saves are mixed",
                   first->file);
}

static bool join_composed_same(const struct part_piece *p, const struct part_piece *q)
{
    if (strcmp(p->name, q->name) != 0 || p->is_number != q->is_number)
        return false;
    return p->is_number ? p->number.dtype == q->number.dtype &&
                              memcmp(&p->number.bits, &q->number.bits, sizeof p->number.bits) == 0
                        : zf_type_equal((struct zf_type){p->ref.dtype, p->ref.ndim, p->ref.shape},
                                        (struct zf_type){q->ref.dtype, q->ref.ndim, q->ref.shape});
}

bool join_composed_equal(struct zf_build *b, struct zf_copy_check *check,
                         const struct join_box *first, const struct composed_chunk *c,
                         struct zf_err *err)
{
    const struct part_piece *p = first->piece, *q = c->piece;
    struct join_box one = {.file = first->file};
    struct zf_from two;

    for (; p && q && join_composed_same(p, q); p = p->next, q = q->next) {
        const struct zf_type type = {q->ref.dtype, q->ref.ndim, q->ref.shape};

        if (!p->is_number && q->ref.n > 0 &&
            !(join_box_from(&p->ref, NULL, &one.from, err) &&
              join_box_from(&q->ref, NULL, &two, err) &&
              join_box_equal(b, check, &one, type, two, err)))
            return false;
    }
    return (!p && !q) || join_box_differs(first, err);
}

static bool join_composed_chunk(struct zf_composed *of, const struct composed_chunk *c,
                                struct zf_err *err)
{
    if (!c->piece)
        return zf_composed_is_plain(of, err);
    if (!c->start) {
        of->apart = true;
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "a tensor that consists of several tensors, of which a rank holds separate "
                       "blocks of rows");
    }
    if (!zf_composed_chunk(of, c->file, c->start, c->size, err))
        return false;
    for (const struct part_piece *p = c->piece; p && of->n_chunks == 1; p = p->next)
        if (!p->is_number)
            zf_composed_note_part(of, p->name, p->ref.ndim);
    for (const struct part_piece *p = c->piece; p; p = p->next) {
        const struct zf_tensor_ref *r = &p->ref;

        if (p->is_number) {
            if (!zf_composed_put_number(of, p->name, p->number, err))
                return false;
            continue;
        }
        if (!zf_composed_put(of, p->name, (struct zf_type){r->dtype, r->ndim, r->shape},
                             (struct zf_from){.src = r->src,
                                              .off = r->off,
                                              .stride = r->packed ? NULL : r->stride},
                             err))
            return false;
    }
    return true;
}

static bool join_composed_at(struct zf_composed *of, struct zf_spot spot,
                             const struct part_key *key, const char **file, struct zf_err *err)
{
    bool ok = true;

    if (!zf_composed_begin(of, spot, err))
        return false;
    for (const struct composed_chunk *c = key->chunk; ok && c; c = c->next) {
        *file = c->file;
        ok = join_composed_chunk(of, c, err);
    }
    return zf_composed_end(of, ok, err);
}

/* Does one chunk hold the whole tensor? */
static bool join_composed_is_whole(const struct composed_chunk *c)
{
    if (c->next || !c->start)
        return false;
    return c->dt->ndim == 0 || memcmp(c->size, c->dt->shape, c->dt->ndim * sizeof *c->size) == 0;
}

bool join_composed_place(struct zf_build *b, struct zf_names *names, const struct part_key *key,
                         struct zf_err *err)
{
    const struct composed_chunk *c = key->chunk;
    const char *file = c->file;
    struct zf_spot spot;

    if (!zf_names_place(names, key->path, &spot, err))
        return false;
    zf_auto(mem) char *name = strdup(spot.name);
    struct zf_composed of = {.b = b,
                             .name = name,
                             .ndim = c->dt->ndim,
                             .shape = c->dt->shape,
                             .whole = join_composed_is_whole(c)};
    if (!name)
        return zf_fail_sys(err, "allocate memory");
    bool ok = join_composed_at(&of, spot, key, &file, err);
    if (of.taken) {
        zf_err_clear(err);
        ok = zf_names_extra(names, key->path, &spot, err) &&
             join_composed_at(&of, spot, key, &file, err);
    }
    if (ok && !zf_composed_note(b, c->file, key->attrs, err))
        return false;
    if (!ok) {
        bool skip = err->code == ZF_E_UNSUPPORTED && !zf_names_is_optim(spot);

        (void)zf_err_in(err, "%s", file);
        ok = skip ? zf_leave_out(b, file, name, err) : zf_composed_forgive(&of, err);
    }
    zf_composed_fini(&of);
    return ok;
}
