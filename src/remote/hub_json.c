/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face hub's answers as JSON.  Source: huggingface_hub 0.36, hf_api.py (list_repo_tree, RepoFile,
 * RepoFolder, repo_info, ModelInfo) and utils/_pagination.py. */
#include "listings.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include <zf/codec/json.h>

static bool hub_hex(const char *s, size_t n)
{
    return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The file's size, on which the LFS pointer and its target must agree. */
static bool hub_size(const json_t *o, struct entry *e, struct zf_err *err)
{
    const json_t *lfs = json_object_get(o, "lfs");
    uint64_t large;

    e->sized = zf_json_u64(json_object_get(o, "size"), &e->size);
    if (!json_is_object(lfs))
        return true;
    if (!zf_json_u64(json_object_get(lfs, "size"), &large)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the hub gives no LFS size for \"%.100s\"",
                       e->name);
    }
    if (e->sized && e->size != large) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the hub gives \"%.100s\" %" PRIu64 " bytes, but %" PRIu64 " in LFS",
                       e->name, e->size, large);
    }
    e->sized = true;
    e->size = large;
    return true;
}

static bool hub_entry(const json_t *o, const char *dir, struct entries *out, struct zf_err *err)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *path = json_object_get(o, "path");
    size_t skip = *dir ? strlen(dir) + 1 : 0, n = json_string_length(path);
    struct entry e = {.name = json_string_value(path)};

    if (!type || !e.name) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an entry of the hub's listing has no %s",
                       type ? "\"path\"" : "\"type\"");
    }
    if (skip && (n <= skip || strncmp(e.name, dir, skip - 1) != 0 || e.name[skip - 1] != '/')) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the hub's listing of \"%.100s\" has an entry \"%.100s\" outside of it", dir,
                       e.name);
    }
    e.name += skip;
    e.dir = strcmp(type, "directory") == 0;
    if (!e.dir && strcmp(type, "file") != 0)
        return true; /* submodules and the like */
    return (e.dir || hub_size(o, &e, err)) && entries_add(out, &e, n - skip, err);
}

bool hub_tree_page(const char *body, uint64_t n, const char *dir, const struct zf_limits *lim,
                   struct entries *out, struct zf_err *err)
{
    zf_auto(json) json_t *doc = zf_json_load(body, n, lim, err);

    if (!doc)
        return false;
    if (!json_is_array(doc)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the answer of the hub is not a list of files");
    }
    for (size_t i = 0; i < json_array_size(doc); i++)
        if (!hub_entry(json_array_get(doc, i), dir, out, err))
            return false;
    return true;
}

/* ---- the commit ------------------------------------------------------------------------------ */

bool hub_commit(const char *body, uint64_t n, const struct zf_limits *lim, char commit[41],
                struct zf_err *err)
{
    zf_auto(json) json_t *doc = zf_json_load(body, n, lim, err);

    if (!doc)
        return false;
    const char *sha = json_string_value(json_object_get(doc, "sha"));
    if (!hub_hex(sha, 40)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the hub's answer does not name the commit of the revision (\"sha\")");
    }
    memcpy(commit, sha, 41);
    return true;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Does a parameter of this link, p … end, say rel=next? */
static bool hub_rel_next(const char *p, const char *end)
{
    const char *rel = memmem(p, (size_t)(end - p), "rel=", 4);

    if (!rel)
        return false;
    rel += 4;
    rel += rel < end && *rel == '"';
    return end - rel >= 4 && strncasecmp(rel, "next", 4) == 0 &&
           (end - rel == 4 || strchr("\"; \t", rel[4]));
}

bool hub_next(const char *link, struct zf_out *url)
{
    /* <URL>; rel="next", <URL>; rel="last": RFC 8288 */
    for (const char *open; (open = strchr(link, '<'));) {
        const char *close = strchr(open, '>');
        if (!close)
            return false;
        const char *more = strchr(close, '<');
        const char *end = more ? more : close + strlen(close);
        if (hub_rel_next(close, end)) {
            zf_out_cut(url, 0);
            zf_out_add(url, open + 1, (size_t)(close - open) - 1);
            return true;
        }
        link = end;
    }
    return false;
}
