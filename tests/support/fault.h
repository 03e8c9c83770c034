/* SPDX-License-Identifier: Apache-2.0 */
/* A source with a bad spot, to test that failures travel. */
#ifndef TESTS_SUPPORT_FAULT_H
#define TESTS_SUPPORT_FAULT_H

#include <zf/source/source.h>

struct fault {
    struct zf_derived base;
    uint64_t off, len;
};

static inline bool fault_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                               struct zf_err *err)
{
    struct fault *f = (struct fault *)s;

    /* Does either range start inside the other? */
    if ((off >= f->off && off - f->off < f->len) || (off < f->off && f->off - off < n && f->len))
        return zf_fail(err, ZF_E_IO, off, "cannot read the file: injected fault");
    return zf_source_pread(f->base.parent, buf, n, off, err);
}

static const struct zf_source_ops fault_ops = {
    .kind = "fault",
    .pread = fault_pread,
    .fini = zf_derived_fini,
};

/* Passes through to parent, but fails (ZF_E_IO) whatever touches [off, off + len). */
static inline struct zf_source *fault_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                          struct zf_err *err)
{
    struct fault *f =
        zf_derived_new(sizeof *f, &fault_ops, parent->name, parent->size, parent, err);

    if (!f)
        return NULL;
    f->off = off;
    f->len = len;
    return &f->base.src;
}

#endif
