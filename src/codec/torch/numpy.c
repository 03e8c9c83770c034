/* SPDX-License-Identifier: Apache-2.0 */
/* numpy arrays and scalars, whose bytes are in the pickle.
 * Source: numpy/core/src/multiarray/methods.c array_reduce, array_setstate; descriptor.c. */
#include <string.h>

#include <zf/base/num.h>

#include "file.h"

/* Reads numpy.dtype('f4', False, True) with the state (3, '<', …), or a class of numpy.dtypes. */
static bool numpy_load_descr(struct zf_torch *t, const struct zf_pv *v, enum zf_dtype *out,
                             bool *big_out, struct zf_err *err)
{
    static const struct {
        const char *code, *class;
        enum zf_dtype dtype;
    } row[] = {
        {"f4", "Float32DType", ZF_DT_F32},   {"f8", "Float64DType", ZF_DT_F64},
        {"f2", "Float16DType", ZF_DT_F16},   {"i8", "Int64DType", ZF_DT_I64},
        {"i4", "Int32DType", ZF_DT_I32},     {"i2", "Int16DType", ZF_DT_I16},
        {"i1", "Int8DType", ZF_DT_I8},       {"u1", "UInt8DType", ZF_DT_U8},
        {"u2", "UInt16DType", ZF_DT_U16},    {"u4", "UInt32DType", ZF_DT_U32},
        {"u8", "UInt64DType", ZF_DT_U64},    {"b1", "BoolDType", ZF_DT_BOOL},
        {"c8", "Complex64DType", ZF_DT_C64}, {"c16", "Complex128DType", ZF_DT_C128},
    };
    bool dtype = zf_pv_is(v, "numpy", "dtype");
    const struct zf_pv *order = zf_pv_item(zf_pv_state(v), 1);

    *big_out = zf_pv_eq(order, ">");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if ((dtype && zf_pv_eq(zf_pv_arg(v, 0), row[i].code)) ||
            (zf_pv_is(v, "numpy.dtypes", row[i].class))) {
            *out = row[i].dtype;
            return true;
        }
    }
    return torch_bad(t, err, ZF_E_UNSUPPORTED,
                     "a numpy array of records, objects or another unusual type");
}

/* The dtype, shape, axis order and bytes, which the three forms have in different places. */
struct numpy_parts {
    const struct zf_pv *shape, *dtype, *bytes;
    bool fortran;
};

static struct numpy_parts numpy_take_parts(const struct torch_form *f)
{
    struct numpy_parts p = {.fortran = false};

    switch ((int)f->id) {
    case ZF_FORM_ARRAY: /* state: version, shape, dtype, is_fortran, bytes */
        p.shape = zf_pv_item(f->state, 1);
        p.dtype = zf_pv_item(f->state, 2);
        (void)zf_pv_bool(zf_pv_item(f->state, 3), &p.fortran);
        p.bytes = zf_pv_item(f->state, 4);
        break;
    case ZF_FORM_BUFFER: /* buffer, dtype, shape, order */
        p.bytes = zf_pv_item(f->args, 0);
        p.dtype = zf_pv_item(f->args, 1);
        p.shape = zf_pv_item(f->args, 2);
        p.fortran = zf_pv_eq(zf_pv_item(f->args, 3), "F");
        break;
    default:
        p.dtype = zf_pv_item(f->args, 0);
        p.bytes = zf_pv_item(f->args, 1);
    }
    return p;
}

/* Returns the bytes of an array.  Python 2 wrote them as a str, which is a text here if they happen
 * to be UTF-8. */
static bool numpy_load_data(struct zf_torch *t, const struct zf_pv *v, const char **out,
                            uint64_t *n_out, struct zf_err *err)
{
    if (zf_pv_kind(v) == ZF_PV_STR) {
        *out = zf_pv_text(v, n_out);
        return true;
    }
    return zf_pv_bytes(v, t->arena, out, n_out, err);
}

bool torch_numpy_load(struct zf_torch *t, const struct torch_form *f, struct zf_torch_tensor *out,
                      struct zf_err *err)
{
    struct numpy_parts p = numpy_take_parts(f);
    uint64_t *shape = NULL, *stride, n, want, step = 1;
    const char *data;
    bool big;

    if (!numpy_load_descr(t, p.dtype, &out->dtype, &big, err) ||
        (f->id != ZF_FORM_SCALAR && !torch_dims(t, p.shape, "shape", &out->ndim, &shape, err)) ||
        !numpy_load_data(t, p.bytes, &data, &n, err))
        return false;
    if (!zf_dtype_size(out->dtype, out->ndim, shape, &want) || want != n) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "a numpy array has %llu bytes, which does not match its shape",
                         (unsigned long long)n);
    }
    stride = zf_arena_get(t->arena, out->ndim, sizeof *stride, err);
    if (!stride)
        return false;
    zf_packed_strides(out->ndim, shape, stride);
    for (uint32_t d = 0; p.fortran && n && d < out->ndim; d++) {
        stride[d] = step;
        step *= shape[d];
    }
    void *copy = malloc(n ? n : 1); /* sources outlive the pickle */

    if (!copy)
        return zf_fail_sys(err, "allocate memory");
    memcpy(copy, data, n);
    const struct zf_dtype_info *info = zf_dtype_info(out->dtype);
    uint32_t width = info->kind == 'c' ? info->bytes / 2 : info->bytes;
    struct zf_source *mem = zf_mem_new(t->src->name, copy, n, true, err);

    if (!mem) {
        free(copy);
        return false;
    }
    if (big && width > 1 && n) {
        zf_auto(source) struct zf_source *raw = mem;

        mem = zf_swap_new(raw, width, err);
        if (!mem)
            return false;
    }
    out->storage = torch_store_own(t, out->dtype, mem, err);
    out->shape = shape;
    out->stride = stride;
    out->contiguous = !p.fortran || out->ndim < 2;
    return out->storage != NULL;
}
