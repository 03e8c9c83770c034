/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of OLMo, rows of zf/assemble/layouts.h: where a save of one is, and reading it.  Each has a file of its
 * own, which says what it is. */
#ifndef OLMO_LAYOUTS_H
#define OLMO_LAYOUTS_H

#include "save.h"

/* The first file whose names are pickled paths (of the store, or the one that was pointed at); looks at the heads of the
 * files that OLMo would have written. */
const char *full_find(const struct zf_save *save, const struct zf_open_opts *o);
/* The directory that has the model's files: "model", or "" when the store is that directory itself.  They look at names
 * and the head of one file. */
const char *sharded_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *core_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *local_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *unsharded_find(const struct zf_save *save, const struct zf_open_opts *o);
/* Are its rank files the optimizer's part alone?  A moment is a vector of what a rank has of its
 * parameter then, and of what only model/ says: two equal halves would pass for one. */
const char *local_find_optim(const struct zf_save *save, const struct zf_open_opts *o);

/* Each drafts everything of the save; ctx: the struct olmo_save. */
bool full_open(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool sharded_open(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool core_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;
bool local_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;
bool local_refuse_optim(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool unsharded_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;

#endif
