/* SPDX-License-Identifier: Apache-2.0 */
/* The names in one directory, whoever lists it.
 *
 * The server is not trusted.  A name is one path component: anything else ("", ".", "..",
 * one with a '/' or a zero byte in it) is refused.  The same name twice is one entry (Apache links its
 * icons too); a name that is a file and a directory, or has two sizes, is refused, because nobody
 * could say which of the two is served. */
#ifndef REMOTE_ENTRIES_H
#define REMOTE_ENTRIES_H

#include <time.h>

#include <zf/base/arena.h>
#include <zf/base/limits.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "http.h"

struct entry {
    const char *name; /* terminated; the set's own copy once it was added, as the other texts */
    bool dir;
    bool sized; /* the listing says how many bytes, and says it exactly */
    bool asked; /* … not the listing, but the file itself */
    bool gone;  /* it was asked, and the server does not give it */
    uint64_t size;
    /* to the second at least, and of the target of a link; 0 = not said */
    time_t mtime, date;         /* … and when, by the server's clock */
    const char *etag, *version; /* NULL = not said */
};

struct entry_number;
struct entries {
    struct zf_arena *text;
    zf_vec(struct entry);
    time_t date;                  /* when the listing was made, by the server's clock; 0 */
    struct entry_number *by_name; /* uthash */
    uint64_t most;                /* limit dir_entries */
    /* A bucket: each object is listed once.  An empty one beside a directory of its name is the marker that some
     * tools write for it; of the two the directory is shown. */
    bool once;
};

/* Errors: ZF_E_NOMEM. */
bool entries_init(struct entries *e, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Empties it. */
bool entries_again(struct entries *e, struct zf_err *err) ZF_CHECKED;
void entries_fini(struct entries *e);
static inline void zf_auto_entries(struct entries *e)
{
    entries_fini(e);
}

/* Adds what->name[n]; what->name is copied up to the first zero byte only after it was seen that n has
 * none.  Errors: ZF_E_FORMAT no name, or one that contradicts what was added before; ZF_E_LIMIT
 * dir_entries; ZF_E_NOMEM. */
bool entries_add(struct entries *e, const struct entry *what, size_t n,
                 struct zf_err *err) ZF_CHECKED;

/* Sets the properties in the file's own answer. */
bool entries_set(struct entries *e, size_t i, const struct http_object *o,
                 struct zf_err *err) ZF_CHECKED;
/* The file's properties. */
struct http_object entries_object(const struct entries *e, size_t i);

/* The entry of that name, or NULL. */
const struct entry *entries_find(const struct entries *e, const char *name);

#endif
