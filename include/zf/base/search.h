/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search. */
#ifndef ZF_BASE_SEARCH_H
#define ZF_BASE_SEARCH_H

#include <stddef.h>

/* Sets the size_t i to the first of 0 … n - 1 for which `is`, an expression of i, is true, or to n if there is none.
 * If it is true for one i, it must be true for all greater ones. */
#define ZF_SEARCH(i, n, is)                                                                        \
    for (size_t low_ = 0, high_ = (n); (i) = low_ + (high_ - low_) / 2, low_ < high_;)             \
        if (is)                                                                                    \
            high_ = (i);                                                                           \
        else                                                                                       \
            low_ = (i) + 1

#endif
