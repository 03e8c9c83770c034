/* SPDX-License-Identifier: Apache-2.0 */
/* A path never leaves the directory it is opened beneath, and a system that refuses openat2 is
 * named as the cause. */
#include "support/unit.h"

#include <asm/unistd.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "source/beneath.h"
#include "unit/source/scratch.h"

/* The file that open(2) finds at root/path is the one that was opened, or the errno is `why`. */
static void assert_opens(int root, const char *path, int flags, bool xdev, int why)
{
    struct stat a, b;
    int fd = beneath_open(root, path, flags, xdev);

    if (why) {
        assert_int_equal(fd, -1);
        assert_int_equal(errno, why);
        return;
    }
    int other = openat(root, path, O_PATH | (flags & O_NOFOLLOW) | O_CLOEXEC);
    assert_true(fd >= 0 && other >= 0);
    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(fstat(other, &b), 0);
    assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(other), 0);
}

static void nothing_outside_is_opened(void **state)
{
    static const struct {
        const char *path;
        int why;
    } paths[] = {
        {"a", 0},
        {"dir", 0},
        {"dir/b", 0},
        {".", 0},
        {"..", EXDEV},
        {"dir/..", 0},
        {"dir/../a", 0},
        {"dir/../..", EXDEV},
        {"nowhere", ENOENT},
        {"a/b", ENOTDIR},
        {"in", 0},
        {"dir/up", 0},
        {"loop", ELOOP},
        {"broken", ENOENT},
        {"out", EXDEV},
        {"absolute", EXDEV},
        {"dirlink/up", 0},
        {"/etc", EXDEV},
        {"", ENOENT},
        {"dir//b", 0},
        {"dirlink/../../x", EXDEV},
    };

    scratch_file(*state, "a", "A");
    scratch_file(*state, "dir/b", "B");
    scratch_link(*state, "in", "dir/b");
    scratch_link(*state, "dir/up", "../a");
    scratch_link(*state, "loop", "loop");
    scratch_link(*state, "broken", "nowhere");
    scratch_link(*state, "out", "../x");
    scratch_link(*state, "absolute", "/etc/passwd");
    scratch_link(*state, "dirlink", "dir");
    int root = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_opens(root, paths[i].path, O_PATH, i % 2, paths[i].why);
        assert_opens(root, paths[i].path, O_RDONLY, i % 2, paths[i].why);
    }
    assert_opens(root, "out", O_PATH | O_NOFOLLOW, false, 0);
    assert_opens(root, "a", O_RDONLY | O_DIRECTORY, false, ENOTDIR);
    assert_int_equal(close(root), 0);
}

/* /proc and /sys are other file systems than /, or there is nothing to see. */
static void mount_points_are_left_alone(void **state)
{
    struct stat up, proc;
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    assert_true(root >= 0);
    if (fstat(root, &up) != 0 || stat("/proc", &proc) != 0 || up.st_dev == proc.st_dev)
        skip();
    assert_opens(root, "proc", O_PATH, false, EXDEV);
    assert_opens(root, "proc/version", O_RDONLY, false, EXDEV);
    assert_opens(root, "proc/version", O_RDONLY, true, 0);
    assert_int_equal(close(root), 0);
}

/* From here on this process gets the errno `why` for every openat2, as in a container whose profile
 * does not know it. */
static bool openat2_refused(unsigned why)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | why),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* 0: the store was refused for that reason; 77: no filter can be set here. */
static int store_without_openat2(const char *root, int why)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    if (!openat2_refused((unsigned)why))
        return 77;
    struct zf_store *st = zf_store_dir(root, &lim, &err);
    return st || err.code != ZF_E_IO || err.sys != why || !strstr(err.msg, "openat2");
}

static void a_system_without_openat2_is_named(void **state)
{
    static const int whys[] = {ENOSYS, EPERM};

    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        int status;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(store_without_openat2(*state, whys[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_outside_is_opened, scratch_setup, scratch_teardown),
        cmocka_unit_test(mount_points_are_left_alone),
        cmocka_unit_test_setup_teardown(a_system_without_openat2_is_named, scratch_setup,
                                        scratch_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
