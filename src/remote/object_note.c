/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of an object in a cached model (zf/source/facts.h), by which a later mount opens exactly this object:
 *
 *   16 bytes: a hash of its URL, without query; size; seconds of Last-Modified; ETag; version
 *
 * Numbers are zf_out_var's, texts have their length in front.  No credential is in it. */
#include "object.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>

#include "url.h"

/* Fixed keys, since the key of zf_hash differs in each process. */
static const struct zf_hash_key object_note_key[2] = {{{0x7a65726f66732d6eu, 0x6f7465642d75726cu}},
                                                      {{0x7a65726f66732d6fu, 0x626a6563742d7572u}}};

static bool object_note_place(const struct object *o, uint64_t out[2], struct zf_err *err)
{
    zf_auto(mem) char *url = url_shown(o->at.url);

    for (size_t i = 0; url && i < 2; i++)
        out[i] = zf_hash_of(&object_note_key[i], 0, url, strlen(url));
    return url || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* ---- writing a note -------------------------------------------------------------------------- */

/* Would a listing or a HEAD show if the object was replaced? */
static bool object_note_has_identity(const struct object *o, const struct http_object *is,
                                     struct zf_err *err)
{
    const struct place *p = o->shared->place;

    if (p->immutable || http_object_settled(is, p->etag_is_content_hash))
        return true;
    if (!is->mtime.tv_sec) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "the server sends neither an ETag of its bytes nor a time, so it could be "
                       "replaced unnoticed");
    }
    return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                   is->date ? "it changed only a moment ago" : "the server does not give its time");
}

bool object_note_put(struct zf_source *src, struct zf_out *out, struct zf_err *err)
{
    struct object *o = object_of(src);
    uint64_t place[2];

    if (!o)
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "this object is not in this store");
    if (atomic_load_explicit(&o->stale, memory_order_relaxed))
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the object was replaced after it was opened");
    (void)pthread_mutex_lock(&o->lock);
    const struct http_object is = o->was;
    (void)pthread_mutex_unlock(&o->lock);
    if (!object_note_has_identity(o, &is, err) || !object_note_place(o, place, err))
        return false;
    zf_out_le64(out, place[0]);
    zf_out_le64(out, place[1]);
    zf_out_var(out, src->size);
    zf_out_var(out, (uint64_t)is.mtime.tv_sec);
    zf_out_counted(out, is.etag, strlen(is.etag));
    zf_out_counted(out, is.version, strlen(is.version));
    return zf_out_ok(out, err);
}

/* ---- reading a note -------------------------------------------------------------------------- */

struct object_note {
    uint64_t place[2];
    struct http_object was;
};

static void object_note_text(struct zf_bytes *in, char *out, size_t room)
{
    uint64_t n;
    const char *p = zf_bytes_counted(in, &n);

    in->bad = in->bad || n >= room || memchr(p, '\0', (size_t)n);
    if (!in->bad) {
        memcpy(out, p, (size_t)n);
        out[n] = '\0';
    }
}

static bool object_note_get(struct zf_bytes in, struct object_note *n, struct zf_err *err)
{
    *n = (struct object_note){.was = HTTP_OBJECT_UNKNOWN};
    n->place[0] = zf_bytes_le64(&in);
    n->place[1] = zf_bytes_le64(&in);
    n->was.size = zf_bytes_var(&in);
    const uint64_t seconds = zf_bytes_var(&in);
    n->was.mtime.tv_sec = (time_t)seconds;
    n->was.date = seconds ? (time_t)seconds + HTTP_OLD_SECONDS
                          : 0; /* the earliest time at which the note can have been written */
    object_note_text(&in, n->was.etag, sizeof n->was.etag);
    object_note_text(&in, n->was.version, sizeof n->was.version);
    return (!in.bad && !zf_bytes_left(&in) && n->was.size != HTTP_SIZE_UNKNOWN &&
            seconds <= INT64_MAX) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the cached record of the object is truncated");
}

static bool object_note_here(const struct object *o, const struct object_note *n,
                             struct zf_err *err)
{
    uint64_t place[2];

    return object_note_place(o, place, err) &&
           ((place[0] == n->place[0] && place[1] == n->place[1]) ||
            zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the address now leads elsewhere"));
}

/* Does a listing that does not contradict the note identify the object? */
static bool object_note_identified(const struct http_object *listed, const struct http_object *was)
{
    return (http_object_exact(listed) && http_object_exact(was)) ||
           (listed->size != HTTP_SIZE_UNKNOWN && listed->mtime.tv_sec &&
            listed->mtime.tv_sec == was->mtime.tv_sec);
}

struct zf_source *object_note_open(struct object_shared *s, const char *path, const char *name,
                                   struct zf_bytes note, const struct http_object *listed,
                                   struct zf_err *err)
{
    struct object_note n;

    if (!object_note_get(note, &n, err) || (listed && !http_object_same(listed, &n.was, err)))
        return NULL;
    struct zf_source *src = object_open(s, path, name, &n.was, true,
                                        listed && object_note_identified(listed, &n.was), err);
    if (src && !object_note_here((struct object *)src, &n, err))
        zf_source_unref(&src);
    return src;
}

struct zf_source *object_note_same(struct zf_source *src, struct zf_bytes note, struct zf_err *err)
{
    struct object *o = object_of(src);
    struct object_note n;

    if (!o)
        return zf_null(zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "this object is not in this store"));
    if (!object_note_get(note, &n, err) || !object_note_here(o, &n, err))
        return NULL;
    (void)pthread_mutex_lock(&o->lock);
    struct http_object is = o->was;
    (void)pthread_mutex_unlock(&o->lock);
    is.size = src->size;
    return http_object_same(&n.was, &is, err) ? zf_source_ref(src) : NULL;
}
