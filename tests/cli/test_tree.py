#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs ls --tree: every tensor is in exactly one line, sums are those of the names, and only siblings that are alike are one line.
Python makes the same outline's sums from the list that `ls --json` gives."""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import stfile  # noqa: E402 pylint: disable=wrong-import-position
from tap import results  # noqa: E402 pylint: disable=wrong-import-position
from terminal import shown  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))


def tree(*words, code=0):
    done = subprocess.run([ZEROFS, "ls", "--tree", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, (words, done)
    return done.stdout


def save(path, shapes):
    """{name: shape} of U8."""
    return stfile.save(path, {name: ("U8", shape, bytes(math.prod(shape))) for name, shape in shapes.items()})


def folded(rows):
    return [r["path"] for r in rows]


def lines(*words):
    return [json.loads(line) for line in tree("--json", *words).splitlines()]


def expanded(path):
    """The names that a line with "{a..b}" stands for."""
    m = re.search(r"\{(\d+)\.\.(\d+)\}", path)
    if not m:
        return [path]
    return [name for i in range(int(m[1]), int(m[2]) + 1) for name in expanded(path[: m.start()] + str(i) + path[m.end() :])]


def layouts(folder):
    layer = {"w": [2, 3], "b": [3]}
    names = {f"model.layers.{i}.{k}": v for i in range(12) for k, v in layer.items()}
    rows = lines(save(os.path.join(folder, "plain.safetensors"), {**names, "model.norm": [3], "head": [5]}))
    assert folded(rows) == ["head", "model", "model.layers.{0..11}", "model.layers.{0..11}.b", "model.layers.{0..11}.w", "model.norm"], rows
    layers = rows[2]
    assert (layers["times"], layers["tensors"], layers["elements"], layers["bytes"]) == (12, 2, 108, 108), layers
    # One layer of another shape, and one that is missing: three lines.
    names["model.layers.4.w"] = [3, 2]
    del names["model.layers.8.w"], names["model.layers.8.b"]
    found = folded(lines("-d", "2", save(os.path.join(folder, "odd.safetensors"), names)))
    assert found == ["model.layers"] + [f"model.layers.{n}" for n in ("{0..3}", "4", "{5..7}", "{9..11}")], found
    # Experts of layers; a name that is a tensor and a level; leading zeros; no dots at all.
    names = {f"h.{i}.e.{k}.w": [2] for i in range(3) for k in range(4)} | {"h.x": [1], "a": [1], "a.b": [1], "n.1": [1], "n.01": [1], "n.2": [1]}
    path = save(os.path.join(folder, "deep.safetensors"), names)
    found = lines(path)
    assert "h.{0..2}.e" in folded(found) and "h.{0..2}.e.{0..3}.w" in folded(found), found
    leaves = [name for r in found if "dtype" in r for name in expanded(r["path"])]
    assert sorted(leaves) == sorted(names), set(leaves) ^ set(names)


def at_random(folder):
    rng = random.Random(4)
    for _ in range(40):
        names = {}
        for _ in range(rng.randint(1, 60)):
            name = ".".join(rng.choice(["0", "1", "2", "3", "10", "a", "b", "", "x-y", "01"]) for _ in range(rng.randint(1, 5)))
            names[name or "z"] = rng.choice([[1], [2], [1, 2]])
        found = lines(save(os.path.join(folder, "random.safetensors"), names))
        leaves = [name for r in found if "dtype" in r for name in expanded(r["path"])]
        assert sorted(leaves) == sorted(names), set(leaves) ^ set(names)
        top = [r for r in found if r["depth"] == 0]
        assert sum(r["times"] * r["tensors"] for r in top) == len(names), top
        assert sum(r["elements"] for r in top) == sum(shape[0] * (shape + [1])[1] for shape in names.values()), top


def sets(_):
    zero3 = os.path.join(DATA, "deepspeed/zero3_w2")
    text = tree(zero3)
    assert re.search(r"^ +127 +508 B  7 tensors +optim/exp_avg/$", text, re.M), text
    assert re.search(r"head.weight = embed.weight$", text, re.M), text
    assert "back" not in text[text.index("optim/") :]
    assert "bias" in tree(zero3, "optim/exp_avg") and "bias" in tree("-R", zero3)[text.index("optim/") :]
    tree(zero3, "optim/nothing", code=1)
    tree("-d", "x", zero3, code=2)


def in_info(folder):
    """info names the outermost groups."""
    names = {f"h.{i}.e.{k}.{w}": [2] for i in range(3) for k in range(4) for w in "ab"} | {f"g.{i}.w": [1] for i in range(2)} | {"x": [1]}
    path = save(os.path.join(folder, "info.safetensors"), names)
    done = subprocess.run([ZEROFS, "info", "--json", path], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["layers"] == [
        {"path": "g.{0..1}.w", "times": 2, "tensors": 1}, {"path": "h.{0..2}.e", "times": 3, "tensors": 8}], done.stdout


def sizes(folder):
    """A size never has four digits before its unit, however it is rounded."""
    shown_as = {999: "999 B", 1000: "1.0 KiB", 1023948: "999.9 KiB", 1023949: "1.0 MiB", (1 << 20) - 1: "1.0 MiB"}
    path = save(os.path.join(folder, "sizes.safetensors"), {f"n{n}": [n] for n in shown_as})
    done = subprocess.run([ZEROFS, "ls", "-lh", path, "n*"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    found = {line.split()[-1]: " ".join(line.split()[:2]) for line in done.stdout.splitlines()}
    assert found == {f"n{n}.u8": text for n, text in shown_as.items()}, found


def on_terminal(path):
    return shown([ZEROFS, "ls", path])


def terminal(folder):
    """A long list is an outline where people look at it, and a list of names in a pipe; a short one is a list anywhere."""
    path = save(os.path.join(folder, "long.safetensors"), {f"layers.{i}.w": [1] for i in range(300)})
    plain = subprocess.run([ZEROFS, "ls", path], capture_output=True, check=True, timeout=60).stdout.splitlines()
    assert len([name for name in plain if name.endswith(b".w.u8")]) == 300, plain
    assert "layers.{0..299}.w" in on_terminal(path)
    short = on_terminal(save(os.path.join(folder, "short.safetensors"), {f"layers.{i}.w": [1] for i in range(3)}))
    assert "layers.2.w.u8" in short and "{" not in short, short


with tempfile.TemporaryDirectory(prefix="zf-tree-") as scratch:
    for test in (layouts, at_random, sets, in_info, sizes, terminal):
        results.run(test.__name__, test, scratch)
results.done()
