/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside the weights: those that are shown as they are, and those that a note names. */
#ifndef FIND_BESIDE_H
#define FIND_BESIDE_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

/* ---- sidefiles ------------------------------------------------------------------------------- */

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

/* ---- rankfiles ------------------------------------------------------------------------------- */

/* Notes files that ranks left in the directory st, of a save or a run, and that others, which must have left them, too, did
 * not: the shards that b shows or the files' own numbers say how many ranks there were.  Errors: of the note; ZF_E_NOMEM. */
bool rankfiles_note(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* ---- unshown --------------------------------------------------------------------------------- */

/* Kinds of files that are looked for in a directory. */
enum unshown_kind {
    UNSHOWN_FILES = 1,      /* files of weights */
    UNSHOWN_SAVES = 2,      /* directories with a DCP save or with safetensors */
    UNSHOWN_ALL = 1 | 2 | 4 /* both, and directories with other files of weights */
};

/* Notes what of that kind in the directory st, of a save or a run, is not shown: b has nothing from it, nor from one whose
 * name differs in numbers only (another rank's may be an equal copy), and no note names it.  In a save it is
 * UNSHOWN_ALL where the family is `whole` (zf/format.h), else UNSHOWN_SAVES: other files may hold states that are shown as
 * text.  Errors: of the note. */
bool unshown_note(struct zf_store *st, enum unshown_kind kind, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
