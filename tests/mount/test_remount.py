#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mount; umount; mount at one point, again and again, while the supervisor of the first is slow: the last mount stands.
ZEROFS_REMOUNTS=500 for more rounds."""
import glob
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from tap import need_fuse, results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
CKPT = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "hf", "torchsave_legacy_views")
SHIM = os.path.abspath(os.path.join(os.environ.get("top_builddir", "build"), "tests/mount/late.so"))
ROUNDS = int(os.environ.get("ZEROFS_REMOUNTS", "10"))


def processes(at):
    found = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if at.encode() in words and b"mount" in words:
            found.add(int(path.split("/")[2]))
    return found


def until(good, *args):
    end = time.monotonic() + 60
    while not good(*args):
        assert time.monotonic() < end, args
        time.sleep(0.002)


def row(at):
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return [line.split()[:3] for line in f if line.split()[4] == at]


def stands(at, nth, tmp):
    """The numbers of the first mount, and of the second."""
    gate = os.path.join(tmp, "gate")
    slow = dict(os.environ, LD_PRELOAD=SHIM, ZEROFS_LATE_AT=at, ZEROFS_LATE_GATE=gate, ZEROFS_LATE_OPEN=str(nth))
    subprocess.run([ZEROFS, "mount", CKPT, at], check=True, timeout=120, env=slow)
    first, old = row(at), processes(at)
    open(gate, "w", encoding="utf-8").close()
    subprocess.run([ZEROFS, "umount", at], check=True, timeout=120)
    until(lambda: len(processes(at) & old) < 2)
    subprocess.run([ZEROFS, "mount", CKPT, at], check=True, timeout=120)
    second = row(at)
    os.unlink(gate)
    until(lambda: not processes(at) & old)
    assert row(at) == second and len(second) == 1, (first, second, row(at))
    assert os.listdir(os.path.join(at, "npy"))
    subprocess.run([ZEROFS, "umount", at], check=True, timeout=120)
    until(lambda: not processes(at))
    return first == second


def rounds(tmp, nth):
    at = os.path.join(tmp, "mnt")
    with mount_point(at):
        alike = sum(stands(at, nth, tmp) for _ in range(ROUNDS))
    print(f"# {alike} of {ROUNDS} had the numbers of the mount before")


need_fuse()
if b"__asan_init" in open(ZEROFS, "rb").read() or b"__tsan_init" in open(ZEROFS, "rb").read():
    print("1..0 # SKIP nothing can be preloaded here")
    sys.exit(0)
with tempfile.TemporaryDirectory(prefix="zf-remount-") as where:
    where = os.path.realpath(where)
    os.mkdir(os.path.join(where, "mnt"))
    for k in (1, 2):
        results.run(f"slow before its look number {k}", rounds, where, k)
results.done()
