/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose header is looked at by the first read: over a line, a request for each member of
 * each file is most of what opening a checkpoint costs, and few members are ever read. */
#ifndef CODEC_ZIP_LATE_H
#define CODEC_ZIP_LATE_H

#include <zf/source/source.h>

#include "dir.h"
#include "local.h"

/* The `size` bytes as they are stored of the member whose header `local` describes (copied).
 * They end at `end` at the latest.  Takes its own reference on parent, the archive.  Reads fail
 * with ZF_E_FORMAT where header and directory disagree, or the data would reach beyond `end`. */
struct zf_source *zip_late_new(struct zf_source *parent, const struct zip_local *local,
                               uint64_t size, uint64_t end, struct zf_err *err) ZF_CHECKED;

#endif
