/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are loaded at their first use: their dependencies would more than double the start-up time of every
 * command. */
#ifndef ZF_BASE_LATE_H
#define ZF_BASE_LATE_H

#include <stddef.h>

/* A function's name, and the address of the pointer that is to lead to it. */
struct zf_late_name {
    const char *name;
    void *at;
};

struct zf_late {
    const char *soname;
    char why[240]; /* the reason why it could not be loaded; "" = it was */
};

/* Loads l->soname and finds its n functions, or says in l->why what was missing.  It stays loaded.  Once: the caller
 * has a pthread_once. */
void zf_late_load(struct zf_late *l, const struct zf_late_name *name, size_t n);

#endif
