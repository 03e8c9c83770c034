/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks on disk: what is not whole and right is as good as not there. */
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zf/remote.h>

#include "remote/diskcache.h"

#define N DISKCACHE_BLOCK

static struct zf_err err;
static char dir[64];
static const struct diskcache_about about = {
    .url = "http://host/a%20b/rank0.pt", .etag = "\"abc\"", .version = "", .size = 100 * N};
static uint8_t want[N], got[N];

static void fill(uint64_t k)
{
    for (size_t i = 0; i < N; i++)
        want[i] = (uint8_t)((k * 0x9e3779b97f4a7c15ull + i * 2654435761u) >> 23);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/zerofs-cache.XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static struct diskcache *opened(uint64_t bytes)
{
    struct diskcache *c = diskcache_new(dir, bytes, &err);

    assert_ok(c, &err);
    return c;
}

/* Puts block k, and waits until it is written. */
static void put(uint64_t bytes, uint64_t k, size_t n)
{
    struct diskcache *c = opened(bytes);
    const struct diskcache_key key = diskcache_key_of(&about);

    fill(k);
    diskcache_put(c, &key, &about, k, want, n);
    diskcache_free(c);
}

static bool get(uint64_t k, size_t n)
{
    struct diskcache *c = opened(0);
    const struct diskcache_key key = diskcache_key_of(&about);
    bool ok = diskcache_get(c, &key, k, got, n);

    fill(k);
    assert_true(!ok || memcmp(got, want, n) == 0);
    diskcache_free(c);
    return ok;
}

static void file_of(char out[256], uint64_t k)
{
    (void)snprintf(out, 256, "%s/o/%s/%llu", dir, diskcache_key_of(&about).hex,
                   (unsigned long long)k / DISKCACHE_SLOTS);
}

static void what_was_put_is_there(void **state)
{
    (void)state;
    assert_false(get(0, N));
    put(0, 0, N);
    put(0, 17, N);
    put(0, 99, 1000);
    assert_true(get(0, N));
    assert_true(get(17, N));
    assert_true(get(99, 1000));
    assert_false(get(99, 1001)); /* another length */
    assert_false(get(1, N));
    assert_false(get(18, N));
}

static void another_object_is_another(void **state)
{
    struct diskcache_about a = about;
    const struct diskcache_key key = diskcache_key_of(&about);

    (void)state;
    a.etag = "\"abd\"";
    assert_string_not_equal(diskcache_key_of(&a).hex, key.hex);
    a = about;
    a.size++;
    assert_string_not_equal(diskcache_key_of(&a).hex, key.hex);
    a = about;
    a.version = "1";
    assert_string_not_equal(diskcache_key_of(&a).hex, key.hex);
    a = about;
    a.url = "http://host/a%20b/rank0.pt\"";
    a.etag = "abc\"";
    assert_string_not_equal(diskcache_key_of(&a).hex, key.hex);
}

static uint64_t cached_bytes, cached_n;
static char cached_url[200];
static struct timespec cached_used;

static void note_cached(void *ctx, const struct zf_cached *c)
{
    (void)ctx;
    cached_bytes += c->bytes;
    cached_n++;
    cached_used = c->used;
    (void)snprintf(cached_url, sizeof cached_url, "%s", c->url);
}

static void closed_to_others(void **state)
{
    struct stat st;
    char path[256];

    (void)state;
    put(0, 0, N);
    file_of(path, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(dir, 0750), 0);
    assert_null(diskcache_new(dir, 0, &err));
    assert_int_equal(err.code, ZF_E_USAGE);
    assert_int_equal(chmod(dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, 1, (gid_t)-1), 0);
        assert_null(diskcache_new(dir, 0, &err));
        assert_int_equal(err.code, ZF_E_USAGE);
    }
    (void)snprintf(path, sizeof path, "%s/nowhere", dir);
    assert_false(zf_remote_cache_each(path, note_cached, NULL, &err));
    assert_int_equal(err.code, ZF_E_NOENT);
}

/* A cache is made where there is none, whatever failed before, but no directories above it. */
static void made_where_there_is_none(void **state)
{
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/new", dir);
    errno = ENOTTY;
    struct diskcache *c = diskcache_new(path, 0, &err);
    assert_ok(c, &err);
    diskcache_free(c);
    (void)snprintf(path, sizeof path, "%s/no/where", dir);
    assert_null(diskcache_new(path, 0, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "make the cache");
}

static void a_directory_of_something_else_is_refused(void **state)
{
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/thesis.tex", dir);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    assert_null(diskcache_new(dir, 0, &err));
    assert_int_equal(err.code, ZF_E_USAGE);
    uint64_t bytes;
    assert_false(zf_remote_cache_clear(dir, &bytes, &err));
    assert_int_equal(access(path, F_OK), 0);
}

/* Every bit of the entry, and bits all over the block. */
static void what_is_rotten_is_not_believed_and_replaced(void **state)
{
    char path[256];

    (void)state;
    put(0, 3, N);
    file_of(path, 3);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (off_t bit = 0; bit < 8 * DISKCACHE_ENTRY + 200; bit++) {
        off_t at = bit < 8 * DISKCACHE_ENTRY
                       ? 3 * DISKCACHE_ENTRY + bit / 8
                       : (off_t)(DISKCACHE_HEAD + 3 * N) + (bit - 8 * DISKCACHE_ENTRY) * 327;
        uint8_t byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_false(get(3, N));
        byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_true(get(3, N));
    assert_int_equal(pwrite(fd, "rot", 3, DISKCACHE_HEAD + 3 * N + 5000), 3);
    assert_false(get(3, N));
    (void)close(fd);
    put(0, 3, N);
    assert_true(get(3, N));
}

static void what_was_cut_is_not_believed(void **state)
{
    char path[256];

    (void)state;
    put(0, 1, N);
    file_of(path, 1);
    for (off_t size = DISKCACHE_HEAD + 2 * N - 1; size > 0; size -= size > 4200 ? 1777 : 7) {
        assert_int_equal(truncate(path, size), 0);
        assert_false(get(1, N));
    }
    /* Made longer again it holds zeros. */
    assert_int_equal(truncate(path, DISKCACHE_HEAD + 2 * N), 0);
    assert_false(get(1, N));
}

static void a_block_at_anothers_place_is_not_believed(void **state)
{
    char a[256], b[256];
    uint8_t bytes[N];

    (void)state;
    put(0, 1, N);
    file_of(a, 1);
    file_of(b, 1 + DISKCACHE_SLOTS);
    assert_int_equal(link(a, b), 0);
    assert_false(get(1 + DISKCACHE_SLOTS, N));
    /* Nor one of the same file, with its entry. */
    int fd = open(a, O_RDWR);
    assert_int_equal(pread(fd, bytes, N, DISKCACHE_HEAD + N), N);
    assert_int_equal(pwrite(fd, bytes, N, DISKCACHE_HEAD + 2 * N), N);
    assert_int_equal(pread(fd, bytes, DISKCACHE_ENTRY, DISKCACHE_ENTRY), DISKCACHE_ENTRY);
    assert_int_equal(pwrite(fd, bytes, DISKCACHE_ENTRY, 2 * DISKCACHE_ENTRY), DISKCACHE_ENTRY);
    (void)close(fd);
    assert_false(get(2, N));
    assert_true(get(1, N));
}

static uint64_t cached(void)
{
    cached_bytes = cached_n = 0;
    assert_ok(zf_remote_cache_each(dir, note_cached, NULL, &err), &err);
    return cached_bytes;
}

static void listed_and_cleared(void **state)
{
    uint64_t bytes;

    (void)state;
    put(0, 0, N);
    put(0, 20, N);
    assert_in_range(cached(), 2 * N, 3 * N);
    assert_int_equal(cached_n, 1);
    assert_string_equal(cached_url, about.url);
    assert_ok(zf_remote_cache_clear(dir, &bytes, &err), &err);
    assert_in_range(bytes, 2 * N, 3 * N);
    assert_int_equal(cached(), 0);
    assert_false(get(0, N));
    put(0, 0, N);
    assert_true(get(0, N));
}

/* An object was used when the last of its files was. */
static void listed_as_used_last(void **state)
{
    static const struct timespec used[] = {{1000, 5}, {2000, 7}, {2000, 8}, {2000, 6}, {1500, 9}};
    char path[256];

    (void)state;
    for (uint64_t k = 0; k < sizeof used / sizeof *used; k++) {
        put(0, k * DISKCACHE_SLOTS, N);
        file_of(path, k * DISKCACHE_SLOTS);
        assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){used[k], used[k]}, 0), 0);
    }
    (void)cached();
    assert_int_equal(cached_n, 1);
    assert_int_equal(cached_used.tv_sec, 2000);
    assert_int_equal(cached_used.tv_nsec, 8);
}

/* What a terminal would obey is taken out of a name, wherever it stands; a space is none of it. */
static void listed_without_what_a_terminal_obeys(void **state)
{
    struct diskcache_about odd = about;
    const char bytes[] = "?";

    (void)state;
    odd.url = "\033[2Jhttp://host/a b\177\tc";
    struct diskcache *c = opened(0);
    const struct diskcache_key key = diskcache_key_of(&odd);
    diskcache_put(c, &key, &odd, 0, (const uint8_t *)bytes, 1);
    diskcache_free(c);
    (void)cached();
    assert_int_equal(cached_n, 1);
    assert_string_equal(cached_url, "?[2Jhttp://host/a b??c");
}

/* Each block in a file of its own here; the oldest go. */
static void the_bound_holds_and_the_oldest_go(void **state)
{
    const uint64_t most = 40 * (N + DISKCACHE_HEAD);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[256];

    (void)state;
    for (uint64_t k = 0; k < 100; k++) {
        put(most, k * DISKCACHE_SLOTS, N);
        assert_true(cached() <= most);
        file_of(path, k * DISKCACHE_SLOTS);
        old[0].tv_sec = old[1].tv_sec = 1000 + (time_t)k;
        if (k > 0)
            assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
        assert_true(get(0, N)); /* used all the time */
    }
    assert_true(get(99 * DISKCACHE_SLOTS, N));
    assert_false(get(1 * DISKCACHE_SLOTS, N));
}

/* A count that is lost, or nonsense, is made anew. */
static void a_bad_count_is_counted(void **state)
{
    static const char *const bad[] = {"", "x", "-5\n", "99999999999999999999999\n", "12"};
    const uint64_t most = 30 * (N + DISKCACHE_HEAD);
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/used", dir);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, bad[i], strlen(bad[i])), strlen(bad[i]));
        (void)close(fd);
        if (i == 0)
            (void)unlink(path); /* the mark is made first */
        for (uint64_t k = 0; k < 20; k++)
            put(most, (i * 20 + k) * DISKCACHE_SLOTS, N);
        assert_true(cached() <= most);
        assert_true(get((i * 20 + 19) * DISKCACHE_SLOTS, N));
    }
}

/* What was being written when its process was killed goes once it is old, and nothing else does. */
static void what_was_left_is_swept(void **state)
{
    static const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    static const struct {
        const char *name;
        bool old, stays;
    } file[] = {{"about", true, true},
                {"about.1", true, false},
                {"about.2", false, true},
                {"other", true, true},
                {"aboutness", true, true}}; /* `about` alone would be written anew */
    const uint64_t most = 30 * (N + DISKCACHE_HEAD);
    char path[5][300];

    (void)state;
    put(most, 0, N);
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/o/%s/%s", dir, diskcache_key_of(&about).hex,
                       file[i].name);
        (void)close(open(path[i], O_WRONLY | O_CREAT, 0600));
        if (file[i].old)
            assert_int_equal(utimensat(AT_FDCWD, path[i], old, 0), 0);
    }
    for (uint64_t k = 1; k < 40; k++)
        put(most, k * DISKCACHE_SLOTS, N);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(access(path[i], F_OK) == 0, file[i].stays);
    assert_int_equal(unlink(path[3]), 0);
    assert_int_equal(unlink(path[4]), 0);
}

/* Stops those of the four processes that there are, or lets them go on. */
static void held(const pid_t pid[4], int how)
{
    for (int i = 0; i < 4 && pid[i] > 0; i++) {
        assert_int_equal(kill(pid[i], how), 0);
        assert_true(how != SIGSTOP || waitpid(pid[i], NULL, WUNTRACED) == pid[i]);
    }
}

/* Several processes put, get and evict, and are killed anywhere: nothing wrong is ever read, and the bound
 * holds. */
static void processes_that_are_killed(void **state)
{
    const uint64_t most = 60 * (N + DISKCACHE_HEAD);
    const struct diskcache_key key = diskcache_key_of(&about);
    pid_t pid[4] = {0};

    (void)state;
    diskcache_free(opened(most));
    for (int round = 0; round < 40; round++) {
        pid_t *p = &pid[round % 4];

        if (*p > 0) {
            assert_int_equal(kill(*p, SIGKILL), 0);
            assert_int_equal(waitpid(*p, NULL, 0), *p);
        }
        *p = fork();
        assert_true(*p >= 0);
        if (*p == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed waits for nobody */
            struct diskcache *c = diskcache_new(dir, most, &err);

            for (uint64_t i = 0; c; i++) {
                uint64_t k = (i * 7 + (uint64_t)round * 13) % 300;

                fill(k);
                if (diskcache_get(c, &key, k, got, N) && memcmp(got, want, N) != 0)
                    _exit(1);
                diskcache_put(c, &key, &about, k, want, N);
            }
            _exit(2);
        }
        struct diskcache *c = opened(most);
        for (uint64_t k = 0; k < 300; k++) {
            fill(k);
            assert_true(!diskcache_get(c, &key, k, got, N) || memcmp(got, want, N) == 0);
        }
        diskcache_free(c);
        held(pid, SIGSTOP); /* a file could go, and another come, while they are added up */
        assert_true(cached() <= most);
        held(pid, SIGCONT);
    }
    for (int i = 0; i < 4; i++) {
        int status;

        assert_int_equal(kill(pid[i], SIGKILL), 0);
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFSIGNALED(status));
    }
    put(most, 5, N);
    assert_true(get(5, N));
}

/* What another process holds while it counts. */
static int locked(void)
{
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = diskcache_lock(at);

    (void)close(at);
    return lock;
}

/* While another process counts, nothing can be written: what comes is held, and readers wait until they have seen that
 * nothing moves.  When it goes on they wait for it, and nothing is forgotten. */
static void a_reader_waits_for_a_disk_that_takes_some(void **state)
{
    const struct diskcache_key key = diskcache_key_of(&about);
    struct diskcache *c = opened(0);
    const uint64_t n = (40 << 20) / N;

    (void)state;
    assert_true(diskcache_has_room(c));
    diskcache_wait(c);
    int lock = locked();
    assert_true(lock >= 0);
    for (uint64_t k = 0; k < n; k++) {
        fill(k);
        diskcache_put(c, &key, &about, k, want, N);
    }
    assert_false(diskcache_has_room(c));
    diskcache_wait(c); /* in vain */
    assert_false(diskcache_has_room(c));
    diskcache_wait(c); /* and not once more */
    assert_int_equal(close(lock), 0);
    do {
        diskcache_wait(c);
    } while (!diskcache_has_room(c));
    diskcache_free(c);
    c = opened(0);
    for (uint64_t k = 0; k < n; k++) {
        fill(k);
        assert_true(diskcache_get(c, &key, k, got, N));
        assert_memory_equal(got, want, N);
    }
    diskcache_free(c);
}

/* Blocks of two objects and of several files, in any order and twice, are each where they belong. */
static void blocks_in_any_order(void **state)
{
    struct diskcache_about other = about;
    struct diskcache *c = opened(0);
    int lock = locked(); /* so that all wait together */

    (void)state;
    other.etag = "\"def\"";
    const struct diskcache_key key[2] = {diskcache_key_of(&about), diskcache_key_of(&other)};
    assert_true(lock >= 0);
    for (uint64_t i = 0; i < 120; i++) {
        const uint64_t k = i * 37 % 60;

        fill(k + 1000 * (i % 2));
        diskcache_put(c, &key[i % 2], i % 2 ? &other : &about, k, want, N);
    }
    assert_int_equal(close(lock), 0);
    diskcache_free(c);
    c = opened(0);
    for (uint64_t i = 0; i < 120; i++) {
        const uint64_t k = i * 37 % 60;

        fill(k + 1000 * (i % 2));
        assert_true(diskcache_get(c, &key[i % 2], k, got, N));
        assert_memory_equal(got, want, N);
    }
    diskcache_free(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_was_put_is_there),
        T(another_object_is_another),
        T(closed_to_others),
        T(made_where_there_is_none),
        T(a_directory_of_something_else_is_refused),
        T(what_is_rotten_is_not_believed_and_replaced),
        T(what_was_cut_is_not_believed),
        T(a_block_at_anothers_place_is_not_believed),
        T(listed_and_cleared),
        T(listed_as_used_last),
        T(listed_without_what_a_terminal_obeys),
        T(the_bound_holds_and_the_oldest_go),
        T(a_bad_count_is_counted),
        T(what_was_left_is_swept),
        T(processes_that_are_killed),
        T(a_reader_waits_for_a_disk_that_takes_some),
        T(blocks_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
