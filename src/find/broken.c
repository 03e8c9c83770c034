/* SPDX-License-Identifier: Apache-2.0 */
/* Files next to the weights that are there, but have lost their contents: empty files of formats that are never empty,
 * settings that were cut short, links to nothing. */
#include "beside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/name.h>
#include <zf/codec/json.h>

/* Longer settings (tokenizers) are only read by verify. */
#define BROKEN_READ ((uint64_t)1 << 20)

/* The writers of these files put at least a header into them. */
static const char *const broken_never_empty[] = {".pt",   ".pth",         ".bin", ".pkl",
                                                 ".ckpt", ".safetensors", NULL};

static bool broken_is_never_empty(const char *name)
{
    for (size_t i = 0; broken_never_empty[i]; i++)
        if (zf_name_ends(name, broken_never_empty[i]))
            return true;
    return false;
}

static bool broken_is_settings(const char *name)
{
    return zf_name_ends(name, ".json") || zf_name_ends(name, ".yaml") || zf_name_ends(name, ".yml");
}

/* Does the JSON file end too early?  False, too, if that cannot be known: opening it has reported a failure. */
static bool broken_is_cut(struct zf_store *st, const char *path, const struct zf_entry *e)
{
    struct zf_err ignored = {.code = ZF_OK};
    bool whole = true;

    if (!zf_name_ends(e->name, ".json") || e->id.size > BROKEN_READ || zf_store_is_far(st))
        return false;
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);
    return src && zf_json_is_whole(src, &whole, &ignored) && !whole;
}

/* Notes the entry if it is broken.  settings: only settings count, since the weights are elsewhere. */
static bool broken_entry(struct zf_store *st, const char *dir, const struct zf_entry *e,
                         bool settings, struct zf_build *b, struct zf_err *err)
{
    char path[2 * ZF_NAME_MAX + 2];
    const bool side = sidefiles_is(e->name) || (*dir && broken_is_settings(e->name));
    const bool held = !settings && broken_is_never_empty(e->name);

    /* Containers get a directory for a file that is to be mounted into them and does not exist.  Directories called
     * *.pt or *.ckpt are saves. */
    const bool instead = e->kind == ZF_ENTRY_DIR && side && broken_is_settings(e->name);

    if ((e->kind == ZF_ENTRY_DIR && !instead) || !(side || held))
        return true;
    (void)snprintf(path, sizeof path, "%s%s%.*s", dir, *dir ? "/" : "", ZF_NAME_MAX, e->name);
    if (instead) {
        return zf_build_note_on(b, ZF_NOTE_BROKEN, path, err, "%s is a directory, not a file",
                                path);
    }
    if (e->kind == ZF_ENTRY_OTHER) {
        return strcmp(e->what, "a dangling link") != 0 || zf_build_note_says(b, e->name, "link") ||
               zf_build_note_on(b, ZF_NOTE_BROKEN, path, err, "%s is a link to a missing file",
                                path);
    }
    if (e->id.size == 0) {
        return (!held && !broken_is_settings(e->name)) || zf_build_note_says(b, path, "empty") ||
               zf_build_note_on(b, ZF_NOTE_BROKEN, path, err, "%s is empty", path);
    }
    return !side || !broken_is_cut(st, path, e) ||
           zf_build_note_on(b, ZF_NOTE_BROKEN, path, err,
                            "%s is damaged: the JSON in its %" PRIu64 " bytes is not complete",
                            path, e->id.size);
}

static bool broken_dir(struct zf_store *st, const char *dir, bool settings, struct zf_build *b,
                       struct zf_err *err)
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (!broken_entry(st, dir, l.e, settings, b, err))
            return false;
    return true;
}

/* NeMo 2 describes the trainer and its model in two files that it writes at once.
 * Source: NeMo nemo/lightning/io/mixin.py, io_dump with yaml_attrs, and its callers (2.0 … 2.4). */
static bool broken_context(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    static const char *const file[] = {"context/io.json", "context/model.yaml"};

    for (size_t i = 0; i < 2; i++) {
        char is[ZF_ABSENT_MAX];

        if (!zf_store_find(st, file[i]) && zf_store_has(st, file[!i], ZF_ENTRY_FILE) &&
            !zf_build_note_on(b, ZF_NOTE_BROKEN, file[i], err,
                              "%s %s: NeMo writes it together with %s", file[i],
                              zf_absent(st, file[i], is), file[!i]))
            return false;
    }
    return true;
}

bool broken_note(struct zf_store *st, bool settings, bool below, struct zf_build *b,
                 struct zf_err *err)
{
    const char *dir;

    if (!broken_dir(st, "", settings, b, err))
        return false;
    for (size_t i = 0; below && (dir = sidefiles_below_dir(i)) != NULL; i++)
        if (zf_store_has(st, dir, ZF_ENTRY_DIR) && !broken_dir(st, dir, true, b, err))
            return false;
    return !below || broken_context(st, b, err);
}
