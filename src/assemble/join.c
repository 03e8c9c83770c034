/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>
#include <zf/codec/dtensor.h>

#include "dtensor_ranges.h"
#include "replicas.h"

/* What the first rank said of a tensor. */
struct join_first {
    uint64_t hash;
    const char *file;
    struct zf_dtensor dt; /* n_axes 0: no DTensor */
    struct zf_sharded st; /* n_all 0: no ShardedTensor */
};

struct zf_join {
    struct zf_build *b;
    struct zf_names *names;
    const struct zf_limits *lim;
    struct zf_arena *arena;
    struct zf_copies *copies;
    const struct zf_place_file *file;
    uint32_t world, rank;
    struct zf_table boxes; /* (tensor, box) that is there already */
    struct zf_table first; /* tensor -> struct join_first */
    uint64_t mesh;         /* the most ranks that a mesh has, 0 = no mesh yet */
    int64_t group;         /* ranks of the process group of ShardedTensors, -1 = none yet */
    const char *mesh_file, *group_file;
};

struct zf_join *zf_join_new(struct zf_build *b, struct zf_names *names, uint32_t world,
                            const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(join) struct zf_join *j = calloc(1, sizeof *j);

    if (!j) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for joining ranks");
        return NULL;
    }
    *j = (struct zf_join){.b = b, .names = names, .lim = lim, .world = world, .group = -1};
    j->arena = zf_arena_new(lim->model_memory, err);
    j->copies = j->arena ? zf_copies_new(b, names, j->arena, err) : NULL;
    if (!j->copies) {
        return NULL;
    }
    struct zf_join *done = j;
    j = NULL;
    return done;
}

void zf_join_free(struct zf_join *j)
{
    if (!j) {
        return;
    }
    zf_copies_free(j->copies);
    zf_table_fini(&j->boxes);
    zf_table_fini(&j->first);
    zf_arena_free(j->arena);
    free(j);
}

void zf_join_file(struct zf_join *j, const struct zf_place_file *f, uint32_t rank)
{
    j->file = f;
    j->rank = rank;
}

/* What the first rank said of the tensor; made empty, for this file, when it is the first. */
static struct join_first *first_of(struct zf_join *j, const struct zf_draft *d, struct zf_err *err)
{
    struct join_first *f = zf_table_put(&j->first, zf_hash_address(d), sizeof *f, err);

    if (f && !f->file) {
        f->file = j->file->path;
    }
    return f;
}

/* "float32 [4, 6]" */
static const char *describe(struct zf_type t, char *out, size_t n)
{
    int at = snprintf(out, n, "%s [", zf_dtype_info(t.dtype)->torch);

    for (uint32_t i = 0; i <= t.ndim && at > 0 && (size_t)at < n; i++) {
        at += i == t.ndim
                  ? snprintf(out + at, n - (size_t)at, "]")
                  : snprintf(out + at, n - (size_t)at, "%s%" PRIu64, i ? ", " : "", t.shape[i]);
    }
    return out;
}

/* "2 x 4 (Shard(0), Replicate)" */
static const char *describe_mesh(const struct zf_dtensor *dt, char *out, size_t n)
{
    static const char *const word[] = {"Replicate", "Shard", "_StridedShard", "Partial"};
    int at = 0;

    for (uint32_t i = 0; i < dt->n_axes && at >= 0 && (size_t)at < n; i++) {
        at += snprintf(out + at, n - (size_t)at, "%s%" PRIu64, i ? " x " : "", dt->axis[i].size);
    }
    for (uint32_t i = 0; i < dt->n_axes && at >= 0 && (size_t)at < n; i++) {
        const struct zf_mesh_axis *a = &dt->axis[i];
        bool cut = a->place == ZF_PLACE_SHARD || a->place == ZF_PLACE_STRIDED;

        at += snprintf(out + at, n - (size_t)at, cut ? "%s%s(%" PRIu32 ")" : "%s%s",
                       i ? ", " : " (", word[a->place], a->dim);
    }
    if (at >= 0 && (size_t)at < n) {
        (void)snprintf(out + at, n - (size_t)at, ")");
    }
    return out;
}

static bool same_mesh(const struct zf_dtensor *a, const struct zf_dtensor *b)
{
    if (a->n_axes != b->n_axes) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_axes; i++) {
        const struct zf_mesh_axis *x = &a->axis[i], *y = &b->axis[i];
        bool cut = x->place == ZF_PLACE_SHARD || x->place == ZF_PLACE_STRIDED;

        if (x->size != y->size || x->place != y->place || (cut && x->dim != y->dim) ||
            (x->place == ZF_PLACE_STRIDED && x->split_factor != y->split_factor)) {
            return false;
        }
    }
    return true;
}

/* All ranks cut a tensor in one way. */
static bool check_mesh(struct zf_join *j, const struct zf_draft *d, const struct zf_dtensor *dt,
                       struct zf_err *err)
{
    struct join_first *f = first_of(j, d, err);
    char here[100], there[100];

    if (!f) {
        return false;
    }
    if (f->dt.n_axes == 0) {
        f->dt = *dt;
        return true;
    }
    return same_mesh(dt, &f->dt) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "its mesh is %s, but %s in \"%.80s\": files of different saves",
                   describe_mesh(dt, here, sizeof here), describe_mesh(&f->dt, there, sizeof there),
                   f->file);
}

/* Every rank lists the shards of all. */
static bool check_shards(struct zf_join *j, const struct zf_draft *d, const struct zf_sharded *s,
                         struct zf_err *err)
{
    struct join_first *f = first_of(j, d, err);

    if (!f) {
        return false;
    }
    if (f->st.n_all == 0) {
        f->st = *s;
        return true;
    }
    if (s->n_all != f->st.n_all) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it is cut in %" PRIu64 " shards, but in %" PRIu64
                       " in \"%.80s\": files of different saves",
                       s->n_all, f->st.n_all, f->file);
    }
    for (uint64_t i = 0; i < s->n_all; i++) {
        const struct zf_shard *x = &s->all[i], *y = &f->st.all[i];

        for (uint32_t k = 0; k < s->ndim; k++) {
            if (x->off[k] != y->off[k] || x->size[k] != y->size[k]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "shard %" PRIu64 " is said to span %" PRIu64 " … %" PRIu64
                               " of dimension %" PRIu32 ", but %" PRIu64 " … %" PRIu64
                               " in \"%.60s\": files of different saves",
                               i, x->off[k], x->off[k] + x->size[k], k, y->off[k],
                               y->off[k] + y->size[k], f->file);
            }
        }
    }
    return true;
}

/* The draft of a tensor, made by the first rank that has a piece of it; the others must agree. */
static struct zf_draft *draft_of(struct zf_join *j, const struct zf_spot *spot, struct zf_type type,
                                 struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(j->b, *spot);

    if (!d) {
        d = zf_build_tensor(j->b, *spot, type, err);
        return d && zf_draft_where(d, j->file->path, err) && first_of(j, d, err) ? d : NULL;
    }
    if (!zf_type_equal(zf_draft_type(d), type)) {
        const struct join_first *f = first_of(j, d, err);
        char here[100], there[100];

        if (f) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "it is %s, but %s in \"%.80s\": files of different saves",
                          describe(type, here, sizeof here),
                          describe(zf_draft_type(d), there, sizeof there), f->file);
        }
        return NULL;
    }
    return d;
}

/* Was this very box of this tensor there before?  Ranks outside an axis of
 * the mesh hold equal copies. */
static bool seen_box(struct zf_join *j, const struct zf_draft *d, const uint64_t *start,
                     const uint64_t *size, uint32_t ndim, bool *seen, struct zf_err *err)
{
    uint64_t hash = zf_hash(zf_hash_address(d), start, ndim * sizeof *start);
    size_t before = j->boxes.index.n;

    hash = zf_hash(hash, size, ndim * sizeof *size);
    if (!zf_table_put(&j->boxes, hash, sizeof hash, err)) {
        return false;
    }
    *seen = j->boxes.index.n == before;
    return true;
}

/* The box [start, start + size) of d is the part of tensor t that begins at `local`. */
static bool add_box(struct zf_draft *d, const struct zf_torch_tensor *t, const uint64_t *start,
                    const uint64_t *size, const uint64_t *local, struct zf_err *err)
{
    uint64_t at = t->off_elems, bytes;

    for (uint32_t k = 0; k < t->ndim; k++) {
        if (!zf_mul_add(local[k], t->stride[k], at, &at)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "a local tensor is larger than 2^64 elements");
        }
    }
    if (!zf_mul(at, zf_dtype_info(t->dtype)->bytes, &bytes)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a local tensor is larger than 2^64 bytes");
    }
    struct zf_from from = {.src = t->storage->src, .off = bytes, .stride = t->stride};
    return zf_draft_box(d, start, size, from, err);
}

/* The rank's own tensor: of the type of the whole, and of these extents. */
static bool local_tensor(struct zf_join *j, const struct zf_pv *v, enum zf_dtype dtype,
                         uint32_t ndim, struct zf_torch_tensor *out, struct zf_err *err)
{
    if (zf_torch_kind(j->file->torch, v) != ZF_TORCH_DENSE) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "the rank's piece is no plain tensor");
    }
    if (!zf_torch_tensor(j->file->torch, v, out, err)) {
        return false;
    }
    if (out->dtype != dtype || out->ndim != ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the rank's piece is %s of %" PRIu32 " dimensions, the whole %s of %" PRIu32,
                       zf_dtype_info(out->dtype)->torch, out->ndim, zf_dtype_info(dtype)->torch,
                       ndim);
    }
    return true;
}

/* ---- DTensor ---- */

/* Where an odometer over the ranges of all dimensions stands. */
struct odometer {
    uint64_t *at;    /* [ndim] index of the range */
    uint64_t *local; /* [ndim] where it begins in the local tensor */
    uint64_t *start, *size;
};

static bool odometer_new(struct odometer *o, uint32_t ndim, struct zf_arena *a, struct zf_err *err)
{
    uint64_t *four = zf_arena_get(a, 4 * (uint64_t)ndim + 1, sizeof *four, err);

    if (!four) {
        return false;
    }
    *o = (struct odometer){four, four + ndim, four + 2 * (size_t)ndim, four + 3 * (size_t)ndim};
    return true;
}

static bool odometer_next(struct odometer *o, const struct zf_dim_ranges *dim, uint32_t ndim)
{
    for (uint32_t d = ndim; d-- > 0;) {
        o->local[d] += dim[d].range[o->at[d]].hi - dim[d].range[o->at[d]].lo;
        if (++o->at[d] < dim[d].n) {
            return true;
        }
        o->at[d] = o->local[d] = 0;
    }
    return false;
}

static bool add_pieces(struct zf_join *j, struct zf_draft *d, const struct zf_torch_tensor *t,
                       const struct zf_dim_ranges *dim, struct zf_err *err)
{
    struct odometer o;
    bool seen;

    if (!odometer_new(&o, t->ndim, j->arena, err)) {
        return false;
    }
    do {
        for (uint32_t k = 0; k < t->ndim; k++) {
            struct zf_range r = dim[k].range[o.at[k]];

            o.start[k] = r.lo;
            o.size[k] = r.hi - r.lo;
        }
        if (!seen_box(j, d, o.start, o.size, t->ndim, &seen, err) ||
            (!seen && !add_box(d, t, o.start, o.size, o.local, err))) {
            return false;
        }
    } while (odometer_next(&o, dim, t->ndim));
    return true;
}

static bool check_local(const struct zf_torch_tensor *t, const struct zf_dim_ranges *dim,
                        bool *empty, struct zf_err *err)
{
    bool here = false, there = false;

    for (uint32_t k = 0; k < t->ndim; k++) {
        here = here || t->shape[k] == 0;
        there = there || dim[k].total == 0;
    }
    *empty = here && there;
    for (uint32_t k = 0; k < t->ndim && !*empty; k++) {
        if (t->shape[k] != dim[k].total) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the rank's piece has %" PRIu64 " elements along dimension %" PRIu32
                           ", its place in the mesh says %" PRIu64,
                           t->shape[k], k, dim[k].total);
        }
    }
    return true;
}

static bool take_dtensor(struct zf_join *j, const struct zf_spot *spot, const struct zf_pv *v,
                         struct zf_err *err)
{
    struct zf_dtensor dt;
    struct zf_torch_tensor t;
    bool empty;

    if (!zf_torch_dtensor(j->file->torch, v, &dt, err)) {
        return false;
    }
    if (dt.n_ranks > j->mesh) {
        j->mesh = dt.n_ranks;
        j->mesh_file = j->file->path;
    }
    if (!dt.has_coord) {
        return true;
    }
    struct zf_dim_ranges *dim = zf_arena_get(j->arena, dt.ndim, sizeof *dim, err);
    if (!dim || !zf_boxes_dims(&dt, j->arena, dim, err) ||
        !local_tensor(j, dt.local, dt.dtype, dt.ndim, &t, err) ||
        !check_local(&t, dim, &empty, err)) {
        return false;
    }
    struct zf_draft *d = draft_of(j, spot, (struct zf_type){dt.dtype, dt.ndim, dt.shape}, err);
    return d && check_mesh(j, d, &dt, err) && (empty || add_pieces(j, d, &t, dim, err));
}

/* ---- ShardedTensor ---- */

static bool check_group(struct zf_join *j, const struct zf_sharded *s, struct zf_err *err)
{
    if (s->world < 0) {
        return true;
    }
    if (j->group < 0) {
        j->group = s->world;
        j->group_file = j->file->path;
    }
    return j->group == s->world ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "saved by %" PRId64 " ranks, but %s was saved by %" PRId64
                   ": files of two saves",
                   s->world, j->group_file, j->group);
}

static bool take_sharded(struct zf_join *j, const struct zf_spot *spot, const struct zf_pv *v,
                         struct zf_err *err)
{
    struct zf_sharded s;
    struct zf_torch_tensor t;

    if (!zf_torch_sharded(j->file->torch, v, &s, err) || !check_group(j, &s, err)) {
        return false;
    }
    uint64_t *zeros = zf_arena_get(j->arena, s.ndim, sizeof *zeros, err);
    struct zf_draft *d =
        zeros ? draft_of(j, spot, (struct zf_type){s.dtype, s.ndim, s.shape}, err) : NULL;
    if (!d || !check_shards(j, d, &s, err)) {
        return false;
    }
    for (uint64_t i = 0; i < s.n_local; i++) {
        const struct zf_shard *shard = &s.local[i];

        if (!local_tensor(j, shard->tensor, s.dtype, s.ndim, &t, err)) {
            return false;
        }
        if (memcmp(t.shape, shard->size, s.ndim * sizeof *t.shape) != 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "shard %" PRIu64 " has not the shape that its metadata says", i);
        }
        if (!add_box(d, &t, shard->off, shard->size, zeros, err)) {
            return false;
        }
    }
    return true;
}

/* ---- all ---- */

/* A tensor that cannot be joined is left out with a note; damage is an error. */
static bool left_out(struct zf_join *j, const char *name, struct zf_err *err)
{
    if (err->code != ZF_E_UNSUPPORTED) {
        (void)zf_err_in(err, "%s!", name);
        return zf_err_in(err, "%s!", j->file->path);
    }
    return zf_leave_out(j->b, j->file->path, name, err);
}

bool zf_join_take(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err)
{
    struct zf_join *j = ctx;
    struct zf_spot spot;

    *taken = true;
    switch (leaf->kind) {
    case ZF_TORCH_DTENSOR:
        return zf_names_place(j->names, leaf->path, &spot, err) &&
               (take_dtensor(j, &spot, leaf->value, err) || left_out(j, spot.name, err));
    case ZF_TORCH_SHARDED:
        return zf_names_place(j->names, leaf->path, &spot, err) &&
               (take_sharded(j, &spot, leaf->value, err) || left_out(j, spot.name, err));
    case ZF_TORCH_DENSE:
        if (j->world > 1) {
            return zf_copies_add(j->copies, j->file, j->rank, leaf, err);
        }
        break;
    default:
        break;
    }
    *taken = false;
    return true;
}

/* Compares the number of ranks that a file says with the number of files. */
static bool check_world(struct zf_join *j, const char *file, uint64_t ranks, struct zf_err *err)
{
    if (ranks == j->world) {
        return true;
    }
    if (zf_build_degraded(j->b)) {
        return zf_build_note(j->b, err,
                             "%s was saved by %" PRIu64 " ranks, but there are files of %" PRIu32,
                             file, ranks, j->world);
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "saved by %" PRIu64 " ranks, but there are files of %" PRIu32 ": %s", ranks,
                  j->world, ranks > j->world ? "some are missing" : "some are of another save");
    return zf_err_in(err, "%s", file);
}

bool zf_join_finish(struct zf_join *j, struct zf_err *err)
{
    if (j->mesh && !check_world(j, j->mesh_file, j->mesh, err)) {
        return false;
    }
    if (j->group >= 0 && !check_world(j, j->group_file, (uint64_t)j->group, err)) {
        return false;
    }
    return zf_copies_place(j->copies, err);
}
