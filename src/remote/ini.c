/* SPDX-License-Identifier: Apache-2.0 */
/* The INI files of AWS' tools, ~/.aws/config and ~/.aws/credentials, read as botocore reads them: by the rules of Python's
 * RawConfigParser.  Error messages give line numbers and never quote a line, which may hold a secret.
 *
 * Source: Python 3.11's configparser.py, RawConfigParser._read, and botocore/configloader.py (1.43). */
#include "aws.h"

#include <ctype.h>
#include <string.h>

#include "settings.h"

struct ini_work {
    struct ini *ini;
    bool in_section, in_option;
    size_t indent, line;
    struct zf_out value; /* value of the option that is being read */
};

static inline void zf_auto_ini_work(struct ini_work *w)
{
    zf_auto_secret_out(&w->value);
}

/* ASCII characters that Python's str.strip() removes. */
static bool ini_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static void ini_strip(const char **p, size_t *n)
{
    while (*n && ini_space(**p))
        (*p)++, (*n)--;
    while (*n && ini_space((*p)[*n - 1]))
        (*n)--;
}

void ini_fini(struct ini *ini)
{
    for (size_t i = 0; i < ini->section.n; i++)
        free(ini->section.at[i]);
    for (size_t i = 0; i < ini->option.n; i++) {
        free(ini->option.at[i].name);
        secret_free(ini->option.at[i].value);
    }
    zf_vec_fini(&ini->section);
    zf_vec_fini(&ini->option);
}

/* Ends the value of an option; empty lines at its end are dropped. */
static bool ini_end_option(struct ini_work *w, struct zf_err *err)
{
    if (!w->in_option)
        return true;
    w->in_option = false;
    size_t n = w->value.n;
    while (n && ini_space(w->value.p[n - 1]))
        n--;
    zf_out_cut(&w->value, n);
    char *value = strdup(zf_out_text(&w->value));
    w->ini->option.at[w->ini->option.n - 1].value = value;
    return zf_out_ok(&w->value, err) && (value || zf_fail_sys(err, "read settings"));
}

static bool ini_add_section(struct ini_work *w, const char *p, size_t n, uint64_t at,
                            struct zf_err *err)
{
    char *name = strndup(p, n);
    char **place = name ? zf_vec_push(&w->ini->section, err) : NULL;

    if (!place) {
        free(name);
        return name ? false : zf_fail_sys(err, "read settings");
    }
    *place = name;
    if (ini_section(w->ini, name) != w->ini->section.n - 1) {
        return zf_fail(err, ZF_E_FORMAT, at, "line %zu repeats the section of an earlier line",
                       w->line);
    }
    w->in_section = true;
    return true;
}

static bool ini_add_option(struct ini_work *w, const char *p, size_t n, uint64_t at,
                           struct zf_err *err)
{
    size_t sep = 0, section = w->ini->section.n - 1;

    while (sep < n && p[sep] != '=' && p[sep] != ':')
        sep++;
    const char *name = p, *value = p + sep + 1;
    size_t n_name = sep, n_value = sep < n ? n - sep - 1 : 0;
    ini_strip(&name, &n_name);
    ini_strip(&value, &n_value);
    if (sep == n || !n_name) {
        return zf_fail(err, ZF_E_FORMAT, at, "line %zu is neither [section] nor name = value",
                       w->line);
    }
    struct ini_option *o = zf_vec_push(&w->ini->option, err);
    if (!o)
        return false;
    o->section = section;
    o->name = strndup(name, n_name);
    if (!o->name)
        return zf_fail_sys(err, "read settings");
    for (char *c = o->name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i + 1 < w->ini->option.n; i++) {
        const struct ini_option *old = &w->ini->option.at[i];
        if (old->section == section && strcmp(old->name, o->name) == 0) {
            return zf_fail(err, ZF_E_FORMAT, at,
                           "line %zu gives a name of its section a second value", w->line);
        }
    }
    zf_out_cut(&w->value, 0);
    zf_out_add(&w->value, value, n_value);
    w->in_option = true;
    return true;
}

/* The length of the header in "[header]", up to the last bracket of the line; 0: not a section. */
static size_t ini_header(const char *p, size_t n)
{
    const char *end = n && *p == '[' ? memrchr(p, ']', n) : NULL;

    return end && end > p + 1 ? (size_t)(end - p - 1) : 0;
}

static bool ini_line(struct ini_work *w, const char *p, size_t n, uint64_t at, struct zf_err *err)
{
    const char *text = p;
    size_t n_text = n;

    w->line++;
    ini_strip(&text, &n_text);
    if (n_text && (*text == '#' || *text == ';'))
        return true;
    size_t indent = (size_t)(text - p);
    if (!n_text || (w->in_section && w->in_option && indent > w->indent)) {
        if (w->in_option) {
            zf_out_str(&w->value, "\n");
            zf_out_add(&w->value, text, n_text);
        }
        return true;
    }
    if (!ini_end_option(w, err))
        return false;
    if (w->ini->section.n >= INI_LINES || w->ini->option.n >= INI_LINES) {
        return zf_fail(err, ZF_E_LIMIT, at, "there are more than %u sections or settings",
                       INI_LINES);
    }
    w->indent = indent;
    size_t header = ini_header(text, n_text);
    if (header)
        return ini_add_section(w, text + 1, header, at, err);
    if (!w->in_section)
        return zf_fail(err, ZF_E_FORMAT, at, "line %zu comes before the first [section]", w->line);
    return ini_add_option(w, text, n_text, at, err);
}

bool ini_parse(struct ini *out, const char *p, size_t n, struct zf_err *err)
{
    zf_auto(ini_work) struct ini_work w = {.ini = out};
    size_t at = 0;

    if (n > INI_BYTES) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "there are %zu bytes of settings, more than %u", n, INI_BYTES);
    }
    if (memchr(p, '\0', n))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is a zero byte, so this is not text");
    while (at < n) {
        size_t end = at;
        while (end < n && p[end] != '\n' && p[end] != '\r')
            end++;
        if (!ini_line(&w, p + at, end - at, at, err))
            return false;
        at = end + 1 + (end + 1 < n && p[end] == '\r' && p[end + 1] == '\n');
    }
    return ini_end_option(&w, err);
}

size_t ini_section(const struct ini *ini, const char *name)
{
    for (size_t i = 0; i < ini->section.n; i++)
        if (strcmp(ini->section.at[i], name) == 0)
            return i;
    return INI_NONE;
}

/* Reads the next word of *p by the shell's rules.  False: no more words, or an unclosed quote. */
static bool ini_word(const char **p, struct zf_out *word)
{
    const char *s = *p;
    char quote = 0;

    zf_out_cut(word, 0);
    while (ini_space(*s))
        s++;
    if (!*s)
        return false;
    for (; *s && (quote || !ini_space(*s)); s++)
        if (quote ? *s == quote : *s == '"' || *s == '\'')
            quote = quote ? 0 : *s;
        else if (*s == '\\' && quote != '\'' && s[1] && (!quote || s[1] == '"' || s[1] == '\\'))
            zf_out_add(word, ++s, 1);
        else
            zf_out_add(word, s, 1);
    *p = s;
    return !quote;
}

size_t ini_section_of(const struct ini *ini, const char *kind, const char *name)
{
    zf_auto(out) struct zf_out word = {0};

    for (size_t i = ini->section.n; i-- > 0;) {
        const char *p = ini->section.at[i];
        if (strncmp(p, kind, strlen(kind)) != 0 || !ini_word(&p, &word) || !ini_word(&p, &word))
            continue;
        bool same = !word.bad && strcmp(zf_out_text(&word), name) == 0;
        if (same && !p[strspn(p, " \t")])
            return i;
    }
    return INI_NONE;
}

const char *ini_get(const struct ini *ini, size_t section, const char *option)
{
    size_t all = ini_section(ini, "DEFAULT");
    const char *found = NULL;

    for (size_t i = 0; section != INI_NONE && i < ini->option.n; i++) {
        const struct ini_option *o = &ini->option.at[i];
        if (strcmp(o->name, option) == 0 &&
            (o->section == section || (o->section == all && !found)))
            found = o->value;
    }
    return found;
}

char *ini_nested(const char *value, const char *name)
{
    while (value && *value == '\n') {
        const char *line = ++value, *end = strchrnul(line, '\n');
        const char *eq = memchr(line, '=', (size_t)(end - line));
        size_t n = eq ? (size_t)(eq - line) : 0, n_text = eq ? (size_t)(end - eq - 1) : 0;
        const char *text = eq ? eq + 1 : end;
        ini_strip(&line, &n);
        ini_strip(&text, &n_text);
        if (n && n == strlen(name) && memcmp(line, name, n) == 0)
            return strndup(text, n_text);
        value = end;
    }
    return NULL;
}
