# SPDX-License-Identifier: Apache-2.0
"""bench.py [PART…]: what zerofs costs beside what it could cost, as ratios within one run.

Both sides of a ratio are measured in turn, and the median of the rounds' ratios is shown with the
smallest and the largest: absolute times say more about the machine than about zerofs.  Files are read
from the page cache (hot), so that no disk hides what we spend.  Room is taken in $TMPDIR."""
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SRC, BUILD = os.environ['top_srcdir'], os.environ['top_builddir']
ZEROFS = os.path.join(BUILD, 'zerofs')
TOOL = {t: os.path.join(BUILD, 'tests/bench', t) for t in ('bench_read', 'bench_cast', 'null')}
ROUNDS = int(os.environ.get('ROUNDS', 5))
MIB = 1 << 20


# -- running things ----------------------------------------------------------------------------------
def run(*args):
    return subprocess.run([str(a) for a in args], check=True, stdout=subprocess.PIPE).stdout.decode()


def seq(*paths):
    """Seconds to read files at 1 MiB a call."""
    return float(run(TOOL['bench_read'], 'seq', *paths))


def random_us(path, n=3000):
    return float(run(TOOL['bench_read'], 'random', path, n))


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

    def __init__(self, *command):
        self.at = tempfile.mkdtemp(prefix='mnt', dir=tmp)
        self.command = [str(c) for c in command] + [self.at]

    def __enter__(self):
        start, dev = time.monotonic(), os.stat(self.at).st_dev
        self.daemon = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        while os.stat(self.at).st_dev == dev:
            if self.daemon.poll() is not None:
                raise RuntimeError('cannot mount')
            time.sleep(0.0005)
        self.took = time.monotonic() - start
        st = os.stat(self.at)
        bdi = f'/sys/class/bdi/{os.major(st.st_dev)}:{os.minor(st.st_dev)}/read_ahead_kb'
        try:
            with open(bdi, 'w') as f:
                f.write('1024')
        except OSError:
            pass
        return self

    def peak(self):
        """MiB of the process that serves, the only child of the one that was started"""
        with open(f'/proc/{self.daemon.pid}/task/{self.daemon.pid}/children') as f:
            serving = f.read().split()[0]
        with open(f'/proc/{serving}/status') as f:
            return int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1)) / 1024

    def __exit__(self, *_):
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()
        os.rmdir(self.at)


# -- telling -----------------------------------------------------------------------------------------
def tell(what, value, goal=''):
    print(f'  {what:<52} {value:<28} {goal}', flush=True)


def ratio(what, ratios, goal=None, most=None):
    r = statistics.median(ratios)
    good = '' if goal is None and most is None else \
        ('' if (goal is None or r >= goal) and (most is None or r <= most) else '  <--')
    want = f'goal >= {goal}' if goal is not None else f'goal <= {most}' if most is not None else ''
    tell(what, f'{r:6.2f}   [{min(ratios):.2f} .. {max(ratios):.2f}]', want + good)


def mkdcp(name, *args):
    path = os.path.join(tmp, name)
    run(sys.executable, os.path.join(SRC, 'tests/support/mkdcp.py'), path, *args)
    return path


def shards(ckpt):
    return sorted(os.path.join(ckpt, f) for f in os.listdir(ckpt) if f.endswith('.distcp'))


# -- the parts ---------------------------------------------------------------------------------------
def part_read():
    """Reading through a mount, beside preads of the shards and a daemon that does nothing."""
    ckpt = mkdcp('read', '--tensors', 1, '--ranks', 4, '--rows', 128 * 1024, '--cols', 1024, '--sparse')
    files, size = shards(ckpt), 512 * MIB
    seq(*files)
    keep = {k: [] for k in ('raw1', 'null1', 'raw2', 'null2', 'raw3', 'null3', 'rand', 'rnull', 'mount')}
    for _ in range(ROUNDS):
        ours, null, raw = [], [], []
        with Mount(ZEROFS, 'mount', '-f', ckpt) as m, Mount(TOOL['null'], size) as z:
            keep['mount'].append(m.took)
            v = os.path.join(m.at, 'layers.0.weight.f32')
            for _ in range(3):
                raw.append(seq(*files))
                null.append(seq(os.path.join(z.at, 'v')))
                ours.append(seq(v))
        for i in range(3):
            keep[f'raw{i + 1}'].append(raw[i] / ours[i])
            keep[f'null{i + 1}'].append(null[i] / ours[i])
        with Mount(ZEROFS, 'mount', '-f', ckpt) as m, Mount(TOOL['null'], size) as z:
            ours = random_us(os.path.join(m.at, 'layers.0.weight.f32'))
            keep['rnull'].append(random_us(os.path.join(z.at, 'v')) / ours)
            keep['rand'].append(ours)
    for i, word in enumerate(('first', 'second', 'third')):
        ratio(f'{word} read, speed beside raw pread', keep[f'raw{i + 1}'], (0.12, 0.25, 0.5)[i])
        ratio(f'{word} read, speed beside the null daemon', keep[f'null{i + 1}'], (0.9, 0.95, 0.95)[i])
    ratio('random 4 KiB, not cached, speed beside null', keep['rnull'], 0.8)
    tell('random 4 KiB, not cached, median', f'{statistics.median(keep["rand"]):6.1f} us')
    tell('mount until it answers', f'{statistics.median(keep["mount"]) * 1000:6.1f} ms')


def part_gather():
    """A tensor cut into columns: one strided read a chunk, beside contiguous preads of the same bytes."""
    for ranks in (2, 8, 64):
        ckpt = mkdcp(f'col{ranks}', '--tensors', 1, '--ranks', ranks, '--rows', 32 * 1024, '--cols', 4096, '--columns',
                     '--sparse')
        files, r = shards(ckpt), []
        seq(*files)
        for _ in range(ROUNDS):
            r.append(seq(*files) / tree(ckpt, 'layers.0.weight.f32'))
        ratio(f'gather of {ranks} columns ({16384 // ranks} bytes a run)', r, 0.75)
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
    """OLMo's local layout, FSDP1 on 256 ranks, 5.6 billion parameters and their optimizer: 512 pickles to read."""
    ckpt, took, peak, layer = os.path.join(tmp, 'local'), [], [], []
    run(sys.executable, os.path.join(SRC, 'tests/support/mkolmo.py'), ckpt, '--ranks', 256)
    for _ in range(ROUNDS):
        with Mount(ZEROFS, 'mount', '-f', ckpt) as m:
            took.append(m.took)
            layer.append(seq(os.path.join(m.at, 'transformer.blocks.7.attn_norm.weight.f32')))
            peak.append(m.peak())
    tell('mount until it answers', f'{statistics.median(took):6.2f} s', 'goal <= 1')
    tell('  peak RSS', f'{max(peak):6.0f} MiB', 'goal <= 100')
    tell('  first read of a small parameter', f'{statistics.median(layer) * 1000:6.2f} ms')
    shutil.rmtree(ckpt)


def part_export():
    """export beside cp of the shards; both put what they wrote on the disk."""
    ckpt = mkdcp('data', '--tensors', 8, '--ranks', 2, '--rows', 16384, '--cols', 1024)
    to, r, one = os.path.join(tmp, 'to'), [], []
    subprocess.run(['sync', '-f', tmp])

    def timed(*commands):
        start = time.monotonic()
        for c in commands:
            subprocess.run(c, check=True)
        took = time.monotonic() - start
        shutil.rmtree(to)
        subprocess.run(['sync', '-f', tmp])
        return took
    for _ in range(ROUNDS):
        os.mkdir(to)
        cp = timed(['cp'] + shards(ckpt) + [to], ['sync', '-d'] + [os.path.join(to, os.path.basename(s))
                                                                   for s in shards(ckpt)])
        r.append(cp / timed([ZEROFS, 'export', '-q', ckpt, '/', to]))
        one.append(cp / timed([ZEROFS, 'export', '-q', ckpt, 'model.safetensors', to + '/']))
    ratio('export of all tensors, speed beside cp + sync', r, 0.9)
    ratio('export of model.safetensors, beside cp + sync', one, 0.9)
    shutil.rmtree(ckpt)


def part_cast():
    """as/: bytes a second of the inner loops, beside memcpy."""
    rounds = [{name: (float(read), float(moved)) for name, read, moved in
               (line.split() for line in run(TOOL['bench_cast']).splitlines())} for _ in range(ROUNDS)]
    tell('memcpy', f'{statistics.median(r["memcpy"][0] for r in rounds):6.1f} GB/s')
    for name in list(rounds[0])[1:]:
        ratio(f'{name}, bytes read and written, beside memcpy', [r[name][1] / r['memcpy'][1] for r in rounds])
        ratio('  bytes read alone', [r[name][0] / r['memcpy'][0] for r in rounds])


def part_remote():
    """Behind an address, over a line with delay: mounting, a tensor, and throughput beside curl."""
    import remote  # pylint: disable=import-outside-toplevel
    remote.part(sys.modules[__name__])


PARTS = ('read', 'gather', 'memory', 'metadata', 'stacked', 'buckets', 'zarr', 'local', 'export', 'cast', 'remote')
if __name__ == '__main__':
    tmp = tempfile.mkdtemp(prefix='zerofs-bench.')
    print(f'{ROUNDS} rounds each; median [smallest .. largest]; {os.cpu_count()} CPUs, '
          f'load {os.getloadavg()[0]:.1f}, Linux {os.uname().release}')
    try:
        for part in sys.argv[1:] or PARTS:
            begun = time.monotonic()
            print(f'{part}: {globals()["part_" + part].__doc__}')
            try:
                globals()['part_' + part]()
            except (RuntimeError, subprocess.CalledProcessError) as e:
                tell('not measured', str(e))
            print(f'  ({time.monotonic() - begun:.0f} s)')
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
