/* SPDX-License-Identifier: Apache-2.0 */
/* The saves of a run directory, and the files beside them that say which is the latest. */
#ifndef SRC_FORMAT_TAGS_H
#define SRC_FORMAT_TAGS_H

#include <zf/format.h>

static inline void zf_auto_tags(struct zf_tags *t)
{
    zf_tags_free(t);
}

/* What a pointer file names: one line, one relative path (DeepSpeed tags may hold '/').  Gives a
 * malloc'ed string.  Errors: ZF_E_FORMAT anything else; ZF_E_NOENT. */
bool zf_tags_pointer(struct zf_store *st, const char *file, char **name_out,
                     struct zf_err *err) ZF_CHECKED;

/* The same for Megatron's latest_checkpointed_iteration.txt: "10" is iter_0000010.
 * verl writes the same file beside global_step_10.
 * Source: megatron/training/checkpointing.py, get_checkpoint_name (core 0.4 … 0.19);
 * verl/utils/checkpoint/checkpoint_manager.py, find_latest_ckpt_path (0.2 … 0.6). */
bool zf_tags_megatron(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* Is the directory `path` only a link to another one beside it ("last" -> "step-60")? */
bool zf_tags_is_twin(struct zf_store *st, const char *path);

/* Whatever says which save is the latest; *name_out = NULL when nothing does. */
bool zf_tags_latest(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* The directories in `dir` that hold a save, in natural order; names are paths from st.  Those that
 * fit only weakly count where there is no other. */
bool zf_tags_below(struct zf_store *st, const char *dir, struct zf_tags *out,
                   struct zf_err *err) ZF_CHECKED;

/* Is this the name of one save of a series (global_step5, iter_0000010, epoch=1-step=20.ckpt)? */
bool zf_tags_is_step(const char *name);

/* Do two names differ in their numbers only? */
bool zf_tags_same_series(const char *a, const char *b);

#endif
