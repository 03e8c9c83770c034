/* SPDX-License-Identifier: Apache-2.0 */
/* Opens one metadata file and reads every part of it.  The three parts that have an entry for every
 * tensor or chunk are read entry by entry while the pickle is being read, because all their values
 * take ten times the memory of the pickle.  If that is not possible (another order of the parts,
 * another pickler), they are read after the whole pickle. */
#include "metadata.h"

#include <string.h>

#include "mcore_data.h"
#include "paths.h"

typedef bool file_take_fn(struct dcp_reading *r, const struct zf_pv *key, const struct zf_pv *val,
                          struct zf_err *err);

struct file_part {
    const char *name; /* of the attribute */
    file_take_fn *take;
    const struct zf_pv
        *map; /* the mapping that was read along with the pickle; NULL = not yet, or not this way */
    uint64_t n_rest; /* read of the pairs that are left in it */
};

enum { FILE_STATE, FILE_STORAGE, FILE_PATHS, FILE_PARTS };

struct file_reading {
    struct dcp_reading r;
    struct file_part part[FILE_PARTS];
};

static bool file_take_rest(struct file_reading *f, struct file_part *p, const struct zf_pv *map,
                           struct zf_err *err)
{
    for (uint64_t n = zf_pv_len(map); p->n_rest < n; p->n_rest++)
        if (!p->take(&f->r, zf_pv_key(map, p->n_rest), zf_pv_val(map, p->n_rest), err))
            return false;
    return true;
}

/* ---- along with the pickle ---- */

static bool file_wants(void *ctx, const char *name, const struct zf_pv *map, bool *out,
                       struct zf_err *err)
{
    struct file_reading *f = ctx;
    struct file_part *p = f->part, *state = &f->part[FILE_STATE];

    while (p < f->part + FILE_PARTS && strcmp(p->name, name) != 0)
        p++;
    *out = p < f->part + FILE_PARTS && (!p->map || p->map == map) &&
           (p == state || (state->map && state->map != map));
    if (*out)
        p->map = map;
    return !*out || p == state || file_take_rest(f, state, state->map, err);
}

static bool file_pair(void *ctx, const struct zf_pv *map, const struct zf_pv *key,
                      const struct zf_pv *val, struct zf_err *err)
{
    struct file_reading *f = ctx;

    for (struct file_part *p = f->part; p < f->part + FILE_PARTS; p++)
        if (p->map == map)
            return p->take(&f->r, key, val, err);
    return false;
}

/* ---- after the whole pickle ---- */

static bool file_take_part(struct file_reading *f, unsigned i, const struct zf_pv *map,
                           struct zf_err *err)
{
    struct file_part *p = &f->part[i];

    if (p->map && p->map != map) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "has a %s that is replaced after its entries were read", p->name);
    }
    return file_take_rest(f, p, map, err);
}

static bool file_take_root(struct file_reading *f, const struct zf_pv *root, struct zf_err *err)
{
    const struct zf_pv *state = zf_pv_attr(root, "state_dict_metadata");
    const struct zf_pv *storage = zf_pv_attr(root, "storage_data");

    if (!zf_pv_is_map(state)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "is a pickle of \"%.80s\" without state_dict_metadata, expected the Metadata of "
            "torch.distributed.checkpoint",
            *zf_pv_name(root) ? zf_pv_name(root) : "a plain value");
    }
    if (!zf_pv_is_map(storage)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "has no storage_data, which gives the places of the items");
    }
    return file_take_part(f, FILE_STATE, state, err) &&
           file_take_part(f, FILE_STORAGE, storage, err) && dcp_end_storage(&f->r, err) &&
           dcp_take_mcore(&f->r, zf_pv_attr(root, "mcore_data"), err) &&
           file_take_part(f, FILE_PATHS, zf_pv_attr(root, "planner_data"), err);
}

/* Loads the values of one pickle; its bytes are not kept. */
static const struct zf_pv *file_load(struct file_reading *f, struct zf_store *st,
                                     struct zf_err *err)
{
    const struct zf_pickle_watch watch = {
        .wants = file_wants, .pair = file_pair, .ctx = f, .spends = true};
    struct dcp_reading *r = &f->r;
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, r->path, r->lim->pickle_bytes, &n, err);
    struct zf_bytes in = zf_bytes_of(text, n);
    const struct zf_pv *root;

    if (!text)
        return NULL;
    root = zf_pickle_load_with(&in, r->d->pickles, r->lim,
                               &(struct zf_pickle_with){.watch = &watch}, err);
    if (!root)
        (void)dcp_in_file(r, err);
    return root;
}

bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
                 const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    struct file_reading f = {
        .r = {.d = d, .lim = lim, .b = b, .dir = dir, .first_chunk = d->chunk.n},
        .part = {[FILE_STATE] = {"state_dict_metadata", dcp_take_state, NULL, 0},
                 [FILE_STORAGE] = {"storage_data", dcp_take_storage, NULL, 0},
                 [FILE_PATHS] = {"planner_data", dcp_take_path, NULL, 0}}};
    const struct zf_pv *root;

    f.r.path = zf_arena_fmt(d->pickles, err, "%s%s%s", dir, *dir ? "/" : "", name);
    if (!f.r.path || !zf_vec_room(&d->pass, 1, err))
        return false;
    d->pass.at[d->pass.n++] = f.r.path;
    root = file_load(&f, st, err);
    return root && (file_take_root(&f, root, err) || dcp_in_file(&f.r, err));
}
