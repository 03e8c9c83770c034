/* SPDX-License-Identifier: Apache-2.0 */
#include "hf.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/utf8.h>
#include <zf/codec/hf_config.h>

bool hf_holds(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast)
{
    const struct zf_tensor *t = &ss->set->tensor[i];
    enum zf_dtype served = shelf_set_dtype(ss, i, cast);

    /* "__metadata__" is reserved in the header, and a single F4 value (half a byte) has no size in bytes. */
    return zf_dtype_info(served)->safetensors && (served != ZF_DT_F4 || t->ndim > 0) &&
           zf_utf8_valid(t->name, t->name_len) && strcmp(t->name, "__metadata__") != 0;
}

/* Cuts the set into shards and returns their number; if out is NULL, it only counts them. */
static uint32_t hf_cut_shard(const struct shelf_set *ss, enum zf_dtype cast, uint64_t size,
                             struct hf_shard *out)
{
    uint32_t n = 0, lo = 0;
    uint64_t used = 0;

    for (uint32_t i = 0; i < ss->set->n; i++) {
        uint64_t b = hf_holds(ss, i, cast) ? shelf_set_bytes(ss, i, cast) : 0;

        if (used > 0 && b > 0 && (b > size || used > size - b)) {
            if (out)
                out[n] = (struct hf_shard){lo, i};
            n++;
            lo = i;
            used = 0;
        }
        used += b;
    }
    if (out)
        out[n] = (struct hf_shard){lo, ss->set->n};
    return n + 1;
}

bool hf_cut(struct hf_plan *out, const struct shelf_set *ss, enum zf_dtype cast, uint64_t size,
            struct zf_arena *a, struct zf_err *err)
{
    out->n = hf_cut_shard(ss, cast, size, NULL);
    out->shard = zf_arena_get(a, out->n, sizeof *out->shard, err);
    if (!out->shard)
        return false;
    (void)hf_cut_shard(ss, cast, size, out->shard);
    return true;
}

void hf_name(const struct hf_plan *p, uint32_t i, char out[64])
{
    if (p->n == 1)
        (void)snprintf(out, 64, "model.safetensors");
    else
        (void)snprintf(out, 64, "model-%05u-of-%05u.safetensors", i + 1, p->n);
}

/* Sets the file of a tensor.  jansson before 2.14 has no keys with a length, so none that contain a NUL. */
static int hf_map_set(json_t *map, const struct zf_tensor *t, json_t *file)
{
#if JANSSON_VERSION_HEX >= 0x020e00
    return json_object_setn_new_nocheck(map, t->name, t->name_len, file);
#else
    if (strlen(t->name) != t->name_len) {
        json_decref(file);
        return -1;
    }
    return json_object_set_new_nocheck(map, t->name, file);
#endif
}

static json_t *hf_weight_map(const struct bulk *b, const struct hf_plan *p, uint64_t *total_out)
{
    json_t *map = json_object();

    for (uint32_t s = 0; map && s < p->n; s++) {
        char file[64];

        hf_name(p, s, file);
        for (uint32_t i = p->shard[s].lo; i < p->shard[s].hi; i++) {
            const struct zf_tensor *t = &b->of->set->tensor[i];

            if (!hf_holds(b->of, i, b->cast))
                continue;
            *total_out += shelf_set_bytes(b->of, i, b->cast);
            if (hf_map_set(map, t, json_string(file)) != 0) {
                json_decref(map);
                return NULL;
            }
        }
    }
    return map;
}

static bool hf_plan_index(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    uint64_t total = 0;
    json_t *map = hf_weight_map(b, b->shard, &total);
    json_t *all = map ? json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
                                  "weight_map", map)
                      : NULL;
    char *text = all ? json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;

    json_decref(all);
    if (!text)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the index");
    bool ok = bulk_add_mem(p, text, strlen(text), err) && bulk_add_mem(p, "\n", 1, err);
    free(text);
    return ok;
}

const struct bulk_kind bulk_hf_index = {.name = "model.safetensors.index.json",
                                        .plan = hf_plan_index};

/* ---- config.json below as/<dtype>/ ---------------------------------------------------------------- */

/* The checkpoint's own file, with the saved dtype replaced by the one that is served; otherwise
 * from_pretrained would cast back.  All other bytes are unchanged. */

/* Longer files are not a configuration and are passed through. */
#define CONFIG_MAX (16ull << 20)

static bool hf_config_add_edited(const struct bulk *b, struct bulk_plan *p, const char *text,
                                 uint64_t n, struct zf_err *err)
{
    const char *served = zf_dtype_info(b->cast)->torch;
    struct zf_hf_dtype at[ZF_HF_DTYPES];
    uint32_t found = zf_hf_config_dtypes(text, n, at);
    uint64_t done = 0;

    for (uint32_t i = 0; i < found; i++) {
        if (!bulk_add_mem(p, text + done, at[i].off - done, err) ||
            !bulk_add_mem(p, "\"", 1, err) || !bulk_add_mem(p, served, strlen(served), err) ||
            !bulk_add_mem(p, "\"", 1, err))
            return false;
        done = at[i].off + at[i].len;
    }
    return bulk_add_mem(p, text + done, n - done, err);
}

static bool hf_config_plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    const struct zf_blob *file = b->shard;
    uint64_t n = zf_map_size(file->data);

    if (n > CONFIG_MAX)
        return bulk_add_map(p, file->data, err);
    zf_auto(mem) char *text = malloc(n + 1);
    if (!text)
        return zf_fail_sys(err, "read config.json");
    return zf_map_read(file->data, text, n, 0, err) && hf_config_add_edited(b, p, text, n, err);
}

const struct bulk_kind bulk_hf_config = {.name = HF_CONFIG, .plan = hf_config_plan};
