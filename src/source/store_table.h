/* SPDX-License-Identifier: Apache-2.0 */
/* What a store keeps of the files it opened and the directories it listed. */
#ifndef SOURCE_STORE_TABLE_H
#define SOURCE_STORE_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <pthread.h>
#include <uthash.h>

#include "store_kind.h"

struct zf_opened {
    UT_hash_handle hh;
    struct zf_source *src;
    char path[];
};

struct zf_listed {
    UT_hash_handle hh;
    struct zf_listing l;
    bool counts; /* a file in it was opened; for zf_store_unchanged alone */
    char path[];
};

/* Shared by a store and its sub-stores. */
struct zf_table {
    atomic_uint refs;
    const struct zf_store_ops *ops;
    void *self;
    struct zf_limits lim;
    pthread_mutex_t lock; /* of the two tables, which only grow */
    struct zf_opened *files;
    struct zf_listed *dirs;
    char *shown;
};

struct zf_store {
    atomic_uint refs;
    struct zf_table *t;
    char *name, *base;
    char *focus;  /* or NULL */
    char *prefix; /* this store's directory in the table, "" = root */
};

/* Asks the kind for a listing and sorts it; freed with zf_listing_fini.  Errors: without a path. */
bool zf_listing_read(struct zf_table *t, const char *dir, struct zf_listing *l,
                     struct zf_err *err) ZF_CHECKED;
void zf_listing_fini(struct zf_listing *l);

#endif
