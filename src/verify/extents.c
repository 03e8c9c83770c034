/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file that its tensors refer to, according to the file itself: the pickles of torch.save (also of
 * several archives in a row), the header of safetensors, or the whole file for a chunk of a zarr array.  No format
 * reader is used. */
#include "gaps.h"

#include <inttypes.h>
#include <stdio.h>

#include <zf/base/num.h>
#include <zf/base/table.h>
#include <zf/codec/safetensors.h>
#include <zf/codec/torch.h>
#include <zf/codec/zip_parts.h>

#define EXTENTS_MOST ((size_t)1 << 20)

struct extents_seen {
    UT_hash_handle hh; /* key: address of the value */
};

/* A walk over the values of one pickle. */
struct extents_walk {
    struct extents *x;
    struct zf_torch *torch;
    zf_vec(const struct zf_pv *) todo;
    struct extents_seen *seen;
};

static bool extents_add(struct extents *x, uint64_t off, uint64_t end, uint64_t record,
                        struct zf_err *err)
{
    struct extent *last = x->at.n ? &x->at.at[x->at.n - 1] : NULL;

    if (last && last->record == record && off >= last->off && off <= last->end) {
        last->end = end > last->end ? end : last->end;
        return true;
    }
    if (x->at.n >= EXTENTS_MOST) {
        return zf_fail(err, ZF_E_LIMIT, off, "its tensors lie in more than %zu places",
                       EXTENTS_MOST);
    }
    last = zf_vec_push(&x->at, err);
    if (last)
        *last = (struct extent){.off = off, .end = end, .record = record};
    return last != NULL;
}

/* Adds n bytes of a storage from off on, at their place in the file; a compressed storage is added as a whole. */
static bool extents_add_bytes(struct extents *x, struct zf_source *src, uint64_t off, uint64_t n,
                              uint64_t record, struct zf_err *err)
{
    while (n > 0) {
        const struct zf_trace t = zf_source_trace(src, off, n);
        const uint64_t step = t.len > 0 && t.len < n ? t.len : n;

        if (t.src->ops->identity &&
            !extents_add(x, t.off, t.off + (t.codec ? t.packed : step), record, err))
            return false;
        off += step;
        n -= step;
    }
    return true;
}

/* ---- torch.save ------------------------------------------------------------------------------ */

/* A tensor's dimensions except those of size 1, smallest stride last; contiguous ones are merged. */
struct extents_rows {
    uint32_t nd;
    uint64_t n[64], step[64], run; /* elements */
};

static bool extents_rows_of(const struct zf_torch_tensor *t, struct extents_rows *out)
{
    *out = (struct extents_rows){.run = 1};
    for (uint32_t d = 0; d < t->ndim; d++) {
        uint32_t at = out->nd;

        if (t->shape[d] == 0 || at == 64)
            return false;
        if (t->shape[d] == 1 || t->stride[d] == 0)
            continue;
        for (; at > 0 && out->step[at - 1] < t->stride[d]; at--) {
            out->step[at] = out->step[at - 1];
            out->n[at] = out->n[at - 1];
        }
        out->step[at] = t->stride[d];
        out->n[at] = t->shape[d];
        out->nd++;
    }
    /* rows that overlap leave no gap, either */
    while (out->nd > 0 && out->step[out->nd - 1] <= out->run) {
        out->nd--;
        out->run += (out->n[out->nd] - 1) * out->step[out->nd];
    }
    return true;
}

static bool extents_add_tensor(struct extents *x, const struct zf_torch_tensor *t,
                               struct zf_err *err)
{
    const uint64_t each = zf_dtype_info(t->dtype)->bytes;
    struct extents_rows r;
    uint64_t at[64] = {0}, off = t->off_elems;
    uint32_t d;

    if (!t->storage->src || !extents_rows_of(t, &r))
        return true;
    const uint64_t record = x->names.n;
    zf_out_str(&x->names, t->storage->src->name + x->lead);
    zf_out_add(&x->names, "", 1);
    if (!zf_out_ok(&x->names, err))
        return false;
    do {
        if (!extents_add_bytes(x, t->storage->src, off * each, r.run * each, record, err))
            return false;
        for (d = r.nd; d-- > 0;) {
            off += r.step[d];
            if (++at[d] < r.n[d])
                break;
            off -= r.n[d] * r.step[d];
            at[d] = 0;
        }
    } while (d < r.nd);
    return true;
}

static bool extents_push(struct extents_walk *w, const struct zf_pv *v, struct zf_err *err)
{
    const enum zf_pv_kind k = zf_pv_kind(v);

    if (!v || !(k == ZF_PV_TUPLE || k == ZF_PV_LIST || k == ZF_PV_DICT || k == ZF_PV_SET ||
                k == ZF_PV_CALL))
        return true;
    if (zf_pv_many(v)) {
        const unsigned before = HASH_COUNT(w->seen);

        if (!zf_table_make_id(w->seen, (uintptr_t)v, err))
            return false;
        if (HASH_COUNT(w->seen) == before)
            return true;
    }
    const struct zf_pv **to = zf_vec_push(&w->todo, err);
    if (to)
        *to = v;
    return to != NULL;
}

static bool extents_add_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct extents_walk *w = ctx;

    return part->tensor ? extents_add_tensor(w->x, part->tensor, err)
                        : extents_push(w, part->value, err);
}

static bool extents_push_inner(struct extents_walk *w, const struct zf_pv *v, struct zf_err *err)
{
    const bool map = zf_pv_is_map(v);

    for (uint64_t i = 0; i < zf_pv_len(v); i++)
        if (!extents_push(w, map ? zf_pv_key(v, i) : zf_pv_item(v, i), err) ||
            (map && !extents_push(w, zf_pv_val(v, i), err)))
            return false;
    return zf_pv_kind(v) != ZF_PV_CALL ||
           (extents_push(w, zf_pv_callee(v), err) && extents_push(w, zf_pv_args(v), err) &&
            extents_push(w, zf_pv_kwargs(v), err) && extents_push(w, zf_pv_state(v), err));
}

/* Is the failure caused by the file's contents, not by the machine? */
static bool extents_is_of_file(const struct zf_err *err)
{
    return err->code == ZF_E_FORMAT || err->code == ZF_E_UNSUPPORTED || err->code == ZF_E_LIMIT ||
           err->code == ZF_E_UNKNOWN;
}

static bool extents_look(struct extents_walk *w, const struct zf_pv *v, struct zf_err *err)
{
    struct zf_torch_tensor t;
    struct zf_err why;
    bool ok = true;

    zf_err_clear(&why);
    switch (zf_torch_kind(w->torch, v)) {
    case ZF_TORCH_META:
    case ZF_TORCH_NUMPY:
        return true;
    case ZF_TORCH_DENSE:
        ok = zf_torch_tensor(w->torch, v, &t, &why);
        if (ok) {
            ok = extents_add_tensor(w->x, &t, &why);
            zf_torch_release(w->torch, &t);
        }
        break;
    case ZF_TORCH_PARTS:
        ok = zf_torch_parts(w->torch, v, extents_add_part, w, &why);
        break;
    default:
        return extents_push_inner(w, v, err);
    }
    if (ok)
        return true;
    if (!extents_is_of_file(&why)) {
        *err = why;
        return false;
    }
    if (w->x->unknown++ == 0)
        w->x->why = why;
    return true;
}

static bool extents_add_torch(struct extents *x, struct zf_source *src, const struct zf_limits *lim,
                              struct zf_err *err)
{
    struct zf_err why;
    zf_auto(torch) struct zf_torch *torch = zf_torch_open(src, lim, &why);
    struct extents_walk w = {.x = x, .torch = torch};

    if (!torch) {
        if (!extents_is_of_file(&why))
            *err = why;
        return extents_is_of_file(&why);
    }
    bool ok = extents_push(&w, zf_torch_root(torch), err);
    while (ok && w.todo.n > 0)
        ok = extents_look(&w, w.todo.at[--w.todo.n], err);
    zf_vec_fini(&w.todo);
    zf_table_free(w.seen);
    return ok;
}

/* Adds the extents of all archives, from the last to the first. */
static bool extents_add_archives(struct extents *x, struct zf_source *src,
                                 const struct zf_limits *lim, struct zf_err *err)
{
    uint64_t end = src->size;
    bool found = true;

    while (found && end > 0) {
        struct zf_zip_span at;
        char name[32];

        if (!zf_zip_last(src, end, &found, &at, err))
            return false;
        if (found && at.first == 0 && at.end == src->size)
            return extents_add_torch(x, src, lim, err);
        (void)snprintf(name, sizeof name, "item@%" PRIu64, at.first);
        zf_auto(source) struct zf_source *window =
            found ? zf_window_new(src, at.first, at.end - at.first, name, err) : NULL;
        if (found && (!window || !extents_add_torch(x, window, lim, err)))
            return false;
        end = at.first;
    }
    return true;
}

/* ---- other formats --------------------------------------------------------------------------- */

static bool extents_add_safetensors(struct extents *x, struct zf_source *src,
                                    const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(zf_limits_meta(lim, src->size), err);
    struct zf_st_header h;
    struct zf_err why;

    if (!arena)
        return false;
    if (!zf_st_load_head(src, arena, lim, &h, &why)) {
        if (!extents_is_of_file(&why))
            *err = why;
        return extents_is_of_file(&why);
    }
    for (uint64_t i = 0; i < h.n; i++) {
        const struct zf_st_entry *e = &h.entry[i];
        const uint64_t record = x->names.n;

        zf_out_str(&x->names, "!");
        zf_out_add(&x->names, e->name, e->name_len);
        zf_out_add(&x->names, "", 1);
        if (!zf_out_ok(&x->names, err) ||
            (e->end > e->begin && !extents_add(x, e->begin, e->end, record, err)))
            return false;
    }
    return true;
}

bool extents_is_chunk(struct zf_store *st, const char *path, bool *out, struct zf_err *err)
{
    size_t n = strlen(path), last;

    *out = false;
    do {
        for (last = n; n > 0 && path[n - 1] != '/'; n--) {
        }
        if (strspn(path + n, "0123456789.") < last - n || path[n] == '.')
            return true;
        zf_auto(mem) char *beside = NULL;
        if (asprintf(&beside, "%.*s.zarray", (int)n, path) < 0) {
            beside = NULL;
            return zf_fail_sys(err, "list files");
        }
        *out = zf_store_has(st, beside, ZF_ENTRY_FILE);
        n -= n > 0;
    } while (!*out && n > 0);
    return true;
}

static int extents_by_off(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return x->off != y->off ? (x->off > y->off) - (x->off < y->off)
                            : (x->end > y->end) - (x->end < y->end);
}

bool extents_load(struct extents *x, struct zf_source *src, bool chunk, const struct zf_limits *lim,
                  struct zf_err *err)
{
    char begin[4] = "";
    bool ok;

    *x = (struct extents){.lead = strlen(src->name)};
    zf_out_add(&x->names, "", 1);
    if (src->size < sizeof begin)
        return true;
    if (!zf_source_pread(src, begin, sizeof begin, 0, err))
        return false;
    ok = memcmp(begin, "PK\3\4", sizeof begin) == 0 ? extents_add_archives(x, src, lim, err)
         : chunk                                    ? extents_add(x, 0, src->size, 0, err)
         : zf_st_sniff(src)                         ? extents_add_safetensors(x, src, lim, err)
         : zf_torch_sniff(src)                      ? extents_add_torch(x, src, lim, err)
                                                    : true;
    if (x->at.n > 0)
        qsort(x->at.at, x->at.n, sizeof *x->at.at, extents_by_off);
    return ok;
}

void extents_fini(struct extents *x)
{
    zf_vec_fini(&x->at);
    zf_auto_out(&x->names);
}
