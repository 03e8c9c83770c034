/* SPDX-License-Identifier: Apache-2.0 */
/* SHA256SUMS, as sha256sum(1) writes and checks it. */
#ifndef ZF_EXPORT_SUMS_H
#define ZF_EXPORT_SUMS_H

#include <zf/export/plan.h>

#define ZF_EXPORT_SUMS_NAME "SHA256SUMS"

/* Writes the digests of all files that are done into the directory `root`; lines about other files,
 * of an earlier export, stay.  Errors: ZF_E_IO, ZF_E_NOMEM. */
bool zf_export_sums_write(int root, const struct zf_export_plan *p, struct zf_err *err) ZF_CHECKED;

#endif
