/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a value as JSON without recursion, with a stack of open levels, each with the next part to
 * write.  JSON objects need distinct keys, but different keys of a pickled mapping may have the same
 * text; so each level remembers the keys that it wrote (as offsets into the output, in a hash table
 * if there are many) and renames duplicates.  A value that contains itself is written as the number
 * of levels up to it. */
#include <zf/codec/pvjson.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/table.h>

#include "pv_out.h"

/* Deep enough for any configuration, and far below the limits of JSON readers. */
#define DEPTH_MAX 100

struct pv_json_seen {
    UT_hash_handle hh;
};

struct level {
    const struct zf_pv *v;
    enum pvjson_form form;
    uint64_t at;               /* next part */
    uint64_t shown;            /* parts written */
    bool inlined;              /* all on one line */
    struct pv_json_seen *seen; /* the object's keys, as written; uthash */
};

struct pv_json_walk {
    struct zf_pvjson o;
    const struct zf_pvjson_special *special;
    struct level level[DEPTH_MAX];
    unsigned depth;
    struct zf_pv_scratch scratch; /* for an unfolded call, one at a time */
};

static bool pv_json_is_array(const struct level *l)
{
    return l->form == ZF_PVJSON_SEQ;
}

/* Lists of numbers (shapes, random states) are easier to read on one line. */
static bool pv_json_all_numbers(const struct zf_pv *v)
{
    for (uint64_t i = 0; i < zf_pv_len(v); i++) {
        enum zf_pv_kind kind = zf_pv_kind(zf_pv_item(v, i));
        if (kind != ZF_PV_INT && kind != ZF_PV_FLOAT && kind != ZF_PV_BOOL)
            return false;
    }
    return true;
}

/* Writes a line break and two spaces per level. */
static void pv_json_indent(struct pv_json_walk *w)
{
    char text[1 + 2 * DEPTH_MAX];
    size_t n = 1 + 2 * (size_t)w->depth;

    memset(text, ' ', n);
    text[0] = '\n';
    pvjson_put(&w->o, text, n);
}

/* Writes the key of a part, made unique within the object. */
static void pv_json_key(struct pv_json_walk *w, struct level *l, const struct pvjson_part *part)
{
    struct zf_pvjson *o = &w->o;
    size_t start = o->out.n, end;

    zf_pvjson_raw(o, "\"");
    if (part->name)
        zf_pvjson_raw(o, part->name);
    else
        pvjson_key(o, part->key);
    end = o->out.n;
    zf_pvjson_raw(o, "\"");
    for (uint64_t again = l->at; !o->failed; again++) {
        const char *text = zf_out_text(&o->out) + start;
        size_t n = o->out.n - start;

        if (!zf_table_find(l->seen, text, n)) {
            o->failed = !zf_table_make(l->seen, text, n, o->err);
            break;
        }
        zf_out_cut(&o->out, end);
        pvjson_fmt(o, "#%llu\"", (unsigned long long)again);
    }
    zf_pvjson_raw(o, ": ");
}

/* How many levels up v is already being written; 0 = nowhere. */
static unsigned pv_json_levels_up(const struct pv_json_walk *w, const struct zf_pv *v,
                                  enum pvjson_form form)
{
    for (unsigned i = w->depth; i-- > 0;)
        if (w->level[i].v == v && w->level[i].form == form)
            return w->depth - i;
    return 0;
}

/* Writes a value; of one with parts only the opening bracket. */
static void pv_json_value(struct pv_json_walk *w, const struct zf_pv *v, enum pvjson_form form)
{
    struct zf_pvjson *o = &w->o;
    enum zf_pv_kind kind = zf_pv_kind(v);
    bool plain = kind <= ZF_PV_STR && kind != ZF_PV_BYTES;

    if (form == ZF_PVJSON_AUTO) {
        if (!plain && w->special && w->special->fn(w->special->ctx, v, o))
            return;
        v = zf_pv_unfold(v, &w->scratch);
        form = pvjson_form(o, &v);
    }
    if (form == ZF_PVJSON_DONE)
        return;
    unsigned up = pv_json_levels_up(w, v, form);
    if (up) {
        pvjson_fmt(o, "{\"__ref__\": \"%u level%s up\"}", up, up == 1 ? "" : "s");
    } else if (w->depth == DEPTH_MAX) {
        pvjson_fmt(o, "{\"__cut__\": \"more than %u levels deep\"}", DEPTH_MAX);
    } else {
        struct level *l = &w->level[w->depth++];
        *l = (struct level){.v = v, .form = form};
        l->inlined = pv_json_is_array(l) ? pv_json_all_numbers(v) : form == ZF_PVJSON_PERSID;
        pvjson_put(o, pv_json_is_array(l) ? "[" : "{", 1);
    }
}

static void pv_json_class_name(struct zf_pvjson *o, const struct zf_pv *call)
{
    zf_pvjson_raw(o, "\"");
    pvjson_key(o, zf_pv_callee(call));
    zf_pvjson_raw(o, "\"");
}

static void pv_json_close_level(struct pv_json_walk *w)
{
    struct level *l = &w->level[--w->depth];

    zf_table_free(l->seen);
    if (l->shown && !l->inlined)
        pv_json_indent(w);
    pvjson_put(&w->o, pv_json_is_array(l) ? "]" : "}", 1);
}

/* Writes the next part of the innermost value, or closes it. */
static void pv_json_step(struct pv_json_walk *w)
{
    struct level *l = &w->level[w->depth - 1];
    struct pvjson_part part;

    if (!pvjson_next(l->v, l->form, &l->at, &part)) {
        pv_json_close_level(w);
        return;
    }
    if (l->shown++)
        pvjson_put(&w->o, ", ", l->inlined ? 2 : 1);
    if (!l->inlined)
        pv_json_indent(w);
    if (!pv_json_is_array(l))
        pv_json_key(w, l, &part);
    if (part.v)
        pv_json_value(w, part.v, part.form);
    else
        pv_json_class_name(&w->o, l->v);
}

bool zf_pv_json(const struct zf_pv *v, const struct zf_limits *lim,
                const struct zf_pvjson_special *special, char **out, uint64_t *len,
                struct zf_err *err)
{
    struct pv_json_walk w = {.o = {.limit = lim->text_bytes, .err = err}, .special = special};
    /* A decimal point in any locale; the C locale object is static in glibc. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c ? uselocale(c) : (locale_t)0;

    pv_json_value(&w, v, ZF_PVJSON_AUTO);
    while (w.depth && !w.o.failed)
        pv_json_step(&w);
    zf_pvjson_raw(&w.o, "\n");
    while (w.depth) {
        w.depth--;
        zf_table_free(w.level[w.depth].seen);
    }
    if (c) {
        (void)uselocale(before);
        freelocale(c);
    }
    if (!zf_out_ok(&w.o.out, err) || w.o.failed) {
        zf_auto_out(&w.o.out);
        return false;
    }
    *out = w.o.out.p;
    *len = w.o.out.n;
    return true;
}
