/* SPDX-License-Identifier: Apache-2.0 */
/* From what the metadata says to tensors: opens the files, proves that the items lie in them side
 * by side, gives each tensor its place and each chunk its box. */
#ifndef FORMAT_DCP_TENSORS_H
#define FORMAT_DCP_TENSORS_H

#include <zf/assemble/names.h>
#include <zf/format.h>

#include "metadata.h"

struct zf_dcp_placing {
    struct zf_dcp *d;
    struct zf_store *st;
    const struct zf_limits *lim;
    struct zf_build *b;
    struct zf_names *names;
    uint32_t n_whole;         /* bytes items that were looked at */
    struct zf_path *path;     /* [n_keys] */
    struct zf_source **file;  /* [n_files]; NULL = not there (degraded) */
    struct zf_source **items; /* [n_files]; NULL = no tensors in it */
};

/* Errors: ZF_E_FORMAT, ZF_E_NOENT a file is missing or too short, items overlap;
 * of names and build. */
bool zf_dcp_place(struct zf_dcp *d, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
