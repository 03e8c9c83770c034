/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/flat_vector.h>

#include <zf/base/num.h>
#include <zf/base/search.h>

static uint64_t flat_ceil(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

static bool flat_too_long(const struct zf_flat_vector *v, const char *what, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the %s of group %u have more than 2^64 elements",
                   what, v->group);
}

/* ---- partitions ---- */

static bool flat_lay_params(struct zf_flat_vector *v, const uint64_t *pad, struct zf_arena *a,
                            struct zf_err *err)
{
    uint64_t *at = zf_arena_get(a, v->n_params + 1ull, sizeof *at, err);

    for (uint32_t i = 0; at && i < v->n_params; i++)
        if (!zf_add(at[i], v->len[i], &at[i + 1]) ||
            (pad && !zf_add(at[i + 1], pad[i], &at[i + 1])))
            return flat_too_long(v, "parameters", err);
    v->at = at;
    return at != NULL;
}

/* The length of a partition before trailing padding was trimmed. */
static uint64_t flat_full_partition(const struct zf_flat_vector *v, const struct zf_flat_part *part,
                                    uint32_t align)
{
    uint64_t need = v->at[v->n_params], end;

    for (uint32_t r = 0; r + 1 < v->n_ranks; r++) {
        /* real data follows in the next partition, so nothing was trimmed from this one */
        if (!part[r].lost && part[r].n > 0 && zf_mul(part[r].n, r + 1ull, &end) && end < need)
            return part[r].n;
    }
    return align * flat_ceil(need, (uint64_t)align * v->n_ranks);
}

/* Refuses a short partition that is followed by real data. */
static bool flat_refuse_part(const struct zf_flat_vector *v, const struct zf_flat_part *part,
                             uint64_t n, uint64_t full, struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the partition of group %u has %llu elements, expected %llu as on other ranks",
            v->group, (unsigned long long)n, (unsigned long long)full);
    return zf_err_in(err, "%s", part->file);
}

bool zf_flat_partitions(struct zf_flat_vector *v, const struct zf_flat_part *part,
                        const uint64_t *pad, uint32_t align, struct zf_arena *a, struct zf_err *err)
{
    if (!flat_lay_params(v, pad, a, err))
        return false;
    uint64_t need = v->at[v->n_params], full = flat_full_partition(v, part, align);
    uint64_t *begin = zf_arena_get(a, v->n_ranks + 1ull, sizeof *begin, err);
    bool lost = false;
    for (uint32_t r = 0; begin && r < v->n_ranks; r++) {
        uint64_t n = part[r].lost ? full : part[r].n;

        lost = lost || part[r].lost;
        if (!zf_add(begin[r], n, &begin[r + 1]))
            return flat_too_long(v, "partitions", err);
        if (begin[r + 1] < need && n != full && (lost || n != part[0].n))
            return flat_refuse_part(v, &part[r], n, full, err);
    }
    v->begin = begin;
    if (!begin)
        return false;
    uint64_t have = begin[v->n_ranks], most = (uint64_t)align * v->n_ranks - 1;
    return (have >= need && have - need <= most) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the parameters of group %u have %llu elements, but its %u partitions hold %llu "
                   "(expected at most %llu elements of padding)",
                   v->group, (unsigned long long)need, v->n_ranks, (unsigned long long)have,
                   (unsigned long long)most);
}

/* ---- slots ---- */

bool zf_flat_slots(struct zf_flat_vector *v, struct zf_arena *a, struct zf_err *err)
{
    uint64_t *at = zf_arena_get(a, v->n_params + 1ull, sizeof *at, err);

    for (uint32_t i = 0; at && i < v->n_params; i++)
        if (!zf_add(at[i], flat_ceil(v->len[i], v->n_ranks), &at[i + 1]))
            return flat_too_long(v, "parameters", err);
    v->at = at;
    v->begin = NULL;
    return at != NULL;
}

bool zf_flat_slot(const struct zf_flat_vector *v, uint32_t i, uint32_t rank,
                  struct zf_flat_piece *out)
{
    uint64_t slot = flat_ceil(v->len[i], v->n_ranks), first;

    if (!zf_mul(slot, rank, &first) || first >= v->len[i])
        return false;
    *out = zf_flat_piece(v, i, first);
    return true;
}

/* ---- pieces ---- */

/* The rank whose partition contains element y of the vector. */
static uint32_t flat_rank_of(const struct zf_flat_vector *v, uint64_t y)
{
    size_t i;

    ZF_SEARCH(i, v->n_ranks - 1, v->begin[i + 1] > y);
    return (uint32_t)i;
}

struct zf_flat_piece zf_flat_piece(const struct zf_flat_vector *v, uint32_t i, uint64_t first)
{
    struct zf_flat_piece p = {.first = first};
    uint64_t left = v->len[i] - first, room;

    if (v->begin) {
        p.rank = flat_rank_of(v, v->at[i] + first);
        p.at = v->at[i] + first - v->begin[p.rank];
        room = v->begin[p.rank + 1] - v->begin[p.rank] - p.at;
    } else {
        uint64_t slot = flat_ceil(v->len[i], v->n_ranks);

        p.rank = (uint32_t)(first / slot);
        p.at = v->at[i] + first % slot;
        room = slot - first % slot;
    }
    p.n = left < room ? left : room;
    return p;
}
