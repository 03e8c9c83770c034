/* SPDX-License-Identifier: Apache-2.0 */
/* Source: megatron/core/tensor_parallel (how each rank's piece is cut), tools/checkpoint (how they are
 * put together again), 0.4 … 0.19. */
#include "join.h"

#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/out.h>

#include "layers.h"

static bool join_reason(const struct legacy_join *j, const struct legacy_part *p,
                        struct zf_err *err)
{
    (void)zf_err_in(err, "\"%.100s\"", p->name);
    return zf_err_in(err, "%s!", j->files->file[p->file].dir);
}

/* ---- names ---- */

/* The name in the whole model, in the arena. */
static const char *join_name(struct legacy_join *j, const struct legacy_layers *l,
                             const struct legacy_part *p, const struct legacy_name *name,
                             size_t *n_out, struct zf_err *err)
{
    const struct legacy_file *f = &j->files->file[p->file];
    uint64_t per_rank = j->settings->num_experts / zf_mesh_parts(&j->files->mesh, ZF_AXIS_EXPERT);
    size_t at = name->stack.n + name->layer_n, end = name->expert_at + name->expert_n;
    zf_auto(out) struct zf_out out = {0};

    zf_out_add(&out, name->stack.p ? name->stack.p : "", name->stack.n);
    if (name->layer_n > 0) {
        zf_out_dec(&out, legacy_layers_number(l, name, p->chunk, f->at.at[ZF_AXIS_PIPELINE]));
    }
    if (name->expert_n > 0) {
        zf_out_add(&out, p->name + at, name->expert_at - at);
        zf_out_dec(&out, f->at.at[ZF_AXIS_EXPERT] * per_rank + name->expert);
        at = end;
    }
    zf_out_add(&out, p->name + at, p->name_n - at);
    if (!zf_out_ok(&out, err)) {
        return NULL;
    }
    *n_out = out.n;
    return zf_arena_str(j->a, zf_out_text(&out), out.n, err);
}

static bool join_expert_is_there(const struct legacy_join *j, const struct legacy_name *name,
                                 struct zf_err *err)
{
    uint64_t n = j->settings->num_experts;
    uint32_t ranks = zf_mesh_parts(&j->files->mesh, ZF_AXIS_EXPERT);

    if (name->expert_n == 0 || (n % ranks == 0 && name->expert < n / ranks)) {
        return true;
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "it is of the rank's expert %llu, but args.num_experts is %llu on %u ranks",
                   (unsigned long long)name->expert, (unsigned long long)n, ranks);
}

struct legacy_number {
    UT_hash_handle hh; /* key: the name */
    size_t number;
};

static struct legacy_whole *join_lookup(const struct legacy_join *j, const char *name, size_t n)
{
    const struct legacy_number *found = zf_table_find(j->by_name, name, n);

    return found ? &j->whole.at[found->number] : NULL;
}

const struct legacy_whole *legacy_join_find(const struct legacy_join *j, const char *name, size_t n)
{
    return join_lookup(j, name, n);
}

/* ---- how one tensor is cut ---- */

static int join_dimension(enum legacy_cut cut)
{
    return cut == LEGACY_COPY ? -1 : cut == LEGACY_COLUMNS ? 1 : 0;
}

/* Modules that some specs cut and others do not: args know all of their rows, or the master. */
static bool join_either(const struct legacy_part *p, struct legacy_name *name, uint32_t ranks,
                        struct zf_err *err)
{
    uint64_t rows = name->shape[0];

    if (name->cut != LEGACY_EITHER) {
        return true;
    }
    if (rows == 0 && p->attr == LEGACY_ATTR_UNSAID && ranks > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "neither args nor attributes say whether ranks share it");
    }
    name->cut = rows > 0 ? (p->shape[0] == rows ? LEGACY_COPY : LEGACY_ROWS)
                         : (p->attr == LEGACY_ATTR_CUT ? LEGACY_ROWS : LEGACY_COPY);
    return true;
}

/* The attributes that were saved with the master must say what the table says. */
static bool join_attr_agrees(const struct legacy_join *j, const struct legacy_part *p,
                             enum legacy_cut cut, uint32_t n_slots, struct zf_err *err)
{
    int dim = join_dimension(cut);

    if (p->attr == LEGACY_ATTR_UNSAID || zf_mesh_parts(&j->files->mesh, ZF_AXIS_TENSOR) == 1) {
        return true;
    }
    if (p->attr == LEGACY_ATTR_WHOLE) {
        return dim < 0 || n_slots == 1 ||
               zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it should be cut along dimension %d, but by its master's attributes it is "
                       "not cut",
                       dim);
    }
    if (dim < 0 || (uint32_t)dim != p->attr_dim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "by its name it is cut along dimension %d (-1: none), by its master's "
                       "attributes along %u",
                       dim, p->attr_dim);
    }
    return p->attr_stride <= 1 || cut == LEGACY_GATED ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "its master's attributes say %u interleaved parts a rank, its name one",
                   p->attr_stride);
}

/* All of dimension d, if every slot is like this part. */
static bool join_extent(const struct legacy_part *p, const struct legacy_name *name,
                        uint32_t n_slots, uint32_t d, uint64_t *out, struct zf_err *err)
{
    bool cut = join_dimension(name->cut) == (int)d;

    if (!zf_mul(p->shape[d], cut ? n_slots : 1, out)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its extents multiply beyond 64 bits");
    }
    if (name->shape[d] == 0 && cut && n_slots > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "args do not say how long all of dimension %u is", d);
    }
    return name->shape[d] == 0 || *out == name->shape[d] ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "dimension %u of all ranks together is %llu, but args demand %llu", d,
                   (unsigned long long)*out, (unsigned long long)name->shape[d]);
}

/* Fills the shape of the whole that this part is of. */
static bool join_shape(const struct legacy_part *p, const struct legacy_name *name,
                       struct legacy_whole *w, struct zf_err *err)
{
    for (uint32_t d = 0; d < p->ndim; d++) {
        if (!join_extent(p, name, w->n_slots, d, &w->shape[d], err)) {
            return false;
        }
    }
    if (name->cut == LEGACY_GATED && p->shape[0] % 2 != 0) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "its %llu rows are not two halves of a gated unit",
                       (unsigned long long)p->shape[0]);
    }
    return true;
}

/* ---- one part ---- */

/* Is it a copy by its rows that is marked as cut?  Transformer Engine marks every linear weight so, those that all ranks
 * have too.  Source: set_tensor_parallel_attributes of transformer_engine/pytorch/module/linear.py (1.x, 2.x);
 * megatron/core/extensions/transformer_engine.py, TELinear with parallel_mode "duplicated" (core 0.16; not in 0.12). */
static bool join_marked_only(const struct legacy_part *p, const struct legacy_name *name)
{
    return name->cut == LEGACY_COPY && p->attr == LEGACY_ATTR_CUT && p->attr_dim == 0;
}

/* The whole of the part as it is described by this part alone. */
static bool join_describe(struct legacy_join *j, const struct legacy_part *p,
                          struct legacy_name *name, struct legacy_whole *w, struct zf_err *err)
{
    uint32_t ranks = name->expert_n > 0 ? j->files->expert_tensor
                                        : zf_mesh_parts(&j->files->mesh, ZF_AXIS_TENSOR);
    const bool either = name->cut == LEGACY_EITHER;

    if (p->ndim != name->ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it has %u dimensions, expected %u", p->ndim,
                       name->ndim);
    }
    if (!join_either(p, name, ranks, err)) {
        return false;
    }
    w->cut = name->cut;
    w->dtype = p->dtype;
    w->ndim = p->ndim;
    w->n_slots = name->cut == LEGACY_COPY ? 1 : ranks;
    return ((either && join_marked_only(p, name)) ||
            join_attr_agrees(j, p, name->cut, w->n_slots, err)) &&
           join_shape(p, name, w, err);
}

static bool join_same(const struct legacy_whole *a, const struct legacy_whole *b,
                      struct zf_err *err)
{
    if (a->dtype != b->dtype || a->cut != b->cut || a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its type or shape is another one than on the ranks before");
    }
    return true;
}

static bool join_add_whole(struct legacy_join *j, const struct legacy_whole *w, struct zf_err *err)
{
    struct legacy_number *number = zf_table_make(j->by_name, w->name, w->name_n, err);
    struct legacy_whole *new = number ? zf_vec_push(&j->whole, err) : NULL;

    if (!new) {
        return false;
    }
    number->number = j->whole.n - 1;
    *new = *w;
    new->tied = legacy_names_tied(w->name, w->name_n);
    new->slot = zf_arena_get(j->a, w->n_slots, sizeof *new->slot, err);
    return new->slot != NULL;
}

/* How many experts have this tensor of their layer. */
struct join_experts {
    UT_hash_handle hh; /* of the name without the expert's number */
    uint64_t n;
    const char *name; /* of one of them */
};

static bool join_count_expert(struct join_experts **experts, const struct legacy_whole *w,
                              const struct legacy_part *p, const struct legacy_name *name,
                              struct zf_err *err)
{
    size_t rest = p->name_n - name->expert_at - name->expert_n;
    size_t digits = w->name_n - rest, end = digits;
    struct join_experts *e;

    if (name->expert_n == 0) {
        return true;
    }
    while (digits > 0 && w->name[digits - 1] >= '0' && w->name[digits - 1] <= '9') {
        digits--;
    }
    e = zf_table_make_id(*experts, zf_hash(zf_hash(0, w->name, digits), w->name + end, rest), err);
    if (e) {
        e->n++;
        e->name = w->name;
    }
    return e != NULL;
}

static bool join_experts_complete(const struct legacy_join *j, const struct join_experts *experts,
                                  struct zf_err *err)
{
    for (const struct join_experts *e = experts; e; e = e->hh.next) {
        if (e->n != j->settings->num_experts) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%llu experts have a tensor like \"%.120s\", but args.num_experts is %llu",
                (unsigned long long)e->n, e->name, (unsigned long long)j->settings->num_experts);
        }
    }
    return true;
}

static bool join_part(struct legacy_join *j, const struct legacy_layers *l, uint32_t i,
                      struct join_experts **experts, struct zf_err *err)
{
    struct legacy_part *p = &j->part[i];
    const struct legacy_file *f = &j->files->file[p->file];
    struct legacy_name name;
    struct legacy_whole w = {0};
    struct legacy_whole *have;

    if (!legacy_names_parse(p->name, p->name_n, j->settings, &name)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.120s\" is not known", p->name);
    }
    if (!join_expert_is_there(j, &name, err) || !join_describe(j, p, &name, &w, err)) {
        return join_reason(j, p, err);
    }
    w.name = join_name(j, l, p, &name, &w.name_n, err);
    if (!w.name) {
        return false;
    }
    have = join_lookup(j, w.name, w.name_n);
    if (have && !join_same(have, &w, err)) {
        return join_reason(j, p, err);
    }
    if (!have && (!join_add_whole(j, &w, err) || !join_count_expert(experts, &w, p, &name, err))) {
        return false;
    }
    have = have ? have : &j->whole.at[j->whole.n - 1];
    p->whole = (uint32_t)(have - j->whole.at);
    p->slot = have->cut == LEGACY_COPY ? 0
              : name.expert_n > 0      ? f->expert_tensor
                                       : f->at.at[ZF_AXIS_TENSOR];
    have->slot[p->slot] = have->slot[p->slot] ? have->slot[p->slot] : i + 1;
    p->first = have->slot[p->slot] - 1;
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

/* Does every layer of the stacks have a tensor? */
static bool join_layers_complete(const struct legacy_join *j, const struct legacy_layers *l,
                                 struct zf_err *err)
{
    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        uint64_t n = l->name[s] ? l->total[s] : 0, left = n;
        bool *seen = zf_arena_get(j->a, n, sizeof *seen, err);

        if (!seen) {
            return false;
        }
        for (uint32_t i = 0; left > 0 && i < j->n_parts; i++) {
            const struct legacy_part *p = &j->part[i];
            struct legacy_name name;

            if (!legacy_names_parse(p->name, p->name_n, j->settings, &name) || name.stack.n == 0 ||
                name.stack_id != s) {
                continue;
            }
            uint64_t at = legacy_layers_number(l, &name, p->chunk,
                                               j->files->file[p->file].at.at[ZF_AXIS_PIPELINE]);
            left -= !seen[at];
            seen[at] = true;
        }
        for (uint64_t k = 0; k < n; k++) {
            if (!seen[k]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "layer %llu of \"%s\" is in no file",
                               (unsigned long long)k, l->name[s]);
            }
        }
    }
    return true;
}

struct join_layer {
    UT_hash_handle hh; /* key: its number */
};

/* Layers of multi-token prediction carry the whole model's numbers.  Fewer than args say may be stored (one
 * that is used again and again), but none that args do not know, and none is missing in between. */
static bool join_mtp_complete(const struct legacy_join *j, struct zf_err *err)
{
    uint64_t most = j->settings->mtp_num_layers ? j->settings->mtp_num_layers : 1u << 20;
    uint64_t end = 0;
    zf_auto(uthash) struct join_layer *seen = NULL;

    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &j->part[i];
        struct legacy_name name;

        if (!legacy_names_parse(p->name, p->name_n, j->settings, &name) || !name.mtp) {
            continue;
        }
        if (name.layer >= most) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "args.mtp_num_layers is %llu",
                          (unsigned long long)most);
            return join_reason(j, p, err);
        }
        end = name.layer >= end ? name.layer + 1 : end;
        if (!zf_table_make_id(seen, name.layer, err)) {
            return false;
        }
    }
    return HASH_COUNT(seen) == end ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%u layers of \"mtp.layers.\" are there, and one is number %llu",
                   HASH_COUNT(seen), (unsigned long long)end - 1);
}

/* Where in the model a part is: stages within chunks. */
static uint64_t join_position(const struct legacy_join *j, const struct legacy_part *p)
{
    return (uint64_t)p->chunk * zf_mesh_parts(&j->files->mesh, ZF_AXIS_PIPELINE) +
           j->files->file[p->file].at.at[ZF_AXIS_PIPELINE];
}

static bool join_is_embedding(const struct legacy_part *p)
{
    return strcmp(p->name, "embedding.word_embeddings.weight") == 0 ||
           strcmp(p->name, "language_model.embedding.word_embeddings.weight") == 0;
}

/* The first stage has the embedding, if there is one (others may have copies), and no layer is behind the
 * last norm of its stack. */
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
        if (stack >= 0) {
            norm[stack] = p;
        }
    }
    if (embedding && !first) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "it is not on the first stage: stages were exchanged");
        return join_reason(j, embedding, err);
    }
    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &j->part[i];
        struct legacy_name name;

        if (legacy_names_parse(p->name, p->name_n, j->settings, &name) && name.stack.n > 0 &&
            norm[name.stack_id] && join_position(j, p) > join_position(j, norm[name.stack_id])) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "it is behind \"%.60s\" in %s: stages were exchanged",
                          norm[name.stack_id]->name, j->files->file[norm[name.stack_id]->file].dir);
            return join_reason(j, p, err);
        }
    }
    return true;
}

bool legacy_join(struct legacy_join *j, struct zf_err *err)
{
    zf_auto(uthash) struct join_experts *experts = NULL;
    struct legacy_layers l;

    if (!legacy_layers_count(&l, j, err)) {
        return false;
    }
    for (uint32_t i = 0; i < j->n_parts; i++) {
        if (!join_part(j, &l, i, &experts, err)) {
            return false;
        }
    }
    return join_stages_in_order(j, err) && join_mtp_complete(j, err) && join_complete(j, err) &&
           join_layers_complete(j, &l, err) && join_experts_complete(j, experts, err);
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

    if (k >= halves) {
        return false;
    }
    *out = (struct legacy_box){.size = {rows, columns}, .row = k * rows};
    if (w->cut == LEGACY_COLUMNS) {
        out->start[1] = slot * columns;
    } else if (w->cut != LEGACY_COPY) {
        out->start[0] = k * (w->shape[0] / halves) + slot * rows;
    }
    return true;
}
