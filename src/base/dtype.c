/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/dtype.h>

#include <string.h>

#include <zf/base/num.h>

static const struct zf_dtype_info table[ZF_DT_COUNT] = {
#define X(id, suffix_, bytes_, kind_, torch_, storage_, st, npy_)                                  \
    [ZF_DT_##id] = {.suffix = suffix_,                                                             \
                    .bytes = bytes_,                                                               \
                    .kind = kind_,                                                                 \
                    .torch = torch_,                                                               \
                    .storage = storage_,                                                           \
                    .safetensors = st,                                                             \
                    .npy = npy_},
    ZF_DTYPES(X)
#undef X
};

const struct zf_dtype_info *zf_dtype_info(enum zf_dtype t)
{
    return &table[t];
}

static bool same(const char *row, const char *name, size_t n)
{
    return row && strlen(row) == n && memcmp(row, name, n) == 0;
}

bool zf_dtype_by_suffix(const char *name, enum zf_dtype *out)
{
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        if (same(table[i].suffix, name, strlen(name))) {
            *out = (enum zf_dtype)i;
            return true;
        }
    }
    return false;
}

/* torch has second names for the common types: torch.float is torch.float32. */
static const struct {
    const char *name;
    enum zf_dtype t;
} second_names[] = {
    {"float", ZF_DT_F32},  {"double", ZF_DT_F64},   {"half", ZF_DT_F16},
    {"short", ZF_DT_I16},  {"int", ZF_DT_I32},      {"long", ZF_DT_I64},
    {"cfloat", ZF_DT_C64}, {"cdouble", ZF_DT_C128}, {"chalf", ZF_DT_C32},
};

bool zf_dtype_by_torch(const char *name, size_t n, enum zf_dtype *out)
{
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        if (same(table[i].torch, name, n)) {
            *out = (enum zf_dtype)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof second_names / sizeof second_names[0]; i++) {
        if (same(second_names[i].name, name, n)) {
            *out = second_names[i].t;
            return true;
        }
    }
    return false;
}

bool zf_dtype_by_storage(const char *name, size_t n, enum zf_dtype *out)
{
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        if (same(table[i].storage, name, n)) {
            *out = (enum zf_dtype)i;
            return true;
        }
    }
    return false;
}

bool zf_dtype_by_safetensors(const char *name, enum zf_dtype *out)
{
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        if (same(table[i].safetensors, name, strlen(name))) {
            *out = (enum zf_dtype)i;
            return true;
        }
    }
    return false;
}

bool zf_dtype_size(enum zf_dtype t, uint32_t ndim, const uint64_t *shape, uint64_t *out)
{
    uint64_t n;

    return zf_elems(ndim, shape, &n) && zf_mul(n, table[t].bytes, out);
}
