/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/save_dirs.h>

#include <stdio.h>
#include <string.h>

const char *const zf_weights_dir[] = {
    "model", "modeling", "weights", "weights/model", "policy/weights", "policy/weights/model",
    NULL};

const char *const zf_optimizer_dir[] = {
    "optimizer", "optim", "optimizer/optim", "policy/optimizer", "policy/optimizer/optim", NULL};

bool zf_save_dir_is(struct zf_store *st, const char *dir)
{
    char path[128];
    bool is = strlen(dir) < sizeof path;

    for (const char *end = dir; is && end; end += *end == '/') {
        end += strcspn(end, "/");
        (void)snprintf(path, sizeof path, "%.*s", (int)(end - dir), dir);
        is = zf_store_has(st, path, ZF_ENTRY_DIR);
        if (!*end)
            break;
    }
    return is;
}
