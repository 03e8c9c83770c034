# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch.save files, and what zerofs makes of them."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from tap import check, done  # noqa: E402, F401 pylint: disable=unused-import,wrong-import-position
from torchfile import (Pickler, Storage, Tensor, module, rebuild, save,  # noqa: E402, F401 pylint: disable=unused-import,wrong-import-position
                       storage_of)

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")


def write(files, folder):
    """{name: bytes, or a value for torch.save}"""
    for name, value in files.items():
        if isinstance(value, bytes):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(value)
        else:
            save(value, os.path.join(folder, name))


class Folder:
    """What zerofs makes of a folder; opts: -d degraded, -n the same, and lost values are NaN."""

    def __init__(self, folder, *opts):
        run = subprocess.run([DUMP, *opts, folder], capture_output=True, text=True, errors="surrogateescape", timeout=60)
        self.folder, self.code, self.err = folder, run.returncode, run.stderr.strip()
        self.tensor, self.blob, self.notes, self.tie = {}, {}, [], {}
        for line in run.stdout.splitlines():
            f = line.split("\t")
            if f[0] == "tensor":
                self.tensor[f[1], f[2]] = tuple(f[3:6])
                self.tie[f[1], f[2]] = f[6]
            elif f[0] == "blob":
                self.blob[f[1]] = f[2]
            elif f[0] == "note":
                self.notes.append(f[1])

    def unlike(self):
        """Names of the folder's expected.json, of which those of states are optim.state.<parameter>.<state>, and what is wrong of them."""
        with open(os.path.join(self.folder, "expected.json"), encoding="utf-8") as f:
            want = json.load(f)["tensors"]
        bad = []
        for key, w in want.items():
            state = re.fullmatch(r"optim\.state\.(.*)\.(.*)", key)
            got = self.tensor.get(("optim/" + state[2], state[1]) if state else ("", key))
            if not got or got[1] != ",".join(map(str, w["shape"])) or hashlib.sha256(bytes.fromhex(got[2])).hexdigest() != w["sha256"]:
                bad.append(key)
        return list(want), bad

    def has(self, place, t):
        s, _, name = place.rpartition(":")
        return self.tensor.get((s, name)) == ("f32", ",".join(map(str, t.shape)), t.hex())


class Tree(Folder):
    """The same of files that are written first."""

    def __init__(self, files, degraded=False, point=None):
        with tempfile.TemporaryDirectory() as d:
            write(files, d)
            super().__init__(os.path.join(d, point or ""), *["-d"] * degraded)


def expect(name, files, tensors, blobs=(), exactly=True, **options):
    tree = Tree(files, **options)
    wrong = [p for p, t in tensors.items() if not tree.has(p, t)]
    wrong += [b for b in blobs if b not in tree.blob]
    extra = [k for k in tree.tensor if exactly and f"{k[0]}:{k[1]}" not in tensors]
    check(name, tree.code == 0 and not wrong and not extra, f"{tree.err} wrong {wrong} extra {extra} {tree.tensor}")
    return tree


def refused(name, files, part, **options):
    tree = Tree(files, **options)
    check(name, tree.code == 1 and part in tree.err, f"{tree.code} {tree.err!r} {tree.tensor}")


A, B, C = Tensor(1, 2, 3), Tensor(4, 5, 6, 7, shape=(2, 2)), Tensor(8)


def optimizer(*params, names=None, step=None, state=("exp_avg",)):
    group = {"lr": 0.5, "params": list(range(len(params)))}
    if names:
        group["param_names"] = names
    if step is not None:
        group["step"] = step
    return {"state": {i: {k: p for k in state} for i, p in enumerate(params)}, "param_groups": [group]}
