/* SPDX-License-Identifier: Apache-2.0 */
/* Files that their first read opens. */
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <zf/source/items.h>
#include <zf/source/store.h>

#include "unit/source/scratch.h"

enum { FILES = 40, THREADS = 8, ROUNDS = 200, LIMIT = 3 };

static struct zf_source *later_at(struct zf_store *st, const char *name)
{
    struct zf_err err;
    struct zf_source *s = zf_store_open_later(st, name, &err);

    assert_ok(s, &err);
    return s;
}

/* Until a change of a file that is written now would move its ctime.  Since Linux 6.13 a ctime may be ahead
 * of the coarse clock, by more than its next step, so that it is not enough to see that one move. */
static void let_tick_pass(void)
{
    struct timespec from, now;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &from), 0);
    do {
        assert_int_equal(clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
    } while (now.tv_sec < from.tv_sec ||
             (now.tv_sec == from.tv_sec && now.tv_nsec <= from.tv_nsec));
}

static void name_of(char out[20], int k)
{
    (void)snprintf(out, 20, "d/f%d", k);
}

/* File k holds its name and k times "x". */
static void text_of(char out[100], int k)
{
    int n = snprintf(out, 40, "d/f%d", k);

    memset(out + n, 'x', (size_t)k);
    out[n + k] = '\0';
}

static void write_files(const char *root)
{
    char name[20], text[100];

    for (int k = 0; k < FILES; k++) {
        name_of(name, k);
        text_of(text, k);
        scratch_file(root, name, text);
    }
    let_tick_pass();
}

static bool reads_right(struct zf_source *s, int k)
{
    char want[100], got[100] = "";
    struct zf_err err;

    text_of(want, k);
    return s->size == strlen(want) && zf_source_pread(s, got, strlen(want), 0, &err) &&
           strcmp(got, want) == 0;
}

static void nothing_is_opened_before_it_is_read(void **state)
{
    struct zf_source *file[FILES];
    struct zf_identity id;
    struct zf_err err;
    char name[20], text[100];

    write_files(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    int before = scratch_descriptors();
    for (int k = 0; k < FILES; k++) {
        name_of(name, k);
        text_of(text, k);
        file[k] = later_at(st, name);
        assert_int_equal(file[k]->size, strlen(text));
        assert_true(zf_source_identity(file[k], &id));
        assert_int_equal(id.size, strlen(text));
    }
    assert_ok(zf_store_unchanged(st, &err), &err);
    assert_int_equal(scratch_descriptors(), before);
    assert_true(reads_right(file[7], 7));
    assert_true(reads_right(file[7], 7));
    assert_int_equal(scratch_descriptors(), before + 1);
    zf_auto(source) struct zf_source *again = later_at(st, "d/f7");
    assert_ptr_equal(again, file[7]);
    for (int k = 0; k < FILES; k++) {
        assert_true(reads_right(file[k], k));
        zf_source_unref(&file[k]);
    }
}

struct crowd {
    struct zf_source *file[FILES];
    atomic_uint wrong;
};

static void *read_all(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int k = i * 7 % FILES;

        if (!reads_right(c->file[k], k))
            atomic_fetch_add(&c->wrong, 1);
    }
    return NULL;
}

static void many_threads_read_first(void **state)
{
    struct crowd c = {.wrong = 0};
    pthread_t t[THREADS];
    char name[20];

    write_files(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, LIMIT);
    int before = scratch_descriptors();
    for (int k = 0; k < FILES; k++) {
        name_of(name, k);
        c.file[k] = later_at(st, name);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_all, &c), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(c.wrong, 0);
    assert_true(scratch_descriptors() - before <= LIMIT + THREADS);
    for (int k = 0; k < FILES; k++)
        zf_source_unref(&c.file[k]);
}

static void a_process_short_of_descriptors_reads_all(void **state)
{
    struct zf_source *file[FILES];
    struct rlimit was, tight;
    char name[20];

    write_files(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    for (int k = 0; k < FILES; k++) {
        name_of(name, k);
        file[k] = later_at(st, name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    tight = was;
    tight.rlim_cur = (rlim_t)scratch_descriptors() + 4;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (int k = 0; k < FILES; k++) {
        assert_true(reads_right(file[k], k));
        zf_source_unref(&file[k]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

static void assert_fails(struct zf_source *s, enum zf_code code, const char *part)
{
    struct zf_err err;
    char b[3];

    assert_false(zf_source_pread(s, b, 3, 0, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, part))
        fail_msg("\"%s\" is not in \"%s\"", part, err.msg);
    assert_string_equal(err.path, s->name);
}

/* What happens to a file between the listing and the first read is found by that read. */
static void what_changed_before_the_first_read_is_stale(void **state)
{
    char path[4200], other[4200], text[100];
    struct zf_source *file[6];
    char name[20];

    write_files(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    for (int k = 0; k < 6; k++) {
        name_of(name, k + 10);
        file[k] = later_at(st, name);
    }
    scratch_path(*state, "d/f10", path);
    assert_int_equal(unlink(path), 0);
    assert_fails(file[0], ZF_E_STALE, "deleted after mounting");

    text_of(text, 11);
    scratch_file(*state, "d/new", text);
    scratch_path(*state, "d/new", other);
    scratch_path(*state, "d/f11", path);
    assert_int_equal(rename(other, path), 0);
    assert_fails(file[1], ZF_E_STALE, "the file was replaced after mounting");

    scratch_path(*state, "d/f12", path);
    assert_int_equal(truncate(path, 6), 0);
    assert_fails(file[2], ZF_E_IO, "11 bytes shorter than when it was mounted");
    scratch_path(*state, "d/f13", path);
    assert_int_equal(truncate(path, 100), 0);
    assert_fails(file[3], ZF_E_STALE, "grown by 82 bytes");

    text_of(text, 14);
    scratch_file(*state, "d/f14", text);
    assert_fails(file[4], ZF_E_STALE, "written to since mount time");

    scratch_path(*state, "d/f15", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(file[5], ZF_E_FORMAT, "this is a FIFO, not a file");
    for (int k = 0; k < 6; k++)
        zf_source_unref(&file[k]);
}

/* Another content of the same length at the same time: only ctime moves, if its clock has gone on. */
static void write_over(const char *root, const char *name)
{
    char path[4200];
    struct stat was;

    scratch_path(root, name, path);
    assert_int_equal(stat(path, &was), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "XXXX", 4, 2), 4);
    assert_int_equal(futimens(fd, (struct timespec[]){was.st_atim, was.st_mtim}), 0);
    assert_int_equal(close(fd), 0);
}

/* In the tick of the clock in which it was made, a file can be written to without a trace. */
static void a_file_of_this_very_moment_is_opened_at_once(void **state)
{
    char name[20];
    struct zf_err err;

    for (int i = 0; i < 50; i++) {
        char got[10] = "";

        (void)snprintf(name, sizeof name, "g%d", i);
        scratch_file(*state, name, "0123456789");
        zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
        zf_auto(source) struct zf_source *s = later_at(st, name);
        write_over(*state, name);
        if (zf_source_pread(s, got, sizeof got, 0, &err))
            assert_memory_equal(got, "0123456789", sizeof got);
    }
}

/* So it is opened, too, where it is only relied on; which one that is gone cannot be. */
static void a_file_of_this_very_moment_is_relied_on(void **state)
{
    char dir[20], name[22], path[4200];
    const struct zf_entry *e;
    struct zf_err err;
    int fresh = 0;
    size_t n;

    for (int i = 0; i < 50; i++) {
        (void)snprintf(dir, sizeof dir, "m%d", i);
        (void)snprintf(name, sizeof name, "%s/f", dir);
        scratch_file(*state, name, "0123456789");
        zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
        assert_ok(zf_store_rely(st, dir, &err), &err);
        assert_ok(zf_store_unchanged(st, &err), &err);
        write_over(*state, name);
        assert_false(zf_store_unchanged(st, &err));
        assert_int_equal(err.code, ZF_E_STALE);
        zf_auto(store) struct zf_store *gone = scratch_store(*state, 8);
        assert_ok(zf_store_list(gone, dir, &e, &n, &err), &err);
        scratch_path(*state, name, path);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(zf_store_rely(gone, dir, &err), !e->fresh);
        fresh += e->fresh;
    }
    assert_true(fresh > 0);
}

static void a_look_back_sees_what_was_not_opened(void **state)
{
    struct zf_err err;
    char text[100];

    write_files(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = later_at(st, "d/f8");
    text_of(text, 9);
    scratch_file(*state, "d/f9", text); /* nobody asked for it */
    assert_ok(zf_store_unchanged(st, &err), &err);
    text_of(text, 8);
    scratch_file(*state, "d/f8", text);
    assert_false(zf_store_unchanged(st, &err));
    assert_err(&err, ZF_E_STALE, ZF_OFF_NONE, "is being written");
    assert_non_null(strstr(err.path, "/d"));
}

static void a_directory_that_is_relied_on_is_looked_at(void **state)
{
    struct zf_err err;

    write_files(*state);
    let_tick_pass();
    for (int change = 0; change < 3; change++) {
        zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
        int before = scratch_descriptors();

        assert_ok(zf_store_rely(st, "d", &err), &err);
        assert_int_equal(scratch_descriptors(), before); /* no file was opened */
        assert_ok(zf_store_unchanged(st, &err), &err);
        if (change == 0)
            scratch_file(*state, "d/f9", "as long?!"); /* another content */
        else
            scratch_file(*state, change == 1 ? "d/new" : "e/new", "x");
        assert_int_equal(zf_store_unchanged(st, &err), change == 2); /* e is nobody's */
        let_tick_pass();
    }
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    assert_false(zf_store_rely(st, "none", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
}

static void what_is_no_file_is_refused(void **state)
{
    struct zf_err err;

    write_files(*state);
    scratch_link(*state, "d/dangling", "nothing");
    scratch_link(*state, "d/link", "f3");
    let_tick_pass();
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    assert_null(zf_store_open_later(st, "d/none", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_null(zf_store_open_later(st, "d", &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "a directory, not a file");
    assert_null(zf_store_open_later(st, "d/dangling", &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "a dangling link");
    zf_auto(source) struct zf_source *link = later_at(st, "d/link");
    assert_true(reads_right(link, 3));
}

/* ---- many files in one row ------------------------------------------------------------------- */

static bool chunk_locate(void *ctx, struct zf_source *file, const struct zf_item *item,
                         struct zf_item_at *out, struct zf_err *err)
{
    char name[20];

    assert_null(file);
    name_of(name, (int)item->rec_off);
    out->src = zf_store_open_later(ctx, name, err);
    return out->src != NULL;
}

static void chunks_are_items(void **state)
{
    struct zf_err err;
    uint64_t addr[FILES], size = 0;
    char all[FILES * 50] = "", got[FILES * 50] = "", text[100], path[4200];

    write_files(*state);
    scratch_path(*state, "d/f30", path);
    assert_int_equal(truncate(path, 5), 0);
    let_tick_pass();
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *row = zf_items_new(NULL, chunk_locate, st, NULL, &err);
    assert_ok(row, &err);
    int before = scratch_descriptors();
    for (int k = 0; k < FILES; k++) {
        text_of(text, k);
        assert_ok(zf_items_add(row, (uint64_t)k, strlen(text), &addr[k], &err), &err);
        assert_int_equal(addr[k], size);
        size += strlen(text);
        strcat(all, text);
    }
    zf_items_seal(row);
    assert_int_equal(scratch_descriptors(), before);
    assert_ok(zf_source_pread(row, got, addr[30] - 3, 3, &err), &err);
    assert_memory_equal(got, all + 3, addr[30] - 3);
    assert_false(zf_source_pread(row, got, 2, addr[30], &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "has 5 bytes, expected 35");
    assert_string_equal(strrchr(err.path, '/'), "/f30");
}

int main(void)
{
#define SCRATCH(fn) cmocka_unit_test_setup_teardown(fn, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        SCRATCH(nothing_is_opened_before_it_is_read),
        SCRATCH(many_threads_read_first),
        SCRATCH(a_process_short_of_descriptors_reads_all),
        SCRATCH(what_changed_before_the_first_read_is_stale),
        SCRATCH(a_file_of_this_very_moment_is_opened_at_once),
        SCRATCH(a_file_of_this_very_moment_is_relied_on),
        SCRATCH(a_look_back_sees_what_was_not_opened),
        SCRATCH(a_directory_that_is_relied_on_is_looked_at),
        SCRATCH(what_is_no_file_is_refused),
        SCRATCH(chunks_are_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
