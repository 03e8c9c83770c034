#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run in which saves of three families are written, written again, pruned and left half written, while readers walk all
its saves and mount the newest: what is read is the bytes of one whole save, or EIO, ENOENT or ESTALE.  In the end the mount
holds what the saves hold that are there.  Not part of `make check`; ZEROFS_SOAK_SECONDS (60) says how long."""
import errno
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from mounts import mount_point, take_off  # noqa: E402 pylint: disable=wrong-import-position
from tap import check, done, need_fuse  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Tensor, save  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SECONDS = float(os.environ.get("ZEROFS_SOAK_SECONDS", "60"))
ALLOWED = {errno.EIO, errno.ENOENT, errno.ESTALE}
N = 4096  # floats of a tensor: all are the number of the save
KEEP = 6
rng = random.Random(int(os.environ.get("ZEROFS_SOAK_SEED", "1")))
wrong, reads, refused = [], [0], [0]
begun = {}  # number: step
over = threading.Event()


def safetensors(path, name, number):
    data = struct.pack("<f", number) * N
    head = json.dumps({name: {"dtype": "F32", "shape": [N], "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.flush()
        f.write(data)


def hf(at, number):
    for i, name in enumerate("ab"):
        yield lambda i=i, name=name: safetensors(f"{at}/model-0000{i + 1}-of-00002.safetensors", name, number)
    index = {"weight_map": {name: f"model-0000{i + 1}-of-00002.safetensors" for i, name in enumerate("ab")}}

    def write_index():
        with open(f"{at}/model.safetensors.index.json", "w", encoding="ascii") as f:
            json.dump(index, f)
    yield write_index


def tensors(number):
    return {name: Tensor(*[float(number)] * N) for name in "ab"}


def torch(at, number):
    yield lambda: save(tensors(number), f"{at}/model.pt")


def deepspeed(at, number):
    yield lambda: save({"module": tensors(number)}, f"{at}/mp_rank_00_model_states.pt")


class Writer(threading.Thread):
    """Its saves, whole or not, are the truth."""

    def __init__(self, run):
        super().__init__()
        self.run_dir, self.whole, self.step, self.number, self.made = run, {}, 0, 0, 0

    def write(self, step, crash):
        self.number += 1
        at = f"{self.run_dir}/step-{step}"
        begun[self.number] = step
        os.makedirs(at, exist_ok=True)
        parts = list((hf, torch, deepspeed)[step % 3](at, self.number))
        for part in parts[:rng.randrange(len(parts))] if crash else parts:
            part()
        self.made += 1
        if not crash:
            self.whole[step] = self.number

    def prune(self, step):
        self.whole.pop(step, None)
        shutil.rmtree(f"{self.run_dir}/step-{step}", ignore_errors=True)

    def run(self):
        while not over.is_set():
            what = rng.random()
            there = sorted(int(n[5:]) for n in os.listdir(self.run_dir) if n.startswith("step-"))
            if what < 0.2 and there:
                step = rng.choice(there)
                if rng.random() < 0.5:
                    self.prune(step)
                self.whole.pop(step, None)
                self.write(step, False)
            elif what < 0.3:
                self.step += 1
                self.write(self.step, True)
            else:
                self.step += 1
                self.write(self.step, False)
            while len(there) > KEEP:
                self.prune(there.pop(0))
            # What is not left alone for some seconds is never opened.
            over.wait(rng.choice((0.01, 0.01, 0.01, 0.05, 0.05, 0.05, 0.2, 0.2, 0.2, 0.2, 6)))


def number_of(data, where):
    """The save of which these are all bytes."""
    if not data:
        return None
    number = struct.unpack("<f", data[:4])[0]
    if data != struct.pack("<f", number) * N or int(number) not in begun:
        wrong.append((where, len(data), number))
    return int(number)


def look(top, where):
    """Both files of one directory, as it was when it was opened."""
    got = []
    try:
        fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as e:
        refused[0] += 1
        return wrong.append((where, e)) if e.errno not in ALLOWED else None
    try:
        for name in ("a.f32", "b.f32"):
            with open(os.open(name, os.O_RDONLY, dir_fd=fd), "rb") as f:
                got.append(number_of(f.read(), where))
            reads[0] += 1
    except OSError as e:
        refused[0] += 1
        if e.errno not in ALLOWED:
            wrong.append((where, e))
    finally:
        os.close(fd)
    return got


def walk(top):
    while not over.is_set():
        try:
            names = os.listdir(top)
        except OSError as e:
            wrong.append(("listing", e))
            names = []
        for name in names:
            got = look(f"{top}/{name}", name)
            if got and len(got) == 2 and got[0] != got[1]:
                wrong.append((name, "two saves", got))
        over.wait(0.02)


def mount_one(run, at, tag):
    while not over.is_set():
        r = subprocess.run([ZEROFS, "mount", run, at, "-o", "tag=" + tag], capture_output=True, text=True, timeout=60, check=False)
        if r.returncode not in (0, 2, 3, 4, 5):
            wrong.append(("mount", r.returncode, r.stderr))
        if r.returncode == 0:
            for _ in range(20):
                look(at, tag)
                over.wait(0.02)
            subprocess.run([ZEROFS, "umount", at], capture_output=True, timeout=60, check=False)


def held(pid):
    """Descriptors of the daemon, those of removed files, and MiB."""
    fds = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            fds.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        rss = next(int(line.split()[1]) // 1024 for line in f if line.startswith("VmRSS"))
    return len(fds), [f for f in fds if f.endswith("(deleted)") and "step-" in f], rss


def all_right(w, top):
    """Every whole save is shown as it is."""
    for step, number in w.whole.items():
        if look(f"{top}/step-{step}", step) != [number, number]:
            return False
    return True


def soak(tmp):
    run, top = f"{tmp}/run", f"{tmp}/all"
    for d in (run, top, f"{tmp}/newest", f"{tmp}/whole"):
        os.mkdir(d)
    w = Writer(run)
    w.step = 1
    w.write(1, False)
    with mount_point(top), mount_point(f"{tmp}/newest"), mount_point(f"{tmp}/whole"):
        daemon = subprocess.Popen([ZEROFS, "mount", "-f", run, top, "-o", "all_tags"], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not os.path.ismount(top) and time.monotonic() < until:
            time.sleep(0.05)
        threads = [w] + [threading.Thread(target=walk, args=(top,)) for _ in range(2)]
        threads += [threading.Thread(target=mount_one, args=(run, f"{tmp}/{t}", t)) for t in ("newest", "whole")]
        for t in threads:
            t.start()
        over.wait(SECONDS)
        over.set()
        for t in threads:
            t.join()
        check(f"{w.made} saves, {reads[0]} reads, {refused[0]} refused: none is wrong", not wrong and reads[0], wrong[:5])
        until = time.monotonic() + 60
        while not all_right(w, top) and time.monotonic() < until:
            time.sleep(0.2)
        check("in the end each whole save is as it was written", all_right(w, top), w.whole)
        shown = {n for n in os.listdir(top) if n != "latest"}
        check("and no other is listed", shown <= set(os.listdir(run)), (shown, os.listdir(run)))
        with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children", encoding="ascii") as f:
            worker = int((f.read().split() or [daemon.pid])[0])
        fds, removed, rss = held(worker)
        check(f"{fds} descriptors and {rss} MiB", fds < 40 + 4 * KEEP * 3 and not removed and rss < 200, (fds, removed, rss))
        subprocess.run([ZEROFS, "umount", top], check=False, timeout=60)
        try:
            daemon.wait(60)
        except subprocess.TimeoutExpired:
            daemon.kill()
        take_off(top)


need_fuse()
with tempfile.TemporaryDirectory(prefix="zf-soak-") as scratch:
    soak(scratch)
done()
