/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <zf/base/utf8.h>

/* ---- the terminal ------------------------------------------------------------------------------ */

/* Decides by LC_ALL, LC_CTYPE or LANG.  The process itself stays in the C locale, for reading and writing numbers. */
static bool page_is_utf8(void)
{
    static enum { UNKNOWN, OTHER, UTF8 } found;

    if (found == UNKNOWN) {
        locale_t there = newlocale(LC_CTYPE_MASK, "", (locale_t)0);

        found = OTHER;
        if (there != (locale_t)0) {
            found = strcmp(nl_langinfo_l(CODESET, there), "UTF-8") == 0 ? UTF8 : OTHER;
            freelocale(there);
        }
    }
    return found == UTF8;
}

static size_t page_columns(FILE *to)
{
    struct winsize size;
    const char *set = getenv("COLUMNS");
    const long columns = set ? strtol(set, NULL, 10) : 0;

    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return columns > 0 && columns < 100000 ? (size_t)columns : 80;
}

/* Respects NO_COLOR, if set and not empty (no-color.org). */
static bool page_wants_colour(bool terminal, uint64_t colour)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return colour == COLOR_ALWAYS || (colour == COLOR_AUTO && terminal && !(no && *no) && term &&
                                      *term && strcmp(term, "dumb") != 0);
}

struct page page_of(FILE *to, uint64_t colour)
{
    const bool terminal = isatty(fileno(to)) == 1;

    return (struct page){.to = to,
                         .width = terminal ? page_columns(to) : SIZE_MAX,
                         .terminal = terminal,
                         .utf8 = page_is_utf8(),
                         .colour = page_wants_colour(terminal, colour)};
}

const char *page_look(const struct page *p, enum page_look look)
{
    static const char *const begin[] = {[PAGE_PLAIN] = "",
                                        [PAGE_LABEL] = "\033[1m",
                                        [PAGE_GOOD] = "\033[32m",
                                        [PAGE_BAD] = "\033[31m",
                                        [PAGE_DIR] = "\033[1;34m"};

    return p->colour ? begin[look] : "";
}

const char *page_look_end(const struct page *p)
{
    return p->colour ? "\033[0m" : "";
}

/* ---- characters -------------------------------------------------------------------------------- */

/* Non-ASCII characters in zerofs's own messages, and their replacements. */
static const struct {
    const char *utf8, *ascii;
} page_own[] = {{"…", "..."}, {"×", "x"}, {"–", "-"}, {"≥", ">="}, {"≤", "<="}};

/* Would it begin a line?  No name from a checkpoint may do that, in a pipe either. */
static bool page_breaks(char c)
{
    return c == '\n' || c == '\r';
}

/* The replacement for the first character of p[n]; *len_out: its length.  NULL: it is printed as it is. */
static const char *page_instead(const struct page *page, const char *p, size_t n, size_t *len_out)
{
    const size_t len = zf_utf8_len(p, n);

    *len_out = len ? len : 1;
    for (size_t i = 0; !page->utf8 && i < sizeof page_own / sizeof page_own[0]; i++)
        if (len && strncmp(p, page_own[i].utf8, len) == 0)
            return page_own[i].ascii;
    const bool shown = len == 1 || (len > 1 && page->utf8);
    return page_breaks(*p) || (page->terminal && (!shown || zf_utf8_obeyed(p, len))) ? "?" : NULL;
}

void page_text(const struct page *p, const char *text, size_t n)
{
    for (size_t at = 0, len; at < n; at += len) {
        const char *instead = page_instead(p, text + at, n - at, &len);

        if (instead)
            (void)fputs(instead, p->to);
        else
            (void)fwrite(text + at, 1, len, p->to);
    }
}

/* The width of text[n] in columns; *fit_out: the length of its longest beginning that fits into `room` columns. */
static size_t page_measure(const struct page *p, const char *text, size_t n, size_t room,
                           size_t *fit_out)
{
    size_t columns = 0;

    *fit_out = 0;
    for (size_t at = 0, len; at < n; at += len) {
        const char *instead = page_instead(p, text + at, n - at, &len);

        columns += instead ? strlen(instead) : 1;
        *fit_out = columns <= room ? at + len : *fit_out;
    }
    return columns;
}

/* ---- lines ------------------------------------------------------------------------------------- */

static void page_indent(const struct page *p, const char *label)
{
    const size_t n = strlen(label);

    (void)fprintf(p->to, "%s%s%s%*s", *label ? page_look(p, PAGE_LABEL) : "", label,
                  *label ? page_look_end(p) : "",
                  n < PAGE_LABEL_WIDTH ? (int)(PAGE_LABEL_WIDTH - n) : 1, "");
}

/* Prints a text and a newline, wrapped, starting at column `indent` of each line.  whole: words that are longer
 * than a line are not cut. */
static void page_words(const struct page *p, size_t indent, const char *text, bool whole)
{
    const size_t room = p->width > indent + 20 ? p->width - indent : 20;
    const char *mark = p->utf8 ? "…" : "...";
    size_t used = 0, fit;

    while (*text) {
        const size_t n = strcspn(text, " "), blanks = strspn(text + n, " ");
        const size_t columns = page_measure(p, text, n, room, &fit);

        if (used && used + 1 + columns > room) {
            (void)fprintf(p->to, "\n%*s", (int)indent, "");
            used = 0;
        }
        if (used)
            (void)fputc(' ', p->to);
        if (columns > room && !whole) {
            (void)page_measure(p, text, n, room - (p->utf8 ? 1 : 3), &fit);
            page_text(p, text, fit);
            (void)fputs(mark, p->to);
        } else {
            page_text(p, text, n);
        }
        used += (used ? 1 : 0) + (columns < room ? columns : room);
        text += n + blanks;
    }
    (void)fputc('\n', p->to);
}

void page_line(const struct page *p, const char *label, const char *text)
{
    page_indent(p, label);
    page_words(p, PAGE_LABEL_WIDTH, text, false);
}

/* Prints a text into a pipe, as it is but for line breaks. */
static void page_pipe(const struct page *p, const char *text)
{
    for (; *text; text++)
        (void)fputc(page_breaks(*text) ? '?' : *text, p->to);
}

void page_hang(const struct page *p, size_t indent, const char *text)
{
    if (!p->terminal) {
        page_pipe(p, text);
        (void)fputc('\n', p->to);
        return;
    }
    if (p->width < indent + 20) { /* a narrow terminal */
        (void)fprintf(p->to, "\n%*s", PAGE_BELOW, "");
        indent = PAGE_BELOW;
    }
    page_words(p, indent, text, true);
}

size_t page_last(const struct page *p, size_t used, size_t indent, const char *text)
{
    size_t ignored;

    if (!p->terminal) {
        (void)fprintf(p->to, "%*s", (int)indent, "");
        page_pipe(p, text);
        return used;
    }
    const size_t n = indent + page_measure(p, text, strlen(text), SIZE_MAX, &ignored);
    if (used + n > p->width && used > PAGE_BELOW) {
        used = PAGE_BELOW;
        (void)fprintf(p->to, "\n%*s", PAGE_BELOW, "");
    }
    (void)fprintf(p->to, "%*s", (int)indent, "");
    page_text(p, text, strlen(text));
    return used + n;
}
