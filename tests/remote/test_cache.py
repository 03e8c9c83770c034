#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks kept on disk (-o cache_dir=): what was fetched once is not fetched again, and never believed when it is damaged."""
import fcntl
import hashlib
import json
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bytefile  # noqa: E402 pylint: disable=wrong-import-position
from serve import Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Tap, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
BLOCK = 64 << 10
SIZE = 6 << 20
LARGE = 128 << 20
OLD = 1_600_000_000  # what was written a moment ago is not kept
SECRET = "s3cr3t-w0rd"


def make(path, word):
    data = {f"t{i}": hashlib.shake_128(f"{word} {i}".encode()).digest(SIZE // 4) for i in range(4)}
    bytefile.write(path, data)
    os.utime(path, (OLD, OLD))
    return data


class Case:
    """A server, a file on it and a cache of its own."""

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.root, self.cache = os.path.join(self.tmp.name, "root"), os.path.join(self.tmp.name, "cache")
        os.mkdir(self.root)
        self.want = make(os.path.join(self.root, "m.safetensors"), "first")
        self.server = Server(self.root)
        self.server.__enter__()
        self.url = self.server.url + "m.safetensors"
        return self

    def __exit__(self, *exc):
        self.server.__exit__(*exc)
        self.tmp.cleanup()

    def command(self, *args, **env):
        return subprocess.Popen([ZEROFS, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env})

    def cat(self, *names, options="", ok=True, **env):
        p = self.command("cat", self.url, *(f"{n}.u8" for n in names), "-o", f"cache_dir={self.cache}{options}", **env)
        out, err = p.communicate(timeout=120)
        assert (p.returncode == 0) == ok, err.decode()
        return out

    def right(self, *names, **more):
        assert self.cat(*names, **more) == b"".join(self.want[n] for n in names), f"{names} are wrong"

    def sent(self):
        """Bytes that were sent since the last time."""
        n, self.server.sent = self.server.sent, 0
        return n

    def files(self):
        return [os.path.join(d, f) for d, _, fs in os.walk(self.cache) for f in fs]

    def blocks(self):
        return [f for f in self.files() if os.path.basename(f).isdigit()]


def second_time_from_disk():
    with Case() as c:
        c.right("t0", "t3")
        assert c.sent() >= SIZE // 2
        c.right("t0", "t3")
        # The beginning may be asked for, to see what the object is.
        assert c.sent() <= 2 * BLOCK, "fetched again"
        c.right("t1")
        assert SIZE // 4 <= c.sent() <= SIZE // 4 + 4 * BLOCK


def closed_and_without_secrets():
    with Case() as c:
        c.server.faults["auth"] = f"me:{SECRET}"
        netrc = os.path.join(c.tmp.name, "netrc")
        with open(netrc, "w", encoding="ascii") as f:
            f.write(f"machine 127.0.0.1 login me password {SECRET}\n")
        os.chmod(netrc, 0o600)
        p = c.command("cat", c.url, "t0.u8", "-o", f"cache_dir={c.cache}", NETRC=netrc)
        p.communicate(timeout=60)
        if p.returncode != 0:
            c.server.faults.clear()  # this build has no netrc yet
            c.right("t0")
        for path in [c.cache, *c.files(), *(os.path.dirname(f) for f in c.files())]:
            assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path
        for path in c.files():
            assert SECRET not in path
            with open(path, "rb") as f:
                assert SECRET.encode() not in f.read(), path


def a_replaced_object_is_another():
    with Case() as c:
        c.right("t0", "t1", "t2", "t3")
        c.want = make(os.path.join(c.root, "m.safetensors"), "second")
        os.utime(os.path.join(c.root, "m.safetensors"), (10, 10))
        c.right("t0", "t1", "t2", "t3")


def one_written_twice_in_a_second_is_not_mixed():
    """Time and size are the same, and so is an ETag that is made of them; of what was looked at later, they tell all there is."""
    for etag in ("nginx", "apache", "inode", None):
        for no_time in (True, False) if etag else (False,):
            with Case() as c:
                path = os.path.join(c.root, "m.safetensors")
                c.server.faults = {**({"etag": etag} if etag else {"etag": '"never another"'}), **({"no_time": "1"} if no_time else {})}
                soon = int(time.time()) + 3600  # by this clock, which is the server's, it is not over
                os.utime(path, (soon, soon))
                c.right("t0", "t2")
                assert not c.blocks(), f"{etag}: kept"
                c.want = make(path, "second")
                os.utime(path, (soon, soon))
                c.right("t0", "t1", "t2", "t3")
                if not no_time:
                    os.utime(path, (OLD, OLD))
                    c.right("t0", "t1", "t2", "t3")
                    c.sent()
                    c.right("t0", "t1", "t2", "t3")
                    assert c.sent() <= 2 * BLOCK, f"{etag}: an old one is not kept"


def rot_is_fetched_again_and_replaced():
    rng = random.Random(3)
    with Case() as c:
        for _ in range(5):
            c.right("t0", "t1", "t2", "t3")
            for path in c.blocks():
                with open(path, "r+b") as f:
                    size = os.fstat(f.fileno()).st_size
                    for _ in range(8):
                        f.seek(rng.randrange(size))
                        f.write(bytes([rng.randrange(256)]))
                    if rng.random() < 0.3:
                        f.truncate(rng.randrange(size))
            c.right("t0", "t1", "t2", "t3")
            c.sent()
            c.right("t0", "t1", "t2", "t3")
            assert c.sent() <= 2 * BLOCK, "what was rotten was not replaced"


def killed_while_writing():
    rng = random.Random(4)
    with Case() as c:
        c.server.faults["slow"] = "0.01"
        for _ in range(12):
            p = c.command("cat", c.url, "t0.u8", "t1.u8", "t2.u8", "t3.u8", "-o", f"cache_dir={c.cache}")
            p.stdout.read(rng.randrange(1, SIZE))
            p.send_signal(signal.SIGKILL)
            p.communicate()
        c.right("t0", "t1", "t2", "t3")
        c.sent()
        c.right("t0", "t1", "t2", "t3")
        assert c.sent() <= 2 * BLOCK


def two_at_once_within_the_bound():
    most = 2 << 20
    with Case() as c:
        failed = []

        def reader(seed):
            rng = random.Random(seed)
            try:
                for _ in range(6):
                    c.right(*rng.sample(sorted(c.want), 2), options=f",cache_size={most}")
                    used = sum(os.stat(f).st_blocks * 512 for f in c.blocks() if os.path.exists(f))
                    assert used <= most, f"{used} bytes"
            except FileNotFoundError:
                pass
            except BaseException as e:  # pylint: disable=broad-except
                failed.append(e)

        threads = [threading.Thread(target=reader, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failed:
            raise failed[0]


def listed_and_cleared():
    with Case() as c:
        c.right("t0")
        out = subprocess.run([ZEROFS, "cache", "ls", c.cache], check=True, capture_output=True, text=True, timeout=60).stdout
        assert c.url in out and out.endswith("iB\n") and "1 object," in out, out
        subprocess.run([ZEROFS, "cache", "clear", c.cache], check=True, capture_output=True, timeout=60)
        assert not c.blocks()
        out = subprocess.run([ZEROFS, "cache", "ls", c.cache], check=True, capture_output=True, text=True, timeout=60).stdout
        assert out.startswith("0 objects"), out
        c.right("t0")


def what_is_no_cache_is_refused():
    with Case() as c:
        os.mkdir(c.cache, 0o700)
        with open(os.path.join(c.cache, "thesis.tex"), "w", encoding="ascii"):
            pass
        c.cat("t0", ok=False)
        for word in ("ls", "clear"):
            p = subprocess.run([ZEROFS, "cache", word, c.cache], check=False, capture_output=True, text=True, timeout=60)
            assert p.returncode == 2 and "not a zerofs cache" in p.stderr, p.stderr
        os.unlink(os.path.join(c.cache, "thesis.tex"))
        os.chmod(c.cache, 0o755)
        p = subprocess.run([ZEROFS, "cache", "ls", c.cache], check=False, capture_output=True, text=True, timeout=60)
        assert p.returncode == 2 and f"chmod 700 {c.cache}" in p.stderr, p.stderr
        os.chmod(c.cache, 0o700)
        os.rmdir(c.cache)
        os.mkdir(c.cache, 0o755)
        p = c.command("cat", c.url, "t0.u8", "-o", f"cache_dir={c.cache}")
        out, err = p.communicate(timeout=60)
        assert p.returncode == 2 and not out and f"chmod 700 {c.cache}".encode() in err and len(err.splitlines()) == 1, err
        os.chmod(c.cache, 0o700)
        c.right("t0")


def du(path):
    return int(subprocess.run(["du", "-s", "-B1", path], check=True, capture_output=True, timeout=60).stdout.split()[0])


def the_bound_is_that_of_du():
    """Of many small objects directories and `about` are the larger part; within 5 %, and not much less than it may have."""
    most = 4 << 20
    with Case() as c:
        # As many safetensors shards as do not fit, each of some bytes.
        names = [f"model-{i:05}-of-00700.safetensors" for i in range(1, 701)]
        for i, name in enumerate(names):
            bytefile.write(os.path.join(c.root, name), {f"s{i}": bytes([i % 251]) * 100})
            os.utime(os.path.join(c.root, name), (OLD, OLD))
        with open(os.path.join(c.root, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump({"metadata": {}, "weight_map": {f"s{i}": name for i, name in enumerate(names)}}, f)
        os.unlink(os.path.join(c.root, "m.safetensors"))
        for size in (most, most // 2, most):
            r = subprocess.run([ZEROFS, "info", c.server.url, "-o", f"cache_dir={c.cache},cache_size={size},model_cache=off"], check=False,
                               capture_output=True, timeout=120)
            assert r.returncode == 0, r.stderr
            assert size * .6 < du(c.cache) <= size * 1.05, f"{du(c.cache)} bytes of {size}"
        subprocess.run([ZEROFS, "cache", "clear", c.cache], check=True, capture_output=True, timeout=60)
        assert not os.listdir(os.path.join(c.cache, "o"))


def a_link_in_the_cache_is_not_followed():
    with Case() as c:
        c.right("t0", "t1", "t2", "t3")
        (key,) = os.listdir(os.path.join(c.cache, "o"))
        obj, away = os.path.join(c.cache, "o", key), os.path.join(c.tmp.name, "away")
        os.rename(obj, away)
        os.symlink(away, obj)
        before = {f: (os.stat(os.path.join(away, f)).st_mtime_ns, os.stat(os.path.join(away, f)).st_size) for f in os.listdir(away)}
        with open(os.path.join(away, "0"), "r+b") as f:
            f.truncate(0)
        c.sent()
        c.right("t0", "t1", "t2", "t3")
        assert c.sent() >= SIZE, "read through the link"
        assert os.stat(os.path.join(away, "0")).st_size == 0, "written through the link"
        subprocess.run([ZEROFS, "cache", "clear", c.cache], check=True, capture_output=True, timeout=60)
        assert set(os.listdir(away)) == set(before), "removed through the link"
        # Nor the one above.
        os.unlink(obj)
        os.rename(os.path.join(c.cache, "o"), away + "2")
        os.symlink(away + "2", os.path.join(c.cache, "o"))
        c.right("t0")
        assert not os.listdir(away + "2")


def one_without_an_etag_is_not_kept():
    with Case() as c:
        c.server.faults["no_etag"] = "1"
        c.right("t0")
        assert not c.blocks()


def large(c):
    """A file that a line brings faster than a disk takes it; holes are sent as any other bytes."""
    head = json.dumps({"big": {"dtype": "U8", "shape": [LARGE], "data_offsets": [0, LARGE]}}).encode()
    with open(os.path.join(c.root, "m.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + LARGE)
    os.utime(f.name, (OLD, OLD))


def nothing_is_forgotten_on_a_fast_line():
    with Case() as c:
        large(c)
        subprocess.run([ZEROFS, "info", c.url, "-o", f"cache_dir={c.cache}"], check=True, stdout=subprocess.DEVNULL, timeout=120)
        with open(os.path.join(c.cache, "zerofs-cache"), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the disk takes nothing, until all has come
            p = c.command("cat", c.url, "big.u8", "-o", f"cache_dir={c.cache}")
            assert len(p.stdout.read(LARGE)) == LARGE
        assert p.wait(300) == 0, p.stderr.read()
        assert c.sent() >= LARGE
        c.cat("big")
        assert c.sent() <= 2 * BLOCK, "fetched again"


def a_mount_that_ends_has_written_all():
    if not os.path.exists("/dev/fuse"):
        return
    with Case() as c:
        large(c)
        mnt = os.path.join(c.tmp.name, "mnt")
        os.mkdir(mnt)
        for fetched in (True, False):
            c.sent()
            p = c.command("mount", "-f", c.url, mnt, "-o", f"cache_dir={c.cache}")
            try:
                while not os.path.ismount(mnt):
                    assert p.poll() is None, p.stderr.read()
                with open(os.path.join(mnt, "big.u8"), "rb", buffering=0) as f:
                    while f.read(1 << 20):
                        pass
            finally:
                off = subprocess.run([ZEROFS, "umount", mnt], check=False, capture_output=True, text=True, timeout=120)
            assert p.wait(120) == 0, (off, p.stderr.read())
            sent = c.sent()
            assert sent >= LARGE if fetched else sent <= 2 * BLOCK, sent


def main():
    need_addresses()
    tap = Tap()
    for test in (second_time_from_disk, closed_and_without_secrets, a_replaced_object_is_another, one_written_twice_in_a_second_is_not_mixed, rot_is_fetched_again_and_replaced,
                 killed_while_writing, two_at_once_within_the_bound, listed_and_cleared, what_is_no_cache_is_refused,
                 the_bound_is_that_of_du, a_link_in_the_cache_is_not_followed,
                 one_without_an_etag_is_not_kept, nothing_is_forgotten_on_a_fast_line, a_mount_that_ends_has_written_all):
        tap.run(test.__name__.replace("_", " "), test)
    tap.done()


main()
