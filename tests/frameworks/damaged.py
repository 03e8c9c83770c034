# SPDX-License-Identifier: Apache-2.0
"""A shard that lost its end, mounted degraded: the loaders that map their files get every healthy tensor, to the bit."""
import os
import signal
import subprocess
import sys

import numpy as np
import safetensors
import torch
from safetensors.torch import load_file, save_file

import consume
from mount import Mount

LOST = 5000  # bytes off the end of the shard: all of them the last tensor's
TENSORS = {"a.weight": torch.float32, "b.weight": torch.float32, "c.weight": torch.float32, "z.weight": torch.float32,
           "half.weight": torch.bfloat16, "ids": torch.int64}
HURT = "half.weight"  # the narrowest type comes last in a safetensors file


def make(folder):
    """A checkpoint of one file, whole and cut; returns its tensors."""
    torch.manual_seed(7)
    tensors = {n: torch.randint(0, 1000, (64, 129)).to(t) if t is torch.int64 else torch.randn(64, 129).to(t)
               for n, t in TENSORS.items()}
    cut = os.path.join(folder, "cut")
    os.makedirs(cut)
    path = os.path.join(cut, "model.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    os.truncate(path, os.path.getsize(path) - LOST)
    assert tensors[HURT].numel() * 2 > LOST
    return cut, tensors


def healthy(tensors):
    return {n: t for n, t in tensors.items() if n != HURT}


def sizes(mount):
    return {f: os.path.getsize(os.path.join(mount, f)) for f in ("model.safetensors", "pytorch_model.bin")}


def safe(mount, tensors):
    before = sizes(mount)
    path = os.path.join(mount, "model.safetensors")
    for framework in ("pt", "np"):
        with safetensors.safe_open(path, framework=framework) as f:
            assert set(f.keys()) == set(tensors), f.keys()
            for name, t in healthy(tensors).items():
                if framework == "np" and t.dtype is torch.bfloat16:
                    continue
                found = f.get_tensor(name)
                consume.same(found if framework == "pt" else torch.from_numpy(np.array(found)), t, f"{path}: {name}")
    assert sizes(mount) == before, f"sizes were {before} and are {sizes(mount)}"


def binary(mount, tensors):
    path = os.path.join(mount, "pytorch_model.bin")
    before = sizes(mount)
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    assert set(found) == set(tensors), sorted(found)
    for name, t in healthy(tensors).items():
        consume.same(found[name], t, f"{path}: {name}")
    assert sizes(mount) == before, f"sizes were {before} and are {sizes(mount)}"


def npy(mount, tensors):
    for name, t in healthy(tensors).items():
        found = np.load(os.path.join(mount, "npy", name + ".npy"), mmap_mode="r", allow_pickle=False)
        consume.same(torch.from_numpy(np.array(found)), t, f"npy/{name}")


def bus_error(mount, tensors):
    """What is lost is no number: whoever touches it in a mapping is ended by SIGBUS."""
    script = "import sys, torch\n" \
             "t = torch.load(sys.argv[1], mmap=True, weights_only=True)[sys.argv[2]]\n" \
             "t.view(torch.int16).sum()\n"
    path = os.path.join(mount, "pytorch_model.bin")
    done = subprocess.run([sys.executable, "-c", script, path, HURT], capture_output=True, check=False,
                          timeout=consume.SECONDS)
    assert done.returncode == -signal.SIGBUS, (done.returncode, done.stderr)
    assert tensors


def omitted(mount, tensors):
    consume.all_same(load_file(os.path.join(mount, "model.safetensors")), healthy(tensors), "lost=omit")
    consume.all_same(load_file(os.path.join(mount, "hf", "model.safetensors")), healthy(tensors), "lost=omit: hf")
    consume.binary(mount, healthy(tensors), [])
    npy(mount, tensors)


def filled(mount, tensors):
    kept = tensors[HURT].numel() - (LOST + 1) // 2
    for where, found in (("model.safetensors", load_file(os.path.join(mount, "model.safetensors"))),
                         ("pytorch_model.bin", torch.load(os.path.join(mount, "pytorch_model.bin"), mmap=True))):
        for name, t in healthy(tensors).items():
            consume.same(found[name], t, f"lost=nan: {where}: {name}")
        hurt, wanted = found[HURT].reshape(-1), tensors[HURT].reshape(-1)
        consume.same(hurt[:kept].clone(), wanted[:kept].clone(), f"lost=nan: {where}: what is left of {HURT}")
        assert torch.isnan(hurt[kept:]).all(), f"lost=nan: {where}: numbers where bytes are lost"
    wide = np.load(os.path.join(mount, "npy", HURT + ".npy"), mmap_mode="r")
    assert np.isnan(wide.reshape(-1)[kept:]).all() and not np.isnan(wide.reshape(-1)[:kept]).any()


def run(tap, program, scratch):
    folder = os.path.join(scratch, "damaged")
    os.makedirs(folder)
    cut, tensors = make(folder)
    with Mount(program, cut, ["degraded"], scratch) as mount:
        for judge in (safe, binary, npy, bus_error):
            tap.run(f"damaged: {judge.__name__}", judge, mount, tensors)
    with Mount(program, cut, ["degraded", "lost=omit"], scratch) as mount:
        tap.run("damaged: lost=omit", omitted, mount, tensors)
    with Mount(program, cut, ["degraded", "lost=nan"], scratch) as mount:
        tap.run("damaged: lost=nan", filled, mount, tensors)
