/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of virtual files, as fs and cmd see it, by inode number.  Thread: any, concurrently.  Only `read` reads
 * shards; stat and lookup may compute a bulk file's size once. */
#ifndef ZF_TREE_H
#define ZF_TREE_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/prefetch.h>

#define ZF_TREE_ROOT 1

enum zf_node_kind { ZF_NODE_DIR, ZF_NODE_FILE, ZF_NODE_LINK };
struct zf_stat {
    uint64_t ino; /* stable across remounts of the same checkpoint; equal for hard links */
    enum zf_node_kind kind;
    uint64_t size;
    uint32_t nlink;
    struct timespec mtime;
    bool lost;   /* -o degraded: reading some of its bytes fails (not counting filled ones) */
    bool mapped; /* programs usually mmap files of this kind */
    bool live;   /* its contents change while mounted (/.zerofs/stats.json): must not be cached */
    bool moving; /* its name may soon refer to another file: must not be cached */
    uint16_t withheld; /* bits cleared from its mode, because the source does not grant them */
};

struct zf_xattr {
    char name[64];
    char *value; /* the caller's buffer of cap bytes; len of them are set, not terminated */
    size_t cap, len;
};

struct zf_tree;
struct zf_tree_ops {
    /* Finds the entry `name` of directory `dir`; false if there is none. */
    bool (*lookup)(struct zf_tree *t, uint64_t dir, const char *name, struct zf_stat *out);
    bool (*stat)(struct zf_tree *t, uint64_t ino, struct zf_stat *out);
    /* Gives the entry at position `at` (0 …) of a directory in natural order; false past the end.  name:
     * at least 256 bytes.  "." and ".." are not listed. */
    bool (*entry)(struct zf_tree *t, uint64_t dir, uint64_t at, char *name, struct zf_stat *out);
    bool (*parent)(struct zf_tree *t, uint64_t dir, uint64_t *out);
    /* True if the directory can be read.  NULL: all can.  Called before it is listed, and when a name was not found in
     * it.
     * Errors: why not. */
    bool (*enter)(struct zf_tree *t, uint64_t dir, struct zf_err *err);
    /* Waits until entry `name` of the directory, or with NULL every entry, is known.  No function: they always are.
     * Called before a look-up by a thread that can postpone it (zf_gate_yielding).  Errors: ZF_E_BUSY the limit of
     * waiting threads is reached; enter and read report other errors, too. */
    bool (*ready)(struct zf_tree *t, uint64_t dir, const char *name, struct zf_err *err);
    /* Reads at most n bytes at off; *n_out < n only at the end of the file. */
    bool (*read)(struct zf_tree *t, uint64_t ino, void *buf, size_t n, uint64_t off, size_t *n_out,
                 struct zf_err *err);
    /* Announces to the sources that bytes [off, off + n) of the file will be read soon (zf/source/want.h), and returns
     * at once.  NULL: the tree has no such sources. */
    void (*want)(struct zf_tree *t, uint64_t ino, uint64_t off, uint64_t n, enum zf_prefetch how);
    bool (*readlink)(struct zf_tree *t, uint64_t ino, char *buf, size_t n);
    /* Gives extended attribute i (0 …) of ino; false past the end. */
    bool (*xattr)(struct zf_tree *t, uint64_t ino, size_t i, struct zf_xattr *out);
    /* An upper bound: all inode numbers of the tree are below it; NULL, or 0: below 2^51. */
    uint64_t (*inos)(struct zf_tree *t);
    /* Called when a file or directory is opened (hold) and closed (drop): in between, its number stays valid.  hold
     * returns false if the number is already invalid.  NULL: all numbers stay valid for ever. */
    bool (*hold)(struct zf_tree *t, uint64_t ino);
    void (*drop)(struct zf_tree *t, uint64_t ino);
    void (*free)(struct zf_tree *t);
    /* Totals for statfs. */
    void (*totals)(struct zf_tree *t, uint64_t *files, uint64_t *bytes);
};
struct zf_tree {
    const struct zf_tree_ops *ops;
    /* Paths always lead to the current file: after ZF_E_STALE, a reader can continue by opening the path again. */
    bool follows;
};

static inline void zf_tree_free(struct zf_tree *t)
{
    if (t)
        t->ops->free(t);
}
static inline void zf_auto_tree(struct zf_tree **t)
{
    zf_tree_free(*t);
}

/* Walks a '/'-separated path from the root; "" and "/" are the root.  False: no such entry. */
bool zf_tree_walk(struct zf_tree *t, const char *path, struct zf_stat *out);

/* Reads a file from beginning to end without the kernel's read-ahead (cat, export): after the first read that had to
 * wait for storage, it prefetches the following bytes.  Begin with {.tree, .ino, .size}. */
struct zf_through {
    struct zf_tree *tree; /* borrowed */
    uint64_t ino, size;
    uint64_t asked; /* all bytes below this offset were requested */
    bool slow;
};
/* As ops->read. */
bool zf_through_read(struct zf_through *w, void *buf, size_t n, uint64_t off, size_t *n_out,
                     struct zf_err *err) ZF_CHECKED;

#endif
