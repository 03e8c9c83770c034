/* SPDX-License-Identifier: Apache-2.0 */
#include "hints.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
/* Of names, but for a dot, which ends sentences too. */
#define NAME_CHARS DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

bool hints_series(const char *text, struct zf_out *out, struct zf_err *err)
{
    zf_out_cut(out, 0);
    while (*text) {
        const size_t digits = strspn(text, DIGITS), n = digits ? digits : strcspn(text, DIGITS);

        zf_out_add(out, digits ? "0" : text, digits ? 1 : n);
        text += n;
    }
    return zf_out_ok(out, err);
}

/* Is it about saves in directories below that of the files that are shown? */
static bool hint_is_of_saves(const char *note)
{
    return strstr(note, " next to them is a save") || strstr(note, " next to them are saves");
}

/* Bytes of the note before it says that something is not shown; 0: it does not.  That notes were dropped says nothing of its
 * own: those of the same kind that were kept do. */
static size_t hint_subject(const char *note)
{
    static const char *const says[] = {"not shown", "not read", "left out", "ignored"};
    size_t n = 0;

    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        const char *at = strstr(note, says[i]);

        n = at && (n == 0 || (size_t)(at - note) < n) ? (size_t)(at - note) : n;
    }
    return strstr(note, "more notes of the same kinds") ? 0 : n;
}

bool hints_init(struct hints *h, const struct zf_checkpoint *c, struct zf_err *err)
{
    zf_auto(out) struct zf_out series = {0};

    *h = (struct hints){.at = {0}};
    for (uint32_t i = 0; i < c->n_notes; i++) {
        const bool saves = hint_is_of_saves(c->note[i]);
        const size_t n = saves ? strlen(c->note[i]) : hint_subject(c->note[i]);
        zf_auto(mem) char *subject = strndup(c->note[i], n);

        if (!subject)
            return zf_fail_sys(err, "compare tensors with files");
        if (n == 0)
            continue;
        struct hint *to = hints_series(subject, &series, err) ? zf_vec_push(&h->at, err) : NULL;
        if (!to)
            return false;
        *to = (struct hint){
            .note = c->note[i], .subject = strdup(zf_out_text(&series)), .saves = saves};
        if (!to->subject)
            return zf_fail_sys(err, "compare tensors with files");
    }
    return true;
}

void hints_fini(struct hints *h)
{
    for (size_t i = 0; i < h->at.n; i++)
        free(h->at.at[i].subject);
    zf_vec_fini(&h->at);
}

/* Is the word in the text, and no part of a longer name? */
static bool hint_has(const char *text, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = text; n > 0 && (at = strstr(at, word)); at++)
        if ((at == text || !strchr(NAME_CHARS, at[-1])) && (!at[n] || !strchr(NAME_CHARS, at[n])))
            return true;
    return false;
}

static const char *hint_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void hints_add_file(struct hints *h, const char *series)
{
    for (size_t i = 0; i < h->at.n; i++)
        h->at.at[i].names = h->at.at[i].names || hint_has(h->at.at[i].subject, hint_base(series));
}

/* Is the directory that the path begins with one of the saves of the hint? */
static bool hint_has_save(const struct hint *h, const char *series)
{
    const char *slash = strchr(series, '/');
    zf_auto(mem) char *dir = slash ? strndup(series, (size_t)(slash - series)) : NULL;

    return dir && hint_has(h->subject, dir);
}

bool hints_name(const struct hints *h, const char *path, const char *series)
{
    const char *base = hint_base(path);

    for (size_t i = 0; i < h->at.n; i++) {
        const struct hint *at = &h->at.at[i];

        if (at->saves ? hint_has_save(at, series)
                      : strstr(at->note, base) && !strstr(at->note, "left out"))
            return true;
    }
    return false;
}

bool hints_may_mean(const struct hints *h, const char *series)
{
    for (size_t i = 0; i < h->at.n; i++)
        if (!h->at.at[i].saves &&
            (!h->at.at[i].names || hint_has(h->at.at[i].subject, hint_base(series))))
            return true;
    return false;
}
