/* SPDX-License-Identifier: Apache-2.0 */
#include "given.h"

#include <stdlib.h>
#include <string.h>

/* Put into names by torch's FSDP, activation checkpointing, torch.compile and Lightning's strategies.
 * Source: torch/distributed/fsdp/_common_utils.py, algorithms/_checkpoint/checkpoint_wrapper.py,
 * _dynamo/eval_frame.py (2.13). */
static const char *const given_inside[] = {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                           "_orig_mod.", "_forward_module."};

/* Takes every `part` out of name; true: there was one. */
static bool given_cut(char *name, const char *part)
{
    const size_t n = strlen(part);
    bool any = false;

    for (char *at = strstr(name, part); at; at = strstr(at, part)) {
        /* A wrapper is a whole component. */
        if (at > name && at[-1] != '.') {
            at++;
            continue;
        }
        memmove(at, at + n, strlen(at + n) + 1);
        any = true;
    }
    return any;
}

/* The name without wrappers; the tensor's own where there are none. */
static const char *given_name(struct given *s, const struct zf_tensor *t,
                              const struct zf_limits *lim, struct zf_err *err)
{
    char *name = NULL;

    for (size_t k = 0; k < sizeof given_inside / sizeof given_inside[0]; k++) {
        if (!name && !strstr(t->name, given_inside[k])) {
            continue;
        }
        if (!s->arena) {
            s->arena = zf_arena_new(lim->model_memory, err);
        }
        if (!name) {
            name = s->arena ? zf_arena_str(s->arena, t->name, t->name_len, err) : NULL;
        }
        if (!name) {
            return NULL;
        }
        s->stripped += given_cut(name, given_inside[k]);
    }
    return name ? name : t->name;
}

static int given_cmp(const void *a, const void *b)
{
    const struct given_name *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void given_order(struct given *s)
{
    if (s->n) {
        qsort(s->at, s->n, sizeof *s->at, given_cmp);
    }
    s->sorted = true;
    s->twice = 0;
    for (uint32_t i = 1; i < s->n && !s->twice; i++) {
        s->twice = given_cmp(&s->at[i - 1], &s->at[i]) == 0 ? i : 0;
    }
}

bool given_init(struct given *s, const struct zf_checkpoint *c, const struct zf_limits *lim,
                struct zf_err *err)
{
    const struct zf_set *set = zf_checkpoint_set(c, "");

    *s = (struct given){.set = set, .stored = zf_checkpoint_set(c, "stored")};
    s->at = calloc(set && set->n ? set->n : 1, sizeof *s->at);
    if (!s->at) {
        return zf_fail_sys(err, "take the tensors' names");
    }
    for (uint32_t i = 0; set && i < set->n; i++) {
        const char *name = given_name(s, &set->tensor[i], lim, err);

        if (!name) {
            return false;
        }
        s->at[s->n++] = (struct given_name){name, i};
    }
    given_order(s);
    return true;
}

struct given given_share(const struct given *s)
{
    struct given mine = *s;

    mine.shared = s;
    mine.arena = NULL;
    return mine;
}

void given_fini(struct given *s)
{
    if (!s->shared) {
        free(s->at);
    }
    zf_arena_free(s->arena);
    *s = (struct given){0};
}

bool given_strip(struct given *s, const char *front, const char *before, struct zf_err *err)
{
    const size_t n = strlen(front);
    bool met = !before;

    for (uint32_t i = 0; i < s->n; i++) {
        if (strncmp(s->at[i].name, front, n) != 0 || !s->at[i].name[n]) {
            return true;
        }
        met = met || strncmp(s->at[i].name, before, strlen(before)) == 0;
    }
    if (!met || s->n == 0) {
        return true;
    }
    if (s->shared) {
        struct given_name *own = malloc(s->n * sizeof *own);

        if (!own) {
            return zf_fail_sys(err, "take the tensors' names");
        }
        memcpy(own, s->at, s->n * sizeof *own);
        s->at = own;
        s->shared = NULL;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->at[i].name += n;
    }
    s->stripped += s->n;
    s->sorted = false;
    return true;
}

bool given_sort(struct given *s, struct zf_err *err)
{
    if (!s->sorted) {
        given_order(s);
    }
    return !s->twice || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                "%.96s and %.96s are both %.96s without what wrapped them",
                                s->set->tensor[s->at[s->twice - 1].tensor].name,
                                s->set->tensor[s->at[s->twice].tensor].name, s->at[s->twice].name);
}

uint32_t given_find(const struct given *s, const char *name)
{
    const struct given_name want = {name, 0};
    const struct given_name *found =
        s->n ? bsearch(&want, s->at, s->n, sizeof want, given_cmp) : NULL;

    return found ? found->tensor : UINT32_MAX;
}

const struct zf_tensor *given_tensor(const struct given *s, uint32_t i)
{
    const struct zf_tensor *t = &s->set->tensor[i];
    const struct zf_tensor *as = s->stored ? zf_set_find(s->stored, t->name, t->name_len) : NULL;

    return as && as->ndim == t->ndim && memcmp(as->shape, t->shape, t->ndim * sizeof *t->shape) == 0
               ? as
               : t;
}
