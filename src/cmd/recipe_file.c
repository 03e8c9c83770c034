/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe_file.h"

#include <fcntl.h>
#include <string.h>

#include <zf/base/fd.h>

/* Larger files are no recipes. */
#define MAX_BYTES (1u << 20)

bool recipe_file_read(const char *name, const struct zf_limits *lim, struct zf_hf_opts *o,
                      char **text, struct zf_err *err)
{
    *o = (struct zf_hf_opts){.lim = lim, .name = name};
    if (!name || !strchr(name, '/')) {
        return true;
    }
    zf_auto(fd) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    *text = malloc(MAX_BYTES + 2);
    const ssize_t n = fd < 0 || !*text ? -1 : zf_fd_pread(fd, *text, MAX_BYTES + 1, 0);
    if (n < 0) {
        (void)zf_fail_sys(err, "read the recipe");
        return zf_err_in(err, "%s", name);
    }
    if (n > MAX_BYTES) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %u bytes are no recipe", MAX_BYTES);
        return zf_err_in(err, "%s", name);
    }
    const char *slash = strrchr(name, '/');
    (*text)[n] = '\0';
    o->name = slash[1] ? slash + 1 : name;
    o->text = *text;
    o->n_text = (size_t)n;
    return true;
}
