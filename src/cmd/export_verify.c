/* SPDX-License-Identifier: Apache-2.0 */
/* state/integrity.json is the trainer's own file: {"algorithm": "sha256", "files": {name: hex digits}}, for files
 * in its directory (src/format/megatron/integrity.c).  A shard is checked only if the export reads all of its
 * tensors; the bytes between them, the structure of the archive, are never exported. */
#include "export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <zf/base/vec.h>
#include <zf/codec/json.h>
#include <zf/view.h>

#define VERIFY_SUMS "state/integrity.json"

/* Bytes [off, end) of a file. */
struct span {
    struct zf_source *file; /* borrowed */
    uint64_t off, end;
};

struct spans {
    zf_vec(struct span);
    struct zf_err *err;
};

static bool verify_add(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct spans *to = ctx;

    while (len > 0) {
        struct zf_trace t = zf_source_trace(s, off, len);
        uint64_t step = t.len == 0 || t.len > len ? len : t.len;

        if (t.src->ops->identity) {
            struct span *x = zf_vec_push(to, to->err);

            if (!x)
                return false;
            *x = (struct span){t.src, t.off, t.off + (t.codec ? t.packed : step)};
        }
        off += step;
        len -= step;
    }
    return true;
}

static int verify_by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return x->file != y->file ? ((uintptr_t)x->file > (uintptr_t)y->file ? 1 : -1)
                              : (x->off > y->off) - (x->off < y->off);
}

/* Sorts the spans and joins those that overlap or touch. */
static void verify_merge(struct spans *s)
{
    size_t n = 0;

    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, verify_by_place);
    for (size_t i = 0; i < s->n; i++) {
        struct span *last = n ? &s->at[n - 1] : NULL;

        if (last && last->file == s->at[i].file && s->at[i].off <= last->end)
            last->end = last->end > s->at[i].end ? last->end : s->at[i].end;
        else
            s->at[n++] = s->at[i];
    }
    s->n = n;
}

/* Collects the bytes of source files that the planned files are made of. */
static bool verify_planned(struct zf_tree *tree, const struct zf_export_plan *plan,
                           struct spans *out)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        struct zf_err why = {.code = ZF_OK};
        const struct zf_map *m =
            plan->file[i].link_of == i ? zf_tree_map(tree, plan->file[i].st.ino, &why) : NULL;

        /* A failure is reported later, when the file is copied. */
        if (m && !zf_map_each_source(m, verify_add, out))
            return false;
    }
    verify_merge(out);
    return true;
}

static bool verify_tensors(const struct zf_checkpoint *c, struct spans *out)
{
    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++)
            if (!zf_map_each_source(c->set[s].tensor[i].data, verify_add, out))
                return false;
    }
    verify_merge(out);
    return true;
}

/* The source file of this path if `read` covers all of its bytes that are in `all`, else NULL; both lists are
 * merged. */
static struct zf_source *verify_find(const struct spans *all, const struct spans *read,
                                     const char *path)
{
    struct zf_source *file = NULL;
    size_t k = 0;

    while (k < read->n && !file) {
        file = strcmp(read->at[k].file->name, path) == 0 ? read->at[k].file : NULL;
        k += !file;
    }
    for (size_t i = 0; file && i < all->n; i++) {
        if (all->at[i].file != file)
            continue;
        while (k < read->n && read->at[k].file == file && read->at[k].end < all->at[i].end)
            k++;
        if (k == read->n || read->at[k].file != file || read->at[k].off > all->at[i].off)
            return NULL;
    }
    return file;
}

static bool verify_compare(struct zf_source *file, const char *want, const struct opts *o,
                           struct zf_err *err)
{
    char is[ZF_SHA256_HEX], text[1024];

    if (!zf_source_sha256(file, is, err))
        return false;
    if (strcasecmp(is, want) == 0)
        return true;
    (void)zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "its SHA-256 is %.16s…, in integrity.json %.16s…: the file was changed or damaged "
        "after it was saved",
        is, want);
    (void)zf_err_in(err, "%s", file->name);
    if (o->degraded)
        (void)fprintf(stderr, "zerofs: warning: %s\n", zf_err_text(err, text, sizeof text));
    return o->degraded;
}

/* Checks all files; dir[dir_len]: the directory of the file of checksums, with its '/'. */
static bool verify_all(const json_t *files, const char *dir, int dir_len, const struct spans *both,
                       const struct opts *o, size_t *n_out, struct zf_err *err)
{
    const char *name;
    json_t *v, *sums = (json_t *)(uintptr_t)files;

    json_object_foreach(sums, name, v)
    {
        const char *want = json_string_value(v);
        zf_auto(mem) char *path = NULL;

        if (asprintf(&path, "%.*s%s", dir_len, dir, name) < 0) {
            path = NULL;
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        struct zf_source *file = verify_find(&both[0], &both[1], path);
        if (!file)
            continue;
        if (!want || strlen(want) != ZF_SHA256_HEX - 1) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           VERIFY_SUMS " has no SHA-256 sum for \"%.80s\"", name);
        }
        ++*n_out;
        if (!verify_compare(file, want, o, err))
            return false;
    }
    return true;
}

/* Reads the checksums; *file_out: the file they are in.  NULL with ZF_OK: there are none. */
static json_t *verify_load(const struct zf_checkpoint *c, const struct opts *o,
                           struct zf_source **file_out, struct zf_err *err)
{
    const struct zf_blob *b = zf_checkpoint_blob(c, VERIFY_SUMS);
    const uint64_t n = b ? zf_map_size(b->data) : 0;
    const struct zf_run run =
        n && n <= o->lim.json_bytes ? zf_map_at(b->data, 0) : (struct zf_run){.kind = ZF_RUN_MEM};
    uint64_t off = run.off;

    err->code = ZF_OK;
    *file_out = run.kind == ZF_RUN_SRC ? zf_source_origin(run.src, &off) : NULL;
    /* An entry that was made from a pickle is not the trainer's file. */
    if (!*file_out || !(*file_out)->ops->identity)
        return NULL;
    zf_auto(mem) char *text = zf_source_slurp(run.src, run.off, n, err);
    return text ? zf_json_load(text, n, &o->lim, err) : NULL;
}

bool export_verify(struct zf_tree *tree, const struct zf_export_plan *plan, const struct opts *o,
                   bool tell, struct zf_err *err)
{
    const struct zf_checkpoint *c = zf_tree_checkpoint(tree);
    struct spans both[2] = {{.err = err}, {.err = err}}; /* all tensors; what is exported */
    struct zf_source *from;
    zf_auto(json) json_t *j = verify_load(c, o, &from, err);
    const json_t *files = json_object_get(j, "files");
    size_t n = 0;

    if (!j)
        return err->code == ZF_OK;
    const char *slash = strrchr(from->name, '/');
    /* With only= or except= not all tensors are known. */
    const bool some = o->only.n || o->except.n;
    bool ok = some || (verify_tensors(c, &both[0]) && verify_planned(tree, plan, &both[1]) &&
                       verify_all(files, from->name, slash ? (int)(slash - from->name) + 1 : 0,
                                  both, o, &n, err));

    if (ok && tell) {
        (void)fprintf(
            stderr,
            "zerofs export: integrity.json has the sums of %zu files: %zu %s compared for "
            "this export%s\n",
            json_object_size(files), n, n == 1 ? "was" : "were",
            n ? "" : ", as it takes a part of each shard's tensors");
    }
    zf_vec_fini(&both[0]);
    zf_vec_fini(&both[1]);
    return ok;
}
