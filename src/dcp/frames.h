/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are others than the metadata describe. */
#ifndef DCP_FRAMES_H
#define DCP_FRAMES_H

#include "placing.h"

/* In a degraded build: compares the items order [n > 0] of one file with their frames.  One that is broken is lost; all
 * are lost if the file is another.  Errors: of the notes. */
bool dcp_frames_check(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                      struct zf_err *err) ZF_CHECKED;

#endif
