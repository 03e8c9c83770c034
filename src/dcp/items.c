/* SPDX-License-Identifier: Apache-2.0 */
/* An item is opened at its first read, by the reading thread: its bytes are a window of the file
 * (decompressed if necessary) with a torch.save archive, which contains one tensor; this must match
 * .metadata.  Nearly always its elements are plain bytes of the .distcp file; then only their offset
 * is kept.  A compressed or strided tensor keeps a source instead. */
#include "items.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/source/want.h>

/* A torch.save archive of one tensor is at most this much longer than its data (records aligned to
 * 4096 bytes).  Limits the archive's size if only its compressed length is recorded. */
#define OVERHEAD_MAX (1u << 20)
/* Up to this size an item is fetched as a whole from a slow server: its directory, pickle and data would each take a
 * separate request. */
#define WHOLE_BYTES (256u << 10)

_Static_assert(ZF_DT_COUNT <= 64, "a record has 6 bits for a dtype");

struct dcp_items {
    struct dcp_record *record; /* [n] by the item's number */
    uint64_t n;
    struct zf_limits lim;
};

uint16_t dcp_shape_print(uint32_t ndim, const uint64_t *size)
{
    /* The key is the same in every process, because models are kept on disk. */
    static const struct zf_hash_key key = {{0x73686170652d6f66u, 0x2d6463702d697465u}};
    uint64_t h = zf_hash_of(&key, ndim, size, ndim * sizeof *size);

    return (uint16_t)(h ^ h >> 32);
}

void dcp_look_fini(struct dcp_look *look)
{
    zf_torch_free(look->torch);
    zf_source_unref(&look->body);
    look->torch = NULL;
}

struct zf_source *dcp_body(struct zf_source *file, struct dcp_item item, uint64_t max_bytes,
                           const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(source) struct zf_source *packed = NULL;
    char name[40];
    uint64_t size;

    if (item.wrap == ZF_DCP_OTHER) {
        return zf_null(zf_fail(err, ZF_E_UNSUPPORTED, item.off,
                               "the item was transformed by an extension other than zstd"));
    }
    snprintf(name, sizeof name, "item@%" PRIu64, item.off);
    packed = zf_window_new(file, item.off, item.len, name, err);
    if (!packed || item.wrap == ZF_DCP_PLAIN)
        return zf_give(packed);
    /* One pass finds the length; the bytes are then read through a cache of blocks. */
    return zf_zstd_size(packed, max_bytes, lim, &size, err) ? zf_zstd_new(packed, size, lim, err)
                                                            : NULL;
}

bool dcp_look_init(struct dcp_look *look, struct zf_source *file, struct dcp_item item,
                   uint64_t max_bytes, const struct zf_limits *lim, struct zf_err *err)
{
    *look = (struct dcp_look){.body = dcp_body(file, item, max_bytes, lim, err)};
    if (!look->body)
        return false;
    if (!zf_torch_sniff(look->body)) {
        /* If the first byte cannot be read, that is an error, not another format. */
        uint8_t first;

        if (look->body->size && !zf_source_pread(look->body, &first, 1, 0, err)) {
            dcp_look_fini(look);
            return false;
        }
        if (!zf_torch_sniff(look->body))
            return true;
    }
    look->torch = zf_torch_open(look->body, lim, err);
    if (!look->torch) {
        dcp_look_fini(look);
        return false;
    }
    return true;
}

/* The tensors among the parts of a value: a copy of the first, and their number. */
struct items_only {
    struct zf_torch *torch;
    struct zf_torch_tensor first;
    uint64_t n;
    bool deep; /* a part has parts itself, or is a plain number */
};

static bool items_keep_sizes(struct zf_torch *t, const uint64_t **sizes, uint32_t n,
                             struct zf_err *err)
{
    *sizes = zf_arena_copy(zf_torch_arena(t), *sizes, n, sizeof **sizes, err);
    return *sizes != NULL;
}

static bool items_count_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct items_only *only = ctx;

    if (!part->tensor) {
        only->deep = only->deep || zf_pv_is_number(part->value) ||
                     zf_torch_kind(only->torch, part->value) != ZF_TORCH_NOT;
        return true;
    }
    if (only->n++)
        return true;
    only->first = *part->tensor;
    return items_keep_sizes(only->torch, &only->first.shape, only->first.ndim, err) &&
           items_keep_sizes(only->torch, &only->first.stride, only->first.ndim, err);
}

bool dcp_look_tensor(struct dcp_look *look, struct zf_torch_tensor *out, struct zf_err *err)
{
    const struct zf_pv *v = zf_torch_root(look->torch);
    struct items_only only = {.torch = look->torch};

    if (zf_torch_kind(look->torch, v) != ZF_TORCH_PARTS)
        return zf_torch_tensor(look->torch, v, out, err);
    if (!zf_torch_parts(look->torch, v, items_count_part, &only, err))
        return false;
    if (only.n != 1 || only.deep) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "holds a tensor that consists of several tensors, but by .metadata it is a plain one");
    }
    *out = only.first;
    return true;
}

bool dcp_from(const struct zf_torch_tensor *t, struct zf_from *out, struct zf_err *err)
{
    if (!t->storage->src) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "holds a tensor without data (on the meta device)");
    }
    *out = (struct zf_from){
        .src = t->storage->src,
        .off = t->off_elems * zf_dtype_info(t->dtype)->bytes, /* inside it: zf_torch_tensor */
        .stride = t->contiguous ? NULL : t->stride,
    };
    return true;
}

/* Checks that the tensor matches the metadata. */
static bool items_check(const struct zf_torch_tensor *t, const struct dcp_record *r,
                        const struct zf_item *item, struct zf_err *err)
{
    const struct zf_dtype_info *want = zf_dtype_info((enum zf_dtype)r->dtype),
                               *got = zf_dtype_info(t->dtype);
    uint64_t bytes;

    if (t->dtype != (enum zf_dtype)r->dtype) {
        return zf_fail(err, ZF_E_FORMAT, item->rec_off, "the item holds %s, but .metadata says %s",
                       got->torch, want->torch);
    }
    if (!zf_dtype_size(t->dtype, t->ndim, t->shape, &bytes) || bytes != item->len) {
        return zf_fail(err, ZF_E_FORMAT, item->rec_off,
                       "the item holds %" PRIu64 " bytes of data, but .metadata says %" PRIu64,
                       bytes, item->len);
    }
    if (dcp_shape_print(t->ndim, t->shape) != r->shape) {
        return zf_fail(
            err, ZF_E_FORMAT, item->rec_off,
            "the shape of the item's tensor differs from that of its chunk in .metadata");
    }
    return true;
}

/* Opens the item: a tensor of any kind, *t, or, if look->torch is NULL, the plain bytes of the expected one. */
static bool items_open(struct dcp_look *look, struct zf_source *file, const struct dcp_record *r,
                       const struct zf_item *item, const struct zf_limits *lim,
                       struct zf_torch_tensor *t, struct zf_err *err)
{
    const struct dcp_item range = {
        .off = item->rec_off, .len = r->len, .wrap = (enum dcp_wrap)r->wrap};
    uint8_t head[4] = {0};

    if (range.len <= WHOLE_BYTES)
        zf_source_want(file, range.off, range.len, ZF_PREFETCH_NOW);
    /* Tensors are smaller than 2^63. */
    if (!dcp_look_init(look, file, range, item->len + OVERHEAD_MAX, lim, err))
        return false;
    if (look->torch)
        return dcp_look_tensor(look, t, err);
    /* If the bytes are not a torch.save file, they are the tensor itself, provided that their number is right. */
    size_t n = look->body->size < sizeof head ? (size_t)look->body->size : sizeof head;
    return look->body->size == item->len ||
           (zf_source_pread(look->body, head, n, 0, err) &&
            zf_fail(err, ZF_E_FORMAT, item->rec_off,
                    "unsupported item encoding %02x %02x %02x %02x, expected a torch.save file",
                    head[0], head[1], head[2], head[3]));
}

bool dcp_item_refuted(const struct zf_err *err)
{
    return err->code == ZF_E_FORMAT || err->code == ZF_E_UNKNOWN;
}

bool dcp_item_agrees(struct zf_source *file, const struct dcp_record *r, const struct zf_item *item,
                     const struct zf_limits *lim, bool *sound, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;

    *sound = items_open(&look, file, r, item, lim, &t, err);
    return *sound && (!look.torch || items_check(&t, r, item, err));
}

/* Refers to plain bytes of the file if possible, so that reads need no other source: data that the
 * item's archive and its windows leave unchanged is at some offset of the file itself. */
static bool items_at(struct zf_source *file, struct zf_source *src, uint64_t off, uint64_t len,
                     struct zf_item_at *out, struct zf_err *err)
{
    uint64_t at = off, file_at = 0;

    if (zf_source_origin(src, &at) == zf_source_origin(file, &file_at) && at >= file_at &&
        zf_within(at - file_at, len, file->size)) {
        out->off = at - file_at;
        return true;
    }
    out->src = zf_window_new(src, off, len, NULL, err);
    return out->src != NULL;
}

static bool items_locate(void *ctx, struct zf_source *file, const struct zf_item *item,
                         struct zf_item_at *out, struct zf_err *err)
{
    const struct dcp_items *it = ctx;
    const struct dcp_record *r = &it->record[item->number];
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;
    struct zf_from from;

    *out = (struct zf_item_at){0};
    if (!items_open(&look, file, r, item, &it->lim, &t, err))
        return false;
    if (!look.torch) {
        out->off = item->rec_off;
        out->src = r->wrap == ZF_DCP_PLAIN ? NULL : zf_source_ref(look.body);
        return true;
    }
    if (!items_check(&t, r, item, err) || !dcp_from(&t, &from, err))
        return false;
    if (from.stride) {
        out->src = zf_strided_new((struct zf_type){t.dtype, t.ndim, t.shape}, from, err);
        return out->src != NULL;
    }
    return items_at(file, from.src, from.off, item->len, out, err);
}

static void items_free(void *ctx)
{
    struct dcp_items *it = ctx;

    free(it->record);
    free(it);
}

static bool items_recipe(void *ctx, struct zf_recipe *out)
{
    const struct dcp_items *it = ctx;

    out->kind = &dcp_items_kind;
    out->n[0] = it->n;
    zf_out_add(&out->bytes, it->record, (size_t)it->n * sizeof *it->record);
    return true;
}

struct zf_source *dcp_items_new(struct zf_source *file, struct dcp_record *records, uint64_t n,
                                const struct zf_limits *lim, struct zf_err *err)
{
    struct dcp_items *it = malloc(sizeof *it);
    struct zf_source *src;

    if (!it) {
        free(records);
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the items of a file");
        return NULL;
    }
    *it = (struct dcp_items){.record = records, .n = n, .lim = *lim};
    src = zf_items_new(file, items_locate, it, items_free, err);
    if (!src) {
        items_free(it);
        return NULL;
    }
    zf_items_recipe(src, items_recipe);
    return src;
}

static struct zf_source *items_make(struct zf_remake *r, struct zf_err *err)
{
    const uint64_t n = r->n[0];
    const void *p = r->parent && n <= zf_bytes_left(&r->bytes) / sizeof(struct dcp_record)
                        ? zf_bytes_take(&r->bytes, n * sizeof(struct dcp_record))
                        : NULL;
    struct dcp_record *records = p ? malloc((size_t)(n + 1) * sizeof *records) : NULL;

    if (!records) {
        return zf_null(
            zf_fail(err, p ? ZF_E_NOMEM : ZF_E_FORMAT, ZF_OFF_NONE, "items without records"));
    }
    memcpy(records, p, (size_t)n * sizeof *records);
    for (uint64_t i = 0; i < n; i++)
        records[i].dtype = records[i].dtype < ZF_DT_COUNT ? records[i].dtype : 0;
    struct zf_source *src = dcp_items_new(r->parent, records, n, r->lim, err);
    if (src && !zf_items_remake(src, n, r, err))
        zf_source_unref(&src);
    return src;
}

const struct zf_source_kind dcp_items_kind = {.name = "dcp items", .make = items_make};
