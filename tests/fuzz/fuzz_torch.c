/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as a torch.save file; every tensor in it is asked for, with its outermost
 * bytes. */
#include <stdlib.h>

#include <zf/base/num.h>
#include <zf/codec/dtensor.h>

#include "fuzz.h"
#include "support/far.h"

#define DEPTH 12
#define STEPS 3000

struct visit {
    struct zf_torch *t;
    unsigned steps;
};

static void visit(struct visit *w, const struct zf_pv *v, unsigned depth);

/* What was promised must be readable: the last element of a tensor is inside its storage. */
static void touch(const struct zf_torch_tensor *ten)
{
    uint64_t es = zf_dtype_info(ten->dtype)->bytes, last = ten->off_elems, n;
    uint8_t p[16];
    struct zf_err err;

    if (!ten->storage->src || !zf_elems(ten->ndim, ten->shape, &n) || n == 0)
        return;
    for (uint32_t d = 0; d < ten->ndim; d++)
        last += (ten->shape[d] - 1) * ten->stride[d];
    if (!zf_within(last * es, es, ten->storage->bytes) ||
        ten->storage->src->size != ten->storage->bytes)
        abort();
    if (zf_source_pread(ten->storage->src, p, (size_t)es, ten->off_elems * es, &err) &&
        !zf_source_pread(ten->storage->src, p, (size_t)es, last * es, &err) && err.msg[0] == '\0')
        abort();
}

static bool part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    (void)err;
    if (part->tensor)
        touch(part->tensor);
    visit(ctx, part->value, 2);
    return true;
}

static void visit_shards(struct visit *w, const struct zf_pv *v, unsigned depth)
{
    struct zf_sharded s;
    struct zf_dtensor dt;
    struct zf_err err;

    if (zf_torch_dtensor(w->t, v, &dt, &err)) {
        for (uint32_t i = 0; i < dt.n_axes; i++)
            if (dt.axis[i].size == 0 || dt.axis[i].coord >= dt.axis[i].size)
                abort();
        visit(w, dt.local, depth);
    }
    if (zf_torch_sharded(w->t, v, &s, &err))
        for (uint64_t i = 0; i < s.n_local; i++)
            visit(w, s.local[i].tensor, depth);
}

static void visit(struct visit *w, const struct zf_pv *v, unsigned depth)
{
    struct zf_torch_tensor ten;
    struct zf_err err;

    if (!v || depth == 0 || w->steps == 0)
        return;
    w->steps--;
    enum zf_torch_kind kind = zf_torch_kind(w->t, v);

    if (zf_torch_tensor(w->t, v, &ten, &err))
        touch(&ten);
    if (!zf_torch_parts(w->t, v, part, w, &err) && err.msg[0] == '\0')
        abort();
    visit_shards(w, v, depth - 1);
    if (kind != ZF_TORCH_NOT)
        return;
    for (uint64_t i = 0; i < zf_pv_len(v) && w->steps; i++) {
        visit(w, zf_pv_item(v, i), depth - 1);
        visit(w, zf_pv_val(v, i), depth - 1);
    }
    visit(w, zf_pv_state(v), depth - 1);
}

static void read_all(struct zf_source *src, const struct zf_limits *lim)
{
    struct zf_err err;
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, lim, &err);
    struct visit w = {.t = t, .steps = STEPS};

    if (t)
        visit(&w, zf_torch_root(t), DEPTH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(source) struct zf_source *src =
        zf_mem_new("input", (void *)(uintptr_t)data, size, false, &err);

    lim.pickle_memory = 64 << 20;
    lim.pickle_depth = 500;
    lim.zip_entries = 1000;
    lim.inflate_bytes = 1 << 20;
    lim.cache_bytes = 1 << 20;
    if (!src)
        return 0;
    (void)zf_torch_sniff(src);
    read_all(src, &lim);
    /* Behind an address an archive's members are found when they are read. */
    zf_auto(source) struct zf_source *far = far_new(src, &err);
    if (far)
        read_all(far, &lim);
    return 0;
}
