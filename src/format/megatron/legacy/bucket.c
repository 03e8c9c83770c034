/* SPDX-License-Identifier: Apache-2.0 */
/* Each flat buffer holds the masters, or moments, of one chunk of the model, concatenated.  The position of
 * each parameter is proved by bytes (bucket_walk.h); a buffer without a proved map is shown in bucket/.
 * Source: megatron/core/optimizer/distrib_optimizer.py (save_parameter_state,
 * get_parameter_state_dp_zero), 0.4 … 0.19: {"buckets_coalesced": True, gbuf: {(dtype, dtype):
 * {"param", "exp_avg", "exp_avg_sq", "numel_unpadded"}}}; for chained optimizers a list of these. */
#include "save.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/names.h>
#include <zf/assemble/torch_visit.h>
#include <zf/assemble/values.h>

#include "../bucket_walk.h"
#include "../keys.h"

#define BUCKET_ALIGN 64u /* elements; 1 up to core 0.7 */

/* ---- flat buffers without a map ---- */

struct bucket_reading {
    struct legacy_save *ls;
    struct legacy_rank *r;
    struct zf_torch *t;
    struct zf_out name;
};

static bool bucket_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct bucket_reading *x = ctx;
    struct legacy_unowned *f;

    if (zf_tensor_ref_odd(x->t, leaf->value, err)) {
        uint32_t n = leaf->path.n;
        const struct zf_step last = n ? leaf->path.step[n - 1] : (struct zf_step){.p = ""};
        char state[80];

        (void)snprintf(state, sizeof state, "%.*s", (int)(last.n < 70 ? last.n : 70), last.p);
        return zf_leave_out_state(x->ls->b, x->r->file->distrib, state, err);
    }
    if (leaf->kind != ZF_TORCH_DENSE)
        return true;
    f = zf_vec_push(&x->ls->flat, err);
    if (!f || !zf_path_join(&x->name, leaf->path, err) ||
        !(f->name = zf_arena_str(x->ls->a, zf_out_text(&x->name), x->name.n, err)))
        return false;
    x->r->n_flats++;
    return zf_tensor_ref_read(&x->ls->keep, x->t, leaf->value, &f->value.ref, err) ||
           zf_err_in(err, "%s![\"%.100s\"]", x->r->file->distrib, f->name);
}

/* ---- the map of a flat buffer ---- */

/* One vector of a buffer. */
struct bucket_vector {
    const char *key; /* "param", "exp_avg" */
    struct zf_tensor_ref ref;
};

/* A buffer, and the parts that it may hold. */
struct bucket_map {
    struct legacy_save *ls;
    struct legacy_rank *r;
    struct zf_torch *t;
    struct bucket_vector *vector;
    uint32_t n_vectors;
    struct zf_tensor_ref param; /* the masters */
    struct walk_piece *piece;
    struct walk_place *place;
    uint32_t *part; /* [n] index of each piece's part in the save */
    uint32_t n;
    struct zf_sample sample;
};

/* May the buffer contain this part?  expert: 0 = no experts, 1 = only experts, 2 = any. */
static bool bucket_may_have(const struct bucket_map *m, uint32_t i, uint32_t chunk, int expert)
{
    const struct legacy_part *p = &m->ls->part.at[i];
    const struct zf_tensor_ref *w = &p->weight.ref;
    bool of_expert = strstr(p->name, ".experts.") != NULL;

    return p->chunk == chunk && (expert == 2 || of_expert == (expert == 1)) && w->packed &&
           w->src && w->n > 0 && zf_values_can_round(m->param.dtype, w->dtype) &&
           zf_dtype_info(w->dtype)->kind == 'f' &&
           !mg_key_is_buffer((struct mg_text){p->name, p->name_n});
}

/* The length of the name's prefix that all parts of its layer share; 0 = not in a layer. */
static size_t bucket_layer(const char *name)
{
    const char *p = strstr(name, "layers.");
    size_t n = p ? strspn(p + 7, "0123456789") : 0;

    return n ? (size_t)(p - name) + 7 + n : 0;
}

/* The unit of a part: consecutive parts of one layer, either its dense ones or its experts. */
static uint32_t bucket_unit(const struct bucket_map *m, uint32_t k)
{
    const char *name = m->ls->part.at[m->part[k]].name;
    const char *last = k > 0 ? m->ls->part.at[m->part[k - 1]].name : "";
    size_t n = bucket_layer(name);
    uint32_t unit = k > 0 ? m->piece[k - 1].unit : 0;

    return n > 0 && bucket_layer(last) == n && memcmp(name, last, n) == 0 ? unit : unit + 1;
}

static bool bucket_pieces(struct bucket_map *m, uint32_t chunk, int expert, struct zf_err *err)
{
    struct zf_arena *a = m->ls->a;
    uint64_t elements = 0;

    m->piece = zf_arena_get(a, m->r->n_parts, sizeof *m->piece, err);
    m->place = zf_arena_get(a, m->r->n_parts, sizeof *m->place, err);
    m->part = zf_arena_get(a, m->r->n_parts, sizeof *m->part, err);
    if (!m->piece || !m->place || !m->part)
        return false;
    for (uint32_t i = m->r->first_part + m->r->n_parts; i-- > m->r->first_part;) {
        if (bucket_may_have(m, i, chunk, expert)) {
            m->part[m->n] = i;
            m->piece[m->n].n = m->ls->part.at[i].weight.ref.n;
            m->piece[m->n].unit = bucket_unit(m, m->n);
            elements += m->piece[m->n].n < UINT32_MAX ? m->piece[m->n].n : UINT32_MAX;
            m->n++;
        }
    }
    m->sample = zf_sample_of(elements, m->n);
    return true;
}

static bool bucket_same(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                        struct zf_err *err)
{
    const struct bucket_map *m = ctx;
    const struct zf_tensor_ref *w = &m->ls->part.at[m->part[piece]].weight.ref;
    struct zf_values master = {m->param.src, m->param.off, m->param.dtype};
    struct zf_mismatch miss;

    (void)bucket; /* all buckets are joined in one buffer */
    master.off += first * zf_dtype_info(master.dtype)->bytes;
    if (!zf_values_round_each(master, (struct zf_values){w->src, w->off, w->dtype}, w->n,
                              &m->sample, &miss, err))
        return false;
    *same = !miss.found;
    return true;
}

/* The elements from `first` on of a vector, in the shape of the weight. */
static struct zf_tensor_ref bucket_cut(const struct zf_tensor_ref *flat, uint64_t first,
                                       const struct zf_tensor_ref *w)
{
    struct zf_tensor_ref r = *w;

    r.src = flat->src;
    r.key = flat->key;
    r.dtype = flat->dtype;
    r.off = flat->off + first * zf_dtype_info(flat->dtype)->bytes;
    return r;
}

/* Reads the plain tensors of a buffer; bucket_leaf notes others. */
static bool bucket_vectors(struct bucket_map *m, const struct zf_pv *values, struct zf_err *err)
{
    m->vector = zf_arena_get(m->ls->a, zf_pv_len(values), sizeof *m->vector, err);
    for (uint64_t i = 0; m->vector && i < zf_pv_len(values); i++) {
        const struct zf_pv *key = zf_pv_key(values, i), *v = zf_pv_val(values, i);
        struct bucket_vector *to = &m->vector[m->n_vectors];
        struct zf_err ignored = {.code = ZF_OK};
        uint64_t n;
        const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

        if (!text || n == 0 || strlen(text) != n || zf_torch_kind(m->t, v) != ZF_TORCH_DENSE ||
            zf_tensor_ref_odd(m->t, v, &ignored))
            continue;
        if (!zf_tensor_ref_read(&m->ls->keep, m->t, v, &to->ref, err) ||
            !(to->key = zf_arena_str(m->ls->a, text, n, err)))
            return false;
        m->n_vectors++;
    }
    return m->vector != NULL;
}

/* Adds each piece of the vector to its parameter. */
static bool bucket_give(struct bucket_map *m, const struct bucket_vector *v, struct zf_err *err)
{
    for (uint32_t k = 0; k < m->n; k++) {
        const struct zf_tensor_ref *w = &m->ls->part.at[m->part[k]].weight.ref;
        const struct legacy_value value = {.key = v->key,
                                           .ref = bucket_cut(&v->ref, m->place[k].first, w)};

        if (m->place[k].there && !legacy_give(m->ls, m->part[k], &value, err))
            return false;
    }
    return true;
}

/* Records why a buffer has no map.  Its name in messages is "1.0": the optimizer's number, then the buffer's. */
static bool bucket_unmapped(struct bucket_map *m, uint64_t optimizer, uint64_t gbuf,
                            const char *why, struct zf_err *err)
{
    m->r->unmapped =
        zf_arena_fmt(m->ls->a, err, "%s: buffer %llu of optimizer %llu: %s", m->r->file->distrib,
                     (unsigned long long)gbuf, (unsigned long long)optimizer, why);
    return m->r->unmapped != NULL;
}

static const char *bucket_why(enum walk_kind kind)
{
    switch (kind) {
    case WALK_NONE:
        return "the masters round to the weights in no order of the parameters";
    case WALK_SEVERAL:
        return "the masters round to the weights in more than one order of the parameters";
    default:
        return "too many orders of the parameters fit the weights at their beginning";
    }
}

/* Proves the map.  One walk serves both alignments: pieces may follow each other without a gap.  *why NULL:
 * there is exactly one way. */
static bool bucket_prove(struct bucket_map *m, uint64_t len, const char **why, struct zf_err *err)
{
    const struct walk_in in = {.piece = m->piece,
                               .n_pieces = m->n,
                               .len = &len,
                               .n_buckets = 1,
                               .align = BUCKET_ALIGN,
                               .joined = true,
                               .most = m->ls->compares,
                               .same = bucket_same,
                               .ctx = m};
    struct walk_result found = {.kind = WALK_MANY};

    if (in.most > 0 && !bucket_walk(&in, m->place, &found, err))
        return false;
    m->ls->compares -= found.compared;
    *why = found.kind == WALK_ONE ? NULL : bucket_why(found.kind);
    return true;
}

/* Finds the masters of the buffer; *len is their length without padding.  The positions that they prove are used for all
 * vectors, which must have the same length. */
static bool bucket_masters(struct bucket_map *m, const struct zf_pv *values, uint64_t *len,
                           const char **why, struct zf_err *err)
{
    uint32_t at = 0;

    while (at < m->n_vectors && strcmp(m->vector[at].key, LEGACY_MASTER) != 0)
        at++;
    if (at == m->n_vectors) {
        *why = "it has no fp32 masters";
        return true;
    }
    m->param = m->vector[at].ref;
    *len = m->param.n;
    (void)zf_pv_u64(zf_pv_get(values, "numel_unpadded"), len);
    if (m->param.ndim != 1 || !m->param.packed || *len > m->param.n)
        *why = "its masters are not one vector of at least numel_unpadded elements";
    else if (*len == 0)
        *why = "by numel_unpadded it is empty";
    for (uint32_t i = 0; !*why && i < m->n_vectors; i++) {
        const struct zf_tensor_ref *r = &m->vector[i].ref;

        if (r->ndim != 1 || !r->packed || r->n != m->param.n) {
            *why = zf_arena_fmt(m->ls->a, err,
                                "%.60s is not one vector of %llu elements, unlike its masters",
                                m->vector[i].key, (unsigned long long)m->param.n);
            return *why != NULL;
        }
    }
    return true;
}

/* Maps a buffer of one optimizer, for all of its types. */
static bool bucket_map_buffer(struct bucket_map *m, const struct zf_pv *types, uint32_t chunk,
                              int expert, const char **why, struct zf_err *err)
{
    const struct zf_pv *values = zf_pv_val(types, 0);
    uint64_t len;

    *why = zf_pv_len(types) == 1 ? NULL : "it holds several dtypes, or is not coalesced";
    if (!*why && (!bucket_vectors(m, values, err) || !bucket_masters(m, values, &len, why, err)))
        return false;
    if (!*why && (!bucket_pieces(m, chunk, expert, err) || !bucket_prove(m, len, why, err)))
        return false;
    for (uint32_t i = 0; !*why && i < m->n_vectors; i++)
        if (!bucket_give(m, &m->vector[i], err))
            return false;
    return true;
}

static bool bucket_map_optimizer(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                                 uint64_t k, int expert, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    const struct zf_pv *o = zf_pv_is_map(root) ? root : zf_pv_item(root, k);
    uint64_t n = 0, gbuf;

    for (uint64_t i = 0; i < zf_pv_len(o); i++)
        n += zf_pv_kind(zf_pv_key(o, i)) == ZF_PV_INT && zf_pv_is_map(zf_pv_val(o, i));
    for (uint64_t i = 0; i < zf_pv_len(o); i++) {
        struct bucket_map m = {.ls = ls, .r = r, .t = t};
        const char *why = "the save does not record the virtual pipeline chunk it belongs to";

        if (!zf_pv_is_map(zf_pv_val(o, i)) || zf_pv_kind(zf_pv_key(o, i)) != ZF_PV_INT ||
            !zf_pv_u64(zf_pv_key(o, i), &gbuf))
            continue;
        if (n == r->n_chunks && gbuf < n &&
            !bucket_map_buffer(&m, zf_pv_val(o, i), (uint32_t)gbuf, expert, &why, err))
            return false;
        if (why && !bucket_unmapped(&m, k, gbuf, why, err))
            return false;
    }
    return true;
}

bool legacy_bucket_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t, struct zf_err *err)
{
    struct bucket_reading x = {.ls = ls, .r = &ls->rank[i], .t = t};
    struct zf_visit visit = {.fn = bucket_leaf, .ctx = &x};
    const struct zf_pv *root = zf_torch_root(t);
    bool chained = !zf_pv_is_map(root);
    uint64_t n = chained ? zf_pv_len(root) : 1;
    bool ok = zf_torch_visit(t, root, NULL, ls->o->lim, &visit, err);

    zf_auto_out(&x.name);
    for (uint64_t k = 0; ok && k < n; k++)
        ok = bucket_map_optimizer(ls, x.r, t, k, !chained ? 2 : k > 0, err);
    return ok;
}
