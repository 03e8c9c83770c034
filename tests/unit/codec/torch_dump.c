/* SPDX-License-Identifier: Apache-2.0 */
/* What zerofs makes of a torch.save file, for test_torch.py.
 *
 *   torch_dump FILE          a line for each tensor: path, kind, dtype, shape, and its bytes in hex
 *                            or why there are none
 *   torch_dump --cut N FILE  opens the file cut off at each Nth byte; each must be refused or whole */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/codec/dtensor.h>
#include <zf/source/store.h>

#include "codec/torch/file.h"

#define DEPTH 40

struct dump {
    struct zf_torch *t;
    FILE *out;
    struct zf_err err;
    bool ok;
    char path[2048];
    int depth;
};

static void visit(struct dump *d, const struct zf_pv *v, const char *name, size_t n);

static void failed(struct dump *d, const struct zf_err *err)
{
    d->ok = d->ok && (d->err = *err, false);
}

static void put_dims(FILE *out, uint32_t n, const uint64_t *p)
{
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "%s%" PRIu64, i ? "," : "", p[i]);
}

static void put_head(struct dump *d, const char *kind, enum zf_dtype t, uint32_t ndim,
                     const uint64_t *shape)
{
    fprintf(d->out, "%s\t%s\t%s\t", d->path, kind, zf_dtype_info(t)->torch);
    put_dims(d->out, ndim, shape);
    fputc('\t', d->out);
}

/* Every element by its strides: slow, and independent of what the map does. */
static void put_tensor(struct dump *d, const struct zf_torch_tensor *ten)
{
    uint64_t n = 1, es = zf_dtype_info(ten->dtype)->bytes;
    struct zf_err err;

    put_head(d, ten->storage->src ? "dense" : "meta", ten->dtype, ten->ndim, ten->shape);
    for (uint32_t i = 0; i < ten->ndim; i++) {
        n = ten->shape[i] ? n * ten->shape[i] : 0;
        if (n == 0)
            break;
    }
    for (uint64_t i = 0; ten->storage->src && i < n && i < 100000; i++) {
        uint64_t at = ten->off_elems, rest = i;
        uint8_t p[16];

        for (uint32_t k = ten->ndim; k-- > 0;) {
            at += rest % ten->shape[k] * ten->stride[k];
            rest /= ten->shape[k];
        }
        if (!zf_source_pread(ten->storage->src, p, (size_t)es, at * es, &err)) {
            failed(d, &err);
            break;
        }
        for (uint64_t k = 0; k < es; k++)
            fprintf(d->out, "%02x", p[k]);
    }
    fputc('\n', d->out);
}

static bool put_part(void *ctx, const struct zf_torch_part *part, struct zf_err *err)
{
    struct dump *d = ctx;
    size_t len = strlen(d->path);

    (void)err;
    (void)snprintf(d->path + len, sizeof d->path - len, "%s%s", len ? "." : "", part->name);
    if (part->tensor) {
        put_tensor(d, part->tensor);
    } else if (zf_torch_kind(d->t, part->value) == ZF_TORCH_NOT) {
        double f = 0;
        int64_t i = 0;

        if (!zf_pv_float(part->value, &f) && zf_pv_int(part->value, &i))
            f = (double)i;
        fprintf(d->out, "%s\tnumber\t-\t\t%g\n", d->path, f);
    } else {
        visit(d, part->value, "", 0);
    }
    d->path[len] = '\0';
    return true;
}

static void put_dtensor(struct dump *d, const struct zf_pv *v)
{
    static const char *const place[] = {"replicate", "shard", "strided", "partial"};
    struct zf_dtensor dt;
    struct zf_err err;

    if (!zf_torch_dtensor(d->t, v, &dt, &err)) {
        failed(d, &err);
        return;
    }
    put_head(d, "dtensor", dt.dtype, dt.ndim, dt.shape);
    for (uint32_t i = 0; i < dt.n_axes; i++) {
        const struct zf_mesh_axis *a = &dt.axis[i];

        fprintf(d->out, "%s%" PRIu64 "/%" PRIu64 ":%s:%u", i ? " " : "", a->coord, a->size,
                place[a->place], a->dim);
    }
    fputs("\t", d->out);
    put_dims(d->out, (uint32_t)dt.n_ranks, dt.rank);
    fputs("\n", d->out);
    visit(d, dt.local, "local", 5);
}

static void put_sharded(struct dump *d, const struct zf_pv *v)
{
    struct zf_sharded s;
    struct zf_err err;
    char name[24];

    if (!zf_torch_sharded(d->t, v, &s, &err)) {
        failed(d, &err);
        return;
    }
    put_head(d, "sharded", s.dtype, s.ndim, s.shape);
    fprintf(d->out, "%" PRId64 "/%" PRId64 "\n", s.rank, s.world);
    for (uint64_t i = 0; i < s.n_all; i++) {
        fprintf(d->out, "%s\tbox\t%" PRId64 "\t", d->path, s.all[i].rank);
        put_dims(d->out, s.ndim, s.all[i].off);
        fputc('\t', d->out);
        put_dims(d->out, s.ndim, s.all[i].size);
        fputc('\n', d->out);
    }
    for (uint64_t i = 0; i < s.n_local; i++) {
        int n = snprintf(name, sizeof name, "shard%" PRIu64, i);

        fprintf(d->out, "%s\tlocal\t-\t", d->path);
        put_dims(d->out, s.ndim, s.local[i].off);
        fprintf(d->out, "\t%" PRIu64 "\n", i);
        visit(d, s.local[i].tensor, name, (size_t)n);
    }
}

static void put_children(struct dump *d, const struct zf_pv *v)
{
    uint64_t n = zf_pv_len(v), len;
    char digits[24];

    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *key = zf_pv_key(v, i);
        int64_t number = (int64_t)i;
        const char *text = zf_pv_text(key, &len);

        if (!text) {
            (void)zf_pv_int(key, &number);
            len = (uint64_t)snprintf(digits, sizeof digits, "%" PRId64, number);
            text = digits;
        }
        visit(d, key ? zf_pv_val(v, i) : zf_pv_item(v, i), text, (size_t)len);
    }
    if (zf_pv_kind(v) == ZF_PV_CALL)
        visit(d, zf_pv_state(v), "", 0);
}

static void visit(struct dump *d, const struct zf_pv *v, const char *name, size_t n)
{
    size_t len = strlen(d->path);
    struct zf_torch_tensor ten;
    struct zf_err err;

    if (!v || d->depth == DEPTH || len + n + 2 >= sizeof d->path)
        return;
    (void)snprintf(d->path + len, sizeof d->path - len, "%s%.*s", len && n ? "." : "", (int)n,
                   name);
    d->depth++;
    switch (zf_torch_kind(d->t, v)) {
    case ZF_TORCH_DENSE:
    case ZF_TORCH_META:
    case ZF_TORCH_NUMPY:
    case ZF_TORCH_OPAQUE:
        if (zf_torch_tensor(d->t, v, &ten, &err))
            put_tensor(d, &ten);
        else if (zf_torch_kind(d->t, v) != ZF_TORCH_NUMPY) /* arrays of objects are no loss */
            failed(d, &err);
        break;
    case ZF_TORCH_PARTS:
        if (!zf_torch_parts(d->t, v, put_part, d, &err))
            failed(d, &err);
        break;
    case ZF_TORCH_DTENSOR:
        put_dtensor(d, v);
        break;
    case ZF_TORCH_SHARDED:
        put_sharded(d, v);
        break;
    case ZF_TORCH_NOT:
        put_children(d, v);
    }
    d->depth--;
    d->path[len] = '\0';
}

static bool dump(struct zf_source *src, FILE *out, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, &lim, err);
    struct dump d = {.t = t, .out = out, .ok = true};

    if (!t)
        return false;
    fprintf(out, "\tcontainer\t%s\t\t\n", t->ops->name);
    visit(&d, zf_torch_root(t), "", 0);
    *err = d.err;
    return d.ok;
}

static int cut(struct zf_source *src, uint64_t step)
{
    zf_auto(mem) uint8_t *p = malloc(src->size);
    FILE *out = fopen("/dev/null", "w");
    struct zf_err err;
    unsigned whole = 0;

    if (!p || !out || !zf_source_pread(src, p, src->size, 0, &err))
        return 2;
    for (uint64_t n = 0; n < src->size; n += step) {
        void *copy = malloc(n ? n : 1);

        if (!copy)
            return 2;
        memcpy(copy, p, n);
        zf_auto(source) struct zf_source *mem = zf_mem_new("cut", copy, n, true, &err);
        whole += mem && dump(mem, out, &err);
        if (err.msg[0] == '\0')
            return 2;
    }
    (void)fclose(out);
    printf("%u of the cut files were read without complaint\n", whole);
    return whole != 0;
}

int main(int argc, char **argv)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    char text[800];
    const char *path = argc > 1 ? argv[argc - 1] : "";
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    zf_auto(store) struct zf_store *st = zf_store_dir(path, &lim, &err);
    zf_auto(source) struct zf_source *src = st ? zf_store_open(st, base, &err) : NULL;

    if (src && argc == 4)
        return cut(src, strtoull(argv[2], NULL, 10));
    if (!src || !dump(src, stdout, &err)) {
        fprintf(stderr, "%s\n", zf_err_text(&err, text, sizeof text));
        return 1;
    }
    return 0;
}
