/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly every comparison of a walk fails at the first elements, and of those that go on most at the
 * last ones.  Both are kept, of pieces as of buffers, so that a walk reads each place once, however often
 * it looks at it.
 *
 * Every unit is looked at behind every end, so its first elements are read before the walk, by several
 * threads.  A place of the buffer that was not read is behind a piece that fitted: most likely the next
 * pieces follow, and more and more of them are read ahead, as long as that was right. */
#include "bucket_match.h"

#include <zf/assemble/values.h>
#include <zf/base/ahead.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* Elements that are kept of a place, and compared at once. */
#define MATCH_END ZF_VALUES_ENDS
/* Places of buffers that are kept: some 8 MiB. */
#define MATCH_KEPT 16384u
/* Pieces that are read ahead at most. */
#define MATCH_AHEAD 1024u

/* The masters behind a place of a bucket. */
struct match_place {
    UT_hash_handle hh;
    uint64_t n; /* elements, 0 = not read */
    uint8_t value[8 * MATCH_END];
};

/* A read-ahead of a piece, or of the buffer. */
struct match_job {
    struct bucket_piece *piece; /* or NULL */
    struct zf_span at;          /* of the piece */
    uint8_t *value;
    struct match_place *place;
    uint32_t bucket;
    uint64_t first, n; /* of the bucket */
};

struct match {
    const struct bucket_question *q;
    struct match_place *places;
    /* Pieces that are read ahead, and behind the last of them: one that is asked for before it was not foreseen. */
    uint32_t ahead, foreseen;
    zf_vec(struct match_job) job;
};

static void zf_auto_match(struct match *m)
{
    zf_table_free(m->places);
    zf_vec_fini(&m->job);
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

    for (uint32_t d = 0; d < t->ndim; d++)
        n *= b->size[d];
    return n;
}

/* Reads elements [first, first + n) of a piece's weight, in the piece's order. */
static bool bucket_piece_read(const struct mg_param *weight, const struct bucket_piece *p,
                              uint64_t first, uint64_t n, void *buf, struct zf_err *err)
{
    const struct mg_param *w = &weight[p->weight];
    uint64_t elem = zf_dtype_info(w->type.dtype)->bytes;
    uint8_t *to = buf;

    for (uint32_t i = 0; i < p->n_boxes && n > 0; i++) {
        uint64_t volume = match_volume(&w->type, &p->box[i]), at;

        for (; first < volume && n > 0;) {
            uint64_t k = match_run(&w->type, &p->box[i], first, &at);

            k = k < n ? k : n;
            if (!zf_draft_read(w->of, w->first + at, k, to, err))
                return false;
            to += k * elem;
            first += k;
            n -= k;
        }
        first -= volume;
    }
    return true;
}

static const uint8_t **match_kept(struct bucket_piece *p, struct zf_span at)
{
    return at.first == 0 ? &p->head : &p->tail;
}

/* Elements `at` of the piece, at either end of it, which are kept.  NULL: an error. */
static const uint8_t *match_piece(const struct match *m, struct bucket_piece *p, struct zf_span at,
                                  struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(m->q->weight[p->weight].type.dtype)->bytes;
    const uint8_t **end = match_kept(p, at);
    uint8_t *value = *end ? NULL : zf_arena_get(m->q->arena, at.n, elem, err);

    if (value && bucket_piece_read(m->q->weight, p, at.first, at.n, value, err))
        *end = value;
    return *end;
}

static uint64_t match_hash(uint32_t bucket, uint64_t first)
{
    const uint64_t key[2] = {bucket, first};

    return first >> 40 ? zf_hash(0, key, sizeof key)
                       : zf_hash_number(first | (uint64_t)bucket << 40);
}

/* Of too many places all are forgotten. */
static void match_forget(struct match *m, uint32_t more)
{
    if (HASH_COUNT(m->places) + more > MATCH_KEPT)
        zf_table_free(m->places);
}

/* The n masters behind a place.  NULL: an error. */
static const uint8_t *match_masters(struct match *m, uint32_t bucket, uint64_t first, uint64_t n,
                                    struct zf_err *err)
{
    match_forget(m, 1);
    struct match_place *place = zf_table_make_id(m->places, match_hash(bucket, first), err);

    if (place && place->n < n) {
        if (!zf_draft_read(m->q->buffer->master->bucket[bucket], first, n, place->value, err))
            return NULL;
        place->n = n;
    }
    return place ? place->value : NULL;
}

/* ---- reading ahead ----------------------------------------------------------------------------- */

/* A failed read is repeated by the consumer, and ignored by others. */
static void *match_read(void *ctx, uint64_t i, struct zf_err *err)
{
    struct match *m = ctx;
    const struct match_job *j = &m->job.at[i];

    if (j->piece) {
        if (bucket_piece_read(m->q->weight, j->piece, j->at.first, j->at.n, j->value, err))
            *match_kept(j->piece, j->at) = j->value;
    } else if (zf_draft_read(m->q->buffer->master->bucket[j->bucket], j->first, j->n,
                             j->place->value, err)) {
        j->place->n = j->n;
    }
    zf_err_clear(err);
    return ctx;
}

static bool match_read_all(struct match *m, struct zf_err *err)
{
    const struct zf_ahead_work work = {
        .make = match_read, .ctx = m, .most = m->q->ahead, .few = m->q->few};
    bool ok = zf_ahead_all(work, m->job.n, err);

    m->job.n = 0;
    return ok;
}

static bool match_want_piece(struct match *m, struct bucket_piece *p, struct zf_span at,
                             struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(m->q->weight[p->weight].type.dtype)->bytes;

    if (at.n == 0 || *match_kept(p, at))
        return true;
    uint8_t *value = zf_arena_get(m->q->arena, at.n, elem, err);
    struct match_job *j = value ? zf_vec_push(&m->job, err) : NULL;
    if (!j)
        return false;
    *j = (struct match_job){.piece = p, .at = at, .value = value};
    return true;
}

static bool match_want_masters(struct match *m, uint32_t bucket, uint64_t first, uint64_t n,
                               struct zf_err *err)
{
    const uint64_t hash = match_hash(bucket, first);

    if (n == 0 || zf_table_find_id(m->places, hash))
        return true;
    struct match_place *place = zf_table_make_id(m->places, hash, err);
    struct match_job *j = place ? zf_vec_push(&m->job, err) : NULL;
    if (!j)
        return false;
    *j = (struct match_job){.place = place, .bucket = bucket, .first = first, .n = n};
    return true;
}

/* The ends of a piece. */
static struct zf_span match_head(const struct bucket_piece *p)
{
    return (struct zf_span){0, p->n < MATCH_END ? p->n : MATCH_END};
}

static struct zf_span match_tail(const struct bucket_piece *p)
{
    uint64_t left = p->n - match_head(p).n, n = left < MATCH_END ? left : MATCH_END;

    return (struct zf_span){p->n - n, n};
}

/* The first elements of each unit. */
static bool match_want_units(struct match *m, struct zf_err *err)
{
    const struct bucket_row *row = m->q->row;

    for (uint32_t i = 0; i < row->n; i++)
        if ((i == 0 || row->walk[i].unit != row->walk[i - 1].unit) &&
            !match_want_piece(m, row->piece[i], match_head(row->piece[i]), err))
            return false;
    return true;
}

/* From a piece on, which is behind an end, as many as follow one another there. */
static bool match_want_row(struct match *m, uint32_t piece, uint32_t bucket, uint64_t first,
                           struct zf_err *err)
{
    const struct bucket_row *row = m->q->row;
    const struct flat_buffer *to = m->q->buffer;
    uint32_t end = row->n - piece > m->ahead ? piece + m->ahead : row->n;

    match_forget(m, 2 * (end - piece));
    m->foreseen = end;
    for (uint32_t i = piece; i < end; i++) {
        struct bucket_piece *p = row->piece[i];
        struct zf_span head = match_head(p), tail = match_tail(p);

        if (first > to->len[bucket] || p->n > to->len[bucket] - first) {
            bucket++;
            first = 0;
        }
        if (bucket == to->n_buckets || p->n > to->len[bucket])
            return true;
        if (!match_want_piece(m, p, head, err) || !match_want_piece(m, p, tail, err) ||
            !match_want_masters(m, bucket, first, head.n, err) ||
            !match_want_masters(m, bucket, first + tail.first, tail.n, err))
            return false;
        first += p->n + (m->q->align - p->n % m->q->align) % m->q->align;
    }
    return true;
}

/* Masters that are not known yet are read together with those behind them. */
static bool match_look_ahead(struct match *m, uint32_t piece, uint32_t bucket, uint64_t first,
                             struct zf_err *err)
{
    if (zf_table_find_id(m->places, match_hash(bucket, first)))
        return true;
    m->ahead = piece < m->foreseen || m->ahead == 0 ? 1 : 2 * m->ahead;
    m->ahead = m->ahead < MATCH_AHEAD ? m->ahead : MATCH_AHEAD;
    return match_want_row(m, piece, bucket, first, err) && match_read_all(m, err);
}

/* ---- comparing --------------------------------------------------------------------------------- */

/* Elements `at` of the piece, at either end of it. */
static bool match_end(struct match *m, struct bucket_piece *p, uint32_t bucket, uint64_t first,
                      struct zf_span at, bool *same, struct zf_err *err)
{
    struct zf_mismatch miss;
    const uint8_t *masters = match_masters(m, bucket, first + at.first, at.n, err);
    const uint8_t *weight = masters ? match_piece(m, p, at, err) : NULL;

    if (!weight)
        return false;
    zf_values_compare(masters, zf_draft_type(m->q->buffer->master->bucket[bucket]).dtype, weight,
                      m->q->weight[p->weight].type.dtype, at.n, &miss);
    *same = !miss.found;
    return true;
}

static bool match_same(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                       struct zf_err *err)
{
    struct match *m = ctx;
    struct bucket_piece *p = m->q->row->piece[piece];
    enum zf_dtype from = zf_draft_type(m->q->buffer->master->bucket[bucket]).dtype;
    enum zf_dtype to = m->q->weight[p->weight].type.dtype;

    *same = false;
    if (!zf_values_can_round(from, to))
        return true;
    if (!match_look_ahead(m, piece, bucket, first, err) ||
        !match_end(m, p, bucket, first, match_head(p), same, err))
        return false;
    return !*same || match_tail(p).n == 0 ||
           match_end(m, p, bucket, first, match_tail(p), same, err);
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

    return match_want_units(&m, err) && match_read_all(&m, err) &&
           bucket_walk(&in, place, out, err);
}
