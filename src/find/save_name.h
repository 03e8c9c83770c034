/* SPDX-License-Identifier: Apache-2.0 */
/* What the names of directories say about saves in them. */
#ifndef FIND_SAVE_NAME_H
#define FIND_SAVE_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* True if the name matches one of the patterns, a NULL-terminated list; flags: those of fnmatch(3). */
bool save_name_fits(const char *name, const char *const *pattern, int flags);

/* Is this the name of one save of a series: global_step5, iter_0000010, epoch=1-step=20.ckpt? */
bool save_name_is_step(const char *name);

/* The number that is the whole of a name or a tag.  False: it is none. */
bool save_name_number(const char *name, int64_t *number_out);

/* The step of a save from its path: from the last component with save_name_is_step.  False: none. */
bool save_name_step(const char *path, int64_t *step_out);

/* Do the two names differ only in their numbers? */
bool save_name_same_series(const char *a, const char *b);

/* Is `name` the save `of` after merging by OLMo: "step5-unsharded" of "step5"?  Both contain the same
 * state, and OLMo prefers the latter.  Source: olmo/util.py, find_latest_checkpoint (0.4 … 0.6). */
bool save_name_is_unsharded(const char *name, const char *of);

/* Is the last component of the path a name for a part of a save: model/, optim/, mp_rank_00_000/? */
bool save_name_is_part(const char *path);

/* Is this a name of something other than a save: hidden, a pointer to the latest save, or a temporary name
 * of a save being written?  Links to another save are recognized by their target instead. */
bool save_name_is_ignored(const char *name);

/* Is this the temporary name of a save of a series being written: "step5-tmp" (OLMo), "tmp-checkpoint-5"
 * (transformers 4.3x), "tmp_step_10" (NeMo-RL)? */
bool save_name_is_unfinished(const char *name);

#endif
