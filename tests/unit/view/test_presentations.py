#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every type in every presentation, as readers that are not ours see it; and zips beyond 32 bits."""
import json
import os
import pickletools
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import readers  # noqa: E402
from tap import main  # noqa: E402

TOOL = os.path.join(os.environ.get("top_builddir", "."), "tests", "unit", "view", "view_tool")
FLOATS = {"f64", "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0"}
SHAPES = {"scalar": (), "vector": (130,), "none": (3, 0, 5), "cube": (2, 130, 2)}
ODD = {"__metadata__": "f32", "not \udcff utf-8": "f32", "ctl\x01\n\x7f": "f32", "": "f32",
       'tied "a"\\': "bf16", "a tie \u2713": "bf16"}


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def made(n, suffix):
    if suffix == "bool":
        return bytes(i & 1 for i in range(n))
    return bytes((i * 7 + i // 256) & 255 for i in range(n))


def file_name(name, suffix):
    """zerofs(5), "File names"."""
    raw = os.fsencode(name + "." + suffix)
    out = b"".join(b"%%%02X" % c if c < 32 or c in b"/%\x7f" or c == 255 or (c == 46 and i == 0) else bytes([c])
                   for i, c in enumerate(raw))
    return os.fsdecode(out)


def tensors():
    """(name, suffix, shape) of all that the tool makes."""
    for suffix in readers.SUFFIXES:
        for kind, shape in SHAPES.items():
            yield f"{suffix}.{kind}", suffix, shape
    for name, suffix in ODD.items():
        yield name, suffix, SHAPES["cube"] if suffix == "bf16" else (2,)


def width(suffix):
    return readers.TYPES[readers.SUFFIXES[suffix]][1]


def served(suffix, cast):
    return cast if cast and suffix in FLOATS else suffix


class Tree:
    def __init__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="zf-view-")
        self.top = os.path.join(self.tmp.name, "tree")
        subprocess.run([TOOL, "types", self.top], check=True, timeout=60)


TREE = Tree()
CASTS = ("", "f32", "f16", "bf16")


def folder(cast):
    return os.path.join(TREE.top, "as", cast) if cast else TREE.top


def raw_files_hold_the_bytes():
    for name, suffix, shape in tensors():
        got = read(TREE.top, file_name(name, suffix))
        assert got == made(readers.elements(shape) * width(suffix), suffix), name


def casts_of_exact_values_are_exact():
    """bf16 and every f8 widen to f32 as readers.py computes it; the others are tested with the casts."""
    for name, suffix, shape in tensors():
        if suffix in FLOATS - {"f64", "f32"}:
            raw = read(TREE.top, file_name(name, suffix))
            want = (b"".join(readers.f16(h) for (h,) in struct.iter_unpack("<H", raw)) if suffix == "f16"
                    else readers.widened(raw, readers.SUFFIXES[suffix]))
            assert read(folder("f32"), file_name(name, "f32")) == want, name


def npy_headers_and_data():
    for cast in CASTS:
        for name, suffix, shape in tensors():
            now = served(suffix, cast)
            raw = read(folder(cast), file_name(name, now))
            descr, got_shape, data = readers.npy(read(folder(cast), "npy", file_name(name, "npy")))
            assert got_shape == shape, name
            assert descr == readers.TYPES[readers.SUFFIXES[now]][3], name
            assert data == readers.widened(raw, readers.SUFFIXES[now]), f"as/{cast}: {name}"


def held(name, suffix, shape):
    st = readers.TYPES[readers.SUFFIXES[suffix]][2]
    return st if name != "__metadata__" and "\udcff" not in name and (st != "F4" or shape) else None


def safetensors_hold_what_they_can():
    for cast in CASTS:
        told = readers.safetensors(read(folder(cast), "model.safetensors"))
        shards, total = {}, 0
        text = read(folder(cast), "hf", "model.safetensors.index.json").decode()
        index = json.loads(text)
        # As transformers writes it (modeling_utils.py, save_pretrained).
        assert text == json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n", text[-80:]
        for shard in sorted(set(index["weight_map"].values())):
            part = readers.safetensors(read(folder(cast), "hf", shard))
            size = sum(len(v[2]) for v in part.values())
            assert size <= 3000 or sum(len(v[2]) > 0 for v in part.values()) == 1, shard
            assert all(index["weight_map"][k] == shard for k in part)
            shards.update(part)
            total += size
        assert shards == told and set(index["weight_map"]) == set(told)
        assert index["metadata"]["total_size"] == total
        for name, suffix, shape in tensors():
            now = served(suffix, cast)
            st = held(name, now, shape)
            if not st:
                assert name not in told, name
                continue
            logical = shape[:-1] + (2 * shape[-1],) if st == "F4" else shape
            assert told.pop(name) == (st, logical, read(folder(cast), file_name(name, now))), name
        assert not told, list(told)


def torch_holds_all():
    for cast in CASTS:
        data = read(folder(cast), "pytorch_model.bin")
        told = readers.torch_zip(data)
        zf = zipfile.ZipFile(os.path.join(folder(cast), "pytorch_model.bin"))
        pickletools.dis(zf.read("archive/data.pkl"), open(os.devnull, "w", encoding="utf8"))
        assert told['tied "a"\\'][3] == told["a tie \u2713"][3], "ties share a storage"
        assert len({t[3] for t in told.values()}) == len(told) - 1
        for name, suffix, shape in tensors():
            if "\udcff" in name:
                continue
            now = served(suffix, cast)
            raw = read(folder(cast), file_name(name, now))
            dtype = readers.SUFFIXES[now]
            got = told.pop(name)
            assert got[:3] == (readers.INTEGERS_OF.get(dtype, dtype), shape, raw), f"as/{cast}: {name}"
        assert not told, list(told)


def zip_of_70000_members():
    path = os.path.join(TREE.tmp.name, "many.bin")
    subprocess.run([TOOL, "many", path], check=True, timeout=60)
    with zipfile.ZipFile(path) as zf:
        assert len(zf.namelist()) == 70003
        tail = read(path)[-22:]
        assert struct.unpack("<4s4H", tail[:12]) == (b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF)
        info = zf.getinfo("archive/data/69999")
        info.CRC = None
        assert zf.read(info) == b"\0"


def zip_beyond_4_gib():
    path = os.path.join(TREE.tmp.name, "big.bin")
    subprocess.run([TOOL, "big", path], check=True, timeout=60)
    with zipfile.ZipFile(path) as zf:
        sizes = [zf.getinfo(f"archive/data/{i}").file_size for i in range(4)]
        assert sizes == [2**32 + 3, 5, 2**32 - 1, 5], sizes
        for key in (1, 3):
            info = zf.getinfo(f"archive/data/{key}")
            assert info.header_offset > 2**32
            info.CRC = None
            assert zf.read(info) == bytes(i * 7 for i in range(5))
        for key in (0, 2):
            info = zf.getinfo(f"archive/data/{key}")
            with open(path, "rb") as f:
                f.seek(info.header_offset)
                head = f.read(30)
                name, extra = struct.unpack_from("<HH", head, 26)
                f.seek(name, 1)
                tag, n, size, packed = struct.unpack("<HHQQ", f.read(extra)[:20])
            assert struct.unpack_from("<HII", head, 4)[0] == 45 and head[18:26] == b"\xff" * 8
            assert (tag, n, size, packed) == (1, 16, info.file_size, info.file_size)
    os.remove(path)


TESTS = (raw_files_hold_the_bytes, casts_of_exact_values_are_exact, npy_headers_and_data,
         safetensors_hold_what_they_can, torch_holds_all, zip_of_70000_members, zip_beyond_4_gib)


if __name__ == "__main__":
    main(TESTS)
