/* SPDX-License-Identifier: Apache-2.0 */
/* The backend torch_dist: .metadata and .distcp files, read by the driver in <zf/dcp.h>. */
#ifndef FORMAT_MEGATRON_TORCH_DIST_H
#define FORMAT_MEGATRON_TORCH_DIST_H

#include "save.h"

/* Fills the lists from what .metadata describes, and reads the common state.
 * Errors: of the driver and of mg_save_common; ZF_E_FORMAT there is no common state. */
bool mg_torch_dist(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
