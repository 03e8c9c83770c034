/* SPDX-License-Identifier: Apache-2.0 */
/* A range of another source, with offsets of its own. */
#include <zf/source/recipe.h>

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "kinds.h"

struct window {
    struct zf_derived base; /* never a window itself */
    uint64_t off;           /* src.size bytes from here lie inside the parent */
};

static bool window_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct window *w = (struct window *)s;

    return zf_source_pread(w->base.parent, buf, n, w->off + off, err);
}

static bool window_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                          struct zf_err *err)
{
    struct window *w = (struct window *)s;

    return zf_source_preadv(w->base.parent, iov, n_iov, w->off + off, err);
}

static bool window_rows(struct zf_source *s, const struct zf_rows *r, struct zf_err *err)
{
    struct window *w = (struct window *)s;
    struct zf_rows moved = *r;

    moved.off += w->off;
    return zf_source_read_rows(w->base.parent, &moved, err);
}

static bool window_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct window *w = (struct window *)s;

    *off += w->off;
    *parent_out = w->base.parent;
    return true;
}

/* The name is the parent's, with "!name" appended if zf_window_new got one. */
static bool window_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct window *w = (const struct window *)s;
    const char *behind = s->name + strlen(w->base.parent->name);

    out->kind = &kind_window;
    out->parent = w->base.parent;
    out->n[0] = w->off;
    out->n[1] = s->size;
    if (*behind == '!')
        zf_out_str(&out->bytes, behind + 1);
    return true;
}

static struct zf_source *window_make(struct zf_remake *r, struct zf_err *err)
{
    uint64_t n = zf_bytes_left(&r->bytes);
    zf_auto(mem) char *name =
        n && n < SIZE_MAX ? strndup(zf_bytes_take(&r->bytes, n), (size_t)n) : NULL;

    if (n && !name)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    if (!kind_has_parent(r, err))
        return NULL;
    return zf_window_new(r->parent, r->n[0], r->n[1], name, err);
}

const struct zf_source_kind kind_window = {.name = "window", .make = window_make};

static const struct zf_source_ops window_ops = {
    .kind = "window",
    .pread = window_pread,
    .preadv = window_preadv,
    .rows = window_rows,
    .origin = window_origin,
    .recipe = window_recipe,
    .fini = zf_derived_fini,
};

struct zf_source *zf_window_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                const char *name, struct zf_err *err)
{
    if (!zf_within(off, len, parent->size)) {
        (void)zf_fail(err, ZF_E_FORMAT, off, "%llu bytes should be here, but only %llu exist",
                      (unsigned long long)len, (unsigned long long)parent->size);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    zf_auto(mem) char *full = NULL;
    if (name && asprintf(&full, "%s!%s", parent->name, name) < 0) {
        full = NULL;
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    const char *shown = full ? full : parent->name;
    /* A window on a window would cost one more call at every read. */
    if (parent->ops == &window_ops)
        (void)window_origin(parent, &off, &parent);
    struct window *w = zf_derived_new(sizeof *w, &window_ops, shown, len, parent, err);
    if (!w)
        return NULL;
    w->off = off;
    return &w->base.src;
}

struct zf_source *zf_window_of(struct zf_source *s, uint64_t *off)
{
    if (s && s->ops == &window_ops)
        (void)window_origin(s, off, &s);
    return s;
}
