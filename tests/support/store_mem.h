/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_STORE_MEM_H
#define SUPPORT_STORE_MEM_H

#include <zf/source/store.h>

/* An empty store in memory, and a file in it (copies p). */
struct zf_store *store_mem_new(const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
bool store_mem_add(struct zf_store *st, const char *path, const void *p, uint64_t n,
                   struct zf_err *err) ZF_CHECKED;

#endif
