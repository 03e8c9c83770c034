# SPDX-License-Identifier: Apache-2.0
"""fs.py CHECK ARGUMENTS: system calls on a mounted checkpoint; an exception is a failure."""
import concurrent.futures
import ctypes
import errno
import hashlib
import json
import mmap
import os
import resource
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)


def make_checkpoint(path):
    """Twelve layers of 512 KiB in one safetensors file, all bytes different from their neighbours."""
    os.mkdir(path)
    n = 512 << 10
    head = {f"layer.{i}.weight": {"dtype": "F32", "shape": [256, 512], "data_offsets": [i * n, (i + 1) * n]}
            for i in range(12)}
    text = json.dumps(head).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i in range(12):
            f.write(b"".join(hashlib.sha256(b"%d %d" % (i, k)).digest() for k in range(n // 32)))


def space(mnt):
    st = os.statvfs(mnt)
    assert st.f_blocks * st.f_frsize == 12 * (512 << 10), st


def errno_of(call, *args, **options):
    try:
        call(*args, **options)
    except OSError as e:
        return e.errno
    return 0


def libc(name, *args):
    if getattr(LIBC, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)


def writes(mnt, path):
    new = os.path.join(mnt, "new")
    calls = [
        (os.open, path, os.O_WRONLY), (os.open, path, os.O_RDWR), (os.open, path, os.O_RDONLY | os.O_TRUNC),
        (os.open, new, os.O_CREAT | os.O_RDWR), (os.open, mnt, os.O_TMPFILE | os.O_RDWR), (os.truncate, path, 0),
        (os.mkdir, new), (os.rmdir, os.path.join(mnt, "npy")), (os.unlink, path), (os.link, path, new),
        (os.symlink, "x", new), (os.rename, path, new), (os.chmod, path, 0o777), (os.chown, path, 1, 1),
        (os.utime, path), (os.utime, path, (0, 0)), (os.mkfifo, new), (os.mknod, new),
        (os.setxattr, path, "user.x", b"y"), (os.removexattr, path, "user.zerofs.dtype"),
    ]
    wrong = [(c[0].__name__, *c[1:], errno.errorcode.get(e, e)) for c in calls
             for e in [errno_of(*c)] if e != errno.EROFS]
    assert not wrong, wrong
    # Through a descriptor open for reading the kernel says EBADF before it asks anybody.
    fd = os.open(path, os.O_RDONLY)
    for call in ((os.write, fd, b"x"), (os.posix_fallocate, fd, 0, 10), (os.ftruncate, fd, 0)):
        assert errno_of(*call) in (errno.EBADF, errno.EINVAL, errno.EROFS), call
    assert errno_of(os.fchmod, fd, 0o777) == errno.EROFS
    os.close(fd)


def content(path):
    with open(path, "rb") as f:
        return f.read()


def cold(path):
    """Opens with the file's pages dropped, so that the daemon is asked."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd


def by_preadv(fd, n):
    parts = [bytearray(k) for k in (1, 4095, 70000, 3)]
    out = b""
    while len(out) < n:
        k = os.preadv(fd, parts, len(out))
        assert k > 0
        out += b"".join(parts)[:k]
    return out


def by_direct(fd, n):
    out, page = b"", mmap.mmap(-1, 1 << 16)
    direct = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECT)
    while len(out) < n:
        k = os.preadv(direct, [page], len(out))
        assert k > 0
        out += page[:k]
    assert os.preadv(direct, [page], n) == 0
    os.close(direct)
    return out


def by_moving(move, fd, n, scratch):
    """sendfile, splice, copy_file_range: into a file, read back."""
    out = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    done = 0
    while done < n:
        k = move(fd, out, n - done, done)
        assert k > 0, (move, done)
        done += k
    got = os.pread(out, n + 1, 0)
    os.close(out)
    return got


def sendfile(fd, out, n, at):
    return os.sendfile(out, fd, at, n)


def splice(fd, out, n, at):
    r, w = os.pipe()
    k = os.splice(fd, w, min(n, 1 << 16), offset_src=at)
    assert os.splice(r, out, k, offset_dst=at) == k
    os.close(r)
    os.close(w)
    return k


def copy_range(fd, out, n, at):
    return os.copy_file_range(fd, out, n, at, at)


def reads(path, scratch):
    want = content(path)
    n = os.stat(path).st_size
    assert len(want) == n > 100000
    ways = {"pread backwards": lambda fd: b"".join(reversed(
                [os.pread(fd, 65537, o) for o in reversed(range(0, n, 65537))])),
            "4 KiB reads": lambda fd: b"".join(iter(lambda: os.read(fd, 4096), b"")),
            "preadv": lambda fd: by_preadv(fd, n), "O_DIRECT": lambda fd: by_direct(fd, n)}
    # Python has splice since 3.10.
    for move in (sendfile, splice) if hasattr(os, "splice") else (sendfile,):
        ways[move.__name__] = lambda fd, move=move: by_moving(move, fd, n, scratch)
    for way, read in ways.items():
        fd = cold(path)
        assert read(fd) == want, way
        os.close(fd)
    # Between file systems of two kinds the kernel refuses, and tools fall back.
    try:
        assert by_moving(copy_range, cold(path), n, scratch) == want
    except OSError as e:
        assert e.errno in (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS), e


def edges(path):
    n = os.stat(path).st_size
    for flags in (0, os.O_DIRECT):
        fd = os.open(path, os.O_RDONLY | flags)
        buf = mmap.mmap(-1, 8192)
        assert os.preadv(fd, [buf], n) == 0 and os.preadv(fd, [buf], n + 12345 * 512) == 0
        assert os.preadv(fd, [buf], 2**62) == 0
        tail = n // 4096 * 4096 - 4096
        assert os.preadv(fd, [buf], tail) == min(8192, n - tail)
        os.close(fd)
    fd = cold(path)
    assert os.pread(fd, 0, 0) == b"" and os.pread(fd, 0, n + 5) == b"" and os.pread(fd, 100, n - 7) != b""
    assert len(os.pread(fd, 100, n - 7)) == 7 and os.pread(fd, 100, n + 1) == b""
    assert errno_of(os.pread, fd, 10, -1) == errno.EINVAL
    assert errno_of(os.pread, fd, 10, 2**63 - 1) in (0, errno.EINVAL, errno.EOVERFLOW)
    assert os.lseek(fd, 0, os.SEEK_END) == n and os.lseek(fd, 10, os.SEEK_END) == n + 10
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0 and os.lseek(fd, 0, os.SEEK_HOLE) == n
    assert errno_of(os.lseek, fd, -1, os.SEEK_SET) == errno.EINVAL
    os.close(fd)
    assert errno_of(os.listdir, path) == errno.ENOTDIR
    d = os.open(os.path.dirname(path), os.O_RDONLY)
    assert errno_of(os.read, d, 10) == errno.EISDIR
    os.close(d)
    assert errno_of(os.open, path + ".not", os.O_RDONLY) == errno.ENOENT
    assert errno_of(os.open, os.path.dirname(path) + "/" + "x" * 256, os.O_RDONLY) == errno.ENAMETOOLONG


def maps(path):
    want = content(path)
    for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        fd = cold(path)
        with mmap.mmap(fd, 0, flags=flags, prot=mmap.PROT_READ) as m:
            assert m[-1:] == want[-1:] and m[:] == want
        os.close(fd)
    fd = cold(path)
    with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as m:
        m[:4] = b"mine"
    os.close(fd)
    assert content(path) == want


def crowd_one(mnt, k):
    digests = []
    for i in range(12):
        fd = cold(os.path.join(mnt, f"layer.{(i + k) % 12}.weight.f32"))
        digest = hashlib.sha256()
        while b := os.read(fd, 1 << (12 + k % 9)):
            digest.update(b)
        os.close(fd)
        digests.append(digest.hexdigest())
    return digests[-k % 12:] + digests[:-k % 12]


def crowd(mnt):
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        results = list(pool.map(lambda k: crowd_one(mnt, k), range(64)))
    assert all(r == results[0] for r in results), {tuple(r) for r in results}
    assert len(set(results[0])) == 12


def many_open(path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = 2000 if hard == resource.RLIM_INFINITY else min(2000, hard - 50)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n + 50), hard))
    fds = [os.open(path, os.O_RDONLY) for _ in range(n)]
    assert os.pread(fds[-1], 100, 1000) == os.pread(fds[0], 100, 1000)
    for fd in fds:
        os.close(fd)


def getdents(fd, size):
    buf = ctypes.create_string_buffer(size)
    n = LIBC.syscall(217 if os.uname().machine == "x86_64" else 61, fd, buf, size)
    assert n >= 0, os.strerror(ctypes.get_errno())
    at = 0
    while at < n:
        _, off, length = struct.unpack_from("<QqH", buf.raw, at)
        yield buf.raw[at + 19:at + length].split(b"\0")[0].decode(), off
        at += length


def listing(mnt):
    names = os.listdir(mnt)
    fd = os.open(mnt, os.O_RDONLY)
    seen = []
    while piece := list(getdents(fd, 100)):
        seen += piece
    assert [x for x, _ in seen if x not in (".", "..")] == names, seen
    assert [x for x, _ in seen[:2]] == [".", ".."]
    for i in (1, len(seen) // 2):
        os.lseek(fd, seen[i][1], os.SEEK_SET)
        assert [x for x, _ in getdents(fd, 1 << 16)] == [x for x, _ in seen[i + 1:]], i
    os.close(fd)


def control(mnt):
    path = os.path.join(mnt, ".zerofs/stats.json")
    before = json.loads(content(path))
    fd = cold(os.path.join(mnt, "layer.3.weight.f32"))
    os.pread(fd, 10, 0)
    os.close(fd)
    assert content(path) != before and json.loads(content(path))["sources"][0]["reads"] > before["sources"][0]["reads"]
    assert os.stat(path).st_size > 0
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buf = mmap.mmap(-1, 4096)
    assert os.preadv(fd, [buf], 0) > 0
    os.close(fd)
    fd = os.open(path, os.O_RDONLY)
    with mmap.mmap(fd, 100, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as m:
        assert m[:1] == b"{"
    os.close(fd)


def resident(pid):
    """KiB in memory, addresses taken, and threads."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        said = {line.split()[0]: int(line.split()[1]) for line in f if line.startswith(("VmRSS:", "VmSize:", "Threads:"))}
    return said["VmRSS:"], said["VmSize:"], said["Threads:"]


def serve(mnt, fds, count):
    """Requests that the kernel cannot answer itself: reads past its cache, names that are not there, what changes."""
    buf = mmap.mmap(-1, 4096)
    for i in range(count):
        os.preadv(fds[i % len(fds)], [buf], i * 7 % 60 * 4096)
        if i % 100 == 0:
            assert not os.path.exists(os.path.join(mnt, f"no such name {i}"))
            content(os.path.join(mnt, ".zerofs/stats.json"))
            os.getxattr(os.path.join(mnt, f"layer.{i // 100 % 12}.weight.f32"), "user.zerofs.sources")
        if i % 5000 == 0:
            os.listdir(mnt)


def growth(mnt, pid):
    # Over io_uring each processor has a thread, whose buffers come with what is asked there first.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fds = [os.open(os.path.join(mnt, name), os.O_RDONLY | os.O_DIRECT) for i in range(12) for name in
           (f"layer.{i}.weight.f32", f"as/bf16/layer.{i}.weight.bf16")] + \
        [os.open(os.path.join(mnt, "model.safetensors"), os.O_RDONLY | os.O_DIRECT)]
    serve(mnt, fds, 5000)
    grew = []
    # Reply buffers are touched for the first time whenever more requests than before are served at once: a dozen MiB, once.  What
    # grows with requests, ten bytes each, does so every time.
    while len(grew) < 3 and (not grew or grew[-1] >= 1024):
        before, space, threads = resident(pid)
        serve(mnt, fds, 100000)
        # Sanitizers, whose shadow takes terabytes of addresses, keep what was freed.
        if space >= 1 << 30:
            break
        after, _, threads_after = resident(pid)
        # A thread that came meanwhile has a stack and what it allocates from.
        grew.append(after - before - 3072 * max(0, threads_after - threads))
    for fd in fds:
        os.close(fd)
    assert not grew or grew[-1] < 1024, grew


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
