/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles that follow each other in a file, with storages behind them: what the legacy stream and
 * the tar have in common. */
#include "torch_file.h"

#include <string.h>

#include <zf/base/num.h>

const struct zf_pv *zf_torch_stream_load(struct zf_torch *t, uint64_t *off, uint64_t guess,
                                         struct zf_err *err)
{
    uint64_t left = t->src->size - *off;
    uint64_t most = left < t->lim.pickle_bytes ? left : t->lim.pickle_bytes;

    /* Nothing says how long a pickle is, so a larger piece is tried until one is enough. */
    for (uint64_t n = guess;; n *= 8) {
        n = n < most ? n : most;
        zf_auto(mem) uint8_t *p = malloc(n ? n : 1);

        if (!p) {
            (void)zf_fail_sys(err, "allocate memory");
            return NULL;
        }
        if (!zf_source_pread(t->src, p, n, *off, err)) {
            return NULL;
        }
        struct zf_bytes in = zf_bytes_of(p, n);

        in.base = *off;
        const struct zf_pv *v = zf_pickle_load(&in, t->arena, &t->lim, err);

        if (v) {
            *off += in.at;
            return v;
        }
        if (n == most || err->code != ZF_E_FORMAT) {
            (void)zf_err_in(err, "%s", t->src->name);
            return NULL;
        }
    }
}

/* Which values the walk has seen: an open-addressing table of pointers. */
struct seen {
    const struct zf_pv **slot;
    uint64_t cap, n;
};

static uint64_t slot_of(const struct seen *s, const struct zf_pv *v)
{
    uint64_t i = ((uint64_t)(uintptr_t)v >> 3) * 0x9e3779b97f4a7c15u >> 16;

    while (s->slot[i & (s->cap - 1)] && s->slot[i & (s->cap - 1)] != v) {
        i++;
    }
    return i & (s->cap - 1);
}

/* Adds v; *fresh_out: was it new? */
static bool seen_add(struct seen *s, const struct zf_pv *v, bool *fresh_out, struct zf_err *err)
{
    if (s->n * 2 >= s->cap) {
        struct seen bigger = {.cap = s->cap ? s->cap * 2 : 1024, .n = s->n};

        bigger.slot = calloc(bigger.cap, sizeof(struct zf_pv *));
        if (!bigger.slot) {
            return zf_fail_sys(err, "allocate memory");
        }
        for (uint64_t i = 0; i < s->cap; i++) {
            if (s->slot[i]) {
                bigger.slot[slot_of(&bigger, s->slot[i])] = s->slot[i];
            }
        }
        free(s->slot);
        *s = bigger;
    }
    uint64_t at = slot_of(s, v);

    *fresh_out = s->slot[at] == NULL;
    s->n += *fresh_out;
    s->slot[at] = v;
    return true;
}

struct todo {
    const struct zf_pv **v;
    uint64_t n, cap;
};

static bool push(struct todo *q, const struct zf_pv *v, struct zf_err *err)
{
    if (!v) {
        return true;
    }
    if (q->n == q->cap) {
        uint64_t cap = q->cap ? q->cap * 2 : 256;
        const struct zf_pv **p = realloc(q->v, cap * sizeof(struct zf_pv *));

        if (!p) {
            return zf_fail_sys(err, "allocate memory");
        }
        q->v = p;
        q->cap = cap;
    }
    q->v[q->n++] = v;
    return true;
}

/* Last first, so that the stack gives them back in order. */
static bool push_children(struct todo *q, const struct zf_pv *v, struct zf_err *err)
{
    bool ok = push(q, zf_pv_state(v), err);

    for (uint64_t i = zf_pv_len(v); ok && i-- > 0;) {
        ok = push(q, zf_pv_item(v, i), err) && push(q, zf_pv_val(v, i), err) &&
             push(q, zf_pv_key(v, i), err);
    }
    return ok && push(q, zf_pv_args(v), err) && push(q, zf_pv_callee(v), err);
}

static void zf_auto_walk(struct todo *q)
{
    free(q->v);
}

static void zf_auto_seen(struct seen *s)
{
    free(s->slot);
}

bool zf_torch_stream_walk(struct zf_torch *t, const struct zf_pv *v,
                          bool (*fn)(struct zf_torch *t, const struct zf_pv *pid,
                                     struct zf_err *err),
                          struct zf_err *err)
{
    zf_auto(walk) struct todo q = {.v = NULL};
    zf_auto(seen) struct seen seen = {.slot = NULL};

    if (!push(&q, v, err)) {
        return false;
    }
    while (q.n) {
        bool fresh = false;

        v = q.v[--q.n];
        if (zf_pv_kind(v) == ZF_PV_PERSID) {
            if (!fn(t, v, err)) {
                return false;
            }
            continue;
        }
        if (zf_pv_len(v) == 0 && zf_pv_kind(v) != ZF_PV_CALL) {
            continue;
        }
        if (!seen_add(&seen, v, &fresh, err) || (fresh && !push_children(&q, v, err))) {
            return false;
        }
    }
    return true;
}

static int cmp_record(const void *a, const void *b)
{
    const struct zf_torch_record *x = a, *y = b;

    return strcmp(x->key, y->key);
}

bool zf_torch_record_sort(struct zf_torch *t, struct zf_err *err)
{
    free(t->by_record);
    t->by_record = calloc(t->n_records ? (size_t)t->n_records : 1, sizeof *t->by_record);
    if (!t->by_record) {
        return zf_fail_sys(err, "allocate memory");
    }
    if (t->n_records) {
        qsort(t->record, t->n_records, sizeof *t->record, cmp_record);
    }
    for (uint64_t i = 1; i < t->n_records; i++) {
        if (cmp_record(&t->record[i - 1], &t->record[i]) == 0) {
            return zf_torch_bad(t, err, ZF_E_FORMAT, "storage \"%.80s\" is listed twice",
                                t->record[i].key);
        }
    }
    return true;
}

struct zf_torch_record *zf_torch_record_get(struct zf_torch *t, const char *key)
{
    const struct zf_torch_record want = {.key = key};

    return t->n_records ? bsearch(&want, t->record, t->n_records, sizeof want, cmp_record) : NULL;
}

bool zf_torch_record_find(struct zf_torch *t, const char *key, uint64_t *record_out,
                          uint64_t *bytes_out, struct zf_err *err)
{
    const struct zf_torch_record *r = zf_torch_record_get(t, key);

    if (!r) {
        return zf_torch_bad(t, err, ZF_E_FORMAT,
                            "storage \"%.80s\" is missing: the file does not list it", key);
    }
    *record_out = (uint64_t)(r - t->record);
    *bytes_out = r->bytes;
    return true;
}

struct zf_source *zf_torch_record_open(struct zf_torch *t, uint64_t record, uint64_t bytes,
                                       struct zf_err *err)
{
    return zf_window_new(t->src, t->record[record].off, bytes, t->record[record].key, err);
}
