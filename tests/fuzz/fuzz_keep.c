/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the body of a kept model, behind a head, a checksum and a key that fit: what comes of it is read. */
#include <stdlib.h>
#include <string.h>

#include "keep/keep.h"

#include "support/store_mem.h"
#include "fuzz.h"

#define READ_MAX 4096u

static void read_map(const struct zf_map *m)
{
    static unsigned char buf[READ_MAX];
    const uint64_t size = zf_map_size(m), n = size < READ_MAX ? size : READ_MAX;
    struct zf_err err;

    (void)!zf_map_read(m, buf, (size_t)n, 0, &err);
    (void)!zf_map_read(m, buf, (size_t)n, size - n, &err);
}

static void read_all(const struct zf_checkpoint *c)
{
    for (uint32_t s = 0; s < c->n_sets; s++)
        for (uint32_t i = 0; i < c->set[s].n; i++)
            read_map(c->set[s].tensor[i].data);
    for (uint32_t i = 0; i < c->n_blobs; i++)
        read_map(c->blob[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_keep k = {.dir = -1, .key = (char *)(uintptr_t) "key", .lim = zf_limits_default()};
    struct zf_err err;

    k.lim.model_memory = 64 << 20;
    k.lim.inflate_bytes = 1 << 20;
    zf_auto(store) struct zf_store *st = store_mem_new(&k.lim, &err);
    zf_auto(out) struct zf_out head = {0}, body = {0};
    if (!st || !store_mem_add(st, "a.bin", "0123456789abcdef", 16, &err))
        abort();
    zf_out_le32(&body, 3);
    zf_out_str(&body, "key");
    zf_out_u8(&body, 0); /* good for a store of any name */
    zf_out_add(&body, data, size);
    keep_head(&head, body.p, body.n);
    zf_out_add(&head, body.p, body.n);
    zf_auto(checkpoint) struct zf_checkpoint *c = keep_load_bytes(&k, st, head.p, head.n, &err);
    if (c)
        read_all(c);
    else if (!err.msg[0])
        abort();
    return 0;
}
