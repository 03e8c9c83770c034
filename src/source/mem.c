/* SPDX-License-Identifier: Apache-2.0 */
/* A source of bytes in memory. */
#include <zf/source/recipe.h>

#include <string.h>

#include "kinds.h"

struct mem {
    struct zf_source src;
    const uint8_t *p;
    bool own;
};

static bool mem_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct mem *m = (const struct mem *)s;

    (void)err;
    memcpy(buf, m->p + off, n);
    return true;
}

static void mem_fini(struct zf_source *s)
{
    struct mem *m = (struct mem *)s;

    if (m->own)
        free((void *)(uintptr_t)m->p);
    zf_source_fini(s);
    free(m);
}

static bool mem_recipe(struct zf_source *s, struct zf_recipe *out)
{
    out->kind = &kind_mem;
    out->n[0] = strlen(s->name);
    zf_out_add(&out->bytes, s->name, (size_t)out->n[0]);
    zf_out_add(&out->bytes, ((const struct mem *)s)->p, (size_t)s->size);
    return true;
}

static struct zf_source *mem_make(struct zf_remake *r, struct zf_err *err)
{
    const char *text = zf_bytes_take(&r->bytes, r->n[0]);
    zf_auto(mem) char *name = text ? strndup(text, (size_t)r->n[0]) : NULL;
    uint64_t n = zf_bytes_left(&r->bytes);
    zf_auto(mem) void *p = name ? malloc(n ? (size_t)n : 1) : NULL;

    if (!p) {
        return zf_null(
            zf_fail(err, text ? ZF_E_NOMEM : ZF_E_FORMAT, ZF_OFF_NONE, "bytes without a name"));
    }
    memcpy(p, zf_bytes_take(&r->bytes, n), (size_t)n);
    struct zf_source *s = zf_mem_new(name, p, n, true, err);
    p = s ? NULL : p;
    return s;
}

const struct zf_source_kind kind_mem = {.name = "memory", .make = mem_make};

static const struct zf_source_ops mem_ops = {
    .kind = "memory",
    .pread = mem_pread,
    .recipe = mem_recipe,
    .fini = mem_fini,
};

struct zf_source *zf_mem_new(const char *name, void *p, uint64_t n, bool take, struct zf_err *err)
{
    struct mem *m = zf_source_new(sizeof *m, &mem_ops, name, n, err);

    if (!m)
        return NULL;
    m->p = p;
    m->own = take;
    return &m->src;
}
