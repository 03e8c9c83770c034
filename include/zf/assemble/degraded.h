/* SPDX-License-Identifier: Apache-2.0 */
/* What a degraded build does about a failure. */
#ifndef ZF_ASSEMBLE_DEGRADED_H
#define ZF_ASSEMBLE_DEGRADED_H

#include <zf/model/build.h>

/* In a degraded build: notes the failure, forgets it and answers true.  Else, and where memory or a
 * limit ran out, false. */
bool zf_forgive(struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
