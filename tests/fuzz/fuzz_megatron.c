/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of any bytes, and flattened tensors of any shape.  What a key says points into it, and numbered
 * names are found to be numbered.  Every element of a flattened tensor is where Megatron's own formula
 * puts it. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/model/build.h>

#include "src/dcp/mcore_data.h"
#include "src/format/megatron/keys.h"

enum { DIMS = 3, ELEMS_MAX = 4096 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* ---- keys ---- */

static void check_inside(struct mg_text t, const char *key, size_t n)
{
    check(t.n == 0 || (t.p >= key && t.n <= n && t.p + t.n <= key + n));
}

static void check_key(const char *key, size_t n)
{
    struct mg_key k, again;
    char name[600];

    mg_key_parse(key, n, &k);
    check_inside(k.name, key, n);
    check_inside(k.state, key, n);
    check_inside(k.flat.dtype, key, n);
    check_inside(k.container, key, n);
    check(k.layer_at < k.name.n + (k.name.n == 0) && k.expert_at < k.name.n + (k.name.n == 0));
    if ((k.what != MG_WEIGHT && k.what != MG_STATE) || n > 400 || memchr(key, '\0', n))
        return;
    check(k.name.n > 0 || n == 0);
    size_t len = mg_key_numbered(&k, 31, 7, name, sizeof name);
    check(len == strlen(name) &&
          len == k.name.n + (k.layer_at ? 3u : 0u) + (k.expert_at ? 2u : 0u));
    again = (struct mg_key){.name = {name, len}};
    mg_key_find_axes(&again);
    check(!k.layer_at || again.layer_at == 0 || again.layer_at < k.layer_at);
    check(!k.layer_at || memcmp(name + k.layer_at, "31.", 3) == 0);
    check(mg_key_numbered(&k, MG_NONE, MG_NONE, name, sizeof name) == k.name.n &&
          memcmp(name, k.name.p, k.name.n) == 0);
}

/* ---- flattened tensors ---- */

struct flat {
    uint32_t ndim;
    uint64_t grid[DIMS + 1], local[DIMS], whole[DIMS], n_local, n;
};

static uint64_t flat_stored(const struct flat *f, const uint64_t *at)
{
    uint64_t cell = 0, in = 0;

    for (uint32_t d = 0; d < f->ndim; d++) {
        cell = cell * f->grid[d] + at[d] / f->local[d];
        in = in * f->local[d] + at[d] % f->local[d];
    }
    return cell * f->n_local + in;
}

/* Puts the stored bytes, each its own place modulo 251, as ranges whose ends the input chooses. */
static void flat_put(const struct flat *f, struct zf_draft *draft, struct zf_source *src,
                     const uint8_t **data, size_t *size)
{
    uint64_t start[DIMS + 1], box[DIMS], local[DIMS];
    struct zf_err err = {0};

    for (uint64_t cell = 0; cell < f->n / f->n_local; cell++) {
        for (uint64_t d = f->ndim, rest = cell; d-- > 0; rest /= f->grid[d])
            start[d] = rest % f->grid[d];
        for (uint64_t at = 0, len; at < f->n_local; at += len) {
            len = *size ? **data % f->n_local + 1 : f->n_local;
            len = len < f->n_local - at ? len : f->n_local - at;
            *data += *size > 0;
            *size -= *size > 0;
            dcp_flat_box(f->ndim, f->grid, f->whole, start, box, local);
            check(zf_draft_put(draft, (struct zf_where){box, local, at, len, false},
                               (struct zf_from){.src = src, .off = cell * f->n_local + at}, &err));
        }
    }
}

static void check_flat(const uint8_t *data, size_t size)
{
    struct flat f = {.ndim = (uint32_t)(data[0] % DIMS) + 1, .n_local = 1, .n = 1};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {0};
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    uint8_t stored[ELEMS_MAX], got;
    uint64_t at[DIMS];

    for (uint32_t d = 0; d < f.ndim; d++) {
        f.grid[d] = data[1 + 2 * d] % 4 + 1u;
        f.local[d] = data[2 + 2 * d] % 4 + 1u;
        f.whole[d] = f.grid[d] * f.local[d];
        f.n_local *= f.local[d];
        f.n *= f.whole[d];
    }
    f.grid[f.ndim] = f.n_local;
    for (uint64_t i = 0; i < f.n; i++)
        stored[i] = (uint8_t)(i % 251);
    data += 7;
    size -= 7;
    zf_auto(source) struct zf_source *src = zf_mem_new("stored", stored, f.n, false, &err);
    const struct zf_type type = {ZF_DT_U8, f.ndim, f.whole};
    struct zf_draft *draft = b && src ? zf_build_hidden(b, "x", 1, type, &err) : NULL;
    check(draft);
    flat_put(&f, draft, src, &data, &size);
    for (uint64_t i = 0; i < f.n; i++) {
        for (uint64_t d = f.ndim, rest = i; d-- > 0; rest /= f.whole[d])
            at[d] = rest % f.whole[d];
        check(zf_draft_read(draft, i, 1, &got, &err) && got == flat_stored(&f, at) % 251);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'k')
        check_key((const char *)data + 1, size - 1);
    else if (size > 8)
        check_flat(data + 1, size - 1);
    return 0;
}
