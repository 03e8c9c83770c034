/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of OLMo and OLMo-core that no other family reads as they are.  Which layout it is,
 * the files decide: the config of an unsharded save names a sharded layout as well.
 * docs/formats/olmo.md says what is where. */
#include <stdio.h>

#include <zf/format.h>

#include "layouts.h"
#include "steps.h"

extern const struct zf_format zf_format_olmo;

static bool olmo_probe(const struct zf_save *save, const struct zf_open_opts *o,
                       struct zf_probe *out, struct zf_err *err)
{
    const char *dir, *file = full_find(save, o->lim);

    (void)err;
    out->fit = file ? ZF_FIT_PROOF : ZF_FIT_NO;
    if (file) {
        snprintf(out->why, sizeof out->why, "the names in %.80s are OLMo's", file);
    } else if (save->file) {
        return true;
    } else if (sharded_find(save->store)) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "model_and_optim/.metadata, and train/ beside it");
    } else if ((dir = core_find(save->store))) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "%s%smetadata.json lists tensors of OLMo-core", dir,
                 *dir ? "/" : "");
    } else if ((dir = local_find(save->store))) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "the flat parameters of FSDP in %s",
                 *dir ? "model/rank*.pt" : "rank*.pt");
    } else if ((dir = unsharded_find(save->store, o->lim))) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "unsharded tensors in %.20s/", *dir ? dir : "model");
    } else if (local_is_optim(save->store, o->lim)) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "the optimizer of FSDP in rank*.pt");
    }
    return true;
}

static bool olmo_open(struct olmo_save *s, const struct zf_save *save, struct zf_err *err)
{
    const char *dir;

    if (full_find(save, s->o->lim)) {
        return full_open(s, save, err);
    }
    if (sharded_find(s->st)) {
        return sharded_open(s, err);
    }
    if ((dir = core_find(s->st))) {
        return core_open(s, dir, err);
    }
    if ((dir = local_find(s->st))) {
        return local_open(s, dir, err);
    }
    if ((dir = unsharded_find(s->st, s->o->lim))) {
        return unsharded_open(s, dir, err);
    }
    if (local_is_optim(s->st, s->o->lim)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "these are the moments of FSDP's flat parameters, and only model/ beside "
                       "them tells what "
                       "of each a rank has: point at the directory above");
    }
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "this is no checkpoint of OLMo");
}

static bool olmo_open_save(const struct zf_save *save, const struct zf_open_opts *o,
                           struct zf_build *b, struct zf_err *err)
{
    struct olmo_save s;
    bool ok = save_init(&s, save, o, b, err) && olmo_open(&s, save, err) && steps_note(&s, err);

    save_fini(&s);
    return ok;
}

const struct zf_format zf_format_olmo = {
    .name = "olmo",
    .summary = "OLMo and OLMo-core: sharded (local, olmo_core, torch_new) and full in safetensors",
    .refines = "dcp",
    .one_file = true,
    .shards = true,
    .probe = olmo_probe,
    .open = olmo_open_save,
};
