/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of a directory that are a save's metadata. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/name.h>
#include <zf/dcp.h>

#include "metadata.h"

/* "__12.metadata": what one rank wrote for itself (torch >= 2.9, use_collectives=False). */
static bool dir_is_rank_metadata(const char *name)
{
    size_t digits = strncmp(name, "__", 2) == 0 ? strspn(name + 2, "0123456789") : 0;

    return digits && strcmp(name + 2 + digits, ".metadata") == 0;
}

static bool dir_is_distcp(const char *name)
{
    return strlen(name) > 7 && zf_name_ends(name, ".distcp");
}

static bool dir_is_metadata(const char *name)
{
    return strcmp(name, ".metadata") == 0;
}

/* The first entry of `dir` that `fits`, or NULL. */
static const char *dir_entry_of(struct zf_store *st, const char *dir,
                                bool (*fits)(const char *name))
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (l.e->kind != ZF_ENTRY_DIR && fits(l.e->name)) /* a FIFO is refused when opened */
            return l.e->name;
    return NULL;
}

const char *zf_dcp_metadata_in(struct zf_store *st, const char *dir)
{
    const char *name = dir_entry_of(st, dir, dir_is_metadata);

    return name ? name : dir_entry_of(st, dir, dir_is_rank_metadata);
}

bool zf_dcp_is_save(struct zf_store *st, const char *dir)
{
    return zf_dcp_metadata_in(st, dir) || dir_entry_of(st, dir, dir_is_distcp);
}

/* Does a metadata file that was read refer to this .distcp file? */
static bool dir_is_known(struct zf_dcp *d, const char *dir, const char *name)
{
    char path[4096];

    return snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name) >= (int)sizeof path ||
           zf_table_find_str(d->files, path) != NULL;
}

/* Notes .distcp files that no metadata refers to, as an earlier save by more ranks leaves them behind, and
 * metadata files of ranks that are ignored in favour of .metadata. */
static bool dir_note_others(struct zf_dcp *d, struct zf_store *st, const char *dir,
                            struct zf_build *b, struct zf_err *err)
{
    const bool whole = dir_entry_of(st, dir, dir_is_metadata);
    const char *first = NULL;
    char more[48] = "";
    size_t n = 0;

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        bool items = dir_is_distcp(l.e->name) && l.e->id.size > 0;

        if (l.e->kind == ZF_ENTRY_FILE && ((whole && dir_is_rank_metadata(l.e->name)) ||
                                           (items && !dir_is_known(d, dir, l.e->name))))
            first = n++ ? first : l.e->name;
    }
    if (n > 1)
        zf_say(more, sizeof more, " and %zu more", n - 1);
    return n == 0 || zf_build_note_on(b, ZF_NOTE_UNSHOWN, first, err,
                                      "%s%s%s%s %s not shown: .metadata does not refer to %s", dir,
                                      *dir ? "/" : "", first, more, n == 1 ? "is" : "are",
                                      n == 1 ? "it" : "them");
}

static bool dir_read(struct zf_dcp *d, struct zf_store *st, const char *dir,
                     const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    uint32_t before = zf_dcp_n_read(d);
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err))
        return false;
    if (dir_entry_of(st, dir, dir_is_metadata))
        return zf_dcp_read(d, st, dir, ".metadata", lim, b, err);
    for (size_t i = 0; i < n; i++)
        if (dir_is_rank_metadata(e[i].name) && !zf_dcp_read(d, st, dir, e[i].name, lim, b, err))
            return false;
    if (zf_dcp_n_read(d) > before)
        return true;
    char path[320], is[ZF_ABSENT_MAX];
    (void)snprintf(path, sizeof path, "%.300s%s.metadata", dir, *dir ? "/" : "");
    zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "the save is incomplete: there are .distcp files, but .metadata, which is written last, %s",
        zf_absent(st, path, is));
    return *dir ? zf_err_in(err, "%s", dir) : false;
}

bool zf_dcp_read_dir(struct zf_dcp *d, struct zf_store *st, const char *dir,
                     const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    return dir_read(d, st, dir, lim, b, err) && dir_note_others(d, st, dir, b, err);
}
