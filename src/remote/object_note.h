/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of an object in a cached model (zf/source/facts.h); a later mount opens the same object or none:
 *
 *   16 bytes: a hash of its URL, without query; size; seconds of Last-Modified; ETag; version
 *
 * Numbers are zf_out_var's, texts have their length in front.  No credential is in it. */
#ifndef REMOTE_OBJECT_NOTE_H
#define REMOTE_OBJECT_NOTE_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>

#include "object.h"

/* Appends the identity of src.
 * Errors: ZF_E_UNSUPPORTED it is no object of a place, or has neither ETag, version nor time; ZF_E_STALE
 * it was replaced, or written so lately that another write could leave the same properties. */
bool object_note_put(struct zf_source *src, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* Opens the object of the note without a request; the first read proves it.  listed: its properties in a listing of
 * now, or NULL; if they identify it, object_unchanged sends no request.  Errors: ZF_E_STALE it is another;
 * ZF_E_FORMAT this is no note. */
struct zf_source *object_note_open(struct object_shared *s, const char *path, const char *name,
                                   struct zf_bytes note, const struct http_object *listed,
                                   struct zf_err *err) ZF_CHECKED;

/* A reference to src, an open object, if it is that of the note.  Errors: as object_note_open. */
struct zf_source *object_note_same(struct zf_source *src, struct zf_bytes note,
                                   struct zf_err *err) ZF_CHECKED;

#endif
