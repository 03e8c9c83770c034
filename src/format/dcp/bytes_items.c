/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes_items.h"

#include <string.h>

#include <zf/base/name.h>
#include <zf/base/text.h>
#include <zf/codec/json.h>
#include <zf/codec/pvjson.h>

#include "items.h"

/* Mounting reads metadata; this much more is well spent on learning rate and step. */
#define ITEM_MAX (64u << 10)
#define TOTAL_MAX (256u << 10)

/* The JSON of one item, or NULL. */
static char *value_of(struct zf_dcp_placing *p, const struct zf_dcp_chunk *c, uint64_t *len_out)
{
    struct zf_dcp_span span = {
        .off = c->off, .len = c->len, .wrap = c->wrap, .max_bytes = ITEM_MAX * 16u};
    zf_auto(dcp_look) struct zf_dcp_look look = {0};
    struct zf_err ignored;
    char *text = NULL;

    zf_err_clear(&ignored);
    if (!zf_dcp_look_init(&look, p->file[c->file], span, p->lim, &ignored) || !look.torch ||
        zf_torch_kind(look.torch, zf_torch_root(look.torch)) != ZF_TORCH_NOT ||
        !zf_pv_json(zf_torch_root(look.torch), p->lim, NULL, &text, len_out, &ignored)) {
        return NULL;
    }
    return text;
}

/* Appends "key": value. */
static bool add_entry(struct zf_text *out, const struct zf_path *path, const char *value,
                      uint64_t n, struct zf_err *err)
{
    zf_auto(text) struct zf_text key = {0};

    if (!zf_path_join(&key, *path, 0, err)) {
        return false;
    }
    json_t *name = json_stringn(key.p, key.n); /* NULL: not UTF-8 */
    zf_auto(mem) char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;

    json_decref(name);
    if (!quoted) {
        return true;
    }
    while (n && value[n - 1] == '\n') {
        n--;
    }
    return zf_text_add(out, out->n ? ",\n" : "{\n", 2, err) &&
           zf_text_add(out, quoted, strlen(quoted), err) && zf_text_add(out, ": ", 2, err) &&
           zf_text_add(out, value, n, err);
}

bool zf_dcp_state(struct zf_dcp_placing *p, struct zf_err *err)
{
    const struct zf_dcp *d = p->d;
    zf_auto(text) struct zf_text out = {0};
    uint64_t total = 0;

    for (uint64_t i = 0; i < d->n_chunks; i++) {
        const struct zf_dcp_chunk *c = &d->chunk[i];
        const struct zf_dcp_key *k = &d->key[c->key];
        zf_auto(mem) char *value = NULL;
        uint64_t n = 0;

        if (!k->is_bytes || c->lost || c->len > ITEM_MAX || total + c->len > TOTAL_MAX ||
            zf_names_extra_state(k->name, strlen(k->name))) {
            continue;
        }
        total += c->len;
        value = value_of(p, c, &n);
        if (value && !add_entry(&out, &p->path[c->key], value, n, err)) {
            return false;
        }
    }
    return out.n == 0 || (zf_text_add(&out, "\n}\n", 3, err) &&
                          zf_build_text(p->b, "state/checkpoint.json", out.p, out.n, err));
}
