/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZF_CMD_LS_TREE_H
#define ZF_CMD_LS_TREE_H

#include <zf/model/model.h>

#include "options.h"

/* Prints the sets of c as an outline (zf/inspect/outline.h): the one at `path`, or, where path is NULL, the weights in full and
 * all others as one line each; with --recursive all in full.
 * Errors: ZF_E_NOENT there is no such set. */
bool ls_tree(const struct zf_checkpoint *c, const char *path, const struct opts *o,
             struct zf_err *err) ZF_CHECKED;

#endif
