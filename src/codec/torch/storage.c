/* SPDX-License-Identifier: Apache-2.0 */
/* Storages, which persistent ids refer to.  Source: torch/serialization.py persistent_id (1.13
 * … 2.13). */
#include <string.h>

#include <zf/base/num.h>
#include <zf/source/want.h>

#include "file.h"

const char *torch_text(const struct zf_pv *v)
{
    bool text = zf_pv_kind(v) == ZF_PV_STR || zf_pv_kind(v) == ZF_PV_BYTES;
    uint64_t n;
    const char *p = text ? zf_pv_text(v, &n) : NULL;

    return p && strlen(p) == n ? p : NULL;
}

/* Reads the dtype from the storage class (torch.FloatStorage …); only its name counts, as in torch. */
static bool storage_load_class(struct zf_torch *t, const struct zf_pv *v, struct torch_pid *out,
                               struct zf_err *err)
{
    const char *name = zf_pv_name(v);

    if (strcmp(name, "UntypedStorage") == 0 || strcmp(name, "_UntypedStorage") == 0) {
        out->untyped = true;
        out->dtype = ZF_DT_U8;
        return true;
    }
    return zf_dtype_by_storage(name, strlen(name), &out->dtype) ||
           torch_bad(t, err, ZF_E_UNSUPPORTED,
                     "storage \"%.80s\" is of the unknown class \"%.80s\"", out->key, name);
}

/* Reads the view (key, offset, size) of an old stream's persistent id, in elements. */
static bool storage_load_view(struct zf_torch *t, const struct zf_pv *v, struct torch_pid *out,
                              struct zf_err *err)
{
    if (zf_pv_kind(v) == ZF_PV_NONE)
        return true;
    if (zf_pv_len(v) != 3 || !zf_pv_u64(zf_pv_item(v, 1), &out->first) ||
        !zf_pv_u64(zf_pv_item(v, 2), &out->numel) ||
        !zf_within(out->first, out->numel, out->total)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" has a view that is not inside its %llu elements",
                         out->key, (unsigned long long)out->total);
    }
    return true;
}

bool torch_pid_load(struct zf_torch *t, const struct zf_pv *v, struct torch_pid *out,
                    struct zf_err *err)
{
    const struct zf_pv *id = zf_pv_kind(v) == ZF_PV_PERSID ? zf_pv_persid(v) : NULL;
    const char *tag = torch_text(zf_pv_item(id, 0)), *where = torch_text(zf_pv_item(id, 3));

    *out = (struct torch_pid){.key = torch_text(zf_pv_item(id, 2))};
    if (!tag || strcmp(tag, "storage") != 0 || !out->key || zf_pv_len(id) < 5 ||
        !zf_pv_u64(zf_pv_item(id, 4), &out->total)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "a tensor without a storage: its persistent id is not "
                         "('storage', class, key, location, elements)");
    }
    out->numel = out->total;
    out->meta = where && strcmp(where, "meta") == 0;
    return storage_load_class(t, zf_pv_item(id, 1), out, err) &&
           storage_load_view(t, zf_pv_item(id, 5), out, err);
}

/* Checks that all persistent ids agree about a record.  Only an empty one may have several types:
 * torch refuses to save the same bytes under two. */
static bool storage_check_same(struct zf_torch *t, const struct torch_met *met,
                               const struct torch_pid *pid, uint64_t bytes, struct zf_err *err)
{
    if (!met->met || (met->bytes == 0 && bytes == 0) ||
        (met->dtype == pid->dtype && met->untyped == pid->untyped && met->bytes == bytes))
        return true;
    return torch_bad(
        t, err, ZF_E_FORMAT, "storage \"%.80s\" is both %llu bytes of %s and %llu bytes of %s",
        pid->key, (unsigned long long)met->bytes, zf_dtype_info((enum zf_dtype)met->dtype)->torch,
        (unsigned long long)bytes, zf_dtype_info(pid->dtype)->torch);
}

static struct torch_store *storage_new_store(struct zf_torch *t, struct zf_err *err)
{
    struct torch_store *s = t->spare_stores;

    if (s) {
        t->spare_stores = s->next_spare;
        return s;
    }
    s = zf_arena_get(t->arena, 1, sizeof *s, err);
    if (s) {
        s->next = t->stores;
        t->stores = s;
    }
    return s;
}

/* The key, valid as long as t; the one in pid may be in the scratch of an unfolded value. */
static const char *storage_key(struct zf_torch *t, const struct torch_pid *pid, uint64_t record,
                               struct zf_err *err)
{
    if (!t->zip)
        return pid->key;
    if (pid->meta)
        return zf_arena_str(t->arena, pid->key, strlen(pid->key), err);
    const char *name = zf_zip_member(t->zip, record).name;

    return name + strlen(name) - strlen(pid->key);
}

/* Checks at a record's first use that it has the bytes that the persistent id says. */
static bool storage_check_length(struct zf_torch *t, const struct torch_pid *pid, uint64_t bytes,
                                 uint64_t have, struct zf_err *err)
{
    /* torch writes all bytes of the storage, but rounds the number of elements down: less than one
     * element may be left over. */
    return (have >= bytes && have - bytes < zf_dtype_info(pid->dtype)->bytes) ||
           torch_bad(t, err, ZF_E_FORMAT,
                     "storage \"%.80s\" should have %llu bytes (%llu elements of %s), but "
                     "its record has %llu",
                     pid->key, (unsigned long long)bytes, (unsigned long long)pid->total,
                     zf_dtype_info(pid->dtype)->torch, (unsigned long long)have);
}

struct torch_store *torch_store_get(struct zf_torch *t, const struct torch_pid *pid,
                                    struct zf_err *err)
{
    uint64_t bytes, record = ZF_TORCH_NO_RECORD, have = 0;

    if (!zf_mul(pid->total, zf_dtype_info(pid->dtype)->bytes, &bytes) || bytes > INT64_MAX) {
        return zf_null(torch_bad(t, err, ZF_E_FORMAT,
                                 "storage \"%.80s\" has %llu elements, too many", pid->key,
                                 (unsigned long long)pid->total));
    }
    if (!pid->meta && (!t->ops->find(t, pid->key, &record, &have, err) ||
                       !storage_check_same(t, &t->met[record], pid, bytes, err) ||
                       (!t->met[record].met && !storage_check_length(t, pid, bytes, have, err))))
        return NULL;
    if (!pid->meta && t->met[record].store)
        return t->met[record].store;
    const char *key = storage_key(t, pid, record, err);
    struct torch_store *s = key ? storage_new_store(t, err) : NULL;

    if (!s)
        return NULL;
    s->plain = (struct zf_torch_storage){
        .key = key, .dtype = pid->dtype, .bytes = bytes, .record = record};
    s->untyped = pid->untyped;
    s->meta = pid->meta;
    if (!pid->meta)
        t->met[record] = (struct torch_met){s, bytes, (uint8_t)pid->dtype, pid->untyped, true};
    return s;
}

/* Returns a source (a reference) of the bytes, swapped, then with flipped signs. */
static struct zf_source *storage_dress(struct zf_source *raw, enum zf_dtype dtype, uint32_t swap,
                                       uint32_t flips, struct zf_err *err)
{
    zf_auto(source) struct zf_source *s = swap ? zf_swap_new(raw, swap, err) : zf_source_ref(raw);

    if (!s)
        return NULL;
    return flips ? torch_flip_new(s, dtype, flips, err) : zf_source_ref(s);
}

/* At most this many storages are read ahead. */
#define STORAGE_NUMBERS 16u

/* The next storage of at most TORCH_NUMBER bytes from record *i on; NULL = none. */
static struct zf_source *storage_next_number(struct zf_torch *t, uint64_t *i)
{
    struct zf_err ignored;

    for (; t->zip && *i < t->n_records; (*i)++) {
        const uint64_t bytes = zf_zip_member(t->zip, *i).size;
        struct zf_source *src = bytes > 0 && bytes <= TORCH_NUMBER && t->ops->is_storage(t, *i)
                                    ? zf_zip_source(t->zip, *i, &ignored)
                                    : NULL;

        if (src)
            return src;
    }
    return NULL;
}

void zf_torch_read_ahead(struct zf_torch *t)
{
    struct zf_source *src[STORAGE_NUMBERS];
    uint64_t i = 0, n = 0, record[STORAGE_NUMBERS];
    struct zf_err ignored;

    for (; n < STORAGE_NUMBERS && (src[n] = storage_next_number(t, &i)); n++) {
        record[n] = i++;
        if (zf_source_is_far(
                t->src)) /* requests them all at once, instead of one after the other */
            zf_source_want(src[n], 0, src[n]->size, ZF_PREFETCH_ALL);
    }
    t->number = n ? calloc(n, sizeof *t->number) : NULL;
    for (i = 0; i < n; i++) {
        if (t->number) {
            struct torch_number *k = &t->number[t->n_numbers];

            *k = (struct torch_number){.record = record[i], .bytes = src[i]->size};
            t->n_numbers += zf_source_pread(src[i], k->byte, (size_t)k->bytes, 0, &ignored);
        }
        zf_source_unref(&src[i]);
    }
}

static const uint8_t *storage_known(const struct zf_torch *t, const struct torch_store *s)
{
    for (uint64_t i = 0; i < t->n_numbers; i++)
        if (t->number[i].record == s->plain.record && t->number[i].bytes >= s->plain.bytes)
            return t->number[i].byte;
    return NULL;
}

/* Returns the storage unchanged, as it is in the file. */
static const struct zf_torch_storage *storage_plain(struct zf_torch *t, struct torch_store *s,
                                                    struct zf_err *err)
{
    struct zf_torch_storage *p = &s->plain;

    if (s->meta || p->src)
        return p;
    uint64_t at = 0;

    p->src = t->ops->open(t, s->plain.record, p->bytes, err);
    if (!p->src)
        return NULL;
    p->known = storage_known(t, s);
    p->again =
        zf_window_of(p->src, &at) != p->src; /* a window is cheap to open again; others are not */
    return p;
}

const struct zf_torch_storage *torch_store_as(struct zf_torch *t, struct torch_store *s,
                                              enum zf_dtype dtype, uint32_t flips,
                                              struct zf_err *err)
{
    const struct zf_dtype_info *info = zf_dtype_info(dtype);
    uint32_t width = info->kind == 'c' ? info->bytes / 2 : info->bytes;
    uint32_t swap = t->big && width > 1 && s->plain.bytes ? width : 0;
    struct torch_variant *v = s->variants;

    if (s->meta || (!swap && !flips))
        return storage_plain(t, s, err);
    while (v && (v->swap != swap || v->flips != flips || (flips && v->pub.dtype != dtype)))
        v = v->next;
    if (v)
        return &v->pub;
    zf_auto(source) struct zf_source *raw = t->ops->open(t, s->plain.record, s->plain.bytes, err);
    v = raw ? zf_arena_get(t->arena, 1, sizeof *v, err) : NULL;
    if (!v || !(v->pub.src = storage_dress(raw, dtype, swap, flips, err)))
        return NULL;
    v->pub.key = s->plain.key;
    v->pub.dtype = flips ? dtype : s->plain.dtype;
    v->pub.bytes = s->plain.bytes;
    v->pub.record = s->plain.record;
    v->swap = swap;
    v->flips = flips;
    v->next = s->variants;
    s->variants = v;
    return &v->pub;
}

static void storage_spare_dims(struct zf_torch *t, uint32_t n, const uint64_t *dims)
{
    uint64_t *p = (uint64_t *)(uintptr_t)dims;

    if (n > 0 && n <= TORCH_SPARE_DIMS) {
        memcpy(p, &t->spare_dims[n], sizeof t->spare_dims[n]);
        t->spare_dims[n] = p;
    }
}

uint64_t *torch_dims_new(struct zf_torch *t, uint64_t n, struct zf_err *err)
{
    uint64_t *p = n > 0 && n <= TORCH_SPARE_DIMS ? t->spare_dims[n] : NULL;

    if (p) {
        memcpy(&t->spare_dims[n], p, sizeof t->spare_dims[n]);
        return p;
    }
    return zf_arena_get(t->arena, n, sizeof *p, err);
}

void zf_torch_release(struct zf_torch *t, const struct zf_torch_tensor *x)
{
    struct torch_store *s = x->storage->again && x->storage->record < t->n_records
                                ? t->met[x->storage->record].store
                                : NULL;

    if (x->lent) {
        storage_spare_dims(t, x->ndim, x->shape);
        storage_spare_dims(t, x->ndim, x->stride);
    }
    if (s && &s->plain == x->storage && !s->variants) {
        zf_source_unref(&s->plain.src);
        t->met[s->plain.record].store = NULL;
        s->next_spare = t->spare_stores;
        t->spare_stores = s;
    }
}

const struct zf_torch_storage *torch_store_own(struct zf_torch *t, enum zf_dtype dtype,
                                               struct zf_source *src, struct zf_err *err)
{
    zf_auto(source) struct zf_source *mine = src;
    struct torch_store *s = storage_new_store(t, err);

    if (!s)
        return NULL;
    s->plain = (struct zf_torch_storage){.key = "",
                                         .dtype = dtype,
                                         .bytes = src->size,
                                         .src = zf_give(mine),
                                         .record = ZF_TORCH_NO_RECORD};
    return &s->plain;
}

void zf_torch_storages(const struct zf_torch *t, uint64_t *n_out, uint64_t *unread_out)
{
    *n_out = *unread_out = 0;
    for (uint64_t i = 0; i < t->n_records; i++) {
        bool is = t->ops->is_storage(t, i);

        *n_out += is;
        *unread_out += is && !t->met[i].met;
    }
}

void torch_store_free(struct zf_torch *t)
{
    for (struct torch_store *s = t->stores; s; s = s->next) {
        for (struct torch_variant *v = s->variants; v; v = v->next)
            zf_source_unref(&v->pub.src);
        zf_source_unref(&s->plain.src);
    }
    t->stores = NULL;
}
