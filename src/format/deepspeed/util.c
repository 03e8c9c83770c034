/* SPDX-License-Identifier: Apache-2.0 */
/* Names, values and tensors of a rank's pickle, copied so that they outlive it. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

#include "ds.h"

bool zf_ds_name_of(struct zf_ds *ds, const struct zf_pv *v, const char *what,
                   struct zf_ds_name *out, struct zf_err *err)
{
    uint64_t n;
    const char *p = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : NULL;

    if (!p || n > UINT32_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s holds a name that is not a text", what);
    }
    out->p = zf_arena_str(ds->a, p, n, err);
    out->n = (uint32_t)n;
    return out->p != NULL;
}

const char *zf_ds_text_of(struct zf_ds *ds, const struct zf_pv *v, struct zf_err *err)
{
    uint64_t n = 0;
    const char *p = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : "";

    return zf_arena_str(ds->a, p, n, err);
}

bool zf_ds_expect(struct zf_ds *ds, const struct zf_ds_file *file, uint32_t n, struct zf_err *err)
{
    const char **path = zf_arena_get(ds->a, n, sizeof *path, err);
    uint32_t k = 0;

    for (; path && k < n && file[k].dp < ds->n_ranks; k++) {
        path[k] = file[k].path;
    }
    return path && zf_torch_ahead_begin(&ds->files, path, k, err);
}

bool zf_ds_name_eq(struct zf_ds_name a, struct zf_ds_name b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

int zf_ds_name_cmp(struct zf_ds_name a, struct zf_ds_name b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *a, const void *b)
{
    return zf_ds_name_cmp(*(const struct zf_ds_name *)a, *(const struct zf_ds_name *)b);
}

void zf_ds_name_sort(struct zf_ds_name *list, uint32_t n)
{
    if (n > 1) {
        qsort(list, n, sizeof *list, by_name);
    }
}

bool zf_ds_name_listed(const struct zf_ds_name *sorted, uint32_t n, struct zf_ds_name name)
{
    return n > 0 && bsearch(&name, sorted, n, sizeof *sorted, by_name) != NULL;
}

const char *zf_ds_optim_set(struct zf_ds *ds, struct zf_ds_name key, struct zf_err *err)
{
    char file[ZF_NAME_MAX + 1];

    zf_name_encode(file, key.p, key.n, "");
    return zf_arena_fmt(ds->a, err, "optim/%s", file);
}

const struct zf_pv *zf_ds_by_id(const struct zf_pv *state, uint64_t id)
{
    uint64_t n = zf_pv_len(state), k;

    if (id < n && zf_pv_u64(zf_pv_key(state, id), &k) && k == id) {
        return zf_pv_val(state, id);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (zf_pv_u64(zf_pv_key(state, i), &k) && k == id) {
            return zf_pv_val(state, i);
        }
    }
    return NULL;
}

bool zf_ds_leave_out(struct zf_ds *ds, struct zf_err *err)
{
    char text[800];

    if (!ds->o->degraded || (err->code != ZF_E_FORMAT && err->code != ZF_E_IO)) {
        return !zf_ds_err_named(err) && zf_err_in(err, "%s", ds->model.path);
    }
    zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    ds->plain = true;
    return zf_build_note(ds->b, err,
                         "the masters and their states are left out, the weights are those of "
                         "\"module\": %s",
                         text);
}
