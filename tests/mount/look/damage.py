# SPDX-License-Identifier: Apache-2.0
"""damage.py CHECK ARGUMENTS: a damaged checkpoint beside the whole one; an exception is a failure."""
import errno
import json
import mmap
import os
import signal
import struct
import sys

PAGE = mmap.PAGESIZE
ALL = ("", "npy", "as/f32", "hf")


def files(mnt, below=ALL):
    return [os.path.join(d, f) for d in below for f in sorted(os.listdir(os.path.join(mnt, d)))
            if not os.path.isdir(os.path.join(mnt, d, f))]


def content(path):
    with open(path, "rb") as f:
        return f.read()


def lost_bytes(path, size):
    """Which bytes read(2) does not give, asked one by one."""
    out = set()
    fd = os.open(path, os.O_RDONLY)
    for at in range(size):
        try:
            assert len(os.pread(fd, 1, at)) == 1, (path, at)
        except OSError as e:
            assert e.errno == errno.EIO, (path, at, e)
            out.add(at)
    os.close(fd)
    return out


def mapped_page(view, at, n):
    """A page of a mapping through a pipe: write(2) says EFAULT where touching it would be SIGBUS."""
    r, w = os.pipe()
    try:
        return os.read(r, os.write(w, view[at:at + n]))
    except OSError as e:
        return e.errno
    finally:
        os.close(r)
        os.close(w)


def touch(path, at):
    """The signal that ends who touches that byte of a private mapping."""
    pid = os.fork()
    if pid == 0:
        fd = os.open(path, os.O_RDONLY)
        view = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        os._exit(view[at] * 0)
    return os.waitpid(pid, 0)[1]


def maps_one(path, want):
    """Every page of a private mapping: right if no byte of it is lost, else an error.  Returns whether there was one."""
    size = os.stat(path).st_size
    assert size == len(want), f"{path}: {size} bytes, not {len(want)}"
    lost = lost_bytes(path, size)
    fd = os.open(path, os.O_RDONLY)
    whole_map = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    view = memoryview(whole_map)
    for _ in range(2):
        for at in range(0, size, PAGE):
            n = min(PAGE, size - at)
            bad = any(k in lost for k in range(at, at + n))
            got = mapped_page(view, at, n)
            assert got == (errno.EFAULT if bad else want[at:at + n]), (path, at, bad, got)
        assert os.fstat(fd).st_size == os.stat(path).st_size == size, f"{path}: its size became {os.fstat(fd).st_size}"
    view.release()
    whole_map.close()
    os.close(fd)
    if lost:
        assert touch(path, min(lost)) == signal.SIGBUS, path
        assert lost == lost_bytes(path, size), f"{path}: other bytes are lost after it was mapped"
    return bool(lost)


def maps(mnt, whole):
    damaged = [f for f in files(whole) if maps_one(os.path.join(mnt, f), content(os.path.join(whole, f)))]
    assert 10 < len(damaged) < len(files(whole)) - 10, damaged


def shard_end(path):
    """{tensor: how many of its bytes a cut safetensors file still holds}"""
    data = content(path)
    (n,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    there = len(data) - 8 - n
    return {t: max(0, min(there, e["data_offsets"][1]) - e["data_offsets"][0]) for t, e in head.items()}


def reads(mnt, whole, shard):
    kept = shard_end(shard)
    seen = 0
    for f in files(whole, ("",)):
        name = os.path.splitext(f)[0]
        if name not in kept:
            continue
        want = content(os.path.join(whole, f))
        lost = lost_bytes(os.path.join(mnt, f), len(want))
        assert lost == set(range(kept[name], len(want))), (f, kept[name], sorted(lost)[:1])
        fd = os.open(os.path.join(mnt, f), os.O_RDONLY)
        got = os.pread(fd, 1 << 20, 0) if kept[name] else b""
        os.close(fd)
        assert got == want[:kept[name]], (f, len(got))
        seen += bool(lost)
    assert seen > 2, seen


def sends(mnt, whole):
    """sendfile(2) fills the page cache: what it hands on must be right, and short of the damage."""
    for f in files(whole, ("", "hf")):
        want = content(os.path.join(whole, f))
        source, sink = os.open(os.path.join(mnt, f), os.O_RDONLY), os.memfd_create("sink")
        at = 0
        try:
            while at < len(want):
                n = os.sendfile(sink, source, at, len(want) - at)
                assert n, f"{f}: ends at {at}"
                at += n
        except OSError as e:
            assert e.errno == errno.EIO, (f, e)
        assert os.pread(sink, len(want) + 1, 0) == want[:at], f
        os.close(source)
        os.close(sink)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
