/* SPDX-License-Identifier: Apache-2.0 */
/* A copy that is asked to stop, and goes on after the machine was started anew: from what was certain, and only that. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/hex.h>

#include "support/fault.h"
#include "unit/view/made.h"

#include "export/export.h"

enum { LONG = EXPORT_BUF + 4321, SHORT = 1000 };

static char dir[64], long_name[] = "long.u8", short_name[] = "short.u8", bad_name[] = "bad.u8",
                     late_name[] = "late.u8", hashed_name[] = "hashed.u8";
static int root;
static struct zf_tree *tree;
static struct zf_export_file file[] = {
    {.from = long_name, .to = long_name, .next_link = UINT32_MAX},
    {.from = short_name, .to = short_name, .link_of = 1, .next_link = UINT32_MAX},
    {.from = bad_name, .to = bad_name, .link_of = 2, .next_link = UINT32_MAX},
    {.from = late_name, .to = late_name, .link_of = 3, .next_link = UINT32_MAX},
    {.from = hashed_name, .to = hashed_name, .link_of = 4, .next_link = UINT32_MAX}};
enum { HASHED = 4 };
enum { FILES = sizeof file / sizeof *file };
static unsigned char buf[EXPORT_BUF];

/* A vector of LONG zeros, of which byte `at` cannot be read. */
static void faulty(struct zf_build *b, const char *name, uint64_t at)
{
    const uint64_t n = LONG;
    zf_auto(source) struct zf_source *all = zf_mem_new("made", calloc(1, n), n, true, &err);
    zf_auto(source) struct zf_source *s = all ? fault_new(all, at, 1, &err) : NULL;
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, (uint32_t)strlen(name)},
                                         (struct zf_type){ZF_DT_U8, 1, &n}, &err);

    assert_ok(s && d && zf_draft_flat(d, 0, n, (struct zf_from){.src = s}, &err), &err);
}

static int setup(void **state)
{
    (void)state;
    struct zf_build *b = made_build(false);
    (void)made_vector(b, "long", ZF_DT_U8, LONG);
    (void)made_vector(b, "short", ZF_DT_U8, SHORT);
    (void)made_vector(b, "hashed", ZF_DT_U8, LONG);
    faulty(b, "bad", 0);
    faulty(b, "late", EXPORT_BUF);
    tree = made_tree(b, 0, NULL);
    strcpy(dir, "/tmp/zf-copy-XXXXXX");
    root = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY) : -1;
    for (size_t i = 0; tree && i < FILES; i++)
        assert_true(zf_tree_walk(tree, file[i].from, &file[i].st));
    return !tree || root < 0;
}

static int teardown(void **state)
{
    (void)state;
    zf_tree_free(tree);
    (void)unlinkat(root, long_name, 0);
    (void)unlinkat(root, short_name, 0);
    (void)unlinkat(root, hashed_name, 0);
    (void)unlinkat(root, ".late.u8.part", 0);
    (void)unlinkat(root, EXPORT_JOURNAL_NAME, 0);
    return close(root) || rmdir(dir);
}

/* One run over file i; how many bytes it did not have to copy. */
static enum export_end export(uint32_t i, bool stop, uint64_t *kept_out) {
    struct zf_export_plan plan = {.file = file, .n = FILES};
    struct export_run run =
        {.tree = tree, .plan = &plan, .dest = dir, .root = root, .sums = i == HASHED, .stop = stop};
    struct export_batch batch = {.most = 1};

    run.journal = export_journal_open(root, &err);
    assert_ok(run.journal, &err);
    enum export_end end = export_copy(&run, i, buf, &batch, &err);
    *kept_out = run.kept;
    export_journal_free(run.journal);
    return end;
}

/* The machine is started anew: what is in the journal is of another boot. */
static void reboot(void)
{
    char text[4000];
    int fd = openat(root, EXPORT_JOURNAL_NAME, O_RDWR);
    ssize_t n = read(fd, text, sizeof text - 1);

    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "boot "));
    for (char *boot = text; (boot = strstr(boot, "boot ")); boot += 5)
        boot[5] = '!';
    assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
    assert_int_equal(close(fd), 0);
}

static void expect_whole(uint32_t i)
{
    static unsigned char theirs[EXPORT_BUF];
    int fd = openat(root, file[i].to, O_RDONLY);

    assert_true(fd >= 0);
    for (uint64_t at = 0; at < file[i].st.size; at += sizeof buf) {
        size_t n;

        assert_ok(tree->ops->read(tree, file[i].st.ino, buf, sizeof buf, at, &n, &err), &err);
        assert_int_equal(pread(fd, theirs, sizeof theirs, (off_t)at), n);
        assert_memory_equal(buf, theirs, n);
    }
    assert_int_equal(close(fd), 0);
}

/* It was asked to stop when nothing was left to copy. */
static void stopped_behind_its_last_byte(void **state)
{
    uint64_t kept;

    (void)state;
    assert_int_equal(export(1, true, &kept), EXPORT_STOPPED);
    assert_int_equal(kept, 0);
    reboot();
    assert_ok(export(1, false, &kept) == EXPORT_OK, &err);
    assert_int_equal(kept, SHORT);
    expect_whole(1);
}

/* Bytes behind what is certain may be anything after a power failure. */
static void stopped_on_its_way(void **state)
{
    uint64_t kept;

    (void)state;
    assert_int_equal(export(0, true, &kept), EXPORT_STOPPED);
    int part = openat(root, ".long.u8.part", O_RDWR | O_APPEND);
    assert_int_equal(write(part, "never certain", 13), 13);
    assert_int_equal(close(part), 0);
    reboot();
    assert_ok(export(0, false, &kept) == EXPORT_OK, &err);
    assert_int_equal(kept, EXPORT_BUF);
    expect_whole(0);
}

/* What was copied in front of a byte that cannot be read is kept; of nothing nothing is. */
static void what_cannot_be_read(void **state)
{
    uint64_t kept;

    (void)state;
    assert_int_equal(export(2, false, &kept), EXPORT_UNREADABLE);
    assert_int_not_equal(faccessat(root, ".bad.u8.part", F_OK, 0), 0);
    assert_int_equal(export(3, false, &kept), EXPORT_UNREADABLE);
    assert_int_equal(faccessat(root, ".late.u8.part", F_OK, 0), 0);
    assert_int_equal(export(3, false, &kept), EXPORT_UNREADABLE);
    assert_int_equal(kept, EXPORT_BUF);
}

/* The digest is sha256sum's. */
static void expect_digest(void)
{
    char command[200], want[65] = "", got[65];

    (void)snprintf(command, sizeof command, "sha256sum %s/%s", dir, hashed_name);
    FILE *f = popen(command, "r");
    assert_true(f && fread(want, 1, 64, f) == 64);
    assert_int_equal(pclose(f), 0);
    zf_hex(got, file[HASHED].sha256, sizeof file[HASHED].sha256);
    assert_string_equal(got, want);
    memset(file[HASHED].sha256, 0, sizeof file[HASHED].sha256);
}

/* Bytes that are there already count too: of a part, of a file that is known to be done, of one that was compared. */
static void digests_of_what_is_kept(void **state)
{
    uint64_t kept;

    (void)state;
    assert_int_equal(export(HASHED, true, &kept), EXPORT_STOPPED);
    assert_int_equal(export(HASHED, true, &kept), EXPORT_STOPPED); /* while it hashes the part */
    assert_ok(export(HASHED, false, &kept) == EXPORT_OK, &err);
    assert_int_equal(kept, EXPORT_BUF);
    expect_whole(HASHED);
    expect_digest();
    assert_ok(export(HASHED, false, &kept) == EXPORT_OK, &err);
    assert_int_equal(kept, LONG);
    expect_digest();
    assert_int_equal(unlinkat(root, EXPORT_JOURNAL_NAME, 0), 0);
    assert_ok(export(HASHED, false, &kept) == EXPORT_OK, &err);
    assert_int_equal(kept, LONG);
    expect_digest();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_behind_its_last_byte),
        cmocka_unit_test(stopped_on_its_way),
        cmocka_unit_test(what_cannot_be_read),
        cmocka_unit_test(digests_of_what_is_kept),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
