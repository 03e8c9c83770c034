/* SPDX-License-Identifier: Apache-2.0 */
/* Saves with one file a rank against the digests of the gathered tensors, and what is wrong with
 * them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/golden.h"

/* ---- directories made of links to the files of a real save ---- */

struct dir {
    char path[64];
    char file[16][160];
    size_t n;
};

static void dir_make(struct dir *d)
{
    *d = (struct dir){.path = "/tmp/zf-ranks-XXXXXX"};
    assert_non_null(mkdtemp(d->path));
}

/* d/<as> is a copy of tests/data/<rel>. */
static void dir_add(struct dir *d, const char *rel, const char *as)
{
    char to[160], buf[65536];
    FILE *in = fopen(golden_path(rel), "rb"), *out;

    (void)snprintf(to, sizeof to, "%s/%s", d->path, as);
    out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    fclose(in);
    fclose(out);
    memcpy(d->file[d->n++], to, sizeof to);
}

static void dir_remove(struct dir *d)
{
    for (size_t i = 0; i < d->n; i++)
        assert_int_equal(unlink(d->file[i]), 0);
    assert_int_equal(rmdir(d->path), 0);
}

static struct zf_checkpoint *open_dir(const struct dir *d, bool degraded)
{
    zf_auto(store) struct zf_store *st = golden_dir(d->path);
    struct zf_err err;
    struct zf_checkpoint *c = golden_try(st, &(struct zf_open_opts){.degraded = degraded}, &err);

    assert_ok(c, &err);
    return c;
}

static void refused(struct dir *d, enum zf_code code, const char *part)
{
    zf_auto(store) struct zf_store *st = golden_dir(d->path);

    golden_try_refused(st, code, part);
    dir_remove(d);
}

/* ---- what works ---- */

/* Every tensor of expected[section], "model.x" in the root and "optim.state.<name>.<key>" under
 * optim/. */
static void check(const struct zf_checkpoint *c, const char *expected)
{
    json_t *e = golden_json(expected);
    const char *key;
    json_t *want;

    json_object_foreach(json_object_get(e, "tensors"), key, want)
    {
        char set[64], name[64];
        const char *dot = strrchr(key, '.');

        if (strncmp(key, "model.", 6) == 0) {
            golden_tensor(c, "", key + 6, want);
        } else {
            assert_int_equal(strncmp(key, "optim.state.", 12), 0);
            (void)snprintf(set, sizeof set, "optim/%s", dot + 1);
            (void)snprintf(name, sizeof name, "%.*s", (int)(dot - key - 12), key + 12);
            golden_tensor(c, set, name, want);
        }
    }
    json_decref(e);
}

static void sharded_tensors(void **state)
{
    static const char *const version[] = {"dcp/torch1.13", "dcp/torch2.14"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[100];

        (void)snprintf(path, sizeof path, "%s/rank1.pt", version[i]);
        zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(path, NULL);
        assert_string_equal(c->format, "ranks");
        (void)snprintf(path, sizeof path, "%s/expected_rank.json", version[i]);
        check(c, path);
    }
}

static void dtensors(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("dcp/torch2.14/dt_rank0.pt", NULL);

    check(c, "dcp/torch2.14/expected_dt_rank.json");
}

static void verl(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("dcp/torch2.13/verl_fsdp2_w3", NULL);
    json_t *e = golden_json("dcp/torch2.13/verl_fsdp2_w3/expected.json");
    const char *key;
    json_t *want;

    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 5);
    json_object_foreach(json_object_get(e, "optim"), key, want)
    {
        char set[64], id[16];
        const char *slash = strchr(key, '/');

        (void)snprintf(set, sizeof set, "optim/%s", slash + 1);
        (void)snprintf(id, sizeof id, "%.*s", (int)(slash - key), key);
        golden_tensor(c, set, id, want);
    }
    json_decref(e);
}

/* ---- what is wrong ---- */

#define VERL "dcp/torch2.13/verl_fsdp2_w3/"

static void a_missing_rank(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_3_rank_0.pt");
    dir_add(&d, VERL "model_world_size_3_rank_2.pt", "model_world_size_3_rank_2.pt");
    refused(&d, ZF_E_FORMAT, "only 2 of 3 ranks have a file");
}

static void a_missing_rank_that_only_the_mesh_tells(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "rank0.pt");
    dir_add(&d, VERL "model_world_size_3_rank_1.pt", "rank1.pt");
    refused(&d, ZF_E_FORMAT, "saved by 3 ranks, but there are files of 2");
}

static void degraded_mounts_what_is_left(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_3_rank_0.pt");
    dir_add(&d, VERL "model_world_size_3_rank_2.pt", "model_world_size_3_rank_2.pt");
    zf_auto(checkpoint) struct zf_checkpoint *c = open_dir(&d, true);
    const struct zf_tensor *t = zf_set_find(zf_checkpoint_set(c, ""), "l1.weight", 9);
    struct zf_err err = {0};
    unsigned char buf[4];

    assert_non_null(t);
    assert_true(t->lost);
    assert_ok(zf_map_read(t->data, buf, 4, 0, &err), &err);
    assert_false(zf_map_read(t->data, buf, 4, 3 * 5 * 4, &err));
    dir_remove(&d);
}

static void a_stale_extra_rank(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, "dcp/torch2.14/rank0.pt", "rank0.pt");
    dir_add(&d, "dcp/torch2.14/rank1.pt", "rank1.pt");
    dir_add(&d, VERL "model_world_size_3_rank_2.pt", "rank2.pt");
    refused(&d, ZF_E_FORMAT, "saved by");
}

static void two_world_sizes(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_3_rank_0.pt");
    dir_add(&d, VERL "model_world_size_3_rank_1.pt", "model_world_size_3_rank_1.pt");
    dir_add(&d, VERL "model_world_size_3_rank_2.pt", "model_world_size_3_rank_2.pt");
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_4_rank_0.pt");
    refused(&d, ZF_E_FORMAT, "several world sizes");
}

static void one_rank_twice(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_3_rank_0.pt");
    dir_add(&d, VERL "model_world_size_3_rank_0.pt", "model_world_size_3_rank_1.pt");
    dir_add(&d, VERL "model_world_size_3_rank_2.pt", "model_world_size_3_rank_2.pt");
    refused(&d, ZF_E_FORMAT, "covered by nothing");
}

static void two_checkpoints_in_one_directory(void **state)
{
    struct dir d;

    (void)state;
    dir_make(&d);
    dir_add(&d, "dcp/torch2.14/rank0.pt", "rank0.pt");
    dir_add(&d, "dcp/torch2.14/rank1.pt", "rank1.pt");
    dir_add(&d, "dcp/torch2.14/dt_rank0.pt", "dt_rank0.pt");
    dir_add(&d, "dcp/torch2.14/dt_rank1.pt", "dt_rank1.pt");
    refused(&d, ZF_E_UNKNOWN, "Point at");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded_tensors),
        cmocka_unit_test(dtensors),
        cmocka_unit_test(verl),
        cmocka_unit_test(a_missing_rank),
        cmocka_unit_test(a_missing_rank_that_only_the_mesh_tells),
        cmocka_unit_test(degraded_mounts_what_is_left),
        cmocka_unit_test(a_stale_extra_rank),
        cmocka_unit_test(two_world_sizes),
        cmocka_unit_test(one_rank_twice),
        cmocka_unit_test(two_checkpoints_in_one_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
