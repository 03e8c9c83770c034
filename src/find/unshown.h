/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside those of a checkpoint that its family left out without a note. */
#ifndef FIND_UNSHOWN_H
#define FIND_UNSHOWN_H

#include <zf/assemble/open_opts.h>
#include <zf/model/build.h>

/* Notes which files of weights in the directory st of a save, and which directories below it with such files, are
 * not shown: b has nothing from them, nor from one whose name differs in numbers only (another rank's may
 * be an equal copy), and no note names them.  Unless the family is `whole` (zf/format.h) these are directories with a DCP
 * save or safetensors alone: its other files may hold states that are shown as text.  Errors: of the note. */
bool unshown_note(struct zf_store *st, bool whole, const struct zf_limits *lim, struct zf_build *b,
                  struct zf_err *err) ZF_CHECKED;

#endif
