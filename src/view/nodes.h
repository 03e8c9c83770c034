/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that are kept: directories, blobs and bulk files.  (A shelf's files are computed.)
 * Children of a directory stand next to each other in natural order, which is also the order
 * lookups search in. */
#ifndef VIEW_NODES_H
#define VIEW_NODES_H

#include <zf/base/arena.h>

enum node_kind { NODE_DIR, NODE_SHELF /* a directory with computed files */, NODE_BLOB, NODE_BULK };

struct node {
    const char *name; /* one component */
    uint32_t parent;
    uint32_t first, n; /* children */
    uint32_t n_dirs;   /* directories among them */
    enum node_kind kind;
    uint32_t payload; /* index of the shelf, blob or bulk */
};

struct nodes {
    struct node *v; /* v[0] is the root */
    uint32_t n;
};

/* What is to stand where.  path: '/'-separated, "" = the root. */
struct place {
    const char *path;
    enum node_kind kind;
    uint32_t payload;
};

/* Sorts place[n] and makes nodes for all of them and for the directories between.
 * Errors: ZF_E_FORMAT two things in one place, a file where a directory must be, a component that
 * is no file name; ZF_E_NOMEM. */
bool nodes_build(struct nodes *out, struct place *place, uint32_t n, struct zf_arena *a,
                 struct zf_err *err) ZF_CHECKED;

/* The child of that name, or UINT32_MAX. */
uint32_t nodes_find(const struct nodes *ns, uint32_t dir, const char *name);

#endif
