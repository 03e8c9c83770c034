/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of kept models, and a model there and back. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keep/keep.h"
#include "support/same_model.h"

static char dir[] = "/tmp/zf-keep-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int drop_dir(void **state)
{
    uint64_t bytes;
    struct zf_err err;

    (void)state;
    (void)!zf_keep_clear(dir, &bytes, &err);
    return rmdir(dir);
}

static void put(int fd, const char *name, size_t n, time_t used)
{
    static const char zeros[1000];
    const struct dir_part part = {zeros, n};
    struct zf_err err;

    assert_ok(dir_write(fd, name, &part, 1, &err), &err);
    assert_int_equal(utimensat(fd, name, (struct timespec[]){{used, 0}, {used, 0}}, 0), 0);
}

#define A "00000000000000000000000000000001.model"
#define B "00000000000000000000000000000002.model"
#define C "00000000000000000000000000000003.model"
#define D "00000000000000000000000000000004.model" /* a directory */

static void the_longest_unused_go_first(void **state)
{
    struct zf_err err;
    int fd = dir_open(dir, true, &err);
    uint64_t n;

    (void)state;
    assert_true(fd >= 0);
    put(fd, A, 100, 2000000000);
    put(fd, B, 100, 1000000000);
    put(fd, C, 100, 1500000000);
    put(fd, ".new-1-ff", 7, 1000000000); /* of a process that was killed */
    put(fd, ".new-2-ff", 7, time(NULL) - 60);    /* of one that is at work */
    put(fd, ".newer", 7, 1000000000);
    put(fd, "mine.model", 1000, 1000000000);
    assert_int_equal(mkdirat(fd, D, 0700), 0);
    dir_trim(fd, 300);
    assert_int_equal(faccessat(fd, B, F_OK, 0), 0);
    assert_int_not_equal(faccessat(fd, ".new-1-ff", F_OK, 0), 0);
    assert_int_equal(unlinkat(fd, ".new-2-ff", 0), 0);
    assert_int_equal(unlinkat(fd, ".newer", 0), 0);
    dir_trim(fd, 250);
    assert_int_not_equal(faccessat(fd, B, F_OK, 0), 0);
    uint8_t *p = dir_read(fd, C, 100, &n, &err); /* which is used now */
    assert_true(p && n == 100);
    free(p);
    dir_trim(fd, 150);
    /* A is of the year 2033 */
    assert_int_not_equal(faccessat(fd, C, F_OK, 0), 0);
    assert_int_equal(faccessat(fd, A, F_OK, 0), 0);
    assert_null(dir_read(fd, A, 99, &n, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "too large");
    assert_int_equal(faccessat(fd, "mine.model", F_OK, 0), 0);
    assert_int_equal(unlinkat(fd, "mine.model", 0), 0);
    assert_int_equal(unlinkat(fd, D, AT_REMOVEDIR), 0);
    (void)close(fd);
}

static struct zf_store *a_store(const struct zf_limits *lim, const char *at)
{
    struct zf_err err;
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d", at);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs("0123456789abcdef", f) >= 0 && fclose(f) == 0);
    struct zf_store *st = zf_store_dir(at, lim, &err);
    assert_non_null(st);
    return st;
}

static void drop_store(const char *at)
{
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/d", at);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(at), 0);
}

/* Until the clock that dates files has gone on for certain. */
static void grow_old(const char *at)
{
    struct timespec now;
    struct stat st;
    char path[100];

    (void)snprintf(path, sizeof path, "%s/d/a.bin", at);
    assert_int_equal(stat(path, &st), 0);
    do {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    } while (now.tv_sec < st.st_ctim.tv_sec + 3 &&
             (now.tv_sec - st.st_ctim.tv_sec) * 1000 +
                     (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000 <
                 (st.st_ctim.tv_nsec ? 50 : 2500));
}

/* A model of windows on a file, swapped and not. */
static struct zf_checkpoint *a_model(struct zf_store *st, struct zf_keep *k,
                                     const struct zf_limits *lim)
{
    struct zf_err err;
    struct zf_build *b = zf_build_new(st, lim, false, &err);
    zf_auto(source) struct zf_source *file = zf_store_open(st, "d/a.bin", &err);
    zf_auto(source) struct zf_source *part = file ? zf_window_new(file, 2, 8, "part", &err) : NULL;
    zf_auto(source) struct zf_source *swapped = part ? zf_swap_new(part, 4, &err) : NULL;
    const uint64_t shape[] = {2};

    assert_true(b && swapped);
    for (int i = 0; i < 2; i++) {
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", i ? "x" : "y", 1},
                                             (struct zf_type){ZF_DT_F32, 1, shape}, &err);

        assert_true(d && zf_draft_flat(d, 0, 2, (struct zf_from){.src = i ? part : swapped}, &err));
    }
    assert_false(zf_store_has(st, "d/latest", ZF_ENTRY_FILE));
    zf_keep_sealing(k, b, "test", "why");
    return zf_build_seal(b, "test", "why", &err);
}

static void a_model_comes_back(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX";
    struct zf_err err;

    (void)state;
    assert_non_null(mkdtemp(at));
    zf_auto(keep) struct zf_keep *early = zf_keep_new(dir, "early\n", 1 << 20, &lim, &err);
    zf_auto(store) struct zf_store *st = a_store(&lim, at);
    assert_non_null(early);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(dir, "key\n", 1 << 20, &lim, &err);
    assert_non_null(k);
    assert_null(zf_keep_load(k, st, &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(st, k, &lim);
    assert_non_null(c);
    assert_ok(zf_keep_put(k, st, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *d = zf_keep_load(k, st, &err);
    assert_ok(d, &err);
    assert_true(d->kept && !c->kept);
    same_model(c, d);
    /* What is read right after it was written may be written once more at the same time. */
    zf_auto(checkpoint) struct zf_checkpoint *young = a_model(st, early, &lim);
    assert_true(young && !zf_keep_put(early, st, &err));
    assert_err(&err, ZF_E_STALE, ZF_OFF_NONE, "it changed only a moment ago");
    zf_auto(keep) struct zf_keep *small = zf_keep_new(dir, "small\n", 10, &lim, &err);
    assert_non_null(small);
    zf_auto(checkpoint) struct zf_checkpoint *e = a_model(st, small, &lim);
    assert_true(e && !zf_keep_put(small, st, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "larger");
    drop_store(at);
}

/* Whatever byte of its head or of its end another one is, it is not believed; and it is again, put right. */
static void a_damaged_byte_is_noticed(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    char at[] = "/tmp/zf-kept-XXXXXX", own[] = "/tmp/zf-keep-XXXXXX",
         path[sizeof own + 1 + sizeof A];
    struct zf_err err;
    uint64_t bytes;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(at));
    assert_non_null(mkdtemp(own));
    zf_auto(store) struct zf_store *store = a_store(&lim, at);
    grow_old(at);
    zf_auto(keep) struct zf_keep *k = zf_keep_new(own, "key\n", 1 << 20, &lim, &err);
    assert_ok(k, &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = a_model(store, k, &lim);
    assert_true(c && zf_keep_put(k, store, &err));
    (void)snprintf(path, sizeof path, "%s/%s", own, k->name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > KEEP_KEY_AT + 20);
    for (off_t i = 0; i < st.st_size; i = i == KEEP_KEY_AT + 10 ? st.st_size - 10 : i + 1) {
        unsigned char was, other;

        assert_int_equal(pread(fd, &was, 1, i), 1);
        other = was ^ 1;
        assert_int_equal(pwrite(fd, &other, 1, i), 1);
        assert_null(zf_keep_load(k, store, &err));
        assert_int_equal(pwrite(fd, &was, 1, i), 1);
        zf_auto(checkpoint) struct zf_checkpoint *again = zf_keep_load(k, store, &err);
        assert_ok(again, &err);
    }
    (void)close(fd);
    assert_ok(zf_keep_clear(own, &bytes, &err), &err);
    assert_int_equal(rmdir(own), 0);
    drop_store(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_unused_go_first),
        cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(a_damaged_byte_is_noticed),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
