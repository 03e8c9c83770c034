/* SPDX-License-Identifier: Apache-2.0 */
/* The naming rules of zerofs(5), one test each, and the keys of every real checkpoint in
 * tests/data. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "support/unit.h"

#include <zf/assemble/names.h>

#define MAX_STEPS 8

/* A path written as "model|blocks.0.weight"; a step that starts with '#' is a position in a list.
 */
struct given {
    struct zf_step step[MAX_STEPS];
    struct zf_path path;
};

static struct zf_path path_of(struct given *g, const char *text)
{
    g->path = (struct zf_path){.step = g->step};
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, "|");
        bool index = n > 0 && p[0] == '#';

        assert_true(g->path.n < MAX_STEPS);
        g->step[g->path.n++] = (struct zf_step){.p = p + index, .n = n - index, .index = index};
        p += n;
        if (*p == '\0')
            return g->path;
    }
}

static struct zf_names *names_of(const char *const *paths)
{
    struct zf_err err = {0};
    struct zf_names *names = zf_names_new(&err);

    assert_non_null(names);
    for (size_t i = 0; paths[i]; i++) {
        struct given g;

        assert_ok(zf_names_add(names, path_of(&g, paths[i]), &err), &err);
    }
    return names;
}

/* The place of a path as "set:name". */
static void expect(struct zf_names *names, const char *path, const char *want)
{
    struct zf_err err = {0};
    struct zf_spot spot;
    struct given g;
    char got[1024];

    assert_ok(zf_names_place(names, path_of(&g, path), &spot, &err), &err);
    (void)snprintf(got, sizeof got, "%s:%.*s", spot.set, (int)spot.name_len, spot.name);
    assert_string_equal(got, want);
    assert_int_equal(strlen(spot.name), spot.name_len);
}

#define PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Composer: what holds container and optimizers is no part of a name, whatever else is in it. */
static void rule1_outer(void **state)
{
    (void)state;
    struct zf_err err = {0};
    struct given g;
    zf_auto(names) struct zf_names *names = names_of(
        PATHS("state|model|net.w", "state|optimizers|Adam|state.net.w.exp_avg",
              "state|optimizers|Adam|state|0|step", "state|train_metrics|m", "rng|#0|torch"));

    assert_ok(zf_names_id(names, "optimizers.Adam", 0, "net.w", 5, &err), &err);
    assert_string_equal(zf_names_container(names), "model");
    expect(names, "state|model|net.w", ":net.w");
    expect(names, "state|optimizers|Adam|state.net.w.exp_avg", "optim/exp_avg:net.w");
    expect(names, "state|optimizers|Adam|state|0|step", "optim/step:net.w");
    expect(names, "state|train_metrics|m", "extra:state.train_metrics.m");
    expect(names, "rng|#0|torch", "extra:rng.0.torch");
    assert_true(zf_names_is_entry(names, path_of(&g, "state|optimizers|Adam|state|0|step")));
    /* Nobody's container: a flat name, a list, and no more than two steps. */
    zf_auto(names) struct zf_names *flat =
        names_of(PATHS("state.model.w", "state|#0|w", "state|model"));
    expect(flat, "state.model.w", ":state.model.w");
    expect(flat, "state|#0|w", ":state.0.w");
    expect(flat, "state|model", ":state.model");
}

static void rule1_container(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("module|w", "model|model.embed.weight", "model|a|b.c", "net"));

    assert_string_equal(zf_names_container(names), "model");
    expect(names, "model|model.embed.weight", ":model.embed.weight");
    expect(names, "model|a|b.c", ":a.b.c");
    expect(names, "module|w", "module:w");
    expect(names, "net", "extra:net");
}

static void rule1_order_of_containers(void **state)
{
    (void)state;
    static const char *const word[] = {"model_state_dict", "net", "state_dict", "module", "model"};
    zf_auto(names) struct zf_names *names = names_of(PATHS("x|y"));
    struct zf_err err = {0};

    assert_null(zf_names_container(names));
    for (size_t i = 0; i < 5; i++) {
        struct zf_step step[2] = {{.p = word[i], .n = strlen(word[i])}, {.p = "w", .n = 1}};

        assert_ok(zf_names_add(names, (struct zf_path){.step = step, .n = 2}, &err), &err);
        assert_string_equal(zf_names_container(names), word[i]);
    }
}

static void rule1_no_container(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names = names_of(
        PATHS("model.embed.weight", "nested|a|b", "model|#0", "optimizer|param_groups|#0|lr", ""));

    assert_null(zf_names_container(names));
    expect(names, "model.embed.weight", ":model.embed.weight");
    expect(names, "nested|a|b", ":nested.a.b");
    expect(names, "model|#0", ":model.0");
    expect(names, "optimizer|param_groups|#0|lr", "extra:optimizer.param_groups.0.lr");
    expect(names, "", ":");
}

static void rule2_beside(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names = names_of(
        PATHS("model|w", "ema|w", "train_state|step", "rng", "ints|#0", "a/b|w", "rng_state|cpu",
              "rng|cpu", "np_rng|#1", "wrng|w", "optimizer|param_groups|#0|lr"));

    expect(names, "ema|w", "ema:w");
    expect(names, "train_state|step", "train_state:step");
    expect(names, "ints|#0", "ints:0");
    expect(names, "a/b|w", "a%2Fb:w");
    expect(names, "rng", "extra:rng");
    expect(names, "rng_state|cpu", "extra:rng_state.cpu");
    expect(names, "rng|cpu", "extra:rng.cpu");
    expect(names, "np_rng|#1", "extra:np_rng.1");
    expect(names, "wrng|w", "wrng:w");
    expect(names, "optimizer|param_groups|#0|lr", "extra:optimizer.param_groups.0.lr");
}

static void rule3_optimizer_paths(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("model|0.l.weight", "optim|state|0.l.weight|exp_avg",
                       "optimizer_states|#0|state|3|exp_avg_sq", "optim|state|0.l.weight|Q|#0",
                       "optimizer|state|7|Q|#1", "app|optim|state|w|step",
                       "optimizer|state|8|__bnb_optimizer_quant_state__|absmax1"));

    expect(names, "optim|state|0.l.weight|exp_avg", "optim/exp_avg:0.l.weight");
    expect(names, "optim|state|0.l.weight|Q|#0", "optim/Q.0:0.l.weight");
    expect(names, "optimizer_states|#0|state|3|exp_avg_sq",
           "optim/exp_avg_sq:optimizer_states.0.3");
    expect(names, "optimizer|state|7|Q|#1", "optim/Q.1:optimizer.7");
    expect(names, "app|optim|state|w|step", "optim/step:w");
    expect(names, "optimizer|state|8|__bnb_optimizer_quant_state__|absmax1",
           "optim/absmax1:optimizer.8");
}

static void rule3_optimizer_flat(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names = names_of(
        PATHS("optim|state.l.w.Q.0", "optim.state.l.w.exp_avg",
              "optimizer.state.exp_avg.decoder.layers.w", "optimizer.state.step",
              "chained_0.optimizer.state.exp_avg_sq.decoder.x", "l.w", "l",
              "optim.state.unknown.thing.v", "optim.state.l.w.__bnb_optimizer_quant_state__.state1",
              "optim.state.other.w.__bnb_optimizer_quant_state__.state2"));

    expect(names, "optim|state.l.w.Q.0", "optim/Q.0:l.w");
    expect(names, "optim.state.l.w.exp_avg", "optim/exp_avg:l.w");
    expect(names, "optimizer.state.exp_avg.decoder.layers.w", "optim/exp_avg:decoder.layers.w");
    expect(names, "chained_0.optimizer.state.exp_avg_sq.decoder.x", "optim/exp_avg_sq:decoder.x");
    expect(names, "optim.state.unknown.thing.v", "optim/v:unknown.thing");
    expect(names, "optim.state.l.w.__bnb_optimizer_quant_state__.state1", "optim/state1:l.w");
    expect(names, "optim.state.other.w.__bnb_optimizer_quant_state__.state2",
           "optim/state2:other.w");
    expect(names, "optimizer.state.step", ":optimizer.state.step");
}

/* Where the word of a state stands in front of the name, unless the name is such a word too. */
static void rule3_keys_first(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("model|w", "optimizer|state|exp_avg|w", "optimizer|state|step|exp_avg"));

    expect(names, "optimizer|state|exp_avg|w", "optim/exp_avg:w");
    expect(names, "optimizer|state|step|exp_avg", "optim/exp_avg:step");
}

static void rule3_a_model_may_have_an_optim_head(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("model|optim_head.state.weight", "model.optim_head.state.weight"));

    expect(names, "model|optim_head.state.weight", ":optim_head.state.weight");
}

static void rule3_masters(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("decoder.w", "decoder.buf", "optimizer.state.fp32_param.decoder.w",
                       "optimizer.state.param.x", "optimizer|state|0|master_param"));

    expect(names, "optimizer.state.fp32_param.decoder.w", ":decoder.w");
    expect(names, "decoder.w", "stored:decoder.w");
    expect(names, "decoder.buf", ":decoder.buf");
    expect(names, "optimizer.state.param.x", ":x");
    expect(names, "optimizer|state|0|master_param", "optim/master_param:0");
}

static void rule3_ids(void **state)
{
    (void)state;
    struct zf_err err = {0};
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("model|w", "optimizer|state|0|exp_avg", "optimizer|state|1|exp_avg",
                       "optimizer|state|0|master_param"));

    assert_ok(zf_names_id(names, "optimizer", 0, "w", 1, &err), &err);
    expect(names, "optimizer|state|0|exp_avg", "optim/exp_avg:w");
    expect(names, "optimizer|state|1|exp_avg", "optim/exp_avg:1");
    expect(names, "optimizer|state|0|master_param", ":w");
    expect(names, "model|w", "stored:w");
}

static void rule3_two_optimizers(void **state)
{
    (void)state;
    zf_auto(names) struct zf_names *names =
        names_of(PATHS("model|w", "optimizer_0|state|0|exp_avg", "optimizer_1|state|0|exp_avg",
                       "optimizer_1|state|1|exp_avg", "optimizer_1|state|0|momentum_buffer"));

    expect(names, "optimizer_0|state|0|exp_avg", "optim/exp_avg:optimizer_0.0");
    expect(names, "optimizer_1|state|0|exp_avg", "optim/exp_avg:optimizer_1.0");
    expect(names, "optimizer_1|state|1|exp_avg", "optim/exp_avg:optimizer_1.1");
    expect(names, "optimizer_1|state|0|momentum_buffer", "optim/momentum_buffer:optimizer_1.0");
}

/* FSDP1's word goes out of every step, and out of the names of ids. */
static void wrappers_words(void **state)
{
    static const char long_name[] = "_fsdp_wrapped_module.blocks.0._fsdp_wrapped_module.w";
    struct zf_err err = {0};

    (void)state;
    zf_auto(names) struct zf_names *names = names_of(
        PATHS("model|blocks.0.w", "model|_fsdp_wrapped_module.v", "model|a_fsdp_wrapped_module.|b",
              "optim|state|0|exp_avg", "optim|state|blocks.0._fsdp_wrapped_module.w|step"));

    assert_ok(zf_names_id(names, "optim", 0, long_name, sizeof long_name - 1, &err), &err);
    expect(names, "optim|state|0|exp_avg", "optim/exp_avg:blocks.0.w");
    expect(names, "optim|state|blocks.0._fsdp_wrapped_module.w|step", "optim/step:blocks.0.w");
    expect(names, "model|_fsdp_wrapped_module.v", ":v");
    expect(names, "model|a_fsdp_wrapped_module.|b", ":a.b");
    expect(names, "model|_fsdp_wrapped_module", ":_fsdp_wrapped_module");
}

/* The optimizer of a DDP model says `module.` where the model does not. */
static void ddp_word(void **state)
{
    struct zf_err err = {0};

    (void)state;
    zf_auto(names) struct zf_names *names = names_of(PATHS(
        "model|w", "model|module.v", "model|v", "optim|state|0|exp_avg",
        "optim|state|module.w|step", "optim|state|module.v|step", "optim|state|module.x|step"));

    assert_ok(zf_names_id(names, "optim", 0, "module.w", 8, &err), &err);
    expect(names, "optim|state|0|exp_avg", "optim/exp_avg:w");
    expect(names, "optim|state|module.w|step", "optim/step:w");
    expect(names, "optim|state|module.v|step", "optim/step:module.v");
    expect(names, "optim|state|module.x|step", "optim/step:module.x");
}

static void rule12_reserved(void **state)
{
    (void)state;
    static const char *const word[] = {"optim", "stored", "stacked", "bucket",       "extra",
                                       "state", "npy",    "hf",      "mp_rank_00_1", "as"};
    struct zf_err err = {0};
    zf_auto(names) struct zf_names *names = names_of(PATHS("model|w", ".zerofs|x"));

    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        struct zf_step step[2] = {{.p = word[i], .n = strlen(word[i])}, {.p = "x", .n = 1}};
        struct zf_path path = {.step = step, .n = 2};
        struct zf_spot spot;
        char want[64];

        assert_ok(zf_names_add(names, path, &err), &err);
        assert_ok(zf_names_place(names, path, &spot, &err), &err);
        (void)snprintf(want, sizeof want, "%s.x", word[i]);
        assert_string_equal(spot.set, "extra");
        assert_string_equal(spot.name, want);
    }
    expect(names, ".zerofs|x", "%2Ezerofs:x");
}

static void blobs_and_taken_places(void **state)
{
    (void)state;
    struct zf_err err = {0};
    struct given g;
    struct zf_spot spot;
    zf_auto(names) struct zf_names *names = names_of(PATHS("model|w"));

    assert_string_equal(zf_names_blob(names, path_of(&g, "model|a/b._extra_state"), &err),
                        "extra/model.a%2Fb._extra_state");
    assert_ok(zf_names_extra(names, path_of(&g, "model|w"), &spot, &err), &err);
    assert_string_equal(spot.set, "extra");
    assert_string_equal(spot.name, "model.w");
}

static void many_names(void **state)
{
    (void)state;
    struct zf_err err = {0};
    zf_auto(names) struct zf_names *names = zf_names_new(&err);
    char key[64], want[64];

    assert_non_null(names);
    for (int i = 0; i < 20000; i++) {
        int n = snprintf(key, sizeof key, "p.%d", i);

        assert_ok(zf_names_add_flat(names, key, (size_t)n, &err), &err);
        n = snprintf(key, sizeof key, "optim.state.p.%d.k.%d", i, i % 3);
        assert_ok(zf_names_add_flat(names, key, (size_t)n, &err), &err);
    }
    for (int i = 0; i < 20000; i += 997) {
        (void)snprintf(key, sizeof key, "optim.state.p.%d.k.%d", i, i % 3);
        (void)snprintf(want, sizeof want, "optim/k.%d:p.%d", i % 3, i);
        expect(names, key, want);
    }
}

/* ---- the keys of real checkpoints ---- */

/* A key as the path that its writer recorded: the container is one step, the rest another. */
static struct zf_path recorded(struct zf_step step[2], const char *key, const char *container)
{
    size_t head = strcspn(key, ".");

    if (!container || key[head] == '\0') {
        step[0] = (struct zf_step){.p = key, .n = strlen(key)};
        return (struct zf_path){.step = step, .n = 1};
    }
    step[0] = (struct zf_step){.p = key, .n = head};
    step[1] = (struct zf_step){.p = key + head + 1, .n = strlen(key) - head - 1};
    return (struct zf_path){.step = step, .n = 2};
}

static void check_key(struct zf_names *names, const char *key, const char *container)
{
    struct zf_err err = {0};
    struct zf_step step[2];
    struct zf_spot spot;
    const char *tail = strrchr(key, '.');
    size_t c = container ? strlen(container) : 0;

    assert_ok(zf_names_place(names, recorded(step, key, container), &spot, &err), &err);
    if (strncmp(key, "optim", 5) == 0 && strstr(key, ".state.") && tail &&
        (strcmp(tail, ".exp_avg") == 0 || strcmp(tail, ".exp_avg_sq") == 0 ||
         strcmp(tail, ".step") == 0)) {
        const char *name = strstr(key, ".state.") + 7;

        assert_int_equal(strncmp(spot.set, "optim/", 6), 0);
        assert_string_equal(spot.set + 6, tail + 1);
        assert_int_equal(spot.name_len, tail - name);
        assert_memory_equal(spot.name, name, spot.name_len);
    } else if (c && strncmp(key, container, c) == 0) {
        assert_string_equal(spot.set, "");
        assert_string_equal(spot.name, key + c);
    } else if (c) {
        assert_string_not_equal(spot.set, "");
    } else if (strncmp(key, "optim", 5) != 0) {
        assert_string_equal(spot.set, "");
        assert_string_equal(spot.name, key);
    }
}

static void check_file(const char *path)
{
    json_t *e = json_load_file(path, 0, NULL);
    const char *key;
    json_t *value;
    struct zf_err err = {0};
    zf_auto(names) struct zf_names *names = zf_names_new(&err);
    struct zf_step step[2];

    assert_non_null(e);
    assert_non_null(names);
    const char *container = json_string_value(json_object_get(e, "container"));
    json_object_foreach(json_object_get(e, "tensors"), key, value)
    {
        assert_ok(zf_names_add(names, recorded(step, key, container), &err), &err);
    }
    json_object_foreach(json_object_get(e, "tensors"), key, value)
    {
        check_key(names, key, container);
    }
    json_decref(e);
}

static void keys_of_real_checkpoints(void **state)
{
    (void)state;
    const char *top = getenv("ZF_DATA");
    static const char *const depth[] = {"*/*", "*/*/*", "*/*/*/*", "*/*/*/*/*"};
    size_t n = 0;

    for (size_t d = 0; d < 4; d++) {
        char pattern[600];
        glob_t g;

        (void)snprintf(pattern, sizeof pattern, "%s/%s/expected*.json", top ? top : "tests/data",
                       depth[d]);
        if (glob(pattern, 0, NULL, &g) != 0)
            continue;
        for (size_t i = 0; i < g.gl_pathc; i++) {
            if (!strstr(g.gl_pathv[i], "/megatron/")) { /* whose keys have a rule of their own */
                check_file(g.gl_pathv[i]);
                n++;
            }
        }
        globfree(&g);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule1_container),
        cmocka_unit_test(rule1_outer),
        cmocka_unit_test(wrappers_words),
        cmocka_unit_test(ddp_word),
        cmocka_unit_test(rule1_order_of_containers),
        cmocka_unit_test(rule1_no_container),
        cmocka_unit_test(rule2_beside),
        cmocka_unit_test(rule3_optimizer_paths),
        cmocka_unit_test(rule3_optimizer_flat),
        cmocka_unit_test(rule3_keys_first),
        cmocka_unit_test(rule3_a_model_may_have_an_optim_head),
        cmocka_unit_test(rule3_masters),
        cmocka_unit_test(rule3_ids),
        cmocka_unit_test(rule3_two_optimizers),
        cmocka_unit_test(rule12_reserved),
        cmocka_unit_test(blobs_and_taken_places),
        cmocka_unit_test(many_names),
        cmocka_unit_test(keys_of_real_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
