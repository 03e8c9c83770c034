/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/model/build.h>

static struct zf_err err;

static struct zf_build *fresh(bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_non_null(b);
    return b;
}

static struct zf_source *shard(uint64_t n)
{
    unsigned char *p = malloc(n);

    assert_non_null(p);
    for (uint64_t i = 0; i < n; i++)
        p[i] = (unsigned char)i;
    struct zf_source *s = zf_mem_new("rank0.pt", p, n, true, &err);
    assert_non_null(s);
    return s;
}

/* A vector of n bytes, whole. */
static struct zf_draft *bytes(struct zf_build *b, const char *set, const char *name,
                              struct zf_source *s, uint64_t off, uint64_t n)
{
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){set, name, strlen(name)},
                                         (struct zf_type){ZF_DT_U8, 1, &n}, &err);

    assert_non_null(d);
    assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.src = s, .off = off}, &err), &err);
    return d;
}

/* The file is kept once, the tensor's own name behind it is not kept at all. */
static void tells_the_file_and_the_name(void **state)
{
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(8);
    uint64_t n = 9;

    (void)state;
    assert_ok(zf_draft_inside(bytes(b, "", "a", s, 0, 4), "rank0.pt", &err), &err);
    assert_ok(zf_draft_where(bytes(b, "", "b", s, 4, 4), "rank1.pt", &err), &err);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "c.d", 3}, (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    assert_ok(d && zf_draft_inside(d, "rank0.pt", &err), &err);
    assert_null(zf_build_seal(b, "test", NULL, &err));
    assert_string_equal(err.path, "rank0.pt!c.d");
}

/* A window bounds what is put, and is then no step of a read any more; the same elements are known again. */
static void sees_through_windows(void **state)
{
    struct zf_build *b = fresh(false);
    uint64_t n = 6, shape[] = {2, 3}, turned[] = {1, 2};
    zf_auto(source) struct zf_source *s = shard(64);
    zf_auto(source) struct zf_source *w = zf_window_new(s, 32, 8, "data/0", &err);
    zf_auto(source) struct zf_source *again = zf_window_new(s, 32, 8, "data/0", &err);

    (void)state;
    assert_true(w && again);
    struct zf_draft *d = bytes(b, "", "flat", w, 1, n);
    struct zf_draft *t = zf_build_tensor(b, (struct zf_spot){"", "turned", 6},
                                         (struct zf_type){ZF_DT_U8, 2, shape}, &err);
    assert_ok(t && zf_draft_box(t, NULL, shape,
                                (struct zf_from){.src = w, .off = 2, .stride = turned}, &err),
              &err);
    assert_false(zf_draft_flat(d, 0, 6, (struct zf_from){.src = w, .off = 3}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "beyond the end of its data (8 bytes)");

    const struct zf_type flat = zf_draft_type(d), box = zf_draft_type(t);
    assert_true(zf_draft_is_from(d, flat, (struct zf_from){.src = again, .off = 1}));
    assert_true(zf_draft_is_from(d, flat, (struct zf_from){.src = s, .off = 33}));
    assert_false(zf_draft_is_from(d, flat, (struct zf_from){.src = s, .off = 1}));
    assert_false(zf_draft_is_from(d, box, (struct zf_from){.src = s, .off = 33}));
    assert_true(
        zf_draft_is_from(t, box, (struct zf_from){.src = again, .off = 2, .stride = turned}));
    assert_false(zf_draft_is_from(t, box, (struct zf_from){.src = again, .off = 2}));
    assert_false(zf_draft_is_from(
        t, box, (struct zf_from){.src = again, .off = 2, .stride = (uint64_t[]){3, 1}}));
    assert_false(
        zf_draft_is_from(t, box, (struct zf_from){.src = again, .off = 1, .stride = turned}));

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", NULL, &err);
    assert_ok(c, &err);
    const struct zf_run run = zf_map_at(c->set[0].tensor[0].data, 0);
    assert_ptr_equal(run.src, s);
    assert_int_equal(run.off, 33);
}

/* Neighbours of one shape may share it; those of as many dimensions and as many elements do not. */
static void neighbours_keep_their_shapes(void **state)
{
    static const uint64_t shape[][2] = {{2, 3}, {3, 2}, {3, 2}, {6, 1}, {2, 3}};
    static const char names[] = "abcde";
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(6);

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", &names[i], 1},
                                             (struct zf_type){ZF_DT_U8, 2, shape[i]}, &err);

        assert_non_null(d);
        assert_ok(zf_draft_flat(d, 0, 6, (struct zf_from){.src = s, .off = 0}, &err), &err);
    }
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    assert_ok(c, &err);
    for (size_t i = 0; i < 5; i++)
        assert_memory_equal(c->set[0].tensor[i].shape, shape[i], sizeof shape[i]);
}

/* An optimizer's states have the names of the weights, in their order or another, and perhaps others besides. */
static void sets_share_their_names(void **state)
{
    static const char *const sets[] = {"", "optim/exp_avg", "optim/exp_avg_sq"};
    enum { TENSORS = 12 };
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(4);
    char name[8];

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        for (unsigned i = 0; i < TENSORS; i++) {
            (void)snprintf(name, sizeof name, "w%u", k == 2 ? TENSORS - 1 - i : i);
            bytes(b, sets[k], name, s, 0, 4);
            if (k == 1 && i == 5)
                bytes(b, sets[k], "w", s, 0, 4);
        }
    }
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    assert_ok(c, &err);
    for (size_t k = 0; k < 3; k++) {
        const struct zf_set *set = zf_checkpoint_set(c, sets[k]);

        assert_int_equal(set->n, TENSORS + (k == 1));
        for (unsigned i = 0; i < TENSORS; i++) {
            const size_t n = (size_t)snprintf(name, sizeof name, "w%u", i);
            const struct zf_tensor *t = zf_set_find(set, name, n);

            assert_non_null(t);
            assert_string_equal(t->name, name);
            assert_ptr_equal(t->name, zf_set_find(zf_checkpoint_set(c, ""), name, n)->name);
        }
    }
    assert_string_equal(zf_set_find(zf_checkpoint_set(c, sets[1]), "w", 1)->name, "w");
    assert_null(zf_set_find(zf_checkpoint_set(c, ""), "w", 1));
}

static void seals_sets_in_order(void **state)
{
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(64);
    int64_t step = 7;
    unsigned char got[8];

    (void)state;
    bytes(b, "optim/exp_avg", "w", s, 0, 4);
    struct zf_draft *ten = bytes(b, "", "layers.10.w", s, 10, 4);
    bytes(b, "", "layers.2.w", s, 20, 4);
    assert_ok(zf_build_alias(b, ten, "layers.1.tied", 13, &err), &err);
    bytes(b, "stored", "w", s, 10, 4);
    assert_ok(zf_build_scalar(b, (struct zf_spot){"optim/step", "w", 1}, ZF_DT_I64, &step, &err),
              &err);
    assert_ok(zf_build_text(b, "state/args.json", "{}", 2, &err), &err);
    assert_ok(zf_build_blob(b, "extra/rng", s, 60, 4, &err), &err);
    assert_ok(zf_build_note(b, &err, "odd: %d", 3), &err);
    assert_ok(zf_build_tag(b, "step7", &err), &err);
    zf_build_step(b, 7);
    assert_ptr_equal(zf_build_find(b, (struct zf_spot){"", "layers.1.tied", 13}), ten);
    assert_null(zf_build_find(b, (struct zf_spot){"stored", "layers.10.w", 11}));

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "fmt", "because", &err);
    assert_ok(c, &err);
    zf_source_unref(&s); /* the checkpoint has its own reference */
    assert_int_equal(c->n_sets, 4);
    assert_string_equal(c->set[0].path, "");
    assert_string_equal(c->set[1].path, "optim/exp_avg");
    const struct zf_set *root = zf_checkpoint_set(c, "");
    assert_int_equal(root->n, 3);
    assert_string_equal(root->tensor[0].name, "layers.1.tied");
    assert_string_equal(root->tensor[1].name, "layers.2.w");
    assert_int_equal(root->tensor[0].alias_of, 2);
    assert_int_equal(root->tensor[2].alias_of, 2);
    assert_ptr_equal(root->tensor[0].data, root->tensor[2].data);
    const struct zf_tensor *t = zf_set_find(zf_checkpoint_set(c, "stored"), "w", 1);
    assert_int_equal(t->alias_of, 0);
    assert_ok(zf_map_read(t->data, got, 2, 1, &err), &err);
    assert_int_equal(got[0], 11);
    t = zf_set_find(zf_checkpoint_set(c, "optim/step"), "w", 1);
    assert_ok(zf_map_read(t->data, got, 8, 0, &err), &err);
    assert_memory_equal(got, &step, 8);
    assert_int_equal(c->n_blobs, 2);
    assert_string_equal(c->blob[0].path, "extra/rng");
    assert_int_equal(c->n_notes, 1);
    assert_string_equal(c->note[0].text, "odd: 3");
    assert_string_equal(c->note[0].about, "");
    assert_string_equal(c->tag, "step7");
    assert_true(c->has_step);
    assert_int_equal(c->n_pieces, 4);
    assert_false(zf_map_read(t->data, got, 8, 1, &err));
    assert_err(&err, ZF_E_IO, 1, "only 7");
}

static void refuses_two_of_one_name(void **state)
{
    zf_auto(build) struct zf_build *b = fresh(false);

    (void)state;
    assert_non_null(zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                    (struct zf_type){ZF_DT_U8, 0, NULL}, &err));
    assert_non_null(zf_build_tensor(b, (struct zf_spot){"optim", "w", 1},
                                    (struct zf_type){ZF_DT_U8, 0, NULL}, &err));
    assert_null(zf_build_tensor(b, (struct zf_spot){"optim", "w", 1},
                                (struct zf_type){ZF_DT_U8, 0, NULL}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "two tensors named \"w\" in optim");
}

static void finds_a_hundred_thousand_names(void **state)
{
    zf_auto(build) struct zf_build *b = fresh(false);
    char name[32];

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(name, sizeof name, "w%d", i / 2);

        assert_non_null(zf_build_tensor(b, (struct zf_spot){i % 2 ? "a" : "", name, (size_t)n},
                                        (struct zf_type){ZF_DT_U8, 0, NULL}, &err));
    }
    for (int i = 0; i < 50000; i++) {
        int n = snprintf(name, sizeof name, "w%d", i);
        struct zf_draft *x = zf_build_find(b, (struct zf_spot){"", name, (size_t)n});
        struct zf_draft *y = zf_build_find(b, (struct zf_spot){"a", name, (size_t)n});

        assert_true(x && y && x != y);
    }
}

static void a_prefix_moves_everything(void **state)
{
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(64);
    char long_prefix[5000];
    int64_t step = 7;

    (void)state;
    struct zf_draft *root = bytes(b, "", "w", s, 0, 4);
    memset(long_prefix, 'a', sizeof long_prefix - 1);
    long_prefix[sizeof long_prefix - 1] = '\0';
    assert_false(zf_build_prefix(b, "../a", &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "not a plain relative path");
    assert_ok(zf_build_prefix(b, long_prefix, &err), &err);
    assert_null(zf_build_find(b, (struct zf_spot){"", "w", 1}));
    assert_null(zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){0}, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "longer than a path can be");
    assert_ok(zf_build_prefix(b, "mp_rank_03", &err), &err);
    struct zf_draft *d = bytes(b, "", "w", s, 4, 4);
    assert_ptr_not_equal(d, root);
    assert_ptr_equal(zf_build_find(b, (struct zf_spot){"", "w", 1}), d);
    bytes(b, "optim/exp_avg", "w", s, 8, 4);
    assert_ok(zf_build_alias(b, root, "tied", 4, &err), &err); /* in the set of its tensor */
    assert_ok(zf_build_scalar(b, (struct zf_spot){"optim/step", "w", 1}, ZF_DT_I64, &step, &err),
              &err);
    assert_ok(zf_build_text(b, "state/args.json", "{}", 2, &err), &err);
    assert_true(zf_build_has_file(b, "state/args.json"));
    assert_false(zf_build_text(b, "../config.json", "{}", 2, &err));
    assert_ok(zf_build_prefix(b, "", &err), &err);
    assert_false(zf_build_has_file(b, "state/args.json"));
    assert_true(zf_build_has_file(b, "mp_rank_03/state/args.json"));
    assert_ptr_equal(zf_build_find(b, (struct zf_spot){"mp_rank_03", "w", 1}), d);
    assert_ptr_equal(zf_build_find(b, (struct zf_spot){"", "tied", 4}), root);

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "fmt", "", &err);
    assert_ok(c, &err);
    static const char *const path[] = {"", "mp_rank_03", "mp_rank_03/optim/exp_avg",
                                       "mp_rank_03/optim/step"};
    assert_int_equal(c->n_sets, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(c->set[i].path, path[i]);
    assert_int_equal(c->n_blobs, 1);
    assert_string_equal(c->blob[0].path, "mp_rank_03/state/args.json");
}

static void refuses_paths_that_are_none(void **state)
{
    static const char *const bad[] = {"/a", "a/", "a//b", ".", "..", "a/../b", "a/.", ""};
    zf_auto(build) struct zf_build *b = fresh(false);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(zf_build_text(b, bad[i], "", 0, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
        if (*bad[i]) {
            assert_null(zf_build_tensor(b, (struct zf_spot){bad[i], "w", 1},
                                        (struct zf_type){ZF_DT_U8, 0, NULL}, &err));
            assert_int_equal(err.code, ZF_E_FORMAT);
        }
    }
    assert_ok(zf_build_text(b, "..a/.b./...", "", 0, &err), &err);
}

static void refuses_files_that_are_directories(void **state)
{
    static const char *const blob[][2] = {
        {"a", "a"}, {"a", "a/b"}, {"optim", NULL}, {"optim/exp", NULL}};
    static const char *const said[] = {"two files", "both a file and a directory",
                                       "both a file and a directory",
                                       "both a file and a directory"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct zf_build *b = fresh(false);

        assert_non_null(zf_build_tensor(b, (struct zf_spot){"optim/exp", "w", 1},
                                        (struct zf_type){ZF_DT_U8, 1, &(uint64_t){0}}, &err));
        assert_ok(zf_build_text(b, "a-b", "", 0, &err), &err);
        for (int k = 0; k < 2 && blob[i][k]; k++)
            assert_ok(zf_build_text(b, blob[i][k], "", 0, &err), &err);
        assert_null(zf_build_seal(b, "fmt", "", &err));
        assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, said[i]);
    }
}

static void tells_what_is_not_covered(void **state)
{
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(64);
    uint64_t shape[2] = {4, 3};

    (void)state;
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F16, 2, shape}, &err);
    assert_ok(zf_draft_where(d, "rank0.pt!w", &err), &err);
    assert_ok(zf_draft_flat(d, 0, 5, (struct zf_from){.src = s, .off = 0}, &err), &err);
    assert_ok(zf_draft_flat(d, 9, 3, (struct zf_from){.src = s, .off = 0}, &err), &err);
    assert_false(zf_draft_flat(d, 9, 4, (struct zf_from){.src = s, .off = 0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "has only 12 elements");
    assert_false(zf_draft_flat(d, 5, 4, (struct zf_from){.src = s, .off = 57}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "beyond the end of its data (64 bytes)");
    assert_false(zf_draft_flat(d, 5, 4, (struct zf_from){.src = s, .off = UINT64_MAX - 1}, &err));
    assert_false(
        zf_draft_put(d, (struct zf_where){(uint64_t[]){1, 1}, (uint64_t[]){3, 2}, 1, 6, false},
                     (struct zf_from){.src = s, .off = 0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "has only 6 elements in a box, but a slice of 6");
    assert_false(
        zf_draft_put(d, (struct zf_where){(uint64_t[]){1, 2}, (uint64_t[]){3, 2}, 0, 1, false},
                     (struct zf_from){.src = s, .off = 0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "from 2 over 2 elements of dimension 1");
    assert_null(zf_build_seal(b, "fmt", "", &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"w\" of shape [4, 3]: elements [1, 2] to [2, 2] are covered by nothing");
    assert_string_equal(err.path, "rank0.pt!w");

    b = fresh(false); /* boxes of single bytes, where the place is exact */
    d = zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_U8, 2, shape},
                        &err);
    assert_ok(zf_draft_box(d, (uint64_t[]){0, 0}, (uint64_t[]){2, 3},
                           (struct zf_from){.src = s, .off = 0}, &err),
              &err);
    assert_ok(zf_draft_box(d, (uint64_t[]){2, 0}, (uint64_t[]){2, 1},
                           (struct zf_from){.src = s, .off = 0}, &err),
              &err);
    assert_ok(zf_draft_box(d, (uint64_t[]){2, 2}, (uint64_t[]){2, 1},
                           (struct zf_from){.src = s, .off = 0}, &err),
              &err);
    assert_null(zf_build_seal(b, "fmt", "", &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "shape [4, 3]: elements [2, 1] to [3, 1] are covered by nothing");
}

static void degraded_loses_only_what_is_lost(void **state)
{
    struct zf_build *b = fresh(true);
    zf_auto(source) struct zf_source *s = shard(64);
    uint64_t n = 20;
    unsigned char got[20];

    (void)state;
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    assert_ok(zf_draft_flat(d, 0, 6, (struct zf_from){.src = s, .off = 0}, &err), &err);
    assert_ok(zf_draft_flat(d, 4, 6, (struct zf_from){.src = s, .off = 4}, &err), &err);
    assert_ok(zf_draft_flat(d, 12, 4, (struct zf_from){.src = s, .off = 62}, &err), &err);
    assert_ok(zf_draft_flat(d, 18, 2,
                            (struct zf_from){.lost = &(struct zf_lost){.why = "rank 3 is missing"}},
                            &err),
              &err);
    assert_ok(zf_draft_flat(d, 16, 2, (struct zf_from){.src = s, .off = 16}, &err), &err);
    bytes(b, "", "whole", s, 0, 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "fmt", "", &err);
    assert_ok(c, &err);
    const struct zf_tensor *t = zf_set_find(&c->set[0], "w", 1);
    assert_true(t->lost);
    assert_false(zf_set_find(&c->set[0], "whole", 5)->lost);
    assert_int_equal(c->n_notes, 2);
    static const char ok[] = "++++--++++--++--++--";
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(zf_map_read(t->data, got, 1, i, &err), ok[i] == '+');
        if (ok[i] == '-')
            assert_int_equal(err.code, ZF_E_IO);
    }
    assert_ok(zf_map_read(t->data, got, 4, 6, &err), &err);
    assert_int_equal(got[3], 9);
}

static void keeps_its_limits(void **state)
{
    struct zf_limits lim = zf_limits_default();
    uint64_t huge[3] = {1u << 30, 1u << 30, 1u << 30}, one = 1;

    (void)state;
    lim.tensors = 3;
    lim.pieces = 2;
    lim.tensor_dims = 3;
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    assert_null(zf_build_tensor(b, (struct zf_spot){"", "x", 1},
                                (struct zf_type){ZF_DT_F32, 3, huge}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "larger than 2^64");
    assert_null(zf_build_tensor(b, (struct zf_spot){"", "x", 1},
                                (struct zf_type){ZF_DT_F32, 4, huge}, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "4 dimensions");
    for (int i = 0; i < 3; i++) {
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", &"abc"[i], 1},
                                             (struct zf_type){ZF_DT_U8, 1, &one}, &err);

        assert_non_null(d);
        bool ok = zf_draft_flat(d, 0, 1, (struct zf_from){.src = NULL, .off = 0}, &err);
        assert_int_equal(ok, i < 2);
    }
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 2 pieces");
    assert_null(zf_build_tensor(b, (struct zf_spot){"", "d", 1},
                                (struct zf_type){ZF_DT_U8, 1, &one}, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 3 tensors");
}

static void counts_notes_it_does_not_keep(void **state)
{
    struct zf_build *b = fresh(false);

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_ok(zf_build_note(b, &err, "key %d is unknown", i), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "fmt", "", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_notes, 257);
    assert_string_equal(c->note[256].text, "744 more notes of the same kinds are not shown");
}

/* ---- select ------------------------------------------------------------------------------- */

static struct zf_checkpoint *three(void)
{
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(64);
    struct zf_draft *e = bytes(b, "", "model.embed", s, 0, 4);

    bytes(b, "", "model.layers.0.w", s, 4, 4);
    bytes(b, "optim/exp_avg", "model.layers.0.w", s, 8, 4);
    assert_ok(zf_build_alias(b, e, "lm_head", 7, &err), &err);
    struct zf_checkpoint *c = zf_build_seal(b, "fmt", "", &err);
    assert_ok(c, &err);
    return c;
}

static void selects_and_renames(void **state)
{
    const char *except[] = {"*embed"};
    const char *rename[] = {"layers\\.([0-9]+)\\.(.)=h.\\1.\\2eight"};
    struct zf_select how = {
        .strip_prefix = "model.", .except = except, .n_except = 1, .rename = rename, .n_rename = 1};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_checkpoint_select(three(), &how, &err);
    assert_ok(c, &err);
    const struct zf_set *root = zf_checkpoint_set(c, "");
    assert_int_equal(root->n, 2);
    assert_string_equal(root->tensor[0].name, "h.0.weight");
    /* What it was tied to is gone: it stands for itself. */
    assert_string_equal(root->tensor[1].name, "lm_head");
    assert_int_equal(root->tensor[1].alias_of, 1);
    assert_non_null(zf_set_find(zf_checkpoint_set(c, "optim/exp_avg"), "h.0.weight", 10));
}

static void keeps_ties_when_the_order_changes(void **state)
{
    const char *rename[] = {"^lm_head$=a", "^model.embed$=z"};
    struct zf_select how = {.rename = rename, .n_rename = 2};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_checkpoint_select(three(), &how, &err);
    assert_ok(c, &err);
    assert_string_equal(c->set[0].tensor[2].name, "z");
    assert_int_equal(c->set[0].tensor[0].alias_of, 2);
    assert_int_equal(c->set[0].tensor[2].alias_of, 2);
}

static void refuses_selections_without_sense(void **state)
{
    const char *same[] = {".*=x"}, *broken[] = {"(=x"}, *plain[] = {"abc"}, *none[] = {"nothing*"};

    (void)state;
    assert_null(
        zf_checkpoint_select(three(), &(struct zf_select){.rename = same, .n_rename = 1}, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "would both be \"x\"");
    assert_null(
        zf_checkpoint_select(three(), &(struct zf_select){.rename = broken, .n_rename = 1}, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "rename rule \"(=x\"");
    assert_null(
        zf_checkpoint_select(three(), &(struct zf_select){.rename = plain, .n_rename = 1}, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "REGEX=REPLACEMENT");
    assert_null(
        zf_checkpoint_select(three(), &(struct zf_select){.only = none, .n_only = 1}, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "the selection leaves no tensor");
}

/* "\\=" is an equals sign of either side, the last other one parts them. */
static void splits_rules_at_the_last_plain_equals_sign(void **state)
{
    const char *in_regex[] = {"a=b=x"}, *escaped[] = {"lm\\=?_head=y\\=z"};
    struct zf_select how = {.rename = in_regex, .n_rename = 1};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_checkpoint_select(three(), &how, &err);
    assert_ok(c, &err);
    how.rename = escaped;
    zf_auto(checkpoint) struct zf_checkpoint *d = zf_checkpoint_select(three(), &how, &err);
    assert_ok(d, &err);
    assert_non_null(zf_set_find(zf_checkpoint_set(d, ""), "y=z", 3));
}

static void note_unused(void *ctx, const char *option, const char *value)
{
    char *at = ctx;

    (void)sprintf(at + strlen(at), "%s=%s ", option, value);
}

static void reports_patterns_that_fit_nothing(void **state)
{
    const char *only[] = {"*", "nothing*"}, *except[] = {"*embed", "*missing"};
    const char *rename[] = {"embed=x", "^lm_head$=a"};
    char seen[256] = "";
    struct zf_select how = {.strip_prefix = "modle.",
                            .only = only,
                            .n_only = 2,
                            .except = except,
                            .n_except = 2,
                            .rename = rename,
                            .n_rename = 2,
                            .unused = note_unused,
                            .unused_ctx = seen};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_checkpoint_select(three(), &how, &err);
    assert_ok(c, &err);
    /* The tensor that "embed=x" fits is left out before. */
    assert_string_equal(seen, "strip_prefix=modle. only=nothing* except=*missing rename=embed=x ");
}

/* There can be millions of tensors that are one piece, so the budget of memory says what one takes: at most
 * 145 bytes while it is drafted, 56 of them uthash's, and no more once it is sealed, with a name of 5 and the shape of
 * the one before. */
static void a_tensor_of_one_piece_takes_145_bytes(void **state)
{
    enum { N = 4000, OTHER = 8192 /* sets, texts, ends of blocks */ };
    struct zf_limits lim = zf_limits_default();
    uint64_t shape[] = {2, 4}, corner[] = {0, 0};
    zf_auto(source) struct zf_source *s = shard(8);
    struct zf_build *b;
    char name[16];

    (void)state;
    lim.model_memory = 145 * N + OTHER;
    assert_non_null(b = zf_build_new(NULL, &lim, false, &err));
    for (unsigned i = 0; i < N; i++) {
        struct zf_from from = {.src = s, .off = 0};
        int n = snprintf(name, sizeof name, "w%u", i);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, (size_t)n},
                                             (struct zf_type){ZF_DT_U8, 2, shape}, &err);

        assert_ok(d, &err);
        assert_ok(i % 2 ? zf_draft_box(d, corner, shape, from, &err)
                        : zf_draft_flat(d, 0, 8, from, &err),
                  &err);
        assert_ok(zf_draft_inside(d, "rank0.pt", &err), &err); /* kept once */
    }
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", NULL, &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_pieces, N);
}

/* The one piece of a tensor that is all of it, and others that come behind it. */
static void what_comes_behind_the_whole_is_twice(void **state)
{
    uint64_t shape[] = {4, 4}, corner[] = {1, 1}, size[] = {2, 2};
    struct zf_type type = {ZF_DT_U8, 2, shape};
    zf_auto(source) struct zf_source *s = shard(64);
    struct zf_from from = {.src = s, .off = 0};
    char text[400];

    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        struct zf_build *b = fresh(false);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1}, type, &err);

        assert_ok(how % 2 ? zf_draft_box(d, NULL, shape, from, &err)
                          : zf_draft_flat(d, 0, 16, from, &err),
                  &err);
        assert_ok(how < 2 ? zf_draft_box(d, corner, size, from, &err)
                          : zf_draft_flat(d, 5, 2, from, &err),
                  &err);
        assert_null(zf_build_seal(b, "test", NULL, &err));
        assert_non_null(
            strstr(zf_err_text(&err, text, sizeof text), "covered by more than one piece"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_the_file_and_the_name),
        cmocka_unit_test(sees_through_windows),
        cmocka_unit_test(neighbours_keep_their_shapes),
        cmocka_unit_test(sets_share_their_names),
        cmocka_unit_test(seals_sets_in_order),
        cmocka_unit_test(refuses_two_of_one_name),
        cmocka_unit_test(finds_a_hundred_thousand_names),
        cmocka_unit_test(a_prefix_moves_everything),
        cmocka_unit_test(refuses_paths_that_are_none),
        cmocka_unit_test(refuses_files_that_are_directories),
        cmocka_unit_test(tells_what_is_not_covered),
        cmocka_unit_test(degraded_loses_only_what_is_lost),
        cmocka_unit_test(keeps_its_limits),
        cmocka_unit_test(counts_notes_it_does_not_keep),
        cmocka_unit_test(selects_and_renames),
        cmocka_unit_test(keeps_ties_when_the_order_changes),
        cmocka_unit_test(refuses_selections_without_sense),
        cmocka_unit_test(splits_rules_at_the_last_plain_equals_sign),
        cmocka_unit_test(reports_patterns_that_fit_nothing),
        cmocka_unit_test(a_tensor_of_one_piece_takes_145_bytes),
        cmocka_unit_test(what_comes_behind_the_whole_is_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
