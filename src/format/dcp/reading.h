/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of one metadata file share: dcp_metadata.c opens it, dcp_keys.c reads what was saved,
 * dcp_storage.c where it stands. */
#ifndef FORMAT_DCP_READING_H
#define FORMAT_DCP_READING_H

#include "metadata.h"

/* One metadata file while it is read. */
struct zf_dcp_reading {
    struct zf_dcp *d;
    const struct zf_limits *lim;
    struct zf_build *b;
    const char *dir, *path;        /* its directory, itself */
    uint64_t first_chunk;          /* of this file */
    const struct zf_pv *last_path; /* files are named over and over again by the same value */
    uint32_t last_file;
    uint64_t n_strange; /* items that no tensor owns */
};

/* Grows an array to n things of `each` bytes.  NULL: ZF_E_NOMEM, and p is as it was. */
void *zf_dcp_room(void *p, uint64_t n, uint64_t *cap, size_t each, struct zf_err *err);

/* Names the file in the failure, once.  Returns false. */
bool zf_dcp_in_file(const struct zf_dcp_reading *r, struct zf_err *err);

/* A degraded build goes on after a failure: true, and it is noted. */
bool zf_dcp_settle(struct zf_dcp_reading *r, struct zf_err *err);

/* The key of this name in the state dict that is read, or ZF_DCP_NONE. */
uint32_t zf_dcp_find_key(const struct zf_dcp *d, const char *p, uint64_t n);

/* The chunk of `key` that starts there and has number `from` or more, or ZF_DCP_NONE. */
uint32_t zf_dcp_find_chunk(const struct zf_dcp *d, uint32_t key, const uint64_t *start,
                           uint64_t from);

/* torch.Size, or a plain tuple or list, of exactly ndim sizes. */
bool zf_dcp_read_size(const struct zf_pv *v, uint32_t ndim, uint64_t *out);

/* Room for one more box of ndim dimensions.  NULL: ZF_E_NOMEM, ZF_E_LIMIT. */
uint64_t *zf_dcp_box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err);

/* Read state_dict_metadata, and storage_data, into r->d.  Errors: ZF_E_FORMAT, with the name or file. */
bool zf_dcp_take_state(struct zf_dcp_reading *r, const struct zf_pv *dict, struct zf_err *err);
bool zf_dcp_take_storage(struct zf_dcp_reading *r, const struct zf_pv *dict, struct zf_err *err);

#endif
