/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a pickle for torch.load(weights_only=True): a dict of _rebuild_tensor_v2 calls with one
 * storage per tensor, in protocol 2, as torch.save writes it. */
#include <zf/codec/torch_write.h>

#include <inttypes.h>
#include <stdio.h>

#include <zf/base/num.h>

/* Opcodes of protocol 2 (Lib/pickle.py). */
enum {
    OP_PROTO = 0x80,
    OP_EMPTY_DICT = '}',
    OP_MARK = '(',
    OP_BINUNICODE = 'X',
    OP_GLOBAL = 'c',
    OP_TUPLE = 't',
    OP_EMPTY_TUPLE = ')',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_NEWFALSE = 0x89,
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BININT = 'J',
    OP_LONG1 = 0x8a,
    OP_SETITEMS = 'u',
    OP_STOP = '.',
};

static void write_put_text(struct zf_out *o, const char *p, size_t n)
{
    zf_out_u8(o, OP_BINUNICODE);
    zf_out_le32(o, (uint32_t)n);
    zf_out_add(o, p, n);
}

static void write_put_global(struct zf_out *o, const char *module, const char *name)
{
    zf_out_u8(o, OP_GLOBAL);
    zf_out_str(o, module);
    zf_out_u8(o, '\n');
    zf_out_str(o, name);
    zf_out_u8(o, '\n');
}

static void write_put_int(struct zf_out *o, uint64_t v)
{
    if (v <= UINT8_MAX) {
        zf_out_u8(o, OP_BININT1);
        zf_out_u8(o, (uint8_t)v);
    } else if (v <= UINT16_MAX) {
        zf_out_u8(o, OP_BININT2);
        zf_out_le16(o, (uint16_t)v);
    } else if (v <= INT32_MAX) {
        zf_out_u8(o, OP_BININT);
        zf_out_le32(o, (uint32_t)v);
    } else {
        /* Nine bytes keep the sign bit clear for every uint64_t. */
        zf_out_u8(o, OP_LONG1);
        zf_out_u8(o, 9);
        zf_out_le64(o, v);
        zf_out_u8(o, 0);
    }
}

static void write_put_ints(struct zf_out *o, uint32_t n, const uint64_t *v)
{
    if (n == 0) {
        zf_out_u8(o, OP_EMPTY_TUPLE);
        return;
    }
    zf_out_u8(o, OP_MARK);
    for (uint32_t i = 0; i < n; i++)
        write_put_int(o, v[i]);
    zf_out_u8(o, OP_TUPLE);
}

/* Writes the strides of a packed tensor, each computed anew, so that no array is needed. */
static void write_put_strides(struct zf_out *o, uint32_t ndim, const uint64_t *shape)
{
    if (ndim == 0) {
        zf_out_u8(o, OP_EMPTY_TUPLE);
        return;
    }
    uint64_t n = 1;
    for (uint32_t d = 1; d < ndim; d++)
        n *= shape[d] ? shape[d] : 1;
    zf_out_u8(o, OP_MARK);
    for (uint32_t d = 0; d < ndim; d++) {
        write_put_int(o, n);
        if (d + 1 < ndim)
            n /= shape[d + 1] ? shape[d + 1] : 1;
    }
    zf_out_u8(o, OP_TUPLE);
}

/* The dtype to write: a quantized tensor, for which torch.load would require scales, is written as its
 * plain integers; the scales are separate tensors. */
static enum zf_dtype write_written_as(enum zf_dtype t)
{
    switch (t) {
    case ZF_DT_QI8:
        return ZF_DT_I8;
    case ZF_DT_QU8:
    case ZF_DT_QU4X2:
    case ZF_DT_QU2X4:
        return ZF_DT_U8;
    case ZF_DT_QI32:
        return ZF_DT_I32;
    default:
        return t;
    }
}

void zf_torch_write_begin(struct zf_out *o)
{
    zf_out_u8(o, OP_PROTO);
    zf_out_u8(o, 2);
    zf_out_u8(o, OP_EMPTY_DICT);
    zf_out_u8(o, OP_MARK);
}

void zf_torch_write_tensor(struct zf_out *o, const struct zf_torch_write *t)
{
    const struct zf_dtype_info *info = zf_dtype_info(write_written_as(t->dtype));
    /* Types without a storage class of their own are written as UntypedStorage and a dtype. */
    bool untyped = !info->storage || info->kind == 'x' || write_written_as(t->dtype) == ZF_DT_C32;
    char key[24];
    uint64_t n = 0;

    /* The shape was checked when the tensor was built. */
    (void)!zf_elems(t->ndim, t->shape, &n);
    write_put_text(o, t->name, t->name_len);
    write_put_global(o, "torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    zf_out_u8(o, OP_MARK);
    zf_out_u8(o, OP_MARK);
    write_put_text(o, "storage", 7);
    write_put_global(o, untyped ? "torch.storage" : "torch",
                     untyped ? "UntypedStorage" : info->storage);
    write_put_text(o, key, (size_t)snprintf(key, sizeof key, "%" PRIu64, t->storage));
    write_put_text(o, "cpu", 3);
    write_put_int(o, untyped ? n * info->bytes : n);
    zf_out_u8(o, OP_TUPLE);
    zf_out_u8(o, OP_BINPERSID);
    write_put_int(o, 0);
    write_put_ints(o, t->ndim, t->shape);
    write_put_strides(o, t->ndim, t->shape);
    zf_out_u8(o, OP_NEWFALSE);
    write_put_global(o, "collections", "OrderedDict");
    zf_out_u8(o, OP_EMPTY_TUPLE);
    zf_out_u8(o, OP_REDUCE);
    if (untyped)
        write_put_global(o, "torch", info->torch);
    zf_out_u8(o, OP_TUPLE);
    zf_out_u8(o, OP_REDUCE);
}

void zf_torch_write_end(struct zf_out *o)
{
    zf_out_u8(o, OP_SETITEMS);
    zf_out_u8(o, OP_STOP);
}
