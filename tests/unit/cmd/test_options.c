/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands, from -o lists and from --name=value. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/base/out.h>
#include <zf/view.h>

#include "cmd/option_value.h"
#include "cmd/options.h"

/* What main.c does, without printing. */
static char said[400];

int cmd_usage(const struct cmd *self, const char *fmt, ...)
{
    va_list ap;

    (void)self;
    va_start(ap, fmt);
    (void)vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    return EXIT_USAGE;
}

int cmd_help(const struct cmd *self)
{
    (void)self;
    return EXIT_OK;
}

static struct opts list(const char *text)
{
    struct opts o = opts_default();
    struct zf_err err = {.code = ZF_OK};

    assert_ok(opts_list(&o, text, true, &err), &err);
    return o;
}

static void refused(const char *text, bool mounting, const char *part)
{
    zf_auto(opts) struct opts o = opts_default();
    struct zf_err err = {.code = ZF_OK, .off = ZF_OFF_NONE};

    assert_false(opts_list(&o, text, mounting, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, part);
}

static void each_kind_has_its_values(void **state)
{
    (void)state;
    zf_auto(opts) struct opts o = list(
        "tag=step "
        "3,degraded,shard_size=2k,umask=027,uid=7,attr_timeout=1.5,max_threads=9,read_ahead=3M");

    assert_string_equal(o.tag, "step 3");
    assert_true(o.degraded && !o.xdev && !o.debug);
    assert_int_equal(o.shard_size, 2048);
    assert_int_equal(o.umask, 027);
    assert_int_equal(o.uid, 7);
    assert_true(o.attr_timeout == 1.5);
    assert_int_equal(o.max_threads, 9);
    assert_int_equal(o.read_ahead, 3u << 20);
}

/* Those of zerofs-mount(1). */
static void what_is_not_said_has_its_default(void **state)
{
    zf_auto(opts) struct opts o = opts_default(),
                              own = list("max_read=8k,timeout=3,cache_size=1M,entry_timeout=0");
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_ok(options_settle(&o, &err), &err);
    assert_int_equal(o.shard_size, 0); /* 5 GB, which the view knows */
    assert_int_equal(o.uid, getuid());
    assert_int_equal(o.gid, getgid());
    assert_int_equal(o.umask, 0);
    assert_int_equal(o.max_threads, 0);
    assert_int_equal(o.max_read, 0);
    assert_int_equal(o.read_ahead, 1 << 20);
    assert_int_equal(o.connections, 0);
    assert_int_equal(o.cache_mem, 0);
    assert_int_equal(o.cache_size, 10ll << 30);
    assert_true(o.entry_timeout >= 1e9 && o.attr_timeout >= 1e9 && o.timeout == 0);
    assert_int_equal(o.shown, ZF_SHOW_AUTO);
    assert_ok(options_settle(&own, &err), &err);
    assert_int_equal(own.max_read, 8192);
    assert_int_equal(own.cache_size, 1 << 20);
    assert_true(own.timeout == 3 && own.entry_timeout == 0 && own.attr_timeout >= 1e9);
}

static void lists_grow_and_commas_can_be_kept(void **state)
{
    (void)state;
    zf_auto(opts) struct opts o = list("only=a*,only=b\\,c,rename=x=y");

    assert_int_equal(o.only.n, 2);
    assert_string_equal(o.only.at[0], "a*");
    assert_string_equal(o.only.at[1], "b,c");
    assert_int_equal(o.rename.n, 1);
    assert_string_equal(o.rename.at[0], "x=y");
    assert_int_equal(o.except.n, 0);
}

static void words_need_no_backslash(void **state)
{
    (void)state;
    zf_auto(opts) struct opts o = list("show=raw,npy,degraded");

    assert_int_equal(o.show.n, 2);
    assert_string_equal(o.show.at[1], "npy");
    assert_true(o.degraded);
}

static void limits_are_taken_together(void **state)
{
    char *argv[] = {"ls", "-o", "limit=pickle_depth=77", "CKPT", "--limit=zip_directory=3k",
                    "a",  NULL};
    const struct cmd ls = {.name = "ls", .takes = TAKES_CKPT};
    const struct opt_flag none[] = {{0}};
    zf_auto(opts) struct opts o = opts_default();
    int operands = 0;

    (void)state;
    assert_int_equal(opts_parse(&o, &ls, none, 6, argv, &operands), -1);
    assert_int_equal(o.lim.pickle_depth, 77);
    assert_int_equal(o.lim.zip_directory, 3072);
    assert_int_equal(operands, 4);
    assert_string_equal(argv[4], "CKPT");
    assert_string_equal(argv[5], "a");
}

static void a_commands_own_flags(void **state)
{
    char *argv[] = {"ls", "--long", "-jx", "v", "--", "--json", NULL}, *value = NULL;
    bool longer = false, json = false;
    const struct cmd ls = {.name = "ls", .takes = TAKES_CKPT};
    const struct opt_flag own[] = {{.letter = 'l', .name = "long", .set = &longer},
                                   {.letter = 'j', .name = "json", .set = &json},
                                   {.letter = 'x', .name = "extra", .value = &value},
                                   {0}};
    zf_auto(opts) struct opts o = opts_default();
    int operands = 0;

    (void)state;
    assert_int_equal(opts_parse(&o, &ls, own, 6, argv, &operands), -1);
    assert_true(longer && json);
    assert_string_equal(value, "v");
    assert_int_equal(operands, 5);
    assert_string_equal(argv[5], "--json");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    refused("degradet", true, "degraded");
    refused("tag", true, "tag needs a value");
    refused("tag=a,tag=b", true, "given twice");
    refused("shard_size=many", true, "shard_size needs");
    refused("umask=8", true, "umask needs");
    refused("attr_timeout=soon", true, "attr_timeout needs a number of seconds");
    refused("timeout=1,timeout=2", true, "timeout is given twice");
    refused("attr_timeout=1,attr_timeout=0", true, "attr_timeout is given twice");
    refused("max_threads=4", false, "max_threads");
}

static void what_contradicts_is_refused(void **state)
{
    char *argv[] = {"mount", "-o", "all_tags,tag=x", NULL};
    const struct cmd mount = {.name = "mount", .takes = TAKES_MOUNT};
    const struct opt_flag none[] = {{0}};
    zf_auto(opts) struct opts o = opts_default();
    int operands;

    (void)state;
    assert_int_equal(opts_parse(&o, &mount, none, 3, argv, &operands), EXIT_USAGE);
    assert_non_null(strstr(said, "contradict"));
}

static void collect(void *ctx, const char *text)
{
    char *all = ctx;

    if (strncmp(text, "tag", 3) == 0 || strncmp(text, "degraded", 8) == 0 ||
        strncmp(text, "shard", 5) == 0 || strncmp(text, "only", 4) == 0) {
        (void)snprintf(all + strlen(all), 400 - strlen(all), "%s;", text);
    }
}

static void collect_all(void *ctx, const char *text)
{
    zf_out_str(ctx, text);
    zf_out_str(ctx, ";");
}

/* What names a default is in force without being named. */
static void defaults_are_in_force(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(opts) struct opts o = opts_default(),
                              own = list("io=auto,xattrs=auto,lost=eio,changed=auto,timeout=0");
    zf_auto(opts) struct opts other = list("io=direct");
    zf_auto(out) struct zf_out all = {0}, named = {0}, given = {0}, direct = {0};

    (void)state;
    assert_ok(options_settle(&o, &err) && options_settle(&own, &err) &&
                  options_settle(&other, &err),
              &err);
    opts_each(&o, false, collect_all, &all);
    opts_each(&own, false, collect_all, &named);
    opts_each(&own, true, collect_all, &given);
    opts_each(&other, false, collect_all, &direct);
    assert_string_equal(zf_out_text(&named), zf_out_text(&all));
    assert_non_null(strstr(zf_out_text(&given), "io=auto;"));
    assert_non_null(strstr(zf_out_text(&direct), "io=direct;"));
}

static void what_is_in_force_can_be_told(void **state)
{
    char all[400] = "";

    (void)state;
    zf_auto(opts) struct opts o = list("only=a,tag=t,degraded,only=b");
    opts_each(&o, false, collect, all);
    assert_non_null(strstr(all, "tag=t;degraded;"));
    assert_non_null(strstr(all, "only=a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_values),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(lists_grow_and_commas_can_be_kept),
        cmocka_unit_test(words_need_no_backslash),
        cmocka_unit_test(limits_are_taken_together),
        cmocka_unit_test(a_commands_own_flags),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(what_contradicts_is_refused),
        cmocka_unit_test(what_is_in_force_can_be_told),
        cmocka_unit_test(defaults_are_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
