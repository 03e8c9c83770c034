/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/source/source.h>

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/source/begun.h>

#include "failures.h"

/* The kernel's limit for one preadv(2). */
#ifdef IOV_MAX
#define BATCH IOV_MAX
#else
#define BATCH 1024
#endif

bool zf_source_init(struct zf_source *s, const struct zf_source_ops *ops, const char *name,
                    uint64_t size, struct zf_err *err)
{
    char *copy = strdup(name ? name : "");

    if (!copy)
        return zf_fail_sys(err, "keep a file name");
    s->ops = ops;
    s->name = copy;
    s->size = s->stored = size;
    atomic_init(&s->refs, 1);
    s->failures = NULL;
    atomic_init(&s->begun, false);
    return true;
}

void zf_source_fini(struct zf_source *s)
{
    free((char *)(uintptr_t)s->name);
    s->name = NULL;
    failures_unref(s->failures);
    s->failures = NULL;
}

void *zf_source_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                    struct zf_err *err)
{
    struct zf_source *s = calloc(1, each);

    if (!s)
        return zf_null(zf_fail_sys(err, "make a source"));
    if (!zf_source_init(s, ops, name, size, err)) {
        free(s);
        return NULL;
    }
    return s;
}

void *zf_derived_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                     struct zf_source *parent, struct zf_err *err)
{
    struct zf_derived *d = zf_source_new(each, ops, name, size, err);

    if (d) {
        d->src.stored = parent->stored < size ? parent->stored : size;
        d->parent = zf_source_ref(parent);
    }
    return d;
}

void zf_derived_fini(struct zf_source *s)
{
    struct zf_derived *d = (struct zf_derived *)s;

    zf_source_unref(&d->parent);
    zf_source_fini(s);
    free(d);
}

/* Adds the name, unless an inner source has put its own into the error. */
static bool source_named(const struct zf_source *s, struct zf_err *err)
{
    return err->path[0] ? false : zf_err_in(err, "%s", s->name);
}

/* Names a failed read, and records it for the store. */
static bool source_failed(const struct zf_source *s, struct zf_err *err)
{
    (void)source_named(s, err);
    if (s->failures)
        failures_add(s->failures, FAILURES_READ, s->name, err);
    return false;
}

static bool source_inside(const struct zf_source *s, uint64_t n, uint64_t off, struct zf_err *err)
{
    if (zf_within(off, n, s->size))
        return true;
    (void)zf_fail(err, ZF_E_IO, off, "%llu bytes are needed here, but only %llu exist",
                  (unsigned long long)n, (unsigned long long)s->size);
    return source_named(s, err);
}

bool zf_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    if (!source_inside(s, n, off, err))
        return false;
    if (n == 0)
        return true;
    if (!s->ops->pread(s, buf, n, off, err))
        return source_failed(s, err);
    if (s->failures)
        zf_begun_count(&s->begun);
    return true;
}

/* Reads one batch of at most BATCH buffers; the range was checked. */
static bool source_scatter(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                           struct zf_err *err)
{
    if (s->ops->preadv)
        return s->ops->preadv(s, iov, n_iov, off, err);
    for (int i = 0; i < n_iov; i++) {
        if (iov[i].iov_len && !s->ops->pread(s, iov[i].iov_base, iov[i].iov_len, off, err))
            return false;
        off += iov[i].iov_len;
    }
    return true;
}

static uint64_t source_iov_bytes(const struct iovec *iov, int n_iov)
{
    uint64_t sum = 0;

    for (int i = 0; i < n_iov; i++)
        if (!zf_add(sum, iov[i].iov_len, &sum))
            return UINT64_MAX;
    return sum;
}

char *zf_source_slurp(struct zf_source *s, uint64_t off, uint64_t n, struct zf_err *err)
{
    zf_auto(mem) char *p = n < SIZE_MAX ? malloc((size_t)n + 1) : NULL;

    if (!p) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %" PRIu64 " bytes", n);
        return zf_null(zf_err_in(err, "%s", s->name));
    }
    p[n] = '\0';
    return zf_source_pread(s, p, (size_t)n, off, err) ? zf_give(p) : NULL;
}

bool zf_source_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                      struct zf_err *err)
{
    if (!source_inside(s, source_iov_bytes(iov, n_iov), off, err))
        return false;
    while (n_iov > 0) {
        int batch = n_iov < BATCH ? n_iov : BATCH;
        uint64_t bytes = source_iov_bytes(iov, batch);

        if (bytes && !source_scatter(s, iov, batch, off, err))
            return source_failed(s, err);
        iov += batch;
        n_iov -= batch;
        off += bytes;
    }
    return true;
}

bool zf_source_read_rows(struct zf_source *s, const struct zf_rows *r, struct zf_err *err)
{
    uint64_t last;

    if (r->count == 0 || r->n == 0)
        return true;
    if (!zf_mul_add(r->count - 1, r->step, r->off, &last))
        last = UINT64_MAX;
    if (!source_inside(s, r->n, r->off, err) || !source_inside(s, r->n, last, err))
        return false;
    if (s->ops->rows)
        return s->ops->rows(s, r, err) || source_failed(s, err);
    for (uint64_t i = 0; i < r->count; i++)
        if (!s->ops->pread(s, (char *)r->buf + i * r->pitch, r->n, r->off + i * r->step, err))
            return source_failed(s, err);
    return true;
}

struct zf_source *zf_source_origin(struct zf_source *s, uint64_t *off)
{
    struct zf_source *parent = NULL;

    while (s->ops->origin && s->ops->origin(s, off, &parent))
        s = parent;
    return s;
}

bool zf_source_is_far(struct zf_source *s)
{
    uint64_t off = 0;

    return zf_source_origin(s, &off)->ops->far;
}

bool zf_source_identity(const struct zf_source *s, struct zf_identity *out)
{
    if (s->ops->identity)
        *out = s->ops->identity(s);
    return s->ops->identity != NULL;
}

struct zf_shared zf_source_shared(struct zf_source *s)
{
    uint64_t at = 0;
    const struct zf_source *file = zf_source_origin(s, &at);

    return file->ops->shared ? file->ops->shared(file) : (struct zf_shared){.gate = NULL};
}

struct zf_source *zf_source_only_file(struct zf_source *s)
{
    uint64_t at = 0;
    struct zf_source *of = s->ops->only ? s->ops->only(s) : NULL;

    return of ? zf_source_origin(of, &at) : NULL;
}

struct zf_trace zf_source_trace(struct zf_source *s, uint64_t off, uint64_t len)
{
    struct zf_trace t = {.src = s, .off = off, .len = len};

    for (;;) {
        const struct zf_source_ops *ops = t.src->ops;

        if (ops->trace ? !ops->trace(t.src, &t)
                       : !ops->origin || !ops->origin(t.src, &t.off, &t.src))
            return t;
    }
}

struct zf_source *zf_source_ref(struct zf_source *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void zf_source_unref(struct zf_source **s)
{
    struct zf_source *gone = *s;

    *s = NULL;
    if (gone && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1)
        gone->ops->fini(gone);
}
