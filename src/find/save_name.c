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
    while (*pattern && fnmatch(*pattern, name, flags) != 0)
        pattern++;
    return *pattern != NULL;
}

/* OLMo's suffix for a save whose rank files were merged. */
static const char unsharded[] = "-unsharded";

/* Is this word of n letters used for a part of a save? */
static bool save_name_word_is_part(const char *word, size_t n)
{
    static const char *const part[] = {"rank",  "ranks",     "shard", "shards",
                                       "optim", "optimizer", "model", "models"};

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (strlen(part[i]) == n && strncasecmp(word, part[i], n) == 0)
            return true;
    return false;
}

/* Does the name count parts, or end in one: "rank_0_step_5", "step5_optim"?  "model_step_5" counts steps. */
static bool save_name_counts_parts(const char *name)
{
    const char *word = name;
    size_t n = 0;

    for (const char *p = name; *p;) {
        if (isalpha((unsigned char)*p)) {
            for (word = p; isalpha((unsigned char)*p); p++) {
            }
            n = (size_t)(p - word);
        } else if (isdigit((unsigned char)*p)) {
            if (save_name_word_is_part(word, n))
                return true;
            p += strspn(p, "0123456789");
            n = 0;
        } else {
            p++;
        }
    }
    return save_name_word_is_part(word, n);
}

bool save_name_is_step(const char *name)
{
    static const char *const word[] = {"step", "iter", "epoch", "checkpoint", "ckpt"};

    if (save_name_counts_parts(name))
        return false;
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        if (strcasestr(name, word[i]))
            return name[strcspn(name, "0123456789")] != '\0';
    return false;
}

bool save_name_number(const char *name, int64_t *number_out)
{
    size_t n = strspn(name, "0123456789");

    if (n == 0 || name[n] || n > 15)
        return false;
    *number_out = strtoll(name, NULL, 10);
    return true;
}

/* The number in one component: 60 in "checkpoint-60", the last one in "epoch=1-step=20.ckpt". */
static bool save_name_last_number(const char *name, int64_t *step_out)
{
    const char *end = name + strlen(name), *p;

    while (end > name && !isdigit((unsigned char)end[-1]))
        end--;
    for (p = end; p > name && isdigit((unsigned char)p[-1]);)
        p--;
    if (p == end || end - p > 15)
        return false;
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
        if (save_name_is_step(name) && save_name_last_number(name, &step)) {
            *step_out = step;
            found = true;
        }
    }
    return found;
}

/* Directories with a part of one save: of a rank (Megatron's legacy layout), of what OLMo's local and
 * OLMo-core's first layout separate, of a zarr save, of a diffusers pipeline. */
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

/* Can `rest` follow the number in the name of a series? */
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

/* Names that are not saves: pointers to the latest save (latest.c looks for them by name), hidden files, temporary
 * names of saves, and the directory at the root of a file system that only root may read (mke2fs(8)). */
bool save_name_is_ignored(const char *name)
{
    return name[0] == '.' || strcmp(name, "latest") == 0 || strcmp(name, "LATEST") == 0 ||
           strcmp(name, "latest-rank0.pt") == 0 || strcmp(name, "lost+found") == 0 ||
           save_name_is_tmp(name);
}
