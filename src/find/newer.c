/* SPDX-License-Identifier: Apache-2.0 */
/* Notes newer saves that were not opened, because they are unfinished, or because the pointer file names an
 * older one. */
#include "locate.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "latest.h"
#include "save_name.h"
#include "saves.h"

/* Searches the directory `dir` of st ("" = st itself); names in the note begin with `dir`. */
static bool newer_in(struct zf_store *st, const char *dir, const char *base, int64_t step,
                     const struct zf_limits *lim, char note[NEWER_NOTE])
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char others[48] = "";
    size_t more = 0, at = SIZE_MAX;

    zf_auto(store) struct zf_store *sub = zf_store_sub(st, dir, &ignored);
    if (!sub || !zf_saves_list(sub, ZF_SAVES_NAMED, lim, &s, &ignored))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i].step <= step || !save_name_same_series(s.at[i].path, base))
            continue;
        more += at != SIZE_MAX;
        at = at == SIZE_MAX || s.at[i].step > s.at[at].step ? i : at;
    }
    if (at == SIZE_MAX)
        return false;
    saves_examine(sub, &s, at, lim);
    if (more)
        (void)snprintf(others, sizeof others, " (as are %zu more)", more);
    (void)snprintf(note, NEWER_NOTE, "%.40s%s%.60s is newer%s%s", dir, *dir ? "/" : "",
                   s.at[at].path, others,
                   s.unknown.code               ? ", but cannot be read"
                   : s.at[at].fit > ZF_FIT_WEAK ? " than the save that is shown"
                                                : ", but unfinished or without weights");
    return true;
}

/* Megatron's non-persistent saves, which are soon overwritten, have a run directory of their own.  Source:
 * megatron/training/checkpointing.py, _get_non_persistent_iteration (core 0.7 … 0.19). */
static const char newer_non_persistent[] = "non_persistent";

/* torch_checkpointing writes a save NAME to tmp_NAME, with a file for each item and rank.  Source:
 * torch_checkpointing 0.1. */
static bool newer_is_items(struct zf_store *st, const char *dir)
{
    struct zf_entries l = zf_store_entries(st, dir);
    bool is = false;

    for (; strncmp(dir, "tmp_", 4) == 0 && l.e < l.end && !is; l.e++)
        is = fnmatch("*_[0-9]*.pt", l.e->name, 0) == 0;
    return is;
}

const char *newer_unfinished(struct zf_store *st)
{
    const char *last = NULL;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_DIR &&
            (save_name_is_unfinished(l.e->name) || newer_is_items(st, l.e->name)))
            last = l.e->name;
    return last;
}

/* Adds to the note which save was being written, which is never opened, whatever its step. */
static void newer_add_unfinished(struct zf_store *run, char note[NEWER_NOTE])
{
    const char *name = newer_unfinished(run);
    size_t at = strlen(note);

    if (name) {
        (void)snprintf(note + at, NEWER_NOTE - at, "%s%.60s was being written and is skipped",
                       at ? "; " : "", name);
    }
}

/* The step of the save `base` in run; for a link, that of its target. */
static bool newer_step(struct zf_store *run, const char **base, int64_t *step, char name[256])
{
    struct zf_err ignored = {.code = ZF_OK};

    if (latest_is_link(*base) || strncmp(*base, "latest", 6) == 0) {
        zf_auto(store) struct zf_store *sub = zf_store_sub(run, *base, &ignored);

        (void)snprintf(name, 256, "%s", sub ? zf_store_base(sub) : "");
        *base = name;
    }
    return save_name_is_step(*base) && save_name_step(*base, step);
}

void newer_note(struct zf_store *st, const char *name, const struct zf_limits *lim,
                char note[NEWER_NOTE])
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    struct zf_err ignored = {.code = ZF_OK};
    char dir[256], target[256];
    int64_t step;

    note[0] = '\0';
    if (slash && (size_t)(slash - name) >= sizeof dir)
        return;
    (void)snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - name) : 0, name);
    zf_auto(store) struct zf_store *run = zf_store_sub(st, dir, &ignored);
    if (!run || !newer_step(run, &base, &step, target))
        return;
    if (!newer_in(run, "", base, step, lim, note) &&
        zf_store_has(run, newer_non_persistent, ZF_ENTRY_DIR))
        (void)newer_in(run, newer_non_persistent, base, step, lim, note);
    newer_add_unfinished(run, note);
}
