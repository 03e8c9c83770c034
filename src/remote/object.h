/* SPDX-License-Identifier: Apache-2.0 */
/* One remote object as a source: ranged reads through the block cache.  What it is was remembered when
 * it was opened, and every range proves itself to be of that; a different one is ZF_E_STALE for ever. */
#ifndef REMOTE_OBJECT_H
#define REMOTE_OBJECT_H

#include "object_inside.h"

void object_shared_unref(struct object_shared *s);

/* Opens the object at `path`.  known: what it is said to be, NULL = nothing; later: believe that and let
 * the first read find out; listed: a listing of now says so, and vouches for it.  name is for messages.
 * Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_STALE not what was said. */
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

/* Asks for all of them at once whether they are what they were.  Those that the listing vouches
 * for, which is looked at again by itself, are passed over, and those that were read when all of
 * the place had been met.  On failure *bad_out is the first that is not. */
bool object_unchanged(struct zf_source *const *src, size_t n, size_t *bad_out,
                      struct zf_err *err) ZF_CHECKED;

#endif
