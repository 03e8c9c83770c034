/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that each kind of store (directory, memory, remote) gives the common part.  Paths are
 * relative to the root and were checked by the door; "" is the root. */
#ifndef ZF_SOURCE_STORE_KIND_H
#define ZF_SOURCE_STORE_KIND_H

#include <zf/base/arena.h>
#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/source/store.h>

/* Entries in the making, sorted afterwards by the common part. */
struct zf_listing {
    struct zf_arena *names;
    struct zf_entry *entry;
    size_t n, cap;
    uint64_t limit;
    /* Set by the common part: the directory was listed before and is looked at again; and nothing
     * but the names matters of files that a kind would have to ask for one by one. */
    bool again, names_do;
    /* Set by the kind: a directory that is not in it, and has no dot in front, is not there, so that it need
     * not be asked for. */
    bool whole;
    bool dotted; /* … and this holds for names with a dot in front too, and for files */
};

/* Adds an entry (the name is copied).  Errors: ZF_E_LIMIT, ZF_E_NOMEM. */
bool zf_listing_add(struct zf_listing *l, const struct zf_entry *e, struct zf_err *err) ZF_CHECKED;

struct zf_store_ops {
    bool (*list)(void *self, const char *dir, struct zf_listing *l, struct zf_err *err);
    /* Gives a reference, asked for once a path; by several threads at once.  known: the file's entry
     * (no fresh one, and it outlives the source's first read), by which the first read may open it;
     * NULL = now.  The common part puts `name` in front of errors. */
    struct zf_source *(*open)(void *self, const char *path, const char *name,
                              const struct zf_entry *known, struct zf_err *err);
    /* As zf_store_reaches, without the name; NULL = all may. */
    bool (*reaches)(void *self, const char *path, struct zf_err *err);
    /* The directory's own name with links resolved, malloc'ed.  Errors: ZF_E_NOENT not
     * a directory. */
    char *(*base)(void *self, const char *dir, struct zf_err *err);
    /* NULL, or: looks at all these files of the store once more, at once, as zf_source_ops.unchanged
     * would one after the other.  On failure *bad_out is the file that the error is about. */
    bool (*unchanged)(void *self, struct zf_source *const *file, size_t n, size_t *bad_out,
                      struct zf_err *err);
    /* NULL, or as zf_store_hosts. */
    void (*hosts)(void *self, zf_host_stats_fn *fn, void *ctx);
    /* The next five are for models that are kept (zf/source/facts.h); NULL: identities say all
     * there is.
     *
     * Appends what must be known of a file of the store that is open, to tell it later from one
     * that replaced it.
     * Errors: ZF_E_UNSUPPORTED nothing tells it; ZF_E_STALE not yet. */
    bool (*note)(void *self, struct zf_source *file, struct zf_out *out, struct zf_err *err);
    /* The file that was noted, without opening it: every read proves it.  open: it is open already,
     * and is given back if it is that one; else NULL.  Gives a reference.  Errors: ZF_E_STALE it is
     * known to be another; ZF_E_FORMAT no note. */
    struct zf_source *(*again)(void *self, const char *path, const char *name, struct zf_bytes note,
                               struct zf_source *open, struct zf_err *err);
    /* The next two for a kind whose identities say all there is, but for bytes that changed while times did not (NULL: no
     * such).  Appends what was read of the file so far, in short … */
    void (*seen)(void *self, struct zf_source *file, struct zf_out *out);
    /* … which is to be compared before its first read.  Errors: ZF_E_FORMAT no such note. */
    bool (*expect)(void *self, struct zf_source *file, struct zf_bytes note, struct zf_err *err);
    /* The name of an immutable state of the whole store (a commit), borrowed; NULL:
     * it has none. */
    const char *(*pin)(const void *self);
    /* NULL: false; or as zf_store_lags. */
    bool (*lags)(const void *self);
    void (*fini)(void *self);
    bool (*slow)(const void *self); /* NULL: never, or as zf_store_is_slow */
    uint32_t ahead;                 /* as zf_store_ahead; 0 = a few */
};

/* How a new store presents itself; the strings are copied. */
struct zf_store_look {
    const char *name;  /* what the user gave */
    const char *shown; /* in front of a file's path in messages, without a '/' at its end */
    const char *focus; /* or NULL */
};

/* Takes self (also on failure). */
struct zf_store *zf_store_new(const struct zf_store_ops *ops, void *self, struct zf_store_look look,
                              const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* A bound on the decompressed blocks of all files of a store, for zf_shared.  Errors: ZF_E_NOMEM. */
struct zf_cache *zf_cache_new(uint64_t bytes, struct zf_err *err) ZF_CHECKED;
struct zf_cache *zf_cache_ref(struct zf_cache *c);
void zf_cache_unref(struct zf_cache **c);

#endif
