/* SPDX-License-Identifier: Apache-2.0 */
/* The losses of a degraded checkpoint: one line when it is mounted, and as JSON. */
#ifndef ZF_OVERLAY_LOST_H
#define ZF_OVERLAY_LOST_H

#include <jansson.h>

#include <zf/model/model.h>
#include <zf/overlay/log.h>

/* Logs "7 of 12 tensors have lost bytes: FILE is missing (zerofs info -v lists them)", or nothing if nothing is
 * lost. */
void zf_lost_say(const struct zf_checkpoint *c, struct zf_log *log);

/* The lost ranges of a tensor, [{"first", "end", "file", "why"}]; at most a few dozen, then
 * {"more": true}.  A reference, or NULL if memory ran out. */
json_t *zf_lost_ranges(const struct zf_tensor *t);
/* Every damaged tensor: [{"set", "name", "lost_bytes"}]; tensors of which only the name is known have "file" and "why"
 * instead of "lost_bytes". */
json_t *zf_lost_json(const struct zf_checkpoint *c);

#endif
