/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/source/begun.h>

#include <stdbool.h>

static struct {
    atomic_uint_fast64_t n, of;
} begun;

void zf_begun_count(atomic_bool *once)
{
    if (!atomic_load_explicit(once, memory_order_relaxed) &&
        !atomic_exchange_explicit(once, true, memory_order_relaxed))
        (void)atomic_fetch_add_explicit(&begun.n, 1, memory_order_relaxed);
}

void zf_begun_expect(uint64_t n)
{
    uint_fast64_t was = atomic_load_explicit(&begun.of, memory_order_relaxed);
    const uint_fast64_t of = atomic_load_explicit(&begun.n, memory_order_relaxed) + n;

    while (was < of && !atomic_compare_exchange_weak_explicit(
                           &begun.of, &was, of, memory_order_relaxed, memory_order_relaxed)) {
    }
}

struct zf_begun zf_begun(void)
{
    return (struct zf_begun){
        .n = atomic_load_explicit(&begun.n, memory_order_relaxed),
        .of = atomic_load_explicit(&begun.of, memory_order_relaxed),
    };
}
