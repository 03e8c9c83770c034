/* SPDX-License-Identifier: Apache-2.0 */
/* An output embedding that is tied to the input embedding: trainers save only one of them. */
#include "hf_parts.h"

#include <string.h>

#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/codec/json.h>

static bool tied_is_head(const char *name)
{
    return strstr(name, "lm_head") && zf_name_ends(name, ".weight");
}

static bool tied_is_embedding(const char *name)
{
    static const char word[] = "embed_tokens.weight";
    size_t n = strlen(name), w = sizeof word - 1;

    return zf_name_ends(name, word) && (n == w || name[n - w - 1] == '.');
}

/* The name in the list for which `is` is true, if there is exactly one, else NULL. */
static const char *tied_only(const struct zf_st_index *number, bool (*is)(const char *name))
{
    const char *found = NULL;

    for (const struct zf_st_index_entry *e = number->entry; e; e = e->hh.next) {
        if (is(e->tensor) && found)
            return NULL;
        found = is(e->tensor) ? e->tensor : found;
    }
    return found;
}

/* The config.json of the weights: from .hf_metadata, or next to them. */
static json_t *tied_config(const struct hf_parts *p, struct zf_store *st,
                           const struct zf_limits *lim)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *inner = hf_parts_metadata(p, "config.json", &ignored);
    zf_auto(mem) char *beside = zf_relpath_join(p->weights, "config.json", &ignored);
    const char *path = inner && zf_store_has(st, inner, ZF_ENTRY_FILE) ? inner : beside;
    uint64_t n = 0;
    zf_auto(mem) char *text = path && zf_store_has(st, path, ZF_ENTRY_FILE)
                                  ? zf_store_slurp(st, path, lim->json_bytes, &n, &ignored)
                                  : NULL;

    return text ? zf_json_load(text, n, lim, &ignored) : NULL;
}

void st_tied_find(const struct hf_parts *p, struct zf_store *st, const struct zf_st_index *number,
                  const struct zf_limits *lim, struct st_tied *out)
{
    static const char key[] = "tie_word_embeddings";

    *out = (struct st_tied){.head = tied_only(number, tied_is_head)};
    zf_auto(json) json_t *config = out->head ? tied_config(p, st, lim) : NULL;
    const json_t *whole = json_object_get(config, key);
    const json_t *text = json_object_get(json_object_get(config, "text_config"), key);

    out->told = json_is_true(whole) || json_is_true(text);
    if (!out->told && (json_is_false(whole) || json_is_false(text)))
        out->head = NULL;
}

bool st_tied_add(const struct st_tied *t, const struct zf_st_index *number, struct zf_names *names,
                 struct zf_build *b, struct zf_err *err)
{
    const char *embedding = t->head ? tied_only(number, tied_is_embedding) : NULL;
    struct zf_draft *of = NULL;
    struct zf_spot spot;

    if (!t->head)
        return true;
    if (embedding && t->told) {
        if (!zf_names_place_flat(names, embedding, strlen(embedding), &spot, err))
            return false;
        of = zf_build_find(b, spot);
    }
    if (!zf_names_place_flat(names, t->head, strlen(t->head), &spot, err))
        return false;
    if (zf_build_find(b, spot))
        return true;
    return of ? zf_build_alias(b, of, spot.name, spot.name_len, err)
              : zf_build_note(b, err,
                              "\"%.120s\" is listed in %.120s, but no file holds it; it may be "
                              "tied to the input embedding, but %s",
                              t->head, number->path,
                              t->told ? "that is missing, too"
                                      : "there is no config.json that records it");
}
