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

/* A NaN is its one or two upper bytes, the others being 0; e8m0 and the fnuz types have only one NaN. */
uint32_t zf_dtype_nan(enum zf_dtype t, uint8_t out[16])
{
    static const struct {
        uint8_t half, top, next; /* size of a number in bytes, and its two upper bytes */
    } nan[ZF_DT_COUNT] = {
        [ZF_DT_F16] = {2, 0x7e, 0},         [ZF_DT_BF16] = {2, 0x7f, 0xc0},
        [ZF_DT_F32] = {4, 0x7f, 0xc0},      [ZF_DT_F64] = {8, 0x7f, 0xf8},
        [ZF_DT_C32] = {2, 0x7e, 0},         [ZF_DT_C64] = {4, 0x7f, 0xc0},
        [ZF_DT_C128] = {8, 0x7f, 0xf8},     [ZF_DT_F8_E4M3] = {1, 0x7f, 0},
        [ZF_DT_F8_E5M2] = {1, 0x7e, 0},     [ZF_DT_F8_E4M3FNUZ] = {1, 0x80, 0},
        [ZF_DT_F8_E5M2FNUZ] = {1, 0x80, 0}, [ZF_DT_F8_E8M0] = {1, 0xff, 0},
    };
    uint32_t n = nan[t].half ? table[t].bytes : 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t left = nan[t].half - i % nan[t].half;

        out[i] = left == 1 ? nan[t].top : left == 2 ? nan[t].next : 0;
    }
    return n;
}

static bool dtype_same(const char *row, const char *name, size_t n)
{
    return row && strlen(row) == n && memcmp(row, name, n) == 0;
}

/* column: offset of the names of one grammar (numpy, torch, …) in a row. */
static bool dtype_find(size_t column, const char *name, size_t n, enum zf_dtype *out)
{
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        const char *row;

        memcpy(&row, (const char *)&table[i] + column, sizeof row);
        if (dtype_same(row, name, n)) {
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
    if (dtype_find(offsetof(struct zf_dtype_info, torch), name, n, out))
        return true;
    for (size_t i = 0; i < sizeof second_names / sizeof second_names[0]; i++) {
        if (dtype_same(second_names[i].name, name, n)) {
            *out = second_names[i].t;
            return true;
        }
    }
    return false;
}

bool zf_dtype_by_storage(const char *name, size_t n, enum zf_dtype *out)
{
    return dtype_find(offsetof(struct zf_dtype_info, storage), name, n, out);
}

bool zf_dtype_by_safetensors(const char *name, enum zf_dtype *out)
{
    return dtype_find(offsetof(struct zf_dtype_info, safetensors), name, strlen(name), out);
}

bool zf_dtype_size(enum zf_dtype t, uint32_t ndim, const uint64_t *shape, uint64_t *out)
{
    uint64_t n;

    return zf_elems(ndim, shape, &n) && zf_mul(n, table[t].bytes, out);
}
