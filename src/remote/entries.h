/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of one directory, from any kind of listing.
 *
 * The server is not trusted.  A name must be one path component: "", ".", ".." and names with a '/' or a zero byte are
 * refused.  A repeated name is one entry (Apache links its icons too); a name that is both a file and a directory, or has
 * two sizes, is refused as ambiguous. */
#ifndef REMOTE_ENTRIES_H
#define REMOTE_ENTRIES_H

#include <time.h>

#include <zf/base/arena.h>
#include <zf/base/limits.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "http.h"

struct entry {
    const char *name; /* terminated; after entries_add, strings belong to the set */
    bool dir;
    bool sized; /* `size` is known exactly */
    bool asked; /* the properties are not from the listing but from a HEAD of the file */
    bool gone;  /* the server refused the HEAD of the file */
    uint64_t size;
    /* mtime: to the second at least, of a link's target; date: when that was read, by the server's clock; 0 = unknown */
    time_t mtime, date;
    const char *etag, *version; /* NULL = unknown */
};

struct entry_number;
struct entries {
    struct zf_arena *text;
    zf_vec(struct entry);
    time_t date; /* when the listing was made, by the server's clock; 0 = unknown */
    struct entry_number *by_name; /* uthash */
    uint64_t most;                /* limit dir_entries */
    /* The listing of a bucket, in which each object occurs once.  An empty object with the name of a directory is the
     * marker that some tools write for the directory; it is left out. */
    bool once;
};

/* Errors: ZF_E_NOMEM. */
bool entries_init(struct entries *e, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* Removes all entries. */
bool entries_again(struct entries *e, struct zf_err *err) ZF_CHECKED;
void entries_fini(struct entries *e);
static inline void zf_auto_entries(struct entries *e)
{
    entries_fini(e);
}

/* Adds the entry *what with the name what->name[n]; strings are copied.  Errors: ZF_E_FORMAT not a valid name, or it
 * contradicts an earlier entry; ZF_E_LIMIT dir_entries; ZF_E_NOMEM. */
bool entries_add(struct entries *e, const struct entry *what, size_t n,
                 struct zf_err *err) ZF_CHECKED;

/* Sets the properties of entry i from the response to a HEAD of the file.  Errors: those of the set. */
bool entries_set(struct entries *e, size_t i, const struct http_object *o,
                 struct zf_err *err) ZF_CHECKED;
/* The properties of entry i, a file. */
struct http_object entries_object(const struct entries *e, size_t i);

/* The entry of that name, or NULL. */
const struct entry *entries_find(const struct entries *e, const char *name);

#endif
