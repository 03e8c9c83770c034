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

/* The text without a line's end; outside UTF-8 locales "…" and "×" as ASCII, and on a terminal '?' for whatever it would obey or
 * cannot show. */
void page_text(const struct page *p, const char *text, size_t n);

#endif
