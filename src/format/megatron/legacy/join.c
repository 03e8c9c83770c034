/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the ranks' parts.  Source: megatron/core/tensor_parallel (how tensors are sharded),
 * tools/checkpoint (how shards are joined), 0.4 … 0.19. */
#include "save.h"

#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>

static bool join_reason(const struct legacy_join *j, const struct legacy_part *p,
                        struct zf_err *err)
{
    (void)zf_err_in(err, "\"%.100s\"", p->name);
    return zf_err_in(err, "%s!", j->files->file[p->file].dir);
}

/* ---- names ---- */

static uint64_t join_experts_each(const struct legacy_join *j)
{
    return j->settings->num_experts / zf_mesh_parts(&j->files->mesh, ZF_AXIS_EXPERT);
}

/* The number of the part's expert in the whole model. */
static uint64_t join_expert(const struct legacy_join *j, const struct legacy_part *p)
{
    return j->files->file[p->file].at.at[ZF_AXIS_EXPERT] * join_experts_each(j) + p->is.expert;
}

/* The part's name in the whole model, as one of that expert. */
static bool join_name(const struct legacy_part *p, uint64_t expert, struct zf_out *out,
                      struct zf_err *err)
{
    const struct legacy_name *is = &p->is;
    size_t at = is->stack.n + is->layer_n;

    out->n = 0;
    zf_out_add(out, p->name, is->stack.n);
    if (is->layer_n > 0)
        zf_out_dec(out, p->layer);
    if (is->expert_n > 0) {
        zf_out_add(out, p->name + at, is->expert_at - at);
        zf_out_dec(out, expert);
        at = is->expert_at + is->expert_n;
    }
    zf_out_add(out, p->name + at, p->name_n - at);
    return zf_out_ok(out, err);
}

static bool join_expert_is_there(const struct legacy_join *j, const struct legacy_part *p,
                                 struct zf_err *err)
{
    uint64_t n = j->settings->num_experts;
    uint32_t ranks = zf_mesh_parts(&j->files->mesh, ZF_AXIS_EXPERT);

    if (p->is.expert_n == 0 || (n % ranks == 0 && p->is.expert < n / ranks))
        return true;
    return zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "it belongs to expert %llu of the rank, but args.num_experts is %llu on %u ranks",
        (unsigned long long)p->is.expert, (unsigned long long)n, ranks);
}

struct legacy_number {
    UT_hash_handle hh; /* key: the name */
    size_t number;
};

struct legacy_whole *legacy_join_find(const struct legacy_join *j, const char *name, size_t n)
{
    const struct legacy_number *found = zf_table_find(j->by_name, name, n);

    return found ? &j->whole.at[found->number] : NULL;
}

/* ---- the sharding of one tensor ---- */

static int join_dimension(enum legacy_cut cut)
{
    return cut == LEGACY_COPY ? -1 : cut == LEGACY_COLUMNS ? 1 : 0;
}

/* Decides whether a module is sharded that some specs shard and others do not: by its full size from args, or by
 * the master's attributes. */
static bool join_either(struct legacy_part *p, uint32_t ranks, struct zf_err *err)
{
    struct legacy_name *name = &p->is;
    uint64_t rows = name->shape[0];

    if (name->cut != LEGACY_EITHER)
        return true;
    if (rows == 0 && p->attr == LEGACY_ATTR_UNSAID && ranks > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "neither args nor its attributes record whether it is replicated");
    }
    name->cut = rows > 0 ? (p->weight.ref.shape[0] == rows ? LEGACY_COPY : LEGACY_ROWS)
                         : (p->attr == LEGACY_ATTR_CUT ? LEGACY_ROWS : LEGACY_COPY);
    return true;
}

/* GroupedMLP: the experts of a single rank can be shown as they are; those of several ranks cannot be joined to a matrix.
 * Source: GroupedMLP of megatron/core/transformer/moe/experts.py (0.8 … 0.16), weight1.view(experts, hidden, -1). */
static bool join_alone(const struct legacy_join *j, struct legacy_part *p, struct zf_err *err)
{
    const struct zf_mesh *m = &j->files->mesh;

    if (p->is.cut != LEGACY_ALONE)
        return true;
    if (zf_mesh_parts(m, ZF_AXIS_TENSOR) > 1 || zf_mesh_parts(m, ZF_AXIS_EXPERT) > 1 ||
        j->files->expert_tensor > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "it holds all experts of a rank (GroupedMLP), which zerofs does not join "
                       "over %u tensor and %u expert ranks",
                       zf_mesh_parts(m, ZF_AXIS_TENSOR), zf_mesh_parts(m, ZF_AXIS_EXPERT));
    }
    p->is.cut = LEGACY_COPY;
    return true;
}

/* Checks that the attributes saved with the master agree with the table. */
static bool join_attr_agrees(const struct legacy_join *j, const struct legacy_part *p,
                             enum legacy_cut cut, uint32_t n_slots, struct zf_err *err)
{
    int dim = join_dimension(cut);

    if (p->attr == LEGACY_ATTR_UNSAID || zf_mesh_parts(&j->files->mesh, ZF_AXIS_TENSOR) == 1)
        return true;
    if (p->attr == LEGACY_ATTR_WHOLE) {
        return dim < 0 || n_slots == 1 ||
               zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "by its name it is cut along dimension %d, but by its master's attributes "
                       "it is not cut",
                       dim);
    }
    if (dim < 0 || (uint32_t)dim != p->attr_dim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "by its name it is cut along dimension %d (-1: none), but by its master's "
                       "attributes along %u",
                       dim, p->attr_dim);
    }
    return p->attr_stride <= 1 || cut == LEGACY_GATED ||
           zf_fail(
               err, ZF_E_FORMAT, ZF_OFF_NONE,
               "by its master's attributes each rank has %u interleaved parts, but by its name one",
               p->attr_stride);
}

/* The full size of dimension d, if every slot is like this part. */
static bool join_extent(const struct legacy_part *p, uint32_t n_slots, uint32_t d, uint64_t *out,
                        struct zf_err *err)
{
    const struct legacy_name *name = &p->is;
    bool cut = join_dimension(name->cut) == (int)d;

    if (!zf_mul(p->weight.ref.shape[d], cut ? n_slots : 1, out))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the product of its sizes exceeds 64 bits");
    if (name->shape[d] == 0 && cut && n_slots > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "args do not record the full length of dimension %u", d);
    }
    return name->shape[d] == 0 || *out == name->shape[d] ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "dimension %u of all ranks together is %llu, but by args it is %llu", d,
                   (unsigned long long)*out, (unsigned long long)name->shape[d]);
}

/* Sets the shape of the whole tensor that this part belongs to. */
static bool join_shape(const struct legacy_part *p, struct legacy_whole *w, struct zf_err *err)
{
    for (uint32_t d = 0; d < w->ndim; d++)
        if (!join_extent(p, w->n_slots, d, &w->shape[d], err))
            return false;
    if (w->cut == LEGACY_GATED && p->weight.ref.shape[0] % 2 != 0) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "its %llu rows cannot be the two halves of a gated linear unit",
                       (unsigned long long)p->weight.ref.shape[0]);
    }
    return true;
}

/* ---- one part ---- */

/* Is the part a full copy, by its rows, although it is marked as sharded?  Transformer Engine marks every linear weight,
 * replicated ones, too.  Source: set_tensor_parallel_attributes of transformer_engine/pytorch/module/linear.py (1.x, 2.x);
 * megatron/core/extensions/transformer_engine.py, TELinear with parallel_mode "duplicated" (core 0.16; not in 0.12). */
static bool join_marked_only(const struct legacy_part *p)
{
    return p->is.cut == LEGACY_COPY && p->attr == LEGACY_ATTR_CUT && p->attr_dim == 0;
}

/* Describes the whole tensor from this part alone. */
static bool join_describe(const struct legacy_join *j, struct legacy_part *p,
                          struct legacy_whole *w, struct zf_err *err)
{
    uint32_t ranks = p->is.expert_n > 0 ? j->files->expert_tensor
                                        : zf_mesh_parts(&j->files->mesh, ZF_AXIS_TENSOR);
    const bool either = p->is.cut == LEGACY_EITHER;

    *w = (struct legacy_whole){.dtype = p->weight.ref.dtype, .ndim = p->weight.ref.ndim};
    if (w->ndim != p->is.ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it has %u dimensions, expected %u", w->ndim,
                       p->is.ndim);
    }
    if (!join_either(p, ranks, err) || !join_alone(j, p, err))
        return false;
    w->cut = p->is.cut;
    w->n_slots = w->cut == LEGACY_COPY ? 1 : ranks;
    return ((either && join_marked_only(p)) || join_attr_agrees(j, p, w->cut, w->n_slots, err)) &&
           join_shape(p, w, err);
}

static bool join_same(const struct legacy_whole *a, const struct legacy_whole *b,
                      struct zf_err *err)
{
    if (a->dtype != b->dtype || a->cut != b->cut || a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its dtype or shape differs from that on earlier ranks");
    }
    return true;
}

static bool join_add_whole(struct legacy_join *j, const struct legacy_whole *w, struct zf_err *err)
{
    struct legacy_number *number = zf_table_make(j->by_name, w->name, w->name_n, err);
    struct legacy_whole *new = number ? zf_vec_push(&j->whole, err) : NULL;

    if (!new)
        return false;
    number->number = j->whole.n - 1;
    *new = *w;
    new->tied = legacy_names_tied(w->name, w->name_n);
    new->slot = zf_arena_get(j->a, w->n_slots, sizeof *new->slot, err);
    return new->slot != NULL;
}

static bool join_part(struct legacy_join *j, uint32_t i, struct zf_out *name, struct zf_err *err)
{
    struct legacy_part *p = &j->part[i];
    const struct legacy_file *f = &j->files->file[p->file];
    struct legacy_whole w, *have;

    if (!join_expert_is_there(j, p, err) || !join_describe(j, p, &w, err))
        return join_reason(j, p, err);
    if (!join_name(p, join_expert(j, p), name, err))
        return false;
    w.name_n = name->n;
    have = legacy_join_find(j, zf_out_text(name), name->n);
    if (have && !join_same(have, &w, err))
        return join_reason(j, p, err);
    if (!have && (!(w.name = zf_arena_str(j->a, zf_out_text(name), name->n, err)) ||
                  !join_add_whole(j, &w, err)))
        return false;
    have = have ? have : &j->whole.at[j->whole.n - 1];
    p->whole = (uint32_t)(have - j->whole.at);
    p->slot = have->cut == LEGACY_COPY ? 0
              : p->is.expert_n > 0     ? f->expert_tensor
                                       : f->at.at[ZF_AXIS_TENSOR];
    have->slot[p->slot] = have->slot[p->slot] ? have->slot[p->slot] : i + 1;
    p->first = have->slot[p->slot] - 1;
    return true;
}

/* ---- layers ---- */

/* The position of a stage's chunk in the model: stages within virtual chunks. */
static uint64_t join_position(const struct legacy_join *j, const struct legacy_part *p)
{
    return (uint64_t)p->chunk * zf_mesh_parts(&j->files->mesh, ZF_AXIS_PIPELINE) +
           j->files->file[p->file].at.at[ZF_AXIS_PIPELINE];
}

static uint64_t join_positions(const struct legacy_join *j)
{
    return (uint64_t)j->n_chunks * zf_mesh_parts(&j->files->mesh, ZF_AXIS_PIPELINE);
}

/* The entry in `begin` for the chunk with the part's layer.  Layers of multi-token prediction are numbered over the whole
 * model already, so they use the first chunk's. */
static uint64_t *join_begin(const struct legacy_join *j, const struct legacy_part *p)
{
    return &j->begin[p->is.stack_id * join_positions(j) + (p->is.mtp ? 0 : join_position(j, p))];
}

static uint64_t join_mtp_most(const struct legacy_join *j)
{
    return j->settings->mtp_num_layers ? j->settings->mtp_num_layers : 1u << 20;
}

/* Parses the names and counts the layers of each chunk: the highest number that a rank of its stage has. */
static bool join_count(struct legacy_join *j, struct zf_err *err)
{
    j->begin = zf_arena_get(j->a, LEGACY_STACKS * join_positions(j), sizeof *j->begin, err);
    for (uint32_t i = 0; j->begin && i < j->n_parts; i++) {
        struct legacy_part *p = &j->part[i];

        if (!legacy_names_parse(p->name, p->name_n, j->settings, &p->is)) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "the save does not record how \"%.120s\" is sharded", p->name);
        }
        if (p->is.mtp && p->is.layer >= join_mtp_most(j)) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "args.mtp_num_layers is %llu",
                          (unsigned long long)join_mtp_most(j));
            return join_reason(j, p, err);
        }
        if (p->is.stack.n > 0) {
            uint64_t *n = join_begin(j, p);

            j->stack[p->is.stack_id] = p->is.stack.p;
            *n = p->is.layer >= *n ? p->is.layer + 1 : *n;
        }
    }
    return j->begin != NULL;
}

/* Numbers the layers of the whole model.  Files number the layers of each chunk from 0, so the offset is the number of
 * layers in all chunks before, which also covers stages of unequal length.  Source: megatron/core/transformer/transformer_block.py,
 * transformer_layer.py (get_transformer_layer_offset), where uneven splits and layouts differ by version, but never this
 * order. */
static bool join_number(struct legacy_join *j, struct zf_err *err)
{
    uint64_t *at = j->begin;
    uint32_t n_stacks = 0;

    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        n_stacks += s != LEGACY_MTP && j->stack[s];
        for (uint64_t i = 0; i < join_positions(j); i++, at++) {
            uint64_t n = *at;

            *at = j->layers[s];
            j->layers[s] += n;
        }
    }
    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        if (s != LEGACY_MTP && j->stack[s] && j->layers[s] != j->settings->num_layers) {
            /* the stacks of an encoder and a decoder may have numbers of their own */
            return zf_fail(
                err, j->settings->num_layers && n_stacks == 1 ? ZF_E_FORMAT : ZF_E_UNSUPPORTED,
                ZF_OFF_NONE, "the files hold %llu layers of \"%s\", but args.num_layers is %llu",
                (unsigned long long)j->layers[s], j->stack[s],
                (unsigned long long)j->settings->num_layers);
        }
    }
    for (uint32_t i = 0; i < j->n_parts; i++) {
        struct legacy_part *p = &j->part[i];

        p->layer = p->is.stack.n > 0 ? *join_begin(j, p) + p->is.layer : 0;
    }
    return true;
}

/* Does every layer of the stacks have a tensor? */
static bool join_layers_complete(const struct legacy_join *j, struct zf_err *err)
{
    bool *seen[LEGACY_STACKS];

    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        seen[s] = zf_arena_get(j->a, j->layers[s], sizeof *seen[s], err);
        if (!seen[s])
            return false;
    }
    for (uint32_t i = 0; i < j->n_parts; i++)
        if (j->part[i].is.stack.n > 0)
            seen[j->part[i].is.stack_id][j->part[i].layer] = true;
    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        for (uint64_t k = 0; k < j->layers[s]; k++) {
            if (!seen[s][k]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "layer %llu of \"%s\" is in no file",
                               (unsigned long long)k, j->stack[s]);
            }
        }
    }
    return true;
}

/* ---- all ---- */

static bool join_complete(const struct legacy_join *j, struct zf_err *err)
{
    for (size_t i = 0; i < j->whole.n; i++) {
        const struct legacy_whole *w = &j->whole.at[i];

        for (uint32_t k = 0; k < w->n_slots; k++) {
            if (w->slot[k] == 0) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "part %u of %u of \"%.120s\" is in no file", k, w->n_slots, w->name);
            }
        }
    }
    return true;
}

/* Checks for each expert's tensor that the next expert has it, too; if that holds for all, none is missing. */
static bool join_experts_complete(const struct legacy_join *j, struct zf_err *err)
{
    uint64_t n = j->settings->num_experts;
    zf_auto(out) struct zf_out name = {0};

    for (size_t i = 0; i < j->whole.n; i++) {
        const struct legacy_part *p = &j->part[j->whole.at[i].slot[0] - 1];

        if (p->is.expert_n == 0)
            continue;
        if (!join_name(p, (join_expert(j, p) + 1) % n, &name, err))
            return false;
        if (!legacy_join_find(j, zf_out_text(&name), name.n)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.120s\" is in no file, but args.num_experts is %llu",
                           zf_out_text(&name), (unsigned long long)n);
        }
    }
    return true;
}

static bool join_is_embedding(const struct legacy_part *p)
{
    return strcmp(p->name, "embedding.word_embeddings.weight") == 0 ||
           strcmp(p->name, "language_model.embedding.word_embeddings.weight") == 0;
}

/* Checks that the first stage has the embedding, if there is one (others may have copies), and that no layer
 * comes after the last norm of its stack. */
static bool join_stages_in_order(const struct legacy_join *j, struct zf_err *err)
{
    const struct legacy_part *norm[LEGACY_STACKS] = {NULL}, *embedding = NULL;
    bool first = false;

    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &j->part[i];
        int stack = legacy_names_final(p->name, p->name_n);

        if (join_is_embedding(p)) {
            embedding = p;
            first = first || join_position(j, p) == 0;
        }
        if (stack >= 0)
            norm[stack] = p;
    }
    if (embedding && !first) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "it is not on the first stage: stages were exchanged");
        return join_reason(j, embedding, err);
    }
    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &j->part[i];
        const struct legacy_part *last = p->is.stack.n > 0 ? norm[p->is.stack_id] : NULL;

        if (last && join_position(j, p) > join_position(j, last)) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "it comes after \"%.60s\" in %s: stages were exchanged", last->name,
                          j->files->file[last->file].dir);
            return join_reason(j, p, err);
        }
    }
    return true;
}

bool legacy_join(struct legacy_join *j, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};

    if (!join_count(j, err) || !join_number(j, err))
        return false;
    for (uint32_t i = 0; i < j->n_parts; i++)
        if (!join_part(j, i, &name, err))
            return false;
    return join_stages_in_order(j, err) && join_complete(j, err) && join_layers_complete(j, err) &&
           join_experts_complete(j, err);
}

void legacy_join_fini(struct legacy_join *j)
{
    zf_vec_fini(&j->whole);
    zf_table_free(j->by_name);
}

bool legacy_join_box(const struct legacy_whole *w, uint32_t slot, const uint64_t *shape, uint32_t k,
                     struct legacy_box *out)
{
    uint64_t halves = w->cut == LEGACY_GATED ? 2 : 1;
    uint64_t rows = w->ndim > 0 ? shape[0] / halves : 1, columns = w->ndim > 1 ? shape[1] : 1;

    if (k >= halves)
        return false;
    *out = (struct legacy_box){.size = {rows, columns}, .row = k * rows};
    if (w->cut == LEGACY_COLUMNS)
        out->start[1] = slot * columns;
    else if (w->cut != LEGACY_COPY)
        out->start[0] = k * (w->shape[0] / halves) + slot * rows;
    return true;
}
