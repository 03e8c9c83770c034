/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose local header is checked by the first read: over a network, a request per member of
 * each file would be most of the time to open a checkpoint, and few members are ever read. */
#include "dir.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/codec/zip.h>
#include <zf/source/recipe.h>
#include <zf/source/want.h>

/* torch aligns a member's data to this (torch/csrc, caffe2/serialize/inline_container.cc, 2.x). */
#define DATA_ALIGN 64u
/* Header and data are fetched in one request if fewer bytes are between them. */
#define WANT_GAP (128u << 10)

struct lazy {
    struct zf_derived base;
    struct zip_local local; /* its name points into the source's */
    uint64_t end;
    _Atomic uint64_t data; /* offset of the data; 0 = not known yet */
};

static bool lazy_read(void *from, void *buf, uint64_t n, uint64_t off, struct zf_err *err)
{
    return zf_source_pread(from, buf, (size_t)n, off, err);
}

/* Reads and checks the header, once.  Two threads may do so at the same time, with the same result. */
static bool lazy_find(struct lazy *l, uint64_t *data_out, struct zf_err *err)
{
    struct zip_local_end end;

    *data_out = atomic_load_explicit(&l->data, memory_order_relaxed);
    if (*data_out)
        return true;
    if (!zip_local_load(&l->local, l->end, lazy_read, l->base.parent, &end, err))
        return false;
    *data_out = end.data;
    if (!zf_within(*data_out, l->base.src.size, l->end)) {
        return zf_fail(err, ZF_E_FORMAT, *data_out,
                       "member \"%s\" of %llu bytes reaches beyond byte %llu, where the next one "
                       "or the directory begins",
                       l->local.name, (unsigned long long)l->base.src.size,
                       (unsigned long long)l->end);
    }
    atomic_store_explicit(&l->data, *data_out, memory_order_relaxed);
    return true;
}

static void lazy_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct lazy *l = (struct lazy *)s;
    const uint64_t known = atomic_load_explicit(&l->data, memory_order_relaxed);
    const uint64_t head = l->local.at, behind = head + zip_local_bytes(&l->local);
    const uint64_t data = known ? known : (behind + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;

    if (known) {
        zf_source_want(l->base.parent, data + off, n, how);
    } else if (off < WANT_GAP) {
        zf_source_want(l->base.parent, head, data + off - head + n, how);
    } else {
        zf_source_want(l->base.parent, head, behind - head, how);
        zf_source_want(l->base.parent, data + off, n, how);
    }
}

/* Finds the data; if they are not known yet, requests the wanted bytes together with the header. */
static bool lazy_seek(struct lazy *l, uint64_t off, uint64_t n, uint64_t *data_out,
                      struct zf_err *err)
{
    if (atomic_load_explicit(&l->data, memory_order_relaxed) == 0)
        lazy_want(&l->base.src, off, n, ZF_PREFETCH_ALL);
    return lazy_find(l, data_out, err);
}

static bool lazy_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct lazy *l = (struct lazy *)s;
    uint64_t data;

    return lazy_seek(l, off, n, &data, err) &&
           zf_source_pread(l->base.parent, buf, n, data + off, err);
}

static bool lazy_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                        struct zf_err *err)
{
    struct lazy *l = (struct lazy *)s;
    uint64_t data, n = 0;

    for (int i = 0; i < n_iov; i++)
        n += iov[i].iov_len;
    return lazy_seek(l, off, n, &data, err) &&
           zf_source_preadv(l->base.parent, iov, n_iov, data + off, err);
}

static bool lazy_rows(struct zf_source *s, const struct zf_rows *r, struct zf_err *err)
{
    struct lazy *l = (struct lazy *)s;
    struct zf_rows moved = *r;
    uint64_t data;

    if (!lazy_find(l, &data, err))
        return false;
    moved.off += data;
    return zf_source_read_rows(l->base.parent, &moved, err);
}

/* Reads the header if necessary, because it determines where the data are. */
static bool lazy_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct lazy *l = (struct lazy *)s;
    struct zf_err err;
    uint64_t data;

    if (!lazy_find(l, &data, &err))
        return false;
    *off += data;
    *parent_out = l->base.parent;
    return true;
}

static struct zf_shared lazy_shared(const struct zf_source *s)
{
    return zf_source_shared(zf_derived_parent(s));
}

/* Another process will check the header again, because it could have changed. */
static bool lazy_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct lazy *l = (const struct lazy *)s;

    out->kind = &zf_zip_kind;
    out->parent = l->base.parent;
    out->n[0] = l->local.at;
    out->n[1] = s->size;
    out->n[2] = l->end;
    zf_out_var(&out->bytes, l->local.method);
    zf_out_str(&out->bytes, l->local.name);
    return true;
}

static struct zf_source *lazy_make(struct zf_remake *r, struct zf_err *err)
{
    const uint64_t method = zf_bytes_var(&r->bytes), n = zf_bytes_left(&r->bytes);
    const char *text = n > 0 && n <= UINT16_MAX ? zf_bytes_take(&r->bytes, n) : NULL;
    zf_auto(mem) char *name = text ? strndup(text, (size_t)n) : NULL;
    const struct zip_local local = {.name = name, .at = r->n[0], .method = (uint16_t)method};

    if (!r->parent || !name || method > UINT16_MAX)
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a member without an archive"));
    return zip_lazy_new(r->parent, &local, r->n[1], r->n[2], err);
}

const struct zf_source_kind zf_zip_kind = {.name = "member", .make = lazy_make};

static const struct zf_source_ops lazy_ops = {
    .kind = "member",
    .pread = lazy_pread,
    .preadv = lazy_preadv,
    .rows = lazy_rows,
    .origin = lazy_origin,
    .shared = lazy_shared,
    .want = lazy_want,
    .recipe = lazy_recipe,
    .fini = zf_derived_fini,
};

struct zf_source *zip_lazy_new(struct zf_source *parent, const struct zip_local *local,
                               uint64_t size, uint64_t end, struct zf_err *err)
{
    zf_auto(mem) char *full = NULL;
    uint64_t least;

    if (end > parent->size || !zf_add(local->at, zip_local_bytes(local), &least) || least > end ||
        size > end - least) {
        (void)zf_fail(err, ZF_E_FORMAT, local->at, "member \"%s\" of %llu bytes has no room here",
                      local->name, (unsigned long long)size);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    if (asprintf(&full, "%s!%s", parent->name, local->name) < 0) {
        full = NULL;
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    struct lazy *l = zf_derived_new(sizeof *l, &lazy_ops, full, size, parent, err);
    if (!l)
        return NULL;
    l->local = *local;
    l->local.name = l->base.src.name + strlen(parent->name) + 1;
    l->end = end;
    atomic_init(&l->data, 0);
    return &l->base.src;
}
