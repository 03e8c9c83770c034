/* SPDX-License-Identifier: Apache-2.0 */
#include "hints.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
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

bool hints_init(struct hints *h, const struct zf_checkpoint *c, struct zf_err *err)
{
    zf_auto(out) struct zf_out about = {0};

    *h = (struct hints){.at = {0}};
    for (uint32_t i = 0; i < c->n_notes; i++) {
        const struct zf_note *n = &c->note[i];

        if (n->kind != ZF_NOTE_UNSHOWN && n->kind != ZF_NOTE_UNREADABLE &&
            n->kind != ZF_NOTE_LEFT_OUT && n->kind != ZF_NOTE_SAVES)
            continue;
        struct hint *to = hints_series(n->about, &about, err) ? zf_vec_push(&h->at, err) : NULL;
        if (!to)
            return false;
        *to = (struct hint){.note = n, .about = strdup(zf_out_text(&about))};
        if (!to->about)
            return zf_fail_sys(err, "compare tensors with files");
    }
    return true;
}

void hints_fini(struct hints *h)
{
    for (size_t i = 0; i < h->at.n; i++)
        free(h->at.at[i].about);
    zf_vec_fini(&h->at);
}

/* Does a line of the text start with the name, as a component of a path? */
static bool hint_begins(const char *text, const char *name, size_t n)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, name, n) == 0 && (!line[n] || line[n] == '/' || line[n] == '\n'))
            return true;
    return false;
}

/* Does a line of the text contain the last component of the path? */
static bool hint_ends(const char *text, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const size_t n = strlen(base);

    for (const char *line = text; *line; line += *line == '\n') {
        const char *end = line + strcspn(line, "\n");

        if ((size_t)(end - line) >= n && strncmp(end - n, base, n) == 0 &&
            (end - n == line || end[-(ptrdiff_t)n - 1] == '/'))
            return true;
        line = end;
    }
    return false;
}

void hints_add_file(struct hints *h, const char *series)
{
    for (size_t i = 0; i < h->at.n; i++)
        h->at.at[i].names = h->at.at[i].names || hint_ends(h->at.at[i].about, series);
}

bool hints_name(const struct hints *h, const char *path, const char *series)
{
    const size_t dir = strcspn(series, "/");

    for (size_t i = 0; i < h->at.n; i++) {
        const struct hint *at = &h->at.at[i];

        if (at->note->kind == ZF_NOTE_SAVES
                ? series[dir] && hint_begins(at->about, series, dir)
                : at->note->kind == ZF_NOTE_UNSHOWN && hint_ends(at->note->about, path))
            return true;
    }
    return false;
}

bool hints_may_mean(const struct hints *h, const char *series)
{
    for (size_t i = 0; i < h->at.n; i++) {
        const struct hint *at = &h->at.at[i];

        if (at->note->kind != ZF_NOTE_SAVES && (!at->names || hint_ends(at->about, series)))
            return true;
    }
    return false;
}
