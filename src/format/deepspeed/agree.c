/* SPDX-License-Identifier: Apache-2.0 */
/* Values that every file of one save repeats.  Each rank writes its own file, into a directory that
 * may hold files already, so a rank that died leaves the file of an earlier save under the same
 * tag.  Buffers, random states, samplers, paddings and the client state differ between ranks and
 * are not compared. Source: deepspeed/runtime/engine.py (_save_checkpoint,
 * _save_zero_checkpoint), runtime/zero/stage_1_and_2.py, stage3.py, bf16_optimizer.py
 * (state_dict), 0.3.14 … 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/hash.h>
#include <zf/base/vec.h>

#define CONFIG "ds_config"
#define INNER "optimizer_state_dict"

/* True if name is one of the words, which are separated by blanks. */
static bool agree_is_one_of(const char *name, const char *words)
{
    size_t len = strlen(name);

    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (n == len && memcmp(words, name, n) == 0)
            return true;
    }
    return false;
}

/* Settings that may differ between ranks: printing and logging, and folders of a node. */
static bool agree_own_setting(const char *key, const char *name)
{
    (void)key;
    return agree_is_one_of(
        name,
        "tensorboard wandb csv_monitor comet monitor_config flops_profiler comms_logger "
        "steps_per_print dump_state autotuning nvme_path output_path job_name profile verbose "
        "memory_breakdown wall_clock_breakdown logging local_rank");
}

/* Prodigy and D-Adaptation estimate a step size from the rank's own partition of the weights. */
static bool agree_own_estimate(const char *key, const char *name)
{
    (void)key;
    return agree_is_one_of(
        name,
        "d d_max d_hat d_numerator d_denom d_prev shared_d running_d_numerator "
        "running_d_denom sk_l1 sksq_weighted dlr numerator_weighted gsq_weighted effective_lr");
}

/* One file that is being read. */
struct agree_file {
    struct zf_agree *list;
    struct zf_torch *torch;
};

/* The settings of one save are equal on all ranks that record them. */
static bool agree_add_settings(struct agree_file *s, const struct zf_pv *root, struct zf_err *err)
{
    return zf_agree_add(s->list, s->torch, CONFIG, zf_pv_get(root, CONFIG), agree_own_setting,
                        false, err) &&
           zf_agree_add(s->list, s->torch, "ds_version", zf_pv_get(root, "ds_version"), NULL, false,
                        err);
}

/* Adds the values of map that have these names, each called `in` followed by its name. */
static bool agree_add_each(struct agree_file *s, const char *in, const struct zf_pv *map,
                           const char *words, struct zf_err *err)
{
    char name[120];

    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        (void)snprintf(name, sizeof name, "%s%.*s", in, (int)n, words);
        if (!zf_agree_add(s->list, s->torch, name, zf_pv_get(map, name + strlen(in)), NULL, true,
                          err))
            return false;
    }
    return true;
}

/* Adds the values that all model-parallel ranks repeat; shapes and names differ between ranks. */
static bool agree_add_job(struct agree_file *s, const struct zf_pv *root, struct zf_err *err)
{
    return agree_add_each(s, "", root,
                          "global_steps global_samples skipped_steps dp_world_size mp_world_size "
                          "checkpoint_parallel_dimensions",
                          err) &&
           agree_add_settings(s, root, err) &&
           /* its maps have values for every parameter: too many to keep */
           agree_add_each(s, "universal_checkpoint_info.",
                          zf_pv_get(root, "universal_checkpoint_info"),
                          "universal_checkpoint_version original_vocab_size padded_vocab_size "
                          "tp_replicated_parameter_patterns parameter_to_average_patterns "
                          "parameter_with_row_parallelism_patterns vocabulary_parameter_patterns "
                          "parameter_with_2_sub_params_cat_dim_0 parameter_with_sub_params "
                          "sub_param_shard_widths",
                          err) &&
           /* values that a scheduler measures may differ; its counters may not */
           agree_add_each(s, "lr_scheduler.", zf_pv_get(root, "lr_scheduler"),
                          "last_batch_iteration last_epoch _step_count", err);
}

static bool agree_add_shapes(struct agree_file *s, const struct zf_pv *root, struct zf_err *err)
{
    return zf_agree_add(s->list, s->torch, "param_shapes", zf_pv_get(root, "param_shapes"), NULL,
                        true, err);
}

static bool agree_add_model(struct agree_file *s, const struct zf_pv *root, struct zf_err *err)
{
    return agree_add_job(s, root, err) &&
           agree_add_each(s, "", root, "frozen_param_shapes buffer_names", err) &&
           agree_add_shapes(s, root, err);
}

/* Adds the step of every parameter group: states[i] is a mapping with a "step". */
static bool agree_add_steps(struct agree_file *s, const char *key, const struct zf_pv *states,
                            struct zf_err *err)
{
    char name[160];

    for (uint64_t i = 0; i < zf_pv_len(states); i++) {
        const struct zf_pv *one =
            zf_pv_is_map(states) ? zf_pv_val(states, i) : zf_pv_item(states, i);
        uint64_t id = i;

        if (zf_pv_is_map(states) && !zf_pv_u64(zf_pv_key(states, i), &id))
            continue;
        (void)snprintf(name, sizeof name, "%s[%llu].step", key, (unsigned long long)id);
        if (!zf_agree_add(s->list, s->torch, name, zf_pv_get(one, "step"), NULL, true, err))
            return false;
    }
    return true;
}

/* Adds the inner optimizer: {"state": …, "param_groups": …}, or the list of an elastic save. */
static bool agree_add_base(struct agree_file *s, const char *key, const struct zf_pv *base,
                           struct zf_err *err)
{
    char name[120];

    if (zf_pv_is_seq(base) && !zf_pv_is_map(base))
        return agree_add_steps(s, key, base, err);
    (void)snprintf(name, sizeof name, "%s.param_groups", key);
    if (!zf_agree_add(s->list, s->torch, name, zf_pv_get(base, "param_groups"), agree_own_estimate,
                      true, err))
        return false;
    (void)snprintf(name, sizeof name, "%s.state", key);
    return agree_add_steps(s, name, zf_pv_get(base, "state"), err);
}

static bool agree_add_optim(struct agree_file *s, const struct zf_pv *root, struct zf_err *err)
{
    const struct zf_pv *in = zf_pv_get(root, INNER);

    return agree_add_each(s, INNER ".", in,
                          "zero_stage loss_scaler dynamic_loss_scale overflow clip_grad "
                          "partition_count ds_version base_optimizer_state_step "
                          "param_alignment_paddings",
                          err) &&
           agree_add_settings(s, root, err) && agree_add_shapes(s, root, err) &&
           agree_add_base(s, INNER ".base_optimizer_state", zf_pv_get(in, "base_optimizer_state"),
                          err) &&
           agree_add_base(s, INNER "." INNER, zf_pv_get(in, INNER), err);
}

/* All model-parallel ranks have the same step counts, but each has its own parameter groups. */
static bool agree_read_steps(struct ds_save *ds, struct zf_torch *t, const char *path,
                             struct zf_err *err)
{
    const struct zf_pv *in = zf_pv_get(zf_torch_root(t), INNER);
    const struct zf_pv *elastic = zf_pv_get(in, "base_optimizer_state");
    const struct zf_pv *state =
        zf_pv_get(zf_pv_is_map(elastic) ? elastic : zf_pv_get(in, INNER), "state");
    struct agree_file s = {.torch = t};

    zf_agree_free(ds->steps_values);
    ds->steps_values = s.list = zf_agree_new(path, ds->o->lim->model_memory, err);
    return s.list &&
           agree_add_each(&s, INNER ".", in, "zero_stage base_optimizer_state_step", err) &&
           agree_add_steps(&s, "the optimizer's state", state ? state : elastic, err);
}

bool ds_agree_read(struct ds_save *ds, struct zf_torch *t, const char *path, bool model,
                   struct zf_err *err)
{
    struct agree_file s = {.torch = t};

    zf_agree_free(ds->file_values);
    ds->file_values = s.list = zf_agree_new(path, ds->o->lim->model_memory, err);
    return s.list && (model ? agree_add_model : agree_add_optim)(&s, zf_torch_root(t), err) &&
           (model || ds->rank->optim_values || agree_read_steps(ds, t, path, err));
}

bool ds_agree_job(struct ds_save *ds, struct zf_torch *t, const char *path, struct zf_err *err)
{
    zf_auto(agree) struct zf_agree *list = zf_agree_new(path, ds->o->lim->model_memory, err);
    struct agree_file s = {list, t};

    if (!list || !agree_add_job(&s, zf_torch_root(t), err))
        return false;
    if (ds->job_values)
        return zf_agree_compare(list, ds->job_values, false, err);
    ds->job_values = zf_give(list);
    return true;
}

/* Compares the steps in the first optimizer file of a model-parallel rank with those of the first rank. */
static bool agree_check_steps(struct ds_save *ds, struct zf_err *err)
{
    if (ds->job_steps)
        return zf_agree_compare(ds->steps_values, ds->job_steps, true, err);
    ds->job_steps = ds->steps_values;
    ds->steps_values = NULL;
    return true;
}

bool ds_agree_check(struct ds_save *ds, bool model, struct zf_err *err)
{
    struct zf_agree **first = model ? &ds->rank->model_values : &ds->rank->optim_values;

    if (*first)
        return zf_agree_compare(ds->file_values, *first, false, err);
    *first = ds->file_values;
    ds->file_values = NULL;
    if (!model && !agree_check_steps(ds, err))
        return false;
    return model || !ds->rank->model_values ||
           zf_agree_compare(*first, ds->rank->model_values, true, err);
}

/* Are all values of the file read last in its pickle (none in a storage), and without a device index? */
static bool agree_is_plain(const struct ds_save *ds)
{
    return !zf_agree_read_data(ds->file_values) && !zf_agree_has_device(ds->file_values);
}

void ds_agree_remember(struct ds_save *ds, struct zf_torch *t)
{
    if (agree_is_plain(ds))
        zf_torch_known_add(ds->files.known, t);
}

/* Compares one more model-states file.  Degraded: a file that cannot be read is only noted. */
static bool agree_check_file(struct ds_save *ds, const struct ds_file *f, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ds->files, f->path, err);

    if (t && zf_torch_is_known(t))
        return true;
    if (t && ds_agree_read(ds, t, f->path, true, err)) {
        bool plain = agree_is_plain(ds);

        if (!ds_agree_check(ds, true, err))
            return false;
        if (plain)
            zf_torch_known_add(ds->files.known, t);
        return true;
    }
    if (!ds->o->degraded || err->code == ZF_E_NOMEM)
        return !ds_err_named(err) && t && zf_err_in(err, "%s", zf_torch_name(t));
    return zf_note_failure(ds->b, ZF_NOTE_OTHER, NULL, err,
                           "a file could not be compared with the others: ");
}

bool ds_agree_models(struct ds_save *ds, const char *first, const struct ds_file *f, uint32_t n,
                     struct zf_err *err)
{
    if (!ds_files_expect_alike(ds, first, f, n, err))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!agree_check_file(ds, &f[i], err))
            return false;
    return true;
}

/* ---- digest of an affine map: the sum of a hash of each value and its path, so that the order of keys does not matter ---- */

#define DIGEST_VALUES (1u << 24)

/* A value that is not hashed yet, and the hash of the path (keys and indices) to it. */
struct agree_digest {
    const struct zf_pv *v;
    uint64_t way;
};
typedef zf_vec(struct agree_digest) agree_digests;

static uint64_t agree_digest_plain(const struct zf_pv *v, uint64_t way)
{
    uint64_t n = 0;
    int64_t i = 0;
    double f = 0;

    if (zf_pv_int(v, &i))
        return zf_hash(way, &i, sizeof i);
    if (zf_pv_float(v, &f))
        return zf_hash(way, &f, sizeof f);
    if (zf_pv_kind(v) == ZF_PV_STR) {
        const char *p = zf_pv_text(v, &n);

        return zf_hash(way, p, n);
    }
    return way;
}

static bool agree_digest_push(agree_digests *list, const struct zf_pv *v, uint64_t way,
                              struct zf_err *err)
{
    struct agree_digest *one = zf_vec_push(list, err);

    if (one)
        *one = (struct agree_digest){v, way};
    return one != NULL;
}

bool ds_tp_digest(const struct zf_pv *v, uint64_t *out, struct zf_err *err)
{
    agree_digests list = {0};
    uint64_t sum = 1, seen = 0;
    bool ok = !zf_pv_is_map(v) || agree_digest_push(&list, v, 7, err);

    *out = 0;
    while (ok && list.n > 0 && seen < DIGEST_VALUES) {
        struct agree_digest one = list.at[--list.n];
        bool map = zf_pv_is_map(one.v), seq = !map && zf_pv_is_seq(one.v);
        uint64_t n = map || seq ? zf_pv_len(one.v) : 0;

        /* an empty container counts as a value */
        sum += n == 0 ? agree_digest_plain(one.v, zf_hash(one.way, "v", 1)) : 0;
        seen += n + 1;
        for (uint64_t i = 0; ok && i < n && seen < DIGEST_VALUES; i++) {
            uint64_t way = map ? agree_digest_plain(zf_pv_key(one.v, i), zf_hash(one.way, "k", 1))
                               : zf_hash(one.way, &i, sizeof i);

            ok = agree_digest_push(&list, map ? zf_pv_val(one.v, i) : zf_pv_item(one.v, i), way,
                                   err);
        }
    }
    if (ok && zf_pv_is_map(v) && list.n == 0 && seen < DIGEST_VALUES)
        *out = sum != 0 ? sum : 1;
    zf_vec_fini(&list);
    return ok;
}
