/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint that a recipe may name. */
#ifndef RECIPE_GIVEN_H
#define RECIPE_GIVEN_H

#include <zf/model/model.h>

/* The tensors of the root by the names that a recipe sees: without wrappers. */
struct given_name {
    const char *name;
    uint32_t tensor;
};
struct given {
    const struct zf_set *set, *stored; /* stored: NULL = none */
    struct given_name *at; /* sorted by name once given_sort was called; NULL: as in the set */
    uint32_t n;
    uint64_t stripped;          /* names that lost something */
    const struct given *shared; /* `at` is that one's; NULL: its own */
    struct zf_arena *arena;     /* names that are not the tensors' own; NULL = none */
    bool sorted;
    uint32_t twice; /* at[twice] and the one before have one name; 0 = none has */
};

/* Takes off what FSDP, torch.compile and the like put into names, and sorts them; a set without that is in order, and
 * nothing is copied.  Borrows c.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool given_init(struct given *s, const struct zf_checkpoint *c, const struct zf_limits *lim,
                struct zf_err *err) ZF_CHECKED;
/* Name and tensor at place i < n. */
const char *given_name_of(const struct given *s, uint32_t i);
uint32_t given_number(const struct given *s, uint32_t i);
/* Does a name begin so?  Pre: sorted. */
bool given_begins(const struct given *s, const char *prefix, size_t n);
/* The same names, borrowed for as long as nothing is taken off them. */
struct given given_share(const struct given *s);
void given_fini(struct given *s);
static inline void zf_auto_given(struct given *s)
{
    given_fini(s);
}
/* Takes the text off the front of all names if each of them has it, and one begins with `before` (NULL: whatever they
 * begin with).  Errors: ZF_E_NOMEM. */
bool given_strip(struct given *s, const char *front, const char *before,
                 struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT two tensors have one name now. */
bool given_sort(struct given *s, struct zf_err *err) ZF_CHECKED;
/* The tensor's number in the set, or UINT32_MAX.  Pre: sorted. */
uint32_t given_find(const struct given *s, const char *name);
/* Tensor i as it is served: the one of stored/, where there is one of its name and shape. */
const struct zf_tensor *given_tensor(const struct given *s, uint32_t i);

#endif
