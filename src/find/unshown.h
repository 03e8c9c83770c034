/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside those of a checkpoint that its family left out without a note. */
#ifndef FIND_UNSHOWN_H
#define FIND_UNSHOWN_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

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
