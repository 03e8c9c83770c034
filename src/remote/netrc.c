/* SPDX-License-Identifier: Apache-2.0 */
#include "netrc.h"

#include <ctype.h>
#include <strings.h>

#include "settings.h"

struct netrc {
    const char *p, *end;
    struct zf_out word;
    bool broken; /* a quote is not closed */
};

void netrc_fini(struct netrc_login *l)
{
    zf_auto_out(&l->user);
    zf_auto_secret_out(&l->password);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void netrc_quoted(struct netrc *r)
{
    static const char escape[] = "nrt", means[] = "\n\r\t";

    for (r->p++; r->p < r->end && *r->p != '"'; r->p++) {
        const char *known = NULL;

        if (*r->p == '\\' && r->end - r->p > 1) {
            r->p++;
            known = strchr(escape, *r->p);
            known = *r->p ? known : NULL;
        }
        zf_out_add(&r->word, known ? means + (known - escape) : r->p, 1);
    }
    r->broken = r->p >= r->end;
    r->p += r->p < r->end;
}

/* The next word is in r->word; false: there is none. */
static bool netrc_word(struct netrc *r)
{
    zf_out_cut(&r->word, 0);
    for (;;) {
        while (r->p < r->end && (isspace((unsigned char)*r->p) || !*r->p)) {
            r->p++;
        }
        if (r->p >= r->end || *r->p != '#') {
            break;
        }
        const char *line = memchr(r->p, '\n', (size_t)(r->end - r->p));
        r->p = line ? line : r->end;
    }
    if (r->p >= r->end) {
        return false;
    }
    if (*r->p == '"') {
        netrc_quoted(r);
        return !r->broken;
    }
    const char *from = r->p;
    while (r->p < r->end && !isspace((unsigned char)*r->p) && *r->p) {
        r->p++;
    }
    zf_out_add(&r->word, from, (size_t)(r->p - from));
    return true;
}

static bool netrc_is(const struct netrc *r, const char *word)
{
    return strcasecmp(zf_out_text(&r->word), word) == 0;
}

/* Over a macro, which ends with an empty line. */
static void netrc_skip_macro(struct netrc *r)
{
    const char *empty = memmem(r->p, (size_t)(r->end - r->p), "\n\n", 2);

    r->p = empty ? empty : r->end;
}

/* ---- entries --------------------------------------------------------------------------------- */

enum netrc_state {
    NETRC_OTHER, /* in the entry of another host */
    NETRC_MINE,
    NETRC_DEFAULT
};

static void netrc_copy(struct zf_out *to, const struct zf_out *from)
{
    if (to->p) {
        explicit_bzero(to->p, to->cap);
    }
    zf_out_cut(to, 0);
    zf_out_add(to, zf_out_text(from), from->n);
}

/* Starts the entry that r->word names. */
static bool netrc_enter(struct netrc *r, const char *host, enum netrc_state *state)
{
    if (netrc_is(r, "default")) {
        *state = NETRC_DEFAULT;
        return true;
    }
    if (!netrc_word(r)) {
        return false;
    }
    *state = netrc_is(r, host) ? NETRC_MINE : NETRC_OTHER;
    return true;
}

/* One word of an entry and what belongs to it. */
static bool netrc_field(struct netrc *r, struct netrc_login *to)
{
    struct zf_out *field = netrc_is(r, "login")      ? &to->user
                           : netrc_is(r, "password") ? &to->password
                                                     : NULL;

    if (netrc_is(r, "macdef")) {
        netrc_skip_macro(r);
        return true;
    }
    if (!field && !netrc_is(r, "account")) {
        return true;
    }
    if (!netrc_word(r)) {
        return false;
    }
    if (field) {
        netrc_copy(field, &r->word);
    }
    return true;
}

/* The entries in their order; the first that fits and has a password ends it. */
static void netrc_entries(struct netrc *r, const char *host, struct netrc_login *mine,
                          struct netrc_login *other)
{
    zf_auto(netrc) struct netrc_login nobody = {.user = {.p = NULL}};
    enum netrc_state state = NETRC_OTHER;

    while (netrc_word(r)) {
        bool next = netrc_is(r, "machine") || netrc_is(r, "default");

        if (next && mine->password.n) {
            return;
        }
        if (next) {
            netrc_fini(mine);
            if (!netrc_enter(r, host, &state)) {
                return;
            }
            continue;
        }
        if (!netrc_field(r, state == NETRC_MINE      ? mine
                            : state == NETRC_DEFAULT ? other
                                                     : &nobody)) {
            return;
        }
    }
}

bool netrc_find(const char *text, size_t n, const char *host, struct netrc_login *out,
                bool *found_out, struct zf_err *err)
{
    struct netrc r = {.p = text, .end = text + n};
    zf_auto(netrc) struct netrc_login mine = {.user = {.p = NULL}}, other = {.user = {.p = NULL}};

    *out = (struct netrc_login){.user = {.p = NULL}};
    netrc_entries(&r, host, &mine, &other);
    bool bad =
        r.word.bad || mine.user.bad || mine.password.bad || other.user.bad || other.password.bad;
    zf_auto_secret_out(&r.word);
    if (r.broken) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a quote in the netrc file is not closed");
    }
    if (bad) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    struct netrc_login *found = mine.password.n ? &mine : &other;
    *found_out = found->password.n > 0;
    if (*found_out) {
        *out = *found;
        *found = (struct netrc_login){.user = {.p = NULL}};
    }
    return true;
}
