/* SPDX-License-Identifier: Apache-2.0 */
/* The saves of a run directory, and the files beside them that say which is the latest. */
#ifndef ZF_FIND_SAVES_H
#define ZF_FIND_SAVES_H

#include <zf/find.h>

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

/* The save that a pointer file, or a link called latest, names; malloc'ed.  It need not be there.
 * *name_out = NULL when nothing says which is the latest. */
bool zf_tags_latest(struct zf_store *st, char **name_out, struct zf_err *err) ZF_CHECKED;

/* The directories in `dir` that hold a save, in natural order; names are paths from st.  Those that
 * fit only weakly count where there is no other. */
bool zf_tags_below(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                   struct zf_tags *out, struct zf_err *err) ZF_CHECKED;

/* The directories of st whose names are those of saves, whatever they hold. */
bool zf_tags_dirs(struct zf_store *st, struct zf_tags *out, struct zf_err *err) ZF_CHECKED;

/* The saves nearest to st: in its directories or, when none of them is one, in theirs, and so on. */
bool zf_tags_nearest(struct zf_store *st, const struct zf_limits *lim, struct zf_tags *out,
                     struct zf_err *err) ZF_CHECKED;

/* Are all these directories parts of a save by their names (model/, optim/, mp_rank_00_000/)? */
bool zf_tags_are_parts(const struct zf_tags *t);

/* The step of a save by its path: of the last component that is_step.  False: none is. */
bool zf_tags_step(const char *path, int64_t *step_out);

/* Is this the name of one save of a series (global_step5, iter_0000010, epoch=1-step=20.ckpt)? */
bool zf_tags_is_step(const char *name);

/* Do two names differ in their numbers only? */
bool zf_tags_same_series(const char *a, const char *b);

#endif
