/* SPDX-License-Identifier: Apache-2.0 */
#include "sharding.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>
#include <zf/codec/pvjson.h>

enum { SHARDING_DIMS = 64 };

void sharding_fini(struct sharding *s)
{
    zf_pieces_fini(&s->pieces);
    zf_keeper_fini(&s->keep);
    zf_table_free(s->tensor);
    zf_names_free(s->names);
}

/* ---- paths ---- */

/* Parses '["state","head.weight","step"]' into the steps of a path. */
static bool sharding_read_path(const struct sharding *s, const struct zf_take *key,
                               const char *head, struct zf_path *out, struct zf_err *err)
{
    uint64_t len;
    const char *text = zf_take_text(key, &len);
    const struct zf_pv *v = key->t->failed ? NULL : zf_pv_of_json(text, len, s->a, s->lim, err);
    uint64_t n = zf_pv_len(v);

    if (!v)
        return !key->t->failed ? false : zf_take_ok(key->t, err);
    struct zf_step *step = zf_arena_get(s->a, n + 1, sizeof *step, err);
    if (!step)
        return false;
    *step = (struct zf_step){.p = head, .n = head ? strlen(head) : 0};
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *one = zf_pv_item(v, i);
        int64_t index;

        if (zf_pv_kind(one) == ZF_PV_STR) {
            step[i + 1].p = zf_pv_text(one, &len);
        } else if (zf_pv_kind(one) == ZF_PV_INT && zf_pv_int(one, &index)) {
            step[i + 1].p = zf_arena_fmt(s->a, err, "%" PRId64, index);
            step[i + 1].index = true;
        }
        if (!step[i + 1].p) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.120s\" is not a list of names, expected the path of a tensor",
                           text);
        }
        step[i + 1].n = strlen(step[i + 1].p);
    }
    *out = (struct zf_path){.step = head ? step : step + 1, .n = (uint32_t)(head ? n + 1 : n)};
    return n > 0 && n < UINT32_MAX ? true
                                   : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a path has no names");
}

static bool sharding_read_tensor(struct sharding *s, const struct zf_take *key,
                                 const struct zf_take *groups, const char *head, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};
    struct zf_path path = {.n = 0};
    uint64_t n = zf_take_list(groups);

    if (!sharding_read_path(s, key, head, &path, err))
        return false;
    const struct zf_path below = {.step = path.step + (head ? 1 : 0), .n = path.n - (head ? 1 : 0)};
    if (!zf_path_join(&name, below, err) || !zf_names_add(s->names, path, err))
        return false;
    struct sharding_tensor *t = zf_table_make(s->tensor, zf_out_text(&name), name.n, err);
    if (!t)
        return false;
    (void)zf_take_must(key, !t->group, "another path is also named \"%.120s\" in safetensors",
                       zf_out_text(&name));
    t->path = path;
    t->group = groups->v;
    for (uint64_t g = 0; g < n; g++) {
        struct zf_take one = zf_take_item(groups, g), ranks = zf_take_key(&one, "ranks");

        t->n_ranks += zf_take_list(&ranks);
    }
    return zf_take_ok(key->t, err);
}

bool sharding_read_paths(struct sharding *s, const struct zf_take *x, const char *head,
                         struct zf_err *err)
{
    for (uint64_t i = 0, n = zf_take_map(x); i < n; i++) {
        struct zf_take key = zf_take_name(x, i), groups = zf_take_item(x, i);

        if (!sharding_read_tensor(s, &key, &groups, head, err))
            return false;
    }
    return zf_take_ok(x->t, err);
}

/* ---- where a part belongs ---- */

struct sharding_box {
    uint32_t ndim;
    const uint64_t *shape; /* of the whole tensor */
    uint64_t start[SHARDING_DIMS], size[SHARDING_DIMS];
};

/* Cuts dimension d into n shards and takes number `at`: all are of equal size, except smaller or empty ones at the end.
 * Source: torch/distributed/tensor/placement_types.py, Shard.local_shard_size_and_offset (2.4 … 2.15). */
static void sharding_cut(struct sharding_box *box, uint64_t d, uint64_t n, uint64_t at)
{
    uint64_t len = box->size[d], each = len / n + (len % n != 0), lo = 0;

    if (!zf_mul(each, at, &lo) || lo > len)
        lo = len;
    box->start[d] += lo;
    box->size[d] = len - lo < each ? len - lo : each;
}

/* True if the rank is in the list; *at: its index. */
static bool sharding_find_rank(const struct zf_take *ranks, uint32_t rank, uint64_t *at)
{
    uint64_t n = zf_take_list(ranks);

    for (uint64_t i = 0; i < n && !ranks->t->failed; i++) {
        *at = (rank + i) % n; /* tries index = rank first, the usual case */
        struct zf_take one = zf_take_item(ranks, *at);

        if (zf_take_u64(&one) == rank && !ranks->t->failed)
            return true;
    }
    return false;
}

static void sharding_take_placement(const struct zf_take *x, uint64_t size, uint64_t at,
                                    struct sharding_box *box)
{
    struct zf_take type = zf_take_key(x, "type"), dim = zf_take_key(x, "dim");
    const char *is = zf_take_text(&type, NULL);

    if (strcmp(is, "Replicate") == 0 || x->t->failed)
        return;
    if (!zf_take_can(&type, strcmp(is, "Shard") == 0,
                     "a tensor has the placement \"%.40s\"; only Shard and Replicate are read", is))
        return;
    uint64_t d = zf_take_u64(&dim);
    if (zf_take_must(&dim, d < box->ndim,
                     "a tensor of %" PRIu32 " dimensions is cut along %" PRIu64, box->ndim, d) &&
        !x->t->failed)
        sharding_cut(box, d, size, at);
}

/* Computes the box of a rank from its group's metadata. */
static void sharding_take_box(const struct zf_take *group, uint32_t rank, enum zf_dtype dtype,
                              struct sharding_box *out)
{
    struct zf_take about = zf_take_key(group, "sharding_metadata"),
                   type = zf_take_key(&about, "type");
    struct zf_take data = zf_take_key(&about, "data"), mesh = zf_take_key(&data, "mesh_spec");
    struct zf_take shape = zf_take_key(&data, "global_shape"), name = zf_take_key(&data, "dtype");
    struct zf_take sizes = zf_take_key(&mesh, "mesh_shape"),
                   ranks = zf_take_key(&mesh, "mesh_data");
    struct zf_take placements = zf_take_key(&data, "placements");
    const char *is = zf_take_text(&type, NULL), *torch = zf_take_text(&name, NULL);
    uint32_t n;
    uint64_t at, below = 1;
    const uint64_t *size = zf_take_sizes(&sizes, &n);

    (void)zf_take_can(&type, strcmp(is, "DTensorShardingMetadata") == 0,
                      "a tensor is described by \"%.60s\"; only DTensorShardingMetadata is read",
                      is);
    (void)zf_take_must(&name,
                       strncmp(torch, "torch.", 6) == 0 &&
                           strcmp(torch + 6, zf_dtype_info(dtype)->torch) == 0,
                       "it is \"%.40s\", but %s in the file", torch, zf_dtype_info(dtype)->torch);
    out->shape = zf_take_sizes(&shape, &out->ndim);
    (void)zf_take_list_of(&placements, n);
    (void)zf_take_must(&ranks, sharding_find_rank(&ranks, rank, &at),
                       "rank %" PRIu32 " is not in it", rank);
    for (uint32_t i = 0; i < n && !group->t->failed; i++) {
        (void)zf_take_must(&sizes, size[i] > 0 && zf_mul(below, size[i], &below),
                           "it is not the shape of a mesh");
    }
    (void)zf_take_must(&sizes, group->t->failed || below == zf_take_list(&ranks),
                       "it is not the shape of \"mesh_data\"");
    if (group->t->failed)
        return;
    memset(out->start, 0, sizeof out->start);
    memcpy(out->size, out->shape, out->ndim * sizeof *out->size);
    for (uint32_t i = 0; i < n && !group->t->failed; i++) {
        struct zf_take one = zf_take_item(&placements, i);

        below /= size[i];
        sharding_take_placement(&one, size[i], at / below % size[i], out);
    }
}

/* ---- files ---- */

static bool sharding_draft(struct sharding *s, const struct sharding_tensor *t,
                           const struct sharding_box *box, const struct zf_tensor_ref *x,
                           const char *file, struct zf_err *err)
{
    struct zf_piece piece = {.type = {x->dtype, box->ndim, box->shape},
                             .path = file,
                             .of = x,
                             .place = box->start,
                             .n_place = box->ndim};
    struct zf_draft *d;

    return zf_names_place(s->names, t->path, &piece.spot, err) &&
           zf_pieces_begin(&s->pieces, &piece, &d, err) &&
           (!d || x->n == 0 ||
            zf_draft_box(d, box->start, box->size, (struct zf_from){.src = x->src, .off = x->off},
                         err));
}

static bool sharding_add(struct sharding *s, const struct zf_st_entry *e, struct zf_source *src,
                         uint32_t rank, const char *file, struct zf_err *err)
{
    struct sharding_tensor *t = zf_table_find(s->tensor, e->name, e->name_len);
    struct zf_tensor_ref x = {.src = src, .key = e->name, .dtype = e->dtype, .ndim = e->ndim};
    struct zf_taker taker = {.arena = s->a};
    struct sharding_box box = {.ndim = 0};
    uint64_t at, n;

    if (!t) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "metadata.pkl does not record its place in the whole tensor");
    }
    struct zf_take groups = zf_take_root(&taker, t->group);
    n = zf_take_list(&groups);
    for (uint64_t g = 0; g < n; g++) {
        struct zf_take group = zf_take_item(&groups, g), ranks = zf_take_key(&group, "ranks");

        if (sharding_find_rank(&ranks, rank, &at)) {
            t->n_seen++;
            sharding_take_box(&group, rank, e->dtype, &box);
            break;
        }
        (void)zf_take_must(&groups, g + 1 < n, "rank %" PRIu32 " is not in any group of ranks",
                           rank);
    }
    if (!zf_take_ok(&taker, err))
        return zf_err_in(err, "metadata.pkl");
    if (!zf_shape_equal(e->ndim, e->shape, box.ndim, box.size)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its shape differs from the one in metadata.pkl for rank %" PRIu32, rank);
    }
    uint64_t *stride = zf_arena_get(s->a, e->ndim, sizeof *stride, err);
    if (!stride)
        return false;
    zf_packed_strides(e->ndim, e->shape, stride);
    x.shape = e->shape;
    x.stride = stride;
    x.off = e->begin;
    x.packed = zf_elems(e->ndim, e->shape, &x.n);
    return sharding_draft(s, t, &box, &x, file, err);
}

bool sharding_add_file(struct sharding *s, const struct zf_st_header *h, struct zf_source *src,
                       uint32_t rank, const char *file, struct zf_err *err)
{
    if (!zf_keeper_hold(&s->keep, src, err))
        return false;
    for (uint64_t i = 0; i < h->n; i++) {
        if (!sharding_add(s, &h->entry[i], src, rank, file, err)) {
            (void)zf_err_in(err, "!%.120s", h->entry[i].name);
            return zf_err_in(err, "%s", file);
        }
    }
    return true;
}

bool sharding_end(struct sharding *s, struct zf_err *err)
{
    for (const struct sharding_tensor *t = s->tensor; t; t = t->hh.next) {
        if (t->n_seen != t->n_ranks) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "\"%.*s\" is in the files of %" PRIu64 " ranks, expected %" PRIu64,
                          (int)(t->hh.keylen < 160 ? t->hh.keylen : 160), (const char *)t->hh.key,
                          t->n_seen, t->n_ranks);
            (void)zf_err_in(err, "metadata.pkl");
            if (!zf_forgive(s->pieces.b, err))
                return false;
        }
    }
    return zf_pieces_end(&s->pieces, err);
}
