/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of OLMo and OLMo-core that no other format can read.  The files decide which layout it is,
 * because the config of an unsharded save also names a sharded layout.
 * docs/formats/olmo.md describes the files. */
#include <zf/format.h>

#include "layouts.h"
#include "save.h"

extern const struct zf_format zf_format_olmo;

static const struct zf_layout olmo_layout[] = {
    {.what = "OLMo's names in", .find = full_find, .open = full_open},
    {.what = "the trainer's state next to",
     .file = ".metadata",
     .find = sharded_find,
     .open = sharded_open},
    {.what = "tensors of OLMo-core in",
     .file = "metadata.json",
     .find = core_find,
     .open = core_open},
    {.what = "flat parameters of FSDP in",
     .file = "rank*.pt",
     .find = local_find,
     .open = local_open},
    {.what = "unsharded tensors in",
     .file = "*.pt",
     .find = unsharded_find,
     .open = unsharded_open},
    {.what = "the optimizer of FSDP in",
     .file = "rank*.pt",
     .find = local_find_optim,
     .open = local_refuse_optim},
    {0}};

static bool olmo_probe(const struct zf_save *save, const struct zf_open_opts *o,
                       struct zf_probe *out, struct zf_err *err)
{
    (void)err;
    zf_layouts_probe(olmo_layout, save, o, out);
    return true;
}

static bool olmo_open_save(const struct zf_save *save, const struct zf_open_opts *o,
                           struct zf_build *b, struct zf_err *err)
{
    struct olmo_save s;
    bool ok = save_init(&s, save, o, b, err) && zf_layouts_open(olmo_layout, save, o, &s, err) &&
              steps_note(&s, err);

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
