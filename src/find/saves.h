/* SPDX-License-Identifier: Apache-2.0 */
/* The directories in a run directory that hold a save. */
#ifndef FIND_SAVES_H
#define FIND_SAVES_H

#include <zf/find.h>

static inline void zf_auto_saves(struct zf_saves *s)
{
    zf_saves_free(s);
}

/* Appends a copy of `path`. */
bool saves_add(struct zf_saves *s, const char *path, struct zf_err *err) ZF_CHECKED;

/* Is the directory `path` only a link to another one beside it ("last" -> "step-60")? */
bool saves_is_twin(struct zf_store *st, const char *path);

/* The directories in `dir` that hold a save, in natural order; names are paths from st.  Those that
 * fit only weakly count where there is no other. */
bool saves_below(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err) ZF_CHECKED;

/* The directories of st whose names are those of saves, whatever they hold. */
bool saves_by_name(struct zf_store *st, struct zf_saves *out, struct zf_err *err) ZF_CHECKED;

/* Are all these directories parts of one save by their names? */
bool saves_are_parts(const struct zf_saves *s);

#endif
