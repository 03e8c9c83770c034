/* SPDX-License-Identifier: Apache-2.0 */
/* A source that says it is far away, as an object behind an address does. */
#ifndef TESTS_SUPPORT_FAR_H
#define TESTS_SUPPORT_FAR_H

#include <stdlib.h>

#include <zf/source/source.h>

struct far {
    struct zf_source src;
    struct zf_source *parent;
};

static inline bool far_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    return zf_source_pread(((struct far *)s)->parent, buf, n, off, err);
}

static inline void far_fini(struct zf_source *s)
{
    struct far *f = (struct far *)s;

    zf_source_unref(&f->parent);
    zf_source_fini(s);
    free(f);
}

static const struct zf_source_ops far_ops = {
    .kind = "far",
    .far = true,
    .pread = far_pread,
    .fini = far_fini,
};

/* The bytes of parent, of which it takes its own reference. */
static inline struct zf_source *far_new(struct zf_source *parent, struct zf_err *err)
{
    struct far *f = calloc(1, sizeof *f);

    if (!f) {
        (void)zf_fail_sys(err, "make a far source");
        return NULL;
    }
    if (!zf_source_init(&f->src, &far_ops, parent->name, parent->size, err)) {
        free(f);
        return NULL;
    }
    f->parent = zf_source_ref(parent);
    return &f->src;
}

#endif
