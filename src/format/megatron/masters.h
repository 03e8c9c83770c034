/* SPDX-License-Identifier: Apache-2.0 */
/* Are the masters of a save what its weights were rounded from? */
#ifndef FORMAT_MEGATRON_MASTERS_H
#define FORMAT_MEGATRON_MASTERS_H

#include "save.h"

/* Compares the first and last elements of every master with its weight.  Where one does not round to it,
 * masters_doubted is set, and a note says which.
 * Errors: of reading, but for what a degraded build has lost. */
bool mg_masters_check(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
