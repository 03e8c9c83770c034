/* SPDX-License-Identifier: Apache-2.0 */
/* A dialect of DCP calls tensors by names of its own, hides some, and shows the layers of a stack: what
 * comes out is what the plain reader gives under the plain names. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/dcp.h>
#include <zf/find.h>

#define ROWS 6
#define COLS 4
#define BYTES (ROWS * COLS * 4)

static struct zf_limits lim;
static struct zf_err err;
static struct zf_store *st;
static char dir[300];

static void run(const char *cmd, const char *more)
{
    const char *src = getenv("top_srcdir");
    char text[1000];

    snprintf(text, sizeof text, cmd, src ? src : ".", dir, more);
    assert_int_equal(system(text), 0);
}

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    snprintf(dir, sizeof dir, "/tmp/zf-dcp-rule-%ld", (long)getpid());
    run("python3 '%s/tests/support/mkdcp.py' '%s' %s",
        "--tensors 3 --ranks 2 --rows 6 --cols 4 --bytes 1");
    st = zf_store_dir(dir, &lim, &err);
    return st ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    zf_store_unref(&st);
    run("true '%s'; rm -rf '%s' %s", "");
    return 0;
}

/* layers.0.weight is called first, layers.1.weight is not shown, layers.2.weight is a stack. */
static bool rename_layers(void *ctx, struct zf_path path, struct zf_renamed *out, struct zf_err *e)
{
    static const struct zf_step first[] = {{"model", 5, false}, {"first", 5, false}};
    int *calls = ctx;

    (void)e;
    ++*calls;
    assert_int_equal(path.n, 2);
    switch (path.step[1].p[strlen("layers.")]) {
    case '0':
        out->path = (struct zf_path){first, 2};
        break;
    case '1':
        out->path.n = 0;
        break;
    default:
        out->set = "stacked";
    }
    return true;
}

/* Two tensors of the upper and the lower rows of the stack. */
static void split_stack(struct zf_build *b)
{
    const char *name = "model.layers.2.weight";
    struct zf_draft *of = zf_build_find(b, (struct zf_spot){"stacked", name, strlen(name)});
    const uint64_t shape[] = {ROWS / 2, COLS};

    assert_non_null(of);
    for (uint64_t i = 0; i < 2; i++) {
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", i ? "down" : "up", i ? 4 : 2},
                                             (struct zf_type){ZF_DT_F32, 2, shape}, &err);

        assert_ok(d, &err);
        assert_ok(zf_draft_part(d, 0, ROWS * COLS / 2, of, i * ROWS * COLS / 2, &err), &err);
    }
}

static const struct zf_tensor *tensor_of(const struct zf_checkpoint *c, const char *set,
                                         const char *name)
{
    const struct zf_set *s = zf_checkpoint_set(c, set);

    return s ? zf_set_find(s, name, strlen(name)) : NULL;
}

static void assert_bytes(const struct zf_tensor *t, const struct zf_tensor *want, uint64_t off)
{
    char got[BYTES], wanted[BYTES];
    uint64_t n;

    assert_non_null(t);
    assert_non_null(want);
    n = zf_map_size(t->data);
    assert_true(n <= BYTES);
    assert_ok(zf_map_read(t->data, got, n, 0, &err), &err);
    assert_ok(zf_map_read(want->data, wanted, n, off, &err), &err);
    assert_memory_equal(got, wanted, n);
}

static void a_dialect_names_tensors(void **state)
{
    struct zf_open_opts o = {.lim = &lim};
    int calls = 0;
    const struct zf_name_rule rule = {rename_layers, &calls};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *plain = zf_open(st, &o, &err);
    assert_ok(plain, &err);

    struct zf_build *b = zf_build_new(st, &lim, false, &err);
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(&lim, &err);
    assert_true(b && d);
    assert_ok(zf_dcp_read(d, st, "", ".metadata", &lim, b, &err), &err);
    assert_ok(zf_dcp_place(d, st, &lim, b, &rule, &err), &err);
    split_stack(b);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "dcp", "", &err);
    assert_ok(c, &err);

    for (uint64_t i = 0, n_bytes = 0; i < zf_dcp_n_keys(d); i++) {
        struct zf_dcp_key k;
        zf_auto(source) struct zf_source *item = NULL;
        uint8_t head[2];

        assert_ok(zf_dcp_key(d, i, &k, &err), &err);
        if (!k.is_bytes) {
            assert_int_equal(k.type.ndim, 2);
            assert_non_null(k.cuts); /* the rows, a half a rank */
            assert_int_equal(k.cuts[0], 2);
            assert_int_equal(k.cuts[1], 1);
            assert_true(!k.draft == !strcmp(k.name, "model.layers.1.weight"));
            assert_null(zf_dcp_item(d, i, &err));
            zf_err_clear(&err);
            continue;
        }
        item = zf_dcp_item(d, i, &err);
        assert_ok(item, &err);
        assert_ok(zf_source_pread(item, head, 2, 0, &err), &err);
        assert_memory_equal(head, "PK", 2);
        assert_int_equal(++n_bytes, 1);
    }
    assert_int_equal(calls, 6);
    assert_int_equal(zf_checkpoint_set(c, "")->n, 3);
    assert_bytes(tensor_of(c, "", "first"), tensor_of(plain, "", "layers.0.weight"), 0);
    const struct zf_tensor *stack = tensor_of(plain, "", "layers.2.weight");
    assert_bytes(tensor_of(c, "", "up"), stack, 0);
    assert_bytes(tensor_of(c, "", "down"), stack, BYTES / 2);
    assert_bytes(tensor_of(c, "stacked", "model.layers.2.weight"), stack, 0);
    assert_int_equal(c->n_blobs, plain->n_blobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dialect_names_tensors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
