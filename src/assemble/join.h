/* SPDX-License-Identifier: Apache-2.0 */
/* Joins what the ranks of one save wrote into files of their own: DTensors, ShardedTensors, and
 * plain tensors that every rank has a copy of. */
#ifndef ASSEMBLE_JOIN_H
#define ASSEMBLE_JOIN_H

#include <zf/assemble/torch_place.h>

struct zf_join;

/* world: the number of ranks with a file.  Borrows b, names and lim until it is freed. */
struct zf_join *zf_join_new(struct zf_build *b, struct zf_names *names, uint32_t world,
                            const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_join_free(struct zf_join *j); /* NULL is fine */
static inline void zf_auto_join(struct zf_join **j)
{
    zf_join_free(*j);
}

/* Says whose leaves come next.  The file's zf_torch must live until zf_join_finish. */
void zf_join_file(struct zf_join *j, const struct zf_place_file *f, uint32_t rank);

/* The `take` of a zf_place_file, ctx = the join.  Pieces go to their tensors.  With more than one
 * rank, plain tensors wait for zf_join_finish. Errors: ZF_E_FORMAT ranks disagree about a tensor, a
 * piece has not the size that its place says. */
bool zf_join_take(void *ctx, const struct zf_leaf *leaf, bool *taken,
                  struct zf_err *err) ZF_CHECKED;

/* Places the plain tensors: once where all copies are equal (small ones compared wholly, large ones
 * by samples), else each under extra/<key>.rank<R>.  Then checks that the save had as many ranks as
 * there are files.  Errors: ZF_E_FORMAT a rank's file is missing or of another save. */
bool zf_join_finish(struct zf_join *j, struct zf_err *err) ZF_CHECKED;

#endif
