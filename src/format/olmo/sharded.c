/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's "torch_new" and OLMo-core from 1.0 on: a DCP directory model_and_optim/ next to the trainer's
 * state.  Without the latter, format dcp reads it. */
#include "layouts.h"

#include <zf/dcp.h>

#include "train.h"

static const char sharded_dir[] = "model_and_optim", sharded_file[] = "model_and_optim/.metadata";

const char *sharded_find(const struct zf_save *save, const struct zf_open_opts *o)
{
    struct zf_store *st = save->store;

    (void)o;
    return !save->file && zf_store_has(st, sharded_file, ZF_ENTRY_FILE) &&
                   (zf_numbered_any(st, "train", "rank%r.pt") ||
                    zf_store_has(st, ".metadata.json", ZF_ENTRY_FILE))
               ? sharded_dir
               : NULL;
}

bool sharded_open(void *ctx, const char *where, struct zf_err *err)
{
    struct olmo_save *s = ctx;
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(s->o->lim, err);

    return d && zf_dcp_read(d, s->st, where, ".metadata", s->o->lim, s->b, err) &&
           zf_dcp_place(d, s->st, s->o->lim, s->b, err) && train_add(s, 0, err);
}
