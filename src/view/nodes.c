/* SPDX-License-Identifier: Apache-2.0 */
/* Places are added in any order, sorted by components, and turned into nodes breadth first: everything
 * below a directory is one range of the sorted places, and its children become adjacent nodes in
 * natural order, in which lookups search. */
#include "nodes.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

static size_t nodes_head_len(const char *path)
{
    return strcspn(path, "/");
}

/* Compares by components, so that the contents of a directory directly follow it. */
static int nodes_cmp_path(const char *a, const char *b)
{
    while (*a && *b) {
        size_t an = nodes_head_len(a), bn = nodes_head_len(b);
        int c = zf_name_cmp(a, an, b, bn);

        if (c)
            return c;
        a += an + (a[an] == '/');
        b += bn + (b[bn] == '/');
    }
    return (*a != '\0') - (*b != '\0');
}

/* For qsort: by path; a mere directory comes after the set of the same path. */
static int nodes_cmp_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = nodes_cmp_path(x->path, y->path);

    return c ? c : (x->kind == NODE_DIR) - (y->kind == NODE_DIR);
}

/* A directory whose children are still to be made: its places, and the length of its own path. */
struct nodes_pending {
    uint32_t lo, hi;
    size_t depth; /* bytes of a path before the child's name */
};

struct maker {
    struct nodes *out;
    zf_vec(struct nodes_pending) todo; /* one per node */
    const struct place *place;
    struct zf_arena *a;
};

static bool nodes_room(struct maker *m, struct zf_err *err)
{
    return zf_vec_room(m->out, 1, err) && zf_vec_room(&m->todo, 1, err);
}

/* Is it a name that cannot be looked up: "", ".", "..", or longer than a file name can be? */
static bool nodes_nameless(const char *name, size_t len)
{
    return len == 0 || len > ZF_NAME_MAX ||
           (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* The number of places in [lo, hi) with the path of the first: one, except for a mere directory that is
 * also a set. */
static uint32_t nodes_count_same(const struct maker *m, uint32_t lo, uint32_t hi)
{
    bool dir = m->place[lo].kind == NODE_DIR || m->place[lo].kind == NODE_SHELF;
    uint32_t n = 1;

    while (dir && lo + n < hi && m->place[lo + n].kind == NODE_DIR &&
           nodes_cmp_path(m->place[lo].path, m->place[lo + n].path) == 0)
        n++;
    return n;
}

/* Makes one node from places [lo, hi), which share the path up to depth + len. */
static bool nodes_make_child(struct maker *m, uint32_t parent, struct nodes_pending of, size_t len,
                             struct zf_err *err)
{
    const struct place *first = &m->place[of.lo];
    const char *full = first->path;
    bool own = full[of.depth + len] == '\0';
    uint32_t n_own = own ? nodes_count_same(m, of.lo, of.hi) : 0;
    bool below = of.hi - of.lo > n_own;

    if (nodes_nameless(full + of.depth, len))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s cannot be the path of a file", full);
    if (own && below && nodes_cmp_path(full, m->place[of.lo + n_own].path) == 0)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there would be two files at %s", full);
    if (own && below && first->kind != NODE_SHELF && first->kind != NODE_DIR) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s would be both a file and a directory",
                       full);
    }
    if (!nodes_room(m, err))
        return false;
    char *name = zf_arena_str(m->a, full + of.depth, len, err);
    m->out->at[m->out->n] = (struct node){
        .name = name,
        .parent = parent,
        .kind = own ? first->kind : NODE_DIR,
        .payload = own ? first->payload : 0,
        .hidden = own && first->hidden,
    };
    m->todo.at[m->todo.n++] =
        (struct nodes_pending){.lo = of.lo + n_own, .hi = of.hi, .depth = of.depth + len + 1};
    m->out->n++;
    return name != NULL;
}

bool node_is_dir(const struct node *n)
{
    return n->kind == NODE_DIR || n->kind == NODE_SHELF || n->kind == NODE_LATER;
}

static bool nodes_make_children(struct maker *m, uint32_t dir, struct zf_err *err)
{
    struct nodes_pending p = m->todo.at[dir];
    uint32_t first = (uint32_t)m->out->n;

    for (uint32_t lo = p.lo; lo < p.hi;) {
        const char *name = m->place[lo].path + p.depth;
        size_t len = nodes_head_len(name);
        uint32_t hi = lo + 1;

        while (hi < p.hi && nodes_head_len(m->place[hi].path + p.depth) == len &&
               memcmp(m->place[hi].path + p.depth, name, len) == 0)
            hi++;
        if (!nodes_make_child(m, dir, (struct nodes_pending){lo, hi, p.depth}, len, err))
            return false;
        lo = hi;
    }
    m->out->at[dir].first = first;
    m->out->at[dir].n = (uint32_t)m->out->n - first;
    return true;
}

/* Makes all nodes breadth first, so that the children of a directory are adjacent. */
static bool nodes_make_all(struct maker *m, uint32_t n, struct zf_err *err)
{
    uint32_t rooted = n > 0 && m->place[0].path[0] == '\0';

    if (!nodes_room(m, err))
        return false;
    m->out->at[0] = (struct node){
        .name = "",
        .kind = rooted ? m->place[0].kind : NODE_DIR,
        .payload = rooted ? m->place[0].payload : 0,
    };
    m->todo.at[m->todo.n++] = (struct nodes_pending){.lo = rooted, .hi = n};
    m->out->n = 1;
    for (uint32_t k = 0; k < m->out->n; k++)
        if (!nodes_make_children(m, k, err))
            return false;
    return true;
}

bool nodes_build(struct nodes *out, struct place *place, uint32_t n, struct zf_arena *a,
                 struct zf_err *err)
{
    struct maker m = {.out = out, .place = place, .a = a};

    *out = (struct nodes){0};
    if (n)
        qsort(place, n, sizeof *place, nodes_cmp_place);
    bool ok = nodes_make_all(&m, n, err);
    zf_vec_fini(&m.todo);
    return ok;
}

static void nodes_list_children(struct nodes *ns, struct node *dir)
{
    dir->n_listed = dir->n_dirs = 0;
    for (uint32_t k = dir->first; k < dir->first + dir->n; k++) {
        if (!ns->at[k].hidden) {
            ns->listed[dir->first + dir->n_listed++] = k;
            dir->n_dirs += node_is_dir(&ns->at[k]);
        }
    }
}

bool nodes_list(struct nodes *ns, struct zf_arena *a, struct zf_err *err)
{
    ns->listed = zf_arena_get(a, ns->n, sizeof *ns->listed, err);
    for (uint32_t k = 0; ns->listed && k < ns->n; k++)
        nodes_list_children(ns, &ns->at[k]);
    return ns->listed != NULL;
}

void nodes_list_all(struct nodes *ns)
{
    for (uint32_t k = 0; k < ns->n; k++)
        ns->at[k].hidden = false;
    for (uint32_t k = 0; k < ns->n; k++)
        nodes_list_children(ns, &ns->at[k]);
}

static int nodes_cmp_name(const void *name, const void *node)
{
    const char *own = ((const struct node *)node)->name;

    return zf_name_cmp(name, strlen(name), own, strlen(own));
}

uint32_t nodes_find(const struct nodes *ns, uint32_t dir, const char *name)
{
    const struct node *of = &ns->at[dir], *child = ns->at + of->first;

    child = bsearch(name, child, of->n, sizeof *child, nodes_cmp_name);
    return child ? (uint32_t)(child - ns->at) : UINT32_MAX;
}
