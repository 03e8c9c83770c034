/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of table.def. */
#ifndef FIND_TABLE_H
#define FIND_TABLE_H

#include <string.h>

#include <zf/find.h>

enum {
    TABLE_ROWS = 0
#define LEVEL()
#define FORMAT(name) +1
#include "table.def"
#undef LEVEL
#undef FORMAT
};

/* Row i and its level (1 = looked at first), or NULL past the end. */
const struct zf_format *table_row(size_t i, unsigned *level_out);

/* The row of that name, or NULL. */
const struct zf_format *table_find(const char *name);

#endif
