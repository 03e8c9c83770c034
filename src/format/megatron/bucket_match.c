/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly every comparison of a walk fails at the first elements of a piece, and most others at the last
 * ones.  Both are cached, for pieces and for buffers, so a walk reads each position once, however often
 * it compares it.
 *
 * Every unit is compared at every open end, so the first elements of all units are read before the walk,
 * by several threads.  A position of the buffer that is not cached yet follows a piece that matched; the
 * next pieces probably follow it, so they are read ahead, twice as many each time that was right. */
#include "bucket_match.h"

#include <zf/assemble/values.h>
#include <zf/base/ahead.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* Elements cached per position, and compared at once. */
#define MATCH_END ZF_VALUES_ENDS
/* Positions of buffers that are cached: about 8 MiB. */
#define MATCH_KEPT 16384u
/* Most pieces that are read ahead. */
#define MATCH_AHEAD 1024u

/* The cached masters from one position of a bucket on. */
struct match_place {
    UT_hash_handle hh;
    uint64_t n; /* elements, 0 = not read */
    uint8_t value[8 * MATCH_END];
};

/* A read-ahead of a piece's weight, or of the buffer's masters. */
struct match_job {
    struct bucket_piece *piece; /* or NULL */
    struct zf_span at;          /* of the piece */
    uint8_t *value;
    struct match_place *place;
    uint32_t bucket;
    uint64_t first, n; /* elements of the bucket */
};

struct match {
    const struct bucket_question *q;
    struct match_place *places;
    /* Number of pieces read ahead last, and the index after the last of them: a miss before that index means
     * that the prediction was wrong. */
    uint32_t ahead, foreseen;
    zf_vec(struct match_job) job;
};

static void zf_auto_match(struct match *m)
{
    zf_table_free(m->places);
    zf_vec_fini(&m->job);
}

/* The number of elements of the box, from `at` on, that are contiguous in the parameter; *out: the first. */
static uint64_t match_run(const struct zf_type *t, const struct bucket_box *b, uint64_t at,
                          uint64_t *out)
{
    uint64_t run = 1, step = 1, first = 0, in = at;
    bool whole = true; /* the box covers all dimensions inside this one */

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

/* Elements `at` of the piece's weight, its head or its tail, which are cached.  NULL: an error. */
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

/* Empties the cache if it would have too many positions with `more` new ones. */
static void match_forget(struct match *m, uint32_t more)
{
    if (HASH_COUNT(m->places) + more > MATCH_KEPT)
        zf_table_free(m->places);
}

/* The n masters from element `first` of a bucket on.  NULL: an error. */
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

/* Errors are ignored here: if the data are needed, the read is repeated, and its error reported. */
static void *match_read(void *ctx, uint64_t i, struct zf_err *err)
{
    struct match *m = ctx;
    const struct match_job *j = &m->job.at[i];

    if (j->piece) {
        if (!bucket_piece_read(m->q->weight, j->piece, j->at.first, j->at.n, j->value, err))
            *match_kept(j->piece, j->at) = NULL;
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
    *match_kept(p, at) = value; /* filled by the job, the only one of this end */
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

/* The first elements of a piece that are compared; match_tail: the last ones. */
static struct zf_span match_head(const struct bucket_piece *p)
{
    return (struct zf_span){0, p->n < MATCH_END ? p->n : MATCH_END};
}

static struct zf_span match_tail(const struct bucket_piece *p)
{
    uint64_t left = p->n - match_head(p).n, n = left < MATCH_END ? left : MATCH_END;

    return (struct zf_span){p->n - n, n};
}

/* Queues a read of the first elements of each unit. */
static bool match_want_units(struct match *m, struct zf_err *err)
{
    const struct bucket_row *row = m->q->row;

    for (uint32_t i = 0; i < row->n; i++)
        if ((i == 0 || row->walk[i].unit != row->walk[i - 1].unit) &&
            !match_want_piece(m, row->piece[i], match_head(row->piece[i]), err))
            return false;
    return true;
}

/* Queues reads for m->ahead pieces from `piece` on, supposing that they are in the buffer one after the
 * other from that element on. */
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

/* Reads masters that are not cached, together with those of the pieces expected to follow. */
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

/* Compares elements `at` of the piece, its head or its tail. */
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
