# SPDX-License-Identifier: Apache-2.0
"""bench.py [PART…]: what zerofs costs beside what it could cost, as ratios within one run.

Both sides of a ratio are measured in turn, and the median of the rounds' ratios is shown with the
smallest and the largest: absolute times say more about the machine than about zerofs.  Files are read
from the page cache (hot), so that no disk hides what we spend.  Room is taken in $TMPDIR.  The same rows, with every round,
are in tests/bench/bench.json of the build directory."""
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SRC, BUILD = os.environ['top_srcdir'], os.environ['top_builddir']
os.environ['XDG_CACHE_HOME'] = '/dev/null'  # each mount reads its checkpoint, as a first one does
ZEROFS = os.path.join(BUILD, 'zerofs')
TOOL = {t: os.path.join(BUILD, 'tests/bench', t) for t in ('bench_read', 'bench_cast', 'null')}
daemons = []
part_now = ''
ROUNDS = int(os.environ.get('ROUNDS', 5))
MIB = 1 << 20


# -- running things ----------------------------------------------------------------------------------
def run(*args):
    return subprocess.run([str(a) for a in args], check=True, stdout=subprocess.PIPE).stdout.decode()


def seq(*paths):
    """Seconds to read files at 1 MiB a call."""
    return float(run(TOOL['bench_read'], 'seq', *paths))


def tree(ckpt, path):
    return float(run(TOOL['bench_read'], 'tree', ckpt, path))


def usage(*args):
    """Runs a command: (seconds, peak RSS in MiB, MiB read).  What it read is asked before it is reaped."""
    start = time.monotonic()
    p = subprocess.Popen([str(a) for a in args], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
    took = time.monotonic() - start
    try:
        with open(f'/proc/{p.pid}/io') as f:
            read = int(re.search(r'rchar: (\d+)', f.read()).group(1)) / MIB
    except OSError:
        read = float('nan')
    _, status, ru = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        raise SystemExit(f'{args[0]} failed')
    return took, ru.ru_maxrss / 1024, read


class Mount:
    """A daemon in the foreground, from the time it answers to the time it is gone."""
    ahead = '1024'  # KiB that the kernel reads ahead, or None: as it is

    def __init__(self, *command):
        self.at = tempfile.mkdtemp(prefix='mnt', dir=tmp)
        self.command = [str(c) for c in command] + [self.at]

    def __enter__(self):
        start, dev = time.monotonic(), os.stat(self.at).st_dev
        self.daemon = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        daemons.append(self.daemon.pid)
        while os.stat(self.at).st_dev == dev:
            if self.daemon.poll() is not None:
                raise RuntimeError('cannot mount')
            time.sleep(0.0005)
        self.took = time.monotonic() - start
        st = os.stat(self.at)
        bdi = f'/sys/class/bdi/{os.major(st.st_dev)}:{os.minor(st.st_dev)}/read_ahead_kb'
        if self.ahead:
            with contextlib.suppress(OSError), open(bdi, 'w') as f:
                f.write(self.ahead)
        return self

    def peak(self):
        """MiB of the process that serves, the only child of the one that was started"""
        with open(f'/proc/{self.daemon.pid}/task/{self.daemon.pid}/children') as f:
            serving = f.read().split()[0]
        with open(f'/proc/{serving}/status') as f:
            return int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1)) / 1024

    def __exit__(self, *_):
        daemons.remove(self.daemon.pid)
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()
        os.rmdir(self.at)


def take_off():
    """Ends what a signal kept us from noting as ours.  A child that has not begun its program yet loses the signal."""
    with open(f'/proc/self/task/{os.getpid()}/children') as f:
        children = [int(pid) for pid in f.read().split()]
    for pid in children:
        with contextlib.suppress(OSError):
            while not os.waitpid(pid, os.WNOHANG)[0]:
                os.kill(pid, signal.SIGTERM)
                time.sleep(.5)


# -- what else runs ------------------------------------------------------------------------------------
HZ = os.sysconf('SC_CLK_TCK')


def busy():
    """CPU seconds that the machine has spent so far, and those of this process and of all it started and still runs."""
    with open('/proc/stat') as f:
        row = [int(x) for x in f.readline().split()[1:9]]
    mine = sum(os.times()[:4])
    for daemon in daemons:
        mine += cpu_of(daemon)
    return (sum(row) - row[3] - row[4]) / HZ, mine


def cpu_of(pid):
    """Of a process and its children, which are the mounts' supervisor and worker."""
    total = 0
    try:
        with open(f'/proc/{pid}/stat') as f:
            total += sum(int(x) for x in f.read().rpartition(')')[2].split()[11:13]) / HZ
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            total += sum(cpu_of(c) for c in f.read().split())
    except OSError:
        pass
    return total


def spent(pid):
    """The same in nanoseconds: a process's own clock, which counts threads that have ended too."""
    total = 0
    try:
        total += time.clock_gettime_ns((~pid << 3) | 2)  # clock_getcpuclockid(3)
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            total += sum(spent(c) for c in map(int, f.read().split()))
    except OSError:
        pass
    return total


FOREIGN = 0.3


class Round:
    """Notes whether others took more than 0.3 of a CPU meanwhile; the figures stay in, the row says how many rounds it were."""
    disturbed = total = 0
    foreign = 0.0

    def __enter__(self):
        self.began, self.at = time.monotonic(), busy()
        return self

    def __exit__(self, *_):
        wall, (all_now, mine) = time.monotonic() - self.began, busy()
        self.foreign = ((all_now - self.at[0]) - (mine - self.at[1])) / max(wall, 1e-3)
        Round.total += 1
        Round.disturbed += self.foreign > FOREIGN


# -- telling -----------------------------------------------------------------------------------------
rows = []


def tell(what, value, goal=''):
    rows.append({'part': part_now, 'what': what.strip(), 'value': value.strip(), 'goal': goal.strip()})
    print(f'  {what:<52} {value:<28} {goal}', flush=True)


def ratio(what, ratios, goal=None, most=None):
    r = statistics.median(ratios)
    good = '' if goal is None and most is None else \
        ('' if (goal is None or r >= goal) and (most is None or r <= most) else '  <--')
    want = f'goal >= {goal}' if goal is not None else f'goal <= {most}' if most is not None else ''
    tell(what, f'{r:6.2f}   [{min(ratios):.2f} .. {max(ratios):.2f}]', want + good)
    rows[-1].update(median=r, rounds=list(ratios))


def mkdcp(name, *args):
    path = os.path.join(tmp, name)
    run(sys.executable, os.path.join(SRC, 'tests/support/mkdcp.py'), path, *args)
    return path


def shards(ckpt):
    return sorted(os.path.join(ckpt, f) for f in os.listdir(ckpt) if f.endswith('.distcp'))


# -- the parts ---------------------------------------------------------------------------------------
def part_read():
    """Reading through a mount in every regime; the first column absolute, then speeds beside it."""
    import reading  # pylint: disable=import-outside-toplevel
    reading.part(sys.modules[__name__])


def part_list():
    """`ls -l` of 10^5 parameters, beside a directory of as many files on this disk."""
    ckpt, plain, n = mkdcp('list', '--tensors', 100000, '--ranks', 1, '--rows', 1, '--cols', 4, '--hollow'), \
        os.path.join(tmp, 'plain'), 100000
    os.mkdir(plain)
    for i in range(n):
        os.close(os.open(os.path.join(plain, f'layers.{i}.weight.f32'), os.O_CREAT | os.O_WRONLY))

    def listed(path):
        start = time.monotonic()
        subprocess.run(['ls', '-l', path], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - start
    first, again = [], []
    listed(plain)
    for _ in range(ROUNDS):
        with Round(), Mount(ZEROFS, 'mount', '-f', ckpt) as m:
            took = [listed(plain), listed(m.at), listed(plain), listed(m.at)]
            first.append(took[1] / took[0])
            again.append(took[3] / took[2])
    ratio('first, time beside it warm', first, most=3)
    ratio('again', again, most=1)
    for path in (ckpt, plain):
        shutil.rmtree(path)


def part_transposed():
    """A matrix whose file has its columns one after the other, without a kernel between: beside preads of the file."""
    path, n = os.path.join(tmp, 'turned'), 8192
    os.mkdir(path)
    run(sys.executable, os.path.join(SRC, 'tests/support/mkturned.py'), os.path.join(path, 'pytorch_model.bin'), n, n)
    r, rate = [], []
    seq(os.path.join(path, 'pytorch_model.bin'))
    for _ in range(ROUNDS):
        with Round():
            raw, ours = seq(os.path.join(path, 'pytorch_model.bin')), tree(path, 'w.f32')
        r.append(raw / ours)
        rate.append(4 * n * n / ours / 1e9)
    ratio('8192 x 8192 float32, speed', r)
    tell('  that is', f'{statistics.median(rate):6.2f} GB/s', 'goal >= 2 on an idle machine')
    shutil.rmtree(path)


def part_recipes():
    """hf/ by a recipe: tensors in another order, and a Megatron save beside converting it first."""
    import recipes  # pylint: disable=import-outside-toplevel
    recipes.part(sys.modules[__name__])


def fill(paths):
    """Puts bytes into the holes of files: those come from one page of zeros, and faster than any file."""
    for path in paths:
        with open(path, 'r+b') as f:
            while block := f.read(MIB):
                f.seek(-len(block), os.SEEK_CUR)
                f.write(block)


def columns(where, ranks, run_bytes):
    """A DCP of 128 MiB, a tensor in so many columns, in the page cache."""
    cols = ranks * run_bytes // 4
    ckpt = mkdcp(os.path.join(where, f'columns{ranks}.{run_bytes}'), '--tensors', 1, '--ranks', ranks, '--rows', (32 << 20) // cols,
                 '--cols', cols, '--columns', '--sparse')
    fill(shards(ckpt))
    seq(*shards(ckpt))
    return ckpt


def gather(where, ranks, run_bytes):
    """Columns: our speed, without a kernel between, beside contiguous preads of the same bytes; GB/s of these"""
    ckpt, r, rate = columns(where, ranks, run_bytes), [], []
    for _ in range(ROUNDS):
        with Round():
            raw = seq(*shards(ckpt))
            r.append(raw / tree(ckpt, 'layers.0.weight.f32'))
        rate.append((128 << 20) / raw / 1e9)
    shutil.rmtree(ckpt)
    return r, statistics.median(rate)


def part_gather():
    """A tensor cut into columns: chunks read in strides, beside contiguous preads of the same bytes; from the page cache of this disk, and
    from tmpfs, whose pages are as small as those of a file for which the kernel found no large folios: the aim was set beside such."""
    import reading  # pylint: disable=import-outside-toplevel
    with contextlib.ExitStack() as stack:
        places = [('', tmp)]
        if reading.has_small_pages(128 << 20):
            places.append((', tmpfs', stack.enter_context(tempfile.TemporaryDirectory(prefix='zerofs-bench.', dir='/dev/shm'))))
        for ranks, run_bytes in ((8, 64), (8, 256), (8, 512), (8, 1024), (8, 2048), (2, 8192), (64, 256)):
            for name, where in places:
                r, rate = gather(where, ranks, run_bytes)
                ratio(f'{ranks} columns, {run_bytes} bytes a run{name} ({rate:.0f} GB/s)', r, 0.75)


def unproved(*args):
    """bench_read with an fstat that costs nothing, see stat_once.c."""
    os.environ['LD_PRELOAD'] = os.path.join(BUILD, 'tests/bench/stat_once.so')
    try:
        return float(run(TOOL['bench_read'], *args))
    finally:
        del os.environ['LD_PRELOAD']


def part_guards():
    """What the proof after each read costs that a shard is still the file that was mounted (fstat): time with it beside time without, without
    a kernel between.  The proof that a range lies within its shard is two comparisons, which nothing here can measure."""
    name = 'layers.0.weight.f32'
    for what, ranks, run_bytes, args in (
            ('contiguous, 1 MiB a read', 1, 65536, ('tree',)), ('8 columns, 1 KiB a run', 8, 1024, ('tree',)),
            ('64 columns, 256 bytes a run, 16 KiB a call', 64, 256, ('tree',)), ('4 KiB at random', 1, 65536, ('pick', 20000, 4096))):
        ckpt, r = columns(tmp, ranks, run_bytes), []
        command = args[0], ckpt, name, *args[1:]
        for _ in range(ROUNDS):
            with Round():
                r.append(float(run(TOOL['bench_read'], *command)) / unproved(*command))
        ratio(what, r)
        shutil.rmtree(ckpt)


def part_memory():
    """Peak RSS of the daemon."""
    worst, name, n = 0, '', 0
    data = os.path.join(SRC, 'tests/data')
    for base, dirs, _ in sorted(os.walk(data)):
        for d in sorted(dirs):
            try:
                with Mount(ZEROFS, 'mount', '-f', os.path.join(base, d)) as m:
                    everything = [os.path.join(p, f) for p, _, fs in os.walk(m.at) for f in fs]
                    subprocess.run([TOOL['bench_read'], 'seq'] + everything, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                    n, peak = n + 1, m.peak()
                    worst, name = max((worst, name), (peak, d))
            except RuntimeError:
                pass
    tell(f'peak RSS over {n} bundled checkpoints, all files read', f'{worst:6.1f} MiB  ({name})', 'goal <= 32')
    ckpt = mkdcp('huge', '--tensors', 32, '--ranks', 2, '--rows', 200000, '--cols', 4000, '--sparse')
    with Mount(ZEROFS, 'mount', '-f', ckpt) as m:
        random.seed(1)
        names = [os.path.join(m.at, f) for f in os.listdir(m.at) if f.endswith('.f32')]
        names.append(os.path.join(m.at, 'model.safetensors'))
        size = sum(os.stat(n).st_size for n in names[:-1])
        for _ in range(2000):
            with open(random.choice(names), 'rb', buffering=0) as f:
                f.seek(random.randrange(os.fstat(f.fileno()).st_size))
                f.read(random.choice((4096, MIB)))
        seq(names[0])
        tell(f'peak RSS while serving {size / 1e9:.0f} GB', f'{m.peak():6.1f} MiB', 'goal <= 32')
    shutil.rmtree(ckpt)


def part_metadata():
    """A million chunks: our pickle reader beside CPython's."""
    ckpt = mkdcp('chunks', '--tensors', 7813, '--ranks', 128, '--rows', 128, '--cols', 4, '--hollow')
    meta = os.path.join(ckpt, '.metadata')
    # CPython takes long enough to be measured once.
    size, r, ours = os.stat(meta).st_size / MIB, [], []
    theirs = usage(sys.executable, os.path.join(SRC, 'tests/bench/load_pickle.py'), meta)
    for _ in range(3):
        ours.append(usage(ZEROFS, 'info', ckpt))
        r.append(ours[-1][0] / theirs[0])
    took, rss, read = (statistics.median(x) for x in zip(*ours))
    ratio('DCP of 10^6 chunks, time beside pickle.load', r, most=1)
    tell('  until it is opened', f'{took:6.2f} s   (CPython {theirs[0]:.2f} s)')
    tell('  peak RSS', f'{rss:6.0f} MiB (CPython {theirs[1]:.0f} MiB)')
    tell('  bytes read', f'{read:6.0f} MiB (.metadata {size:.0f} MiB)')
    shutil.rmtree(ckpt)


def part_zarr():
    """Megatron's zarr backend, 10^5 chunk files: opening it, beside a walk that asks for each file's attributes."""
    ckpt = os.path.join(tmp, 'zarr')
    run(sys.executable, os.path.join(SRC, 'tests/support/mkzarr.py'), ckpt)
    run(TOOL['bench_read'], 'walk', ckpt)
    r, ours, mounts = [], [], []
    for _ in range(ROUNDS):
        walk = float(run(TOOL['bench_read'], 'walk', ckpt))
        ours.append(usage(ZEROFS, 'info', ckpt))
        with Mount(ZEROFS, 'mount', '-f', ckpt) as m:
            mounts.append(m.took)
            r.append(m.took / walk)
            layer = seq(os.path.join(m.at, 'decoder.layers.7.mlp.part0.weight.f32'))
    took, rss, _ = (statistics.median(x) for x in zip(*ours))
    ratio('mount until it answers, time beside the walk', r, most=3)
    tell('  until it answers', f'{statistics.median(mounts):6.2f} s   (info {took:.2f} s)')
    tell('  peak RSS', f'{rss:6.0f} MiB')
    tell('  first read of one layer, 64 chunks', f'{layer * 1000:6.2f} ms')
    shutil.rmtree(ckpt)


def part_stacked():
    """Megatron's torch_dist, 96 stacked layers in 10^5 chunks: opening it, and one layer of one of its tensors."""
    ckpt = os.path.join(tmp, 'stacked')
    run(sys.executable, os.path.join(SRC, 'tests/support/mkmegatron.py'), ckpt, '--layers', 96, '--tensors', 8, '--ranks', 32,
        '--rows', 4096, '--cols', 256, '--sparse')
    meta = os.path.join(ckpt, '.metadata')
    theirs, r, ours, reads = usage(sys.executable, os.path.join(SRC, 'tests/bench/load_pickle.py'), meta), [], [], []
    for _ in range(ROUNDS):
        ours.append(usage(ZEROFS, 'info', ckpt))
        r.append(ours[-1][0] / theirs[0])
    took, rss, _ = (statistics.median(x) for x in zip(*ours))
    ratio('Megatron of 10^5 chunks, time beside pickle.load', r, most=1)
    tell('  until it is opened', f'{took:6.2f} s   (CPython {theirs[0]:.2f} s)')
    tell('  peak RSS', f'{rss:6.0f} MiB (CPython {theirs[1]:.0f} MiB)')
    with Mount(ZEROFS, 'mount', '-f', ckpt) as m:
        for i in range(ROUNDS):
            reads.append(seq(os.path.join(m.at, f'decoder.layers.{7 + i}.mlp.part3.weight.f32')))
        tell('  first read of one layer, 4 MiB in 32 chunks', f'{1000 * statistics.median(reads):6.1f} ms')
    shutil.rmtree(ckpt)


def part_buckets():
    """The same Megatron save with its states in 512 flat buckets, and each by itself: opening it, parameters mapped."""
    r, took, peak = [], [], []
    ckpt = {}
    for way in ([], ['--buckets']):
        ckpt[bool(way)] = os.path.join(tmp, 'buckets' + ''.join(way))
        run(sys.executable, os.path.join(SRC, 'tests/support/mkmegatron.py'), ckpt[bool(way)], '--layers', 64, '--tensors', 8,
            '--ranks', 1, '--rows', 64, '--cols', 64, *way)
    for _ in range(ROUNDS):
        plain, flat = usage(ZEROFS, 'info', ckpt[False]), usage(ZEROFS, 'info', ckpt[True])
        r.append(flat[0] / plain[0])
        took.append(flat[0])
        peak.append(flat[1])
    ratio('512 flat buckets, time beside states by themselves', r, most=2)
    tell('  until it is opened', f'{statistics.median(took):6.2f} s')
    tell('  peak RSS', f'{max(peak):6.0f} MiB')
    for path in ckpt.values():
        shutil.rmtree(path)


def part_local():
    """OLMo on 256 ranks, 5.6 billion parameters and their optimizer: local (FSDP1, 512 pickles to read), OLMo-core 0.x, OLMo-core >= 1.0."""
    for layout in ('local', 'olmo_core', 'core'):
        ckpt, took, peak, layer = os.path.join(tmp, 'local'), [], [], []
        run(sys.executable, os.path.join(SRC, 'tests/support/mkolmo.py'), ckpt, '--layout', layout, '--ranks', 256)
        for _ in range(ROUNDS):
            with Mount(ZEROFS, 'mount', '-f', ckpt) as m:
                took.append(m.took)
                layer.append(seq(os.path.join(m.at, 'transformer.blocks.7.attn_norm.weight.f32')))
                peak.append(m.peak())
        goals = ('', '') if layout == 'olmo_core' else ('goal <= 1', 'goal <= 100')  # 20 MB of JSON
        tell(f'{layout}: mount until it answers', f'{statistics.median(took):6.2f} s', goals[0])
        tell('  peak RSS', f'{max(peak):6.0f} MiB', goals[1])
        tell('  first read of a small parameter', f'{statistics.median(layer) * 1000:6.2f} ms')
        shutil.rmtree(ckpt)


def below(path):
    return [os.path.join(d, f) for d, _, files in os.walk(path) for f in files]


def part_export():
    """export beside cp, both with all that they wrote on the disk: cp is followed by fdatasync of each file (sync -d)."""
    aside, n = os.path.join(tmp, 'aside'), 0

    def timed(copy, path=None):
        """Seconds to copy into an empty folder; path: what of the folder is synced afterwards.  Nothing is deleted between two
        that are compared: ext4 makes files slowly for a while after."""
        nonlocal n
        n += 1
        to = os.path.join(aside, str(n))
        os.makedirs(to)
        subprocess.run(['sync', '-f', tmp], check=True)
        start = time.monotonic()
        subprocess.run([x.replace('@', to) for x in copy], check=True)
        if path is not None:
            subprocess.run(['sync', '-d'] + below(os.path.join(to, path)), check=True)
        return time.monotonic() - start

    for tensors, rows in ((8, 16384), (64, 2048), (2000, 64)):
        ckpt = mkdcp(f'data{tensors}', '--tensors', tensors, '--ranks', 2, '--rows', rows, '--cols', 1024)
        files = os.path.join(tmp, 'files')
        subprocess.run([ZEROFS, 'export', '-q', ckpt, '/', files], check=True)
        every, one, same = [], [], []
        for _ in range(ROUNDS):
            with Round():
                cp, again = timed(['cp', '-r', ckpt, '@'], ''), timed(['cp', '-r', files, '@'], '')
                took = timed([ZEROFS, 'export', '-q', ckpt, '/', '@'])
                every.append(cp / took)
                same.append(again / took)
                one.append(cp / timed([ZEROFS, 'export', '-q', ckpt, 'model.safetensors', '@/']))
            shutil.rmtree(aside)
        each = f'{tensors} tensors of {rows * 4 // 1024} MiB' if rows >= 256 else f'{tensors} tensors of {rows * 4} KiB'
        ratio(f'{each}, speed beside cp of the shards', every, 1)
        ratio('  beside cp of what was written', same, 1)
        ratio('  model.safetensors, beside cp of the shards', one, 1)
        shutil.rmtree(files)
        shutil.rmtree(ckpt)


def part_cast():
    """as/: bytes a second of the inner loops, beside memcpy: the best this CPU has, and those for AVX2."""
    for kernels in ([], ['avx2']):
        try:
            rounds = [{name: (float(reply), float(hot)) for name, reply, hot in
                       (line.split() for line in run(TOOL['bench_cast'], *kernels).splitlines())} for _ in range(ROUNDS)]
        except subprocess.CalledProcessError:
            tell(*kernels, 'this CPU has none')
            continue
        tell(' '.join(['memcpy'] + kernels), f'{statistics.median(r["memcpy"][0] for r in rounds):6.1f} GB/s')
        for name in list(rounds[0])[1:]:
            ratio(f'{name}, bytes read and written for 1 MiB of reply, beside memcpy', [r[name][0] / r['memcpy'][0] for r in rounds], goal=0.75)
            ratio('  in the second-level cache', [r[name][1] / r['memcpy'][1] for r in rounds])


def part_remote():
    """Behind an address, over a line with delay: mounting, a tensor, and throughput beside curl."""
    import remote  # pylint: disable=import-outside-toplevel
    remote.part(sys.modules[__name__])


def part_sources():
    """On a file system that takes 10 ms for each request (SOURCES_MS): mounts and reads, beside direct reads of the same bytes."""
    import sources  # pylint: disable=import-outside-toplevel
    sources.part(sys.modules[__name__])


def part_scale():
    """Growth from 1 to 4,096 ranks, 10^2 to 10^6 tensors, 1 GB to 10 TB (SCALE_MOST=0.1: a tenth of the largest)."""
    import scale  # pylint: disable=import-outside-toplevel
    scale.part(sys.modules[__name__])


def part_tools():
    """zerofs beside what users would run instead, on the same checkpoints of some GB."""
    import tools  # pylint: disable=import-outside-toplevel
    tools.part(sys.modules[__name__])


SUMS = '''
import sys, time
import numpy as np
start, at = time.monotonic(), 0
with open(sys.argv[1], "rb") as f:
    n = int.from_bytes(f.read(8), "little") + 8
for a in np.array_split(np.fromfile(sys.argv[1], np.float32, offset=n), 16):
    a.min(), a.max(), a.mean(dtype=np.float64), a.std(dtype=np.float64), (a == 0).sum(), np.isnan(a).sum(), np.isinf(a).sum()
print(time.monotonic() - start)
'''


def part_values():
    """diff of two equal files beside cmp, and stat beside numpy, which has read the file and does the same sums; one thread and all."""
    import tools  # pylint: disable=import-outside-toplevel
    tools.B = sys.modules[__name__]
    each, n = 64 * MIB, 16
    head = json.dumps({f'layers.{i}.w': {'dtype': 'F32', 'shape': [each // 4096, 1024], 'data_offsets': [i * each, (i + 1) * each]}
                       for i in range(n)}).encode()
    head += b' ' * (-len(head) % 8)
    a, b = (os.path.join(tmp, f'{name}.safetensors') for name in 'ab')
    block = b''.join(struct.pack('<f', random.gauss(0, 1)) for _ in range(MIB // 4))
    with open(a, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        for _ in range(n * each // MIB):
            f.write(block)
    shutil.copy(a, b)
    python = tools.interpreter()

    def timed(*words):
        start = time.monotonic()
        run(*words)
        return time.monotonic() - start

    for jobs, title in ((1, 'one thread'), (os.cpu_count(), 'all threads')):
        equal, sums = [], []
        for _ in range(ROUNDS):
            with Round():
                equal.append(timed('cmp', a, b) / timed(ZEROFS, 'diff', '-j', jobs, a, b))
                if python:
                    sums.append(float(run(python, '-c', SUMS, a)) / timed(ZEROFS, 'stat', '-j', jobs, a))
        ratio(f'diff of 1 GiB beside cmp, {title}', equal, 0.8)
        if sums:
            ratio(f'stat of 1 GiB beside numpy, {title}', sums, 2)
    if not python:
        tell('stat beside numpy', 'not measured: no numpy (./scripts/test-frameworks)')


def part_verify():
    """verify of a torch archive beside 1 MiB preads with zlib's crc32 of all bytes, on one thread; and of safetensors, which have no sums."""
    block = b''.join(struct.pack('<f', random.gauss(0, 1)) for _ in range(MIB // 4))
    n = 1024
    archive, plain = os.path.join(tmp, 'pytorch_model.bin'), os.path.join(tmp, 'model.safetensors')
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../support'))
    import stfile  # pylint: disable=import-outside-toplevel
    import torchfile  # pylint: disable=import-outside-toplevel
    torchfile.save({'w': torchfile.Tensor(shape=(n * MIB // 4,), storage=torchfile.Storage(data=block * n, n=n * MIB // 4))}, archive)
    stfile.save(plain, {'w': ('F32', [n * MIB // 4], block * n)})
    fast = 'libdeflate missing' not in run(ZEROFS, '--version')
    for path, title in ((archive, 'archive'), (plain, 'safetensors')):
        r = []
        for _ in range(ROUNDS):
            with Round():
                loop = float(run(TOOL['bench_read'], 'crc', path))
                start = time.monotonic()
                run(ZEROFS, 'verify', '-j1', path)
                r.append(loop / (time.monotonic() - start))
        ratio(f'verify of 1 GiB, {title}, beside pread and crc32, one thread', r, 1.5 if fast else 0.8)


PARTS = ('read', 'list', 'gather', 'guards', 'transposed', 'recipes', 'memory', 'metadata', 'stacked', 'buckets', 'zarr', 'local', 'export', 'cast', 'values', 'verify', 'remote', 'sources', 'scale', 'tools')
if __name__ == '__main__':
    for ending in (signal.SIGTERM, signal.SIGHUP):  # what is mounted is taken off
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    tmp = tempfile.mkdtemp(prefix='zerofs-bench.')
    print(f'{ROUNDS} rounds each; median [smallest .. largest]; {os.cpu_count()} CPUs, '
          f'load {os.getloadavg()[0]:.1f}, Linux {os.uname().release}')
    try:
        for part in sys.argv[1:] or PARTS:
            begun, part_now = time.monotonic(), part
            Round.disturbed = Round.total = 0
            print(f'{part}: {globals()["part_" + part].__doc__}')
            try:
                globals()['part_' + part]()
            except (OSError, RuntimeError, subprocess.CalledProcessError) as e:
                tell('not measured', str(e))
            others_too = f', {Round.disturbed} of {Round.total} rounds disturbed by others' if Round.disturbed else ''
            print(f'  ({time.monotonic() - begun:.0f} s{others_too})')
            rows.append({'part': part, 'rounds': Round.total, 'disturbed': Round.disturbed})
    finally:
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        take_off()
        shutil.rmtree(tmp, ignore_errors=True)
    with open(os.path.join(BUILD, 'tests/bench/bench.json'), 'w') as f:
        json.dump({'cpus': os.cpu_count(), 'linux': os.uname().release, 'rows': rows}, f, indent=1)
