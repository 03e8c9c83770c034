/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdlib.h>

#include "view/nodes.h"

static struct zf_err err;

struct made {
    struct zf_arena *arena;
    struct nodes nodes;
};

static bool build(struct made *m, const struct place *place, uint32_t n)
{
    struct place *copy = calloc(n + 1, sizeof *copy);

    assert_non_null(copy);
    if (n)
        memcpy(copy, place, n * sizeof *copy);
    m->arena = zf_arena_new(1 << 20, &err);
    assert_non_null(m->arena);
    bool ok =
        nodes_build(&m->nodes, copy, n, m->arena, &err) && nodes_list(&m->nodes, m->arena, &err);
    free(copy);
    return ok;
}

static void drop(struct made *m)
{
    zf_vec_fini(&m->nodes);
    zf_arena_free(m->arena);
}

static void children_stand_together_in_natural_order(void **state)
{
    static const struct place place[] = {
        {"layers.10", NODE_SHELF, 1, false},
        {"layers.2", NODE_SHELF, 2, false},
        {"", NODE_SHELF, 0, false},
        {"state/args.json", NODE_BLOB, 3, false},
        {"layers.2/npy", NODE_SHELF, 4, false},
        {"a", NODE_BULK, 5, false},
        {"state", NODE_DIR, 0, false},
        {"x/y/z", NODE_BLOB, 6, false},
    };
    static const char *const want[] = {"a", "layers.2", "layers.10", "state", "x"};
    struct made m;

    (void)state;
    assert_ok(build(&m, place, sizeof place / sizeof place[0]), &err);
    const struct node *root = &m.nodes.at[0];
    assert_int_equal(root->kind, NODE_SHELF);
    assert_int_equal(root->n, 5);
    assert_int_equal(root->n_dirs, 4);
    for (uint32_t i = 0; i < root->n; i++) {
        const struct node *n = &m.nodes.at[root->first + i];

        assert_string_equal(n->name, want[i]);
        assert_int_equal(n->parent, 0);
        assert_int_equal(nodes_find(&m.nodes, 0, want[i]), root->first + i);
    }
    uint32_t two = nodes_find(&m.nodes, 0, "layers.2");
    assert_int_equal(m.nodes.at[two].payload, 2);
    uint32_t npy = nodes_find(&m.nodes, two, "npy");
    assert_int_equal(m.nodes.at[npy].payload, 4);
    assert_int_equal(m.nodes.at[npy].parent, two);
    uint32_t x = nodes_find(&m.nodes, 0, "x"), y = nodes_find(&m.nodes, x, "y");
    assert_int_equal(m.nodes.at[x].kind, NODE_DIR);
    assert_int_equal(m.nodes.at[nodes_find(&m.nodes, y, "z")].payload, 6);
    assert_int_equal(nodes_find(&m.nodes, 0, "layers.1"), UINT32_MAX);
    assert_int_equal(nodes_find(&m.nodes, 0, ""), UINT32_MAX);
    assert_int_equal(nodes_find(&m.nodes, npy, "z"), UINT32_MAX);
    drop(&m);
}

static void what_is_hidden_is_found_but_not_listed(void **state)
{
    static const struct place place[] = {
        {"b", NODE_DIR, 0, false},  {"b", NODE_SHELF, 0, true},  {"c", NODE_DIR, 0, true},
        {"a", NODE_BULK, 1, false}, {"c", NODE_SHELF, 2, false}, {"b/x", NODE_BLOB, 3, false},
    };
    struct made m;

    (void)state;
    assert_ok(build(&m, place, sizeof place / sizeof place[0]), &err);
    const struct node *root = &m.nodes.at[0];
    assert_int_equal(root->n, 3);
    assert_int_equal(root->n_listed, 2);
    assert_int_equal(root->n_dirs, 1);
    assert_string_equal(m.nodes.at[m.nodes.listed[root->first]].name, "a");
    assert_string_equal(m.nodes.at[m.nodes.listed[root->first + 1]].name, "c");
    uint32_t b = nodes_find(&m.nodes, 0, "b");
    assert_int_not_equal(b, UINT32_MAX);
    assert_int_equal(m.nodes.at[b].n_listed, 1);
    nodes_list_all(&m.nodes);
    assert_int_equal(root->n_listed, 3);
    assert_int_equal(root->n_dirs, 2);
    drop(&m);
}

static void refused(const struct place *place, uint32_t n, const char *part)
{
    struct made m;

    assert_false(build(&m, place, n));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, part);
    drop(&m);
}

static void two_things_in_one_place(void **state)
{
    static const struct place twice[] = {{"npy", NODE_SHELF, 0, false},
                                         {"npy", NODE_SHELF, 1, false}};
    static const struct place below[] = {{"extra/x", NODE_BLOB, 0, false},
                                         {"extra/x/y", NODE_BLOB, 1, false}};

    (void)state;
    refused(twice, 2, "there would be two files at npy");
    refused(below, 2, "extra/x would be both a file and a directory");
}

static void components_must_be_file_names(void **state)
{
    static const char *const bad[] = {"a//b", "/a", "a/", ".", "a/..", "a/../b", "a/./b"};
    char longest[257 + 1];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(&(struct place){bad[i], NODE_BLOB, 0, false}, 1, "cannot be the path of a file");
    memset(longest, 'n', 256);
    longest[256] = '\0';
    refused(&(struct place){longest, NODE_BLOB, 0, false}, 1, "cannot be the path");
    longest[255] = '\0';
    struct made m;
    assert_ok(build(&m, &(struct place){longest, NODE_BLOB, 0, false}, 1), &err);
    drop(&m);
}

static void nothing_is_an_empty_root(void **state)
{
    struct made m;

    (void)state;
    assert_ok(build(&m, NULL, 0), &err);
    assert_int_equal(m.nodes.n, 1);
    assert_int_equal(m.nodes.at[0].kind, NODE_DIR);
    assert_int_equal(nodes_find(&m.nodes, 0, "a"), UINT32_MAX);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_stand_together_in_natural_order),
        cmocka_unit_test(what_is_hidden_is_found_but_not_listed),
        cmocka_unit_test(two_things_in_one_place),
        cmocka_unit_test(components_must_be_file_names),
        cmocka_unit_test(nothing_is_an_empty_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
