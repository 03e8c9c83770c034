/* SPDX-License-Identifier: Apache-2.0 */
/* Dots in a key may be nesting or part of a name; planner_data has the steps between which torch put
 * them.  A path decides under which name a tensor is shown, so it is believed only where its steps,
 * joined by dots, spell the key.
 * Source: torch/distributed/checkpoint/_nested_dict.py, flatten_state_dict (2.0 … 2.14). */
#include "paths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/vec.h>

struct paths_step {
    size_t at, n; /* in joined */
    bool index;
};

/* The path at hand: its steps, joined by dots. */
struct dcp_paths {
    zf_vec(struct paths_step) step;
    struct zf_out joined;
};

static bool paths_read_step(struct dcp_paths *s, const struct zf_pv *v, struct zf_err *err)
{
    struct paths_step *step = zf_vec_push(&s->step, err);
    uint64_t n = 0;
    int64_t at;

    if (!step) {
        return false;
    }
    zf_out_str(&s->joined, s->step.n > 1 ? "." : "");
    step->at = s->joined.n;
    if (zf_pv_kind(v) == ZF_PV_STR) {
        const char *p = zf_pv_text(v, &n);

        zf_out_add(&s->joined, p, n);
    } else if (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &at)) {
        char digits[24];

        (void)snprintf(digits, sizeof digits, "%" PRId64, at);
        step->index = true;
        zf_out_str(&s->joined, digits);
    } else {
        s->step.n = 0; /* another planner's own */
        return true;
    }
    step->n = s->joined.n - step->at;
    return zf_out_ok(&s->joined, err);
}

/* Reads a tuple; no steps: it is no path, because one is neither a name nor a position. */
static bool paths_read(struct dcp_paths *s, const struct zf_pv *tuple, struct zf_err *err)
{
    s->step.n = 0;
    zf_out_cut(&s->joined, 0);
    for (uint64_t i = 0; zf_pv_is_seq(tuple) && i < zf_pv_len(tuple); i++) {
        if (!paths_read_step(s, zf_pv_item(tuple, i), err)) {
            return false;
        }
        if (s->step.n == 0) {
            break;
        }
    }
    return true;
}

/* Its steps are stretches of the name, which they spell. */
static bool paths_keep(struct zf_dcp *d, struct dcp_key *key, const struct dcp_paths *s,
                       struct zf_err *err)
{
    struct zf_step *kept = zf_arena_get(d->pickles, s->step.n, sizeof *kept, err);

    if (!kept) {
        return false;
    }
    for (size_t i = 0; i < s->step.n; i++) {
        const struct paths_step *step = &s->step.at[i];

        kept[i] = (struct zf_step){.p = key->name + step->at, .n = step->n, .index = step->index};
    }
    key->path = (struct zf_path){.step = kept, .n = (uint32_t)s->step.n};
    return true;
}

/* Does the key have this path already?  Another rank said so. */
static bool paths_known(const struct dcp_key *key, const struct dcp_paths *s)
{
    bool same = key->path.n == s->step.n;

    for (uint32_t i = 0; same && i < key->path.n; i++) {
        same = key->path.step[i].n == s->step.at[i].n;
    }
    return same;
}

bool dcp_take_path(struct dcp_reading *r, const struct zf_pv *fqn, const struct zf_pv *tuple,
                   struct zf_err *err)
{
    uint64_t n = 0;
    const char *name = zf_pv_text(fqn, &n);
    uint32_t number = name ? dcp_find_key(r->d, name, n) : ZF_DCP_NONE;
    struct dcp_paths *s = r->paths;

    if (number == ZF_DCP_NONE) {
        return true;
    }
    struct dcp_key *key = &r->d->key[number];
    if (!paths_read(s, tuple, err)) {
        return false;
    }
    if (s->step.n == 0) {
        return true;
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
    return paths_known(key, s) || paths_keep(r->d, key, s, err);
}

struct dcp_paths *dcp_paths_new(struct zf_err *err)
{
    struct dcp_paths *s = calloc(1, sizeof *s);

    if (!s) {
        (void)zf_fail_sys(err, "read paths");
    }
    return s;
}

void dcp_paths_free(struct dcp_paths *s)
{
    if (s) {
        zf_vec_fini(&s->step);
        zf_auto_out(&s->joined);
        free(s);
    }
}

/* Does the step begin with the first five letters of `head`?  "optim" counts as "optimizer".  (Behind a
 * shorter step is a dot, or the end of the name, which are none of these letters.) */
static bool paths_is_like(const struct zf_step *s, const char *head)
{
    return strncmp(s->p, head, 5) == 0;
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
