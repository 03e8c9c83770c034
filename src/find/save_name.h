/* SPDX-License-Identifier: Apache-2.0 */
/* Names of directories, and what they say about the saves in them. */
#ifndef FIND_SAVE_NAME_H
#define FIND_SAVE_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* True when the name fits one of the patterns, NULL at their end; flags: those of fnmatch(3). */
bool save_name_fits(const char *name, const char *const *pattern, int flags);

/* A name of one save of a series: global_step5, iter_0000010, epoch=1-step=20.ckpt. */
bool save_name_is_step(const char *name);

/* The step of a save by its path: of the last component that save_name_is_step.  False: none is. */
bool save_name_step(const char *path, int64_t *step_out);

/* Two names that differ in their numbers only. */
bool save_name_same_series(const char *a, const char *b);

/* Is `name` that of the same save as `of`, put together by OLMo: "step5-unsharded" of "step5"?  Both hold
 * one state, and OLMo prefers the latter.  Source: olmo/util.py, find_latest_checkpoint (0.4 … 0.6). */
bool save_name_is_unsharded(const char *name, const char *of);

/* A path whose last name is that of a part of a save: model/, optim/, mp_rank_00_000/. */
bool save_name_is_part(const char *path);

/* Names that are no save of their own: hidden ones, the words that name the latest save, and those that
 * a save has while it is written.  Links to a directory beside them are known by where they lead. */
bool save_name_is_ignored(const char *name);

/* The name of one save of a series while it is written: "step5-tmp" (OLMo), "tmp-checkpoint-5"
 * (transformers 4.3x), "tmp_step_10" (NeMo-RL). */
bool save_name_is_unfinished(const char *name);

#endif
