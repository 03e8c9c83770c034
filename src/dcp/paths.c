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

/* Its steps are stretches of the name, which they spell, so that what is kept is how many there are, and of
 * each its length (a name has less than 2^31 bytes), and whether it is an index (STEP_INDEX). */
#define STEP_INDEX ((uint32_t)1 << 31)

static uint32_t paths_word(const struct paths_step *step)
{
    return (uint32_t)step->n | (step->index ? STEP_INDEX : 0);
}

static bool paths_keep(struct zf_dcp *d, struct dcp_key *key, const struct dcp_paths *s,
                       struct zf_err *err)
{
    bool plain = s->step.n == 1 && !s->step.at[0].index; /* as if nothing were said */
    uint32_t *kept =
        plain ? NULL : zf_arena_get(d->pickles, (uint64_t)s->step.n + 1, sizeof *kept, err);

    for (size_t i = 0; kept && i < s->step.n; i++) {
        kept[i + 1] = paths_word(&s->step.at[i]);
    }
    if (kept) {
        kept[0] = (uint32_t)s->step.n;
    }
    key->steps = kept;
    return plain || kept;
}

/* Does the key have this path already?  Another rank said so. */
static bool paths_known(const struct dcp_key *key, const struct dcp_paths *s)
{
    bool same = key->steps && key->steps[0] == s->step.n;

    for (size_t i = 0; same && i < s->step.n; i++) {
        same = key->steps[i + 1] == paths_word(&s->step.at[i]);
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
    struct dcp_key *key = &r->d->key.at[number];
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

/* The steps of a key, in room for one more; gives how many there are. */
static uint32_t paths_spell(const struct dcp_key *k, struct zf_step *out)
{
    const char *p = k->name;
    uint32_t n = k->steps ? k->steps[0] : 1;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = k->steps ? k->steps[i + 1] : k->name_len;
        bool index = k->steps && (word & STEP_INDEX);

        out[i] = (struct zf_step){.p = p, .n = index ? word - STEP_INDEX : word, .index = index};
        p += out[i].n + 1;
    }
    return n;
}

/* The directory of the state dict of a key; no letters for the root. */
static struct zf_step paths_dir(const struct zf_dcp *d, const struct dcp_key *k)
{
    const char *path = d->pass.at[k->pass - 1], *slash = strrchr(path, '/');

    return (struct zf_step){.p = path, .n = slash ? (size_t)(slash - path) : 0};
}

bool dcp_path(const struct zf_dcp *d, const struct dcp_key *k, struct dcp_steps *room,
              struct zf_path *out, struct zf_err *err)
{
    const struct zf_dcp_group *group = &d->group[k->group];
    struct zf_step *step;
    uint32_t n, front;

    room->step.n = 0;
    if (!zf_vec_room(&room->step, (k->steps ? (size_t)k->steps[0] : 1) + 3, err)) {
        return false;
    }
    step = room->step.at + 1;
    n = paths_spell(k, step + 1);
    front = group->head && !paths_is_like(step + 1, group->head);
    if (front) {
        step[0] = (struct zf_step){.p = group->head, .n = strlen(group->head)};
    } else {
        step++;
    }
    if (group->number) {
        paths_cut(step + front, &n);
        zf_out_cut(&room->head, 0);
        zf_out_add(&room->head, step[front].p, step[front].n);
        zf_out_str(&room->head, "_");
        zf_out_str(&room->head, group->number);
        if (!zf_out_ok(&room->head, err)) {
            return false;
        }
        step[front].p = zf_out_text(&room->head);
        step[front].n = room->head.n;
    }
    if (k->apart) {
        *--step = paths_dir(d, k);
        n++;
    }
    *out = (struct zf_path){.step = step, .n = n + front};
    return true;
}

void dcp_steps_fini(struct dcp_steps *room)
{
    zf_vec_fini(&room->step);
    zf_auto_out(&room->head);
}
