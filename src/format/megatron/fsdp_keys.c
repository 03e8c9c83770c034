/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp_keys.h"

#include <string.h>

/* Takes every "module." from the front, but never all of the name. */
static struct mg_text fsdp_bare(struct mg_text t)
{
    struct mg_text last = t;

    while (mg_text_take(&t, "module.") && t.n)
        last = t;
    return last;
}

bool mg_fsdp_id(struct mg_text t, uint64_t *out)
{
    return mg_text_take_number(&t, out) && t.n == 0;
}

/* Takes "12." from the front. */
static void fsdp_take_chain(struct mg_text *t, uint32_t *chain)
{
    struct mg_text rest = *t;
    uint64_t n;

    if (mg_text_take_number(&rest, &n) && mg_text_take(&rest, ".") && n < MG_NO_CHAIN) {
        *chain = (uint32_t)n;
        *t = rest;
    }
}

/* Behind "state.": the state's name is the last word, for none has a dot. */
static bool fsdp_take_state(struct mg_key *k, struct mg_text t)
{
    const char *dot = t.n ? memrchr(t.p, '.', t.n) : NULL;

    if (!dot || dot == t.p || dot + 1 == t.p + t.n)
        return false;
    k->state = (struct mg_text){dot + 1, t.n - (size_t)(dot - t.p) - 1};
    k->name = fsdp_bare((struct mg_text){t.p, (size_t)(dot - t.p)});
    return true;
}

void mg_fsdp_key(const char *key, size_t n, struct mg_key *out)
{
    struct mg_text t = {key, n};

    *out = (struct mg_key){.what = MG_OTHER, .chain = MG_NO_CHAIN, .name = t};
    if (mg_text_take(&t, "model.")) {
        if (t.n) { /* layers are always numbered: there is no axis to be found */
            out->what = MG_WEIGHT;
            out->name = fsdp_bare(t);
        }
        return;
    }
    if (!mg_text_take(&t, "optimizer."))
        return;
    fsdp_take_chain(&t, &out->chain);
    (void)mg_text_take(&t, "optimizer.");
    out->container = (struct mg_text){key, (size_t)(t.p - key) - 1};
    struct mg_text rest = t;
    if (mg_text_take(&rest, "state.") && fsdp_take_state(out, rest)) {
        out->what = MG_STATE;
    } else if (mg_text_take(&t, MG_FSDP_MASTERS ".") && t.n) {
        out->what = MG_STATE;
        out->state = (struct mg_text){MG_FSDP_MASTERS, sizeof MG_FSDP_MASTERS - 1};
        out->name = t;
    }
}
