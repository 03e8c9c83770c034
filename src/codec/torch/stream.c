/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles that follow each other in a file, with storages behind them: what the legacy stream and
 * the tar have in common. */
#include <string.h>

#include "file.h"

/* The slot for the arena of one more pickle; NULL: there are many, and they share one. */
static struct zf_arena **stream_place_of_arena(struct zf_torch *t)
{
    size_t i = 0;

    while (i < sizeof t->large / sizeof t->large[0] && t->large[i]) {
        i++;
    }
    return i < sizeof t->large / sizeof t->large[0] ? &t->large[i] : NULL;
}

const struct zf_pv *torch_stream_load(struct zf_torch *t, uint64_t *off, uint64_t guess,
                                      struct zf_err *err)
{
    uint64_t left = t->src->size - *off;
    uint64_t most = left < t->lim.pickle_bytes ? left : t->lim.pickle_bytes;
    uint64_t bound = t->src->size - t->src->stored > t->lim.meta_slack
                         ? t->src->stored + t->lim.meta_slack
                         : UINT64_MAX; /* of a file that is decompressed */

    most = most < bound ? most : bound;

    /* Nothing says how long a pickle is, so a larger piece is tried until one is enough. */
    for (uint64_t n = guess;; n *= 8) {
        n = n < most ? n : most;
        zf_auto(mem) uint8_t *p = malloc(n ? n : 1);

        if (!p) {
            (void)torch_no_room(t, n, err);
            return NULL;
        }
        if (!zf_source_pread(t->src, p, n, *off, err)) {
            return NULL;
        }
        struct zf_bytes in = zf_bytes_of(p, n);

        in.base = *off;
        zf_auto(arena) struct zf_arena *own = NULL;
        struct zf_arena **place = stream_place_of_arena(t);

        /* Everything that an attempt allocated is freed with it. */
        if (place && !(own = zf_arena_new(t->lim.pickle_memory, err))) {
            return NULL;
        }
        const struct zf_pv *v = zf_pickle_load_stored(&in, t->src->stored, own ? own : t->arena,
                                                      &t->lim, &t->pids, err);

        if (v) {
            *off += in.at;
            t->pickle_bytes = in.at > t->pickle_bytes ? in.at : t->pickle_bytes;
            if (own) {
                *place = zf_give(own);
            }
            return v;
        }
        if (n == most || !in.bad) {
            (void)zf_err_in(err, "%s", t->src->name);
            return NULL;
        }
    }
}

static int stream_cmp_record(const void *a, const void *b)
{
    const struct torch_record *x = a, *y = b;

    return strcmp(x->key, y->key);
}

bool torch_read_u64(struct zf_torch *t, uint64_t *off, uint64_t *out, struct zf_err *err)
{
    uint8_t raw[8];

    if (!zf_source_pread(t->src, raw, sizeof raw, *off, err)) {
        return false;
    }
    struct zf_bytes b = zf_bytes_of(raw, sizeof raw);

    *out = zf_bytes_le64(&b);
    *off += sizeof raw;
    return true;
}

bool torch_record_sort(struct zf_torch *t, struct zf_err *err)
{
    free(t->met);
    t->met = calloc(t->n_records ? (size_t)t->n_records : 1, sizeof *t->met);
    if (!t->met) {
        return zf_fail_sys(err, "allocate memory");
    }
    if (t->n_records) {
        qsort(t->record, t->n_records, sizeof *t->record, stream_cmp_record);
    }
    for (uint64_t i = 1; i < t->n_records; i++) {
        if (stream_cmp_record(&t->record[i - 1], &t->record[i]) == 0) {
            return torch_bad(t, err, ZF_E_FORMAT, "storage \"%.80s\" is listed twice",
                             t->record[i].key);
        }
    }
    return true;
}

struct torch_record *torch_record_get(struct zf_torch *t, const char *key)
{
    const struct torch_record want = {.key = key};

    return t->n_records ? bsearch(&want, t->record, t->n_records, sizeof want, stream_cmp_record)
                        : NULL;
}

bool torch_record_is_storage(const struct zf_torch *t, uint64_t record)
{
    return t->record[record].bytes > 0;
}

bool torch_record_find(struct zf_torch *t, const char *key, uint64_t *record_out,
                       uint64_t *bytes_out, struct zf_err *err)
{
    const struct torch_record *r = torch_record_get(t, key);

    if (!r) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" is missing: the file does not list it", key);
    }
    *record_out = (uint64_t)(r - t->record);
    *bytes_out = r->bytes;
    return true;
}

struct zf_source *torch_record_open(struct zf_torch *t, uint64_t record, uint64_t bytes,
                                    struct zf_err *err)
{
    return zf_window_new(t->src, t->record[record].off, bytes, t->record[record].key, err);
}
