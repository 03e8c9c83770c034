/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of table.def. */
#ifndef FIND_TABLE_H
#define FIND_TABLE_H

#include <zf/find.h>

enum {
#define LEVEL() +1
#define FORMAT(name) +1
    TABLE_ROWS = 0
#include "table.def"
#undef LEVEL
#undef FORMAT
};

/* The families, by level; a NULL begins a level. */
extern const struct zf_format *const table_row[TABLE_ROWS];

/* The level of f, from 1 up; 0: f is not in the table. */
unsigned table_level(const struct zf_format *f);

/* The family with this name, or NULL. */
const struct zf_format *table_find(const char *name);

#endif
