/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of an export: what it remembers over runs, over a crash that tore its last line, and over a boot. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/export.h"

#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "ffffffffffffffffffffffffffffffff"

static char dir[64];
static int root;

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/zf-journal-XXXXXX");
    root = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY) : -1;
    return root < 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlinkat(root, EXPORT_JOURNAL_NAME, 0);
    return close(root) || rmdir(dir);
}

static struct export_journal *begin(void)
{
    struct zf_err err = {.code = ZF_OK};
    struct export_journal *j = export_journal_open(root, &err);

    assert_ok(j, &err);
    return j;
}

/* The file as an earlier run left it. */
static void left(const char *text)
{
    int fd = openat(root, EXPORT_JOURNAL_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void expect(struct export_journal *j, const char *path, const char *id, uint64_t certain,
                   bool done)
{
    struct export_past past = export_journal_past(j, path);

    assert_true(past.known);
    assert_string_equal(past.id, id);
    assert_true(past.done == done);
    assert_int_equal(past.certain, certain);
}

static void nothing_is_known_at_first(void **state)
{
    zf_auto(export_journal) struct export_journal *j = begin();

    (void)state;
    assert_false(export_journal_past(j, "w.f32").known);
    assert_false(export_journal_past(j, "").known);
}

static void the_last_line_about_a_path_counts(void **state)
{
    (void)state;
    left("part " ID_A " 10 b c.f32\npart " ID_A " 20 b c.f32\npart " ID_B " 5 a\ndone " ID_B
         " a\npart " ID_A " 7 z\n");
    zf_auto(export_journal) struct export_journal *j = begin();

    expect(j, "b c.f32", ID_A, 20, false);
    expect(j, "a", ID_B, 0, true);
    expect(j, "z", ID_A, 7, false);
    assert_false(export_journal_past(j, "b").known);
    assert_false(export_journal_past(j, "zz").known);
}

static void a_run_of_this_boot_is_believed_whole(void **state)
{
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    for (int run = 0; run < 2; run++) {
        zf_auto(export_journal) struct export_journal *j = begin();

        if (run == 0) {
            assert_ok(export_journal_part(j, "w", ID_A, 3, &err), &err);
            assert_ok(export_journal_done(j, "v", ID_B, &err), &err);
        } else {
            /* no boot in between: what was written is in memory at least */
            expect(j, "w", ID_A, UINT64_MAX, false);
            expect(j, "v", ID_B, UINT64_MAX, true);
        }
    }
}

static void of_another_boot_only_what_is_on_the_disk(void **state)
{
    (void)state;
    left("boot 00000000-0000-0000-0000-000000000000\npart " ID_A " 4096 w\n");
    zf_auto(export_journal) struct export_journal *j = begin();

    expect(j, "w", ID_A, 4096, false);
}

static void torn_and_foreign_lines_count_for_nothing(void **state)
{
    (void)state;
    left("part 0123 9 short.id\npart " ID_A " x no.number\nnonsense\n\ndone " ID_A "\ndone " ID_A
         "0 long.id\n"
         "part " ID_A " 1 whole\npart " ID_B " 2 torn");
    zf_auto(export_journal) struct export_journal *j = begin();

    expect(j, "whole", ID_A, 1, false);
    assert_false(export_journal_past(j, "torn").known);
    assert_false(export_journal_past(j, "short.id").known);
    assert_false(export_journal_past(j, "no.number").known);
    assert_false(export_journal_past(j, "long.id").known);
}

static void a_line_behind_a_torn_one_is_whole(void **state)
{
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    left("part " ID_B " 2 torn");
    for (int run = 0; run < 2; run++) {
        zf_auto(export_journal) struct export_journal *j = begin();

        if (run == 0)
            assert_ok(export_journal_part(j, "w", ID_A, 3, &err), &err);
        else
            expect(j, "w", ID_A, UINT64_MAX, false);
    }
}

static void many_paths_are_found(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    char path[32];

    (void)state;
    for (int run = 0; run < 2; run++) {
        zf_auto(export_journal) struct export_journal *j = begin();

        for (int i = 0; i < 300; i++) {
            (void)snprintf(path, sizeof path, "layers.%d.w", i * 7 % 300);
            if (run == 0)
                assert_ok(export_journal_part(j, path, i % 2 ? ID_A : ID_B, 1, &err), &err);
            else
                expect(j, path, i % 2 ? ID_A : ID_B, UINT64_MAX, false);
        }
    }
}

static void one_export_at_a_time(void **state)
{
    struct zf_err err = {.code = ZF_OK, .off = ZF_OFF_NONE};
    zf_auto(export_journal) struct export_journal *j = begin();

    (void)state;
    assert_null(export_journal_open(root, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "another export is running");
}

static void the_end_removes_it(void **state)
{
    (void)state;
    for (int run = 0; run < 2; run++) {
        struct zf_err err = {.code = ZF_OK};
        zf_auto(export_journal) struct export_journal *j = begin();

        assert_false(export_journal_past(j, "w").known);
        assert_ok(export_journal_part(j, "w", ID_A, 3, &err), &err);
        export_journal_finish(j);
    }
    assert_int_not_equal(faccessat(root, EXPORT_JOURNAL_NAME, F_OK, 0), 0);
}

static void a_directory_in_its_place_is_refused(void **state)
{
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_int_equal(mkdirat(root, EXPORT_JOURNAL_NAME, 0700), 0);
    assert_null(export_journal_open(root, &err));
    assert_int_equal(err.code, ZF_E_IO);
    assert_int_equal(unlinkat(root, EXPORT_JOURNAL_NAME, AT_REMOVEDIR), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_known_at_first),
        TEST(the_last_line_about_a_path_counts),
        TEST(a_run_of_this_boot_is_believed_whole),
        TEST(of_another_boot_only_what_is_on_the_disk),
        TEST(torn_and_foreign_lines_count_for_nothing),
        TEST(a_line_behind_a_torn_one_is_whole),
        TEST(many_paths_are_found),
        TEST(one_export_at_a_time),
        TEST(the_end_removes_it),
        TEST(a_directory_in_its_place_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
