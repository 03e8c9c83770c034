/* SPDX-License-Identifier: Apache-2.0 */
#include "latest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/base/path.h>

/* A pointer file contains a name or a number: longer contents, and numbers with more digits, are neither. */
enum { LATEST_MAX = 4096, LATEST_NAME = 255, LATEST_DIGITS = 15 };

/* How a file names the latest save. */
enum latest_form {
    /* DeepSpeed: one line, the path of a directory; tags may contain '/'. */
    FORM_PATH,
    /* Megatron's tracker contains the number of an iteration: "10" is iter_0000010.  verl writes the same file next to
     * global_step_10, SkyRL latest_ckpt_global_step.txt.  Source: megatron/training/checkpointing.py,
     * get_checkpoint_name (core 0.4 … 0.19); verl/utils/checkpoint/checkpoint_manager.py, find_latest_ckpt_path
     * (0.2 … 0.6); SkyRL's skyrl_train/trainer.py, save_checkpoints. */
    FORM_ITERATION,
    /* nanotron: the number that is the name of a directory.  Other programs use this file name, too: one with other
     * contents is ignored.  Source: nanotron/serialize/main.py, save (0.4). */
    FORM_NUMBER,
    /* Links to the latest save, or small files with its name if links are not possible.  Source: nemo_automodel/
     * components/checkpoint/checkpointing.py (0.7); composer/callbacks/checkpoint_saver.py, latest_filename (0.32).  A
     * link of Composer may also lead to a save that is a single file. */
    FORM_LINK,
};

/* In this order; DeepSpeed's are the first. */
static const struct {
    const char *file;
    enum latest_form form;
} latest_forms[] = {
    {"latest", FORM_PATH},
    {"latest_universal", FORM_PATH},
    {"latest_checkpointed_iteration.txt", FORM_ITERATION},
    {"latest_ckpt_global_step.txt", FORM_ITERATION},
    {"latest.txt", FORM_NUMBER},
    {"LATEST", FORM_LINK},
    {"latest-rank0.pt", FORM_LINK},
};
enum { LATEST_DEEPSPEED = 2, LATEST_FORMS = sizeof latest_forms / sizeof latest_forms[0] };
static const char latest_composer[] = "latest-rank0.pt";

void latest_fini(struct latest *l)
{
    zf_store_unref(&l->save);
    free(l->name);
    l->name = NULL;
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool latest_give(char **name_out, const char *name, struct zf_err *err)
{
    *name_out = strdup(name);
    return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

static bool latest_path(const char *file, char *text, uint64_t n, char **name_out,
                        struct zf_err *err)
{
    if (n && text[n - 1] == '\n')
        text[--n] = '\0';
    if (n && text[n - 1] == '\r')
        text[--n] = '\0';
    if (strlen(text) == n && !strpbrk(text, "\r\n") && zf_relpath_ok(text))
        return latest_give(name_out, text, err);
    zf_fail(err, ZF_E_FORMAT, 0,
            "found \"%.60s\", expected the name of a directory next to this file", text);
    return zf_err_in(err, "%s", file);
}

/* Contents: "10" or "release", surrounded by any white space: Megatron strips it, and writes no newline.  Its directory
 * is the first of the possible names that exists, else the last one. */
static bool latest_iteration(struct zf_store *st, const char *file, const char *text, uint64_t n,
                             char **name_out, struct zf_err *err)
{
    static const char space[] = " \t\r\n\v\f";
    const char *word = text + strspn(text, space);
    size_t len = strcspn(word, space), digits = strspn(word, "0123456789");
    bool alone = strlen(text) == n && word[len + strspn(word + len, space)] == '\0';
    char name[48];

    if (alone && len == 7 && memcmp(word, "release", 7) == 0)
        return latest_give(name_out, "release", err);
    if (!alone || len == 0 || digits != len || len > LATEST_DIGITS) {
        zf_fail(err, ZF_E_FORMAT, 0, "found \"%.60s\", expected a number or \"release\"", word);
        return zf_err_in(err, "%s", file);
    }
    const unsigned long long step = strtoull(word, NULL, 10);
    (void)snprintf(name, sizeof name, "global_step_%llu", step);
    if (!zf_store_has(st, name, ZF_ENTRY_DIR))
        (void)snprintf(name, sizeof name, "iter_%07llu", step);
    return latest_give(name_out, name, err);
}

static bool latest_number(char *text, char **name_out, struct zf_err *err)
{
    const size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > LATEST_DIGITS || text[digits + strspn(text + digits, "\r\n")])
        return true;
    text[digits] = '\0';
    return latest_give(name_out, text, err);
}

/* Is the file small enough to be a tracker?  A torch.save file never is. */
static bool latest_is_text(const struct zf_entry *e)
{
    return e && e->kind == ZF_ENTRY_FILE && e->id.size <= LATEST_NAME;
}

/* The save that this file, or link, names.  *name_out = NULL: none, because it does not exist or is something else. */
static bool latest_read(struct zf_store *st, const char *file, enum latest_form form,
                        char **name_out, struct zf_err *err)
{
    const struct zf_entry *e = zf_store_find(st, file);
    uint64_t n = 0;

    *name_out = NULL;
    if (!e || (e->kind == ZF_ENTRY_FILE && form >= FORM_NUMBER && !latest_is_text(e)))
        return true;
    if (e->kind == ZF_ENTRY_DIR)
        return form != FORM_LINK || latest_give(name_out, file, err);
    if (e->kind == ZF_ENTRY_OTHER) {
        if (form == FORM_NUMBER || strcmp(file, "latest") == 0)
            return true;
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "this is %s, not a file that names the latest save (-o tag=NAME selects one)",
                e->what);
        return zf_err_in(err, "%s", file);
    }
    zf_auto(mem) char *text = zf_store_slurp(st, file, LATEST_MAX, &n, err);
    return text && (form == FORM_ITERATION ? latest_iteration(st, file, text, n, name_out, err)
                    : form == FORM_NUMBER  ? latest_number(text, name_out, err)
                                           : latest_path(file, text, n, name_out, err));
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The name by the first of all pointer files, or by the first of DeepSpeed's that is a file. */
static bool latest_first(struct zf_store *st, bool deepspeed, char **name_out, struct zf_err *err)
{
    *name_out = NULL;
    for (size_t i = 0; i < (deepspeed ? LATEST_DEEPSPEED : LATEST_FORMS) && !*name_out; i++)
        if ((!deepspeed || zf_store_has(st, latest_forms[i].file, ZF_ENTRY_FILE)) &&
            !latest_read(st, latest_forms[i].file, latest_forms[i].form, name_out, err))
            return false;
    return true;
}

bool latest_name(struct zf_store *st, char **name_out, struct zf_err *err)
{
    if (!latest_first(st, false, name_out, err) || *name_out)
        return *name_out != NULL;
    /* A link or a directory; the caller refuses an unusable one. */
    const struct zf_entry *e = zf_store_find(st, "latest");
    return !e || e->kind == ZF_ENTRY_FILE || latest_give(name_out, "latest", err);
}

bool latest_open(struct zf_store *st, const char *name, struct latest *l, struct zf_err *err)
{
    if (!l->name && !latest_give(&l->name, name, err))
        return false;
    l->save = zf_store_sub(st, l->name, &l->why);
    if (l->save) {
        l->state = LATEST_FOUND;
        return true;
    }
    const struct zf_entry *e = zf_err_unknown(&l->why) ? NULL : zf_store_find(st, l->name);
    if (e && e->kind == ZF_ENTRY_DIR)
        e = NULL;
    const bool none = l->why.code == ZF_E_NOENT, missing = l->why.sys == ENOENT;
    l->state = !e && (none || missing) ? LATEST_GONE : LATEST_BAD;
    if (e && e->kind == ZF_ENTRY_FILE)
        (void)zf_fail(&l->why, ZF_E_FORMAT, ZF_OFF_NONE, "it is a file, not a directory");
    else if (e && missing)
        (void)zf_fail(&l->why, ZF_E_FORMAT, ZF_OFF_NONE, "it is a dangling link");
    else if (e && (none || l->why.sys == ENOTDIR))
        (void)zf_fail(&l->why, ZF_E_FORMAT, ZF_OFF_NONE,
                      "it is %s, neither a directory nor a link to one", e->what);
    return true;
}

bool latest_find(struct zf_store *st, bool deepspeed, struct latest *l, struct zf_err *err)
{
    if (l->state > LATEST_NONE)
        return true;
    if (!(deepspeed ? latest_first(st, true, &l->name, &l->why)
                    : latest_name(st, &l->name, &l->why))) {
        l->state = LATEST_BROKEN;
        if (l->why.code == ZF_E_FORMAT || l->why.code == ZF_E_LIMIT)
            return true;
        *err = l->why;
        return false;
    }
    if (l->name)
        return latest_open(st, l->name, l, err);
    l->state = LATEST_NONE;
    return true;
}

/* ---- links, and saves that are one file ------------------------------------------------------ */

bool latest_is_link(const char *name)
{
    return strcmp(name, "latest") == 0 || strcmp(name, "LATEST") == 0 ||
           strcmp(name, "LOWEST_VAL") == 0 || strcmp(name, latest_composer) == 0;
}

bool latest_word(struct zf_store *st, const char *word, char **name_out, struct zf_err *err)
{
    *name_out = NULL;
    return strcmp(word, "latest") == 0
               ? latest_name(st, name_out, err)
               : !latest_is_link(word) || latest_read(st, word, FORM_LINK, name_out, err);
}

bool latest_one_file(struct zf_store *st, char **name_out, struct zf_err *err)
{
    const struct zf_entry *e = zf_store_find(st, latest_composer);

    *name_out = NULL;
    if (!e || e->kind != ZF_ENTRY_FILE)
        return true;
    if (!(latest_is_text(e) ? latest_read(st, latest_composer, FORM_LINK, name_out, err)
                            : latest_give(name_out, latest_composer, err)))
        return false;
    if (!zf_store_has(st, *name_out, ZF_ENTRY_FILE)) {
        free(*name_out);
        *name_out = NULL;
    }
    return true;
}

bool latest_means_directory(struct zf_store *st, const char *name)
{
    return strcmp(name, latest_composer) == 0 && latest_is_text(zf_store_find(st, name));
}
