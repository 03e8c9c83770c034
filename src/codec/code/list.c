/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what zf_code_file finds. */
#include <zf/codec/code_list.h>

#include <zf/base/out.h>

struct list_add {
    struct zf_code_list *l;
    const char *file;
    struct zf_source *src;
    uint64_t number; /* of the file */
};

static bool list_place(const struct list_add *a, const struct zf_code_pickle *p, uint64_t at,
                       struct zf_code_place *out, struct zf_err *err)
{
    uint64_t off = at == ZF_OFF_NONE ? 0 : at;
    /* windows map to the file's bytes, decompressed data does not */
    const struct zf_source *to = off < p->in->size ? zf_source_origin(p->in, &off) : p->in;
    uint64_t zero = 0;

    out->packed = to != zf_source_origin(a->src, &zero);
    out->at = out->packed ? at : off;
    out->file = strdup(a->file);
    out->member = strdup(p->member);
    return (out->file && out->member) || zf_fail_sys(err, "list the globals of pickles");
}

static bool list_add_use(const struct list_add *a, const struct zf_code_pickle *p,
                         const struct zf_code_use *u, struct zf_err *err)
{
    zf_auto(out) struct zf_out key = {0};

    zf_out_add(&key, u->module, strlen(u->module) + 1);
    zf_out_add(&key, u->name, strlen(u->name) + 1);
    struct zf_code_item *i =
        zf_out_ok(&key, err) ? zf_table_make(a->l->items, key.p, key.n, err) : NULL;
    if (!i)
        return false;
    const enum zf_code_class is = zf_code_class(u);
    i->is = is > i->is ? is : i->is;
    i->files += i->last != a->number;
    i->last = a->number;
    const uint64_t called = u->called != ZF_OFF_NONE ? u->called : u->given;
    return (i->first.file || list_place(a, p, u->at, &i->first, err)) &&
           (i->called.file || called == ZF_OFF_NONE || list_place(a, p, called, &i->called, err));
}

static bool list_add_stop(const struct list_add *a, const struct zf_code_pickle *p,
                          struct zf_err *err)
{
    struct zf_code_stop *s = zf_vec_push(&a->l->stop, err);

    if (!s)
        return false;
    s->why = strdup(p->walk->why.msg);
    s->python_stops = p->walk->why.code == ZF_E_FORMAT;
    return list_place(a, p, p->walk->why.off, &s->at, err) &&
           (s->why || zf_fail_sys(err, "list the globals of pickles"));
}

static bool list_add_pickle(void *ctx, const struct zf_code_pickle *p, struct zf_err *err)
{
    const struct list_add *a = ctx;

    a->l->files += a->l->last != a->number;
    a->l->last = a->number;
    a->l->pickles++;
    for (size_t i = 0; i < p->walk->use.n; i++)
        if (!list_add_use(a, p, &p->walk->use.at[i], err))
            return false;
    return p->walk->why.code == ZF_OK || list_add_stop(a, p, err);
}

bool zf_code_list_add(struct zf_code_list *l, const char *file, struct zf_source *src,
                      const struct zf_limits *lim, struct zf_err *err)
{
    struct list_add a = {.l = l, .file = file, .src = src, .number = l->files + 1};

    return zf_code_file(src, lim, list_add_pickle, &a, err);
}

static void list_place_fini(struct zf_code_place *p)
{
    free(p->file);
    free(p->member);
}

void zf_code_list_fini(struct zf_code_list *l)
{
    for (struct zf_code_item *i = l->items; i; i = i->hh.next) {
        list_place_fini(&i->first);
        list_place_fini(&i->called);
    }
    zf_table_free(l->items);
    for (size_t i = 0; i < l->stop.n; i++) {
        list_place_fini(&l->stop.at[i].at);
        free(l->stop.at[i].why);
    }
    zf_vec_fini(&l->stop);
}
