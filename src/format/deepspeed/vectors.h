/* SPDX-License-Identifier: Apache-2.0 */
/* The flat buffers of a parameter group: the masters, and each optimizer state. */
#ifndef FORMAT_DEEPSPEED_VECTORS_H
#define FORMAT_DEEPSPEED_VECTORS_H

#include <zf/assemble/flat_vector.h>
#include <zf/assemble/rounding.h>

#include "steps.h"

/* A flat buffer, with its partitions on the ranks of the group. */
struct ds_vector {
    const struct ds_group *group;
    const char *set;    /* tree path where its tensors are shown */
    struct ds_name key; /* "" = the masters */
    enum zf_dtype dtype;
    const struct ds_flat **part; /* [group->n_ranks] */
    bool elastic;                /* saved without padding, like the masters */
};

/* The first rank of the group that is not lost: the others must agree with it. */
const struct ds_part *ds_group_first(const struct ds_group *g);

/* Calls place for the masters of the group and then for each of its flat states; drafts scalar states
 * itself, one tensor per parameter.  Errors: ZF_E_FORMAT the ranks have different states; those of
 * place. */
typedef bool vector_place_fn(struct ds_save *ds, void *ctx, const struct ds_vector *v,
                             struct zf_err *err);
bool vector_each(struct ds_save *ds, const struct ds_group *g, vector_place_fn *place, void *ctx,
                 struct zf_err *err) ZF_CHECKED;

/* Fails because the state's length on that rank is not `want`; always false.  fits: the number of ranks
 * with the right length. */
bool vector_refuse_length(const struct ds_vector *v, uint32_t rank, uint64_t want, uint32_t fits,
                          struct zf_err *err) ZF_CHECKED;

/* The destination of a parameter's elements: a box of a tensor. */
struct ds_target {
    struct zf_draft *draft;
    const uint64_t *start, *size; /* start NULL: all zero */
};
/* Starts the tensor of parameter i in the vector's set. */
bool vector_target(struct ds_save *ds, const struct ds_vector *v, uint32_t i, struct ds_target *out,
                   struct zf_err *err) ZF_CHECKED;
/* Drafts a piece of the target; it is lost if its rank's partition is. */
bool vector_piece(const struct ds_vector *v, const struct ds_target *to, struct zf_flat_piece piece,
                  struct zf_err *err) ZF_CHECKED;
/* Drafts every parameter of v, partitioned as in `flat`. */
bool vector_place(struct ds_save *ds, const struct ds_vector *v, const struct zf_flat_vector *flat,
                  struct zf_err *err) ZF_CHECKED;

/* Parameter i of a group, and the 16-bit weight of its elements from `first` on. */
struct vector_weight {
    const struct ds_group *group;
    const struct zf_flat_vector *flat;
    uint32_t i;
    const struct zf_tensor_ref
        *weight; /* at most as many elements as the parameter has from there */
    uint64_t first;
};
/* Appends to `out` the comparisons of the weight's n elements with the masters of each rank.  every > 1 takes a sample:
 * only the pieces of parameter i on ranks r with (i + r) mod `every` = 0. */
bool vector_list(const struct vector_weight *w, uint64_t n, uint32_t every,
                 struct zf_roundings *out, struct zf_err *err) ZF_CHECKED;

/* zero12.c: computes the layout of the group's flat buffer.  Errors: ZF_E_FORMAT the lengths do not add up. */
bool zero12_lay(struct ds_save *ds, const struct ds_group *g, struct zf_flat_vector *out,
                struct zf_err *err) ZF_CHECKED;

#endif
