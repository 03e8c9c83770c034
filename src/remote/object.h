/* SPDX-License-Identifier: Apache-2.0 */
/* One remote object as a source: ranged reads through the block cache.  Every range is proved to belong to the object
 * that was opened; once another was seen, all reads fail with ZF_E_STALE. */
#ifndef REMOTE_OBJECT_H
#define REMOTE_OBJECT_H

#include "object_inside.h"

void object_shared_unref(struct object_shared *s);

/* Opens the object at `path`.  known: its properties by a listing, NULL = none; later: without a request, the first
 * read checks them; listed: the listing is of now, and describes it exactly.  name is for messages.
 * Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_STALE it is another than `known`. */
struct zf_source *object_open(struct object_shared *s, const char *path, const char *name,
                              const struct http_object *known, bool later, bool listed,
                              struct zf_err *err) ZF_CHECKED;

/* Is it a source of this kind?  Else NULL. */
struct object *object_of(struct zf_source *src);

/* A hash that is the same in every process. */
uint64_t object_hash(uint64_t seed, const char *text);

/* The identity of an object at that path. */
struct zf_identity object_identity_of(const struct object_shared *s, const char *path,
                                      const struct http_object *o);

/* Asks for the heads of all of them, many at once, and compares.  Passed over: objects of a listing that is looked at
 * again itself, and those checked since all of the place was seen.  On failure *bad_out is the first that differs. */
bool object_unchanged(struct zf_source *const *src, size_t n, size_t *bad_out,
                      struct zf_err *err) ZF_CHECKED;

#endif
