/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"

#include <stdlib.h>

bool dcp_placing_init(struct dcp_placing *p, struct zf_err *err)
{
    p->names = p->d->names ? p->d->names : zf_names_new(err);
    p->d->source = calloc(p->d->file.n + 1, sizeof *p->d->source);
    p->d->draft = calloc(p->d->key.n + 1, sizeof *p->d->draft);
    p->file = p->d->source;
    p->items = calloc(p->d->file.n + 1, sizeof *p->items);
    return p->names && ((p->file && p->d->draft && p->items) ||
                        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu files",
                                (unsigned long long)p->d->file.n));
}

void dcp_placing_fini(struct dcp_placing *p)
{
    for (uint64_t i = 0; p->items && i < p->d->file.n; i++)
        zf_source_unref(&p->items[i]);
    dcp_steps_fini(&p->room);
    free(p->items);
    if (p->names != p->d->names)
        zf_names_free(p->names);
}

uint64_t dcp_data_len(const struct zf_dcp *d, const struct dcp_chunk *c)
{
    const struct dcp_key *k = &d->key.at[c->key];
    uint64_t n = 0;

    /* The box is inside a tensor whose size was checked. */
    return zf_dtype_size(k->dtype, k->ndim, c->box + k->ndim, &n) ? n : 0;
}

struct dcp_record dcp_record_of(const struct zf_dcp *d, const struct dcp_chunk *c)
{
    const struct dcp_key *k = &d->key.at[c->key];

    return (struct dcp_record){.len = c->item.len & ZF_DCP_ITEM_MAX,
                               .dtype = k->dtype & 63u,
                               .wrap = c->item.wrap & 3,
                               .shape = dcp_shape_print(k->ndim, c->box + k->ndim)};
}

bool dcp_mark_lost(struct dcp_placing *p, struct dcp_chunk *c, struct zf_err *err)
{
    zf_err_in(err, "%s",
              c->item.file == ZF_DCP_NONE ? ".metadata" : p->d->file.at[c->item.file].path);
    if (!zf_forgive(p->b, err))
        return false;
    c->lost = true;
    return true;
}
