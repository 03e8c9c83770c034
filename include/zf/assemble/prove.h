/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parameter of each nameless fp32 master, proved by rounding it to the 16-bit weights.  An optimizer joins
 * the masters of a group in one vector, which may be sharded over ranks and padded at the end, or it lists them.
 *
 * By storage: an optimizer that joins masters also makes the group's weights views of one storage, in the same order,
 * and they are saved like that.  If the weights of a storage are what a vector rounds to, the vector is cut like the
 * storage.
 *
 * By value: a master belongs to the weight that it rounds to.  If several weights are equal (norms of ones), they are
 * told apart by their order, that of the model (see assign.h) or of its parameters dealt to the ranks in turn; the
 * assignment must be unique. */
#ifndef ZF_ASSEMBLE_PROVE_H
#define ZF_ASSEMBLE_PROVE_H

#include <zf/assemble/values.h>
#include <zf/base/vec.h>

/* A weight, in the order of the model. */
struct zf_prove_weight {
    const struct zf_tensor_ref *view; /* packed, not empty; NULL: it cannot have a master */
    bool taken;                       /* its master is known; also set by the proof */
};

/* The masters of one group. */
struct zf_prove_vector {
    const struct zf_values *part; /* [n_parts] ranks' partitions, or single masters */
    const uint64_t *begin;        /* [n_parts + 1] offset of each part in the vector, elements */
    uint32_t n_parts;
    const struct zf_tensor_ref *
        own; /* [n_parts] each part is a master of this shape; NULL: the ends of masters are not known */
    uint64_t pad; /* fewer elements than this may be padding at the end; 0 = none */
    uint32_t
        dealt; /* ranks to which the parameters may have been dealt in turn; 0 = they are in order */
    uint32_t first, n; /* out: its pieces */
};

struct zf_prove_piece {
    uint64_t at;   /* first element in the vector */
    uint32_t like; /* a weight that it rounds to */
    uint32_t to;   /* the weight whose master it is proved to be */
};

enum zf_prove_failure {
    ZF_PROVE_NONE,  /* the masters from `at` on round to none of the remaining weights */
    ZF_PROVE_TWO,   /* a master fits two weights, or a weight and the padding */
    ZF_PROVE_ORDER, /* each master fits a weight, but in no order that an optimizer uses */
};
#define ZF_PROVE_NOBODY UINT32_MAX

/* A weight that masters nearly round to, and the first element that differs. */
struct zf_prove_near {
    uint32_t weight; /* or NOBODY */
    struct zf_mismatch miss;
};

struct zf_prove {
    struct zf_prove_weight *weight; /* [n_weights] owned by the caller, as are the vectors */
    struct zf_prove_vector *vector; /* [n_vectors] */
    uint32_t n_weights, n_vectors;
    struct zf_sample sample; /* how much of each master is compared */
    bool any_order; /* by value: a master that fits only one weight belongs to it, in any order */
    bool skip_lost; /* by storage: bytes that cannot be read are not compared */
    uint64_t work;  /* comparisons so far */
    zf_vec(struct zf_prove_piece) piece;
    struct {
        enum zf_prove_failure kind;
        uint32_t vector, part;     /* part: of a vector with `own` */
        uint64_t at;               /* NONE: element of the vector */
        uint32_t two[2];           /* TWO: weights; the second may be NOBODY: the padding */
        struct zf_prove_near near; /* NONE */
    } why;                         /* why the proof by value failed */
    struct zf_prove_near
        stored; /* why that by storage did: of the storages as long as a vector, that with the most weights */
    uint32_t n_stored; /* the number of its weights; 0 = there is none */
};
static inline void zf_auto_prove(struct zf_prove *p)
{
    zf_vec_fini(&p->piece);
}

/* Comparisons before a proof is given up: some seconds. */
#define ZF_PROVE_WORK (1u << 21)

/* Find the pieces of all vectors.  Try the proof by storage first; its failure means little if weights do not share
 * storages.  Errors: those of reading; ZF_E_FORMAT not proven after too much work; ZF_E_LIMIT; ZF_E_NOMEM. */
bool zf_prove_by_storage(struct zf_prove *p, bool *proven, struct zf_err *err) ZF_CHECKED;
bool zf_prove_by_value(struct zf_prove *p, bool *proven, struct zf_err *err) ZF_CHECKED;

#endif
