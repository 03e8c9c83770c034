/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tree of a checkpoint: the shelves and bulk files that every set gets. */
#include "layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#include "hf.h"
#include "lost.h"

const enum zf_dtype layout_casts[] = {ZF_DT_COUNT, ZF_DT_F32, ZF_DT_F16, ZF_DT_BF16};
#define SHELVES_PER_SET (2 * N_CASTS)

bool layout_put(struct layout *p, struct place what, struct zf_err *err)
{
    if (!zf_vec_room(&p->place, 1, err))
        return false;
    p->place.at[p->place.n++] = what;
    return what.path != NULL;
}

char *layout_join(struct zf_arena *a, const char *dir, const char *name, struct zf_err *err)
{
    return zf_arena_fmt(a, err, "%s%s%s", dir, *dir && *name ? "/" : "", name);
}

static bool layout_put_shelf(struct layout *p, const char *path, struct shelf shelf, bool listed,
                             struct zf_err *err)
{
    struct tree *t = p->t;
    struct place at = {path, NODE_SHELF, t->n_shelves, !listed};

    t->shelf[t->n_shelves++] = shelf;
    return layout_put(p, at, err);
}

uint32_t layout_last_bulk(const struct layout *p)
{
    return (uint32_t)p->t->bulk.n - 1;
}

bool layout_put_bulk(struct layout *p, struct bulk_place what, struct zf_err *err)
{
    struct tree *t = p->t;
    struct bulk *b = zf_arena_get(t->arena, 1, sizeof *b, err);

    if (!b || !zf_vec_room(&t->bulk, 1, err))
        return false;
    bulk_init(b, what.kind, what.of->of, what.of->cast, what.shard);
    t->bulk.at[t->bulk.n++] = b;
    return layout_put(p,
                      (struct place){layout_join(t->arena, what.dir, what.name, err), NODE_BULK,
                                     layout_last_bulk(p), what.hidden},
                      err);
}

/* Adds LOST.json, which lists what the files next to it leave out. */
static bool layout_put_lost(struct layout *p, const struct shelf_set *ss, const char *dir,
                            struct zf_err *err)
{
    struct zf_arena *a = p->t->arena;
    struct shelf of = {.of = ss, .cast = ZF_DT_COUNT};
    struct bulk_place what = {
        .dir = dir, .name = bulk_lost.name, .kind = &bulk_lost, .of = &of, .shard = p->t->c};
    const char *const below[] = {"npy/LOST.json", "hf/LOST.json"};
    const bool apart = !*ss->set->path && (p->model || p->t->later);
    bool ok = layout_put_bulk(p, what, err);

    for (int i = 0; ok && i < (apart ? 1 : 2); i++) {
        ok = layout_put(p,
                        (struct place){layout_join(a, dir, below[i], err), NODE_BULK,
                                       layout_last_bulk(p), false},
                        err);
    }
    if (ok && apart && p->model) {
        char *hf = layout_join(a, dir, "hf", err);

        ok = hf && layout_put_model_lost(p, hf, err);
    }
    return ok;
}

bool layout_wants_list(const struct layout *p, const struct zf_set *set)
{
    bool lost = false;

    for (uint32_t i = 0; p->o->omit_lost && !lost && i < set->n; i++)
        lost = set->tensor[i].lost;
    return lost || (p->o->omit_lost && !set->path[0] && p->t->c->n_missing);
}

/* Adds all presentations of a set to one directory: the set's own, or one below as/. */
static bool layout_put_presentations(struct layout *p, const struct shelf_set *ss,
                                     const struct shelf_set *whole, enum zf_dtype cast,
                                     struct zf_err *err)
{
    struct zf_arena *a = p->t->arena;
    uint32_t list = show_in_set(p->o->show, ss->set, cast != ZF_DT_COUNT);
    struct shelf raw = {.of = ss, .kind = SHELF_RAW, .cast = cast, .hidden = !(list & ZF_SHOW_RAW)};
    struct shelf npy = {.of = whole, .kind = SHELF_NPY, .cast = cast};
    struct shelf all = {.of = whole, .cast = cast};
    struct bulk_place bin = {
        .name = bulk_torch.name, .kind = &bulk_torch, .of = &all, .hidden = !(list & ZF_SHOW_BIN)};
    struct bulk_place safetensors = {.name = bulk_safetensors.name,
                                     .kind = &bulk_safetensors,
                                     .of = &all,
                                     .hidden = !(list & ZF_SHOW_SAFETENSORS)};
    const char *dir = ss->set->path;

    if (cast != ZF_DT_COUNT)
        dir = zf_arena_fmt(a, err, "%s%sas/%s", dir, *dir ? "/" : "", zf_dtype_info(cast)->suffix);
    bin.dir = safetensors.dir = dir;
    char *npy_dir = dir ? layout_join(a, dir, "npy", err) : NULL;
    return npy_dir && layout_put_shelf(p, dir, raw, true, err) &&
           layout_put_shelf(p, npy_dir, npy, list & ZF_SHOW_NPY, err) &&
           layout_put_bulk(p, bin, err) && layout_put_bulk(p, safetensors, err) &&
           layout_put_adapter(p, ss->set->path, dir, err) &&
           (p->t->later && !*ss->set->path
                ? layout_put(p,
                             (struct place){layout_join(a, dir, "hf", err), NODE_LATER, cast,
                                            !(list & ZF_SHOW_HF)},
                             err)
                : layout_put_hf(p, dir, &all, list & ZF_SHOW_HF, err)) &&
           (!layout_wants_list(p, ss->set) || layout_put_lost(p, ss, dir, err));
}

/* Adds as/ itself; each cast adds its own directory to it. */
static bool layout_put_as(struct layout *p, const struct zf_set *set, struct zf_err *err)
{
    bool listed = show_in_set(p->o->show, set, false) & ZF_SHOW_AS;

    return layout_put(
        p, (struct place){layout_join(p->t->arena, set->path, "as", err), NODE_DIR, 0, !listed},
        err);
}

/* Checks that a file with the whole set, every byte widened to four, would not exceed the largest file size. */
bool layout_check_size(const struct zf_set *set, struct zf_err *err)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        if (!zf_add(sum, zf_map_size(set->tensor[i].data), &sum) || sum > INT64_MAX / 8) {
            return zf_fail(
                err, ZF_E_LIMIT, ZF_OFF_NONE,
                "the tensors of one set do not fit into one file: \"%s\" alone has %llu bytes",
                set->tensor[i].name, (unsigned long long)zf_map_size(set->tensor[i].data));
        }
    }
    return true;
}

static bool layout_put_set(struct layout *p, uint32_t i, struct zf_err *err)
{
    struct shelf_set *ss = &p->t->set[i], *whole = ss;
    const struct zf_set *left = NULL;
    bool ok = layout_check_size(&p->t->c->set[i], err) &&
              shelf_set_init(ss, &p->t->c->set[i], p->o, p->t->arena, err) &&
              lost_leave_out(ss->set, p->o->omit_lost, &left, p->t->arena, err);

    if (ok && left && left != ss->set) {
        whole = &p->t->set[p->t->c->n_sets + i];
        ok = shelf_set_init(whole, left, p->o, p->t->arena, err);
    }
    if (!ok)
        return false; /* ss may not have its set */
    if (ss->set->raw_only) {
        struct shelf raw = {.of = ss, .kind = SHELF_RAW, .cast = ZF_DT_COUNT};

        raw.hidden = !(show_in_set(p->o->show, ss->set, false) & ZF_SHOW_RAW);
        return ss->set->n == 0 || layout_put_shelf(p, ss->set->path, raw, true, err);
    }
    for (size_t k = 0; ok && ss->set->n > 0 && k < N_CASTS; k++)
        ok = layout_put_presentations(p, ss, whole, layout_casts[k], err);
    return ok && (ss->set->n == 0 || layout_put_as(p, ss->set, err));
}

/* Lists missing tensors in the root, even if nothing else is shown there. */
static bool layout_put_missing(struct layout *p, struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;
    struct zf_set *none = zf_arena_get(p->t->arena, 1, sizeof *none, err);
    struct shelf_set *ss = none ? zf_arena_get(p->t->arena, 1, sizeof *ss, err) : NULL;

    if (!ss)
        return false;
    none->path = "";
    ss->set = none;
    struct shelf of = {.of = ss, .cast = ZF_DT_COUNT};
    return layout_put_bulk(p, (struct bulk_place){"", bulk_lost.name, &bulk_lost, &of, c, false},
                           err);
}

static bool layout_put_all(struct layout *p, struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;
    bool ok = layout_sort_side_files(p, err);

    if (ok && c->hf) {
        p->model = &p->t->set[2 * (size_t)c->n_sets];
        ok = layout_take_model(p, c->hf, p->model, err);
    }
    for (uint32_t i = 0; ok && i < c->n_sets; i++)
        ok = layout_put_set(p, i, err);
    for (uint32_t i = 0; ok && i < c->n_blobs; i++) {
        const bool told = p->o->show == ZF_SHOW_AUTO && c->blob[i].told;

        ok = layout_put(p, (struct place){c->blob[i].path, NODE_BLOB, i, told}, err);
    }
    if (ok && p->o->omit_lost && c->n_missing && !(c->n_sets && !*c->set[0].path && c->set[0].n))
        ok = layout_put_missing(p, err);
    return ok;
}

/* Checks that no kept node has the same name as a tensor's file. */
static bool layout_check_nodes(const struct tree *t, struct zf_err *err)
{
    for (uint32_t k = 1; k < t->nodes.n; k++) {
        const struct node *n = &t->nodes.at[k], *up = &t->nodes.at[n->parent];
        uint32_t i;

        if (up->kind == NODE_SHELF && shelf_find(&t->shelf[up->payload], n->name, &i)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the tensor \"%s\" would have the same name as another file, %s",
                           t->shelf[up->payload].of->set->tensor[i].name, n->name);
        }
    }
    return true;
}

/* Checks that no shortened name equals another name. */
static bool layout_check_longs(const struct shelf *s, struct zf_err *err)
{
    for (uint32_t k = 0; k < s->of->n_longs; k++) {
        uint32_t i = s->of->longs[k].tensor, found;
        char name[256];

        shelf_name(s, i, name);
        if (shelf_find(s, name, &found) && found != i) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the tensors \"%.64s\" and \"%.64s\" would both be the file %.64s",
                           s->of->set->tensor[found].name, s->of->set->tensor[i].name, name);
        }
    }
    return true;
}

static bool layout_check_names(const struct tree *t, struct zf_err *err)
{
    for (uint32_t s = 0; s < t->n_shelves; s++)
        if (!layout_check_longs(&t->shelf[s], err))
            return false;
    return layout_check_nodes(t, err);
}

/* Gives a blob or bulk file with several names one inode: a single hf/ shard is model.safetensors. */
static bool layout_link_twins(struct tree *t, struct zf_err *err)
{
    uint32_t *first[] = {zf_arena_get(t->arena, t->c->n_blobs, sizeof(uint32_t), err),
                         zf_arena_get(t->arena, t->bulk.n, sizeof(uint32_t), err)};

    if (!first[0] || !first[1])
        return false;
    for (uint32_t k = 0; k < t->nodes.n; k++) {
        struct node *n = &t->nodes.at[k];

        n->same = k;
        if (!node_is_dir(n)) {
            uint32_t *at = &first[n->kind == NODE_BULK][n->payload];

            *at = *at ? *at : k; /* node 0 is a directory */
            n->same = *at;
            t->nodes.at[n->same].links++;
        }
    }
    return true;
}

/* Inode numbers stay below 2^51, so that a tree of trees can put its own bits on top. */
#define MAX_SETS 60000

static bool layout_finish(struct layout *p, struct zf_err *err)
{
    struct tree *t = p->t;
    const bool ok = nodes_build(&t->nodes, p->place.at, (uint32_t)p->place.n, t->arena, err);

    zf_vec_fini(&p->place);
    if (!ok)
        return false;
    show_hide_dirs(&t->nodes, p->o->show, t->c);
    return nodes_list(&t->nodes, t->arena, err) && layout_link_twins(t, err) &&
           layout_check_names(t, err);
}

static bool layout_grow(struct tree *t, const struct zf_view_opts *o, struct zf_err *err)
{
    struct layout p = {.t = t, .o = o, .adapter = adapter_is(t->c)};
    uint64_t n = t->c->n_sets;

    if (n > MAX_SETS) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%u tensor sets, at most %d can be shown",
                       t->c->n_sets, MAX_SETS);
    }
    t->set = zf_arena_get(t->arena, 2 * n + 1, sizeof *t->set, err);
    t->shelf = t->set ? zf_arena_get(t->arena, n * SHELVES_PER_SET, sizeof *t->shelf, err) : NULL;
    if (!t->shelf || !layout_put_all(&p, err)) {
        zf_vec_fini(&p.place);
        return false;
    }
    return layout_finish(&p, err);
}

/* Takes ownership of c, which may be NULL. */
static struct tree *layout_tree(struct zf_checkpoint *c, const struct zf_view_opts *o,
                                struct zf_err *err)
{
    struct tree *t = c ? calloc(1, sizeof *t) : NULL;

    if (!t) {
        zf_checkpoint_free(c);
        return c ? zf_null(zf_fail_sys(err, "make a tree")) : NULL;
    }
    t->base.ops = &tree_ops;
    t->c = c;
    t->arena = zf_arena_new(o->lim->model_memory, err);
    if (!t->arena) {
        zf_tree_free(&t->base);
        return NULL;
    }
    return t;
}

struct zf_tree *zf_tree_new(struct zf_checkpoint *c, const struct zf_view_opts *o,
                            struct zf_err *err)
{
    struct later *later = NULL;

    if (o->later.model && !(later = later_new(o, err))) {
        zf_checkpoint_free(c);
        return NULL;
    }
    struct tree *t = layout_tree(c, o, err);
    if (!t) {
        later_free(later);
        return NULL;
    }
    t->later = later;
    if (!layout_grow(t, o, err)) {
        zf_tree_free(&t->base);
        return NULL;
    }
    return &t->base;
}

/* ---- hf/, at its first access ------------------------------------------------------------------ */

/* Number of the directory that presents the set's hf/ as type `cast`. */
static uint32_t layout_find_hf(const struct tree *t, enum zf_dtype cast)
{
    uint32_t at = 0;

    if (cast != ZF_DT_COUNT)
        at = nodes_find(&t->nodes, nodes_find(&t->nodes, 0, "as"), zf_dtype_info(cast)->suffix);
    return nodes_find(&t->nodes, at, "hf");
}

struct tree *layout_later(const struct tree *of, struct zf_checkpoint *c,
                          const struct zf_view_opts *o, struct zf_err *err)
{
    struct tree *t = layout_tree(c, o, err);
    struct layout p = {.t = t, .o = o, .adapter = t && adapter_is(t->c)};

    if (!t)
        return NULL;
    t->first = (uint64_t)(of->n_shelves + 1) << 32;
    t->of = of;
    if (!layout_sort_side_files(&p, err) || !layout_put_later(&p, err) || !layout_finish(&p, err)) {
        zf_vec_fini(&p.place);
        zf_tree_free(&t->base);
        return NULL;
    }
    for (size_t k = 0; k < N_CASTS; k++)
        t->hf[layout_casts[k]] = layout_find_hf(t, layout_casts[k]);
    return t;
}
