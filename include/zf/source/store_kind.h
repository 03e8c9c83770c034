/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that each kind of store (directory, memory, remote) implements.  Paths are relative
 * to the root and were checked by the common part (store.c); "" is the root. */
#ifndef ZF_SOURCE_STORE_KIND_H
#define ZF_SOURCE_STORE_KIND_H

#include <zf/base/arena.h>
#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/source/store.h>

/* A listing in the making; the common part sorts it afterwards. */
struct zf_listing {
    struct zf_arena *names;
    struct zf_entry *entry;
    size_t n, cap;
    uint64_t limit;
    /* Set by the common part: the directory is listed again, for a check; and for files that the kind
     * would have to ask for one by one, their names are enough. */
    bool again, names_do;
    /* Set by the kind: a directory that is not in the listing, and does not begin with a dot, does not
     * exist, so that no request is needed. */
    bool whole;
    bool dotted; /* … and the same for names that begin with a dot, and for files */
};

/* Adds an entry (the name is copied).  Errors: ZF_E_LIMIT, ZF_E_NOMEM. */
bool zf_listing_add(struct zf_listing *l, const struct zf_entry *e, struct zf_err *err) ZF_CHECKED;

struct zf_store_ops {
    bool (*list)(void *self, const char *dir, struct zf_listing *l, struct zf_err *err);
    /* Opens a file; returns a reference.  Called once per path, by several threads.  known: the file's
     * entry (not fresh, and valid until the source's first read), by which the first read may open
     * it; NULL = open it now.  The common part puts `name` in front of errors. */
    struct zf_source *(*open)(void *self, const char *path, const char *name,
                              const struct zf_entry *known, struct zf_err *err);
    /* As zf_store_reaches, without the name; NULL = every path is allowed. */
    bool (*reaches)(void *self, const char *path, struct zf_err *err);
    /* The directory's own name with links resolved, malloc'ed.  Errors: ZF_E_NOENT not
     * a directory. */
    char *(*base)(void *self, const char *dir, struct zf_err *err);
    /* NULL, or checks all these files of the store once more, concurrently, as zf_source_ops.unchanged
     * does for one.  On failure *bad_out is the index of the file that the error is about. */
    bool (*unchanged)(void *self, struct zf_source *const *file, size_t n, size_t *bad_out,
                      struct zf_err *err);
    /* NULL, or as zf_store_hosts. */
    void (*hosts)(void *self, zf_host_stats_fn *fn, void *ctx);
    /* The next five are for the model cache (zf/source/facts.h); NULL: identities are enough.
     *
     * Appends a note on an open file of the store, by which a later process can tell it from a file
     * that replaced it.
     * Errors: ZF_E_UNSUPPORTED nothing tells it; ZF_E_STALE not yet. */
    bool (*note)(void *self, struct zf_source *file, struct zf_out *out, struct zf_err *err);
    /* The file with that note, without opening it: every read proves it.  open: the open file of that
     * path, which is returned if it fits the note; else NULL.  Returns a reference.  Errors:
     * ZF_E_STALE it is known to be another file; ZF_E_FORMAT not a note. */
    struct zf_source *(*again)(void *self, const char *path, const char *name, struct zf_bytes note,
                               struct zf_source *open, struct zf_err *err);
    /* The next two are for kinds whose identities are enough, except for changes that leave the timestamps the same
     * (NULL: impossible).  Appends hashes of the bytes read from the file so far … */
    void (*seen)(void *self, struct zf_source *file, struct zf_out *out);
    /* … which are compared before its first read.  Errors: ZF_E_FORMAT not such a note. */
    bool (*expect)(void *self, struct zf_source *file, struct zf_bytes note, struct zf_err *err);
    /* The name of an immutable state of the whole store (a commit), borrowed; NULL: it has none. */
    const char *(*pin)(const void *self);
    /* NULL: false; or as zf_store_lags. */
    bool (*lags)(const void *self);
    void (*fini)(void *self);
    bool (*slow)(const void *self); /* NULL: never, or as zf_store_is_slow */
    uint32_t ahead;                 /* as zf_store_ahead; 0 = a few */
};

/* Names of a new store; the strings are copied. */
struct zf_store_look {
    const char *name;  /* as the user gave it */
    const char *shown; /* prefix of files' paths in messages, without a trailing '/' */
    const char *focus; /* the file that the user named, or NULL */
};

/* Takes ownership of self (also on failure). */
struct zf_store *zf_store_new(const struct zf_store_ops *ops, void *self, struct zf_store_look look,
                              const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* A cache of at most `bytes` for the decompressed blocks of all files of a store, for zf_shared.  Errors: ZF_E_NOMEM. */
struct zf_cache *zf_cache_new(uint64_t bytes, struct zf_err *err) ZF_CHECKED;
struct zf_cache *zf_cache_ref(struct zf_cache *c);
void zf_cache_unref(struct zf_cache **c);

#endif
