/* SPDX-License-Identifier: Apache-2.0 */
/* Which items are several tensors cannot be read from .metadata, and opening all items would make
 * mounting slow.  But torch.save adds about the same number of bytes to every plain tensor, while an
 * item of several is shorter than the data of its tensor would be, or longer by much.  So only items
 * of an odd length are opened; where such a one turns out to be plain, its length is odd no longer
 * (a larger alignment).  A composed item of the usual length, which only a tensor of a few hundred
 * elements can have, answers EIO when it is read (items.c).
 *
 * The parts of a chunk become tensors <name>.<part>.  A tensor of several chunks is joined part by
 * part, which is possible where chunk and part are cut along the same rows.  An optimizer's state in 8
 * or 4 bits (codes, scale[, qmap]) is quantized in blocks that end where a rank's rows do: scales, and
 * codes of 4 bits, stand one behind the other as the rows do, and the table is the same in all ranks.
 * Source: torchao/optim/subclass_8bit.py, subclass_4bit.py, subclass_fp8.py (0.18; 0.4 … 0.17 in
 * torchao/prototype/low_bit_optim). */
#include "composed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/base/out.h>

#include "items.h"

#define LOOKS_MAX 65536 /* items opened while mounting */
#define DEPTH_MAX 4     /* subclasses of subclasses */
#define TABLE_MAX 4096  /* values of a table that all ranks repeat */

static bool composed_open(struct dcp_placing *p, const struct dcp_chunk *c, struct dcp_look *look,
                          struct zf_err *err)
{
    return dcp_look_init(look, p->file[c->item.file], c->item, p->lim->inflate_bytes, p->lim, err);
}

/* Must the item of data_len bytes be opened to know whether it is a plain tensor's?  A plain item is a
 * little longer than its data, by about as much as the others. */
static bool composed_is_odd(const struct dcp_chunk *c, enum zf_dtype dtype, uint64_t data_len,
                            const struct dcp_usual *usual)
{
    if (c->item.wrap != ZF_DCP_PLAIN || usual->n_looks >= LOOKS_MAX) {
        return false; /* compressed: its length says nothing */
    }
    return zf_dtype_info(dtype)->kind == 'q' || c->item.len < data_len ||
           c->item.len - data_len < usual->least || c->item.len - data_len > usual->most;
}

/* Opens the item of chunk c: is it several tensors?  If not, *usual learns its length. */
static bool composed_is(struct dcp_placing *p, const struct dcp_chunk *c, uint64_t data_len,
                        struct dcp_usual *usual, bool *out, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;
    struct zf_err ignored;

    usual->n_looks++;
    if (!composed_open(p, c, &look, err)) {
        return false;
    }
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

/* Opens the item of a chunk that has no elements: does it hold none either?  Not asked of composed
 * items. */
static bool composed_check_empty(struct dcp_placing *p, const struct dcp_chunk *c,
                                 struct dcp_usual *usual, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_torch_tensor t;
    uint64_t n = 0;

    if (usual->n_looks >= LOOKS_MAX || c->item.wrap == ZF_DCP_OTHER) {
        return true;
    }
    usual->n_looks++;
    if (!composed_open(p, c, &look, err)) {
        return false;
    }
    if (!look.torch) {
        n = look.body->size;
    } else if (zf_torch_kind(look.torch, zf_torch_root(look.torch)) == ZF_TORCH_DENSE) {
        if (!zf_torch_tensor(look.torch, zf_torch_root(look.torch), &t, err)) {
            return false;
        }
        n = zf_elems(t.ndim, t.shape, &n) ? n : 1;
    }
    return n == 0 || zf_fail(err, ZF_E_FORMAT, c->item.off,
                             "the item of \"%.100s\" holds data, .metadata says that the tensor "
                             "has no elements",
                             p->d->key.at[c->key].name);
}

bool dcp_composed_find(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                       struct dcp_usual *usual, struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &p->d->chunk.at[order[i]];
        struct dcp_key *k = &p->d->key.at[c->key];
        uint64_t len;

        if (c->lost || k->is_bytes || k->composed || k->doubtful) {
            continue;
        }
        if (c->empty) {
            if (!composed_check_empty(p, c, usual, err)) {
                k->doubtful = true;
                if (!dcp_lose(p, c, err)) {
                    return false;
                }
            }
            continue;
        }
        len = dcp_data_len(p->d, c);
        bool composed = false;
        if (composed_is_odd(c, k->dtype, len, usual) &&
            !composed_is(p, c, len, usual, &composed, err) && !dcp_lose(p, c, err)) {
            return false;
        }
        k->composed = composed;
    }
    return true;
}

/* One composed tensor, chunk by chunk. */
struct composed_joining {
    struct dcp_placing *p;
    const struct dcp_key *key;
    struct zf_spot spot;
    struct zf_torch *torch;
    const uint64_t *start, *size; /* of the chunk */
    bool whole;                   /* one chunk is the tensor */
    bool first;                   /* of its chunks: this one makes the drafts */
    bool taken;                   /* a part has the name of another tensor */
    bool blocks;                  /* quantized in blocks: it has codes and scale */
    bool apart;                   /* the failure is that its chunks are not one tensor */
    char *table;                  /* the first chunk's qmap, table_n bytes */
    uint64_t table_n;
    const struct dcp_chunk *from, *at; /* the first chunk, and that at hand */
    const char *part;                  /* its own name */
    struct zf_out name;                /* of the part at hand, behind the tensor's name */
    uint32_t depth, n_parts;
};

/* Are all chunks rows of the tensor? */
static bool composed_is_rows(const struct composed_joining *j)
{
    for (uint32_t d = 1; d < j->key->ndim; d++) {
        if (j->size[d] != j->key->shape[d]) {
            return false;
        }
    }
    return j->key->ndim > 0;
}

static const char *composed_file(const struct composed_joining *j, const struct dcp_chunk *c)
{
    return c->item.file == ZF_DCP_NONE ? ".metadata" : j->p->d->file.at[c->item.file].path;
}

static bool composed_part_is(const struct composed_joining *j, const char *name)
{
    return j->blocks && strcmp(j->part, name) == 0;
}

/* A table that all chunks repeat: there once, *out says that it is there already. */
static bool composed_same_table(struct composed_joining *j, const struct zf_torch_tensor *t,
                                bool *out, struct zf_err *err)
{
    uint64_t n = 0, size = zf_dtype_info(t->dtype)->bytes;
    struct zf_from from;

    if (!zf_elems(t->ndim, t->shape, &n) || n > TABLE_MAX || !dcp_from(t, &from, err) ||
        from.stride) {
        j->apart = true;
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "its table \"%.80s\" is no table",
                       j->name.p);
    }
    zf_auto(mem) char *bytes = zf_source_slurp(from.src, from.off, n * size, err);
    if (!bytes) {
        return false;
    }
    *out = !j->first;
    if (j->first) {
        free(j->table);
        j->table = zf_give(bytes);
        j->table_n = n * size;
        return true;
    }
    j->apart = !j->table || j->table_n != n * size || memcmp(j->table, bytes, n * size) != 0;
    return !j->apart ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.120s\" is another one in %.100s", j->name.p,
                   composed_file(j, j->from));
}

/* Rows of the tensor are `have` elements in this chunk: how many in the whole, and where these begin. */
static bool composed_flat(struct composed_joining *j, uint64_t have, uint64_t *whole,
                          uint64_t *start, struct zf_err *err)
{
    uint64_t rows = j->size[0], all, before;

    j->apart = !composed_is_rows(j) || rows == 0 ||
               __builtin_mul_overflow(have, j->key->shape[0], &all) ||
               __builtin_mul_overflow(have, j->start[0], &before) || all % rows || before % rows;
    if (j->apart) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "\"%.100s\" is a tensor made of others, cut in chunks; the %llu elements of "
                       "its part \"%.60s\" are no rows of it",
                       j->key->name, (unsigned long long)have, j->name.p);
    }
    *whole = all / rows;
    *start = before / rows;
    return true;
}

/* Where a part of one of several chunks is in the part's whole: shape and start are changed. */
static bool composed_place(struct composed_joining *j, const struct zf_torch_tensor *t,
                           uint64_t *shape, uint64_t *start, struct zf_err *err)
{
    bool codes = composed_part_is(j, "codes") && t->ndim == 1 && j->key->ndim != 1;

    if (t->ndim == 1 && (codes || composed_part_is(j, "scale"))) {
        return composed_flat(j, t->shape[0], &shape[0], &start[0], err);
    }
    if (!composed_is_rows(j) || t->ndim == 0 || t->shape[0] != j->size[0]) {
        if (composed_part_is(j, "codes") && t->ndim == 1) {
            return composed_flat(j, t->shape[0], &shape[0], &start[0], err);
        }
        j->apart = true;
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "\"%.100s\" is a tensor made of others, cut in chunks; its part \"%.60s\" "
                       "is not cut along the same rows",
                       j->key->name, j->name.p);
    }
    shape[0] = j->key->shape[0];
    start[0] = j->start[0];
    return true;
}

/* Part t of a chunk: the same rows of the part's whole. */
static bool composed_join_part(struct composed_joining *j, const struct zf_torch_tensor *t,
                               struct zf_err *err)
{
    struct zf_build *b = j->p->b;
    uint64_t shape[64], start[64] = {0}, n;
    const struct zf_spot spot = {j->spot.set, j->name.p, j->name.n};
    const struct zf_type type = {t->dtype, t->ndim, shape};
    bool once = false;
    struct zf_draft *draft;
    struct zf_from from;

    if (t->ndim > sizeof shape / sizeof *shape) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "part \"%.80s\" has %u dimensions", j->name.p,
                       t->ndim);
    }
    memcpy(shape, t->shape, t->ndim * sizeof *shape);
    if (!j->whole && composed_part_is(j, "qmap")) {
        if (!composed_same_table(j, t, &once, err)) {
            return false;
        }
    } else if (!j->whole && !composed_place(j, t, shape, start, err)) {
        return false;
    }
    if (!zf_elems(t->ndim, t->shape, &n)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "part \"%.80s\" is too large", j->name.p);
    }
    draft = zf_build_find(b, spot);
    if (j->first) {
        j->taken = draft != NULL;
        draft = zf_build_tensor(b, spot, type, err);
    } else if (!draft || !zf_type_equal(zf_draft_type(draft), type)) {
        j->apart = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "part \"%.120s\" differs from that in %.100s",
                       j->name.p, composed_file(j, j->from));
    }
    if (!draft || n == 0 || once) {
        return draft != NULL;
    }
    return dcp_from(t, &from, err) && zf_draft_box(draft, start, t->shape, from, err);
}

/* For each part of the first chunk: is it one of a state that is quantized in blocks? */
static bool composed_see_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    bool *has = ctx;

    (void)err;
    has[0] = has[0] || (part->tensor && strcmp(part->name, "codes") == 0);
    has[1] =
        has[1] || (part->tensor && strcmp(part->name, "scale") == 0 && part->tensor->ndim == 1);
    return true;
}

static bool composed_join_one(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct composed_joining *j = ctx;
    size_t before = j->name.n;
    bool ok = true;

    j->part = part->name;
    zf_out_str(&j->name, ".");
    zf_out_str(&j->name, part->name);
    if (!zf_out_ok(&j->name, err)) {
        return false;
    }
    if (part->tensor) {
        j->n_parts++;
        ok = composed_join_part(j, part->tensor, err);
    } else if (part->value && j->depth < DEPTH_MAX &&
               zf_torch_kind(j->torch, part->value) == ZF_TORCH_PARTS) {
        j->depth++;
        ok = zf_torch_parts(j->torch, part->value, composed_join_one, j, err);
        j->depth--;
    }
    zf_out_cut(&j->name, before);
    return ok;
}

static bool composed_join_chunks(struct composed_joining *j, const uint32_t *chunk, uint64_t n,
                                 struct zf_err *err)
{
    const struct zf_dcp *d = j->p->d;
    uint32_t n_parts = 0;

    for (uint64_t i = 0; i < n; i++) {
        const struct dcp_chunk *c = &d->chunk.at[chunk[i]];
        zf_auto(dcp_look) struct dcp_look look = {0};

        j->at = c;
        j->from = i == 0 ? c : j->from;
        if (c->lost) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.120s\" is a tensor made of others, and a chunk of it is missing",
                           j->key->name);
        }
        if (!composed_open(j->p, c, &look, err)) {
            return false;
        }
        const struct zf_pv *root = look.torch ? zf_torch_root(look.torch) : NULL;
        j->torch = look.torch;
        j->start = c->box;
        j->size = j->start + j->key->ndim;
        j->first = i == 0;
        j->n_parts = 0;
        j->apart = !root || zf_torch_kind(look.torch, root) != ZF_TORCH_PARTS;
        if (j->apart) {
            return zf_fail(err, ZF_E_FORMAT, c->item.off,
                           "\"%.120s\" is a plain tensor here, one made of others in another chunk",
                           j->key->name);
        }
        if (j->first) {
            bool has[2] = {false, false};

            if (!zf_torch_parts(look.torch, root, composed_see_part, has, err)) {
                return false;
            }
            j->blocks = has[0] && has[1];
        }
        if (!zf_torch_parts(look.torch, root, composed_join_one, j, err)) {
            return false;
        }
        j->apart = i && j->n_parts != n_parts;
        if (j->apart) {
            return zf_fail(err, ZF_E_FORMAT, c->item.off,
                           "\"%.120s\" has %u parts here, %u in another chunk", j->key->name,
                           j->n_parts, n_parts);
        }
        n_parts = j->n_parts;
    }
    return true;
}

/* All parts of a composed tensor at `spot`, or none. */
static bool composed_join_at(struct composed_joining *j, struct zf_spot spot, const uint32_t *chunk,
                             uint64_t n, struct zf_err *err)
{
    if (!zf_build_mark(j->p->b, err)) {
        return false;
    }
    j->spot = spot;
    j->depth = 0;
    zf_out_cut(&j->name, 0);
    zf_out_add(&j->name, spot.name, spot.name_len);
    if (!composed_join_chunks(j, chunk, n, err)) {
        zf_build_undo(j->p->b);
        return false;
    }
    zf_build_keep(j->p->b);
    return true;
}

/* Adds one composed tensor: chunk [n] are all of its key. */
static bool composed_join(struct dcp_placing *p, const uint32_t *chunk, uint64_t n,
                          struct zf_err *err)
{
    const struct dcp_chunk *c = &p->d->chunk.at[chunk[0]];
    const struct dcp_key *k = &p->d->key.at[c->key];
    struct composed_joining j = {.p = p, .key = k, .whole = n == 1};
    char text[800], set[ZF_NAME_MAX + 8];
    struct zf_path path;
    struct zf_spot spot;
    bool ok;

    if (!dcp_path(p->d, k, &p->room, &path, err) || !zf_names_place(p->names, path, &spot, err)) {
        return false;
    }
    (void)snprintf(set, sizeof set, "%s", spot.set);
    for (uint32_t d = 0; d < k->ndim; d++) {
        j.whole = j.whole && c->box[k->ndim + d] == k->shape[d];
    }
    ok = composed_join_at(&j, spot, chunk, n, err);
    if (j.taken) {
        zf_err_clear(err);
        ok = dcp_path(p->d, k, &p->room, &path, err) &&
             zf_names_extra(p->names, path, &spot, err) &&
             composed_join_at(&j, spot, chunk, n, err);
    }
    zf_auto_out(&j.name);
    free(j.table);
    if (!ok) {
        zf_err_in(err, "%s", composed_file(&j, j.at ? j.at : c));
    }
    if (ok || !j.apart || !zf_names_is_optim(spot)) {
        return ok;
    }
    /* A state that cannot be joined costs itself, not the weights. */
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return zf_build_note(p->b, err, "%s/%.200s is left out: %.700s", set, j.key->name, text);
}

/* For qsort_r: by key, then as they came. */
static int composed_by_key(const void *a, const void *b, void *ctx)
{
    const struct dcp_chunk *chunk = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (chunk[x].key != chunk[y].key) {
        return chunk[x].key < chunk[y].key ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

bool dcp_composed_put(struct dcp_placing *p, uint32_t *order, struct zf_err *err)
{
    struct zf_dcp *d = p->d;
    uint64_t n = 0, end;

    for (uint32_t i = 0; i < d->chunk.n; i++) {
        if (d->key.at[d->chunk.at[i].key].composed && !d->key.at[d->chunk.at[i].key].doubtful) {
            order[n++] = i;
        }
    }
    qsort_r(order, n, sizeof *order, composed_by_key, d->chunk.at);
    for (uint64_t i = 0; i < n; i = end) {
        const struct dcp_chunk *c = &d->chunk.at[order[i]];

        for (end = i + 1; end < n && d->chunk.at[order[end]].key == c->key; end++) {
        }
        if (!composed_join(p, order + i, end - i, err) && !zf_forgive(p->b, err)) {
            return false;
        }
    }
    return true;
}
