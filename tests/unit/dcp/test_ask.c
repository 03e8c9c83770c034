/* SPDX-License-Identifier: Apache-2.0 */
/* What a family may ask about the keys of a save: types, cuts, the bytes of an item. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/dcp.h>
#include <zf/find.h>

#include "src/dcp/bytes_items.h"
#include "src/dcp/items.h"

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
    snprintf(dir, sizeof dir, "/tmp/zf-dcp-ask-%ld", (long)getpid());
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

static void keys_and_their_bytes(void **state)
{
    (void)state;
    struct zf_build *b = zf_build_new(st, &lim, false, &err);
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(&lim, &err);
    assert_true(b && d);
    assert_ok(zf_dcp_read(d, st, "", ".metadata", &lim, b, &err), &err);
    assert_ok(zf_dcp_place(d, st, &lim, b, &err), &err);
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
            assert_non_null(k.draft);
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
    assert_int_equal(zf_checkpoint_set(c, "")->n, 3);
}

/* An item may be shorter than anything that torch.save writes; then it is bytes. */
static void short_items_are_bytes(void **state)
{
    static char bytes[] = "PKPK";

    (void)state;
    for (uint64_t n = 0; n < 4; n++) {
        zf_auto(source) struct zf_source *file = zf_mem_new("__0_0.distcp", bytes, 4, false, &err);
        const struct dcp_item item = {.wrap = ZF_DCP_PLAIN, .off = 4 - n, .len = n};
        zf_auto(dcp_look) struct dcp_look look = {0};

        assert_ok(file, &err);
        assert_ok(dcp_look_init(&look, file, item, 4, &lim, &err), &err);
        assert_null(look.torch);
        assert_int_equal(look.body->size, n);
    }
}

/* Which cuts are told of a tensor's rows, by the chunks that hold them. */
static void what_is_a_grid(void **state)
{
    /* A shape stands behind its corner (metadata_keep_box). */
    static const uint64_t from_0[] = {0, 5}, from_0_0[] = {0, 0, 5, 4}, five[] = {5};
    const uint64_t *const rows = from_0 + 1, *const flat = from_0_0 + 2;
    const struct {
        struct dcp_key key;
        uint64_t box[2][4]; /* starts, then sizes; a size of 0: there is no such chunk */
        uint64_t want;      /* chunks of the first dimension; 0: it is no grid */
    } row[] = {
        {{.ndim = 1, .shape = rows}, {{0, 3}, {3, 2}}, 2},
        {{.ndim = 1, .shape = rows}, {{0, 5}}, 1},
        {{.ndim = 1, .shape = rows}, {{0, 2}, {2, 3}}, 0}, /* the larger one comes last */
        {{.ndim = 1, .shape = rows}, {{0, 4}}, 0},         /* a row is missing */
        {{.ndim = 1, .shape = rows}, {{0, 3}}, 0},         /* the second of two */
        {{.ndim = 1, .shape = rows, .doubtful = true}, {{0, 3}, {3, 2}}, 0},
        {{.ndim = 1, .shape = rows, .is_bytes = true}, {{0, 5}}, 0},
        /* Flattened: a cell's elements may be in several chunks, which count no cells. */
        {{.ndim = 2, .shape = flat, .whole = five}, {{0, 0, 3, 4}, {3, 0, 2, 4}}, 2},
        {{.ndim = 2, .shape = flat, .whole = five}, {{0, 0, 5, 1}, {0, 1, 5, 3}}, 1},
        {{.ndim = 2, .shape = flat, .whole = five}, {{0, 0, 2, 4}, {2, 0, 3, 4}}, 0},
        {{.ndim = 2, .shape = flat, .whole = five, .doubtful = true}, {{0, 0, 5, 4}}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(&lim, &err);
        struct zf_dcp_key k;
        uint32_t number;
        bool added;

        assert_ok(d && dcp_take_key(d, "w", 1, &number, &added, &err), &err);
        const uint32_t ndim = row[i].key.ndim;
        struct dcp_key *key = &d->key.at[number];
        const char *name = key->name;
        *key = row[i].key;
        key->name = name, key->name_len = 1;
        for (size_t c = 0; c < 2 && row[i].box[c][ndim]; c++) {
            uint64_t *box = dcp_box_room(d, ndim, &err);

            assert_ok(box, &err);
            memcpy(box, row[i].box[c], 2 * ndim * sizeof *box);
            assert_ok(dcp_add_chunk(d, number, false, &lim, &err), &err);
        }
        assert_ok(zf_dcp_key(d, number, &k, &err), &err);
        if (row[i].want ? !k.cuts || k.cuts[0] != row[i].want : k.cuts != NULL) {
            fail_msg("row %zu: %s, %llu", i, k.cuts ? "a grid" : "none",
                     k.cuts ? (unsigned long long)k.cuts[0] : 0ull);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_grid),
        cmocka_unit_test(keys_and_their_bytes),
        cmocka_unit_test(short_items_are_bytes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
