# SPDX-License-Identifier: Apache-2.0
"""Reading through a mount in every regime, beside preads of the shards, a daemon whose bytes come from nowhere, and
squashfuse_ll on an uncompressed image of the same bytes.

READ_LIBFUSE names folders that `scripts/test-libfuse --build` left, each with a zerofs and a null daemon of another libfuse: they
take part in every round, past the page cache and over io_uring where they can.  READ_ROWS is a regular expression: only the
mounts with a row that it matches are measured.  READ_MIB is the size.

Two things about the machine would make nonsense of it.  A virtual machine may give freed memory back to its host, and get it again
page by page at a fraction of a GB/s: then what grows the page cache, the first read through FUSE before all, measures the host.
So memory is touched once before, and given back with every 64th page kept (Ballast), whenever fresh memory is found to be slow.  And
the page cache may hold a source in pages of 4 KiB or in large folios, by how fragmented memory is, which halves the speed of a
raw pread: so the first column is in GB/s, the others are ratios within a round, and the copy in /dev/shm, whose pages
are small unless somebody configured it otherwise, is what a FUSE file that is in the page cache can reach at best."""
import contextlib
import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

B = None  # bench.py
SIZE = int(os.environ.get('READ_MIB', 256)) << 20
LARGE = 64 << 20  # what io=auto reads past the page cache, src/fs/mode.c
ROWS = re.compile(os.environ.get('READ_ROWS', ''))


# -- the machine's memory ----------------------------------------------------------------------------
class Ballast:
    """Touches memory, and keeps one page in 64 of it: what is free then in between is backed, and stays so."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.map.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, size, 4096):
            self.map[at] = 1
        for at in range(0, size - 64 * 4096 + 1, 64 * 4096):
            self.map.madvise(mmap.MADV_DONTNEED, at + 4096, 63 * 4096)


def touching():
    """GB/s of touching fresh memory."""
    size = 256 << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        fill, start = bytes(1 << 20), time.monotonic()
        for at in range(0, size, 1 << 20):
            m[at:at + (1 << 20)] = fill
        return size / (time.monotonic() - start) / 1e9


def free():
    with open('/proc/meminfo') as f:
        return 1024 * next(int(line.split()[1]) for line in f if line.startswith('MemAvailable'))


# -- what is measured --------------------------------------------------------------------------------
def evict(paths):
    """Out of the page cache, of these files alone."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def tool(*args):
    return float(B.run(B.TOOL['bench_read'], *args))


def readers(n):
    return lambda w: tool('share', n, *w.paths)


def at_random(size, n):
    return lambda w: tool('random', w.paths[0], n, size)


def cold(w):
    evict(w.below)
    return B.seq(*w.paths)


# A regime: its rows, measured on one fresh mount one after the other.
REGIMES = [
    [('1 reader, first', lambda w: B.seq(*w.paths)), ('1 reader, second', lambda w: B.seq(*w.paths)),
     ('1 reader, third', lambda w: B.seq(*w.paths))],
    [('2 readers, first', readers(2)), ('2 readers, second', readers(2)), ('2 readers, third', readers(2))],
    [('4 readers, first', readers(4)), ('4 readers, second', readers(4)), ('4 readers, third', readers(4))],
    [('mmap, first', lambda w: tool('map', *w.paths)), ('mmap, second', lambda w: tool('map', *w.paths)),
     ('mmap, third', lambda w: tool('map', *w.paths))],
    [('mmap, 4 KiB at random', lambda w: tool('mapped', w.paths[0], 500))],
    [('4 KiB at random', at_random(4096, 2000)), ('4 KiB at random, again', at_random(4096, 2000))],
    [('64 KiB at random', at_random(65536, 400))],
    [('1 MiB at random', at_random(1 << 20, 60))],
    [('cold source', cold)],
]
# read-path.md's goals, of an idle machine: beside raw (a source in large folios), beside the null daemon of the same way,
# and microseconds, over /dev/fuse and over io_uring.
RAW_GOAL = {'cached': {'1 reader, first': 0.12, '1 reader, second': 0.25, '1 reader, third': 0.5, 'mmap, first': 0.11,
                       'mmap, third': 0.35, 'cold source': 0.85},
            'direct': {'1 reader, first': 0.25, '2 readers, first': 0.4, '4 readers, first': 0.4}}
NULL_GOAL = {'cached': {'1 reader, first': 0.95, '2 readers, first': 0.95, '4 readers, first': 0.95, '4 KiB at random': 0.8},
             'direct': {'1 reader, first': 0.9, '2 readers, first': 0.9, '4 readers, first': 0.9}}
LATENCY_GOAL = {'4 KiB at random': (15, 10)}


class Way:
    """How the bytes are reached: `paths` to read, below them the files that hold them."""

    def __init__(self, name, below, command=None, file='', of=None):
        self.name, self.below, self.command, self.file = name, below, command, file
        self.paths = below
        self.io, self.uring, self.null = of or ('', False, '')  # of zerofs: the null daemon that answers by the same way

    def __enter__(self):
        if self.command:
            self.mount = B.Mount(*self.command)
            self.paths = [os.path.join(self.mount.__enter__().at, self.file)]
        return self

    def figures(self, measure):
        """What it measures, and the daemon's seconds of processor meanwhile."""
        before = B.spent(self.mount.daemon.pid) if self.command else 0
        figure = measure(self)
        return figure, (B.spent(self.mount.daemon.pid) - before) / 1e9 if self.command else 0

    def __exit__(self, *_):
        if self.command:
            self.mount.__exit__()


def squash(files):
    """squashfuse_ll of one file of the same bytes, or None where it is not installed."""
    if not (shutil.which('squashfuse_ll') and shutil.which('mksquashfs')):
        B.tell('squashfuse_ll', 'not installed')
        return None
    folder, image = os.path.join(B.tmp, 'squash'), os.path.join(B.tmp, 'v.sqfs')
    os.mkdir(folder)
    with open(os.path.join(folder, 'v'), 'wb') as out:
        for name in files:
            with open(name, 'rb') as f:
                shutil.copyfileobj(f, out, 1 << 20)
    B.run('mksquashfs', folder, image, '-noI', '-noD', '-noF', '-noX', '-no-progress', '-quiet', '-no-sparse')
    shutil.rmtree(folder)
    return Way('squashfuse_ll', [image], ['squashfuse_ll', '-f', image], 'v')


def has_small_pages(size):
    """Is /dev/shm in pages of 4 KiB, with room for so many bytes and as many again?"""
    try:
        with open('/sys/kernel/mm/transparent_hugepage/shmem_enabled') as f:
            return '[never]' in f.read() and shutil.disk_usage('/dev/shm').free >= size * 2
    except OSError:
        return False


def small_pages(files):
    """The same bytes in pages of 4 KiB, or None."""
    if not has_small_pages(SIZE):
        return None
    path = f'/dev/shm/{os.path.basename(B.tmp)}'
    with open(path, 'wb') as out:
        for name in files:
            with open(name, 'rb') as f:
                shutil.copyfileobj(f, out, 1 << 20)
    return Way('tmpfs', [path])


def settled(path):
    """What modes.json says, which is empty until the mount has been seen to answer."""
    until = time.monotonic() + 10
    while True:
        with open(path) as f:
            text = f.read()
        if text or time.monotonic() > until:
            return json.loads(text)
        time.sleep(0.001)


class Build:
    """zerofs and the null daemon with one libfuse: this build directory's, or of a folder of READ_LIBFUSE."""

    def __init__(self, folder=None):
        self.zerofs, self.null, self.label, self.uring = B.ZEROFS, B.TOOL['null'], '', False
        if folder:
            self.zerofs, self.null = (os.path.join(folder, f) for f in ('zerofs', 'null'))
            with open(os.path.join(folder, 'libfuse')) as f:
                self.label = ' ' + f.read().strip()
            self.uring = 'io_uring' in self.label

    def asked(self, io):
        return f'io={"cached" if io == "cached" else "auto"}' + (',io_uring' if self.uring else '')

    def learn(self, ckpt):
        """Which ways it has here, as far as that is for the kernel and its libfuse to say."""
        with B.Mount(self.zerofs, 'mount', '-f', ckpt, '-o', self.asked('auto')) as m:
            runs = settled(os.path.join(m.at, '.zerofs/modes.json'))
        why = runs['why'] if runs['io'] == 'cached' else 'files below 64 MiB are read through it' if SIZE < LARGE else ''
        self.ios = ['cached'] if why else ['cached', 'direct']
        if self.uring and not runs['io_uring']:
            self.ios, why = [], f'requests came over /dev/fuse, {Uring.PATH} is not Y or libfuse cannot'
        if why:
            B.tell(f'past the page cache{self.label}' if self.ios else self.label.strip(), 'not here', why)
        return self

    def ways(self, ckpt, files, file, options='', null=True):
        for io in self.ios:
            words = [io] * (io == 'direct') + ['io_uring'] * self.uring
            nobody = Way(' '.join(['null'] + words[:1] * (io == 'direct')) + self.label, files, [self.null, SIZE] + words, 'v')
            if null:
                yield nobody
            yield Way(io + self.label, files, [self.zerofs, 'mount', '-f', ckpt, '-o', self.asked(io) + options], file,
                      (io, self.uring, nobody.name))


class Uring:
    """FUSE over io_uring for all that mount from now on.  Whatever ends us, a shell sees its pipe closed and puts the
    switch back."""
    PATH = '/sys/module/fuse/parameters/enable_uring'
    keeper = None

    def __enter__(self):
        with contextlib.suppress(OSError), open(self.PATH, 'r+') as f:
            was = f.read(1)
            if was != 'Y':
                self.keeper = subprocess.Popen(['sh', '-c', 'cat; echo "$1" >"$2"', 'sh', was, self.PATH], stdin=subprocess.PIPE,
                                               start_new_session=True)
                f.write('Y')
        return self

    def __exit__(self, *_):
        if self.keeper:
            self.keeper.stdin.close()
            self.keeper.wait()


def builds(ckpt):
    """Those whose ways take part, found out one after the other."""
    found = [Build().learn(ckpt)]
    if not os.environ.get('READ_LIBFUSE'):
        B.tell('with another libfuse', 'not given', 'READ_LIBFUSE=folders that scripts/test-libfuse --build left')
    for folder in os.environ.get('READ_LIBFUSE', '').split():
        try:
            found.append(Build(os.path.abspath(folder)).learn(ckpt))
        except (OSError, RuntimeError) as e:
            B.tell(folder, 'not here', str(e))
    return found


# -- rounds ------------------------------------------------------------------------------------------
def interleaved(ways, regime, enough):
    """{row: {way: figures}} of `enough` undisturbed rounds, or of twice as many of any kind; and how many were disturbed.
    All ways take part in a round, from another one on each time."""
    kept, spoilt = [], []
    while len(kept) < enough and len(kept) + len(spoilt) < 2 * enough:
        turn = (len(kept) + len(spoilt)) % len(ways)
        took = {}
        with B.Round() as r, contextlib.ExitStack() as stack:
            order = [stack.enter_context(w) for w in ways[turn:] + ways[:turn]]
            for row, measure in regime:
                took[row] = {w.name: w.figures(measure) for w in order}
        (spoilt if r.foreign > B.FOREIGN else kept).append(took)
    these = kept if len(kept) >= enough else kept + spoilt
    return {row: {w.name: [t[row][w.name][0] for t in these] for w in ways} for row, _ in regime}, \
        {row: {w.name: [t[row][w.name][1] for t in these] for w in ways if w.command} for row, _ in regime}, \
        len(these) - len(kept)


def table(ways, regimes, enough, size=SIZE):
    """A row: raw, absolute, and below it each way: its speed beside raw, what that is, and its daemon's time for a GB."""
    raw, others = ways[0], ways[1:]
    for regime in regimes:
        if not any(ROWS.search(row) for row, _ in regime):
            continue
        figures, spent, disturbed = interleaved(ways, regime, enough)
        for row, by in figures.items():
            ratios = {w.name: [a / b for a, b in zip(by[raw.name], by[w.name])] for w in others}
            B.tell(row, f'{raw.name} {absolute(row, by[raw.name], size)}',
                   f'{disturbed} of {len(by[raw.name])} disturbed' if disturbed else '')
            B.rows[-1].update(figures=by, ratios=ratios, daemon=spent[row], disturbed=disturbed)
            for w in others:
                r = ratios[w.name]
                daemon = f', {statistics.median(spent[row][w.name]) / size * 1e9:.3f} s/GB' \
                    if w.command and 'random' not in row else ''
                B.tell(f'  {w.name}', f'{statistics.median(r):6.3f} [{min(r):.2f} .. {max(r):.2f}]  '
                       f'{absolute(row, by[w.name], size)}{daemon}', goals(row, w, by, r))


def absolute(row, took, size):
    """Of a random read microseconds were measured, of all others seconds."""
    took = statistics.median(took)
    return f'{took:.2f} us' if 'random' in row else f'{size / took / 1e9:.2f} GB/s'


def goals(row, way, by, ratios):
    said = []

    def want(text, met):
        said.append(text + ('' if met else ' <--'))
    beside_raw, beside_null = RAW_GOAL.get(way.io, {}).get(row), NULL_GOAL.get(way.io, {}).get(row)
    if beside_raw:
        want(f'goal >= {beside_raw}', statistics.median(ratios) >= beside_raw)
    if way.null in by and (beside_null or row.endswith('first')):
        of_null = statistics.median([n / c for n, c in zip(by[way.null], by[way.name])])
        want(f'{of_null:.2f} of {way.null}' + (f', goal >= {beside_null}' if beside_null else ''), of_null >= (beside_null or 0))
    if way.io and row in LATENCY_GOAL:
        most = LATENCY_GOAL[row][way.uring]
        want(f'goal <= {most} us', statistics.median(by[way.name]) <= most)
    return '; '.join(said)


# -- other sources than one tensor of four shards ------------------------------------------------------
def others(those, enough):
    """A file of another save, beside preads of the same save's shards; by bytes read from the mount."""
    few = dict(rows=SIZE // 4096 // 4, cols=1024)
    made = {'gather of 8 columns, 512 bytes a run': ('layers.0.weight.f32', dict(few, ranks=8, columns=True)),
            'the same, 2 columns, 2 KiB a run': ('layers.0.weight.f32', dict(few, ranks=2, columns=True)),
            'cast to bf16': ('as/bf16/layers.0.weight.bf16', dict(few, ranks=4)),
            'a tensor of 1,024 ranks': ('layers.0.weight.f32', dict(few, ranks=1024))}
    for what, (file, how) in made.items():
        if ROWS.search(what):
            ckpt = B.mkdcp('other', *[x for k, v in how.items() for x in ([f'--{k}'] if v is True else [f'--{k}', v])],
                           '--tensors', 1, '--sparse')
            beside(what, ckpt, B.shards(ckpt), file, those, enough)
    if ROWS.search('transposed'):
        turned = os.path.join(B.tmp, 'other')
        os.mkdir(turned)
        n = int((SIZE // 4) ** 0.5)
        B.run(sys.executable, os.path.join(B.SRC, 'tests/support/mkturned.py'), os.path.join(turned, 'pytorch_model.bin'), n, n)
        beside('transposed', turned, [os.path.join(turned, 'pytorch_model.bin')], 'w.f32', those, enough)


def beside(what, ckpt, files, file, those, enough):
    ways = [w for b in those for w in b.ways(ckpt, files, file, ',show=all', null=False)]
    with ways[0] as first:
        size = os.stat(first.paths[0]).st_size
    stored = sum(os.stat(f).st_size for f in files)
    B.seq(*files)
    figures, _, disturbed = interleaved([Way('raw', files)] + ways, [[what, lambda w: B.seq(*w.paths)]], enough)
    by = figures[what]
    B.tell(what, f'raw {stored / statistics.median(by["raw"]) / 1e9:.2f} GB/s',
           f'{disturbed} of {len(by["raw"])} disturbed' if disturbed else '')
    head = B.rows[-1]
    head.update(figures=by, ratios={}, disturbed=disturbed)
    for w in ways:
        head['ratios'][w.name] = r = [size / took / (stored / raw) for raw, took in zip(by['raw'], by[w.name])]
        B.tell(f'  {w.name}', f'{statistics.median(r):6.3f} [{min(r):.2f} .. {max(r):.2f}]  {absolute(what, by[w.name], size)}')
    shutil.rmtree(ckpt)


def part(bench):
    global B
    B = bench
    rate, ballast = touching(), None
    if rate < 1.5:
        ballast = Ballast(min(free() // 2, 12 * SIZE) // 4096 * 4096)
    B.tell('fresh memory', f'{rate:6.1f} GB/s', f'{len(ballast.map) >> 20} MiB touched before' if ballast else '')
    ckpt = B.mkdcp('read', '--tensors', 1, '--ranks', 4, '--rows', SIZE // 4096, '--cols', 1024)
    files, name = B.shards(ckpt), 'layers.0.weight.f32'
    small = small_pages(files)
    try:
        with Uring() if 'READ_LIBFUSE' in os.environ else contextlib.nullcontext():
            those = builds(ckpt)
            ways = [Way('raw', files), small, squash(files)] + [w for b in those for w in b.ways(ckpt, files, name)]
            ways = [w for w in ways if w]
            B.seq(*(f for w in ways for f in w.below))
            table(ways, REGIMES, B.ROUNDS)
            others(those, B.ROUNDS)
    finally:
        if small:
            os.unlink(small.below[0])
