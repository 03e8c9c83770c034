/* SPDX-License-Identifier: Apache-2.0 */
/* Doubly linked lists through members `prev` and `next` of what is in them.  A list is a pointer to
 * its first element, NULL when empty, so that `for (e = list; e; e = e->next)` goes through it.  The
 * first one's `prev` is the last one, which is how the end is found. */
#ifndef ZF_BASE_LIST_H
#define ZF_BASE_LIST_H

#include <stddef.h>

/* Behind the last one. */
#define zf_list_append(list, e)                                                                    \
    do {                                                                                           \
        (e)->next = NULL;                                                                          \
        if (*(list)) {                                                                             \
            (e)->prev = (*(list))->prev;                                                           \
            (e)->prev->next = (e);                                                                 \
            (*(list))->prev = (e);                                                                 \
        } else {                                                                                   \
            *(list) = (e)->prev = (e);                                                             \
        }                                                                                          \
    } while (0)

/* Out of the list that it is in; its own `next` stays, for a loop that is at it. */
#define zf_list_remove(list, e)                                                                    \
    do {                                                                                           \
        if ((e)->next) {                                                                           \
            (e)->next->prev = (e)->prev;                                                           \
        } else {                                                                                   \
            (*(list))->prev = (e)->prev;                                                           \
        }                                                                                          \
        if (*(list) == (e)) {                                                                      \
            *(list) = (e)->next;                                                                   \
        } else {                                                                                   \
            (e)->prev->next = (e)->next;                                                           \
        }                                                                                          \
    } while (0)

#endif
