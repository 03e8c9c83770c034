/* SPDX-License-Identifier: Apache-2.0 */
#include "latest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/base/path.h>

/* `latest` contains the name of a directory: longer contents are not one. */
enum { LATEST_MAX = 4096, LATEST_NAME = 255 };

/* Megatron's tracker file contains the number of an iteration: "10" is iter_0000010.  verl writes the
 * same file next to global_step_10, SkyRL latest_ckpt_global_step.txt.
 * Source: megatron/training/checkpointing.py, get_checkpoint_name (core 0.4 … 0.19);
 * verl/utils/checkpoint/checkpoint_manager.py, find_latest_ckpt_path (0.2 … 0.6); SkyRL's
 * skyrl_train/trainer.py, save_checkpoints. */
static const char *const latest_numbers[] = {"latest_checkpointed_iteration.txt",
                                             "latest_ckpt_global_step.txt"};

/* Links to the latest save, or small files with its name if links are not possible.  Source: nemo_automodel/
 * components/checkpoint/checkpointing.py (0.7); composer/callbacks/checkpoint_saver.py, latest_filename (0.32).  A
 * link of Composer may also lead to a save that is a single file. */
static const char *const latest_links[] = {"LATEST", "latest-rank0.pt"};

const char *latest_file(struct zf_store *st)
{
    return zf_store_has(st, "latest", ZF_ENTRY_FILE)             ? "latest"
           : zf_store_has(st, "latest_universal", ZF_ENTRY_FILE) ? "latest_universal"
                                                                 : NULL;
}

bool latest_read(struct zf_store *st, const char *file, char **name_out, struct zf_err *err)
{
    zf_auto(mem) char *text = NULL;
    uint64_t n = 0;

    *name_out = NULL;
    text = zf_store_slurp(st, file, LATEST_MAX, &n, err);
    if (!text)
        return false;
    if (n && text[n - 1] == '\n')
        text[--n] = '\0';
    if (n && text[n - 1] == '\r')
        text[--n] = '\0';
    if (strlen(text) != n || strpbrk(text, "\r\n") || !zf_relpath_ok(text)) {
        zf_fail(err, ZF_E_FORMAT, 0,
                "found \"%.60s\", expected the name of a directory next to this file", text);
        return zf_err_in(err, "%s", file);
    }
    *name_out = zf_give(text);
    return true;
}

/* Is the file small enough to be a tracker?  A torch.save file never is. */
static bool latest_is_text(struct zf_store *st, const char *name)
{
    const struct zf_entry *e = zf_store_find(st, name);

    return e && e->kind == ZF_ENTRY_FILE && e->id.size <= LATEST_NAME;
}

/* The directory of an iteration: the first of the possible names that exists, else the last one. */
static char *latest_iteration(struct zf_store *st, unsigned long long step)
{
    char name[48];

    (void)snprintf(name, sizeof name, "global_step_%llu", step);
    if (!zf_store_has(st, name, ZF_ENTRY_DIR))
        (void)snprintf(name, sizeof name, "iter_%07llu", step);
    return strdup(name);
}

/* Contents: "10" or "release", surrounded by any white space: Megatron strips it, and writes no newline.
 * A number with more digits is not an iteration. */
enum { LATEST_DIGITS = 15 };

static bool latest_number(struct zf_store *st, const char *file, char **name_out,
                          struct zf_err *err)
{
    static const char space[] = " \t\r\n\v\f";
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, file, LATEST_MAX, &n, err);

    *name_out = NULL;
    if (!text)
        return false;
    const char *word = text + strspn(text, space);
    size_t len = strcspn(word, space), digits = strspn(word, "0123456789");
    bool alone = strlen(text) == n && word[len + strspn(word + len, space)] == '\0';
    bool release = alone && len == 7 && memcmp(word, "release", 7) == 0;
    if (!release && (!alone || len == 0 || digits != len || len > LATEST_DIGITS)) {
        zf_fail(err, ZF_E_FORMAT, 0, "found \"%.60s\", expected a number or \"release\"", word);
        return zf_err_in(err, "%s", file);
    }
    *name_out = release ? strdup("release") : latest_iteration(st, strtoull(word, NULL, 10));
    return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* nanotron's latest.txt contains the number that is the name of a directory.  Other programs use this file name,
 * too: one with other contents is ignored.  Source: nanotron/serialize/main.py, save (0.4). */
static const char latest_plain[] = "latest.txt";

static bool latest_plain_read(struct zf_store *st, char **name_out, struct zf_err *err)
{
    uint64_t n;

    *name_out = NULL;
    if (!latest_is_text(st, latest_plain))
        return true;
    zf_auto(mem) char *text = zf_store_slurp(st, latest_plain, LATEST_NAME, &n, err);
    size_t digits = text ? strspn(text, "0123456789") : 0;

    if (digits == 0 || digits > LATEST_DIGITS || text[digits + strspn(text + digits, "\r\n")])
        return text != NULL;
    *name_out = strndup(text, digits);
    return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* Fails because the entry is not a file that could name the latest save. */
static bool latest_no_file(struct zf_store *st, const char *file, struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "this is %s, not a file that names the latest save (-o tag=NAME selects one)",
            zf_store_find(st, file)->what);
    return zf_err_in(err, "%s", file);
}

bool latest_is_link(const char *name)
{
    return strcmp(name, "latest") == 0 || strcmp(name, "LOWEST_VAL") == 0 ||
           strcmp(name, latest_links[0]) == 0 || strcmp(name, latest_links[1]) == 0;
}

/* The save that a link, or a small file instead of it, names.  *name_out = NULL: it is neither. */
static bool latest_link(struct zf_store *st, const char *name, char **name_out, struct zf_err *err)
{
    *name_out = NULL;
    if (latest_is_text(st, name))
        return latest_read(st, name, name_out, err);
    if (zf_store_has(st, name, ZF_ENTRY_OTHER))
        return latest_no_file(st, name, err);
    if (zf_store_has(st, name, ZF_ENTRY_DIR)) {
        *name_out = strdup(name);
        return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return true;
}

bool latest_one_file(struct zf_store *st, char **name_out, struct zf_err *err)
{
    const char *name = latest_links[1];

    *name_out = NULL;
    if (!zf_store_has(st, name, ZF_ENTRY_FILE))
        return true;
    if (!latest_is_text(st, name)) {
        *name_out = strdup(name);
        return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!latest_read(st, name, name_out, err))
        return false;
    if (!zf_store_has(st, *name_out, ZF_ENTRY_FILE)) {
        free(*name_out);
        *name_out = NULL;
    }
    return true;
}

bool latest_means_directory(struct zf_store *st, const char *name)
{
    return strcmp(name, latest_links[1]) == 0 && latest_is_text(st, name);
}

bool latest_named(struct zf_store *st, const char *name, char **name_out, struct zf_err *err)
{
    *name_out = NULL;
    return !latest_is_link(name) || strcmp(name, "latest") == 0 ||
           latest_link(st, name, name_out, err);
}

bool latest_save(struct zf_store *st, char **name_out, struct zf_err *err)
{
    const char *file = latest_file(st);

    *name_out = NULL;
    if (file)
        return latest_read(st, file, name_out, err);
    if (zf_store_has(st, "latest_universal", ZF_ENTRY_OTHER))
        return latest_no_file(st, "latest_universal", err);
    for (size_t i = 0; i < sizeof latest_numbers / sizeof latest_numbers[0]; i++) {
        if (zf_store_has(st, latest_numbers[i], ZF_ENTRY_FILE))
            return latest_number(st, latest_numbers[i], name_out, err);
        if (zf_store_has(st, latest_numbers[i], ZF_ENTRY_OTHER))
            return latest_no_file(st, latest_numbers[i], err);
    }
    if (!latest_plain_read(st, name_out, err) || *name_out)
        return *name_out != NULL;
    for (size_t i = 0; i < sizeof latest_links / sizeof latest_links[0]; i++) {
        if (!latest_link(st, latest_links[i], name_out, err))
            return false;
        if (*name_out)
            return true;
    }
    /* A link or a directory; the caller refuses an unusable one. */
    if (zf_store_has(st, "latest", ZF_ENTRY_DIR) || zf_store_has(st, "latest", ZF_ENTRY_OTHER)) {
        *name_out = strdup("latest");
        return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return true;
}
