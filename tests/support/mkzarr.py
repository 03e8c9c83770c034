#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints as Megatron-core's zarr backend does, with Python's standard library alone.

    mkzarr.py DIR [--layers N] [--tp N] [--params N] [--states N]

has N parameters a layer, stacked and cut over tensor-parallel ranks, and N values of optimizer state for each: a chunk of
64 bytes in a file of its own for every layer, rank, parameter and value.  Tests use `array`, `common` and `finish`."""
import argparse
import gzip
import itertools
import json
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torchfile as tf  # noqa: E402 pylint: disable=wrong-import-position

PACK = {None: lambda b: b, "zlib": zlib.compress, "gzip": gzip.compress}


def zarray(shape, chunks, dtype="<f4", compressor=None, fill=None, order="C", separator=None, **more):
    d = {"chunks": list(chunks), "compressor": {"id": compressor} if compressor else None, "dtype": dtype,
         "fill_value": fill, "filters": None, "order": order, "shape": list(shape), "zarr_format": 2}
    if separator:
        d["dimension_separator"] = separator
    return json.dumps({**d, **more}, indent=4).encode()


def grid(shape, chunks):
    return itertools.product(*(range(-(-s // c)) for s, c in zip(shape, chunks)))


def place(index, shape):
    """The number of an element in C order."""
    n = 0
    for i, s in zip(index, shape):
        n = n * s + i
    return n


def element(dtype, n):
    """Element number n of every array made here, in its own byte order."""
    if dtype == "bfloat16" or dtype[1:] == "V2":
        raw = struct.pack("<f", n % 1000)[2:]
        return raw[::-1] if dtype[0] == ">" else raw
    code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "i4": "i", "i8": "q", "b1": "?"}[dtype[1:]]
    value = n % 100 if dtype[1:] in ("i1", "u1") else n % 2 == 0 if code == "?" else n
    return struct.pack((">" if dtype[0] == ">" else "<") + code, value)


def flat(shape, dtype="<f4"):
    """All elements in C order and little-endian: what zerofs must show."""
    n = 1
    for s in shape:
        n *= s
    little = "<" + dtype[1:] if dtype[0] == ">" else dtype
    return b"".join(element(little, i) for i in range(n))


def chunk(index, shape, chunks, dtype="<f4", order="C"):
    """The bytes of one chunk, padded with 7 at the array's end."""
    out = []
    axes = list(range(len(shape)))
    walk = axes if order == "C" else axes[::-1]
    for at in itertools.product(*(range(chunks[a]) for a in walk)):
        inner = dict(zip(walk, at))
        where = [index[a] * chunks[a] + inner[a] for a in axes]
        inside = all(w < s for w, s in zip(where, shape))
        out.append(element(dtype, place(where, shape)) if inside else element(dtype, 7))
    return b"".join(out)


def array(root, key, shape, chunks, dtype="<f4", compressor=None, order="C", separator=None, without=(), **more):
    """Writes one array, but for the chunks `without`."""
    at = os.path.join(root, key)
    os.makedirs(at, exist_ok=True)
    with open(os.path.join(at, ".zarray"), "wb") as f:
        f.write(zarray(shape, chunks, dtype, compressor, order=order, separator=separator, **more))
    for index in grid(shape, chunks):
        if index in without:
            continue
        path = os.path.join(at, (separator or ".").join(map(str, index)) or "0")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(PACK[compressor](chunk(index, shape, chunks, dtype, order)))


def common(root, **args):
    namespace = tf.named("argparse", "Namespace")()
    namespace.__dict__.update(args)
    os.makedirs(root, exist_ok=True)
    tf.save({"args": namespace, "checkpoint_version": 3.0, "iteration": 10}, os.path.join(root, "common.pt"))


def finish(root):
    """What is written last."""
    with open(os.path.join(root, "metadata.json"), "w", encoding="utf-8") as f:
        json.dump({"sharded_backend": "zarr", "sharded_backend_version": 1, "common_backend": "torch",
                   "common_backend_version": 1}, f)


def large(root, layers, tp, params, states):
    common(root, num_layers=layers, tensor_model_parallel_size=tp)
    prefixes = [""] + [f"optimizer.state.{s}." for s in ("exp_avg", "exp_avg_sq", "fp32_param")[:states]]
    for prefix, p in itertools.product(prefixes, range(params)):
        at = os.path.join(root, f"{prefix}decoder.layers.mlp.part{p}.weight")
        os.makedirs(at)
        with open(os.path.join(at, ".zarray"), "wb") as f:
            f.write(zarray((layers, 4 * tp, 4), (1, 4, 4)))
        for layer, rank in itertools.product(range(layers), range(tp)):
            with open(os.path.join(at, f"{layer}.{rank}.0"), "wb") as f:
                f.write(struct.pack("<16f", *range(rank, rank + 16)))
    finish(root)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    for name, default in (("layers", 96), ("tp", 64), ("params", 4), ("states", 3)):
        p.add_argument("--" + name, type=int, default=default)
    a = p.parse_args()
    large(a.dir, a.layers, a.tp, a.params, a.states)


if __name__ == "__main__":
    main()
