/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of one object: claimed, fetched in as few requests as that takes, and copied out. */
#ifndef REMOTE_FETCH_H
#define REMOTE_FETCH_H

#include "object_inside.h"

/* Reads n bytes at off, which lie in the object, into iov; up to `beyond` bytes more are fetched
 * and not waited for. */
bool fetch_read(struct object *o, const struct iovec *iov, int n_iov, uint64_t off, size_t n,
                uint64_t beyond, struct zf_err *err) ZF_CHECKED;

/* Would a replaced object be noticed: is there an ETag, a version or Last-Modified?  Errors: ZF_E_IO, no. */
bool fetch_has_validator(const struct object *o, const struct http_object *is,
                         struct zf_err *err) ZF_CHECKED;

/* Puts the object's first n bytes into the cache, as far as they make whole blocks. */
void fetch_keep(struct object *o, const void *p, uint64_t n);

/* Fetches the blocks of these ranges that are not in memory, without waiting: neighbours with a gap of at most
 * FETCH_GAP in one request.  A reader gets the failure. */
#define FETCH_GAP (128u << 10)
struct fetch_range {
    uint64_t off, len;
};
void fetch_want(struct object *o, const struct fetch_range *range, size_t n);

#endif
