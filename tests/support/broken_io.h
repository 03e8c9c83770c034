/* SPDX-License-Identifier: Apache-2.0 */
/* A file system, and a heap, that fail.  Linked into a test, the calls below stand in front of libc's; what is asked for is
 * written down by kind and path, so that a test can go through all of it. */
#ifndef TESTS_SUPPORT_BROKEN_IO_H
#define TESTS_SUPPORT_BROKEN_IO_H

#include <stdbool.h>
#include <stddef.h>

enum broken_kind {
    BROKEN_OPEN, /* openat2 */
    BROKEN_STAT, /* fstat, fstatat */
    BROKEN_LIST, /* readdir */
    BROKEN_READ, /* pread, preadv */
    BROKEN_HEAP, /* malloc, calloc, realloc */
};
extern const char *const broken_kind_name[];

/* What fails, and with which errno. */
struct broken_plan {
    enum broken_kind kind;
    int why;
    const char *path; /* relative to the store's root: whenever this is asked for */
    /* path == NULL: the at-th call of any kind but the heap (of the heap, if that is `kind`) */
    long at;
};

/* Can the heap fail?  A sanitizer brings one of its own. */
bool broken_has_heap(void);
/* From here on calls are counted and written down; plan: NULL = none fails. */
void broken_begin(const struct broken_plan *plan);
/* No more of it.  Returns how many calls failed. */
long broken_end(void);
/* How many there were since broken_begin: of files, and of the heap. */
long broken_calls(void);
long broken_heap_calls(void);

/* The distinct questions since broken_forget; valid until then. */
struct broken_point {
    enum broken_kind kind;
    char path[256];
};
size_t broken_points(const struct broken_point **out);
void broken_forget(void);

/* Was the at-th call of the heap, in the last run without a plan, the first of this process from its place (three calls up:
 * behind an arena, who asks the arena)? */
bool broken_heap_is_new(long at);

#endif
