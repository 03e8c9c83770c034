# SPDX-License-Identifier: Apache-2.0
"""Writes a safetensors file with Python's own json and struct: no safetensors needed."""
import json
import struct


def save(path, tensors):
    """{name: (safetensors type, shape, bytes)}, in that order; gives path."""
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(data for _, _, data in tensors.values())
    return path


def f32(*values):
    return "F32", [len(values)], struct.pack(f"<{len(values)}f", *values)
