/* SPDX-License-Identifier: Apache-2.0 */
/* Listings in JSON: an array with an object for each name.
 *
 * nginx 1.22, ngx_http_autoindex_json: {"name", "type": "directory" | "file" | "other", "mtime", "size"
 * of files}.  The size of a link is that of its target; "other" (a FIFO, a dangling link) is left out.
 * Caddy 2.6, fileserver/browsetplcontext.go, answers so when "application/json" is in Accept: {"name",
 * "size", "url", "mod_time", "mode", "is_dir", "is_symlink"}; the names of directories end in '/', and
 * the size of a link is its own, which says nothing. */
#include "listings.h"

#include <string.h>

#include <zf/codec/json.h>

#include "timestamp.h"

/* Is the entry a directory?  *known is false where its type is missing. */
static bool json_is_dir(const json_t *o, bool *known, bool *other)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *is_dir = json_object_get(o, "is_dir");

    *known = type || json_is_boolean(is_dir);
    *other = type && strcmp(type, "directory") != 0 && strcmp(type, "file") != 0;
    return type ? strcmp(type, "directory") == 0 : json_is_true(is_dir);
}

/* nginx: "mtime": "Wed, 14 Feb 2018 17:07:47 GMT"; Caddy: "mod_time": "2018-02-14T17:07:47.123Z". */
static time_t json_mtime(const json_t *o)
{
    const char *http = json_string_value(json_object_get(o, "mtime")),
               *iso = json_string_value(json_object_get(o, "mod_time"));
    struct timespec t;
    time_t when;

    return http && timestamp_http(http, &when) ? when
           : iso && timestamp_iso(iso, &t)     ? t.tv_sec
                                               : 0;
}

static bool json_entry(const json_t *o, size_t i, struct entries *out, struct zf_err *err)
{
    const json_t *name = json_object_get(o, "name");
    size_t n = json_string_length(name);
    struct entry e = {.name = json_string_value(name)};
    bool known, other;

    e.dir = json_is_dir(o, &known, &other);
    if (!e.name || !known) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "entry %zu of the listing has no %s, but earlier ones have", i,
                       e.name ? "\"type\" or \"is_dir\"" : "\"name\"");
    }
    if (other)
        return true;
    n -= e.dir && n && e.name[n - 1] == '/';
    e.sized = !e.dir && !json_is_true(json_object_get(o, "is_symlink")) &&
              zf_json_u64(json_object_get(o, "size"), &e.size);
    e.mtime = e.sized ? json_mtime(o) : 0;
    return entries_add(out, &e, n, err);
}

/* The first entry tells whether this is a listing at all. */
static bool json_is_listing(const json_t *doc)
{
    const json_t *first = json_array_get(doc, 0);
    bool known = false, other;

    if (first && json_is_string(json_object_get(first, "name")))
        (void)json_is_dir(first, &known, &other);
    return json_is_array(doc) && (!first || known);
}

bool autoindex_json(const char *body, uint64_t n, const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err)
{
    zf_auto(json) json_t *doc = zf_json_load(body, n, lim, err);

    if (!doc)
        return false;
    if (!json_is_listing(doc))
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "this JSON is not a directory listing");
    for (size_t i = 0; i < json_array_size(doc); i++)
        if (!json_entry(json_array_get(doc, i), i, out, err))
            return false;
    return true;
}
