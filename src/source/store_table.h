/* SPDX-License-Identifier: Apache-2.0 */
/* A store's table of opened files and listed directories. */
#ifndef SOURCE_STORE_TABLE_H
#define SOURCE_STORE_TABLE_H

#include <zf/base/thread.h>
#include <zf/base/table.h>
#include <zf/source/store_kind.h>

#include "doubts.h"

/* A file that was opened, or a directory that was listed. */
struct kept {
    UT_hash_handle hh; /* key: the path */
    bool unknown;      /* of a directory: an entry could not be looked at */
    bool making;       /* by a thread that does not hold the lock; others wait, then look again */
    struct zf_source *src;        /* of a file */
    const struct zf_entry *known; /* of a file that its first read opens; else NULL */
    /* of a file: its directory, listed again, says what it is; for zf_store_unchanged alone */
    bool vouched;
    /* of a file that was opened as one noted before; while it is made */
    const struct zf_bytes *note;
    bool noted;          /* it was */
    struct zf_listing l; /* of a directory */
    bool counts;         /* a file in it was opened; for zf_store_unchanged alone */
    bool relied;         /* of a directory: all that its listing says counts as well */
    char path[];
};

/* Shared by a store and its sub-stores. */
struct store_table {
    atomic_uint refs;
    const struct zf_store_ops *ops;
    void *self;
    struct zf_limits lim;
    /* Of the two tables.  An entry that is made stays until the end; while one is made, which may
     * take long or hang, the lock is free. */
    pthread_mutex_t lock;
    pthread_cond_t made;
    struct kept *files, *dirs;       /* uthash */
    struct kept *no_files, *no_dirs; /* what was asked for and is not there */
    bool doubtful; /* something failed that may do otherwise when it is asked again */
    char *shown;
    struct zf_doubts *doubts;
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

/* By what a file may be opened later: its entry, or what was noted of it before; NULL where there
 * is neither. */
struct kept_by {
    const struct zf_entry *known;
    const struct zf_bytes *note;
};

/* Opens the file, or lists the directory, k->path. */
typedef bool kept_make_fn(struct store_table *t, struct kept *k, struct zf_err *err);
/* The entry of that path, made at the first question; lives as long as the table. */
struct kept *store_kept_get(struct store_table *t, struct kept **table, const char *path,
                            const struct kept_by *by, kept_make_fn *make,
                            struct zf_err *err) ZF_CHECKED;

/* In each of these the lock is held.  The entry of path[n], or NULL. */
struct kept *store_kept_find(struct kept *table, const char *path, size_t n);
/* Makes one that is not there yet.  NULL: out of memory. */
struct kept *store_kept_new(struct kept **table, const char *path, const struct zf_entry *known);
/* By their paths. */
void store_kept_sort(struct kept **table);

/* Asking for that file, or directory, has failed: remembered for zf_store_facts.  The lock is held. */
void store_fact_failed(struct store_table *t, bool dir, const char *path, const struct zf_err *err);

/* The file at `path` that was noted before; gives a reference.  Errors: of zf_store_ops.again. */
struct zf_source *store_open_noted(struct zf_store *st, const char *path,
                                   const struct zf_bytes *note, struct zf_err *err) ZF_CHECKED;

/* The entry of a directory, listed at the first question. */
struct kept *store_kept_dir(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Asks the kind for a listing, whose names are as they were read; freed with listing_fini.  was:
 * what is kept of the directory when it is looked at again, else NULL.  Errors: without a path. */
bool listing_read(struct store_table *t, const char *dir, const struct kept *was,
                  struct zf_listing *l, struct zf_err *err) ZF_CHECKED;
/* Into natural order. */
void listing_sort(struct zf_listing *l);
/* The entry of that name of n that are in natural order, or NULL. */
struct zf_entry *listing_find(const struct zf_entry *entry, size_t n, const char *name);
void listing_fini(struct zf_listing *l);

#endif
