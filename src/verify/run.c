/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the checks, one after the other. */
#include <zf/base/table.h>

#include "sums.h"

/* Reports a file that was replaced after it had been read, which no read could notice. */
static bool verify_unchanged(struct verify *v, struct zf_err *err)
{
    struct zf_err why;

    if (v->sum->count[ZF_WEIGHT_UNREAD] > 0 || zf_store_unchanged(v->c->store, &why))
        return true;
    const struct verify_about about = {
        .kind = ZF_FOUND_READ, .weight = ZF_WEIGHT_UNREAD, .file = why.path};
    return verify_found(v, &about, err, "%s", why.msg);
}

static bool verify_all(struct verify *v, struct zf_err *err)
{
    if (!places_init(&v->places, v->o->tensor, v->o->n, err) || !verify_structure(v, err))
        return false;
    for (size_t i = 0; i < v->places.file.n; i++)
        if (!verify_count_file(v, v->places.file.at[i].src->name, err))
            return false;
    if (v->o->quick)
        return true;
    /* the checks open more files */
    if (!v->o->part && !files_init(&v->listed, v->c->store, err))
        return false;
    struct sums sums;
    v->sums = &sums;
    const bool ok = sums_init(&sums, v, err) &&
                    (v->o->part || replicas_init(&v->replicas, v->c->copy, v->c->n_copies, err)) &&
                    verify_pass(v, err) && verify_copies(v, err) && verify_stored(v, err) &&
                    verify_values(v, err) && verify_steps(v, err) && sums_report(&sums, v, err) &&
                    verify_unchanged(v, err) && verify_coverage(v, err) &&
                    verify_side_files(v, err) && verify_code(v, err);
    sums_fini(&sums);
    return ok;
}

bool zf_verify(const struct zf_checkpoint *c, const struct zf_verify_opts *o,
               struct zf_verify_sum *out, struct zf_err *err)
{
    struct verify v = {.c = c, .o = o, .sum = out};

    *out = (struct zf_verify_sum){.tensors = o->n};
    v.value = calloc(o->n ? o->n : 1, sizeof *v.value);
    v.bad = calloc(o->n ? o->n : 1, sizeof *v.bad);
    const bool ok = v.value && v.bad ? verify_all(&v, err) : zf_fail_sys(err, "verify");
    places_fini(&v.places);
    replicas_fini(&v.replicas);
    zf_vec_fini(&v.hit);
    files_fini(&v.listed);
    zf_table_free(v.files);
    free(v.value);
    free(v.bad);
    return ok;
}
