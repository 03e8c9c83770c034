/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/source/store.h>

#include "unit/source/scratch.h"
#include "support/store_mem.h"

static struct zf_store *open_store(const char *path)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    struct zf_store *st = zf_store_dir(path, &lim, &err);

    assert_ok(st, &err);
    return st;
}

/* The file's text, or the failure. */
static char *slurp(struct zf_store *st, const char *path, struct zf_err *err)
{
    uint64_t n;

    return zf_store_slurp(st, path, 1000, &n, err);
}

static void assert_text(struct zf_store *st, const char *path, const char *want)
{
    struct zf_err err;
    zf_auto(mem) char *got = slurp(st, path, &err);

    assert_ok(got, &err);
    assert_string_equal(got, want);
}

static void assert_refused(struct zf_store *st, const char *path, enum zf_code code)
{
    struct zf_err err;

    assert_null(slurp(st, path, &err));
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.path, path));
}

static void lists_in_natural_order(void **state)
{
    struct zf_err err;
    const struct zf_entry *e, *again;
    size_t n;

    scratch_file(*state, "a10", "xx");
    scratch_file(*state, "a9", "x");
    scratch_dir(*state, "a2");
    zf_auto(store) struct zf_store *st = open_store(*state);
    assert_ok(zf_store_list(st, "", &e, &n, &err), &err);
    assert_int_equal(n, 3);
    assert_string_equal(e[0].name, "a2");
    assert_int_equal(e[0].kind, ZF_ENTRY_DIR);
    assert_string_equal(e[1].name, "a9");
    assert_string_equal(e[2].name, "a10");
    assert_int_equal(e[2].id.size, 2);
    assert_true(e[2].id.mtime.tv_sec > 1000000000);

    scratch_file(*state, "later", "");
    assert_ok(zf_store_list(st, "", &again, &n, &err), &err);
    assert_ptr_equal(again, e);
    assert_true(zf_store_has(st, "a9", ZF_ENTRY_FILE));
    assert_true(zf_store_reaches(st, "a9", &err));
    assert_true(zf_store_reaches(st, "nowhere/a9", &err)); /* is not elsewhere */
    assert_false(zf_store_has(st, "a9", ZF_ENTRY_DIR));
    assert_false(zf_store_has(st, "nowhere/a9", ZF_ENTRY_FILE));
    assert_false(zf_store_list(st, "nowhere", &e, &n, &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_false(zf_store_list(st, "a9", &e, &n, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "not a directory");
}

static void counts_entries_before_it_keeps_them(void **state)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    const struct zf_entry *e;
    size_t n;

    for (int i = 0; i < 4; i++) {
        char name[20];

        (void)snprintf(name, sizeof name, "f%d", i);
        scratch_file(*state, name, "");
    }
    lim.dir_entries = 4;
    zf_auto(store) struct zf_store *fits = zf_store_dir(*state, &lim, &err);
    assert_ok(zf_store_list(fits, "", &e, &n, &err), &err);
    lim.dir_entries = 3;
    zf_auto(store) struct zf_store *over = zf_store_dir(*state, &lim, &err);
    assert_false(zf_store_list(over, "", &e, &n, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 3 entries");
}

static void focuses_on_one_file(void **state)
{
    char path[4200];

    scratch_file(*state, "model.pt", "bytes");
    (void)snprintf(path, sizeof path, "%s/model.pt", (char *)*state);
    zf_auto(store) struct zf_store *st = open_store(path);
    assert_string_equal(zf_store_focus(st), "model.pt");
    assert_string_equal(zf_store_name(st), path);
    assert_text(st, "model.pt", "bytes");

    struct zf_err err;
    zf_auto(source) struct zf_source *src = zf_store_open(st, "model.pt", &err);
    assert_string_equal(src->name, path);

    zf_auto(store) struct zf_store *dir = open_store(*state);
    assert_null(zf_store_focus(dir));
    assert_string_equal(zf_store_base(dir), strrchr(*state, '/') + 1);
}

/* A link inside a checkpoint must not lead out of it; the one that the user names may. */
static void focuses_on_a_link_that_leads_away(void **state)
{
    char path[4200];

    scratch_file(*state, "far/model.pt", "bytes");
    scratch_link(*state, "near/link.pt", "../far/model.pt");
    scratch_path(*state, "near/link.pt", path);
    zf_auto(store) struct zf_store *st = open_store(path);
    assert_string_equal(zf_store_focus(st), "model.pt");
    assert_string_equal(zf_store_name(st), path);
    assert_string_equal(zf_store_base(st), "far");
    assert_text(st, "model.pt", "bytes");
    scratch_path(*state, "near", path);
    zf_auto(store) struct zf_store *dir = open_store(path);
    assert_refused(dir, "link.pt", ZF_E_IO);
}

/* The daemon changes its working directory once it is in the background. */
static void outlives_the_working_directory(void **state)
{
    scratch_file(*state, "step5/x", "here");
    assert_int_equal(chdir(*state), 0);
    zf_auto(store) struct zf_store *dir = open_store("step5/");
    zf_auto(store) struct zf_store *file = open_store("step5/x");
    assert_int_equal(chdir("step5"), 0);
    zf_auto(store) struct zf_store *bare = open_store("x");
    zf_auto(store) struct zf_store *dot = open_store(".");
    assert_int_equal(chdir("/"), 0);
    assert_text(dir, "x", "here");
    assert_text(file, "x", "here");
    assert_text(bare, "x", "here");
    assert_string_equal(zf_store_base(dot), "step5");
}

static void sub_stores_share_files(void **state)
{
    struct zf_err err;

    scratch_file(*state, "tag/5/x", "five");
    scratch_link(*state, "tag/latest", "5");
    zf_auto(store) struct zf_store *st = open_store(*state);
    zf_auto(store) struct zf_store *tag = zf_store_sub(st, "tag", &err);
    assert_ok(tag, &err);
    zf_auto(store) struct zf_store *latest = zf_store_sub(tag, "latest", &err);
    assert_ok(latest, &err);
    assert_string_equal(zf_store_base(latest), "5");
    assert_text(latest, "x", "five");
    assert_true(zf_store_has(tag, "latest", ZF_ENTRY_DIR));
    zf_auto(source) struct zf_source *a = zf_store_open(st, "tag/5/x", &err);
    zf_auto(source) struct zf_source *b = zf_store_open(tag, "5/x", &err);
    assert_ptr_equal(a, b);
    assert_null(zf_store_sub(st, "tag/5/x", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_int_equal(zf_store_mtime(st).tv_sec > 1000000000, 1);
}

static void refuses_paths_that_lead_away(void **state)
{
    static const char *const bad[] = {"../x", "/etc/passwd", "a/../../x", "./a",
                                      "a//b", "a/",          "..",        "."};
    struct zf_err err;

    zf_auto(store) struct zf_store *st = open_store(*state);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(zf_store_open(st, bad[i], &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
}

static void special_files_are_refused_without_waiting(void **state)
{
    struct zf_err err;
    char path[4200];

    (void)snprintf(path, sizeof path, "%s/fifo", (char *)*state);
    assert_int_equal(mkfifo(path, 0600), 0);
    scratch_dir(*state, "dir");
    scratch_link(*state, "loop", "loop");
    scratch_link(*state, "broken", "nowhere");
    scratch_link(*state, "outward", "../../../../../../../../etc/passwd");
    scratch_link(*state, "absolute", "/etc/passwd");
    scratch_link(*state, "device", "/dev/zero");
    scratch_file(*state, "real", "r");
    scratch_link(*state, "dir/inside", "../real");
    zf_auto(store) struct zf_store *st = open_store(*state);

    assert_true(zf_store_has(st, "fifo", ZF_ENTRY_OTHER));
    assert_true(zf_store_has(st, "loop", ZF_ENTRY_OTHER));
    assert_true(zf_store_has(st, "broken", ZF_ENTRY_OTHER));
    assert_true(zf_store_has(st, "outward", ZF_ENTRY_OTHER));
    assert_true(zf_store_has(st, "absolute", ZF_ENTRY_OTHER));
    assert_true(zf_store_has(st, "dir/inside", ZF_ENTRY_FILE));
    assert_refused(st, "fifo", ZF_E_FORMAT);
    assert_refused(st, "dir", ZF_E_FORMAT);
    assert_refused(st, "loop", ZF_E_FORMAT);
    assert_refused(st, "broken", ZF_E_FORMAT);
    assert_refused(st, "outward", ZF_E_IO);
    assert_null(zf_store_open(st, "outward", &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "leads out of the checkpoint's directory");
    assert_refused(st, "absolute", ZF_E_IO);
    assert_refused(st, "device", ZF_E_IO);
    assert_text(st, "dir/inside", "r");

    struct zf_limits lim = zf_limits_default();
    assert_null(zf_store_dir(path, &lim, &err));
    assert_int_equal(err.code, ZF_E_UNKNOWN);
}

static void follows_the_links_of_a_hub_cache(void **state)
{
    char path[4200];
    const char *root = *state;

    scratch_file(root, "m/blobs/abc", "weights");
    scratch_file(root, "m/beside", "beside");
    scratch_file(root, "blobs/abc", "other");
    scratch_link(root, "m/snapshots/rev/model.bin", "../../blobs/abc");
    scratch_link(root, "m/snapshots/rev/sub/model.bin", "../../../blobs/abc");
    scratch_link(root, "m/snapshots/rev/beside", "../../beside");
    scratch_link(root, "m/snapshots/rev/tricky", "../../blobs/../../blobs/abc");
    scratch_link(root, "m/snapshots/rev/dots", "../../blobs/..");
    scratch_link(root, "m/snapshots/rev/far", "../../../blobs/abc");
    scratch_link(root, "m/blobs/hop", "../beside");
    scratch_link(root, "m/snapshots/rev/hop", "../../blobs/hop");
    (void)snprintf(path, sizeof path, "%s/m/blobs/abc", root);
    scratch_link(root, "m/snapshots/rev/absolute", path);
    (void)snprintf(path, sizeof path, "%s/m/snapshots/rev", root);
    zf_auto(store) struct zf_store *st = open_store(path);

    assert_text(st, "model.bin", "weights");
    assert_text(st, "sub/model.bin", "weights");
    assert_text(st, "absolute", "weights");
    assert_true(zf_store_has(st, "model.bin", ZF_ENTRY_FILE));
    assert_text(st, "beside", "beside");
    assert_text(st, "hop", "beside");
    assert_refused(st, "dots", ZF_E_FORMAT);
    assert_refused(st, "far", ZF_E_IO);
    assert_refused(st, "tricky", ZF_E_IO);
    assert_true(zf_store_has(st, "far", ZF_ENTRY_OTHER));

    struct zf_err err;
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, "sub", &err);
    assert_ok(sub, &err);
    assert_text(sub, "model.bin", "weights");

    (void)snprintf(path, sizeof path, "%s/m/snapshots/rev/model.bin", root);
    zf_auto(store) struct zf_store *one = open_store(path);
    assert_text(one, zf_store_focus(one), "weights");

    (void)snprintf(path, sizeof path, "%s/m/snapshots", root);
    zf_auto(store) struct zf_store *all = open_store(path);
    assert_text(all, "rev/sub/model.bin", "weights");

    scratch_link(root, "short", "m/snapshots/rev");
    (void)snprintf(path, sizeof path, "%s/short", root);
    zf_auto(store) struct zf_store *by_link = open_store(path);
    assert_text(by_link, "model.bin", "weights");
    assert_string_equal(zf_store_base(by_link), "rev");
}

/* The kernel takes every absolute link for one that leaves. */
static void absolute_links_below_are_followed(void **state)
{
    char path[4200], up[4200];
    const char *root = *state;

    scratch_file(root, "run/5/x", "five");
    scratch_file(root, "runaway/x", "no");
    (void)snprintf(path, sizeof path, "%s/run/5/x", root);
    scratch_link(root, "run/file", path);
    (void)snprintf(path, sizeof path, "%s/run/5", root);
    scratch_link(root, "run/dir", path);
    scratch_link(root, "run/hop", "file");
    scratch_link(root, "run/sub/hop", "../dir/../file");
    (void)snprintf(path, sizeof path, "%s/run", root);
    scratch_link(root, "run/5/itself", path);
    (void)snprintf(path, sizeof path, "%s/run/loop", root);
    scratch_link(root, "run/loop", path);
    (void)snprintf(path, sizeof path, "%s/runaway/x", root);
    scratch_link(root, "run/prefix", path);
    (void)snprintf(path, sizeof path, "%s/run/../runaway/x", root);
    scratch_link(root, "run/up", path);
    scratch_link(root, "run/proc", "/proc/self/root");
    (void)snprintf(up, sizeof up, "%s/run", root);
    zf_auto(store) struct zf_store *st = open_store(up);
    assert_text(st, "file", "five");
    assert_text(st, "dir/x", "five");
    assert_text(st, "hop", "five");
    assert_text(st, "sub/hop", "five");
    assert_text(st, "5/itself/5/itself/hop", "five");
    assert_true(zf_store_has(st, "file", ZF_ENTRY_FILE));
    assert_true(zf_store_has(st, "dir", ZF_ENTRY_DIR));
    assert_refused(st, "prefix", ZF_E_IO);
    assert_refused(st, "up", ZF_E_IO);
    assert_refused(st, "proc", ZF_E_IO);
    assert_true(zf_store_has(st, "loop", ZF_ENTRY_OTHER));
}

static void links_that_leave_are_followed_when_asked(void **state)
{
    const struct zf_dir_opts links = {.links = true};
    struct zf_limits lim = zf_limits_default();
    char path[4200], other[4200];
    struct zf_err err;

    scratch_file(*state, "disk/x", "there");
    scratch_file(*state, "disk/y", "other");
    scratch_link(*state, "run/file", "../disk/x");
    scratch_link(*state, "run/dir", "../disk");
    scratch_link(*state, "run/magic", "/proc/self/exe");
    scratch_link(*state, "run/swapped", "../disk/x");
    scratch_path(*state, "run", path);
    zf_auto(store) struct zf_store *no = open_store(path);
    zf_auto(source) struct zf_source *refused = zf_store_open(no, "file", &err);
    assert_null(refused);
    assert_non_null(strstr(err.msg, "-o links"));
    assert_false(zf_store_has(no, "dir", ZF_ENTRY_DIR));

    lim.open_files = 1;
    zf_auto(store) struct zf_store *st = zf_store_dir_with(path, &links, &lim, &err);
    assert_ok(st, &err);
    assert_text(st, "file", "there");
    assert_text(st, "dir/y", "other");
    assert_true(zf_store_has(st, "dir", ZF_ENTRY_DIR));
    assert_false(zf_store_has(st, "magic", ZF_ENTRY_FILE));

    /* One that leads elsewhere by now, met when its file is opened once more. */
    zf_auto(source) struct zf_source *x = zf_store_open(st, "swapped", &err);
    assert_ok(x, &err);
    scratch_path(*state, "run/swapped", other);
    assert_int_equal(unlink(other), 0);
    scratch_link(*state, "run/swapped", "../disk/y");
    assert_text(st, "dir/y", "other");
    char b;
    assert_false(zf_source_pread(x, &b, 1, 0, &err));
    assert_err(&err, ZF_E_STALE, 0, "the file was replaced after mounting");
}

static void slurps_within_bounds(void **state)
{
    struct zf_err err;
    uint64_t n;

    scratch_file(*state, "f", "12345");
    scratch_file(*state, "empty", "");
    zf_auto(store) struct zf_store *st = open_store(*state);
    zf_auto(mem) char *fits = zf_store_slurp(st, "f", 5, &n, &err);
    assert_string_equal(fits, "12345");
    assert_null(zf_store_slurp(st, "f", 4, &n, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "5 bytes");
    assert_text(st, "empty", "");
}

static void memory_behaves_as_a_directory(void **state)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    const struct zf_entry *e;
    size_t n;

    (void)state;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    assert_ok(store_mem_add(st, "d/10", "ten", 3, &err), &err);
    assert_ok(store_mem_add(st, "d/9", "nine", 4, &err), &err);
    assert_ok(store_mem_add(st, "f", "", 0, &err), &err);
    assert_text(st, "d/10", "ten");
    assert_text(st, "f", "");
    assert_ok(zf_store_list(st, "d", &e, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_string_equal(e[0].name, "9");
    assert_int_equal(e[0].id.size, 4);
    assert_true(zf_store_has(st, "d", ZF_ENTRY_DIR));
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, "d", &err);
    assert_string_equal(zf_store_base(sub), "d");
    assert_text(sub, "9", "nine");
    assert_refused(st, "d", ZF_E_FORMAT);
    assert_refused(st, "d/nine", ZF_E_NOENT);
    assert_null(zf_store_sub(st, "f", &err));
    assert_int_equal(err.code, ZF_E_NOENT);
}

/* A file of the working directory, by its bare name. */
static void focuses_on_a_bare_name(void **state)
{
    char before[4096];

    scratch_file(*state, "f", "text");
    scratch_file(*state, "other", "no");
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    zf_auto(store) struct zf_store *st = open_store("f");
    assert_int_equal(chdir(before), 0);
    assert_string_equal(zf_store_focus(st), "f");
    assert_text(st, "f", "text");
}

/* A program whose standard input is closed gets 0 for the first file that it opens. */
static void descriptor_0_is_as_good_as_any(void **state)
{
    struct zf_err err;
    int kept = dup(0);

    scratch_file(*state, "f", "text");
    assert_true(kept > 0);
    close(0);
    struct zf_limits lim = zf_limits_default();
    zf_auto(store) struct zf_store *st = zf_store_dir(*state, &lim, &err);
    zf_auto(mem) char *got = st ? slurp(st, "f", &err) : NULL;
    bool used = fcntl(0, F_GETFD) >= 0;
    zf_store_unref(&st);
    assert_int_equal(dup2(kept, 0), 0);
    close(kept);
    assert_ok(got, &err);
    assert_string_equal(got, "text");
    assert_true(used);
}

int main(void)
{
#define SCRATCH(fn) cmocka_unit_test_setup_teardown(fn, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        SCRATCH(lists_in_natural_order),
        SCRATCH(counts_entries_before_it_keeps_them),
        SCRATCH(focuses_on_one_file),
        SCRATCH(focuses_on_a_link_that_leads_away),
        SCRATCH(focuses_on_a_bare_name),
        SCRATCH(outlives_the_working_directory),
        SCRATCH(sub_stores_share_files),
        SCRATCH(refuses_paths_that_lead_away),
        SCRATCH(special_files_are_refused_without_waiting),
        SCRATCH(follows_the_links_of_a_hub_cache),
        SCRATCH(absolute_links_below_are_followed),
        SCRATCH(links_that_leave_are_followed_when_asked),
        SCRATCH(slurps_within_bounds),
        SCRATCH(descriptor_0_is_as_good_as_any),
        cmocka_unit_test(memory_behaves_as_a_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
