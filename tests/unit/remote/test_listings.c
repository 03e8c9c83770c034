/* SPDX-License-Identifier: Apache-2.0 */
/* Listings as real servers sent them for one directory (tests/data/README.md), what they are refused
 * for, and every place where one may be cut. */
#include <stdio.h>
#include <stdlib.h>

#include "support/unit.h"

#include "src/remote/listings.h"
#include "src/remote/index_file.h"

#define BASE "http://Host.example:81/run%201/"

static char *slurp(const char *name, size_t *n_out)
{
    const char *data = getenv("ZF_DATA");
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/remote/listings/%s", data ? data : "tests/data", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *p = malloc(1 << 16);
    assert_non_null(p);
    *n_out = fread(p, 1, 1 << 16, f);
    (void)fclose(f);
    return p;
}

static bool read_text(const char *body, size_t n, const char *type, struct entries *out,
                      struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();

    zf_err_clear(err);
    return entries_init(out, &lim, err) && autoindex_read(body, n, type, BASE, &lim, out, err);
}

/* The files of the directory from which all listings were made. */
static const struct {
    const char *name;
    uint64_t size;
} made[] = {
    {"100%.txt", 7},
    {"<tag>.bin", 2},
    {"a b&c.txt", 5},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bin", 999},
    {"empty", 0},
    {"link.safetensors", 1234567},
    {"model.safetensors", 1234567},
    {"small.bin", 512},
    {"x=1+2*@:q?#'\".pt", 3},
    {"\xc3\xbcn\xc3\xaf.pt", 11},
};
#define N_MADE (sizeof made / sizeof made[0])

struct listed {
    const char *file;
    size_t sized;            /* how many files it gives the size of */
    bool metadata, dangling; /* does it have .metadata, and a link to nothing? */
};
static const struct listed listed[] = {
    {"nginx.html", 11, false, true},       {"nginx_rounded.html", 9, false, true},
    {"nginx.json", 10, false, false},      {"apache_plain.html", 0, true, false},
    {"apache_fancy.html", 8, true, false}, {"apache_table.html", 8, true, false},
    {"apache_xhtml.html", 8, true, false}, {"lighttpd.html", 0, true, false},
    {"python.html", 0, true, true},        {"caddy.json", 10, true, true},
    {"go.html", 0, true, false},
};

static void check_made(const struct entries *e, const struct listed *l)
{
    size_t sized = 0, dirs = 0;

    for (size_t i = 0; i < e->n; i++) {
        sized += e->at[i].sized;
        dirs += e->at[i].dir;
    }
    for (size_t i = 0; i < N_MADE; i++) {
        const struct entry *is = entries_find(e, made[i].name);

        if (!is || is->dir)
            fail_msg("%s: no file %s", l->file, made[i].name);
        else if (is->sized && is->size != made[i].size)
            fail_msg("%s: %s has %llu bytes", l->file, made[i].name, (unsigned long long)is->size);
    }
    assert_true(entries_find(e, "global_step3")->dir && entries_find(e, "sub dir")->dir);
    assert_int_equal(dirs, 2);
    assert_int_equal(sized, l->sized);
    assert_int_equal(entries_find(e, ".metadata") != NULL, l->metadata);
    assert_int_equal(entries_find(e, "dangling") != NULL, l->dangling);
    assert_int_equal(e->n, N_MADE + 2 + l->metadata + l->dangling);
}

static void real_listings_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        zf_auto(entries) struct entries e;
        struct zf_err err;
        size_t n;
        zf_auto(mem) char *body = slurp(listed[i].file, &n);

        print_message("# %s\n", listed[i].file);
        assert_ok(read_text(body, n, NULL, &e, &err), &err);
        check_made(&e, &listed[i]);
    }
}

/* Cut anywhere, a listing is refused, is no listing, or has lost nothing. */
static void cut_listings_lose_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        size_t n, refused = 0;
        zf_auto(mem) char *body = slurp(listed[i].file, &n);

        for (size_t cut = 0; cut < n; cut++) {
            zf_auto(entries) struct entries e;
            struct zf_err err;
            zf_auto(mem) char *copy = malloc(cut ? cut : 1);

            assert_non_null(copy);
            memcpy(copy, body, cut);
            if (read_text(copy, cut, strstr(listed[i].file, "json") ? "application/json" : NULL, &e,
                          &err)) {
                check_made(&e, &listed[i]);
            } else {
                assert_true(err.code == ZF_E_FORMAT || err.code == ZF_E_UNSUPPORTED);
                refused += err.code == ZF_E_FORMAT;
            }
        }
        assert_true(refused > n / 3);
    }
}

static void empty_directories_are_listings(void **state)
{
    static const char *const file[] = {"nginx_empty.html", "nginx_empty.json", "python_empty.html"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        zf_auto(entries) struct entries e;
        struct zf_err err;
        size_t n;
        zf_auto(mem) char *body = slurp(file[i], &n);

        assert_ok(read_text(body, n, NULL, &e, &err), &err);
        assert_int_equal(e.n, 0);
    }
}

/* ---- what is passed over, and what is refused ------------------------------------------------ */

#define PAGE(links) "<title>Index of /</title><pre>" links "</pre>"

static size_t count(const char *page)
{
    zf_auto(entries) struct entries e;
    struct zf_err err;

    assert_ok(read_text(page, strlen(page), "text/html", &e, &err), &err);
    return e.n;
}

static void links_that_lead_elsewhere_are_passed_over(void **state)
{
    static const char *const ref[] = {
        "?C=N;O=D",
        "#top",
        "../",
        "..",
        "./",
        ".",
        "/",
        "/run%201/",
        "/run%201",
        "/other/x",
        "a/b",
        "http://evil.example/x",
        "http://evil.example/run%201/x",
        "//evil.example/run%201/x",
        "https://host.example:81/run%201/x",
        "http://host.example/run%201/x",
        "mailto:x",
        "x?y",
        "x#y",
        "javascript:alert(1)",
        "../run%201/x",
        "/run 1/x",
    };
    char page[400];

    (void)state;
    for (size_t i = 0; i < sizeof ref / sizeof ref[0]; i++) {
        (void)snprintf(page, sizeof page, PAGE("<a href=\"%s\">x</a>"), ref[i]);
        if (count(page))
            fail_msg("%s was taken for an entry", ref[i]);
    }
    assert_int_equal(count(PAGE("<a name=x>x</a>")), 0);
    assert_int_equal(count(PAGE("<!-- <a href=x>x</a> --><script>'<a href=x>'</script>")), 0);
}

static void links_of_this_directory_are_entries(void **state)
{
    static const char *const ref[] = {
        "x",   "./x",    "././x",  "/run%201/x", "http://host.EXAMPLE:81/run%201/x",
        "%78", "&#120;", "&#x78;", "&#X78;",
    };
    char page[400];

    (void)state;
    for (size_t i = 0; i < sizeof ref / sizeof ref[0]; i++) {
        zf_auto(entries) struct entries e;
        struct zf_err err;

        (void)snprintf(page, sizeof page, PAGE("<img alt='<'><A class=\"a > b\" HREF='%s'>x</A>"),
                       ref[i]);
        assert_ok(read_text(page, strlen(page), NULL, &e, &err), &err);
        if (e.n != 1 || !entries_find(&e, "x") || e.at[0].dir)
            fail_msg("%s is no entry x", ref[i]);
    }
}

/* The bytes are those that Python's chr(n).encode() gives. */
static void characters_are_written_as_numbers(void **state)
{
    static const struct {
        const char *ref, *name;
    } known[] = {
        {"&#x7f;", "\x7f"},
        {"&#128;", "\xc2\x80"},
        {"&#xE9;", "\xc3\xa9"},
        {"&#xe9;", "\xc3\xa9"},
        {"&#xaa;", "\xc2\xaa"},
        {"&#169;", "\xc2\xa9"},
        {"&#2047;", "\xdf\xbf"},
        {"&#x800;", "\xe0\xa0\x80"},
        {"&#x20AC;", "\xe2\x82\xac"},
        {"&#xd7ff;", "\xed\x9f\xbf"},
        {"&#57344;", "\xee\x80\x80"},
        {"&#xffff;", "\xef\xbf\xbf"},
        {"&#x10000;", "\xf0\x90\x80\x80"},
        {"&#x1F600;", "\xf0\x9f\x98\x80"},
        {"&#xABCDE;", "\xf2\xab\xb3\x9e"},
        {"&#x10ffff;", "\xf4\x8f\xbf\xbf"},
        {"&quot;", "\""},
        {"&nbsp;", "\xc2\xa0"},
        {"&euro;", "&euro;"}, /* none that is known here */
    };
    /* No character has the number: the # begins a fragment. */
    static const char *const none[] = {"&#xd800;", "&#xdfff;", "&#x110000;", "&#1a;",
                                       "&#xg;",    "&#x4g1;",  "&#;"};
    char page[400], name[40];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        zf_auto(entries) struct entries e;
        struct zf_err err;

        (void)snprintf(page, sizeof page, PAGE("<a href='a%sb'>x</a>"), known[i].ref);
        (void)snprintf(name, sizeof name, "a%sb", known[i].name);
        assert_ok(read_text(page, strlen(page), NULL, &e, &err), &err);
        if (e.n != 1 || !entries_find(&e, name))
            fail_msg("%s is not %s", known[i].ref, name);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        (void)snprintf(page, sizeof page, PAGE("<a href='a%sb'>x</a>"), none[i]);
        if (count(page))
            fail_msg("%s was taken for a character", none[i]);
    }
}

static void refused(const char *page, const char *type, enum zf_code code, const char *why)
{
    zf_auto(entries) struct entries e;
    struct zf_err err;

    if (read_text(page, strlen(page), type, &e, &err))
        fail_msg("read: %s", page);
    assert_err(&err, code, ZF_OFF_NONE, why);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    refused(PAGE("<a href=\"%2e%2e\">x</a>"), NULL, ZF_E_FORMAT, "not a file name");
    refused(PAGE("<a href=\"%2e%2e/\">x</a>"), NULL, ZF_E_FORMAT, "not a file name");
    refused(PAGE("<a href=\"a%2fb\">x</a>"), NULL, ZF_E_FORMAT, "not a file name");
    refused(PAGE("<a href=\"a%00b\">x</a>"), NULL, ZF_E_FORMAT, "not a file name");
    refused("[{\"name\":\"..\",\"type\":\"directory\"}]", NULL, ZF_E_FORMAT, "not a file name");
    refused("[{\"name\":\"\",\"type\":\"file\"}]", NULL, ZF_E_FORMAT, "not a file name");
    refused("[{\"name\":\"/\",\"is_dir\":true}]", NULL, ZF_E_FORMAT, "not a file name");
    refused("[{\"name\":\"a/b\",\"type\":\"file\"}]", NULL, ZF_E_FORMAT, "not a file name");
    refused("[{\"name\":\"a\",\"type\":\"file\"},{\"name\":7,\"type\":\"file\"}]", NULL,
            ZF_E_FORMAT, "entry 1 of the listing has no \"name\"");
    refused("[{\"name\":\"a\",\"type\":\"file\"},{\"name\":\"b\"}]", NULL, ZF_E_FORMAT,
            "no \"type\" or \"is_dir\"");
}

static void names_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    refused(PAGE("<a href=x>x</a>\n<a href=x/>x</a>"), NULL, ZF_E_FORMAT,
            "as a file and as a directory");
    refused(PAGE("<a href=x>x</a> 2026-11-22 19:32 5\n<a href=x>x</a> 2026-11-22 19:32 6"), NULL,
            ZF_E_FORMAT, "twice, of 5 and of 6 bytes");
    assert_int_equal(count(PAGE("<a href=x>x</a> 2026-11-22 19:32 5\n<a href=%78>x</a>")), 1);
}

static void pages_that_list_nothing_are_told_apart(void **state)
{
    (void)state;
    refused("<html><title>Welcome</title><ul><a href=x>x</a></ul></html>", NULL, ZF_E_UNSUPPORTED,
            "is not a directory listing");
    refused("", NULL, ZF_E_UNSUPPORTED, "is not a directory listing");
    refused("<body><h1>hi</h1><pre><a href=x>x</a></pre>", NULL, ZF_E_UNSUPPORTED,
            "is not a directory listing");
    refused("{\"error\": \"x\"}", "application/json", ZF_E_UNSUPPORTED,
            "is not a directory listing");
    refused("[1]", "application/json", ZF_E_UNSUPPORTED, "is not a directory listing");
}

/* Only bare digits behind a date are the size to the byte. */
static void rounded_sizes_are_not_known(void **state)
{
    static const struct {
        const char *tail;
        bool sized;
    } t[] = {
        {" 22-Nov-2026 19:32    17\n", true},
        {" 2026-11-22 19:32   17 \n", true},
        {" 2026-Nov-22 19:32:01 17\n", true},
        {"</td><td>2026-11-22 19:32</td><td>&nbsp;17</td>", true},
        {" 22-Nov-2026 19:32    17K\n", false},
        {" 2026-11-22 19:32   1.7 \n", false},
        {" 17\n", false},
        {" 2026-11-22 19:3217\n", false},
        {" 2026-11-22 17\n", false},
        {" 2026-11-22 19:32   - 17\n", false},
        {" 2026-11-22 19:32 99999999999999999999\n", false},
    };
    char page[400];

    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        zf_auto(entries) struct entries e;
        struct zf_err err;

        (void)snprintf(page, sizeof page, PAGE("<a href=x>x</a>%s"), t[i].tail);
        assert_ok(read_text(page, strlen(page), NULL, &e, &err), &err);
        if (e.at[0].sized != t[i].sized || (e.at[0].sized && e.at[0].size != 17))
            fail_msg("size behind \"%s\"", t[i].tail);
    }
}

static void a_million_names_are_bounded(void **state)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(out) struct zf_out page = {.p = NULL};
    struct zf_err err;

    (void)state;
    lim.dir_entries = 1000;
    zf_out_str(&page, "<title>Index of /</title><pre>");
    for (uint64_t i = 0; i <= 1000; i++) {
        zf_auto(entries) struct entries e = {.text = NULL};

        zf_out_str(&page, "<a href=");
        zf_out_dec(&page, i);
        zf_out_str(&page, ">x</a>");
        if (i < 999)
            continue;
        size_t n = page.n;
        zf_out_str(&page, "</pre>");
        assert_ok(entries_init(&e, &lim, &err), &err);
        bool ok = autoindex_read(page.p, page.n, NULL, BASE, &lim, &e, &err);
        assert_int_equal(ok, i == 999);
        zf_out_cut(&page, n);
    }
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "limit dir_entries");
}

/* ---- the hub --------------------------------------------------------------------------------- */

static bool tree(const char *body, const char *dir, struct entries *e, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();

    zf_err_clear(err);
    return entries_init(e, &lim, err) && hub_tree_page(body, strlen(body), dir, &lim, e, err);
}

static void the_hub_lists_files_and_lfs(void **state)
{
    zf_auto(entries) struct entries e;
    struct zf_err err;

    (void)state;
    assert_ok(tree("[{\"type\":\"directory\",\"oid\":\"aa\",\"size\":0,\"path\":\"d/sub\"},"
                   "{\"type\":\"file\",\"oid\":\"bb\",\"size\":345,\"path\":\"d/config.json\"},"
                   "{\"type\":\"file\",\"oid\":\"cc\",\"size\":9000,\"path\":\"d/"
                   "model.safetensors\",\"lfs\":"
                   "{\"oid\":\"dd\",\"size\":9000,\"pointerSize\":134},\"xetHash\":\"ee\"}]",
                   "d", &e, &err),
              &err);
    assert_int_equal(e.n, 3);
    assert_true(entries_find(&e, "sub")->dir);
    assert_int_equal(entries_find(&e, "model.safetensors")->size, 9000);
}

static void tree_refused(const char *body, const char *dir, enum zf_code code, const char *why)
{
    zf_auto(entries) struct entries e;
    struct zf_err err;

    assert_false(tree(body, dir, &e, &err));
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.msg, why));
}

static void wrong_answers_of_the_hub_are_refused(void **state)
{
    (void)state;
    tree_refused("{\"error\":\"x\"}", "", ZF_E_FORMAT, "is not a list of files");
    tree_refused("[{\"type\":\"file\",\"size\":1}]", "", ZF_E_FORMAT, "no \"path\"");
    tree_refused("[{\"path\":\"x\",\"size\":1}]", "", ZF_E_FORMAT, "no \"type\"");
    tree_refused("[{\"type\":\"file\",\"size\":1,\"path\":\"e/x\"}]", "d", ZF_E_FORMAT,
                 "outside of it");
    tree_refused("[{\"type\":\"file\",\"size\":1,\"path\":\"d\"}]", "d", ZF_E_FORMAT,
                 "outside of it");
    tree_refused("[{\"type\":\"file\",\"size\":1,\"path\":\"d/x/y\"}]", "d", ZF_E_FORMAT,
                 "not a file name");
    tree_refused("[{\"type\":\"file\",\"size\":1,\"path\":\"..\"}]", "", ZF_E_FORMAT,
                 "not a file name");
    tree_refused("[{\"type\":\"file\",\"size\":134,\"path\":\"x\",\"lfs\":{\"size\":9}}]", "",
                 ZF_E_FORMAT, "134 bytes, but 9 in LFS");
    tree_refused("[{\"type\":\"file\",\"path\":\"x\",\"lfs\":{}}]", "", ZF_E_FORMAT, "no LFS size");
    tree_refused("[", "", ZF_E_FORMAT, "not valid JSON");
}

static void the_commit_is_forty_digits(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    char commit[41];

    (void)state;
#define SHA "0123456789abcdef0123456789abcdef01234567"
    assert_ok(hub_commit("{\"sha\":\"" SHA "\"}", 50, &lim, commit, &err), &err);
    assert_string_equal(commit, SHA);
    static const char *const bad[] = {"{}", "[]", "{\"sha\":\"main\"}", "{\"sha\":\"../" SHA "\"}"};
    for (size_t i = 0; i < 4; i++) {
        assert_false(hub_commit(bad[i], strlen(bad[i]), &lim, commit, &err));
        assert_non_null(strstr(err.msg, "the commit"));
    }
}

static void the_next_page_is_in_a_header(void **state)
{
    zf_auto(out) struct zf_out url = {.p = NULL};

    (void)state;
    assert_true(hub_next("<https://h/x?a=1&cursor=Zm9v>; rel=\"next\"", &url));
    assert_string_equal(url.p, "https://h/x?a=1&cursor=Zm9v");
    assert_true(hub_next("<https://h/first>; rel=\"first\", <https://h/n>; rel=next", &url));
    assert_string_equal(url.p, "https://h/n");
    assert_false(hub_next("<https://h/first>; rel=\"last\"", &url));
    assert_false(hub_next("<https://h/first>; rel=\"nextish\"", &url));
    assert_false(hub_next("<https://h/first", &url));
    assert_false(hub_next("", &url));
}

/* ---- the manifest ---------------------------------------------------------------------------- */

static bool manifest(const char *body, struct index_file *f, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();

    zf_err_clear(err);
    return index_file_read(body, strlen(body), &lim, f, err);
}

static size_t manifest_count(const struct index_file *f, const char *dir)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(entries) struct entries e;
    struct zf_err err;

    assert_ok(entries_init(&e, &lim, &err), &err);
    return index_file_list(f, dir, &e, &err) ? e.n : 0;
}

static void a_manifest_stands_for_its_directories(void **state)
{
    zf_auto(index_file) struct index_file f;
    struct zf_limits lim = zf_limits_default();
    zf_auto(entries) struct entries e;
    struct zf_err err;

    (void)state;
    assert_ok(
        manifest(
            "{\"zerofs_index\":1,\"more\":{},\"files\":[{\"path\":\"s!/z\",\"size\":9},"
            "{\"path\":\"s/x\",\"size\":7,\"mtime\":\"2026\"},{\"path\":\"latest\",\"size\":3},"
            "{\"path\":\"s/d/y\",\"size\":8}, {\"path\":\"s.t\",\"size\":0}]}",
            &f, &err),
        &err);
    assert_ok(entries_init(&e, &lim, &err) && index_file_list(&f, "", &e, &err), &err);
    assert_int_equal(e.n, 4);
    assert_true(entries_find(&e, "s")->dir && entries_find(&e, "s!")->dir);
    assert_int_equal(entries_find(&e, "latest")->size, 3);
    assert_int_equal(manifest_count(&f, "s"), 2);
    assert_int_equal(manifest_count(&f, "s/d"), 1);
    assert_int_equal(manifest_count(&f, "s!"), 1);
    assert_int_equal(manifest_count(&f, "s/x"), 0);
    assert_int_equal(manifest_count(&f, "q"), 0);
    entries_fini(&e);
    assert_ok(entries_init(&e, &lim, &err), &err);
    assert_false(index_file_list(&f, "q", &e, &err));
    assert_err(&err, ZF_E_NOENT, ZF_OFF_NONE, "no such directory");
}

static void wrong_manifests_are_refused(void **state)
{
    static const struct {
        const char *body, *why;
    } bad[] = {
        {"{}", "\"zerofs_index\" or \"files\" is missing"},
        {"{\"zerofs_index\":1}", "\"zerofs_index\" or \"files\" is missing"},
        {"{\"zerofs_index\":2,\"files\":[]}", "version 2"},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"../x\",\"size\":1}]}", "not inside"},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"/x\",\"size\":1}]}", "not inside"},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"a//x\",\"size\":1}]}", "not inside"},
        {"{\"zerofs_index\":1,\"files\":[{\"size\":1}]}", "not inside"},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"x\"}]}", "no \"size\""},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"x\",\"size\":-1}]}", "no \"size\""},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"x\",\"size\":1},{\"path\":\"x\",\"size\":1}]}",
         "in it twice"},
        {"{\"zerofs_index\":1,\"files\":[{\"path\":\"x/"
         "y\",\"size\":1},{\"path\":\"x!\",\"size\":1},"
         "{\"path\":\"x\",\"size\":1}]}",
         "a file and a directory"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zf_auto(index_file) struct index_file f;
        struct zf_err err;

        if (manifest(bad[i].body, &f, &err) || !strstr(err.msg, bad[i].why))
            fail_msg("%s: %s", bad[i].body, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_listings_are_read),
        cmocka_unit_test(cut_listings_lose_nothing),
        cmocka_unit_test(empty_directories_are_listings),
        cmocka_unit_test(links_that_lead_elsewhere_are_passed_over),
        cmocka_unit_test(links_of_this_directory_are_entries),
        cmocka_unit_test(characters_are_written_as_numbers),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(names_that_contradict_each_other_are_refused),
        cmocka_unit_test(pages_that_list_nothing_are_told_apart),
        cmocka_unit_test(rounded_sizes_are_not_known),
        cmocka_unit_test(a_million_names_are_bounded),
        cmocka_unit_test(the_hub_lists_files_and_lfs),
        cmocka_unit_test(wrong_answers_of_the_hub_are_refused),
        cmocka_unit_test(the_commit_is_forty_digits),
        cmocka_unit_test(the_next_page_is_in_a_header),
        cmocka_unit_test(a_manifest_stands_for_its_directories),
        cmocka_unit_test(wrong_manifests_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
