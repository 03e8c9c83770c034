/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe_file.h"

#include <fcntl.h>
#include <string.h>

#include <zf/base/fd.h>

bool recipe_file_read(const char *name, const struct zf_limits *lim, struct zf_hf_opts *o,
                      char **text, struct zf_err *err)
{
    *o = (struct zf_hf_opts){.lim = lim, .name = name};
    if (!name || !strchr(name, '/'))
        return true;
    zf_auto(fd) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    const size_t most = lim->recipe_bytes < SIZE_MAX / 4 ? (size_t)lim->recipe_bytes : SIZE_MAX / 4;
    *text = malloc(most + 2);
    const ssize_t n = fd < 0 || !*text ? -1 : zf_fd_pread(fd, *text, most + 1, 0);
    if (n < 0) {
        (void)zf_fail_sys(err, "read the recipe");
        return zf_err_in(err, "%s", name);
    }
    if ((size_t)n > most) {
        (void)zf_fail_limit(err, ZF_LIMIT_recipe_bytes, ZF_OFF_NONE,
                            "more than %zu bytes are not a recipe (limit recipe_bytes)", most);
        return zf_err_in(err, "%s", name);
    }
    const char *slash = strrchr(name, '/');
    (*text)[n] = '\0';
    o->name = slash[1] ? slash + 1 : name;
    o->text = *text;
    o->n_text = (size_t)n;
    return true;
}
