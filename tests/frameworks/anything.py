# SPDX-License-Identifier: Apache-2.0
"""State dicts of whatever torch lets one make (types, views of views, shared and empty storages, nested containers, odd keys), saved
by torch.save and by DCP: every tensor that torch reads back is shown once, with its type, shape and bytes."""
import collections
import json
import os
import random
import shutil
import subprocess
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from consume import SUFFIX

MANY = 150
TYPES = {**SUFFIX, torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.complex64: "c64", torch.complex128: "c128",
         torch.float8_e4m3fnuz: "f8_e4m3fnuz", torch.float8_e5m2fnuz: "f8_e5m2fnuz", torch.float8_e8m0fnu: "f8_e8m0"}
KEYS = ["a", "b.c", 3, "x y", "é", "d/e"]
PLAIN = [None, 1, -2**70, 2.5, "s", b"b", True, torch.float16, torch.device("cpu"), {1, 2}, torch.Size([1, 2])]


class Maker:
    """Makes values from a seed.  What a DCP keeps as one opaque item (a tuple) is a list there."""

    def __init__(self, seed, flat):
        self.pick, self.flat, self.bases = random.Random(seed), flat, []

    def base(self):
        if self.bases and self.pick.random() < 0.5:
            return self.pick.choice(self.bases)
        dtype, n = self.pick.choice(list(TYPES)), self.pick.choice([0, 1, 2, 7, 24, 100])
        raw = torch.tensor([self.pick.randrange(256) for _ in range(n * dtype.itemsize)], dtype=torch.uint8)
        raw = raw & 1 if dtype == torch.bool else raw
        self.bases.append(raw.view(dtype) if n else torch.empty(0, dtype=dtype))
        return self.bases[-1]

    def change(self, t):
        """A view of it, where there is one of this kind."""
        kind, last = self.pick.randrange(7), max(t.shape[0] - 1, 0) if t.dim() else 0
        if kind == 0 and t.dim():
            return t[self.pick.randint(0, last):]
        if kind == 1 and t.numel() % 4 == 0 and t.is_contiguous() and t.numel():
            return t.view(self.pick.choice([(2, -1), (-1, 2), (4, -1)]))
        if kind == 2 and t.dim() > 1:
            return t.transpose(0, 1)
        if kind == 3 and t.dim():
            return t[:: self.pick.randint(1, 3)]
        if kind == 4:
            return t.unsqueeze(self.pick.randint(0, t.dim()))
        if kind == 5 and t.dim() and t.shape[0]:
            return t[self.pick.randint(0, last)]
        if kind == 5 and t.dim() == 1 and t.is_contiguous():  # it is empty: only then torch saves one storage as two types
            return t.view(self.pick.choice(list(TYPES)))
        if kind == 6 and t.is_complex():
            return self.pick.choice([t.conj, lambda: t.imag, lambda: t.real])()
        return t.unsqueeze(0).expand(3, *t.shape)

    def tensor(self):
        t = self.base()
        for _ in range(self.pick.randint(0, 3)):
            t = self.change(t)
        return torch.nn.Parameter(t, requires_grad=False) if self.pick.random() < 0.2 else t

    def value(self, depth):
        kind = self.pick.randrange(9) if depth < 3 else 0
        if kind < 4:
            return self.tensor()
        if kind == 4:
            keys = KEYS if not self.flat else ["a", "b", "c"]
            return {k: self.value(depth + 1) for k in self.pick.sample(keys, self.pick.randint(0, 3))}
        if kind == 5:
            return collections.OrderedDict((f"o{i}", self.value(depth + 1)) for i in range(2))
        if kind < 8:
            values = [self.value(depth + 1) for _ in range(self.pick.randint(0, 3))]
            return values if kind == 6 or self.flat else tuple(values)
        return self.pick.choice(PLAIN)

    def state(self):
        return {f"t{i}": self.value(0) for i in range(self.pick.randint(1, 8))}


def tensors(value):
    """All tensors in it."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for v in value:
            yield from tensors(v)


def told(t):
    """Type, shape and bytes, as they are counted."""
    t = t.detach().resolve_conj().resolve_neg()
    packed = torch.empty(t.numel(), dtype=t.dtype)
    packed.view(t.shape).copy_(t)
    return TYPES[t.dtype], tuple(t.shape), bytes(packed.view(torch.uint8).numpy()) if t.numel() else b""


def shown(program, checkpoint, scratch):
    """The same of what zerofs exports."""
    folder = os.path.join(scratch, "exported")
    shutil.rmtree(folder, ignore_errors=True)
    rows = subprocess.run([program, "ls", "-R", "--json", checkpoint], check=True, stdout=subprocess.PIPE).stdout.splitlines()
    subprocess.run([program, "export", "-q", "-o", "show=raw,optim,stored,extra", checkpoint, "/", folder], check=True)
    for row in map(json.loads, rows):
        if "dtype" in row:
            with open(os.path.join(folder, row["path"]), "rb") as f:
                yield row["dtype"], tuple(row["shape"]), f.read()


def by_save(seed, path):
    legacy = seed % 3 == 0
    torch.save(Maker(seed, False).state(), path, _use_new_zipfile_serialization=not legacy, pickle_protocol=2 + seed % 4)
    return torch.load(path, weights_only=False)


def by_dcp(seed, path):
    writer = dcp.FileSystemWriter(path, single_file_per_rank=seed % 2 == 0, thread_count=1 + seed % 3)
    dcp.save(Maker(seed, True).state(), storage_writer=writer, no_dist=True)
    back = {}
    _load_state_dict(back, storage_reader=dcp.FileSystemReader(path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return back


def compare(program, scratch, save):
    path, saved = os.path.join(scratch, "anything"), 0
    for seed in range(MANY):
        shutil.rmtree(path, ignore_errors=True)
        if os.path.isfile(path):
            os.unlink(path)
        try:
            state = save(seed, path)
        except (RuntimeError, ValueError, AttributeError, NotImplementedError, dcp.CheckpointException):
            continue  # torch does not save it, or does not read what it saved
        want = collections.Counter(map(told, tensors(state)))
        if not want and os.path.isdir(path):
            assert subprocess.run([program, "ls", "-R", path], capture_output=True, check=False).returncode == 3, "a save of no tensor"
            continue
        found = collections.Counter(shown(program, path, scratch))
        missing, more = [[(d, s) for d, s, _ in x] for x in (want - found, found - want)]
        assert not missing and not more, f"seed {seed}: {missing} are missing, {more} are shown besides"
        saved += 1
    assert saved > MANY / 2, f"only {saved} could be saved"


def run(tap, program, scratch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tap.run("anything: torch.save", compare, program, scratch, by_save)
        tap.run("anything: DCP", compare, program, scratch, by_dcp)
