/* SPDX-License-Identifier: Apache-2.0 */
/* Which files an export copies and under which names, over a small tree of our own; the rules are those of cp(1). */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/export.h>

/* A row's inode is its number, plus 1; a file's parent and name are in its path. */
static const struct row {
    const char *path;
    bool dir;
    unsigned tied; /* the same file as this row */
    uint64_t size;
} rows[] = {
    {"", true, 0, 0},
    {"a.f32", false, 1, 10},
    {"b.f32", false, 2, 20},
    {"head.f32", false, 1, 10},
    {"optim", true, 4, 0},
    {"optim/exp_avg", true, 5, 0},
    {"optim/exp_avg/a.f32", false, 6, 30},
    {"optim/exp_avg/b.f32", false, 7, 40},
    {"optim/exp_avg_sq", true, 8, 0},
    {"optim/exp_avg_sq/a.f32", false, 9, 50},
};
#define N (sizeof rows / sizeof rows[0])

static void fill(size_t i, struct zf_stat *out)
{
    *out = (struct zf_stat){.ino = rows[i].tied + 1,
                            .kind = rows[i].dir ? ZF_NODE_DIR : ZF_NODE_FILE,
                            .size = rows[i].size,
                            .nlink = 1};
}

/* Row i lies in directory row `dir`. */
static bool below(size_t i, size_t dir)
{
    size_t n = strlen(rows[dir].path);

    return i > 0 && strncmp(rows[i].path, rows[dir].path, n) == 0 &&
           (n == 0 || rows[i].path[n] == '/') && !strchr(rows[i].path + n + (n > 0), '/') &&
           i != dir;
}

static bool entry(struct zf_tree *t, uint64_t dir, uint64_t at, char *name, struct zf_stat *out)
{
    (void)t;
    for (size_t i = 1; i < N; i++) {
        if (below(i, dir - 1) && at-- == 0) {
            const char *slash = strrchr(rows[i].path, '/');

            strcpy(name, slash ? slash + 1 : rows[i].path);
            fill(i, out);
            return true;
        }
    }
    return false;
}

static bool lookup(struct zf_tree *t, uint64_t dir, const char *name, struct zf_stat *out)
{
    char found[256];

    for (uint64_t at = 0; entry(t, dir, at, found, out); at++)
        if (strcmp(found, name) == 0)
            return true;
    return false;
}

static bool look(struct zf_tree *t, uint64_t ino, struct zf_stat *out)
{
    (void)t;
    fill(ino - 1, out);
    return ino <= N;
}

static const struct zf_tree_ops ops = {.lookup = lookup, .stat = look, .entry = entry};
static struct zf_tree tree = {.ops = &ops};

/* The plan as "to=from" of every file, "to->first name" of a hard link, and the bytes. */
static void expect_plan(const char *want, char **path, int n)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(export_plan) struct zf_export_plan p = {.n = 0};
    char got[1000] = "";
    size_t len = 0;

    assert_ok(zf_export_plan_make(&p, &tree, path, n, false, &err), &err);
    for (uint32_t i = 0; i < p.n; i++) {
        const struct zf_export_file *f = &p.file[i];

        len += (size_t)snprintf(got + len, sizeof got - len, f->link_of == i ? "%s=%s " : "%s->%s ",
                                f->to, f->link_of == i ? f->from : p.file[f->link_of].to);
    }
    (void)snprintf(got + len, sizeof got - len, "%d", (int)p.bytes);
    assert_string_equal(got, want);
}
#define PLAN(want, ...)                                                                            \
    do {                                                                                           \
        char *path_[] = {__VA_ARGS__};                                                             \
        expect_plan(want, path_, (int)(sizeof path_ / sizeof path_[0]));                           \
    } while (0)

static void files_go_by_their_own_names(void **state)
{
    (void)state;
    PLAN("b.f32=b.f32 20", "b.f32");
    PLAN("a.f32=optim/exp_avg/a.f32 30", "/optim//exp_avg/./a.f32");
    PLAN("b.f32=b.f32 a.f32=optim/exp_avg/a.f32 50", "b.f32", "optim/exp_avg/a.f32");
}

static void directories_go_whole_or_what_they_hold(void **state)
{
    (void)state;
    PLAN("exp_avg/a.f32=optim/exp_avg/a.f32 exp_avg/b.f32=optim/exp_avg/b.f32 70", "optim/exp_avg");
    PLAN("a.f32=optim/exp_avg/a.f32 b.f32=optim/exp_avg/b.f32 70", "optim/exp_avg/");
    PLAN("optim/exp_avg/a.f32=optim/exp_avg/a.f32 optim/exp_avg/b.f32=optim/exp_avg/b.f32 "
         "optim/exp_avg_sq/a.f32=optim/exp_avg_sq/a.f32 120",
         "optim");
}

static void patterns_keep_what_is_behind_their_last_plain_directory(void **state)
{
    (void)state;
    PLAN("exp_avg/a.f32=optim/exp_avg/a.f32 exp_avg_sq/a.f32=optim/exp_avg_sq/a.f32 80",
         "optim/*/a.f32");
}

static void tied_files_are_links_of_the_first(void **state)
{
    (void)state;
    PLAN("a.f32=a.f32 head.f32->a.f32 10", "a.f32", "head.f32");
    PLAN("head.f32=head.f32 a.f32->head.f32 10", "head.f32", "a.f32");
}

static void what_is_asked_for_twice_is_copied_once(void **state)
{
    (void)state;
    PLAN("b.f32=b.f32 20", "b.f32", "./b.f32", "b.f32");
    PLAN("a.f32=a.f32 b.f32=b.f32 head.f32->a.f32 30", "a.f32", "b.f32", "a.f32", "head.f32",
         "b.f32");
}

static void refused(char *path[], int n, enum zf_code code, const char *part)
{
    struct zf_err err = {.code = ZF_OK, .off = ZF_OFF_NONE};
    zf_auto(export_plan) struct zf_export_plan p = {.n = 0};

    assert_false(zf_export_plan_make(&p, &tree, path, n, false, &err));
    assert_err(&err, code, ZF_OFF_NONE, part);
}

static void two_files_of_one_name_are_refused(void **state)
{
    (void)state;
    refused((char *[]){"a.f32", "optim/exp_avg/a.f32"}, 2, ZF_E_USAGE, "would both become a.f32");
}

static void the_one_file_can_be_renamed(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(export_plan) struct zf_export_plan p = {.n = 0};

    (void)state;
    assert_ok(zf_export_plan_make(&p, &tree, (char *[]){"optim/exp_avg/a.f32"}, 1, false, &err),
              &err);
    zf_export_plan_rename(&p, "other");
    assert_string_equal(p.file[0].to, "other");
    assert_string_equal(p.file[0].from, "optim/exp_avg/a.f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_go_by_their_own_names),
        cmocka_unit_test(directories_go_whole_or_what_they_hold),
        cmocka_unit_test(patterns_keep_what_is_behind_their_last_plain_directory),
        cmocka_unit_test(tied_files_are_links_of_the_first),
        cmocka_unit_test(what_is_asked_for_twice_is_copied_once),
        cmocka_unit_test(two_files_of_one_name_are_refused),
        cmocka_unit_test(the_one_file_can_be_renamed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
