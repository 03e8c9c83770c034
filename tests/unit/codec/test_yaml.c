/* SPDX-License-Identifier: Apache-2.0 */
/* The scalars of YAML documents: what PyYAML's safe_load gives for the same, but for aliases and tags. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/out.h>
#include <zf/codec/yaml.h>

static struct zf_limits lim;

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    return 0;
}

struct told {
    struct zf_out text;
    unsigned n, most;
};

static bool tell(void *ctx, const struct zf_yaml_scalar *s, struct zf_err *err)
{
    struct told *t = ctx;

    assert_int_equal(strlen(s->path), strcspn(s->path, "\n"));
    if (++t->n > t->most)
        return zf_fail(err, ZF_E_LIMIT, 0, "enough");
    zf_out_str(&t->text, s->path);
    zf_out_str(&t->text, s->plain ? "=" : "='");
    zf_out_add(&t->text, s->value, s->value_len);
    zf_out_str(&t->text, ";");
    return true;
}

static void says(const char *yaml, const char *want)
{
    struct told t = {.most = 1000};
    struct zf_err err = {.code = ZF_OK};

    if (!zf_yaml_here())
        skip();
    assert_ok(zf_yaml_scalars(yaml, strlen(yaml), &lim, tell, &t, &err), &err);
    assert_string_equal(zf_out_text(&t.text), want);
    zf_auto_out(&t.text);
}

static void refused(const char *yaml, size_t n, enum zf_code code, const char *part)
{
    struct told t = {.most = 1000};
    struct zf_err err = {.code = ZF_OK};

    if (!zf_yaml_here())
        skip();
    assert_false(zf_yaml_scalars(yaml, n, &lim, tell, &t, &err));
    assert_err(&err, code, err.off, part);
    zf_auto_out(&t.text);
}

static void tells_paths(void **state)
{
    (void)state;
    says("a: 1\nb:\n  c: x y\n  d: [1, {e: 2}, []]\nf: '3'\n",
         "a=1;b.c=x y;b.d.0=1;b.d.1.e=2;f='3;");
    says("- a\n- - b\n  - c\n- d: e\n", "0=a;1.0=b;1.1=c;2.d=e;");
    says("plain", "=plain;");
    says("", "");
    says("# nothing\n", "");
    says("a:\nb: ~\nc: \"\"\n", "a=;b=~;c=';");
    says("a: 1\na: 2\n", "a=1;a=2;"); /* the reader's to judge */
    says("--- {a: 1}\n...\n", "a=1;");
    says("\xef\xbb\xbf"
         "a: 1\n",
         "a=1;");
    says("a: |\n  x\n  y\n", "a='x\ny\n;");
}

static void odd_keys_match_nothing(void **state)
{
    (void)state;
    says("a.b: 1\n'': 2\n\"c\\0d\": 3\n", "?=1;?=2;?=3;");
    says("? [a, b]\n: 1\n? {c: d}\n: {e: 2}\nf: 3\n", "?=1;?.e=2;f=3;");
    says("x: {? [a, {b: c}] : 1, y: 2}\n", "x.?=1;x.y=2;");
}

static void follows_no_alias_and_believes_no_tag(void **state)
{
    (void)state;
    says("a: &x {b: 1}\nc: *x\nd: 2\n", "a.b=1;d=2;");
    says("- &x [1]\n- *x\n- 3\n", "0.0=1;2=3;");
    says("&k a: 1\n*k : 2\nb: 3\n", "a=1;?=2;b=3;");
    says("a: !!python/object/apply:os.system [rm]\nb: !!int '7'\n", "a.0=rm;b='7;");
}

static void refuses_what_is_no_document(void **state)
{
    static const char *const bad[] = {
        "a: [1\n",      "a: 'x\n",      "a: b: c\n", "\ta: 1\n",    "a: *nowhere\n: : :\n  -",
        "%YAML 3\n",    "a: \"\\q\"\n", "}",         "- a\nb: 1\n", "a: \x01\n",
        "a: \xff\xfe\n"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], strlen(bad[i]), ZF_E_FORMAT, "invalid YAML at line");
    refused("a: 1\n---\nb: 2\n", 14, ZF_E_FORMAT, "a second document begins");
    refused("a: \0", 4, ZF_E_FORMAT, "invalid YAML at line 1");
}

static void is_bounded(void **state)
{
    /* the classic: nine lines that stand for 10^9 strings */
    char bomb[1000] = "a: &a [x, x, x, x, x, x, x, x, x, x]\n", deep[400];
    struct told t = {.most = 100};
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    if (!zf_yaml_here())
        skip();
    for (char c = 'b'; c <= 'i'; c++) {
        size_t n = strlen(bomb);
        (void)snprintf(bomb + n, sizeof bomb - n, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n", c, c,
                       c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
    }
    assert_ok(zf_yaml_scalars(bomb, strlen(bomb), &lim, tell, &t, &err), &err);
    assert_int_equal(t.n, 10);
    zf_auto_out(&t.text);
    memset(deep, '[', sizeof deep);
    refused(deep, sizeof deep, ZF_E_LIMIT, "json_depth");
    lim.json_depth = 2;
    says("a: {b: 1}\n", "a.b=1;");
    refused("a: {b: [1]}\n", 12, ZF_E_LIMIT, "2 levels");
    lim.json_bytes = 5;
    says("a: 1\n", "a=1;");
    refused("a: 12\n", 6, ZF_E_LIMIT, "6 bytes");
    lim = zf_limits_default();
}

static void ends_where_the_reader_says_so(void **state)
{
    struct told t = {.most = 2};
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    if (!zf_yaml_here())
        skip();
    assert_false(zf_yaml_scalars("[1, 2, 3, 4]", 12, &lim, tell, &t, &err));
    assert_err(&err, ZF_E_LIMIT, 0, "enough");
    assert_int_equal(t.n, 3);
    zf_auto_out(&t.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tells_paths, setup),
        cmocka_unit_test_setup(odd_keys_match_nothing, setup),
        cmocka_unit_test_setup(follows_no_alias_and_believes_no_tag, setup),
        cmocka_unit_test_setup(refuses_what_is_no_document, setup),
        cmocka_unit_test_setup(is_bounded, setup),
        cmocka_unit_test_setup(ends_where_the_reader_says_so, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
