/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array: `zf_vec(struct line) lines;` declares { struct line *at; size_t n, cap; },
 * and {0} is an empty one; without a name its three members are those of the struct around it.
 * It doubles, so the average cost of adding is constant; adding may move the elements. */
#ifndef ZF_BASE_VEC_H
#define ZF_BASE_VEC_H

#include <stdlib.h>
#include <string.h>

#include <zf/base/err.h>

#define zf_vec(type)                                                                               \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t n, cap;                                                                             \
    }

/* Makes room for `more` elements of `each` bytes after the n in `at`, which has room for *cap.  Returns the array,
 * perhaps moved.  NULL: ZF_E_NOMEM, the array is unchanged. */
void *zf_vec_grow(void *at, size_t n, size_t more, size_t *cap, size_t each,
                  struct zf_err *err) ZF_CHECKED;

/* Makes room for `more` elements after the last one; they are not initialized.  False: ZF_E_NOMEM. */
#define zf_vec_room(v, more, err)                                                                  \
    __extension__({                                                                                \
        __typeof__((v)->at) zf_at =                                                                \
            zf_vec_grow((v)->at, (v)->n, (more), &(v)->cap, sizeof *(v)->at, (err));               \
        (v)->at = zf_at ? zf_at : (v)->at;                                                         \
        zf_at != NULL;                                                                             \
    })

/* Adds an element, all zero, and returns its address, valid until the next one is added.  NULL: ZF_E_NOMEM. */
#define zf_vec_push(v, err)                                                                        \
    (zf_vec_room(v, 1, err) ? (__typeof__((v)->at))memset(&(v)->at[(v)->n++], 0, sizeof *(v)->at)  \
                            : NULL)

/* Frees the array, which is empty then; what the elements own is the caller's. */
#define zf_vec_fini(v) (free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0, (void)0)

#endif
