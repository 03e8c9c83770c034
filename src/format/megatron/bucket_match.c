/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly every comparison of a walk fails at the first elements.  These are kept, of pieces as of
 * buffers, so that a walk reads each place once, however often it looks at it. */
#include "bucket_match.h"

#include <string.h>

#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

/* Elements that are kept of a place, and compared at once. */
#define MATCH_HEAD ZF_VALUES_ENDS
#define MATCH_CHUNK 512u
/* Places of buffers that are kept. */
#define MATCH_KEPT 8192u

/* The first masters behind a place of a bucket. */
struct match_head {
    uint64_t hash;
    uint64_t n; /* elements, 0 = not read */
    uint8_t value[8 * MATCH_HEAD];
};

struct match {
    const struct bucket_question *q;
    struct zf_table heads;
};

static void zf_auto_match(struct match *m)
{
    zf_table_fini(&m->heads);
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

bool bucket_piece_read(const struct bucket_weight *weight, const struct bucket_piece *p,
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

/* The first elements of the piece. */
static bool match_piece_head(const struct match *m, struct bucket_piece *p, struct zf_err *err)
{
    uint64_t n = p->n < MATCH_HEAD ? p->n : MATCH_HEAD;
    uint64_t elem = zf_dtype_info(m->q->weight[p->weight].type.dtype)->bytes;

    if (!p->head) {
        uint8_t *head = zf_arena_get(m->q->arena, n, elem, err);

        if (!head || !bucket_piece_read(m->q->weight, p, 0, n, head, err)) {
            return false;
        }
        p->head = head;
    }
    return true;
}

/* The first n masters of a place: kept, or in `scratch`.  NULL: an error. */
static const uint8_t *match_masters(struct match *m, uint32_t bucket, uint64_t first, uint64_t n,
                                    struct match_head *scratch, struct zf_err *err)
{
    const uint64_t place[2] = {bucket, first};
    uint64_t hash = zf_hash(0, place, sizeof place);
    struct match_head *head = zf_table_get(&m->heads, hash);

    if (!head) {
        head = m->heads.index.n < MATCH_KEPT
                   ? zf_table_put(&m->heads, hash, sizeof *head, err)
                   : scratch;
    }
    if (head && head->n < n) {
        if (!zf_draft_read(m->q->buffer->master[bucket], first, n, head->value, err)) {
            return NULL;
        }
        head->n = n;
    }
    return head ? head->value : NULL;
}

/* Elements [at, at + n) of the piece, whose first one is element `first` of the bucket. */
static bool match_stretch(const struct match *m, const struct bucket_piece *p, uint32_t bucket,
                          uint64_t first, struct zf_span at, bool *same, struct zf_err *err)
{
    enum zf_dtype from = zf_draft_type(m->q->buffer->master[bucket]).dtype;
    enum zf_dtype to = m->q->weight[p->weight].type.dtype;
    uint8_t full[8 * MATCH_CHUNK], have[8 * MATCH_CHUNK];
    struct zf_mismatch miss = {.found = false};

    for (uint64_t done = 0, k; done < at.n && !miss.found; done += k) {
        k = at.n - done < MATCH_CHUNK ? at.n - done : MATCH_CHUNK;
        if (!zf_draft_read(m->q->buffer->master[bucket], first + at.first + done, k, full, err) ||
            !bucket_piece_read(m->q->weight, p, at.first + done, k, have, err)) {
            return false;
        }
        zf_values_compare(full, from, have, to, k, &miss);
    }
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
    uint64_t n = p->n < MATCH_HEAD ? p->n : MATCH_HEAD;
    struct match_head scratch = {.n = 0};
    struct zf_mismatch miss;

    *same = false;
    if (!zf_values_can_round(from, to)) {
        return true;
    }
    const uint8_t *masters = match_masters(m, bucket, first, n, &scratch, err);
    if (!masters || !match_piece_head(m, p, err)) {
        return false;
    }
    zf_values_compare(masters, from, p->head, to, n, &miss);
    *same = !miss.found;
    if (miss.found || p->n == n) {
        return true;
    }
    bool all = m->q->ends == 0 || p->n - n <= m->q->ends;
    uint64_t at = all ? n : p->n - m->q->ends;
    return match_stretch(m, p, bucket, first, (struct zf_span){at, p->n - at}, same, err);
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
