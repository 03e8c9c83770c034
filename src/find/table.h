/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of table.def. */
#ifndef FIND_TABLE_H
#define FIND_TABLE_H

#include <string.h>

#include <zf/find.h>

/* Row i and its level (1 = looked at first), or NULL past the end. */
const struct zf_format *zf_table_row(size_t i, unsigned *level_out);

/* The row of that name, or NULL. */
const struct zf_format *zf_table_find(const char *name);

#endif
