# SPDX-License-Identifier: Apache-2.0
"""Writes torch.save files with Python's own pickle and zipfile, and tells what zerofs makes of them."""
import collections
import io
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import types
import zipfile

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
count = failures = 0


def check(name, ok, why=""):
    global count, failures
    count += 1
    failures += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}" + ("" if ok else f"\n# {why}"))


# ---- a writer of torch.save archives ------------------------------------------------------------------

def module(name, **members):
    m = sys.modules.setdefault(name, types.ModuleType(name))
    for k, v in members.items():
        v.__module__ = name
        v.__qualname__ = v.__name__ = k
        setattr(m, k, v)
    return m


module("torch")
rebuild = module("torch._utils", _rebuild_tensor_v2=lambda *a: None)._rebuild_tensor_v2


def storage_of(name):
    return getattr(module("torch", **{name: type(name, (), {})}), name)


FloatStorage = storage_of("FloatStorage")


class Storage:
    def __init__(self, values):
        self.data = struct.pack(f"<{len(values)}f", *values)
        self.n, self.cls = len(values), FloatStorage


class Tensor:
    """float32; a view of a storage"""

    def __init__(self, *values, shape=None, storage=None, offset=0):
        self.storage = storage or Storage(values)
        self.shape = tuple(shape if shape is not None else [self.storage.n])
        self.offset = offset

    def __reduce__(self):
        stride, n = [], 1
        for s in reversed(self.shape):
            stride.insert(0, n)
            n *= s
        return rebuild, (self.storage, self.offset, self.shape, tuple(stride), False, collections.OrderedDict())

    def hex(self):
        n = 1
        for s in self.shape:
            n *= s
        return self.storage.data[4 * self.offset:4 * (self.offset + n)].hex()


class Pickler(pickle._Pickler):
    def __init__(self, f):
        super().__init__(f, 2)
        self.keys, self.storages = {}, []

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        if id(obj) not in self.keys:
            self.keys[id(obj)] = str(len(self.storages))
            self.storages.append(obj)
        return "storage", obj.cls, self.keys[id(obj)], "cpu", obj.n


def save(value, path):
    buf = io.BytesIO()
    p = Pickler(buf)
    p.dump(value)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", buf.getvalue())
        z.writestr("archive/byteorder", "little")
        for i, s in enumerate(p.storages):
            z.writestr(f"archive/data/{i}", s.data)
        z.writestr("archive/version", "3\n")


class Tree:
    def __init__(self, files, degraded=False, point=None):
        with tempfile.TemporaryDirectory() as d:
            for name, value in files.items():
                if isinstance(value, bytes):
                    with open(os.path.join(d, name), "wb") as f:
                        f.write(value)
                else:
                    save(value, os.path.join(d, name))
            run = subprocess.run([DUMP] + ["-d"] * degraded + [os.path.join(d, point or "")], capture_output=True,
                                 text=True, errors="surrogateescape", timeout=60)
        self.code, self.err = run.returncode, run.stderr.strip()
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

    def has(self, place, t):
        s, _, name = place.rpartition(":")
        return self.tensor.get((s, name)) == ("f32", ",".join(map(str, t.shape)), t.hex())


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


def done():
    print(f"1..{count}")
    sys.exit(failures > 0)
