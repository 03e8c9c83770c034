/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is not there, and what may be there in its place. */
#ifndef ZF_ASSEMBLE_ABSENT_H
#define ZF_ASSEMBLE_ABSENT_H

#include <zf/source/store.h>

#define ZF_ABSENT_MAX 80

/* What a sentence says of st's `path`, which should be a file: "is a FIFO, not a file", or "is missing" when
 * nothing is there.  Written to out [ZF_ABSENT_MAX], which is returned. */
const char *zf_absent(struct zf_store *st, const char *path, char *out);

#endif
