/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the files below a directory of the tree, for commands that take directories and patterns. */
#ifndef ZF_EACH_H
#define ZF_EACH_H

#include <zf/tree.h>

struct zf_each {
    struct zf_tree *tree;
    bool
        all; /* include npy/, as/, hf/ and the bulk files, which only show the same tensors again */
    /* path: from the root of the tree, valid during the call.  False stops, with *err filled. */
    bool (*file)(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err);
    /* The same for directories, called before their contents; or NULL. */
    bool (*dir)(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err);
    void *ctx;
};

/* Calls e->file for every file below `dir` ("" = the root), a directory's files before those of the
 * directories in it.  Errors: ZF_E_NOENT dir is no directory, ZF_E_NOMEM, those of e->file. */
bool zf_each_file(const struct zf_each *e, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Calls e->file and e->dir for the direct entries of `dir`, including presentations.  Errors: the same. */
bool zf_each_entry(const struct zf_each *e, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Calls e->file and e->dir for every path that matches (glob.h).  If nothing else matches, the tree is made to list
 * presentations, too, and these are matched.  Errors: the same; ZF_E_NOENT nothing matches, or `pattern` has no
 * wildcards and does not exist; the message then has the nearest names. */
bool zf_each_match(const struct zf_each *e, const char *pattern, struct zf_err *err) ZF_CHECKED;

/* path without empty components, "." and '/' at either end; malloc'ed, NULL if memory ran out. */
char *zf_each_normal(const char *path);

#endif
