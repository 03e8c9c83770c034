/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORMAT_DEEPSPEED_ORDER_H
#define FORMAT_DEEPSPEED_ORDER_H

#include "ds.h"

/* Proves the order of the parameters of all groups, and puts ds->group in it (stages 1 and 2).
 * Errors: ZF_E_FORMAT a master does not round to its weight; not proven. */
bool zf_ds_order_settle(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

#endif
