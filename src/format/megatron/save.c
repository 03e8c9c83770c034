/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <string.h>

#include <zf/assemble/torch_place.h>

#include "iteration.h"

bool mg_save_init(struct mg_save *s, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    *s = (struct mg_save){.st = st, .lim = lim, .b = b};
    s->arena = zf_arena_new(lim->model_memory, err);
    return s->arena != NULL;
}

void mg_save_fini(struct mg_save *s)
{
    for (size_t i = 0; i < s->object.n; i++) {
        zf_source_unref(&s->object.at[i].src);
    }
    if (s->backend_free) {
        s->backend_free(s->backend);
    }
    zf_vec_fini(&s->tensor);
    zf_vec_fini(&s->object);
    zf_vec_fini(&s->param);
    zf_arena_free(s->arena);
}

struct mg_tensor *mg_save_draft(struct mg_save *s, const char *key, size_t key_len,
                                struct zf_draft *draft, const uint64_t *cuts, struct zf_err *err)
{
    const char *copy = zf_arena_str(s->arena, key, key_len, err);
    struct zf_type type = zf_draft_type(draft);
    uint64_t *kept = copy ? zf_arena_get(s->arena, type.ndim, sizeof *kept, err) : NULL;
    struct mg_tensor *t = kept ? zf_vec_push(&s->tensor, err) : NULL;

    if (!t) {
        return NULL;
    }
    if (cuts && type.ndim) {
        memcpy(kept, cuts, type.ndim * sizeof *kept);
    }
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

bool mg_save_object(struct mg_save *s, const char *key, size_t key_len, struct zf_source *src,
                    struct zf_err *err)
{
    const char *copy = zf_arena_str(s->arena, key, key_len, err);
    struct mg_object *o = copy ? zf_vec_push(&s->object, err) : NULL;

    if (!o) {
        return false;
    }
    *o = (struct mg_object){.key = copy, .key_len = key_len, .src = zf_source_ref(src)};
    mg_key_parse(copy, key_len, &o->name);
    return true;
}

bool mg_save_param(struct mg_save *s, const struct mg_param *p, struct zf_err *err)
{
    struct mg_param *to = zf_vec_push(&s->param, err);

    if (to) {
        *to = *p;
    }
    return to != NULL;
}

struct mg_object *mg_save_find_object(struct mg_save *s, const char *key)
{
    for (size_t i = 0; i < s->object.n; i++) {
        if (strcmp(s->object.at[i].key, key) == 0) {
            return &s->object.at[i];
        }
    }
    return NULL;
}

/* ---- the common state ---- */

/* Its dict, which newer savers put into a list of one, as every object.  Source:
 * megatron/core/dist_checkpointing/strategies/common.py, serialization.py (0.4 … 0.19). */
static const struct zf_pv *save_common_dict(const struct zf_pv *root)
{
    const struct zf_pv *first =
        zf_pv_is_seq(root) && zf_pv_len(root) == 1 ? zf_pv_item(root, 0) : root;

    return zf_pv_is_map(first) ? first : NULL;
}

static bool save_take_common(struct mg_save *s, const struct zf_pv *common, struct zf_err *err)
{
    uint64_t step;

    if (zf_pv_u64(zf_pv_get(common, "iteration"), &step) &&
        !mg_iteration_check(s->st, step, s->b, err)) {
        return false;
    }
    return megatron_settings_args(zf_pv_get(common, "args"), &s->settings, err);
}

bool mg_save_common(struct mg_save *s, struct zf_source *src, const char *path, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, s->lim, err);
    const struct zf_pv *common = t ? save_common_dict(zf_torch_root(t)) : NULL;
    const struct zf_place_file file = {.torch = t, .path = path};

    if (!t) {
        /* The save names this file; that it is no such file is damage. */
        err->code = err->code == ZF_E_UNKNOWN ? ZF_E_FORMAT : err->code;
        return zf_err_in(err, "%s", path);
    }
    if (common && !save_take_common(s, common, err)) {
        return zf_err_in(err, "%s", path);
    }
    return zf_state_add(s->b, &file, "common", s->lim, err);
}

bool mg_save_common_file(struct mg_save *s, struct zf_err *err)
{
    if (!zf_store_has(s->st, MG_COMMON_FILE, ZF_ENTRY_FILE)) {
        return true;
    }
    zf_auto(source) struct zf_source *src = zf_store_open(s->st, MG_COMMON_FILE, err);
    return src && mg_save_common(s, src, MG_COMMON_FILE, err);
}
