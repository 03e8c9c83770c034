/* SPDX-License-Identifier: Apache-2.0 */
/* Text output: labels followed by text, wrapped at the terminal's width; colours and characters that the terminal
 * supports. */
#ifndef ZF_CMD_PAGE_H
#define ZF_CMD_PAGE_H

#include <stdio.h>

#include "options.h"

/* An output stream and its capabilities. */
struct page {
    FILE *to;
    size_t width; /* columns; SIZE_MAX if it is not a terminal */
    bool terminal, utf8, colour;
};
/* colour: the enum value of --color=. */
struct page page_of(FILE *to, uint64_t colour);

enum page_look { PAGE_PLAIN, PAGE_LABEL, PAGE_GOOD, PAGE_BAD, PAGE_DIR };
/* The escape sequences that begin and end a style; "" without colour. */
const char *page_look(const struct page *p, enum page_look look);
const char *page_look_end(const struct page *p);

/* Columns reserved for the label. */
#define PAGE_LABEL_WIDTH 11

/* Prints "label      text", with further lines below the text.  A word longer than a line is cut and ends in "…".
 * The text may contain names from the checkpoint. */
void page_line(const struct page *p, const char *label, const char *text);

/* Prints the text and a newline, wrapped as by page_line, after `indent` columns that are already printed; cuts no
 * word. If p is not a terminal, prints the text as it is. */
void page_hang(const struct page *p, size_t indent, const char *text);

/* Prints the last column of a table, indented, after `used` columns: a text or a name from the checkpoint.  If it
 * does not fit the terminal's line, it goes on a separate line below, uncut.  Returns the columns used in that
 * line. */
#define PAGE_BELOW 4
size_t page_last(const struct page *p, size_t used, size_t indent, const char *text);

/* Prints the text without newline; outside UTF-8 locales "…" and "×" as ASCII, and on a terminal '?' for control and
 * unprintable characters. */
void page_text(const struct page *p, const char *text, size_t n);

#endif
