#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One reader of a file that is made of eight shards behind an address: what comes next is on its way before it is asked for."""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from serve import Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Tap, need_addresses, need_fuse  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SHARDS, TENSORS, SIZE, BLOCK = 8, 64, 512 << 10, 64 << 10


def bytes_of(k):
    return hashlib.shake_128(b"tensor %d" % k).digest(SIZE)


def make(root):
    for s in range(SHARDS):
        mine = range(s, TENSORS, SHARDS)
        head = {f"t.{k:03}": {"dtype": "U8", "shape": [SIZE], "data_offsets": [i * SIZE, (i + 1) * SIZE]} for i, k in enumerate(mine)}
        text = json.dumps(head).encode()
        with open(os.path.join(root, f"s{s}.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(map(bytes_of, mine)))
    with open(os.path.join(root, "model.safetensors.index.json"), "w", encoding="ascii") as f:
        json.dump({"metadata": {}, "weight_map": {f"t.{k:03}": f"s{k % SHARDS}.safetensors" for k in range(TENSORS)}}, f)


class Mounted:
    def __init__(self, tmp, server):
        self.at = os.path.join(tmp, "mnt")
        self.point = mount_point(self.at)
        self.server = server

    def __enter__(self):
        os.makedirs(self.at, exist_ok=True)
        self.point.__enter__()
        subprocess.run([ZEROFS, "mount", self.server.url, self.at], check=True, timeout=120)
        self.server.most_busy = self.server.sent = 0
        return self

    def __exit__(self, *exc):
        try:
            subprocess.run([ZEROFS, "umount", self.at], check=True, timeout=120)
        finally:
            self.point.__exit__(*exc)


def goes_through(tmp, server):
    with Mounted(tmp, server) as m:
        server.faults["slow"] = "0.05"
        began = time.monotonic()
        with open(os.path.join(m.at, "model.safetensors"), "rb", buffering=0) as f:
            parts = []
            while part := f.read(1 << 20):
                parts.append(part)
        took = time.monotonic() - began
        server.faults.clear()
        data = b"".join(parts)
        assert data[-TENSORS * SIZE:] == b"".join(map(bytes_of, range(TENSORS))), "wrong bytes"
        print(f"# {took:.2f} s, {server.most_busy} requests at once, {server.sent / len(data):.2f} of the file sent")
        # One after the other there are never more than the two that the kernel reads ahead, of two shards each.
        assert server.most_busy >= 6, f"{server.most_busy} requests at once"
        assert server.sent <= len(data) + 2 * TENSORS * BLOCK


def jumps(tmp, server):
    rng = random.Random(7)
    with Mounted(tmp, server) as m:
        fd = os.open(os.path.join(m.at, "model.safetensors"), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(60):
            os.pread(fd, 4096, rng.randrange(TENSORS * SIZE // 4096) * 4096)
        os.close(fd)
        assert server.sent <= 60 * 2 * BLOCK + 4 * BLOCK, f"{server.sent} bytes for 60 pages"


def beginning(tmp, server):
    with Mounted(tmp, server) as m:
        with open(os.path.join(m.at, "t.003.u8"), "rb", buffering=0) as f:
            assert f.read(8) == bytes_of(3)[:8]
        assert server.sent <= SIZE, f"{server.sent} bytes for eight"


def main():
    need_fuse()
    need_addresses()
    tap = Tap()
    with tempfile.TemporaryDirectory() as tmp:
        root = os.path.join(tmp, "root")
        os.mkdir(root)
        make(root)
        with Server(root) as server:
            tap.run("a reader that goes through has many shards under way", goes_through, tmp, server)
            tap.run("one that jumps costs its blocks", jumps, tmp, server)
            tap.run("the beginning costs the beginning", beginning, tmp, server)
    tap.done()


main()
