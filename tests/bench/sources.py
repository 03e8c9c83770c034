# SPDX-License-Identifier: Apache-2.0
"""The part "sources" of bench.py: checkpoints on a file system that takes SOURCES_MS (10) for each request and answers many at
once (tests/mount/server).  Each time is beside that of a program which asks the same file system for the same bytes, as many at
a time as zerofs; it stands anew for each of both, so that the kernel knows nothing of it."""
import concurrent.futures
import json
import os
import shutil
import statistics
import struct
import time

B = None  # bench.py
MS = float(os.environ.get('SOURCES_MS', 10))
FILES = 300
SMALL, LARGE = 256 << 10, 256 << 20
AHEAD = 64  # files that zerofs opens at once


class Served:
    """Where the directory src is shown, and how many reads there were."""

    def __init__(self, src):
        self.src, self.counts = src, os.path.join(B.tmp, 'counts')
        self.mount = B.Mount()
        self.mount.ahead = None
        self.at = self.mount.at
        self.mount.command = [os.path.join(B.BUILD, 'tests/mount/server'), src, self.counts, self.at, str(int(MS * 1000)), '-f',
                              '-o', 'max_threads=128']

    def __enter__(self):
        with open(self.counts, 'wb') as f:
            f.write(bytes(48))
        self.mount.__enter__()
        return self

    def __exit__(self, *_):
        self.mount.__exit__()

    def reads(self):
        with open(self.counts, 'rb') as f:
            return struct.unpack('=6Q', f.read(48))[2]


def written(src):
    """A file that was written a moment ago is looked at once more: waits until none was."""
    while time.time() < max(e.stat().st_ctime for e in os.scandir(src)) + 1:
        time.sleep(0.05)
    return src


def shard(path, name, n):
    head = json.dumps({name: {'dtype': 'F32', 'shape': [n // 4], 'data_offsets': [0, n]}}).encode()
    head += b' ' * (-len(head) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        for _ in range(0, n, SMALL):
            f.write(os.urandom(SMALL))
    return 8 + len(head)


def safetensors(src):
    """FILES shards with a tensor each."""
    os.mkdir(src)
    names = {f'layers.{i}.w': f'model-{i + 1:05d}-of-{FILES:05d}.safetensors' for i in range(FILES)}
    head = [shard(os.path.join(src, file), name, SMALL) for name, file in names.items()]
    with open(os.path.join(src, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': {}, 'weight_map': names}, f)
    return written(src), [(file, n) for file, n in zip(names.values(), head)]


def whole(path):
    with open(path, 'rb', buffering=0) as f:
        return f.read()


def part_of(path, off, n):
    with open(path, 'rb', buffering=0) as f:
        return os.pread(f.fileno(), n, off)


def clocked(job, *args):
    began = time.monotonic()
    job(*args)
    return time.monotonic() - began


def at_once(n, job, items):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        list(pool.map(job, items))


def mount_of(what, src, first, each):
    """first: the file that names the others; each(path): what is to be read of one of those."""
    r, took = [], []
    others = sorted(set(os.listdir(src)) - {first})

    def directly(at):
        os.listdir(at)
        whole(os.path.join(at, first))
        at_once(AHEAD, each, [os.path.join(at, f) for f in others])
    for _ in range(B.ROUNDS):
        with B.Round():
            with Served(src) as s:
                raw = clocked(directly, s.at)
            with Served(src) as s, B.Mount(B.ZEROFS, 'mount', '-f', s.at) as m:
                took.append(m.took)
        r.append(took[-1] / raw)
    B.ratio(f'mount of {what}, time beside reading the same', r)
    B.tell('  that is', f'{statistics.median(took):6.2f} s')


def one_by_one(what, src, pieces):
    """pieces: (file of the mount, file of src, offset, size), read in turn by one reader; files of src are open before."""
    r, took = [], []

    def directly(opened):
        for fd, (_, _, off, n) in zip(opened, pieces):
            if len(os.pread(fd, n, off)) != n:
                raise RuntimeError('a short read')

    def mounted(at):
        for file, _, _, n in pieces:
            if len(whole(os.path.join(at, file))) != n:
                raise RuntimeError('a short read')
    for _ in range(B.ROUNDS):
        with B.Round():
            with Served(src) as s:
                opened = [os.open(os.path.join(s.at, f), os.O_RDONLY) for _, f, _, _ in pieces]
                raw = clocked(directly, opened)
                for fd in opened:
                    os.close(fd)
            with Served(src) as s, B.Mount(B.ZEROFS, 'mount', '-f', s.at) as m:
                took.append(clocked(mounted, m.at))
        r.append(took[-1] / raw)
    B.ratio(f'{len(pieces)} tensors of {pieces[0][3] >> 10} KiB of {what}, one by one', r)
    B.tell('  that is', f'{1000 * statistics.median(took) / len(pieces):6.1f} ms a tensor')


def one_large(what, src, file):
    """A tensor, read from its beginning to its end by one reader: beside 64 threads with a share each, as zerofs reads ahead."""
    r, took, many = [], [], []
    files = [f for f in sorted(os.listdir(src)) if f.endswith(('.safetensors', '.distcp'))]
    for _ in range(B.ROUNDS):
        with B.Round():
            with Served(src) as s, B.Mount(B.ZEROFS, 'mount', '-f', s.at) as m:
                before = s.reads()
                took.append(B.seq(os.path.join(m.at, file)))
                ours = s.reads() - before
            with Served(src) as s:
                raw = float(B.run(B.TOOL['bench_read'], 'share', AHEAD, *(os.path.join(s.at, f) for f in files)))
                many.append((ours / took[-1], s.reads() / raw))
        r.append(took[-1] / raw)
    B.ratio(f'a tensor of {LARGE >> 20} MiB of {what}, one reader', r)
    B.tell('  that is', f'{LARGE / statistics.median(took) / 1e6:6.0f} MB/s', 
           ' beside '.join(f'{statistics.median(m) * MS / 1000:.0f}' for m in zip(*many)) + ' reads at once on average')


def dcp(name, tensors, ranks, size):
    return written(B.mkdcp(name, '--tensors', tensors, '--ranks', ranks, '--rows', size // 4096, '--cols', 1024))


def part(bench):
    global B
    B = bench
    src, heads = safetensors(os.path.join(B.tmp, 'served'))
    begins = dict(heads)
    mount_of(f'{FILES} safetensors shards', src, 'model.safetensors.index.json',
             lambda path: part_of(path, 0, begins[os.path.basename(path)]))
    one_by_one(f'{FILES} shards', src, [(f'layers.{i}.w.f32', file, begin, SMALL) for i, (file, begin) in enumerate(heads[:50])])
    shutil.rmtree(src)
    src = dcp('served', 1, FILES, FILES * SMALL)
    mount_of(f'a DCP of {FILES} files', src, '.metadata', lambda path: os.close(os.open(path, os.O_RDONLY)))
    shutil.rmtree(src)
    os.mkdir(src)
    shard(os.path.join(src, 'model.safetensors'), 'w', LARGE)
    one_large('one shard', written(src), 'w.f32')
    shutil.rmtree(src)
    src = dcp('served', 1, 8, LARGE)
    one_large('a DCP of 8 files', src, 'layers.0.weight.f32')
    shutil.rmtree(src)
