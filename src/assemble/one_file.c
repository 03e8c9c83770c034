/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/one_file.h>

#include <string.h>

#include <zf/base/name.h>

/* Files that stand for the directory they lie in. */
static bool is_manifest(const char *name)
{
    static const char *const whole[] = {"latest", "latest_universal", "metadata.json",
                                        "config.json", "latest_checkpointed_iteration.txt"};
    static const char *const tail[] = {".metadata", ".distcp", "config.yaml", "metadata.yaml"};

    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(name, whole[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        if (zf_name_ends(name, tail[i])) {
            return true;
        }
    }
    return false;
}

const char *zf_one_file(const struct zf_store *st)
{
    const char *focus = zf_store_focus(st);

    return focus && !is_manifest(focus) ? focus : NULL;
}
