# SPDX-License-Identifier: Apache-2.0
"""Small readers of what zerofs writes: .npy, safetensors and torch zips, from their specifications, with the
standard library only; and the widening to float32 that a .npy shows."""
import ast
import io
import json
import math
import pickle
import struct
import zipfile

# torch's name: (file suffix, bytes of an element, safetensors' name, numpy's descr)
TYPES = {
    "bool": ("bool", 1, "BOOL", "|b1"),
    "uint8": ("u8", 1, "U8", "|u1"), "int8": ("i8", 1, "I8", "|i1"),
    "int16": ("i16", 2, "I16", "<i2"), "uint16": ("u16", 2, "U16", "<u2"),
    "int32": ("i32", 4, "I32", "<i4"), "uint32": ("u32", 4, "U32", "<u4"),
    "int64": ("i64", 8, "I64", "<i8"), "uint64": ("u64", 8, "U64", "<u8"),
    "float16": ("f16", 2, "F16", "<f2"), "bfloat16": ("bf16", 2, "BF16", "<f4"),
    "float32": ("f32", 4, "F32", "<f4"), "float64": ("f64", 8, "F64", "<f8"),
    "complex32": ("c32", 4, None, "<c8"), "complex64": ("c64", 8, "C64", "<c8"),
    "complex128": ("c128", 16, None, "<c16"),
    "float8_e4m3fn": ("f8_e4m3", 1, "F8_E4M3", "<f4"), "float8_e5m2": ("f8_e5m2", 1, "F8_E5M2", "<f4"),
    "float8_e4m3fnuz": ("f8_e4m3fnuz", 1, "F8_E4M3FNUZ", "<f4"),
    "float8_e5m2fnuz": ("f8_e5m2fnuz", 1, "F8_E5M2FNUZ", "<f4"),
    "float8_e8m0fnu": ("f8_e8m0", 1, "F8_E8M0", "<f4"), "float4_e2m1fn_x2": ("f4", 1, "F4", "|V1"),
    "qint8": ("qi8", 1, None, "|i1"), "quint8": ("qu8", 1, None, "|u1"), "qint32": ("qi32", 4, None, "<i4"),
    "quint4x2": ("qu4x2", 1, None, "|u1"), "quint2x4": ("qu2x4", 1, None, "|u1"),
    "bits1x8": ("bits1x8", 1, None, "|u1"), "bits2x4": ("bits2x4", 1, None, "|u1"),
    "bits4x2": ("bits4x2", 1, None, "|u1"), "bits8": ("bits8", 1, None, "|u1"),
    "bits16": ("bits16", 2, None, "<u2"),
}
SUFFIXES = {row[0]: name for name, row in TYPES.items()}
INTEGERS_OF = {"qint8": "int8", "quint8": "uint8", "qint32": "int32", "quint4x2": "uint8", "quint2x4": "uint8"}
STORAGES = {
    "Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}


def elements(shape):
    return math.prod(shape)


# ---- .npy (numpy/lib/format.py) --------------------------------------------------------------------------

def npy(data):
    """(descr, shape, bytes)"""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (n,) = struct.unpack_from("<H", data, 8)
    assert (10 + n) % 64 == 0 and data[10 + n - 1:10 + n] == b"\n", "header is not padded to 64 bytes"
    head = ast.literal_eval(data[10:10 + n].decode("latin1").strip())
    assert set(head) == {"descr", "fortran_order", "shape"} and head["fortran_order"] is False, head
    assert isinstance(head["shape"], tuple), head
    return head["descr"], head["shape"], data[10 + n:]


def float_bits(sign, exponent, mantissa, bits, bias):
    """The float32 of a small float with an ordinary exponent field."""
    if exponent == 0:
        value = math.ldexp(mantissa, 1 - bias - bits)
    else:
        value = math.ldexp((1 << bits) + mantissa, exponent - bias - bits)
    return struct.pack("<f", -value if sign else value)


def f8(byte, name):
    """One float8 as the four bytes of its float32 (OCP 8-bit floating point; fnuz: one zero, one NaN)."""
    if name == "float8_e8m0fnu":
        return struct.pack("<I", 0x7F800001) if byte == 255 else struct.pack("<f", math.ldexp(1, byte - 127))
    bits = 3 if "e4m3" in name else 2
    sign, rest = byte >> 7, byte & 0x7F
    exponent, mantissa = rest >> bits, rest & ((1 << bits) - 1)
    if name.endswith("fnuz"):
        if byte == 0x80:
            return struct.pack("<I", 0x7F800001)
        return float_bits(sign, exponent, mantissa, bits, 8 if bits == 3 else 16)
    if name == "float8_e4m3fn" and rest == 0x7F:
        return struct.pack("<I", sign << 31 | 0x7FF00000)
    if name == "float8_e5m2" and exponent == 31:
        return struct.pack("<I", sign << 31 | 0x7F800000 | (0x400000 | mantissa << 21 if mantissa else 0))
    return float_bits(sign, exponent, mantissa, bits, 7 if bits == 3 else 15)


def f16(half):
    """One float16 as the four bytes of its float32; a NaN becomes quiet and keeps its payload."""
    if half & 0x7C00 == 0x7C00 and half & 0x3FF:
        return struct.pack("<I", (half & 0x8000) << 16 | 0x7FC00000 | (half & 0x3FF) << 13)
    return struct.pack("<f", struct.unpack("<e", struct.pack("<H", half))[0])


def widened(raw, name):
    """What stands in the .npy for the raw bytes of torch type `name`."""
    if name == "bfloat16":
        return b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    if name == "complex32":
        return b"".join(f16(h) for (h,) in struct.iter_unpack("<H", raw))
    if name.startswith("float8"):
        return b"".join(f8(b, name) for b in raw)
    return raw


# ---- safetensors (the reference's tensor.rs) -------------------------------------------------------------

def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(set(keys)) == len(keys), "a key stands twice"
    return dict(pairs)


def safetensors(data):
    """{name: (safetensors type, shape, bytes)}, every rule of the reference checked."""
    (n,) = struct.unpack_from("<Q", data)
    assert n <= 100_000_000 and 8 + n <= len(data) and n % 8 == 0 and data[8:9] == b"{"
    head = json.loads(data[8:8 + n].decode("utf8"), object_pairs_hook=unique)
    assert head.pop("__metadata__") == {"format": "pt"}
    bits = {row[2]: 8 * row[1] for row in TYPES.values() if row[2]}
    bits["F4"] = 4
    at, out = 0, {}
    for name, e in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        lo, hi = e["data_offsets"]
        assert lo == at and hi >= lo, f"{name}: a hole or an overlap at {at}"
        assert elements(e["shape"]) * bits[e["dtype"]] == 8 * (hi - lo), f"{name}: size and shape differ"
        assert e["dtype"] == "F4" or lo % (bits[e["dtype"]] // 8) == 0, f"{name} is not aligned"
        out[name] = (e["dtype"], tuple(e["shape"]), data[8 + n + lo:8 + n + hi])
        at = hi
    assert 8 + n + at == len(data), "bytes behind the last tensor"
    return out


# ---- torch's zip (torch/serialization.py) ----------------------------------------------------------------

class Stub:
    def __init__(self, name):
        self.name = name

    def __call__(self, *args):
        return (self.name, *args)


class Unpickler(pickle.Unpickler):
    """Knows the few names torch's weights_only loader would accept here, and nothing else."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return Stub(name)
        if (module, name) == ("torch.storage", "UntypedStorage") or module == "torch":
            return Stub(name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")

    def persistent_load(self, pid):
        word, kind, key, where, count = pid
        assert word == "storage" and where == "cpu"
        return kind.name, key, count


def member(zf, name):
    """A member's bytes: the CRC is compared for the small ones, which are the only ones that have any."""
    info = zf.getinfo(name)
    assert info.compress_type == zipfile.ZIP_STORED and info.flag_bits == 0x800
    if "/data/" in name:
        assert not info.CRC
        info.CRC = None
    return zf.read(info)


def strides(shape):
    out, n = [], 1
    for extent in reversed(shape):
        out.insert(0, n)
        n *= max(extent, 1)
    return tuple(out)


def torch_zip(data):
    """{name: (torch type, shape, bytes, storage key)}"""
    assert data[:4] == b"PK\3\4"
    zf = zipfile.ZipFile(io.BytesIO(data))
    names = zf.namelist()
    assert len(set(names)) == len(names) and names[0] == "archive/data.pkl"
    assert member(zf, "archive/version") == b"3\n" and member(zf, "archive/byteorder") == b"little"
    for info in zf.infolist():
        n, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
        start = info.header_offset + 30 + n + extra
        assert start % 64 == 0, f"{info.filename} begins at {start}"
    out = {}
    used = set()
    for name, t in Unpickler(io.BytesIO(member(zf, "archive/data.pkl"))).load().items():
        rebuild, (kind, key, count), offset, shape, stride, grad, hooks = t[:7]
        payload = member(zf, f"archive/data/{key}")
        if rebuild == "_rebuild_tensor_v3":
            assert kind == "UntypedStorage" and count == len(payload)
            dtype = t[7].name
        else:
            dtype = STORAGES[kind[:-len("Storage")]]
            assert len(t) == 7 and count * TYPES[dtype][1] == len(payload)
        assert offset == 0 and stride == strides(shape) and grad is False and hooks == {}
        assert elements(shape) * TYPES[dtype][1] == len(payload), name
        out[name] = (dtype, shape, payload, key)
        used.add(f"archive/data/{key}")
    assert used == {n for n in names if "/data/" in n}, "a storage nobody uses"
    return out
