/* SPDX-License-Identifier: Apache-2.0 */
/* Values that the files of all ranks repeat must be equal, or the files are of different saves. */
#ifndef ASSEMBLE_RANKS_AGREE_H
#define ASSEMBLE_RANKS_AGREE_H

#include <zf/codec/torch.h>

struct ranks_said;

/* Takes the steps, settings and schedules out of a file.  path is copied; borrows nothing afterwards.
 * Errors: ZF_E_LIMIT, ZF_E_NOMEM, those of reading a tensor. */
struct ranks_said *ranks_said_new(struct zf_torch *t, const char *path, const struct zf_limits *lim,
                                  struct zf_err *err) ZF_CHECKED;
void ranks_said_free(struct ranks_said *s); /* NULL is fine */
static inline void zf_auto_ranks_said(struct ranks_said **s)
{
    ranks_said_free(*s);
}

/* Do two ranks' files of one kind say the same?  Errors: ZF_E_FORMAT naming both files and both values. */
bool ranks_said_compare(struct ranks_said *s, struct ranks_said *first,
                        struct zf_err *err) ZF_CHECKED;

#endif
