/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#define LEVEL()
#define FORMAT(name) extern const struct zf_format zf_format_##name;
#include "table.def"
#undef LEVEL
#undef FORMAT

/* A NULL begins a new level. */
static const struct zf_format *const table[] = {
#define LEVEL() NULL,
#define FORMAT(name) &zf_format_##name,
#include "table.def"
#undef LEVEL
#undef FORMAT
};

const struct zf_format *zf_format_row(size_t i)
{
    unsigned level;

    return table_row(i, &level);
}

const struct zf_format *table_row(size_t i, unsigned *level_out)
{
    size_t seen = 0;

    *level_out = 0;
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        if (!table[k]) {
            ++*level_out;
        } else if (seen++ == i) {
            return table[k];
        }
    }
    return NULL;
}

const struct zf_format *table_find(const char *name)
{
    const struct zf_format *f;

    for (size_t i = 0; (f = zf_format_row(i)); i++) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}
