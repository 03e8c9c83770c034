/* SPDX-License-Identifier: Apache-2.0 */
/* Only its keys show that Megatron wrote such a save, so they are searched in .metadata.  Small items
 * become JSON: state/common.json, and state/optimizer.json, the optimizer's settings per parameter
 * (param_to_group_meta, about 18 each) or per group.  All items are also in extra/, unchanged. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/item_json.h>

/* Bytes of .metadata that are searched.  In a large save the keys of values saved once are spread over
 * all of it, but args, the first key of the state dict, comes first. */
#define FSDP_HEAD (4u << 20)

/* Most bytes of an item that becomes JSON, and most such items. */
#define FSDP_ITEM (1u << 20)
enum { FSDP_COMMON = 512, FSDP_OPTIMIZER = 4096 };

/* ---- recognising such a save ----------------------------------------------------------------- */

static bool fsdp_is_iteration(const char *base)
{
    uint64_t n;

    return strcmp(base, "release") == 0 || mg_iteration_of(base, &n);
}

bool mg_fsdp_is(struct zf_store *st, char why[160])
{
    size_t n = FSDP_HEAD;
    zf_auto(mem) char *head = mg_metadata_head(st, &n);

    if (!head)
        return false;
    bool version = memmem(head, n, "checkpoint_version", 18) != NULL;
    bool iteration = memmem(head, n, "\x8c\x09iteration", 11) != NULL;
    bool args = memmem(head, n,
                       "\x8c\x04"
                       "args",
                       6) != NULL;
    bool named =
        fsdp_is_iteration(zf_store_base(st)) || zf_store_has(st, "run_config.yaml", ZF_ENTRY_FILE);
    if (!(version && iteration) && !(named && (version || args)))
        return false;
    (void)snprintf(why, 160, ".metadata has the keys of Megatron's state dict");
    return true;
}

/* ---- objects --------------------------------------------------------------------------------- */

static bool fsdp_begins(const struct mg_object *o, const char *word)
{
    return strncmp(o->key, word, strlen(word)) == 0;
}

static bool fsdp_is_state(const struct mg_object *o)
{
    static const char extra[] = "_extra_state";
    size_t n = sizeof extra - 1;

    return !fsdp_begins(o, "model") && !fsdp_begins(o, "rng_state") && o->src->size <= FSDP_ITEM &&
           !(o->key_len >= n && memcmp(o->key + o->key_len - n, extra, n) == 0);
}

static bool fsdp_take(struct mg_save *s, const struct mg_object *o, const struct zf_pv *root,
                      struct zf_err *err)
{
    uint64_t step;

    if (strcmp(o->key, "args") == 0)
        return megatron_settings_args(root, &s->settings, err);
    if (strcmp(o->key, "iteration") == 0 && zf_pv_u64(root, &step))
        return mg_iteration_check(s->st, step, s->b, err) || zf_err_in(err, ".metadata!iteration");
    return true;
}

/* Reads one item into the settings and the JSON; values without a JSON form are left out. */
static bool fsdp_item(struct mg_save *s, const struct mg_object *o, struct zf_item_json *json,
                      struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    bool all;
    zf_auto(torch) struct zf_torch *t = zf_torch_open(o->src, s->lim, &ignored);

    if (!t || zf_torch_kind(t, zf_torch_root(t)) != ZF_TORCH_NOT)
        return ignored.code != ZF_E_NOMEM || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return fsdp_take(s, o, zf_torch_root(t), err) &&
           zf_item_json_add(json, t, (struct zf_step){.p = o->key, .n = o->key_len}, s->lim, &all,
                            err);
}

/* Makes state/<name>.json from the optimizer's items, or from all others. */
static bool fsdp_state(struct mg_save *s, const char *name, bool optimizer, size_t most,
                       struct zf_err *err)
{
    zf_auto(item_json) struct zf_item_json json = {0};
    size_t n = 0;

    for (size_t i = 0; i < s->object.n; i++) {
        const struct mg_object *o = &s->object.at[i];

        n += fsdp_is_state(o) && fsdp_begins(o, "optimizer.") == optimizer;
    }
    if (n > most) {
        return zf_build_note_on(
            s->b, ZF_NOTE_LEFT_OUT, NULL, err,
            "%s is not shown: it would consist of %zu items, which are in extra/", name, n);
    }
    for (size_t i = 0; i < s->object.n; i++) {
        const struct mg_object *o = &s->object.at[i];

        if (fsdp_is_state(o) && fsdp_begins(o, "optimizer.") == optimizer &&
            !fsdp_item(s, o, &json, err))
            return false;
    }
    return zf_item_json_end(&json, s->b, name, err);
}

bool mg_fsdp(struct mg_save *s, struct zf_err *err)
{
    return mg_dcp_lists(s, mg_fsdp_key, err) && mg_fsdp_ids(s, err) &&
           fsdp_state(s, "state/common.json", false, FSDP_COMMON, err) &&
           fsdp_state(s, "state/optimizer.json", true, FSDP_OPTIMIZER, err);
}
