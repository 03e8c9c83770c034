/* SPDX-License-Identifier: Apache-2.0 */
/* .metadata does not say which items consist of several tensors, and opening all items would make
 * mounting slow.  But torch.save adds about the same number of bytes to every plain tensor, while a
 * composed item is shorter than the data of its tensor would be, or much longer.  So only items of an
 * unusual length are opened; if one turns out to be plain, its length counts as usual from then on
 * (a larger alignment).  A composed item of the usual length, which only a tensor of a few hundred
 * elements can have, answers EIO when it is read (items.c).
 * The parts of the others are joined as zf/assemble/composed.h says. */
#include "placing.h"

#include <stdlib.h>

#include <zf/assemble/composed.h>
#include <zf/base/num.h>

#include "items.h"

#define LOOKS_MAX 65536 /* items opened while mounting */

static bool composed_open(struct dcp_placing *p, const struct dcp_chunk *c, struct dcp_look *look,
                          struct zf_err *err)
{
    return dcp_look_init(look, p->file[c->item.file], c->item, p->lim->inflate_bytes, p->lim, err);
}

/* Must the item be opened to know whether it is a plain tensor of data_len bytes?  All plain items are
 * longer than their data by about the same number of bytes. */
static bool composed_is_odd(const struct dcp_chunk *c, enum zf_dtype dtype, uint64_t data_len,
                            const struct dcp_usual *usual)
{
    if (c->item.wrap != ZF_DCP_PLAIN || usual->n_looks >= LOOKS_MAX)
        return false; /* compressed: its length says nothing */
    return zf_dtype_info(dtype)->kind == 'q' || c->item.len < data_len ||
           c->item.len - data_len < usual->least || c->item.len - data_len > usual->most;
}

/* Opens the item of chunk c: does it consist of several tensors?  If not, adds its length to *usual. */
static bool composed_is(struct dcp_placing *p, const struct dcp_chunk *c, uint64_t data_len,
                        struct dcp_usual *usual, bool *out, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;
    struct zf_err ignored;

    usual->n_looks++;
    if (!composed_open(p, c, &look, err))
        return false;
    zf_err_clear(&ignored);
    *out = look.torch && zf_torch_kind(look.torch, zf_torch_root(look.torch)) == ZF_TORCH_PARTS &&
           !dcp_look_tensor(&look, &t, &ignored);
    if (!*out && c->item.len >= data_len) {
        uint64_t added = c->item.len - data_len;

        usual->least = added < usual->least ? added : usual->least;
        usual->most = added > usual->most ? added : usual->most;
    }
    return true;
}

/* Opens the item of a chunk without elements, and checks that it has none either.  Not used for composed
 * items. */
static bool composed_check_empty(struct dcp_placing *p, const struct dcp_chunk *c,
                                 struct dcp_usual *usual, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;
    uint64_t n = 0;

    if (usual->n_looks >= LOOKS_MAX || c->item.wrap == ZF_DCP_OTHER)
        return true;
    usual->n_looks++;
    if (!composed_open(p, c, &look, err))
        return false;
    if (!look.torch) {
        n = look.body->size;
    } else if (zf_torch_kind(look.torch, zf_torch_root(look.torch)) == ZF_TORCH_DENSE) {
        if (!zf_torch_tensor(look.torch, zf_torch_root(look.torch), &t, err))
            return false;
        n = zf_elems(t.ndim, t.shape, &n) ? n : 1;
    }
    return n == 0 ||
           zf_fail(err, ZF_E_FORMAT, c->item.off,
                   "the item of \"%.100s\" holds data, but by .metadata the tensor is empty",
                   p->d->key.at[c->key].name);
}

bool dcp_composed_find(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                       struct dcp_usual *usual, struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &p->d->chunk.at[order[i]];
        struct dcp_key *k = &p->d->key.at[c->key];
        uint64_t len;

        if (c->lost || k->is_bytes || k->composed || k->doubtful)
            continue;
        if (c->empty) {
            if (!composed_check_empty(p, c, usual, err)) {
                k->doubtful = true;
                if (!dcp_mark_lost(p, c, err))
                    return false;
            }
            continue;
        }
        len = dcp_data_len(p->d, c);
        bool composed = false;
        if (composed_is_odd(c, k->dtype, len, usual) &&
            !composed_is(p, c, len, usual, &composed, err) && !dcp_mark_lost(p, c, err))
            return false;
        k->composed = composed;
    }
    return true;
}

/* A composed tensor that is being joined, chunk by chunk. */
struct composed_joining {
    struct dcp_placing *p;
    const struct dcp_key *key;
    struct zf_composed of;
    struct zf_out attrs;
    const struct dcp_chunk *at; /* the current chunk */
};

static const char *composed_file(const struct composed_joining *j, const struct dcp_chunk *c)
{
    return c->item.file == ZF_DCP_NONE ? ".metadata" : j->p->d->file.at[c->item.file].path;
}

static bool composed_note_part(void *ctx, const char *name, const struct zf_torch_tensor *t,
                               struct zf_number number, struct zf_err *err)
{
    (void)number;
    (void)err;
    if (t)
        zf_composed_note_part(ctx, name, t->ndim);
    return true;
}

static bool composed_put_part(void *ctx, const char *name, const struct zf_torch_tensor *t,
                              struct zf_number number, struct zf_err *err)
{
    struct zf_from from;

    if (!t)
        return zf_composed_put_number(ctx, name, number, err);
    const struct zf_type type = {t->dtype, t->ndim, t->shape};
    return dcp_from(t, &from, err) && zf_composed_put(ctx, name, type, from, err);
}

static bool composed_join_chunk(struct composed_joining *j, const struct dcp_chunk *c, bool first,
                                struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};

    j->at = c;
    if (c->lost) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a chunk of \"%.120s\", which consists of several tensors, is missing",
                       j->key->name);
    }
    if (!composed_open(j->p, c, &look, err) ||
        !zf_composed_chunk(&j->of, composed_file(j, c), c->box, c->box + j->key->ndim, err))
        return false;
    const struct zf_pv *root = look.torch ? zf_torch_root(look.torch) : NULL;
    if (!root || zf_torch_kind(look.torch, root) != ZF_TORCH_PARTS)
        return zf_composed_is_plain(&j->of, err);
    if (first && !zf_composed_each(look.torch, root, &j->attrs, composed_note_part, &j->of, err))
        return false;
    zf_out_cut(&j->attrs, 0);
    return zf_composed_each(look.torch, root, &j->attrs, composed_put_part, &j->of, err) &&
           zf_composed_note(j->p->b, composed_file(j, c), zf_out_text(&j->attrs), err);
}

/* Adds all parts of a composed tensor at `spot`, or none. */
static bool composed_join_at(struct composed_joining *j, struct zf_spot spot, const uint32_t *chunk,
                             uint64_t n, struct zf_err *err)
{
    bool ok = true;

    if (!zf_composed_begin(&j->of, spot, err))
        return false;
    for (uint64_t i = 0; ok && i < n; i++)
        ok = composed_join_chunk(j, &j->p->d->chunk.at[chunk[i]], i == 0, err);
    return zf_composed_end(&j->of, ok, err);
}

/* Adds one composed tensor: chunk [n] are all of its key. */
static bool composed_join(struct dcp_placing *p, const uint32_t *chunk, uint64_t n,
                          struct zf_err *err)
{
    const struct dcp_chunk *c = &p->d->chunk.at[chunk[0]];
    const struct dcp_key *k = &p->d->key.at[c->key];
    struct composed_joining j = {
        .p = p,
        .key = k,
        .of = {.b = p->b, .name = k->name, .ndim = k->ndim, .shape = k->shape, .whole = n == 1}};
    struct zf_path path;
    struct zf_spot spot;

    if (!dcp_path(p->d, k, &p->room, &path, err) || !zf_names_place(p->names, path, &spot, err))
        return false;
    for (uint32_t d = 0; d < k->ndim; d++)
        j.of.whole = j.of.whole && c->box[k->ndim + d] == k->shape[d];
    bool ok = composed_join_at(&j, spot, chunk, n, err);
    if (j.of.taken) {
        zf_err_clear(err);
        ok = dcp_path(p->d, k, &p->room, &path, err) &&
             zf_names_extra(p->names, path, &spot, err) &&
             composed_join_at(&j, spot, chunk, n, err);
    }
    if (!ok) {
        zf_err_in(err, "%s", composed_file(&j, j.at ? j.at : c));
        ok = zf_composed_forgive(&j.of, err);
    }
    zf_composed_fini(&j.of);
    zf_auto_out(&j.attrs);
    return ok;
}

/* For qsort_r: by key, then by number. */
static int composed_by_key(const void *a, const void *b, void *ctx)
{
    const struct dcp_chunk *chunk = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (chunk[x].key != chunk[y].key)
        return chunk[x].key < chunk[y].key ? -1 : 1;
    return x < y ? -1 : x > y;
}

bool dcp_composed_put(struct dcp_placing *p, uint32_t *order, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    uint64_t n = 0, end;

    for (uint32_t i = 0; i < d->chunk.n; i++)
        if (d->key.at[d->chunk.at[i].key].composed && !d->key.at[d->chunk.at[i].key].doubtful)
            order[n++] = i;
    qsort_r(order, n, sizeof *order, composed_by_key, d->chunk.at);
    for (uint64_t i = 0; i < n; i = end) {
        const struct dcp_chunk *c = &d->chunk.at[order[i]];

        for (end = i + 1; end < n && d->chunk.at[order[end]].key == c->key; end++) {
        }
        if (!composed_join(p, order + i, end - i, err) && !zf_forgive(p->b, err))
            return false;
    }
    return true;
}
