/* SPDX-License-Identifier: Apache-2.0 */
/* The newest save of a run that is whole: -o tag=whole, zerofs newest. */
#ifndef FIND_WHOLE_H
#define FIND_WHOLE_H

#include <zf/find.h>

/* Opens the save that o says, with a note unless it is "". */
typedef struct zf_checkpoint *whole_open_fn(struct zf_store *st, const struct zf_open_opts *o,
                                            const char *note, struct zf_err *err);

/* From the newest save of st down, the first that opens strictly and lacks no file that another save of its series is made
 * of.  Reasons against newer ones become a note, and o->choice is told.
 * Errors: those of the newest; ZF_E_USAGE there is no save, or nothing says which is newer. */
struct zf_checkpoint *whole_open(struct zf_store *st, const struct zf_open_opts *o,
                                 whole_open_fn *one, struct zf_err *err) ZF_CHECKED;

#endif
