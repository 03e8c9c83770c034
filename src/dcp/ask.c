/* SPDX-License-Identifier: Apache-2.0 */
/* Queries by the Megatron reader, which derives other tensors from these: keys, their grids of chunks, their drafts.
 * The answers are computed at the first query. */
#include <string.h>

#include <zf/base/num.h>
#include <zf/dcp.h>

#include "bytes_items.h"

/* The chunks of a key. */
struct dcp_grid {
    uint32_t chunk; /* the first chunk; ZF_DCP_NONE: there is none */
    bool odd;       /* some chunk is not a cell of a grid */
    uint64_t n;     /* chunks that are cells */
    uint64_t *cuts; /* [ndim] while measuring: the size of all cells but the last */
};

/* The dimensions of the grid; the last one of a flattened tensor is the position inside a box. */
static uint32_t ask_ndim(const struct dcp_key *k)
{
    return k->whole ? k->ndim - 1 : k->ndim;
}

/* Measures the cells: they are as large as the largest chunk. */
static bool ask_measure(struct zf_dcp *d, struct zf_err *err)
{
    for (uint64_t i = 0; i < d->key.n; i++) {
        d->grid[i].chunk = ZF_DCP_NONE;
        d->grid[i].cuts = zf_arena_get(d->pickles, d->key.at[i].ndim, sizeof(uint64_t), err);
        if (!d->grid[i].cuts)
            return false;
    }
    for (uint32_t i = 0; i < d->chunk.n; i++) {
        const struct dcp_key *k = &d->key.at[d->chunk.at[i].key];
        struct dcp_grid *g = &d->grid[d->chunk.at[i].key];
        const uint64_t *size = d->chunk.at[i].box + k->ndim;

        g->chunk = g->chunk == ZF_DCP_NONE ? i : g->chunk;
        for (uint32_t n = 0; n < k->ndim; n++)
            g->cuts[n] = size[n] > g->cuts[n] ? size[n] : g->cuts[n];
    }
    return true;
}

static bool ask_is_cell(const struct zf_dcp *d, const struct dcp_grid *g, const struct dcp_chunk *c)
{
    const struct dcp_key *k = &d->key.at[c->key];
    const uint64_t *start = c->box, *size = start + k->ndim;

    for (uint32_t i = 0; i < ask_ndim(k); i++) {
        uint64_t left = start[i] < k->shape[i] ? k->shape[i] - start[i] : 0;

        if (g->cuts[i] == 0 || start[i] % g->cuts[i] != 0 ||
            size[i] != (left < g->cuts[i] ? left : g->cuts[i]))
            return false;
    }
    return true;
}

/* Turns the sizes of cells into numbers of cells, and drops what is not a grid.  Chunks have different
 * starts, so if the number of cells is right, none is missing. */
static void ask_count_cells(const struct dcp_key *k, struct dcp_grid *g)
{
    uint64_t all = 1;

    for (uint32_t i = 0; !g->odd && i < ask_ndim(k); i++) {
        g->cuts[i] = g->cuts[i] ? (k->shape[i] - 1) / g->cuts[i] + 1 : 0;
        g->odd = !zf_mul(all, g->cuts[i], &all);
    }
    if (g->odd || k->doubtful || k->is_bytes || (!k->whole && g->n != all))
        g->cuts = NULL;
}

static bool ask_grids(struct zf_dcp *d, struct zf_err *err)
{
    d->grid = zf_arena_get(d->pickles, d->key.n, sizeof *d->grid, err);
    if (!d->grid || !ask_measure(d, err))
        return false;
    for (uint64_t i = 0; i < d->chunk.n; i++) {
        struct dcp_grid *g = &d->grid[d->chunk.at[i].key];

        g->n++;
        g->odd = g->odd || !ask_is_cell(d, g, &d->chunk.at[i]);
    }
    for (uint64_t i = 0; i < d->key.n; i++)
        ask_count_cells(&d->key.at[i], &d->grid[i]);
    return true;
}

uint64_t zf_dcp_n_keys(const struct zf_dcp *d)
{
    return d->key.n;
}

bool zf_dcp_key(struct zf_dcp *d, uint64_t i, struct zf_dcp_key *out, struct zf_err *err)
{
    const struct dcp_key *k = &d->key.at[i];

    if (!d->grid && !ask_grids(d, err))
        return false;
    *out = (struct zf_dcp_key){
        .name = k->name,
        .name_len = k->name_len,
        .is_bytes = k->is_bytes,
        .type = {k->dtype, ask_ndim(k), k->whole ? k->whole : k->shape},
        .cuts = d->grid[i].cuts,
        .draft = d->draft ? d->draft[i] : NULL,
        .group = k->group,
    };
    return true;
}

struct zf_source *zf_dcp_item(struct zf_dcp *d, uint64_t i, struct zf_err *err)
{
    if (!d->grid && !ask_grids(d, err))
        return NULL;
    if (!d->source || !d->key.at[i].is_bytes || d->grid[i].chunk == ZF_DCP_NONE) {
        return zf_null(zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                               "\"%.120s\" is not a bytes item of this save", d->key.at[i].name));
    }
    return dcp_bytes_source(d, &d->chunk.at[d->grid[i].chunk], err);
}
