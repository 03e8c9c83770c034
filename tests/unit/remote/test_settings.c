/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that the user wrote, and pipes that a shell gives instead of them. */
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/remote/settings.h"

enum { MOST = 8 };
static struct zf_err err;

static void a_file_may_be_missing_but_not_too_long(void **state)
{
    char path[] = "/tmp/zf-settings-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    for (size_t n = 0; n <= MOST + 1; n++) {
        zf_auto(secret_out) struct zf_out out = {.p = NULL};
        bool ok = settings_file(path, MOST, &out, &err);

        if (n > MOST) {
            assert_false(ok);
            assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 8 bytes");
            break;
        }
        assert_ok(ok, &err);
        assert_int_equal(out.n, n);
        assert_memory_equal(zf_out_text(&out), "zzzzzzzz", n);
        assert_int_equal(write(fd, "z", 1), 1);
    }
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    zf_auto(secret_out) struct zf_out none = {.p = NULL};
    zf_err_clear(&err);
    assert_ok(settings_file(path, MOST, &none, &err), &err);
    assert_null(none.p);
}

/* Each byte is written when the one before was taken, so that the reader comes too early. */
static void write_slowly(int fd, const char *text)
{
    int left;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed reads nothing more */
    for (; *text; text++) {
        if (write(fd, text, 1) != 1)
            _exit(1);
        do {
            if (ioctl(fd, FIONREAD, &left) != 0)
                _exit(1);
        } while (left > 0);
    }
    _exit(0);
}

static void a_pipe_is_waited_for(void **state)
{
    zf_auto(secret_out) struct zf_out out = {.p = NULL};
    char path[32];
    int end[2], status;

    (void)state;
    assert_int_equal(pipe(end), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        write_slowly(end[1], "token");
    (void)close(end[1]);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", end[0]);
    assert_ok(settings_file(path, MOST, &out, &err), &err);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(zf_out_text(&out), "token");
    (void)close(end[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_may_be_missing_but_not_too_long),
        cmocka_unit_test(a_pipe_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
