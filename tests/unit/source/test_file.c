/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel does to files while they are served. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include <zf/source/store.h>

#include "support/next.h"
#include "unit/source/scratch.h"

/* So many reads to come are interrupted by a signal before they begin. */
static atomic_int interrupts;

static bool interrupted(void)
{
    if (interrupts == 0)
        return false;
    interrupts--;
    errno = EINTR;
    return true;
}

ssize_t pread(int fd, void *p, size_t n, off_t off)
{
    return interrupted() ? -1 : NEXT(pread)(fd, p, n, off);
}

/* Of a medium with a bad sector. */
static bool only_small_reads;

ssize_t preadv(int fd, const struct iovec *v, int n, off_t off)
{
    if (only_small_reads) {
        errno = EIO;
        return -1;
    }
    return interrupted() ? -1 : NEXT(preadv)(fd, v, n, off);
}

static struct zf_source *file_at(struct zf_store *st, const char *name)
{
    struct zf_err err;
    struct zf_source *s = zf_store_open(st, name, &err);

    assert_ok(s, &err);
    return s;
}

/* Opens another file, so that a pool of one forgets `a`. */
static void push_out(struct zf_store *st)
{
    struct zf_err err;
    char b;
    zf_auto(source) struct zf_source *other = file_at(st, "other");

    assert_ok(zf_source_pread(other, &b, 1, 0, &err), &err);
}

static void assert_fails(struct zf_source *s, enum zf_code code, const char *part)
{
    struct zf_err err;
    char b[4];
    struct iovec iov[2] = {{b, 1}, {b + 1, 3}};

    assert_false(zf_source_pread(s, b, 4, 0, &err));
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.msg, part));
    assert_string_equal(err.path, s->name);
    assert_false(zf_source_preadv(s, iov, 2, 0, &err));
    assert_int_equal(err.code, code);
}

static void assert_reads(struct zf_source *s, const char *want)
{
    struct zf_err err;
    char b[100] = "";

    assert_ok(zf_source_pread(s, b, strlen(want), 0, &err), &err);
    assert_string_equal(b, want);
    /* in two pieces, the second of which goes in front of the first */
    const size_t n = strlen(want), half = n / 2;
    struct iovec iov[2] = {{b + 50, half}, {b, n - half}};

    memset(b, 0, sizeof b);
    assert_ok(zf_source_preadv(s, iov, 2, 0, &err), &err);
    assert_memory_equal(b + 50, want, half);
    assert_string_equal(b, want + half);
}

static void a_truncated_file_is_no_zeros(void **state)
{
    char path[4200];

    scratch_file(*state, "a", "0123456789");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_reads(a, "0123456789");
    scratch_path(*state, "a", path);
    assert_int_equal(truncate(path, 7), 0);
    assert_fails(a, ZF_E_IO, "3 bytes shorter than when it was mounted");
    assert_int_equal(truncate(path, 2), 0);
    assert_fails(a, ZF_E_IO, "8 bytes shorter than when it was mounted");
    assert_int_equal(truncate(path, 10), 0);
    assert_fails(a, ZF_E_STALE, "written to");
    assert_int_equal(truncate(path, 12), 0);
    assert_fails(a, ZF_E_STALE, "grown by 2 bytes");
}

static void a_rewritten_file_is_stale(void **state)
{
    char path[4200];
    struct stat before;

    scratch_file(*state, "a", "0123456789");
    scratch_path(*state, "a", path);
    /* Clearly old, so that the clock's grain plays no part. */
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_int_equal(stat(path, &before), 0);
    scratch_file(*state, "a", "9876543210");
    assert_fails(a, ZF_E_STALE, "written to");

    /* The old time put back: ctime still tells, once the clock has moved. */
    struct stat now;
    do {
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    assert_fails(a, ZF_E_STALE, "metadata changed");
}

/* Overwrites bytes and puts the time back; the descriptor stays open for more of that. */
static int rewrite_quietly(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pwrite(fd, "XXXX", 4, 2), 4);
    assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
    return fd;
}

static void a_rewritten_file_stays_stale_when_it_is_deleted(void **state)
{
    char path[4200];

    scratch_file(*state, "a", "0123456789");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_reads(a, "0123456789");
    scratch_path(*state, "a", path);
    assert_int_equal(close(rewrite_quietly(path)), 0);
    assert_fails(a, ZF_E_STALE, "metadata changed");
    assert_int_equal(unlink(path), 0);
    assert_fails(a, ZF_E_STALE, "deleted after mounting");
}

/* Counts what is said, and keeps the last. */
struct heard {
    int n;
    struct zf_err last;
};

static void hear(void *ctx, const struct zf_err *what)
{
    struct heard *h = ctx;

    h->n++;
    h->last = *what;
}

/* Waits until the clock of the file system has moved on. */
static void let_tick_pass(const char *root)
{
    char path[4200];
    struct stat first, now;

    scratch_file(root, "tick", "x");
    scratch_path(root, "tick", path);
    assert_int_equal(stat(path, &first), 0);
    do {
        scratch_file(root, "tick", "x");
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_ctim.tv_sec == first.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == first.st_ctim.tv_nsec);
}

/* Each is accepted once; what is written quietly afterwards is found as before. */
static void mode_owner_and_links_may_change(void **state)
{
    char path[4200], other[4200];
    struct heard heard = {0};

    scratch_file(*state, "a", "0123456789");
    scratch_path(*state, "a", path);
    scratch_path(*state, "b", other);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_reads(a, "0123456789");
    zf_files_look(hear, &heard);
    assert_int_equal(heard.n, 0);

    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0644), 0);
    assert_reads(a, "0123456789");
    let_tick_pass(*state);
    assert_int_equal(link(path, other), 0);
    assert_reads(a, "0123456789");
    zf_files_look(hear, &heard);
    assert_int_equal(heard.n, 1);
    assert_string_equal(heard.last.path, path);
    /* Seen by the look alone, so that another link and one less are no secret. */
    let_tick_pass(*state);
    assert_int_equal(unlink(other), 0);
    zf_files_look(hear, &heard);
    assert_int_equal(heard.n, 2);
    let_tick_pass(*state);
    assert_int_equal(link(path, other), 0);
    assert_reads(a, "0123456789");
    if (geteuid() == 0) {
        let_tick_pass(*state);
        assert_int_equal(chown(path, 1, 1), 0);
        assert_reads(a, "0123456789");
    }
    zf_files_look(hear, &heard);
    assert_int_equal(heard.n, 3);
    zf_files_look(hear, &heard);
    assert_int_equal(heard.n, 3);

    let_tick_pass(*state);
    assert_int_equal(close(rewrite_quietly(path)), 0);
    assert_fails(a, ZF_E_STALE, "metadata changed");
    assert_int_equal(chmod(path, 0600), 0);
    assert_fails(a, ZF_E_STALE, "changed after mounting");
}

/* Also of a file that no descriptor is held on. */
static void a_mode_that_changed_while_closed(void **state)
{
    char path[4200];
    struct zf_err err;

    scratch_file(*state, "a", "0123456789");
    scratch_file(*state, "other", "x");
    let_tick_pass(*state);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = zf_store_open_later(st, "a", &err);
    assert_ok(a, &err);
    scratch_path(*state, "a", path);
    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0644), 0);
    assert_reads(a, "0123456789");
    push_out(st);
    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0600), 0);
    assert_reads(a, "0123456789");
}

static void strictly_any_change_counts(void **state)
{
    const struct zf_dir_opts strict = {.strict = true};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    char path[4200];

    scratch_file(*state, "a", "0123456789");
    scratch_path(*state, "a", path);
    zf_auto(store) struct zf_store *st = zf_store_dir_with(*state, &strict, &lim, &err);
    assert_ok(st, &err);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_reads(a, "0123456789");
    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0644), 0);
    assert_fails(a, ZF_E_STALE, "metadata changed");
}

/* What is closed to others must not stay open in a mount of theirs. */
static void shared_files_may_not_be_closed(void **state)
{
    const struct zf_dir_opts shared = {.shared = true};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    char path[4200], other[4200];

    scratch_file(*state, "a", "0123456789");
    scratch_path(*state, "a", path);
    scratch_path(*state, "b", other);
    assert_int_equal(chmod(path, 0640), 0);
    zf_auto(store) struct zf_store *st = zf_store_dir_with(*state, &shared, &lim, &err);
    assert_ok(st, &err);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0644), 0);
    assert_reads(a, "0123456789");
    let_tick_pass(*state);
    assert_int_equal(link(path, other), 0);
    assert_reads(a, "0123456789");
    let_tick_pass(*state);
    assert_int_equal(chmod(path, 0640), 0);
    assert_fails(a, ZF_E_STALE, "metadata changed");
}

/* By the read that finds it, and where nobody reads by the look. */
static void a_deleted_file_is_let_go(void **state)
{
    char path[4200];
    struct heard heard = {0};

    scratch_file(*state, "a", "0123456789");
    scratch_file(*state, "b", "0123456789");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    int before = scratch_descriptors();
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    zf_auto(source) struct zf_source *b = file_at(st, "b");
    assert_int_equal(scratch_descriptors(), before + 2);
    zf_files_look(hear, &heard);
    heard.n = 0; /* of other tests */
    assert_int_equal(scratch_descriptors(), before + 2);
    scratch_path(*state, "a", path);
    assert_int_equal(unlink(path), 0);
    assert_fails(a, ZF_E_STALE, "deleted or replaced");
    assert_int_equal(scratch_descriptors(), before + 1);
    scratch_path(*state, "b", path);
    assert_int_equal(unlink(path), 0);
    zf_files_look(hear, &heard);
    assert_int_equal(scratch_descriptors(), before);
    assert_fails(b, ZF_E_STALE, "deleted after mounting");
    assert_int_equal(heard.n, 0);
}

/* Nobody looked between the write and the deletion: only ctime moved, once. */
static void a_deleted_file_may_have_been_rewritten(void **state)
{
    char path[4200];

    scratch_file(*state, "a", "0123456789");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    assert_reads(a, "0123456789");
    scratch_path(*state, "a", path);
    int fd = rewrite_quietly(path);
    assert_int_equal(unlink(path), 0);
    assert_fails(a, ZF_E_STALE, "deleted or replaced");
    assert_int_equal(close(fd), 0);
}

static void a_replaced_file_is_stale(void **state)
{
    char from[4200], to[4200];

    scratch_file(*state, "a", "0123456789");
    scratch_file(*state, "other", "x");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    scratch_file(*state, "new", "abcdefghij");
    scratch_path(*state, "new", from);
    scratch_path(*state, "a", to);
    assert_int_equal(rename(from, to), 0);
    assert_fails(a, ZF_E_STALE, "deleted or replaced");
    push_out(st);
    assert_fails(a, ZF_E_STALE, "the file was replaced after mounting");
    assert_int_equal(unlink(to), 0);
    assert_fails(a, ZF_E_STALE, "deleted after mounting");
    assert_int_equal(mkfifo(to, 0600), 0);
    assert_fails(a, ZF_E_FORMAT, "this is a FIFO, not a file");
}

/* The very inode, unchanged, in its place again: another file stood there meanwhile. */
static void stale_is_for_ever(void **state)
{
    char dir[4200], away[4200];

    scratch_file(*state, "d/a", "0123456789");
    scratch_file(*state, "e/a", "0123456789");
    scratch_file(*state, "other", "x");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "d/a");
    push_out(st);
    scratch_path(*state, "d", dir);
    scratch_path(*state, "e", away);
    assert_int_equal(renameat2(AT_FDCWD, dir, AT_FDCWD, away, RENAME_EXCHANGE), 0);
    assert_fails(a, ZF_E_STALE, "the file was replaced after mounting");
    assert_int_equal(renameat2(AT_FDCWD, dir, AT_FDCWD, away, RENAME_EXCHANGE), 0);
    assert_fails(a, ZF_E_STALE, "changed after mounting");
}

/* In the tick of the clock in which it was made, a file can be written to without a trace. */
static void a_write_right_after_opening_is_seen(void **state)
{
    char path[4200], name[20];
    struct zf_err err;

    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    for (int i = 0; i < 50; i++) {
        char got[10] = "";

        (void)snprintf(name, sizeof name, "f%d", i);
        scratch_file(*state, name, "0123456789");
        zf_auto(source) struct zf_source *a = file_at(st, name);
        scratch_path(*state, name, path);
        assert_int_equal(close(rewrite_quietly(path)), 0);
        if (zf_source_pread(a, got, sizeof got, 0, &err))
            assert_memory_equal(got, "0123456789", sizeof got);
    }
}

static void changes_while_closed_are_seen(void **state)
{
    char path[4200];

    scratch_file(*state, "a", "0123456789");
    scratch_file(*state, "other", "x");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    push_out(st);
    assert_reads(a, "0123456789");
    push_out(st);
    scratch_path(*state, "a", path);
    assert_int_equal(truncate(path, 9), 0);
    assert_fails(a, ZF_E_IO, "1 bytes shorter");
}

enum { FILES = 20, THREADS = 8, ROUNDS = 300, LIMIT = 2 };

struct crowd {
    struct zf_source *file[FILES];
    atomic_uint wrong;
};

static void *read_all(void *arg)
{
    struct crowd *c = arg;
    struct zf_err err;

    for (int i = 0; i < ROUNDS; i++) {
        int k = i * 7 % FILES;
        char got[3] = "", want[3] = {(char)('a' + k), (char)('A' + k), 0};

        if (!zf_source_pread(c->file[k], got, 2, (uint64_t)(i % 100) * 2, &err) ||
            strcmp(got, want) != 0)
            atomic_fetch_add(&c->wrong, 1);
    }
    return NULL;
}

static void add_up(void *ctx, const struct zf_file_stats *s)
{
    struct zf_file_stats *sum = ctx;

    assert_int_equal(s->size, 200);
    sum->reads += s->reads;
    sum->bytes += s->bytes;
    sum->errors += s->errors;
}

static void twenty_files_share_two_descriptors(void **state)
{
    struct crowd c = {.wrong = 0};
    struct zf_file_stats sum = {0};
    pthread_t t[THREADS];
    char text[200], name[20];

    zf_auto(store) struct zf_store *st = scratch_store(*state, LIMIT);
    int before = scratch_descriptors();
    for (int k = 0; k < FILES; k++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)((i % 2 ? 'A' : 'a') + k);
        (void)snprintf(name, sizeof name, "f%d", k);
        scratch_bytes(*state, name, text, sizeof text);
        c.file[k] = file_at(st, name);
    }
    assert_int_equal(scratch_descriptors() - before, LIMIT);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_all, &c), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(c.wrong, 0);
    assert_true(scratch_descriptors() - before <= LIMIT + THREADS);
    zf_store_stats(st, add_up, &sum);
    assert_int_equal(sum.reads, THREADS * ROUNDS);
    assert_int_equal(sum.bytes, THREADS * ROUNDS * 2);
    assert_int_equal(sum.errors, 0);
    for (int k = 0; k < FILES; k++)
        zf_source_unref(&c.file[k]);
}

/* Where no limit is said, as many are kept as the process may have, but for a reserve. */
static void the_pool_follows_what_the_process_may_have(void **state)
{
    struct zf_source *file[FILES];
    struct rlimit was, tight;
    char name[20];
    int before = scratch_descriptors();

    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "p%d", k);
        scratch_file(*state, name, name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    tight = was;
    for (int round = 0; round < 2; round++) {
        /* Room for all of them, then for about half. */
        tight.rlim_cur = round == 0 ? was.rlim_cur : (rlim_t)(before + FILES / 2);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        zf_auto(store) struct zf_store *st = scratch_store(*state, 0);
        for (int k = 0; k < FILES; k++) {
            (void)snprintf(name, sizeof name, "p%d", k);
            file[k] = file_at(st, name);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0); /* counting takes one, too */
        int kept = scratch_descriptors() - before;
        for (int k = 0; k < FILES; k++) {
            (void)snprintf(name, sizeof name, "p%d", k);
            assert_reads(file[k], name);
            zf_source_unref(&file[k]);
        }
        if (round == 0)
            assert_true(kept >= FILES);
        else
            assert_true(kept < FILES / 2);
    }
}

/* Stores share what one of them may keep, as the saves of a run do. */
static void stores_share_their_descriptors(void **state)
{
    enum { KEEP = 8 };
    struct zf_source *file[2][FILES];
    char name[20];

    zf_auto(store) struct zf_store *one = scratch_store(*state, KEEP);
    zf_auto(store) struct zf_store *two = scratch_store(*state, KEEP);
    const int before = scratch_descriptors();
    for (int k = 0; k < 2 * FILES; k++) {
        (void)snprintf(name, sizeof name, "s%d", k % FILES);
        scratch_file(*state, name, name);
    }
    for (int k = 0; k < 2 * FILES; k++) {
        (void)snprintf(name, sizeof name, "s%d", k % FILES);
        file[k / FILES][k % FILES] = file_at(k < FILES ? one : two, name);
    }
    for (int k = 0; k < 4 * FILES; k++) {
        (void)snprintf(name, sizeof name, "s%d", k / 2 % FILES);
        assert_reads(file[k % 2][k / 2 % FILES], name);
        assert_true(scratch_descriptors() <= before + KEEP);
    }
    for (int k = 0; k < 2 * FILES; k++)
        zf_source_unref(&file[k / FILES][k % FILES]);
}

/* A file that is not there is no reason to close others. */
static void a_missing_file_closes_no_other(void **state)
{
    struct zf_source *file[FILES];
    struct zf_err err;
    char name[20];

    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    int before = scratch_descriptors();
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        scratch_file(*state, name, name);
        file[k] = file_at(st, name);
    }
    assert_int_equal(scratch_descriptors() - before, FILES);
    assert_null(zf_store_open(st, "missing", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_int_equal(scratch_descriptors() - before, FILES);
    for (int k = 0; k < FILES; k++)
        zf_source_unref(&file[k]);
}

/* `ulimit -n` may be lower than the limit open_files. */
static void a_process_short_of_descriptors_still_reads(void **state)
{
    struct zf_source *file[FILES];
    struct rlimit was, tight;
    char name[20];

    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        scratch_file(*state, name, name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    tight = was;
    int before = scratch_descriptors();
    tight.rlim_cur = (rlim_t)before + 4;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        file[k] = file_at(st, name);
    }
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        assert_reads(file[k], name);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);

    /* And keeps more of them once it may, though not at once. */
    time_t end = time(NULL) + 30;
    while (scratch_descriptors() < before + FILES && time(NULL) < end) {
        for (int k = 0; k < FILES; k++) {
            (void)snprintf(name, sizeof name, "f%d", k);
            assert_reads(file[k], name);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    assert_int_equal(scratch_descriptors(), before + FILES);
    for (int k = 0; k < FILES; k++)
        zf_source_unref(&file[k]);
}

/* Each directory that a listing meets is opened (each entry, where readdir does not say what it is): files give way. */
static void a_listing_short_of_descriptors_makes_room(void **state)
{
    enum { DIRS = 8 };
    struct zf_source *file[FILES];
    const struct zf_entry *e;
    struct rlimit was, tight;
    struct zf_err err;
    char name[20];
    size_t n;

    scratch_dir(*state, "sub");
    for (int k = 0; k < DIRS; k++) {
        (void)snprintf(name, sizeof name, "sub/d%d", k);
        scratch_dir(*state, name);
    }
    zf_auto(store) struct zf_store *st = scratch_store(*state, 512);
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        scratch_file(*state, name, name);
        file[k] = file_at(st, name);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    tight = was;
    tight.rlim_cur = (rlim_t)scratch_descriptors() + 1; /* for the directory itself */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    const bool ok = zf_store_list(st, "sub", &e, &n, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_ok(ok, &err);
    assert_int_equal(n, DIRS);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(e[i].kind, ZF_ENTRY_DIR);
        assert_int_equal(e[i].unknown, 0);
    }
    for (int k = 0; k < FILES; k++) {
        (void)snprintf(name, sizeof name, "f%d", k);
        assert_reads(file[k], name);
        zf_source_unref(&file[k]);
    }
}

/* A file may be kept longer than its store. */
static void a_file_outlives_its_store(void **state)
{
    scratch_file(*state, "a", "0123456789");
    struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    zf_store_unref(&st);
    assert_reads(a, "0123456789");
}

static void an_interrupted_read_is_begun_again(void **state)
{
    char b[10];
    struct zf_err err;
    struct iovec iov[2] = {{b, 4}, {b + 4, 6}};

    scratch_file(*state, "a", "0123456789");
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    interrupts = 2;
    assert_ok(zf_source_pread(a, b, sizeof b, 0, &err), &err);
    assert_int_equal(interrupts, 0);
    assert_memory_equal(b, "0123456789", sizeof b);
    memset(b, 0, sizeof b);
    interrupts = 2;
    assert_ok(zf_source_preadv(a, iov, 2, 0, &err), &err);
    assert_int_equal(interrupts, 0);
    assert_memory_equal(b, "0123456789", sizeof b);
}

static void rows_near_each_other(void **state)
{
    enum { N = 3, COUNT = 150, FILE_BYTES = 64 << 10 };
    static char is[FILE_BYTES], got[COUNT * 5];
    struct zf_err err;

    for (size_t i = 0; i < FILE_BYTES; i++)
        is[i] = (char)(i * 7 + i / 251);
    scratch_bytes(*state, "a", is, FILE_BYTES);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 1);
    zf_auto(source) struct zf_source *a = file_at(st, "a");
    for (unsigned step = 1; step < 400; step += step < N ? 1 : 197) {
        for (int bad = 0; bad < 2; bad++) {
            const struct zf_rows rows = {
                .buf = got, .n = N, .pitch = 5, .off = 11, .step = step, .count = COUNT};

            memset(got, 0x55, sizeof got);
            only_small_reads = bad;
            assert_ok(zf_source_read_rows(a, &rows, &err), &err);
            only_small_reads = false;
            for (size_t i = 0; i < COUNT; i++) {
                assert_memory_equal(got + i * 5, is + 11 + i * step, N);
                assert_memory_equal(got + i * 5 + N, "UU", 2); /* between rows nothing is written */
            }
        }
    }
    char last[2];
    const struct zf_rows far = {
        .buf = last, .n = 1, .pitch = 1, .step = FILE_BYTES - 1, .count = 2};
    assert_ok(zf_source_read_rows(a, &far, &err), &err);
    assert_true(last[0] == is[0] && last[1] == is[FILE_BYTES - 1]);
}

/* sysfs says a page of every file, and gives what there is. */
static void a_file_that_ends_before_its_size(void **state)
{
    static const char dir[] = "/sys/kernel/mm/transparent_hugepage";
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    char page[4096];

    (void)state;
    zf_auto(store) struct zf_store *store = zf_store_dir(dir, &lim, &err);
    zf_auto(source) struct zf_source *s = store ? zf_store_open(store, "enabled", &err) : NULL;
    if (!s || s->size != sizeof page)
        skip();
    assert_ok(zf_source_pread(s, page, 4, 0, &err), &err);
    assert_false(zf_source_pread(s, page, (size_t)s->size, 0, &err));
    assert_int_equal(err.code, ZF_E_IO);
    assert_true(err.off >= 4 && err.off < s->size);
    assert_string_equal(err.msg, "the file ends here, but it has 4096 bytes");
}

int main(void)
{
#define SCRATCH(fn) cmocka_unit_test_setup_teardown(fn, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        SCRATCH(a_truncated_file_is_no_zeros),
        SCRATCH(a_rewritten_file_is_stale),
        SCRATCH(a_rewritten_file_stays_stale_when_it_is_deleted),
        SCRATCH(mode_owner_and_links_may_change),
        SCRATCH(a_mode_that_changed_while_closed),
        SCRATCH(strictly_any_change_counts),
        SCRATCH(shared_files_may_not_be_closed),
        SCRATCH(a_deleted_file_is_let_go),
        SCRATCH(a_deleted_file_may_have_been_rewritten),
        SCRATCH(a_replaced_file_is_stale),
        SCRATCH(stale_is_for_ever),
        SCRATCH(a_write_right_after_opening_is_seen),
        SCRATCH(changes_while_closed_are_seen),
        SCRATCH(twenty_files_share_two_descriptors),
        SCRATCH(the_pool_follows_what_the_process_may_have),
        SCRATCH(stores_share_their_descriptors),
        SCRATCH(a_missing_file_closes_no_other),
        SCRATCH(a_process_short_of_descriptors_still_reads),
        SCRATCH(a_listing_short_of_descriptors_makes_room),
        SCRATCH(a_file_outlives_its_store),
        SCRATCH(an_interrupted_read_is_begun_again),
        cmocka_unit_test(a_file_that_ends_before_its_size),
        SCRATCH(rows_near_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
