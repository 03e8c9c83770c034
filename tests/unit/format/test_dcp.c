/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint: every real checkpoint by the digests of its writer. */
#include "support/golden.h"

#include <stdio.h>
#include <stdlib.h>

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

    if (strncmp(key, "optim", 5) != 0 || !state || strcspn(key, ".") != (size_t)(state - key)) {
        return false;
    }
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
    if (optimizer_spot(key, s)) {
        return;
    }
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
        if (strcmp(json_string_value(v), name) == 0) {
            return true;
        }
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
        if (listed(unservable, key)) {
            continue;
        }
        if (!holder(c, &s, &i)) {
            fail_msg("\"%s\" is in no set it should be in (first: \"%s\")", key, s.set[0]);
        }
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

    json_array_foreach((json_t *)list, i, v)
    {
        zf_name_encode(path + 6, json_string_value(v), json_string_length(v), "");
        if (!golden_blob(c, path)) {
            fail_msg("there is no %s", path);
        }
    }
}

static size_t n_tensors(const struct zf_checkpoint *c)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->n_sets; i++) {
        n += c->set[i].n;
    }
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
    const struct zf_set *extra = zf_checkpoint_set(c, "extra"); /* random states beside the folders */
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
    X("torch2.14/zstd_2p")

static void test_fixture(void **state)
{
    char rel[300];

    snprintf(rel, sizeof rel, "dcp/%s", (const char *)*state);
    check_fixture(rel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(dir)                                                                                     \
    {.name = "real_" dir, .test_func = test_fixture, .initial_state = (void *)(uintptr_t)dir},
        FIXTURES(X)
#undef X
    };

    return cmocka_run_group_tests_name("dcp", tests, NULL, NULL);
}
