/* SPDX-License-Identifier: Apache-2.0 */
/* The root has the fp32 masters, if any, and stored/ the weights that they replace; if a master was found
 * to be wrong, the root has the weights, and optim/param/ the masters.  Other optimizer states are in
 * optim/ under the parameter's name; if two optimizers have the same state of a parameter, prefixed by
 * their keys.  If a path is still taken, by a key with other wrappers, the tensor is in extra/ under its key. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/item_json.h>
#include <zf/assemble/names.h>
#include <zf/base/name.h>
#include <zf/base/num.h>

/* The name of a state in optim/, prefixed by its optimizer's key if two optimizers have that state. */
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

/* The directory of a parameter's state; text: buffer for it. */
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

/* Is the parameter the whole draft? */
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
            return true; /* found in a flat buffer: a tensor stored under the name has precedence */
        spot = (struct zf_spot){"extra", m->from->key, m->from->key_len};
        if (m->from->sliced || zf_build_find(b, spot))
            return true; /* shown in stacked/ */
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

/* Shows tensors as they are stored. */
static bool place_stored(struct mg_save *s, const struct mg_tensor *t, struct zf_err *err)
{
    /* A tensor's key may have the form of an object's. */
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

/* The path of the common state; each directory of a save has its own. */
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

/* Makes state/objects.json from the values of objects, without the common state, which has its own file, and
 * extra states of modules, which are never opened. */
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
