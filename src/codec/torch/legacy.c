/* SPDX-License-Identifier: Apache-2.0 */
/* torch.save before 1.6: five pickles (magic, protocol, host, the object, storage keys), then each
 * storage after its element count.  Source: torch/serialization.py _legacy_save, _legacy_load. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#include "file.h"

#define PROTOCOL 1001
#define SMALL_PICKLE 512u
#define OBJECT_PICKLE (256u << 10)

static int legacy_cmp_record(const void *a, const void *b)
{
    const struct torch_record *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* Reads the little-endian number at *off and moves *off past it. */
static bool legacy_load_u64(struct zf_torch *t, uint64_t *off, uint64_t *out, struct zf_err *err)
{
    uint8_t raw[8];

    if (!zf_source_pread(t->src, raw, sizeof raw, *off, err))
        return false;
    struct zf_bytes b = zf_bytes_of(raw, sizeof raw);

    *out = zf_bytes_le64(&b);
    *off += sizeof raw;
    return true;
}

static bool legacy_sort(struct zf_torch *t, struct zf_err *err)
{
    free(t->met);
    t->met = calloc(t->n_records ? (size_t)t->n_records : 1, sizeof *t->met);
    if (!t->met)
        return zf_fail_sys(err, "allocate memory");
    if (t->n_records)
        qsort(t->record, t->n_records, sizeof *t->record, legacy_cmp_record);
    for (uint64_t i = 1; i < t->n_records; i++) {
        if (legacy_cmp_record(&t->record[i - 1], &t->record[i]) == 0) {
            return torch_bad(t, err, ZF_E_FORMAT, "storage \"%.80s\" is listed twice",
                             t->record[i].key);
        }
    }
    return true;
}

static struct torch_record *legacy_record(struct zf_torch *t, const char *key)
{
    const struct torch_record want = {.key = key};

    return t->n_records ? bsearch(&want, t->record, t->n_records, sizeof want, legacy_cmp_record)
                        : NULL;
}

static bool legacy_is_storage(const struct zf_torch *t, uint64_t record)
{
    return t->record[record].bytes > 0;
}

static bool legacy_find(struct zf_torch *t, const char *key, uint64_t *record_out,
                        uint64_t *bytes_out, struct zf_err *err)
{
    const struct torch_record *r = legacy_record(t, key);

    if (!r) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" is missing: the file does not list it", key);
    }
    *record_out = (uint64_t)(r - t->record);
    *bytes_out = r->bytes;
    return true;
}

static struct zf_source *legacy_open_record(struct zf_torch *t, uint64_t record, uint64_t bytes,
                                            struct zf_err *err)
{
    return zf_window_new(t->src, t->record[record].off, bytes, t->record[record].key, err);
}

static bool legacy_load_head(struct zf_torch *t, uint64_t *off, struct zf_err *err)
{
    static const uint8_t magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    const struct zf_pv *v = torch_stream_load(t, off, SMALL_PICKLE, err);
    uint64_t n = 0;
    int64_t protocol;

    if (!v)
        return false;
    const char *p = zf_pv_kind(v) == ZF_PV_BIGINT ? zf_pv_text(v, &n) : NULL;

    if (n != sizeof magic || memcmp(p, magic, n) != 0) {
        return torch_bad(t, err, ZF_E_UNKNOWN,
                         "a pickle, but not written by torch.save: it lacks torch's magic number");
    }
    v = torch_stream_load(t, off, SMALL_PICKLE, err);
    if (!v)
        return false;
    if (!zf_pv_int(v, &protocol) || protocol != PROTOCOL) {
        return torch_bad(t, err, ZF_E_UNSUPPORTED,
                         "the file does not have torch's protocol number %d", PROTOCOL);
    }
    return torch_stream_load(t, off, SMALL_PICKLE, err) !=
           NULL; /* the host's byte order; storages are little-endian in any case */
}

static bool legacy_load_keys(struct zf_torch *t, uint64_t *off, struct zf_err *err)
{
    const struct zf_pv *keys = torch_stream_load(t, off, OBJECT_PICKLE, err);

    if (!keys)
        return false;
    if (zf_pv_kind(keys) != ZF_PV_LIST)
        return torch_bad(t, err, ZF_E_FORMAT, "the list of storage keys is not a list");
    t->n_records = zf_pv_len(keys);
    t->record = zf_arena_get(t->arena, t->n_records, sizeof *t->record, err);
    if (!t->record)
        return false;
    for (uint64_t i = 0; i < t->n_records; i++) {
        uint64_t n = 0;

        t->record[i] =
            (struct torch_record){.key = zf_pv_text(zf_pv_item(keys, i), &n), .order = i};
        if (!t->record[i].key || strlen(t->record[i].key) != n) {
            return torch_bad(t, err, ZF_E_FORMAT, "storage key %llu is not text",
                             (unsigned long long)i);
        }
    }
    return legacy_sort(t, err);
}

/* Sets the element size of each storage from the first persistent id that names it, as torch does:
 * nothing else in the file says it. */
static bool legacy_learn_widths(struct zf_torch *t, const struct zf_pv *pids, struct zf_err *err)
{
    for (const struct zf_pv *v = pids; v; v = zf_pv_persid_next(v)) {
        const char *tag = torch_text(zf_pv_item(zf_pv_persid(v), 0));
        struct torch_pid pid;

        if (tag && strcmp(tag, "module") == 0) /* a class with its source code */
            continue;
        if (!torch_pid_load(t, v, &pid, err))
            return false;
        struct torch_record *r = pid.meta ? NULL : legacy_record(t, pid.key);

        if (r && r->es == 0)
            r->es = zf_dtype_info(pid.dtype)->bytes;
    }
    return true;
}

static bool legacy_place_storages(struct zf_torch *t, uint64_t off, struct zf_err *err)
{
    zf_auto(mem) struct torch_record **in_order = calloc(t->n_records + 1, sizeof *in_order);

    if (!in_order)
        return zf_fail_sys(err, "allocate memory");
    for (uint64_t i = 0; i < t->n_records; i++)
        in_order[t->record[i].order] = &t->record[i];
    for (uint64_t i = 0; i < t->n_records; i++) {
        struct torch_record *r = in_order[i];
        uint64_t n;

        if (r->es == 0) {
            return torch_bad(t, err, ZF_E_FORMAT,
                             "storage \"%.80s\" has no known class, because no value uses it",
                             r->key);
        }
        if (!zf_within(off, sizeof n, t->src->size)) {
            return torch_bad(t, err, ZF_E_FORMAT,
                             "the file ends at byte %llu, before storage \"%.80s\"",
                             (unsigned long long)t->src->size, r->key);
        }
        if (!legacy_load_u64(t, &off, &n, err))
            return false;
        r->off = off;
        if (!zf_mul(n, r->es, &r->bytes) || !zf_within(r->off, r->bytes, t->src->size)) {
            return torch_bad(t, err, ZF_E_FORMAT,
                             "storage \"%.80s\" at byte %llu should have %llu elements of %u "
                             "bytes, but the file ends at byte %llu",
                             r->key, (unsigned long long)r->off, (unsigned long long)n, r->es,
                             (unsigned long long)t->src->size);
        }
        off = r->off + r->bytes;
    }
    return true;
}

static const struct torch_container_ops legacy_ops = {
    .name = "legacy",
    .is_storage = legacy_is_storage,
    .find = legacy_find,
    .open = legacy_open_record,
};

bool torch_legacy_open(struct zf_torch *t, struct zf_err *err)
{
    uint64_t off = 0;

    t->ops = &legacy_ops;
    if (!legacy_load_head(t, &off, err))
        return false;
    t->root = torch_stream_load(t, &off, OBJECT_PICKLE, err);
    const struct zf_pv *pids = t->pids;

    return t->root && legacy_load_keys(t, &off, err) && legacy_learn_widths(t, pids, err) &&
           legacy_place_storages(t, off, err);
}
