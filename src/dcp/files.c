/* SPDX-License-Identifier: Apache-2.0 */
/* A .distcp file has no header: it is a sequence of items, and only .metadata says where they start.
 * So .metadata is checked as a whole before any of it is trusted.  The chunks are sorted by (file,
 * offset); then each item must lie inside its file and end before the next one starts, and the file
 * must end with its last item.  Empty items overlap nothing. */
#include "placing.h"

#include <stdlib.h>

#include <zf/assemble/files.h>
#include <zf/base/num.h>

#define SHOW(n) ((unsigned long long)(n))

static const char *files_key(const struct zf_dcp *d, const struct dcp_chunk *c)
{
    return d->key.at[c->key].name;
}

/* Marks the files that contain a chunk's item. */
static bool *files_used(const struct zf_dcp *d, struct zf_err *err)
{
    bool *used = calloc(d->file.n + 1, sizeof *used);

    if (!used) {
        return zf_null(
            zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu files", SHOW(d->file.n)));
    }
    for (uint64_t i = 0; i < d->chunk.n; i++)
        if (d->chunk.at[i].item.file != ZF_DCP_NONE)
            used[d->chunk.at[i].item.file] = true;
    return used;
}

bool dcp_files_open(struct dcp_placing *p, struct zf_err *err)
{
    zf_auto(mem) bool *used = files_used(p->d, err);
    zf_auto(mem) const char **path = used ? calloc(p->d->file.n + 1, sizeof *path) : NULL;
    char is[ZF_ABSENT_MAX];
    size_t n = 0;

    if (!path)
        return used && zf_fail_sys(err, "open the files");
    for (uint64_t i = 0; i < p->d->file.n; i++)
        if (used[i])
            path[n++] = p->d->file.at[i].path;
    zf_auto(expect) struct zf_expect *ahead = zf_store_expect(p->st, path, n, NULL);
    for (uint64_t i = 0; i < p->d->file.n; i++) {
        if (!used[i])
            continue;
        zf_expect_reach(ahead, p->d->file.at[i].path);
        p->file[i] = zf_store_open(p->st, p->d->file.at[i].path, err);
        if (!p->file[i]) {
            if (err->code == ZF_E_NOENT) {
                zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                        "the file %s, but by .metadata it holds items",
                        zf_absent(p->st, p->d->file.at[i].path, is));
                zf_err_in(err, "%s", p->d->file.at[i].path);
            }
            if (!zf_forgive(p->b, err))
                return false;
        }
    }
    return true;
}

/* For qsort_r: by file, then by offset. */
static int files_by_place(const void *a, const void *b, void *ctx)
{
    const struct dcp_chunk *chunk = ctx;
    const struct dcp_chunk *x = &chunk[*(const uint32_t *)a], *y = &chunk[*(const uint32_t *)b];

    if (x->item.file != y->item.file)
        return x->item.file < y->item.file ? -1 : 1;
    return x->item.off < y->item.off ? -1 : x->item.off > y->item.off;
}

bool dcp_files_sort(struct dcp_placing *p, uint32_t *order, uint64_t *n_out, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    uint64_t n = 0;

    for (uint32_t i = 0; i < d->chunk.n; i++) {
        struct dcp_chunk *c = &d->chunk.at[i];

        if (c->item.file != ZF_DCP_NONE && !c->lost) {
            order[n++] = i;
            continue;
        }
        if (!c->lost && !c->empty) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "\"%.160s\": storage_data has no item for a chunk of it", files_key(d, c));
            if (!dcp_mark_lost(p, c, err))
                return false;
        }
    }
    qsort_r(order, n, sizeof *order, files_by_place, d->chunk.at);
    *n_out = n;
    return true;
}

uint64_t dcp_files_run(const struct zf_dcp *d, const uint32_t *order, uint64_t n)
{
    uint64_t end = 1;

    while (end < n && d->chunk.at[order[end]].item.file == d->chunk.at[order[0]].item.file)
        end++;
    return end;
}

bool dcp_files_check(struct dcp_placing *p, const uint32_t *order, uint64_t n, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    struct dcp_chunk *before = NULL;

    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &d->chunk.at[order[i]];
        struct zf_source *file = p->file[c->item.file];
        bool ok = true;

        if (!file) {
            c->lost = true;
            continue;
        }
        if (!zf_within(c->item.off, c->item.len, file->size)) {
            zf_fail(err, ZF_E_FORMAT, c->item.off,
                    "the item of \"%.100s\" has %llu bytes, but the file ends at byte %llu",
                    files_key(d, c), SHOW(c->item.len), SHOW(file->size));
            ok = false;
        } else if (before && c->item.len && before->item.off + before->item.len > c->item.off) {
            before->lost = true;
            zf_fail(err, ZF_E_FORMAT, c->item.off, "the items of \"%.80s\" and \"%.80s\" overlap",
                    files_key(d, before), files_key(d, c));
            ok = false;
        } else if (c->item.len > ZF_DCP_ITEM_MAX) {
            zf_fail(err, ZF_E_UNSUPPORTED, c->item.off, "an item of %llu bytes is too large",
                    SHOW(c->item.len));
            ok = false;
        }
        if (!ok && !dcp_mark_lost(p, c, err))
            return false;
        before = c->item.len ? c : before;
    }
    return true;
}

/* Checks that a file ends with its last item; in a degraded build, frames.c has noted a longer one. */
static bool files_check_end(struct dcp_placing *p, const struct dcp_file *f, uint64_t size,
                            struct zf_err *err)
{
    if (size == f->end || (size > f->end && zf_build_degraded(p->b)))
        return true;
    if (size < f->end) {
        (void)zf_fail(err, ZF_E_FORMAT, size,
                      "the file ends here, but by .metadata its last item ends at byte %llu",
                      SHOW(f->end));
    } else {
        (void)zf_fail(err, ZF_E_FORMAT, f->end,
                      "by .metadata its last item ends here, but the file ends at byte %llu: this "
                      "is not the file that .metadata describes",
                      SHOW(size));
    }
    return zf_err_in(err, "%s", f->path) || zf_forgive(p->b, err);
}

bool dcp_files_check_ends(struct dcp_placing *p, struct zf_err *err)
{
    const struct zf_dcp *d = p->d;

    for (uint64_t i = 0; i < d->file.n; i++)
        if (p->file[i] && !files_check_end(p, &d->file.at[i], p->file[i]->size, err))
            return false;
    return true;
}
