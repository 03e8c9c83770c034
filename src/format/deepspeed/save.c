/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

static const char **save_paths(struct ds_save *ds, const struct ds_file *file, uint32_t n,
                               struct zf_err *err)
{
    const char **path = zf_arena_get(ds->a, n, sizeof *path, err);

    for (uint32_t k = 0; path && k < n; k++) {
        path[k] = file[k].path;
    }
    return path;
}

bool save_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                 struct zf_err *err)
{
    uint32_t k = 0;

    while (k < n && file[k].dp < n_dp) {
        k++;
    }
    const char **path = save_paths(ds, file, k, err);
    return path && zf_torch_ahead_begin(&ds->files, path, k, err);
}

bool save_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                       uint32_t n, struct zf_err *err)
{
    const char **path = save_paths(ds, file, n, err);

    return path && zf_torch_ahead_begin_alike(&ds->files, first, path, n, err);
}
