/* SPDX-License-Identifier: Apache-2.0 */
/* Clean-up at the end of a scope (GCC and Clang): `zf_auto(source) struct zf_source *s = NULL;`
 * calls zf_auto_source(&s) however the scope is left.  Each header defines the zf_auto_* of its own types. */
#ifndef ZF_BASE_AUTO_H
#define ZF_BASE_AUTO_H

#include <stdlib.h>

#define zf_auto(type) __attribute__((cleanup(zf_auto_##type)))

/* Returns the pointer in `p` and sets p to NULL, so that the object outlives the scope: `return zf_give(s);` */
#define zf_give(p)                                                                                 \
    __extension__({                                                                                \
        __typeof__(p) zf_given = (p);                                                              \
        (p) = NULL;                                                                                \
        zf_given;                                                                                  \
    })

/* For plain malloc'ed memory of any type: `zf_auto(mem) char *p = NULL;` */
static inline void zf_auto_mem(void *p)
{
    free(*(void **)p);
}

#endif
