/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of virtual files, as fs and cmd see it: by inode number, answered from tables.  Thread:
 * any, at once.  Only read touches shards; stat and lookup may work out a bulk file's size once. */
#ifndef ZF_TREE_H
#define ZF_TREE_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/soon.h>

#define ZF_TREE_ROOT 1

enum zf_node_kind { ZF_NODE_DIR, ZF_NODE_FILE, ZF_NODE_LINK };
struct zf_stat {
    uint64_t ino; /* stable across remounts of the same checkpoint; equal for hard links */
    enum zf_node_kind kind;
    uint64_t size;
    uint32_t nlink;
    struct timespec mtime;
    bool lost;         /* -o degraded: some of its bytes answer an error (none that are filled) */
    bool mapped;       /* of a kind that programs map instead of reading it */
    bool live;         /* contents change while mounted (/.zerofs/stats.json): not to be cached */
    bool moving;       /* its name may lead elsewhere the next moment: not to be remembered */
    uint16_t withheld; /* bits of its mode that the source does not give either */
};

struct zf_xattr {
    char name[64];
    char *value; /* the caller's, with room for cap bytes; len of them are filled, not terminated */
    size_t cap, len;
};

struct zf_tree;
struct zf_tree_ops {
    /* The entry `name` of directory `dir`; false when there is none. */
    bool (*lookup)(struct zf_tree *t, uint64_t dir, const char *name, struct zf_stat *out);
    bool (*stat)(struct zf_tree *t, uint64_t ino, struct zf_stat *out);
    /* The entry at position `at` (0 …) of a directory in natural order; false past the end.  name:
     * at least 256 bytes.  "." and ".." are not listed. */
    bool (*entry)(struct zf_tree *t, uint64_t dir, uint64_t at, char *name, struct zf_stat *out);
    bool (*parent)(struct zf_tree *t, uint64_t dir, uint64_t *out);
    /* Can the directory be looked into?  NULL: every one can.  Asked before it is listed, and when
     * a name was not found in it.  Errors: why not. */
    bool (*enter)(struct zf_tree *t, uint64_t dir, struct zf_err *err);
    /* Waits until entry `name` of the directory is known, or all of them are (NULL).  No function: they always are.  Asked
     * before a look by a thread that can put it off (zf_gate_yielding).  Errors: ZF_E_BUSY, as many as may wait for it do; others
     * are said by enter and read, too. */
    bool (*ready)(struct zf_tree *t, uint64_t dir, const char *name, struct zf_err *err);
    /* Reads at most n bytes at off; *n_out < n only at the end of the file. */
    bool (*read)(struct zf_tree *t, uint64_t ino, void *buf, size_t n, uint64_t off, size_t *n_out,
                 struct zf_err *err);
    /* Bytes [off, off + n) of it will be read soon: tells the sources (zf/source/want.h), and returns
     * at once.  NULL: it has no sources to tell. */
    void (*want)(struct zf_tree *t, uint64_t ino, uint64_t off, uint64_t n, enum zf_soon how);
    bool (*readlink)(struct zf_tree *t, uint64_t ino, char *buf, size_t n);
    /* Extended attribute i of ino (0 …); false past the end. */
    bool (*xattr)(struct zf_tree *t, uint64_t ino, size_t i, struct zf_xattr *out);
    /* All inode numbers of the tree are below this one; NULL, or 0: below 2^51. */
    uint64_t (*inos)(struct zf_tree *t);
    /* A file or directory was opened, or closed: until then its number leads to it.  hold: false, and it leads nowhere any
     * more.  NULL: every number leads somewhere for ever. */
    bool (*hold)(struct zf_tree *t, uint64_t ino);
    void (*drop)(struct zf_tree *t, uint64_t ino);
    void (*free)(struct zf_tree *t);
    /* Totals for statfs. */
    void (*totals)(struct zf_tree *t, uint64_t *files, uint64_t *bytes);
};
struct zf_tree {
    const struct zf_tree_ops *ops;
    /* A path leads to what is there now: whoever opens it again goes on where a file was stale. */
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

/* Reads a file from end to end where no kernel reads ahead (cat, export): once a read had to wait
 * for storage, what comes next is asked for before it is read.  Begin with {.tree, .ino, .size}. */
struct zf_through {
    struct zf_tree *tree; /* borrowed */
    uint64_t ino, size;
    uint64_t asked; /* all below is on its way */
    bool slow;
};
/* As ops->read. */
bool zf_through_read(struct zf_through *w, void *buf, size_t n, uint64_t off, size_t *n_out,
                     struct zf_err *err) ZF_CHECKED;

#endif
