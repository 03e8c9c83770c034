/* SPDX-License-Identifier: Apache-2.0 */
/* Files that belong to a model without holding its weights: shown as they are. */
#ifndef FIND_SIDEFILES_H
#define FIND_SIDEFILES_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

/* True for a file that is shown.  A training program's own settings are, too, as state/<name>. */
bool sidefiles_is(const char *name);

/* Adds the side files in st's root as blobs at the root of the tree, except those that `but` (or
 * NULL) has too. */
bool sidefiles_add(struct zf_store *st, struct zf_store *but, struct zf_build *b,
                   struct zf_err *err) ZF_CHECKED;

/* Adds those that lie in directories beside the weights: tokenizer/, context/. */
bool sidefiles_below(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Adds the adapter that PEFT saved beside the shards of a training run, which hold the same
 * parameters and all others: with it hf/ can be opened as an adapter. */
bool sidefiles_adapter(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Adds the side files in the directory `dir` that are not there yet; -o side=DIR.  A training
 * program's own settings are left where they are; a file that cannot be read is noted.  Errors:
 * ZF_E_USAGE dir is no directory or cannot be read. */
bool sidefiles_from(const char *dir, const struct zf_open_opts *o, struct zf_build *b,
                    struct zf_err *err) ZF_CHECKED;

#endif
