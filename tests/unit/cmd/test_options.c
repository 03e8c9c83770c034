/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands, from -o lists and from --name=value. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/base/out.h>
#include <zf/view.h>

#include "cmd/parse.h"

static struct opts list(const char *text)
{
    struct opts o = opts_default();
    struct zf_err err = {.code = ZF_OK};

    assert_ok(opts_list(&o, &cmd_table[CMD_MOUNT], text, &err), &err);
    return o;
}

static void refused(const char *text, int command, const char *part)
{
    zf_auto(opts) struct opts o = opts_default();
    struct zf_err err = {.code = ZF_OK, .off = ZF_OFF_NONE};

    assert_false(opts_list(&o, &cmd_table[command], text, &err));
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
    assert_int_equal(o.attr_timeout, 1500000000);
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
    assert_ok(opts_finish(&o, &err), &err);
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
    assert_int_equal(o.entry_timeout, 1000000000000000000);
    assert_int_equal(o.attr_timeout, 1000000000000000000);
    assert_int_equal(o.timeout, 0);
    assert_int_equal(o.shown, ZF_SHOW_AUTO);
    assert_ok(opts_finish(&own, &err), &err);
    assert_int_equal(own.max_read, 8192);
    assert_int_equal(own.cache_size, 1 << 20);
    assert_int_equal(own.timeout, 3000000000);
    assert_int_equal(own.entry_timeout, 0);
    assert_int_equal(own.attr_timeout, 1000000000000000000);
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
    zf_auto(opts) struct opts o = opts_default();
    int operands = 0;

    (void)state;
    assert_int_equal(opts_parse(&o, &cmd_table[CMD_LS], 6, argv, &operands), -1);
    assert_int_equal(o.lim.pickle_depth, 77);
    assert_int_equal(o.lim.zip_directory, 3072);
    assert_int_equal(operands, 4);
    assert_string_equal(argv[4], "CKPT");
    assert_string_equal(argv[5], "a");
}

static void a_commands_own_flags(void **state)
{
    char *argv[] = {"export", "--force", "-qj", "3", "a", "b", "--", "--all", NULL};
    zf_auto(opts) struct opts o = opts_default();
    int operands = 0;

    (void)state;
    assert_int_equal(opts_parse(&o, &cmd_table[CMD_EXPORT], 8, argv, &operands), -1);
    assert_true(o.force && o.quiet && !o.all && !o.sha256);
    assert_int_equal(o.jobs, 3);
    assert_int_equal(operands, 5);
    assert_string_equal(argv[7], "--all");
}

/* A flag of one command is none of another, and none of a list. */
static void flags_stay_with_their_command(void **state)
{
    char *argv[] = {"info", "--lazy", "CKPT", NULL}, *few[] = {"export", "CKPT", NULL};
    zf_auto(opts) struct opts o = opts_default();
    int operands;

    (void)state;
    assert_int_equal(opts_parse(&o, &cmd_table[CMD_INFO], 3, argv, &operands), EXIT_USAGE);
    assert_int_equal(opts_parse(&o, &cmd_table[CMD_EXPORT], 2, few, &operands), EXIT_USAGE);
    refused("json", CMD_LS, "json");
    refused("sha256", CMD_EXPORT, "sha256");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    refused("degradet", CMD_MOUNT, "degraded");
    refused("tag", CMD_MOUNT, "tag needs a value");
    refused("tag=a,tag=b", CMD_MOUNT, "given twice");
    refused("shard_size=many", CMD_MOUNT, "shard_size needs");
    refused("umask=8", CMD_MOUNT, "umask needs");
    refused("attr_timeout=soon", CMD_MOUNT, "attr_timeout needs a number of seconds");
    refused("timeout=1,timeout=2", CMD_MOUNT, "timeout is given twice");
    refused("attr_timeout=1,attr_timeout=0", CMD_MOUNT, "attr_timeout is given twice");
    refused("max_threads=4", CMD_LS, "max_threads");
    refused("io=past", CMD_MOUNT, "io needs one of auto|cached|direct, found \"past\"");
    refused("io=auto,io=direct", CMD_MOUNT, "io is given twice");
    refused("rw", CMD_MOUNT, "read-only");
}

static void what_contradicts_is_refused(void **state)
{
    zf_auto(opts) struct opts o = list("all_tags,tag=x"), word = list("model_cache=no");
    struct zf_err err;

    (void)state;
    assert_false(opts_finish(&o, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "contradict");
    assert_false(opts_finish(&word, &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "model_cache=no: expected auto|off|DIR");
}

static void collect(void *ctx, const char *name, const char *value)
{
    zf_out_str(ctx, name);
    zf_out_str(ctx, value ? "=" : "");
    zf_out_str(ctx, value ? value : "");
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
    assert_ok(opts_finish(&o, &err) && opts_finish(&own, &err) && opts_finish(&other, &err), &err);
    opts_each(&o, OPTS_SHOWN, collect, &all);
    opts_each(&own, OPTS_SHOWN, collect, &named);
    opts_each(&own, OPTS_GIVEN, collect, &given);
    opts_each(&other, OPTS_SHOWN, collect, &direct);
    assert_string_equal(zf_out_text(&named), zf_out_text(&all));
    assert_non_null(strstr(zf_out_text(&given), "io=auto;"));
    assert_non_null(strstr(zf_out_text(&direct), "io=direct;"));
}

static void what_is_in_force_can_be_told(void **state)
{
    zf_auto(opts) struct opts o = list("only=a,tag=t,degraded,only=b,umask=022,attr_timeout=1.5");
    zf_auto(out) struct zf_out all = {0};

    (void)state;
    opts_each(&o, OPTS_SHOWN, collect, &all);
    assert_non_null(strstr(zf_out_text(&all), "tag=t;degraded;"));
    assert_non_null(strstr(zf_out_text(&all), "only=a;only=b;"));
    assert_non_null(strstr(zf_out_text(&all), "umask=22;"));
    assert_non_null(strstr(zf_out_text(&all), "attr_timeout=1.5;"));
}

static void digest(const char *text, unsigned counts, uint8_t out[32])
{
    zf_auto(opts) struct opts o = list(text);
    struct zf_err err = {.code = ZF_OK};

    assert_ok(opts_finish(&o, &err) && opts_digest(&o, counts, out, &err), &err);
}

/* Each option that decides what is asked about changes the digest, another one does not. */
static void digests_know_what_counts(void **state)
{
    static const struct {
        const char *text;
        unsigned counts;
    } at[] = {
        {"tag=a", OPTS_MODEL | OPTS_BYTES},
        {"format=dcp", OPTS_MODEL | OPTS_BYTES},
        {"links", OPTS_MODEL},
        {"limit=pickle_depth=9", OPTS_MODEL},
        {"degraded", OPTS_BYTES},
        {"lost=nan", OPTS_BYTES},
        {"only=a", OPTS_BYTES},
        {"only=a,only=b", OPTS_BYTES},
        {"rename=a=b", OPTS_BYTES},
        {"keep=a", OPTS_BYTES},
        {"shard_size=1G", OPTS_BYTES},
        {"strip_prefix=a", OPTS_BYTES},
        {"side=/", OPTS_BYTES},
        {"io=direct", 0},
        {"cache_dir=/x", 0},
    };
    const unsigned each[] = {OPTS_MODEL, OPTS_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        for (size_t k = 0; k < 2; k++) {
            uint8_t none[32], one[32];

            digest("", each[k], none);
            digest(at[i].text, each[k], one);
            assert_int_equal(memcmp(none, one, sizeof one) != 0, (at[i].counts & each[k]) != 0);
        }
    }
}

/* A file of rules that was written again is another one, by size or time. */
static void digests_know_the_files_that_are_named(void **state)
{
    char path[] = "/tmp/zf-rules-XXXXXX", text[60];
    uint8_t before[32], after[32];
    int fd = mkstemp(path);

    (void)state;
    (void)snprintf(text, sizeof text, "tp_rules=%s", path);
    digest(text, OPTS_MODEL, before);
    assert_int_equal(write(fd, "x", 1), 1);
    digest(text, OPTS_MODEL, after);
    (void)close(fd);
    (void)unlink(path);
    assert_memory_not_equal(before, after, sizeof after);
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
        cmocka_unit_test(flags_stay_with_their_command),
        cmocka_unit_test(digests_know_what_counts),
        cmocka_unit_test(digests_know_the_files_that_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
