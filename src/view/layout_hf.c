/* SPDX-License-Identifier: Apache-2.0 */
/* hf/ of a set: shards, their index, and the files next to the weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf.h"
#include "layout.h"
#include "lost.h"

/* Hugging Face's default. */
#define SHARD_SIZE 5000000000ull

/* Is it the set of one adapter: adapter/<name>, also of one rank?  PEFT looks for its weights under
 * their own name. */
static bool layout_is_adapter_set(const struct layout *p, const char *path)
{
    static const char dir[] = "adapter/";
    const char *at = strstr(path, dir);

    return *path ? at && (at == path || at[-1] == '/') : p->adapter;
}

bool layout_put_adapter(struct layout *p, const char *path, const char *dir, struct zf_err *err)
{
    char *file = layout_join(p->t->arena, dir, HF_ADAPTER, err);

    return file &&
           (!*path || !layout_is_adapter_set(p, path) ||
            layout_put(p, (struct place){file, NODE_BULK, layout_last_bulk(p), false}, err));
}

/* The config.json that a recipe made, or NULL. */
static const struct zf_blob *layout_made_config(const struct layout *p)
{
    return zf_checkpoint_blob(p->t->c, "hf/" HF_CONFIG);
}

/* Puts side file i, called `name`, into dir, the hf/ of a set presented by `of`. */
static bool layout_put_side_file(struct layout *p, const char *dir, const struct shelf *of,
                                 uint32_t i, const char *name, struct zf_err *err)
{
    const struct zf_blob *b = &p->t->c->blob[i];

    if (p->model == of->of && layout_made_config(p) && strcmp(name, HF_CONFIG) == 0)
        return true; /* the recipe made another one */
    if (p->t->c->hf_refused && !*of->of->set->path && strcmp(name, HF_CONFIG) == 0)
        return true; /* transformers would load it, and initialise the weights under other names */
    if (of->cast != ZF_DT_COUNT && strcmp(name, HF_CONFIG) == 0) {
        return layout_put_bulk(
            p, (struct bulk_place){dir, HF_CONFIG, &bulk_hf_config, of, b, false}, err);
    }
    /* An adapter next to the shards keeps its saved type, whatever type the shards have. */
    bool own = *of->of->set->path && layout_is_adapter_set(p, of->of->set->path);
    if ((of->cast != ZF_DT_COUNT || own) && strcmp(name, HF_ADAPTER) == 0)
        return true;
    return layout_put(
        p, (struct place){layout_join(p->t->arena, dir, name, err), NODE_BLOB, i, false}, err);
}

/* Does the set hold a model's weights, not other tensors such as optimizer state? */
static bool layout_holds_weights(const char *path)
{
    static const char *const beside[] = {"optim", "extra", "stacked", "bucket"};

    for (;; path++) {
        size_t n = strcspn(path, "/");

        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
            if (strlen(beside[i]) == n && memcmp(beside[i], path, n) == 0)
                return false;
        path += n;
        if (!*path)
            return true;
    }
}

/* Does a directory between the first n bytes of the set's path and its end have a file of this name? */
static bool layout_has_nearer(const struct zf_checkpoint *c, const char *set, size_t n,
                              const char *name)
{
    char path[4096];

    for (size_t end = n; set[end];) {
        end += set[end] == '/';
        end += strcspn(set + end, "/");
        int len = snprintf(path, sizeof path, "%.*s/%s", (int)end, set, name);
        if (len > 0 && (size_t)len < sizeof path && zf_checkpoint_blob(c, path))
            return true;
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

bool layout_sort_side_files(struct layout *p, struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;

    p->side = zf_arena_get(p->t->arena, c->n_blobs, sizeof *p->side, err);
    for (uint32_t i = 0; p->side && i < c->n_blobs; i++) {
        const char *path = c->blob[i].path, *slash = strrchr(path, '/');

        p->side[i] = (struct side_file){path, slash ? (size_t)(slash - path) : 0, i};
    }
    if (p->side && c->n_blobs)
        qsort(p->side, c->n_blobs, sizeof *p->side, layout_cmp_side);
    return p->side != NULL;
}

/* Puts the side files of the directory set[n] into dir, except those that also exist nearer to the set. */
static bool layout_put_side_dir(struct layout *p, const char *dir, const struct shelf *of, size_t n,
                                struct zf_err *err)
{
    const struct zf_checkpoint *c = p->t->c;
    const struct side_file want = {of->of->set->path, n, 0}, *end = p->side + c->n_blobs;
    const struct side_file *f =
        c->n_blobs ? bsearch(&want, p->side, c->n_blobs, sizeof want, layout_cmp_dir) : NULL;
    bool ok = true;

    while (f && f > p->side && layout_cmp_dir(f - 1, &want) == 0)
        f--;
    for (; ok && f && f < end && layout_cmp_dir(f, &want) == 0; f++) {
        const char *name = f->path + n + (n > 0);

        if (!layout_has_nearer(c, want.path, n, name))
            ok = layout_put_side_file(p, dir, of, f->blob, name, err);
    }
    return ok;
}

/* Adds the files next to the weights (config.json, the tokenizer), which are in the root or in a directory of
 * one rank (mp_rank_03), to the hf/ of every set of weights there, so that from_pretrained finds them; the
 * nearest file of a name is used. */
static bool layout_put_side_files(struct layout *p, const char *dir, const struct shelf *of,
                                  struct zf_err *err)
{
    const char *set = of->of->set->path;
    bool ok = true;

    if (!layout_holds_weights(set))
        return true;
    for (size_t n = strlen(set); ok && n > 0; n--)
        ok = (set[n] && set[n] != '/') || layout_put_side_dir(p, dir, of, n, err);
    return ok && layout_put_side_dir(p, dir, of, 0, err);
}

/* Adds config.json below as/, for the model that a recipe makes. */
static bool layout_put_config(struct layout *p, const char *hf, const struct shelf *of,
                              struct zf_err *err)
{
    const struct zf_blob *config = of->cast == ZF_DT_COUNT ? NULL : layout_made_config(p);

    return !config ||
           layout_put_bulk(
               p, (struct bulk_place){hf, HF_CONFIG, &bulk_hf_config, of, config, false}, err);
}

bool layout_put_hf(struct layout *p, const char *dir, const struct shelf *set, bool listed,
                   struct zf_err *err)
{
    const bool model = p->model && !*set->of->set->path;
    const struct shelf made = {.of = p->model, .cast = set->cast}, *of = model ? &made : set;
    struct zf_arena *a = p->t->arena;
    uint64_t size = p->o->shard_size ? p->o->shard_size : SHARD_SIZE;
    bool adapter = !model && layout_is_adapter_set(p, of->of->set->path);
    struct hf_plan *plan = zf_arena_get(a, 1, sizeof *plan, err);
    char *hf = plan ? layout_join(a, dir, "hf", err) : NULL;
    bool ok = hf && layout_put(p, (struct place){hf, NODE_DIR, 0, !listed}, err) &&
              hf_cut(plan, of->of, of->cast, adapter ? UINT64_MAX : size, a, err);

    if (ok && model)
        ok = layout_put_config(p, hf, of, err);
    if (ok && plan->n == 1) {
        const char *name = adapter ? HF_ADAPTER : bulk_safetensors.name;

        /* If the set itself has a single shard, it is the file made last. */
        ok = model || p->t->of
                 ? layout_put_bulk(
                       p, (struct bulk_place){hf, name, &bulk_safetensors, of, NULL, false}, err)
                 : layout_put(p,
                              (struct place){layout_join(a, hf, name, err), NODE_BULK,
                                             layout_last_bulk(p), false},
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

bool layout_put_model_lost(struct layout *p, const char *hf, struct zf_err *err)
{
    struct shelf_set *ss = zf_arena_get(p->t->arena, 1, sizeof *ss, err);

    if (!ss)
        return false;
    ss->set = p->t->c->hf ? p->t->c->hf : zf_checkpoint_set(p->t->c, "");
    struct shelf of = {.of = ss, .cast = ZF_DT_COUNT};
    return layout_put_bulk(
        p, (struct bulk_place){hf, bulk_lost.name, &bulk_lost, &of, p->t->c, false}, err);
}

bool layout_take_model(struct layout *p, const struct zf_set *set, struct shelf_set *out,
                       struct zf_err *err)
{
    const struct zf_set *left = NULL;

    return layout_check_size(set, err) &&
           lost_leave_out(set, p->o->omit_lost, &left, p->t->arena, err) &&
           shelf_set_init(out, left ? left : set, p->o, p->t->arena, err);
}

/* ---- of the root, in a tree of its own --------------------------------------------------------- */

bool layout_put_later(struct layout *p, struct zf_err *err)
{
    struct tree *t = p->t;
    const struct zf_checkpoint *c = t->c;
    const struct zf_set *root = zf_checkpoint_set(c, "");
    struct shelf_set *ss = zf_arena_get(t->arena, 1, sizeof *ss, err);
    bool ok = ss && layout_take_model(p, c->hf ? c->hf : root, ss, err);

    p->model = c->hf ? ss : NULL;
    for (size_t k = 0; ok && k < N_CASTS; k++) {
        const enum zf_dtype cast = layout_casts[k];
        const struct shelf of = {.of = ss, .cast = cast};
        const bool as = cast != ZF_DT_COUNT;
        char *dir = zf_arena_fmt(t->arena, err, "%s%s", as ? "as/" : "",
                                 as ? zf_dtype_info(cast)->suffix : "");

        ok = dir && layout_put_hf(p, dir, &of, true, err) &&
             (!layout_wants_list(p, root) ||
              layout_put_model_lost(p, layout_join(t->arena, dir, "hf", err), err));
    }
    for (uint32_t i = 0; ok && i < c->n_blobs; i++)
        if (strncmp(c->blob[i].path, "hf/", 3) == 0)
            ok = layout_put(p, (struct place){c->blob[i].path, NODE_BLOB, i, false}, err);
    return ok;
}
