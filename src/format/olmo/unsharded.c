/* SPDX-License-Identifier: Apache-2.0 */
/* Output of OLMo-core's unsharding other than model.pt: model/chunk-00000.pt …, each a dict of some tensors,
 * or a file per tensor, named after it with dashes for dots.
 * Source: olmo_core/distributed/checkpoint/__init__.py, unshard_checkpoint (2.0 … 3.0). */
#include "layouts.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/numbered.h>
#include <zf/base/name.h>
#include <zf/codec/pvjson.h>

static const char unsharded_tail[] = ".pt", unsharded_chunks[] = "chunk-%05c.pt";

/* ---- names of files ---- */

static bool unsharded_is_chunk(const char *name)
{
    struct zf_numbered_file f;

    return zf_numbered_fits(unsharded_chunks, name, &f);
}

/* True if the entry is a file that unsharding may have written. */
static bool unsharded_is_file(const struct zf_entry *e)
{
    return e->kind != ZF_ENTRY_DIR && zf_name_ends(e->name, unsharded_tail);
}

/* True for a chunk, or a file that contains just a tensor. */
static bool unsharded_file_fits(struct zf_store *st, const char *dir, const char *name,
                                const struct zf_limits *lim)
{
    struct zf_err ignored;
    char path[300];

    (void)snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name);
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);
    if (!src || !zf_torch_sniff(src))
        return false;
    if (unsharded_is_chunk(name))
        return true;
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, lim, &ignored);
    return t && zf_torch_kind(t, zf_torch_root(t)) == ZF_TORCH_DENSE;
}

static bool unsharded_dir_fits(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (unsharded_is_file(l.e))
            return unsharded_file_fits(st, dir, l.e->name, lim);
    return false;
}

/* True if the root has weights of its own, which take precedence over model/. */
static bool unsharded_has_root_weights(struct zf_store *st)
{
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE &&
            (unsharded_is_file(l.e) || zf_name_ends(l.e->name, ".safetensors") ||
             zf_name_ends(l.e->name, ".bin")))
            return true;
    return false;
}

const char *unsharded_find(const struct zf_save *save, const struct zf_open_opts *o)
{
    struct zf_store *st = save->store;

    if (save->file)
        return NULL;
    if (!unsharded_has_root_weights(st) && unsharded_dir_fits(st, "model", o->lim))
        return "model";
    return strcmp(zf_store_base(st), "model") == 0 && unsharded_dir_fits(st, "", o->lim) ? ""
                                                                                         : NULL;
}

/* ---- values ---- */

/* A tensor and the file that it is in. */
struct unsharded_tensor {
    const char *key, *path;
    struct zf_tensor_ref ref;
};

struct unsharded {
    struct olmo_save *s;
    const char *head; /* prefix of the keys: "optim", or "" */
    struct zf_names *names;
    zf_vec(const char *) path; /* files of the directory being read */
    zf_vec(struct unsharded_tensor) tensor;
};

static const char *unsharded_key(const struct unsharded *u, const char *key, struct zf_err *err)
{
    size_t n = strlen(u->head);
    bool has = strncmp(key, u->head, n) == 0 && key[n] == '.';

    return zf_arena_fmt(u->s->a, err, "%s%s%s", n && !has ? u->head : "", n && !has ? "." : "",
                        key);
}

static bool unsharded_add(struct unsharded *u, struct zf_torch *t, const char *path,
                          const char *key, const struct zf_pv *v, struct zf_err *err)
{
    const char *full = unsharded_key(u, key, err);

    if (!full)
        return false;
    if (zf_torch_kind(t, v) == ZF_TORCH_NOT) {
        const struct zf_step step = {.p = full, .n = strlen(full)};

        return save_value_json(u->s, (struct zf_path){&step, 1}, v, err);
    }
    struct unsharded_tensor *x = zf_vec_push(&u->tensor, err);
    if (!x)
        return false;
    x->key = full;
    x->path = path;
    return (zf_tensor_ref_read(&u->s->keep, t, v, &x->ref, err) ||
            zf_err_in(err, "!%.100s", full)) &&
           zf_names_add_flat(u->names, full, strlen(full), err);
}

static bool unsharded_read_chunk(struct unsharded *u, struct zf_torch *t, const char *path,
                                 struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    uint64_t n;

    if (!zf_pv_is_map(root))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a chunk should be a dict of tensors");
    for (uint64_t i = 0; i < zf_pv_len(root); i++) {
        const struct zf_pv *key = zf_pv_key(root, i);
        const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

        if (!text)
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a key of this chunk is not text");
        if (!unsharded_add(u, t, path, text, zf_pv_val(root, i), err))
            return false;
    }
    return true;
}

/* The tensor's name: "blocks.0.w" for "blocks-0-w.pt"; names of parameters have no dashes. */
static const char *unsharded_name_of(const struct unsharded *u, const char *path,
                                     struct zf_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *key = zf_arena_str(u->s->a, name, strlen(name) - (sizeof unsharded_tail - 1), err);

    for (char *p = key; p && *p; p++)
        *p = *p == '-' ? '.' : *p;
    return key;
}

static bool unsharded_read(void *ctx, uint64_t i, struct zf_err *err)
{
    struct unsharded *u = ctx;
    const char *path = u->path.at[i];
    const char *slash = strrchr(path, '/');
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&u->s->files, path, err);

    if (!t)
        return false;
    if (unsharded_is_chunk(slash ? slash + 1 : path))
        return unsharded_read_chunk(u, t, path, err) || zf_err_in(err, "%s", path);
    const char *key = unsharded_name_of(u, path, err);
    return key &&
           (unsharded_add(u, t, path, key, zf_torch_root(t), err) || zf_err_in(err, "%s", path));
}

/* ---- directories ---- */

static bool unsharded_read_dir(struct unsharded *u, const char *dir, struct zf_err *err)
{
    struct olmo_save *s = u->s;
    zf_auto(numbered) struct zf_numbered chunks = {.dir = NULL};
    bool ok = zf_numbered_list(s->st, dir, unsharded_chunks, &chunks, err) &&
              (zf_numbered_complete(&chunks, 0, chunks.file.n, err) || zf_forgive(s->b, err));

    u->path.n = 0;
    for (struct zf_entries l = zf_store_entries(s->st, dir); ok && l.e < l.end; l.e++) {
        const char **p = unsharded_is_file(l.e) ? zf_vec_push(&u->path, err) : NULL;

        if (unsharded_is_file(l.e))
            ok = p && (*p = zf_arena_fmt(s->a, err, "%s%s%s", dir, *dir ? "/" : "", l.e->name));
    }
    return ok && zf_torch_ahead_begin(&s->files, u->path.at, u->path.n, err) &&
           zf_read_each(s->b, u->path.n, unsharded_read, u, NULL, NULL, err);
}

static bool unsharded_draft(struct unsharded *u, struct zf_err *err)
{
    for (size_t i = 0; i < u->tensor.n; i++) {
        const struct unsharded_tensor *x = &u->tensor.at[i];
        struct zf_spot spot;

        if (!zf_names_place_flat(u->names, x->key, strlen(x->key), &spot, err) ||
            !zf_tensor_ref_draft(u->s->b, spot, &x->ref, x->path, err))
            return false;
    }
    return true;
}

bool unsharded_open(void *ctx, const char *dir, struct zf_err *err)
{
    struct olmo_save *s = ctx;
    struct unsharded u = {.s = s, .head = ""};
    bool ok = (u.names = zf_names_new(err)) && unsharded_read_dir(&u, dir, err);

    if (ok && *dir && zf_store_has(s->st, "optim", ZF_ENTRY_DIR)) {
        u.head = "optim";
        ok = unsharded_read_dir(&u, "optim", err);
    }
    ok = ok && unsharded_draft(&u, err);
    zf_names_free(u.names);
    zf_vec_fini(&u.path);
    zf_vec_fini(&u.tensor);
    return ok;
}
