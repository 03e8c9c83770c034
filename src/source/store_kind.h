/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of store (directory, memory) give to the common part.  Paths are relative to the
 * root and were checked by the door; "" is the root. */
#ifndef SOURCE_STORE_KIND_H
#define SOURCE_STORE_KIND_H

#include <zf/base/arena.h>
#include <zf/source/store.h>

/* Entries in the making, sorted afterwards by the common part. */
struct listing {
    struct zf_arena *names;
    struct zf_entry *entry;
    size_t n, cap;
    uint64_t limit;
};

/* Adds an entry (the name is copied).  Errors: ZF_E_LIMIT, ZF_E_NOMEM. */
bool listing_add(struct listing *l, const struct zf_entry *e, struct zf_err *err) ZF_CHECKED;

struct store_ops {
    bool (*list)(void *self, const char *dir, struct listing *l, struct zf_err *err);
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
    void (*fini)(void *self);
};

/* How a new store presents itself; the strings are copied. */
struct store_look {
    const char *name;  /* what the user gave */
    const char *shown; /* in front of a file's path in messages, without a '/' at its end */
    const char *focus; /* or NULL */
};

/* Takes self (also on failure). */
struct zf_store *store_new(const struct store_ops *ops, void *self, struct store_look look,
                           const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* The kind's own object, to which the store belongs, or NULL when it is of another kind. */
void *store_self(struct zf_store *st, const struct store_ops *ops);

#endif
