/* SPDX-License-Identifier: Apache-2.0 */
/* The iteration that a save says it is of, against the name of its folder: two saves mixed in one folder. */
#ifndef FORMAT_MEGATRON_ITERATION_H
#define FORMAT_MEGATRON_ITERATION_H

#include <zf/model/build.h>
#include <zf/source/store.h>

/* "iter_0000010" -> 10.  False: no name of Megatron's. */
bool mg_iteration_of(const char *name, uint64_t *out);

/* Notes the step.
 * Errors: ZF_E_FORMAT st's directory is called as another iteration's; forgiven in a degraded build. */
bool mg_iteration_check(struct zf_store *st, uint64_t iteration, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

#endif
