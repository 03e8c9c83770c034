/* SPDX-License-Identifier: Apache-2.0 */
/* user.zerofs.sources: the file ranges that a tensor is made of, so that a program can assemble it
 * itself; see zerofs(5). */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include <zf/model/origins.h>
#include <zf/view.h>

/* Room for the last entry of a truncated list. */
#define MORE 32
/* Bytes that are not a range of a file (a value from a pickle) are listed literally, up to this
 * many. */
#define TELL_BYTES 16384

struct list {
    struct zf_out *out;
    size_t cap, first; /* first: offset of the first entry */
    const struct zf_tensor *t;
    enum zf_dtype served;
    struct zf_origins *origins;
    uint64_t left_out; /* number of pieces */
};

/* ---- one entry ------------------------------------------------------------------------------- */

static void sources_put_numbers(struct list *l, const char *key, const uint64_t *v)
{
    zf_out_str(l->out, key);
    for (uint32_t d = 0; d < l->t->ndim; d++) {
        zf_out_add(l->out, ",", d > 0);
        zf_out_dec(l->out, v[d]);
    }
    zf_out_u8(l->out, ']');
}

static void sources_put_number(struct list *l, const char *key, uint64_t v)
{
    zf_out_str(l->out, key);
    zf_out_dec(l->out, v);
}

static void sources_put_text(struct list *l, const char *key, const char *text)
{
    zf_out_str(l->out, key);
    zf_out_json(l->out, text, strlen(text));
}

static void sources_put_bytes(struct list *l, const unsigned char *p, uint64_t n)
{
    zf_out_str(l->out, ",\"data\":\"");
    zf_out_hex(l->out, p, (size_t)n);
    zf_out_u8(l->out, '"');
}

static void sources_put_lost(struct list *l, const struct zf_lost *how)
{
    zf_out_str(l->out, ",\"lost\":true");
    if (how->file[0])
        sources_put_text(l, ",\"file\":", how->file);
    sources_put_text(l, ",\"why\":", how->why);
}

/* Writes bytes that are kept in memory, because no file contains them. */
static void sources_put_memory(struct list *l, const struct zf_origin *o)
{
    unsigned char p[TELL_BYTES];
    struct zf_err ignored = {.code = ZF_OK};

    if (o->src->name[0])
        sources_put_text(l, ",\"file\":", o->src->name);
    if (o->bytes <= sizeof p && zf_source_pread(o->src, p, (size_t)o->bytes, o->off, &ignored))
        sources_put_bytes(l, p, o->bytes);
    else
        zf_out_str(l->out, ",\"made\":true");
}

static void sources_put_place(struct list *l, const struct zf_origin *o)
{
    sources_put_text(l, ",\"file\":", o->src->name);
    sources_put_number(l, ",\"offset\":", o->off);
    sources_put_number(l, ",\"bytes\":", o->bytes);
    if (o->codec) {
        sources_put_text(l, ",\"codec\":", o->codec);
        sources_put_number(l, ",\"skip\":", o->skip);
    }
    if (o->swap)
        sources_put_number(l, ",\"swap\":", o->swap);
    if (o->stride)
        sources_put_numbers(l, ",\"strides\":[", o->stride);
}

static void sources_put_made(struct list *l, const struct zf_origin *o)
{
    zf_out_add(l->out, ",", o->start != NULL);
    if (o->src) {
        zf_out_str(l->out, "\"file\":");
        zf_out_json(l->out, o->src->name, strlen(o->src->name));
        zf_out_u8(l->out, ',');
    }
    zf_out_str(l->out, "\"made\":true");
}

static void sources_put_where(struct list *l, const struct zf_origin *o)
{
    switch (o->kind) {
    case ZF_ORIGIN_FILE:
        sources_put_place(l, o);
        break;
    case ZF_ORIGIN_SOURCE:
        sources_put_memory(l, o);
        break;
    case ZF_ORIGIN_MEMORY:
        if (o->bytes <= TELL_BYTES)
            sources_put_bytes(l, o->mem, o->bytes);
        else
            zf_out_str(l->out, ",\"made\":true");
        break;
    case ZF_ORIGIN_ZERO:
        zf_out_str(l->out, ",\"zero\":true");
        break;
    case ZF_ORIGIN_MADE:
        sources_put_made(l, o);
        break;
    case ZF_ORIGIN_LOST:
        sources_put_lost(l, o->lost);
        break;
    }
}

/* Writes an entry; it starts with its position in the tensor. */
static bool sources_put_entry(void *ctx, const struct zf_origin *o)
{
    struct list *l = ctx;

    zf_out_str(l->out, l->out->n > l->first ? ",{" : "{");
    if (o->start) {
        sources_put_numbers(l, "\"start\":[", o->start);
        sources_put_numbers(l, ",\"count\":[", o->count);
    }
    sources_put_where(l, o);
    if (l->served != l->t->dtype)
        sources_put_text(l, ",\"dtype\":", zf_dtype_info(l->t->dtype)->suffix);
    zf_out_u8(l->out, '}');
    return l->out->n <= l->cap;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool sources_add_piece(void *ctx, const struct zf_extent *e)
{
    struct list *l = ctx;
    size_t before = l->out->n;

    if (l->left_out == 0)
        (void)zf_origins_of(l->origins, e, sources_put_entry, l);
    if (l->left_out > 0 || l->out->n + MORE > l->cap) {
        l->out->n = before;
        l->left_out++;
    }
    return !l->out->bad;
}

void sources_put(const struct zf_tensor *t, enum zf_dtype served, size_t cap, struct zf_out *o)
{
    struct zf_err ignored;
    zf_auto(mem) struct zf_origins *origins = zf_origins_new(t, &ignored);
    struct list l = {.out = o, .cap = cap, .t = t, .served = served, .origins = origins};

    if (!origins) {
        o->bad = true;
        return;
    }
    zf_out_u8(o, '[');
    l.first = o->n;
    (void)zf_map_each_extent(t->data, sources_add_piece, &l);
    if (l.left_out > 0) {
        zf_out_str(o, o->n > l.first ? ",{\"more\":" : "{\"more\":");
        zf_out_dec(o, l.left_out);
        zf_out_u8(o, '}');
    }
    zf_out_u8(o, ']');
}

void zf_tree_sources(const struct zf_node_tensor *x, struct zf_out *out)
{
    sources_put(x->tensor, x->dtype, SIZE_MAX, out);
}
