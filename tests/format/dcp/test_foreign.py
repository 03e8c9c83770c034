#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file of one rank in the place of another's: refused, and -o degraded believes nothing of it, whatever fits."""
import itertools
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../support")]
from tap import check, done  # noqa: E402

DATA = os.environ.get("ZF_DATA", "tests/data")
DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")


def dump(path, *opts):
    r = subprocess.run([DUMP, *opts, path], capture_output=True, text=True, errors="replace", timeout=60)
    rows = [line.split("\t") for line in r.stdout.splitlines()]
    return {(x[1], x[2]): tuple(x[3:6]) for x in rows if x[0] == "tensor"}, r.stderr.strip()


def exchanged(save):
    """Each pair of files of a save, one over the other."""
    whole, err = dump(save)
    files = sorted(f for f in os.listdir(save) if f.endswith(".distcp") and os.path.getsize(os.path.join(save, f)))
    name = os.path.relpath(save, DATA)
    check(f"{name}: whole", whole and not err, err)
    with open(os.path.join(save, ".metadata"), "rb") as f:
        named = f.read()
    for of, over in itertools.permutations(files, 2):
        # files of the same layout are told apart by nothing in them
        if os.path.getsize(os.path.join(save, of)) == os.path.getsize(os.path.join(save, over)) or over.encode() not in named:
            continue
        with tempfile.TemporaryDirectory() as d:
            to = shutil.copytree(save, os.path.join(d, "save"), copy_function=shutil.copy)
            shutil.copy(os.path.join(save, of), os.path.join(to, over))
            got, err = dump(to)
            check(f"{name}, {of} as {over}: refused", not got and over in err, err)
            got, err = dump(to, "-d")
            wrong = [k for k, v in got.items() if k in whole and v[2] != whole[k][2] and not v[2].startswith("unreadable")]
            # without masters the root may have the stored weights, which are under stored/ before
            wrong = [k for k in wrong if whole.get(("stored", k[1]), ("", "", ""))[2] != got[k][2]]
            check(f"{name}, {of} as {over}, degraded: nothing of it is served", not wrong, wrong)
            served.append(sum(v == whole.get(k) for k, v in got.items()))


served = []  # tensors that are whole, of each
for family in ("dcp", "megatron"):
    for place, _, files in sorted(os.walk(os.path.join(DATA, family))):
        if ".metadata" in files and 1 < sum(f.endswith(".distcp") for f in files) <= 4:
            exchanged(place)
check("degraded: what the other files hold is served", len(served) > 50 and sum(n > 0 for n in served) > len(served) / 2, served)
done()
