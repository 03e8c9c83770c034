/* SPDX-License-Identifier: Apache-2.0 */
/* Weight files next to the saves of a run: leftovers, or a published model. */
#include "locate.h"

#include <string.h>

#include "pick.h"
#include "saves.h"
#include "table.h"

/* Files that describe the model whose weights are next to them.  Source: transformers (configuration_utils.py,
 * CONFIG_NAME), peft (CONFIG_NAME), Meta's llama (params.json next to consolidated.NN.pth). */
static const char *const loose_config[] = {"config.json", "adapter_config.json", "params.json"};

bool loose_fits(const struct match *m)
{
    return m->format && table_level(m->format) > 1 && m->probe.fit > ZF_FIT_WEAK;
}

static bool loose_is(const struct match *m, const char *family)
{
    return strcmp(m->format->name, family) == 0;
}

bool loose_is_model(struct zf_store *st, const struct match *m, const struct zf_saves *s)
{
    bool is = false;

    if (!loose_is(m, "safetensors") && !loose_is(m, "torch"))
        return true;
    for (size_t i = 0; i < sizeof loose_config / sizeof loose_config[0]; i++)
        is = is || zf_store_has(st, loose_config[i], ZF_ENTRY_FILE);
    for (size_t i = 0; i < s->n && loose_is(m, "torch"); i++)
        is = is && strncmp(s->at[i].path, "checkpoint-", 11) == 0;
    return is;
}

bool loose_saves(struct zf_store *st, const char *named, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err)
{
    bool found = !named;

    if (!zf_saves_list(st, ZF_SAVES_NAMED, lim, out, err))
        return false;
    for (size_t i = 0; i < out->n; i++) {
        const bool is = named && strcmp(out->at[i].path, named) == 0;

        found = found || is;
        saves_examine(st, out, i, lim);
        if (!is && out->at[i].fit <= ZF_FIT_WEAK) {
            saves_drop(&out->at[i]);
            out->weak++;
        }
    }
    saves_squeeze(out);
    return found || saves_add(out, "", named, err);
}

bool loose_note_saves(const struct zf_saves *s, struct located *l, struct zf_err *err)
{
    zf_auto(out) struct zf_out names = {0};
    char list[120];

    if (s->n) {
        saves_print(s, NULL, list, sizeof list);
        zf_say(l->beside, sizeof l->beside,
               "the files in this directory are shown; %s %s (-o tag=NAME selects one)", list,
               s->n == 1 ? "next to them is a save" : "next to them are saves");
        for (size_t i = 0; i < s->n; i++)
            zf_note_about(&names, s->at[i].path);
        if (!zf_out_ok(&names, err))
            return false;
        l->saves = zf_give(names.p);
    } else if (s->weak) {
        zf_say(l->beside, sizeof l->beside,
               "the files in this directory are shown; %zu %s next to them %s unfinished or "
               "without weights",
               s->weak, s->weak == 1 ? "save" : "saves", s->weak == 1 ? "is" : "are");
    }
    return true;
}
