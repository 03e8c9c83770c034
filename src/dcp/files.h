/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the .distcp files and proves that the items lie in them side by side. */
#ifndef DCP_FILES_H
#define DCP_FILES_H

#include "placing.h"

/* Opens every file that a chunk is in (p->file).  Errors: ZF_E_FORMAT one is missing. */
bool dcp_files_open(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

/* order [chunk.n]: the numbers of the chunks that have an item, file by file and in the order of the
 * file; *n_out of them.  Errors: ZF_E_FORMAT a chunk has none. */
bool dcp_files_sort(struct dcp_placing *p, uint32_t *order, uint64_t *n_out,
                    struct zf_err *err) ZF_CHECKED;

/* How many of order [n > 0] are in the same file as the first. */
uint64_t dcp_files_run(const struct zf_dcp *d, const uint32_t *order, uint64_t n);

/* Checks the items order [n] of one file: inside it, and side by side.  Errors: ZF_E_FORMAT. */
bool dcp_files_check(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                     struct zf_err *err) ZF_CHECKED;

/* Checks that every file ends with its last item: a shorter one is damaged, even where no chunk needs the item that is
 * cut, and a longer one is another than the metadata describe.  Errors: ZF_E_FORMAT. */
bool dcp_files_check_ends(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
