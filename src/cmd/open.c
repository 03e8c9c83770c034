/* SPDX-License-Identifier: Apache-2.0 */
#include "open.h"

#include <zf/format.h>

static bool wants_selection(const struct opts *o)
{
    return o->strip_prefix || o->rename.n || o->only.n || o->except.n;
}

static struct zf_checkpoint *open_selected(struct zf_store *st, const struct opts *o,
                                           struct zf_err *err)
{
    struct zf_open_opts how = {
        .lim = &o->lim, .format = o->format, .tag = o->tag, .degraded = o->degraded};
    struct zf_select select = {
        .strip_prefix = o->strip_prefix,
        .only = (const char *const *)o->only.v,
        .n_only = o->only.n,
        .except = (const char *const *)o->except.v,
        .n_except = o->except.n,
        .rename = (const char *const *)o->rename.v,
        .n_rename = o->rename.n,
    };
    struct zf_checkpoint *c = zf_open(st, &how, err);

    return c && wants_selection(o) ? zf_checkpoint_select(c, &select, err) : c;
}

struct zf_checkpoint *open_checkpoint(const char *path, const struct opts *o, struct zf_err *err)
{
    zf_auto(store) struct zf_store *st = zf_store_dir(path, &o->lim, err);
    struct zf_checkpoint *c = st ? open_selected(st, o, err) : NULL;

    if (!c && err->code != ZF_E_USAGE) {
        (void)zf_err_in(err, "%s", path);
    }
    return c;
}

struct zf_tree *open_tree(const char *path, const struct opts *o, struct zf_err *err)
{
    struct zf_view_opts how = {
        .shard_size = o->shard_size,
        .keep = (const char *const *)o->keep.v,
        .n_keep = o->keep.n,
        .lim = &o->lim,
    };
    struct zf_checkpoint *c = open_checkpoint(path, o, err);

    return c ? zf_tree_new(c, &how, err) : NULL;
}
