/* SPDX-License-Identifier: Apache-2.0 */
/* hf://OWNER/NAME[@REVISION][/DIR], hf://datasets/… and hf://spaces/…: a repository of the Hugging Face
 * hub, in the URL format of huggingface_hub's HfFileSystem.
 *
 * The revision (main) is resolved to a commit when the place is opened; all later requests are for that commit, so a push
 * in the meantime changes nothing.  Files come from the `resolve` URLs, which redirect large files to a storage server; the
 * token is only sent to the hub.
 *
 * HF_ENDPOINT, HF_TOKEN (or HUGGING_FACE_HUB_TOKEN), HF_TOKEN_PATH, HF_HOME, XDG_CACHE_HOME,
 * HF_HUB_DISABLE_IMPLICIT_TOKEN and HF_HUB_OFFLINE have the same meaning as in huggingface_hub 0.36, constants.py and
 * utils/_auth.py. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "listings.h"
#include "place.h"
#include "settings.h"
#include "url.h"

enum {
    HUB_PAGE = 64 << 20,
    HUB_TOKEN = 64 << 10
}; /* limits of a response and of a token file, bytes */

struct hub {
    struct place place;
    const struct zf_limits *lim;
    char *endpoint; /* without a '/' at its end */
    char *kind;     /* "models", "datasets", "spaces" */
    char *repo;     /* OWNER/NAME */
    char *revision; /* as asked for */
    char *dir;      /* "" or "dir/" */
    char commit[41];
    char *login; /* "Authorization: Bearer …"; NULL: anonymous */
};

/* ---- settings -------------------------------------------------------------------------------- */

/* Source: constants.py, ENV_VARS_TRUE_VALUES. */
static bool hub_env_true(const char *name)
{
    static const char *const yes[] = {"1", "ON", "YES", "TRUE"};
    const char *v = settings_env(name);

    for (size_t i = 0; v && i < sizeof yes / sizeof yes[0]; i++)
        if (strcasecmp(v, yes[i]) == 0)
            return true;
    return false;
}

/* The token's file; malloc'ed, or NULL. */
static char *hub_token_path(void)
{
    const char *path = settings_env("HF_TOKEN_PATH"), *hf = settings_env("HF_HOME"),
               *cache = settings_env("XDG_CACHE_HOME"), *home = settings_env("HOME");
    char *out = NULL;
    int n = path    ? asprintf(&out, "%s", path)
            : hf    ? asprintf(&out, "%s/token", hf)
            : cache ? asprintf(&out, "%s/huggingface/token", cache)
            : home  ? asprintf(&out, "%s/.cache/huggingface/token", home)
                    : -1;

    return n < 0 ? NULL : out;
}

/* Removes line ends, and blanks at both ends, as _clean_token does. */
static void hub_token_clean(char *t)
{
    size_t n = 0;

    for (const char *p = t; *p; p++)
        if (*p != '\r' && *p != '\n' && (n || !isspace((unsigned char)*p)))
            t[n++] = *p;
    while (n && isspace((unsigned char)t[n - 1]))
        n--;
    t[n] = '\0';
}

/* Reads the token file.  Like huggingface_hub, treats an unreadable file as missing; a partly read one is wiped. */
static bool hub_token_file(const char *path, struct zf_out *out, struct zf_err *err)
{
    if (settings_file(path, HUB_TOKEN, out, err))
        return true;
    zf_auto_secret_out(out);
    return err->code == ZF_E_IO;
}

static bool hub_login(struct hub *h, struct zf_err *err)
{
    const char *env = settings_env("HF_TOKEN");
    zf_auto(mem) char *path = hub_token_path();
    zf_auto(secret_out) struct zf_out token = {.p = NULL};

    env = env ? env : settings_env("HUGGING_FACE_HUB_TOKEN");
    if (hub_env_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return true;
    if (env)
        zf_out_str(&token, env);
    else if (path && !hub_token_file(path, &token, err))
        return false;
    if (token.p)
        hub_token_clean(token.p);
    if (!zf_out_ok(&token, err) || !*zf_out_text(&token))
        return !token.bad;
    if (!settings_is_word(token.p)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the token holds a byte that a header cannot carry");
    }
    if (asprintf(&h->login, "Authorization: Bearer %s", token.p) < 0) {
        h->login = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Length of the revision at `p`, after an '@': up to a '/', except in refs/pr/1 and refs/convert/parquet.  Source:
 * huggingface_hub 0.36, hf_file_system.py, SPECIAL_REFS_REVISION_REGEX. */
static size_t hub_revision_len(const char *p)
{
    size_t n = strcspn(p, "/");
    bool special = strncmp(p, "refs/pr/", 8) == 0 || strncmp(p, "refs/convert/", 13) == 0;

    if (special) {
        n = p[5] == 'p' ? 8 : 13;
        n += strcspn(p + n, "/");
    }
    return n;
}

static bool hub_address_bad(struct zf_err *err)
{
    return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                   "expected hf://OWNER/NAME[@REVISION][/DIR], with datasets/ or spaces/ before "
                   "OWNER unless it is a model");
}

/* Letters, digits and -_. in both parts.  Source: huggingface_hub utils/_validators.py. */
static bool hub_repo_ok(const char *repo, size_t n)
{
    const char *slash = memchr(repo, '/', n);

    if (!slash || slash == repo || slash == repo + n - 1 || n > 200)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)repo[i]) && !strchr("-_./", repo[i]))
            return false;
    return repo[0] != '.' && slash[1] != '.' && !memmem(repo, n, "..", 2);
}

static bool hub_parse(struct hub *h, const char *address, struct zf_err *err)
{
    static const char *const kinds[] = {"datasets", "spaces", "models"};
    const char *p = address + strlen("hf://"), *kind = "models";
    zf_auto(out) struct zf_out revision = {.p = NULL};

    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(kinds[i]);

        if (strncmp(p, kinds[i], n) == 0 && p[n] == '/') {
            kind = kinds[i];
            p += n + 1;
            break;
        }
    }
    size_t owner = strcspn(p, "/"), n = p[owner] ? owner + 1 + strcspn(p + owner + 1, "/@") : owner;
    if (!hub_repo_ok(p, n))
        return hub_address_bad(err);
    h->kind = strdup(kind);
    h->repo = strndup(p, n);
    p += n;
    if (*p == '@') {
        size_t len = hub_revision_len(++p);
        if (!len || !url_decode(&revision, p, len, false))
            return hub_address_bad(err);
        p += len;
    }
    p += *p == '/';
    h->revision = strdup(revision.n ? revision.p : "main");
    if (asprintf(&h->dir, "%s%s", p, *p ? "/" : "") < 0)
        h->dir = NULL;
    return (h->kind && h->repo && h->revision && h->dir && !revision.bad) ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Adds a revision, percent-encoded, including its slashes. */
static void hub_quote_revision(struct zf_out *o, const char *revision)
{
    for (const char *p = revision; *p;) {
        size_t n = strcspn(p, "/");
        zf_auto(mem) char *part = strndup(p, n);

        url_encode(o, part ? part : "", part ? strlen(part) : 0, true);
        o->bad = o->bad || !part;
        p += n;
        if (*p == '/') {
            zf_out_str(o, "%2F");
            p++;
        }
    }
}

/* Reports a refusal by the hub's own error headers.  Source: utils/_http.py, hf_raise_for_status. */
static bool hub_refused(const struct hub *h, const struct http_reply *r, struct zf_err *err)
{
    zf_auto(mem) char *code = http_header(r, "X-Error-Code");
    const char *why = code ? code : "";
    struct zf_err was = *err;

    if (r->status != 401 && r->status != 403 && r->status != 404)
        return false;
    zf_err_clear(err);
    if (strcmp(why, "GatedRepo") == 0) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "the repository is gated (status %ld). Ask for access at %.80s/%.80s, and "
                      "give that account's token in HF_TOKEN or by hf auth login",
                      r->status, h->endpoint, h->repo);
    } else if (strcmp(why, "RevisionNotFound") == 0) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "the repository has no revision \"%.100s\"",
                      h->revision);
    } else if (strcmp(why, "RepoNotFound") == 0 || r->status == 401) {
        (void)zf_fail(err, h->login && r->status == 401 ? ZF_E_IO : ZF_E_NOENT, ZF_OFF_NONE,
                      "the hub has no %.10s repository %.80s, or it is private (status %ld): %s",
                      h->kind, h->repo, r->status,
                      h->login ? "the token in use does not give access to it"
                               : "for a private one give a token in HF_TOKEN or by hf auth login");
    } else if (r->status == 403) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "the token in use does not give access to the repository %.80s (status 403)",
                      h->repo);
    } else {
        *err = was;
        return false;
    }
    return zf_err_in(err, "%s", h->place.shown);
}

static bool hub_get(struct hub *h, const char *url, struct http_reply *r, struct zf_err *err)
{
    const struct http_ask ask = {.url = url,
                                 .header = (const char *const *)&h->login,
                                 .n_header = h->login != NULL,
                                 .max_body = HUB_PAGE};

    return http_do(h->place.http, &ask, r, err) || hub_refused(h, r, err);
}

/* Adds the repository's API URL, "https://hub/api/models/OWNER/NAME", and `what`. */
static void hub_api(const struct hub *h, const char *what, struct zf_out *url)
{
    const char *const part[] = {h->endpoint, "/api/", h->kind, "/", h->repo, what};

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        zf_out_str(url, part[i]);
}

/* Resolves the revision to its current commit. */
static bool hub_pin(struct hub *h, struct zf_err *err)
{
    zf_auto(out) struct zf_out url = {.p = NULL};
    zf_auto(http_reply) struct http_reply r = {.status = 0};

    hub_api(h, "/revision/", &url);
    hub_quote_revision(&url, h->revision);
    return zf_out_ok(&url, err) && hub_get(h, url.p, &r, err) &&
           (hub_commit((const char *)r.body, r.n_body, h->lim, h->commit, err) ||
            zf_err_in(err, "%s", url.p));
}

/* ---- the place ------------------------------------------------------------------------------- */

static bool hub_at(struct place *p, const char *path, struct place_at *out, struct zf_err *err)
{
    const struct hub *h = (const struct hub *)p;
    struct zf_out o = {0};

    zf_out_fmt(&o, "%s/", h->endpoint);
    if (strcmp(h->kind, "models") != 0)
        zf_out_fmt(&o, "%s/", h->kind);
    zf_out_fmt(&o, "%s/resolve/%s/", h->repo, h->commit);
    url_encode(&o, h->dir, strlen(h->dir), true);
    url_encode(&o, path, strlen(path), true);
    *out = (struct place_at){
        .url = o.p, .header = (const char *const *)&h->login, .n_header = h->login != NULL};
    return zf_out_ok(&o, err);
}

/* Adds the URL of the first page of the listing of `full`. */
static bool hub_tree_url(const struct hub *h, const char *full, struct zf_out *url)
{
    hub_api(h, "/tree/", url);
    zf_out_fmt(url, "%s%s", h->commit, full[0] ? "/" : "");
    url_encode(url, full, strlen(full), true);
    zf_out_str(url, "?recursive=false&expand=false");
    return !url->bad;
}

/* The URL of the next page; *more_out false: this was the last.  Refuses another server, which would get the token. */
static bool hub_turn(const struct hub *h, const struct http_reply *r, struct zf_out *url,
                     bool *more_out, struct zf_err *err)
{
    zf_auto(mem) char *link = http_header(r, "Link");

    *more_out = link && hub_next(link, url);
    if (!*more_out)
        return true;
    zf_auto(mem) char *theirs = zf_out_ok(url, err) ? url_origin(url->p) : NULL;
    zf_auto(mem) char *ours = url_origin(h->endpoint);
    return (theirs && ours && strcmp(theirs, ours) == 0) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the hub continues its listing on another server, \"%.100s\"", zf_out_text(url));
}

static bool hub_pages(struct hub *h, const char *full, struct entries *e, struct zf_err *err)
{
    zf_auto(out) struct zf_out url = {.p = NULL};
    bool more = hub_tree_url(h, full, &url);

    if (!zf_out_ok(&url, err))
        return false;
    while (more) {
        zf_auto(http_reply) struct http_reply r = {.status = 0};
        size_t was = e->n;

        if (!hub_get(h, url.p, &r, err))
            return false;
        if (!hub_tree_page((const char *)r.body, r.n_body, full, h->lim, e, err) ||
            !hub_turn(h, &r, &url, &more, err))
            return zf_err_in(err, "%s", h->place.shown);
        if (more && e->n == was) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "a page of the hub's listing adds nothing, but is not the last");
            return zf_err_in(err, "%s", h->place.shown);
        }
    }
    return true;
}

static bool hub_list(struct place *p, const char *dir, struct entries *out, struct zf_err *err)
{
    struct hub *h = (struct hub *)p;
    zf_auto(mem) char *full = NULL;

    if (asprintf(&full, "%s%s", h->dir, dir) < 0) {
        full = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!dir[0] && full[0])
        full[strlen(full) - 1] = '\0';
    return hub_pages(h, full, out, err);
}

static void hub_fini(struct place *p)
{
    struct hub *h = (struct hub *)p;

    secret_free(h->login);
    free(h->endpoint);
    free(h->kind);
    free(h->repo);
    free(h->revision);
    free(h->dir);
    place_free(p);
}

static const struct place_ops hub_ops = {
    .list = hub_list,
    .at = hub_at,
    .fini = hub_fini,
};

/* Renames the place so that its URL contains the commit. */
static bool hub_rename(struct hub *h, struct zf_err *err)
{
    char *shown = NULL;
    bool model = strcmp(h->kind, "models") == 0;
    size_t n = strlen(h->dir);

    if (asprintf(&shown, "hf://%s%s%s@%s%s%.*s", model ? "" : h->kind, model ? "" : "/", h->repo,
                 h->commit, n ? "/" : "", n ? (int)n - 1 : 0, h->dir) < 0)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    free(h->place.shown);
    h->place.shown = shown;
    h->place.immutable = true;
    return true;
}

static bool hub_begin(struct hub *h, const char *address, struct zf_err *err)
{
    const char *named = settings_env("HF_ENDPOINT");

    if (hub_env_true("HF_HUB_OFFLINE"))
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "HF_HUB_OFFLINE is set, so the hub is not used");
    h->endpoint = strdup(named ? named : "https://huggingface.co");
    if (!h->endpoint)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t n = strlen(h->endpoint); n && h->endpoint[n - 1] == '/';)
        h->endpoint[--n] = '\0';
    return (url_check(h->endpoint, err) || zf_err_in(err, "HF_ENDPOINT")) &&
           hub_parse(h, address, err) && hub_login(h, err) && hub_pin(h, err) && hub_rename(h, err);
}

struct place *place_open_hub(const struct place_new *n, struct zf_err *err)
{
    struct hub *h = place_make(sizeof *h, &hub_ops, n, err);

    if (!h)
        return NULL;
    h->lim = n->lim;
    atomic_init(&h->place.lists_all, true);
    h->place.lists_dots = true;
    if (!hub_begin(h, n->address, err)) {
        hub_fini(&h->place);
        return NULL;
    }
    return &h->place;
}
