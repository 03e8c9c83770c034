#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every tensor of real and made checkpoints put together from user.zerofs.sources and the shard files alone, and
compared with the file of the mount: what zerofs(5) says of the attribute is enough for a program to do so."""
import ctypes
import ctypes.util
import itertools
import json
import math
import os
import random
import shutil
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import Case, main  # noqa: E402
from tap import need_fuse  # noqa: E402
from test_views import DATA, Mount, lacks, read  # noqa: E402


def library(name, function, result, *words):
    """Calls a function of a C library."""
    call = getattr(ctypes.CDLL(ctypes.util.find_library(name)), function)
    call.restype = result
    return call(*words)


def zstd(data, room):
    out = ctypes.create_string_buffer(room)
    n = library("zstd", "ZSTD_decompress", ctypes.c_size_t, out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)))
    assert n <= room, "not a zstd stream"
    return out.raw[:n]


def blosc(data):
    n = int.from_bytes(data[4:8], "little")
    out = ctypes.create_string_buffer(n)
    assert library("blosc", "blosc_decompress_ctx", ctypes.c_int, data, out, ctypes.c_size_t(n), ctypes.c_int(1)) == n
    return out.raw


def lz4(data):
    n = int.from_bytes(data[:4], "little")
    out = ctypes.create_string_buffer(n)
    assert library("lz4", "LZ4_decompress_safe", ctypes.c_int, data[4:], out, ctypes.c_int(len(data) - 4),
                   ctypes.c_int(n)) == n
    return out.raw


def stream(e, data):
    """What the bytes of the file decompress to."""
    return {"deflate": lambda: zlib.decompress(data, -15), "zlib": lambda: zlib.decompress(data),
            "gzip": lambda: zlib.decompress(data, 31), "zstd": lambda: zstd(data, 1 << 24),
            "blosc": lambda: blosc(data), "lz4": lambda: lz4(data)}[e["codec"]]()


def span(e, elem):
    """Bytes from the first element of the box to behind its last."""
    if "strides" not in e:
        return math.prod(e["count"]) * elem
    return sum((c - 1) * s for c, s in zip(e["count"], e["strides"])) + elem


def elements(e, top, elem):
    """The box's elements in C order; None for a lost one."""
    n = math.prod(e["count"])
    if e.get("lost"):
        assert e["why"], e
        return [None] * n
    if e.get("zero"):
        return [bytes(elem)] * n
    if "data" in e:
        data = bytes.fromhex(e["data"])
    else:
        with open(os.path.join(top, e["file"]), "rb") as f:
            f.seek(e["offset"])
            data = f.read(e["bytes"])
        assert len(data) == e["bytes"], e
        if "codec" in e:
            data = stream(e, data)[e["skip"]:e["skip"] + span(e, elem)]
    assert len(data) == span(e, elem), e
    if "swap" in e:
        w = e["swap"]
        data = b"".join(data[i:i + w][::-1] for i in range(0, len(data), w))
    strides = e.get("strides") or [elem * math.prod(e["count"][d + 1:]) for d in range(len(e["count"]))]
    offs = (sum(i * s for i, s in zip(at, strides)) for at in itertools.product(*map(range, e["count"])))
    return [data[o:o + elem] for o in offs]


def rebuilt(sources, shape, elem, top):
    """The elements of the tensor; each must come from exactly one entry."""
    out = [b""] * math.prod(shape)
    for e in sources:
        assert len(e["start"]) == len(e["count"]) == len(shape), e
        box = itertools.product(*(range(s, s + c) for s, c in zip(e["start"], e["count"])))
        for at, value in zip(box, elements(e, top, elem)):
            i = 0
            for x, n in zip(at, shape):
                assert x < n, e
                i = i * n + x
            assert out[i] == b"", f"{at} comes twice"
            out[i] = value
    assert b"" not in out, "some elements come from nowhere"
    return out


def compare(m, top):
    """Returns how many tensors agree, and the keys met."""
    met, n = set(), 0
    for t in m.index()["tensors"]:
        path = m.raw(t)
        sources = json.loads(os.getxattr(path, "user.zerofs.sources"))
        if not t["bytes"]:
            assert sources == [], t
            continue
        elem = t["bytes"] // math.prod(t["shape"])
        found = rebuilt(sources, t["shape"], elem, top)
        for e in sources:
            met |= set(e)
        lost = [i for i, v in enumerate(found) if v is None]
        assert bool(lost) == bool(t.get("lost")), t
        if lost:
            with open(path, "rb", buffering=0) as f:
                for i, v in enumerate(found):
                    if v is not None:
                        assert os.pread(f.fileno(), elem, i * elem) == v, (t["name"], i)
        else:
            assert b"".join(found) == read(path), f"{t['set']}: {t['name']} differs"
        n += 1
    return n, met


def fixture(path, *keys, options=()):
    def test():
        with Mount(os.path.join(DATA, path), *options) as m:
            assert m.run.returncode == 0, m.run.stderr
            n, met = compare(m, os.path.join(DATA, path))
            assert n > 0 and set(keys) <= met, (n, met)
    test.__name__ = path.replace("/", "_")
    return test


FIXTURES = [fixture(p, *keys) for p, *keys in (
    ("deepspeed/zero1_w2",), ("deepspeed/zero2_w2",), ("deepspeed/zero2_w12",), ("deepspeed/zero3_w2",),
    ("deepspeed/zero3_w12",), ("deepspeed/zero2_w2_universal",), ("deepspeed/ds0_19_8_zero1_bf16opt_w3",),
    ("deepspeed/ds0_19_8_zero2_muon_w2",), ("deepspeed/ds0_19_8_zero3_nvme_swp_w2",),
    ("deepspeed/ds0_19_8_zero2_legacyser_w2",), ("dcp/torch2.13/fsdp2_tp_2x2",), ("dcp/torch2.13/fsdp2_w2_adamw",),
    ("dcp/torch2.13/hf_dist_w2",), ("dcp/torch2.13/odd_dtypes_1p",), ("dcp/torch2.13/fsdp1_local_w2",),
    ("dcp/torch2.13/weird_keys_1p",), ("dcp/torch1.13/st_2p",), ("dcp/torch2.13/verl_fsdp2_w3",),
    ("dcp/torch2.13/dtensor_1d_w4_empty_shards",), ("hf/bin_sharded_llama",), ("hf/torchsave_big_endian", "swap"),
    ("hf/torchsave_legacy_views", "strides"), ("hf/torchsave_rezipped_deflate", "codec"),
    ("hf/torchsave_training_ckpt",), ("hf/torchsave_quantized",), ("hf/torchsave_sparse",),
    ("hf/transformers5.23.0_gpt2_sharded",))]


def zstd_items():
    if not lacks("libzstd") and ctypes.util.find_library("zstd"):
        fixture("dcp/torch2.13/zstd_1p", "codec")()


def lost_ranges_name_the_file():
    """Without one file, and with one cut short, of a partitioned save and of boxes."""
    for path, gone, whole in (("dcp/torch2.13/fsdp2_tp_2x2", "__3_0.distcp", True),
                              ("deepspeed/zero3_w2", "zero_pp_rank_1_mp_rank_00_optim_states.pt", True),
                              ("hf/transformers5.23.0_gpt2_sharded", "model-00002", False)):
        with tempfile.TemporaryDirectory(prefix="zf-sources-") as d:
            top = os.path.join(d, "c")
            shutil.copytree(os.path.join(DATA, path), top)
            file = [os.path.join(f, n) for f, _, names in os.walk(top) for n in names if gone in n][0]
            if whole:
                os.remove(file)
            else:
                os.truncate(file, os.path.getsize(file) - 99)
            with Mount(top, "-o", "degraded") as m:
                assert m.run.returncode == 0, m.run.stderr
                n, met = compare(m, top)
                assert n and "lost" in met, (path, met)
                files = {e.get("file", "") for t in m.index()["tensors"] if t.get("lost")
                         for e in json.loads(os.getxattr(m.raw(t), "user.zerofs.sources")) if e.get("lost")}
                assert any(gone in f for f in files), (path, files)


def casts_and_npy_tell_the_stored_type():
    with Case() as c:
        c.safetensors("m.safetensors", {"w": ("BF16", [2, 2], b"\0\1\2\3\4\5\6\7"), "i": ("I8", [1], b"x")})
        with Mount(c.dir) as m:
            (e,) = json.loads(os.getxattr(m.path("as/f32/w.f32"), "user.zerofs.sources"))
            assert e["dtype"] == "bf16" and e["start"] == [0, 0] and e["count"] == [2, 2] and e["bytes"] == 8, e
            for path in ("as/f32/i.i8", "as/bf16/w.bf16", "npy/w.npy", "w.bf16"):
                (e,) = json.loads(os.getxattr(m.path(path), "user.zerofs.sources"))
                assert "dtype" not in e, (path, e)


def scalars_and_empty_tensors():
    with Case() as c:
        c.safetensors("m.safetensors", {"s": ("F32", [], b"abcd"), "e": ("F32", [0, 3], b""), "o": ("I16", [1, 1], b"xy")})
        with Mount(c.dir) as m:
            assert compare(m, c.dir)[0] == 2
            (e,) = json.loads(os.getxattr(m.path("s.f32"), "user.zerofs.sources"))
            assert e["start"] == e["count"] == [], e


def cuts(rng, start, size, n):
    """Cuts a box in two until there are n, or all are single elements: [(start, size)]."""
    boxes = [(start, size)]
    while len(boxes) < n and any(max(s) > 1 for _, s in boxes):
        at, size = boxes.pop(rng.choice([i for i, (_, s) in enumerate(boxes) if max(s) > 1]))
        d = rng.choice([d for d, n in enumerate(size) if n > 1])
        k = rng.randrange(1, size[d])
        boxes.append((at, size[:d] + [k] + size[d + 1:]))
        boxes.append((at[:d] + [at[d] + k] + at[d + 1:], size[:d] + [size[d] - k] + size[d + 1:]))
    return boxes


def boxes_cut_at_random():
    """Dimensions of extent 1 at either end and in between, and ones that no box cuts."""
    rng = random.Random(7)
    for _ in range(6):
        files = {}
        for i, (dtype, width) in enumerate([("U8", 1), ("I16", 2), ("F32", 4), ("I64", 8), ("BF16", 2)]):
            shape = [rng.choice((1, 1, 2, 3, 5, 8)) for _ in range(rng.randrange(1, 6))]
            whole = rng.randrange(len(shape)) if rng.random() < 0.5 else len(shape)
            boxes = cuts(rng, [0] * whole, shape[:whole], rng.randrange(1, 9)) if whole else [([], [])]
            for r, (start, size) in enumerate(boxes, 1):
                size = size + shape[whole:]
                data = bytes(rng.randrange(256) for _ in range(math.prod(size) * width))
                tensors, at = files.setdefault(r, ({}, {}))
                tensors[f"t{i}"] = (dtype, size, data)
                at[f"t{i}"] = start + [0] * (len(shape) - whole)
        with Case() as c:
            for r, (tensors, at) in files.items():
                c.safetensors(f"shard-{r:05d}-model-00001-of-00001.safetensors", tensors, at)
            with Mount(c.dir) as m:
                assert m.run.returncode == 0, m.run.stderr
                assert compare(m, c.dir)[0] == 5


def what_does_not_fit_is_counted():
    """2,000 files with a column each; an attribute has at most 64 KiB."""
    n = 2000
    with Case() as c:
        for i in range(1, n + 1):
            c.safetensors(f"shard-{i:05d}-model-00001-of-00001.safetensors", {"w": ("U8", [3, 1], bytes([i % 256] * 3))},
                          {"w": [0, i - 1]})
        with Mount(c.dir) as m:
            assert m.run.returncode == 0, m.run.stderr
            text = os.getxattr(m.path("w.u8"), "user.zerofs.sources")
            *entries, last = json.loads(text)
            assert set(last) == {"more"} and last["more"] + len(entries) == n, (last, len(entries))
            assert 60000 < len(text) <= 65536, len(text)
            assert all(e["start"][0] == 0 and e["count"] == [3, 1] for e in entries)


if __name__ == "__main__":
    need_fuse()
    main(FIXTURES + [zstd_items, lost_ranges_name_the_file, casts_and_npy_tell_the_stored_type, scalars_and_empty_tensors,
                     boxes_cut_at_random, what_does_not_fit_is_counted])
