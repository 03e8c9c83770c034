/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include <inttypes.h>
#include <string.h>

/* Copies the steps of planner_data's tuple to step[1 …]; step[0] stays free for a head.
 * *n_out = 0: it is no path. */
static bool planned(struct zf_dcp *d, const struct zf_pv *path, struct zf_step *step,
                    uint32_t *n_out, struct zf_err *err)
{
    uint64_t n = zf_pv_is_seq(path) ? zf_pv_len(path) : 0, len;
    int64_t at;

    *n_out = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *v = zf_pv_item(path, i);

        if (zf_pv_kind(v) == ZF_PV_STR) {
            step[i + 1].p = zf_pv_text(v, &len);
            step[i + 1].n = len;
        } else if (zf_pv_int(v, &at)) {
            step[i + 1].p = zf_arena_fmt(d->pickles, err, "%" PRId64, at);
            step[i + 1].index = true;
            if (!step[i + 1].p) {
                return false;
            }
            step[i + 1].n = strlen(step[i + 1].p);
        } else {
            return true;
        }
    }
    *n_out = (uint32_t)n;
    return true;
}

/* Does the step begin with the first five letters of `head`?  "optim" counts as "optimizer". */
static bool is_like(const struct zf_step *s, const char *head)
{
    return s->n >= 5 && strncmp(s->p, head, 5) == 0;
}

/* Cuts "model.x" in two, so that its first step can be numbered. */
static void cut(struct zf_step *step, uint32_t *n)
{
    const char *dot = *n == 1 ? memchr(step[1].p, '.', step[1].n) : NULL;

    if (dot) {
        size_t len = (size_t)(dot - step[1].p);

        step[2] = (struct zf_step){.p = dot + 1, .n = step[1].n - len - 1};
        step[1].n = len;
        *n = 2;
    }
}

bool zf_dcp_path(struct zf_dcp *d, const struct zf_dcp_key *k, struct zf_path *out,
                 struct zf_err *err)
{
    const struct zf_dcp_group *group = &d->group[k->group];
    uint64_t most = zf_pv_is_seq(k->path) ? zf_pv_len(k->path) : 0;
    struct zf_step *step;
    uint32_t n;

    if (most > UINT32_MAX - 4) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "\"%.160s\": a path of %" PRIu64 " steps",
                       k->name, most);
    }
    step = zf_arena_get(d->pickles, most + 3, sizeof *step, err);
    if (!step || !planned(d, k->path, step, &n, err)) {
        return false;
    }
    if (n == 0) {
        step[1] = (struct zf_step){.p = k->name, .n = k->name_len};
        n = 1;
    }
    if (group->number) {
        cut(step, &n);
        step[1].p = zf_arena_fmt(d->pickles, err, "%.*s_%s", (int)(step[1].n & 0xffff), step[1].p,
                                 group->number);
        if (!step[1].p) {
            return false;
        }
        step[1].n = strlen(step[1].p);
    }
    *out = (struct zf_path){.step = step + 1, .n = n};
    if (group->head && !is_like(&step[1], group->head)) {
        step[0] = (struct zf_step){.p = group->head, .n = strlen(group->head)};
        *out = (struct zf_path){.step = step, .n = n + 1};
    }
    return true;
}
