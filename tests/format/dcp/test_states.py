#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimizer states in 8 and 4 bits, of torchao under FSDP2: joined part by part, or left out with a note; the weights go on."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import check, done  # noqa: E402

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "dcp", "torch2.13")
DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
ADAMW = os.path.join(DATA, "torchao_adamw8_fsdp2_w2")


def tree(folder):
    """{path: SHA-256}, the notes, the error."""
    run = subprocess.run([DUMP, folder], capture_output=True, text=True, errors="replace", timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    got = {"/".join(filter(None, r[1:3])): hashlib.sha256(bytes.fromhex(r[5])).hexdigest() for r in rows if r[0] == "tensor" and len(r) > 5}
    return {k: v for k, v in got.items() if not k.startswith("extra/")}, [r[1] for r in rows if r[0] == "note"], run.stderr.strip()


def expected(folder):
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as f:
        return {k: v["sha256"] for k, v in json.load(f)["paths"].items()}


def bytes_of(folder, path):
    return subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "cat", folder, path], check=True, stdout=subprocess.PIPE).stdout


def spoiled(path, old, new):
    """The first `old` in a file becomes `new`."""
    with open(path, "rb") as f:
        data = f.read()
    assert old in data
    with open(path, "wb") as f:
        f.write(data.replace(old, new, 1))


def copy(into):
    folder = os.path.join(into, "save")
    shutil.copytree(ADAMW, folder)
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    return folder


for name, *attributes in (("torchao_adamw8_fsdp2_w2", "OptimState8bit.signed, OptimState8bit.block_size"),
                          ("torchao_states_4bit_fp8_w2", "OptimState4bit.signed, OptimState4bit._shape, OptimState4bit.block_size",
                           "OptimStateFp8.block_size")):
    got, notes, err = tree(os.path.join(DATA, name))
    want = expected(os.path.join(DATA, name))
    check(name, not err and got == want, f"{err} {[k for k in {*got, *want} if got.get(k) != want.get(k)][:5]}")
    check(f"{name}: attributes", notes == [f"__0_0.distcp: attributes that are not tensors are not shown: {a}" for a in attributes], notes)

# The table of one rank is another one: that state alone is left out, and both files are named.
with tempfile.TemporaryDirectory() as d:
    save = copy(d)
    table = bytes_of(ADAMW, "optim/exp_avg/rows.weight.qmap.f32")
    spoiled(os.path.join(save, "__1_0.distcp"), table, table[:40] + bytes([table[40] ^ 1]) + table[41:])
    got, notes, err = tree(save)
    want = expected(save)
    gone = {k for k in want if k not in got}
    check("a table that differs costs its state", not err and len(gone) == 3 and len({k.rsplit(".", 1)[0] for k in gone}) == 1 and
          all(k.startswith("optim/exp_avg/") for k in gone) and all(got[k] == want[k] for k in got), f"{err} {gone}")
    state = sorted(gone)[0].rsplit(".", 1)[0] if gone else "?"
    mine = [n for n in notes if n.startswith("optim/exp_avg/") and "left out" in n]
    check("both files are named", len(mine) == 1 and "__0_0.distcp" in mine[0] and "__1_0.distcp" in mine[0] and
          state.rsplit("/", 1)[1] in mine[0], notes)

# A rank's file that is not there is missing for the weights too.
with tempfile.TemporaryDirectory() as d:
    save = copy(d)
    os.remove(os.path.join(save, "__1_0.distcp"))
    got, notes, err = tree(save)
    check("a file that is missing refuses the save", not got and "__1_0.distcp" in err, err)

done()
