/* SPDX-License-Identifier: Apache-2.0 */
/* Compares how often the optimizer stepped, by its own count for each parameter.  The counts are the only thing in most
 * saves that tells the files of one step from those of another. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/model/value.h>

#include "checks.h"

/* The step count of a tensor. */
struct steps_count {
    double value;
    uint32_t tensor;  /* index of the state */
    const char *file; /* that has it; borrowed, "" if it is in none */
};

struct steps {
    zf_vec(struct steps_count) at; /* by value */
};

/* Is it the number of steps of a parameter: one element of a set optim/step? */
static bool steps_are(const struct zf_verify_tensor *t)
{
    static const char name[] = "optim/step";
    const size_t n = strlen(t->set->path), k = sizeof name - 1;

    for (uint32_t d = 0; d < t->tensor->ndim; d++)
        if (t->tensor->shape[d] != 1)
            return false;
    return !t->tensor->lost && n >= k && strcmp(t->set->path + n - k, name) == 0 &&
           (n == k || t->set->path[n - k - 1] == '/');
}

/* Reads the count; false: it is of another type, or its file cannot be read, which verify_pass reports. */
static bool steps_read(const struct zf_tensor *t, double *out)
{
    struct zf_err ignored;
    uint8_t v[8];
    const size_t n = zf_dtype_info(t->dtype)->bytes;

    if (!zf_value_is_number(t->dtype) || zf_map_size(t->data) != n ||
        !zf_map_read(t->data, v, n, 0, &ignored))
        return false;
    *out = zf_value_double(t->dtype, v);
    return true;
}

static const char *steps_file(const struct zf_tensor *t)
{
    const struct zf_run run = zf_map_at(t->data, 0);

    return run.kind == ZF_RUN_SRC ? zf_source_trace(run.src, run.off, 1).src->name : "";
}

static int steps_by_value(const void *a, const void *b)
{
    const struct steps_count *x = a, *y = b;

    return x->value < y->value   ? -1
           : x->value > y->value ? 1
                                 : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int steps_by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool steps_load(struct steps *s, const struct verify *v, struct zf_err *err)
{
    double value;

    for (size_t i = 0; i < v->o->n; i++) {
        const struct zf_tensor *t = v->o->tensor[i].tensor;

        if (!steps_are(&v->o->tensor[i]) || !steps_read(t, &value) || value != value)
            continue;
        struct steps_count *to = zf_vec_push(&s->at, err);
        if (!to)
            return false;
        *to = (struct steps_count){.value = value, .tensor = (uint32_t)i, .file = steps_file(t)};
    }
    if (s->at.n > 0)
        qsort(s->at.at, s->at.n, sizeof *s->at.at, steps_by_value);
    return true;
}

/* The end of the run of equal counts that begins at i. */
static size_t steps_run(const struct steps *s, size_t i)
{
    const double value = s->at.at[i].value;

    while (i < s->at.n && s->at.at[i].value == value)
        i++;
    return i;
}

/* Reports all counts but those of the run [first, end), which most parameters have. */
static bool steps_report(const struct steps *s, struct verify *v, size_t first, size_t end,
                         struct zf_err *err)
{
    const struct steps_count *most = &s->at.at[first], *low = NULL, *high = NULL;
    struct verify_about about = {.kind = ZF_FOUND_VALUE, .weight = ZF_WEIGHT_NOTE};
    char counts[80];

    for (size_t i = 0; i < s->at.n; i++) {
        const struct steps_count *at = &s->at.at[i];

        if (i >= first && i < end)
            continue;
        uint32_t *to = zf_vec_push(&v->hit, err);
        if (!to)
            return false;
        *to = at->tensor;
        low = low ? low : at;
        high = at;
        about.file = !about.file || strcmp(about.file, at->file) == 0 ? at->file : "";
    }
    if (!low)
        return true;
    qsort(v->hit.at, v->hit.n, sizeof *v->hit.at, steps_by_number);
    if (low->value < high->value)
        (void)snprintf(counts, sizeof counts, "%.17g to %.17g", low->value, high->value);
    else
        (void)snprintf(counts, sizeof counts, "%.17g", low->value);
    return verify_found(v, &about, err,
                        "the optimizer counted %s steps for %zu parameter%s, but %.17g for %zu "
                        "others%s%s: two saves are mixed, or not all were trained in each step",
                        counts, v->hit.n, v->hit.n == 1 ? "" : "s", most->value, end - first,
                        *most->file ? ", as in " : "", most->file);
}

/* Compares the count of most parameters with the step of the save.  Some trainers are one ahead. */
static bool steps_compare_save(const struct steps *s, struct verify *v, size_t first,
                               struct zf_err *err)
{
    const struct steps_count *most = &s->at.at[first];
    const struct verify_about about = {
        .kind = ZF_FOUND_VALUE, .weight = ZF_WEIGHT_NOTE, .file = most->file};
    const double step = (double)v->c->step;

    return !v->c->has_step || (most->value > step - 2 && most->value < step + 2) ||
           verify_found(v, &about, err,
                        "the optimizer counted %.17g steps, but this is the save of step %" PRId64
                        ": the optimizer began anew, a step of the trainer is not one of the "
                        "optimizer, or two saves are mixed",
                        most->value, v->c->step);
}

bool verify_steps(struct verify *v, struct zf_err *err)
{
    struct steps s = {.at = {0}};
    bool ok = steps_load(&s, v, err);
    size_t first = 0, end = 0;

    for (size_t i = 0, next; i < s.at.n; i = next) {
        next = steps_run(&s, i);
        if (next - i > end - first) {
            first = i;
            end = next;
        }
    }
    ok = ok && steps_report(&s, v, first, end, err) &&
         (s.at.n == 0 || steps_compare_save(&s, v, first, err));
    zf_vec_fini(&s.at);
    return ok;
}
