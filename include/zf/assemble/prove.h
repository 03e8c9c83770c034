/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameter each nameless fp32 master is of, proved by rounding it to the 16-bit weights.  An optimizer joins the masters
 * of a group in one vector, which may be cut over ranks and padded at the end, or lists them.
 *
 * By storage: an optimizer that joins masters also makes the group's weights views of one storage, in the same order, and
 * that is how they are saved.  A storage whose weights are what a vector rounds to is cut as the vector is.
 *
 * By value: the master at a place is that of the weight it rounds to.  Where several weights are alike (norms of
 * ones), the order tells them apart, that of the model (see assign.h) or of its parameters dealt to the ranks in turn:
 * there must be one way.  */
#ifndef ZF_ASSEMBLE_PROVE_H
#define ZF_ASSEMBLE_PROVE_H

#include <zf/assemble/values.h>
#include <zf/base/vec.h>

/* A weight, in the order of the model. */
struct zf_prove_weight {
    const struct zf_tensor_ref *view; /* packed, not empty; NULL: it cannot have a master */
    bool taken;                       /* it has its master; set here, too */
};

/* The masters of one group. */
struct zf_prove_vector {
    const struct zf_values *part; /* [n_parts] ranks' partitions, or single masters */
    const uint64_t *begin;        /* [n_parts + 1] elements in front of each part */
    uint32_t n_parts;
    const struct zf_tensor_ref
        *own; /* [n_parts] each part is a master of this shape; NULL: where one ends is not known */
    uint64_t pad; /* less than this may be padding at the end; 0 = none */
    uint32_t
        dealt; /* ranks to which the parameters may have been dealt in turn; 0 = they are in order */
    uint32_t first, n; /* out: its pieces */
};

struct zf_prove_piece {
    uint64_t at;   /* element of the vector */
    uint32_t like; /* a weight that it rounds to */
    uint32_t to;   /* the weight it is proved to be the master of */
};

enum zf_prove_failure {
    ZF_PROVE_NONE,  /* the masters from `at` on round to no weight that is left */
    ZF_PROVE_TWO,   /* one fits two weights, or a weight and the padding */
    ZF_PROVE_ORDER, /* each fits some, but they are in no order that an optimizer has */
};
#define ZF_PROVE_NOBODY UINT32_MAX

/* A weight that masters should round to, and where they first do not. */
struct zf_prove_near {
    uint32_t weight; /* or NOBODY */
    struct zf_mismatch miss;
};

struct zf_prove {
    struct zf_prove_weight *weight; /* [n_weights] the caller's, as are the vectors */
    struct zf_prove_vector *vector; /* [n_vectors] */
    uint32_t n_weights, n_vectors;
    struct zf_sample sample; /* how much of each master is compared */
    bool any_order;          /* by value: each master that fits one weight only is its */
    bool skip_lost;          /* by storage: bytes that cannot be read prove nothing */
    uint64_t work;           /* comparisons so far */
    zf_vec(struct zf_prove_piece) piece;
    struct {
        enum zf_prove_failure kind;
        uint32_t vector, part;     /* part: of a vector with `own` */
        uint64_t at;               /* NONE: element of the vector */
        uint32_t two[2];           /* TWO: weights; the second may be NOBODY: the padding */
        struct zf_prove_near near; /* NONE */
    } why;                         /* of a proof by value that failed */
    struct zf_prove_near
        stored; /* … by storage: where weights of one storage, the most, are as long as a vector */
    uint32_t n_stored; /* how many they are; 0 = there are none */
};
static inline void zf_auto_prove(struct zf_prove *p)
{
    zf_vec_fini(&p->piece);
}

/* Comparisons before a proof is given up: some seconds. */
#define ZF_PROVE_WORK (1u << 21)

/* Finds the pieces of all vectors; by storage first, whose failure says little where weights do not share storages.
 * Errors: of reading; ZF_E_FORMAT not proven after too much work; ZF_E_LIMIT; ZF_E_NOMEM. */
bool zf_prove_by_storage(struct zf_prove *p, bool *proven, struct zf_err *err) ZF_CHECKED;
bool zf_prove_by_value(struct zf_prove *p, bool *proven, struct zf_err *err) ZF_CHECKED;

#endif
