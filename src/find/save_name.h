/* SPDX-License-Identifier: Apache-2.0 */
/* What the name of a directory says about the save in it. */
#ifndef FIND_SAVE_NAME_H
#define FIND_SAVE_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* Is this the name of one save of a series (global_step5, iter_0000010, epoch=1-step=20.ckpt)? */
bool save_name_is_step(const char *name);

/* The step of a save by its path: of the last component that save_name_is_step.  False: none is. */
bool save_name_step(const char *path, int64_t *step_out);

/* Do two names differ in their numbers only? */
bool save_name_same_series(const char *a, const char *b);

/* Is the directory `path` a part of a save by its name (model/, optim/, mp_rank_00_000/)? */
bool save_name_is_part(const char *path);

/* Names that are no save of their own: hidden ones, links that name the latest save, and those that
 * a save has while it is written. */
bool save_name_is_beside(const char *name);

#endif
