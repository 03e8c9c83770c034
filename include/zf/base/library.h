/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are loaded at their first use: their dependencies would more than double the start-up time of every
 * command. */
#ifndef ZF_BASE_LIBRARY_H
#define ZF_BASE_LIBRARY_H

#include <stddef.h>

/* A function's name, and the address of the pointer that is to lead to it. */
struct zf_library_symbol {
    const char *name;
    void *at;
};

struct zf_library {
    const char *soname;
    char why[240]; /* the reason why it could not be loaded; "" = it was */
};

/* Loads l->soname and finds its n functions, or says in l->why what was missing.  It stays loaded.  Once: the caller
 * has a pthread_once. */
void zf_library_load(struct zf_library *l, const struct zf_library_symbol *name, size_t n);

#endif
