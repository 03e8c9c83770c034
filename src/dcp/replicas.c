/* SPDX-License-Identifier: Apache-2.0 */
/* Without collectives every rank writes its own metadata, and its own item for each value that all
 * ranks have.  One item is shown.  The others are compared with it, because nothing else reveals that
 * files of two saves were mixed.
 * Source: torch/distributed/checkpoint/state_dict_saver.py (2.9 … 2.14). */
#include "placing.h"

#include <string.h>

#include <zf/assemble/agree.h>

#include "items.h"

#define COPY_BYTES_MAX (64u << 10) /* longer items are not compared */
#define COPY_MAX 4096              /* copies compared while mounting */

/* The values in an item, as a list to compare.  NULL with err->code = ZF_OK: it cannot be read; reading
 * the item itself will report why. */
static struct zf_agree *replicas_copy_values(struct dcp_placing *p, struct dcp_item item,
                                             const char *name, struct zf_err *err)
{
    struct zf_source *file = p->file[item.file];
    zf_auto(dcp_look) struct dcp_look look = {0};
    zf_auto(agree) struct zf_agree *said = NULL;

    zf_err_clear(err);
    if (!file || item.len > COPY_BYTES_MAX)
        return NULL;
    said = zf_agree_new(p->d->file.at[item.file].path, p->lim->model_memory, err);
    if (!said)
        return NULL;
    if (!dcp_look_init(&look, file, item, COPY_BYTES_MAX * 16u, p->lim, err) || !look.torch ||
        !zf_agree_add(said, look.torch, name, zf_torch_root(look.torch), NULL, false, err)) {
        if (err->code != ZF_E_NOMEM)
            zf_err_clear(err); /* reported when it is read */
        return NULL;
    }
    return zf_give(said);
}

static bool replicas_copy_check(struct dcp_placing *p, const struct dcp_copy *copy,
                                struct zf_err *err)
{
    const struct dcp_chunk *c = &p->d->chunk.at[copy->chunk];
    const char *name = p->d->key.at[c->key].name;
    zf_auto(agree) struct zf_agree *a = NULL, *b = NULL;

    if (c->lost || c->item.file == ZF_DCP_NONE)
        return true;
    a = replicas_copy_values(p, copy->item, name, err);
    b = a ? replicas_copy_values(p, c->item, name, err) : NULL;
    return b ? zf_agree_compare(a, b, true, err) : err->code == ZF_OK;
}

bool dcp_copies_check(struct dcp_placing *p, struct zf_err *err)
{
    for (uint64_t i = 0; i < p->d->copy.n && i < COPY_MAX; i++)
        if (!replicas_copy_check(p, &p->d->copy.at[i], err))
            return false;
    return true;
}
