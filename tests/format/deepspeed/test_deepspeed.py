#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real DeepSpeed saves through the program: digests DeepSpeed's own state had, and copies that were damaged."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")

GOOD = ["zero1_w2", "zero1_w2_bf16optimizer", "zero2_w2_elastic", "zero2_w12", "zero3_w12",
        "ds0_19_8_zero2_align_roundrobin_w3", "ds0_19_8_zero3_bf16_w3"]


def run(*args):
    return subprocess.run([ZEROFS, *args], capture_output=True, stdin=subprocess.DEVNULL)


def good(name):
    """Every parameter and moment has the digest of the live optimizer."""
    folder = os.path.join(DATA, name)
    with open(os.path.join(folder, "expected.json")) as f:
        params = json.load(f)["params"]
    for param, states in params.items():
        for state, want in states.items():
            path = f"{param}.f32" if state == "fp32" else f"optim/{state}/{param}.f32"
            if want["dtype"] != "torch.float32":
                continue
            got = run("cat", folder, path)
            if hashlib.sha256(got.stdout).hexdigest() != want["sha256"]:
                return f"{path}: {got.stderr.decode() or 'other bytes'}"
    return ""


def shards(folder, word):
    return sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names if word in f)


def cut(path, size):
    with open(path, "r+b") as f:
        f.truncate(size)


def rank_is_missing(folder):
    os.remove(shards(folder, "zero_pp_rank_1_")[-1])


def rank_is_left_over(folder):
    last = shards(folder, "zero_pp_rank_1_mp_rank_00_optim_states")[0]
    shutil.copy(last, last.replace("rank_1_", "rank_7_"))


def prefixes_are_mixed(folder):
    for path in shards(folder, "optim_states"):
        base = os.path.basename(path)
        other = base[5:] if base.startswith("bf16_") else "bf16_" + base
        shutil.copy(path, os.path.join(os.path.dirname(path), other))


def shard_is_cut(folder):
    path = shards(folder, "optim_states")[-1]
    cut(path, os.path.getsize(path) - 64)


def shard_is_empty(folder):
    cut(shards(folder, "optim_states")[-1], 0)


def shard_is_noise(folder):
    with open(shards(folder, "optim_states")[-1], "wb") as f:
        f.write(bytes(range(256)) * 40)


def shard_is_a_fifo(folder):
    path = shards(folder, "optim_states")[-1]
    os.remove(path)
    os.mkfifo(path)


def shard_is_a_loop(folder):
    path = shards(folder, "optim_states")[-1]
    os.remove(path)
    os.symlink(os.path.basename(path), path)


def tag_is_gone(folder):
    with open(os.path.join(folder, "latest"), "w") as f:
        f.write("global_step999")


def latest_leads_out(folder):
    with open(os.path.join(folder, "latest"), "w") as f:
        f.write("../../etc")


BAD = [rank_is_missing, rank_is_left_over, prefixes_are_mixed, shard_is_cut, shard_is_empty, shard_is_noise,
       shard_is_a_fifo, shard_is_a_loop, tag_is_gone, latest_leads_out]


def bad(folder, name, damage):
    """One sentence that names a file of the save, the exit code of damage, nothing on standard output."""
    shutil.copytree(os.path.join(DATA, name), folder, symlinks=True)
    damage(folder)
    got = run("ls", "-R", folder)
    said = got.stderr.decode()
    if got.returncode not in (3, 4) or got.stdout or said.count("\n") != 1 or not said.startswith("zerofs: "):
        return f"exit {got.returncode}: {said!r}, {len(got.stdout)} bytes of output"
    if os.environ.get("VERBOSE"):
        print("# " + said.replace(folder, "…").rstrip())
    return ""


def degraded(folder, name, rank):
    """A lost rank costs its own bytes and nothing else."""
    source = os.path.join(DATA, name)
    shutil.copytree(source, folder, symlinks=True)
    for path in shards(folder, f"rank_{rank}_mp_rank_00_optim"):
        os.remove(path)
    if name == "zero2_w2":
        return lost_in_one_piece(source, folder)
    hurt = run("cat", "-o", "degraded", folder, "embed.weight.f32")
    whole = run("cat", folder, "embed.weight.f32")
    frozen = run("cat", "-o", "degraded", folder, "counter.i64")
    truth = run("cat", source, "embed.weight.f32")
    if whole.returncode != 4:
        return "served without being asked to"
    if frozen.returncode != 0 or frozen.stdout != run("cat", source, "counter.i64").stdout:
        return "a buffer of rank 0 is not served"
    if hurt.returncode != 5 or not truth.stdout.startswith(hurt.stdout) or hurt.stdout == truth.stdout:
        return f"exit {hurt.returncode}, {len(hurt.stdout)} bytes"
    return ""


def lost_in_one_piece(source, folder):
    """ZeRO-2 cuts all parameters as one vector: each is whole, lost, or (at most one a cut) half lost."""
    with open(os.path.join(source, "expected.json")) as f:
        names = [n for n in json.load(f)["params"]]
    whole = lost = 0
    for name in names:
        got = run("cat", "-o", "degraded", folder, f"{name}.f32")
        same = got.stdout == run("cat", source, f"{name}.f32").stdout
        if got.returncode == 0 and not same:
            return f"{name}: other bytes"
        whole += got.returncode == 0
        lost += got.returncode == 5
    return "" if whole and lost and whole + lost == len(names) else f"{whole} whole, {lost} lost of {len(names)}"


def main():
    cases = [(good, name) for name in GOOD]
    with tempfile.TemporaryDirectory() as top:
        for damage in BAD:
            for name in ("zero2_w2", "zero3_w2"):
                cases.append((bad, os.path.join(top, damage.__name__ + name), name, damage))
        cases.append((degraded, os.path.join(top, "d1"), "zero3_w2", "1"))
        for rank in "01":
            cases.append((degraded, os.path.join(top, "d2" + rank), "zero2_w2", rank))
        for test, *args in cases:
            why = test(*args)
            label = " ".join(getattr(a, "__name__", a) for a in args if not str(a).startswith(top))
            check(f"{test.__name__} {label}", not why, why)
    done()


main()
