/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/optim_index.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/codec/torch.h>

bool zf_optim_index_find(struct zf_store *st, const char *dir, char **path_out, struct zf_err *err)
{
    *path_out = NULL;
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (zf_name_ends(l.e->name, "pytorch_optim.bin.index.json")) {
            *path_out = zf_relpath_join(dir, l.e->name, err);
            return *path_out != NULL;
        }
    }
    return true;
}

struct optim_index {
    const struct zf_st_index *x;
    struct zf_store *st;
    struct zf_build *b;
    struct zf_torch_set *set;
    uint64_t n; /* parameters found in the file that the index names */
};

/* The i-th key of a dict as text, as in the index; NULL: not a number. */
static const char *optim_index_key(const struct zf_pv *root, uint64_t i, char digits[24])
{
    const struct zf_pv *key = zf_pv_key(root, i);
    uint64_t number, n;

    if (zf_pv_kind(key) == ZF_PV_STR)
        return zf_pv_text(key, &n);
    if (!zf_pv_u64(key, &number))
        return NULL;
    (void)snprintf(digits, 24, "%" PRIu64, number);
    return digits;
}

/* Checks that the file holds exactly the parameters that the index has in it. */
static bool optim_index_check(struct optim_index *o, const char *file, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_set_root(o->set, file);
    char digits[24];

    if (!zf_pv_is_map(root)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "expected a dict of the states of parameters by their numbers");
        return zf_err_in(err, "%s", file) || zf_forgive(o->b, err);
    }
    for (uint64_t i = 0; i < zf_pv_len(root); i++) {
        const char *key = optim_index_key(root, i, digits);
        const char *said = key ? zf_st_index_file(o->x, key) : NULL;

        if (said && strcmp(said, file) == 0) {
            o->n++;
            continue;
        }
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "holds the states of parameter %.40s, which the index %.120s%.80s",
                      key ? key : "(no number)", said ? "lists in " : "does not list",
                      said ? said : "");
        if (zf_err_in(err, "%s", file) || !zf_forgive(o->b, err))
            return false;
    }
    return true;
}

static bool optim_index_add_file(void *ctx, const char *file, bool here, struct zf_err *err)
{
    struct optim_index *o = ctx;

    if (!here)
        return true;
    if (!zf_torch_set_add(o->set, file, ZF_ROLE_STATES, zf_coord_data(0), err))
        return zf_forgive(o->b, err);
    return optim_index_check(o, file, err);
}

/* The reason why the states of a parameter are missing, or NULL. */
static const char *optim_index_lacks(void *ctx, const char *tensor, const char *file)
{
    const struct optim_index *o = ctx;
    const struct zf_pv *root = zf_torch_set_root(o->set, file);
    char digits[24];

    for (uint64_t i = 0; zf_pv_is_map(root) && i < zf_pv_len(root); i++) {
        const char *key = optim_index_key(root, i, digits);

        if (key && strcmp(key, tensor) == 0)
            return NULL;
    }
    return root ? "does not hold it" : "is missing or cannot be read";
}

bool zf_optim_index_add(const struct zf_st_index *x, struct zf_store *st,
                        const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    zf_auto(torch_set) struct zf_torch_set *s =
        zf_torch_set_new(b, st, &(struct zf_mesh){0}, true, o->lim, err);
    struct optim_index i = {.x = x, .st = st, .b = b, .set = s};
    const struct zf_st_index_reader reader = {
        .ctx = &i, .add = optim_index_add_file, .lacks = optim_index_lacks};

    if (!s || !zf_st_index_read(x, st, &reader, b, err))
        return false;
    /* Looking up each one is slow, and only needed to name what is missing. */
    if (i.n != HASH_COUNT(x->entry) && !zf_st_index_check(x, &reader, b, err))
        return false;
    if (!zf_torch_set_add(s, x->groups, ZF_ROLE_REST, zf_coord_data(0), err) &&
        (err->code == ZF_E_NOMEM || !zf_leave_out(b, x->groups, NULL, err)))
        return false;
    return zf_torch_set_place(s, err);
}

bool zf_optim_index_add_dir(struct zf_store *st, const char *dir, const struct zf_open_opts *o,
                            struct zf_build *b, struct zf_err *err)
{
    zf_auto(mem) char *path = NULL;
    zf_auto(st_index) struct zf_st_index x = {.path = NULL};

    if (!zf_optim_index_find(st, dir, &path, err))
        return false;
    if (!path)
        return true;
    if (!zf_st_index_load(st, path, o->lim, &x, err))
        return zf_forgive(b, err);
    if (!x.groups) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "expected the file of \"param_groups\" in \"metadata\", found none");
        return zf_err_in(err, "%s", path) || zf_forgive(b, err);
    }
    return zf_optim_index_add(&x, st, o, b, err);
}
