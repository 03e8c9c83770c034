/* SPDX-License-Identifier: Apache-2.0 */
/* Many comparisons of masters with weights, made by a few threads: with slow files, most of the time is spent
 * waiting. */
#ifndef ZF_ASSEMBLE_ROUNDING_H
#define ZF_ASSEMBLE_ROUNDING_H

#include <zf/assemble/values.h>
#include <zf/base/vec.h>

struct zf_rounding {
    struct zf_values master, weight;
    uint64_t n;
    /* for the caller's use: what is compared, and from which element on */
    const void *what;
    uint64_t first;
    const char *file;
};

/* {0} is an empty list. */
struct zf_roundings {
    zf_vec(struct zf_rounding);
};
static inline void zf_auto_roundings(struct zf_roundings *r)
{
    zf_vec_fini(r);
}

struct zf_rounding_opts {
    struct zf_sample sample; /* how much of each is compared */
    uint32_t most;           /* as of struct zf_ahead_work: zf_store_ahead */
    bool skip_lost;          /* bytes that cannot be read are not compared */
};

/* Makes all comparisons.  *bad: the first one whose weights are not what its masters round to, and *miss: the element,
 * counted from the beginning of that comparison; NULL = all weights match.  Errors: those of reading. */
bool zf_roundings_check(const struct zf_roundings *r, struct zf_rounding_opts o,
                        const struct zf_rounding **bad, struct zf_mismatch *miss,
                        struct zf_err *err) ZF_CHECKED;

#endif
