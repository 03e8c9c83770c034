/* SPDX-License-Identifier: Apache-2.0 */
/* Files next to the weights: those that are shown unchanged, and those that a note mentions. */
#ifndef FIND_BESIDE_H
#define FIND_BESIDE_H

#include <zf/format.h>

/* ---- sidefiles ------------------------------------------------------------------------------- */

/* Is this a file to show?  A training program's own settings are shown, too, as state/<name>. */
bool sidefiles_is(const char *name);

/* Adds the side files in st's root as blobs at the root of the tree, except those that `but` (or
 * NULL) has too. */
bool sidefiles_add(struct zf_store *st, struct zf_store *but, struct zf_build *b,
                   struct zf_err *err) ZF_CHECKED;

/* Adds the side files in directories next to the weights: tokenizer/, context/. */
bool sidefiles_below(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* The i-th of these directories; NULL after the last. */
const char *sidefiles_below_dir(size_t i);

/* Adds the adapter that PEFT saved next to the shards of a training run, which contain its parameters
 * and all others: then hf/ can be loaded as an adapter. */
bool sidefiles_adapter(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Adds the side files of the directory `dir` that the tree lacks; -o side=DIR.  A training program's
 * own settings are not added; a file that cannot be read is noted.  Errors: ZF_E_USAGE dir is not a
 * directory or cannot be read. */
bool sidefiles_from(const char *dir, const struct zf_open_opts *o, struct zf_build *b,
                    struct zf_err *err) ZF_CHECKED;

/* ---- bare ------------------------------------------------------------------------------------ */

/* Opens every file of the save, in directories below it too, and adds no tensor: for zf_open_opts.bare.  Errors: the
 * save is a single file that cannot be opened; ZF_E_NOMEM. */
bool bare_open(const struct zf_save *save, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* ---- broken ---------------------------------------------------------------------------------- */

/* Notes files in st's root that lost their contents, with the kind ZF_NOTE_BROKEN: empty ones of formats that are never
 * empty, JSON that was cut short, links to missing files.  settings: only files that sidefiles_is; below: also in the
 * directories of sidefiles_below.  Errors: of the note. */
bool broken_note(struct zf_store *st, bool settings, bool below, struct zf_build *b,
                 struct zf_err *err) ZF_CHECKED;

/* ---- rankfiles ------------------------------------------------------------------------------- */

/* Notes missing rank files in the directory st, of a save or a run: those that some ranks wrote and others did
 * not.  The shards in b or the files' own numbers give the number of ranks.  Errors: of the note; ZF_E_NOMEM. */
bool rankfiles_note(struct zf_store *st, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* ---- unshown --------------------------------------------------------------------------------- */

/* Kinds of files to look for in a directory. */
enum unshown_kind {
    UNSHOWN_FILES = 1,      /* files of weights */
    UNSHOWN_SAVES = 2,      /* directories with a DCP save or with safetensors */
    UNSHOWN_ALL = 1 | 2 | 4 /* both, and directories with other files of weights */
};

/* Notes entries of that kind in the directory st, of a save or a run, that are not shown: b contains nothing from
 * them, nor from one whose name differs only in numbers (another rank's may be an equal copy), and no note
 * mentions them.  For a save use UNSHOWN_ALL if the family is `whole` (zf/format.h), else UNSHOWN_SAVES: other
 * files may hold states that are shown as text.  Errors: of the note. */
bool unshown_note(struct zf_store *st, enum unshown_kind kind, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
