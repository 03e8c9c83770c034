/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of OLMo: is a save of one, and reading it.  Each has a file of its own, which says what it is.  Where one
 * is found in a directory below, its name is the answer, "" for the root, and NULL: it is not there. */
#ifndef OLMO_LAYOUTS_H
#define OLMO_LAYOUTS_H

#include "save.h"

/* The first file whose names are pickled paths (of the store, or the one that was pointed at), or NULL; looks at the
 * heads of the files that OLMo would have written. */
const char *full_find(const struct zf_save *save, const struct zf_limits *lim);
bool sharded_find(struct zf_store *st);
/* The directory that has the model's files: "model", or "" when the store is that directory itself.  Looks at names
 * and the head of one file. */
const char *core_find(struct zf_store *st);
const char *local_find(struct zf_store *st);
const char *unsharded_find(struct zf_store *st, const struct zf_limits *lim);
/* Are its rank files the optimizer's part alone?  A moment is a vector of what a rank has of its
 * parameter then, and of what only model/ says: two equal halves would pass for one. */
bool local_is_optim(struct zf_store *st, const struct zf_limits *lim);

/* Each drafts everything of the save. */
bool full_open(struct olmo_save *s, const struct zf_save *save, struct zf_err *err) ZF_CHECKED;
bool sharded_open(struct olmo_save *s, struct zf_err *err) ZF_CHECKED;
bool core_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;
bool local_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;
bool unsharded_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;

#endif
