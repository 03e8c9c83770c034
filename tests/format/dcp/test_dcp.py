#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves made by mkdcp.py, read with `zerofs cat`: digests of every tensor; damage has its exit code."""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import mkdcp  # noqa: E402 pylint: disable=wrong-import-position
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
PROGRAM = os.path.join(os.environ["top_builddir"], "zerofs")  # without the shell's wrapper
with open(PROGRAM, "rb") as f:
    text = f.read()
    INFLATED = b"__asan_init" in text or b"__tsan_init" in text
MAKE = os.path.join(sys.path[0], "mkdcp.py")
GOOD = ["", "--torch 1.13 --protocol 2", "--torch 2.6 --dtype bfloat16 --ranks 3", "--ranks 7 --plans --bytes 3"]
BAD = ["overlap", "hole", "missing-file", "no-metadata", "huge"]


def make(folder, args):
    subprocess.run([sys.executable, MAKE, folder, *args.split()], check=True)
    return folder


def good(folder, args):
    make(folder, args + " --expect")
    with open(os.path.join(folder, "expected.json")) as f:
        tensors = json.load(f)["tensors"]
    for name, want in tensors.items():
        # planner_data was None in 1.13: the key is the name
        name = name if "1.13" in args else name[len("model."):]
        suffix = {"float32": "f32", "bfloat16": "bf16"}[want["dtype"]]
        data = subprocess.run([ZEROFS, "cat", folder, f"{name}.{suffix}"], check=True, stdout=subprocess.PIPE).stdout
        if hashlib.sha256(data).hexdigest() != want["sha256"]:
            return False
    return True


def bad(folder, case):
    r = subprocess.run([ZEROFS, "ls", "-R", make(folder, "--bad " + case)], capture_output=True, text=True)
    return r.returncode == 4 and r.stderr.count("\n") == 1


def numbered(folder, _):
    """Several models of accelerate; 1.13 recorded no paths, so the word to number is cut off the keys."""
    return all(numbered_as(os.path.join(folder, stem), stem) for stem in ("pytorch_model_fsdp_", "pytorch_model_"))


def in_any_order(folder, _):
    """Keys and chunks of two state dicts of the same names, whose items come in the other order."""
    listed = {}
    for order in ("", " --backwards"):
        top = os.path.join(folder, "run" + order.strip())
        for i in range(2):
            make(os.path.join(top, f"pytorch_model_fsdp_{i}"), "--torch 1.13 --protocol 2 --tensors 2 --ranks 3" + order)
        names = subprocess.run([ZEROFS, "ls", "-R", top], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        listed[order] = [(n, subprocess.run([ZEROFS, "cat", top, n], check=True, stdout=subprocess.PIPE).stdout) for n in names]
    return len(listed[""]) == 4 and listed[""] == listed[" --backwards"]


def numbered_as(folder, stem):
    for i in range(2):
        make(os.path.join(folder, f"{stem}{i}"), "--torch 1.13 --protocol 2 --tensors 1")
    r = subprocess.run([ZEROFS, "ls", "-R", folder], check=True, stdout=subprocess.PIPE, text=True)
    return r.stdout.split() == ["model.layers.0.weight.f32", "model_1.layers.0.weight.f32"]


def apart(folder, _):
    """Model and optimizer in folders of their own: keys of the latter are put below "optimizer", unless they are."""
    args = argparse.Namespace(dir="", tensors=0, ranks=1, bytes=0, torch="1.13", protocol=2, dtype="float32", sparse=False,
                              hollow=False, plans=False, columns=False, bad="")
    keys = {"model": [("w",)], "optim": [("state", "w", "exp_avg"), ("optim", "state", "w", "exp_avg_sq"),
                                         ("optimizer", "state", "w", "step"), ("optim", "lr")]}
    for part, paths in keys.items():
        args.dir = os.path.join(folder, part)
        os.makedirs(args.dir)
        c = mkdcp.Checkpoint(args)
        for path in paths:
            c.tensor(path, (2, 3))
        c.out[0].close()
        with open(os.path.join(args.dir, ".metadata"), "wb") as f:
            mkdcp.pickle.dump(c.metadata(), f, 2)
    r = subprocess.run([ZEROFS, "ls", "-R", folder], check=True, stdout=subprocess.PIPE, text=True)
    return r.stdout.split() == ["optim.lr.f32", "w.f32", *(f"optim/{s}/w.f32" for s in ("exp_avg", "exp_avg_sq", "step"))]


def parts(folder, **of):
    """A folder of DCP saves: {directory: paths of its tensors, or (path, value) of a bytes item}."""
    for part, paths in of.items():
        args = argparse.Namespace(dir=os.path.join(folder, part.replace("__", "/")), tensors=0, ranks=1, bytes=0, torch="2.14", protocol=4,
                                  dtype="float32", sparse=False, hollow=False, plans=False, columns=False, bad="")
        os.makedirs(args.dir)
        c = mkdcp.Checkpoint(args)
        for path in paths:
            if isinstance(path[-1], dict):
                c.bytes_item(path[:-1], path[-1])
            else:
                c.tensor(path, (2, 3))
        c.out[0].close()
        with open(os.path.join(args.dir, ".metadata"), "wb") as f:
            mkdcp.pickle.dump(c.metadata(), f, 4)
    return folder


def seen(folder):
    """Exit code, files, notes."""
    r = subprocess.run([ZEROFS, "info", "--json", folder], capture_output=True, text=True)
    files = subprocess.run([ZEROFS, "ls", "-R", folder], stdout=subprocess.PIPE, text=True).stdout.split()
    return r.returncode, files, json.loads(r.stdout)["notes"] if r.returncode == 0 else r.stderr


def many(folder, n):
    """As many state dicts as there may be, and one more."""
    of = {f"optimizer_{i}": [("state", f"w{i}", "exp_avg")] for i in range(n)}
    code, files, notes = seen(parts(folder, model=[("w",)], **of))
    if n < 256:
        return code == 0 and "w.f32" in files and not notes and sum("exp_avg" in f for f in files) == n
    return (code == 4 and "more than the 256" in notes) or print(code, notes)


def beside(folder, _):
    """Weights that are not numbered as their optimizers are; saves that are no part are named."""
    optimizers = {f"optimizer_{i}": [("optimizer", "state", f"w{i}", "exp_avg")] for i in (0, 1)}
    code, files, notes = seen(parts(os.path.join(folder, "a"), model=[("w",)], **optimizers))
    good = code == 0 and files == ["w.f32", "optim/exp_avg/w0.f32", "optim/exp_avg/w1.f32"] and not notes
    for name, of, hidden in (("b", {"model": [("w",)], "pytorch_model_fsdp_0": [("model", "v")], **optimizers}, "model"),
                             ("c", {"model": [("w",)], "optim": [("state", "w", "exp_avg")], "optimizer": [("state", "w", "exp_avg")]}, "optim"),
                             ("d", {"model_and_optim": [("model", "w")], "ema": [("model", "w")]}, "ema"),
                             ("e", {"model": [("w",)], "optimizer": [("state", "w", "exp_avg")], "critic": [("w",)]}, "critic")):
        code, files, notes = seen(parts(os.path.join(folder, name), **of))
        good = good and code == 0 and files and len(notes) == 1 and notes[0].startswith(hidden + "/ is not shown") or print(name, code, files, notes)
    return good


def same_items(folder, _):
    """Bytes items of one key in several state dicts: the first keeps its name, the others have that of their directory."""
    of = {k: [("w" + k,), ("obj", {"in": k})] for k in ("pytorch_model_fsdp_0", "optimizer_0", "pytorch_model_fsdp_1", "optimizer_1", "optimizer_2")}
    code, _, notes = seen(parts(folder, **of))
    names = {"pytorch_model_fsdp_0": "obj", "optimizer_0": "optimizer_0.obj", "pytorch_model_fsdp_1": "obj_1",
             "optimizer_1": "optimizer_1.obj_1", "optimizer_2": "obj_2"}
    r = subprocess.run([ZEROFS, "cat", folder, "state/checkpoint.json"], stdout=subprocess.PIPE)
    told = json.loads(r.stdout or "{}")
    raw = {k: subprocess.run([ZEROFS, "cat", folder, f"extra/{v}"], stdout=subprocess.PIPE).stdout for k, v in names.items()}
    good = code == 0 and told == {v: {"in": k} for k, v in names.items()} and all(k.encode() in raw[k] for k in names)
    return good or print(code, notes, told, raw)


def not_named(folder, _):
    """Files of a save that the metadata do not name, of a framework and made: told, unless they are empty."""
    data = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "dcp/torch2.13/overwrite_fewer_w3")
    good = any(n.startswith("__2_0.distcp is not shown") for n in seen(data)[2])
    parts(folder, model=[("w",)], optim=[("state", "w", "exp_avg")])
    open(os.path.join(folder, "model/__7_0.distcp"), "wb").close()
    good = good and not seen(folder)[2]
    for name in ("model/__7_0.distcp", "optim/__3.metadata"):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(b"x" * 50)
    code, files, notes = seen(folder)
    return (good and code == 0 and [n.split(" is not shown")[0] for n in notes] == ["model/__7_0.distcp", "optim/__3.metadata"] and
            files == ["w.f32", "optim/exp_avg/w.f32"]) or print(code, files, notes)


def peak(path):
    """The largest size of `zerofs info` in bytes."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # What the C library fills for tests is not what a program takes.
        os.execve(PROGRAM, [PROGRAM, "info", "-o", "model_cache=off", path],
                  {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"})
    _, status, used = os.wait4(pid, 0)
    return used.ru_maxrss << 10 if status == 0 else 1 << 60


def slim(folder):
    """What a tensor takes, a key, a chunk and a draft at once, set against the pickle that names it; libraries count for
    themselves."""
    make(folder, "--tensors 40000 --ranks 1 --rows 4 --hollow")
    make(folder + "1", "--tensors 1 --ranks 1 --rows 4 --hollow")
    return (peak(folder) - peak(folder + "1")) / os.path.getsize(os.path.join(folder, ".metadata"))


with tempfile.TemporaryDirectory() as top:
    for i, (test, arg) in enumerate([(good, a) for a in GOOD] + [(bad, a) for a in BAD] + [
            (numbered, "numbered models"), (apart, "an optimizer apart"), (in_any_order, "items in another order than keys"),
            (many, 70), (many, 255), (many, 256), (beside, "saves beside those that are joined"), (same_items, "items of one key"), (not_named, "files that nothing names")]):
        check(str(arg or "") or "as it is", test(os.path.join(top, str(i)), arg))
    took = 0 if INFLATED else slim(os.path.join(top, "many"))
    check("40,000 tensors take at most twice their metadata, beside a save of one", took < 2, f"{took:.2f}")
done()
