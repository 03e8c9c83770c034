/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/torch_place.h>
#include <zf/base/hash.h>

bool mg_save_init(struct mg_save *s, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    *s = (struct mg_save){.st = st, .n_dirs = 1, .lim = lim, .b = b};
    s->arena = zf_arena_new(lim->model_memory, err);
    return s->arena != NULL;
}

void mg_save_fini(struct mg_save *s)
{
    for (size_t i = 0; i < s->object.n; i++)
        zf_source_unref(&s->object.at[i].src);
    if (s->backend_free)
        s->backend_free(s->backend);
    zf_vec_fini(&s->tensor);
    zf_vec_fini(&s->object);
    zf_vec_fini(&s->param);
    zf_sorted_fini(&s->named);
    zf_arena_free(s->arena);
}

struct mg_tensor *mg_save_draft(struct mg_save *s, const char *key, size_t key_len,
                                struct zf_draft *draft, const uint64_t *cuts, struct zf_err *err)
{
    const char *copy = zf_arena_str(s->arena, key, key_len, err);
    struct zf_type type = zf_draft_type(draft);
    uint64_t *kept = copy ? zf_arena_get(s->arena, type.ndim, sizeof *kept, err) : NULL;
    struct mg_tensor *t = kept ? zf_vec_push(&s->tensor, err) : NULL;

    if (!t)
        return NULL;
    if (cuts && type.ndim)
        memcpy(kept, cuts, type.ndim * sizeof *kept);
    *t = (struct mg_tensor){.key = copy,
                            .key_len = key_len,
                            .draft = draft,
                            .type = type,
                            .cuts = cuts ? kept : NULL,
                            .order = MG_NONE};
    mg_key_parse(copy, key_len, &t->name);
    return t;
}

struct mg_tensor *mg_save_tensor(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_type type, const uint64_t *cuts, struct zf_err *err)
{
    struct zf_draft *draft = zf_build_hidden(s->b, key, key_len, type, err);

    return draft ? mg_save_draft(s, key, key_len, draft, cuts, err) : NULL;
}

struct mg_object *mg_save_object(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_source *src, struct zf_err *err)
{
    const char *copy = zf_arena_str(s->arena, key, key_len, err);
    struct mg_object *o = copy ? zf_vec_push(&s->object, err) : NULL;

    if (o) {
        *o = (struct mg_object){.key = copy, .key_len = key_len, .src = zf_source_ref(src)};
        mg_key_parse(copy, key_len, &o->name);
    }
    return o;
}

bool mg_save_param(struct mg_save *s, const struct mg_param *p, struct zf_err *err)
{
    struct mg_param *to = zf_vec_push(&s->param, err);

    if (to) {
        *to = *p;
        s->trained = s->trained || p->state.n > 0;
    }
    return to != NULL;
}

/* ---- parameters by name ---- */

static uint64_t save_hash(struct mg_text state, struct mg_text name)
{
    state = mg_key_is_master(state) ? MG_MASTERS : state;
    return zf_hash(zf_hash(state.n, state.p, state.n), name.p, name.n);
}

bool mg_save_index(struct mg_save *s, struct zf_err *err)
{
    s->named.pairs = true;
    for (; s->n_named < s->param.n; s->n_named++) {
        const struct mg_param *p = &s->param.at[s->n_named];

        if (!zf_sorted_add_pair(&s->named, save_hash(p->state, p->name), s->n_named, err))
            return false;
    }
    return true;
}

/* Entry at + i of the index. */
static struct mg_param *save_indexed(const struct mg_save *s, size_t at, size_t i)
{
    return &s->param.at[s->named.at[2 * (at + i) + 1]];
}

struct mg_param *mg_save_named(struct mg_save *s, struct mg_text state, struct mg_text name,
                               size_t *n_out)
{
    size_t at;

    *n_out = zf_sorted_find(&s->named, save_hash(state, name), &at);
    return *n_out ? save_indexed(s, at, 0) : NULL;
}

bool mg_save_is_chained(struct mg_save *s, const struct mg_param *p)
{
    size_t at, n = zf_sorted_find(&s->named, save_hash(p->state, p->name), &at);
    const struct mg_tensor *first = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct mg_tensor *from = save_indexed(s, at, i)->from;

        if (from && first && !mg_text_same(from->name.container, first->name.container))
            return true;
        first = from ? from : first;
    }
    return false;
}

struct mg_object *mg_save_find_object(struct mg_save *s, const char *key, uint32_t part)
{
    for (size_t i = 0; i < s->object.n; i++) {
        struct mg_object *o = &s->object.at[i];

        if (o->part == part && strcmp(o->key, key) == 0)
            return o;
    }
    return NULL;
}

const char *mg_save_path(const struct mg_save *s, uint32_t part, const char *name,
                         char path[MG_PATH])
{
    const char *dir = s->dir[part];

    (void)snprintf(path, MG_PATH, "%s%s%.60s", dir, *dir ? "/" : "", name);
    return path;
}

/* ---- the iteration ---- */

/* Source: megatron/training/checkpointing.py, get_checkpoint_name (0.4 … 0.19): seven digits, or more. */
bool mg_iteration_of(const char *name, uint64_t *out)
{
    size_t n = strncmp(name, "iter_", 5) == 0 ? strspn(name + 5, "0123456789") : 0;

    if (n < 7 || n > 18 || name[5 + n])
        return false;
    *out = strtoull(name + 5, NULL, 10);
    return true;
}

bool mg_iteration_check(struct zf_store *st, uint64_t iteration, struct zf_build *b,
                        struct zf_err *err)
{
    const char *base = zf_store_base(st);
    uint64_t of;

    if (mg_iteration_of(base, &of) && of != iteration) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the iteration is %llu, but the folder is named %.40s: are two saves mixed?",
                (unsigned long long)iteration, base);
        if (!zf_forgive(b, err))
            return false;
    }
    if (iteration <= INT64_MAX)
        zf_build_step(b, (int64_t)iteration);
    return true;
}

/* ---- the common state ---- */

/* The dict of the common state; newer savers wrap it, like every object, in a list of one.  Source:
 * megatron/core/dist_checkpointing/strategies/common.py, serialization.py (0.4 … 0.19). */
static const struct zf_pv *save_common_dict(const struct zf_pv *root)
{
    const struct zf_pv *first =
        zf_pv_is_seq(root) && zf_pv_len(root) == 1 ? zf_pv_item(root, 0) : root;

    return zf_pv_is_map(first) ? first : NULL;
}

/* Takes the iteration, which must be equal in the directory name and all common states. */
static bool save_take_iteration(struct mg_save *s, uint64_t step, struct zf_err *err)
{
    if (s->iterated && s->iteration != step) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the iteration is %llu here, but %llu elsewhere in this save: are two saves mixed?",
                (unsigned long long)step, (unsigned long long)s->iteration);
        return zf_forgive(s->b, err);
    }
    s->iterated = true;
    s->iteration = step;
    return mg_iteration_check(s->st, step, s->b, err);
}

/* Takes the optimizer's sharding type, which must be equal in all parts of a save.  Source: verl 0.9, megatron_checkpoint_manager.py,
 * _build_sharded_state_dict_metadata; megatron/core/dist_checkpointing/core.py, content_metadata (0.14 …). */
static bool save_take_sharding(struct mg_save *s, const struct zf_pv *common, struct zf_err *err)
{
    const struct zf_pv *content = zf_pv_get(common, "content_metadata");
    const char *type =
        zf_pv_text(zf_pv_get(content, "distrib_optim_sharding_type"), &(uint64_t){0});

    if (!type)
        return true;
    if (s->sharding[0] && strncmp(s->sharding, type, sizeof s->sharding - 1) != 0) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "distrib_optim_sharding_type is %.60s here, but %s elsewhere in this save: are two "
                "saves mixed?",
                type, s->sharding);
        return zf_forgive(s->b, err);
    }
    (void)snprintf(s->sharding, sizeof s->sharding, "%s", type);
    return true;
}

static bool save_take_common(struct mg_save *s, const struct zf_pv *common, struct zf_err *err)
{
    uint64_t step;

    return (!zf_pv_u64(zf_pv_get(common, "iteration"), &step) ||
            save_take_iteration(s, step, err)) &&
           save_take_sharding(s, common, err) &&
           megatron_settings_args(zf_pv_get(common, "args"), &s->settings, err);
}

bool mg_save_common(struct mg_save *s, uint32_t part, struct zf_source *src, const char *path,
                    struct zf_err *err)
{
    const char *dir = s->dir[part];
    char name[MG_DIR_MAX + 16];

    (void)snprintf(name, sizeof name, "%.*s%scommon", (int)strcspn(dir, "/"), dir, *dir ? "." : "");
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, s->lim, err);
    const struct zf_pv *common = t ? save_common_dict(zf_torch_root(t)) : NULL;
    const struct zf_place_file file = {.torch = t, .path = path};

    if (!t) {
        /* The save requires this file, so one of another format is damaged. */
        err->code = err->code == ZF_E_UNKNOWN ? ZF_E_FORMAT : err->code;
        return zf_err_in(err, "%s", path);
    }
    if (common && !save_take_common(s, common, err))
        return zf_err_in(err, "%s", path);
    return zf_state_add(s->b, &file, name, s->lim, err);
}

bool mg_save_common_file(struct mg_save *s, uint32_t part, struct zf_err *err)
{
    char path[MG_PATH], is[ZF_ABSENT_MAX];

    /* No release writes or loads a save without it.  Source: megatron/core/dist_checkpointing/serialization.py, load;
     * strategies/common.py, load_common (0.4 … 0.18). */
    if (!zf_store_has(s->st, mg_save_path(s, part, MG_COMMON_FILE, path), ZF_ENTRY_FILE)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "args, iteration and the optimizer's settings are lost: the file that Megatron "
                "keeps them in %s",
                zf_absent(s->st, path, is));
        (void)zf_err_in(err, "%s", path);
        return zf_forgive(s->b, err);
    }
    zf_auto(source) struct zf_source *src = zf_store_open(s->st, path, err);
    return (src && mg_save_common(s, part, src, path, err)) || zf_forgive(s->b, err);
}
