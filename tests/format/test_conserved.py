#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing of a save is left out in silence, and verify says the same: every storage that its shards hold is told by user.zerofs.sources of some
file of the tree, equals bytes that are, is filler, or is in a file that a note says is not read.  The shards are read by
zipfile, pickle and json alone; no class of a pickle is made."""
import glob
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import main  # noqa: E402
from tap import need_fuse  # noqa: E402
from test_views import DATA, ZEROFS, Mount, read  # noqa: E402

SMALL = 64  # bytes: random states, counters, alignment between parameters
WIDTH = {"Double": 8, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}
# what PEFT gathered beside the training state, which is shown
GATHERED = "adapter_model.safetensors"
# pickles that OLMo keeps as tensors of bytes; state/ tells them
PICKLE = re.compile(r"param_group\d+|gASV.*")
STEP = re.compile(r"(iter_|global_step|checkpoint-|step|epoch)_?\d+")
# in the data for being refused: an index of a tensor that no file holds, boxes that overlap; files that are saves of their own
REFUSED = {"dcp/torch2.13/hf_full_map_w2", "dcp/torch2.13/nocoll_strided_alone_w2", "dcp/torch2.14", "dcp/torch1.13"}


class Anything:
    """An object of any class; calling, setting and appending do nothing."""

    def __init__(self, *_args, **_kw):
        self.items = []

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def __call__(self, *_args, **_kw):
        return Anything()

    def append(self, _item):
        pass

    def extend(self, _items):
        pass


class Mapping(dict):
    """An OrderedDict, which may have attributes."""


class Extents(pickle.Unpickler):
    """Which bytes of each storage the tensors of a pickle refer to: {key: [(first, end)]}."""

    def __init__(self, data):
        super().__init__(io.BytesIO(data))
        self.found = {}

    def find_class(self, module, name):
        if name.startswith("_rebuild_tensor"):
            return self.tensor
        if (module, name) == ("collections", "OrderedDict"):
            return Mapping
        return type(name, (Anything,), {})

    def persistent_load(self, pid):
        return pid

    def tensor(self, storage, first=0, size=(), stride=(), *_rest):
        if isinstance(storage, tuple) and len(storage) >= 5:
            width = WIDTH.get(getattr(storage[1], "__name__", "").replace("Storage", ""), 1)
            n = sum((c - 1) * s for c, s in zip(size, stride)) + 1 if all(size) else 0
            self.found.setdefault(storage[2], set()).add((first * width, (first + n) * width))
        return Anything()


def archives(data):
    """Every zip archive in a file, whatever is in front of it: a .distcp file has one an item."""
    for m in re.finditer(rb"PK\x05\x06", data):
        try:
            yield zipfile.ZipFile(io.BytesIO(data[:m.end() + 18]))
        except zipfile.BadZipFile:
            continue


def zip_storages(data):
    for z in archives(data):
        pickles = [n for n in z.namelist() if n.endswith("/data.pkl")]
        refer = None
        if pickles:
            refer = Extents(z.read(pickles[0]))
            try:
                refer.load()
            except Exception:  # pylint: disable=broad-except
                refer = None  # then whole storages are asked for
        for i in z.infolist():
            if not re.search(r"/data/\d+$", i.filename) or i.compress_type:
                continue
            at = i.header_offset
            at += 30 + sum(struct.unpack("<HH", data[at + 26:at + 30]))
            key = i.filename.rsplit("/", 1)[1]
            for a, b in sorted(refer.found.get(key, [(0, i.file_size)])) if refer else [(0, i.file_size)]:
                yield at + a, min(b, i.file_size) - a, i.filename


def storages(path, data):
    """(offset, bytes, what) of all that a file holds for tensors."""
    if path.endswith(".safetensors"):
        n = struct.unpack("<Q", data[:8])[0]
        for k, v in json.loads(data[8:8 + n]).items():
            if k != "__metadata__" and not PICKLE.fullmatch(k):
                yield 8 + n + v["data_offsets"][0], v["data_offsets"][1] - v["data_offsets"][0], k
    elif os.path.exists(os.path.join(os.path.dirname(path), ".zarray")) and not os.path.basename(path).startswith("."):
        yield 0, len(data), "chunk"
    else:
        yield from zip_storages(data)


def tree_files(top):
    """Raw files, and the items of extra/: what is made from them again (casts, NPY, whole files) tells nothing new."""
    for d, dirs, names in os.walk(top):
        dirs[:] = [n for n in dirs if n not in (".zerofs", "as", "npy", "hf")]
        yield from (os.path.join(d, n) for n in names if not n.endswith((".safetensors", ".bin")))


def shown(m):
    """{file: merged [first, end)} of all that the files of the tree are made of, and the bytes that are told themselves."""
    ranges, items = {}, []
    for path in tree_files(m.dir):
        try:
            sources = json.loads(os.getxattr(path, "user.zerofs.sources"))
        except OSError:
            items += [read(path)] if "/extra/" in path else []
            continue
        for e in sources:
            if "offset" in e:
                end = 1 << 62 if "codec" in e else e["offset"] + e["bytes"]
                ranges.setdefault(os.path.realpath(e["file"]), []).append((e["offset"], end))
            items += [bytes.fromhex(e["data"])] if "data" in e else []
    for k, v in ranges.items():
        merged = []
        for a, b in sorted(v):
            if merged and a <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], b)
            else:
                merged.append([a, b])
        ranges[k] = merged
    return ranges, items


def gaps(ranges, first, n):
    at = first
    for a, b in [*ranges, (first + n, 1 << 62)]:
        if a > at and at < first + n:
            yield at, min(a, first + n)
        at = max(at, min(b, first + n))


def words_of(pieces):
    """All groups of four bytes in what is shown, at any even place."""
    out = {bytes(4)}
    for p in pieces:
        out.update(p[i:i + 4] for i in range(0, len(p) - 3, 2))
    return out


def step_of(ckpt, path):
    """The save of a run that a file belongs to: only one is shown."""
    first = os.path.relpath(path, os.path.realpath(ckpt)).split(os.sep)[0]
    return first if STEP.match(first) else ""


def hidden(ckpt):
    """What of the save is in no tensor: [(file, storage, its bytes, those that are nowhere)]."""
    with Mount(ckpt, "-o", "show=all") as m:
        assert m.run.returncode == 0, (ckpt, m.run.stderr)
        ranges, items = shown(m)
        notes = " ".join(m.index().get("notes", []))
    files = {}
    for f in glob.glob(glob.escape(ckpt) + "/**", recursive=True) + glob.glob(glob.escape(ckpt) + "/**/.*", recursive=True):
        if os.path.isfile(f) and not re.match(r"expected|truth", os.path.basename(f)):
            with open(f, "rb") as h:
                files[os.path.realpath(f)] = h.read()
    words, out, n = words_of([*items, *(files[k][a:b] for k, v in ranges.items() if k in files for a, b in v)]), [], 0
    used = {step_of(ckpt, k) for k in ranges}
    for path, data in sorted(files.items()):
        name = os.path.basename(path)
        if step_of(ckpt, path) not in used or name == GATHERED or f"{name} is not shown" in notes:
            continue
        for first, size, what in storages(path, data):
            n += 1
            lost = 0
            if any(data[first:first + size] in i for i in items):
                continue
            for a, b in gaps(ranges.get(path, []), first, size):
                lost += sum(1 for i in range(a, b - 3, 4) if data[i:i + 4] not in words) * 4
            if lost and size > SMALL and not (lost < size and lost <= SMALL):
                out.append((os.path.relpath(path, os.path.realpath(ckpt)), what, size, lost))
    return out, n


def uncovered(ckpt):
    """The same in verify's words."""
    done = subprocess.run([ZEROFS, "verify", "--json", ckpt], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    rows = [json.loads(r) for r in done.stdout.splitlines()]
    assert rows and rows[-1]["kind"] == "sum", done.stderr
    return [r for r in rows if r["kind"] == "coverage" and r["weight"] == "damage"]


def case_of(family):
    def run():
        saves = sorted({os.path.dirname(p) for p in glob.glob(os.path.join(DATA, family, "**/expected*.json"), recursive=True)})
        total, bad = 0, {}
        for s in saves:
            if os.path.relpath(s, DATA) in REFUSED:
                continue
            lost, n = hidden(s)
            total += n
            said = uncovered(s)
            assert bool(said) == bool(lost), (s, said, lost)
            if lost:
                bad[os.path.relpath(s, DATA)] = lost[:4]
        assert saves and total, "no storages are seen"
        assert not bad, bad
    run.__name__ = f"every_storage_of_{family}_is_shown"
    return run


need_fuse()
main([case_of(f) for f in ("consolidated", "dcp", "deepspeed", "hf", "megatron", "olmo")])
