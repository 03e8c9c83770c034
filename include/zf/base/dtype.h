/* SPDX-License-Identifier: Apache-2.0 */
/* One table row a type: our file suffix, size, and each grammar's spelling of it.
 * Source: c10/core/ScalarType.h, torch/storage.py (2.13), safetensors' Dtype, numpy's format.py. */
#ifndef ZF_BASE_DTYPE_H
#define ZF_BASE_DTYPE_H

#include <zf/base/err.h>

/* X(ID, suffix, element bytes, kind, torch dtype name, torch legacy storage class or NULL,
 *   safetensors name or NULL, npy descr)
 * kind: 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'c' complex, 'q' quantized, 'x' opaque bits.
 * The sub-byte quantized types are carried as their packed bytes: shape counts bytes, not values.
 * F4 too: torch's shape counts bytes (pairs); only safetensors doubles the last extent. */
#define ZF_DTYPES(X)                                                                               \
    X(BOOL, "bool", 1, 'b', "bool", "BoolStorage", "BOOL", "|b1")                                  \
    X(U8, "u8", 1, 'u', "uint8", "ByteStorage", "U8", "|u1")                                       \
    X(I8, "i8", 1, 'i', "int8", "CharStorage", "I8", "|i1")                                        \
    X(I16, "i16", 2, 'i', "int16", "ShortStorage", "I16", "<i2")                                   \
    X(I32, "i32", 4, 'i', "int32", "IntStorage", "I32", "<i4")                                     \
    X(I64, "i64", 8, 'i', "int64", "LongStorage", "I64", "<i8")                                    \
    X(U16, "u16", 2, 'u', "uint16", NULL, "U16", "<u2")                                            \
    X(U32, "u32", 4, 'u', "uint32", NULL, "U32", "<u4")                                            \
    X(U64, "u64", 8, 'u', "uint64", NULL, "U64", "<u8")                                            \
    X(F16, "f16", 2, 'f', "float16", "HalfStorage", "F16", "<f2")                                  \
    X(BF16, "bf16", 2, 'f', "bfloat16", "BFloat16Storage", "BF16", "<V2")                          \
    X(F32, "f32", 4, 'f', "float32", "FloatStorage", "F32", "<f4")                                 \
    X(F64, "f64", 8, 'f', "float64", "DoubleStorage", "F64", "<f8")                                \
    X(C32, "c32", 4, 'c', "complex32", "ComplexHalfStorage", NULL, "|V4")                          \
    X(C64, "c64", 8, 'c', "complex64", "ComplexFloatStorage", "C64", "<c8")                        \
    X(C128, "c128", 16, 'c', "complex128", "ComplexDoubleStorage", NULL, "<c16")                   \
    X(F8_E4M3, "f8_e4m3", 1, 'f', "float8_e4m3fn", NULL, "F8_E4M3", "|V1")                         \
    X(F8_E5M2, "f8_e5m2", 1, 'f', "float8_e5m2", NULL, "F8_E5M2", "|V1")                           \
    X(F8_E4M3FNUZ, "f8_e4m3fnuz", 1, 'f', "float8_e4m3fnuz", NULL, "F8_E4M3FNUZ", "|V1")           \
    X(F8_E5M2FNUZ, "f8_e5m2fnuz", 1, 'f', "float8_e5m2fnuz", NULL, "F8_E5M2FNUZ", "|V1")           \
    X(F8_E8M0, "f8_e8m0", 1, 'f', "float8_e8m0fnu", NULL, "F8_E8M0", "|V1")                        \
    X(F4, "f4", 1, 'x', "float4_e2m1fn_x2", NULL, "F4", "|V1")                                     \
    X(QI8, "qi8", 1, 'q', "qint8", "QInt8Storage", NULL, "|i1")                                    \
    X(QU8, "qu8", 1, 'q', "quint8", "QUInt8Storage", NULL, "|u1")                                  \
    X(QI32, "qi32", 4, 'q', "qint32", "QInt32Storage", NULL, "<i4")                                \
    X(QU4X2, "qu4x2", 1, 'q', "quint4x2", "QUInt4x2Storage", NULL, "|u1")                          \
    X(QU2X4, "qu2x4", 1, 'q', "quint2x4", "QUInt2x4Storage", NULL, "|u1")                          \
    X(BITS1X8, "bits1x8", 1, 'x', "bits1x8", NULL, NULL, "|u1")                                    \
    X(BITS2X4, "bits2x4", 1, 'x', "bits2x4", NULL, NULL, "|u1")                                    \
    X(BITS4X2, "bits4x2", 1, 'x', "bits4x2", NULL, NULL, "|u1")                                    \
    X(BITS8, "bits8", 1, 'x', "bits8", NULL, NULL, "|u1")                                          \
    X(BITS16, "bits16", 2, 'x', "bits16", NULL, NULL, "<u2")

enum zf_dtype {
#define X(id, ...) ZF_DT_##id,
    ZF_DTYPES(X)
#undef X
        ZF_DT_COUNT
};

struct zf_dtype_info {
    const char *suffix; /* file suffix without the dot */
    uint32_t bytes;     /* of one element */
    char kind;
    const char *torch;       /* torch.<name> */
    const char *storage;     /* torch.<XStorage>, or NULL: travels as UntypedStorage */
    const char *safetensors; /* or NULL */
    const char *npy;         /* numpy descr */
};

/* The row of a type; t must be one of the enum. */
const struct zf_dtype_info *zf_dtype_info(enum zf_dtype t);

/* The little-endian bytes of a quiet NaN of the type, of both halves of a complex one; returns how
 * many there are, 0 for a type without NaN. */
uint32_t zf_dtype_nan(enum zf_dtype t, uint8_t out[16]);

/* Finds a type by a grammar's name; false when no row has it. */
bool zf_dtype_by_torch(const char *name, size_t n, enum zf_dtype *out) ZF_CHECKED;
bool zf_dtype_by_storage(const char *name, size_t n, enum zf_dtype *out) ZF_CHECKED;
bool zf_dtype_by_safetensors(const char *name, enum zf_dtype *out) ZF_CHECKED;

/* Bytes of a tensor; false on overflow. */
bool zf_dtype_size(enum zf_dtype t, uint32_t ndim, const uint64_t *shape, uint64_t *out) ZF_CHECKED;

#endif
