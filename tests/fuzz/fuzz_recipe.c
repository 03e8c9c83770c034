/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is tried as a recipe on a small checkpoint: whatever it makes lies inside its sources, has the size of its
 * shape, and uses every byte of every source once or says that it does not. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/model/build.h>
#include <zf/recipe/hf.h>

#include "fuzz.h"

static bool put(struct zf_build *b, const char *name, uint64_t rows, uint64_t columns,
                struct zf_err *err)
{
    const uint64_t shape[2] = {rows, columns};
    struct zf_draft *d =
        zf_build_tensor(b, zf_spot_of("", name), (struct zf_type){ZF_DT_U8, 2, shape}, err);

    return d && zf_draft_flat(d, 0, rows * columns, (struct zf_from){.src = NULL}, err);
}

static struct zf_checkpoint *small(const struct zf_limits *lim)
{
    static const char settings[] = "{\"heads\": 2, \"layers\": 2, \"a\": {\"b\": [1, 2.5, null]}}";
    struct zf_err err;
    struct zf_build *b = zf_build_new(NULL, lim, false, &err);

    if (!b || !put(b, "t", 4, 6, &err) || !put(b, "l.0.w", 8, 3, &err) ||
        !put(b, "l.1.w", 8, 3, &err) || !put(b, "m._orig_mod.x", 0, 3, &err) ||
        !zf_build_text(b, "state/args.json", settings, strlen(settings), &err))
        abort();
    return zf_build_seal(b, "fuzz", "made here", &err);
}

/* Reads all of it, from several places on. */
static void read_all(const struct zf_tensor *t)
{
    const uint64_t size = zf_map_size(t->data);
    unsigned char buf[256];
    struct zf_err err;
    uint64_t bytes;

    if (!zf_dtype_size(t->dtype, t->ndim, t->shape, &bytes) || bytes != size || size > sizeof buf)
        abort();
    for (uint64_t at = 0; at < size; at += 5)
        if (!zf_map_read(t->data, buf, (size_t)(size - at), at, &err) ||
            zf_map_at(t->data, at).len == 0)
            abort();
}

static void count(void *ctx, const char *problem)
{
    ++*(uint64_t *)ctx;
    if (!*problem)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    uint64_t n = 0, problems = 0;

    lim.tensors = 2000;
    struct zf_checkpoint *c = small(&lim);
    char *text = malloc(size + 1);
    if (!c || !text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    const struct zf_hf_opts o = {.lim = &lim, .name = "fuzz", .text = text, .n_text = size};
    const bool checked = zf_hf_check(c, &o, count, &problems, &n, &err);
    const bool made = zf_hf_model(c, &o, &err);
    if (made != (checked && problems == 0) || made != (c->hf != NULL))
        abort();
    for (uint32_t i = 0; made && i < c->hf->n; i++)
        read_all(&c->hf->tensor[i]);
    free(text);
    zf_checkpoint_free(c);
    return 0;
}
