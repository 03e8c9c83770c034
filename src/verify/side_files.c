/* SPDX-License-Identifier: Apache-2.0 */
/* Checks settings and other files that no tensor of the tree comes from: JSON and safetensors end where they say. */
#include <zf/base/name.h>
#include <zf/codec/json.h>
#include <zf/codec/safetensors.h>

#include "checks.h"

/* Did opening note that the file is broken? */
static bool side_is_noted(const struct zf_checkpoint *c, const char *path)
{
    for (uint32_t i = 0; i < c->n_notes; i++) {
        const char *about = c->note[i].about;
        const size_t n = strlen(path), k = strlen(about);

        if (c->note[i].kind == ZF_NOTE_BROKEN && k <= n && strcmp(path + n - k, about) == 0 &&
            (k == n || path[n - k - 1] == '/'))
            return true;
    }
    return false;
}

/* False, with the reason in *why: the file is broken, or cannot be read. */
static bool side_check(const struct verify *v, struct zf_source *src, bool json, struct zf_err *why)
{
    zf_auto(arena) struct zf_arena *arena =
        json ? NULL : zf_arena_new(v->o->lim->model_memory, why);
    struct zf_st_header h;
    bool whole;

    if (!json)
        return arena && zf_st_load(src, arena, v->o->lim, &h, why);
    return zf_json_is_whole(src, &whole, why) &&
           (whole || zf_fail(why, ZF_E_FORMAT, ZF_OFF_NONE, "the JSON in it is not complete"));
}

static bool side_look(struct verify *v, const struct files_path *p, struct zf_err *err)
{
    zf_auto(mem) char *path = strndup(p->hh.key, p->hh.keylen);
    struct zf_err why;

    if (!path)
        return zf_fail_sys(err, "list files");
    const bool json = zf_name_ends(path, ".json");
    if (!json && !zf_name_ends(path, ".safetensors"))
        return true;
    zf_auto(source) struct zf_source *src = zf_store_open(v->c->store, path, &why);
    if (!src || places_find(&v->places, src) || side_check(v, src, json, &why))
        return true;
    if (why.code == ZF_E_NOMEM) {
        *err = why;
        return false;
    }
    const struct verify_about about = {.kind = ZF_FOUND_STRUCTURE,
                                       .weight = p->beside ? ZF_WEIGHT_NOTE : verify_weight(&why),
                                       .file = path};
    return side_is_noted(v->c, path) || verify_found(v, &about, err, "%s", why.msg);
}

bool verify_side_files(struct verify *v, struct zf_err *err)
{
    bool ok = true;

    for (const struct files_path *p = v->listed.paths; p && ok; p = p->hh.next)
        ok = side_look(v, p, err);
    return ok;
}
