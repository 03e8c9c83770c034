#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs verify of a save in which one file is of another step: the optimizer's counts, written here into files of OLMo, differ."""
import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from stfile import f32, save  # noqa: E402 pylint: disable=wrong-import-position
from tap import main_in_folders  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))


def notes(path):
    done = subprocess.run([ZEROFS, "verify", "--json", path], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done
    return [r for r in map(json.loads, done.stdout.splitlines()) if r["kind"] == "value" and "the optimizer counted" in r["text"]]


def copy_of(folder, name):
    out = os.path.join(folder, os.path.basename(name))
    shutil.copytree(os.path.join(DATA, name), out, ignore=shutil.ignore_patterns("expected.json"))
    return out


def count(path, wanted, steps):
    """Sets the counts of the parameters whose names `wanted` accepts; the file's own header says where they are."""
    with open(path, "r+b") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, done = json.loads(f.read(n)), []
        for name, t in header.items():
            if t.get("dtype") != "F32" or t["shape"] not in ([], [1]) or not wanted(len(done)):
                continue
            f.seek(8 + n + t["data_offsets"][0])
            if struct.unpack("<f", f.read(4))[0] == 2:  # not the norms of gradients
                f.seek(-4, os.SEEK_CUR)
                f.write(struct.pack("<f", steps))
                done.append(name)
    assert done
    return done


def ranks(folder):
    """The optimizer of one rank is of another step."""
    path = copy_of(folder, "olmo/pypi_0.6.0/olmo_core")
    assert notes(path) == []
    changed = count(os.path.join(path, "optim/rank_0.safetensors"), lambda i: True, 7)
    found = notes(path)
    assert len(found) == 1 and found[0]["weight"] == "note" and found[0]["file"].endswith("optim/rank_0.safetensors"), found
    assert f"counted 7 steps for {len(changed)} parameters, but 2 for " in found[0]["text"] and "rank_1.safetensors" in found[0]["text"], found
    assert len(found[0]["tensors"]) == len(changed) and all("optim/step/" in t for t in found[0]["tensors"]), found


def several(folder):
    path = copy_of(folder, "olmo/pypi_0.6.0/full_safetensors")
    file = os.path.join(path, "optim.safetensors")
    assert notes(path) == []
    count(file, lambda i: i == 0, 5)
    found = notes(path)
    assert len(found) == 1 and "counted 5 steps for 1 parameter, but 2 for 19 others" in found[0]["text"], found
    shutil.copy(os.path.join(DATA, "olmo/pypi_0.6.0/full_safetensors/optim.safetensors"), file)
    assert len(count(file, lambda i: True, 9)) == 20
    found = notes(path)
    assert len(found) == 1 and "counted 9 steps, but this is the save of step 2" in found[0]["text"], "train.pt says 2"


def none(folder):
    """What has no counts, or one that is one ahead, as in old releases of DeepSpeed."""
    assert notes(save(os.path.join(folder, "m.safetensors"), {"step": f32(3), "w": f32(1, 2)})) == []
    path = copy_of(folder, "olmo/pypi_0.6.0/full_safetensors")
    count(os.path.join(path, "optim.safetensors"), lambda i: True, 3)
    assert notes(path) == []


if __name__ == "__main__":
    main_in_folders((ranks, several, none))
