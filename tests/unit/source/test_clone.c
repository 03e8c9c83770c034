/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a shard given to another file.  The file system is our own here: where it can share, it copies. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <zf/source/clone.h>
#include <zf/source/store.h>

#include "unit/source/scratch.h"

enum { BLOCK = ZF_CLONE_BLOCK, SIZE = 5 * BLOCK + 100, ROOM = 8 * BLOCK };

static struct {
    unsigned asked;
    bool cannot;         /* it shares nothing */
    const char *rewrite; /* a file that somebody writes to meanwhile */
} fs;

static unsigned char shard[SIZE], piece[BLOCK];

int ioctl(int fd, unsigned long what, ...)
{
    va_list args;

    va_start(args, what);
    const struct file_clone_range *r = va_arg(args, const struct file_clone_range *);
    va_end(args);
    if (what != FICLONERANGE) {
        errno = ENOTTY;
        return -1;
    }
    fs.asked++;
    assert_int_equal((r->src_offset | r->dest_offset | r->src_length) % BLOCK, 0);
    for (uint64_t at = 0; !fs.cannot && at < r->src_length; at += BLOCK) {
        assert_int_equal(pread((int)r->src_fd, piece, BLOCK, (off_t)(r->src_offset + at)), BLOCK);
        assert_int_equal(pwrite(fd, piece, BLOCK, (off_t)(r->dest_offset + at)), BLOCK);
    }
    if (fs.rewrite)
        assert_int_equal(truncate(fs.rewrite, SIZE + 1), 0);
    errno = EOPNOTSUPP;
    return fs.cannot ? -1 : 0;
}

/* ---- one store of one file, and an empty file ---------------------------------------------------- */

struct made {
    struct zf_store *st;
    struct zf_source *shard;
    int to;
};

static struct made make(const char *root)
{
    struct zf_err err;
    char path[4200];
    struct made m;

    memset(&fs, 0, sizeof fs);
    for (size_t i = 0; i < sizeof shard; i++)
        shard[i] = (unsigned char)(1 + i % 251);
    scratch_bytes(root, "shard", shard, sizeof shard);
    m.st = scratch_store(root, 8);
    m.shard = zf_store_open(m.st, "shard", &err);
    assert_ok(m.shard, &err);
    scratch_path(root, "to", path);
    m.to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(m.to >= 0);
    return m;
}

static void unmake(struct made *m)
{
    zf_source_unref(&m->shard);
    zf_store_unref(&m->st);
    assert_int_equal(close(m->to), 0);
}

/* The file has `n` bytes of the shard from `from` on at `at`, and nothing else. */
static void expect(int fd, uint64_t at, uint64_t from, uint64_t n)
{
    static unsigned char want[ROOM], got[ROOM];

    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    memcpy(want + at, shard + from, n);
    assert_int_equal(pread(fd, got, sizeof got, 0), n ? at + n : 0);
    assert_memory_equal(got, want, sizeof got);
}

/* ---- tests --------------------------------------------------------------------------------------- */

static void whole_blocks_are_shared(void **state)
{
    struct made m = make(*state);
    struct zf_clone c = {
        .off = BLOCK, .n = 3 * BLOCK + 50, .to_off = 2 * BLOCK, .to = m.to, .done = 7};
    struct zf_err err;

    assert_ok(zf_source_clone(m.shard, &c, &err), &err);
    assert_int_equal(c.done, 3 * BLOCK);
    assert_false(c.refused);
    assert_int_equal(fs.asked, 1);
    expect(m.to, 2 * BLOCK, BLOCK, 3 * BLOCK);
    unmake(&m);
}

/* What a part of a file begins with may line up where that part's own offsets do not show it. */
static void a_window_is_seen_through(void **state)
{
    struct made m = make(*state);
    struct zf_err err;
    zf_auto(source) struct zf_source *w =
        zf_window_new(m.shard, BLOCK - 16, 3 * BLOCK, "part", &err);
    struct zf_clone c = {.off = 16, .n = 3 * BLOCK - 16, .to = m.to};

    assert_ok(w && zf_source_clone(w, &c, &err), &err);
    assert_int_equal(c.done, 2 * BLOCK);
    expect(m.to, 0, BLOCK, 2 * BLOCK);
    unmake(&m);
}

static void what_does_not_line_up_is_not_asked_for(void **state)
{
    static const struct zf_clone odd[] = {{.off = BLOCK + 1, .n = 2 * BLOCK},
                                          {.off = BLOCK, .n = 2 * BLOCK, .to_off = 512},
                                          {.off = BLOCK, .n = BLOCK - 1}};
    struct made m = make(*state);
    struct zf_err err;
    zf_auto(source) struct zf_source *mem = zf_mem_new("made", calloc(1, BLOCK), BLOCK, true, &err);

    for (size_t i = 0; i <= sizeof odd / sizeof odd[0]; i++) {
        bool last = i == sizeof odd / sizeof odd[0];
        struct zf_clone c = last ? (struct zf_clone){.n = BLOCK} : odd[i];

        c.to = m.to;
        c.done = 7;
        assert_ok(zf_source_clone(last ? mem : m.shard, &c, &err), &err);
        assert_int_equal(c.done, 0);
        assert_false(c.refused);
    }
    assert_int_equal(fs.asked, 0);
    expect(m.to, 0, 0, 0);
    unmake(&m);
}

static void a_file_system_that_cannot_says_so(void **state)
{
    struct made m = make(*state);
    struct zf_clone c = {.n = 2 * BLOCK, .to = m.to, .done = 7};
    struct zf_err err;

    fs.cannot = true;
    assert_ok(zf_source_clone(m.shard, &c, &err), &err);
    assert_int_equal(c.done, 0);
    assert_true(c.refused);
    unmake(&m);
}

/* Whether it was written to before or while blocks are shared, what was mounted is not there any more. */
static void a_file_that_changes_is_not_shared(void **state)
{
    for (int before = 0; before < 2; before++) {
        struct made m = make(*state);
        struct zf_clone c = {.n = 2 * BLOCK, .to = m.to};
        struct zf_err err;
        char path[4200];

        scratch_path(*state, "shard", path);
        fs.rewrite = path;
        if (before)
            assert_int_equal(truncate(path, SIZE + 1), 0);
        assert_false(zf_source_clone(m.shard, &c, &err));
        assert_int_equal(err.code, ZF_E_STALE);
        assert_string_equal(err.path, m.shard->name);
        assert_int_equal(fs.asked, !before);
        unmake(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_blocks_are_shared, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_window_is_seen_through, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_line_up_is_not_asked_for, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_system_that_cannot_says_so, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_changes_is_not_shared, scratch_setup,
                                        scratch_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
