/* SPDX-License-Identifier: Apache-2.0 */
/* http://host/dir/ and https://.  The entries of a directory come from
 *
 * 1. the server's own listing (listings.h);
 * 2. without one, the list zerofs.index.json of the place (index_file.h), if there is one;
 * 3. else the names of checkpoints' files that the server answers for (unlisted.h).
 *
 * Listings leave out names that begin with a dot (nginx always, Apache and lighttpd by default).  A checkpoint needs some
 * of these files, so they are requested by name.
 *
 * User names, passwords and tokens never come from the command line, but from the first of
 *
 * 1. ZEROFS_HTTP_BEARER, a token: "Authorization: Bearer …";
 * 2. ZEROFS_HTTP_USERPWD, "user:password": Basic;
 * 3. the netrc file, $NETRC or ~/.netrc, by host: Basic.
 *
 * The variables are named after GDAL's GDAL_HTTP_BEARER and GDAL_HTTP_USERPWD (gdal.org, user/configoptions); curl and
 * Python read NETRC, too. */
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zf/base/name.h>
#include <zf/base/path.h>

#include "index_file.h"
#include "listings.h"
#include "place.h"
#include "settings.h"
#include "unlisted.h"
#include "url.h"

enum { HTTP_PLACE_PAGE = 256 << 20 }; /* bytes of one listing */

struct http_place {
    struct place place;
    const struct zf_limits *lim;
    char *base;            /* the URL, with a '/' at its end */
    const char *header[2]; /* Accept, for listings; login */
    char *login;           /* "Authorization: …"; NULL: libcurl reads the netrc file */
    struct unlisted *unlisted;
};

/* ---- requests -------------------------------------------------------------------------------- */

static bool http_place_at(struct place *p, const char *path, struct place_at *out,
                          struct zf_err *err)
{
    const struct http_place *h = (const struct http_place *)p;
    struct zf_out o = {0};

    zf_out_str(&o, h->base);
    url_encode(&o, path, strlen(path), true);
    *out = (struct place_at){
        .url = o.p, .header = &h->header[1], .n_header = h->login != NULL, .netrc = !h->login};
    return zf_out_ok(&o, err);
}

static bool http_place_get(struct http_place *h, const char *url, struct http_reply *r,
                           struct zf_err *err)
{
    const struct http_ask ask = {.url = url,
                                 .header = h->header,
                                 .n_header = 1 + (h->login != NULL),
                                 .netrc = !h->login,
                                 .max_body = HTTP_PLACE_PAGE};

    return http_do(h->place.http, &ask, r, err);
}

/* ---- listings of the server ------------------------------------------------------------------- */

/* Names with a leading dot that this directory may also have; none if its listing already shows such names. */
static size_t http_place_hidden(const struct entries *e, const char *out[2])
{
    size_t n = 0;
    bool shards = false, chunks = false;

    for (size_t i = 0; i < e->n; i++) {
        const char *name = e->at[i].name;

        if (name[0] == '.')
            return 0;
        shards = shards || zf_name_ends(name, ".distcp") || zf_name_ends(name, ".safetensors") ||
                 strcmp(name, "metadata.json") == 0 || strcmp(name, "common.pt") == 0;
        chunks = chunks || (!e->at[i].dir && strspn(name, "0123456789.") == strlen(name));
    }
    if (shards)
        out[n++] = ".metadata";
    if (chunks)
        out[n++] = ".zarray";
    return n;
}

static bool http_place_add_hidden(struct http_place *h, const char *dir, struct entries *e,
                                  struct zf_err *err)
{
    const char *name[2], *path[2];
    zf_auto(mem) char *first = NULL;
    zf_auto(mem) char *second = NULL;
    char **slot[2] = {&first, &second};
    struct names_found found[2] = {{.is = false}, {.is = false}};
    size_t n = http_place_hidden(e, name);

    for (size_t i = 0; i < n; i++) {
        *slot[i] = zf_relpath_join(dir, name[i], err);
        path[i] = *slot[i];
        if (!path[i])
            return false;
    }
    if (n && !unlisted_have(h->unlisted, path, n, found, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct entry add = {
            .name = name[i], .sized = found[i].size != NAMES_UNSIZED, .size = found[i].size};

        if (found[i].is && !entries_add(e, &add, strlen(name[i]), err))
            return false;
    }
    return true;
}

/* Reads the server's own listing of a directory.  *known_out false, with an error: the server gives no listing. */
static bool http_place_autoindex(struct http_place *h, const char *dir, struct entries *e,
                                 bool *known_out, struct zf_err *err)
{
    zf_auto(place_at) struct place_at at = {.url = NULL};
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    zf_auto(out) struct zf_out url = {.p = NULL};

    *known_out = true;
    if (!http_place_at(&h->place, dir, &at, err))
        return false;
    zf_out_fmt(&url, "%s%s", at.url, dir[0] ? "/" : "");
    if (!zf_out_ok(&url, err))
        return false;
    if (!http_place_get(h, url.p, &r, err)) {
        /* From a server with listings, 404 means that the directory does not exist; otherwise it only means that there is
         * no listing. */
        *known_out = !unlisted_missing(&r) ||
                     (err->code == ZF_E_NOENT &&
                      atomic_load_explicit(&h->place.lists_all, memory_order_relaxed));
        return false;
    }
    zf_auto(mem) char *type = http_header(&r, "Content-Type");
    e->date = r.object.date;
    /* Links are relative to the final URL, which differs after a redirect. */
    const char *base = r.url && zf_name_ends(r.url, "/") ? r.url : url.p;
    if (!autoindex_read((const char *)r.body, r.n_body, type, base, h->lim, e, err)) {
        *known_out = err->code != ZF_E_UNSUPPORTED;
        return zf_err_in(err, "%s", url.p);
    }
    return http_place_add_hidden(h, dir, e, err);
}

/* ---- the place ------------------------------------------------------------------------------- */

static bool http_place_unlisted(struct http_place *h, const char *dir, struct entries *e,
                                struct zf_err *err)
{
    if (unlisted_list(h->unlisted, dir, e, err))
        return true;
    if (err->code == ZF_E_NOENT && !dir[0]) {
        zf_err_clear(err);
        (void)zf_fail(
            err, ZF_E_NOENT, ZF_OFF_NONE,
            "nothing found at this URL: the server gives no listing and no " INDEX_FILE_NAME
            ", and none of the usual checkpoint files exists. Check the path, or run on the "
            "server: zerofs index DIR");
        return zf_err_in(err, "%s", h->place.shown);
    }
    return false;
}

static bool http_place_list(struct place *p, const char *dir, struct entries *out,
                            struct zf_err *err)
{
    struct http_place *h = (struct http_place *)p;
    bool known = false;

    if (!unlisted_known(h->unlisted) && http_place_autoindex(h, dir, out, &known, err)) {
        atomic_store_explicit(&p->lists_all, true, memory_order_relaxed);
        return true;
    }
    if (known)
        return false;
    zf_err_clear(err);
    /* Drop links found in a page that is not a listing. */
    return entries_again(out, err) && http_place_unlisted(h, dir, out, err);
}

static void http_place_fini(struct place *p)
{
    struct http_place *h = (struct http_place *)p;

    unlisted_free(h->unlisted);
    secret_free(h->login);
    free(h->base);
    place_free(p);
}

static const struct place_ops http_place_ops = {
    .list = http_place_list,
    .at = http_place_at,
    .fini = http_place_fini,
};

/* Refuses a netrc file that is a pipe: libcurl reads the file for every request. */
static bool http_place_netrc(struct zf_err *err)
{
    const char *named = settings_env("NETRC");
    struct stat st;

    return !named || stat(named, &st) != 0 || !S_ISFIFO(st.st_mode) ||
           zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "NETRC names %.200s, a pipe, but the file is read for every request. Set "
                   "ZEROFS_HTTP_USERPWD=user:password instead",
                   named);
}

/* Source of Basic: RFC 7617. */
static bool http_place_login(struct http_place *h, struct zf_err *err)
{
    const char *token = settings_env("ZEROFS_HTTP_BEARER"),
               *pair = settings_env("ZEROFS_HTTP_USERPWD");
    const size_t n = pair ? strlen(pair) : 0, room = BASE64_ENCODE_RAW_LENGTH(n);
    zf_auto(secret) char *word = calloc(1, room + 1);

    if (token && !settings_is_word(token)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "ZEROFS_HTTP_BEARER holds a byte that a header cannot carry");
    }
    if (!token && pair && !strchr(pair, ':')) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "ZEROFS_HTTP_USERPWD is not user:password: it has no colon");
    }
    if (!token && !pair)
        return http_place_netrc(err);
    if (word)
        base64_encode_raw(word, n, (const uint8_t *)(pair ? pair : ""));
    if (!word || asprintf(&h->login, "Authorization: %s %s", token ? "Bearer" : "Basic",
                          token ? token : word) < 0) {
        h->login = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    h->header[1] = h->login;
    return true;
}

struct place *place_open_http(const struct place_new *n, struct zf_err *err)
{
    struct http_place *h =
        url_check(n->address, err) ? place_make(sizeof *h, &http_place_ops, n, err) : NULL;
    struct zf_out o = {0};

    if (!h)
        return NULL;
    h->lim = n->lim;
    h->header[0] = "Accept: application/json, text/html;q=0.9, */*;q=0.1";
    zf_out_fmt(&o, "%s/", n->address);
    h->base = o.p;
    h->unlisted = zf_out_ok(&o, err) ? unlisted_new(&h->place, h->lim, err) : NULL;
    if (!h->unlisted || !http_place_login(h, err)) {
        http_place_fini(&h->place);
        return NULL;
    }
    return &h->place;
}
