# SPDX-License-Identifier: Apache-2.0
"""stall.py CHECK ARGUMENTS: a shard that hangs (CONTROL/read.FILE exists) and those that wait; an exception is a failure."""
import concurrent.futures
import hashlib
import json
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

PAGE = 4096
N = 1024 * PAGE
HANGS, MORE, LAST = (f"model-0000{i}-of-00004.safetensors" for i in (2, 3, 4))
SHARDS = {"model-00001-of-00004.safetensors": ("a.0", "a.1"), HANGS: ("b.0", "b.1"), MORE: ("c.0",), LAST: ("d.0",)}


def page(name, k):
    return hashlib.sha256(f"{name} {k}".encode()).digest() * (PAGE // 32)


def make(path, cut="0"):
    for file, names in SHARDS.items():
        head = {k: {"dtype": "F32", "shape": [N // 4], "data_offsets": [i * N, (i + 1) * N]} for i, k in enumerate(names)}
        text = json.dumps(head).encode()
        with open(os.path.join(path, file), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.writelines(page(n, k) for n in names for k in range(N // PAGE))
            if file == HANGS:
                f.truncate(f.tell() - int(cut))
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": N * sum(map(len, SHARDS.values()))}, "weight_map": {k: f for f, ns in SHARDS.items() for k in ns}}, f)


def cold(path, flags=0):
    fd = os.open(path, os.O_RDONLY | flags)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return fd


def pread(path, k, direct=False, n=PAGE):
    """Page k, from the daemon; `direct` is another kind of request to it, which is not counted as background."""
    fd = cold(path, os.O_DIRECT if direct else 0)
    try:
        with mmap.mmap(-1, n) as buf:
            got = os.preadv(fd, [buf], k * PAGE)
            return buf[:got]
    finally:
        os.close(fd)


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "this never became true"
        time.sleep(0.01)


class Stall:
    """The shard hangs as long as this is open."""
    def __init__(self, control, shard=HANGS):
        self.flag = os.path.join(control, "read." + shard)
        self.count = os.path.join(control, "blocked")

    def __enter__(self):
        open(self.flag, "w").close()
        return self

    def blocked(self):
        try:
            with open(self.count) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def __exit__(self, *_):
        if os.path.exists(self.flag):
            os.unlink(self.flag)


def bytes_before(mnt, name):
    """Where the data of a tensor begin in model.safetensors."""
    with open(os.path.join(mnt, "model.safetensors"), "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return 8 + n + json.loads(f.read(n))[name]["data_offsets"][0]


def metadata(mnt, k):
    """Seconds of questions that the kernel cannot answer by itself."""
    took = []
    for ask in (lambda: os.path.exists(os.path.join(mnt, f"no.{os.getpid()}.{k}")), lambda: os.statvfs(mnt),
                lambda: open(os.path.join(mnt, ".zerofs/log")).read(), lambda: os.listdir(os.path.join(mnt, ".zerofs")),
                lambda: os.getxattr(os.path.join(mnt, "a.0.f32"), "user.zerofs.dtype")):
        start = time.monotonic()
        ask()
        took.append(time.monotonic() - start)
    return took


def nothing_else_waits(mnt):
    # A thread of its own, so that what hangs is seen to hang.
    pool = concurrent.futures.ThreadPoolExecutor(1)
    took = sum((pool.submit(metadata, mnt, k).result(60) for k in range(20)), [])
    assert statistics.median(took) < 0.1, (statistics.median(took), max(took))
    start = time.monotonic()
    for k in range(0, N // PAGE, 64):
        for direct in (False, True):
            got = pool.submit(pread, os.path.join(mnt, "a.1.f32"), k, direct).result(60)
            assert got == page("a.1", k), (k, direct)
    assert time.monotonic() - start < 20, time.monotonic() - start


def hangs(mnt, control, readers):
    wrong = []
    boundary = bytes_before(mnt, "b.0")
    bulk = os.path.join(mnt, "model.safetensors")

    def reader(k):
        if k % 8 == 0:
            # Begins in the shard that is well and ends in the one that hangs.
            at = boundary // PAGE - 1 - k % 64
            got, want = pread(bulk, at, k % 16 == 0, 128 * PAGE), None
            if got[boundary - at * PAGE:][:PAGE] != page("b.0", 0):
                wrong.append((k, "bulk"))
            return
        if pread(os.path.join(mnt, "b.1.f32"), k % (N // PAGE), k % 2) != page("b.1", k % (N // PAGE)):
            wrong.append((k, "raw"))

    threads = [threading.Thread(target=reader, args=(k,), daemon=True) for k in range(int(readers))]
    with Stall(control) as stall:
        for t in threads:
            t.start()
        until(lambda: stall.blocked() >= 20)
        nothing_else_waits(mnt)
        # Half of the threads that serve, and those that read such files ahead, which serve nobody.
        assert stall.blocked() <= 40 + 60, f"{stall.blocked()} reads wait for one shard"
        assert all(t.is_alive() for t in threads), "who reads the shard that hangs was answered"
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a reader was forgotten"
    assert not wrong, wrong


def ask_all(asks, pool):
    """Seconds of each, all of which answer."""
    took = []
    for ask in asks:
        start = time.monotonic()
        pool.submit(ask).result(60)
        took.append(time.monotonic() - start)
    return took


def works_out(mnt, control, readers):
    """Settings hang while hf/ is looked into for the first time by so many: listings, names, and the index, which has its sizes.
    Where libfuse looks up one name of a directory at a time, the log, beside the index, waits too."""
    hf, wrong, begun = os.path.join(mnt, "hf"), [], threading.Semaphore(0)

    def looks(k):
        begun.release()
        found = os.path.exists(os.path.join(hf, f"no.{k}")) if k % 3 == 0 else sorted(os.listdir(hf)) if k % 3 == 1 else \
            os.path.exists(os.path.join(mnt, ".zerofs/index.json"))
        if found not in (False, ["config.json", "model.safetensors", "params.json", "recipe.json"], True) or (k % 3 == 2) != (found is True):
            wrong.append((k, found))

    threads = [threading.Thread(target=looks, args=(k,), daemon=True) for k in range(int(readers))]
    pool = concurrent.futures.ThreadPoolExecutor(1)
    tensor = os.path.join(mnt, "norm.weight.f32")
    with Stall(control, "params.json") as stall:
        for t in threads:
            t.start()
        for _ in threads:
            begun.acquire()
        until(lambda: stall.blocked() == 1)
        victim = subprocess.Popen(["ls", hf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = ask_all([ask for k in range(20) for ask in (
            lambda k=k: os.path.exists(os.path.join(mnt, f"no.{k}")), lambda: os.statvfs(mnt), lambda: os.listdir(mnt),
            lambda: os.getxattr(tensor, "user.zerofs.dtype"), lambda: pread(tensor, 0, True))], pool)
        assert statistics.median(took) < 0.1, (statistics.median(took), max(took))
        assert stall.blocked() == 1 and all(t.is_alive() for t in threads), "who looks into hf/ was answered"
        victim.kill()
        victim.wait(20)
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "one who looks was forgotten"
    assert not wrong, wrong


READER = """
import mmap, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("signal", flush=True))
fd = os.open(sys.argv[1], os.O_RDONLY | int(sys.argv[4]))
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
print("ready", flush=True)
with mmap.mmap(-1, 4096) as buf:
    os.preadv(fd, [buf], int(sys.argv[2]) * 4096)
    print(buf[:] == bytes.fromhex(sys.argv[3]) * 128, flush=True)
"""


def another_reader(mnt, k, flags=0, groups=0):
    """groups: of how many it is a member; their numbers are in front of the signals in /proc/PID/status."""
    p = subprocess.Popen([sys.executable, "-c", READER, os.path.join(mnt, "b.1.f32"), str(k), page("b.1", k)[:32].hex(), str(flags)],
                         stdout=subprocess.PIPE, text=True, extra_groups=range(1000000, 1000000 + groups) if groups else None)
    assert p.stdout.readline() == "ready\n"
    return p


def crowd(mnt, n, name="b.0"):
    threads = [threading.Thread(target=pread, args=(os.path.join(mnt, name + ".f32"), k, True), daemon=True) for k in range(n)]
    for t in threads:
        t.start()
    return threads


def killed(mnt, control, direct=""):
    with Stall(control) as stall:
        threads = crowd(mnt, 100)
        until(lambda: stall.blocked() >= 20)
        for k in range(5):
            many = 2000 if k > 2 and os.geteuid() == 0 else 0
            p = another_reader(mnt, 500 + k, os.O_DIRECT if direct and k % 2 else 0, many)
            time.sleep(0.1)  # it is likely to wait by then; it has to end either way
            p.kill()
            p.wait(20)
    for t in threads:
        t.join(60)


def interrupted(mnt, control):
    with Stall(control) as stall:
        threads = crowd(mnt, 100)
        until(lambda: stall.blocked() >= 20)
        p = another_reader(mnt, 507)
        time.sleep(0.1)
        p.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        assert p.poll() is None, "it was answered"
    assert "True\n" in p.communicate(timeout=60)[0]
    for t in threads:
        t.join(60)


def hangs_alone(mnt, control):
    with Stall(control) as stall:
        threads = crowd(mnt, 20)
        until(lambda: stall.blocked() >= 1)
        took = sum((metadata(mnt, k) for k in range(20)), [])
        assert statistics.median(took) < 0.1, took
        assert stall.blocked() == 1, stall.blocked()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a reader was forgotten"


def hangs_everywhere(mnt, control):
    """Seven reads may wait for shards: of the first that hangs four, of the next two, of the third one."""
    threads, pool = [], concurrent.futures.ThreadPoolExecutor(1)
    with Stall(control) as stall, Stall(control, MORE), Stall(control, LAST):
        for name, waiting in ("b.0", 4), ("c.0", 6), ("d.0", 7):
            threads += crowd(mnt, 10, name)
            until(lambda waiting=waiting: stall.blocked() == waiting)
        for k in range(20):
            pool.submit(metadata, mnt, k).result(20)
        assert stall.blocked() == 7, stall.blocked()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a reader was forgotten"


def right(mnt):
    for name in sum(SHARDS.values(), ()):
        with open(os.path.join(mnt, name + ".f32"), "rb") as f:
            assert f.read() == b"".join(page(name, k) for k in range(N // PAGE)), name


def ended(mnt, control, daemon):
    def fails(k):
        try:
            pread(os.path.join(mnt, "b.1.f32"), k, True)
        except OSError:
            pass

    threads = [threading.Thread(target=fails, args=(k,), daemon=True) for k in range(20)]
    with Stall(control) as stall:
        for t in threads:
            t.start()
        until(lambda: stall.blocked() >= 1)
        for pid in daemon.split():
            os.kill(int(pid), signal.SIGTERM)
        time.sleep(0.2)
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a reader was forgotten"


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
