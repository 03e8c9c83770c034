/* SPDX-License-Identifier: Apache-2.0 */
#include "wrappers.h"

#include <string.h>

static const char fsdp_word[] = "_fsdp_wrapped_module.";

static bool wrappers_in(struct zf_path path)
{
    bool found = false;

    for (uint32_t i = 0; !found && i < path.n; i++)
        found = memmem(path.step[i].p, path.step[i].n, fsdp_word, sizeof fsdp_word - 1) != NULL;
    return found;
}

/* Adds p[n] without the words. */
static void wrappers_copy(struct zf_out *out, const char *p, size_t n)
{
    const size_t word = sizeof fsdp_word - 1;

    for (const char *at; (at = memmem(p, n, fsdp_word, word));) {
        zf_out_add(out, p, (size_t)(at - p));
        n -= (size_t)(at - p) + word;
        p = at + word;
    }
    zf_out_add(out, p, n);
}

bool wrappers_off(struct wrappers *w, struct zf_path *path, struct zf_err *err)
{
    size_t at = 0;

    if (!wrappers_in(*path))
        return true;
    w->step.n = 0;
    zf_out_cut(&w->text, 0);
    if (!zf_vec_room(&w->step, path->n, err))
        return false;
    for (uint32_t i = 0; i < path->n; i++) {
        wrappers_copy(&w->text, path->step[i].p, path->step[i].n);
        w->step.at[i] = path->step[i];
        w->step.at[i].n = w->text.n - at;
        at = w->text.n;
    }
    if (!zf_out_ok(&w->text, err))
        return false;
    const char *text = zf_out_text(&w->text);
    for (uint32_t i = 0; i < path->n; i++) {
        w->step.at[i].p = text;
        text += w->step.at[i].n;
    }
    path->step = w->step.at;
    return true;
}

void wrappers_fini(struct wrappers *w)
{
    zf_auto_out(&w->text);
    zf_vec_fini(&w->step);
}
