/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that are kept: directories, blobs and bulk files.  (A shelf's files are computed.)
 * Children of a directory are adjacent, in natural order, in which lookups search. */
#ifndef VIEW_NODES_H
#define VIEW_NODES_H

#include <zf/base/arena.h>
#include <zf/base/vec.h>

enum node_kind {
    NODE_DIR,
    NODE_SHELF, /* a directory with computed files */
    NODE_LATER, /* a directory of a separate tree, made at its first access */
    NODE_BLOB,
    NODE_BULK
};

struct node {
    const char *name; /* one component */
    uint32_t parent;
    uint32_t first, n; /* children */
    uint32_t n_listed; /* number of listed children, see struct nodes */
    uint32_t n_dirs;   /* directories among the listed ones */
    uint32_t same;     /* the first node that shows the same blob or bulk file; or itself */
    uint32_t links;    /* number of names of that file; only set in the first node */
    bool hidden;       /* found by name, not listed */
    enum node_kind kind;
    uint32_t payload; /* index of the shelf, blob or bulk; NODE_LATER: its enum zf_dtype */
};

struct nodes {
    zf_vec(struct node); /* the first is the root */
    uint32_t *listed;    /* listed[dir.first + i], i < dir.n_listed: the nodes that `dir` lists */
};

/* A node and its path: '/'-separated, "" = the root. */
struct place {
    const char *path;
    enum node_kind kind;
    uint32_t payload;
    bool hidden;
};

/* Sorts place[n] and makes nodes for all of them and for the directories between.
 * Errors: ZF_E_FORMAT two things at one path, a file where a directory must be, a component that is
 * not a valid file name; ZF_E_NOMEM. */
bool nodes_build(struct nodes *out, struct place *place, uint32_t n, struct zf_arena *a,
                 struct zf_err *err) ZF_CHECKED;

/* Fills `listed` and its counts; call it when all hidden nodes are marked. */
bool nodes_list(struct nodes *ns, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;
/* Makes all nodes visible, and lists them. */
void nodes_list_all(struct nodes *ns);

bool node_is_dir(const struct node *n);

/* The child of that name, or UINT32_MAX. */
uint32_t nodes_find(const struct nodes *ns, uint32_t dir, const char *name);

#endif
