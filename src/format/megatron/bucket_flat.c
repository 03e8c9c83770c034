/* SPDX-License-Identifier: Apache-2.0 */
/* Source: megatron/core/optimizer/distrib_optimizer.py (sharded_param_state_dp_reshardable,
 * sharded_param_state_fs_bucket_space, sharded_param_state_dp_zero, get_parameter_state_dp_zero;
 * 0.6 … 0.19). */
#include "bucket_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>

#define LENGTHS_KEY "per_bucket_numel_unpadded"
#define LENGTHS "." LENGTHS_KEY
#define JOINED ".param_state"
#define FLAT_BUCKETS (1u << 20)

struct flat {
    struct mg_save *s;
    struct zf_arena *a;
    struct flat_buffers *out;
    struct flat_object *objects; /* by name: lengths */
};
static void zf_auto_flat(struct flat *f)
{
    zf_table_free(f->objects);
}

struct flat_object {
    UT_hash_handle hh;
    size_t object; /* its number + 1 */
};

static bool flat_index_objects(struct flat *f, struct zf_err *err)
{
    for (size_t i = 0; i < f->s->object.n; i++) {
        struct mg_text name = f->s->object.at[i].name.name;

        if (mg_text_ends(name, LENGTHS)) {
            struct flat_object *o = zf_table_make(f->objects, name.p, name.n, err);

            if (!o)
                return false;
            o->object = i + 1;
        }
    }
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* Orders tensors by buffer, then by state and bucket. */
static int flat_order(const void *a, const void *b)
{
    const struct mg_tensor *x = *(struct mg_tensor *const *)a, *y = *(struct mg_tensor *const *)b;
    const struct mg_key *k = &x->name, *l = &y->name;
    int c;

#define FLAT_BY(m)                                                                                 \
    if (k->m != l->m)                                                                              \
        return k->m < l->m ? -1 : 1;
    FLAT_BY(chain)
    FLAT_BY(flat.group)
    FLAT_BY(flat.gbuf)
    FLAT_BY(flat.dtype.n)
    c = memcmp(k->flat.dtype.p, l->flat.dtype.p, k->flat.dtype.n);
    if (c != 0)
        return c;
    FLAT_BY(state.n)
    c = memcmp(k->state.p, l->state.p, k->state.n);
    if (c != 0)
        return c;
    FLAT_BY(flat.bucket)
#undef FLAT_BY
    return 0;
}

static bool flat_same_buffer(const struct mg_key *k, const struct mg_key *l)
{
    return k->chain == l->chain && k->flat.group == l->flat.group && k->flat.gbuf == l->flat.gbuf &&
           mg_text_same(k->flat.dtype, l->flat.dtype);
}

/* Makes the states of tensors [0, n) of one buffer; each state must have all buckets. */
static bool flat_fill(struct flat *f, struct flat_buffer *b, struct mg_tensor *const *t, size_t n,
                      struct zf_err *err)
{
    uint64_t n_buckets = 0;

    for (size_t i = 0; i < n; i++)
        n_buckets = t[i]->name.flat.bucket >= n_buckets ? t[i]->name.flat.bucket + 1 : n_buckets;
    if (n_buckets > FLAT_BUCKETS || n % n_buckets) {
        b->why = "a bucket is missing";
        return true;
    }
    b->n_buckets = (uint32_t)n_buckets;
    b->n_states = (uint32_t)(n / n_buckets);
    b->state = zf_arena_get(f->a, b->n_states, sizeof *b->state, err);
    for (uint32_t k = 0; b->state && k < b->n_states; k++) {
        struct flat_state *state = &b->state[k];

        state->name = t[k * n_buckets]->name.state;
        state->bucket = zf_arena_get(f->a, n_buckets, sizeof(*state->bucket), err);
        if (!state->bucket)
            return false;
        for (uint64_t j = 0; j < n_buckets; j++) {
            const struct mg_tensor *x = t[k * n_buckets + j];

            if (x->name.flat.bucket != j || x->type.ndim != 1 ||
                !mg_text_same(x->name.state, state->name)) {
                b->why = "a bucket is missing or does not match the others";
                return true;
            }
            state->bucket[j] = x->draft;
        }
        b->master = mg_key_is_master(state->name) ? state : b->master;
    }
    return b->state != NULL;
}

static const char *flat_name(struct flat *f, const struct mg_tensor *t, struct zf_err *err)
{
    const char *end = strstr(t->key, ".bucket_idx_");

    return zf_arena_str(f->a, t->key, end ? (size_t)(end - t->key) : t->key_len, err);
}

static bool flat_of_tensors(struct flat *f, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(f->s->lim->model_memory, err);
    size_t n = 0, end;
    struct mg_tensor **t = scratch ? zf_arena_get(scratch, f->s->tensor.n, sizeof(*t), err) : NULL;

    if (!t)
        return false;
    for (size_t i = 0; i < f->s->tensor.n; i++)
        if (f->s->tensor.at[i].name.what == MG_BUCKET)
            t[n++] = &f->s->tensor.at[i];
    if (n > 1)
        qsort(t, n, sizeof(*t), flat_order);
    for (size_t i = 0; i < n; i = end) {
        const struct mg_key *k = &t[i]->name;
        struct flat_buffer *b = zf_vec_push(f->out, err);

        for (end = i; end < n && flat_same_buffer(&t[end]->name, k); end++) {
        }
        if (!b)
            return false;
        *b = (struct flat_buffer){.chain = k->chain,
                                  .group = k->flat.group,
                                  .gbuf = k->flat.gbuf,
                                  .dtype = k->flat.dtype};
        if (!(b->name = flat_name(f, t[i], err)) || !flat_fill(f, b, t + i, end - i, err))
            return false;
    }
    return true;
}

/* ---- lengths ------------------------------------------------------------------------------ */

/* Is the dict key, a tuple of two dtypes, equal to a text like "(torch.bfloat16, torch.float32)"? */
static bool flat_dtype_is(const struct zf_pv *key, struct mg_text text)
{
    char is[200];

    int n = snprintf(is, sizeof is, "(%s.%s, %s.%s)", zf_pv_module(zf_pv_item(key, 0)),
                     zf_pv_name(zf_pv_item(key, 0)), zf_pv_module(zf_pv_item(key, 1)),
                     zf_pv_name(zf_pv_item(key, 1)));
    return n > 0 && (size_t)n < sizeof is && mg_text_is(text, is);
}

/* The list of bucket lengths of b in root, [gbuf]{(dtype, dtype): [lengths]}; DCP wraps it in a list of one. */
static const struct zf_pv *flat_lengths_of(const struct zf_pv *root, const struct flat_buffer *b)
{
    const struct zf_pv *list = zf_pv_is_seq(zf_pv_item(root, 0)) ? zf_pv_item(root, 0) : root;
    const struct zf_pv *gbuf = zf_pv_item(list, b->gbuf);

    for (uint64_t i = 0; zf_pv_is_map(gbuf) && i < zf_pv_len(gbuf); i++)
        if (flat_dtype_is(zf_pv_key(gbuf, i), b->dtype))
            return zf_pv_val(gbuf, i);
    return NULL;
}

/* Each state must have at least the elements recorded in `said`, since places found by the masters are read
 * from all states.  An empty buffer proves nothing. */
static bool flat_hold_lengths(struct flat *f, struct flat_buffer *b, const char *said,
                              struct zf_err *err)
{
    bool any = false;

    for (uint32_t i = 0; i < b->n_buckets; i++) {
        any = any || b->len[i] > 0;
        for (uint32_t k = 0; k < b->n_states; k++) {
            uint64_t have = zf_draft_type(b->state[k].bucket[i]).shape[0];

            if (b->len[i] > have) {
                b->why = zf_arena_fmt(f->a, err,
                                      "bucket %u has %llu elements of %.*s, but by %s it has %llu",
                                      i, (unsigned long long)have,
                                      (int)(b->state[k].name.n < 60 ? b->state[k].name.n : 60),
                                      b->state[k].name.p, said, (unsigned long long)b->len[i]);
                return b->why != NULL;
            }
        }
    }
    b->why = any ? b->why : zf_arena_fmt(f->a, err, "by %s it is empty", said);
    return any || b->why;
}

static bool flat_take_lengths(struct flat *f, struct flat_buffer *b, const struct zf_pv *root,
                              struct zf_err *err)
{
    const struct zf_pv *v = flat_lengths_of(root, b);

    if (!zf_pv_is_seq(v) || zf_pv_len(v) != b->n_buckets) {
        b->why = "per_bucket_numel_unpadded does not give the lengths of its buckets";
        return true;
    }
    b->len = zf_arena_get(f->a, b->n_buckets, sizeof *b->len, err);
    for (uint32_t i = 0; b->len && i < b->n_buckets; i++) {
        if (!zf_pv_u64(zf_pv_item(v, i), &b->len[i])) {
            b->why = "per_bucket_numel_unpadded is not a list of numbers";
            return true;
        }
    }
    return b->len && flat_hold_lengths(f, b, LENGTHS_KEY, err);
}

static bool flat_read_lengths(struct flat *f, struct flat_buffer *b, struct zf_err *err)
{
    char name[160], chain[32] = "";

    if (b->why)
        return true;
    if (b->chain != MG_NO_CHAIN)
        (void)snprintf(chain, sizeof chain, "chained_%u.", b->chain);
    int n = snprintf(name, sizeof name, "%soptimizer.distributed.dp_group_idx_%llu" LENGTHS, chain,
                     (unsigned long long)b->group);
    const struct flat_object *o = zf_table_find(f->objects, name, (size_t)n);
    if (!o) {
        b->why = "the lengths of its buckets (per_bucket_numel_unpadded) are missing";
        return true;
    }
    zf_auto(torch) struct zf_torch *t =
        zf_torch_open(f->s->object.at[o->object - 1].src, f->s->lim, err);
    if (!t && zf_build_degraded(f->s->b)) {
        zf_err_clear(err);
        b->why = "the lengths of its buckets (per_bucket_numel_unpadded) are lost";
        return true;
    }
    return t ? flat_take_lengths(f, b, zf_torch_root(t), err)
             : zf_err_in(err, "%s", f->s->object.at[o->object - 1].key);
}

/* ---- dp_zero ------------------------------------------------------------------------------ */

/* An open dp_zero object. */
struct flat_zero {
    struct flat *f;
    const char *key; /* the object's key */
    struct zf_torch *t;
    struct zf_keeper keep;
    uint32_t chain;
    uint64_t group;
};

static bool flat_zero_state(struct flat_zero *z, struct flat_buffer *b, const char *state,
                            const struct zf_pv *v, struct zf_err *err)
{
    struct zf_tensor_ref ref;
    struct mg_save *s = z->f->s;
    const char *key = zf_arena_fmt(z->f->a, err, "%s/%s", b->name, state);

    if (!key || !zf_tensor_ref_read(&z->keep, z->t, v, &ref, err))
        return false;
    struct zf_type type = {ref.dtype, ref.ndim, ref.shape};
    struct mg_tensor *t = mg_save_tensor(s, key, strlen(key), type, NULL, err);
    const struct zf_from from = {
        .src = ref.src, .off = ref.off, .stride = ref.packed ? NULL : ref.stride};
    if (!t || !zf_draft_where(t->draft, key, err) ||
        (ref.n > 0 && !zf_draft_box(t->draft, NULL, ref.shape, from, err)))
        return false;
    t->name = (struct mg_key){.what = MG_BUCKET, .chain = z->chain};
    t->name.state = (struct mg_text){key + strlen(b->name) + 1, strlen(state)};
    struct flat_state *to = &b->state[b->n_states];
    to->name = t->name.state;
    to->bucket = zf_arena_get(z->f->a, 1, sizeof(*to->bucket), err);
    if (!to->bucket)
        return false;
    to->bucket[0] = t->draft;
    b->n_states++;
    if (type.ndim != 1)
        b->why = "a flat state has more than one dimension";
    b->master = mg_key_is_master(to->name) ? to : b->master;
    return true;
}

/* Reads {"param", "exp_avg", "exp_avg_sq", "numel_unpadded"} of one gbuf and dtype. */
static bool flat_zero_buffer(struct flat_zero *z, uint64_t gbuf, const struct zf_pv *key,
                             const struct zf_pv *v, struct zf_err *err)
{
    struct flat_buffer *b = zf_vec_push(z->f->out, err);
    uint64_t n = 0;

    if (!b)
        return false;
    *b = (struct flat_buffer){
        .chain = z->chain, .group = z->group, .gbuf = gbuf, .n_buckets = 1, .joined = true};
    b->name =
        zf_arena_fmt(z->f->a, err, "%s/0/%llu/(%s.%s, %s.%s)", z->key, (unsigned long long)gbuf,
                     zf_pv_module(zf_pv_item(key, 0)), zf_pv_name(zf_pv_item(key, 0)),
                     zf_pv_module(zf_pv_item(key, 1)), zf_pv_name(zf_pv_item(key, 1)));
    b->dtype =
        b->name ? (struct mg_text){strrchr(b->name, '('), strlen(strrchr(b->name, '('))} : b->dtype;
    b->state = b->name ? zf_arena_get(z->f->a, zf_pv_len(v), sizeof *b->state, err) : NULL;
    b->len = b->state ? zf_arena_get(z->f->a, 1, sizeof *b->len, err) : NULL;
    for (uint64_t i = 0; b->len && i < zf_pv_len(v); i++) {
        const char *state = zf_pv_text(zf_pv_key(v, i), &n);

        const struct zf_pv *value = zf_pv_val(v, i);

        if (state && zf_tensor_ref_odd(z->t, value, err)) {
            if (!zf_leave_out_state(z->f->s->b, z->key, state, err))
                return false;
        } else if (state && zf_torch_kind(z->t, value) == ZF_TORCH_DENSE &&
                   !flat_zero_state(z, b, state, value, err)) {
            return false;
        }
    }
    if (!b->len)
        return false;
    if (!zf_pv_u64(zf_pv_get(v, "numel_unpadded"), b->len)) {
        b->why = "its length (numel_unpadded) is missing";
        return true;
    }
    return b->why || flat_hold_lengths(z->f, b, "numel_unpadded", err);
}

static bool flat_zero_open(struct flat_zero *z, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(z->t);
    const struct zf_pv *dict = zf_pv_is_seq(root) ? zf_pv_item(root, 0) : root;

    for (uint64_t i = 0; zf_pv_is_map(dict) && i < zf_pv_len(dict); i++) {
        const struct zf_pv *by_dtype = zf_pv_val(dict, i);
        uint64_t gbuf;

        if (!zf_pv_u64(zf_pv_key(dict, i), &gbuf) || !zf_pv_is_map(by_dtype))
            continue;
        for (uint64_t k = 0; k < zf_pv_len(by_dtype); k++)
            if (zf_pv_is_map(zf_pv_val(by_dtype, k)) &&
                !flat_zero_buffer(z, gbuf, zf_pv_key(by_dtype, k), zf_pv_val(by_dtype, k), err))
                return false;
    }
    return true;
}

/* Parses "[chained_N.]optimizer.distributed.dp_group_idx_G.param_state". */
static bool flat_zero_name(struct mg_text name, uint32_t *chain, uint64_t *group)
{
    *chain = MG_NO_CHAIN;
    (void)mg_text_take_chain(&name, "chained_", chain);
    return mg_text_take(&name, "optimizer.distributed.dp_group_idx_") &&
           mg_text_take_number(&name, group) && mg_text_is(name, JOINED);
}

static bool flat_of_objects(struct flat *f, struct zf_err *err)
{
    for (size_t i = 0; i < f->s->object.n; i++) {
        const struct mg_object *o = &f->s->object.at[i];
        struct flat_zero z = {.f = f, .key = o->key, .keep = {.arena = f->a}};

        if (!flat_zero_name(o->name.name, &z.chain, &z.group))
            continue;
        zf_auto(torch) struct zf_torch *t = zf_torch_open(o->src, f->s->lim, err);
        z.t = t;
        if (!t && zf_build_degraded(f->s->b)) {
            zf_err_clear(
                err); /* the object is also shown in extra/, where the failure is reported */
            continue;
        }
        bool ok = t && flat_zero_open(&z, err);
        zf_keeper_fini(&z.keep);
        if (!ok)
            return zf_err_in(err, "%s", o->key);
    }
    return true;
}

bool mg_flat_find(struct mg_save *s, struct zf_arena *arena, struct flat_buffers *out,
                  struct zf_err *err)
{
    zf_auto(flat) struct flat f = {.s = s, .a = arena, .out = out};

    if (!flat_index_objects(&f, err) || !flat_of_tensors(&f, err))
        return false;
    for (size_t i = 0; i < out->n; i++)
        if (!flat_read_lengths(&f, &out->at[i], err))
            return false;
    return flat_of_objects(&f, err);
}
