# SPDX-License-Identifier: Apache-2.0
"""Indices, and tensors cut into boxes over several safetensors files, written here byte by byte."""
import itertools
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Case, main  # noqa: E402

A = {"a": ("U8", [4], b"1234")}
INDEX = "model.safetensors.index.json"


def shard(n):
    return f"shard-{n:05d}-model-00001-of-00001.safetensors"


def index_decides():
    with Case() as c:
        c.safetensors("x.safetensors", A)
        c.safetensors("y.safetensors", {"a": ("U8", [4], b"abcd"), "b": ("U8", [1], b"b")})
        c.file(INDEX, {"metadata": {"total_size": 0.5}, "weight_map": {"a": "y.safetensors"}})
        c.cat("a.u8", b"abcd")
        c.cat("b.u8", b"b")
        c.told("hf: the index")


def index_names_another_file():
    """The tensor behind "a", by name, is in the file that the index names for "a"."""
    with Case() as c:
        c.safetensors("x.safetensors", {**A, "c": ("U8", [1], b"c")})
        c.safetensors("y.safetensors", {"b": ("U8", [4], b"bbbb")})
        c.file(INDEX, {"weight_map": {"a": "y.safetensors", "b": "y.safetensors", "c": "x.safetensors"}})
        c.cat("a.u8", b"1234")
        c.cat("b.u8", b"bbbb")
        c.told("tensor a is in y.safetensors, but it is in x.safetensors")


def index_promises_too_much():
    with Case() as c:
        c.safetensors("x.safetensors", A)
        c.file(INDEX, {"weight_map": {"a": "x.safetensors", "b": "x.safetensors"}})
        c.refused(INDEX, '"b" in x.safetensors, but no file holds it')
        c.cat("a.u8", b"1234", "-o", "degraded")
        c.file(INDEX, {"weight_map": {"a": "x.safetensors", "b": "gone.safetensors"}})
        c.refused(INDEX, '"gone.safetensors", which is missing')
        c.cat("a.u8", b"1234", "-o", "degraded")
        c.told("lost     b: all bytes: gone.safetensors is missing", "gone.safetensors is missing; its tensors are lost",
               opts=("-o", "degraded"))


def index_leads_outside():
    for path in ("../x.safetensors", "/etc/passwd", "a/../../x"):
        with Case() as c:
            c.file(INDEX, {"weight_map": {"a": path}})
            c.refused(INDEX, path)


def broken_indices():
    for text in (b"", b"{", b"[]", b'{"weight_map": 3}', b'{"weight_map":{"a":"x","a":"y"}}', b"[" * 10**6):
        with Case() as c:
            c.file(INDEX, text)
            c.refused(INDEX)


def cut(raw, shape, start, size):
    """The bytes of a box of a tensor of one-byte elements."""
    out = bytearray()
    for at in itertools.product(*(range(s, s + n) for s, n in zip(start, size))):
        flat = 0
        for i, d in zip(at, shape):
            flat = flat * d + i
        out.append(raw[flat])
    return bytes(out)


def random_boxes():
    r = random.Random(11)
    for _ in range(12):
        shape = [r.randrange(1, 7) for _ in range(r.randrange(1, 4))]
        raw = r.randbytes(math.prod(shape))
        cuts = [sorted({0, d, *(r.randrange(d + 1) for _ in range(r.randrange(3)))}) for d in shape]
        grid = [list(zip(c, c[1:])) for c in cuts]
        with Case() as c:
            for n, box in enumerate(itertools.product(*grid), 1):
                start, size = [lo for lo, _ in box], [hi - lo for lo, hi in box]
                tensors = {"t": ("U8", size, cut(raw, shape, start, size))}
                c.safetensors(shard(n), tensors, {"t": start})
            c.cat("t.u8", raw)


def empty_shards():
    with Case() as c:
        c.safetensors(shard(1), {"t": ("F32", [1, 4], b"x" * 16)}, {"t": [0, 0]})
        c.safetensors(shard(2), {"t": ("F32", [0, 4], b"")}, {"t": [1, 0]})
        c.cat("t.f32", b"x" * 16)


def sharded_alone():
    with Case() as c:
        c.safetensors("sharded/" + shard(1), {"t": ("U8", [1], b"x")}, {"t": [0]})
        c.safetensors("sharded/" + shard(2), {"t": ("U8", [2], b"yz")}, {"t": [1]})
        c.cat("t.u8", b"xyz")
        c.cat("t.u8", b"xyz", at="sharded")


def bad_boxes():
    first = {"t": ("U8", [2, 2], b"1234")}, {"t": [0, 0]}
    bad = {
        "elements [0, 2] to [1, 2] are covered by nothing": ({"t": ("U8", [2, 1], b"56")}, {"t": [0, 3]}),
        "elements [0, 1] to [1, 1] are covered by more than one piece": ({"t": ("U8", [2, 1], b"56")}, {"t": [0, 1]}),
        "has 1 dimensions of u8": ({"t": ("U8", [2], b"56")}, {"t": [0]}),
        "2 dimensions of i8": ({"t": ("I8", [2, 1], b"56")}, {"t": [0, 2]}),
        "covered by nothing": ({"t": ("U8", [2, 1], b"56")}, {"t": [0, 2**62]}),
        "DCP_SHARDING_INFO is not a JSON object": ({"t": ("U8", [2, 1], b"56")}, "[1]"),
        "DCP_SHARDING_INFO: not valid JSON: found the end": ({"t": ("U8", [2, 1], b"56")}, '{"t":{"saved_offsets":[0,2]}'),
        "duplicate object key": ({"t": ("U8", [2, 1], b"56")}, '{"t":{"saved_offsets":[0,2]},"t":{}}'),
    }
    for part, second in bad.items():
        with Case() as c:
            c.safetensors(shard(1), *first)
            c.safetensors(shard(2), *second)
            c.refused(part)
    for offsets in ([0, -2], [0, 2.0], [2], [0, 2, 0], [0, "2"], "02", None, {"0": 2}):
        with Case() as c:
            c.safetensors(shard(1), *first)
            c.safetensors(shard(2), {"t": ("U8", [2, 1], b"56")}, {"t": {"saved_offsets": offsets}})
            c.refused("\"saved_offsets\" of tensor \"t\" are not 2 sizes")


def several_boxes_in_one_file():
    """They have names of their own, and say whose they are."""
    with Case() as c:
        c.safetensors(shard(1), {"t_0": ("U8", [1, 2], b"12"), "t_1": ("U8", [1, 2], b"56"), "whole": ("U8", [1], b"w")},
                      {"t_0": {"saved_offsets": [0, 0], "logical_fqn": "t"}, "t_1": {"logical_fqn": "t", "saved_offsets": [2, 0]}})
        c.safetensors(shard(2), {"t": ("U8", [1, 2], b"34")}, {"t": {"more": [{"saved_offsets": 7}], "saved_offsets": [1, 0]}})
        c.cat("t.u8", b"123456")
        c.cat("whole.u8", b"w")


def missing_rank():
    with Case() as c:
        c.safetensors(shard(2), {"t": ("U8", [2], b"yz")}, {"t": [1]})
        c.refused("of rank 1 are missing")
        assert c.run("cat", "t.u8", "-o", "degraded").returncode == 5


def unproven_shapes():
    """A lost file may hold more of any tensor: those whose shape only the boxes tell are named, and not shown."""
    for lost in (1, 2):
        with Case() as c:
            for n, (lo, raw) in enumerate(((0, b"abc"), (3, b"de")), 1):
                tensors = {"t": ("U8", [len(raw)], raw), "s": ("U8", [], b"s")}
                c.safetensors(shard(n), tensors if n == 1 else {"t": tensors["t"]}, {"t": [lo], "s": []})
            path = os.path.join(c.dir, shard(lost))
            with open(path, "r+b") as f:
                f.seek(20)
                f.write(b"\xff")
            c.refused(shard(lost), "not valid JSON")
            assert b"t.u8" not in c.run("ls", None, "-R", "-o", "degraded").stdout
            assert c.run("cat", "t.u8", "-o", "degraded").returncode == 5
            c.told("t: all bytes: " + shard(lost), opts=("-o", "degraded"))
            c.told(shard(lost) + " may hold more", opts=("-o", "degraded"))
            if lost == 2:
                c.cat("s.u8", b"s", "-o", "degraded")
                assert b'"t"' in c.run("cat", "LOST.json", "-o", "degraded,lost=omit").stdout


def missing_numbers():
    """Without an index only the names count the files."""
    t, u = {"t": ("U8", [1], b"t")}, {"u": ("U8", [1], b"u")}
    for name in ("model-00002-of-00003", "shard-00001-model-00002-of-00003"):
        for gone in (1, 2, 3):
            with Case() as c:
                for k in {1, 2, 3} - {gone}:
                    c.safetensors(f"{name.replace('00002', f'{k:05d}')}.safetensors", {f"t{k}": t["t"]}, {f"t{k}": [0]})
                c.refused(f"file {gone:05d} of 00003", "is missing")
                c.cat("t2.u8" if gone != 2 else "t1.u8", b"t", "-o", "degraded")
    with Case() as c:  # not every rank has something in every file
        c.safetensors("shard-00001-model-00002-of-00002.safetensors", t, {"t": [0]})
        c.safetensors("shard-00002-model-00001-of-00002.safetensors", u, {"u": [0]})
        c.cat("t.u8", b"t")
        c.cat("u.u8", b"u")
        os.rename(os.path.join(c.dir, "shard-00002-model-00001-of-00002.safetensors"),
                  os.path.join(c.dir, "shard-00002-model-00001-of-00001.safetensors"))
        c.refused("belong to different saves: one has 2 files, the other 1")


def unread_index():
    """In place of an index that cannot be read the names are asked."""
    with Case() as c:
        c.safetensors("model-00001-of-00002.safetensors", {"t": ("U8", [1], b"t")})
        c.file(INDEX, b"{")
        c.refused(INDEX)
        c.cat("t.u8", b"t", "-o", "degraded")
        c.told("file 00002 of 00002 of the series model is missing", opts=("-o", "degraded"))


def one_rank_of_several():
    with Case() as c:
        c.safetensors(shard(1), {"t": ("U8", [1], b"x")}, {"t": [0]})
        c.cat("t.u8", b"x", at=shard(1))
        c.safetensors(shard(2), {"t": ("U8", [2], b"yz")}, {"t": [1]})
        c.refused("one rank's parts", "Point at its directory", at=shard(1), code=3)


main(
    [
        index_decides,
        index_names_another_file,
        index_promises_too_much,
        index_leads_outside,
        broken_indices,
        random_boxes,
        empty_shards,
        sharded_alone,
        bad_boxes,
        several_boxes_in_one_file,
        missing_rank,
        unproven_shapes,
        missing_numbers,
        unread_index,
        one_rank_of_several,
    ]
)
