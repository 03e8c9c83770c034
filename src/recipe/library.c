/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in recipes: the files of recipes/, compiled in. */
#include "parse.h"

#include <stddef.h>
#include <string.h>

/* Generated from recipes/ by the Makefile. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const struct library_text texts[] = {
#include "recipes.inc"
    {NULL, NULL}};
#pragma GCC diagnostic pop

const struct library_text *library_at(uint32_t i)
{
    return i < sizeof texts / sizeof texts[0] - 1 ? &texts[i] : NULL;
}

const char *library_find(void *ctx, const char *name)
{
    (void)ctx;
    for (uint32_t i = 0; texts[i].name; i++)
        if (strcmp(texts[i].name, name) == 0)
            return texts[i].text;
    return NULL;
}
