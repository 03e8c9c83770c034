#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrices that a recipe turns over, large enough for blocks that are kept, against Python's own slices."""
import contextlib
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "support")]
from golden import Case, ZEROFS, main  # noqa: E402 pylint: disable=wrong-import-position
from mounts import mount_point, take_off  # noqa: E402 pylint: disable=wrong-import-position
from tap import need_fuse  # noqa: E402 pylint: disable=wrong-import-position

CODE = {1: "B", 2: "H", 4: "I", 8: "Q"}
DTYPE = {1: "U8", 2: "I16", 4: "I32", 8: "I64"}


def turned(raw, rows, cols, width):
    """The transpose of each matrix of raw."""
    out = []
    for at in range(0, len(raw), rows * cols * width):
        one = memoryview(raw)[at:at + rows * cols * width].cast(CODE[width])
        out += [one[c::cols].tobytes() for c in range(cols)]
    return b"".join(out)


def data_of(text):
    (n,) = struct.unpack_from("<Q", text)
    return text[8 + n:]


def recipe(c, rule):
    return "recipe=" + c.file("r.recipe", f'recipe r "r"\nmodel A a\n{rule}\n'.encode())


def matrices_of_any_shape_are_turned():
    rnd = random.Random(1538)
    for width, shape in ((4, (1531, 1103)), (2, (2048, 1111)), (1, (3001, 1499)), (8, (517, 1025)), (4, (4096, 257)), (2, (3, 777, 1301)), (4, (1, 1400000))):
        raw = rnd.randbytes(width * shape[-1] * shape[-2] * (shape[0] if len(shape) > 2 else 1))
        want = turned(raw, *shape[-2:], width)
        with Case() as c:
            c.safetensors("save/model.safetensors", {"w": (DTYPE[width], list(shape), raw)})
            opt = recipe(c, 'w <- w "' + ("e r c -> e c r" if len(shape) > 2 else "r c -> c r") + '"')
            for more in ((), ("-o", "limit=cache_bytes=4194304"), ("-o", "limit=cache_bytes=1")):
                if more:
                    more = ("--limit", more[1][6:])
                r = c.run("cat", "hf/model.safetensors", "-o", opt, *more, at="save")
                assert r.returncode == 0, r.stderr.decode()
                assert data_of(r.stdout) == want, (width, shape, more)


@contextlib.contextmanager
def mounted(rows, cols, raw):
    """The file of a mount that holds the turned matrix, where its elements begin, and the shard."""
    with Case() as c:
        shard = c.safetensors("save/model.safetensors", {"w": ("I32", [rows, cols], raw)})
        at = os.path.join(c.dir, "mnt")
        os.mkdir(at)
        with mount_point(at):
            subprocess.run([ZEROFS, "mount", "-o", recipe(c, 'w <- w "r c -> c r"'), os.path.join(c.dir, "save"), at], check=True, timeout=60)
            with open(os.path.join(at, "hf", "model.safetensors"), "rb", buffering=0) as f:
                yield f, os.fstat(f.fileno()).st_size - len(raw), shard
            take_off(at)


def reads_begin_and_end_anywhere():
    need_fuse()
    rnd = random.Random(9)
    rows, cols = 1537, 2049
    raw = rnd.randbytes(4 * rows * cols)
    want = turned(raw, rows, cols, 4)
    with mounted(rows, cols, raw) as (f, first, _):
        for _ in range(300):
            off = rnd.randrange(len(want))
            n = min(len(want) - off, rnd.choice((1, 3, 4096, 70001, 1 << 20)))
            assert os.pread(f.fileno(), n, first + off) == want[off:off + n], (off, n)


def shards_of_several_files_are_turned_as_one():
    rows, cols, ranks = 1024, 1536, 3
    raw = random.Random(5).randbytes(4 * rows * cols)
    for by_rows in (True, False):
        h, w = (rows // ranks + 1, cols) if by_rows else (rows, cols // ranks)
        with Case() as c:
            for k in range(ranks):
                lines = [raw[(r * cols) * 4:(r + 1) * cols * 4] for r in range(rows)]
                part = b"".join(lines[k * h:(k + 1) * h]) if by_rows else b"".join(x[k * w * 4:(k + 1) * w * 4] for x in lines)
                c.safetensors(f"save/shard-{k + 1:05}-model-00001-of-00001.safetensors", {"w": ("I32", [len(part) // w // 4, w], part)},
                              boxes={"w": [k * h, 0] if by_rows else [0, k * w]})
            c.cat("w.i32", raw, at="save")
            r = c.run("cat", "hf/model.safetensors", "-o", recipe(c, 'w <- w "r c -> c r"'), at="save")
            assert r.returncode == 0, r.stderr.decode()
            assert data_of(r.stdout) == turned(raw, rows, cols, 4)


def a_shard_that_was_cut_is_no_longer_read():
    need_fuse()
    rows, cols = 1200, 5300  # more than a block
    raw = random.Random(3).randbytes(4 * rows * cols)
    want = turned(raw, rows, cols, 4)
    with mounted(rows, cols, raw) as (f, first, shard):
        assert os.pread(f.fileno(), 100, first) == want[:100]
        os.truncate(shard, 1000)
        try:
            os.pread(f.fileno(), 100, first + 20000000)
            raise AssertionError("bytes of a shard that was cut are served")
        except OSError:
            pass


main([matrices_of_any_shape_are_turned, reads_begin_and_end_anywhere, shards_of_several_files_are_turned_as_one, a_shard_that_was_cut_is_no_longer_read])
