/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the optimizer's step counts of parameters with each other and with the trainer's: often only
 * these show that a save contains files of another step. */
#include "save.h"

#include <inttypes.h>
#include <string.h>

/* The most steps that are read: from a remote DCP, each takes several round trips. */
enum { STEPS_MOST = 16 };

/* The step count of a parameter. */
struct steps_one {
    struct zf_spot of;
    double n;
};

/* Reads a tensor of one number; false: it is not one, or cannot be read, which a read of its file reports. */
static bool steps_read(struct zf_draft *d, double *out)
{
    enum zf_dtype dtype = zf_draft_type(d).dtype;
    struct zf_err ignored;
    int64_t whole;
    double wide;
    float f;

    if (dtype == ZF_DT_F32 && zf_draft_read(d, 0, 1, &f, &ignored)) {
        *out = (double)f;
        return true;
    }
    if (dtype == ZF_DT_F64 && zf_draft_read(d, 0, 1, &wide, &ignored)) {
        *out = wide;
        return true;
    }
    if (dtype == ZF_DT_I64 && zf_draft_read(d, 0, 1, &whole, &ignored)) {
        *out = (double)whole;
        return true;
    }
    return false;
}

/* The next draft of optim/step, or NULL. */
static struct zf_draft *steps_next(struct olmo_save *s, uint64_t *at, struct zf_spot *spot)
{
    struct zf_draft *d, *tie;

    while ((d = zf_build_next(s->b, "optim", at, spot, &tie)))
        if (!tie && strcmp(spot->set, "step") == 0 && zf_draft_type(d).ndim == 0)
            return d;
    return NULL;
}

static bool steps_note_two(struct olmo_save *s, const struct steps_one *a,
                           const struct steps_one *b, struct zf_err *err)
{
    return zf_build_note(s->b, err,
                         "the optimizer counted %.0f steps of \"%.100s\", but %.0f of \"%.100s\": "
                         "some parameters were not updated in every step, or two saves are mixed",
                         a->n, a->of.name, b->n, b->of.name);
}

/* Notes a difference from the trainer's step of more than one: a state saved before the first step was
 * initialized by a dummy step, which it counts.
 * Source: torch/distributed/checkpoint/state_dict.py, _init_optim_state (2.4 ... 2.13). */
static bool steps_note_trainer(struct olmo_save *s, const struct steps_one *a, struct zf_err *err)
{
    int64_t said;

    if (!zf_build_has_step(s->b, &said) || (a->n > (double)said - 2 && a->n < (double)said + 2))
        return true;
    return zf_build_note(s->b, err,
                         "the optimizer counted %.0f steps, but the trainer %" PRId64
                         ": the optimizer skipped steps or was restarted, or two saves are mixed",
                         a->n, said);
}

bool steps_note(struct olmo_save *s, struct zf_err *err)
{
    struct steps_one first = {.n = 0}, x;
    uint64_t at = 0, n = 0, i = 0;
    bool some = false;
    struct zf_draft *d;

    while (steps_next(s, &at, &x.of))
        n++;
    at = 0;
    for (uint64_t every = n / STEPS_MOST + 1; (d = steps_next(s, &at, &x.of)); i++) {
        if (i % every != 0 || !steps_read(d, &x.n))
            continue;
        if (some && x.n != first.n)
            return steps_note_two(s, &first, &x, err) && steps_note_trainer(s, &first, err);
        first = some ? first : x;
        some = true;
    }
    return !some || steps_note_trainer(s, &first, err);
}
