/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the values of a torch.save file that are not tensors as JSON below state/. */
#include <zf/assemble/torch_place.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/name.h>
#include <zf/base/table.h>
#include <zf/codec/pvjson.h>

/* With more top-level keys than this, all of them share one file. */
#define KEYS_MAX 256

struct named_tensor {
    UT_hash_handle hh; /* key: the value's address */
    const char *path;  /* dotted, in the arena */
};

struct state {
    struct zf_build *b;
    const struct zf_place_file *file;
    const struct zf_limits *lim;
    struct zf_limits text_lim; /* the same, with text_bytes limited by the file's size */
    struct zf_arena *arena;
    struct named_tensor *tensors; /* uthash */
    bool plain;                   /* a leaf other than a tensor was seen */
    struct zf_out path;
};

static bool json_note_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct state *s = ctx;

    if (leaf->kind == ZF_TORCH_NOT) {
        s->plain = true;
        return true;
    }
    struct named_tensor *t = zf_table_make_id(s->tensors, (uintptr_t)leaf->value, err);
    if (!t || t->path)
        return t != NULL;
    t->path = zf_path_join(&s->path, leaf->path, err)
                  ? zf_arena_str(s->arena, zf_out_text(&s->path), s->path.n, err)
                  : NULL;
    return t->path != NULL;
}

static bool json_put_tensor(void *ctx, const struct zf_pv *v, struct zf_pvjson *o)
{
    const struct state *s = ctx;
    const struct named_tensor *t = zf_table_find_id(s->tensors, (uintptr_t)v);

    if (!t)
        return false;
    zf_pvjson_raw(o, "{\"__tensor__\": ");
    zf_pvjson_str(o, t->path, strlen(t->path));
    zf_pvjson_raw(o, "}");
    return true;
}

/* Adds state/<name>.json with the value v, unless v holds only tensors.
 * prefix: the first step of its paths. */
static bool json_add_value(struct state *s, const char *name, size_t name_len, const char *prefix,
                           const struct zf_pv *v, struct zf_err *err)
{
    const struct zf_pvjson_special special = {.fn = json_put_tensor, .ctx = s};
    struct zf_visit visit = {.fn = json_note_leaf, .ctx = s};
    char path[6 + ZF_NAME_MAX + 1] = "state/";
    zf_auto(mem) char *text = NULL;
    uint64_t n;

    s->plain = false;
    if (!zf_torch_visit(s->file->torch, v, prefix, s->lim, &visit, err))
        return false;
    if (!s->plain && visit.n_unnamed == 0)
        return true;
    (void)zf_name_encode(path + 6, name, name_len, ".json");
    if (zf_pv_json(v, &s->text_lim, &special, &text, &n, err))
        return zf_build_text(s->b, path, text, n, err);
    if (err->code != ZF_E_LIMIT)
        return false;
    zf_err_clear(err);
    return zf_build_note(s->b, err, "%s: there is no %s: its text would be too long", s->file->path,
                         path);
}

/* The name of a top-level key; a key that is not a text is named by its position. */
static const char *json_key_name(const struct zf_pv *key, uint64_t i, char buf[32], size_t *n)
{
    uint64_t len = 0;
    int64_t number;
    const char *p = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &len) : NULL;

    if (p) {
        *n = (size_t)len;
        return p;
    }
    if (zf_pv_kind(key) == ZF_PV_INT && zf_pv_int(key, &number))
        *n = (size_t)snprintf(buf, 32, "[%" PRId64 "]", number);
    else
        *n = (size_t)snprintf(buf, 32, "[key %" PRIu64 "]", i);
    return buf;
}

/* Is pair i of a dict the last one with its key, which is the one that counts? */
static bool json_counts(const struct zf_pv *root, uint64_t i)
{
    const struct zf_pv *key = zf_pv_key(root, i);

    return zf_pv_kind(key) != ZF_PV_STR ||
           zf_pv_get(root, zf_pv_text(key, &(uint64_t){0})) == zf_pv_val(root, i);
}

static bool json_add_keys(struct state *s, const struct zf_pv *root, struct zf_err *err)
{
    char buf[32];
    size_t n;

    for (uint64_t i = 0; i < zf_pv_len(root); i++) {
        const struct zf_pv *v = zf_pv_val(root, i);
        const char *name = json_key_name(zf_pv_key(root, i), i, buf, &n);

        if (s->file->is_state && !s->file->is_state(s->file->ctx, name, n))
            continue;
        if (zf_torch_kind(s->file->torch, v) == ZF_TORCH_NOT && json_counts(root, i) &&
            !json_add_value(s, name, n, name, v, err))
            return false;
    }
    return true;
}

/* The number of top-level values that are not tensors. */
static uint64_t json_n_plain_keys(const struct state *s, const struct zf_pv *root)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < zf_pv_len(root); i++)
        n += zf_torch_kind(s->file->torch, zf_pv_val(root, i)) == ZF_TORCH_NOT;
    return n;
}

bool zf_state_add(struct zf_build *b, const struct zf_place_file *f, const char *name,
                  const struct zf_limits *lim, struct zf_err *err)
{
    struct state s = {.b = b, .file = f, .lim = lim};
    const struct zf_pv *root = zf_torch_root(f->torch);
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(lim->model_memory, err);
    const uint64_t plain = !name && zf_pv_is_map(root) ? json_n_plain_keys(&s, root) : UINT64_MAX;
    const bool keys = plain <= KEYS_MAX;

    if (!arena || plain == 0)
        return arena != NULL;
    s.arena = arena;
    s.text_lim = *lim;
    uint64_t most = zf_limits_meta(lim, zf_torch_pickle_bytes(f->torch)) / 4;
    s.text_lim.text_bytes = most < lim->text_bytes ? most : lim->text_bytes;
    name = name ? name : "value";
    bool ok = keys ? json_add_keys(&s, root, err)
                   : json_add_value(&s, name, strlen(name), f->head, root, err);
    zf_auto_out(&s.path);
    zf_table_free(s.tensors);
    return ok;
}
