/* SPDX-License-Identifier: Apache-2.0 */
/* torch.save of 0.1: a tar of `storages`, `tensors` and `pickle`.
 * Source: torch/serialization.py legacy_load (1.13), which still reads them. */
#include <string.h>

#include <zf/base/num.h>

#include "file.h"

#define BLOCK 512u
#define SMALL_PICKLE 4096u
#define MAX_MEMBERS 64 /* torch writes four */

/* Offset of the member's data. */
static bool tar_find_member(struct zf_torch *t, const char *want, uint64_t *off_out,
                            struct zf_err *err)
{
    uint64_t off = 0, size;
    uint8_t head[BLOCK];

    for (int i = 0; i < MAX_MEMBERS && zf_within(off, BLOCK, t->src->size); i++) {
        char digits[13] = "", name[101] = "";

        if (!zf_source_pread(t->src, head, sizeof head, off, err)) {
            return false;
        }
        memcpy(name, head, 100);
        memcpy(digits, head + 124, 12);
        size = strtoull(digits, NULL, 8);
        off += BLOCK;
        if (strcmp(strncmp(name, "./", 2) == 0 ? name + 2 : name, want) == 0 &&
            zf_within(off, size, t->src->size)) {
            *off_out = off;
            return true;
        }
        if (!zf_within(off, size, t->src->size)) {
            break;
        }
        off += (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return torch_bad(t, err, ZF_E_FORMAT, "the tar has no whole member \"%s\"", want);
}

/* A storage or tensor key: an integer, or text.  Into the arena. */
static const char *tar_load_key(struct zf_torch *t, const struct zf_pv *v, struct zf_err *err)
{
    uint64_t n = 0;
    int64_t number;
    const char *text = zf_pv_text(v, &n);

    if (text && strlen(text) == n && zf_pv_kind(v) != ZF_PV_BIGINT) {
        return zf_arena_str(t->arena, text, n, err);
    }
    if (zf_pv_int(v, &number)) {
        return zf_arena_fmt(t->arena, err, "%lld", (long long)number);
    }
    (void)torch_bad(t, err, ZF_E_FORMAT,
                    "a storage or tensor whose key is neither a number nor text");
    return NULL;
}

static bool tar_load_count(struct zf_torch *t, uint64_t *off, uint64_t each, uint64_t *n_out,
                           struct zf_err *err)
{
    const struct zf_pv *v = torch_stream_load(t, off, SMALL_PICKLE, err);

    if (!v) {
        return false;
    }
    return (zf_pv_u64(v, n_out) && *n_out <= (t->src->size - *off) / each) ||
           torch_bad(t, err, ZF_E_FORMAT,
                     "the tar counts more storages or tensors than it can hold");
}

/* (key, location, class), the element count, the bytes. */
static bool tar_load_storage(struct zf_torch *t, uint64_t *off, struct torch_record *r,
                             struct zf_err *err)
{
    const struct zf_pv *v = torch_stream_load(t, off, SMALL_PICKLE, err);
    uint64_t n;

    if (!v || !(r->key = tar_load_key(t, zf_pv_item(v, 0), err))) {
        return false;
    }
    const char *class = zf_pv_name(zf_pv_item(v, 2));

    if (!zf_dtype_by_storage(class, strlen(class), &r->dtype)) {
        return torch_bad(t, err, ZF_E_UNSUPPORTED,
                         "storage \"%.80s\" is of the unknown class \"%.80s\"", r->key, class);
    }
    if (!torch_read_u64(t, off, &n, err)) {
        return false;
    }
    r->es = zf_dtype_info(r->dtype)->bytes;
    r->off = *off;
    if (!zf_mul(n, r->es, &r->bytes) || !zf_within(r->off, r->bytes, t->src->size)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" reaches beyond the end of the file", r->key);
    }
    *off += r->bytes;
    return true;
}

/* (key, key of the whole, offset, elements): a piece of a storage under a key of its own. */
static bool tar_load_view(struct zf_torch *t, const struct zf_pv *v, struct torch_record *r,
                          struct zf_err *err)
{
    const char *root = tar_load_key(t, zf_pv_item(v, 1), err);
    const struct torch_record *whole = root ? torch_record_get(t, root) : NULL;
    uint64_t first, n, off;

    if (!root || !(r->key = tar_load_key(t, zf_pv_item(v, 0), err))) {
        return false;
    }
    if (!whole || !zf_pv_u64(zf_pv_item(v, 2), &first) || !zf_pv_u64(zf_pv_item(v, 3), &n) ||
        !zf_mul(first, whole->es, &off) || !zf_mul(n, whole->es, &r->bytes) ||
        !zf_within(off, r->bytes, whole->bytes)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" is a view that is not inside its whole", r->key);
    }
    r->off = whole->off + off;
    r->es = whole->es;
    r->dtype = whole->dtype;
    return true;
}

static bool tar_load_storages(struct zf_torch *t, struct zf_err *err)
{
    uint64_t off, n;

    if (!tar_find_member(t, "storages", &off, err) || !tar_load_count(t, &off, 8, &n, err)) {
        return false;
    }
    t->record = zf_arena_get(t->arena, n, sizeof *t->record, err);
    for (uint64_t i = 0; t->record && i < n; i++, t->n_records++) {
        if (!tar_load_storage(t, &off, &t->record[i], err)) {
            return false;
        }
    }
    const struct zf_pv *views = t->record ? torch_stream_load(t, &off, SMALL_PICKLE, err) : NULL;
    uint64_t n_views = zf_pv_len(views);

    if (!views || !torch_record_sort(t, err)) {
        return false;
    }
    struct torch_record *all = zf_arena_get(t->arena, n + n_views, sizeof *all, err);

    if (!all) {
        return false;
    }
    if (n) {
        memcpy(all, t->record, n * sizeof *all);
    }
    for (uint64_t i = 0; i < n_views; i++) {
        if (!tar_load_view(t, zf_pv_item(views, i), &all[n + i], err)) {
            return false;
        }
    }
    t->record = all;
    t->n_records = n + n_views;
    return torch_record_sort(t, err);
}

static bool tar_load_numbers(struct zf_torch *t, uint64_t *off, struct torch_entry *e,
                             struct zf_err *err)
{
    uint64_t ndim, n;

    if (!torch_read_u64(t, off, &ndim, err)) {
        return false;
    }
    e->ndim = (uint32_t)ndim; /* the upper half is filler */
    if (e->ndim > t->lim.tensor_dims) {
        return torch_bad(t, err, ZF_E_LIMIT,
                         "a tensor of %u dimensions, more than the limit tensor_dims=%llu", e->ndim,
                         (unsigned long long)t->lim.tensor_dims);
    }
    n = e->ndim;
    e->shape = zf_arena_get(t->arena, n, 8, err);
    e->stride = e->shape ? zf_arena_get(t->arena, n, 8, err) : NULL;
    bool ok = e->stride != NULL;

    for (uint64_t d = 0; ok && d < n; d++) {
        ok = torch_read_u64(t, off, &e->shape[d], err);
    }
    for (uint64_t d = 0; ok && d < n; d++) {
        ok = torch_read_u64(t, off, &e->stride[d], err);
    }
    return ok && torch_read_u64(t, off, &e->off, err);
}

/* (key, storage key, class), then ndim, sizes, strides and offset as 64-bit numbers. */
static bool tar_load_tensor(struct zf_torch *t, uint64_t *off, struct torch_entry *e,
                            struct zf_err *err)
{
    const struct zf_pv *v = torch_stream_load(t, off, SMALL_PICKLE, err);

    if (!v || !(e->key = tar_load_key(t, zf_pv_item(v, 0), err)) ||
        !(e->pid.key = tar_load_key(t, zf_pv_item(v, 1), err))) {
        return false;
    }
    const struct torch_record *r = torch_record_get(t, e->pid.key);

    if (!r) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "tensor \"%.80s\" is on storage \"%.80s\", which is missing", e->key,
                         e->pid.key);
    }
    e->pid.dtype = r->dtype;
    e->pid.total = e->pid.numel = r->bytes / r->es;
    return tar_load_numbers(t, off, e, err);
}

static int tar_cmp_entry(const void *a, const void *b)
{
    const struct torch_entry *x = a, *y = b;

    return strcmp(x->key, y->key);
}

static bool tar_load_tensors(struct zf_torch *t, struct zf_err *err)
{
    uint64_t off, n;

    if (!tar_find_member(t, "tensors", &off, err) || !tar_load_count(t, &off, 16, &n, err)) {
        return false;
    }
    t->entry = zf_arena_get(t->arena, n, sizeof *t->entry, err);
    if (!t->entry) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!tar_load_tensor(t, &off, &t->entry[i], err)) {
            return false;
        }
    }
    if (n) {
        qsort(t->entry, n, sizeof *t->entry, tar_cmp_entry);
    }
    t->n_entries = n;
    return true;
}

static const struct torch_container_ops tar_ops = {
    .name = "tar",
    .is_storage = torch_record_is_storage,
    .find = torch_record_find,
    .open = torch_record_open,
};

bool torch_tar_open(struct zf_torch *t, struct zf_err *err)
{
    uint64_t off;

    t->ops = &tar_ops;
    if (!tar_load_storages(t, err) || !tar_load_tensors(t, err) ||
        !tar_find_member(t, "pickle", &off, err)) {
        return false;
    }
    t->root = torch_stream_load(t, &off, SMALL_PICKLE, err);
    return t->root != NULL;
}
