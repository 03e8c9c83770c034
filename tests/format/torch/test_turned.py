#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors whose elements stand in the file in another order than in the tensor, of several MiB: they are read in large blocks
that are kept.  Compared with slices of the storage, which Python cuts."""
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import Storage, check, done, rebuild, save  # noqa: E402
import collections  # noqa: E402

ZEROFS = os.path.join(os.environ["top_builddir"], "zerofs")
SUFFIX = {"FloatStorage": ("f32", 4, "I"), "HalfStorage": ("f16", 2, "H"), "DoubleStorage": ("f64", 8, "Q")}
rng = random.Random(5)


class Strided:
    def __init__(self, storage, shape, strides, offset=0):
        self.row = storage, offset, shape, strides, False, collections.OrderedDict()

    def __reduce__(self):
        return rebuild, self.row


def in_order(elements, shape, strides, offset):
    """The tensor's elements in its own order: a slice of the storage for each of its rows."""
    if len(shape) == 1:
        return elements[offset:offset + (shape[0] - 1) * strides[0] + 1:strides[0]].tobytes()
    return b"".join(in_order(elements, shape[1:], strides[1:], offset + i * strides[0]) for i in range(shape[0]))


def case(name, cls, shape, strides, offset=0, options=()):
    suffix, width, code = SUFFIX[cls]
    n = offset + sum((s - 1) * t for s, t in zip(shape, strides)) + 1
    data = rng.randbytes(n * width)
    want = in_order(memoryview(data).cast(code), shape, strides, offset)
    with tempfile.TemporaryDirectory() as d:
        save({"w": Strided(Storage(data=data, n=n, cls=cls), shape, strides, offset)}, os.path.join(d, "pytorch_model.bin"))
        run = subprocess.run([ZEROFS, "cat", d, f"w.{suffix}", *options], capture_output=True, timeout=100)
    check(name, run.stdout == want, f"{run.returncode} {run.stderr!r} {len(run.stdout)} of {len(want)} bytes, the first that "
          f"differs at {next((i for i, (a, b) in enumerate(zip(run.stdout, want)) if a != b), None)}")


case("a transposed matrix", "FloatStorage", (2000, 1700), (1, 2000))
case("rows that fill no block evenly", "HalfStorage", (3001, 1213), (1, 3001), 7)
case("columns with gaps between them", "DoubleStorage", (700, 900), (1, 777), 3)
case("a few long rows", "FloatStorage", (3, 1 << 20), (1, 3))
case("many rows of few", "FloatStorage", (1 << 19, 5), (1, (1 << 19) + 4096))
case("three dimensions in the reverse order", "FloatStorage", (40, 300, 130), (1, 40, 12000))
case("three dimensions, the first two turned", "FloatStorage", (40, 300, 130), (130, 5200, 1))
case("no room for a block", "FloatStorage", (2000, 1700), (1, 2000), options=("-o", "limit=cache_bytes=1M"))
case("elements that are shown twice", "FloatStorage", (1500, 2, 700), (1, 0, 1500))
case("a small one", "FloatStorage", (20, 30), (1, 20))
done()
