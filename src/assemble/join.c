/* SPDX-License-Identifier: Apache-2.0 */
/* The first file with a part of a tensor creates it, and every later file must have the same type,
 * mesh and list of shards: files that disagree belong to different saves.  A DTensor's part is the
 * product of ranges, one per dimension, which the rank's coordinate in the mesh determines
 * (dtensor_ranges.c); ranks along a replicated axis hold equal boxes, of which the first is used and
 * the others are compared with it.  A ShardedTensor lists its boxes.  The seal proves that the boxes
 * cover the tensor exactly once. */
#include "join.h"

#include <inttypes.h>
#include <stdio.h>

#include <zf/assemble/degraded.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

#include "join_box.h"
#include "parts.h"

/* A tensor as the first file describes it. */
struct join_first {
    UT_hash_handle hh; /* key: the draft's address */
    const char *file;
    const struct zf_dtensor *dt; /* NULL: not a DTensor */
    const struct zf_sharded *st; /* NULL: not a ShardedTensor */
};

struct join {
    struct zf_build *b;
    struct zf_names *names;
    const struct zf_limits *lim;
    struct parts_kept parts;
    struct zf_arena *temp;        /* freed after each file */
    const struct join_file *file; /* the current file */
    struct zf_torch *torch;       /* the current file, while it is open */
    struct replicas_place replicas;
    uint64_t world;
    struct join_box *boxes;   /* uthash: (tensor, box) that some rank had */
    struct join_first *first; /* uthash */
    uint64_t n_mesh;          /* ranks of the largest mesh, 0 = no mesh yet */
    int64_t group;            /* ranks of the process group of ShardedTensors, -1 = none yet */
    const char *mesh_file, *group_file;
};

struct join *join_new(struct zf_build *b, struct zf_names *names, const struct zf_mesh *mesh,
                      const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(join) struct join *j = calloc(1, sizeof *j);

    if (!j)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for joining ranks"));
    *j = (struct join){.b = b, .names = names, .lim = lim, .world = 1, .group = -1};
    j->replicas = (struct replicas_place){
        .b = b, .names = names, .mesh = *mesh, .check = {.all = zf_build_records_copies(b)}};
    for (int a = 0; a < ZF_N_AXES; a++)
        j->world *= mesh->size[a] > 1 ? mesh->size[a] : 1;
    j->parts.keep.arena = zf_arena_new(lim->model_memory, err);
    if (!j->parts.keep.arena)
        return NULL;
    return zf_give(j);
}

void join_free(struct join *j)
{
    if (!j)
        return;
    struct zf_arena *arena = j->parts.keep.arena;

    parts_fini(&j->parts);
    zf_copy_check_fini(&j->replicas.check);
    zf_table_free(j->boxes);
    zf_table_free(j->first);
    zf_arena_free(arena);
    zf_arena_free(j->temp);
    free(j);
}

/* The first file's description of the tensor; if this file is the first, a new, empty one. */
static struct join_first *join_first_of(struct join *j, const struct zf_draft *d,
                                        struct zf_err *err)
{
    struct join_first *f = zf_table_make_id(j->first, (uintptr_t)d, err);

    if (f && !f->file)
        f->file = j->file->path;
    return f;
}

/* Checks that all ranks shard a tensor in the same way. */
static bool join_check_mesh(struct join *j, const struct zf_draft *d, const struct zf_dtensor *dt,
                            struct zf_err *err)
{
    struct join_first *f = join_first_of(j, d, err);
    char here[100], there[100];

    if (!f)
        return false;
    f->dt = f->dt ? f->dt : dt;
    return f->dt == dt || parts_same_mesh(dt, f->dt) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "its mesh is %s, but %s in \"%.80s\": two saves are mixed",
                   parts_describe_mesh(dt, here, sizeof here),
                   parts_describe_mesh(f->dt, there, sizeof there), f->file);
}

/* Checks that all ranks list the same shards. */
static bool join_check_shards(struct join *j, const struct zf_draft *d, const struct zf_sharded *s,
                              struct zf_err *err)
{
    struct join_first *f = join_first_of(j, d, err);

    if (!f)
        return false;
    f->st = f->st ? f->st : s;
    if (s->n_all != f->st->n_all) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has %" PRIu64 " shards, but %" PRIu64
                       " in \"%.80s\": two saves are mixed",
                       s->n_all, f->st->n_all, f->file);
    }
    for (uint64_t i = 0; s != f->st && i < s->n_all; i++) {
        const struct zf_shard *x = &s->all[i], *y = &f->st->all[i];

        for (uint32_t k = 0; k < s->ndim; k++) {
            if (x->off[k] != y->off[k] || x->size[k] != y->size[k]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "shard %" PRIu64 " spans %" PRIu64 " … %" PRIu64
                               " of dimension %" PRIu32 " here, but %" PRIu64 " … %" PRIu64
                               " in \"%.60s\": two saves are mixed",
                               i, x->off[k], x->off[k] + x->size[k], k, y->off[k],
                               y->off[k] + y->size[k], f->file);
            }
        }
    }
    return true;
}

/* The draft of a tensor, created for the first rank with a piece of it; the others must have the same type. */
static struct zf_draft *join_draft(struct join *j, struct zf_spot spot, struct zf_type type,
                                   struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(j->b, spot);

    if (!d) {
        d = zf_build_tensor(j->b, spot, type, err);
        return d && zf_draft_where(d, j->file->path, err) && join_first_of(j, d, err) ? d : NULL;
    }
    if (zf_type_equal(zf_draft_type(d), type))
        return d;
    const struct join_first *f = join_first_of(j, d, err);
    char here[100], there[100];

    if (f) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "it is %s, but %s in \"%.80s\": two saves are mixed",
                      parts_describe(type, here, sizeof here),
                      parts_describe(zf_draft_type(d), there, sizeof there), f->file);
    }
    return NULL;
}

/* The entry of this box of a tensor (`of`: its draft or key). */
static struct join_box *join_box_of(struct join *j, const void *of, uint32_t ndim,
                                    const uint64_t *const box[2], struct zf_err *err)
{
    size_t n = ndim * sizeof *box[0];

    return zf_table_make_id(j->boxes, zf_hash(zf_hash(zf_hash_address(of), box[0], n), box[1], n),
                            err);
}

/* ---- DTensor ---- */

/* The position of an odometer over the ranges of all dimensions. */
struct odometer {
    uint64_t *at;    /* [ndim] index of the range */
    uint64_t *local; /* [ndim] its start in the local tensor */
    uint64_t *start, *size;
};

static bool join_odometer_new(struct odometer *o, uint32_t ndim, struct zf_arena *a,
                              struct zf_err *err)
{
    uint64_t *four = zf_arena_get(a, 4 * (uint64_t)ndim + 1, sizeof *four, err);

    if (!four)
        return false;
    *o = (struct odometer){four, four + ndim, four + 2 * (size_t)ndim, four + 3 * (size_t)ndim};
    return true;
}

static bool join_odometer_next(struct odometer *o, const struct dim_ranges *dim, uint32_t ndim)
{
    for (uint32_t d = ndim; d-- > 0;) {
        o->local[d] += dim[d].range[o->at[d]].hi - dim[d].range[o->at[d]].lo;
        if (++o->at[d] < dim[d].n)
            return true;
        o->at[d] = o->local[d] = 0;
    }
    return false;
}

static bool join_boxes(struct join *j, struct zf_draft *d, const struct zf_tensor_ref *r,
                       const struct dim_ranges *dim, struct zf_err *err)
{
    struct zf_type type = {r->dtype, r->ndim, NULL};
    struct odometer o;

    if (!join_odometer_new(&o, r->ndim, j->temp, err))
        return false;
    do {
        for (uint32_t k = 0; k < r->ndim; k++) {
            struct range range = dim[k].range[o.at[k]];

            o.start[k] = range.lo;
            o.size[k] = range.hi - range.lo;
        }
        struct join_box *box =
            join_box_of(j, d, r->ndim, (const uint64_t *[2]){o.start, o.size}, err);
        struct zf_from from;

        type.shape = o.size;
        if (!box || !join_box_from(r, o.local, &from, err))
            return false;
        if (box->file ? !join_box_equal(j->b, &j->replicas.check, box, type, from, err)
                      : !zf_draft_box(d, o.start, o.size, from, err))
            return false;
        if (!box->file) {
            box->from = from;
            box->file = j->file->path;
        }
    } while (join_odometer_next(&o, dim, r->ndim));
    return true;
}

static bool join_check_local(const struct zf_tensor_ref *t, const struct dim_ranges *dim,
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
                           "the rank's part has %" PRIu64 " elements along dimension %" PRIu32
                           ", expected %" PRIu64 " for its place in the mesh",
                           t->shape[k], k, dim[k].total);
        }
    }
    return true;
}

/* The DTensor with this rank's coordinate in the mesh. */
static bool join_placed(struct join *j, const struct part *p, struct zf_dtensor *out,
                        struct zf_err *err)
{
    struct zf_mesh_axis *axis = zf_arena_get(j->temp, p->dt->n_axes, sizeof *axis, err);

    for (uint32_t i = 0; axis && i < p->dt->n_axes; i++) {
        axis[i] = p->dt->axis[i];
        axis[i].coord = p->coord[i];
    }
    *out = *p->dt;
    out->axis = axis;
    return axis != NULL;
}

/* Stores a piece of a composed tensor until all pieces are there. */
static bool join_composed(struct join *j, const struct part *p, const struct dim_ranges *dim,
                          struct zf_err *err)
{
    struct zf_arena *a = j->parts.keep.arena;
    struct composed_chunk c = {.file = j->file->path, .dt = p->dt, .piece = p->piece};
    bool empty = false;

    if (!join_composed_box(a, dim, &c, &empty, err))
        return false;
    struct join_box *box =
        !c.start || empty
            ? NULL
            : join_box_of(j, p->key, c.dt->ndim, (const uint64_t *[2]){c.start, c.size}, err);
    if (c.start && !empty && !box)
        return false;
    if (empty || (box && box->file))
        return empty || join_composed_equal(j->b, &j->replicas.check, box, &c, err);
    if (box) {
        box->file = j->file->path;
        box->piece = c.piece;
    }
    return join_composed_add(a, p->key, &c, err);
}

static bool join_dtensor(struct join *j, struct zf_spot spot, const struct part *p,
                         struct zf_err *err)
{
    struct zf_dtensor dt;
    bool empty;

    if (p->dt->n_ranks > j->n_mesh) {
        j->n_mesh = p->dt->n_ranks;
        j->mesh_file = j->file->path;
    }
    if (!p->coord)
        return true;
    struct dim_ranges *dim = zf_arena_get(j->temp, p->dt->ndim, sizeof *dim, err);
    if (!dim || !join_placed(j, p, &dt, err) || !ranges_dims(&dt, j->temp, dim, err))
        return false;
    if (p->key->composed)
        return join_composed(j, p, dim, err);
    if (!join_check_local(p->ref, dim, &empty, err))
        return false;
    struct zf_draft *d = join_draft(j, spot, (struct zf_type){dt.dtype, dt.ndim, dt.shape}, err);
    return d && join_check_mesh(j, d, p->dt, err) && (empty || join_boxes(j, d, p->ref, dim, err));
}

/* ---- ShardedTensor ---- */

static bool join_check_group(struct join *j, const struct zf_sharded *s, struct zf_err *err)
{
    if (s->world < 0)
        return true;
    if (j->group < 0) {
        j->group = s->world;
        j->group_file = j->file->path;
    }
    return j->group == s->world ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "saved by %" PRId64 " ranks, but %s was saved by %" PRId64
                   ": two saves are mixed",
                   s->world, j->group_file, j->group);
}

static bool join_sharded(struct join *j, struct zf_spot spot, const struct part *p,
                         struct zf_err *err)
{
    const struct zf_sharded *s = p->st;

    if (!join_check_group(j, s, err))
        return false;
    struct zf_draft *d = join_draft(j, spot, (struct zf_type){s->dtype, s->ndim, s->shape}, err);
    if (!d || !join_check_shards(j, d, s, err))
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        struct zf_from from;

        if (!join_box_from(&p->ref[i], NULL, &from, err) ||
            !zf_draft_box(d, p->shard[i].off, p->shard[i].size, from, err))
            return false;
    }
    return true;
}

/* ---- all ---- */

/* Leaves out a tensor that cannot be joined, with a note; damage is an error. */
static bool join_left_out(struct join *j, struct zf_spot spot, struct zf_err *err)
{
    if (err->code != ZF_E_UNSUPPORTED) {
        (void)zf_err_in(err, "%s!", spot.name);
        return zf_err_in(err, "%s!", j->file->path);
    }
    return zf_leave_out_at(j->b, j->file->path, spot, err);
}

/* Leaves out an optimizer state if one file's value of it is not understood, whatever the other files have; noted once. */
static bool join_note_odd(struct join *j, struct part_key *key, struct zf_spot spot,
                          struct zf_err *err)
{
    if (key->noted)
        return true;
    key->noted = true;
    *err = *key->odd;
    return zf_leave_out_at(j->b, key->odd_file, spot, err);
}

static bool join_copy(struct join *j, const struct part *p, struct zf_err *err)
{
    struct replicas *all = &p->key->copies;
    struct replica *r = zf_arena_get(j->parts.keep.arena, 1, sizeof *r, err);

    if (!r)
        return false;
    *r = (struct replica){.ref = p->ref, .file = j->file->path, .at = j->file->at};
    all->extra = j->file->extra;
    if (all->last)
        all->last->next = r;
    else
        all->first = r;
    all->last = r;
    return true;
}

static bool join_part(struct join *j, const struct part *p, struct zf_err *err)
{
    struct zf_spot spot;

    if (p->kind == ZF_TORCH_DENSE)
        return join_copy(j, p, err);
    if (!zf_names_place(j->names, p->key->path, &spot, err))
        return false;
    if (p->key->odd && zf_names_is_optim(spot))
        return join_note_odd(j, p->key, spot, err);
    if (p->kind == ZF_TORCH_NOT) {
        *err = *p->why;
        return join_left_out(j, spot, err);
    }
    return (p->kind == ZF_TORCH_DTENSOR ? join_dtensor(j, spot, p, err)
                                        : join_sharded(j, spot, p, err)) ||
           join_left_out(j, spot, err);
}

static bool join_takes(const struct join *j, enum zf_torch_kind kind)
{
    return kind == ZF_TORCH_DTENSOR || kind == ZF_TORCH_SHARDED ||
           (kind == ZF_TORCH_DENSE && j->world > 1);
}

/* Is this value not a piece, although another file may have pieces under its path? */
static bool join_is_odd(const struct join *j, enum zf_torch_kind kind)
{
    return j->world > 1 &&
           (kind == ZF_TORCH_OPAQUE || kind == ZF_TORCH_PARTS || kind == ZF_TORCH_META);
}

/* Handles a plain value of the first file, where other files have pieces of an optimizer state. */
static bool join_take_odd(struct join *j, const struct zf_leaf *leaf, bool *taken,
                          struct zf_err *err)
{
    struct part_key *key = parts_add_odd(&j->parts, j->torch, leaf, j->file->path, err);
    struct zf_spot spot;

    if (!key || (!key->dt && !key->st))
        return key != NULL;
    if (!zf_names_place(j->names, key->path, &spot, err))
        return false;
    *taken = zf_names_is_optim(spot);
    return !*taken || join_note_odd(j, key, spot, err);
}

bool join_file(struct join *j, const struct join_file *file, struct zf_torch *torch,
               struct zf_err *err)
{
    j->file = file;
    j->torch = torch;
    zf_arena_free(j->temp);
    j->temp = zf_arena_new(j->lim->model_memory, err);
    return j->temp != NULL;
}

bool join_take(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err)
{
    struct join *j = ctx;

    *taken = join_takes(j, leaf->kind);
    if (!*taken)
        return !join_is_odd(j, leaf->kind) || join_take_odd(j, leaf, taken, err);
    const struct part *p = parts_read(&j->parts, j->torch, leaf, j->file->path, err);
    return p && join_part(j, p, err);
}

/* ---- files that were closed again ---- */

struct keeping {
    struct join *j;
    struct zf_torch *torch;
    struct join_file *file;
};

static bool join_keep_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    const struct keeping *k = ctx;
    struct join_file *f = k->file;

    if (join_is_odd(k->j, leaf->kind))
        return parts_add_odd(&k->j->parts, k->torch, leaf, f->path, err) != NULL;
    if (!join_takes(k->j, leaf->kind))
        return true;
    struct part *p = parts_read(&k->j->parts, k->torch, leaf, f->path, err);
    if (!p)
        return false;
    if (f->last)
        f->last->next = p;
    else
        f->part = p;
    f->last = p;
    return true;
}

bool join_keep(struct join *j, const struct zf_place_file *f, struct join_file *file,
               struct zf_err *err)
{
    struct keeping k = {.j = j, .torch = f->torch, .file = file};
    struct zf_visit visit = {.fn = join_keep_leaf, .ctx = &k};

    return zf_torch_visit(f->torch, zf_torch_root(f->torch), f->head, j->lim, &visit, err);
}

bool join_kept(struct join *j, const struct join_file *file, struct zf_err *err)
{
    if (!join_file(j, file, NULL, err))
        return false;
    for (const struct part *p = file->part; p; p = p->next)
        if (!join_part(j, p, err))
            return false;
    return true;
}

/* Compares the number of ranks recorded in a file with the number of files. */
static bool join_check_world(struct join *j, const char *file, uint64_t ranks, struct zf_err *err)
{
    if (ranks == j->world)
        return true;
    if (zf_build_degraded(j->b)) {
        return zf_build_note(j->b, err,
                             "%s was saved by %" PRIu64 " ranks, but there are files of %" PRIu64,
                             file, ranks, j->world);
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "saved by %" PRIu64 " ranks, but there are files of %" PRIu64 ": %s", ranks,
                  j->world, ranks > j->world ? "some are missing" : "some belong to another save");
    return zf_err_in(err, "%s", file);
}

bool join_finish(struct join *j, struct zf_err *err)
{
    if ((j->n_mesh && !join_check_world(j, j->mesh_file, j->n_mesh, err)) ||
        (j->group >= 0 && !join_check_world(j, j->group_file, (uint64_t)j->group, err)))
        return false;
    for (const struct part_key *key = j->parts.keys; key; key = key->hh.next) {
        if (key->chunk && !join_composed_place(j->b, j->names, key, err))
            return false;
        if (key->copies.first && !replicas_place(&j->replicas, key->path, &key->copies, err))
            return false;
    }
    return zf_copy_check_note(&j->replicas.check, j->b, err);
}
