/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people: labels with sentences behind them, broken between words at the width of the terminal; colour and characters
 * as the terminal takes them. */
#ifndef ZF_CMD_PAGE_H
#define ZF_CMD_PAGE_H

#include <stdio.h>

#include "options.h"

/* A stream and what it takes. */
struct page {
    FILE *to;
    size_t width; /* columns; SIZE_MAX where it is no terminal */
    bool terminal, utf8, colour;
};
/* colour: enum of --color=. */
struct page page_of(FILE *to, uint64_t colour);

enum page_look { PAGE_PLAIN, PAGE_LABEL, PAGE_GOOD, PAGE_BAD, PAGE_DIR };
/* The escape sequence that begins a look, and the one that ends each; "" where there is no colour. */
const char *page_look(const struct page *p, enum page_look look);
const char *page_look_end(const struct page *p);

/* Columns that the label takes. */
#define PAGE_LABEL_WIDTH 11

/* "label      text", further lines below the text.  A word that no line holds is cut and ends in "…".  The text may hold names
 * from the checkpoint. */
void page_line(const struct page *p, const char *label, const char *text);

/* The text and the line's end behind `indent` columns that the line has already, as page_line's, but that no word
 * is cut; no terminal: as it is. */
void page_hang(const struct page *p, size_t indent, const char *text);

/* The last column of a table, behind `used` others and indented: a text or a name from the checkpoint, on a line of its own,
 * below, if the terminal's does not hold it.  Names stay whole.  Gives the columns that a terminal's line has then. */
#define PAGE_BELOW 4
size_t page_last(const struct page *p, size_t used, size_t indent, const char *text);

/* The text without a line's end; outside UTF-8 locales "…" and "×" as ASCII, and on a terminal '?' for whatever it would obey or
 * cannot show. */
void page_text(const struct page *p, const char *text, size_t n);

#endif
