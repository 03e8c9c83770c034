/* SPDX-License-Identifier: Apache-2.0 */
/* The sums that Megatron writes beside a save. */
#ifndef FORMAT_MEGATRON_INTEGRITY_H
#define FORMAT_MEGATRON_INTEGRITY_H

#include <zf/model/build.h>
#include <zf/source/store.h>

#define MG_INTEGRITY "integrity.json"

/* Compares the files that opening reads whole with the sums, if there are any, and notes what is not compared.
 * Errors: ZF_E_FORMAT a sum is another (a note in a degraded build), integrity.json is no JSON; of reading. */
bool mg_integrity_check(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

#endif
