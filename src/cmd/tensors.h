/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tensors that an argument of a command refers to. */
#ifndef ZF_CMD_TENSORS_H
#define ZF_CMD_TENSORS_H

#include <zf/each.h>

typedef bool tensors_fn(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err);

/* Calls fn for each tensor file that `word`, a path or a pattern, refers to; NULL: for all.
 * Errors: as zf_each_match; of fn. */
bool tensors_each(struct zf_tree *tree, const char *word, tensors_fn *fn, void *ctx,
                  struct zf_err *err) ZF_CHECKED;

#endif
