/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of an object in a cached model (zf/source/facts.h); a later mount opens the same object or none:
 *
 *   16 bytes: a hash of its URL, without query; size; seconds of Last-Modified; ETag; version
 *
 * Numbers are zf_out_var's, texts have their length in front.  No credential is in it. */
#ifndef REMOTE_NOTED_H
#define REMOTE_NOTED_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>

#include "object.h"

/* Appends what src is.
 * Errors: ZF_E_UNSUPPORTED it is no object of a place, or nothing tells it from another; ZF_E_STALE
 * it was replaced, or it was written so lately that it could be once more and look the same. */
bool noted_put(struct zf_source *src, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* The object that was noted; the first read proves it.  listed: what a listing says of it now, or
 * NULL; where that is enough to know it, object_unchanged need not ask.  Errors: ZF_E_STALE it is
 * another; ZF_E_FORMAT no note. */
struct zf_source *noted_open(struct object_shared *s, const char *path, const char *name,
                             struct zf_bytes note, const struct http_object *listed,
                             struct zf_err *err) ZF_CHECKED;

/* src, which was opened otherwise, if it is the one that was noted; gives a reference.  Errors: as
 * noted_open. */
struct zf_source *noted_same(struct zf_source *src, struct zf_bytes note,
                             struct zf_err *err) ZF_CHECKED;

#endif
