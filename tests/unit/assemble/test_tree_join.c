/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of model-parallel ranks that become one: what is joined, what is there once, what differs, second names; and that
 * a refusal leaves everything as it was.  Bytes are letters, so that what is expected can be read. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/assemble/tree_join.h>

static struct zf_err err;

static const char *const trees[] = {"mp_rank_00", "mp_rank_01", "mp_rank_02", "mp_rank_03"};

struct joined {
    struct zf_build *b;
    struct zf_arena *a;
    struct zf_tree_join j;
    unsigned asked; /* how something is cut */
    bool no;        /* the last word */
};

/* Rows follow each other; what is called "copy" is on every rank. */
static bool cut(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out, struct zf_err *why)
{
    struct joined *w = ctx;
    struct zf_cut_rule rule = {.kind = strncmp(t->name, "copy", t->name_len) == 0 ? ZF_CUT_COPIES
                                                                                  : ZF_CUT_DIM};

    w->asked++;
    assert_int_equal(t->n_ranks, w->j.n_ranks);
    return zf_cut_lay(&rule, t->ndim, t->shard, t->n_ranks, w->a, out, why);
}

static bool done(void *ctx, struct zf_err *why)
{
    const struct joined *w = ctx;

    return !w->no || zf_fail(why, ZF_E_FORMAT, ZF_OFF_NONE, "no, after all");
}

static void begin(struct joined *w, uint32_t n_stages, uint32_t n_ranks)
{
    struct zf_limits lim = zf_limits_default();

    *w = (struct joined){.b = zf_build_new(NULL, &lim, false, &err),
                         .a = zf_arena_new(1 << 20, &err)};
    assert_true(w->b && w->a);
    w->j = (struct zf_tree_join){.b = w->b,
                                 .tree = trees,
                                 .n_stages = n_stages,
                                 .n_ranks = n_ranks,
                                 .cut = cut,
                                 .done = done,
                                 .ctx = w};
}

static void end(struct joined *w)
{
    zf_build_free(w->b);
    zf_arena_free(w->a);
}

/* A tensor of as many rows of three letters as `text` has, in `set` of tree k. */
static struct zf_draft *put(struct joined *w, uint32_t k, const char *set, const char *name,
                            const char *text)
{
    const uint64_t shape[2] = {strlen(text) / 3, 3};
    char path[1300];

    (void)snprintf(path, sizeof path, "%s%s%s", trees[k], *set ? "/" : "", set);
    zf_auto(source) struct zf_source *s =
        zf_mem_new("made", strdup(text), strlen(text), true, &err);
    struct zf_draft *d = zf_build_tensor(w->b, (struct zf_spot){path, name, strlen(name)},
                                         (struct zf_type){ZF_DT_U8, 2, shape}, &err);

    assert_ok(s && d && zf_draft_flat(d, 0, strlen(text), (struct zf_from){.src = s}, &err), &err);
    return d;
}

static void tie(struct joined *w, struct zf_draft *d, const char *name)
{
    assert_ok(zf_build_alias(w->b, d, name, strlen(name), &err), &err);
}

/* All there is: "SET|NAME=BYTES", "SET|NAME->NAME" for a second name, in the order of the checkpoint, joined by blanks. */
static void expect(struct joined *w, const char *want)
{
    struct zf_checkpoint *c = zf_build_seal(w->b, "made", "by a test", &err);
    char got[1000] = "";
    size_t n = 0;

    assert_ok(c, &err);
    for (uint32_t k = 0; k < c->n_sets; k++) {
        for (uint32_t i = 0; i < c->set[k].n; i++) {
            const struct zf_tensor *t = &c->set[k].tensor[i];
            char bytes[100];
            const uint64_t size = zf_map_size(t->data);

            assert_true(size < sizeof bytes && t->ndim == 2 && t->shape[0] == size / 3 &&
                        t->shape[1] == 3);
            assert_ok(zf_map_read(t->data, bytes, size, 0, &err), &err);
            bytes[size] = '\0';
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%s|%s%s%s", n ? " " : "",
                                  c->set[k].path, t->name, t->alias_of == i ? "=" : "->",
                                  t->alias_of == i ? bytes : c->set[k].tensor[t->alias_of].name);
        }
    }
    assert_string_equal(got, want);
    zf_checkpoint_free(c);
    w->b = NULL;
}

static void refused(struct joined *w, const char *why)
{
    zf_err_clear(&err);
    assert_false(zf_tree_join(&w->j, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, why);
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void ranks_and_stages_become_one(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 2, 2);
    for (uint32_t k = 0; k < 4; k++) {
        struct zf_draft *shared = put(&w, k, "", "both", k & 1 ? "ghi" : "abcdef");

        tie(&w, shared, "head"); /* on every rank, and there once */
        (void)put(&w, k, "", "copy", "xyz");
    }
    (void)put(&w, 0, "optim/m", "first", "123");
    (void)put(&w, 1, "optim/m", "first", "456789");
    (void)put(&w, 2, "", "second", "rst");
    (void)put(&w, 3, "", "second", "uvw");
    (void)put(&w, 3, "extra/mine", "only", "lmn"); /* counts for nothing */
    assert_ok(zf_tree_join(&w.j, &err), &err);
    assert_false(w.j.stages_differ);
    assert_int_equal(w.asked, 4);
    expect(&w, "|both=abcdefghi |copy=xyz |head->both |second=rstuvw extra/mine|only=lmn "
               "optim/m|first=123456789");
    end(&w);
}

/* Of what is no weight the first rank's is the root's, and what another has otherwise lies beside it. */
static void what_is_extra_is_there_once_or_beside(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 1, 3);
    for (uint32_t k = 0; k < 3; k++) {
        (void)put(&w, k, "", "copy", "xyz");
        (void)put(&w, k, "extra", "same", "abc");
        (void)put(&w, k, "extra", "other", k == 1 ? "abd" : "abc");
        (void)put(&w, k, "extra/deep", "long", k == 2 ? "abcdef" : "abc");
        (void)put(&w, k, "extras", "copy", "jkl"); /* a set like others */
    }
    assert_ok(zf_tree_join(&w.j, &err), &err);
    expect(
        &w,
        "|copy=xyz extra|other=abc extra|same=abc extra/deep|long=abc extra/mp_rank_01|other=abd "
        "extra/mp_rank_02/deep|long=abcdef extras|copy=jkl");
    end(&w);
}

/* … and so does its second name. */
static void what_lies_beside_keeps_its_names(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 1, 3);
    for (uint32_t k = 0; k < 3; k++) {
        struct zf_draft *d = put(&w, k, "extra", "a", k == 1 ? "abd" : "abc");

        (void)put(&w, k, "", "copy", "xyz");
        if (k > 0)
            tie(&w, d, "z");
    }
    assert_ok(zf_tree_join(&w.j, &err), &err);
    expect(&w, "|copy=xyz extra|a=abc extra|z->a extra/mp_rank_01|a=abd extra/mp_rank_01|z->a");
    end(&w);
}

/* A module may be shared by stages of which the first is none. */
static void stages_share(void **state)
{
    struct joined w;

    (void)state;
    for (int other = 0; other < 2; other++) {
        begin(&w, 3, 1);
        (void)put(&w, 0, "", "a", "abc");
        (void)put(&w, 1, "", "b", "def");
        (void)put(&w, 2, "", "b", other ? "deg" : "def");
        if (other) {
            refused(&w, "\"b\": several pipeline stages hold it, but in mp_rank_02 it "
                        "differs from mp_rank_01");
            assert_true(w.j.stages_differ);
        } else {
            assert_ok(zf_tree_join(&w.j, &err), &err);
            expect(&w, "|a=abc |b=def");
        }
        end(&w);
    }
}

static void one_rank_needs_no_rule(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 2, 1);
    struct zf_draft *d = put(&w, 0, "", "a", "abc");
    tie(&w, d, "z");
    (void)put(&w, 1, "", "a", "abc");
    tie(&w, put(&w, 1, "", "b", "defghi"), "y");
    assert_ok(zf_tree_join(&w.j, &err), &err);
    assert_int_equal(w.asked, 0);
    expect(&w, "|a=abc |b=defghi |y->b |z->a");
    end(&w);
}

static void stages_that_differ_are_told(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 2, 2);
    for (uint32_t k = 0; k < 4; k++)
        (void)put(&w, k, "", "both", k == 3 ? "abd" : "abc");
    refused(&w, "\"both\": several pipeline stages hold it, but in mp_rank_02 it differs "
                "from mp_rank_00");
    assert_true(w.j.stages_differ);
    expect(&w, "mp_rank_00|both=abc mp_rank_01|both=abc mp_rank_02|both=abc mp_rank_03|both=abd");
    end(&w);
}

static void ranks_must_have_the_same(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 1, 2);
    (void)put(&w, 0, "", "a", "abc");
    (void)put(&w, 1, "", "a", "abc");
    (void)put(&w, 1, "optim", "b", "abc");
    refused(&w, "there are 2 tensors in mp_rank_01, but 1 in mp_rank_00");
    (void)put(&w, 0, "optim", "c", "abc");
    refused(&w, "\"optim/c\": it is missing in mp_rank_01");
    expect(&w, "mp_rank_00|a=abc mp_rank_00/optim|c=abc mp_rank_01|a=abc mp_rank_01/optim|b=abc");
    end(&w);

    begin(&w, 1, 2);
    const uint64_t n = 3;
    (void)put(&w, 0, "", "a", "abc");
    struct zf_draft *d = zf_build_tensor(w.b, (struct zf_spot){"mp_rank_01", "a", 1},
                                         (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    assert_ok(d, &err);
    refused(&w, "\"a\": it has another dtype in mp_rank_01");
    assert_false(w.j.stages_differ);
    end(&w);
}

/* Files of a tree go with it, and no others. */
static void files_of_the_trees_go(void **state)
{
    static const char *const path[] = {"mp_rank_00/x.json", "state/y.json", "mp_rank_000/z.json",
                                       "mp_rank_01/deep/x.json"};
    struct joined w;

    (void)state;
    begin(&w, 1, 2);
    (void)put(&w, 0, "", "a", "abc");
    (void)put(&w, 1, "", "a", "def");
    for (size_t i = 0; i < 4; i++)
        assert_ok(zf_build_text(w.b, path[i], "{}", 2, &err), &err);
    assert_ok(zf_tree_join(&w.j, &err), &err);
    struct zf_checkpoint *c = zf_build_seal(w.b, "made", "by a test", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_blobs, 2);
    assert_string_equal(c->blob[0].path, path[2]);
    assert_string_equal(c->blob[1].path, path[1]);
    zf_checkpoint_free(c);
    w.b = NULL;
    end(&w);
}

static void somebody_has_the_last_word(void **state)
{
    struct joined w;

    (void)state;
    begin(&w, 1, 2);
    w.no = true;
    tie(&w, put(&w, 0, "", "a", "abc"), "z");
    (void)put(&w, 1, "", "a", "def");
    refused(&w, "no, after all");
    expect(&w, "mp_rank_00|a=abc mp_rank_00|z->a mp_rank_01|a=def");
    end(&w);
}

/* What has no place at the root leaves the trees as they were, with the reason. */
static void what_has_no_place_is_told(void **state)
{
    uint64_t shape[65], one = 1;
    struct zf_limits lim = zf_limits_default();
    char set[1025] = "extra";
    struct joined w;

    (void)state;
    for (size_t n = 5; n < sizeof set - 1; n++)
        set[n] = n % 200 == 5 ? '/' : 'd';
    begin(&w, 1, 2);
    (void)put(&w, 0, set, "seed", "abc");
    (void)put(&w, 1, set, "seed", "xyz");
    zf_err_clear(&err);
    assert_false(zf_tree_join(&w.j, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    assert_non_null(strstr(err.msg, "seed"));
    zf_err_clear(&err);
    end(&w);

    begin(&w, 1, 1);
    zf_build_free(w.b);
    lim.tensor_dims = 80;
    w.b = w.j.b = zf_build_new(NULL, &lim, false, &err);
    for (size_t i = 0; i < 65; i++)
        shape[i] = one;
    struct zf_draft *d = zf_build_tensor(w.b, (struct zf_spot){"mp_rank_00", "deep", 4},
                                         (struct zf_type){ZF_DT_U8, 65, shape}, &err);
    zf_auto(source) struct zf_source *s = zf_mem_new("made", "x", 1, false, &err);
    assert_ok(s && d && zf_draft_flat(d, 0, 1, (struct zf_from){.src = s}, &err), &err);
    zf_err_clear(&err);
    assert_false(zf_tree_join(&w.j, &err));
    assert_int_equal(err.code, ZF_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "deep"));
    zf_err_clear(&err);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_stages_become_one),
        cmocka_unit_test(what_is_extra_is_there_once_or_beside),
        cmocka_unit_test(what_lies_beside_keeps_its_names),
        cmocka_unit_test(stages_share),
        cmocka_unit_test(one_rank_needs_no_rule),
        cmocka_unit_test(stages_that_differ_are_told),
        cmocka_unit_test(ranks_must_have_the_same),
        cmocka_unit_test(files_of_the_trees_go),
        cmocka_unit_test(somebody_has_the_last_word),
        cmocka_unit_test(what_has_no_place_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
