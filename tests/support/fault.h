/* SPDX-License-Identifier: Apache-2.0 */
/* A source with a bad spot, to test that failures travel. */
#ifndef TESTS_SUPPORT_FAULT_H
#define TESTS_SUPPORT_FAULT_H

#include <stdlib.h>

#include <zf/source/source.h>

struct fault {
    struct zf_source src;
    struct zf_source *parent;
    uint64_t off, len;
};

static inline bool fault_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                               struct zf_err *err)
{
    struct fault *f = (struct fault *)s;

    /* Does either range start inside the other? */
    if ((off >= f->off && off - f->off < f->len) || (off < f->off && f->off - off < n && f->len)) {
        return zf_fail(err, ZF_E_IO, off, "cannot read the file: injected fault");
    }
    return zf_source_pread(f->parent, buf, n, off, err);
}

static inline void fault_fini(struct zf_source *s)
{
    struct fault *f = (struct fault *)s;

    zf_source_unref(&f->parent);
    zf_source_fini(s);
    free(f);
}

static const struct zf_source_ops fault_ops = {
    .kind = "fault",
    .pread = fault_pread,
    .fini = fault_fini,
};

/* Passes through to parent, but fails (ZF_E_IO) whatever touches [off, off + len). */
static inline struct zf_source *fault_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                          struct zf_err *err)
{
    struct fault *f = calloc(1, sizeof *f);

    if (!f) {
        (void)zf_fail_sys(err, "make a fault");
        return NULL;
    }
    if (!zf_source_init(&f->src, &fault_ops, parent->name, parent->size, err)) {
        free(f);
        return NULL;
    }
    f->parent = zf_source_ref(parent);
    f->off = off;
    f->len = len;
    return &f->src;
}

#endif
