/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/name.h>

const char *golden_path(const char *rel)
{
    static char path[4096];
    const char *root = getenv("ZF_DATA");

    snprintf(path, sizeof path, "%s/%s", root ? root : "tests/data", rel);
    return path;
}

json_t *golden_json(const char *rel)
{
    json_error_t why;
    json_t *j = json_load_file(golden_path(rel), 0, &why);

    if (!j)
        fail_msg("%s: %s", rel, why.text);
    return j;
}

struct zf_checkpoint *golden_try(struct zf_store *st, const struct zf_open_opts *o,
                                 struct zf_err *err_out)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_open_opts opts = o ? *o : (struct zf_open_opts){.lim = NULL};

    opts.lim = opts.lim ? opts.lim : &lim;
    zf_err_clear(err_out);
    return zf_open(st, &opts, err_out);
}

void golden_try_refused(struct zf_store *st, enum zf_code code, const char *part)
{
    struct zf_err err;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_try(st, NULL, &err);
    char text[800];

    assert_null(c);
    if (err.code != code || !strstr(zf_err_text(&err, text, sizeof text), part)) {
        fail_msg("code %d: \"%s\" is not in \"%s\"", (int)err.code, part,
                 zf_err_text(&err, text, sizeof text));
    }
}

struct zf_store *golden_dir(const char *path)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct zf_store *st = zf_store_dir(path, &lim, &err);

    assert_ok(st, &err);
    return st;
}

struct zf_checkpoint *golden_open(const char *rel, const struct zf_open_opts *o)
{
    struct zf_err err;
    zf_auto(store) struct zf_store *st = golden_dir(golden_path(rel));
    struct zf_checkpoint *c = golden_try(st, o, &err);
    char text[800];

    if (!c)
        fail_msg("%s: %s", rel, zf_err_text(&err, text, sizeof text));
    return c;
}

void golden_refused(const char *rel, const struct zf_open_opts *o, struct zf_err *err_out)
{
    zf_auto(store) struct zf_store *st = golden_dir(golden_path(rel));
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_try(st, o, err_out);

    if (c)
        fail_msg("%s was opened, though it should be refused", rel);
}

static void hex(const uint8_t digest[32], char out[65])
{
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)digest[i]);
}

/* All bytes of m, fetched `step` at a time. */
static void digest(const struct zf_map *m, uint64_t step, const char *name, char out[65])
{
    uint64_t n = zf_map_size(m);
    zf_auto(mem) uint8_t *p = malloc(n ? (size_t)n : 1);
    struct zf_err err = {.code = ZF_OK};
    uint8_t sum[32];
    char text[800];

    assert_non_null(p);
    for (uint64_t at = 0; at < n; at += step) {
        uint64_t len = n - at < step ? n - at : step;
        if (!zf_map_read(m, p + at, (size_t)len, at, &err))
            fail_msg("%s: %s", name, zf_err_text(&err, text, sizeof text));
    }
    zf_sha256(p, (size_t)n, sum);
    hex(sum, out);
}

static void check_shape(const struct zf_tensor *t, const json_t *want)
{
    const json_t *shape = json_object_get(want, "shape");
    const char *dtype = json_string_value(json_object_get(want, "dtype"));
    enum zf_dtype d;

    if (dtype) {
        dtype += strncmp(dtype, "torch.", 6) == 0 ? 6 : 0;
        if (!zf_dtype_by_torch(dtype, strlen(dtype), &d) || d != t->dtype) {
            fail_msg("%s: dtype is %s, expected %s", t->name, zf_dtype_info(t->dtype)->torch,
                     dtype);
        }
    }
    if (!shape)
        return;
    if (t->ndim != json_array_size(shape)) {
        fail_msg("%s: %u dimensions, expected %zu", t->name, (unsigned)t->ndim,
                 json_array_size(shape));
    }
    for (uint32_t i = 0; i < t->ndim; i++)
        assert_int_equal(t->shape[i], json_integer_value(json_array_get(shape, i)));
}

void golden_tensor(const struct zf_checkpoint *c, const char *set, const char *name,
                   const json_t *want)
{
    const struct zf_set *s = zf_checkpoint_set(c, set);
    const struct zf_tensor *t = s ? zf_set_find(s, name, strlen(name)) : NULL;
    const char *sha = json_string_value(json_object_get(want, "sha256"));
    char whole[65], pieces[65];

    if (!t) {
        fail_msg("there is no tensor \"%s\" in set \"%s\"", name, set);
        return;
    }
    check_shape(t, want);
    digest(t->data, UINT64_MAX, name, whole);
    digest(t->data, 13, name, pieces);
    if (sha && strcmp(sha, whole) != 0)
        fail_msg("%s: the bytes differ from what was saved", name);
    if (strcmp(whole, pieces) != 0)
        fail_msg("%s: read in pieces it differs from itself", name);
}

size_t golden_tensors(const struct zf_checkpoint *c, const char *set, const json_t *tensors)
{
    const char *name;
    json_t *want;
    size_t n = 0;

    json_object_foreach((json_t *)tensors, name, want)
    {
        if (json_is_object(want) && json_object_get(want, "sha256")) {
            golden_tensor(c, set, name, want);
            n++;
        }
    }
    return n;
}

void golden_root(const char *rel)
{
    char path[512];

    snprintf(path, sizeof path, "%s/expected.json", rel);
    json_t *e = golden_json(path);
    struct zf_checkpoint *c = golden_open(rel, NULL);
    size_t n = golden_tensors(c, "", json_object_get(e, "tensors"));
    const struct zf_set *root = zf_checkpoint_set(c, "");

    assert_true(n > 0);
    assert_non_null(root);
    assert_int_equal(root->n, n);
    zf_checkpoint_free(c);
    json_decref(e);
}

const struct zf_blob *golden_blob(const struct zf_checkpoint *c, const char *path)
{
    for (uint32_t i = 0; i < c->n_blobs; i++)
        if (strcmp(c->blob[i].path, path) == 0)
            return &c->blob[i];
    return NULL;
}

bool golden_note(const struct zf_checkpoint *c, const char *part)
{
    for (uint32_t i = 0; i < c->n_notes; i++)
        if (strstr(c->note[i].text, part))
            return true;
    return false;
}
