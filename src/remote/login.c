/* SPDX-License-Identifier: Apache-2.0 */
#include "login.h"

#include <nettle/base64.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netrc.h"
#include "settings.h"
#include "url.h"

enum { LOGIN_FILE = 1 << 20 }; /* bytes of a netrc file */

struct login {
    struct auth auth;
    char *value; /* of the header Authorization */
};

static bool login_sign(struct auth *a, const struct auth_ask *ask, struct headers *add,
                       uint64_t *generation, struct zf_err *err)
{
    (void)ask;
    (void)generation;
    return headers_add(add, "Authorization", ((struct login *)a)->value, err);
}

static void login_fini(struct auth *a)
{
    struct login *l = (struct login *)a;

    secret_free(l->value);
    free(l);
}

static const struct auth_ops login_ops = {.sign = login_sign, .fini = login_fini};

/* "scheme word", whose word must be of bytes that a header can carry. */
static struct auth *login_of(const char *scheme, const char *word, const char *from,
                             struct zf_err *err)
{
    struct login *l = calloc(1, sizeof *l);

    if (*word && !settings_is_word(word)) {
        free(l);
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s holds a byte that no header can carry",
                      from);
        return NULL;
    }
    if (!l || asprintf(&l->value, "%s %s", scheme, word) < 0) {
        free(l);
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    l->auth.ops = &login_ops;
    return &l->auth;
}

struct auth *login_bearer(const char *token, struct zf_err *err)
{
    return login_of("Bearer", token, "the token", err);
}

/* user, and behind a colon the password.  Source: RFC 7617. */
static struct auth *login_basic(const char *pair, size_t n, struct zf_err *err)
{
    size_t room = BASE64_ENCODE_RAW_LENGTH(n);
    zf_auto(secret) char *word = calloc(1, room + 1);

    if (!word) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    base64_encode_raw(word, n, (const uint8_t *)pair);
    return login_of("Basic", word, "the password", err);
}

/* ---- netrc ----------------------------------------------------------------------------------- */

/* $NETRC or ~/.netrc; malloc'ed, NULL: there is no place for one. */
static char *login_netrc_path(void)
{
    const char *named = settings_env("NETRC"), *home = settings_env("HOME");
    const struct passwd *pw = home ? NULL : getpwuid(getuid());
    char *path = NULL;

    if (named) {
        return strdup(named);
    }
    home = home ? home : pw ? pw->pw_dir : NULL;
    return home && asprintf(&path, "%s/.netrc", home) >= 0 ? path : NULL;
}

bool login_read(const char *path, size_t most, struct zf_out *out, struct zf_err *err)
{
    if (settings_file(path, most, out, err)) {
        return true;
    }
    zf_auto_secret_out(out);
    return err->code == ZF_E_IO;
}

static bool login_netrc(const char *url, struct auth **out, struct zf_err *err)
{
    zf_auto(mem) char *path = login_netrc_path();
    zf_auto(mem) char *host = url_host(url);
    zf_auto(secret_out) struct zf_out text = {.p = NULL};
    zf_auto(netrc) struct netrc_login l = {.user = {.p = NULL}};
    zf_auto(secret_out) struct zf_out pair = {.p = NULL};
    bool found;

    if (path && !login_read(path, LOGIN_FILE, &text, err)) {
        return false;
    }
    if (!text.p || !host) {
        return true;
    }
    char *port = host[0] == '[' ? strchr(host, ']') : strrchr(host, ':');
    if (port) {
        *(port + (host[0] == '[')) = '\0';
    }
    if (!netrc_find(text.p, text.n, host, &l, &found, err)) {
        return zf_err_in(err, "%s", path);
    }
    if (found) {
        zf_out_str(&pair, zf_out_text(&l.user));
        zf_out_str(&pair, ":");
        zf_out_str(&pair, zf_out_text(&l.password));
        *out = zf_out_ok(&pair, err) ? login_basic(pair.p, pair.n, err) : NULL;
    }
    return !found || *out;
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool login_new(const char *url, struct auth **out, struct zf_err *err)
{
    const char *token = settings_env("ZEROFS_HTTP_BEARER"),
               *pair = settings_env("ZEROFS_HTTP_USERPWD");

    *out = NULL;
    if (token) {
        *out = login_of("Bearer", token, "ZEROFS_HTTP_BEARER", err);
        return *out != NULL;
    }
    if (pair) {
        if (!strchr(pair, ':')) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "ZEROFS_HTTP_USERPWD is no user:password, there is no colon in it");
        }
        *out = login_basic(pair, strlen(pair), err);
        return *out != NULL;
    }
    return login_netrc(url, out, err);
}
