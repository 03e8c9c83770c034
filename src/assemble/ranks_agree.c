/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank writes its own file, perhaps into the directory of an earlier save, so a rank that died leaves
 * its older file among the new ones.  Most of a file differs between ranks anyway: random states, samplers,
 * timers, metrics.  Compared are a trainer's counters (steps, epochs, world size) and the optimizer's
 * settings.
 *
 * The optimizers of two ranks may have different parameters (pipeline parallel, experts): their groups are
 * compared only if both list the same parameters, and the step of an entry only if the entry's tensors are
 * pieces of one tensor, or its key is a parameter's name.  The same number as a key may be a different
 * parameter in each rank.
 * Source: torch/optim/optimizer.py (state_dict, 1.13 … 2.14); verl/utils/checkpoint/
 * fsdp_checkpoint_manager.py (0.4 … 0.6); olmo/checkpoint.py (0.6). */
#include "join.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/agree.h>

struct ranks_values {
    struct zf_agree *plain;  /* the trainer's counters */
    struct zf_agree *params; /* the parameters of each group */
    struct zf_agree *groups; /* settings of the groups, steps of the entries */
};

void ranks_values_free(struct ranks_values *s)
{
    if (s) {
        zf_agree_free(s->plain);
        zf_agree_free(s->params);
        zf_agree_free(s->groups);
        free(s);
    }
}

static bool ranks_values_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Values not compared here: the lists of parameters, which are compared separately, and estimates of Prodigy
 * and D-Adaptation, which depend on the rank's part of the weights. */
static bool ranks_values_own(const char *key, const char *name)
{
    static const char *const own[] = {"params",
                                      "param_names",
                                      "d",
                                      "d_max",
                                      "d_hat",
                                      "d_numerator",
                                      "d_denom",
                                      "d0",
                                      "numerator_weighted",
                                      "gsq_weighted",
                                      "effective_lr",
                                      "sk_l1",
                                      "s",
                                      NULL};

    (void)key;
    return ranks_values_one_of(name, own);
}

/* Adds the numbers with these names in a dict. */
static bool ranks_add_numbers(struct ranks_values *s, struct zf_torch *t, const char *head,
                              const struct zf_pv *map, const char *const *names, struct zf_err *err)
{
    char key[96];

    for (; *names; names++) {
        const struct zf_pv *v = zf_pv_is_map(map) ? zf_pv_get(map, *names) : NULL;

        (void)snprintf(key, sizeof key, "%s%s%s", head, *head ? "." : "", *names);
        if (zf_pv_is_number(v) && !zf_agree_add(s->plain, t, key, v, NULL, false, err))
            return false;
    }
    return true;
}

static bool ranks_add_counters(struct ranks_values *s, struct zf_torch *t, struct zf_err *err)
{
    static const char *const top[] = {"step",
                                      "global_step",
                                      "global_steps",
                                      "iteration",
                                      "iter",
                                      "epoch",
                                      "world_size",
                                      "num_ranks",
                                      "dp_world_size",
                                      "tensor_parallel_size",
                                      "max_epoch",
                                      "max_steps",
                                      NULL};
    static const char *const schedule[] = {"last_epoch", "_step_count", "last_batch_iteration",
                                           "total_steps", NULL};
    static const char *const where[] = {"lr_scheduler", "scheduler", "sched", NULL};
    const struct zf_pv *root = zf_torch_root(t);

    if (!ranks_add_numbers(s, t, "", root, top, err))
        return false;
    for (size_t i = 0; where[i]; i++) {
        const struct zf_pv *v = zf_pv_is_map(root) ? zf_pv_get(root, where[i]) : NULL;

        if (!ranks_add_numbers(s, t, where[i], v, schedule, err))
            return false;
    }
    return true;
}

/* Is a value of the entry a rank's piece of a sharded tensor? */
static bool ranks_has_pieces(struct zf_torch *t, const struct zf_pv *entry)
{
    for (uint64_t i = 0; i < zf_pv_len(entry); i++) {
        enum zf_torch_kind kind = zf_torch_kind(t, zf_pv_val(entry, i));

        if (kind == ZF_TORCH_DTENSOR || kind == ZF_TORCH_SHARDED)
            return true;
    }
    return false;
}

static bool ranks_add_steps(struct ranks_values *s, struct zf_torch *t, const char *head,
                            const struct zf_pv *state, struct zf_err *err)
{
    char name[320];

    for (uint64_t i = 0; zf_pv_is_map(state) && i < zf_pv_len(state); i++) {
        const struct zf_pv *key = zf_pv_key(state, i), *entry = zf_pv_val(state, i);
        const struct zf_pv *step = zf_pv_is_map(entry) ? zf_pv_get(entry, "step") : NULL;
        uint64_t id, n;

        if (!step)
            continue;
        if (zf_pv_kind(key) == ZF_PV_STR)
            (void)snprintf(name, sizeof name, "%sstate.%.250s.step", head, zf_pv_text(key, &n));
        else if (zf_pv_u64(key, &id) && ranks_has_pieces(t, entry))
            (void)snprintf(name, sizeof name, "%sstate[%" PRIu64 "].step", head, id);
        else
            continue;
        if (!zf_agree_add(s->groups, t, name, step, NULL, false, err))
            return false;
    }
    return true;
}

static bool ranks_add_groups(struct ranks_values *s, struct zf_torch *t, const char *head,
                             const struct zf_pv *groups, struct zf_err *err)
{
    char name[120];

    for (uint64_t i = 0; zf_pv_is_seq(groups) && i < zf_pv_len(groups); i++) {
        const struct zf_pv *group = zf_pv_item(groups, i);

        if (!zf_pv_is_map(group))
            continue;
        (void)snprintf(name, sizeof name, "%sparam_groups[%" PRIu64 "]", head, i);
        if (!zf_agree_add(s->params, t, name, zf_pv_get(group, "params"), NULL, true, err) ||
            !zf_agree_add(s->groups, t, name, group, ranks_values_own, false, err))
            return false;
    }
    return true;
}

/* Adds the optimizers, which may be the file itself or values in it. */
static bool ranks_add_optimizers(struct ranks_values *s, struct zf_torch *t, struct zf_err *err)
{
    static const char *const where[] = {"optim", "optimizer", "optim_state_dict",
                                        "optimizer_state_dict", NULL};
    const struct zf_pv *root = zf_torch_root(t);
    char head[40] = "";

    if (!zf_pv_is_map(root))
        return true;
    for (size_t i = 0; i == 0 || where[i - 1]; i++) {
        const struct zf_pv *optim = i ? zf_pv_get(root, where[i - 1]) : root;

        if (i)
            (void)snprintf(head, sizeof head, "%s.", where[i - 1]);
        if (zf_pv_is_map(optim) &&
            (!ranks_add_groups(s, t, head, zf_pv_get(optim, "param_groups"), err) ||
             !ranks_add_steps(s, t, head, zf_pv_get(optim, "state"), err)))
            return false;
    }
    return true;
}

struct ranks_values *ranks_values_new(struct zf_torch *t, const char *path,
                                      const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(ranks_values) struct ranks_values *s = calloc(1, sizeof *s);

    if (!s)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    s->plain = zf_agree_new(path, lim->model_memory, err);
    s->params = s->plain ? zf_agree_new(path, lim->model_memory, err) : NULL;
    s->groups = s->params ? zf_agree_new(path, lim->model_memory, err) : NULL;
    if (!s->groups || !ranks_add_counters(s, t, err) || !ranks_add_optimizers(s, t, err))
        return NULL;
    return zf_give(s);
}

bool ranks_values_compare(struct ranks_values *s, struct ranks_values *first, struct zf_err *err)
{
    if (!zf_agree_compare(s->plain, first->plain, true, err))
        return false;
    if (!zf_agree_compare(s->params, first->params, false, err)) {
        if (err->code != ZF_E_FORMAT)
            return false;
        zf_err_clear(err); /* the optimizers have different parameters */
        return true;
    }
    return zf_agree_compare(s->groups, first->groups, true, err);
}
