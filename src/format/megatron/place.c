/* SPDX-License-Identifier: Apache-2.0 */
/* The root has the fp32 masters where there are any, and stored/ the weights that they shadow, unless a
 * master was found to be wrong: then the root has the weights, and optim/param/ the masters.  What
 * else an optimizer keeps of a parameter is in optim/ under the parameter's name, and where two have the
 * same of one parameter, under their own keys in front of it.  Where a place is taken nevertheless, by a
 * key that wraps the same name, the tensor is in extra/ under its key. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/item_json.h>
#include <zf/assemble/names.h>
#include <zf/base/name.h>
#include <zf/base/num.h>

/* The name of a value in optim/: two optimizers that have it keep their keys in front. */
static bool place_name(struct mg_save *s, const struct mg_param *m, struct zf_spot *spot,
                       struct zf_err *err)
{
    char *name;

    if (!m->from || !spot->set[0] || m->state.n == 0 || !mg_save_is_chained(s, m))
        return true; /* in the root there is one, or none */
    const struct mg_text *c = &m->from->name.container;
    spot->name_len = c->n + 1 + m->name.n;
    spot->name = name = zf_arena_get(s->arena, spot->name_len + 1, 1, err);
    if (name) {
        memcpy(name, c->p, c->n);
        name[c->n] = '.';
        memcpy(name + c->n + 1, m->name.p, m->name.n);
    }
    return name != NULL;
}

/* The set of a parameter; text: where it is made. */
static const char *place_set(struct mg_save *s, const struct mg_param *m,
                             char text[8 + ZF_NAME_MAX])
{
    bool doubted = s->masters_doubted;
    size_t n;

    if (m->state.n == 0) {
        const struct mg_param *master = doubted ? NULL : mg_save_named(s, MG_MASTERS, m->name, &n);

        return master && !master->unverified ? "stored" : "";
    }
    if (mg_key_is_master(m->state))
        return doubted || m->unverified ? "optim/param" : "";
    memcpy(text, "optim/", 6);
    (void)zf_name_encode(text + 6, m->state.p, m->state.n, "");
    return text;
}

/* Is it all of the draft that it is in? */
static bool place_is_all(const struct mg_param *m)
{
    return m->first == 0 && zf_type_equal(m->type, zf_draft_type(m->of));
}

static bool place_param(struct mg_save *s, const struct mg_param *m, struct zf_err *err)
{
    char text[8 + ZF_NAME_MAX];
    struct zf_build *b = s->b;
    struct zf_spot spot = {place_set(s, m, text), m->name.p, m->name.n};
    struct zf_draft *d;
    uint64_t n = 0;

    if (!place_name(s, m, &spot, err))
        return false;
    if (zf_build_find(b, spot)) {
        if (!m->from)
            return true; /* found in a buffer: what is stored under the name comes first */
        spot = (struct zf_spot){"extra", m->from->key, m->from->key_len};
        if (m->from->sliced || zf_build_find(b, spot))
            return true; /* it is whole in stacked/ */
    }
    if (place_is_all(m)) {
        d = zf_build_show(b, spot, m->of, err);
        return d && (!m->is_part || zf_draft_mark_piece(d, err));
    }
    d = zf_build_tensor(b, spot, m->type, err);
    return d && zf_elems(m->type.ndim, m->type.shape, &n) &&
           zf_draft_part(d, 0, n, m->of, m->first, err) &&
           (!m->is_part || zf_draft_mark_piece(d, err));
}

/* Tensors that are shown as they are stored. */
static bool place_stored(struct mg_save *s, const struct mg_tensor *t, struct zf_err *err)
{
    /* A tensor may be called as objects are. */
    bool other = t->name.what == MG_OTHER || t->name.what == MG_OBJECT;
    const char *set = t->sliced                   ? "stacked"
                      : t->name.what == MG_BUCKET ? "bucket"
                      : other                     ? "extra"
                                                  : NULL;
    const struct zf_spot spot = {set, t->key, t->key_len};

    if (!set)
        return true;
    return zf_build_show(s->b, spot, t->draft, err) && (other || zf_build_raw_only(s->b, set, err));
}

/* room[8 + ZF_NAME_MAX] */
static const char *place_object_path(const struct mg_object *o, char *room)
{
    memcpy(room, "extra/", 7);
    (void)zf_name_encode(room + 6, o->key, o->key_len, "");
    return room;
}

/* Each directory of a save has a common state of its own. */
static const char *place_common_path(const struct mg_save *s, const struct mg_object *o, char *room)
{
    char key[2 * MG_DIR_MAX];
    const char *dir = s->dir[o->part];

    (void)snprintf(key, sizeof key, "%.*s.%.100s", (int)strcspn(dir, "/"), dir, o->key);
    memcpy(room, "extra/", 7);
    (void)zf_name_encode(room + 6, key, strlen(key), "");
    return room;
}

static bool place_object(struct mg_save *s, const struct mg_object *o, struct zf_err *err)
{
    char room[8 + ZF_NAME_MAX];
    const char *path =
        o->in_state && s->in_parts ? place_common_path(s, o, room) : place_object_path(o, room);

    return zf_build_blob(s->b, path, o->src, 0, o->src->size, err);
}

/* state/objects.json: what the objects say.  The common state has a file of its own, and a module's extra
 * state is never opened. */
static bool place_values(struct mg_save *s, struct zf_err *err)
{
    zf_auto(item_json) struct zf_item_json json = {0};

    for (size_t i = 0; i < s->object.n; i++) {
        const struct mg_object *o = &s->object.at[i];
        zf_auto(torch) struct zf_torch *t = NULL;
        struct zf_err ignored;
        char room[8 + ZF_NAME_MAX];
        bool all = false;

        zf_err_clear(&ignored);
        if (o->in_state || zf_names_extra_state(o->name.name.p, o->name.name.n) ||
            !zf_item_json_wants(&json, o->src->size))
            continue;
        t = zf_torch_open(o->src, s->lim, &ignored);
        if (t && !zf_item_json_add(&json, t, (struct zf_step){.p = o->key, .n = o->key_len}, s->lim,
                                   &all, err))
            return false;
        if (all && !zf_build_told(s->b, place_object_path(o, room), err))
            return false;
    }
    return zf_item_json_end(&json, s->b, "state/objects.json", err);
}

bool mg_place(struct mg_save *s, struct zf_err *err)
{
    if (s->trained && !mg_save_index(s, err))
        return false;
    for (size_t i = 0; i < s->param.n; i++)
        if (!place_param(s, &s->param.at[i], err))
            return false;
    for (size_t i = 0; i < s->tensor.n; i++)
        if (!place_stored(s, &s->tensor.at[i], err))
            return false;
    for (size_t i = 0; i < s->object.n; i++)
        if (!place_object(s, &s->object.at[i], err))
            return false;
    return place_values(s, err);
}
