/* SPDX-License-Identifier: Apache-2.0 */
#include "save_name.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

bool save_name_fits(const char *name, const char *const *pattern, int flags)
{
    while (*pattern && fnmatch(*pattern, name, flags) != 0) {
        pattern++;
    }
    return *pattern != NULL;
}

/* How OLMo calls a save of which the ranks' parts are put together. */
static const char unsharded[] = "-unsharded";

/* Is the word in the name?  That a save is not sharded does not make it a shard. */
static bool save_name_has(const char *name, const char *word)
{
    const char *at = strcasestr(name, word);

    return at && !(at >= name + 3 && strcmp(at - 3, unsharded) == 0);
}

bool save_name_is_step(const char *name)
{
    static const char *const word[] = {"step", "iter", "epoch", "checkpoint", "ckpt"};
    static const char *const part[] = {"rank", "shard", "optim", "model"};

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (save_name_has(name, part[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        if (strcasestr(name, word[i])) {
            return name[strcspn(name, "0123456789")] != '\0';
        }
    }
    return false;
}

/* The number of one component: 60 for "checkpoint-60", the last for "epoch=1-step=20.ckpt". */
static bool save_name_number(const char *name, int64_t *step_out)
{
    const char *end = name + strlen(name), *p;

    while (end > name && !isdigit((unsigned char)end[-1])) {
        end--;
    }
    for (p = end; p > name && isdigit((unsigned char)p[-1]);) {
        p--;
    }
    if (p == end || end - p > 15) {
        return false;
    }
    *step_out = strtoll(p, NULL, 10);
    return true;
}

bool save_name_step(const char *path, int64_t *step_out)
{
    bool found = false;

    for (const char *end; *path; path = *end ? end + 1 : end) {
        char name[ZF_NAME_MAX + 1];
        size_t n = strcspn(path, "/");
        int64_t step;

        end = path + n;
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), path);
        if (save_name_is_step(name) && save_name_number(name, &step)) {
            *step_out = step;
            found = true;
        }
    }
    return found;
}

/* Directories that hold a part of one save: of a rank (Megatron's legacy layout), of what OLMo's
 * local and OLMo-core's first layout keep apart, of a zarr save, of a diffusers pipeline. */
bool save_name_is_part(const char *path)
{
    static const char *const part[] = {
        "model",
        "optim",
        "optimizer",
        "train",
        "mp_rank_[0-9]*",
        "rng_state",
        "*_extra_state",
        "unet",
        "vae",
        "prior",
        "text_encoder*",
        "transformer*",
        "image_encoder",
        "controlnet",
        "safety_checker",
        NULL,
    };
    const char *slash = strrchr(path, '/');

    return save_name_fits(slash ? slash + 1 : path, part, 0);
}

bool save_name_is_unsharded(const char *name, const char *of)
{
    size_t n = strlen(of);

    return strncmp(name, of, n) == 0 && strcmp(name + n, unsharded) == 0;
}

/* What is left of a name of a series behind its number. */
static bool save_name_is_end(const char *rest)
{
    return !*rest || strcmp(rest, unsharded) == 0;
}

bool save_name_same_series(const char *a, const char *b)
{
    for (;;) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a != *b) {
            return save_name_is_end(a) && save_name_is_end(b);
        } else if (!*a) {
            return true;
        } else {
            a++;
            b++;
        }
    }
}

static bool save_name_is_tmp(const char *name)
{
    size_t n = strlen(name);

    return strncmp(name, "tmp-", 4) == 0 || strncmp(name, "tmp_", 4) == 0 ||
           (n > 4 && strcmp(name + n - 4, "-tmp") == 0) ||
           (n > 4 && strcmp(name + n - 4, ".tmp") == 0);
}

bool save_name_is_unfinished(const char *name)
{
    return save_name_is_tmp(name) && save_name_is_step(name);
}

/* Links beside the saves that name one of them, hidden things, saves under the name they have while they are
 * written, and what a file system keeps at its root: only root may look into it (mke2fs(8)). */
bool save_name_is_beside(const char *name)
{
    return name[0] == '.' || strncmp(name, "latest", 6) == 0 || strcmp(name, "LATEST") == 0 ||
           strcmp(name, "LOWEST_VAL") == 0 || strcmp(name, "lost+found") == 0 ||
           save_name_is_tmp(name);
}
