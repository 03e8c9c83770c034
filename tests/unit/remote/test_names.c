/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that nothing lists, by the names that are asked for: what is found, how often is asked,
 * and what is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "support/unit.h"

#include "src/remote/unlisted.h"

struct file {
    const char *path, *text;
    size_t n; /* of text; 0 = a terminated one */
};

struct server {
    const struct file *file;
    size_t n, asked, rounds;
    bool all, broken;
};

static const struct file *find(const struct server *s, const char *path)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->file[i].path, path) == 0)
            return &s->file[i];
    return NULL;
}

static bool have(void *ctx, const char *const *path, size_t n, struct names_found *out,
                 struct zf_err *err)
{
    struct server *s = ctx;

    s->rounds++;
    s->asked += n;
    for (size_t i = 0; i < n; i++) {
        const struct file *f = find(s, path[i]);

        out[i].is = f || s->all;
        out[i].size = f && f->text ? (f->n ? f->n : strlen(f->text)) : NAMES_UNSIZED;
    }
    return !s->broken || zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "no network");
}

static char *get(void *ctx, const char *path, uint64_t max_bytes, uint64_t *n_out,
                 struct zf_err *err)
{
    const struct file *f = find(ctx, path);

    if (!f || !f->text) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "gone");
        return NULL;
    }
    *n_out = f->n ? f->n : strlen(f->text);
    if (*n_out > max_bytes) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "too long");
        return NULL;
    }
    char *copy = calloc(1, *n_out + 1);
    if (copy)
        memcpy(copy, f->text, *n_out);
    return copy;
}

static const struct names_ops ops = {.have = have, .get = get};

/* The names found in `dir`, each with a blank behind it and a directory with a '/', in their order. */
static bool list(struct names *names, const char *dir, char *out, size_t room, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(entries) struct entries e;
    size_t at = 0;

    zf_err_clear(err);
    out[0] = '\0';
    if (!entries_init(&e, &lim, err) || !names_list(names, dir, NULL, &e, err))
        return false;
    for (size_t i = 0; i < e.n; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s ", e.at[i].name, e.at[i].dir ? "/" : "");
    return true;
}

#define SERVER(files)                                                                              \
    {                                                                                              \
        .file = files, .n = sizeof files / sizeof files[0]                                         \
    }

static void check(struct names *names, const char *dir, const char *want)
{
    char found[4096];
    struct zf_err err;

    assert_ok(list(names, dir, found, sizeof found, &err), &err);
    assert_string_equal(found, want);
}

static void a_run_of_deepspeed_is_found(void **state)
{
    static const struct file files[] = {
        {"latest", "tag/global_step5\n", 0},
        {"tag/global_step5/mp_rank_00_model_states.pt", NULL, 0},
        {"tag/global_step5/mp_rank_01_model_states.pt", NULL, 0},
        {"tag/global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt", NULL, 0},
        {"tag/global_step5/zero_pp_rank_1_mp_rank_00_optim_states.pt", NULL, 0},
        {"tag/global_step5/zero_pp_rank_0_mp_rank_01_optim_states.pt", NULL, 0},
        {"tag/global_step5/zero_pp_rank_1_mp_rank_01_optim_states.pt", NULL, 0},
        {"tag/global_step5/layer_01-model_00-model_states.pt", NULL, 0},
        {"tag/global_step5/layer_30-model_00-model_states.pt", NULL, 0},
        {"tag/global_step5/layer_50-model_00-model_states.pt", NULL, 0},
    };
    struct zf_limits lim = zf_limits_default();
    struct server s = SERVER(files);
    struct zf_err err;
    struct names *names = names_new(&ops, &s, &lim, &err);

    (void)state;
    check(names, "", "latest tag/ ");
    check(names, "tag", "global_step5/ ");
    check(names, "tag/global_step5",
          "mp_rank_00_model_states.pt zero_pp_rank_0_mp_rank_00_optim_states.pt "
          "mp_rank_01_model_states.pt layer_01-model_00-model_states.pt "
          "layer_30-model_00-model_states.pt layer_50-model_00-model_states.pt "
          "zero_pp_rank_1_mp_rank_00_optim_states.pt zero_pp_rank_0_mp_rank_01_optim_states.pt "
          "zero_pp_rank_1_mp_rank_01_optim_states.pt ");
    names_free(names);
}

static void numbers_go_on_as_long_as_files_do(void **state)
{
    char name[100][40];
    struct file files[100];
    struct zf_limits lim = zf_limits_default();
    struct server s = SERVER(files);
    struct zf_err err;
    char found[8192];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name[i], sizeof name[i], "rank%d.pt", i);
        files[i] = (struct file){.path = name[i]};
    }
    struct names *names = names_new(&ops, &s, &lim, &err);
    assert_ok(list(names, "", found, sizeof found, &err), &err);
    for (const char *p = found; (p = strchr(p, ' ')); p++)
        n++;
    assert_int_equal(n, 100);
    assert_true(s.rounds < 10 && s.asked < 300);
    names_free(names);
}

static void files_that_are_named_are_found(void **state)
{
    static const char pickle[] =
        "\x80\x02}q\x00X\x0b\x00\x00\x00__0_0.distcpX\x0c\x00\x00\x00__0_0.distcp"
        "\x8c\x0d__17_0.distcp\x8c\x0a../x.distcp\x8c\x0c__9_9.distcp\x8c\xff.distcp";
    static const struct file files[] = {
        {".metadata", pickle, sizeof pickle - 1},
        {"__0_0.distcp", NULL, 0},
        {"__17_0.distcp", NULL, 0},
        {"model.safetensors.index.json",
         "{\"weight_map\": {\"a\": \"m-1.safetensors\", \"b\": \"sub/m-2.safetensors\", \"c\": 7, "
         "\"d\": \"../e\", \"f\": \"gone.safetensors\"}}",
         0},
        {"m-1.safetensors", NULL, 0},
        {"sub/m-2.safetensors", NULL, 0},
        {"model/rank0.pt", NULL, 0},
    };
    struct zf_limits lim = zf_limits_default();
    struct server s = SERVER(files);
    struct zf_err err;
    struct names *names = names_new(&ops, &s, &lim, &err);

    (void)state;
    check(names, "",
          ".metadata model.safetensors.index.json model/ __0_0.distcp __17_0.distcp "
          "m-1.safetensors sub/ ");
    check(names, "model", "rank0.pt ");
    names_free(names);
}

static void iterations_are_numbers(void **state)
{
    static const struct file files[] = {
        {"latest_checkpointed_iteration.txt", "42\n", 0},
        {"iter_0000042/common.pt", NULL, 0},
        {"iter_0000042/metadata.json", "{\"sharded_backend\": \"torch_dist\"}", 0}};
    struct zf_limits lim = zf_limits_default();
    struct server s = SERVER(files);
    struct zf_err err;
    struct names *names = names_new(&ops, &s, &lim, &err);

    (void)state;
    check(names, "", "latest_checkpointed_iteration.txt iter_0000042/ ");
    check(names, "iter_0000042", "metadata.json common.pt ");
    names_free(names);
}

static void refused(struct server s, enum zf_code code, const char *why)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    char found[4096];
    struct names *names = names_new(&ops, &s, &lim, &err);

    assert_false(list(names, "", found, sizeof found, &err));
    assert_err(&err, code, ZF_OFF_NONE, why);
    names_free(names);
}

static void what_cannot_be_known_is_refused(void **state)
{
    static const struct file none[] = {{"README.md", "x", 0}};
    static const struct file zarr[] = {{"metadata.json", "{\"sharded_backend\": \"zarr\"}", 0}};
    static const struct file universal[] = {{"mp_rank_00_model_states.pt", NULL, 0},
                                            {"zero/optimizer_state.pt", NULL, 0}};
    static const struct file half[] = {{"latest", NULL, 0}};

    (void)state;
    refused((struct server)SERVER(none), ZF_E_NOENT, "a name of a checkpoint's files");
    refused((struct server)SERVER(zarr), ZF_E_UNKNOWN, "a Megatron save of zarr arrays");
    refused((struct server)SERVER(universal), ZF_E_UNKNOWN, "a universal checkpoint");
    refused((struct server)SERVER(half), ZF_E_NOENT, "gone");
    struct server all = SERVER(none), broken = SERVER(none);
    all.all = broken.broken = true;
    refused(all, ZF_E_UNKNOWN, "files that cannot exist");
    refused(broken, ZF_E_IO, "no network");
}

static void bad_pointers_lead_nowhere(void **state)
{
    static const char *const text[] = {"../up", "/abs", "a//b", "", "7", "..", "\n"};
    struct zf_limits lim = zf_limits_default();

    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        const struct file files[] = {{"latest", text[i], 0},
                                     {"latest_checkpointed_iteration.txt", "x y", 0}};
        struct server s = SERVER(files);
        struct zf_err err;
        struct names *names = names_new(&ops, &s, &lim, &err);

        check(names, "", "latest latest_checkpointed_iteration.txt x y/ ");
        names_free(names);
    }
}

static void one_file_is_asked_for_alone(void **state)
{
    static const struct file files[] = {
        {"model.safetensors", NULL, 0},
        {"config.json", NULL, 0},
        {"rank0.pt", NULL, 0},
        {"adapter_model.safetensors", NULL, 0},
        {"adapter_config.json", NULL, 0},
    };
    static const struct {
        const char *focus;
        size_t found;
    } cases[] = {{"model.safetensors", 1}, {"rank0.pt", 5}, {"adapter_model.safetensors", 5}};
    struct zf_limits lim = zf_limits_default();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct server s = SERVER(files);
        struct zf_err err;
        struct names *names = names_new(&ops, &s, &lim, &err);
        zf_auto(entries) struct entries e;

        assert_ok(names, &err);
        assert_ok(entries_init(&e, &lim, &err), &err);
        assert_ok(names_list(names, "", cases[i].focus, &e, &err), &err);
        assert_int_equal(e.n, cases[i].found);
        /* Itself, and a name that nobody gives. */
        assert_true(cases[i].found > 1 || s.asked == 2);
        names_free(names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_is_asked_for_alone),
        cmocka_unit_test(a_run_of_deepspeed_is_found),
        cmocka_unit_test(numbers_go_on_as_long_as_files_do),
        cmocka_unit_test(files_that_are_named_are_found),
        cmocka_unit_test(iterations_are_numbers),
        cmocka_unit_test(what_cannot_be_known_is_refused),
        cmocka_unit_test(bad_pointers_lead_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
