/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORMAT_MEGATRON_PLACE_H
#define FORMAT_MEGATRON_PLACE_H

#include "save.h"

/* Shows everything in the save at its place in the tree, by the rules of zerofs(5):
 * parameters, stacked/, bucket/, extra/.  Errors: of the build. */
bool mg_place(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
