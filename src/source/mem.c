/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are in memory already. */
#include <zf/source/source.h>

#include <string.h>

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

    if (m->own) {
        free((void *)(uintptr_t)m->p);
    }
    zf_source_fini(s);
    free(m);
}

static const struct zf_source_ops mem_ops = {
    .kind = "memory",
    .pread = mem_pread,
    .fini = mem_fini,
};

struct zf_source *zf_mem_new(const char *name, void *p, uint64_t n, bool take, struct zf_err *err)
{
    struct mem *m = calloc(1, sizeof *m);

    if (!m) {
        (void)zf_fail_sys(err, "make a memory source");
        return NULL;
    }
    if (!zf_source_init(&m->src, &mem_ops, name, n, err)) {
        free(m);
        return NULL;
    }
    m->p = p;
    m->own = take;
    return &m->src;
}
