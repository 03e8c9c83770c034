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
    {"float", ZF_DT_F32},       {"double", ZF_DT_F64},   {"half", ZF_DT_F16},
    {"short", ZF_DT_I16},       {"int", ZF_DT_I32},      {"long", ZF_DT_I64},
    {"cfloat", ZF_DT_C64},      {"cdouble", ZF_DT_C128}, {"chalf", ZF_DT_C32},
    {"bits1x8", ZF_DT_BITS1X8},
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

/* c10/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS (2.13). */
static const struct {
    int64_t id;
    enum zf_dtype t;
} scalar_types[] = {
    {0, ZF_DT_U8},       {1, ZF_DT_I8},           {2, ZF_DT_I16},          {3, ZF_DT_I32},
    {4, ZF_DT_I64},      {5, ZF_DT_F16},          {6, ZF_DT_F32},          {7, ZF_DT_F64},
    {8, ZF_DT_C32},      {9, ZF_DT_C64},          {10, ZF_DT_C128},        {11, ZF_DT_BOOL},
    {12, ZF_DT_QI8},     {13, ZF_DT_QU8},         {14, ZF_DT_QI32},        {15, ZF_DT_BF16},
    {16, ZF_DT_QU4X2},   {17, ZF_DT_QU2X4},       {18, ZF_DT_BITS1X8},     {19, ZF_DT_BITS2X4},
    {20, ZF_DT_BITS4X2}, {21, ZF_DT_BITS8},       {22, ZF_DT_BITS16},      {23, ZF_DT_F8_E5M2},
    {24, ZF_DT_F8_E4M3}, {25, ZF_DT_F8_E5M2FNUZ}, {26, ZF_DT_F8_E4M3FNUZ}, {27, ZF_DT_U16},
    {28, ZF_DT_U32},     {29, ZF_DT_U64},         {44, ZF_DT_F8_E8M0},     {45, ZF_DT_F4},
};

bool zf_dtype_by_scalar_type(int64_t id, enum zf_dtype *out)
{
    for (size_t i = 0; i < sizeof scalar_types / sizeof scalar_types[0]; i++) {
        if (scalar_types[i].id == id) {
            *out = scalar_types[i].t;
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
