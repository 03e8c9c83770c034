/* SPDX-License-Identifier: Apache-2.0 */
#include "param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

static bool param_at(struct zf_tree *t, const char *path, struct param *out)
{
    struct zf_stat st;

    if (!zf_tree_walk(t, path, &st) || !zf_tree_tensor(t, st.ino, &out->x))
        return false;
    out->ino = st.ino;
    return true;
}

bool param_walk(struct zf_tree *t, const char *path, struct param *out)
{
    bool found = param_at(t, path, out);

    for (int type = 0; !found && type < ZF_DT_COUNT; type++) {
        const char *suffix = zf_dtype_info((enum zf_dtype)type)->suffix;
        zf_auto(mem) char *file = malloc(strlen(path) + strlen(suffix) + 2);

        if (!file)
            return false;
        (void)sprintf(file, "%s.%s", path, suffix);
        found = param_at(t, file, out);
    }
    return found;
}

bool param_match(struct zf_tree *t, const char *path, const struct zf_each *each,
                 struct zf_err *err)
{
    struct zf_stat st;

    if (zf_tree_walk(t, path, &st)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "is not a tensor (zerofs cat prints files of text, zerofs ls directories)");
        return zf_err_in(err, "%s", path);
    }
    return zf_each_match(each, path, err);
}

char *param_path(const struct zf_set *s, const struct zf_tensor *t)
{
    const size_t n = strlen(s->path);
    char suffix[32], *path = malloc(n + 1 + ZF_NAME_MAX + 1);

    if (path) {
        (void)snprintf(suffix, sizeof suffix, ".%s", zf_dtype_info(t->dtype)->suffix);
        (void)sprintf(path, "%s%s", s->path, n ? "/" : "");
        (void)zf_name_encode(path + strlen(path), t->name, t->name_len, suffix);
    }
    return path;
}
