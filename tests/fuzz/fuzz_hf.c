/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes stand as the index, as one of two shards with boxes, or as the list of names beside them, of a Hugging
 * Face checkpoint, or as the index of an optimizer beside it; what is opened is read to the end. */
#include <stdlib.h>
#include <string.h>

#include <zf/find.h>

#include "fuzz.h"
#include "support/store_mem.h"

static const char whole[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
static const char box[] = "{\"__metadata__\":{\"DCP_SHARDING_INFO\":"
                          "\"{\\\"a\\\":{\\\"saved_offsets\\\":[0,0]}}\"},"
                          "\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}";

/* A safetensors file of that header and four bytes. */
static bool add(struct zf_store *st, const char *path, const char *header, struct zf_err *err)
{
    uint8_t file[512] = {0};
    size_t n = strlen(header);

    file[0] = (uint8_t)(n & 0xff);
    memcpy(file + 8, header, n);
    return store_mem_add(st, path, file, 8 + n + 4, err);
}

static void read_all(const struct zf_checkpoint *c)
{
    static uint8_t buf[4096];
    struct zf_err err = {.code = ZF_OK};

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_map *m = c->set[s].tensor[i].data;
            uint64_t n = zf_map_size(m) < sizeof buf ? zf_map_size(m) : sizeof buf;

            if (n && !zf_map_read(m, buf, (size_t)n, 0, &err) && !c->set[s].tensor[i].lost)
                abort();
        }
    }
}

static void try_open(struct zf_store *st, const struct zf_limits *lim)
{
    for (int degraded = 0; degraded < 2; degraded++) {
        struct zf_open_opts o = {.lim = lim, .degraded = degraded != 0};
        struct zf_err err = {.code = ZF_OK};
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(st, &o, &err);

        if (c)
            read_all(c);
        else if (err.code == ZF_OK || !err.msg[0])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    zf_auto(store) struct zf_store *index = store_mem_new(&lim, &err);
    zf_auto(store) struct zf_store *boxes = store_mem_new(&lim, &err);
    zf_auto(store) struct zf_store *names = store_mem_new(&lim, &err);
    zf_auto(store) struct zf_store *optim = store_mem_new(&lim, &err);

    lim.model_memory = 256 << 20;
    if (!index || !boxes || !names || !optim || !add(index, "x.safetensors", whole, &err) ||
        !store_mem_add(index, "model.safetensors.index.json", data, size, &err) ||
        !add(boxes, "shard-00001-model-00001-of-00001.safetensors", box, &err) ||
        !store_mem_add(boxes, "shard-00002-model-00001-of-00001.safetensors", data, size, &err) ||
        !add(names, "model/shard-00001-model-00001-of-00001.safetensors", box, &err) ||
        !store_mem_add(names, "model/.hf_metadata/fqn_to_file_index_mapping.json", data, size,
                       &err) ||
        !add(optim, "model/x.safetensors", whole, &err) ||
        !store_mem_add(optim, "optimizer/pytorch_optim-00001.bin", data, size, &err) ||
        !store_mem_add(optim, "optimizer/pytorch_optim.bin.index.json", data, size, &err))
        return 0;
    try_open(index, &lim);
    try_open(boxes, &lim);
    try_open(names, &lim);
    try_open(optim, &lim);
    return 0;
}
