/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer-states files: one data-parallel rank's partitions of the flat buffers.
 * Source: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, bf16_optimizer.py (state_dict), 0.6.0
 * … 0.19.8. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>

#define SWAP_FOLDER "offloaded_tensors" /* where it is missing altogether */

/* ZeroStageEnum as an int, as Enum(int), or as getattr(Enum, "name"): the last is what
 * CPython 3.11.0 … 3.11.2 pickled.  0 = not recorded, -1 = none of these. */
static int optim_read_stage(const struct zf_pv *v)
{
    static const char *const names[] = {"disabled", "optimizer_states", "gradients", "weights"};
    int64_t i = -1;

    if (zf_pv_kind(v) == ZF_PV_NONE)
        return 0;
    if (zf_pv_is(v, NULL, "ZeroStageEnum"))
        v = zf_pv_arg(v, 0);
    if (zf_pv_int(v, &i))
        return i >= 0 && i <= 3 ? (int)i : -1;
    if (zf_pv_is(v, NULL, "getattr") && strcmp(zf_pv_name(zf_pv_arg(v, 0)), "ZeroStageEnum") == 0) {
        for (int k = 0; k < 4; k++)
            if (zf_pv_eq(zf_pv_arg(v, 1), names[k]))
                return k;
    }
    return -1;
}

/* The file being read. */
struct optim_reading {
    struct ds_save *ds;
    struct zf_torch *torch;
    struct ds_optim *out;
};

/* Takes partition_count: a number, or a list of one number per group. */
static void optim_take_partitions(const struct zf_take *x, struct ds_optim *r)
{
    for (uint32_t g = 0; zf_take_given(x) && g < r->n_parts && !x->t->failed; g++) {
        const struct zf_take item = zf_take_item(x, g), *one = zf_pv_is_seq(x->v) ? &item : x;
        uint64_t n = zf_take_u64(one);

        (void)zf_take_must(one, n > 0, "expected a number > 0");
        r->part[g]->partitions = n;
        r->partitions = n > r->partitions ? n : r->partitions;
    }
}

/* Degraded: if a swap file cannot be read, only its tensor is lost, not the rest of the rank. */
static bool optim_mark_lost(struct ds_save *ds, const char *path, struct ds_flat *out,
                            struct zf_err *err)
{
    struct zf_lost *lost = zf_arena_get(ds->a, 1, sizeof *lost, err);
    const char *file = lost ? zf_arena_fmt(ds->a, err, "%s/%s", zf_store_name(ds->st), path) : NULL;

    if (!file)
        return false;
    *lost = (struct zf_lost){.file = file, .why = "is missing or damaged"};
    out->lost = lost;
    return true;
}

/* A tensor that was swapped out to NVMe is saved empty; its ds_id names the swap file, which is copied
 * into the tag. Source: deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py, 0.13 … 0.19.8. */
static bool optim_read_swapped(struct ds_save *ds, const struct zf_pv *v, struct ds_flat *out,
                               struct zf_err *err)
{
    const struct zf_pv *id = zf_pv_get(zf_pv_arg(v, 3), "ds_id");
    uint64_t n = 0;
    const char *p = zf_pv_kind(id) == ZF_PV_STR ? zf_pv_text(id, &n) : "";
    const char *path;

    if (n == 0 || n > 200 || strspn(p, "0123456789abcdefghijklmnopqrstuvwxyz_-") != n)
        return true;
    path = zf_arena_fmt(ds->a, err, "%s/rank%02llu/%s.tensor.swp",
                        ds->dir.swap ? ds->dir.swap : SWAP_FOLDER,
                        (unsigned long long)ds->swap_rank, p);
    zf_auto(source) struct zf_source *src = path ? zf_store_open(ds->st, path, err) : NULL;
    if (!src && path && !zf_store_find(ds->st, path)) {
        char is[ZF_ABSENT_MAX];

        zf_err_clear(err);
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s; a vector was swapped out to it", path,
                zf_absent(ds->st, path, is));
    }
    if (!src && path && zf_forgive(ds->b, err))
        return optim_mark_lost(ds, path, out, err);
    if (!src || !zf_keeper_hold(&ds->keep, src, err))
        return false;
    out->src = src;
    out->n = src->size / zf_dtype_info(out->dtype)->bytes;
    out->swapped = src->size;
    return true;
}

/* Takes a flat tensor, which must be contiguous in its storage. */
static void optim_take_flat(const struct optim_reading *q, const struct zf_take *x,
                            struct ds_flat *out)
{
    struct zf_tensor_ref v;
    struct zf_err err;

    if (!zf_take_tensor(x, &q->ds->keep, q->torch, &v) ||
        !zf_take_must(x, v.ndim <= 1 && v.packed,
                      "it has %u dimensions%s, expected a contiguous vector", v.ndim,
                      v.packed ? "" : " and is not contiguous"))
        return;
    *out = (struct ds_flat){.src = v.src, .off = v.off, .n = v.n, .dtype = v.dtype};
    if (v.n == 0 && !optim_read_swapped(q->ds, x->v, out, &err))
        (void)zf_take_fail(x, &err);
}

/* Takes one value of a group's state. */
static void optim_take_state(const struct optim_reading *q, const struct zf_take *x,
                             struct ds_state *s)
{
    struct zf_tensor_ref view;
    struct zf_err err;

    if (zf_pv_kind(x->v) == ZF_PV_INT && zf_pv_int(x->v, &s->i)) {
        s->kind = ZF_DS_INT;
    } else if (zf_pv_float(x->v, &s->f)) {
        s->kind = ZF_DS_FLOAT;
    } else if (zf_tensor_ref_odd(q->torch, x->v, &err)) {
        s->kind = ZF_DS_ODD; /* vectors.c notes it once for all ranks */
    } else if (zf_torch_kind(q->torch, x->v) == ZF_TORCH_DENSE &&
               zf_take_tensor(x, &q->ds->keep, q->torch, &view) && view.ndim <= 1) {
        s->kind = view.ndim == 0 ? ZF_DS_SCALAR : ZF_DS_FLAT;
        optim_take_flat(q, x, &s->flat);
    }
}

/* Takes the state of one group: a mapping of state names to values. */
static void optim_take_states(const struct optim_reading *q, const struct zf_take *map,
                              const struct zf_pv *settings, struct ds_part *p)
{
    uint64_t n = zf_pv_is_map(map->v) ? zf_pv_len(map->v) : 0;
    const struct zf_pv *step = zf_pv_get(settings, "step");
    bool has_step = false;

    (void)zf_take_must(map, n <= 1000, "it has %llu optimizer states, expected a handful",
                       (unsigned long long)n);
    p->state = zf_take_room(map->t, n + 1, sizeof *p->state);
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        struct zf_take name = zf_take_name(map, i), one = zf_take_item(map, i);
        struct ds_state *s = &p->state[p->n_states];

        if (zf_pv_kind(name.v) == ZF_PV_STR) {
            *s = (struct ds_state){.key = ds_take_name(&name)};
            optim_take_state(q, &one, s);
            has_step = has_step || zf_pv_eq(name.v, "step");
            p->n_states += s->kind != ZF_DS_NONE;
        }
    }
    /* older fused optimizers record the step in param_groups */
    int64_t steps;
    if (p->n_states > 0 && !has_step && zf_pv_kind(step) == ZF_PV_INT && zf_pv_int(step, &steps)) {
        p->state[p->n_states++] =
            (struct ds_state){.key = {"step", 4}, .kind = ZF_DS_INT, .i = steps};
    }
}

/* Takes param_alignment_paddings of a group: elements of padding after each parameter. */
static void optim_take_pads(const struct zf_take *list, struct ds_part *p)
{
    uint64_t n = zf_take_given(list) ? zf_take_list(list) : 0;
    uint64_t *pad = zf_take_room(list->t, n, sizeof *pad);

    for (uint64_t i = 0; i < n && !list->t->failed; i++) {
        struct zf_take one = zf_take_item(list, i);

        pad[i] = zf_take_u64(&one);
    }
    p->pad = n ? pad : NULL;
    p->n_pads = (uint32_t)n;
}

/* Takes the masters: a list of one flat tensor per group. */
static void optim_take_vectors(const struct optim_reading *q, const struct zf_take *list)
{
    uint64_t n = zf_take_list(list);
    struct ds_optim *r = q->out;

    (void)zf_take_most(list, n, q->ds->o->lim->tensors, ZF_LIMIT_tensors);
    r->n_parts = (uint32_t)n;
    r->part = zf_take_room(list->t, n, sizeof *r->part);
    for (uint32_t g = 0; g < n && !list->t->failed; g++) {
        struct zf_take one = zf_take_item(list, g);

        r->part[g] = zf_take_room(list->t, 1, sizeof **r->part);
        if (r->part[g]) {
            *r->part[g] = (struct ds_part){.path = r->path, .dp = r->dp};
            optim_take_flat(q, &one, &r->part[g]->master);
        }
    }
}

/* Takes the inner optimizer: {"state": {id: …}, "param_groups": […]}, or, elastic, a list of one mapping per group. */
static void optim_take_base(const struct optim_reading *q, const struct zf_take *base)
{
    const struct zf_take state = zf_take_key(base, "state");
    const struct zf_pv *settings = zf_pv_get(base->v, "param_groups");
    bool elastic = zf_pv_is_seq(base->v) && !zf_pv_is_map(base->v);

    for (uint32_t g = 0; g < q->out->n_parts && !base->t->failed; g++) {
        const struct zf_take own = elastic ? zf_take_item(base, g) : zf_take_id(&state, g);
        const struct zf_pv *set = q->out->stage3 ? NULL : zf_pv_item(settings, g);
        struct ds_part *p = q->out->part[g];

        p->elastic = elastic;
        p->muon = ds_is_true(zf_pv_get(set, "use_muon"));
        p->moe = ds_is_true(zf_pv_get(set, "moe"));
        optim_take_states(q, &own, set, p);
    }
}

/* Takes ds_zero_partition_groups[g], the ranks that share a group of stage 3 with experts.
 * Source: deepspeed/runtime/zero/stage3.py, 0.19.8. */
static void optim_take_member(const struct zf_take *one, struct ds_part *p)
{
    const struct zf_take list = zf_take_key(one, "partition_ranks");
    const struct zf_take count = zf_take_key(one, "partition_count");
    const struct zf_take own = zf_take_key(one, "partition_rank");
    uint64_t n = zf_take_list(&list), n_recorded = zf_take_u64(&count), at = zf_take_u64(&own);
    uint32_t *ranks = zf_take_room(one->t, n, sizeof *ranks);

    for (uint64_t i = 0; i < n && !one->t->failed; i++) {
        const struct zf_take item = zf_take_item(&list, i);
        uint64_t rank = zf_take_u64(&item);

        (void)zf_take_must(&item, rank < UINT32_MAX, "%llu is not the number of a rank",
                           (unsigned long long)rank);
        ranks[i] = (uint32_t)rank;
    }
    (void)zf_take_must(
        one, one->t->failed || (n_recorded == n && n <= UINT32_MAX && at < n && ranks[at] == p->dp),
        "rank %u is not at index %llu of %llu of its %llu partition_ranks", p->dp,
        (unsigned long long)at, (unsigned long long)n_recorded, (unsigned long long)n);
    p->ranks = ranks;
    p->n_ranks = (uint32_t)n;
    p->partitions = n;
}

static void optim_take_members(const struct zf_take *list, struct ds_optim *r)
{
    uint64_t n = zf_pv_len(list->v);

    (void)zf_take_must(list, n == 0 || n == r->n_parts, "it has %llu entries for %u groups",
                       (unsigned long long)n, r->n_parts);
    for (uint32_t g = 0; g < n && !list->t->failed; g++) {
        const struct zf_take one = zf_take_item(list, g);

        optim_take_member(&one, r->part[g]);
    }
}

/* Takes param_slice_mappings: per group a mapping of names to fragment_address(numel, start).
 * Source: deepspeed/utils/tensor_fragment.py, 0.7.4 … 0.19.8. */
static void optim_take_slices(const struct zf_take *list, struct ds_optim *r)
{
    for (uint32_t g = 0; g < r->n_parts && zf_pv_len(list->v) > 0 && !list->t->failed; g++) {
        const struct zf_take map = zf_take_item(list, g);
        uint64_t n = zf_pv_is_map(map.v) ? zf_pv_len(map.v) : 0;
        struct ds_slice *s = zf_take_room(list->t, n, sizeof *s);

        for (uint64_t i = 0; i < n && !list->t->failed; i++) {
            const struct zf_take name = zf_take_name(&map, i), one = zf_take_item(&map, i);
            const struct zf_take numel = zf_take_key(&one, "numel"),
                                 start = zf_take_key(&one, "start");

            s[i] = (struct ds_slice){ds_take_name(&name), zf_take_u64(&start), zf_take_u64(&numel)};
        }
        r->part[g]->slice = s;
        r->part[g]->n_slices = (uint32_t)n;
    }
}

/* ---- stage 1 before 0.4 ---- */

#define CUTS "local_sub_partitions_of_fp32_groups"
#define CUTS_MOST 65536 /* most sub-partitions of a group */

/* Takes the sub-partitions of a group, and their states. */
static struct ds_part *optim_take_cut(const struct optim_reading *q, const struct zf_take *vectors,
                                      const struct zf_take *states, uint64_t n)
{
    struct ds_part *part = zf_take_room(vectors->t, n, sizeof *part);
    struct zf_err err;

    for (uint64_t i = 0; i < n && !vectors->t->failed; i++) {
        const struct zf_take vector = zf_take_item(vectors, i), own = zf_take_item(states, i);

        part[i] = (struct ds_part){.path = q->out->path, .dp = q->out->dp, .elastic = true};
        if (i > 0 && !(part[i].path = zf_arena_fmt(q->ds->a, &err, "%s, sub-partition %u",
                                                   q->out->path, (unsigned)i)))
            (void)zf_take_fail(&vector, &err);
        optim_take_flat(q, &vector, &part[i].master);
        optim_take_states(q, &own, NULL, &part[i]);
    }
    return part;
}

/* CUTS[g][i] and base_optimizer_state[g][i] are sub-partition i of group g.
 * Source: deepspeed/runtime/zero/stage1.py (state_dict), 0.3.14. */
static void optim_take_cuts(const struct optim_reading *q, const struct zf_take *in)
{
    const struct zf_take cuts = zf_take_key(in, CUTS),
                         base = zf_take_key(in, "base_optimizer_state");
    struct ds_optim *r = q->out;
    uint64_t n = zf_take_list(&cuts);
    uint32_t *n_cuts = zf_take_room(in->t, n, sizeof *n_cuts);

    r->n_cuts = n_cuts;
    r->n_parts = (uint32_t)n;
    r->part = zf_take_room(in->t, n, sizeof *r->part);
    for (uint64_t g = 0; g < n && !in->t->failed; g++) {
        const struct zf_take one = zf_take_item(&cuts, g), states = zf_take_item(&base, g);
        uint64_t k = zf_take_list(&one);

        if (zf_take_must(&one, k > 0 && k <= CUTS_MOST,
                         "it has %llu sub-partitions, expected 1 to %d", (unsigned long long)k,
                         CUTS_MOST)) {
            n_cuts[g] = (uint32_t)k;
            r->part[g] = optim_take_cut(q, &one, &states, k);
        }
    }
}

/* ---- the file ---- */

static void optim_take_inner(const struct optim_reading *q, const struct zf_take *in)
{
    struct ds_optim *r = q->out;
    const struct zf_take slots = zf_take_key(in, "fp32_flat_groups");
    const struct zf_take cuts = zf_take_key(in, "single_partition_of_fp32_groups");
    const struct zf_take count = zf_take_key(in, "partition_count");
    const struct zf_take members = zf_take_key(in, "ds_zero_partition_groups");
    const struct zf_take slices = zf_take_key(in, "param_slice_mappings");
    const struct zf_take pads = zf_take_key(in, "param_alignment_paddings");
    const struct zf_take stage = zf_take_key(in, "zero_stage");

    r->stage3 = slots.v != NULL;
    r->stage = optim_read_stage(stage.v);
    if (zf_pv_is_seq(zf_pv_get(in->v, CUTS)) && r->stage == 1) {
        optim_take_cuts(q, in);
        optim_take_partitions(&count, r);
        return;
    }
    if (!zf_take_must(in, slots.v || cuts.v,
                      "this is not a ZeRO file: it has neither single_partition_of_fp32_groups nor "
                      "fp32_flat_groups") ||
        !zf_take_must(&stage, r->stage >= 0 && (r->stage == 3) == r->stage3, "it contradicts %s",
                      slots.v ? slots.key : cuts.key))
        return;
    const struct zf_take base =
        zf_take_key(in, r->stage3 ? "optimizer_state_dict" : "base_optimizer_state");
    optim_take_vectors(q, r->stage3 ? &slots : &cuts);
    optim_take_partitions(&count, r);
    optim_take_members(&members, r);
    if (q->ds->want_slices)
        optim_take_slices(&slices, r);
    for (uint32_t g = 0; g < r->n_parts && pads.v && !in->t->failed; g++) {
        const struct zf_take one = zf_take_item(&pads, g);

        optim_take_pads(&one, r->part[g]);
    }
    optim_take_base(q, &base);
}

/* A swap file is written by several threads, each a multiple of 1024 bytes.  Until 0.15 the setting of
 * the number of threads was called thread_count; later configurations may still contain that one.
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

    r->config.known = zf_pv_is_map(config); /* it may be just the path of a file */
    r->config.round_robin = ds_is_true(zf_pv_get(zero, "round_robin_gradients"));
    r->config.blocks = ds_is_true(zf_pv_get(config, "use_data_before_expert_parallelism"));
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
    struct zf_taker taker = {.arena = ds->a};
    const struct optim_reading q = {ds, t, r};
    const struct zf_take root = zf_take_root(&taker, zf_torch_root(t));
    const struct zf_take in = zf_take_key(&root, "optimizer_state_dict");
    const struct zf_take shapes = zf_take_key(&root, "param_shapes");
    const struct zf_pv *version = zf_pv_get(root.v, "ds_version");

    (void)zf_take_must(&root, zf_pv_is_map(in.v),
                       "this is not a ZeRO file: it has no \"optimizer_state_dict\"");
    optim_read_swap_unit(ds, root.v);
    optim_read_config(root.v, r);
    optim_take_inner(&q, &in);
    r->version = optim_text(ds->a, version ? version : zf_pv_get(in.v, "ds_version"), err);
    if (zf_take_given(&shapes))
        ds_take_shapes(ds, &shapes, &r->group, &r->n_groups);
    return r->version && zf_take_ok(&taker, err);
}

/* Checks the name under which the file was written; one storage is enough, since all are in one archive. */
static bool optim_check_name(const struct ds_file *f, const struct ds_optim *r, struct zf_err *err)
{
    for (uint32_t g = 0; g < r->n_parts; g++) {
        const struct ds_flat *v = &r->part[g]->master;

        if (v->src && !v->swapped)
            return ds_dir_same_rank(f->path, v->src->name, err);
    }
    return true;
}

bool ds_optim_read(struct ds_save *ds, const struct ds_file *f, struct ds_optim *out,
                   struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ds->files, f->path, err);

    *out = (struct ds_optim){.path = f->path, .dp = f->dp};
    /* swap folders are named after global ranks; consecutive ones are tensor-parallel ranks.
     * Source: runtime/engine.py (save_checkpoint), utils/groups.py (_init_tp_mesh_device) */
    ds->swap_rank = f->dp * (ds->n_ranks > ds->dir.n_mp ? ds->n_ranks : ds->dir.n_mp) + f->mp;
    if (!t)
        return false;
    /* state/ shows the settings of the first file that can be read */
    return (optim_read_root(ds, t, out, err) &&
            (ds->shown_optim || ds_state_optim(ds, t, f->path, err)) &&
            ds_agree_read(ds, t, f->path, false, err) && optim_check_name(f, out, err)) ||
           (!ds_err_named(err) && zf_err_in(err, "%s", zf_torch_name(t)));
}
