#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files as Python 2 wrote them: every str is a byte string, an OrderedDict is a call with a list of pairs.  In the
three containers of torch.save, and as files of ranks."""
import collections
import os
import pickle
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import A, B, C, Pickler, Storage, Tensor, Tree, check, done, expect, module, refused, storage_of  # noqa: E402
import torchfile  # noqa: E402


class Unicode(str):
    """a u'…' of Python 2"""


class Line(int):
    """an int that takes more than 32 bits, which Python 2 has below 64"""


class Pickler2(Pickler):
    """protocol 2 with the opcodes that cPickle of Python 2.7 wrote"""
    dispatch = dict(pickle._Pickler.dispatch)

    first_key, device = 1917047168, "cuda:0"

    def __init__(self, f, protocol=2, quoted=False):
        super().__init__(f, protocol)
        self.quoted = quoted

    def save_str(self, obj):
        if isinstance(obj, Unicode):
            raw = obj.encode()
            self.write(b"X" + struct.pack("<I", len(raw)) + raw)
        else:
            self.save_bytes(obj.encode("utf-8", "surrogateescape"))
            return
        self.memoize(obj)

    def save_bytes(self, obj):
        if self.quoted:
            self.write(b"S" + repr(obj)[1:].encode() + b"\n")
        elif len(obj) < 256:
            self.write(b"U" + bytes([len(obj)]) + obj)
        else:
            self.write(b"T" + struct.pack("<i", len(obj)) + obj)

    def save_line(self, obj):
        self.write(b"I%d\n" % obj)

    dispatch[Line] = save_line
    dispatch[str] = dispatch[Unicode] = save_str
    dispatch[bytes] = save_bytes

    def reducer_override(self, obj):
        if isinstance(obj, collections.OrderedDict):
            parts = collections.OrderedDict, ([[k, v] for k, v in obj.items()],)
            return parts + (vars(obj),) if vars(obj) else parts
        return NotImplemented


class StreamPickler2(Pickler2):
    """in a stream, a storage says that it is no view of another"""
    more = (None,)


def dump(value):
    return torchfile.text(value, pickler=Pickler2)


def legacy(value, **options):
    return torchfile.legacy(value, pickler=StreamPickler2, **options)


def zipped(value, **options):
    return torchfile.archive(value, extra=[("archive/version", "2\n")], pickler=Pickler2, **options)


def ordered(**items):
    d = collections.OrderedDict((k.replace("_", "."), v) for k, v in items.items())
    d._metadata = collections.OrderedDict([("", {"version": 1}), ("lin0", {"version": 1})])
    return d


long = "l" * 300 + ".weight"
for container, make in ("legacy stream", legacy), ("zip", zipped):
    expect(f"{container}: a module's state dict", {"m.pth": make(ordered(lin0_weight=A, lin0_bias=C))},
           {":lin0.weight": A, ":lin0.bias": C})
    tree = expect(f"{container}: nested, with a long key",
                  {"m.pth": make({"epoch": 3, "arch": "alexnet", "state_dict": collections.OrderedDict([(long, B)])})},
                  {f":{long}": B}, ["state/epoch.json", "state/arch.json"])
    check(f"{container}: its text is text", tree.blob.get("state/arch.json", "").strip() == '"alexnet"', tree.blob)
    expect(f"{container}: names that are not ASCII", {"m.pth": make({"ä.w": A, Unicode("ß"): B})},
           {":ä.w": A, ":ß": B})
    tree = Tree({"m.pth": make({"w": A, "bad": {b"\xff\xfe": B}})})
    check(f"{container}: a name that is no UTF-8", tree.code == 0 and len(tree.tensor) == 2, tree.tensor)
for container, make in ("legacy stream", legacy), ("zip", zipped):
    refused(f"{container}: the text of protocol 0", {"m.pth": make(ordered(a_w=A, b=B), quoted=True)},
            "opcode STRING of pickle protocol 0; protocols 2 to 5 are read")
    tree = expect(f"{container}: a number of 33 bits is a line", {"m.pth": make({"seed": Line(2**32), "low": Line(-2**63), "w": A})}, {":w": A},
                  ["state/seed.json", "state/low.json"])
    check(f"{container}: … and read", [tree.blob[f"state/{n}.json"].strip() for n in ("seed", "low")] == [str(2**32), str(-2**63)], tree.blob)

optimizer = {"state": {140: {"momentum_buffer": B}}, "param_groups": [{"lr": 0.1, "params": [140]}]}
expect("an optimizer", {"m.pth": legacy({"model": ordered(w=A), "optimizer": optimizer})},
       {":w": A, "optim/momentum_buffer:140": B})
expect("files of ranks", {"model_rank0.pt": legacy({"w": A}), "model_rank1.pt": legacy({"w": A})}, {":w": A})

scalar = module("numpy.core.multiarray", scalar=lambda *a: None).scalar
dtype = module("numpy", dtype=lambda *a: None).dtype


class Dtype:
    def __reduce__(self):
        return dtype, ("f8", 0, 1), (3, "<", None, None, None, -1, -1, 0)


class Scalar:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return scalar, (Dtype(), self.value)


for word, value in ("no text", struct.pack("<d", 0.1)), ("a text by chance", b"zerofs!?"):
    tree = Tree({"m.pth": legacy({"w": A, "best": Scalar(value)})})
    check(f"a number of numpy whose bytes are {word}", tree.tensor.get(("", "best")) == ("f64", "", value.hex()),
          f"{tree.err} {tree.tensor}")

# ---- storages without tensors --------------------------------------------------------------------------


class Stranger:
    def __init__(self, storage):
        self.storage = storage

    def __reduce__(self):
        return module("made", build=lambda *a: None).build, (self.storage,)


for container, make in ("legacy stream", legacy), ("zip", zipped):
    tree = expect(f"{container}: a storage that no tensor shows is noted",
                  {"m.pth": make({"w": A, "x": Stranger(Storage([1, 2])), "y": Stranger(Storage([3]))})}, {":w": A})
    check(f"{container}: with the number", any("2 of its 3 storages" in n for n in tree.notes), tree.notes)
    refused(f"{container}: storages without any tensor", {"m.pth": make([Stranger(Storage([1, 2]))])}, "1 storage, but no tensor")
    tree = Tree({"m.pth": make({"w": A})})
    check(f"{container}: else there is no note", tree.code == 0 and not tree.notes, tree.notes)

done()
