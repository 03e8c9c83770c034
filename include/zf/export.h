/* SPDX-License-Identifier: Apache-2.0 */
/* Export: several threads copy files of a tree into a directory.  An interrupted export can be resumed. */
#ifndef ZF_EXPORT_H
#define ZF_EXPORT_H

#include <zf/tree.h>

/* A file of the tree that an export copies, and its destination. */
struct zf_export_file {
    char *from;     /* path in the tree */
    const char *to; /* path below the destination: the end of `from`, or a name the user gave */
    struct zf_stat st;
    uint32_t link_of;   /* index of the file this one is a hard link of; its own index = none */
    uint32_t next_link; /* index of the next link of the same file; UINT32_MAX = no more */
    uint8_t sha256[32];
    bool done;
};

struct zf_export_plan {
    struct zf_export_file *file; /* in the order of the listing */
    uint32_t n;
    size_t cap;
    uint64_t bytes; /* total size; hard links count once */
};

/* Adds the files of path[n] to p, named in the destination as cp(1) does: a file or a directory keeps its own name; of
 * "dir/" only the contents are copied; matches of a pattern keep their path below the last directory in front of the first
 * wildcard.  all: as in struct zf_each.  Errors: ZF_E_NOENT no such file or match; ZF_E_USAGE two files would get the same
 * name. */
bool zf_export_plan_make(struct zf_export_plan *p, struct zf_tree *tree, char **path, int n,
                         bool all, struct zf_err *err) ZF_CHECKED;

/* Sets the destination name of the plan's only file; `name` is borrowed. */
void zf_export_plan_rename(struct zf_export_plan *p, const char *name);

void zf_export_plan_fini(struct zf_export_plan *p);
static inline void zf_auto_export_plan(struct zf_export_plan *p)
{
    zf_export_plan_fini(p);
}

/* The callbacks are called from any of the export's threads, one at a time. */
struct zf_export_opts {
    struct zf_tree *tree;
    struct zf_export_plan *plan;
    const char *dest;    /* directory; it and its parents are created if missing */
    const char *ckpt;    /* the checkpoint's path; NULL: it is not on this machine */
    bool force, sums;    /* replace existing files; write SHA256SUMS */
    uint32_t jobs;       /* threads, 1 to 256 */
    uint8_t options[32]; /* digest of the options that affect the contents of files */
    /* A file of the tree cannot be read; other files are still copied.  file: index in the plan. */
    void (*unread)(void *ctx, uint32_t file, const struct zf_err *err);
    /* Writing to the destination failed: all copies end. */
    void (*failed)(void *ctx, const struct zf_err *err);
    void (*tick)(void *ctx); /* several times a second while it runs */
    void *ctx;
};

struct zf_export;

/* Opens the destination and the journal of an export that was interrupted there.  Borrows everything in o.
 * Errors: ZF_E_USAGE dest is inside the checkpoint, or is the directory of a single-file checkpoint while `force` could
 * replace its shards; ZF_E_IO, also if another export is running there. */
struct zf_export *zf_export_open(const struct zf_export_opts *o, struct zf_err *err) ZF_CHECKED;
void zf_export_free(struct zf_export *x); /* NULL is fine */
static inline void zf_auto_export(struct zf_export **x)
{
    zf_export_free(*x);
}

/* Copies all files of the plan, and writes their sums unless it was stopped. */
void zf_export_run(struct zf_export *x);
/* Asks all copies to end; their partial files can be resumed.  Thread: any, and signal handlers. */
void zf_export_stop(struct zf_export *x);
/* Ends a complete export: removes the journal and syncs all directories.  Errors: ZF_E_IO. */
bool zf_export_finish(struct zf_export *x, struct zf_err *err) ZF_CHECKED;

struct zf_export_count {
    uint64_t bytes; /* bytes that are copied or need no copy */
    uint64_t kept;  /* the part of `bytes` that already existed in the destination */
    uint32_t begun; /* number of the plan's files that were started */
};
struct zf_export_count zf_export_count(const struct zf_export *x);

#endif
