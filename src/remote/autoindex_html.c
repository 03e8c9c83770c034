/* SPDX-License-Identifier: Apache-2.0 */
/* Listings in HTML.  Only what they have in common is read: a link for each name, followed in the same row by a
 * date and a size.
 *
 * A listing is recognised by its title or heading: "Index of …" (nginx 1.22
 * ngx_http_autoindex_html, Apache 2.4 mod_autoindex, lighttpd 1.4 mod_dirlisting) or "Directory
 * listing for …" (Python 3 http.server list_directory); Go's net/http dirList has no title and
 * begins with <pre>.  Any other page with links is not a listing.
 *
 * A size is used only if it is exact, that is, digits without a unit after a date.  nginx writes exact
 * sizes for every file, or with autoindex_exact_size off for small ones; Apache's apr_strfsize for files
 * below 973 bytes.  "1.2K" is rounded, as are all sizes of lighttpd: these count as unknown.
 *
 * A truncated page must not pass for a directory of fewer files: the element with the links (<pre>, <ul>,
 * <table>, <body>) must be closed after the last one. */
#include "listings.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { HTML_TAIL = 160 }; /* bytes of text after a link: padding, date, padding, size */

struct html {
    const char *p, *end;     /* the rest of the page */
    const char *name, *attr; /* name and attributes of the last tag read */
    size_t n_name, n_attr;   /* … */
    const char *text;        /* text before that tag */
    size_t n_text;
    bool broken; /* the page ends inside a tag */
};

/* ---- tags ------------------------------------------------------------------------------------ */

/* The first occurrence of `what` in p … end; NULL: none. */
static const char *html_seek(const char *p, const char *end, const char *what)
{
    return memmem(p, (size_t)(end - p), what, strlen(what));
}

/* The '>' that ends the tag beginning at p; a '>' inside quotes is skipped. */
static const char *html_tag_end(const char *p, const char *end)
{
    char quote = '\0';

    for (; p < end; p++)
        if (quote)
            quote = *p == quote ? '\0' : quote;
        else if (*p == '"' || *p == '\'')
            quote = *p;
        else if (*p == '>')
            return p;
    return NULL;
}

/* Reads the next tag.  The name of an end tag begins with '/'; comments and declarations count as text. */
static bool html_next(struct html *h)
{
    const char *open, *close;

    h->text = h->p;
    for (const char *at = h->p;; at = close + 1) {
        open = memchr(at, '<', (size_t)(h->end - at));
        h->n_text = (size_t)((open ? open : h->end) - h->text);
        if (!open)
            return false;
        bool comment = h->end - open >= 4 && memcmp(open, "<!--", 4) == 0;
        close = comment ? html_seek(open + 4, h->end, "-->") : html_tag_end(open, h->end);
        if (!close) {
            h->broken = true;
            return false;
        }
        if (!comment && open[1] != '!' && open[1] != '?')
            break;
    }
    h->name = open + 1;
    h->n_name = h->name < close && *h->name == '/' ? 1 : 0;
    while (h->name + h->n_name < close && isalnum((unsigned char)h->name[h->n_name]))
        h->n_name++;
    h->attr = h->name + h->n_name;
    h->n_attr = (size_t)(close - h->attr);
    h->p = close + 1;
    return true;
}

static bool html_is(const struct html *h, const char *name)
{
    return h->n_name == strlen(name) && strncasecmp(h->name, name, h->n_name) == 0;
}

/* True if the tag has one of the names, which end with NULL. */
static bool html_is_any(const struct html *h, const char *const *names)
{
    while (*names && !html_is(h, *names))
        names++;
    return *names != NULL;
}

/* The value of the tag's href as written in the page; NULL: it has none. */
static const char *html_href(const struct html *h, size_t *n_out)
{
    const char *p = h->attr, *end = h->attr + h->n_attr;

    while (p < end) {
        const char *name = p;

        while (p < end && !isspace((unsigned char)*p) && *p != '=')
            p++;
        bool is = p - name == 4 && strncasecmp(name, "href", 4) == 0;
        if (p >= end || *p != '=') {
            p += p < end;
            continue;
        }
        p++;
        char quote = p < end && (*p == '"' || *p == '\'') ? *p++ : '\0';
        const char *value = p;
        while (p < end && (quote ? *p != quote : !isspace((unsigned char)*p)))
            p++;
        if (is) {
            *n_out = (size_t)(p - value);
            return value;
        }
        p += p < end;
    }
    return NULL;
}

/* ---- the text after a link -------------------------------------------------------------------- */

struct tail {
    char text[HTML_TAIL];
    size_t n;
};

/* Adds p[n]; &nbsp; becomes a space. */
static void html_tail_add(struct tail *t, const char *p, size_t n)
{
    for (size_t i = 0; i < n && t->n < sizeof t->text - 1; i++) {
        bool nbsp = n - i >= 6 && memcmp(p + i, "&nbsp;", 6) == 0;

        t->text[t->n++] = nbsp || isspace((unsigned char)p[i]) ? ' ' : p[i];
        i += nbsp ? 5 : 0;
    }
    t->text[t->n] = '\0';
}

/* The end of the text that matches the pattern: 9 is a digit, A a letter, all else itself.  NULL: no match. */
static const char *html_fits(const char *p, const char *pattern)
{
    for (; *pattern; p++, pattern++) {
        bool fits = *pattern == '9'   ? isdigit((unsigned char)*p)
                    : *pattern == 'A' ? isalpha((unsigned char)*p)
                                      : *p == *pattern;
        if (!fits)
            return NULL;
    }
    return p;
}

/* Reads the size after "  22-Nov-2026 19:10   ".  False: it is not exact. */
static bool html_size(const struct tail *t, uint64_t *out)
{
    static const char *const date[] = {"99-AAA-9999 99:99", "9999-99-99 99:99",
                                       "9999-AAA-99 99:99"};
    const char *p = t->text + strspn(t->text, " "), *behind = NULL;
    uint64_t v = 0;

    for (size_t i = 0; !behind && i < sizeof date / sizeof date[0]; i++)
        behind = html_fits(p, date[i]);
    if (!behind)
        return false;
    const char *seconds = html_fits(behind, ":99");
    p = seconds ? seconds : behind;
    const char *digits = p + strspn(p, " ");
    size_t n = strspn(digits, "0123456789");
    if (digits == p || n == 0 || n > 19 || (digits[n] != ' ' && digits[n] != '\0'))
        return false;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (uint64_t)(digits[i] - '0');
    *out = v;
    return true;
}

/* ---- the page -------------------------------------------------------------------------------- */

struct page {
    const char *url;
    struct entries *out;
    struct zf_out name; /* name in the last link … */
    struct tail tail;   /* … and the text after that link */
    bool pending, dir, in_link, in_title;
    bool known; /* the page is a listing */
    bool open;  /* the element with the links has not been closed after the last one */
    bool begun; /* a tag was read that Go's pages do not begin with */
};

/* Ends a row: adds its entry to the listing. */
static bool html_row_end(struct page *g, struct zf_err *err)
{
    struct entry e = {.name = zf_out_text(&g->name), .dir = g->dir};

    if (!g->pending)
        return true;
    g->pending = false;
    e.sized = !e.dir && html_size(&g->tail, &e.size);
    return zf_out_ok(&g->name, err) && entries_add(g->out, &e, g->name.n, err);
}

static bool html_link(struct page *g, const struct html *h, struct zf_err *err)
{
    zf_auto(out) struct zf_out ref = {.p = NULL};
    size_t n;

    g->in_link = g->open = true;
    const char *href = html_href(h, &n);
    if (!href)
        return true;
    href_text(&ref, href, n);
    g->pending = href_entry(g->url, zf_out_text(&ref), ref.n, &g->name, &g->dir);
    g->tail.n = 0;
    g->tail.text[0] = '\0';
    return zf_out_ok(&ref, err);
}

static void html_title(struct page *g, const struct html *h)
{
    static const char *const listing[] = {"Index of ", "Directory listing for "};
    const char *p = h->text;
    size_t n = h->n_text;

    while (n && isspace((unsigned char)*p)) {
        p++;
        n--;
    }
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(listing[i]);

        g->known = g->known || (n >= len && strncasecmp(p, listing[i], len) == 0);
    }
}

/* Skips to the end of a <script> or <style> element. */
static void html_skip(struct html *h)
{
    const char *close[] = {html_is(h, "script") ? "/script" : "/style", NULL};

    while (html_next(h) && !html_is_any(h, close)) {
    }
}

static bool html_tag(struct page *g, struct html *h, struct zf_err *err)
{
    static const char *const rows[] = {"tr",   "/tr", "li",     "/li", "hr",
                                       "/pre", "/ul", "/table", NULL};
    static const char *const ends[] = {"/pre", "/ul", "/table", "/body", "/html", NULL};
    static const char *const before[] = {"meta", "html", "head", "body", NULL};

    g->known = g->known || (!g->begun && html_is(h, "pre"));
    g->begun = g->begun || !html_is_any(h, before);
    if (html_is(h, "title") || html_is(h, "h1"))
        g->in_title = true;
    else if (html_is(h, "/title") || html_is(h, "/h1"))
        g->in_title = false;
    else if (html_is(h, "script") || html_is(h, "style"))
        html_skip(h);
    else if (html_is(h, "a"))
        return html_row_end(g, err) && html_link(g, h, err);
    else if (html_is(h, "/a"))
        g->in_link = false;
    else if (g->pending && !g->in_link && (html_is(h, "td") || html_is(h, "/td")))
        html_tail_add(&g->tail, " ", 1);
    if (html_is_any(h, ends))
        g->open = false;
    return !html_is_any(h, rows) || html_row_end(g, err);
}

static bool html_page(struct page *g, struct html *h, struct zf_err *err)
{
    while (html_next(h)) {
        if (g->in_title)
            html_title(g, h);
        if (g->pending && !g->in_link)
            html_tail_add(&g->tail, h->text, h->n_text);
        if (!html_tag(g, h, err))
            return false;
    }
    if (!g->known)
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "this page is not a directory listing");
    if (h->broken || g->open || g->pending)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the listing is truncated");
    return true;
}

bool autoindex_html(const char *body, uint64_t n, const char *url, struct entries *out,
                    struct zf_err *err)
{
    struct html h = {.p = body, .end = body + n};
    struct page g = {.url = url, .out = out, .open = true};

    bool ok = html_page(&g, &h, err);
    zf_auto_out(&g.name);
    return ok;
}
