/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer is filled in reverse order of named_parameters().  Keys of .metadata are in that order, except
 * for stacked layers and experts; if they are not (zarr, saves sharded over data-parallel ranks), a table
 * has the order of the modules.  A rank's shard of a weight follows from the weight's chunk grid.
 * Source: megatron/core/distributed/param_and_grad_buffer.py; transformer_layer.py, attention.py,
 * multi_latent_attention.py, moe/experts.py, ssm/mamba_mixer.py; Transformer Engine's
 * LayerNormLinear (layer_norm_weight first). */
#include "bucket_rows.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>

#include "bucket_order.h"

#define ROWS_CHUNKS 16u /* most chunks of one rank in one weight */

/* ---- parameters of the save --------------------------------------------------------------- */

/* The number after the last `word`, or MG_NONE; *end: the index after the number and its dot. */
static uint64_t rows_number(struct mg_text name, const char *word, size_t *end)
{
    size_t n = strlen(word);
    uint64_t found = MG_NONE;

    *end = 0;
    for (size_t at = 0; at + n < name.n; at++) {
        uint64_t value = 0;
        size_t k = at + n;

        if ((at > 0 && name.p[at - 1] != '.') || memcmp(name.p + at, word, n) != 0)
            continue;
        for (; k < name.n && k < at + n + 9 && name.p[k] >= '0' && name.p[k] <= '9'; k++)
            value = value * 10 + (uint64_t)(name.p[k] - '0');
        if (k > at + n && k + 1 < name.n && name.p[k] == '.') {
            found = value;
            *end = k + 1;
        }
    }
    return found;
}

static bool rows_wanted(const struct mg_param *p)
{
    uint64_t n = 0;

    return p->state.n == 0 && !p->is_part && zf_dtype_info(p->type.dtype)->kind == 'f' &&
           zf_dtype_info(p->type.dtype)->bytes <= 4 && zf_elems(p->type.ndim, p->type.shape, &n) &&
           n > 0 && !mg_key_is_buffer(p->name);
}

/* A number in a table whose key is the hash of a name. */
struct rows_entry {
    UT_hash_handle hh;
    uint64_t value; /* + 1 */
};

static bool rows_least(struct rows_entry **t, uint64_t hash, uint64_t value, struct zf_err *err)
{
    struct rows_entry *e = zf_table_make_id(*t, hash, err);

    if (!e)
        return false;
    e->value = e->value && e->value <= value + 1 ? e->value : value + 1;
    return true;
}

static uint64_t rows_get(const struct rows_entry *t, uint64_t hash)
{
    const struct rows_entry *e = zf_table_find_id(t, hash);

    return e ? e->value - 1 : 0;
}

/* Hash of the stack's name, which is the part before the layer number; rows_layer includes the number. */
static uint64_t rows_stack(const struct bucket_candidate *t)
{
    size_t n = t->rest - 1;

    while (n > 0 && t->name.p[n - 1] != '.')
        n--;
    return zf_hash(1, t->name.p, n);
}

static uint64_t rows_layer(const struct bucket_candidate *t)
{
    return zf_hash(2, t->name.p, t->rest);
}

static void rows_fill(const struct mg_param *p, struct bucket_candidate *t)
{
    size_t end;

    t->name = p->name;
    t->order = p->from ? p->from->order : MG_NONE;
    t->layer = rows_number(p->name, "layers.", &t->rest);
    t->expert = rows_number(p->name, "experts.experts.", &end);
}

static bool rows_list(struct bucket_rows *r, struct zf_err *err)
{
    const struct mg_save *s = r->s;

    for (size_t i = 0; i < s->param.n; i++) {
        const struct mg_param *p = &s->param.at[i];

        if (rows_wanted(p)) {
            struct bucket_candidate *t = zf_vec_push(&r->candidate, err);

            if (!t)
                return false;
            t->param = i;
            rows_fill(p, t);
        }
    }
    return true;
}

/* The number of tensors that a parameter is made of; 1 = it is a single tensor. */
static uint32_t rows_parts(const struct mg_param *p)
{
    return p->n_parts ? p->n_parts : 1;
}

static const struct mg_param *rows_part(const struct bucket_rows *r, const struct mg_param *p,
                                        uint32_t k)
{
    return p->n_parts ? &r->s->param.at[p->part[k]] : p;
}

static bool rows_measure(struct bucket_rows *r, struct zf_err *err)
{
    zf_auto(uthash) struct rows_entry *seen = NULL;
    uint32_t units = 0;

    r->ordered = true;
    for (size_t i = 0; i < r->candidate.n; i++) {
        struct bucket_candidate *t = &r->candidate.at[i];
        const struct mg_param *first = rows_part(r, &r->s->param.at[t->param], 0);

        if (t->order == MG_NONE && first->from)
            t->order = first->from->order;
        r->ordered = r->ordered && t->order != MG_NONE;
        r->n_experts =
            t->expert != MG_NONE && t->expert >= r->n_experts ? t->expert + 1 : r->n_experts;
        uint64_t order = t->order == MG_NONE ? 0 : t->order;
        if (t->rest && (!rows_least(&seen, rows_stack(t), order, err) ||
                        (t->expert != MG_NONE && !rows_least(&seen, ~rows_layer(t), order, err))))
            return false;
    }
    for (size_t i = 0; i < r->candidate.n; i++) {
        struct bucket_candidate *t = &r->candidate.at[i];

        t->stack_order = t->rest ? rows_get(seen, rows_stack(t)) : t->order;
        t->expert_order =
            t->rest && t->expert != MG_NONE ? rows_get(seen, ~rows_layer(t)) : t->order;
        t->unit = units;
        if (!t->rest)
            units++;
        else if (zf_table_find_id(seen, rows_layer(t)))
            t->unit = (uint32_t)rows_get(seen, rows_layer(t));
        else if (!rows_least(&seen, rows_layer(t), units++, err))
            return false;
    }
    return true;
}

/* ---- parallel sizes ----------------------------------------------------------------------- */

/* The parameter's chunk grid, without the axes of layers and experts; NULL = unknown. */
static const uint64_t *rows_cuts(const struct mg_param *p)
{
    return p->from && p->from->cuts ? p->from->cuts + (p->from->type.ndim - p->type.ndim) : NULL;
}

static uint64_t rows_most_cuts(const struct mg_param *p)
{
    const uint64_t *cuts = rows_cuts(p);
    uint64_t most = 1;

    for (uint32_t d = 0; cuts && d < p->type.ndim; d++)
        most = cuts[d] > most ? cuts[d] : most;
    return most;
}

/* Sets the parallel sizes: from args, else the chunks of word_embeddings or linear_fc2, one per rank. */
static void rows_sizes(struct bucket_rows *r)
{
    const struct megatron_settings *set = &r->s->settings;
    uint64_t dense = 0, expert = 0;

    for (size_t i = 0; i < r->candidate.n; i++) {
        const struct bucket_candidate *t = &r->candidate.at[i];
        uint64_t cuts = rows_most_cuts(&r->s->param.at[t->param]);
        bool fc2 = mg_text_ends(t->name, "linear_fc2.weight");

        if (t->expert != MG_NONE)
            expert = fc2 && !expert ? cuts : expert;
        else if (mg_text_ends(t->name, "word_embeddings.weight") || (fc2 && !dense))
            dense = cuts;
    }
    r->n_tensor = set->tensor_model_parallel_size ? set->tensor_model_parallel_size : dense;
    r->n_tensor = r->n_tensor ? r->n_tensor : 1;
    r->n_expert_tensor = expert ? expert : r->n_tensor;
}

static bool rows_add_tied(struct bucket_rows *r, struct zf_err *err)
{
    size_t embedding = SIZE_MAX;

    for (size_t i = 0; i < r->candidate.n; i++) {
        if (mg_text_is(r->candidate.at[i].name, "output_layer.weight"))
            return true;
        if (mg_text_is(r->candidate.at[i].name, "embedding.word_embeddings.weight"))
            embedding = i;
    }
    if (embedding == SIZE_MAX)
        return true;
    /* The last pipeline stage has its own copy of a tied embedding, which is not stored. */
    struct bucket_candidate tied = r->candidate.at[embedding], *t = zf_vec_push(&r->candidate, err);
    if (!t)
        return false;
    *t = tied;
    t->name = (struct mg_text){"output_layer.weight", strlen("output_layer.weight")};
    t->order = t->stack_order = t->expert_order = MG_NONE - 1;
    t->unit = UINT32_MAX;
    return true;
}

bool bucket_rows_init(struct bucket_rows *r, const struct mg_save *s, struct zf_err *err)
{
    *r = (struct bucket_rows){.s = s};
    r->arena = zf_arena_new(s->lim->model_memory, err);
    if (!r->arena || !rows_list(r, err) || !rows_measure(r, err))
        return false;
    rows_sizes(r);
    return rows_add_tied(r, err);
}

void bucket_rows_fini(struct bucket_rows *r)
{
    zf_vec_fini(&r->candidate);
    zf_table_free(r->pieces);
    zf_table_free(r->rows);
    zf_arena_free(r->arena);
}

/* ---- orders ------------------------------------------------------------------------------- */

/* Sort keys of a candidate, the most significant first. */
struct rows_key {
    uint64_t by[7];
    uint32_t candidate;
};

static void rows_key(const struct bucket_rows *r, uint32_t i, enum bucket_order order, bool grouped,
                     struct rows_key *k)
{
    const struct bucket_candidate *t = &r->candidate.at[i];
    uint64_t expert = t->expert == MG_NONE ? 0 : t->expert;
    uint64_t own = t->order, top = t->stack_order, expert_order = t->expert_order;

    if (order != BUCKET_STORED) {
        bool fc2 = t->name.n > 5 && memmem(t->name.p, t->name.n, "linear_fc2.", 11) != NULL;

        top = bucket_order_top(t->name);
        expert_order = t->rest ? bucket_order_module(t->name, t->rest, order) : 0;
        own = (t->expert != MG_NONE ? fc2 * 8u : 0) + bucket_order_ending(t->name);
    }
    *k = (struct rows_key){.candidate = i};
    k->by[0] = top;
    k->by[1] = t->rest ? t->layer : 0;
    k->by[2] = expert_order;
    k->by[3] = grouped ? own : expert;
    k->by[4] = grouped ? expert : own;
    k->by[5] = i;
}

static int rows_by_key(const void *a, const void *b)
{
    const struct rows_key *x = a, *y = b;

    for (int i = 0; i < 7; i++)
        if (x->by[i] != y->by[i])
            return x->by[i] < y->by[i] ? 1 : -1; /* buffers are filled from the back */
    return 0;
}

static const uint32_t *rows_sorted(struct bucket_rows *r, enum bucket_order order, bool grouped,
                                   struct zf_err *err)
{
    uint32_t *out = r->sorted[order][grouped];
    size_t n = r->candidate.n;

    if (out)
        return out;
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(r->s->lim->model_memory, err);
    struct rows_key *key = scratch ? zf_arena_get(scratch, n, sizeof *key, err) : NULL;
    out = key ? zf_arena_get(r->arena, n, sizeof *out, err) : NULL;
    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++)
        rows_key(r, (uint32_t)i, order, grouped, &key[i]);
    if (n > 0)
        qsort(key, n, sizeof *key, rows_by_key);
    for (size_t i = 0; i < n; i++)
        out[i] = key[i].candidate;
    return r->sorted[order][grouped] = out;
}

/* ---- pieces ------------------------------------------------------------------------------- */

/* *dim: the dimension along which a parameter is cut over n ranks, ndim = none; *chunks: its chunks per
 * rank.  False: it is cut in another way. */
static bool rows_cut_dim(const struct mg_param *p, uint64_t n, uint32_t *dim, uint64_t *chunks)
{
    const uint64_t *cuts = rows_cuts(p);

    *dim = p->type.ndim;
    *chunks = 1;
    for (uint32_t d = 0; cuts && d < p->type.ndim; d++) {
        if (cuts[d] > 1) {
            if (*dim < p->type.ndim || cuts[d] % n || p->type.shape[d] % cuts[d])
                return false;
            *dim = d;
            *chunks = cuts[d] / n;
        }
    }
    return *chunks <= ROWS_CHUNKS;
}

/* The shard whose boxes are added: rank t of n. */
struct rows_share {
    uint64_t n, t, shift; /* shift: row of the full parameter at which the current part begins */
    struct bucket_box *box;
};

static bool rows_add_boxes(struct bucket_rows *r, const struct mg_param *p,
                           const struct rows_share *share, struct bucket_piece *out,
                           struct zf_err *err)
{
    uint32_t dim, nd = p->type.ndim;
    uint64_t chunks;

    if (!rows_cut_dim(p, share->n, &dim, &chunks)) {
        out->n_boxes = UINT32_MAX;
        return true;
    }
    for (uint64_t k = 0; k < chunks; k++) {
        uint64_t *start = zf_arena_get(r->arena, (uint64_t)nd + 1, 2 * sizeof *start, err);
        uint64_t *size = start ? start + nd : NULL, volume = 1;

        if (!size)
            return false;
        for (uint32_t d = 0; d < nd; d++) {
            size[d] = p->type.shape[d];
            if (d == dim) {
                size[d] /= share->n * chunks;
                start[d] = (k * share->n + share->t) * size[d];
            }
            volume *= size[d];
        }
        if (nd > 0)
            start[0] += share->shift;
        share->box[out->n_boxes++] = (struct bucket_box){start, size};
        out->n += volume;
    }
    return true;
}

struct rows_piece {
    UT_hash_handle hh;
    struct bucket_piece *piece; /* NULL = there is none */
    bool known;
};

/* Rank t's piece of a parameter; *out = NULL if it is cut in an unknown way. */
static bool rows_piece(struct bucket_rows *r, const struct bucket_candidate *candidate, uint64_t n,
                       uint64_t t, struct bucket_piece **out, struct zf_err *err)
{
    const struct mg_param *p = &r->s->param.at[candidate->param];
    uint32_t n_parts = rows_parts(p);
    uint64_t most = 1;

    for (uint32_t k = 0; k < n_parts; k++) {
        uint64_t cuts = rows_most_cuts(rows_part(r, p, k));

        most = cuts > most ? cuts : most;
    }
    const uint64_t place[3] = {candidate->param, most > 1 ? n : 1, most > 1 ? t : 0};
    uint64_t hash = zf_hash(5, place, sizeof place);
    struct rows_piece *kept = zf_table_make_id(r->pieces, hash, err);
    *out = kept ? kept->piece : NULL;
    if (!kept || kept->known)
        return kept != NULL;
    struct bucket_piece *piece = zf_arena_get(r->arena, 1, sizeof *piece, err);
    struct rows_share share = {.n = place[1], .t = place[2]};
    share.box =
        piece ? zf_arena_get(r->arena, (uint64_t)n_parts * ROWS_CHUNKS, sizeof *share.box, err)
              : NULL;
    if (!share.box)
        return false;
    piece->weight = (uint32_t)candidate->param;
    piece->box = share.box;
    for (uint32_t k = 0; k < n_parts && piece->n_boxes != UINT32_MAX; k++) {
        const struct mg_param *q = rows_part(r, p, k);

        if (!rows_add_boxes(r, q, &share, piece, err))
            return false;
        share.shift += q->type.ndim ? q->type.shape[0] : 0;
    }
    kept->known = true;
    kept->piece = piece->n_boxes == UINT32_MAX ? NULL : piece;
    *out = kept->piece;
    return true;
}

static bool rows_has(const struct bucket_rows *r, const struct bucket_candidate *t,
                     const struct bucket_rank *rank)
{
    if (r->s->param.at[t->param].type.dtype != rank->dtype)
        return false;
    if (t->expert == MG_NONE)
        return rank->class != BUCKET_EXPERTS;
    uint64_t share = r->n_experts / rank->n_expert;

    return rank->class != BUCKET_DENSE && t->expert / share == rank->expert;
}

static bool rows_make(struct bucket_rows *r, const struct bucket_rank *rank, struct bucket_row *out,
                      struct zf_err *err)
{
    const uint32_t *sorted = rows_sorted(r, rank->order, rank->grouped, err);
    size_t n = r->candidate.n, has = 0;

    *out = (struct bucket_row){0};
    for (size_t i = 0; i < n; i++)
        has += rows_has(r, &r->candidate.at[i], rank);
    out->piece = sorted ? zf_arena_get(r->arena, has, sizeof(*out->piece), err) : NULL;
    out->walk = out->piece ? zf_arena_get(r->arena, has, sizeof *out->walk, err) : NULL;
    for (size_t i = 0; out->walk && i < n; i++) {
        const struct bucket_candidate *t = &r->candidate.at[sorted[i]];
        bool expert = t->expert != MG_NONE;
        struct bucket_piece *piece = NULL;

        if (!rows_has(r, t, rank))
            continue;
        if (!rows_piece(r, t, expert ? r->n_expert_tensor : r->n_tensor,
                        expert ? rank->expert_tensor : rank->tensor, &piece, err))
            return false;
        if (piece) {
            out->piece[out->n] = piece;
            out->walk[out->n++] = (struct walk_piece){piece->n, t->unit};
        }
    }
    return out->walk != NULL;
}

struct rows_made {
    UT_hash_handle hh;
    struct bucket_row *row;
};

const struct bucket_row *bucket_rows_get(struct bucket_rows *r, const struct bucket_rank *rank,
                                         struct zf_err *err)
{
    const uint64_t key[8] = {rank->order,  rank->class,         rank->grouped,  rank->tensor,
                             rank->expert, rank->expert_tensor, rank->n_expert, rank->dtype};
    struct rows_made *made = zf_table_make(r->rows, key, sizeof key, err);

    if (!made || made->row)
        return made ? made->row : NULL;
    struct bucket_row *row = zf_arena_get(r->arena, 1, sizeof *row, err);
    if (!row || !rows_make(r, rank, row, err))
        return NULL;
    return made->row = row;
}
