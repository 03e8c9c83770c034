/* SPDX-License-Identifier: Apache-2.0 */
/* Non-persistent local checkpoints: a file a rank on that rank's own disk, in classes of
 * nvidia-resiliency-ext.  They are known, so that nobody takes one for a torch.save file of weights, and
 * not read: what a rank's file holds of a tensor is known to the running job alone. */
#include "steps.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* <root>/<session>/<rank>/iter_0000010_<rank>_local.pt, with .dirty in front of the ending while it is
 * written.  Source: nvidia_resiliency_ext/checkpointing/local/ckpt_managers/local_manager.py (0.2 … 0.5),
 * _filename_from_template, local_ckpt_dir. */
static const char local_glob[] = "iter_[0-9]*_[0-9]*_local*.pt";

static bool local_in(struct zf_store *st, const char *dir, char path[160])
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (l.e->kind == ZF_ENTRY_FILE && fnmatch(local_glob, l.e->name, 0) == 0) {
            (void)snprintf(path, 160, "%.70s%s%.80s", dir, *dir ? "/" : "", l.e->name);
            return true;
        }
    }
    return false;
}

bool mg_local_find(struct zf_store *st, char path[160])
{
    if (local_in(st, "", path))
        return true;
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_DIR && !l.e->name[strspn(l.e->name, "0123456789")])
            return local_in(st, l.e->name, path); /* the ranks are alike */
    return false;
}

bool mg_local_refuse(const char *path, struct zf_err *err)
{
    zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "this is a local non-persistent checkpoint of nvidia-resiliency-ext, one file a rank, "
            "which zerofs does not read. Point at one of the run's persistent saves");
    return zf_err_in(err, "%s", path);
}
