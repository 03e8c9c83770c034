/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <stdio.h>
#include <stdlib.h>

static const struct tree *tree_of(const struct zf_tree *t)
{
    return (const struct tree *)t;
}

static uint64_t tree_node_ino(const struct tree *t, uint32_t k)
{
    return t->first + k + 1;
}

static uint64_t tree_file_ino(const struct tree *t, const struct shelf *s, uint32_t i)
{
    return (uint64_t)(s - t->shelf + 1) << 32 | ((uint64_t)s->of->set->tensor[i].alias_of + 1);
}

static bool tree_spot(const struct tree *t, uint64_t ino, struct spot *out)
{
    uint64_t s = ino >> 32, low = ino & UINT32_MAX;
    struct zf_err ignored;

    if (low == 0)
        return false;
    if (s == (uint64_t)t->n_shelves + 1 && t->later) {
        /* Only clients that kept an inode number over a restart can use it before that tree is made. */
        t = later_get(t, true, &ignored);
        s = 0;
    }
    if (t && s == 0) {
        *out = (struct spot){.t = t, .node = low <= t->nodes.n ? &t->nodes.at[low - 1] : NULL};
        return out->node != NULL;
    }
    if (!t || s > t->n_shelves || low > t->shelf[s - 1].of->set->n)
        return false;
    *out = (struct spot){.t = t, .shelf = &t->shelf[s - 1], .i = (uint32_t)(low - 1)};
    return true;
}

/* Finds the node that has the directory's children. */
static bool tree_dir(const struct tree *t, uint64_t ino, struct spot *out, struct zf_err *err)
{
    if (!tree_spot(t, ino, out) || !out->node || !node_is_dir(out->node)) {
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no directory has inode %llu",
                       (unsigned long long)ino);
    }
    if (out->node->kind == NODE_LATER) {
        const uint32_t which = out->node->payload;

        out->t = later_get(t, false, err);
        out->node = out->t ? &out->t->nodes.at[out->t->hf[which]] : NULL;
    }
    return out->t != NULL;
}

static uint64_t tree_inos(struct zf_tree *base)
{
    const struct tree *t = tree_of(base);

    return (uint64_t)(t->n_shelves + 1 + (t->later != NULL)) << 32;
}

static void tree_stat_file(const struct tree *t, const struct shelf *s, uint32_t i,
                           struct zf_stat *out)
{
    *out = (struct zf_stat){
        .ino = tree_file_ino(t, s, i),
        .kind = ZF_NODE_FILE,
        .size = shelf_size(s, i),
        .nlink = shelf_links(s, i),
        .mtime = t->c->mtime,
        .lost = s->of->set->tensor[i].lost && !s->of->set->tensor[i].filled,
    };
}

static void tree_stat_node(const struct tree *t, uint32_t k, struct zf_stat *out)
{
    const struct node *n = &t->nodes.at[k];
    struct zf_err err;

    *out = (struct zf_stat){.ino = tree_node_ino(t, n->same),
                            .kind = ZF_NODE_FILE,
                            .nlink = t->nodes.at[n->same].links,
                            .mtime = t->c->mtime};
    if (n->kind == NODE_BLOB) {
        const struct zf_blob *b = &t->c->blob[n->payload];

        out->size = zf_map_size(b->data);
        out->mtime = b->mtime.tv_sec ? b->mtime : t->c->mtime;
    } else if (n->kind == NODE_BULK) {
        /* Without memory to plan it, the size is computed again next time; reading it reports why. */
        out->live = !bulk_size(t->bulk.at[n->payload], &out->size, &err);
        out->lost = !out->live && t->bulk.at[n->payload]->lost;
        out->mapped = t->bulk.at[n->payload]->kind == &bulk_safetensors;
    } else {
        out->kind = ZF_NODE_DIR;
        out->nlink = 2 + n->n_dirs;
    }
}

static bool tree_lookup(struct zf_tree *base, uint64_t dir, const char *name, struct zf_stat *out)
{
    struct zf_err ignored;
    struct spot s;
    uint32_t i;

    if (!tree_dir(tree_of(base), dir, &s, &ignored))
        return false;
    const struct tree *t = s.t;
    uint32_t k = nodes_find(&t->nodes, (uint32_t)(s.node - t->nodes.at), name);
    if (k != UINT32_MAX) {
        tree_stat_node(t, k, out);
        return true;
    }
    if (s.node->kind != NODE_SHELF || !shelf_find(&t->shelf[s.node->payload], name, &i))
        return false;
    tree_stat_file(t, &t->shelf[s.node->payload], i, out);
    return true;
}

static bool tree_stat(struct zf_tree *base, uint64_t ino, struct zf_stat *out)
{
    const struct tree *t = tree_of(base);
    struct spot s;

    if (!tree_spot(t, ino, &s))
        return false;
    if (s.node) {
        tree_stat_node(s.t, (uint32_t)(s.node - s.t->nodes.at), out);
        return true;
    }
    tree_stat_file(t, s.shelf, s.i, out);
    return true;
}

/* Returns entry `at` of a directory: kept nodes first, then the shelf's files, each in natural order. */
static bool tree_entry(struct zf_tree *base, uint64_t dir, uint64_t at, char *name,
                       struct zf_stat *out)
{
    struct zf_err ignored;
    struct spot s;

    if (!tree_dir(tree_of(base), dir, &s, &ignored))
        return false;
    const struct tree *t = s.t;
    if (at < s.node->n_listed) {
        uint32_t k = t->nodes.listed[s.node->first + at];

        (void)snprintf(name, 256, "%s", t->nodes.at[k].name);
        tree_stat_node(t, k, out);
        return true;
    }
    at -= s.node->n_listed;
    const struct shelf *shelf = s.node->kind == NODE_SHELF ? &t->shelf[s.node->payload] : NULL;
    if (!shelf || shelf->hidden || at >= shelf->of->set->n)
        return false;
    shelf_name(shelf, (uint32_t)at, name);
    tree_stat_file(t, shelf, (uint32_t)at, out);
    return true;
}

static bool tree_parent(struct zf_tree *base, uint64_t dir, uint64_t *out)
{
    struct spot s;

    if (!tree_spot(tree_of(base), dir, &s) || !s.node)
        return false;
    *out = tree_node_ino(s.t, s.node->parent);
    return true;
}

static bool tree_enter(struct zf_tree *base, uint64_t dir, struct zf_err *err)
{
    struct spot s;

    return tree_dir(tree_of(base), dir, &s, err);
}

static bool tree_ready(struct zf_tree *base, uint64_t dir, const char *name, struct zf_err *err)
{
    (void)name;
    return tree_enter(base, dir, err);
}

static bool tree_read_node(const struct tree *t, const struct node *n, void *buf, size_t len,
                           uint64_t off, struct zf_err *err)
{
    if (n->kind == NODE_BLOB)
        return zf_map_read(t->c->blob[n->payload].data, buf, len, off, err);
    const struct zf_map *m = bulk_map(t->bulk.at[n->payload], err);
    return m && zf_map_read(m, buf, len, off, err);
}

static bool tree_read(struct zf_tree *base, uint64_t ino, void *buf, size_t n, uint64_t off,
                      size_t *n_out, struct zf_err *err)
{
    const struct tree *t = tree_of(base);
    struct zf_stat st;
    struct spot s;

    *n_out = 0;
    if (!tree_spot(t, ino, &s) || !tree_stat(base, ino, &st) || st.kind != ZF_NODE_FILE) {
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no file has inode %llu",
                       (unsigned long long)ino);
    }
    if (s.node && s.node->kind == NODE_BULK &&
        !bulk_size(s.t->bulk.at[s.node->payload], &st.size, err))
        return false;
    if (off >= st.size)
        return true;
    n = st.size - off < n ? (size_t)(st.size - off) : n;
    if (s.node ? !tree_read_node(s.t, s.node, buf, n, off, err)
               : !shelf_read(s.shelf, s.i, buf, n, off, err)) {
        tree_explain(&s, off, n, err);
        return false;
    }
    *n_out = n;
    return true;
}

static void tree_want(struct zf_tree *base, uint64_t ino, uint64_t off, uint64_t n,
                      enum zf_prefetch how)
{
    const struct zf_map *m = NULL;
    struct spot s;

    if (n == 0 || !tree_spot(tree_of(base), ino, &s))
        return;
    if (s.shelf)
        m = shelf_stretch(s.shelf, s.i, &off, &n);
    else if (s.node->kind == NODE_BLOB)
        m = s.t->c->blob[s.node->payload].data;
    else if (s.node->kind == NODE_BULK)
        m = bulk_map_if_made(s.t->bulk.at[s.node->payload]);
    if (m)
        zf_map_want(m, off, n, how);
}

static bool tree_op_xattr(struct zf_tree *base, uint64_t ino, size_t i, struct zf_xattr *out)
{
    struct spot s;

    return tree_spot(tree_of(base), ino, &s) && tree_xattr(&s, i, out);
}

/* Counts every tensor once: presentations and ties take no extra space. */
static void tree_totals(struct zf_tree *base, uint64_t *files, uint64_t *bytes)
{
    const struct zf_checkpoint *c = tree_of(base)->c;

    *files = c->n_blobs;
    *bytes = 0;
    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            if (c->set[s].tensor[i].alias_of == i) {
                *files += 1;
                *bytes += zf_map_size(c->set[s].tensor[i].data);
            }
        }
    }
}

static void tree_free(struct zf_tree *base)
{
    struct tree *t = (struct tree *)base;

    for (uint32_t i = 0; i < t->bulk.n; i++)
        bulk_fini(t->bulk.at[i]);
    later_free(t->later);
    zf_vec_fini(&t->bulk);
    zf_vec_fini(&t->nodes);
    zf_arena_free(t->arena);
    zf_checkpoint_free(t->c);
    free(t);
}

const struct zf_tree_ops tree_ops = {
    .lookup = tree_lookup,
    .stat = tree_stat,
    .entry = tree_entry,
    .parent = tree_parent,
    .enter = tree_enter,
    .ready = tree_ready,
    .read = tree_read,
    .want = tree_want,
    .xattr = tree_op_xattr,
    .inos = tree_inos,
    .totals = tree_totals,
    .free = tree_free,
};

void zf_tree_list_all(struct zf_tree *base)
{
    struct tree *t = (struct tree *)base;

    nodes_list_all(&t->nodes);
    for (uint32_t i = 0; i < t->n_shelves; i++)
        t->shelf[i].hidden = false;
}

const struct zf_checkpoint *zf_tree_checkpoint(const struct zf_tree *t)
{
    return tree_of(t)->c;
}

const struct zf_checkpoint *zf_tree_model(const struct zf_tree *base, struct zf_err *err)
{
    const struct tree *t = tree_of(base);
    const struct tree *hf = t->later ? later_get(t, false, err) : t;

    return hf ? hf->c : NULL;
}

bool zf_tree_tensor(const struct zf_tree *t, uint64_t ino, struct zf_node_tensor *out)
{
    struct spot s;

    if (!tree_spot(tree_of(t), ino, &s) || !s.shelf || s.shelf->kind != SHELF_RAW)
        return false;
    *out = (struct zf_node_tensor){
        .set = s.shelf->of->set,
        .tensor = &s.shelf->of->set->tensor[s.i],
        .dtype = shelf_dtype(s.shelf, s.i),
    };
    return true;
}

bool zf_tree_sums(struct zf_tree *base, uint64_t ino, zf_sums *out, struct zf_err *err)
{
    struct spot s;

    return !tree_spot(tree_of(base), ino, &s) || s.shelf || s.node->kind != NODE_BULK ||
           bulk_sums(s.t->bulk.at[s.node->payload], out, err);
}

const struct zf_map *zf_tree_map(struct zf_tree *base, uint64_t ino, struct zf_err *err)
{
    struct spot s;

    zf_err_clear(err);
    if (!tree_spot(tree_of(base), ino, &s))
        return NULL;
    if (s.shelf) {
        const struct zf_tensor *x = &s.shelf->of->set->tensor[s.i];

        return s.shelf->kind == SHELF_RAW && shelf_dtype(s.shelf, s.i) == x->dtype ? x->data : NULL;
    }
    if (s.node->kind == NODE_BLOB)
        return s.t->c->blob[s.node->payload].data;
    return s.node->kind == NODE_BULK ? bulk_map(s.t->bulk.at[s.node->payload], err) : NULL;
}
