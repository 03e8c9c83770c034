/* SPDX-License-Identifier: Apache-2.0 */
#include "local_lay.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/hash.h>

/* ---- how the vectors are cut ---- */

static uint64_t local_ceil(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* The length of a flat parameter, including padding between the parameters. */
static uint64_t local_vector_len(const struct olmo_flat *f)
{
    uint64_t n = 0;

    for (uint32_t j = 0; j < f->n; j++)
        n += f->param[j].len + f->param[j].pad;
    return n;
}

static bool local_is_cut_by(const struct olmo_flats *f, uint32_t n_shards)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (local_ceil(local_vector_len(&f->flat[i]), n_shards) != f->flat[i].data.n)
            return false;
    return true;
}

/* Finds how many ranks share a vector: all or, with HYBRID_SHARD and NO_SHARD, those of a replica, which are
 * numbered consecutively.  Source: torch/distributed/fsdp/_init_utils.py (device mesh
 * "replicate" x "shard", 2.0 ... 2.14). */
static bool local_find_shards(struct olmo_local *l, struct zf_err *err)
{
    for (uint32_t n = l->model.n; n > 0; n--) {
        if (l->model.n % n == 0 && local_is_cut_by(&l->first, n)) {
            l->n_shards = n;
            return true;
        }
    }
    for (uint32_t i = 0; i < l->first.n; i++) {
        const struct olmo_flat *f = &l->first.flat[i];
        uint64_t len = local_vector_len(f);

        if (local_ceil(len, l->model.n) != f->data.n) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the shard of the flat parameter of \"%.80s\" has %" PRIu64
                    " elements, but the %" PRIu32 " ranks that have files should share %" PRIu64
                    ": some ranks' files are missing, or there are files of another save",
                    f->n ? f->param[0].name : "", f->data.n, l->model.n, len);
            break;
        }
    }
    return zf_err_in(err, "%s", l->first_path);
}

static bool local_lay_vector(struct olmo_local *l, const struct olmo_flat *f,
                             struct zf_flat_vector *v, struct zf_err *err)
{
    struct zf_arena *a = l->save->a;
    uint64_t *len = zf_arena_get(a, f->n, sizeof *len, err);
    uint64_t *pad = len ? zf_arena_get(a, f->n, sizeof *pad, err) : NULL;
    struct zf_flat_part *part = pad ? zf_arena_get(a, l->n_shards, sizeof *part, err) : NULL;

    for (uint32_t j = 0; part && j < f->n; j++) {
        len[j] = f->param[j].len;
        pad[j] = f->param[j].pad;
    }
    for (uint32_t i = 0; part && i < l->n_shards; i++)
        part[i] = (struct zf_flat_part){.file = l->model.path[i], .n = f->data.n};
    *v = (struct zf_flat_vector){.n_params = f->n, .n_ranks = l->n_shards, .len = len};
    return part && zf_flat_partitions(v, part, pad, 1, a, err);
}

static bool local_number_params(struct olmo_local *l, struct zf_err *err)
{
    uint32_t n = 0;

    l->where = zf_arena_get(l->save->a, l->first.n_params, sizeof *l->where, err);
    for (uint32_t i = 0; l->where && i < l->first.n; i++) {
        for (uint32_t j = 0; j < l->first.flat[i].n; j++) {
            const char *name = l->first.flat[i].param[j].name;
            struct local_name *e = zf_table_make(l->by_name, name, strlen(name), err);

            if (!e)
                return false;
            e->number = n;
            l->where[n++] = (struct olmo_where){i, j};
        }
    }
    return l->where != NULL;
}

bool local_lay(struct olmo_local *l, struct zf_err *err)
{
    if (!local_find_shards(l, err))
        return false;
    l->vector = zf_arena_get(l->save->a, l->first.n, sizeof *l->vector, err);
    for (uint32_t i = 0; l->vector && i < l->first.n; i++)
        if (!local_lay_vector(l, &l->first.flat[i], &l->vector[i], err))
            return false;
    return l->vector && local_number_params(l, err);
}

bool local_part(const struct olmo_local *l, struct olmo_where at, uint32_t shard,
                struct zf_flat_piece *out)
{
    const struct zf_flat_vector *v = &l->vector[at.flat];
    uint64_t from = v->at[at.param], begin = v->begin[shard], end = v->begin[shard + 1];
    uint64_t first = begin > from ? begin - from : 0;

    if (first >= v->len[at.param] || from + first >= end)
        return false;
    *out = zf_flat_piece(v, at.param, first);
    return out->rank == shard;
}
