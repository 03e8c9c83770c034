/* SPDX-License-Identifier: Apache-2.0 */
/* Each buffer was written by one model-parallel rank, known from its group's number.  The slices of a
 * parameter found in the buffers of all ranks are then joined like other chunks. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/values.h>
#include <zf/base/ahead.h>
#include <zf/base/num.h>

#include "bucket_rows.h"

#define BUCKETS_SAME (1u << 24) /* most comparisons for all buffers */
#define BUCKETS_EXPERTS 4096u   /* with more experts per layer, only the size in args is tried */

/* A parameter slice found in a buffer. */
struct slice_at {
    const struct bucket_piece *piece;
    const struct flat_buffer *buffer;
    uint32_t bucket;
    uint64_t first;
    uint32_t next; /* index + 1 of the next slice of the same parameter; 0 = none */
};

struct buckets {
    struct mg_save *s;
    const struct flat_buffers *in;
    struct bucket_rows rows;
    zf_vec(struct slice_at) slice;
    uint32_t *first, *last; /* [parameters of the save] index + 1 of a slice; 0 = none */
    struct walk_place *place;
    uint32_t left; /* remaining comparisons */
    uint64_t n_mapped, n_served, n_open;
};

static void zf_auto_buckets(struct buckets *b)
{
    zf_vec_fini(&b->slice);
    bucket_rows_fini(&b->rows);
}

/* ---- which model-parallel rank wrote a buffer ---------------------------------------------- */

/* An attempt to map a buffer as that of one rank. */
struct buffer_try {
    struct buckets *b;
    const struct flat_buffer *buffer;
    struct bucket_rank rank;
    const struct bucket_row *row; /* of the last walk */
    struct walk_result result, best;
};

static bool buckets_walk(struct buffer_try *t, uint64_t align, struct zf_err *err)
{
    struct buckets *b = t->b;

    if (b->left == 0) {
        t->best = t->result = (struct walk_result){.kind = WALK_MANY};
        return true;
    }
    t->row = bucket_rows_get(&b->rows, &t->rank, err);
    const struct bucket_question q = {.weight = b->s->param.at,
                                      .row = t->row,
                                      .buffer = t->buffer,
                                      .align = align,
                                      .most = b->left,
                                      .ahead = zf_store_ahead(b->s->st),
                                      .few = zf_store_is_far(b->s->st) ? ZF_AHEAD_FAR : 0,
                                      .arena = b->rows.arena};
    if (!t->row || !bucket_match(&q, b->place, &t->result, err))
        return false;
    b->left -= t->result.compared;
    if (t->result.kind != WALK_NONE || t->result.bucket > t->best.bucket ||
        (t->result.bucket == t->best.bucket && t->result.end > t->best.end))
        t->best = t->result;
    return true;
}

/* Tries both alignments: 64 elements, and 1 (core up to 0.7). */
static bool buckets_walk_rank(struct buffer_try *t, struct zf_err *err)
{
    return buckets_walk(t, 64, err) && (t->result.kind != WALK_NONE || buckets_walk(t, 1, err));
}

/* Tries an expert-parallel size of n.  The rank follows from the group's number: tensor-parallel ranks
 * are innermost, expert-parallel ranks next. */
static bool buckets_walk_experts(struct buffer_try *t, uint64_t n, struct zf_err *err)
{
    const uint64_t etp = t->b->rows.n_expert_tensor, group = t->buffer->group;

    t->rank.n_expert = n;
    t->rank.expert = group / etp % n;
    t->rank.expert_tensor = group % etp;
    return buckets_walk_rank(t, err);
}

static bool buckets_walk_class(struct buffer_try *t, struct zf_err *err)
{
    struct bucket_rows *r = &t->b->rows;
    uint64_t said = r->s->settings.expert_model_parallel_size;
    uint64_t most = r->n_experts <= BUCKETS_EXPERTS || said ? r->n_experts : 0;

    if (t->rank.class == BUCKET_EXPERTS) {
        for (uint64_t n = said ? said : 1; n <= most && t->result.kind == WALK_NONE; n++) {
            if (r->n_experts % n == 0 && !buckets_walk_experts(t, n, err))
                return false;
            n = said ? most : n;
        }
        return true;
    }
    t->rank.n_expert = 1;
    t->rank.expert = 0;
    t->rank.tensor = t->buffer->group % r->n_tensor;
    t->rank.expert_tensor = t->rank.tensor % r->n_expert_tensor;
    return buckets_walk_rank(t, err);
}

/* Tries all classes of parameters and orders of experts, with one order of the model. */
static bool buckets_walk_order(struct buffer_try *t, struct zf_err *err)
{
    static const struct {
        enum bucket_class class;
        bool grouped;
    } try[] = {{BUCKET_DENSE, false},
               {BUCKET_EXPERTS, false},
               {BUCKET_EXPERTS, true},
               {BUCKET_ALL, false},
               {BUCKET_ALL, true}};
    bool experts = t->b->rows.n_experts > 0;

    for (size_t i = 0; i < sizeof try / sizeof try[0] && t->result.kind == WALK_NONE; i++) {
        if (!experts && (try[i].class != BUCKET_ALL || try[i].grouped))
            continue;
        t->rank.class = try[i].class;
        t->rank.grouped = try[i].grouped;
        if (!buckets_walk_class(t, err))
            return false;
    }
    return true;
}

static bool buckets_dtype(const struct flat_buffer *f, enum zf_dtype *out)
{
    struct mg_text t = f->dtype;
    const char *comma = t.n > 7 ? memchr(t.p, ',', t.n) : NULL;

    return comma && comma > t.p + 7 && memcmp(t.p, "(torch.", 7) == 0 &&
           zf_dtype_by_torch(t.p + 7, (size_t)(comma - t.p) - 7, out);
}

static bool buckets_keep(struct buckets *b, const struct flat_buffer *buffer,
                         const struct bucket_row *row, struct zf_err *err)
{
    for (uint32_t i = 0; i < row->n; i++) {
        const struct walk_place *at = &b->place[i];
        struct slice_at *h = at->there ? zf_vec_push(&b->slice, err) : NULL;
        uint32_t param = row->piece[i]->weight;

        if (!at->there)
            continue;
        if (!h || b->slice.n >= UINT32_MAX)
            return false;
        *h = (struct slice_at){row->piece[i], buffer, at->bucket, at->first, 0};
        if (b->last[param])
            b->slice.at[b->last[param] - 1].next = (uint32_t)b->slice.n;
        else
            b->first[param] = (uint32_t)b->slice.n;
        b->last[param] = (uint32_t)b->slice.n;
    }
    return true;
}

static bool buckets_refuse(struct buckets *b, const struct flat_buffer *f, const char *why,
                           struct zf_err *err)
{
    return zf_build_note(b->s->b, err,
                         "the flat optimizer buffer %.200s is not mapped to parameters: %s",
                         f->name, why);
}

static bool buckets_explain(struct buffer_try *t, struct zf_err *err)
{
    char why[200] = "its bytes fit parameters in more than one way";

    if (t->best.kind == WALK_MANY) {
        (void)snprintf(why, sizeof why,
                       "too many orders of parameters fit at their beginning to try all of them");
    } else if (t->best.kind == WALK_NONE) {
        (void)snprintf(why, sizeof why,
                       "after element %llu of bucket %u no parameter fits, in any known order",
                       (unsigned long long)t->best.end, t->best.bucket);
    }
    return buckets_refuse(t->b, t->buffer, why, err);
}

/* Degraded: a buffer with lost bytes is not mapped. */
static bool buckets_lost(struct buckets *b, const struct flat_buffer *f, struct zf_err *err)
{
    const struct zf_err lost = *err;
    char why[300];

    if (!zf_build_degraded(b->s->b) || err->code == ZF_E_NOMEM || err->code == ZF_E_LIMIT)
        return false;
    (void)zf_err_text(err, why, sizeof why);
    zf_err_clear(err);
    return zf_build_note_names(b->s->b, lost.path, lost.msg, err) && buckets_refuse(b, f, why, err);
}

static bool buckets_map(struct buckets *b, const struct flat_buffer *f, struct zf_err *err)
{
    struct buffer_try t = {
        .b = b, .buffer = f, .result = {.kind = WALK_NONE}, .best = {.kind = WALK_NONE}};

    if (!f->why && !f->master)
        return buckets_refuse(b, f, "it has no fp32 masters that would prove the mapping", err);
    if (f->why || !buckets_dtype(f, &t.rank.dtype)) {
        return buckets_refuse(b, f, f->why ? f->why : "the dtype of its weights is not recorded",
                              err);
    }
    enum bucket_order order = b->rows.ordered ? BUCKET_STORED : BUCKET_LOCAL;
    for (; order < BUCKET_ORDERS && t.result.kind == WALK_NONE; order++) {
        t.rank.order = order;
        if (!buckets_walk_order(&t, err))
            return buckets_lost(b, f, err);
    }
    if (t.result.kind != WALK_ONE)
        return buckets_explain(&t, err);
    b->n_mapped++;
    return buckets_keep(b, f, t.row, err);
}

/* ---- parameters --------------------------------------------------------------------------- */

static const struct flat_state *buckets_state(const struct flat_buffer *f, struct mg_text name)
{
    for (uint32_t i = 0; i < f->n_states; i++)
        if (mg_text_same(f->state[i].name, name))
            return &f->state[i];
    return NULL;
}

/* Compares elements [at.first, at.first + at.n), ZF_VALUES_ENDS at most, of the tensors at x and y. */
static bool buckets_equal_span(struct zf_draft_at x, struct zf_draft_at y, struct zf_span at,
                               bool *same, struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(zf_draft_type(x.of).dtype)->bytes;
    uint8_t one[16 * ZF_VALUES_ENDS], two[16 * ZF_VALUES_ENDS];

    if (*same && at.n > 0) {
        if (!zf_draft_read(x.of, x.first + at.first, at.n, one, err) ||
            !zf_draft_read(y.of, y.first + at.first, at.n, two, err))
            return false;
        *same = memcmp(one, two, at.n * elem) == 0;
    }
    return true;
}

/* Compares a state of the same piece in two buffers: its first and last elements. */
static bool buckets_equal(const struct slice_at *x, const struct slice_at *y, struct mg_text name,
                          bool *same, struct zf_err *err)
{
    const struct flat_state *s = buckets_state(x->buffer, name),
                            *t = buckets_state(y->buffer, name);
    uint64_t n = x->piece->n, head = n < ZF_VALUES_ENDS ? n : ZF_VALUES_ENDS;
    uint64_t tail = n - head < head ? n - head : head;

    *same = s && t;
    if (!*same)
        return true;
    const struct zf_draft_at from = {s->bucket[x->bucket], x->first};
    const struct zf_draft_at to = {t->bucket[y->bucket], y->first};
    *same = zf_draft_type(from.of).dtype == zf_draft_type(to.of).dtype;
    return buckets_equal_span(from, to, (struct zf_span){0, head}, same, err) &&
           buckets_equal_span(from, to, (struct zf_span){n - tail, tail}, same, err);
}

/* All slices of a parameter that were found. */
struct gathered {
    const struct slice_at *piece[64]; /* one slice of each distinct piece */
    uint32_t n;
    uint64_t covered;
    const char *why; /* why it cannot be joined, or NULL */
};

static bool buckets_gather(const struct buckets *b, size_t param, struct gathered *w,
                           struct zf_err *err)
{
    static const char differ[] = "the copies of two ranks differ";
    uint64_t n = 0;
    const struct zf_type *type = &b->s->param.at[param].type;

    for (uint32_t i = b->first[param]; i && !w->why; i = b->slice.at[i - 1].next) {
        const struct slice_at *h = &b->slice.at[i - 1];
        uint32_t k = 0;

        while (k < w->n && w->piece[k]->piece != h->piece)
            k++;
        if (k == w->n && k < 64) {
            w->piece[w->n++] = h;
            w->covered += h->piece->n;
            continue;
        }
        w->why = k == 64                                                ? "it is in too many pieces"
                 : h->buffer->n_states != w->piece[k]->buffer->n_states ? differ
                                                                        : NULL;
        for (uint32_t j = 0; !w->why && j < h->buffer->n_states; j++) {
            bool same = false;

            if (buckets_equal(w->piece[k], h, h->buffer->state[j].name, &same, err)) {
                w->why = same ? NULL : differ;
                continue;
            }
            if (!zf_build_degraded(b->s->b) || err->code != ZF_E_IO)
                return false;
            zf_err_clear(err);
            w->why = "the copy of a rank is lost";
        }
    }
    if (!w->why && (!zf_elems(type->ndim, type->shape, &n) || n != w->covered))
        w->why = "not all ranks' buffers are mapped";
    return true;
}

/* Is there one piece, which is the full parameter in C order? */
static bool buckets_is_flat(const struct gathered *w, const struct zf_type *type)
{
    const struct bucket_piece *p = w->piece[0]->piece;

    return w->n == 1 && p->n_boxes == 1 &&
           zf_shape_equal(type->ndim, p->box[0].size, type->ndim, type->shape);
}

static bool buckets_join(const struct buckets *b, const struct gathered *w, struct mg_param *p,
                         struct zf_err *err)
{
    p->of = zf_build_hidden(b->s->b, p->name.p, p->name.n, p->type, err);
    for (uint32_t i = 0; p->of && i < w->n; i++) {
        const struct slice_at *h = w->piece[i];
        uint64_t first = h->first;
        struct zf_draft *bucket = buckets_state(h->buffer, p->state)->bucket[h->bucket];

        for (uint32_t k = 0; k < h->piece->n_boxes; k++) {
            const struct bucket_box *box = &h->piece->box[k];
            uint64_t n = 1;

            if (!zf_draft_unflatten(p->of, box->start, box->size, bucket, first, err))
                return false;
            for (uint32_t d = 0; d < p->type.ndim; d++)
                n *= box->size[d];
            first += n;
        }
    }
    return p->of != NULL;
}

/* Serves one state, if every piece has it with the same dtype. */
static bool buckets_serve_state(struct buckets *b, const struct gathered *w, size_t param,
                                struct mg_text name, struct zf_err *err)
{
    struct mg_param p = b->s->param.at[param];
    enum zf_dtype dtype = p.type.dtype;

    for (uint32_t i = 0; i < w->n; i++) {
        const struct flat_state *s = buckets_state(w->piece[i]->buffer, name);

        if (!s || (i > 0 && zf_draft_type(s->bucket[w->piece[i]->bucket]).dtype != dtype))
            return true;
        dtype = zf_draft_type(s->bucket[w->piece[i]->bucket]).dtype;
    }
    p.state = name;
    p.type.dtype = dtype;
    p.from = NULL;
    p.is_part = false;
    p.first = w->piece[0]->first;
    if (buckets_is_flat(w, &p.type)) {
        p.of = buckets_state(w->piece[0]->buffer, name)->bucket[w->piece[0]->bucket];
    } else {
        p.first = 0;
        if (!buckets_join(b, w, &p, err))
            return false;
    }
    return mg_save_param(b->s, &p, err);
}

static bool buckets_serve(struct buckets *b, size_t param, struct zf_err *err)
{
    struct gathered w = {.n = 0};
    struct mg_text name = b->s->param.at[param].name;

    if (!buckets_gather(b, param, &w, err))
        return false;
    if (w.why) {
        b->n_open++;
        return zf_build_note_on(
            b->s->b, ZF_NOTE_LEFT_OUT, NULL, err,
            "the optimizer state of \"%.*s\" is not read from the flat buffers: %s",
            (int)(name.n < 200 ? name.n : 200), name.p, w.why);
    }
    b->n_served++;
    const struct flat_buffer *f = w.piece[0]->buffer;
    for (uint32_t i = 0; i < f->n_states; i++)
        if (!buckets_serve_state(b, &w, param, f->state[i].name, err))
            return false;
    return true;
}

bool mg_buckets_map(struct mg_save *s, const struct flat_buffers *buffers, struct zf_err *err)
{
    zf_auto(buckets) struct buckets b = {.s = s, .in = buffers, .left = BUCKETS_SAME};
    size_t n = s->param.n;

    if (buffers->n == 0)
        return true;
    if (!bucket_rows_init(&b.rows, s, err) ||
        !(b.first = zf_arena_get(b.rows.arena, n, sizeof *b.first, err)) ||
        !(b.last = zf_arena_get(b.rows.arena, n, sizeof *b.last, err)) ||
        !(b.place = zf_arena_get(b.rows.arena, b.rows.candidate.n, sizeof *b.place, err)))
        return false;
    for (size_t i = 0; i < buffers->n; i++)
        if (!buckets_map(&b, &buffers->at[i], err))
            return false;
    for (size_t i = 0; i < n; i++)
        if (b.first[i] && !buckets_serve(&b, i, err))
            return false;
    if (b.n_mapped == buffers->n && b.n_open == 0)
        return true;
    return zf_build_note(
        s->b, err,
        "%llu of %zu flat optimizer buffers are mapped to parameters: the states of "
        "%llu parameters are in optim/, those of %llu are incomplete",
        (unsigned long long)b.n_mapped, buffers->n, (unsigned long long)b.n_served,
        (unsigned long long)b.n_open);
}
