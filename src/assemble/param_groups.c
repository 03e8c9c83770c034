/* SPDX-License-Identifier: Apache-2.0 */
#include "param_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/tensor_ref.h>

bool groups_is_optimizer(const struct zf_pv *root)
{
    return zf_pv_is_map(zf_pv_get(root, "state")) && zf_pv_is_seq(zf_pv_get(root, "param_groups"));
}

typedef bool optimizer_fn(void *ctx, const char *head, const struct zf_pv *optimizer,
                          struct zf_err *err);

/* The text of a key of a dict, or NULL. */
static const char *groups_key(const struct zf_pv *map, uint64_t i)
{
    const struct zf_pv *key = zf_pv_key(map, i);
    uint64_t n;

    return zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;
}

/* One key of a file: an optimizer, a list of them (Lightning's optimizer_states) or a dict of them by their
 * classes (Composer's optimizers). */
static bool groups_each_of_key(const char *key, const struct zf_pv *v, optimizer_fn *fn, void *ctx,
                               struct zf_err *err)
{
    const bool seq = zf_pv_is_seq(v), map = zf_pv_is_map(v);
    char head[300];

    if (groups_is_optimizer(v))
        return fn(ctx, key, v, err);
    for (uint64_t i = 0; (seq || map) && i < zf_pv_len(v); i++) {
        const struct zf_pv *item = seq ? zf_pv_item(v, i) : zf_pv_val(v, i);
        const char *name = seq ? NULL : groups_key(v, i);

        if (!groups_is_optimizer(item) || !(seq || name))
            continue;
        (void)(seq ? snprintf(head, sizeof head, "%.250s.%" PRIu64, key, i)
                   : snprintf(head, sizeof head, "%.120s.%.120s", key, name));
        if (!fn(ctx, head, item, err))
            return false;
    }
    return true;
}

/* The optimizers among the keys of a dict. */
static bool groups_each_of_map(const struct zf_pv *map, optimizer_fn *fn, void *ctx,
                               struct zf_err *err)
{
    for (uint64_t i = 0; zf_pv_is_map(map) && i < zf_pv_len(map); i++) {
        const char *text = groups_key(map, i);

        if (text && strncmp(text, "optim", 5) == 0 &&
            !groups_each_of_key(text, zf_pv_val(map, i), fn, ctx, err))
            return false;
    }
    return true;
}

/* Calls fn for the optimizers of a file at its top level, or in its "state", which is not part of their names
 * (names.c, outer_words). */
static bool groups_each_optimizer(struct zf_torch *t, const char *file_head, optimizer_fn *fn,
                                  void *ctx, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);

    if (file_head)
        return groups_each_of_key(file_head, root, fn, ctx, err);
    return groups_each_of_map(root, fn, ctx, err) &&
           groups_each_of_map(zf_pv_get(root, "state"), fn, ctx, err);
}

bool zf_names_groups(struct zf_names *names, const char *head, const struct zf_pv *groups,
                     struct zf_err *err)
{
    for (uint64_t g = 0; g < zf_pv_len(groups); g++) {
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");
        const struct zf_pv *texts = zf_pv_get(zf_pv_item(groups, g), "param_names");
        uint64_t n = zf_pv_len(ids), id, len;

        for (uint64_t i = 0; texts && n == zf_pv_len(texts) && i < n; i++) {
            const struct zf_pv *text = zf_pv_item(texts, i);

            const char *name = zf_pv_kind(text) == ZF_PV_STR ? zf_pv_text(text, &len) : NULL;

            if (name && zf_pv_u64(zf_pv_item(ids, i), &id) &&
                !zf_names_id(names, head, id, name, len, err))
                return false;
        }
    }
    return true;
}

static bool groups_add_names_of(void *ctx, const char *head, const struct zf_pv *optimizer,
                                struct zf_err *err)
{
    return zf_names_groups(ctx, head, zf_pv_get(optimizer, "param_groups"), err);
}

bool groups_add_names(struct zf_names *names, struct zf_torch *t, const char *head,
                      struct zf_err *err)
{
    return groups_each_optimizer(t, head, groups_add_names_of, names, err);
}

struct stepping {
    struct zf_build *b;
    struct zf_names *names;
};

static bool groups_place_step(const struct stepping *s, const char *head, const struct zf_pv *id,
                              const struct zf_pv *step, struct zf_err *err)
{
    char digits[24];
    uint64_t number, n = 0;
    const char *text = zf_pv_kind(id) == ZF_PV_STR ? zf_pv_text(id, &n) : NULL;
    struct zf_spot spot;

    if (!text) {
        if (!zf_pv_u64(id, &number))
            return true;
        n = (uint64_t)snprintf(digits, sizeof digits, "%" PRIu64, number);
        text = digits;
    }
    struct zf_step path[4] = {{.p = head, .n = strlen(head)},
                              {.p = "state", .n = 5},
                              {.p = text, .n = (size_t)n},
                              {.p = "step", .n = 4}};
    if (!zf_names_place(s->names, (struct zf_path){.step = path, .n = 4}, &spot, err))
        return false;
    if (!zf_names_is_optim(spot) || zf_build_find(s->b, spot))
        return true;
    return zf_number_draft(s->b, spot, step, err);
}

/* torch's own optimizers keep a step per parameter; apex and Transformer Engine one per group. */
static bool groups_place_steps(void *ctx, const char *head, const struct zf_pv *optimizer,
                               struct zf_err *err)
{
    const struct zf_pv *groups = zf_pv_get(optimizer, "param_groups");

    for (uint64_t g = 0; g < zf_pv_len(groups); g++) {
        const struct zf_pv *step = zf_pv_get(zf_pv_item(groups, g), "step");
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");

        if (!zf_pv_is_number(step))
            continue;
        for (uint64_t i = 0; i < zf_pv_len(ids); i++)
            if (!groups_place_step(ctx, head, zf_pv_item(ids, i), step, err))
                return false;
    }
    return true;
}

bool groups_place(struct zf_build *b, struct zf_names *names, struct zf_torch *t, const char *head,
                  struct zf_err *err)
{
    struct stepping s = {.b = b, .names = names};

    return groups_each_optimizer(t, head, groups_place_steps, &s, err);
}
