#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on a server far away: how many requests a mount and its reads take, and how many are under way at once.
Requests are counted by the file system below (server.c); nothing is timed."""
import contextlib
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from tap import Skip, main, need_fuse  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SERVER = os.path.join(os.environ.get("top_builddir", "."), "tests/mount/server")
N = 64
# What is asked for once a checkpoint, not once a file: its directory, its index, files that are looked for in vain.
ONCE = 24


def tensor(i):
    return struct.pack("<I", i * 2654435761 & 0xFFFFFFFF) * 65536


def write_wide(at):
    names = {}
    for i in range(N):
        name, shard = f"layers.{i}.w", f"model-{i + 1:05d}-of-{N:05d}.safetensors"
        head = json.dumps({name: {"dtype": "F32", "shape": [65536], "data_offsets": [0, 262144]}}).encode()
        with open(os.path.join(at, shard), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + tensor(i))
        names[name] = shard
    with open(os.path.join(at, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": names}, f)


class Served:
    """The directory `src` on a server; answers take `us`."""

    def __init__(self, tmp, us):
        self.tmp, self.us = tmp, us
        self.src, self.at, self.mnt = (os.path.join(tmp, d) for d in ("src", "at", "mnt"))
        for d in (self.src, self.at, self.mnt):
            os.mkdir(d)

    def counts(self):
        with open(os.path.join(self.tmp, "counts"), "rb") as f:
            return dict(zip(("attr", "open", "read", "list", "now", "most"), struct.unpack("=6Q", f.read(48))))

    @contextlib.contextmanager
    def up(self):
        """Anew: the kernel knows nothing of it.  A file counts as being written for a fifth of a second, and is then not kept."""
        while time.time() < max(e.stat().st_ctime for e in os.scandir(self.src)) + 0.5:
            time.sleep(0.01)
        many = subprocess.run([SERVER, ".", os.path.join(self.tmp, "counts"), ".", "1", "--help"], capture_output=True, text=True,
                              check=False)
        more = ["-o", "max_threads=128"] if "max_threads" in many.stdout + many.stderr else []
        with open(os.path.join(self.tmp, "counts"), "wb") as f:
            f.write(bytes(48))
        with mount_point(self.at), subprocess.Popen(
                [SERVER, self.src, os.path.join(self.tmp, "counts"), self.at, str(self.us), "-f", *more]) as served:
            end = time.monotonic() + 20
            while not os.path.ismount(self.at):
                if served.poll() is not None or time.monotonic() > end:
                    raise Skip("the server does not come up")
                time.sleep(0.01)
            try:
                yield
            finally:
                subprocess.run(["fusermount3", "-uz", self.at], check=False)
                served.wait(60)

    def env(self):
        return {**os.environ, "XDG_CACHE_HOME": os.path.join(self.tmp, "kept"), "XDG_RUNTIME_DIR": self.tmp}

    @contextlib.contextmanager
    def mounted(self, files="$(ulimit -n)"):
        before = self.counts()
        with mount_point(self.mnt):
            subprocess.run(["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", ZEROFS, "mount", self.at, self.mnt], env=self.env(),
                           check=True, timeout=120)
            try:
                yield self.since(before)
            finally:
                subprocess.run([ZEROFS, "umount", self.mnt], env=self.env(), check=True, timeout=120)

    def since(self, before):
        now = self.counts()
        return {k: now[k] - (before[k] if k != "most" else 0) for k in now}


def requests(asked):
    return asked["attr"] + asked["open"] + asked["read"] + asked["list"]


def shards_are_asked_for_once_and_together():
    with tempfile.TemporaryDirectory() as tmp:
        s = Served(tmp, 10000)
        write_wide(s.src)
        with s.up(), s.mounted() as asked:
            # The name, the opening, and one read of all of its header.
            assert requests(asked) < 4 * N, asked
            assert asked["most"] >= N // 4, asked
            before = s.counts()
            for i in range(N):
                with open(os.path.join(s.mnt, f"layers.{i}.w.f32"), "rb", buffering=0) as f:
                    assert f.read(1 << 20) == tensor(i), i
            # A look at each, and its bytes.
            asked = s.since(before)
            assert asked["attr"] <= N + 8 and asked["open"] + asked["list"] == 0, asked
        with s.up(), s.mounted() as asked:
            assert asked["open"] <= 2 and requests(asked) <= N + ONCE, asked


def files_of_a_dcp_are_asked_for_together():
    with tempfile.TemporaryDirectory() as tmp:
        s = Served(tmp, 10000)
        subprocess.run([sys.executable, os.path.join(HERE, "../support/mkdcp.py"), s.src, "--ranks", str(N), "--rows", "256",
                        "--expect"], check=True)
        with open(os.path.join(s.src, "expected.json"), encoding="utf-8") as f:
            expected = json.load(f)["tensors"]
        os.unlink(os.path.join(s.src, "expected.json"))
        with s.up(), s.mounted() as asked:
            assert requests(asked) <= 2 * N + ONCE, asked
            assert asked["most"] >= N // 4, asked
            for name, want in expected.items():
                with open(os.path.join(s.mnt, name.removeprefix("model.") + ".f32"), "rb") as f:
                    assert hashlib.sha256(f.read()).hexdigest() == want["sha256"], name


def an_item_of_a_dcp_is_read_in_one_request():
    with tempfile.TemporaryDirectory() as tmp:
        s, item = Served(tmp, 10000), 65536
        subprocess.run([sys.executable, os.path.join(HERE, "../support/mkdcp.py"), s.src, "--ranks", str(N), "--tensors", "3",
                        "--rows", str(64 * N), "--cols", "256", "--expect"], check=True)
        with open(os.path.join(s.src, "expected.json"), encoding="utf-8") as f:
            expected = json.load(f)["tensors"]
        os.unlink(os.path.join(s.src, "expected.json"))
        # The second time the model is cached, and its files are opened by the first read.
        for opened in (0, N):
            with s.up(), s.mounted():
                before = s.counts()
                fd = os.open(os.path.join(s.mnt, "layers.1.weight.f32"), os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                    parts = [os.pread(fd, item, i * item) for i in reversed(range(N))]
                finally:
                    os.close(fd)
                asked = s.since(before)
                data = b"".join(reversed(parts))
                assert hashlib.sha256(data).hexdigest() == expected["model.layers.1.weight"]["sha256"]
                # A look at each file, and one read of directory, pickle and bytes together.
                assert asked["read"] <= N + N // 8, asked
                assert asked["attr"] <= 2 * N and asked["open"] <= opened + 2, asked


def right(s):
    for i in range(N):
        with open(os.path.join(s.mnt, f"layers.{i}.w.f32"), "rb", buffering=0) as f:
            assert f.read(1 << 20) == tensor(i), i


def forty_descriptors_are_enough():
    """The listing does not say what its entries are, so that each is opened, by several threads; also when the kept model
    is compared with what is there."""
    with tempfile.TemporaryDirectory() as tmp:
        s = Served(tmp, 3000)
        write_wide(s.src)
        with s.up():
            for _ in range(2):
                with s.mounted(40):
                    right(s)
                    right(s)


need_fuse()
main([shards_are_asked_for_once_and_together, files_of_a_dcp_are_asked_for_together, an_item_of_a_dcp_is_read_in_one_request,
      forty_descriptors_are_enough])
