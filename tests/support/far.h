/* SPDX-License-Identifier: Apache-2.0 */
/* A source that says it is far away, as an object behind an address does. */
#ifndef TESTS_SUPPORT_FAR_H
#define TESTS_SUPPORT_FAR_H

#include <zf/source/source.h>

static inline bool far_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    return zf_source_pread(zf_derived_parent(s), buf, n, off, err);
}

static const struct zf_source_ops far_ops = {
    .kind = "far",
    .far = true,
    .pread = far_pread,
    .fini = zf_derived_fini,
};

/* The bytes of parent, of which it takes its own reference. */
static inline struct zf_source *far_new(struct zf_source *parent, struct zf_err *err)
{
    return zf_derived_new(sizeof(struct zf_derived), &far_ops, parent->name, parent->size, parent,
                          err);
}

#endif
