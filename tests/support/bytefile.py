# SPDX-License-Identifier: Apache-2.0
"""safetensors files of bytes."""
import json
import struct


def write(path, tensors):
    """{name: bytes} as tensors of one dimension, in that order."""
    at, head = 0, {}
    for name, data in tensors.items():
        head[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))
