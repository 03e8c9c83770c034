/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a tree copied into a directory by several threads.  One that was interrupted goes on where it was. */
#ifndef ZF_EXPORT_H
#define ZF_EXPORT_H

#include <zf/tree.h>

/* Which files of the tree an export copies, and where to. */
struct zf_export_file {
    char *from;     /* path in the tree */
    const char *to; /* path below the destination: the end of `from`, or a name it was given */
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
    uint64_t bytes; /* hard links once */
};

/* Looks path[n] up, with cp(1)'s rules: a file goes into the destination by its own name, and so does
 * a directory, but with '/' at its end only what it holds; what a pattern matches by its path below
 * the last directory before the first wildcard.  Errors: ZF_E_NOENT nothing is called or matches so;
 * ZF_E_USAGE two files would become one. */
bool zf_export_plan_make(struct zf_export_plan *p, struct zf_tree *tree, char **path, int n,
                         bool all, struct zf_err *err) ZF_CHECKED;

/* The one file of a plan gets another name in the destination; `name` is borrowed. */
void zf_export_plan_rename(struct zf_export_plan *p, const char *name);

void zf_export_plan_fini(struct zf_export_plan *p);
static inline void zf_auto_export_plan(struct zf_export_plan *p)
{
    zf_export_plan_fini(p);
}

/* Calls come from any of the export's threads, one at a time. */
struct zf_export_opts {
    struct zf_tree *tree;
    struct zf_export_plan *plan;
    const char *dest; /* the directory; it, and those above it, are made where they are missing */
    const char *ckpt; /* the checkpoint's path; NULL: it is not on this machine */
    bool force, sums; /* replace files that are there; write SHA256SUMS */
    uint32_t jobs;    /* threads, 1 to 256 */
    uint8_t options[32]; /* digest of the options that decide which bytes files have */
    /* A file cannot be had; others may. */
    void (*unread)(void *ctx, uint32_t file, const struct zf_err *err);
    /* The destination does not take it: all copies end. */
    void (*failed)(void *ctx, const struct zf_err *err);
    void (*tick)(void *ctx); /* several times a second while it runs */
    void *ctx;
};

struct zf_export;

/* Opens the destination, and the journal of an export that was interrupted there.  Borrows all of o.
 * Errors: ZF_E_USAGE dest lies in the checkpoint, or beside one that is a single file while `force` could replace its
 * shards; ZF_E_IO, also: another export is at work there. */
struct zf_export *zf_export_open(const struct zf_export_opts *o, struct zf_err *err) ZF_CHECKED;
void zf_export_free(struct zf_export *x); /* NULL is fine */
static inline void zf_auto_export(struct zf_export **x)
{
    zf_export_free(*x);
}

/* Copies all files of the plan, and writes their sums unless it was stopped. */
void zf_export_run(struct zf_export *x);
/* All copies end in good order.  Any thread, and signal handlers. */
void zf_export_stop(struct zf_export *x);
/* Nothing is left to go on with: removes the journal and puts all names on the disk.  Errors: ZF_E_IO. */
bool zf_export_finish(struct zf_export *x, struct zf_err *err) ZF_CHECKED;

struct zf_export_count {
    uint64_t bytes; /* that need no more copying */
    uint64_t kept;  /* of these: were there already */
    uint32_t begun; /* files of the plan, from the first */
};
struct zf_export_count zf_export_count(const struct zf_export *x);

#endif
