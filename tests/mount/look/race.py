# SPDX-License-Identifier: Apache-2.0
"""race.py rounds ZEROFS CKPT MOUNTPOINT SECONDS [SEED]: an exception is a failure."""
import errno
import hashlib
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time

PAGE = 4096
PAGES = 64
N = PAGES * PAGE
NAMES = ("a", "b", "c")
READERS = 64
WRONG_BYTES = hashlib.sha256(b"new").digest() * (PAGE // 32)


def tensor(name):
    return b"".join(hashlib.sha256(f"{name} {k}".encode()).digest() for k in range(N // 32))


OLD = {name: tensor(name) for name in NAMES}


def make(path):
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    head = {k: {"dtype": "U8", "shape": [N], "data_offsets": [i * N, (i + 1) * N]} for i, k in enumerate(NAMES)}
    # Tensors begin with a page of the shard, so that what happens to a page happens to one of theirs.
    text = json.dumps(head).encode().ljust(PAGE - 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(OLD[k] for k in NAMES))


class Writer:
    """What may happen to the shard; `now` is the file that has its name, `held` the one that was mounted."""
    def __init__(self, path, rng):
        self.path, self.rng = path, rng
        self.held = os.open(path, os.O_RDWR)
        self.first = os.fstat(self.held)

    def close(self):
        os.close(self.held)

    def restore(self):
        os.utime(self.held, ns=(self.first.st_atime_ns, self.first.st_mtime_ns))

    def write(self):
        for _ in range(self.rng.randrange(1, 8)):
            os.pwrite(self.held, WRONG_BYTES, PAGE * self.rng.randrange(1, 1 + PAGES * len(NAMES)))

    def write_quietly(self):
        self.write()
        self.restore()

    def write_mapped(self):
        size = os.fstat(self.held).st_size // PAGE * PAGE
        if size > PAGE:
            with mmap.mmap(self.held, size) as m:
                k = PAGE * self.rng.randrange(1, size // PAGE)
                m[k:k + PAGE] = WRONG_BYTES
        self.restore()

    def truncate(self):
        os.ftruncate(self.held, self.rng.randrange(0, self.first.st_size))

    def grow(self):
        os.ftruncate(self.held, self.first.st_size + self.rng.randrange(1, 3 * PAGE))

    def cut_and_grow(self):
        self.truncate()
        os.ftruncate(self.held, self.first.st_size)
        self.restore()

    def rename_over(self):
        new = self.path + ".new"
        with open(new, "wb") as f:
            f.write(os.pread(self.held, PAGE, 0).ljust(PAGE) + WRONG_BYTES * (PAGES * len(NAMES)))
        os.utime(new, ns=(self.first.st_atime_ns, self.first.st_mtime_ns))
        os.rename(new, self.path)

    def delete(self):
        if os.path.exists(self.path):
            os.unlink(self.path)

    def link(self):
        if os.path.exists(self.path) and not os.path.exists(self.path + ".link"):
            os.link(self.path, self.path + ".link")

    def chmod(self):
        os.fchmod(self.held, os.fstat(self.held).st_mode ^ 0o044)

    def away(self):
        if os.path.exists(self.path):
            os.rename(self.path, self.path + ".away")
        elif os.path.exists(self.path + ".away"):
            os.rename(self.path + ".away", self.path)

    # What cannot be told from a write whose time was put back, and those.
    HARMLESS = (link, chmod)
    QUIET = (write_quietly, write_mapped, cut_and_grow, restore)
    ANY = (write, truncate, grow, rename_over, delete, away)
    # Options of the mount, and what may happen then.
    RULES = (("changed=strict", ANY + QUIET + HARMLESS), ("changed=auto", ANY + QUIET), ("changed=auto", ANY + HARMLESS))


class Readers:
    def __init__(self, mnt, rng):
        self.mnt, self.stop, self.wrong = mnt, threading.Event(), []
        self.counts = {"old": 0, errno.ESTALE: 0, errno.EIO: 0, errno.EFAULT: 0}
        kinds = (self.cached, self.reopened, self.direct, self.mapped)
        self.threads = [threading.Thread(target=self.run, args=(kinds[k % 4], random.Random(rng.random())), daemon=True)
                        for k in range(READERS)]

    def check(self, what, at, n, reply):
        """`reply` gives bytes; a read that fails half way gives what came before, as read(2) has it."""
        try:
            got = reply()
        except OSError as e:
            if e.errno not in self.counts:
                self.wrong.append((what, at, n, e))
            else:
                self.counts[e.errno] += 1
            return
        name = what.split()[-1]
        if not got or OLD[name][at:at + n][:len(got)] != got:
            self.wrong.append((what, at, n, "new bytes" if got else "no bytes"))
        self.counts["old"] += 1

    def path(self, name):
        return os.path.join(self.mnt, name + ".u8")

    def run(self, kind, rng):
        kept = {}
        try:
            while not self.stop.is_set():
                name, k = rng.choice(NAMES), rng.randrange(PAGES)
                kind(kept, name, k * PAGE, min(PAGES - k, rng.choice((1, 2, 16))) * PAGE)
        finally:
            for fd, m in kept.values():
                if m:
                    m.close()
                os.close(fd)

    def cached(self, kept, name, at, n):
        fd, _ = kept.setdefault(name, (None, None))
        if fd is None:
            fd = os.open(self.path(name), os.O_RDONLY)
            kept[name] = fd, None
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.check(f"cached {name}", at, n, lambda: os.pread(fd, n, at))

    def reopened(self, kept, name, at, n):
        fd = os.open(self.path(name), os.O_RDONLY)
        try:
            self.check(f"reopened {name}", at, n, lambda: os.pread(fd, n, at))
        finally:
            os.close(fd)

    def direct(self, kept, name, at, n):
        fd = os.open(self.path(name), os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, n) as buf:
                self.check(f"direct {name}", at, n, lambda: buf[:os.preadv(fd, [buf], at)])
        finally:
            os.close(fd)

    def mapped(self, kept, name, at, n):
        """write(2) from a mapping says EFAULT where the program itself would get SIGBUS."""
        if name not in kept:
            fd = os.open(self.path(name), os.O_RDONLY)
            kept[name] = fd, mmap.mmap(fd, N, prot=mmap.PROT_READ)
        fd, m = kept[name]
        r, w = os.pipe()
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            with memoryview(m) as view:
                self.check(f"mapped {name}", at, PAGE, lambda: os.read(r, os.write(w, view[at:at + PAGE])))
        finally:
            os.close(r)
            os.close(w)


def one_round(zerofs, ckpt, mnt, seed):
    rng = random.Random(seed)
    make(ckpt)
    option, kinds = rng.choice(Writer.RULES)
    subprocess.run([zerofs, "mount", ckpt, mnt, "-o", option], check=True, stdin=subprocess.DEVNULL)
    readers = Readers(mnt, rng)
    writer = Writer(os.path.join(ckpt, "model.safetensors"), rng)
    try:
        for t in readers.threads:
            t.start()
        time.sleep(rng.choice((0, 0.02)))
        for _ in range(rng.randrange(1, 7)):
            rng.choice(kinds)(writer)
            time.sleep(rng.choice((0, 0, 0.001, 0.02)))
        time.sleep(0.05)
    finally:
        readers.stop.set()
        for t in readers.threads:
            t.join(120)
        writer.close()
        subprocess.run([zerofs, "umount", mnt], check=True)
    assert not readers.wrong, (f"seed {seed}", readers.wrong[:5])
    return readers.counts


def rounds(zerofs, ckpt, mnt, seconds, seed=""):
    if seed:
        one_round(zerofs, ckpt, mnt, int(seed))
        return
    end, n, total = time.monotonic() + float(seconds), 0, {}
    while n < 2 or time.monotonic() < end:
        for k, v in one_round(zerofs, ckpt, mnt, random.randrange(1 << 32)).items():
            total[k] = total.get(k, 0) + v
        n += 1
    print(n, "rounds,", total)
    assert total["old"], "nothing was read"


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
