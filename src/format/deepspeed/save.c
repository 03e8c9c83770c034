/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

bool save_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                 struct zf_err *err)
{
    const char **path = zf_arena_get(ds->a, n, sizeof *path, err);
    uint32_t k = 0;

    for (; path && k < n && file[k].dp < n_dp; k++) {
        path[k] = file[k].path;
    }
    return path && zf_torch_ahead_begin(&ds->files, path, k, err);
}
