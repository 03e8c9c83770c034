/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters out of flat optimizer buffers. */
#ifndef FORMAT_MEGATRON_BUCKETS_H
#define FORMAT_MEGATRON_BUCKETS_H

#include "bucket_flat.h"
#include "save.h"

/* Adds the states of every parameter that is proved to be in the buffers, whole or not at all, and notes
 * what is mapped, and why the rest is not.  The list of parameters is complete otherwise; ZF_VALUES_ENDS
 * elements at either end of each piece are compared.
 * Errors: of reading and of the build. */
bool mg_buckets_map(struct mg_save *s, const struct flat_buffers *buffers,
                    struct zf_err *err) ZF_CHECKED;

#endif
