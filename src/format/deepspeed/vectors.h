/* SPDX-License-Identifier: Apache-2.0 */
/* The flat vectors of a parameter group: its masters, and one for each state of the optimizer. */
#ifndef FORMAT_DEEPSPEED_VECTORS_H
#define FORMAT_DEEPSPEED_VECTORS_H

#include <zf/assemble/flat_vector.h>
#include <zf/assemble/rounding.h>

#include "steps.h"

/* One of them, over the ranks of its group. */
struct ds_vector {
    const struct ds_group *group;
    const char *set;    /* tree path of the set it goes to */
    struct ds_name key; /* "" = the masters */
    enum zf_dtype dtype;
    const struct ds_flat **part; /* [group->n_ranks] */
    bool elastic;                /* cut like the masters */
};

/* The first rank of the group whose file is there: the others must agree with it. */
const struct ds_part *ds_group_first(const struct ds_group *g);

/* Calls place for the masters of the group and then for each of its vector states; drafts its
 * scalar states itself, one for each of the parameters.  Errors: ZF_E_FORMAT the ranks keep
 * different things; those of place. */
typedef bool vector_place_fn(struct ds_save *ds, void *ctx, const struct ds_vector *v,
                             struct zf_err *err);
bool vector_each(struct ds_save *ds, const struct ds_group *g, vector_place_fn *place, void *ctx,
                 struct zf_err *err) ZF_CHECKED;

/* The state has another length than `want` on that rank: always false.  fits: the ranks on which it has that. */
bool vector_refuse_length(const struct ds_vector *v, uint32_t rank, uint64_t want, uint32_t fits,
                          struct zf_err *err) ZF_CHECKED;

/* Where a parameter's elements go: a box of a tensor. */
struct ds_target {
    struct zf_draft *draft;
    const uint64_t *start, *size; /* start NULL: its corner */
};
/* Starts the tensor of parameter i in the vector's set. */
bool vector_target(struct ds_save *ds, const struct ds_vector *v, uint32_t i, struct ds_target *out,
                   struct zf_err *err) ZF_CHECKED;
/* Drafts a piece of the target, lost where the vector is. */
bool vector_piece(const struct ds_vector *v, const struct ds_target *to, struct zf_flat_piece piece,
                  struct zf_err *err) ZF_CHECKED;
/* Drafts every parameter of the vector, cut as `flat` says. */
bool vector_place(struct ds_save *ds, const struct ds_vector *v, const struct zf_flat_vector *flat,
                  struct zf_err *err) ZF_CHECKED;

/* A parameter of a group and its 16-bit weight, or that of its elements from `first` on. */
struct vector_weight {
    const struct ds_group *group;
    const struct zf_flat_vector *flat;
    uint32_t i;
    const struct zf_tensor_ref *weight; /* not more elements than the parameter has from there */
    uint64_t first;
};
/* Appends to `out` the comparisons of the weight's n elements with the masters of each rank.  every > 1 samples them:
 * the parts of parameter i on the ranks r with (i + r) mod `every` = 0. */
bool vector_list(const struct vector_weight *w, uint64_t n, uint32_t every,
                 struct zf_roundings *out, struct zf_err *err) ZF_CHECKED;

/* zero12.c: says where each parameter of the group is.  Errors: ZF_E_FORMAT the lengths do not add up. */
bool zero12_lay(struct ds_save *ds, const struct ds_group *g, struct zf_flat_vector *out,
                struct zf_err *err) ZF_CHECKED;

#endif
