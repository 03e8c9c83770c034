/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint to its tree: which shelves and bulk files every set gets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/vec.h>

#include "adapter.h"
#include "hf.h"
#include "lost.h"
#include "show.h"
#include "tree.h"

static const enum zf_dtype casts[] = {ZF_DT_COUNT, ZF_DT_F32, ZF_DT_F16, ZF_DT_BF16};
#define N_CASTS (sizeof casts / sizeof casts[0])
#define SHELVES_PER_SET (2 * N_CASTS)

/* Hugging Face's own default. */
#define SHARD_SIZE 5000000000ull

/* A file that is no tensor, by its directory: path[n]. */
struct side_file {
    const char *path;
    size_t n;
    uint32_t blob; /* its number */
};

struct layout {
    struct tree *t;
    const struct zf_view_opts *o;
    zf_vec(struct place) place;
    struct side_file *side; /* all, sorted by directory */
    struct shelf_set
        *model;   /* what hf/ of the root shows in place of the root's tensors; or NULL */
    bool adapter; /* the root holds what PEFT calls an adapter */
};

static bool layout_put(struct layout *p, struct place what, struct zf_err *err)
{
    if (!zf_vec_room(&p->place, 1, err)) {
        return false;
    }
    p->place.at[p->place.n++] = what;
    return what.path != NULL;
}

static char *layout_join(struct zf_arena *a, const char *dir, const char *name, struct zf_err *err)
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

/* The number of the bulk file that was made last. */
static uint32_t layout_last_bulk(const struct layout *p)
{
    return (uint32_t)p->t->bulk.n - 1;
}

/* A bulk file to be made. */
struct bulk_place {
    const char *dir, *name;
    const struct bulk_kind *kind;
    const struct shelf *of;
    const void *shard; /* of the kind; or NULL */
    bool hidden;
};

static bool layout_put_bulk(struct layout *p, struct bulk_place what, struct zf_err *err)
{
    struct tree *t = p->t;
    struct bulk *b = zf_arena_get(t->arena, 1, sizeof *b, err);

    if (!b || !zf_vec_room(&t->bulk, 1, err)) {
        return false;
    }
    bulk_init(b, what.kind, what.of->of, what.of->cast, what.shard);
    t->bulk.at[t->bulk.n++] = b;
    return layout_put(p,
                      (struct place){layout_join(t->arena, what.dir, what.name, err), NODE_BULK,
                                     layout_last_bulk(p), what.hidden},
                      err);
}

/* ---- hf/ -------------------------------------------------------------------------------------- */

/* Is it the set of one adapter: adapter/<name>, also of one rank?  PEFT looks for its weights under
 * their own name. */
static bool layout_is_adapter_set(const struct layout *p, const char *path)
{
    static const char dir[] = "adapter/";
    const char *at = strstr(path, dir);

    return *path ? at && (at == path || at[-1] == '/') : p->adapter;
}

/* The config.json that a recipe made, or NULL. */
static const struct zf_blob *layout_made_config(const struct layout *p)
{
    return zf_checkpoint_blob(p->t->c, "hf/" HF_CONFIG);
}

/* Puts side file i, called `name`, into dir: hf/ of a set as `of` serves it. */
static bool layout_put_side_file(struct layout *p, const char *dir, const struct shelf *of,
                                 uint32_t i, const char *name, struct zf_err *err)
{
    const struct zf_blob *b = &p->t->c->blob[i];

    if (p->model == of->of && layout_made_config(p) && strcmp(name, HF_CONFIG) == 0) {
        return true; /* that one is of something else */
    }
    if (of->cast != ZF_DT_COUNT && strcmp(name, HF_CONFIG) == 0) {
        return layout_put_bulk(
            p, (struct bulk_place){dir, HF_CONFIG, &bulk_hf_config, of, b, false}, err);
    }
    /* An adapter beside the shards is as it was saved, whatever is served beside it. */
    bool own = *of->of->set->path && layout_is_adapter_set(p, of->of->set->path);
    if ((of->cast != ZF_DT_COUNT || own) && strcmp(name, HF_ADAPTER) == 0) {
        return true;
    }
    return layout_put(
        p, (struct place){layout_join(p->t->arena, dir, name, err), NODE_BLOB, i, false}, err);
}

/* Does the set hold a model's weights, or other tensors beside them? */
static bool layout_holds_weights(const char *path)
{
    static const char *const beside[] = {"optim", "extra", "stacked", "bucket"};

    for (;; path++) {
        size_t n = strcspn(path, "/");

        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
            if (strlen(beside[i]) == n && memcmp(beside[i], path, n) == 0) {
                return false;
            }
        }
        path += n;
        if (!*path) {
            return true;
        }
    }
}

/* Has a directory between the first n bytes of the set's path and its end a file of this name? */
static bool layout_has_nearer(const struct zf_checkpoint *c, const char *set, size_t n,
                              const char *name)
{
    char path[4096];

    for (size_t end = n; set[end];) {
        end += set[end] == '/';
        end += strcspn(set + end, "/");
        int len = snprintf(path, sizeof path, "%.*s/%s", (int)end, set, name);
        if (len > 0 && (size_t)len < sizeof path && zf_checkpoint_blob(c, path)) {
            return true;
        }
    }
    return false;
}

static int layout_cmp_dir(const void *a, const void *b)
{
    const struct side_file *x = a, *y = b;
    int c = memcmp(x->path, y->path, x->n < y->n ? x->n : y->n);

    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static int layout_cmp_side(const void *a, const void *b)
{
    const struct side_file *x = a, *y = b;
    int c = layout_cmp_dir(a, b);

    return c ? c : (x->blob > y->blob) - (x->blob < y->blob);
}

static bool layout_sort_side_files(struct layout *p, struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;

    p->side = zf_arena_get(p->t->arena, c->n_blobs, sizeof *p->side, err);
    for (uint32_t i = 0; p->side && i < c->n_blobs; i++) {
        const char *path = c->blob[i].path, *slash = strrchr(path, '/');

        p->side[i] = (struct side_file){path, slash ? (size_t)(slash - path) : 0, i};
    }
    if (p->side && c->n_blobs) {
        qsort(p->side, c->n_blobs, sizeof *p->side, layout_cmp_side);
    }
    return p->side != NULL;
}

/* Puts the side files of the directory set[n] into dir, but those that are nearer to the set, too. */
static bool layout_put_side_dir(struct layout *p, const char *dir, const struct shelf *of, size_t n,
                                struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;
    const struct side_file want = {of->of->set->path, n, 0}, *end = p->side + c->n_blobs;
    const struct side_file *f =
        c->n_blobs ? bsearch(&want, p->side, c->n_blobs, sizeof want, layout_cmp_dir) : NULL;
    bool ok = true;

    while (f && f > p->side && layout_cmp_dir(f - 1, &want) == 0) {
        f--;
    }
    for (; ok && f && f < end && layout_cmp_dir(f, &want) == 0; f++) {
        const char *name = f->path + n + (n > 0);

        if (!layout_has_nearer(c, want.path, n, name)) {
            ok = layout_put_side_file(p, dir, of, f->blob, name, err);
        }
    }
    return ok;
}

/* The files beside the weights (config.json, the tokenizer) are in the root or in a directory of one
 * rank (mp_rank_03), and in the hf/ of every set of weights there, so that from_pretrained finds them;
 * the nearest of a name counts. */
static bool layout_put_side_files(struct layout *p, const char *dir, const struct shelf *of,
                                  struct zf_err *err)
{
    const char *set = of->of->set->path;
    bool ok = true;

    if (!layout_holds_weights(set)) {
        return true;
    }
    for (size_t n = strlen(set); ok && n > 0; n--) {
        ok = (set[n] && set[n] != '/') || layout_put_side_dir(p, dir, of, n, err);
    }
    return ok && layout_put_side_dir(p, dir, of, 0, err);
}

/* Of the model that a recipe makes: config.json below as/, and the one shard, a file of its own. */
static bool layout_put_model(struct layout *p, const char *hf, const struct shelf *of, bool one,
                             struct zf_err *err)
{
    const struct zf_blob *config = of->cast == ZF_DT_COUNT ? NULL : layout_made_config(p);

    return (!config ||
            layout_put_bulk(
                p, (struct bulk_place){hf, HF_CONFIG, &bulk_hf_config, of, config, false}, err)) &&
           (!one || layout_put_bulk(p,
                                    (struct bulk_place){hf, bulk_safetensors.name,
                                                        &bulk_safetensors, of, NULL, false},
                                    err));
}

/* The bulk made last is the set's model.safetensors: a single shard is the same file. */
static bool layout_put_hf(struct layout *p, const char *dir, const struct shelf *set, bool listed,
                          struct zf_err *err)
{
    const bool model = p->model && !*set->of->set->path;
    const struct shelf made = {.of = p->model, .cast = set->cast}, *of = model ? &made : set;
    struct zf_arena *a = p->t->arena;
    uint32_t whole = layout_last_bulk(p);
    uint64_t size = p->o->shard_size ? p->o->shard_size : SHARD_SIZE;
    bool adapter = !model && layout_is_adapter_set(p, of->of->set->path);
    struct hf_plan *plan = zf_arena_get(a, 1, sizeof *plan, err);
    char *hf = plan ? layout_join(a, dir, "hf", err) : NULL;
    bool ok = hf && layout_put(p, (struct place){hf, NODE_DIR, 0, !listed}, err) &&
              hf_cut(plan, of->of, of->cast, adapter ? UINT64_MAX : size, a, err);

    if (ok && model) {
        ok = layout_put_model(p, hf, of, plan->n == 1, err);
    } else if (ok && plan->n == 1) {
        const char *name = adapter ? HF_ADAPTER : bulk_safetensors.name;

        ok = layout_put(p, (struct place){layout_join(a, hf, name, err), NODE_BULK, whole, false},
                        err);
    }
    for (uint32_t i = 0; ok && plan->n > 1 && i < plan->n; i++) {
        char name[64];

        hf_name(plan, i, name);
        ok = layout_put_bulk(
            p, (struct bulk_place){hf, name, &bulk_safetensors, of, &plan->shard[i], false}, err);
    }
    if (ok && plan->n > 1) {
        ok = layout_put_bulk(
            p, (struct bulk_place){hf, bulk_hf_index.name, &bulk_hf_index, of, plan, false}, err);
    }
    return ok && layout_put_side_files(p, hf, of, err);
}

/* hf/LOST.json by the names of the model that a recipe made. */
static bool layout_put_model_lost(struct layout *p, const char *hf, struct zf_err *err)
{
    struct shelf_set *ss = zf_arena_get(p->t->arena, 1, sizeof *ss, err);

    if (!ss) {
        return false;
    }
    ss->set = p->t->c->hf;
    struct shelf of = {.of = ss, .cast = ZF_DT_COUNT};
    return layout_put_bulk(
        p, (struct bulk_place){hf, bulk_lost.name, &bulk_lost, &of, p->t->c, false}, err);
}

/* LOST.json says what the files beside it leave out. */
static bool layout_put_lost(struct layout *p, const struct shelf_set *ss, const char *dir,
                            struct zf_err *err)
{
    struct zf_arena *a = p->t->arena;
    struct shelf of = {.of = ss, .cast = ZF_DT_COUNT};
    struct bulk_place what = {
        .dir = dir, .name = bulk_lost.name, .kind = &bulk_lost, .of = &of, .shard = p->t->c};
    const char *const below[] = {"npy/LOST.json", "hf/LOST.json"};
    const bool model = p->model && !*ss->set->path;
    bool ok = layout_put_bulk(p, what, err);

    for (int i = 0; ok && i < (model ? 1 : 2); i++) {
        ok = layout_put(p,
                        (struct place){layout_join(a, dir, below[i], err), NODE_BULK,
                                       layout_last_bulk(p), false},
                        err);
    }
    if (ok && model) {
        char *hf = layout_join(a, dir, "hf", err);

        ok = hf && layout_put_model_lost(p, hf, err);
    }
    return ok;
}

static bool layout_wants_list(const struct layout *p, const struct shelf_set *ss,
                              const struct shelf_set *whole)
{
    bool lost = false;

    for (uint32_t i = 0; p->o->omit_lost && whole != ss && !lost && i < ss->set->n; i++) {
        lost = ss->set->tensor[i].lost;
    }
    return lost || (p->o->omit_lost && !ss->set->path[0] && p->t->c->n_missing);
}

/* The bulk made last is model.safetensors of the set at `path`: of an adapter it has PEFT's name, too. */
static bool layout_put_adapter(struct layout *p, const char *path, const char *dir,
                               struct zf_err *err)
{
    char *file = layout_join(p->t->arena, dir, HF_ADAPTER, err);

    return file &&
           (!*path || !layout_is_adapter_set(p, path) ||
            layout_put(p, (struct place){file, NODE_BULK, layout_last_bulk(p), false}, err));
}

/* All presentations of a set under one directory: the set's own, or one below as/. */
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

    if (cast != ZF_DT_COUNT) {
        dir = zf_arena_fmt(a, err, "%s%sas/%s", dir, *dir ? "/" : "", zf_dtype_info(cast)->suffix);
    }
    bin.dir = safetensors.dir = dir;
    char *npy_dir = dir ? layout_join(a, dir, "npy", err) : NULL;
    return npy_dir && layout_put_shelf(p, dir, raw, true, err) &&
           layout_put_shelf(p, npy_dir, npy, list & ZF_SHOW_NPY, err) &&
           layout_put_bulk(p, bin, err) && layout_put_bulk(p, safetensors, err) &&
           layout_put_adapter(p, ss->set->path, dir, err) &&
           layout_put_hf(p, dir, &all, list & ZF_SHOW_HF, err) &&
           (!layout_wants_list(p, ss, whole) || layout_put_lost(p, ss, dir, err));
}

/* as/ itself; what is in it is put there by every cast. */
static bool layout_put_as(struct layout *p, const struct zf_set *set, struct zf_err *err)
{
    bool listed = show_in_set(p->o->show, set, false) & ZF_SHOW_AS;

    return layout_put(
        p, (struct place){layout_join(p->t->arena, set->path, "as", err), NODE_DIR, 0, !listed},
        err);
}

/* A file with all of the set, every byte widened to four, must not be larger than a file can be. */
static bool layout_check_size(const struct zf_set *set, struct zf_err *err)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        if (!zf_add(sum, zf_map_size(set->tensor[i].data), &sum) || sum > INT64_MAX / 8) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                           "the tensors of one set would not fit into a file: \"%s\" alone has "
                           "%llu bytes",
                           set->tensor[i].name,
                           (unsigned long long)zf_map_size(set->tensor[i].data));
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
    if (!ok) {
        return false; /* ss may not have its set */
    }
    if (ss->set->raw_only) {
        struct shelf raw = {.of = ss, .kind = SHELF_RAW, .cast = ZF_DT_COUNT};

        raw.hidden = !(show_in_set(p->o->show, ss->set, false) & ZF_SHOW_RAW);
        return ss->set->n == 0 || layout_put_shelf(p, ss->set->path, raw, true, err);
    }
    for (size_t k = 0; ok && ss->set->n > 0 && k < N_CASTS; k++) {
        ok = layout_put_presentations(p, ss, whole, casts[k], err);
    }
    return ok && (ss->set->n == 0 || layout_put_as(p, ss->set, err));
}

/* Where nothing is shown in the root, what is missing is listed there all the same. */
static bool layout_put_missing(struct layout *p, struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;
    struct zf_set *none = zf_arena_get(p->t->arena, 1, sizeof *none, err);
    struct shelf_set *ss = none ? zf_arena_get(p->t->arena, 1, sizeof *ss, err) : NULL;

    if (!ss) {
        return false;
    }
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
        const struct zf_set *left = NULL;

        p->model = &p->t->set[2 * (size_t)c->n_sets];
        ok = layout_check_size(c->hf, err) &&
             lost_leave_out(c->hf, p->o->omit_lost, &left, p->t->arena, err) &&
             shelf_set_init(p->model, left ? left : c->hf, p->o, p->t->arena, err);
    }
    for (uint32_t i = 0; ok && i < c->n_sets; i++) {
        ok = layout_put_set(p, i, err);
    }
    for (uint32_t i = 0; ok && i < c->n_blobs; i++) {
        const bool told = p->o->show == ZF_SHOW_AUTO && c->blob[i].told;

        ok = layout_put(p, (struct place){c->blob[i].path, NODE_BLOB, i, told}, err);
    }
    if (ok && p->o->omit_lost && c->n_missing && !(c->n_sets && !*c->set[0].path && c->set[0].n)) {
        ok = layout_put_missing(p, err);
    }
    return ok;
}

/* A kept node and a tensor's file may not have one name. */
static bool layout_check_nodes(const struct tree *t, struct zf_err *err)
{
    for (uint32_t k = 1; k < t->nodes.n; k++) {
        const struct node *n = &t->nodes.at[k], *up = &t->nodes.at[n->parent];
        uint32_t i;

        if (up->kind == NODE_SHELF && shelf_find(&t->shelf[up->payload], n->name, &i)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the tensor \"%s\" would have the name of another file, %s",
                           t->shelf[up->payload].of->set->tensor[i].name, n->name);
        }
    }
    return true;
}

/* Names that are cut may meet a name that looks like a cut one. */
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
    for (uint32_t s = 0; s < t->n_shelves; s++) {
        if (!layout_check_longs(&t->shelf[s], err)) {
            return false;
        }
    }
    return layout_check_nodes(t, err);
}

/* A blob or bulk file under several names is one inode: a single hf/ shard is model.safetensors. */
static bool layout_link_twins(struct tree *t, struct zf_err *err)
{
    uint32_t *first[] = {zf_arena_get(t->arena, t->c->n_blobs, sizeof(uint32_t), err),
                         zf_arena_get(t->arena, t->bulk.n, sizeof(uint32_t), err)};

    if (!first[0] || !first[1]) {
        return false;
    }
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
    bool ok = t->shelf && layout_put_all(&p, err) &&
              nodes_build(&t->nodes, p.place.at, (uint32_t)p.place.n, t->arena, err);
    zf_vec_fini(&p.place);
    if (!ok) {
        return false;
    }
    show_hide_dirs(&t->nodes, o->show, t->c);
    return nodes_list(&t->nodes, t->arena, err) && layout_link_twins(t, err) &&
           layout_check_names(t, err);
}

struct zf_tree *zf_tree_new(struct zf_checkpoint *c, const struct zf_view_opts *o,
                            struct zf_err *err)
{
    struct tree *t = calloc(1, sizeof *t);

    if (!t) {
        (void)zf_fail_sys(err, "make a tree");
        zf_checkpoint_free(c);
        return NULL;
    }
    t->base.ops = &tree_ops;
    t->c = c;
    t->arena = zf_arena_new(o->lim->model_memory, err);
    if (!t->arena || !layout_grow(t, o, err)) {
        zf_tree_free(&t->base);
        return NULL;
    }
    return &t->base;
}
