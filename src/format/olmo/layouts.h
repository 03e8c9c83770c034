/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of OLMo, rows of zf/assemble/layouts.h: a function that finds a save and one that reads it.  Each layout
 * has a separate file, which describes it. */
#ifndef OLMO_LAYOUTS_H
#define OLMO_LAYOUTS_H

#include "save.h"

/* The first file whose names are pickled paths, in the store or the file that was given; reads the headers of files
 * that are named as OLMo names them. */
const char *full_find(const struct zf_save *save, const struct zf_open_opts *o);
/* The directory with the model's files: "model", or "" if the store is that directory.  These functions check names and
 * the head of one file. */
const char *sharded_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *core_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *local_find(const struct zf_save *save, const struct zf_open_opts *o);
const char *unsharded_find(const struct zf_save *save, const struct zf_open_opts *o);
/* Finds rank files of the optimizer without model/.  Only model/ says which part of its parameter a rank's
 * moment vector is: without it, equal halves on two ranks could be taken for one vector. */
const char *local_find_optim(const struct zf_save *save, const struct zf_open_opts *o);

/* Each function drafts the whole save; ctx: the struct olmo_save. */
bool full_open(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool sharded_open(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool core_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;
bool local_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;
bool local_refuse_optim(void *ctx, const char *where, struct zf_err *err) ZF_CHECKED;
bool unsharded_open(void *ctx, const char *dir, struct zf_err *err) ZF_CHECKED;

#endif
