# SPDX-License-Identifier: Apache-2.0
"""How mount time, memory and the first read grow: with the ranks of a 70B model of ZeRO-3, with the tensors of a DCP, with its
bytes; and on a source that takes a millisecond for each call.  All saves are sparse.  A slope of 1 is "in proportion"."""
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

B = None  # bench.py
MOST = float(os.environ.get('SCALE_MOST', 1))  # a part of the largest sizes


def slope(xs, ys):
    """Of the line through log y over log x."""
    lx, ly = [math.log(x) for x in xs], [math.log(max(y, 1e-9)) for y in ys]
    mx, my = statistics.mean(lx), statistics.mean(ly)
    return sum((x - mx) * (y - my) for x, y in zip(lx, ly)) / sum((x - mx) ** 2 for x in lx)


def cpu(ckpt):
    """Seconds of processor to open it."""
    p = subprocess.Popen([B.ZEROFS, 'info', ckpt], stdout=subprocess.DEVNULL)
    _, status, ru = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        raise RuntimeError('cannot open it')
    return ru.ru_utime + ru.ru_stime


def measure(ckpt, name):
    """Medians of: seconds until the mount answers, seconds of processor, MiB at most, ms of the first read of 1 MiB."""
    rows = []
    for _ in range(B.ROUNDS):
        with B.Mount(B.ZEROFS, 'mount', '-f', ckpt) as m:
            begun = time.monotonic()
            with open(os.path.join(m.at, name), 'rb', buffering=0) as f:
                f.read(1 << 20)
            read = 1000 * (time.monotonic() - begun)
            rows.append((m.took, cpu(ckpt), m.peak(), read))
    return [statistics.median(c) for c in zip(*rows)]


def grow(what, points, make, name):
    """points: sizes; make(size, path) writes a save."""
    B.tell(what, '   until it answers   processor   peak    first MiB')
    kept = []
    for x in points:
        ckpt = os.path.join(B.tmp, 'scale')
        try:
            make(x, ckpt)
            row = measure(ckpt, name)
            kept.append((x, row))
            B.tell(f'  {x:,}', f'{row[0]:9.3f} s {row[1]:13.2f} s {row[2]:7.1f} MiB {row[3]:7.1f} ms')
        finally:
            shutil.rmtree(ckpt, ignore_errors=True)
    xs = [x for x, _ in kept]
    if len(xs) > 1:
        s = [slope(xs, [r[k] for _, r in kept]) for k in range(4)]
        B.tell('  slope', f'{s[0]:9.2f} {s[1]:15.2f} {s[2]:9.2f} {s[3]:11.2f}')
    return kept


def support(program, *args):
    B.run(sys.executable, os.path.join(B.SRC, 'tests/support', program), *args)


def ranks(x, path):
    support('mkdeepspeed.py', path, 'zero3', '--ranks', x)


def tensors(x, path):
    support('mkdcp.py', path, '--tensors', x, '--ranks', 1, '--rows', 16, '--cols', 4, '--sparse')


def size(x, path):
    cols = 4096
    support('mkdcp.py', path, '--tensors', 100, '--ranks', 8, '--rows', x // (4 * cols * 100), '--cols', cols, '--sparse')


def up_to(points):
    return [x for x in points if x <= points[-1] * MOST] or points[:1]


def slow():
    """1,024 ranks where each call takes a millisecond more."""
    shim = os.path.join(B.BUILD, 'tests/bench/latency.so')
    if not os.path.exists(shim):
        B.tell('1,024 ranks, 1 ms a call', 'not measured: no latency.so')
        return
    ckpt, took, peak = os.path.join(B.tmp, 'slow'), [], []
    ranks(1024, ckpt)
    os.environ.update(LD_PRELOAD=shim, LATENCY_US='1000')
    try:
        for _ in range(B.ROUNDS):
            with B.Mount(B.ZEROFS, 'mount', '-f', ckpt) as m:
                took.append(m.took)
                peak.append(m.peak())
    finally:
        del os.environ['LD_PRELOAD'], os.environ['LATENCY_US']
        shutil.rmtree(ckpt)
    B.tell('1,024 ranks, 1 ms a call, until it answers', f'{statistics.median(took):6.2f} s', 'goal <= 2')
    B.tell('  peak RSS', f'{max(peak):6.0f} MiB')


def again():
    """1,024 ranks that were mounted before, with -o model_cache=."""
    ckpt, models = os.path.join(B.tmp, 'again'), os.path.join(B.tmp, 'models')
    ranks(1024, ckpt)
    took = []
    for _ in range(B.ROUNDS + 1):
        with B.Mount(B.ZEROFS, 'mount', '-f', '-o', f'model_cache={models}', ckpt) as m:
            took.append(m.took)
    B.tell('1,024 ranks, first and second mount, until it answers', f'{took[0]:6.2f} s, {statistics.median(took[1:]):.3f} s',
           'goal <= 0.05')
    shutil.rmtree(ckpt)


def three_d():
    ckpt = os.path.join(B.tmp, '3d')
    support('mkdeepspeed.py', ckpt, '3d', '--ranks', 16)
    row = measure(ckpt, '40.mlp.dense_h_to_4h.weight.f32')
    B.tell('pipeline 8 x tensor 8 x data 16, until it answers', f'{row[0]:6.2f} s   ({row[1]:.2f} s of processor)',
           'goal <= 1')
    B.tell('  peak RSS', f'{row[2]:6.0f} MiB', 'goal <= 100')
    B.tell('  first MiB of a joined parameter', f'{row[3]:6.1f} ms')
    shutil.rmtree(ckpt)


def part(bench):
    global B
    B = bench
    kept = grow('ranks, 70B of ZeRO-3', up_to([1, 16, 64, 256, 1024, 4096]), ranks, 'model.layers.40.mlp.up_proj.weight.f32')
    for x, row in kept:
        if x == 1024:
            B.tell('  1,024 ranks until it answers', f'{row[0]:6.2f} s', 'goal <= 1' + ('  <--' if row[0] > 1 else ''))
            B.tell('  peak RSS', f'{row[2]:6.0f} MiB', 'goal <= 100' + ('  <--' if row[2] > 100 else ''))
    slow()
    again()
    three_d()
    grow('tensors of a DCP', up_to([10 ** 2, 10 ** 3, 10 ** 4, 10 ** 5, 10 ** 6]), tensors, 'layers.7.weight.f32')
    grow('bytes of a DCP of 100 tensors', up_to([10 ** k for k in range(9, 14)]), size, 'layers.7.weight.f32')
