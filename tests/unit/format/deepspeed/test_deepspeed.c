/* SPDX-License-Identifier: Apache-2.0 */
/* Real checkpoints of DeepSpeed 0.4.0 … 0.19.8 against what the training engine held; and what
 * happens when files are missing, left over, cut or altered. */
#include "support/golden.h"
#include "support/store_mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <zf/base/limits.h>
#include <zf/codec/json.h>

#define DIR_ "deepspeed/"

/* ---- every tensor, every name ---- */

static json_t *load_expected(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, DIR_ "%s/expected.json", dir);
    return golden_json(path);
}

/* params: {name: {"fp32" or state: digest}} */
static size_t check_params(const struct zf_checkpoint *c, json_t *params)
{
    const char *name, *key;
    json_t *kinds, *want;
    size_t n = 0;

    json_object_foreach(params, name, kinds)
    {
        json_object_foreach(kinds, key, want)
        {
            char set[64];

            if (json_object_get(want, "sha256")) {
                snprintf(set, sizeof set, "optim/%s", key);
                golden_tensor(c, strcmp(key, "fp32") == 0 ? "" : set, name, want);
                n++;
            }
        }
    }
    return n;
}

static void check_ties(const struct zf_checkpoint *c, json_t *shared)
{
    const struct zf_set *root = zf_checkpoint_set(c, "");
    const char *name;
    json_t *of;

    json_object_foreach(shared, name, of)
    {
        const struct zf_tensor *a = zf_set_find(root, name, strlen(name));
        const struct zf_tensor *b =
            zf_set_find(root, json_string_value(of), json_string_length(of));

        assert_non_null(a);
        assert_non_null(b);
        assert_int_equal(a->alias_of, b->alias_of);
    }
}

static void add_names(json_t *names, json_t *of)
{
    const char *name;
    json_t *v;

    json_object_foreach(of, name, v)
    {
        assert_int_equal(json_object_set_new(names, name, json_true()), 0);
    }
}

/* The root holds these names and no others. */
static void check_names(const struct zf_checkpoint *c, json_t *e)
{
    static const char *const part[] = {"params", "frozen", "buffers", "shared", "zero_to_fp32"};
    const struct zf_set *root = zf_checkpoint_set(c, "");
    json_t *names = json_object();

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        add_names(names, json_object_get(e, part[i]));
    if (!json_object_get(e, "writer") && json_object_get(names, "l1.weight")) {
        /* the older digests lack what the reference tool drops: frozen parameters of stage 1, and
         * buffers and ties where it refuses the save */
        static const char *const more[] = {"l2.weight", "norm.bias", "running", "counter",
                                           "head.weight"};
        for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
            assert_int_equal(json_object_set_new(names, more[i], json_true()), 0);
    }
    for (uint32_t i = 0; i < root->n; i++)
        if (!json_object_get(names, root->tensor[i].name))
            fail_msg("%s is not expected", root->tensor[i].name);
    assert_int_equal(root->n, json_object_size(names));
    json_decref(names);
}

static void check_real(const char *dir)
{
    zf_auto(json) json_t *e = load_expected(dir);
    char path[512];

    snprintf(path, sizeof path, DIR_ "%s", dir);
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(path, NULL);
    assert_string_equal(c->format, "deepspeed");
    assert_true(check_params(c, json_object_get(e, "params")) > 0);
    golden_tensors(c, "", json_object_get(e, "frozen"));
    golden_tensors(c, "", json_object_get(e, "buffers"));
    check_ties(c, json_object_get(e, "shared"));
    if (json_object_get(e, "shared") || !json_object_get(e, "writer"))
        check_names(c, e);
    if (json_integer_value(json_object_get(e, "stage")) < 3)
        golden_tensors(c, "stored", json_object_get(e, "module16"));
}

static const char *const real[] = {
    "ds0_18_9_zero2_zenflow_step0_w2",
    "ds0_19_8_hftrainer_zero3_w2",
    "ds0_19_8_zero0_bf16_w2",
    "ds0_19_8_zero0_fused_bf16",
    "ds0_19_8_zero1_bf16opt_w3",
    "ds0_19_8_zero2_align_roundrobin_w3",
    "ds0_19_8_zero2_align_w2",
    "ds0_19_8_zero2_bf16masters_bf16states_w3",
    "ds0_19_8_zero2_fastwriter_w2",
    "ds0_19_8_zero2_legacyser_w2",
    "ds0_19_8_zero2_muon_w2",
    "ds0_19_8_zero2_tag_slash_w2",
    "ds0_19_8_zero3_bf16_w3",
    "ds0_19_8_zero3_clientstate_w2",
    "ds0_19_8_zero3_exclfrozen_save16_w2",
    "ds0_19_8_zero3_nvme_swp_w2",
    "ds0_19_8_zero3_subgroups_w3_universal",
    "zero1_w2",
    "zero1_w2_bf16optimizer",
    "zero2_w12",
    "zero2_w2",
    "zero2_w2_ds0_9_5",
    "ds0_19_8_autoep2_zero3_w4",
    "ds0_19_8_moe_ep2_zero2_w4",
    "ds0_19_8_peft_lora_zero3_w2",
    "ds0_4_0_zero2_w2",
    "ds0_5_10_zero3_w3_groups_frozen",
    "moe_zero2",
    "zero2_w2_elastic",
    "zero2_w2_fp16_step0_clientstate",
    "zero2_w2_universal",
    "zero3_w12",
    "zero3_w2",
    "zero3_w2_gather16",
    "zero3_w2_universal",
};

static void test_real(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        print_message("# %s\n", real[i]);
        check_real(real[i]);
    }
}

/* The file that gathers the 16-bit weights beside the tag becomes stored/. */
static void test_gathered(void **state)
{
    static const char *const dirs[][2] = {
        {"ds0_19_8_zero3_exclfrozen_save16_w2", "pytorch_model.bin"},
        {"ds0_19_8_hftrainer_zero3_w2", "model.safetensors"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        zf_auto(json) json_t *e = load_expected(dirs[i][0]);
        json_t *want = json_object_get(json_object_get(e, "files"), dirs[i][1]);
        char path[512];

        snprintf(path, sizeof path, DIR_ "%s", dirs[i][0]);
        zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(path, NULL);
        assert_int_equal(golden_tensors(c, "stored", want), json_object_size(want));
    }
}

/* The converted form of a save holds the same weights and states. */
static void test_universal(void **state)
{
    static const char *const dirs[][2] = {
        {"ds0_19_8_zero3_subgroups_w3_universal", "global_step2_universal"},
        {"zero2_w2_universal", "global_step3_universal"},
        {"zero3_w2_universal", "global_step3_universal"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        zf_auto(json) json_t *e = load_expected(dirs[i][0]);
        char path[512];

        snprintf(path, sizeof path, DIR_ "%s/%s", dirs[i][0], dirs[i][1]);
        zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(path, NULL);
        assert_true(check_params(c, json_object_get(e, "params")) > 0);
        golden_tensors(c, "", json_object_get(e, "frozen"));
        golden_tensors(c, "", json_object_get(e, "buffers"));
        check_names(c, e);
    }
}

static void test_steps(void **state)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(DIR_ "zero3_w2", NULL);
    const struct zf_set *step = zf_checkpoint_set(c, "optim/step");
    float f;
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    assert_true(c->has_step);
    assert_int_equal(c->step, 3);
    assert_string_equal(c->tag, "global_step3");
    assert_non_null(step);
    const struct zf_tensor *t = zf_set_find(step, "l1.weight", 9);
    assert_non_null(t);
    assert_int_equal(t->dtype, ZF_DT_F32);
    assert_int_equal(t->ndim, 0);
    assert_ok(zf_map_read(t->data, &f, sizeof f, 0, &err), &err);
    assert_true(f == 3.0F);
}

static void test_state(void **state)
{
    static const char dir[] = DIR_ "zero2_w2_fp16_step0_clientstate";
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(dir, NULL);
    static const char *const files[] = {"state/args.json", "state/ds_config.json",
                                        "state/py_rng.json", "state/optim_states.json"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!golden_blob(c, files[i]))
            fail_msg("there is no %s", files[i]);
    const struct zf_set *extra = zf_checkpoint_set(c, "extra");
    assert_non_null(extra);
    const struct zf_tensor *rng = zf_set_find(extra, "rng", 3);
    assert_non_null(rng);
    assert_int_equal(zf_map_size(rng->data), 5056);
}

/* ---- altered copies ---- */

/* One change of a file on its way into memory. */
struct change {
    const char *file; /* ends so */
    const char *name; /* new last part, "" = leave the file out, NULL = the same */
    const char *from, *to;
    size_t n;      /* bytes of from and to */
    uint64_t size; /* cut to this, 0 = whole */
};

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

static size_t replace(char *p, size_t n, const struct change *c)
{
    size_t count = 0;

    for (char *q = p; (q = memmem(q, n - (size_t)(q - p), c->from, c->n)); q += c->n) {
        memcpy(q, c->to, c->n);
        count++;
    }
    return count;
}

static void add_file(struct zf_store *st, const char *dir, const char *name, const struct change *c)
{
    char path[4096], as[4096];
    struct zf_err err = {.code = ZF_OK};

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t n = (size_t)ftell(f);
    zf_auto(mem) char *p = malloc(n + 1);
    assert_non_null(p);
    rewind(f);
    assert_int_equal(fread(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    snprintf(as, sizeof as, "%s", name);
    for (; c && c->file; c++) {
        if (!ends(name, c->file))
            continue;
        if (c->from)
            assert_true(replace(p, n, c) > 0);
        n = c->size && c->size < n ? c->size : n;
        if (c->name && !*c->name)
            return;
        if (c->name)
            snprintf(as, sizeof as, "%s", c->name);
    }
    assert_ok(store_mem_add(st, as, p, n, &err), &err);
}

/* The files of tag directory `rel` in memory, with changes (ended by an empty one) made to them. */
static struct zf_store *altered(const char *rel, const struct change *c)
{
    static struct zf_limits lim;
    struct zf_err err = {.code = ZF_OK};
    struct dirent **list;
    char dir[4096];

    lim = zf_limits_default();
    struct zf_store *st = store_mem_new(&lim, &err);
    assert_non_null(st);
    snprintf(dir, sizeof dir, "%s", golden_path(rel));
    int n = scandir(dir, &list, NULL, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.' && ends(list[i]->d_name, ".pt"))
            add_file(st, dir, list[i]->d_name, c);
        free(list[i]);
    }
    free(list);
    return st;
}

static struct zf_checkpoint *try_altered(const char *rel, const struct change *c, bool degraded,
                                         struct zf_err *err)
{
    zf_auto(store) struct zf_store *st = altered(rel, c);

    return golden_try(st, &(struct zf_open_opts){.degraded = degraded}, err);
}

static void refused(const char *rel, const struct change *c, enum zf_code code, const char *part)
{
    zf_auto(store) struct zf_store *st = altered(rel, c);

    golden_try_refused(st, code, part);
}

#define Z2 DIR_ "zero2_w2/global_step3"
#define Z3 DIR_ "zero3_w2/global_step3"
#define Z12 DIR_ "zero3_w12/global_step3"
#define ALIGN DIR_ "ds0_19_8_zero2_align_w2/global_step2"
#define OPTIM(r) "bf16_zero_pp_rank_" #r "_mp_rank_00_optim_states.pt"
#define MODEL "mp_rank_00_model_states.pt"

static void test_ranks(void **state)
{
    (void)state;
    refused(Z2, (struct change[]){{.file = OPTIM(1), .name = ""}, {0}}, ZF_E_FORMAT,
            "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt is missing");
    refused(Z12, (struct change[]){{.file = OPTIM(7), .name = ""}, {0}}, ZF_E_FORMAT,
            "bf16_zero_pp_rank_7_mp_rank_00_optim_states.pt is missing");
    refused(Z2, (struct change[]){{.file = OPTIM(1), .name = OPTIM(2)}, {0}}, ZF_E_FORMAT,
            "does not belong to this save");
    refused(Z12,
            (struct change[]){{.file = "rank_7_mp_rank_00_optim_states.pt",
                               .name = "zero_pp_rank_7_mp_rank_00_optim_states.pt"},
                              {0}},
            ZF_E_FORMAT, "differ in the prefix");
    refused(Z2, (struct change[]){{.file = MODEL, .name = ""}, {0}}, ZF_E_FORMAT,
            "model-states file of rank 0 is missing");
    refused(Z3,
            (struct change[]){{.file = OPTIM(0), .name = ""}, {.file = OPTIM(1), .name = ""}, {0}},
            ZF_E_FORMAT, "all optimizer files");
    refused(
        Z3,
        (struct change[]){{.file = "zero_pp_rank_0_mp_rank_00_model_states.pt", .name = ""}, {0}},
        ZF_E_FORMAT, "model-states file of rank 0 is missing");
    refused(
        Z3,
        (struct change[]){{.file = "zero_pp_rank_1_mp_rank_00_model_states.pt", .name = ""}, {0}},
        ZF_E_FORMAT, "zero_pp_rank_1_mp_rank_00_model_states.pt is missing");
}

static void add_extra(struct zf_store *st, const char *from, const char *name)
{
    char dir[4096];
    const struct change c[] = {{.file = from, .name = name}, {0}};

    snprintf(dir, sizeof dir, "%s", golden_path(Z2));
    add_file(st, dir, from, c);
}

static void test_stale_rank(void **state)
{
    zf_auto(store) struct zf_store *st = altered(Z2, NULL);
    struct zf_limits lim = zf_limits_default();
    struct zf_open_opts o = {.lim = &lim};
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    add_extra(st, OPTIM(1), OPTIM(5));
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(st, &o, &err);
    assert_null(c);
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "does not belong to this save");
    o.degraded = true;
    c = zf_open(st, &o, &err);
    assert_non_null(c);
    assert_true(golden_note(c, "is ignored"));
}

/* Ranks 0 and 1 differ in size there, so a file in the wrong place cannot go unnoticed. */
static void test_swapped(void **state)
{
    (void)state;
    refused(ALIGN,
            (struct change[]){
                {.file = OPTIM(0), .name = OPTIM(1)}, {.file = OPTIM(1), .name = ""}, {0}},
            ZF_E_FORMAT, "the file of another rank");
}

static void test_cut_files(void **state)
{
    struct zf_err err;
    uint64_t whole = 4983; /* bytes of the file */

    (void)state;
    for (uint64_t size = 1; size < whole; size += 64) {
        const struct change cut[] = {{.file = OPTIM(1), .size = size}, {0}};
        char text[800];

        zf_auto(checkpoint) struct zf_checkpoint *c = try_altered(Z2, cut, false, &err);
        zf_err_text(&err, text, sizeof text);
        if (c || !strstr(text, "rank_1"))
            fail_msg("cut to %llu: \"%s\" names no file", (unsigned long long)size, text);
    }
}

/* A lost rank takes exactly its own bytes along. */
static void test_degraded(void **state)
{
    struct zf_err err;
    const struct change lost[] = {{.file = OPTIM(7), .name = ""}, {0}};
    zf_auto(checkpoint) struct zf_checkpoint *c = try_altered(Z12, lost, true, &err);
    zf_auto(json) json_t *e = load_expected("zero3_w12");
    uint32_t n_lost = 0;
    char byte;

    (void)state;
    assert_non_null(c);
    const struct zf_set *root = zf_checkpoint_set(c, "");
    for (uint32_t i = 0; i < root->n; i++) {
        const struct zf_tensor *t = &root->tensor[i];
        json_t *want = json_object_get(json_object_get(e, "params"), t->name);

        n_lost += t->lost;
        if (want && !t->lost)
            golden_tensor(c, "", t->name, json_object_get(want, "fp32"));
    }
    assert_true(n_lost > 0 && n_lost < root->n);
    /* l1.weight: 55 elements on 12 ranks are slots of 5; rank 7 holds 35 … 39 */
    const struct zf_tensor *t = zf_set_find(root, "l1.weight", 9);
    assert_true(t && t->lost);
    for (uint64_t off = 0; off < 4 * 55; off++) {
        bool gone = off >= 4 * 35 && off < 4 * 40;

        zf_err_clear(&err);
        assert_int_equal(zf_map_read(t->data, &byte, 1, off, &err), !gone);
        assert_int_equal(err.code, gone ? ZF_E_IO : ZF_OK);
    }
}

static void test_degraded_stage2(void **state)
{
    for (int r = 0; r < 12; r++) {
        char name[80];
        struct zf_err err;

        (void)state;
        snprintf(name, sizeof name, "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", r);
        const struct change lost[] = {{.file = name, .name = ""}, {0}};
        zf_auto(checkpoint) struct zf_checkpoint *c =
            try_altered(DIR_ "zero2_w12/global_step3", lost, true, &err);
        zf_auto(json) json_t *e = load_expected("zero2_w12");
        json_t *params = json_object_get(e, "params");
        const struct zf_set *root;

        assert_non_null(c);
        root = zf_checkpoint_set(c, "");
        for (uint32_t i = 0; i < root->n; i++) {
            json_t *want = json_object_get(params, root->tensor[i].name);
            if (want && !root->tensor[i].lost)
                golden_tensor(c, "", root->tensor[i].name, json_object_get(want, "fp32"));
        }
    }
}

/* ---- names and numbers that lie ---- */

static const struct zf_tensor *renamed(struct zf_checkpoint **c, const char *to, size_t n)
{
    const struct change as[] = {{.file = MODEL, .from = "l1.weight", .to = to, .n = 9}, {0}};
    struct zf_err err;
    char text[800];

    *c = try_altered(Z2, as, false, &err);
    if (!*c)
        fail_msg("%s", zf_err_text(&err, text, sizeof text));
    return zf_set_find(zf_checkpoint_set(*c, ""), to, n);
}

static void test_odd_names(void **state)
{
    static const char *const names[] = {"../../etc", "/l1.weigh", "a/./../..", "l1\0weight",
                                        "........."};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        zf_auto(checkpoint) struct zf_checkpoint *c = NULL;

        assert_non_null(renamed(&c, names[i], 9));
    }
    refused(Z2,
            (struct change[]){{.file = MODEL,
                               .from = "l1.bias",
                               .to = "l1\xff"
                                     "bias",
                               .n = 7},
                              {0}},
            ZF_E_FORMAT, "UTF-8");
}

static void test_double_name(void **state)
{
    (void)state;
    refused(Z2,
            (struct change[]){{.file = MODEL, .from = "back.bias", .to = "l1.weight", .n = 9}, {0}},
            ZF_E_FORMAT, "the key \"l1.weight\" occurs twice");
}

/* (11, 5) becomes (11, 6), (250, 5) …: the group no longer adds up. */
static void test_wrong_shape(void **state)
{
    (void)state;
    refused(Z2,
            (struct change[]){
                {.file = MODEL, .from = "K\x0bK\x05\x86", .to = "K\x0bK\x06\x86", .n = 5}, {0}},
            ZF_E_FORMAT, "");
    refused(Z3,
            (struct change[]){{.file = "zero_pp_rank_0_mp_rank_00_model_states.pt",
                               .from = "K\x0bK\x05\x86",
                               .to = "K\xfaK\x05\x86",
                               .n = 5},
                              {0}},
            ZF_E_FORMAT, "expected");
}

static void test_wrong_world(void **state)
{
    (void)state;
    refused(
        Z3,
        (struct change[]){
            {.file = OPTIM(1), .from = "partition_count", .to = "partition_kount", .n = 15}, {0}},
        ZF_E_FORMAT, "partition_count is 0, but 2 in");
}

static void test_mixed_versions(void **state)
{
    (void)state;
    refused(Z2,
            (struct change[]){{.file = OPTIM(1), .from = "0.14.5", .to = "0.14.4", .n = 6}, {0}},
            ZF_E_FORMAT, "two saves are mixed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_gathered),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_universal),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_stale_rank),
        cmocka_unit_test(test_swapped),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_degraded),
        cmocka_unit_test(test_degraded_stage2),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_double_name),
        cmocka_unit_test(test_wrong_shape),
        cmocka_unit_test(test_wrong_world),
        cmocka_unit_test(test_mixed_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
