/* SPDX-License-Identifier: Apache-2.0 */
/* A store's table of opened files and listed directories. */
#ifndef SOURCE_STORE_TABLE_H
#define SOURCE_STORE_TABLE_H

#include <zf/base/thread.h>
#include <zf/base/table.h>
#include <zf/source/store_kind.h>

#include "failures.h"

/* A file that was opened, or a directory that was listed. */
struct kept {
    UT_hash_handle hh; /* key: the path */
    bool unknown;      /* directory: the type of an entry could not be read */
    bool
        making; /* a thread opens or lists it without the lock; others wait, then look it up again */
    struct zf_source *src;        /* file */
    const struct zf_entry *known; /* file that its first read opens: its entry; else NULL */
    bool vouched; /* file: listing its directory again proves it; for zf_store_unchanged */
    const struct zf_bytes
        *note;           /* file, while it is being opened: the note to open it by (facts.h) */
    bool noted;          /* file: it was opened by a note */
    struct zf_listing l; /* directory */
    bool counts;         /* directory: a file in it was opened; for zf_store_unchanged */
    bool relied;         /* directory: the checkpoint relies on all its entries (zf_store_rely) */
    char path[];
};

/* Shared by a store and its sub-stores. */
struct store_table {
    atomic_uint refs;
    const struct zf_store_ops *ops;
    void *self;
    struct zf_limits lim;
    /* Protects the tables.  Entries are never removed.  Opening and listing, which may take long or
     * hang, are done without the lock. */
    pthread_mutex_t lock;
    pthread_cond_t made;
    struct kept *files, *dirs;       /* uthash */
    struct kept *no_files, *no_dirs; /* paths that were asked for and do not exist */
    bool doubtful; /* a failure other than "does not exist": it may succeed later */
    char *shown;
    struct zf_failures *failures;
};

struct zf_store {
    atomic_uint refs;
    struct store_table *t;
    char *name, *base;
    char *focus;  /* or NULL */
    char *prefix; /* this store's directory in the table, "" = root */
};

/* Takes self (also on failure); shown is copied.  Errors: ZF_E_NOMEM. */
struct store_table *store_table_new(const struct zf_store_ops *ops, void *self, const char *shown,
                                    const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void store_table_unref(struct store_table *t);

/* What identifies a file that is opened later: its directory entry, or a note of an earlier process;
 * NULL: not given. */
struct kept_by {
    const struct zf_entry *known;
    const struct zf_bytes *note;
};

/* Opens the file, or lists the directory, k->path. */
typedef bool kept_make_fn(struct store_table *t, struct kept *k, struct zf_err *err);
/* The entry of that path; the first call opens or lists it.  Lives as long as the table. */
struct kept *store_kept_get(struct store_table *t, struct kept **table, const char *path,
                            const struct kept_by *by, kept_make_fn *make,
                            struct zf_err *err) ZF_CHECKED;

/* The next three are called with the lock held.  The entry of path[n], or NULL. */
struct kept *store_kept_find(struct kept *table, const char *path, size_t n);
/* Adds an entry for a path that has none.  NULL: out of memory. */
struct kept *store_kept_new(struct kept **table, const char *path, const struct zf_entry *known);
/* Sorts the table by path. */
void store_kept_sort(struct kept **table);

/* Records for zf_store_facts that opening the file, or listing the directory, failed.  The lock is held. */
void store_fact_failed(struct store_table *t, bool dir, const char *path, const struct zf_err *err);

/* The file at `path`, opened by the note of an earlier process; returns a reference.  Errors: of
 * zf_store_ops.again. */
struct zf_source *store_open_noted(struct zf_store *st, const char *path,
                                   const struct zf_bytes *note, struct zf_err *err) ZF_CHECKED;

/* The entry of a directory, which the first call lists. */
struct kept *store_kept_dir(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Lists a directory, in the order in which the names were read; freed with listing_fini.  was: the
 * directory's entry if it is listed again, else NULL.  Errors: without a path. */
bool listing_read(struct store_table *t, const char *dir, const struct kept *was,
                  struct zf_listing *l, struct zf_err *err) ZF_CHECKED;
/* Sorts into natural order. */
void listing_sort(struct zf_listing *l);
/* The entry of that name among n sorted ones, or NULL. */
struct zf_entry *listing_find(const struct zf_entry *entry, size_t n, const char *name);
void listing_fini(struct zf_listing *l);

#endif
