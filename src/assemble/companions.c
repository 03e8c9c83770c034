/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/companions.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/path.h>

/* Adds a file without weights; one that cannot be read does not make the checkpoint fail. */
static bool companions_add(struct zf_torch_set *s, const char *name, struct zf_build *b,
                           struct zf_err *err)
{
    enum zf_torch_role role = zf_torch_set_role(name);

    if (zf_torch_set_add(s, name, role == ZF_ROLE_WEIGHTS ? ZF_ROLE_REST : role, zf_coord_data(0),
                         err))
        return true;
    if (err->code == ZF_E_IO || err->code == ZF_E_STALE || err->code == ZF_E_NOMEM)
        return false;
    return zf_leave_out(b, name, NULL, err);
}

/* Adds the fitting files of the directory `dir`. */
static bool companions_add_in(struct zf_torch_set *s, struct zf_store *st, const char *dir,
                              bool (*fits)(const char *name), struct zf_build *b, size_t *added,
                              struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind != ZF_ENTRY_FILE || !fits(e[i].name))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(dir, e[i].name, err);
        if (!path)
            return false;
        if (!zf_torch_set_sniff(st, path))
            continue;
        if (!companions_add(s, path, b, err))
            return false;
        ++*added;
    }
    return true;
}

/* Notes an incomplete series of numbered files; the files that exist are shown, because the weights do not need them. */
static bool companions_check_series(struct zf_store *st, bool (*fits)(const char *name),
                                    struct zf_build *b, struct zf_err *err)
{
    struct zf_series_list list = {0};
    struct zf_entries l = zf_store_entries(st, "");
    bool ok = zf_series_list(l.e, (size_t)(l.end - l.e), fits, &list, err);

    for (size_t i = 0; ok && i < list.of.n; i++) {
        ok =
            list.of.at[i].lacks == 0 || (!zf_series_fail(&list.of.at[i], err) &&
                                         zf_note_failure(b, ZF_NOTE_OTHER, NULL, err,
                                                         "%s is incomplete: ", list.of.at[i].name));
    }
    zf_vec_fini(&list.of);
    return ok;
}

bool zf_companions_add_those(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             bool (*fits)(const char *name), struct zf_err *err)
{
    zf_auto(torch_set) struct zf_torch_set *s =
        zf_torch_set_new(b, st, &(struct zf_mesh){0}, true, o->lim, err);
    size_t added = 0;

    return s && companions_add_in(s, st, "", fits, b, &added, err) &&
           companions_check_series(st, fits, b, err) && (added == 0 || zf_torch_set_place(s, err));
}

static bool companions_fits(const char *name)
{
    return zf_torch_set_named(name) && zf_torch_set_role(name) != ZF_ROLE_WEIGHTS;
}

bool zf_companions_add_in(struct zf_store *st, const char *const *dir, const struct zf_open_opts *o,
                          struct zf_build *b, struct zf_err *err)
{
    zf_auto(torch_set) struct zf_torch_set *s =
        zf_torch_set_new(b, st, &(struct zf_mesh){0}, true, o->lim, err);
    size_t added = 0;

    for (; s && *dir; dir++)
        if (zf_store_has(st, *dir, ZF_ENTRY_DIR) &&
            !companions_add_in(s, st, *dir, zf_torch_set_named, b, &added, err))
            return false;
    return s && (added == 0 || zf_torch_set_place(s, err));
}

/* Directories of a save in which each rank writes a file of its own.
 * Source: NeMo AutoModel, components/checkpoint/checkpointing.py (0.1 … 0.7), save_on_dp_ranks. */
static const char *const companions_dir[] = {"rng", "dataloader", NULL};

bool zf_companions_add_ranks(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             struct zf_err *err)
{
    return zf_companions_add_in(st, companions_dir, o, b, err);
}

bool zf_companions_add(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err)
{
    return zf_companions_add_those(st, o, b, companions_fits, err);
}
