/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include "source/cache.h"

static void put(struct zf_cache *c, uint64_t owner, uint64_t k, size_t n)
{
    struct zf_err err;
    zf_auto(block) struct block *b = block_new(n, &err);

    assert_ok(b, &err);
    memset(b->data, (int)(owner * 16 + k), n);
    cache_put(c, owner, k, b);
}

static bool has(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    zf_auto(block) struct block *b = cache_get(c, owner, k);

    if (b)
        assert_int_equal(b->data[0], owner * 16 + k);
    return b != NULL;
}

static void the_longest_unused_goes_first(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err);

    (void)state;
    put(c, 1, 0, 100);
    put(c, 1, 1, 100);
    put(c, 2, 0, 100);
    assert_true(has(c, 1, 0));
    put(c, 2, 1, 100);
    assert_false(has(c, 1, 1));
    assert_true(has(c, 1, 0) && has(c, 2, 0) && has(c, 2, 1));
    put(c, 1, 0, 100); /* once more: kept once */
    assert_true(has(c, 2, 0) && has(c, 2, 1));
    put(c, 3, 0, 301);
    assert_false(has(c, 3, 0));
    assert_true(has(c, 1, 0));
    zf_cache_unref(&c);
}

static void one_giant_is_kept_besides(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err);

    (void)state;
    put(c, 1, 0, 200);
    for (uint64_t k = 0; k < 2; k++) {
        zf_auto(block) struct block *b = block_new(301, &err);

        memset(b->data, (int)(3 * 16 + k), b->n);
        cache_put_any(c, 3, k, b);
        assert_true(has(c, 3, k) && has(c, 1, 0));
    }
    assert_false(has(c, 3, 0));
    cache_drop(c, 3);
    assert_false(has(c, 3, 1));
    assert_true(has(c, 1, 0));
    zf_auto(block) struct block *small = block_new(300, &err);
    memset(small->data, 3 * 16, small->n);
    cache_put_any(c, 3, 0, small); /* as any other */
    assert_false(has(c, 1, 0));
    assert_true(has(c, 3, 0));
    zf_cache_unref(&c);
}

static void lives_as_long_as_somebody_has_it(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err), *other = zf_cache_ref(c), *none = NULL;

    (void)state;
    put(c, 1, 0, 100);
    zf_cache_unref(&c);
    assert_null(c);
    assert_true(has(other, 1, 0));
    put(other, 1, 1, 100);
    assert_true(has(other, 1, 0) && has(other, 1, 1));
    zf_cache_unref(&other);
    zf_cache_unref(&none);
}

static void owners_are_dropped_alone(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(1000, &err);
    uint64_t a = cache_owner(c), b = cache_owner(c);

    (void)state;
    assert_int_not_equal(a, b);
    put(c, a, 0, 10);
    put(c, b, 0, 10);
    zf_auto(block) struct block *held = cache_get(c, a, 0);
    cache_drop(c, a);
    assert_false(has(c, a, 0));
    assert_true(has(c, b, 0));
    assert_int_equal(held->n, 10); /* whoever reads it may finish */
    zf_cache_unref(&c);
}

/* Only the longest unused one, of which at most a half would lie idle, that nobody reads and that would have to go. */
static void memory_is_used_again(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err);

    (void)state;
    put(c, 1, 0, 150);
    zf_auto(block) struct block *beside = cache_block(c, 150, &err);
    assert_true(beside && has(c, 1, 0)); /* there was room */
    put(c, 1, 1, 150);
    zf_auto(block) struct block *other = cache_block(c, 74, &err);
    assert_true(other && has(c, 1, 0) && has(c, 1, 1));
    zf_auto(block) struct block *read = cache_get(c, 1, 0);
    assert_true(has(c, 1, 1)); /* now 0 is the longest unused one */
    zf_auto(block) struct block *held = cache_block(c, 150, &err);
    assert_true(held && held != read && has(c, 1, 1) && has(c, 1, 0));
    assert_int_equal(read->data[149], 16);

    assert_true(has(c, 1, 0)); /* now 1 is */
    struct block *old = cache_get(c, 1, 1), *was = old;
    block_unref(&old);
    assert_true(has(c, 1, 0));
    zf_auto(block) struct block *again = cache_block(c, 140, &err);
    assert_ptr_equal(again, was);
    assert_int_equal(again->n, 140);
    assert_false(has(c, 1, 1));
    memset(again->data, 2 * 16, again->n);
    cache_put(c, 2, 0, again);
    assert_true(has(c, 2, 0) && has(c, 1, 0));
    put(c, 3, 0, 10); /* all 150 of them count */
    assert_false(has(c, 1, 0) && has(c, 2, 0));
    zf_cache_unref(&c);
}

static void read_all_of(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    zf_auto(block) struct block *b = cache_get(c, owner, k);

    atomic_store(&b->copied, b->n);
}

/* Whoever goes through blocks needs no second one beside the one being read. */
static void read_blocks_go_first(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err);

    (void)state;
    put(c, 1, 0, 100);
    put(c, 1, 1, 100);
    read_all_of(c, 1, 1);
    struct block *read = cache_get(c, 1, 1), *was = read;
    zf_auto(block) struct block *fresh = cache_block(c, 100, &err); /* somebody reads it still */
    assert_true(fresh && fresh != was && has(c, 1, 1));
    block_unref(&read);
    zf_auto(block) struct block *again = cache_block(c, 100, &err); /* though there is room */
    assert_ptr_equal(again, was);
    assert_true(has(c, 1, 0) && !has(c, 1, 1));
    assert_int_equal(atomic_load(&again->copied), 0);

    memset(again->data, 2 * 16, again->n);
    cache_put(c, 2, 0, again);
    put(c, 3, 0, 100);
    read_all_of(c, 3, 0);
    put(c, 3, 1, 100);
    assert_true(has(c, 1, 0) && has(c, 2, 0) && has(c, 3, 1) && !has(c, 3, 0));
    cache_give_back(c, &fresh);
    zf_cache_unref(&c);
}

/* What is being filled counts, what was read does not, nor what nobody has touched for long. */
static void is_crowded_by_those_in_use(void **state)
{
    struct zf_err err;
    struct zf_cache *c = zf_cache_new(300, &err);

    (void)state;
    put(c, 1, 0, 100);
    assert_true(!cache_is_crowded(c, 200) && cache_is_crowded(c, 201));
    struct block *b = cache_block(c, 100, &err);
    assert_true(b && !cache_is_crowded(c, 100) && cache_is_crowded(c, 101));
    cache_put(c, 1, 1, b);
    assert_true(!cache_is_crowded(c, 100) && cache_is_crowded(c, 101));
    block_unref(&b);
    b = cache_block(c, 100, &err);
    cache_give_back(c, &b);
    assert_null(b);
    assert_true(!cache_is_crowded(c, 100) && cache_is_crowded(c, 101));
    read_all_of(c, 1, 1);
    assert_true(!cache_is_crowded(c, 200) && cache_is_crowded(c, 201));
    for (int i = 0; i < 100; i++) {
        b = cache_block(c, 10, &err);
        cache_give_back(c, &b);
    }
    assert_true(!cache_is_crowded(c, 300) && has(c, 1, 0));
    assert_true(cache_is_crowded(c, 201)); /* it was touched just now */
    zf_cache_unref(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_unused_goes_first),
        cmocka_unit_test(one_giant_is_kept_besides),
        cmocka_unit_test(lives_as_long_as_somebody_has_it),
        cmocka_unit_test(owners_are_dropped_alone),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(read_blocks_go_first),
        cmocka_unit_test(is_crowded_by_those_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
