/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer-states files: the flat vectors of one data-parallel rank.
 * Source: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, bf16_optimizer.py (state_dict), 0.6.0
 * … 0.19.8. */
#include "optim_states.h"

#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>

#include "agree.h"
#include "extra_state.h"

#define SWAP_FOLDER "offloaded_tensors" /* where it is missing altogether */

/* ZeroStageEnum as an int, as Enum(int), or as getattr(Enum, "name"): the last is what
 * CPython 3.11.0 … 3.11.2 pickled.  0 = not recorded, -1 = none of these. */
static int optim_read_stage(const struct zf_pv *v)
{
    static const char *const names[] = {"disabled", "optimizer_states", "gradients", "weights"};
    int64_t i = -1;

    if (zf_pv_kind(v) == ZF_PV_NONE) {
        return 0;
    }
    if (zf_pv_is(v, NULL, "ZeroStageEnum")) {
        v = zf_pv_arg(v, 0);
    }
    if (zf_pv_int(v, &i)) {
        return i >= 0 && i <= 3 ? (int)i : -1;
    }
    if (zf_pv_is(v, NULL, "getattr") && strcmp(zf_pv_name(zf_pv_arg(v, 0)), "ZeroStageEnum") == 0) {
        for (int k = 0; k < 4; k++) {
            if (zf_pv_eq(zf_pv_arg(v, 1), names[k])) {
                return k;
            }
        }
    }
    return -1;
}

/* partition_count: a number, or a list of one number a group. */
static bool optim_read_partitions(const struct zf_pv *v, struct ds_optim *r, struct zf_err *err)
{
    r->partitions = 0;
    for (uint32_t g = 0; g < r->n_parts && zf_pv_kind(v) != ZF_PV_NONE; g++) {
        uint64_t *one = &r->part[g].partitions;

        if (!zf_pv_u64(zf_pv_is_seq(v) ? zf_pv_item(v, g) : v, one) || *one == 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "partition_count is not a number > 0");
        }
        r->partitions = *one > r->partitions ? *one : r->partitions;
    }
    return true;
}

/* A vector that is packed in its storage. */
static bool optim_flat_of_view(const struct zf_tensor_ref *v, struct ds_flat *out,
                               struct zf_err *err)
{
    if (v->ndim > 1 || !v->packed) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has %u dimensions%s, expected a packed vector", v->ndim,
                       v->packed ? "" : " and is not packed");
    }
    *out = (struct ds_flat){.src = v->src, .off = v->off, .n = v->n, .dtype = v->dtype};
    return true;
}

/* Degraded: the vector of a swap file that cannot be read is lost, and nothing else of its rank. */
static bool optim_lose_swapped(struct ds_save *ds, const char *path, struct ds_flat *out,
                               struct zf_err *err)
{
    struct zf_lost *lost = zf_arena_get(ds->a, 1, sizeof *lost, err);
    const char *file = lost ? zf_arena_fmt(ds->a, err, "%s/%s", zf_store_name(ds->st), path) : NULL;

    if (!file) {
        return false;
    }
    *lost = (struct zf_lost){.file = file, .why = "is missing or damaged"};
    out->lost = lost;
    return true;
}

/* A vector that was swapped out to NVMe is empty, and its ds_id names the file that was copied
 * beside. Source: deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py, 0.13 … 0.19.8. */
static bool optim_read_swapped(struct ds_save *ds, const struct zf_pv *v, struct ds_flat *out,
                               struct zf_err *err)
{
    const struct zf_pv *id = zf_pv_get(zf_pv_arg(v, 3), "ds_id");
    uint64_t n = 0;
    const char *p = zf_pv_kind(id) == ZF_PV_STR ? zf_pv_text(id, &n) : "";
    const char *path;

    if (n == 0 || n > 200 || strspn(p, "0123456789abcdefghijklmnopqrstuvwxyz_-") != n) {
        return true;
    }
    path = zf_arena_fmt(ds->a, err, "%s/rank%02llu/%s.tensor.swp",
                        ds->dir.swap ? ds->dir.swap : SWAP_FOLDER,
                        (unsigned long long)ds->swap_rank, p);
    zf_auto(source) struct zf_source *src = path ? zf_store_open(ds->st, path, err) : NULL;
    if (!src && path && !zf_store_find(ds->st, path)) {
        char is[ZF_ABSENT_MAX];

        zf_err_clear(err);
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s: a vector was swapped out to it", path,
                zf_absent(ds->st, path, is));
    }
    if (!src && path && zf_forgive(ds->b, err)) {
        return optim_lose_swapped(ds, path, out, err);
    }
    if (!src || !zf_keeper_hold(&ds->keep, src, err)) {
        return false;
    }
    out->src = src;
    out->n = src->size / zf_dtype_info(out->dtype)->bytes;
    out->swapped = src->size;
    return true;
}

static bool optim_read_flat(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *v,
                            struct ds_flat *out, struct zf_err *err)
{
    struct zf_tensor_ref view;

    return zf_tensor_ref_read(&ds->keep, t, v, &view, err) && optim_flat_of_view(&view, out, err) &&
           (out->n > 0 || optim_read_swapped(ds, v, out, err));
}

/* One value of a group's state. */
static bool optim_read_state(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *v,
                             struct ds_state *s, struct zf_err *err)
{
    struct zf_tensor_ref view;

    if (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &s->i)) {
        s->kind = ZF_DS_INT;
        return true;
    }
    if (zf_pv_float(v, &s->f)) {
        s->kind = ZF_DS_FLOAT;
        return true;
    }
    if (zf_tensor_ref_odd(t, v, err)) {
        zf_err_clear(err); /* vectors.c notes it once for all ranks */
        s->kind = ZF_DS_ODD;
        return true;
    }
    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE) {
        return true;
    }
    if (!zf_tensor_ref_read(&ds->keep, t, v, &view, err)) {
        return false;
    }
    if (view.ndim > 1) {
        return true;
    }
    s->kind = view.ndim == 0 ? ZF_DS_SCALAR : ZF_DS_FLAT;
    return optim_read_flat(ds, t, v, &s->flat, err);
}

/* The state of one group: a mapping of state names to values. */
static bool optim_read_states(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *map,
                              const struct zf_pv *settings, struct ds_part *p, struct zf_err *err)
{
    uint64_t n = zf_pv_is_map(map) ? zf_pv_len(map) : 0;
    const struct zf_pv *step = zf_pv_get(settings, "step");
    bool has_step = false;

    if (n > 1000) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "one group has %llu optimizer states, expected a handful",
                       (unsigned long long)n);
    }
    p->state = zf_arena_get(ds->a, n + 1, sizeof *p->state, err);
    for (uint64_t i = 0; p->state && i < n; i++) {
        struct ds_state *s = &p->state[p->n_states];

        *s = (struct ds_state){0};
        if (zf_pv_kind(zf_pv_key(map, i)) != ZF_PV_STR) {
            continue;
        }
        if (!ds_name_of(ds->a, zf_pv_key(map, i), "the optimizer's state", &s->key, err)) {
            return false;
        }
        if (!optim_read_state(ds, t, zf_pv_val(map, i), s, err)) {
            return !ds_err_named(err) && zf_err_in(err, "!%.*s", (int)s->key.n, s->key.p);
        }
        has_step = has_step || (s->key.n == 4 && memcmp(s->key.p, "step", 4) == 0);
        p->n_states += s->kind != ZF_DS_NONE;
    }
    /* older fused optimizers count the steps in the group's settings */
    if (p->state && p->n_states > 0 && !has_step && zf_pv_kind(step) == ZF_PV_INT) {
        struct ds_state *s = &p->state[p->n_states++];

        *s = (struct ds_state){.key = {"step", 4}, .kind = ZF_DS_INT};
        return zf_pv_int(step, &s->i);
    }
    return p->state != NULL;
}

static bool optim_read_pads(struct ds_save *ds, const struct zf_pv *v, struct ds_part *p,
                            struct zf_err *err)
{
    uint64_t n = zf_pv_len(v);
    uint64_t *pad = zf_arena_get(ds->a, n, sizeof *pad, err);

    for (uint64_t i = 0; pad && i < n; i++) {
        if (!zf_pv_u64(zf_pv_item(v, i), &pad[i])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "param_alignment_paddings holds something that is not a number >= 0");
        }
    }
    p->pad = n ? pad : NULL;
    p->n_pads = (uint32_t)n;
    return pad != NULL;
}

static bool optim_read_vectors(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *list,
                               struct ds_optim *r, struct zf_err *err)
{
    const char *key = r->sliced ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    uint64_t n = zf_pv_len(list);

    if (!zf_pv_is_seq(list) && n > 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is not a list", key);
    }
    if (n > ds->o->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "%s has %llu entries, more than tensors = %llu", key, (unsigned long long)n,
                       (unsigned long long)ds->o->lim->tensors);
    }
    r->n_parts = (uint32_t)n;
    r->part = zf_arena_get(ds->a, n, sizeof *r->part, err);
    for (uint32_t g = 0; r->part && g < n; g++) {
        if (!optim_read_flat(ds, t, zf_pv_item(list, g), &r->part[g].master, err)) {
            return !ds_err_named(err) && zf_err_in(err, "!%s[%u]", key, g);
        }
    }
    return r->part != NULL;
}

/* base: {"state": {id: …}, "param_groups": […]}, or the elastic list of one mapping a group. */
static bool optim_read_base(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *base,
                            struct ds_optim *r, struct zf_err *err)
{
    const struct zf_pv *state = zf_pv_get(base, "state");
    const struct zf_pv *settings = zf_pv_get(base, "param_groups");
    bool lean = zf_pv_is_seq(base) && !zf_pv_is_map(base);

    for (uint32_t g = 0; g < r->n_parts; g++) {
        struct ds_part *p = &r->part[g];
        const struct zf_pv *set = r->sliced ? NULL : zf_pv_item(settings, g);

        p->dp = r->dp;
        p->lean = lean;
        p->muon = ds_is_true(zf_pv_get(set, "use_muon"));
        p->moe = ds_is_true(zf_pv_get(set, "moe"));
        if (!optim_read_states(ds, t, lean ? zf_pv_item(base, g) : ds_by_id(state, g), set, p,
                               err)) {
            return !ds_err_named(err) && zf_err_in(err, "!state[%u]", g);
        }
    }
    return true;
}

/* ds_zero_partition_groups[g].partition_ranks: with experts, not all ranks share a group of
 * stage 3.  Source: deepspeed/runtime/zero/stage3.py, 0.19.8. */
static bool optim_read_members(struct ds_save *ds, const struct zf_pv *list, struct ds_optim *r,
                               struct zf_err *err)
{
    uint64_t n = zf_pv_len(list), count, own;

    if (n > 0 && n != r->n_parts) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "ds_zero_partition_groups has %llu entries for %u groups",
                       (unsigned long long)n, r->n_parts);
    }
    for (uint32_t g = 0; g < n; g++) {
        const struct zf_pv *one = zf_pv_item(list, g);
        const struct zf_pv *ranks = zf_pv_get(one, "partition_ranks");
        struct ds_part *p = &r->part[g];
        uint64_t k = zf_pv_len(ranks), rank;
        uint32_t *at = zf_arena_get(ds->a, k, sizeof *at, err);

        for (uint64_t i = 0; at && i < k; i++) {
            if (!zf_pv_u64(zf_pv_item(ranks, i), &rank) || rank >= UINT32_MAX) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "partition_ranks[%llu] of group %u is not a rank",
                               (unsigned long long)i, g);
            }
            at[i] = (uint32_t)rank;
        }
        if (!at) {
            return false;
        }
        if (!zf_pv_u64(zf_pv_get(one, "partition_count"), &count) || count != k ||
            !zf_pv_u64(zf_pv_get(one, "partition_rank"), &own) || own >= k || at[own] != r->dp) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "partition_count and partition_rank of group %u do not go with the %llu "
                           "partition_ranks of rank %u",
                           g, (unsigned long long)k, r->dp);
        }
        p->ranks = at;
        p->n_ranks = (uint32_t)k;
        p->partitions = k;
    }
    return true;
}

/* One mapping a group, of names to fragment_address(numel, start).
 * Source: deepspeed/utils/tensor_fragment.py, 0.7.4 … 0.19.8. */
static bool optim_read_slices(struct ds_save *ds, const struct zf_pv *list, struct ds_optim *r,
                              struct zf_err *err)
{
    for (uint32_t g = 0; g < r->n_parts && ds->want_slices && zf_pv_len(list) > 0; g++) {
        const struct zf_pv *map = zf_pv_item(list, g);
        uint64_t n = zf_pv_is_map(map) ? zf_pv_len(map) : 0;
        struct ds_slice *s = zf_arena_get(ds->a, n, sizeof *s, err);

        for (uint64_t i = 0; s && i < n; i++) {
            const struct zf_pv *v = zf_pv_val(map, i);

            if (!ds_name_of(ds->a, zf_pv_key(map, i), "param_slice_mappings", &s[i].name, err)) {
                return false;
            }
            if (!zf_pv_u64(zf_pv_attr(v, "numel"), &s[i].n) ||
                !zf_pv_u64(zf_pv_attr(v, "start"), &s[i].start)) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "param_slice_mappings[%u] holds something that is no fragment", g);
            }
        }
        if (!s) {
            return false;
        }
        r->part[g].slice = s;
        r->part[g].n_slices = (uint32_t)n;
    }
    return true;
}

/* ---- stage 1 before 0.4 ---- */

#define CUTS "local_sub_partitions_of_fp32_groups"
#define CUTS_MOST 65536 /* sub-partitions of a group */

/* Sub-partition i of group g, and its states. */
static bool optim_read_cut(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *vector,
                           const struct zf_pv *state, struct ds_part *p, struct zf_err *err)
{
    p->lean = true;
    return optim_read_flat(ds, t, vector, &p->master, err) &&
           optim_read_states(ds, t, state, NULL, p, err);
}

/* CUTS[g][i] and base_optimizer_state[g][i]: part g of r (i = 0), or of r->later[i - 1].
 * Source: deepspeed/runtime/zero/stage1.py (state_dict), 0.3.14. */
static bool optim_read_cuts(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *in,
                            struct ds_optim *r, struct zf_err *err)
{
    const struct zf_pv *cuts = zf_pv_get(in, CUTS), *base = zf_pv_get(in, "base_optimizer_state");
    uint64_t n = zf_pv_len(cuts), most = 1;
    uint32_t *n_cuts = zf_arena_get(ds->a, n, sizeof *n_cuts, err);

    for (uint64_t g = 0; n_cuts && g < n; g++) {
        uint64_t k = zf_pv_len(zf_pv_item(cuts, g));

        if (k == 0 || k > CUTS_MOST || !zf_pv_is_seq(zf_pv_item(cuts, g))) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           CUTS "[%llu] is not a list of 1 to %d sub-partitions",
                           (unsigned long long)g, CUTS_MOST);
        }
        n_cuts[g] = (uint32_t)k;
        most = k > most ? k : most;
    }
    r->n_cuts = n_cuts;
    r->n_parts = (uint32_t)n;
    r->n_later = (uint32_t)most - 1;
    r->part = zf_arena_get(ds->a, n, sizeof *r->part, err);
    r->later = zf_arena_get(ds->a, r->n_later, sizeof *r->later, err);
    for (uint32_t i = 0; n_cuts && r->part && r->later && i < most; i++) {
        struct ds_part *part = i == 0 ? r->part : zf_arena_get(ds->a, n, sizeof *r->part, err);

        if (!part) {
            return false;
        }
        for (uint32_t g = 0; g < n; g++) {
            part[g].dp = r->dp;
            if (i < n_cuts[g] &&
                !optim_read_cut(ds, t, zf_pv_item(zf_pv_item(cuts, g), i),
                                zf_pv_item(zf_pv_item(base, g), i), &part[g], err)) {
                return !ds_err_named(err) && zf_err_in(err, "!" CUTS "[%u][%u]", g, i);
            }
        }
        if (i > 0) {
            const char *path = zf_arena_fmt(ds->a, err, "%s, sub-partition %u", r->path, i);

            if (!path) {
                return false;
            }
            r->later[i - 1] =
                (struct ds_optim){.path = path, .dp = r->dp, .part = part, .n_parts = r->n_parts};
        }
    }
    return n_cuts && r->part && r->later;
}

static bool optim_read_inner(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *in,
                             struct ds_optim *r, struct zf_err *err)
{
    const struct zf_pv *slices = zf_pv_get(in, "fp32_flat_groups");
    const struct zf_pv *cuts = zf_pv_get(in, "single_partition_of_fp32_groups");
    const struct zf_pv *pads = zf_pv_get(in, "param_alignment_paddings");

    r->sliced = slices != NULL;
    r->stage = optim_read_stage(zf_pv_get(in, "zero_stage"));
    if (zf_pv_is_seq(zf_pv_get(in, CUTS)) && r->stage == 1) {
        return optim_read_cuts(ds, t, in, r, err) &&
               optim_read_partitions(zf_pv_get(in, "partition_count"), r, err);
    }
    if (!slices && !cuts) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "not a ZeRO file: neither single_partition_of_fp32_groups nor "
                       "fp32_flat_groups is in it");
    }
    if (r->stage < 0 || (r->stage == 3) != r->sliced) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "zero_stage does not go with %s",
                       slices ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
    }
    if (!optim_read_vectors(ds, t, slices ? slices : cuts, r, err) ||
        !optim_read_partitions(zf_pv_get(in, "partition_count"), r, err) ||
        !optim_read_members(ds, zf_pv_get(in, "ds_zero_partition_groups"), r, err) ||
        !optim_read_slices(ds, zf_pv_get(in, "param_slice_mappings"), r, err)) {
        return false;
    }
    for (uint32_t g = 0; g < r->n_parts && pads; g++) {
        if (!optim_read_pads(ds, zf_pv_item(pads, g), &r->part[g], err)) {
            return false;
        }
    }
    return optim_read_base(
        ds, t, zf_pv_get(in, r->sliced ? "optimizer_state_dict" : "base_optimizer_state"), r, err);
}

/* A swap file is written by several threads, in pieces that are multiples of 1024 bytes each.  The
 * number was called thread_count until 0.15, and a setting of that name may be left over since.
 * Source: deepspeed/runtime/swap_tensor/optimizer_utils.py (aligned_bytes), constants.py. */
static void optim_read_swap_unit(struct ds_save *ds, const struct zf_pv *root)
{
    const struct zf_pv *aio = zf_pv_get(zf_pv_get(root, "ds_config"), "aio");
    uint64_t threads, was;

    threads = zf_pv_u64(zf_pv_get(aio, "intra_op_parallelism"), &threads) ? threads : 1;
    was = zf_pv_u64(zf_pv_get(aio, "thread_count"), &was) ? was : threads;
    ds->swap_unit[0] = 1024 * (threads > 0 && threads < 4096 ? threads : 1);
    ds->swap_unit[1] = 1024 * (was > 0 && was < 4096 ? was : 1);
}

static void optim_read_config(const struct zf_pv *root, struct ds_optim *r)
{
    const struct zf_pv *config = zf_pv_get(root, "ds_config");
    const struct zf_pv *zero = zf_pv_get(config, "zero_optimization");

    r->config.known = zf_pv_is_map(config); /* or it is the path of a file */
    r->config.round_robin = ds_is_true(zf_pv_get(zero, "round_robin_gradients"));
    r->config.zenflow = zf_pv_kind(zf_pv_get(zero, "zenflow")) != ZF_PV_NONE;
}

/* A copy of a text value, "" for anything else. */
static const char *optim_text(struct zf_arena *a, const struct zf_pv *v, struct zf_err *err)
{
    uint64_t n = 0;
    const char *p = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : "";

    return zf_arena_str(a, p, n, err);
}

static bool optim_read_root(struct ds_save *ds, struct zf_torch *t, struct ds_optim *r,
                            struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    const struct zf_pv *in = zf_pv_get(root, "optimizer_state_dict");
    const struct zf_pv *shapes = zf_pv_get(root, "param_shapes");
    const struct zf_pv *version = zf_pv_get(root, "ds_version");

    if (!zf_pv_is_map(in)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "not a ZeRO file: there is no \"optimizer_state_dict\" in it");
    }
    optim_read_swap_unit(ds, root);
    optim_read_config(root, r);
    r->version = optim_text(ds->a, version ? version : zf_pv_get(in, "ds_version"), err);
    return r->version && optim_read_inner(ds, t, in, r, err) &&
           (zf_pv_kind(shapes) == ZF_PV_NONE ||
            ds_model_shapes(ds, shapes, &r->group, &r->n_groups, err));
}

/* Every storage of a file is in one archive. */
static bool optim_check_name(const struct ds_file *f, const struct ds_optim *r, struct zf_err *err)
{
    for (uint32_t g = 0; g < r->n_parts; g++) {
        const struct ds_flat *v = &r->part[g].master;

        if (v->src && !v->swapped) {
            return ds_dir_same_rank(f->path, v->src->name, err);
        }
    }
    return true;
}

bool ds_optim_read(struct ds_save *ds, const struct ds_file *f, struct ds_optim *out,
                   struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ds->files, f->path, err);

    *out = (struct ds_optim){.path = f->path, .dp = f->dp};
    /* swap folders are those of global ranks, along which tensor-parallel ranks are next to each
     * other.  Source: runtime/engine.py (save_checkpoint), utils/groups.py (_init_tp_mesh_device) */
    ds->swap_rank = f->dp * (ds->n_ranks > ds->dir.n_mp ? ds->n_ranks : ds->dir.n_mp) + f->mp;
    if (!t) {
        return false;
    }
    /* the first file that can be read speaks for all */
    return (optim_read_root(ds, t, out, err) &&
            (ds->told_optim || ds_state_optim(ds, t, f->path, err)) &&
            ds_agree_read(ds, t, f->path, false, err) && optim_check_name(f, out, err)) ||
           (!ds_err_named(err) && zf_err_in(err, "%s", zf_torch_name(t)));
}

const struct zf_pv *ds_by_id(const struct zf_pv *state, uint64_t id)
{
    uint64_t n = zf_pv_len(state), k;

    if (id < n && zf_pv_u64(zf_pv_key(state, id), &k) && k == id) {
        return zf_pv_val(state, id);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (zf_pv_u64(zf_pv_key(state, i), &k) && k == id) {
            return zf_pv_val(state, i);
        }
    }
    return NULL;
}
