/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/agree.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/torch_place.h>

static const char yaml_file[] = "metadata.yaml", yaml_key[] = "world_size:";

enum { YAML_MAX = 65536 };

bool train_world(struct olmo_save *s, uint32_t *out, struct zf_err *err)
{
    uint64_t n, world = 0;

    *out = 0;
    if (!zf_store_find(s->st, yaml_file))
        return true;
    zf_auto(mem) char *text = zf_store_slurp(s->st, yaml_file, YAML_MAX, &n, err);
    if (!text)
        return false;
    const char *at = strncmp(text, yaml_key, sizeof yaml_key - 1) == 0 ? text : NULL;
    for (const char *line = text; !at && (line = strchr(line, '\n')); line++)
        at = strncmp(line + 1, yaml_key, sizeof yaml_key - 1) == 0 ? line + 1 : NULL;
    const char *digits = at ? at + sizeof yaml_key - 1 : "";
    digits += strspn(digits, " ");
    size_t wide = strspn(digits, "0123456789");
    world = wide > 0 && wide <= 7 ? strtoul(digits, NULL, 10) : 0;
    if (world == 0 || (digits[wide] && !strchr(" \r\n#", digits[wide]))) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it has no line \"world_size: N\"");
        return zf_err_in(err, "%s", yaml_file);
    }
    *out = (uint32_t)world;
    return true;
}

bool train_check_world(uint32_t world, const struct zf_ranks *r, struct zf_err *err)
{
    return world == 0 || r->n == world ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "by %s %" PRIu32 " ranks wrote the save, but there is %s", yaml_file, world,
                   r->path[r->n - 1]);
}

/* ---- the trainer's state ---- */

/* Keys whose values are equal on all ranks.  Source: olmo/train.py, Trainer.trainer_state_dict (0.2 ... 0.6);
 * olmo_core/train/trainer.py, state_dict (1.0 ... 3.0). */
static const char *const train_key[] = {"global_step", "epoch", "world_size",
                                        "global_train_tokens_seen", "max_steps"};

static struct zf_agree *train_values(const struct olmo_save *s, struct zf_torch *t,
                                     const char *path, struct zf_err *err)
{
    zf_auto(agree) struct zf_agree *g = zf_agree_new(path, s->o->lim->model_memory, err);
    const struct zf_pv *root = zf_torch_root(t);

    for (size_t i = 0; g && i < sizeof train_key / sizeof train_key[0]; i++) {
        const struct zf_pv *v = zf_pv_get(root, train_key[i]);

        if (v && !zf_agree_add(g, t, train_key[i], v, NULL, true, err))
            return NULL;
    }
    return zf_give(g);
}

static bool train_check_rank(const struct zf_pv *root, uint32_t world, const char *path,
                             struct zf_err *err)
{
    uint64_t said;

    if (world == 0 || !zf_pv_u64(zf_pv_get(root, "world_size"), &said) || said == world)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "by its world_size %" PRIu64 " ranks wrote the save, but %" PRIu32
            " have files of tensors",
            said, world);
    return zf_err_in(err, "%s", path);
}

/* Shows the state of one rank. */
static bool train_show(struct olmo_save *s, struct zf_torch *t, const char *path,
                       struct zf_err *err)
{
    zf_auto(names) struct zf_names *names = zf_names_new(err);
    const struct zf_place_file f = {.torch = t, .path = path, .head = "train", .extra = true};
    int64_t step;

    if (zf_pv_kind(zf_pv_get(zf_torch_root(t), "global_step")) == ZF_PV_INT &&
        zf_pv_int(zf_pv_get(zf_torch_root(t), "global_step"), &step))
        zf_build_step(s->b, step);
    return names && zf_place_add_names(names, &f, s->o->lim, err) &&
           zf_place_all(s->b, names, &f, s->o->lim, err) &&
           zf_state_add(s->b, &f, "train", s->o->lim, err);
}

struct train_reading {
    struct olmo_save *s;
    uint32_t world;
    uint64_t n_ranks;      /* the world_size in the files; 0: not recorded */
    struct zf_agree *said; /* the values of the first file */
};

static bool train_read(struct train_reading *r, const char *path, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&r->s->files, path, err);
    zf_auto(agree) struct zf_agree *said = t ? train_values(r->s, t, path, err) : NULL;

    if (!said) {
        /* A damaged file is left out: no tensor of the model depends on it. */
        return err->code != ZF_E_IO && err->code != ZF_E_STALE && err->code != ZF_E_NOMEM &&
               zf_leave_out(r->s->b, path, NULL, err);
    }
    if (!train_check_rank(zf_torch_root(t), r->world, path, err) ||
        (r->said && !zf_agree_compare(said, r->said, false, err)))
        return zf_forgive(r->s->b, err);
    if (r->said)
        return true;
    if (!zf_pv_u64(zf_pv_get(zf_torch_root(t), "world_size"), &r->n_ranks))
        r->n_ranks = 0;
    r->said = zf_give(said);
    return train_show(r->s, t, path, err);
}

bool train_add(struct olmo_save *s, uint32_t world, struct zf_err *err)
{
    struct train_reading r = {.s = s, .world = world};
    struct zf_ranks ranks;
    bool ok = zf_ranks_list(s->st, s->a, "train", "rank%r.pt", 0, &ranks, err);
    const char **path = ok ? zf_arena_get(s->a, ranks.n_here, sizeof *path, err) : NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; path && i < ranks.n; i++)
        if (ranks.here[i])
            path[n++] = ranks.path[i];
    ok = path && zf_torch_ahead_begin(&s->files, path, n, err);
    for (uint32_t i = 0; ok && i < n; i++)
        ok = train_read(&r, path[i], err);
    zf_agree_free(r.said);
    const uint64_t all = world ? world : r.n_ranks;
    return ok && (n == 0 || all == 0 || n == all ||
                  zf_build_note(s->b, err, "%" PRIu32 " of %" PRIu64 " ranks have a file in train/",
                                n, all));
}
