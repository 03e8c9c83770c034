/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint: every real checkpoint by the digests of its writer,
 * made ones of every torch version, and damaged ones. */
#include "config.h"

#include "support/golden.h"
#include "support/store_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/name.h>
#include <zf/model/model.h>

/* Where zerofs(5) puts a tensor: at most a few places, because a flat key tells less than a path.
 */
struct spots {
    char set[4][300], name[4][600];
    size_t n;
};

static void add_spot(struct spots *s, const char *set, const char *name, size_t n)
{
    snprintf(s->set[s->n], sizeof s->set[0], "%s", set);
    snprintf(s->name[s->n], sizeof s->name[0], "%.*s", (int)n, name);
    s->n++;
}

/* optim….state.<name>.<state> */
static bool optimizer_spot(const char *key, struct spots *s)
{
    const char *state = strstr(key, ".state."), *last = strrchr(key, '.');
    char set[300];

    if (strncmp(key, "optim", 5) != 0 || !state || strcspn(key, ".") != (size_t)(state - key))
        return false;
    snprintf(set, sizeof set, "optim/%s", last + 1);
    add_spot(s, set, state + 7, (size_t)(last - state - 7));
    return true;
}

static void spots_of(const char *key, const char *container, struct spots *s)
{
    size_t n = container ? strlen(container) : 0;
    const char *dot = strchr(key, '.');
    char head[600], set[ZF_NAME_MAX + 1];

    s->n = 0;
    if (optimizer_spot(key, s))
        return;
    if (strncmp(key, container ? container : "", n) == 0) {
        add_spot(s, "", key + n, strlen(key + n));
        return;
    }
    if (dot) {
        snprintf(head, sizeof head, "%.*s", (int)(dot - key), key);
        zf_name_encode(set, head, strlen(head), "");
        add_spot(s, set, dot + 1, strlen(dot + 1));
    }
    add_spot(s, "extra", key, strlen(key));
}

static const struct zf_set *holder(const struct zf_checkpoint *c, const struct spots *s,
                                   size_t *i_out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct zf_set *set = zf_checkpoint_set(c, s->set[i]);

        if (set && zf_set_find(set, s->name[i], strlen(s->name[i]))) {
            *i_out = i;
            return set;
        }
    }
    return NULL;
}

static bool listed(const json_t *list, const char *name)
{
    const json_t *v;
    size_t i;

    json_array_foreach((json_t *)list, i, v)
    {
        if (strcmp(json_string_value(v), name) == 0)
            return true;
    }
    return false;
}

static size_t check_tensors(const struct zf_checkpoint *c, const json_t *all, const json_t *tensors,
                            const char *container)
{
    const json_t *unservable = json_object_get(all, "unservable");
    const char *key;
    json_t *want;
    struct spots s;
    size_t i = 0, n = 0;

    json_object_foreach((json_t *)tensors, key, want)
    {
        spots_of(key, container, &s);
        if (listed(unservable, key))
            continue;
        if (!holder(c, &s, &i))
            fail_msg("\"%s\" is in no set it should be in (first: \"%s\")", key, s.set[0]);
        golden_tensor(c, s.set[i], s.name[i], want);
        n++;
    }
    return n;
}

/* Bytes items are under extra/ with their own length. */
static void check_bytes(const struct zf_checkpoint *c, const json_t *list)
{
    char path[ZF_NAME_MAX + 8] = "extra/";
    const json_t *v;
    size_t i;

    if (json_array_size(list) > 0)
        assert_non_null(golden_blob(c, "state/checkpoint.json"));
    json_array_foreach((json_t *)list, i, v)
    {
        zf_name_encode(path + 6, json_string_value(v), json_string_length(v), "");
        if (!golden_blob(c, path))
            fail_msg("there is no %s", path);
    }
}

static size_t n_tensors(const struct zf_checkpoint *c)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->n_sets; i++)
        n += c->set[i].n;
    return n;
}

static void check_fixture(const char *rel)
{
    char json[400];
    snprintf(json, sizeof json, "%s/expected.json", rel);
    json_t *want = golden_json(json), *dirs = json_object_get(want, "dirs"), *part;
    const char *container = json_string_value(json_object_get(want, "container")), *dir;
    struct zf_checkpoint *c = golden_open(rel, NULL);
    size_t n = check_tensors(c, want, json_object_get(want, "tensors"), container);

    n += check_tensors(c, want, json_object_get(want, "inner"), container);
    check_bytes(c, json_object_get(want, "bytes_items"));
    json_object_foreach(dirs, dir, part)
    {
        n += check_tensors(c, want, json_object_get(part, "tensors"), container);
        check_bytes(c, json_object_get(part, "bytes_items"));
    }
    const struct zf_set *extra =
        zf_checkpoint_set(c, "extra"); /* random states beside the folders */
    assert_int_equal(n_tensors(c), n + (dirs && extra ? extra->n : 0));
    assert_string_equal(c->format, "dcp");
    zf_checkpoint_free(c);
    json_decref(want);
}

#define FIXTURES(X)                                                                                \
    X("dcp2.2.2_on_torch2.13/fsdp1_sharded_w2")                                                    \
    X("torch1.13/plain_1p")                                                                        \
    X("torch1.13/plain_1p_filepertensor")                                                          \
    X("torch1.13/st_2p")                                                                           \
    X("torch1.13/st_2p_filepertensor")                                                             \
    X("torch2.0/st_w3")                                                                            \
    X("torch2.1/accelerate0.23_fsdp1_save_state")                                                  \
    X("torch2.3/dtensor_2x2_w4")                                                                   \
    X("torch2.4/fsdp2_w2")                                                                         \
    X("torch2.13/accelerate_fsdp2_save_state")                                                     \
    X("torch2.13/accelerate_fsdp2_save_state/optimizer_0")                                         \
    X("torch2.13/accelerate_fsdp2_save_state/pytorch_model_fsdp_0")                                \
    X("torch2.13/dtensor_1d_w4_empty_shards")                                                      \
    X("torch2.13/fsdp1_local_w2")                                                                  \
    X("torch2.13/fsdp2_tp_2x2")                                                                    \
    X("torch2.13/fsdp2_w2_adamw")                                                                  \
    X("torch2.13/hsdp_2x2_w4")                                                                     \
    X("torch2.13/lightning_pl_mp_w2")                                                              \
    X("torch2.13/nested_objects_1p")                                                               \
    X("torch2.13/nocoll_w3")                                                                       \
    X("torch2.13/odd_dtypes_1p")                                                                   \
    X("torch2.13/overwrite_fewer_w3")                                                              \
    X("torch2.13/torchao_int8_1p")                                                                 \
    X("torch2.13/torchtitan_full/step-10")                                                         \
    X("torch2.13/weird_keys_1p")                                                                   \
    X("torch2.13/zstd_1p")                                                                         \
    X("torch2.14/async_2p")                                                                        \
    X("torch2.14/dt_2p")                                                                           \
    X("torch2.14/fsdp2_adamw")                                                                     \
    X("torch2.14/plain_1p")                                                                        \
    X("torch2.14/plain_1p_filepertensor")                                                          \
    X("torch2.14/st_2p")                                                                           \
    X("torch2.14/st_2p_filepertensor")                                                             \
    X("torch2.14/zstd_2p")                                                                         \
    X("torch2.15/checkpointable_w3")

static void test_fixture(void **state)
{
    char rel[300];

#ifndef HAVE_ZSTD
    if (strstr(*state, "zstd")) {
        /* not skip(): cmocka tells of it in a way that TAP takes for a failure */
        print_message("# %s needs libzstd, which zerofs was built without\n", (const char *)*state);
        return;
    }
#endif
    snprintf(rel, sizeof rel, "dcp/%s", (const char *)*state);
    check_fixture(rel);
}

/* --- made and damaged ones ------------------------------------------------------------------ */

/* Makes a checkpoint with mkdcp.py in a fresh directory below the build tree; gives its path. */
static const char *make(const char *args)
{
    static char dir[600];
    char cmd[2000];
    const char *src = getenv("top_srcdir");
    static unsigned n;

    snprintf(dir, sizeof dir, "/tmp/zf-dcp-%ld-%u", (long)getpid(), n++);
    snprintf(cmd, sizeof cmd, "python3 '%s/tests/support/mkdcp.py' '%s' %s", src ? src : ".", dir,
             args);
    assert_int_equal(system(cmd), 0);
    return dir;
}

static void drop(const char *dir)
{
    char cmd[700];

    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    assert_int_equal(system(cmd), 0);
}

static struct zf_checkpoint *open_dir(const char *dir, bool degraded, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_open_opts o = {.lim = &lim, .degraded = degraded};

    zf_err_clear(err);
    zf_auto(store) struct zf_store *st = zf_store_dir(dir, &lim, err);
    return st ? zf_open(st, &o, err) : NULL;
}

/* Reads all of a tensor of the root set. */
static bool read_tensor(const struct zf_checkpoint *c, const char *name, struct zf_err *err)
{
    const struct zf_set *root = zf_checkpoint_set(c, "");
    const struct zf_tensor *t = root ? zf_set_find(root, name, strlen(name)) : NULL;

    zf_err_clear(err);
    if (!t)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no %s", name);
    zf_auto(mem) char *p = malloc(zf_map_size(t->data) + 1);
    assert_non_null(p);
    return zf_map_read(t->data, p, zf_map_size(t->data), 0, err);
}

static void check_made(const char *args)
{
    const char *dir = make(args);
    char path[700];
    struct zf_err err;
    struct zf_checkpoint *c = open_dir(dir, false, &err);
    json_error_t why;

    assert_ok(c != NULL, &err);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *want = json_load_file(path, 0, &why);
    assert_non_null(want);
    json_t *tensors = json_object_get(want, "tensors");
    assert_int_equal(check_tensors(c, want, tensors, "model."), json_object_size(tensors));
    json_decref(want);
    zf_checkpoint_free(c);
    drop(dir);
}

static void test_versions(void **state)
{
    char args[100];

    (void)state;
    for (int protocol = 2; protocol <= 5; protocol++) {
        snprintf(args, sizeof args, "--expect --bytes 2 --torch 2.14 --plans --protocol %d",
                 protocol);
        check_made(args);
        snprintf(args, sizeof args, "--expect --torch 2.6 --dtype bfloat16 --protocol %d",
                 protocol);
        check_made(args);
    }
    check_made("--expect --ranks 7 --rows 5"); /* empty shards */
    check_made("--expect --ranks 1 --rows 0 --cols 3");
    check_made("--expect --tensors 40 --ranks 9 --rows 33 --cols 7");
}

/* More than 2^31 bytes in one file: LONG1 offsets, holes. */
static void test_large_offsets(void **state)
{
    const char *dir = make("--tensors 3 --ranks 2 --rows 4000 --cols 200000 --sparse");
    struct zf_err err;
    struct zf_checkpoint *c = open_dir(dir, false, &err);
    const struct zf_tensor *t;
    char p[64] = "x";

    (void)state;
    assert_ok(c != NULL, &err);
    t = zf_set_find(zf_checkpoint_set(c, ""), "layers.2.weight", 15);
    assert_non_null(t);
    assert_int_equal(zf_map_size(t->data), 4000ull * 200000 * 4);
    assert_ok(zf_map_read(t->data, p, sizeof p, zf_map_size(t->data) - sizeof p, &err), &err);
    for (size_t i = 0; i < sizeof p; i++)
        assert_int_equal(p[i], 0);
    zf_checkpoint_free(c);
    drop(dir);
}

/* What is refused when it is mounted, and what is left of it when degraded. */
static const struct bad {
    const char *name, *says;
    bool second_lost; /* the other tensor, too */
} bad_mounts[] = {
    {"missing-item", "no item for a chunk", false},
    {"duplicate-index", "two items for one chunk", false},
    {"overlap", "more than one piece", false},
    {"hole", "covered by nothing", false},
    {"outside", "spans 0", false},
    {"negative", "not 2 numbers", false},
    {"huge", "overflows", false},
    {"beyond", "the file ends at byte", false},
    {"negative-offset", "that a file can have", false},
    {"same-item", "overlap", true},
    {"path", "is not the name of a file", false},
    {"unknown-dtype", "int3", false},
    {"missing-file", "the file is missing", true},
    {"short-file", "the file ends at byte 100", true},
};

static void test_bad_mounts(void **state)
{
    char args[60];
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad_mounts / sizeof *bad_mounts; i++) {
        const struct bad *bad = &bad_mounts[i];
        struct zf_checkpoint *c;
        const char *dir;

        snprintf(args, sizeof args, "--bad %s", bad->name);
        dir = make(args);
        assert_null(open_dir(dir, false, &err));
        if (!strstr(err.msg, bad->says))
            fail_msg("%s: \"%s\" is not in \"%s\"", bad->name, bad->says, err.msg);
        assert_true(zf_err_exit(&err) == 4);
        c = open_dir(dir, true, &err);
        assert_ok(c != NULL, &err);
        assert_true(c->n_notes > 0);
        assert_false(read_tensor(c, "layers.0.weight", &err));
        assert_int_equal(read_tensor(c, "layers.1.weight", &err), !bad->second_lost);
        zf_checkpoint_free(c);
        drop(dir);
    }
}

/* Of bytes that are compressed, up to 1 MiB are looked at before anybody reads them. */
static void test_bad_wrapped(void **state)
{
    (void)state;
#ifdef HAVE_ZSTD
    const char *dir = make("--bytes 1 --bad wrapped");
    struct zf_err err;

    assert_null(open_dir(dir, false, &err));
    assert_int_equal(zf_err_exit(&err), 4);
    assert_non_null(strstr(err.path, "train.step0"));
    drop(dir);
#endif
}

/* What only the first read of an item can tell. */
static void test_bad_items(void **state)
{
    static const char *const bad[][2] = {
        {"dtype", "holds float32, but .metadata says int32"},
        {"shape", "the shape of the item"},
        {"encoding", "4d 4c 46 5f"},
        {"truncated-item", "zip directory"},
    };
    char args[60];
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct zf_checkpoint *c;
        const char *dir;

        snprintf(args, sizeof args, "--bad %s", bad[i][0]);
        dir = make(args);
        c = open_dir(dir, false, &err);
        assert_ok(c != NULL, &err);
        assert_false(read_tensor(c, "layers.0.weight", &err));
        if (!strstr(err.msg, bad[i][1]))
            fail_msg("%s: \"%s\" is not in \"%s\"", bad[i][0], bad[i][1], err.msg);
        assert_ok(read_tensor(c, "layers.1.weight", &err), &err);
        zf_checkpoint_free(c);
        drop(dir);
    }
}

static void test_half_written(void **state)
{
    const char *dir = make("--bad no-metadata");
    struct zf_err err;

    (void)state;
    assert_null(open_dir(dir, false, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "incomplete");
    assert_null(open_dir(dir, true, &err));
    drop(dir);
}

static void test_unservable(void **state)
{
    const char *rel = "dcp/torch2.13/nocoll_strided_alone_w2";
    struct zf_open_opts o = {.degraded = true};
    struct zf_err err;
    struct zf_checkpoint *c;

    (void)state;
    golden_refused(rel, NULL, &err);
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "more than one piece");
    c = golden_open(rel, &o);
    assert_false(read_tensor(c, "w", &err));
    assert_ok(read_tensor(c, "ok", &err), &err);
    assert_ok(read_tensor(c, "r", &err), &err);
    zf_checkpoint_free(c);
}

/* --- mutations ------------------------------------------------------------------------------ */

struct bytes {
    char *p;
    size_t n;
};

static struct bytes slurp(const char *rel, const char *name)
{
    char path[600];
    struct bytes b = {0};

    snprintf(path, sizeof path, "dcp/%s/%s", rel, name);
    FILE *f = fopen(golden_path(path), "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    b.n = (size_t)ftell(f);
    rewind(f);
    b.p = malloc(b.n + 1);
    assert_non_null(b.p);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    return b;
}

static struct zf_checkpoint *open_mem(struct bytes metadata, struct bytes data, bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_open_opts o = {.lim = &lim, .degraded = degraded};
    struct zf_err err = {.code = ZF_OK};

    lim.pickle_memory = lim.model_memory = 64u << 20;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    assert_non_null(st);
    assert_true(store_mem_add(st, ".metadata", metadata.p, metadata.n, &err));
    assert_true(store_mem_add(st, "__0_0.distcp", data.p, data.n, &err));
    return zf_open(st, &o, &err);
}

static void read_all(const struct zf_checkpoint *c)
{
    char p[4096];
    struct zf_err err;

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_map *m = c->set[s].tensor[i].data;
            uint64_t n = zf_map_size(m);

            zf_err_clear(&err);
            (void)!zf_map_read(m, p, n < sizeof p ? n : sizeof p, 0, &err);
        }
    }
}

/* Every truncation of .metadata is refused. */
static void test_truncations(void **state)
{
    static const char *const rel[] = {"torch2.13/zstd_1p", "torch2.13/torchao_int8_1p"};

    (void)state;
    for (size_t k = 0; k < sizeof rel / sizeof *rel; k++) {
        struct bytes meta = slurp(rel[k], ".metadata"), data = slurp(rel[k], "__0_0.distcp");
        struct zf_checkpoint *c = open_mem(meta, data, false);

        assert_non_null(c);
        zf_checkpoint_free(c);
        for (size_t n = 0; n < meta.n; n++) {
            assert_null(open_mem((struct bytes){meta.p, n}, data, false));
            assert_null(open_mem((struct bytes){meta.p, n}, data, true));
        }
        free(meta.p);
        free(data.p);
    }
}

/* Changed bytes of either file never do worse than fail. */
static void test_mutations(void **state)
{
    static const char *const rel[] = {"torch2.13/zstd_1p", "torch2.13/torchao_int8_1p",
                                      "torch2.13/nested_objects_1p"};
    uint32_t seed = 12345;

    (void)state;
    for (size_t k = 0; k < sizeof rel / sizeof *rel; k++) {
        struct bytes meta = slurp(rel[k], ".metadata"), data = slurp(rel[k], "__0_0.distcp");

        for (int i = 0; i < 3000; i++) {
            struct bytes *b = i % 3 ? &meta : &data;
            size_t at;
            char was;

            seed = seed * 1664525u + 1013904223u;
            at = (seed >> 8) % b->n;
            was = b->p[at];
            b->p[at] = (char)(seed >> 3);
            struct zf_checkpoint *c = open_mem(meta, data, i % 2);
            if (c)
                read_all(c);
            zf_checkpoint_free(c);
            b->p[at] = was;
        }
        free(meta.p);
        free(data.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(dir)                                                                                     \
    {.name = "real_" dir, .test_func = test_fixture, .initial_state = (void *)(uintptr_t)dir},
        FIXTURES(X)
#undef X
            cmocka_unit_test(test_versions),
        cmocka_unit_test(test_large_offsets),
        cmocka_unit_test(test_bad_mounts),
        cmocka_unit_test(test_bad_wrapped),
        cmocka_unit_test(test_bad_items),
        cmocka_unit_test(test_half_written),
        cmocka_unit_test(test_unservable),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests_name("dcp", tests, NULL, NULL);
}
