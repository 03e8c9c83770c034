#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs info for people: parameters are counted as the framework's own list has them, damage is told by file, and no line is wider than
the terminal, whatever its width and characters."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position
from terminal import shown  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
ZERO = os.path.join(DATA, "deepspeed/zero2_w12")


def info(*words, code=0):
    done = subprocess.run([ZEROFS, "info", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == code, (words, done)
    return done.stdout


def seen(words, width, locale, **env):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")} | {"LC_ALL": locale, "TERM": "xterm"} | env
    return shown([ZEROFS, *words], width, codes=(0, 4), env=env)


def counted(name):
    """expected.json is what DeepSpeed held: parameters, buffers and ties apart."""
    at = os.path.join(DATA, "deepspeed", name)
    said = json.loads(info("--json", at))
    with open(os.path.join(at, "expected.json"), encoding="utf-8") as f:
        truth = json.load(f)
    numbers = {}
    for one, kinds in truth["params"].items():
        shape = (kinds.get("fp32") or next(iter(kinds.values())))["shape"]
        numbers[one] = math.prod(shape)
    return said, numbers, truth


def parameters_by_rank():
    """What each has: nothing says which tensors are cut and which are copies."""
    at = os.path.join(DATA, "deepspeed", "tp2_zero1")
    w, n, tensors = json.loads(info("--json", at))["weights"], 0, 0
    for line in subprocess.run([ZEROFS, "ls", "-R", "--json", at], capture_output=True, check=True, timeout=60).stdout.splitlines():
        row = json.loads(line)
        if row.get("set") in ("mp_rank_00", "mp_rank_01"):
            n, tensors = n + math.prod(row["shape"]), tensors + 1
    assert (w["by_rank"], w["parameters"], w["tensors"]) == (2, n, tensors) and n, (w, n, tensors)
    assert "of all ranks, copies included" in info(at) and "exp_avg, exp_avg_sq, step;" in info(at)
    joined = os.path.join(DATA, "megatron", "pypi_0.16.1_legacy_tp2pp2_glu")
    assert os.path.isdir(joined), "a save whose ranks are joined, and shown by themselves besides"
    assert json.loads(info("--json", joined))["weights"]["by_rank"] == 0


def parameters():
    said, trained, truth = counted("ds0_19_8_zero0_bf16_w2")
    frozen = {"l3.weight": 5 * 6, "norm.bias": 6}
    assert set(frozen) == set(truth["frozen"])
    w = said["weights"]
    assert w["parameters"] == sum(trained.values()) + sum(frozen.values()) and w["tensors"] == len(trained) + len(frozen), (w, trained)
    assert (w["tied"], w["buffers"], w["integers"]) == (1, len(truth["buffers"]), 0), w
    said = json.loads(info("--json", ZERO))
    w, sizes = said["weights"], {}
    for line in subprocess.run([ZEROFS, "ls", "-R", "--json", ZERO], capture_output=True, check=True, timeout=60).stdout.splitlines():
        row = json.loads(line)
        if row.get("set") == "":
            sizes[row["name"]] = row
    buffers = json.loads(subprocess.run([ZEROFS, "cat", ZERO, "state/buffer_names.json"], capture_output=True, check=True, timeout=60).stdout)
    ours = {n: r for n, r in sizes.items() if "alias_of" not in r and n not in buffers}
    n = sum(math.prod(r["shape"]) for r in ours.values())
    assert (w["parameters"], w["tensors"]) == (n, len(ours)), (w, n)
    assert (w["tied"], w["buffers"], w["frozen"]) == (len(sizes) - len(ours) - len(buffers), len(buffers), 2), w
    assert sum(w["bytes"].values()) == sum(r["bytes"] for r in ours.values())
    assert (said["family"], said["ranks"], said["versions"]["DeepSpeed"]) == ("DeepSpeed ZeRO-2", 12, "0.14.5"), said


def ranks():
    """Folders of DeepSpeed's fixtures end in the ranks that wrote them."""
    n = 0
    for name in sorted(os.listdir(os.path.join(DATA, "deepspeed"))):
        m = re.search(r"_w(\d+)$", name)
        done = m and subprocess.run([ZEROFS, "info", "--json", os.path.join(DATA, "deepspeed", name)], capture_output=True, check=False, timeout=60)
        found = json.loads(done.stdout)["ranks"] if m and done.returncode == 0 else None
        if found is not None:
            assert found == int(m[1]), (name, found)
            n += 1
    assert n > 5, n


def damaged(folder):
    at = os.path.join(folder, "gone")
    shutil.copytree(ZERO, at)
    gone = next(f for f in sorted(os.listdir(at + "/global_step3")) if "optim_states" in f)
    os.remove(os.path.join(at, "global_step3", gone))
    text = info(at, code=4)
    lines = [line for line in text.splitlines() if line.startswith("damaged") and gone in line]
    assert len(lines) == 1 and text.count(gone) == 1, text
    said = json.loads(info("--json", at, code=4))
    assert gone in said["refused"], said["refused"]
    (one,) = said["damage"]
    want = [t for t in said["lost"] if t.get("lost_bytes")]
    names = {(t["set"], t["name"]) for t in want}
    size = sum(r["end"] - r["first"] for t in want for r in t["lost_bytes"])
    assert one["file"].endswith(gone) and 0 < one["tensors"] <= len(names) and 0 < one["bytes"] <= size, (one, names, size)
    # who asks to go on is told as well; only what is healthy is exit code 0
    for words in ((), ("-v",), ("--json",)):
        rest = info(*words, at, "-o", "degraded", code=4)
    assert json.loads(rest)["damage"] == said["damage"]
    for options in ((), ("-o", "degraded")):
        info(ZERO, *options)


LONG = {f"model.layers.{i}.{part}.a_rather_long_name_of_a_module.weight": 1 for i in range(4) for part in "abcdef"}


def fits(folder):
    long = os.path.join(folder, "long.safetensors")
    head = {n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate([*LONG, "ü" * 90, "x\u202ey"])}
    text = json.dumps(head).encode()
    with open(long, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(len(head)))
    wide = 0
    for width in (40, 80, 200):
        for locale in ("C.UTF-8", "C"):
            for ckpt in (ZERO, long, os.path.join(DATA, "megatron/run_folder_core_0.19.2"), os.path.join(folder, "gone")):
                text = re.sub("\033\\[[0-9;]*m", "", seen(["info", ckpt], width, locale))
                lines = text.splitlines()
                # The first line is the path as it was given, which one may want to copy.
                assert all(len(line) <= width for line in lines[1:]), (width, locale, text)
                assert locale == "C.UTF-8" or text.isascii(), text
                assert "\u202e" not in text
                wide = max(wide, *map(len, lines[1:]))
            for words in (["ls", ZERO], ["tags", ZERO]):
                text = re.sub("\033\\[[0-9;]*m", "", seen(words, width, locale))
                assert locale == "C.UTF-8" or text.isascii(), text
                assert width < 80 or all(len(line) <= width for line in text.splitlines()), (width, text)
    assert wide > 150, wide


def colour():
    assert "\033[" in seen(["info", ZERO], 80, "C") and "\033[" in seen(["ls", ZERO], 80, "C") and "\033[32m" in seen(["tags", ZERO], 80, "C")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for command in ("info", "ls", "tags"):
            assert "\033" not in seen([command, ZERO], 80, "C", **env), (command, env)
    assert "\033" not in seen(["info", "--color=never", ZERO], 80, "C")
    assert "\033" not in info(ZERO) and "\033[" in info("--color=always", ZERO)


def every_save(folder):
    """All fixtures: text and JSON say so without a failure, and nothing is said that is not recorded."""
    n = 0
    for family in sorted(os.listdir(DATA)):
        for name in sorted(os.listdir(os.path.join(DATA, family))) if os.path.isdir(os.path.join(DATA, family)) else ():
            at = os.path.join(DATA, family, name)
            done = subprocess.run([ZEROFS, "info", at], capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode in (0, 2, 3, 4), done
            if done.returncode == 0:
                assert "(null)" not in done.stdout and done.stdout.startswith(at), done.stdout
                n += 1
    assert n > 40, (n, folder)


with tempfile.TemporaryDirectory(prefix="zf-info-") as where:
    results.run("parameters are counted once", parameters)
    results.run("those of ranks that are shown by themselves", parameters_by_rank)
    results.run("ranks", ranks)
    results.run("damage by file", damaged, where)
    results.run("no line is too wide", fits, where)
    results.run("colour on terminals only", colour)
    results.run("every fixture", every_save, where)
results.done()
