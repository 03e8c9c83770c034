/* SPDX-License-Identifier: Apache-2.0 */
/* The path of a tensor in the tree is known only after all files were seen, so the descriptions of
 * tensors must outlive the reading of the files.  Keeping the pickles of a thousand ranks would take
 * several kilobytes per tensor.  Here a part takes about two hundred bytes, because ranks describe a
 * tensor almost identically: type, shape, mesh and list of shards are stored once, and shared by
 * files that repeat them. */
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/composed.h>

void parts_fini(struct parts_kept *p)
{
    zf_keeper_fini(&p->keep);
    HASH_CLEAR(hh, p->keys); /* what is in it is the arena's */
    zf_auto_out(&p->spelt);
}

/* ---- paths ---- */

static bool parts_spell(struct parts_kept *p, struct zf_path path, struct zf_err *err)
{
    zf_out_cut(&p->spelt, 0);
    for (uint32_t i = 0; i < path.n; i++) {
        zf_out_le64(&p->spelt, path.step[i].n);
        zf_out_add(&p->spelt, path.step[i].p, path.step[i].n);
        zf_out_u8(&p->spelt, 0);
    }
    return zf_out_ok(&p->spelt, err);
}

/* A copy of the path, with texts that point into its key. */
static bool parts_keep_path(struct zf_arena *a, struct zf_path path, const char *spelt,
                            struct zf_path *out, struct zf_err *err)
{
    struct zf_step *step = zf_arena_get(a, path.n, sizeof *step, err);

    for (uint32_t i = 0; step && i < path.n; i++) {
        step[i] = path.step[i];
        step[i].p = spelt + sizeof(uint64_t);
        spelt = step[i].p + step[i].n + 1;
    }
    *out = (struct zf_path){.step = step, .n = path.n};
    return step != NULL;
}

static struct part_key *parts_key(struct parts_kept *p, struct zf_path path, struct zf_err *err)
{
    struct zf_arena *a = p->keep.arena;

    if (!parts_spell(p, path, err))
        return NULL;
    struct part_key *key = zf_table_find(p->keys, zf_out_text(&p->spelt), p->spelt.n);
    if (key)
        return key;
    const char *spelt = zf_arena_str(a, zf_out_text(&p->spelt), p->spelt.n, err);
    key = spelt ? zf_arena_get(a, 1, sizeof *key, err) : NULL;
    return key && parts_keep_path(a, path, spelt, &key->path, err) &&
                   zf_table_add(p->keys, spelt, p->spelt.n, key, err)
               ? key
               : NULL;
}

/* ---- stored descriptions ---- */

static bool parts_equal(const uint64_t *a, const uint64_t *b, uint64_t n)
{
    return a == b || n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

/* A copy of v[n], or `like` if that is equal. */
static const uint64_t *parts_keep(struct parts_kept *p, const uint64_t *v, uint64_t n,
                                  const uint64_t *like, struct zf_err *err)
{
    if (like && parts_equal(v, like, n))
        return like;
    return zf_arena_copy(p->keep.arena, v, n, sizeof *v, err);
}

/* Stores a reference to a tensor; like: one whose shape and strides it may share, or NULL. */
static bool parts_keep_ref(struct parts_kept *p, const struct zf_torch_tensor *t,
                           const struct zf_tensor_ref *like, struct zf_tensor_ref *out,
                           struct zf_err *err)
{
    if (!zf_tensor_ref_of(t, out, err))
        return false;
    like = like && like->ndim == out->ndim ? like : NULL;
    out->key = "";
    out->shape = parts_keep(p, t->shape, t->ndim, like ? like->shape : NULL, err);
    out->stride =
        out->shape ? parts_keep(p, t->stride, t->ndim, like ? like->stride : NULL, err) : NULL;
    return out->stride && zf_keeper_hold(&p->keep, out->src, err);
}

static bool parts_read_ref(struct parts_kept *p, struct part_key *key, struct zf_torch *t,
                           const struct zf_pv *v, struct zf_tensor_ref *out, struct zf_err *err)
{
    struct zf_torch_tensor x;

    if (!zf_torch_tensor(t, v, &x, err) || !parts_keep_ref(p, &x, key->ref, out, err))
        return false;
    key->ref = out;
    return true;
}

/* Reads the rank's local tensor, which must have the dtype of the whole. */
static bool parts_read_local(struct parts_kept *p, const struct part *part, struct zf_torch *t,
                             const struct zf_pv *v, struct zf_type whole, struct zf_tensor_ref *out,
                             struct zf_err *err)
{
    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE)
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "the rank's part is not a plain tensor");
    if (!parts_read_ref(p, part->key, t, v, out, err))
        return false;
    return (out->dtype == whole.dtype && out->ndim == whole.ndim) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the rank's part is %s of %" PRIu32
                   " dimensions, but the whole tensor is %s of %" PRIu32,
                   zf_dtype_info(out->dtype)->torch, out->ndim, zf_dtype_info(whole.dtype)->torch,
                   whole.ndim);
}

static struct zf_tensor_ref *parts_refs(struct parts_kept *p, struct part *part, uint64_t n,
                                        struct zf_err *err)
{
    struct zf_tensor_ref *ref = zf_arena_get(p->keep.arena, n, sizeof *ref, err);

    part->ref = ref;
    part->n = (uint32_t)n;
    return ref;
}

/* ---- DTensors ---- */

const char *parts_describe(struct zf_type t, char *out, size_t n)
{
    int at = snprintf(out, n, "%s [", zf_dtype_info(t.dtype)->torch);

    for (uint32_t i = 0; i <= t.ndim && at > 0 && (size_t)at < n; i++) {
        at += i == t.ndim
                  ? snprintf(out + at, n - (size_t)at, "]")
                  : snprintf(out + at, n - (size_t)at, "%s%" PRIu64, i ? ", " : "", t.shape[i]);
    }
    return out;
}

const char *parts_describe_mesh(const struct zf_dtensor *dt, char *out, size_t n)
{
    static const char *const word[] = {"Replicate", "Shard", "_StridedShard", "Partial"};
    int at = 0;

    for (uint32_t i = 0; i < dt->n_axes && at >= 0 && (size_t)at < n; i++)
        at += snprintf(out + at, n - (size_t)at, "%s%" PRIu64, i ? " x " : "", dt->axis[i].size);
    for (uint32_t i = 0; i < dt->n_axes && at >= 0 && (size_t)at < n; i++) {
        const struct zf_mesh_axis *a = &dt->axis[i];
        bool cut = a->place == ZF_PLACEMENT_SHARD || a->place == ZF_PLACEMENT_STRIDED;

        at += snprintf(out + at, n - (size_t)at, cut ? "%s%s(%" PRIu32 ")" : "%s%s",
                       i ? ", " : " (", word[a->place], a->dim);
    }
    if (at >= 0 && (size_t)at < n)
        (void)snprintf(out + at, n - (size_t)at, ")");
    return out;
}

bool parts_same_mesh(const struct zf_dtensor *a, const struct zf_dtensor *b)
{
    if (a->n_axes != b->n_axes)
        return false;
    for (uint32_t i = 0; i < a->n_axes; i++) {
        const struct zf_mesh_axis *x = &a->axis[i], *y = &b->axis[i];
        bool cut = x->place == ZF_PLACEMENT_SHARD || x->place == ZF_PLACEMENT_STRIDED;

        if (x->size != y->size || x->place != y->place || (cut && x->dim != y->dim) ||
            (x->place == ZF_PLACEMENT_STRIDED && x->split_factor != y->split_factor))
            return false;
    }
    return true;
}

static bool parts_same_dtensor(const struct zf_dtensor *a, const struct zf_dtensor *b)
{
    return a && a->dtype == b->dtype && a->ndim == b->ndim && a->n_ranks == b->n_ranks &&
           parts_equal(a->shape, b->shape, a->ndim) && parts_same_mesh(a, b);
}

static const struct zf_dtensor *parts_keep_dtensor(struct parts_kept *p,
                                                   const struct zf_dtensor *dt, struct zf_err *err)
{
    struct zf_dtensor *copy = zf_arena_get(p->keep.arena, 1, sizeof *copy, err);
    struct zf_mesh_axis *axis = zf_arena_get(p->keep.arena, dt->n_axes, sizeof *axis, err);

    if (!copy || !axis)
        return NULL;
    for (uint32_t i = 0; i < dt->n_axes; i++) {
        axis[i] = dt->axis[i];
        axis[i].coord = 0;
    }
    *copy = (struct zf_dtensor){.dtype = dt->dtype,
                                .ndim = dt->ndim,
                                .shape = parts_keep(p, dt->shape, dt->ndim, NULL, err),
                                .n_axes = dt->n_axes,
                                .axis = axis,
                                .n_ranks = dt->n_ranks};
    return copy->shape ? copy : NULL;
}

/* The reading of the tensors that a local tensor is composed of. */
struct parts_reading {
    struct parts_kept *kept;
    struct part_piece *first, *last;
};

static bool parts_read_piece(void *ctx, const char *name, const struct zf_torch_tensor *t,
                             struct zf_number number, struct zf_err *err)
{
    struct parts_reading *r = ctx;
    struct zf_arena *a = r->kept->keep.arena;
    struct part_piece *piece = zf_arena_get(a, 1, sizeof *piece, err);

    if (!piece)
        return false;
    *piece = (struct part_piece){
        .name = zf_arena_str(a, name, strlen(name), err), .is_number = !t, .number = number};
    if (!piece->name || (t && !parts_keep_ref(r->kept, t, NULL, &piece->ref, err)))
        return false;
    *(r->last ? &r->last->next : &r->first) = piece;
    r->last = piece;
    return true;
}

static bool parts_read_dtensor(struct parts_kept *p, struct part *part, struct zf_torch *t,
                               const struct zf_pv *v, struct zf_err *err)
{
    struct part_key *key = part->key;
    struct zf_dtensor dt;

    if (!zf_torch_dtensor(t, v, &dt, err))
        return false;
    if (!parts_same_dtensor(key->dt, &dt) && !(key->dt = parts_keep_dtensor(p, &dt, err)))
        return false;
    part->dt = key->dt;
    if (!dt.has_coord)
        return true;
    uint64_t *coord = zf_arena_get(p->keep.arena, dt.n_axes, sizeof *coord, err);

    for (uint32_t i = 0; coord && i < dt.n_axes; i++)
        coord[i] = dt.axis[i].coord;
    part->coord = coord;
    if (coord && zf_torch_kind(t, dt.local) == ZF_TORCH_PARTS) {
        struct parts_reading r = {.kept = p};

        key->composed = true;
        zf_out_cut(&p->spelt, 0);
        bool ok = zf_composed_each(t, dt.local, &p->spelt, parts_read_piece, &r, err);

        if (ok && !key->attrs) {
            key->attrs = zf_arena_str(p->keep.arena, zf_out_text(&p->spelt), p->spelt.n, err);
            ok = key->attrs != NULL;
        }
        part->piece = r.first;
        return ok && (r.first || zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                                         "the rank's part consists of no tensors"));
    }
    struct zf_tensor_ref *ref = coord ? parts_refs(p, part, 1, err) : NULL;

    return ref && parts_read_local(p, part, t, dt.local,
                                   (struct zf_type){dt.dtype, dt.ndim, dt.shape}, ref, err);
}

/* ---- ShardedTensors ---- */

static bool parts_same_sharded(const struct zf_sharded *a, const struct zf_sharded *b)
{
    bool same = a && a->dtype == b->dtype && a->ndim == b->ndim && a->world == b->world &&
                a->n_all == b->n_all && parts_equal(a->shape, b->shape, a->ndim);

    for (uint64_t i = 0; same && i < a->n_all; i++) {
        same = parts_equal(a->all[i].off, b->all[i].off, a->ndim) &&
               parts_equal(a->all[i].size, b->all[i].size, a->ndim);
    }
    return same;
}

static const struct zf_shard *parts_keep_shards(struct parts_kept *p, const struct zf_shard *shard,
                                                uint64_t n, uint32_t ndim, struct zf_err *err)
{
    struct zf_shard *copy = zf_arena_get(p->keep.arena, n, sizeof *copy, err);

    for (uint64_t i = 0; copy && i < n; i++) {
        copy[i].off = parts_keep(p, shard[i].off, ndim, NULL, err);
        copy[i].size = copy[i].off ? parts_keep(p, shard[i].size, ndim, NULL, err) : NULL;
        if (!copy[i].size)
            return NULL;
    }
    return copy;
}

static const struct zf_sharded *parts_keep_sharded(struct parts_kept *p,
                                                   const struct zf_sharded *st, struct zf_err *err)
{
    struct zf_sharded *copy = zf_arena_get(p->keep.arena, 1, sizeof *copy, err);

    if (!copy)
        return NULL;
    *copy = *st;
    copy->local = NULL;
    copy->n_local = 0;
    copy->shape = parts_keep(p, st->shape, st->ndim, NULL, err);
    copy->all = copy->shape ? parts_keep_shards(p, st->all, st->n_all, st->ndim, err) : NULL;
    return copy->all ? copy : NULL;
}

static bool parts_read_sharded(struct parts_kept *p, struct part *part, struct zf_torch *t,
                               const struct zf_pv *v, struct zf_err *err)
{
    struct part_key *key = part->key;
    struct zf_sharded s;

    if (!zf_torch_sharded(t, v, &s, err))
        return false;
    if (!parts_same_sharded(key->st, &s) && !(key->st = parts_keep_sharded(p, &s, err)))
        return false;
    part->st = key->st;
    part->shard = parts_keep_shards(p, s.local, s.n_local, s.ndim, err);
    struct zf_tensor_ref *ref = part->shard ? parts_refs(p, part, s.n_local, err) : NULL;
    const struct zf_type whole = {s.dtype, s.ndim, s.shape};

    for (uint64_t i = 0; ref && i < s.n_local; i++) {
        if (!parts_read_local(p, part, t, s.local[i].tensor, whole, &ref[i], err))
            return false;
        if (!parts_equal(ref[i].shape, s.local[i].size, s.ndim)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "shard %" PRIu64 " does not have the shape in its metadata", i);
        }
    }
    return ref != NULL;
}

/* ---- all ---- */

static bool parts_read_kind(struct parts_kept *p, struct part *part, struct zf_torch *t,
                            const struct zf_pv *v, struct zf_err *err)
{
    switch (part->kind) {
    case ZF_TORCH_DTENSOR:
        return parts_read_dtensor(p, part, t, v, err);
    case ZF_TORCH_SHARDED:
        return parts_read_sharded(p, part, t, v, err);
    default:
        break;
    }
    struct zf_tensor_ref *ref = parts_refs(p, part, 1, err);

    return ref && parts_read_ref(p, part->key, t, v, ref, err);
}

/* A stored copy of the failure. */
static const struct zf_err *parts_keep_why(struct parts_kept *p, struct zf_err *err)
{
    return err->code == ZF_E_NOMEM ? NULL : zf_arena_copy(p->keep.arena, err, 1, sizeof *err, err);
}

struct part *parts_read(struct parts_kept *p, struct zf_torch *t, const struct zf_leaf *leaf,
                        const char *file, struct zf_err *err)
{
    struct part_key *key = parts_key(p, leaf->path, err);
    struct part *part = key ? zf_arena_get(p->keep.arena, 1, sizeof *part, err) : NULL;

    if (!part)
        return NULL;
    *part = (struct part){.key = key, .kind = leaf->kind};
    if (parts_read_kind(p, part, t, leaf->value, err))
        return part;
    const struct zf_err *why = parts_keep_why(p, err);

    if (!why)
        return NULL;
    zf_err_clear(err);
    *part = (struct part){.key = key, .why = why};
    if (!key->odd && why->code == ZF_E_UNSUPPORTED) {
        key->odd = why;
        key->odd_file = file;
    }
    return part;
}

struct part_key *parts_add_odd(struct parts_kept *p, struct zf_torch *t, const struct zf_leaf *leaf,
                               const char *file, struct zf_err *err)
{
    struct part_key *key = parts_key(p, leaf->path, err);
    struct zf_torch_tensor ignored;

    if (!key || key->odd)
        return key;
    if (leaf->kind == ZF_TORCH_META || zf_torch_tensor(t, leaf->value, &ignored, err))
        (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "saved without data (meta device)");
    key->odd = parts_keep_why(p, err);
    key->odd_file = file;
    if (!key->odd)
        return NULL;
    zf_err_clear(err);
    return key;
}
