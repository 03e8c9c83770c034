/* SPDX-License-Identifier: Apache-2.0 */
/* The search for saves further down. */
#ifndef FIND_SEARCH_H
#define FIND_SEARCH_H

#include <zf/find.h>

/* The saves nearest to st: in its directories or, when none of them is one, in theirs, and so on. */
bool search_saves(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                  struct zf_err *err) ZF_CHECKED;

#endif
