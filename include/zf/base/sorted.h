/* SPDX-License-Identifier: Apache-2.0 */
/* Sets for 10^6 elements and more: 8 bytes per element, or 16 for pairs.  They are searched when they are complete or,
 * with zf_sorted_next, while elements are added.  {0} is an empty one. */
#ifndef ZF_BASE_SORTED_H
#define ZF_BASE_SORTED_H

#include <stdlib.h>

#include <zf/base/err.h>

#define ZF_SORTED_RUNS 48

struct zf_sorted {
    uint64_t *at;   /* [n]; of pairs [2 n], one behind the other */
    size_t n, cap;  /* elements */
    bool pairs;     /* the first element decides */
    bool is_sorted; /* all of it, without duplicates */
    /* Ends of the parts that are sorted each; what is behind the last is not sorted.  Not of pairs. */
    uint32_t n_runs;
    size_t run[ZF_SORTED_RUNS];
    size_t asked; /* how often, while not all of it was sorted */
};

/* Adds an element; duplicates are dropped.  False: ZF_E_NOMEM, the set is unchanged. */
bool zf_sorted_add(struct zf_sorted *s, uint64_t v, struct zf_err *err) ZF_CHECKED;
/* The same of a set of pairs. */
bool zf_sorted_add_pair(struct zf_sorted *s, uint64_t first, uint64_t second,
                        struct zf_err *err) ZF_CHECKED;

/* Number of the elements whose first word is `first`: they lie one behind the other from *at_out
 * on, in order.  Sorts what was added since the last call, O(n log n): ask when all is there. */
size_t zf_sorted_find(struct zf_sorted *s, uint64_t first, size_t *at_out);

/* One after the other the elements v of a set (not of pairs) with from <= v <= to, some perhaps twice;
 * begin with {0} and add nothing in between.  O(log^2 n), whatever was added since the last call.
 * False: there are no more. */
struct zf_sorted_at {
    size_t run, i;
};
bool zf_sorted_next(struct zf_sorted *s, uint64_t from, uint64_t to, struct zf_sorted_at *at,
                    uint64_t *out);

static inline bool zf_sorted_has(struct zf_sorted *s, uint64_t first)
{
    size_t at;

    return zf_sorted_find(s, first, &at) > 0;
}

static inline void zf_sorted_fini(struct zf_sorted *s)
{
    free(s->at);
    *s = (struct zf_sorted){0};
}

#endif
