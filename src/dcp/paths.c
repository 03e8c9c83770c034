/* SPDX-License-Identifier: Apache-2.0 */
/* Dots in a key may be nesting or part of a name; planner_data has the steps that torch joined with
 * dots.  A path decides under which name a tensor is shown, so it is trusted only if its steps, joined
 * by dots, spell the key.
 * Source: torch/distributed/checkpoint/_nested_dict.py, flatten_state_dict (2.0 … 2.14). */
#include "paths.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/vec.h>

/* The steps of a path are substrings of the key, so only their number is kept and, for each step, its length (a key has
 * less than 2^31 bytes) and whether it is an index (STEP_INDEX). */
#define STEP_INDEX ((uint32_t)1 << 31)

/* A step of planner_data: a name, or a position. */
struct paths_step {
    const char *p;
    uint64_t n;
    bool index;
    char digits[24];
};

/* Reads a step.  False: it is neither, but another planner's own. */
static bool paths_read_step(const struct zf_pv *v, struct paths_step *out)
{
    int64_t at;

    out->index = zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &at);
    if (out->index) {
        out->n = (uint64_t)snprintf(out->digits, sizeof out->digits, "%" PRId64, at);
        out->p = out->digits;
    } else if (zf_pv_kind(v) == ZF_PV_STR) {
        out->p = zf_pv_text(v, &out->n);
    } else {
        return false;
    }
    return true;
}

/* Do the steps, joined by dots, spell the key?  *is_path: each is a name or a position.  *known: the key already has
 * this path, from another rank. */
static bool paths_spells(const struct dcp_key *key, const struct zf_pv *tuple, bool *is_path,
                         bool *known)
{
    const uint64_t n = zf_pv_len(tuple);
    uint64_t at = 0;
    struct paths_step step;
    bool same = true;

    *known = key->steps && key->steps[0] == n;
    *is_path = n > 0;
    for (uint64_t i = 0; i < n && *is_path; i++) {
        *is_path = paths_read_step(zf_pv_item(tuple, i), &step);
        if (!*is_path || !same)
            continue;
        at += i > 0;
        same = at <= key->name_len && step.n <= key->name_len - at &&
               memcmp(key->name + at, step.p, step.n) == 0 && (i == 0 || key->name[at - 1] == '.');
        *known = *known && same &&
                 key->steps[i + 1] == ((uint32_t)step.n | (step.index ? STEP_INDEX : 0));
        at += step.n;
    }
    same = same && at == key->name_len;
    *known = *known && same;
    return same;
}

static bool paths_refuse(struct dcp_reading *r, const struct dcp_key *key,
                         const struct zf_pv *tuple, struct zf_err *err)
{
    zf_auto(out) struct zf_out joined = {0};
    struct paths_step step;

    for (uint64_t i = 0; i < zf_pv_len(tuple); i++) {
        if (paths_read_step(zf_pv_item(tuple, i), &step)) {
            zf_out_str(&joined, i ? "." : "");
            zf_out_add(&joined, step.p, step.n);
        }
    }
    (void)(zf_out_ok(&joined, err) &&
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "planner_data says that the key \"%.100s\" is at \"%.100s\" of the state dict: "
                   "the two contradict each other",
                   key->name, zf_out_text(&joined)));
    return dcp_forgive(r, err);
}

bool dcp_take_path(struct dcp_reading *r, const struct zf_pv *fqn, const struct zf_pv *tuple,
                   struct zf_err *err)
{
    uint64_t len = 0, n = zf_pv_is_seq(tuple) ? zf_pv_len(tuple) : 0;
    const char *name = zf_pv_text(fqn, &len);
    uint32_t number = name ? dcp_find_key(r->d, name, len) : ZF_DCP_NONE;
    struct paths_step step;
    bool is_path, known;

    if (number == ZF_DCP_NONE || n == 0)
        return true;
    struct dcp_key *key = &r->d->key.at[number];
    bool same = paths_spells(key, tuple, &is_path, &known);
    if (!is_path || known)
        return true;
    if (!same)
        return paths_refuse(r, key, tuple, err);
    key->steps = NULL;
    if (n == 1 && zf_pv_kind(zf_pv_item(tuple, 0)) == ZF_PV_STR) /* the same as no path */
        return true;
    uint32_t *kept = zf_arena_get(r->d->pickles, n + 1, sizeof *kept, err);
    for (uint64_t i = 0; kept && i < n && paths_read_step(zf_pv_item(tuple, i), &step); i++)
        kept[i + 1] = (uint32_t)step.n | (step.index ? STEP_INDEX : 0);
    if (kept)
        kept[0] = (uint32_t)n;
    key->steps = kept;
    return kept != NULL;
}

/* Does the step start with the first five letters of `head`?  "optim" counts as "optimizer".  (A shorter
 * step is followed by a dot or the end of the name, which match no letter.) */
static bool paths_is_like(const struct zf_step *s, const char *head)
{
    return strncmp(s->p, head, 5) == 0;
}

/* Splits "model.x" into two steps, so that the first can be numbered. */
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

/* Writes the steps of a key to out, which has room for one more; returns their number. */
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

/* The directory of a key's state dict; empty for the root. */
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
    if (!zf_vec_room(&room->step, (k->steps ? (size_t)k->steps[0] : 1) + 3, err))
        return false;
    step = room->step.at + 1;
    n = paths_spell(k, step + 1);
    front = group->head && !paths_is_like(step + 1, group->head);
    if (front)
        step[0] = (struct zf_step){.p = group->head, .n = strlen(group->head)};
    else
        step++;
    if (group->number) {
        paths_cut(step + front, &n);
        zf_out_cut(&room->head, 0);
        zf_out_add(&room->head, step[front].p, step[front].n);
        zf_out_str(&room->head, "_");
        zf_out_str(&room->head, group->number);
        if (!zf_out_ok(&room->head, err))
            return false;
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
