/* SPDX-License-Identifier: Apache-2.0 */
/* What the notes made on opening say about bytes that are shown nowhere.  A note about a file applies to its whole
 * series: one about mp_rank_01.pt to all mp_rank_*.pt; a note that names no file may apply to any. */
#ifndef VERIFY_HINTS_H
#define VERIFY_HINTS_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>

/* A note that something is not shown, or that there are other saves in directories below. */
struct hint {
    const struct zf_note *note; /* borrowed */
    char *about;                /* owned; each number replaced by 0 */
    bool names;                 /* it names a file of the save that has tensors */
};

struct hints {
    zf_vec(struct hint) at;
};

/* Collects the hints from the checkpoint's notes.  Errors: ZF_E_NOMEM. */
bool hints_init(struct hints *h, const struct zf_checkpoint *c, struct zf_err *err) ZF_CHECKED;
void hints_fini(struct hints *h);

/* Adds a file that has tensors; series: its path, from hints_series. */
void hints_add_file(struct hints *h, const char *series);

/* Does a note say that this file is not shown, or that it belongs to another save? */
bool hints_name(const struct hints *h, const char *path, const char *series);

/* Does a note say that something is left out which may be in this file?  Call it after all files were added. */
bool hints_may_mean(const struct hints *h, const char *series);

/* Writes the text with each number replaced by 0: equal for all files of a series. */
bool hints_series(const char *text, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

#endif
