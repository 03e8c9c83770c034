/* SPDX-License-Identifier: Apache-2.0 */
/* Files made of many tensors: planned once, whoever asks first, and readable from any byte on. */
#include "support/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "made.h"
#include "view/bulk.h"
#include "view/lost.h"

static struct zf_tree *mixed(uint64_t shard_size)
{
    struct zf_build *b = made_build(false);
    uint64_t square[2] = {3, 5};

    made_vector(b, "bf", ZF_DT_BF16, 7);
    made_vector(b, "byte", ZF_DT_U8, 3);
    made_vector(b, "none", ZF_DT_F32, 0);
    made_tensor(b, "", "scalar", ZF_DT_F64, 0, NULL);
    struct zf_draft *d = made_tensor(b, "", "square", ZF_DT_F32, 2, square);
    assert_ok(zf_build_alias(b, d, "tied", 4, &err), &err);
    struct zf_tree *t = made_tree(b, shard_size, NULL);
    assert_ok(t, &err);
    return t;
}

static const char *const files[] = {
    "model.safetensors",
    "pytorch_model.bin",
    "as/f16/model.safetensors",
    "as/f32/pytorch_model.bin",
    "hf/model-00001-of-00003.safetensors",
    "hf/model.safetensors.index.json",
};
#define N_FILES (sizeof files / sizeof files[0])

static void sizes_are_known_before_anything_is_read(void **state)
{
    zf_auto(tree) struct zf_tree *t = mixed(60);
    unsigned char buf[8192];
    size_t n;

    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        struct zf_stat s, after;

        assert_true(zf_tree_walk(t, files[i], &s));
        assert_true(s.size > 0 && s.size < sizeof buf);
        assert_ok(t->ops->read(t, s.ino, buf, sizeof buf, 0, &n, &err), &err);
        assert_int_equal(n, s.size);
        assert_true(t->ops->stat(t, s.ino, &after));
        assert_int_equal(after.size, s.size);
        const struct zf_map *m = zf_tree_map(t, s.ino, &err);
        assert_non_null(m);
        assert_int_equal(zf_map_size(m), s.size);
    }
}

static void reads_cross_every_boundary(void **state)
{
    zf_auto(tree) struct zf_tree *t = mixed(60);
    unsigned char whole[8192], part[8192];
    size_t n, m;

    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        struct zf_stat s;

        assert_true(zf_tree_walk(t, files[i], &s));
        assert_ok(t->ops->read(t, s.ino, whole, sizeof whole, 0, &n, &err), &err);
        for (uint64_t at = 0; at <= s.size; at++) {
            static const size_t lens[] = {1, 2, 64, sizeof part};

            for (size_t k = 0; k < sizeof lens / sizeof lens[0]; k++) {
                size_t want = n - at < lens[k] ? n - at : lens[k];

                assert_ok(t->ops->read(t, s.ino, part, lens[k], at, &m, &err), &err);
                assert_int_equal(m, want);
                assert_memory_equal(part, whole + (m ? at : 0), m);
            }
        }
        assert_ok(t->ops->read(t, s.ino, part, 1, s.size + 1, &m, &err), &err);
        assert_int_equal(m, 0);
    }
}

/* hf/ in one piece is the set's own file, planned once. */
static void a_single_shard_is_the_whole(void **state)
{
    zf_auto(tree) struct zf_tree *t = mixed(0);
    struct zf_stat a, b;

    (void)state;
    assert_true(zf_tree_walk(t, "model.safetensors", &a));
    assert_true(zf_tree_walk(t, "hf/model.safetensors", &b));
    assert_int_equal(a.size, b.size);
    assert_ptr_equal(zf_tree_map(t, a.ino, &err), zf_tree_map(t, b.ino, &err));
    assert_false(zf_tree_walk(t, "hf/model.safetensors.index.json", &b));
}

static void *ask(void *arg)
{
    struct zf_tree *t = arg;
    struct zf_err mine;
    unsigned char buf[64];
    struct zf_stat s;
    size_t n;

    for (size_t i = 0; i < N_FILES; i++)
        if (!zf_tree_walk(t, files[i], &s) ||
            !t->ops->read(t, s.ino, buf, sizeof buf, s.size - 10, &n, &mine) || n != 10)
            return arg;
    return NULL;
}

static void many_may_ask_at_once(void **state)
{
    zf_auto(tree) struct zf_tree *t = mixed(60);
    pthread_t thread[8];
    void *bad;

    (void)state;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, t), 0);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
}

/* What is damaged begins with a page, so that no page holds bytes of both; the header stays a multiple of 8. */
static void damaged_tensors_begin_a_page(void **state)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 16;

    (void)state;
    for (uint64_t sound = 0; sound < 24; sound++) {
        struct zf_build *b = made_build(true);
        unsigned char head[8], text[8192];
        uint64_t len = 0;
        size_t got;
        struct zf_stat s;

        made_vector(b, "sound", ZF_DT_U8, sound);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "half", 4},
                                             (struct zf_type){ZF_DT_U8, 1, &n}, &err);
        assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.lost = &(struct zf_lost){.why = "gone"}},
                                &err),
                  &err);
        zf_auto(tree) struct zf_tree *t = made_tree(b, 0, NULL);
        assert_ok(t, &err);
        assert_true(zf_tree_walk(t, "model.safetensors", &s));
        assert_ok(t->ops->read(t, s.ino, head, 8, 0, &got, &err), &err);
        for (int i = 0; i < 8; i++)
            len |= (uint64_t)head[i] << 8 * i;
        assert_int_equal(len % 8, 0);
        assert_int_equal(s.size, 8 + len + sound + n);
        assert_true((8 + len + sound) % page < 8);
        assert_true(len < sizeof text);
        assert_ok(t->ops->read(t, s.ino, text, len, 8, &got, &err), &err);
        assert_int_equal(text[0], '{');
        assert_int_equal(text[len - 1], ' ');
    }
}

static void too_many_bytes_are_refused(void **state)
{
    uint64_t n = (uint64_t)1 << 61;
    struct zf_build *b = made_build(false);

    (void)state;
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "huge", 4},
                                         (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    assert_ok(d, &err);
    assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.src = NULL}, &err), &err);
    assert_null(made_tree(b, 0, NULL));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "\"huge\" alone has 2305843009213693952 bytes");
}

/* Whole files have no pieces of other tensors; names that were tied to one are tied to each other. */
static void ties_to_what_is_left_out_survive(void **state)
{
    const struct zf_tensor t[] = {
        {.name = "a", .alias_of = 0}, {.name = "b", .alias_of = 1, .apart = true},
        {.name = "c", .alias_of = 1}, {.name = "d", .alias_of = 4},
        {.name = "e", .alias_of = 4}, {.name = "f", .alias_of = 1},
    };
    const struct zf_set set = {.path = "", .tensor = t, .n = 6}, *left = NULL;
    static const uint32_t owner[] = {0, 1, 3, 3, 1};
    struct zf_arena *a = zf_arena_new(1 << 16, &err);

    (void)state;
    assert_ok(a, &err);
    assert_ok(lost_leave_out(&set, false, &left, a, &err), &err);
    assert_int_equal(left->n, 5);
    for (uint32_t i = 0; i < left->n; i++) {
        assert_int_equal(left->tensor[i].alias_of, owner[i]);
        assert_string_equal(left->tensor[i].name, t[i + (i > 0)].name);
    }
    zf_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_known_before_anything_is_read),
        cmocka_unit_test(reads_cross_every_boundary),
        cmocka_unit_test(a_single_shard_is_the_whole),
        cmocka_unit_test(many_may_ask_at_once),
        cmocka_unit_test(damaged_tensors_begin_a_page),
        cmocka_unit_test(too_many_bytes_are_refused),
        cmocka_unit_test(ties_to_what_is_left_out_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
