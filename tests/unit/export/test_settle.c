/* SPDX-License-Identifier: Apache-2.0 */
/* Files of an export on their way to the disk: by which calls they are put there, that none has its name before, and
 * what becomes of one that the disk did not take.  The calls are our own here: they count, and fail when asked to. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "export/export.h"

#define ID "0123456789abcdef0123456789abcdef"

static char dir[64];
static int root;

/* ---- the kernel ------------------------------------------------------------------------------- */

static struct {
    long fs;               /* what the destination is on */
    unsigned dirty_kib;    /* of the machine */
    ino_t bad;             /* a file that cannot be put on the disk */
    bool no_syncfs;        /* syncfs fails */
    bool no_dirs;          /* the file system does not know fsync, as some do not of directories */
    unsigned syncfs, sync; /* calls: of all, of one file */
    unsigned early;        /* names that were there before the first of these calls */
} kernel;

static unsigned names(void)
{
    static const char *const all[] = {"a", "b", "c", "tie"};
    unsigned n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        n += faccessat(root, all[i], F_OK, 0) == 0;
    return n;
}

static int answer(int fd)
{
    struct stat st;

    if (kernel.bad && fstat(fd, &st) == 0 && st.st_ino == kernel.bad) {
        errno = kernel.no_dirs ? EINVAL : EIO;
        return -1;
    }
    return 0;
}

int fstatfs(int fd, struct statfs *out)
{
    (void)fd;
    *out = (struct statfs){.f_type = (__typeof__(out->f_type))kernel.fs};
    return 0;
}

FILE *fopen(const char *path, const char *mode)
{
    static char text[100];

    assert_string_equal(path, "/proc/meminfo");
    (void)mode;
    (void)snprintf(text, sizeof text, "MemTotal: 1 kB\nDirty:   %u kB\nWriteback: 9 kB\n",
                   kernel.dirty_kib);
    return fmemopen(text, strlen(text), "r");
}

int syncfs(int fd)
{
    (void)fd;
    kernel.early += kernel.syncfs++ == 0 ? names() : 0;
    errno = EIO;
    return kernel.no_syncfs ? -1 : 0;
}

int fsync(int fd)
{
    kernel.early += kernel.sync++ == 0 ? names() : 0;
    return answer(fd);
}

int fdatasync(int fd)
{
    return fsync(fd);
}

int sync_file_range(int fd, off_t off, off_t n, unsigned flags)
{
    (void)off, (void)n, (void)flags;
    return answer(fd);
}

/* ---- an export -------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/zf-settle-XXXXXX");
    root = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY) : -1;
    memset(&kernel, 0, sizeof kernel);
    kernel.fs = EXT4_SUPER_MAGIC;
    return root < 0;
}

static int teardown(void **state)
{
    static const char *const all[] = {"a", "b", "c", "tie", ".a.part", ".b.part", ".c.part"};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)unlinkat(root, all[i], 0);
    (void)unlinkat(root, EXPORT_JOURNAL_NAME, 0);
    return close(root) || rmdir(dir);
}

static ino_t part(const char *name, int *fd_out)
{
    struct stat st;

    *fd_out = openat(root, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(*fd_out >= 0);
    assert_int_equal(write(*fd_out, "bytes", 5), 5);
    assert_int_equal(fstat(*fd_out, &st), 0);
    return st.st_ino;
}

/* Settles n parts a, b, c, of which a has the tie "tie".  bad: index of one that the disk does not take. */
static enum export_end settle(uint32_t n, int bad, struct zf_export_file file[4],
                              struct zf_err *err)
{
    static const char *const to[] = {"a", "b", "c", "tie"}, *const parts[] = {".a.part", ".b.part",
                                                                              ".c.part"};
    struct zf_export_plan plan = {.file = file, .n = 4};
    struct export_run run = {.plan = &plan, .dest = "dest", .root = root};
    struct export_batch batch = {.most = 3};

    run.journal = export_journal_open(root, err);
    assert_ok(run.journal, err);
    for (uint32_t i = 0; i < 4; i++) {
        file[i] = (struct zf_export_file){
            .to = to[i], .st.size = 5, .link_of = i, .next_link = UINT32_MAX};
    }
    file[0].next_link = 3;
    file[3].link_of = 0;
    for (uint32_t i = 0; i < n; i++) {
        int fd;
        ino_t ino = part(parts[i], &fd);

        kernel.bad = bad == (int)i ? ino : kernel.bad;
        assert_true(export_batch_add(&batch, &run, i, fd, ID) == (i == 2));
    }
    enum export_end end = export_sync(&run, &batch, err);
    assert_int_equal(batch.n, 0);
    export_journal_free(run.journal);
    return end;
}

static void expect_all(unsigned n_syncfs, unsigned n_sync)
{
    struct zf_export_file file[4];
    struct zf_err err = {.code = ZF_OK};

    assert_ok(settle(3, -1, file, &err) == EXPORT_OK, &err);
    assert_int_equal(names(), 4);
    assert_int_equal(kernel.early, 0);
    assert_int_equal(kernel.syncfs, n_syncfs);
    assert_int_equal(kernel.sync, n_sync);
    for (int i = 0; i < 4; i++)
        assert_true(file[i].done);
}

static void several_files_are_one_call(void **state)
{
    (void)state;
    expect_all(1, 0);
}

static void one_file_is_its_own(void **state)
{
    struct zf_export_file file[4];
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_ok(settle(1, -1, file, &err) == EXPORT_OK, &err);
    assert_int_equal(kernel.syncfs, 0);
    assert_int_equal(kernel.sync, 1);
    assert_int_equal(kernel.early, 0);
    assert_int_equal(names(), 2);
}

static void an_unknown_file_system_is_asked_file_by_file(void **state)
{
    (void)state;
    kernel.fs = 0x65735546; /* FUSE */
    expect_all(0, 3);
}

static void what_others_write_is_not_waited_for(void **state)
{
    (void)state;
    kernel.dirty_kib = 600u << 10;
    expect_all(0, 3);
}

static void a_call_for_all_that_fails_is_no_answer(void **state)
{
    (void)state;
    kernel.no_syncfs = true;
    expect_all(1, 3);
}

/* File b does not get to the disk. */
static void expect_without_b(void)
{
    struct zf_export_file file[4];
    struct zf_err err = {.code = ZF_OK};

    assert_int_equal(settle(3, 1, file, &err), EXPORT_UNWRITABLE);
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "sync the file");
    assert_string_equal(err.path, "dest/b");
    assert_int_equal(names(), 3);
    assert_int_not_equal(faccessat(root, "b", F_OK, 0), 0);
    assert_int_not_equal(faccessat(root, ".b.part", F_OK, 0), 0);
    assert_true(file[0].done && !file[1].done && file[2].done);
}

static void a_file_that_the_disk_does_not_take_is_left_out(void **state)
{
    (void)state;
    expect_without_b();
    assert_int_equal(kernel.syncfs, 1);
}

static void also_when_it_is_asked_by_itself(void **state)
{
    (void)state;
    kernel.fs = 0x65735546;
    expect_without_b();
}

static void a_part_that_the_disk_does_not_take_is_not_gone_on_from(void **state)
{
    struct export_spot spot;
    struct zf_err err = {.code = ZF_OK};
    int fd;

    (void)state;
    assert_ok(export_dest_spot(root, "a", &spot, &err), &err);
    ino_t ino = part(".a.part", &fd);
    assert_ok(export_part_sync(&spot, fd, &err), &err);
    assert_int_equal(faccessat(root, ".a.part", F_OK, 0), 0);
    kernel.bad = ino;
    assert_false(export_part_sync(&spot, fd, &err));
    assert_int_not_equal(faccessat(root, ".a.part", F_OK, 0), 0);
    close(fd);
    close(spot.dir);
}

/* to: up to 8 paths below the destination. */
static enum export_end names_sync(const char *const *to, uint32_t n, struct zf_err *err)
{
    struct zf_export_file file[8] = {{.to = NULL}};
    struct zf_export_plan plan = {.file = file, .n = n};
    const struct export_run run = {.plan = &plan, .dest = "dest", .root = root};

    for (uint32_t i = 0; i < n; i++)
        file[i].to = to[i];
    return export_names_sync(&run, err);
}

static void every_directory_is_put_on_the_disk_once(void **state)
{
    static const char *const to[] = {"a", "b", "d/e/x", "d/e/y", "d/f/x", "d/x", "de/x", "z"};
    struct zf_err err = {.code = ZF_OK};
    struct stat st;

    (void)state;
    assert_int_equal(mkdirat(root, "d", 0700) | mkdirat(root, "d/e", 0700) |
                         mkdirat(root, "d/f", 0700) | mkdirat(root, "de", 0700),
                     0);
    assert_ok(names_sync(to, 8, &err) == EXPORT_OK, &err);
    assert_int_equal(kernel.sync, 5); /* ".", d, d/e, d/f, de */
    assert_int_equal(fstatat(root, "d/f", &st, 0), 0);
    kernel.bad = st.st_ino;
    assert_int_equal(names_sync(to, 8, &err), EXPORT_UNWRITABLE);
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "sync the directory");
    assert_string_equal(err.path, "dest/d/f/x");
    kernel.no_dirs = true;
    assert_ok(names_sync(to, 8, &err) == EXPORT_OK, &err);
    assert_int_equal(unlinkat(root, "d/f", AT_REMOVEDIR) | unlinkat(root, "d/e", AT_REMOVEDIR) |
                         unlinkat(root, "d", AT_REMOVEDIR) | unlinkat(root, "de", AT_REMOVEDIR),
                     0);
}

static void the_destination_may_refuse_it_too(void **state)
{
    static const char *const to[] = {"a"};
    struct zf_err err = {.code = ZF_OK};
    struct stat st;

    (void)state;
    assert_int_equal(fstat(root, &st), 0);
    kernel.bad = st.st_ino;
    assert_int_equal(names_sync(to, 1, &err), EXPORT_UNWRITABLE);
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "sync the directory");
}

static void the_name_may_be_taken_meanwhile(void **state)
{
    struct zf_export_file file[4];
    struct zf_err err = {.code = ZF_OK};
    char text[6] = "";
    int fd = openat(root, "c", O_RDWR | O_CREAT, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "mine", 4), 4);
    assert_int_equal(settle(3, -1, file, &err), EXPORT_UNWRITABLE);
    assert_string_equal(err.path, "dest/c");
    assert_int_equal(pread(fd, text, 5, 0), 4);
    assert_string_equal(text, "mine");
    assert_true(file[0].done && file[1].done && !file[2].done);
    close(fd);
}

/* ---- ties --------------------------------------------------------------------------------------- */

/* Links "a" as "tie" and "b". */
static enum export_end link_a(bool force, struct zf_export_file file[3], struct zf_err *err)
{
    struct zf_export_plan plan = {.file = file, .n = 3};
    struct export_run run = {.plan = &plan, .dest = "dest", .root = root, .force = force};

    file[0] = (struct zf_export_file){.to = "a", .next_link = 1, .sha256 = {1, 2, 3}};
    file[1] = (struct zf_export_file){.to = "tie", .next_link = 2};
    file[2] = (struct zf_export_file){.to = "b", .next_link = UINT32_MAX};
    zf_err_clear(err);
    return export_link(&run, 0, err);
}

static ino_t inode_of(const char *name)
{
    struct stat st;

    return fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

static void ties_are_names_of_one_file(void **state)
{
    struct zf_export_file file[3];
    struct zf_err err = {.code = ZF_OK};
    int fd;

    (void)state;
    assert_int_equal(link_a(false, file, &err), EXPORT_UNWRITABLE); /* of what is not there */
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "make the link");
    assert_string_equal(err.path, "dest/tie");
    ino_t ino = part("a", &fd);
    (void)close(fd);
    for (int again = 0; again < 3;
         again++) { /* as an export that is run once more does, by force or not */
        assert_ok(link_a(again == 2, file, &err) == EXPORT_OK, &err);
        assert_int_equal(inode_of("a"), ino);
        assert_int_equal(inode_of("tie"), ino);
        assert_int_equal(inode_of("b"), ino);
        assert_true(file[1].done && file[2].done);
        assert_memory_equal(file[2].sha256, file[0].sha256, sizeof file[0].sha256);
    }
    /* Another file is in the way of the second. */
    assert_int_equal(unlinkat(root, "b", 0), 0);
    ino_t other = part("b", &fd);
    (void)close(fd);
    assert_int_equal(link_a(false, file, &err), EXPORT_UNWRITABLE);
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "not a link to \"a\". Replace it with --force");
    assert_string_equal(err.path, "dest/b");
    assert_true(file[1].done && !file[2].done);
    assert_int_equal(inode_of("b"), other);
    assert_ok(link_a(true, file, &err) == EXPORT_OK, &err);
    assert_int_equal(inode_of("b"), ino);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_files_are_one_call, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file_is_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_file_system_is_asked_file_by_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_others_write_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_for_all_that_fails_is_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_the_disk_does_not_take_is_left_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(also_when_it_is_asked_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_that_the_disk_does_not_take_is_not_gone_on_from,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(every_directory_is_put_on_the_disk_once, setup, teardown),
        cmocka_unit_test_setup_teardown(the_destination_may_refuse_it_too, setup, teardown),
        cmocka_unit_test_setup_teardown(the_name_may_be_taken_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(ties_are_names_of_one_file, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
