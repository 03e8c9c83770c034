/* SPDX-License-Identifier: Apache-2.0 */
/* Reports findings about the values of each tensor. */
#include <inttypes.h>
#include <string.h>

#include "checks.h"

/* Denormals are reported if a tensor has at least this many numbers, and this many percent of them are denormal. */
#define DENORMAL_LEAST 64u
#define DENORMAL_PERCENT 10u

bool verify_are_squares(const struct zf_verify_tensor *t)
{
    static const char name[] = "exp_avg_sq";
    const size_t n = strlen(t->set->path), k = sizeof name - 1;

    return n >= k && strcmp(t->set->path + n - k, name) == 0 &&
           (n == k || t->set->path[n - k - 1] == '/');
}

/* Is it a framework's own buffer, which may end in uninitialized padding? */
static bool values_are_padded(const struct zf_verify_tensor *t)
{
    return strncmp(t->set->path, "bucket", 6) == 0;
}

static bool values_push(struct verify *v, size_t i, struct zf_err *err)
{
    uint32_t *to = zf_vec_push(&v->hit, err);

    if (to)
        *to = (uint32_t)i;
    return to != NULL;
}

static bool values_report_wrong(struct verify *v, size_t i, struct zf_err *err)
{
    const struct verify_value *x = &v->value[i];
    const struct {
        uint64_t n;
        const char *what;
    } wrong[] = {{x->v.nans, "NaN"},
                 {x->v.infs, "infinite"},
                 {verify_are_squares(&v->o->tensor[i]) ? x->v.negative : 0, "below zero"}};
    const uint32_t each = zf_dtype_info(v->o->tensor[i].tensor->dtype)->bytes;

    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const struct verify_about about = {
            .kind = ZF_FOUND_VALUE,
            .weight = values_are_padded(&v->o->tensor[i]) ? ZF_WEIGHT_NOTE : ZF_WEIGHT_DAMAGE,
            .file = x->file ? x->file->name : "",
            .first = x->file ? x->v.at : 0,
            .end = x->file ? x->v.at + each : 0};

        if (wrong[k].n > 0 &&
            (!values_push(v, i, err) ||
             !verify_found(v, &about, err, "%" PRIu64 " of %" PRIu64 " values are %s", wrong[k].n,
                           x->v.n, wrong[k].what)))
            return false;
    }
    return true;
}

static bool values_is_constant(const struct verify *v, size_t i)
{
    return v->value[i].v.n > 1 && !v->value[i].v.differ;
}

static bool values_is_denormal(const struct verify *v, size_t i)
{
    const struct values *x = &v->value[i].v;

    return x->n >= DENORMAL_LEAST && x->denormal >= x->n / (100 / DENORMAL_PERCENT);
}

/* Adds one note for all tensors that `is` selects: a new optimizer, or a norm, has many tensors of a single value. */
static bool values_report_notes(struct verify *v, bool (*is)(const struct verify *v, size_t i),
                                const char *what, struct zf_err *err)
{
    const struct verify_about about = {.kind = ZF_FOUND_VALUE, .file = ""};

    v->hit.n = 0;
    for (size_t i = 0; i < v->o->n; i++)
        if (is(v, i) && !values_push(v, i, err))
            return false;
    return v->hit.n == 0 || verify_found(v, &about, err, "%zu tensor%s %s", v->hit.n,
                                         v->hit.n == 1 ? "" : "s", what);
}

bool verify_values(struct verify *v, struct zf_err *err)
{
    for (size_t i = 0; i < v->o->n; i++)
        if (!values_report_wrong(v, i, err))
            return false;
    return values_report_notes(v, values_is_constant, "with one value throughout", err) &&
           values_report_notes(v, values_is_denormal,
                               "with denormal numbers, a tenth of the values or more", err);
}
