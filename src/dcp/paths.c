/* SPDX-License-Identifier: Apache-2.0 */
/* Dots in a key may be nesting or part of a name; planner_data has the steps between which torch put
 * them.  A path decides under which name a tensor is shown, so it is believed only where its steps,
 * joined by dots, spell the key.
 * Source: torch/distributed/checkpoint/_nested_dict.py, flatten_state_dict (2.0 … 2.14). */
#include "paths.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/vec.h>

/* The path at hand. */
struct paths_scratch {
    zf_vec(struct zf_step) step;
    struct zf_out joined;
};

/* Reads a tuple; no steps: it is no path, because one is neither a name nor a position. */
static bool paths_read(struct zf_dcp *d, const struct zf_pv *tuple, struct paths_scratch *s,
                       struct zf_err *err)
{
    s->step.n = 0;
    for (uint64_t i = 0; zf_pv_is_seq(tuple) && i < zf_pv_len(tuple); i++) {
        const struct zf_pv *v = zf_pv_item(tuple, i);
        struct zf_step *step = zf_vec_push(&s->step, err);
        uint64_t n = 0;
        int64_t at;

        if (!step) {
            return false;
        }
        if (zf_pv_kind(v) == ZF_PV_STR) {
            step->p = zf_pv_text(v, &n);
            step->n = n;
        } else if (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &at)) {
            step->index = true;
            step->p = zf_arena_fmt(d->pickles, err, "%" PRId64, at);
            if (!step->p) {
                return false;
            }
            step->n = strlen(step->p);
        } else {
            s->step.n = 0; /* another planner's own */
            break;
        }
    }
    return true;
}

static bool paths_take(struct dcp_reading *r, struct dcp_key *key, const struct zf_pv *tuple,
                       struct paths_scratch *s, struct zf_err *err)
{
    struct zf_path path;
    struct zf_step *kept;

    if (!paths_read(r->d, tuple, s, err)) {
        return false;
    }
    path = (struct zf_path){.step = s->step.at, .n = (uint32_t)s->step.n};
    if (path.n == 0) {
        return true;
    }
    if (!zf_path_join(&s->joined, path, err)) {
        return false;
    }
    if (s->joined.n != key->name_len ||
        memcmp(zf_out_text(&s->joined), key->name, key->name_len) != 0) {
        (void)zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "planner_data says that the key \"%.100s\" is at \"%.100s\" of the state dict: "
            "which of them is it?",
            key->name, zf_out_text(&s->joined));
        return dcp_settle(r, err);
    }
    if (key->path.n == path.n &&
        zf_path_hash(key->path) == zf_path_hash(path)) { /* another rank said so */
        return true;
    }
    kept = zf_arena_get(r->d->pickles, path.n, sizeof *kept, err);
    if (!kept) {
        return false;
    }
    memcpy(kept, path.step, path.n * sizeof *kept);
    key->path = (struct zf_path){.step = kept, .n = path.n};
    return true;
}

bool dcp_take_paths(struct dcp_reading *r, const struct zf_pv *dict, struct zf_err *err)
{
    struct paths_scratch s = {.step = {0}};
    bool ok = true;

    for (uint64_t i = 0; ok && i < zf_pv_len(dict); i++) {
        uint64_t n = 0;
        const char *name = zf_pv_text(zf_pv_key(dict, i), &n);
        uint32_t key = name ? dcp_find_key(r->d, name, n) : ZF_DCP_NONE;

        ok = key == ZF_DCP_NONE || paths_take(r, &r->d->key[key], zf_pv_val(dict, i), &s, err);
    }
    zf_vec_fini(&s.step);
    zf_auto_out(&s.joined);
    return ok;
}

/* Does the step begin with the first five letters of `head`?  "optim" counts as "optimizer". */
static bool paths_is_like(const struct zf_step *s, const char *head)
{
    return s->n >= 5 && strncmp(s->p, head, 5) == 0;
}

/* Cuts "model.x" in two, so that its first step can be numbered. */
static void paths_cut(struct zf_step *step, uint32_t *n)
{
    const char *dot = *n == 1 ? memchr(step->p, '.', step->n) : NULL;

    if (dot) {
        size_t len = (size_t)(dot - step->p);

        step[1] = (struct zf_step){.p = dot + 1, .n = step->n - len - 1};
        step->n = len;
        *n = 2;
    }
}

bool dcp_path(struct zf_dcp *d, const struct dcp_key *k, struct zf_path *out, struct zf_err *err)
{
    const struct zf_dcp_group *group = &d->group[k->group];
    const struct zf_step flat = {.p = k->name, .n = k->name_len}, *from = &flat;
    struct zf_step *step;
    uint32_t n = 1, front;

    *out = k->path;
    if (k->path.n) {
        if (!group->number && !group->head) {
            return true;
        }
        n = k->path.n;
        from = k->path.step;
    }
    front = group->head && !paths_is_like(from, group->head);
    step = zf_arena_get(d->pickles, (uint64_t)n + 2, sizeof *step, err);
    if (!step) {
        return false;
    }
    step[0] = (struct zf_step){.p = group->head, .n = front ? strlen(group->head) : 0};
    memcpy(step + front, from, n * sizeof *step);
    if (group->number) {
        paths_cut(step + front, &n);
        step[front].p = zf_arena_fmt(d->pickles, err, "%.*s_%s", (int)(step[front].n & 0xffff),
                                     step[front].p, group->number);
        if (!step[front].p) {
            return false;
        }
        step[front].n = strlen(step[front].p);
    }
    *out = (struct zf_path){.step = step, .n = n + front};
    return true;
}
