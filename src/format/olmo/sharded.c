/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's "torch_new" and OLMo-core from 1.0 on: a DCP directory model_and_optim/ and the trainer's state
 * beside it.  Without the latter, family dcp reads the same. */
#include "layouts.h"

#include <zf/dcp.h>

#include "rank_files.h"
#include "train.h"

static const char sharded_dir[] = "model_and_optim", sharded_file[] = "model_and_optim/.metadata";

bool sharded_find(struct zf_store *st)
{
    uint32_t rank;

    if (!zf_store_has(st, sharded_file, ZF_ENTRY_FILE)) {
        return false;
    }
    for (struct zf_entries l = zf_store_entries(st, "train"); l.e < l.end; l.e++) {
        if (rank_files_parse(l.e->name, "rank", ".pt", &rank)) {
            return true;
        }
    }
    return zf_store_has(st, ".metadata.json", ZF_ENTRY_FILE);
}

bool sharded_open(struct olmo_save *s, struct zf_err *err)
{
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(s->o->lim, err);

    return d && zf_dcp_read(d, s->st, sharded_dir, ".metadata", s->o->lim, s->b, err) &&
           zf_dcp_place(d, s->st, s->o->lim, s->b, err) && train_add(s, 0, err);
}
