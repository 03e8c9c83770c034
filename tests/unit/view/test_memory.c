/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out while a tree is made, looked at and read, at each request in turn: what there is is refused, fails, or is
 * what it is with memory enough; never other bytes, another size, or a file too few. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "made.h"
#include "support/broken_io.h"
#include "support/tight_arena.h"

enum { FILES = 400, BYTES = 1 << 17 };

static struct file {
    char path[700];
    uint64_t size;
    unsigned char *bytes; /* NULL: it cannot be read */
} file[FILES];
static size_t n_files;

/* One of everything: types that casts change and leave, ties, names that are too long, sets, side files, and what is lost. */
static struct zf_checkpoint *checkpoint(bool degraded)
{
    static const char config[] = "{\"torch_dtype\": \"bfloat16\"}";
    struct zf_build *b = made_build(degraded);
    const uint64_t square[] = {3, 5}, n = 40;
    char longest[301];

    memset(longest, 'l', 300), longest[300] = '\0';
    (void)made_vector(b, "bf", ZF_DT_BF16, 7);
    (void)made_vector(b, longest, ZF_DT_F32, 2);
    struct zf_draft *d = made_tensor(b, "", "square", ZF_DT_F32, 2, square);
    assert_ok(zf_build_alias(b, d, "tied", 4, &err), &err);
    (void)made_tensor(b, "optim/exp_avg", "square", ZF_DT_F32, 2, square);
    (void)made_tensor(b, "stored", "byte", ZF_DT_U8, 1, &n);
    assert_ok(zf_build_text(b, "hf/config.json", config, sizeof config - 1, &err), &err);
    assert_ok(zf_build_text(b, "state/step.json", "3", 1, &err), &err);
    if (degraded) {
        d = zf_build_tensor(b, (struct zf_spot){"", "gone", 4}, (struct zf_type){ZF_DT_F16, 1, &n},
                            &err);
        assert_ok(d && zf_draft_flat(d, 0, n,
                                     (struct zf_from){.lost = &(struct zf_lost){.why = "gone"}},
                                     &err),
                  &err);
    }
    struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);
    assert_ok(c, &err);
    return c;
}

static struct zf_tree *tree_of(struct zf_checkpoint *c, bool omit_lost)
{
    static const char *const keep[] = {"bf"};
    static struct zf_limits lim;

    lim = zf_limits_default();
    return zf_tree_new(
        c,
        &(struct zf_view_opts){
            .omit_lost = omit_lost, .shard_size = 60, .keep = keep, .n_keep = 1, .lim = &lim},
        &err);
}

/* ---- with memory enough -------------------------------------------------------------------------- */

static void note_below(struct zf_tree *t, uint64_t dir, const char *path)
{
    char name[256];
    struct zf_stat st;

    for (uint64_t at = 0; t->ops->entry(t, dir, at, name, &st); at++) {
        struct file *f = &file[n_files];
        size_t n = 0;

        assert_true(n_files < FILES);
        (void)snprintf(f->path, sizeof f->path, "%s%s%s", path, *path ? "/" : "", name);
        if (st.kind == ZF_NODE_DIR) {
            char sub[700];

            memcpy(sub, f->path, sizeof sub);
            note_below(t, st.ino, sub);
            continue;
        }
        assert_true(st.size < BYTES);
        f->size = st.size;
        f->bytes = malloc(BYTES);
        assert_non_null(f->bytes);
        if (!t->ops->read(t, st.ino, f->bytes, BYTES, 0, &n, &err)) {
            assert_true(st.lost);
            free(f->bytes);
            f->bytes = NULL;
        } else {
            assert_int_equal(n, st.size);
        }
        n_files++;
    }
}

static void forget(void)
{
    while (n_files > 0)
        free(file[--n_files].bytes);
}

/* ---- and without ------------------------------------------------------------------------------------ */

/* Each file is as it was, or, if `may_fail`, answers an error. */
static void look(struct zf_tree *t, bool may_fail)
{
    static unsigned char bytes[BYTES];

    for (size_t i = 0; i < n_files; i++) {
        const struct file *f = &file[i];
        struct zf_stat st;
        size_t n = 0;

        if (!zf_tree_walk(t, f->path, &st)) {
            assert_true(may_fail);
            continue;
        }
        bool ok = t->ops->read(t, st.ino, bytes, sizeof bytes, 0, &n, &err);
        if (!ok && !may_fail && f->bytes)
            fail_msg("%s cannot be read any more: %s", f->path, err.msg);
        if (ok && (!f->bytes || n != f->size || memcmp(bytes, f->bytes, n) != 0))
            fail_msg("%s has other bytes", f->path);
        if (!may_fail && st.size != f->size)
            fail_msg("%s has another size", f->path);
    }
}

static void each_request_fails(bool degraded, bool omit_lost)
{
    struct broken_plan plan = {.kind = BROKEN_HEAP};

    if (!broken_has_heap())
        skip();
    struct zf_tree *t = tree_of(checkpoint(degraded), omit_lost);

    assert_ok(t, &err);
    note_below(t, ZF_TREE_ROOT, "");
    assert_true(n_files > 30);
    zf_tree_free(t);
    struct zf_checkpoint *c = checkpoint(degraded);
    broken_begin(NULL);
    t = tree_of(c, omit_lost);
    look(t, false);
    (void)broken_end();
    zf_tree_free(t);
    const long calls = broken_heap_calls();
    assert_true(calls > 100);
    for (plan.at = 1; plan.at <= calls; plan.at++) {
        c = checkpoint(degraded);
        zf_err_clear(&err);
        broken_begin(&plan);
        t = tree_of(c, omit_lost);
        if (t)
            look(t, true);
        else if (err.code != ZF_E_NOMEM)
            fail_msg("request %ld of %ld: %s", plan.at, calls, err.msg);
        (void)broken_end();
        if (t)
            look(t, false);
        zf_tree_free(t);
    }
    forget();
}

static void of_a_whole_checkpoint(void **state)
{
    (void)state;
    each_request_fails(false, false);
}

static void of_a_damaged_one(void **state)
{
    (void)state;
    each_request_fails(true, false);
}

static void of_one_whose_losses_are_left_out(void **state)
{
    (void)state;
    each_request_fails(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_whole_checkpoint),
        cmocka_unit_test(of_a_damaged_one),
        cmocka_unit_test(of_one_whose_losses_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
