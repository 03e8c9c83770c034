/* SPDX-License-Identifier: Apache-2.0 */
/* What /.zerofs/log shows: a failure once, however often and wherever in its file; the newest where there are many. */
#include "support/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <zf/overlay/log.h>

static time_t later; /* seconds by which the clock of the test is ahead */

/* libc's, for this program. */
int clock_gettime(clockid_t which, struct timespec *out)
{
    const long r = syscall(SYS_clock_gettime, which, out);

    out->tv_sec += later;
    return (int)r;
}

struct fixture {
    struct zf_log *log;
    FILE *to; /* in the foreground: stderr */
    char *printed;
    size_t n;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct zf_err err;

    assert_non_null(f);
    f->to = open_memstream(&f->printed, &f->n);
    assert_non_null(f->to);
    f->log = zf_log_new(f->to, &err);
    assert_ok(f->log, &err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    zf_log_free(f->log);
    (void)fclose(f->to);
    free(f->printed);
    free(f);
    return 0;
}

static struct zf_err failure(const char *path, uint64_t off, const char *why)
{
    struct zf_err err;

    (void)zf_fail(&err, ZF_E_IO, off, "%s", why);
    (void)zf_err_in(&err, "%s", path);
    return err;
}

/* Line `k` of the log without its time, which must look like one; "" behind the last. */
static const char *line(struct fixture *f, unsigned k, char out[200])
{
    size_t n;
    char *text = zf_log_text(f->log, &n), *p = text;
    char when[sizeof "2026-01-01T00:00:00Z"];

    assert_non_null(text);
    assert_int_equal(strlen(text), n);
    out[0] = '\0';
    for (; k > 0 && *p; k--) {
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    if (*p) {
        assert_int_equal(sscanf(p, "%20s %199[^\n]", when, out), 2);
        assert_int_equal(strlen(when), 20);
        assert_true(when[10] == 'T' && when[19] == 'Z');
    }
    free(text);
    return out;
}

static const char *printed(struct fixture *f)
{
    assert_int_equal(fflush(f->to), 0);
    return f->printed;
}

static void the_same_failure_is_counted(void **state)
{
    struct fixture *f = *state;
    struct zf_err one = failure("rank0.pt", 12, "is damaged"),
                  there = failure("rank0.pt", 99, "is damaged");
    struct zf_err other = failure("rank1.pt", 12, "is damaged"),
                  why = failure("rank0.pt", 12, "is gone");
    char text[200];

    assert_string_equal(line(f, 0, text), "");
    zf_log_say(f->log, &one);
    assert_string_equal(line(f, 0, text), "rank0.pt: byte 12: is damaged");
    zf_log_say(f->log, &there);
    assert_string_equal(line(f, 0, text), "rank0.pt: byte 12: is damaged (2 times)");
    zf_log_say(f->log, &other);
    zf_log_say(f->log, &why);
    zf_log_say(f->log, &one);
    assert_string_equal(line(f, 0, text), "rank0.pt: byte 12: is damaged (3 times)");
    assert_string_equal(line(f, 1, text), "rank1.pt: byte 12: is damaged");
    assert_string_equal(line(f, 2, text), "rank0.pt: byte 12: is gone");
    assert_string_equal(line(f, 3, text), "");
    assert_string_equal(printed(f), "zerofs: rank0.pt: byte 12: is damaged\n"
                                    "zerofs: rank1.pt: byte 12: is damaged\n"
                                    "zerofs: rank0.pt: byte 12: is gone\n");
}

/* While it goes on, a line a minute. */
static void a_failure_that_lasts(void **state)
{
    struct fixture *f = *state;
    struct zf_err one = failure("rank0.pt", 12, "is damaged");

    for (unsigned i = 0; i < 10; i++)
        zf_log_say(f->log, &one);
    later += 58;
    zf_log_say(f->log, &one);
    assert_string_equal(printed(f), "zerofs: rank0.pt: byte 12: is damaged\n");
    later += 3;
    zf_log_say(f->log, &one);
    zf_log_say(f->log, &one);
    assert_string_equal(
        printed(f), "zerofs: rank0.pt: byte 12: is damaged\n"
                    "zerofs: rank0.pt: byte 12: is damaged (10 more times since the last line)\n");
}

/* 1,000 shards of a server that is gone are one line a minute, and 1,000 damaged ones no more than 256. */
static void many_files_fail(void **state)
{
    struct fixture *f = *state;
    struct zf_err err;
    char name[32];

    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "shard%u", i % 1000);
        errno = ENOTCONN;
        (void)zf_fail_sys(&err, "read");
        (void)zf_err_in(&err, "%s", name);
        zf_log_say(f->log, &err);
    }
    assert_string_equal(printed(f),
                        "zerofs: shard0: cannot read: Transport endpoint is not connected\n");
    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "shard%u", i % 1000);
        err = failure(name, 0, "is damaged");
        zf_log_say(f->log, &err);
    }
    unsigned lines = 0;
    for (const char *p = printed(f); (p = strchr(p, '\n')); p++, lines++) {
    }
    assert_int_equal(lines, 256);
}

static void a_note_is_not_printed(void **state)
{
    struct fixture *f = *state;
    struct zf_err note = failure("a", ZF_OFF_NONE, "is kept");
    char text[200];

    zf_log_note(f->log, &note);
    assert_string_equal(line(f, 0, text), "a: is kept");
    assert_string_equal(printed(f), "");
}

/* The oldest go, the others stay in their order. */
static void many_failures(void **state)
{
    enum { MANY = 1000 };
    struct fixture *f = *state;
    char text[200], want[200], first[200];
    unsigned kept = 0, lines = 0;

    for (unsigned i = 0; i < MANY; i++) {
        struct zf_err err = failure("shard", i, "");
        (void)snprintf(err.path, sizeof err.path, "shard%u", i);

        zf_log_note(f->log, &err);
    }
    (void)line(f, 0, first);
    assert_int_equal(sscanf(first, "shard%u:", &kept), 1);
    assert_in_range(kept, 1, MANY - 100); /* a hundred at least, and not all */
    for (unsigned i = kept; i < MANY; i++, lines++) {
        (void)snprintf(want, sizeof want, "shard%u: byte %u: ", i, i);
        assert_string_equal(line(f, lines, text), want);
    }
    assert_string_equal(line(f, lines, text), "");
}

static void one_line_of_its_own(void **state)
{
    struct zf_err err = failure("a.pt", 7, "is cut off");
    size_t n;
    char *text = zf_log_line(86400, &err, &n);

    (void)state;
    assert_non_null(text);
    assert_string_equal(text, "1970-01-02T00:00:00Z a.pt: byte 7: is cut off\n");
    assert_int_equal(n, strlen(text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_failure_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_that_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(many_files_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(a_note_is_not_printed, setup, teardown),
        cmocka_unit_test_setup_teardown(many_failures, setup, teardown),
        cmocka_unit_test(one_line_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
