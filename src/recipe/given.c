/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint that a recipe may name. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/search.h>

/* Prefixes that torch's FSDP, activation checkpointing, torch.compile and Lightning's strategies insert into names.
 * Source: torch/distributed/fsdp/_common_utils.py, algorithms/_checkpoint/checkpoint_wrapper.py,
 * _dynamo/eval_frame.py (2.13). */
static const char *const given_inside[] = {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                           "_orig_mod.", "_forward_module."};

#define N_INSIDE (sizeof given_inside / sizeof given_inside[0])

/* Removes every `part` from name; true: there was one. */
static bool given_cut(char *name, const char *part)
{
    const size_t n = strlen(part);
    bool any = false;

    for (char *at = strstr(name, part); at; at = strstr(at, part)) {
        /* A wrapper's prefix is a whole component. */
        if (at > name && at[-1] != '.') {
            at++;
            continue;
        }
        memmove(at, at + n, strlen(at + n) + 1);
        any = true;
    }
    return any;
}

static bool given_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Can the name be used unchanged?  It has no wrapper, and no number like 007, which a set orders differently. */
static bool given_is_plain(const char *name)
{
    char before = '.';

    for (const char *c = name; *c; before = *c++) {
        if (*c == '0' && !given_is_digit(before) && given_is_digit(c[1]))
            return false;
        for (size_t k = 0; *c == '_' && before == '.' && k < N_INSIDE; k++)
            if (strncmp(c, given_inside[k], strlen(given_inside[k])) == 0)
                return false;
    }
    return true;
}

/* The name without wrappers; the tensor's own string if it has none. */
static const char *given_name(struct given *s, const struct zf_tensor *t,
                              const struct zf_limits *lim, struct zf_err *err)
{
    if (given_is_plain(t->name))
        return t->name;
    if (!s->arena)
        s->arena = zf_arena_new(lim->model_memory, err);
    char *name = s->arena ? zf_arena_str(s->arena, t->name, t->name_len, err) : NULL;
    for (size_t k = 0; name && k < N_INSIDE; k++)
        s->stripped += given_cut(name, given_inside[k]);
    return name;
}

static int given_cmp(const void *a, const void *b)
{
    const struct given_name *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void given_order(struct given *s)
{
    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, given_cmp);
    s->sorted = true;
    s->twice = 0;
    for (uint32_t i = 1; i < s->n && !s->twice; i++)
        s->twice = given_cmp(&s->at[i - 1], &s->at[i]) == 0 ? i : 0;
}

/* Gives s its own array of names, a copy of the present ones. */
static bool given_own(struct given *s, struct zf_err *err)
{
    struct given_name *own = malloc((s->n ? s->n : 1) * sizeof *own);

    if (!own)
        return zf_fail_sys(err, "take the tensors' names");
    for (uint32_t i = 0; i < s->n; i++)
        own[i] = s->at ? s->at[i] : (struct given_name){s->set->tensor[i].name, i};
    s->at = own;
    s->shared = NULL;
    return true;
}

bool given_init(struct given *s, const struct zf_checkpoint *c, const struct zf_limits *lim,
                struct zf_err *err)
{
    const struct zf_set *set = zf_checkpoint_set(c, "");
    bool plain = true;

    *s = (struct given){.set = set,
                        .stored = zf_checkpoint_set(c, "stored"),
                        .n = set ? set->n : 0,
                        .sorted = true};
    for (uint32_t i = 0; plain && i < s->n; i++)
        plain = given_is_plain(set->tensor[i].name);
    if (plain)
        return true;
    if (!given_own(s, err))
        return false;
    for (uint32_t i = 0; i < s->n; i++) {
        s->at[i].name = given_name(s, &set->tensor[i], lim, err);
        if (!s->at[i].name)
            return false;
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
    if (!s->shared)
        free(s->at);
    zf_arena_free(s->arena);
    *s = (struct given){0};
}

bool given_strip(struct given *s, const char *front, const char *before, struct zf_err *err)
{
    const size_t n = strlen(front), n_before = before ? strlen(before) : 0;
    bool met = !before;

    if (before && s->sorted && !given_begins(s, before, n_before))
        return true;
    for (uint32_t i = 0; i < s->n; i++) {
        const char *name = given_name_of(s, i);

        if (strncmp(name, front, n) != 0 || !name[n])
            return true;
        met = met || strncmp(name, before, n_before) == 0;
    }
    if (!met || s->n == 0)
        return true;
    if ((s->shared || !s->at) && !given_own(s, err))
        return false;
    for (uint32_t i = 0; i < s->n; i++)
        s->at[i].name += n;
    s->stripped += s->n;
    s->sorted = false;
    return true;
}

bool given_sort(struct given *s, struct zf_err *err)
{
    if (!s->sorted)
        given_order(s);
    return !s->twice ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "without the prefixes of wrappers %.96s and %.96s would both be named %.96s",
                   s->set->tensor[s->at[s->twice - 1].tensor].name,
                   s->set->tensor[s->at[s->twice].tensor].name, s->at[s->twice].name);
}

uint32_t given_find(const struct given *s, const char *name)
{
    const struct given_name want = {name, 0};

    if (!s->at) {
        const struct zf_tensor *t = s->n ? zf_set_find(s->set, name, strlen(name)) : NULL;

        return t ? (uint32_t)(t - s->set->tensor) : UINT32_MAX;
    }
    const struct given_name *found =
        s->n ? bsearch(&want, s->at, s->n, sizeof want, given_cmp) : NULL;

    return found ? found->tensor : UINT32_MAX;
}

const char *given_name_of(const struct given *s, uint32_t i)
{
    return s->at ? s->at[i].name : s->set->tensor[i].name;
}

uint32_t given_number(const struct given *s, uint32_t i)
{
    return s->at ? s->at[i].tensor : i;
}

bool given_begins(const struct given *s, const char *prefix, size_t n)
{
    size_t i = 0;
    /* A set orders 10 after 2, so names that start with 1 are not adjacent. */
    const bool apart = !s->at && n > 0 && given_is_digit(prefix[n - 1]);

    if (apart)
        while (i < s->n && strncmp(given_name_of(s, (uint32_t)i), prefix, n) != 0)
            i++;
    else if (s->at)
        ZF_SEARCH(i, s->n, strncmp(s->at[i].name, prefix, n) >= 0);
    else
        ZF_SEARCH(i, s->n,
                  zf_name_cmp(s->set->tensor[i].name, s->set->tensor[i].name_len, prefix, n) >= 0);
    return i < s->n && strncmp(given_name_of(s, (uint32_t)i), prefix, n) == 0;
}

const struct zf_tensor *given_tensor(const struct given *s, uint32_t i)
{
    const struct zf_tensor *t = &s->set->tensor[i];
    const struct zf_tensor *as = s->stored ? zf_set_find(s->stored, t->name, t->name_len) : NULL;

    return as && as->ndim == t->ndim && memcmp(as->shape, t->shape, t->ndim * sizeof *t->shape) == 0
               ? as
               : t;
}
