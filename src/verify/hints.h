/* SPDX-License-Identifier: Apache-2.0 */
/* What the notes of opening say of bytes that are shown nowhere.  A note about files speaks of them and of their series, one
 * about mp_rank_01.pt of all mp_rank_*.pt; one about none may speak of any. */
#ifndef VERIFY_HINTS_H
#define VERIFY_HINTS_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>

/* A note that something is not shown, or that there are other saves in directories below. */
struct hint {
    const struct zf_note *note; /* borrowed */
    char *about;                /* owned; each number as 0 */
    bool names;                 /* some file of the save that has tensors */
};

struct hints {
    zf_vec(struct hint) at;
};

/* Of the checkpoint's notes.  Errors: ZF_E_NOMEM. */
bool hints_init(struct hints *h, const struct zf_checkpoint *c, struct zf_err *err) ZF_CHECKED;
void hints_fini(struct hints *h);

/* There is a file with tensors; series: its path, from hints_series. */
void hints_add_file(struct hints *h, const char *series);

/* Does a note say of this file that it is not shown, or that it is of another save? */
bool hints_name(const struct hints *h, const char *path, const char *series);

/* Does a note say that something is left out that may be of this file?  When all files were added. */
bool hints_may_mean(const struct hints *h, const char *series);

/* The text with each number as 0: files of one series have the same. */
bool hints_series(const char *text, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

#endif
