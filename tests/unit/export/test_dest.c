/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of a file of an export, its name, and a disk that takes no more.  renameat2 is our own here: it does not know
 * its flag, as on some file systems. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/export.h"

static char dir[64];
static int root;

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (flags) {
        errno = EINVAL;
        return -1;
    }
    return renameat(from_dir, from, to_dir, to);
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/zf-dest-XXXXXX");
    root = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY) : -1;
    return root < 0;
}

static int teardown(void **state)
{
    static const char *const all[] = {"a", "b", ".a.part", ".SHA256SUMS.part"};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)unlinkat(root, all[i], 0);
    return close(root) || rmdir(dir);
}

static struct export_spot spot_of(const char *name)
{
    struct export_spot s = {.dir = root, .part = ".a.part"};

    (void)snprintf(s.name, sizeof s.name, "%s", name);
    return s;
}

static void write_part(const char *text)
{
    int fd = openat(root, ".a.part", O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void expect_text(const char *name, const char *text)
{
    char got[200] = "";
    int fd = openat(root, name, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got - 1), strlen(text));
    assert_string_equal(got, text);
    (void)close(fd);
}

static void a_link_where_rename_does_not_know_its_flag(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    struct export_spot s = spot_of("a");
    struct stat st;

    (void)state;
    write_part("one");
    assert_ok(export_dest_publish(&s, false, &err), &err);
    expect_text("a", "one");
    assert_int_equal(fstatat(root, "a", &st, 0), 0);
    assert_int_equal(st.st_nlink, 1);
    assert_int_not_equal(faccessat(root, ".a.part", F_OK, 0), 0);
    /* and what is there stays, but by force */
    write_part("two");
    assert_false(export_dest_publish(&s, false, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "rename the partial file");
    expect_text("a", "one");
    zf_err_clear(&err);
    assert_ok(export_dest_publish(&s, true, &err), &err);
    expect_text("a", "two");
}

/* One export after the other: what an earlier one wrote stays, but for what is written again. */
static void sums_of_several_exports(void **state)
{
    struct zf_export_file b = {.to = "b", .st.size = 5, .done = true, .next_link = UINT32_MAX};
    struct zf_export_file c = {.to = "c", .st.size = 5, .done = true, .next_link = UINT32_MAX};
    const struct zf_export_plan first = {.file = &b, .n = 1}, second = {.file = &c, .n = 1};
    struct zf_err err = {.code = ZF_OK};
    char want[200], zeros[65], ones[65];

    (void)state;
    memset(zeros, '0', 64), zeros[64] = '\0';
    memset(ones, '1', 64), ones[64] = '\0';
    assert_ok(export_sums_write(root, &first, &err), &err);
    assert_ok(export_sums_write(root, &second, &err), &err);
    (void)snprintf(want, sizeof want, "%s  c\n%s  b\n", zeros, zeros);
    expect_text("SHA256SUMS", want);
    memset(b.sha256, 0x11, sizeof b.sha256);
    assert_ok(export_sums_write(root, &first, &err), &err);
    (void)snprintf(want, sizeof want, "%s  b\n%s  c\n", ones, zeros);
    expect_text("SHA256SUMS", want);
    assert_int_equal(unlinkat(root, "SHA256SUMS", 0), 0);
}

/* A digest of 64 digits does not go into 10 bytes.  Were it tried again for ever, the alarm would end the test. */
static void sums_that_the_disk_does_not_take(void **state)
{
    struct zf_export_file file[] = {
        {.to = "b", .st.size = 5, .done = true, .next_link = UINT32_MAX}};
    const struct zf_export_plan plan = {.file = file, .n = 1};
    struct zf_err err = {.code = ZF_OK};
    struct rlimit usual, small;

    (void)state;
    assert_ok(export_sums_write(root, &plan, &err), &err);
    assert_int_equal(unlinkat(root, "SHA256SUMS", 0), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = (struct rlimit){10, usual.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    (void)alarm(20);
    bool ok = export_sums_write(root, &plan, &err);
    (void)alarm(0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_false(ok);
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "write");
    assert_int_not_equal(faccessat(root, "SHA256SUMS", F_OK, 0),
                         0); /* no part of it under its name */
}

/* 255 bytes are the most that a name may have; the digest is sha256sum's. */
static void a_part_of_a_long_name(void **state)
{
    char name[256], want[300], front[65];
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    memset(name, 'n', sizeof name);
    memset(front, 'n', 64), front[64] = '\0';
    for (size_t n = 248; n < 256; n++) {
        zf_auto(export_spot) struct export_spot s = {.dir = -1};

        name[n] = '\0';
        assert_ok(export_dest_spot(root, name, &s, &err), &err);
        assert_string_equal(s.name, name);
        assert_true(strlen(s.part) <= 255);
        if (n <= 249) {
            (void)snprintf(want, sizeof want, ".%s.part", name);
            assert_string_equal(s.part, want);
        }
        if (n == 250) {
            (void)snprintf(want, sizeof want, ".%s~213b83271b358ed9.part", front);
            assert_string_equal(s.part, want);
        }
        name[n] = 'n';
    }
}

/* A tree's names can be anything; a file's cannot. */
static void names_that_no_file_has(void **state)
{
    static const char *const bad[] = {"",   ".",    "..",  "/a",   "./a",   "../a",
                                      "b/", "b//a", "b/.", "b/..", "b/../a"};
    char long_name[300];
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    memset(long_name, 'n', sizeof long_name);
    long_name[256] = '\0';
    for (size_t i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
        zf_auto(export_spot) struct export_spot s = {.dir = -1};

        if (export_dest_spot(root, i < sizeof bad / sizeof bad[0] ? bad[i] : long_name, &s, &err))
            fail_msg("name %zu was taken", i);
        assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "this is not a valid file name");
    }
    for (const char *const *good = (const char *const[]){"...", ".a", "..a", "a.", NULL}; *good;
         good++) {
        zf_auto(export_spot) struct export_spot s = {.dir = -1};

        assert_ok(export_dest_spot(root, *good, &s, &err), &err);
        assert_string_equal(s.name, *good);
    }
    (void)unlinkat(root, "b", AT_REMOVEDIR);
}

/* The destination is taken away meanwhile. */
static void a_directory_that_cannot_be_made(void **state)
{
    zf_auto(export_spot) struct export_spot s = {.dir = -1};
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_int_equal(rmdir(dir), 0);
    assert_false(export_dest_spot(root, "x/y", &s, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "make the directory");
    assert_int_equal(mkdir(dir, 0700), 0);
}

/* --force replaces what it finds: never beside the file that it reads, by whatever name that goes. */
static void the_directory_of_a_checkpoint_of_one_file(void **state)
{
    struct zf_err err;
    char file[100], beside[100], dots[100];
    int fd;

    (void)state;
    write_part("weights");
    (void)snprintf(file, sizeof file, "%s/.a.part", dir);
    (void)snprintf(beside, sizeof beside, "%s/a", dir);
    (void)snprintf(dots, sizeof dots, "%s/../%s", dir, strrchr(dir, '/') + 1);
    for (int k = 0; k < 2; k++) {
        assert_false(export_dest_open(k ? dots : dir, file, true, &fd, &err));
        assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE,
                   "the checkpoint's own directory cannot be the destination");
    }
    assert_true(export_dest_open(dir, file, false, &fd, &err));
    assert_int_equal(close(fd), 0);
    assert_ok(export_dest_open(beside, file, true, &fd, &err), &err);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rmdir(beside), 0);
    assert_false(export_dest_open("", file, false, &fd, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "the destination has no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_where_rename_does_not_know_its_flag, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sums_of_several_exports, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_a_long_name, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_no_file_has, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_cannot_be_made, setup, teardown),
        cmocka_unit_test_setup_teardown(the_directory_of_a_checkpoint_of_one_file, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_that_the_disk_does_not_take, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
