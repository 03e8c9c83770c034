# SPDX-License-Identifier: Apache-2.0
"""Writes a safetensors file with Python's own json and struct: no safetensors needed."""
import json
import struct


def pack(tensors, meta=None):
    """{name: (safetensors type, shape, bytes)}, in that order; meta: {text: text} of the file."""
    head, at = {} if meta is None else {"__metadata__": meta}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def save(path, tensors):
    """pack, in a file; gives path."""
    with open(path, "wb") as f:
        f.write(pack(tensors))
    return path


def f32(*values, shape=None):
    return "F32", [len(values)] if shape is None else shape, struct.pack(f"<{len(values)}f", *values)


def elements(shape, box):
    """Numbers of the elements of a box, a (start, stop) a dimension, in their tensor, in C order."""
    out = [0]
    for extent, (start, stop) in zip(shape, box):
        out = [at * extent + i for at in out for i in range(start, stop)]
    return out
