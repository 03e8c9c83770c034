# SPDX-License-Identifier: Apache-2.0
"""ahead.py CHECK ARGUMENTS: a model whose tensors are dealt out to eight shards, on storage with latency; an exception is a failure."""
import hashlib
import json
import os
import random
import struct
import sys
import threading
import time

SHARDS, TENSORS, SIZE = 8, 96, 1 << 20
PAGE = 4096


def shard(i):
    return f"shard-{i}.safetensors"


def bytes_of(k):
    return hashlib.shake_128(b"tensor %d" % k).digest(SIZE)


def make(path):
    for s in range(SHARDS):
        mine = range(s, TENSORS, SHARDS)
        head = {f"t.{k:03}": {"dtype": "F32", "shape": [SIZE // 4], "data_offsets": [i * SIZE, (i + 1) * SIZE]} for i, k in enumerate(mine)}
        text = json.dumps(head).encode()
        with open(os.path.join(path, shard(s)), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for k in mine:
                f.write(bytes_of(k))
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": TENSORS * SIZE}, "weight_map": {f"t.{k:03}": shard(k % SHARDS) for k in range(TENSORS)}}, f)


def counts(path):
    with open(path) as f:
        return tuple(map(int, f.read().split()))


def right(data):
    """All of model.safetensors: header, then the tensors in the order of their names."""
    n = struct.unpack("<Q", data[:8])[0]
    assert len(data) == 8 + n + TENSORS * SIZE, "wrong size"
    for k in range(TENSORS):
        at = 8 + n + k * SIZE
        assert data[at:at + SIZE] == bytes_of(k), f"tensor {k} is wrong"


def whole(mnt, rate, share):
    """One reader, start to end: at least `share` of the line's rate."""
    fd = os.open(os.path.join(mnt, "model.safetensors"), os.O_RDONLY)
    size, parts, began = os.fstat(fd).st_size, [], time.monotonic()
    while parts[-1:] != [b""]:
        parts.append(os.read(fd, 1 << 20))
    took = time.monotonic() - began
    right(b"".join(parts))
    got = size / took / float(rate)
    print(f"{size / took / 1e6:.0f} MB/s, {got:.2f} of the line")
    assert got >= float(share), f"{got:.2f} of the line's rate"


def jumps(mnt, counted, most):
    """Page by page, anywhere: what the shards are asked for is not much more than what is read."""
    before = counts(counted)[1]
    rng, n = random.Random(5), 0
    fd = os.open(os.path.join(mnt, "model.safetensors"), os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for _ in range(100):
        n += len(os.pread(fd, PAGE, rng.randrange(TENSORS * SIZE // PAGE) * PAGE))
    asked = counts(counted)[1] - before
    print(f"{n} bytes read, {asked} asked for")
    assert asked <= n * float(most), f"{asked} bytes were asked for to read {n}"


def others(mnt, counted, seconds):
    """While a shard hangs and a reader is stuck in the bulk file, tensors of other shards are read through."""
    with open(counted + ".stall", "w"):
        pass
    stuck = threading.Thread(target=lambda: open(os.path.join(mnt, "model.safetensors"), "rb").read(), daemon=True)
    stuck.start()
    try:
        began = time.monotonic()
        for k in range(1, TENSORS, SHARDS):  # shard 0 hangs
            with open(os.path.join(mnt, f"t.{k:03}.f32"), "rb") as f:
                assert f.read() == bytes_of(k)
            os.stat(os.path.join(mnt, f"t.{k + 1:03}.f32"))
        took = time.monotonic() - began
        assert stuck.is_alive(), "nothing was stuck"
        assert took < float(seconds), f"{took:.1f} s"
    finally:
        os.unlink(counted + ".stall")
    stuck.join(60)
    assert not stuck.is_alive()


globals()[sys.argv[1]](*sys.argv[2:])
