/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the tree becomes one file of the destination. */
#ifndef ZF_EXPORT_COPY_H
#define ZF_EXPORT_COPY_H

#include <zf/export/run.h>
#include <zf/export/settle.h>

/* Copies file `i` of the plan, which is a leader, and puts it into the batch; when that is full,
 * all of it is settled.  buf: ZF_EXPORT_BUF bytes; both are the caller's own.  Errors may be about
 * another file of the batch. */
#define ZF_EXPORT_BUF (1u << 20)
enum zf_export_end zf_export_copy(struct zf_export_run *run, uint32_t i, unsigned char *buf,
                                  struct zf_export_batch *batch, struct zf_err *err) ZF_CHECKED;

#endif
