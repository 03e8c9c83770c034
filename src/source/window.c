/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of another source, with offsets of its own. */
#include <zf/source/recipe.h>

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "kinds.h"

struct window {
    struct zf_source src;
    struct zf_source *parent; /* never a window itself */
    uint64_t off;             /* src.size bytes from here lie inside the parent */
};

static bool window_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct window *w = (struct window *)s;

    return zf_source_pread(w->parent, buf, n, w->off + off, err);
}

static bool window_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                          struct zf_err *err)
{
    struct window *w = (struct window *)s;

    return zf_source_preadv(w->parent, iov, n_iov, w->off + off, err);
}

static bool window_rows(struct zf_source *s, const struct zf_rows *r, struct zf_err *err)
{
    struct window *w = (struct window *)s;
    struct zf_rows moved = *r;

    moved.off += w->off;
    return zf_source_read_rows(w->parent, &moved, err);
}

static bool window_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct window *w = (struct window *)s;

    *off += w->off;
    *parent_out = w->parent;
    return true;
}

static void window_fini(struct zf_source *s)
{
    struct window *w = (struct window *)s;

    zf_source_unref(&w->parent);
    zf_source_fini(s);
    free(w);
}

/* Its name is its parent's and what was put behind it. */
static bool window_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct window *w = (const struct window *)s;
    size_t n = strlen(w->parent->name);
    bool named = s->name[n] == '!';

    out->kind = &kind_window;
    out->parent = w->parent;
    out->n[0] = w->off;
    out->n[1] = s->size;
    if (named) {
        zf_out_str(&out->bytes, s->name + n + 1);
    }
    return strncmp(s->name, w->parent->name, n) == 0 && (named || s->name[n] == '\0');
}

static struct zf_source *window_make(struct zf_remake *r, struct zf_err *err)
{
    uint64_t n = zf_bytes_left(&r->bytes);
    zf_auto(mem) char *name = n && n < SIZE_MAX ? strndup(zf_bytes_take(&r->bytes, n), (size_t)n) : NULL;

    if (n && !name) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    if (!kind_has_parent(r, err)) {
        return NULL;
    }
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
    .fini = window_fini,
};

struct zf_source *zf_window_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                const char *name, struct zf_err *err)
{
    if (!zf_within(off, len, parent->size)) {
        (void)zf_fail(err, ZF_E_FORMAT, off,
                      "%llu bytes should stand here, but only %llu bytes exist",
                      (unsigned long long)len, (unsigned long long)parent->size);
        (void)zf_err_in(err, "%s", parent->name);
        return NULL;
    }
    zf_auto(mem) char *full = NULL;
    if (name && asprintf(&full, "%s!%s", parent->name, name) < 0) {
        full = NULL;
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    struct window *w = calloc(1, sizeof *w);
    if (!w) {
        (void)zf_fail_sys(err, "make a window");
        return NULL;
    }
    if (!zf_source_init(&w->src, &window_ops, full ? full : parent->name, len, err)) {
        free(w);
        return NULL;
    }
    /* A window on a window would cost one more hop at every read. */
    if (parent->ops == &window_ops) {
        (void)window_origin(parent, &off, &parent);
    }
    w->src.stored = parent->stored < len ? parent->stored : len;
    w->parent = zf_source_ref(parent);
    w->off = off;
    return &w->src;
}
