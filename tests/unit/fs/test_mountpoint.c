/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted where, as the kernel says it in two other ways: /proc/self/mounts and stat(2). */
#include "support/unit.h"

#include <errno.h>
#include <mntent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zf/mountpoint.h>

struct seen {
    FILE *mounts;
    unsigned n, stop_at;
};

static bool same_row(void *ctx, const struct zf_mount_row *row)
{
    struct seen *seen = ctx;
    struct mntent *m = getmntent(seen->mounts);

    assert_non_null(m);
    assert_string_equal(row->point, m->mnt_dir);
    assert_string_equal(row->source, m->mnt_fsname);
    assert_string_equal(row->mount.type, m->mnt_type);
    assert_true(row->mount.fuse ==
                (strcmp(m->mnt_type, "fuse") == 0 || strncmp(m->mnt_type, "fuse.", 5) == 0));
    return ++seen->n != seen->stop_at;
}

static void every_row_is_told_in_order(void **state)
{
    struct seen seen = {.mounts = setmntent("/proc/self/mounts", "r")};

    (void)state;
    if (!seen.mounts)
        return; /* no /proc; skip() is a failure to TAP in older cmockas */
    zf_mount_each(same_row, &seen);
    assert_null(getmntent(seen.mounts));
    endmntent(seen.mounts);
}

static void the_caller_can_stop(void **state)
{
    struct seen seen = {.mounts = setmntent("/proc/self/mounts", "r"), .stop_at = 1};

    (void)state;
    if (!seen.mounts)
        return; /* no /proc; skip() is a failure to TAP in older cmockas */
    zf_mount_each(same_row, &seen);
    endmntent(seen.mounts);
    assert_int_equal(seen.n, 1);
}

static void the_mount_at_a_path_has_its_device(void **state)
{
    static const char *const paths[] = {"/", "/proc", "/dev", "/proc/self", "/usr"};
    struct zf_mount m;
    struct stat st;

    (void)state;
    if (!zf_mount_at("/", &m))
        return; /* no /proc; skip() is a failure to TAP in older cmockas */
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (stat(paths[i], &st) == 0) {
            assert_true(zf_mount_at(paths[i], &m));
            assert_int_equal(m.dev, st.st_dev);
        }
    }
    assert_true(zf_mount_at("/proc", &m));
    assert_true(m.here && !m.fuse);
    assert_string_equal(m.type, "proc");
    assert_true(zf_mount_at("/proc/self/fd", &m) && !m.here);
    assert_false(zf_mount_at("/nothing is called so", &m));
}

static void another_mount_is_never_taken_off(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    struct zf_mount m, after;

    (void)state;
    if (!zf_mount_at("/proc", &m))
        return;      /* no /proc; skip() is a failure to TAP in older cmockas */
    m.id += 1000000; /* one that is not there any more */
    assert_int_equal(zf_mount_detach("/proc", &m, NULL, NULL, &err), ZF_DETACH_GONE);
    assert_true(zf_mount_at("/proc", &after) && after.here);
    assert_false(zf_mount_same(&m, &after));
}

/* ---- what the kernel does not allow, fusermount3 may ------------------------------------------------ */

static int umount2_says; /* errno; 0: it is done */

int umount2(const char *path, int flags)
{
    (void)path;
    assert_true(flags & MNT_DETACH);
    errno = umount2_says;
    return umount2_says ? -1 : 0;
}

static char bin[32], said[64];

/* A fusermount3 that notes how it was called, and ends so. */
static void write_fusermount(const char *end)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%s/fusermount3", bin);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "#!/bin/sh\nIFS=,; echo \"$*\" >%s\n%s\n", said, end) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* The words of the last call, "" if there was none. */
static const char *last_call(void)
{
    static char text[200];
    FILE *f = fopen(said, "r");

    text[0] = '\0';
    if (f) {
        (void)fgets(text, sizeof text, f);
        (void)fclose(f);
        (void)unlink(said);
    }
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static int setup_fusermount(void **state)
{
    (void)state;
    strcpy(bin, "/tmp/zf-bin-XXXXXX");
    assert_non_null(mkdtemp(bin));
    (void)snprintf(said, sizeof said, "%s/said", bin);
    return setenv("PATH", bin, 1);
}

static int teardown_fusermount(void **state)
{
    char path[64];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/fusermount3", bin);
    (void)unlink(path);
    (void)unlink(said);
    return rmdir(bin);
}

static void fusermount_is_asked_and_believed(void **state)
{
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_false(zf_mount_fusermount("/some where", false, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "run fusermount3");
    write_fusermount("exit 0");
    assert_ok(zf_mount_fusermount("/some where", false, &err), &err);
    assert_string_equal(last_call(), "-u,--,/some where");
    assert_ok(zf_mount_fusermount("-x", true, &err), &err);
    assert_string_equal(last_call(), "-uz,--,-x");
    write_fusermount("exit 1");
    assert_false(zf_mount_fusermount("/a", false, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "fusermount3 could not unmount it");
    write_fusermount("kill -KILL $$");
    assert_false(zf_mount_fusermount("/a", false, &err));
}

/* The descriptor is one of /proc, and cannot be read. */
static bool says_ours(void *ctx, int fd)
{
    struct stat by_fd, by_path;

    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(stat("/proc", &by_path), 0);
    assert_int_equal(by_fd.st_dev, by_path.st_dev);
    return *(const bool *)ctx;
}

static void the_kernel_is_asked_first(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    struct zf_mount m;

    (void)state;
    write_fusermount("exit 0");
    umount2_says = 0;
    assert_ok(zf_mount_detach_any("/proc", &err), &err);
    assert_string_equal(last_call(), "");
    umount2_says = EINVAL;
    assert_false(zf_mount_detach_any("/proc", &err));
    assert_non_null(strstr(err.msg, "unmount it"));
    assert_string_equal(last_call(), "");
    umount2_says = EPERM;
    assert_ok(zf_mount_detach_any("/proc", &err), &err);
    assert_string_equal(last_call(), "-uz,--,/proc");
    if (!zf_mount_at("/proc", &m))
        return; /* no /proc; skip() is a failure to TAP in older cmockas */
    assert_int_equal(zf_mount_detach("/proc", &m, NULL, NULL, &err), ZF_DETACH_DONE);
    assert_string_equal(last_call(), "-uz,--,/proc");
    umount2_says = 0;
    assert_int_equal(zf_mount_detach("/proc", &m, NULL, NULL, &err), ZF_DETACH_DONE);
    assert_string_equal(last_call(), "");
    umount2_says = EBUSY;
    assert_int_equal(zf_mount_detach("/proc", &m, NULL, NULL, &err), ZF_DETACH_FAILED);

    /* One that has the same numbers and is a later one. */
    bool ours = false;
    assert_int_equal(zf_mount_detach("/proc", &m, says_ours, &ours, &err), ZF_DETACH_GONE);
    ours = true;
    assert_int_equal(zf_mount_detach("/proc", &m, says_ours, &ours, &err), ZF_DETACH_FAILED);
}

/* ---- who serves it may be gone, or hang ----------------------------------------------------------- */

static int statfs_says; /* errno; 0: all is well; -1: it never answers */

int fstatfs(int fd, struct statfs *out)
{
    assert_int_equal(fd, 1234);
    memset(out, 0, sizeof *out);
    while (statfs_says < 0)
        (void)pause();
    errno = statfs_says;
    return statfs_says ? -1 : 0;
}

static void a_mount_is_dead_or_alive(void **state)
{
    static const struct {
        int says;
        bool dead;
    } row[] = {{0, false}, {ENOTCONN, true}, {ECONNABORTED, true}, {EIO, false}, {ENOENT, false}};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        statfs_says = row[i].says;
        assert_true(zf_mount_dead(1234) == row[i].dead);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left behind */
    }
}

/* Who asks waits a second, and takes the one that waits longer away. */
static void a_mount_that_hangs_is_not_dead(void **state)
{
    int status = 0;

    (void)state;
    statfs_says = -1;
    assert_false(zf_mount_dead(1234));
    (void)alarm(20); /* were it not taken away, it would wait for ever */
    assert_true(waitpid(-1, &status, 0) > 0);
    (void)alarm(0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- mounts of our own --------------------------------------------------------------------------- */

/* Names with what the table escapes: 0 = told as the C library tells them, 77 = not allowed. */
static int look_at_odd_names(const char *dir)
{
    static const char odd[] = "a b\\040\tc\nd\\";
    struct seen seen = {.mounts = NULL};
    char path[200];

    (void)snprintf(path, sizeof path, "%s/%s", dir, odd);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", dir, "tmpfs", 0, NULL) != 0 || mkdir(path, 0700) != 0 ||
        mount(odd, path, "tmpfs", 0, NULL) != 0)
        return 77;
    seen.mounts = setmntent("/proc/self/mounts", "r");
    if (!seen.mounts)
        return 77;
    zf_mount_each(same_row, &seen);
    endmntent(seen.mounts);
    struct zf_mount m;
    return !zf_mount_at(path, &m) || !m.here;
}

static void odd_names_are_read(void **state)
{
    char dir[] = "/tmp/zf-test-XXXXXX";
    int status = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    pid_t child = fork();
    if (child == 0)
        _exit(look_at_odd_names(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(dir), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status) % 77, 0);
}

/* In a chroot to a mere directory: 0 = all is as it must be, 77 = not allowed. */
static int look_from_chroot(const char *dir)
{
    struct zf_mount before, m;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        chdir(dir) != 0 || mkdir("proc", 0700) != 0 ||
        mount("proc", "proc", "proc", 0, NULL) != 0 || !zf_mount_at(dir, &before) ||
        chroot(".") != 0)
        return 77;
    return zf_mount_at("/", &m) ? 1 : m.id != before.id ? 2 : !zf_mount_at("/proc", &m);
}

/* The mount is not in the table that the chroot sees, but its number is known. */
static void a_mount_outside_of_the_chroot(void **state)
{
    char dir[] = "/tmp/zf-test-XXXXXX", proc[40];
    int status = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    pid_t child = fork();
    if (child == 0)
        _exit(look_from_chroot(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)snprintf(proc, sizeof proc, "%s/proc", dir);
    (void)rmdir(proc);
    assert_int_equal(rmdir(dir), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status) % 77, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_told_in_order),
        cmocka_unit_test(the_caller_can_stop),
        cmocka_unit_test(the_mount_at_a_path_has_its_device),
        cmocka_unit_test(another_mount_is_never_taken_off),
        cmocka_unit_test(a_mount_is_dead_or_alive),
        cmocka_unit_test(a_mount_that_hangs_is_not_dead),
        cmocka_unit_test(odd_names_are_read),
        cmocka_unit_test(a_mount_outside_of_the_chroot),
        cmocka_unit_test_setup_teardown(fusermount_is_asked_and_believed, setup_fusermount,
                                        teardown_fusermount),
        cmocka_unit_test_setup_teardown(the_kernel_is_asked_first, setup_fusermount,
                                        teardown_fusermount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
