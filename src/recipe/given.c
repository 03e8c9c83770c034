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

bool given_init(struct given *s, const struct zf_checkpoint *c, struct zf_err *err)
{
    const struct zf_set *set = zf_checkpoint_set(c, "");

    *s = (struct given){.set = set, .stored = zf_checkpoint_set(c, "stored")};
    s->at = calloc(set && set->n ? set->n : 1, sizeof *s->at);
    if (!s->at) {
        return zf_fail_sys(err, "take the tensors' names");
    }
    for (uint32_t i = 0; set && i < set->n; i++) {
        bool any = false;
        char *name = strdup(set->tensor[i].name);

        if (!name) {
            return zf_fail_sys(err, "take the tensors' names");
        }
        for (size_t k = 0; k < sizeof given_inside / sizeof given_inside[0]; k++) {
            any = given_cut(name, given_inside[k]) || any;
        }
        s->at[s->n++] = (struct given_name){name, i};
        s->stripped += any;
    }
    return true;
}

void given_fini(struct given *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        free(s->at[i].name);
    }
    free(s->at);
    *s = (struct given){0};
}

void given_strip(struct given *s, const char *front, const char *before)
{
    const size_t n = strlen(front);
    bool met = !before;

    for (uint32_t i = 0; i < s->n; i++) {
        if (strncmp(s->at[i].name, front, n) != 0 || !s->at[i].name[n]) {
            return;
        }
        met = met || strncmp(s->at[i].name, before, strlen(before)) == 0;
    }
    for (uint32_t i = 0; met && i < s->n; i++) {
        char *name = s->at[i].name;

        memmove(name, name + n, strlen(name + n) + 1);
        s->stripped++;
    }
}

static int given_cmp(const void *a, const void *b)
{
    const struct given_name *x = a, *y = b;

    return strcmp(x->name, y->name);
}

bool given_sort(struct given *s, struct zf_err *err)
{
    if (s->sorted) {
        return true;
    }
    qsort(s->at, s->n, sizeof *s->at, given_cmp);
    for (uint32_t i = 1; i < s->n; i++) {
        if (strcmp(s->at[i - 1].name, s->at[i].name) == 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%.96s and %.96s are both %.96s without what wrapped them",
                           s->set->tensor[s->at[i - 1].tensor].name,
                           s->set->tensor[s->at[i].tensor].name, s->at[i].name);
        }
    }
    s->sorted = true;
    return true;
}

uint32_t given_find(const struct given *s, const char *name)
{
    const struct given_name want = {(char *)(uintptr_t)name, 0};
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
