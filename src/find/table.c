/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <string.h>

#define LEVEL()
#define FORMAT(name) extern const struct zf_format zf_format_##name;
#include "table.def"
#undef LEVEL
#undef FORMAT

const struct zf_format *const table_row[TABLE_ROWS] = {
#define LEVEL() NULL,
#define FORMAT(name) &zf_format_##name,
#include "table.def"
#undef LEVEL
#undef FORMAT
};

const char *zf_find_format(size_t n)
{
    for (size_t i = 0; i < TABLE_ROWS; i++)
        if (table_row[i] && n-- == 0)
            return table_row[i]->name;
    return NULL;
}

const struct zf_source_kind *zf_find_kind(size_t n)
{
    for (size_t i = 0; i < TABLE_ROWS; i++)
        if (table_row[i] && table_row[i]->kind && n-- == 0)
            return table_row[i]->kind;
    return NULL;
}

unsigned table_level(const struct zf_format *f)
{
    unsigned level = 0;

    for (size_t i = 0; i < TABLE_ROWS; i++) {
        level += table_row[i] == NULL;
        if (table_row[i] == f)
            return level;
    }
    return 0;
}

const struct zf_format *table_find(const char *name)
{
    for (size_t i = 0; i < TABLE_ROWS; i++)
        if (table_row[i] && strcmp(table_row[i]->name, name) == 0)
            return table_row[i];
    return NULL;
}
