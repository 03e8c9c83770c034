#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of two steps of one run in one folder, for every real save here.  The later step is made from the real one: every
number in a tensor is doubled (exact, and the same before and after rounding masters to weights), and what counts steps
has gone on.  Each file, and all files of each kind, are taken from the later save: that is refused, or every tensor is
of one of the two saves, and only where nothing in the files tells them apart."""
import array
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from made import check, done  # noqa: E402
from torchedit import Archive, Call, Id  # noqa: E402

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
COUNTS = {"step", "global_steps", "global_step", "global_samples", "last_epoch", "_step_count"}
FLOATS = {"FloatStorage": ("I", 23, 8), "HalfStorage": ("H", 10, 5), "BFloat16Storage": ("H", 7, 8), "DoubleStorage": ("Q", 52, 11)}


def twice(bits, low, wide):
    """The bits of twice the number, which has `low` bits of fraction behind `wide` of exponent."""
    most = ((1 << wide) - 1) << low
    sign, rest = bits >> (low + wide) << (low + wide), bits & ((1 << (low + wide)) - 1)
    if rest & most == 0:
        return sign | rest << 1
    return bits if rest & most == most else bits + (1 << low)


def double(raw, storage):
    if storage in FLOATS:
        code, low, wide = FLOATS[storage]
        raw[:] = array.array(code, (twice(b, low, wide) for b in array.array(code, bytes(raw)))).tobytes()


def walk(value, storages, seen):
    """Raises counters; collects the storages."""
    if isinstance(value, Id):
        storages[value.pid[2]] = value.pid[1].__name__
    elif isinstance(value, (dict, list, tuple, Call)) and id(value) not in seen:
        seen[id(value)] = value
        if isinstance(value, Call):
            walk(value.args, storages, seen)
            walk(value.state, storages, seen)
            return
        for k, v in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if isinstance(k, str) and k in COUNTS and type(v) is int:  # pylint: disable=unidiomatic-typecheck
                value[k] = v + 3
            else:
                walk(v, storages, seen)


def later(path):
    """Makes a file one of the later save."""
    if path.endswith(".swp"):
        with open(path, "r+b") as f:
            raw = bytearray(f.read())
            double(raw, "FloatStorage")
            f.seek(0)
            f.write(raw)
        return
    with Archive(path) as a:
        storages = {}
        walk(a.root, storages, {})
        for key, kind in storages.items():
            double(a.member[f"{a.pkl[:-len('data.pkl')]}data/{key}"], kind)


SWAPPED = ("one", "scale")  # in the sub-group of ds0_19_8_zero3_nvme_swp_w2 that is swapped out, with "big"


def of_a_save(folder):
    return sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, names in os.walk(folder) for f in names
                  if re.search(r"\.pt(-\d+\.\d+)?$|\.swp$", f))


def copy(folder, to):
    shutil.copytree(folder, to)
    for place, _, names in os.walk(to):
        for f in (place, *(os.path.join(place, n) for n in names)):
            os.chmod(f, 0o755)


def tree(folder):
    """({(set, name): bytes}, notes) or None."""
    r = subprocess.run([DUMP, folder], capture_output=True, text=True, timeout=60)
    if r.returncode:
        return None, r.stderr
    rows = [line.split("\t") for line in r.stdout.splitlines()]
    return {(r[1], r[2]): r[5] for r in rows if r[0] == "tensor"}, " ".join(r[1] for r in rows if r[0] == "note")


def untold(save, torn, mixed, notes):
    """Is that a mixture of which the files say nothing?"""
    if "zenflow" in save:
        return True  # its model lags behind the masters, and before the first step there are no others
    if "nvme" in save and all(k[1] in ("big", *SWAPPED) for k in torn):
        return True  # a swap file is nothing but numbers
    if torn:
        return False
    if "files of two saves" in notes:
        return all(k[0] == "" for k in mixed)  # the frozen ones and buffers that stage 3 keeps in the model's files
    # moments that were converted, and of which no other copy is there
    return "_universal" in save and all(k[0].startswith("optim/exp_avg") for k in mixed)


def mixtures(save, folder):
    with tempfile.TemporaryDirectory(prefix="zf-mixed-") as top:
        first, second, mixed = (os.path.join(top, x) for x in ("first", "second", "mixed"))
        for to in (first, second, mixed):
            copy(folder, to)
        files = of_a_save(first)
        try:
            for f in files:
                later(os.path.join(second, f))
        except (zipfile.BadZipFile, AttributeError) as e:  # legacy files, and pickles with a class that the editor does not know
            print(f"# {save}: not rewritten: {e!r}")
            return
        one, two = tree(first)[0], tree(second)[0]
        check(f"{save}: both are good", one and two and one.keys() == two.keys(), tree(second)[1])
        differ = [k for k in one if one[k] != two[k]]
        kinds = {}
        for f in files:
            kinds.setdefault(re.sub(r"\d+", "N", f), []).append(f)
        wrong, refused = [], 0
        for some in [[f] for f in files] + [k for k in kinds.values() if 1 < len(k) < len(files)]:
            for f in some:
                shutil.copy(os.path.join(second, f), os.path.join(mixed, f))
            got, notes = tree(mixed)
            for f in some:
                shutil.copy(os.path.join(first, f), os.path.join(mixed, f))
            if got is None:
                refused += 1
                continue
            torn = [k for k in differ if got.get(k) not in (one[k], two[k])]
            of_two = [k for k in differ if got.get(k) == two[k]]
            fewer = min(of_two, [k for k in differ if k not in of_two], key=len)
            if torn or (fewer and not untold(save, torn, fewer, notes)):
                wrong += [] if untold(save, torn, fewer, notes) else [(some, torn[:2], fewer[:2])]
        check(f"{save}: {len(files)} files, of two steps: {refused} mixtures refused", not wrong, wrong)


for path in sorted(glob.glob(os.path.join(DATA, "*", ""))):
    with open(os.path.join(path, "latest"), encoding="ascii") as pointer:
        tag = pointer.read().strip()
    for place in [tag, *(os.path.basename(p) for p in glob.glob(path + "*_universal") if os.path.isdir(p))]:
        mixtures(os.path.basename(path[:-1]) + "/" + place, path + place)
done()
