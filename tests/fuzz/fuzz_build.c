/* SPDX-License-Identifier: Apache-2.0 */
/* Any sequence of the builder's verbs, in both modes; what seals is read whole and run by run, and
 * both must agree, with one another and with what could be read before the seal. */
#include "fuzz.h"

#include "support/build_verbs.h"

#define MOST 65536
#define FEW_CELLS 4 /* boxes are looked up in a tree then */

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* Every byte that can be read is where its run says; every other is known to be lost. */
static void read_runs(const struct zf_map *m)
{
    uint64_t size = zf_map_size(m);
    struct zf_loss loss = {0};
    struct zf_err err;

    (void)zf_map_loss(m, 0, &loss);
    for (uint64_t at = 0, len; at < size; at += len) {
        struct zf_run run = zf_map_at(m, at);

        check(run.len > 0 && run.len <= size - at);
        len = run.len;
        for (uint64_t i = 0; i < len; i++) {
            unsigned char got = 0, want = 0;
            bool ok = zf_map_read(m, &got, 1, at + i, &err);

            if (loss.end <= at + i && loss.end > 0 && !zf_map_loss(m, at + i, &loss))
                loss = (struct zf_loss){.first = UINT64_MAX, .end = UINT64_MAX};
            check(ok == (loss.end == 0 || at + i < loss.first));
            if (run.kind == ZF_RUN_SRC)
                check(zf_source_pread(run.src, &want, 1, run.off + i, &err) == ok);
            else if (run.kind == ZF_RUN_MEM)
                want = ((const unsigned char *)run.mem)[i];
            check(got == want);
        }
    }
}

static bool sum_up(void *ctx, const struct zf_extent *e)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < e->nd; d++) {
        check(e->start[d] + e->size[d] <= e->shape[d]);
        n *= e->size[d];
    }
    *(uint64_t *)ctx += n;
    return true;
}

static void read_all(const struct zf_checkpoint *c)
{
    static unsigned char buf[MOST];
    struct zf_err err;

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_tensor *t = &c->set[s].tensor[i];
            uint64_t n = zf_map_size(t->data), extents = 0;

            check(n < MOST);
            check(zf_map_read(t->data, buf, n, 0, &err) || t->lost);
            check(zf_map_each_extent(t->data, sum_up, &extents));
            check(extents == n || t->lost);
            read_runs(t->data);
        }
    }
    for (uint32_t i = 0; i < c->n_blobs; i++)
        check(zf_map_read(c->blob[i].data, buf, zf_map_size(c->blob[i].data), 0, &err));
}

/* What every element was before the seal. */
struct early {
    bool there, ok[MOST / 8];
    unsigned char byte[MOST];
};
#define SETS 3
#define NAMES 8
static struct early early[SETS][NAMES];

static void read_early(struct zf_build *b)
{
    for (uint32_t i = 0; i < SETS * NAMES; i++) {
        struct early *e = &early[i / NAMES][i % NAMES];
        struct zf_draft *d =
            zf_build_find(b, (struct zf_spot){verbs_set[i / NAMES], verbs_name[i % NAMES], 1});
        struct zf_type t = d ? zf_draft_type(d) : (struct zf_type){.ndim = 0};
        uint64_t n = 1, bytes = d ? zf_dtype_info(t.dtype)->bytes : 0;
        static unsigned char whole[MOST];
        bool all = true;
        struct zf_err err;

        e->there = d != NULL;
        for (uint32_t k = 0; k < t.ndim; k++)
            n *= t.shape[k];
        for (uint64_t k = 0; d && k < n; k++) {
            e->ok[k] = zf_draft_read(d, k, 1, e->byte + k * bytes, &err);
            all = all && e->ok[k];
        }
        if (d) {
            check(zf_draft_read(d, 0, n, whole, &err) == all);
            check(!all || memcmp(whole, e->byte, n * bytes) == 0);
            check(!zf_draft_read(d, n, 1, whole, &err));
        }
    }
}

/* Every element is as it was; what could not be read then is lost now.  boxes_lost_whole: and so may be the rest of
 * boxes that lie on others, which a mended tensor of many cells gives up altogether. */
static void compare_early(const struct zf_checkpoint *c, bool boxes_lost_whole)
{
    for (uint32_t i = 0; i < SETS * NAMES; i++) {
        const struct early *e = &early[i / NAMES][i % NAMES];
        const struct zf_set *set = zf_checkpoint_set(c, verbs_set[i / NAMES]);
        const struct zf_tensor *t = set ? zf_set_find(set, verbs_name[i % NAMES], 1) : NULL;
        uint64_t bytes = t ? zf_dtype_info(t->dtype)->bytes : 1;
        unsigned char got[16];
        struct zf_err err;

        for (uint64_t k = 0; t && e->there && k < zf_map_size(t->data) / bytes; k++) {
            bool ok = zf_map_read(t->data, got, bytes, k * bytes, &err);

            check(ok == e->ok[k] || (boxes_lost_whole && !ok && t->lost));
            check(!ok || memcmp(got, e->byte + k * bytes, bytes) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bytes[400];
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    lim.model_memory = 64 << 20;
    lim.grid_cells = size % 2 ? FEW_CELLS : lim.grid_cells;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    for (int degraded = 0; degraded < 2; degraded++) {
        struct verbs v = {.p = data, .n = size};

        v.b = zf_build_new(NULL, &lim, degraded != 0, &err);
        check(v.b != NULL);
        for (int i = 0; i < VERBS_SOURCES - 1; i++) {
            v.src[i] = zf_mem_new(
                &"xyz" [i], bytes, (uint64_t[]) { 8, 60, 400 }[i], false, &err);
            check(v.src[i] != NULL);
        }
        verbs_run(&v, true);
        (void)!zf_build_prefix(v.b, "", &err);
        read_early(v.b);
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(v.b, "fuzz", "", &err);
        if (c) {
            read_all(c);
            compare_early(c, degraded && lim.grid_cells == FEW_CELLS);
        } else {
            check(err.msg[0] != '\0');
        }
        for (int i = 0; i < VERBS_SOURCES - 1; i++)
            zf_source_unref(&v.src[i]);
    }
    return 0;
}
