#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on shared and cloud file systems, for which tests/mount/odd stands: what did not change is read right, whatever
inode numbers do; what changed is an error, and never new bytes under an old header; what went away comes back."""
import contextlib
import errno
import json
import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from tap import main, need_fuse  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.path.abspath(os.environ.get("ZEROFS", "./zerofs"))
ODD = os.path.abspath(os.path.join(os.environ.get("top_builddir", "build"), "tests/mount/odd"))
N, EACH = 48, 4096
tmp = os.path.realpath(tempfile.mkdtemp(prefix="zf-places-"))


def tensor(i, k=0):
    return struct.pack("<I", (i * 2654435761 + k * 40503) & 0xFFFFFFFF) * EACH


def shard_name(i):
    return f"model-{i + 1:05}-of-{N:05}.safetensors"


def shard_bytes(i, k=0, names="ab"):
    size = len(tensor(0))
    head = json.dumps({f"{c}.{i}": {"dtype": "F32", "shape": [EACH], "data_offsets": [j * size, (j + 1) * size]}
                       for j, c in enumerate(names)}).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + tensor(i, k) + tensor(i, k + 1)


def put(path, data, seconds=None):
    with open(path, "r+b" if os.path.exists(path) else "wb") as f:
        f.write(data)
    if seconds is not None:
        os.utime(path, (seconds, seconds))


def checkpoint(name, seconds=None):
    """Two tensors a shard; times of an hour ago unless it is said, but for ctime, which is what it is."""
    at = os.path.join(tmp, name)
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(at)
    seconds = time.time() - 3600 if seconds is None else seconds
    for i in range(N):
        put(os.path.join(at, shard_name(i)), shard_bytes(i), seconds)
    index = {f"{c}.{i}": shard_name(i) for i in range(N) for c in "ab"}
    put(os.path.join(at, "model.safetensors.index.json"), json.dumps({"metadata": {}, "weight_map": index}).encode(), seconds)
    last = max(os.stat(os.path.join(at, f)).st_ctime_ns for f in os.listdir(at))
    while time.time_ns() < last + 300_000_000:  # what is younger is not kept
        time.sleep(0.01)
    return at


def until(good, *args):
    end = time.monotonic() + 60
    while not good(*args):
        assert time.monotonic() < end, args
        time.sleep(0.01)


class Odd:
    """The file system, in the foreground, so that its process is known."""
    def __init__(self, src, words, at=None):
        self.at = at or tempfile.mkdtemp(prefix="at-", dir=tmp)
        self.counts = self.at + ".counts"
        self.process = subprocess.Popen([ODD, src, self.counts, self.at, words, "-f"], stderr=subprocess.DEVNULL)
        until(self.is_up)

    def is_up(self):
        assert self.process.poll() is None, "odd does not come up"
        with open("/proc/self/mounts", encoding="utf-8") as f:
            return any(line.split()[1] == self.at for line in f)

    def counted(self):
        with open(self.counts, encoding="utf-8") as f:
            return [int(x) for x in f.read().split()]

    def end(self):
        """Whoever has files of it open may keep it."""
        subprocess.run(["fusermount3", "-uzq", self.at], check=False, timeout=60)
        self.crash()

    def crash(self):
        self.process.kill()
        self.process.wait(60)


@contextlib.contextmanager
def odd(src, words, at=None):
    o = Odd(src, words, at)
    with mount_point(o.at):
        try:
            yield o
        finally:
            o.end()


@contextlib.contextmanager
def zerofs(src, files=None, cache="off"):
    at = tempfile.mkdtemp(prefix="mnt-", dir=tmp)

    def few():
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with mount_point(at):
        p = subprocess.run([ZEROFS, "mount", "-o", f"model_cache={cache}", src, at], capture_output=True, timeout=120, check=False,
                           preexec_fn=few)
        assert p.returncode == 0, p.stderr
        try:
            yield at
        finally:
            subprocess.run([ZEROFS, "umount", at], check=False, timeout=120, capture_output=True)


def read(mnt, i, c="a"):
    """The bytes past what the kernel may keep of our own file, or the errno."""
    try:
        with open(f"{mnt}/{c}.{i}.f32", "rb", buffering=0) as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            data = b""
            while len(data) < 4 * EACH:
                got = f.read(4 * EACH)
                if not got:
                    break
                data += got
            return data
    except OSError as e:
        return e.errno


def right(mnt):
    wrong = {i: r if isinstance(r, int) else "other bytes" for i in range(N) for k, c in enumerate("ab")
             for r in [read(mnt, i, c)] if r != tensor(i, k)}
    assert not wrong, {i: errno.errorcode.get(r, r) for i, r in wrong.items()}


def kept(src, cache):
    p = subprocess.run([ZEROFS, "info", "--json", "-o", f"model_cache={cache}", src], capture_output=True, timeout=120, check=True)
    return json.loads(p.stdout)["model_kept"]


def is_due():
    """The path is looked at once a second: the next read looks."""
    time.sleep(1.1)


# ---- nothing changes ----

def inode_numbers_that_do_not_last():
    src = checkpoint("forget")
    for words in ("ino=new", "ino=one,noctime"):
        cache = tempfile.mkdtemp(dir=tmp)
        with odd(src, words) as o:
            for files in (None, 40):
                for _ in ("read", "kept"):
                    with zerofs(o.at, files, cache) as mnt:
                        right(mnt)
                        is_due()
                        right(mnt)


def a_kept_model_after_the_file_system_was_mounted_anew():
    src, cache = checkpoint("anew"), tempfile.mkdtemp(dir=tmp)
    with odd(src, "ino=new") as o:
        assert not kept(o.at, cache)
        assert kept(o.at, cache)
        at = o.at
    with odd(src, "ino=new", at):
        assert kept(at, cache)
        with zerofs(at, None, cache) as mnt:
            right(mnt)


def what_times_and_statfs_do_not_say():
    src = checkpoint("timeless")
    for words in ("epoch", "future,ino=new", "epoch,ino=one,nostatfs"):
        cache = tempfile.mkdtemp(dir=tmp)
        with odd(src, words) as o:
            for _ in ("read", "kept"):
                with zerofs(o.at, 40, cache) as mnt:
                    right(mnt)
                    is_due()
                    right(mnt)


def a_look_a_second():
    """Sixty reads of one file, one after the other: as many looks as seconds; and after a second one look and one read."""
    src = checkpoint("counted")
    modern = tuple(int(x) for x in platform.release().split(".")[:2]) >= (5, 12)
    with odd(src, "ino=new") as o, zerofs(o.at) as mnt:
        assert read(mnt, 0) == tensor(0)
        is_due()
        before = o.counted()
        began = time.monotonic()
        for _ in range(60):
            assert read(mnt, 0) == tensor(0)
        took, after = time.monotonic() - began, o.counted()
        assert after[1] - before[1] >= 60, "they were not read"
        assert after[0] - before[0] <= (1 + took) * (1 if modern else 2), (before, after, took)
        is_due()
        assert read(mnt, 0) == tensor(0)
        last = o.counted()
        assert last[0] - after[0] == (1 if modern else 2) and last[1] - after[1] >= 1, (after, last)


def a_file_that_is_listed_late():
    """A shard that the index names is there only a second later; of one that never comes it is said which."""
    src = checkpoint("late", time.time())
    with odd(src, f"late={shard_name(3)}") as o, zerofs(o.at) as mnt:
        right(mnt)
    os.unlink(os.path.join(src, shard_name(3)))
    with odd(src, "plain") as o:
        p = subprocess.run([ZEROFS, "info", o.at], capture_output=True, timeout=120, check=False)
        assert p.returncode == 4 and shard_name(3).encode() in p.stderr, p


def info_names_the_file_system():
    src = checkpoint("named")

    def said(path):
        return json.loads(subprocess.run([ZEROFS, "info", "--json", path], capture_output=True, timeout=120, check=True).stdout)

    assert "on" not in said(src)
    with odd(src, "plain,nostatfs") as o:
        assert said(o.at)["on"]["type"].startswith("fuse") and said(o.at)["on"]["hides"]
        text = subprocess.run([ZEROFS, "info", o.at], capture_output=True, timeout=120, check=True).stdout
        assert any(line.split()[:1] == [b"on"] and b"fuse" in line for line in text.splitlines()), text


# ---- shards change ----

def ways():
    def in_place(p, i):
        put(p, shard_bytes(i, 100))

    def over(p, i):
        put(p + ".new", shard_bytes(i, 100))
        os.rename(p + ".new", p)

    def cut(p, _):
        os.truncate(p, os.path.getsize(p) - 100)

    def deleted(p, _):
        os.unlink(p)

    return in_place, over, cut, deleted


def changes_that_only_the_path_tells():
    """Attributes are kept by the kernel for an hour, or names as well: neither the descriptor nor a plain stat would tell."""
    for words in ("attr=long,bypath", "attr=long,entry=long,bypath", "ino=new,bypath", "attr=long,entry=long,ino=one"):
        src = checkpoint("change")
        with odd(src, words) as o, zerofs(o.at) as mnt:
            for i in range(8):
                assert read(mnt, i) == tensor(i)
            for i, way in enumerate(ways()):
                way(os.path.join(src, shard_name(i)), i)
            is_due()
            for i, way in enumerate(ways()):
                got = [read(mnt, i, c) for c in "ab"]
                old = [tensor(i, k) for k in range(2)]
                assert all(isinstance(g, int) or (g == was and way.__name__ == "deleted") for g, was in zip(got, old)), \
                    (words, way.__name__, [g if isinstance(g, int) else "bytes" for g in got])
            for i in range(4, N):
                assert read(mnt, i) == tensor(i), (words, i)


def a_change_that_was_seen_is_final():
    src = checkpoint("final")
    p = os.path.join(src, shard_name(0))
    was = os.stat(p)
    with odd(src, "noctime") as o, zerofs(o.at) as mnt:
        assert read(mnt, 0) == tensor(0)
        put(p, shard_bytes(0, 100))
        is_due()
        assert read(mnt, 0, "b") == errno.ESTALE
        put(p, shard_bytes(0), was.st_mtime)
        is_due()
        assert read(mnt, 0, "b") == errno.ESTALE
        assert read(mnt, 1, "b") == tensor(1, 1)


def bytes_where_times_cannot_tell():
    """Written, mounted and written again within one second of a file system that has no parts of one: the header tells."""
    now = time.time()
    src = checkpoint("racy", now)
    with odd(src, "noctime,bypath") as o, zerofs(o.at) as mnt:
        put(os.path.join(src, shard_name(0)), shard_bytes(0, 100, "ba"), now)
        time.sleep(2.1)  # the second is over for every clock
        assert read(mnt, 0) == errno.ESTALE
        assert read(mnt, 1) == tensor(1)


def a_kept_model_of_other_bytes():
    """Times were put back where ctime is not carried: the shard's own header is compared at its first read."""
    src, cache = checkpoint("other"), tempfile.mkdtemp(dir=tmp)
    p = os.path.join(src, shard_name(0))
    was = os.stat(p).st_mtime
    with odd(src, "noctime,ino=new") as o:
        assert not kept(o.at, cache)
        put(p, shard_bytes(0, 100, "ba"), was)
        assert kept(o.at, cache)
        with zerofs(o.at, None, cache) as mnt:
            assert read(mnt, 0) == errno.ESTALE
            assert read(mnt, 0) == errno.ESTALE
            assert read(mnt, 1) == tensor(1)


# ---- its directories ----

def an_index_has_the_directories_below_each_other():
    """Where inode numbers say nothing, and a link leads back, or to another directory."""
    src = tempfile.mkdtemp(dir=tmp)
    paths = {"a/b/c/deep.safetensors", "a/b/beside.safetensors", "a/x.safetensors", "top.safetensors"}
    for path in paths:
        os.makedirs(os.path.join(src, os.path.dirname(path)), exist_ok=True)
        put(os.path.join(src, path), shard_bytes(0))
    os.symlink("../../a", os.path.join(src, "a/b/back"))
    os.symlink("..", os.path.join(src, "a/up"))
    os.symlink("a/b", os.path.join(src, "other"))
    paths |= {"other/c/deep.safetensors", "other/beside.safetensors", "other/back/x.safetensors"}
    for words in ("plain", "ino=new", "ino=one"):
        with odd(src, words) as o:
            got = subprocess.run([ZEROFS, "index", "--stdout", o.at], capture_output=True, timeout=120, check=True)
            found = {e["path"] for e in json.loads(got.stdout)["files"]}
            assert found == paths, (words, sorted(found ^ paths))


# ---- it goes away ----

def logged(mnt):
    with open(f"{mnt}/.zerofs/log", encoding="utf-8") as f:
        return f.read().splitlines()


def what_went_away_comes_back():
    for words in ("ino=new", "ino=new,entry=long,attr=long"):
        src = checkpoint("away")
        first = Odd(src, words)
        with mount_point(first.at), zerofs(first.at) as mnt:
            right(mnt)
            first.crash()
            is_due()
            for _ in range(3):
                assert read(mnt, 0) == errno.EIO
            assert len(logged(mnt)) == 1, logged(mnt)
            subprocess.run(["fusermount3", "-uz", first.at], check=True, timeout=60)
            assert read(mnt, 0) == errno.EIO  # an empty directory is not the file system
            put(os.path.join(src, shard_name(1)), shard_bytes(1, 100))
            with odd(src, words, first.at):
                got = [read(mnt, *x) for x in ((0,), (0, "b"), (1,), (2,))]
                assert got == [tensor(0), tensor(0, 1), errno.ESTALE, tensor(2)], \
                    (words, [g if isinstance(g, int) else len(g) for g in got], logged(mnt))


need_fuse()
try:
    main([inode_numbers_that_do_not_last, a_kept_model_after_the_file_system_was_mounted_anew, what_times_and_statfs_do_not_say,
          a_look_a_second, a_file_that_is_listed_late, info_names_the_file_system, changes_that_only_the_path_tells,
          a_change_that_was_seen_is_final, bytes_where_times_cannot_tell, a_kept_model_of_other_bytes,
          an_index_has_the_directories_below_each_other, what_went_away_comes_back])
finally:
    shutil.rmtree(tmp, ignore_errors=True)
