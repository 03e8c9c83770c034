/* SPDX-License-Identifier: Apache-2.0 */
/* The walk for old kernels must answer as openat2 does. */
#include "support/unit.h"

#include <limits.h>

#include "source/beneath.h"
#include "unit/source/scratch.h"

static void assert_alike(int root, const char *path, int flags, bool xdev)
{
    struct stat a, b;
    int fd = beneath_open(root, path, flags, xdev), why = errno;
    int walked = beneath_walk(root, path, flags, xdev);

    if (fd < 0) {
        assert_int_equal(walked, -1);
        assert_int_equal(errno, why);
        return;
    }
    if (walked < 0) {
        fail_msg("%s: openat2 opens it, the walk does not: %s", path, strerror(errno));
    }
    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(fstat(walked, &b), 0);
    assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    assert_int_equal(fcntl(walked, F_GETFD), FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(walked), 0);
}

static void walks_as_the_kernel_does(void **state)
{
    static const char *const paths[] = {
        "a",          "dir",      "dir/b",   ".",       "..",      "dir/..",  "dir/../a",
        "dir/../..",  "nowhere",  "a/b",     "in",      "dir/up",  "loop",    "broken",
        "out",        "absolute", "chain39", "chain40", "chain41", "dirlink", "dirlink/b",
        "dirlink/up", "./a",      "/etc",    "",        "two",     "dir//b",
    };
    char name[20], text[20];

    scratch_file(*state, "a", "A");
    scratch_file(*state, "dir/b", "B");
    scratch_link(*state, "in", "dir/b");
    scratch_link(*state, "dir/up", "../a");
    scratch_link(*state, "loop", "loop");
    scratch_link(*state, "broken", "nowhere");
    scratch_link(*state, "out", "../x");
    scratch_link(*state, "two", "dirlink/up");
    scratch_link(*state, "absolute", "/etc/passwd");
    scratch_link(*state, "dirlink", "dir");
    scratch_link(*state, "chain0", "a");
    for (int i = 1; i <= 41; i++) {
        (void)snprintf(name, sizeof name, "chain%d", i);
        (void)snprintf(text, sizeof text, "chain%d", i - 1);
        scratch_link(*state, name, text);
    }
    int root = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_alike(root, paths[i], O_RDONLY, i % 2);
        assert_alike(root, paths[i], O_PATH, i % 2);
        assert_alike(root, paths[i], O_PATH | O_NOFOLLOW, i % 2);
        assert_alike(root, paths[i], O_RDONLY | O_DIRECTORY, i % 2);
    }
    assert_int_equal(close(root), 0);
}

static void the_longest_path_is_the_kernels(void **state)
{
    int root = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_MAX + 2];

    scratch_dir(*state, "d");
    assert_true(root >= 0);
    for (size_t n = PATH_MAX - 2; n <= PATH_MAX + 1; n++) {
        /* d/././././… */
        for (size_t i = 0; i < n; i++) {
            path[i] = i == 0 ? 'd' : i % 2 ? '/' : '.';
        }
        path[n] = '\0';
        assert_alike(root, path, O_PATH, false);
    }
    assert_int_equal(close(root), 0);
}

/* The walk holds a descriptor for each directory on its way: of more than 127 it opens nothing. */
static void too_deep_opens_nothing(void **state)
{
    int root = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[2 * 128 + 2];

    for (size_t i = 0; i < 128; i++) {
        memcpy(path + 2 * i, "d/", 2);
    }
    assert_true(root >= 0);
    strcpy(path + sizeof path - 2, "f");
    scratch_file(*state, path, "too deep");
    strcpy(path + sizeof path - 4, "f");
    scratch_file(*state, path, "as deep as it goes");
    assert_alike(root, path, O_RDONLY, false);
    strcpy(path + sizeof path - 4, "d/f");
    const int before = scratch_descriptors();
    assert_int_equal(beneath_walk(root, path, O_RDONLY, false), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(scratch_descriptors(), before);
    assert_int_equal(close(root), 0);
}

/* /proc and /sys are other file systems than /, or there is nothing to see. */
static void mount_points_are_left_alone(void **state)
{
    static const char *const paths[] = {"proc", "proc/self", "proc/self/status",
                                        "sys",  "proc/..",   "etc"};
    struct stat up, proc;
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    assert_true(root >= 0);
    if (fstat(root, &up) != 0 || stat("/proc", &proc) != 0 || up.st_dev == proc.st_dev) {
        skip();
    }
    assert_int_equal(beneath_open(root, "proc", O_PATH, false), -1);
    assert_int_equal(errno, EXDEV);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_alike(root, paths[i], O_PATH, false);
        assert_alike(root, paths[i], O_PATH | O_NOFOLLOW, false);
    }
    assert_alike(root, "proc/version", O_RDONLY, true);
    assert_int_equal(close(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(walks_as_the_kernel_does, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(the_longest_path_is_the_kernels, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(too_deep_opens_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test(mount_points_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
