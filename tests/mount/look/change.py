# SPDX-License-Identifier: Apache-2.0
"""change.py CHECK ARGUMENTS: shards that change under a mount; an exception is a failure."""
import errno
import hashlib
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

MIB = 1 << 20


def tensor(name):
    return b"".join(hashlib.sha256(b"%s %d" % (name.encode(), k)).digest() for k in range(MIB // 32))


def shard(names, data):
    head = {k: {"dtype": "F32", "shape": [MIB // 4], "data_offsets": [i * MIB, (i + 1) * MIB]}
            for i, k in enumerate(names)}
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def make_checkpoint(path):
    os.mkdir(path)
    where = {}
    for i, letter in enumerate("ab"):
        names = [f"{letter}.{k}" for k in range(3)]
        file = f"model-0000{i + 1}-of-00002.safetensors"
        where.update({n: file for n in names})
        with open(os.path.join(path, file), "wb") as f:
            f.write(shard(names, map(tensor, names)))
        # Long ago: what was written within the clock's last tick cannot be told from what is written in this one.
        os.utime(os.path.join(path, file), (10**9, 10**9))
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 6 * MIB}, "weight_map": where}, f)


def read(mnt, name, at=0, n=MIB):
    """Bytes, or the errno; never from the page cache."""
    fd = os.open(os.path.join(mnt, name), os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return os.pread(fd, n, at)
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)


def truncated(mnt, path):
    os.truncate(path, os.stat(path).st_size - MIB - 500000)
    for _ in range(3):
        for name in ("a.2.f32", "a.1.f32", "a.0.f32"):
            size = os.stat(os.path.join(mnt, name)).st_size
            assert size == MIB, "the size changed"
            for at in range(0, MIB, 1 << 17):
                got = read(mnt, name, at, 4096)
                assert got in (errno.EIO, errno.ESTALE), (name, at, got if isinstance(got, int) else got[:20])
    done = subprocess.run(["cat", os.path.join(mnt, "a.2.f32")], capture_output=True)
    assert done.returncode != 0 and not done.stdout.strip(b"\0") and not done.stdout, "cat was content"


def errors_counted(mnt, part):
    with open(os.path.join(mnt, ".zerofs/stats.json")) as f:
        sources = json.load(f)["sources"]
    assert [s["errors"] > 0 for s in sources if part in s["file"]] == [True], sources
    assert all(s["errors"] == 0 for s in sources if part not in s["file"]), sources


def gives(number, function, *args):
    try:
        function(*args)
    except OSError as e:
        assert e.errno == number, e
    else:
        raise AssertionError(f"{function.__name__} {args} works")


def shut(save, why):
    """A directory that is there and cannot be looked into, but for the files that say why."""
    assert os.path.isdir(save)
    gives(errno.EIO, os.listdir, save)
    for name in ("l1.weight.f32", "model.safetensors", "optim", "nothing"):
        gives(errno.EIO, os.stat, os.path.join(save, name))
    with open(os.path.join(save, ".zerofs/log")) as f:
        log = f.read()
    assert log.count("\n") == 1 and re.search(why, log), log
    with open(os.path.join(save, ".zerofs/index.json")) as f:
        j = json.load(f)
    assert j["schema"] == "zerofs.error/1" and j["tag"] == os.path.basename(save), j
    assert re.search(why, j["error"]), j


def index(save):
    with open(os.path.join(save, ".zerofs/index.json")) as f:
        j = json.load(f)
    assert j["schema"] == "zerofs.index/1" and j["tag"] == os.path.basename(save), j["tag"]


def all_stale(mnt):
    for _ in range(2):
        for name in ("a.0.f32", "a.2.f32"):
            got = read(mnt, name)
            assert got == errno.ESTALE, (name, got if isinstance(got, int) else got[:20])


def rewritten(mnt, path):
    with open(path, "r+b") as f:
        f.seek(2 * MIB)
        f.write(b"new bytes")
    all_stale(mnt)


def tick(path):
    """Until the clock that dates files has moved."""
    beside = os.path.dirname(path) + ".tick"
    stamps = set()
    while len(stamps) < 2:
        with open(beside, "w"):
            stamps.add(os.stat(beside).st_ctime_ns)


def harmless(mnt, path):
    """A read after each, and three at once without any."""
    backup = os.path.dirname(path) + ".backup"
    was = read(mnt, "a.0.f32"), read(mnt, "a.1.f32")
    owner = (1, 1) if os.geteuid() == 0 else (-1, -1)
    for change in ((os.chmod, path, 0o640), (os.link, path, path + ".link"), (os.unlink, path + ".link"),
                   (os.chown, path, *owner), (os.chmod, path, 0o600)):
        tick(path)
        change[0](*change[1:])
        assert read(mnt, "a.0.f32") == was[0], change
    subprocess.run(["cp", "-al", os.path.dirname(path), backup], check=True)
    subprocess.run(["chmod", "-R", "a+rX", os.path.dirname(path)], check=True)
    assert read(mnt, "a.1.f32") == was[1]


def not_even_chmod(mnt, path):
    tick(path)
    os.chmod(path, 0o640)
    all_stale(mnt)


def let_go(mnt, path, daemon):
    """Its descriptor is closed though nobody reads."""
    held = lambda: [os.readlink(f"/proc/{daemon}/fd/{k}") for k in os.listdir(f"/proc/{daemon}/fd")]
    assert path in held()
    os.unlink(path)
    end = time.monotonic() + 60
    while any(p.startswith(path) for p in held()):
        assert time.monotonic() < end, held()
        time.sleep(0.05)


def rewritten_quietly(mnt, path):
    st = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(2 * MIB)
        f.write(b"new bytes")
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    all_stale(mnt)


def touched(mnt, path):
    os.utime(path)
    all_stale(mnt)


def old_or_stale(mnt):
    for name in ("a.0", "a.1", "a.2"):
        got = read(mnt, name + ".f32")
        assert got in (errno.ESTALE, tensor(name)), (name, got if isinstance(got, int) else got[:20])


def deleted(mnt, path):
    assert read(mnt, "a.0.f32") == tensor("a.0")
    os.unlink(path)
    old_or_stale(mnt)


def replaced(mnt, path):
    assert read(mnt, "a.0.f32") == tensor("a.0")
    names = ["a.0", "a.1", "a.2"]
    with open(path + ".new", "wb") as f:
        f.write(shard(names, [bytes(MIB)] * 3))
    os.rename(path + ".new", path)
    old_or_stale(mnt)


def stays_stale(mnt, path):
    """Changed and seen so; what becomes of its name afterwards makes the new bytes no better."""
    rewritten_quietly(mnt, path)
    os.rename(path, path + ".away")
    all_stale(mnt)
    os.rename(path + ".away", path)
    all_stale(mnt)
    os.unlink(path)
    all_stale(mnt)


def rewritten_unseen(mnt, path):
    """Nobody reads between the write and the deletion: all that shows is one move of ctime."""
    held = os.open(path, os.O_RDONLY)
    st = os.fstat(held)
    with open(path, "r+b") as f:
        f.write(os.pread(held, 4096, 0) + bytes(st.st_size - 4096))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    os.unlink(path)
    old_or_stale(mnt)


def truncated_presentations(mnt, path):
    os.truncate(path, 1000)
    for name in ("npy/a.1.npy", "as/bf16/a.1.bf16", "as/f32/a.1.f32"):
        got = read(mnt, name, 4096, 65536)
        assert got in (errno.EIO, errno.ESTALE), (name, got if isinstance(got, int) else got[:20])
    for name in ("model.safetensors", "pytorch_model.bin", "as/f16/model.safetensors"):
        size = os.stat(os.path.join(mnt, name)).st_size
        results = [read(mnt, name, at, 4096) for at in range(0, size, MIB // 4)]
        assert any(isinstance(r, int) for r in results), name
        assert all(isinstance(r, bytes) or r in (errno.EIO, errno.ESTALE) for r in results), results
        assert all(isinstance(r, int) or r.strip(b"\0") for r in results), f"zeros in {name}"


def mapped(mnt, path):
    os.truncate(path, 1000)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        fd = os.open(os.path.join(mnt, "a.1.f32"), os.O_RDONLY)
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
            os._exit(0 if m[MIB // 2] else 1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS, status


def race(mnt, path):
    """One writer, eight readers; each read gives old bytes only, or ESTALE."""
    stop, wrong = threading.Event(), []
    want = {n: tensor(n) for n in ("a.0", "a.1", "a.2")}

    def reader(k):
        while not stop.is_set():
            name = f"a.{k % 3}"
            got = read(mnt, name + ".f32", 0, MIB)
            # A read that fails half way gives what came before, as read(2) has it.
            right = want[name].startswith(got) and got != b"" if isinstance(got, bytes) else got == errno.ESTALE
            if not right:
                wrong.append((name, got if isinstance(got, int) else len(got)))
                return

    readers = [threading.Thread(target=reader, args=(k,)) for k in range(8)]
    for t in readers:
        t.start()
    with open(path, "r+b", buffering=0) as f:
        for k in range(300):
            os.pwrite(f.fileno(), bytes([k % 256]) * 4096, 4096 * (k + 1))
    stop.set()
    for t in readers:
        t.join()
    assert not wrong, wrong
    assert read(mnt, "a.0.f32") == errno.ESTALE


def lost_exactly(damaged, whole, zerofs, mnt):
    """Every byte that a mapping of the whole checkpoint finds in a file that is gone reads as EIO; all others are right."""
    gone = {os.path.relpath(os.path.join(d, f), whole) for d, _, fs in os.walk(whole) for f in fs} - \
           {os.path.relpath(os.path.join(d, f), damaged) for d, _, fs in os.walk(damaged) for f in fs}
    assert gone, "nothing was removed"
    subprocess.run([zerofs, "mount", whole, mnt + ".whole"], check=True)
    try:
        lost, kept = compare(mnt, mnt + ".whole", whole, gone)
    finally:
        subprocess.run([zerofs, "umount", mnt + ".whole"], check=True)
    assert lost > 10 and kept > 10, (lost, kept)


def compare(mnt, reference, whole, gone):
    lost = kept = 0
    for d, _, files in os.walk(reference):
        rel = os.path.relpath(d, reference)
        if {"npy", "as", "hf", "state"} & set(rel.split("/")):
            continue
        for f in files:
            path = os.path.join(d, f)
            if "user.zerofs.sources" not in os.listxattr(path):
                continue
            with open(path, "rb") as whole_file:
                want = whole_file.read()
            at, first_lost = 0, None
            for s in json.loads(os.getxattr(path, "user.zerofs.sources")):
                missing = os.path.relpath(s["file"], whole) in gone
                # The first and the last byte of each piece, and all of it.
                for a, n in ((at, 1), (at + s["bytes"] - 1, 1), (at, s["bytes"])):
                    got = read_exactly(mnt, os.path.join(rel, f), a, n)
                    assert got == (errno.EIO if missing else want[a:a + n]), (f, a, n, missing, got)
                if missing and first_lost is None:
                    first_lost = at
                at += s["bytes"]
                lost += missing
                kept += not missing
            # One read of it all stops short at the first lost byte, and fails only there.
            got = read_exactly(mnt, os.path.join(rel, f), 0, MIB)
            assert got == (errno.EIO if first_lost == 0 else want[:first_lost]), (f, first_lost, got)
    return lost, kept


def read_exactly(mnt, name, at, n):
    """A range as anybody reads it: a damaged file is not cached, where a lost neighbour would spoil its page."""
    fd = os.open(os.path.join(mnt, name), os.O_RDONLY)
    try:
        return os.pread(fd, n, at)
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)


def lists(mnt, *expected):
    assert os.listdir(mnt) == list(expected), os.listdir(mnt)


def run_control(mnt):
    with open(os.path.join(mnt, ".zerofs/index.json")) as f:
        run = json.load(f)
    assert run["schema"] == "zerofs.run/1" and run["tags"] == ["global_step3", "global_step20"], run
    with open(os.path.join(mnt, "global_step20/.zerofs/index.json")) as f:
        one = json.load(f)
    assert one["schema"] == "zerofs.index/1" and one["tag"] == "global_step20", one
    inodes = [os.stat(os.path.join(mnt, d, ".zerofs/log")).st_ino for d in ("", "global_step3", "global_step20")]
    assert len(set(inodes)) == 3, inodes
    for d in ("", "global_step3/.zerofs", "global_step3/npy"):
        up = os.stat(os.path.join(mnt, d, "..")).st_ino
        assert d == "" or up == os.stat(os.path.join(mnt, os.path.dirname(d))).st_ino, d


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
