/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts what has no flat vector: buffers, frozen parameters, tied names. */
#ifndef FORMAT_DEEPSPEED_BUFFERS_H
#define FORMAT_DEEPSPEED_BUFFERS_H

#include "rank.h"

bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
