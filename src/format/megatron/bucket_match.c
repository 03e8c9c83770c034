/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly every comparison of a walk fails at the first elements, and of those that go on most at the
 * last ones.  Both are kept, of pieces as of buffers, so that a walk reads each place once, however often
 * it looks at it. */
#include "bucket_match.h"

#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>

/* Elements that are kept of a place, and compared at once. */
#define MATCH_END ZF_VALUES_ENDS
/* Places of buffers that are kept: some 8 MiB. */
#define MATCH_KEPT 16384u

/* The masters behind a place of a bucket. */
struct match_place {
    UT_hash_handle hh;
    uint64_t n; /* elements, 0 = not read */
    uint8_t value[8 * MATCH_END];
};

struct match {
    const struct bucket_question *q;
    struct match_place *places;
};

static void zf_auto_match(struct match *m)
{
    zf_table_free(m->places);
}

/* How many elements from `at` on of the box's order lie side by side in the parameter; *out = where. */
static uint64_t match_run(const struct zf_type *t, const struct bucket_box *b, uint64_t at,
                          uint64_t *out)
{
    uint64_t run = 1, step = 1, first = 0, in = at;
    bool whole = true; /* in all dimensions inside this one */

    for (uint32_t d = t->ndim; d-- > 0;) {
        first += (b->start[d] + in % b->size[d]) * step;
        in /= b->size[d];
        run *= whole ? b->size[d] : 1;
        whole = whole && b->size[d] == t->shape[d];
        step *= t->shape[d];
    }
    *out = first;
    return run - at % run;
}

static uint64_t match_volume(const struct zf_type *t, const struct bucket_box *b)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->ndim; d++) {
        n *= b->size[d];
    }
    return n;
}

/* Reads elements [first, first + n) of a piece's weight, in the piece's order. */
static bool bucket_piece_read(const struct bucket_weight *weight, const struct bucket_piece *p,
                              uint64_t first, uint64_t n, void *buf, struct zf_err *err)
{
    const struct bucket_weight *w = &weight[p->weight];
    uint64_t elem = zf_dtype_info(w->type.dtype)->bytes;
    uint8_t *to = buf;

    for (uint32_t i = 0; i < p->n_boxes && n > 0; i++) {
        uint64_t volume = match_volume(&w->type, &p->box[i]), at;

        for (; first < volume && n > 0;) {
            uint64_t k = match_run(&w->type, &p->box[i], first, &at);

            k = k < n ? k : n;
            if (!zf_draft_read(w->of, w->first + at, k, to, err)) {
                return false;
            }
            to += k * elem;
            first += k;
            n -= k;
        }
        first -= volume;
    }
    return true;
}

/* Elements `at` of the piece, at either end of it, which are kept.  NULL: an error. */
static const uint8_t *match_piece(const struct match *m, struct bucket_piece *p, struct zf_span at,
                                  struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(m->q->weight[p->weight].type.dtype)->bytes;
    const uint8_t **end = at.first == 0 ? &p->head : &p->tail;
    uint8_t *value = *end ? NULL : zf_arena_get(m->q->arena, at.n, elem, err);

    if (value && bucket_piece_read(m->q->weight, p, at.first, at.n, value, err)) {
        *end = value;
    }
    return *end;
}

/* The n masters behind a place: kept, or in `scratch`.  NULL: an error. */
static const uint8_t *match_masters(struct match *m, uint32_t bucket, uint64_t first, uint64_t n,
                                    struct match_place *scratch, struct zf_err *err)
{
    const uint64_t key[2] = {bucket, first};
    uint64_t hash =
        first >> 40 ? zf_hash(0, key, sizeof key) : zf_hash_number(first | (uint64_t)bucket << 40);
    struct match_place *place = zf_table_find_id(m->places, hash);

    if (!place) {
        place =
            HASH_COUNT(m->places) < MATCH_KEPT ? zf_table_make_id(m->places, hash, err) : scratch;
    }
    if (place && place->n < n) {
        if (!zf_draft_read(m->q->buffer->master[bucket], first, n, place->value, err)) {
            return NULL;
        }
        place->n = n;
    }
    return place ? place->value : NULL;
}

/* Elements `at` of the piece, at either end of it. */
static bool match_end(struct match *m, struct bucket_piece *p, uint32_t bucket, uint64_t first,
                      struct zf_span at, bool *same, struct zf_err *err)
{
    struct match_place scratch = {.n = 0};
    struct zf_mismatch miss;
    const uint8_t *masters = match_masters(m, bucket, first + at.first, at.n, &scratch, err);
    const uint8_t *weight = masters ? match_piece(m, p, at, err) : NULL;

    if (!weight) {
        return false;
    }
    zf_values_compare(masters, zf_draft_type(m->q->buffer->master[bucket]).dtype, weight,
                      m->q->weight[p->weight].type.dtype, at.n, &miss);
    *same = !miss.found;
    return true;
}

static bool match_same(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                       struct zf_err *err)
{
    struct match *m = ctx;
    struct bucket_piece *p = m->q->row->piece[piece];
    enum zf_dtype from = zf_draft_type(m->q->buffer->master[bucket]).dtype;
    enum zf_dtype to = m->q->weight[p->weight].type.dtype;
    uint64_t head = p->n < MATCH_END ? p->n : MATCH_END, left = p->n - head;

    *same = false;
    if (!zf_values_can_round(from, to)) {
        return true;
    }
    if (!match_end(m, p, bucket, first, (struct zf_span){0, head}, same, err)) {
        return false;
    }
    if (!*same || left == 0) {
        return true;
    }
    left = left < MATCH_END ? left : MATCH_END;
    return match_end(m, p, bucket, first, (struct zf_span){p->n - left, left}, same, err);
}

bool bucket_match(const struct bucket_question *q, struct walk_place *place,
                  struct walk_result *out, struct zf_err *err)
{
    zf_auto(match) struct match m = {.q = q};
    const struct walk_in in = {.piece = q->row->walk,
                               .n_pieces = q->row->n,
                               .len = q->buffer->len,
                               .n_buckets = q->buffer->n_buckets,
                               .align = q->align,
                               .joined = q->buffer->joined,
                               .most = q->most,
                               .same = match_same,
                               .ctx = &m};

    return bucket_walk(&in, place, out, err);
}
