/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a directory of files, opened as a checkpoint of whatever family fits, strict and
 * degraded; what opens is read.  One file is: a length byte, its path, four bytes of little-endian
 * size, its bytes; what a size promises beyond the end is not there.  pack_open.py makes such
 * inputs from directories. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/bytes.h>
#include <zf/find.h>

#include "fuzz.h"
#include "support/store_mem.h"

#define MAX_FILES 64
#define READ_MAX 4096u /* bytes read from each end of a tensor */

static struct zf_store *unpack(const uint8_t *data, size_t size, const struct zf_limits *lim,
                               struct zf_err *err)
{
    struct zf_store *st = store_mem_new(lim, err);
    struct zf_bytes in = zf_bytes_of(data, size);
    char path[256];

    for (int i = 0; st && i < MAX_FILES && zf_bytes_left(&in) > 0; i++) {
        uint8_t n = zf_bytes_u8(&in);
        const char *name = zf_bytes_take(&in, n);
        uint64_t len = zf_bytes_le32(&in), left = zf_bytes_left(&in);
        const void *p = zf_bytes_take(&in, len < left ? len : left);

        if (!name || !p)
            break;
        memcpy(path, name, n);
        path[n] = '\0';
        /* a path that the store refuses, or one that is there already, is left out */
        if (!store_mem_add(st, path, p, len < left ? len : left, err))
            zf_err_clear(err);
    }
    return st;
}

static void read_ends(const struct zf_map *m)
{
    static char buf[READ_MAX];
    uint64_t size = zf_map_size(m), n = size < READ_MAX ? size : READ_MAX;
    struct zf_err err;

    zf_err_clear(&err);
    if (n > 0 && !zf_map_read(m, buf, n, 0, &err))
        zf_err_clear(&err);
    if (n > 0 && !zf_map_read(m, buf, n, size - n, &err))
        zf_err_clear(&err);
}

static void try_open(struct zf_store *st, const struct zf_limits *lim, bool degraded)
{
    struct zf_open_opts o = {.lim = lim, .degraded = degraded};
    struct zf_err err;
    char text[800];

    zf_err_clear(&err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(st, &o, &err);
    if (!c) {
        /* every refusal has a code and a sentence */
        if (err.code == ZF_OK || !*zf_err_text(&err, text, sizeof text))
            abort();
        return;
    }
    for (uint32_t s = 0; s < c->n_sets; s++)
        for (uint32_t i = 0; i < c->set[s].n; i++)
            read_ends(c->set[s].tensor[i].data);
    for (uint32_t i = 0; i < c->n_blobs; i++)
        read_ends(c->blob[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    lim.pickle_memory = lim.model_memory = 64 << 20;
    lim.inflate_bytes = lim.zip_directory = lim.json_bytes = lim.text_bytes = 4 << 20;
    lim.pickle_depth = 500;
    lim.tensors = lim.pieces = 20000;
    lim.grid_cells = 1 << 16;
    zf_err_clear(&err);
    zf_auto(store) struct zf_store *st = unpack(data, size, &lim, &err);
    if (st) {
        try_open(st, &lim, false);
        try_open(st, &lim, true);
    }
    return 0;
}
