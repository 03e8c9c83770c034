# SPDX-License-Identifier: Apache-2.0
"""Safetensors files without an index, written here byte by byte."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Case, main  # noqa: E402

A = {"a": ("U8", [4], b"1234")}
SIZES = {"BOOL": 1, "U8": 1, "F8_E4M3": 1, "I16": 2, "BF16": 2, "F16": 2, "F32": 4, "C64": 8, "F64": 8, "I64": 8}
SUFFIX = {"F8_E4M3": "f8_e4m3"}


def every_dtype_any_shape():
    r = random.Random(7)
    tensors = {}
    for dtype, size in SIZES.items():
        for ndim in range(4):
            shape = [r.randrange(0, 6) for _ in range(ndim)]
            n = size
            for d in shape:
                n *= d
            tensors[f"{dtype}.{ndim}"] = (dtype, shape, r.randbytes(n))
    with Case() as c:
        c.safetensors("model.safetensors", tensors)
        for name, (dtype, _, raw) in tensors.items():
            c.cat(f"{name}.{SUFFIX.get(dtype, dtype.lower())}", raw)


def odd_names():
    with Case() as c:
        c.safetensors("x.safetensors", {"a/b": A["a"], ".hidden": A["a"], "with space": A["a"], "é%": A["a"]})
        for name in ("a%2Fb.u8", "%2Ehidden.u8", "with space.u8", "é%25.u8"):
            c.cat(name, b"1234")


def states_of_an_optimizer():
    """Where the name of a weight ends is known from the weight, wherever it is among the names."""
    for weight in ("a.weight", "z.weight"):
        with Case() as c:
            c.safetensors("x.safetensors", {weight: A["a"], f"optimizer.state.{weight}.mu.first": ("U8", [4], b"5678")})
            c.cat(weight + ".u8", b"1234")
            c.cat(f"optim/mu.first/{weight}.u8", b"5678")


def several_files():
    with Case() as c:
        c.safetensors("one.safetensors", A)
        c.safetensors("two.safetensors", {"b": ("U8", [], b"b")})
        c.cat("a.u8", b"1234")
        c.cat("b.u8", b"b")


def one_file_of_several():
    with Case() as c:
        c.safetensors("model-00001-of-00002.safetensors", A)
        c.told("this is file 1 of 2", at="model-00001-of-00002.safetensors")
        c.refused("file 00002 of 00002 of the series model is missing")
        c.cat("a.u8", b"1234", "-o", "degraded")
    for name, part in (("mixture-of-experts-00001-of-00002", "file 00002 of 00002 of the series mixture-of-experts is missing"),
                       ("model-00001-of-00002.fp16", "file 00002 of 00002 of the series model is missing"),
                       ("model_00001_of_00002", "file 00002 of 00002 of the series model is missing"),
                       ("model-1-of-2", "file 2 of 2 of the series model is missing")):
        with Case() as c:
            c.safetensors(f"{name}.safetensors", A)
            c.refused(part)
    with Case() as c:  # 1 of 2, 2 and 3 of 3
        for i, name in enumerate(("model-00001-of-00002", "model-00002-of-00003", "model-00003-of-00003")):
            c.safetensors(f"{name}.safetensors", {f"t{i}": A["a"]})
        c.refused("of the series model is missing")


def same_names_apart():
    with Case() as c:
        c.safetensors("model.safetensors", A)
        c.safetensors("ema.safetensors", {"a": ("U8", [4], b"5678")})
        c.cat("a.u8", b"1234")
        c.cat("ema/a.u8", b"5678")


def cut_short():
    with Case() as c:
        c.safetensors("x.safetensors", {"a": ("U8", [4], b"1234"), "b": ("U8", [4], b"5678")}, cut=2)
        c.refused("x.safetensors", "its header describes")
        c.cat("a.u8", b"1234", "-o", "degraded")
        assert c.run("cat", "b.u8", "-o", "degraded").returncode == 5


def damaged_headers():
    def header(text, data=b"1234"):
        return len(text).to_bytes(8, "little") + text + data

    entry = b'{"dtype":"U8","shape":[4],"data_offsets":[%d,%d]}'
    bad = {
        b'{"a":' + entry % (0, 4) + b',"a":' + entry % (0, 4) + b"}": "duplicate",
        b'{"a":' + entry % (1, 5) + b"}": "hole",
        b'{"a":' + entry % (0, 3) + b"}": "need 4",
        b'{"a":' + b"[" * 100000 + b"}": "json_depth",
        b'{"a":{"dtype":"X9","shape":[4],"data_offsets":[0,4]}}': "unknown dtype",
        b'{"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}': "not a size",
    }
    for text, part in bad.items():
        with Case() as c:
            c.file("x.safetensors", header(text))
            c.refused("x.safetensors", part)
    with Case() as c:
        c.file("x.safetensors", b"\xff" * 7)
        c.refused("x.safetensors", "found 7 bytes")
        c.file("x.safetensors", b"\xff" * 64)
        c.refused("x.safetensors", "safetensors allows 100000000")


def headers_beyond_limits():
    deep = {"a": ("U8", [1] * 65, b"1")}
    for tensors, opts, part in ((deep, (), 'tensor "a" has 65 dimensions, more than 64 (limit tensor_dims)'),
                                ({**A, "b": A["a"]}, ("-o", "limit=tensors=1"), "more than 1 tensors (limit tensors)"),
                                (deep, ("-o", "limit=json_bytes=64"), "(limit json_bytes)")):
        with Case() as c:
            c.safetensors("x.safetensors", tensors)
            c.refused("x.safetensors", part, opts=opts)
    with Case() as c:
        c.safetensors("x.safetensors", deep)
        c.cat("a.u8", b"1", "-o", "limit=tensor_dims=65")


def a_header_behind_blanks():
    """By its contents alone, which begin with the blanks that JSON allows."""
    with Case() as c:
        path = c.safetensors("x.safetensors", A)
        with open(path, "rb") as f:
            n, rest = int.from_bytes(f.read(8), "little"), f.read()
        c.file("weights", (n + 12).to_bytes(8, "little") + b" \n\t\r" * 3 + rest)
        os.remove(path)
        c.cat("a.u8", b"1234", at="weights")


def side_files_and_metadata():
    with Case() as c:
        c.safetensors("model.safetensors", A)
        c.file("tokenizer.json", b"{}")
        c.file("notes.txt", b"no")
        c.cat("tokenizer.json", b"{}")
        assert c.run("cat", "notes.txt").returncode != 0


main(
    [
        every_dtype_any_shape,
        odd_names,
        states_of_an_optimizer,
        several_files,
        one_file_of_several,
        same_names_apart,
        cut_short,
        damaged_headers,
        headers_beyond_limits,
        a_header_behind_blanks,
        side_files_and_metadata,
    ]
)
