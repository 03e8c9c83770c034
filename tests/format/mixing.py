# SPDX-License-Identifier: Apache-2.0
"""Files of two steps of one run in one folder.  The later step is made from a save that is here: every floating number in a
tensor is doubled (exact, and the same before and after rounding masters to weights), and what counts steps has gone on.  Each
file, and all files of each kind, are taken from the later save: that is refused, or every tensor is of one of the two
saves, and only where nothing in the files tells them apart."""
import array
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zipfile
from io import BytesIO

from made import DUMP, check
from torchedit import Archive, Call, Id, Reader

COUNTS = {"step", "global_steps", "global_step", "global_samples", "last_epoch", "_step_count"}
# (code of array, bits of fraction, bits of exponent)
SINGLE, HALF, BRAIN, DOUBLE = ("I", 23, 8), ("H", 10, 5), ("H", 7, 8), ("Q", 52, 11)
FLOATS = {"FloatStorage": SINGLE, "HalfStorage": HALF, "BFloat16Storage": BRAIN, "DoubleStorage": DOUBLE,
          "F32": SINGLE, "F16": HALF, "BF16": BRAIN, "F64": DOUBLE}


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


# ---- making a file one of the later save ----------------------------------------------------------------

def later_torch(path):
    with Archive(path) as a:
        storages = {}
        walk(a.root, storages, {})
        for key, kind in storages.items():
            double(a.member[f"{a.pkl[:-len('data.pkl')]}data/{key}"], kind)


def rewrite(path, change):
    with open(path, "r+b") as f:
        raw = bytearray(f.read())
        change(raw)
        f.seek(0)
        f.write(raw)


def later_safetensors(raw):
    data = 8 + struct.unpack("<Q", raw[:8])[0]
    for key, t in json.loads(raw[8:data]).items():
        if key != "__metadata__":
            begin, end = (data + x for x in t["data_offsets"])
            part = raw[begin:end]
            double(part, t["dtype"])
            raw[begin:end] = part


def later_items(raw):
    """A file of torch.distributed.checkpoint: one archive behind the other, each ends as an archive does."""
    begin = 0
    while begin < len(raw):
        end = raw.index(b"PK\5\6", begin) + 22
        with zipfile.ZipFile(BytesIO(bytes(raw[begin:end]))) as z:
            pkl = next(i.filename for i in z.infolist() if i.filename.endswith("/data.pkl"))
            storages = {}
            walk(Reader(BytesIO(z.read(pkl))).load(), storages, {})
            for i in z.infolist():
                stem, _, key = i.filename.rpartition("/")
                if stem.endswith("/data") and key in storages:
                    name, extra = struct.unpack_from("<HH", raw, begin + i.header_offset + 26)
                    at = begin + i.header_offset + 30 + name + extra
                    part = raw[at:at + i.file_size]
                    double(part, storages[key])
                    raw[at:at + i.file_size] = part
        begin = end


def later(path):
    """Makes a file one of the later save."""
    if path.endswith(".swp"):
        rewrite(path, lambda raw: double(raw, "FloatStorage"))
    elif path.endswith(".safetensors"):
        rewrite(path, later_safetensors)
    elif path.endswith(".distcp"):
        rewrite(path, later_items)
    else:
        later_torch(path)


# ---- mixtures -------------------------------------------------------------------------------------------

def of_a_save(folder):
    return sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, names in os.walk(folder) for f in names
                  if re.search(r"\.pt(-\d+\.\d+)?$|\.swp$|\.safetensors$|\.distcp$", f))


def copy(folder, to):
    shutil.copytree(folder, to)
    for place, _, names in os.walk(to):
        for f in (place, *(os.path.join(place, n) for n in names)):
            os.chmod(f, 0o755)


def tree(folder):
    """({(set, name): bytes}, notes) or None."""
    r = subprocess.run([DUMP, folder], capture_output=True, text=True, errors="surrogateescape", timeout=60)
    if r.returncode:
        return None, r.stderr
    rows = [line.split("\t") for line in r.stdout.splitlines()]
    return {(r[1], r[2]): r[5] for r in rows if r[0] == "tensor"}, " ".join(r[1] for r in rows if r[0] == "note")


class Mixture:
    """One that was not refused: the (set, name) of tensors that are of neither save, of those that are not of the second one,
    and of those that are."""

    def __init__(self, torn, first, second, notes):
        self.torn, self.first, self.second, self.notes = torn, first, second, notes

    def fewer(self):
        return min(self.second, self.first, key=len)


def mixtures(save, folder, untold):
    """Tries all mixtures of a save.  untold(mixture): is it one of which the files say nothing, or is it told?"""
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
            mix = Mixture(torn, [k for k in differ if got.get(k) != two[k]], [k for k in differ if got.get(k) == two[k]], notes)
            if (torn or mix.fewer()) and not untold(mix):
                wrong.append((some, torn[:2], mix.fewer()[:2]))
        check(f"{save}: {len(files)} files, of two steps: {refused} mixtures refused", not wrong, wrong)
