#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file would import, against what Python's own unpickler asks for: stand-ins for every global write down what is
asked, what is called, and how far loading came.  Nothing is imported there either."""
import copyreg  # noqa: F401 pylint: disable=unused-import
import io
import json
import os
import pickle
import random
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/codec/code_dump")
# More folders with checkpoints, separated by colons.
DATA = [os.environ["ZF_DATA"]] + [d for d in os.environ.get("ZEROFS_CODE_DATA", "").split(":") if d]
TORCH_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
warnings.simplefilter("ignore")


class Stub:
    """A global, or what came of calling one."""

    def __new__(cls, *_args, **_kwargs):
        if isinstance(cls, Stub):  # NEWOBJ of a stand-in
            return cls.use()
        return object.__new__(cls)

    def __init__(self, spy, key):
        self.spy, self.key = spy, key

    def use(self):
        if self.key:
            self.spy.called.setdefault(self.key, self.spy.at)
        return Stub(self.spy, self.key)

    def __call__(self, *_args, **_kwargs):
        return self.use()

    def __setstate__(self, _state):
        self.use()

    def append(self, _x):
        self.use()

    extend = add = append

    def __setitem__(self, _key, _value):
        self.use()


class Spy(pickle._Unpickler):  # pylint: disable=protected-access
    def __init__(self, data):
        self.input = io.BytesIO(data)
        super().__init__(self.input)
        self.asked, self.called, self.at = {}, {}, 0
        self.error = None

    def find_class(self, module_name, global_name):
        key = tuple(x.replace("\0", "\ufffd") for x in (module_name, global_name))
        self.asked.setdefault(key, self.at)
        return Stub(self, key)

    def get_extension(self, code):
        if code <= 0:
            raise pickle.UnpicklingError("code")
        self.append(self.find_class("copyreg", f"extension {code}"))

    def persistent_load(self, pid):
        del pid
        return Stub(self, None)

    def run(self):
        """Without frames, whose reads are ahead of the opcodes."""
        try:
            self.load()
        except Exception as e:  # pylint: disable=broad-except
            self.error = e
        return self


def spy(data):
    """With the place of each opcode."""
    s = Spy(data)

    def step(key, do):
        def run(self):
            self.at = self.input.tell() - 1
            do(self)
        return key, run
    s.dispatch = dict(step(k, v) for k, v in pickle._Unpickler.dispatch.items())  # pylint: disable=protected-access
    s.dispatch[pickle.FRAME[0]] = lambda self: self.read(8)
    return s.run()


def ours(files):
    """A list of pickles (member, why it ends, globals) for each file."""
    out = subprocess.run([DUMP], input="".join(f + "\n" for f in files), capture_output=True, text=True, check=True).stdout
    lines = out.split("\n")
    assert len(lines) == len(files) + 1, out[-500:]
    return [x if x.startswith("!") else json.loads(x) for x in lines[:-1]]


def name(use):
    return use[0], use[1]


def compare(want, got, base=0):
    """Why a pickle of ours is not what the spy saw; base: where it begins in its file.  "" = it is."""
    asked, uses = list(want.asked.items()), [u for u in got[2] if u[5] != "dangerous" or "?" not in (u[0], u[1])]
    have = [(name(u), u[2] - base) for u in uses]
    if want.error is None:
        if have != asked:
            return f"{have} for {asked}"
        called = {name(u): u[3] - base for u in uses if u[3] is not None}
        if called != want.called:
            return f"called {called} for {want.called}"
        return f"it ends: {got[1]}" if got[1] else ""
    # what the spy saw until it failed is seen, too; what is seen besides is where Python may go on
    called = {name(u) for u in uses if u[3] is not None}
    return "" if have[:len(asked)] == asked and set(want.called) <= called else f"{have} for {asked} until {want.error!r}"


# ---- hostile pickles ---------------------------------------------------------------------------


class Maker:
    """Opcodes by chance, with so much of the stack in mind that most of them can be carried out."""
    MODULES = ["os", "my.trainer", "builtins", "__builtin__", "subprocess", "torch._utils", "nt", "a\u00e9"]
    NAMES = ["system", "Config", "eval", "getattr", "_rebuild_tensor_v2", "a.b", "Popen", "\u4e2d"]

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.out = bytearray()
        self.memo = {}  # number: "text" or another kind

    def text(self, value):
        """A str, in one of the ways to write one."""
        raw = value.encode()
        ways = [b"X" + struct.pack("<I", len(raw)) + raw, b"\x8c" + bytes([len(raw)]) + raw, b"\x8d" + struct.pack("<Q", len(raw)) + raw,
                b"V" + "".join(f"\\u{ord(c):04x}" if self.r.random() < .5 or ord(c) > 255 else c for c in value).encode("latin1")
                + b"\n"]
        if value.isascii():
            ways += [b"U" + bytes([len(raw)]) + raw, b"T" + struct.pack("<i", len(raw)) + raw,
                     b"S'" + b"".join(b"\\x%02x" % c if self.r.random() < .3 else b"\\%03o" % c if self.r.random() < .2
                                      else bytes([c]) for c in raw) + b"'\n"]
        self.out += self.r.choice(ways)

    def put(self, kind):
        number = self.r.choice([0, 1, 2, 5, 200, 70000, 4000000000])
        ways = [b"p%d\n" % number, b"r" + struct.pack("<I", number)]
        if number < 256:
            ways += [b"q" + bytes([number]), b"p +0_%d\t\n" % number]
        way = self.r.randrange(len(ways) + 1)
        if way == len(ways):
            number = len(self.memo)
            self.out += b"\x94"
        else:
            self.out += ways[way]
        self.memo[number] = kind

    def get(self, kind):
        have = [k for k, v in self.memo.items() if v == kind]
        if not have:
            return False
        number = self.r.choice(have)
        self.out += b"h" + bytes([number]) if number < 256 and self.r.random() < .5 else self.r.choice(
            [b"g%d\n" % number, b"j" + struct.pack("<I", number)])
        return True

    def named(self, value):
        """A text from the memo or written out, perhaps put there."""
        kind = "text:" + value
        if self.r.random() < .4 and self.get(kind):
            return
        self.text(value)
        if self.r.random() < .5:
            self.put(kind)
            if self.r.random() < .2:  # written over, or taken out again
                self.out += self.r.choice([b"N0", b"20", b"(N10"[:0] + b"(N1"])

    def globals(self):
        way = self.r.random()
        module, what = self.r.choice(self.MODULES), self.r.choice(self.NAMES)
        if way < .3:
            self.out += b"c" + module.encode() + b"\n" + what.encode() + b"\n"
        elif way < .8:
            self.named(module)
            self.named(what)
            self.out += b"\x93"
        elif way < .9:
            if not self.get("global"):
                self.out += b"cmy.mod\nThing\n"
        else:
            code = self.r.randrange(1, 250)
            self.out += self.r.choice([b"\x82" + bytes([code]), b"\x83" + struct.pack("<H", code), b"\x84" + struct.pack("<i", code)])
        if self.r.random() < .3:
            self.put("global")

    def plain(self):
        self.out += self.r.choice([b"N", b"\x88", b"K\x07", b"J\1\2\3\4", b"I12\n", b"L5L\n", b"F1.5\n", b"G" + struct.pack(">d", 2.5), b")",
                                   b"]", b"}", b"\x8f", b"C\2cc", b"B\1\0\0\0c", b"\x8a\1\5", b"(d", b"(l", b"(t", b"(\x91",
                                   b"\x96\1\0\0\0\0\0\0\0x", b"Ppid\n", b"NQ", b"\x80\4", b"\x95\0\0\0\0\0\0\0\0N", b"(1N"])
        if self.out[-2:] == b"\x80\4":
            self.out += b"N"

    def arguments(self, depth):
        n = self.r.randrange(4)
        if n and n < 4 and self.r.random() < .5:
            for _ in range(n):
                self.value(depth + 1)
            self.out += bytes([0x84 + n])
        else:
            self.out += b"("
            for _ in range(n):
                self.value(depth + 1)
            self.out += b"t"

    def made(self, depth):
        way = self.r.randrange(8)
        if way == 0:
            self.out += b"("
            for _ in range(self.r.randrange(3)):
                self.value(depth + 1)
            self.out += b"i" + self.r.choice(["os", "my.trainer"]).encode() + b"\n" + self.r.choice(["system", "Old"]).encode() + b"\n"
            return
        if way == 1:
            self.out += b"("
            self.globals()
            for _ in range(self.r.randrange(3)):
                self.value(depth + 1)
            self.out += b"o"
            return
        self.callee(depth)
        if way == 2:
            self.arguments(depth)
            self.out += b"}\x92"
        elif way == 3:
            self.value(depth + 1)
            self.out += b"b"
        elif way == 4:
            self.out += b"("
            self.value(depth + 1)
            self.out += b"e"
        elif way == 5:
            self.out += b"("
            self.out += b"K\1"
            self.value(depth + 1)
            self.out += b"u"
        else:
            self.arguments(depth)
            self.out += self.r.choice([b"R", b"\x81"])

    def callee(self, depth):
        if self.r.random() < .2 and depth < 5:
            self.made(depth + 1)
        else:
            self.globals()

    def value(self, depth=0):
        way = self.r.random()
        if depth > 4 or way < .3:
            self.plain()
        elif way < .5:
            self.globals()
        elif way < .6:
            self.named(self.r.choice(self.NAMES))
        elif way < .7:
            self.arguments(depth)
        elif way < .75:
            self.value(depth + 1)
            self.out += self.r.choice([b"20", b"(N1"])
        else:
            self.made(depth)

    def pickle(self):
        if self.r.random() < .8:
            self.out += b"\x80" + bytes([self.r.randrange(6)])
        self.out += b"("
        for _ in range(self.r.randrange(1, 8)):
            self.value()
        self.out += b"t."
        return bytes(self.out)


def mutated(data, r):
    data = bytearray(data)
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(data))
        way = r.random()
        if way < .4:
            data[at] = r.randrange(256)
        elif way < .7:
            del data[at:at + r.randrange(1, 4)]
        else:
            data[at:at] = bytes([r.choice(b"cib0(R\x93\x94.2lt\x81o")])
        if not data:
            data = bytearray(b".")
    return bytes(data)


def judge(folder, pickles, label):
    files = []
    for i, data in enumerate(pickles):
        files.append(os.path.join(folder, f"{label}{i}.pkl"))
        with open(files[-1], "wb") as f:
            f.write(data)
    wrong, ended, n = [], 0, 0
    for data, found in zip(pickles, ours(files)):
        want = spy(data)
        ended += want.error is None
        n += len(want.asked)
        why = found if isinstance(found, str) else (compare(want, found[0]) if found else "nothing is found" if want.asked else "")
        if why:
            wrong.append(f"{data!r}: {why}")
    check(f"{len(pickles)} {label} pickles, of which {ended} end well, with {n} globals", not wrong, "\n".join(wrong[:4]))
    return ended


# ---- files -------------------------------------------------------------------------------------


def legacy(root):
    heads = [pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2), pickle.dumps({"little_endian": True}, 2), root,
             pickle.dumps(["0"], 2)]
    # storages, in which there may be anything
    return b"".join(heads) + struct.pack("<q", 3) + b"\x80\2cos\nsystem\n."


def zipped(members, method=zipfile.ZIP_STORED):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", method) as z:
        for member, data in members:
            z.writestr(member, data)
    return f.getvalue()


def containers(folder):
    a, b, c = (b"\x80\2c" + m + b"\nThing\n)R." for m in (b"first", b"second", b"third"))
    inner = zipped([("x/data.pkl", b), ("x/data/0", b"\x80\2cos\nsystem\n.")])
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for member, data in (("sys_info", pickle.dumps(1, 2)), ("pickle", a)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", 70) + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(69) + b"\n"
    both = {"first.Thing", "second.Thing"}
    cases = {
        "alone.pkl": (a, {"first.Thing"}),
        "behind.pkl": (a + b, both),
        "no-name": (a, {"first.Thing"}),
        "text.pkl": (b"cfirst\nThing\n.", {"first.Thing"}),
        "text.bin": (b"weights, that begin with c\n", set()),
        "legacy.bin": (legacy(a), {"first.Thing"}),
        "torch.pt": (zipped([("t/data.pkl", a), ("t/data/0", b"\x80\2cos\nsystem\n."), ("t/version", b"3\n")]), {"first.Thing"}),
        "deflated.pt": (zipped([("t/data.pkl", a)], zipfile.ZIP_DEFLATED), {"first.Thing"}),
        "twice.pt": (zipped([("t/data.pkl", a), ("t/data.pkl", b)]), both),
        "nested.pt": (zipped([("t/data.pkl", a), ("t/more.zip", inner)]), both),
        "nested-deflated.pt": (zipped([("t/data.pkl", a), ("t/more", zipped([("i", inner)], zipfile.ZIP_DEFLATED))]), both),
        "in-zip-legacy.zip": (zipped([("a.bin", legacy(b))]), {"second.Thing"}),
        "row.distcp": (zipped([("t/data.pkl", a)]) + zipped([("t/data.pkl", b)]) + zipped([("t/data.pkl", c)]), both | {"third.Thing"}),
        "front.npz": (zipped([("x.npy", npy + a), ("y.npy", b"\x93NUMPY\1\0\2\0{}" + b)]), {"first.Thing"}),
        "objects.npy": (npy + a, {"first.Thing"}),
        "old.tar": (tar.getvalue(), {"first.Thing"}),
        "behind-bytes.pt": (b"PK\3\4" + b"x" * 90 + zipped([("t/data.pkl", a)]), {"first.Thing"}),
        "commented.pt": (zipped([("t/data.pkl", a)])[:-2] + b"\5\0hello", {"first.Thing"}),
        "long.pkl": (b"\x80\2X" + struct.pack("<I", 3 << 20) + b"x" * (3 << 20) + b"0" + a[2:], {"first.Thing"}),
    }
    files = []
    for label, (data, _) in cases.items():
        files.append(os.path.join(folder, label))
        with open(files[-1], "wb") as f:
            f.write(data)
    for label, found in zip(cases, ours(files)):
        got = found if isinstance(found, str) else {".".join(name(u)) for p in found for u in p[2]}
        check(f"{label}: every pickle is found", got == cases[label][1], f"{found} for {cases[label][1]}")


# ---- classes -----------------------------------------------------------------------------------


def classes(folder):
    """Python's own modules are dangerous unless the table lets a name in."""
    rows = [("collections", "OrderedDict", "known"), ("torch._utils", "_rebuild_tensor_v2", "known"), ("torch", "float8_e5m2", "known"),
            ("torch", "BFloat16Storage", "known"), ("numpy.core.multiarray", "_reconstruct", "known"), ("argparse", "Namespace", "known"),
            ("__builtin__", "set", "known"), ("my.trainer", "Config", "foreign"), ("__main__", "Config", "foreign"),
            ("torch.nn.modules.linear", "Linear", "known"), ("torch.nn.modules.linear", "relu", "foreign"),
            ("os", "system", "dangerous"), ("posix", "system", "dangerous"), ("nt", "system", "dangerous"), ("os.path", "join", "dangerous"),
            ("builtins", "eval", "dangerous"), ("__builtin__", "exec", "dangerous"), ("builtins", "__import__", "dangerous"),
            ("operator", "attrgetter", "dangerous"), ("functools", "partial", "dangerous"), ("subprocess", "Popen", "dangerous"),
            ("_pickle", "loads", "dangerous"), ("pickle", "loads", "dangerous"), ("commands", "getoutput", "dangerous"),
            ("torch", "load", "dangerous"), ("torch.storage", "_load_from_bytes", "dangerous"), ("torch.hub", "load", "dangerous"),
            ("torch.hubs", "load", "foreign"), ("my", "os.system", "dangerous"), ("", "x", "dangerous"), ("my", "", "dangerous"),
            ("dill._dill", "_create_code", "dangerous"), ("osx", "system", "foreign"),
            ("_module_of_a_later_python", "x", "dangerous"), ("__torch__.my.Net", "Net", "foreign")]
    rows += [(m, "anything", "dangerous") for m in sorted(getattr(sys, "stdlib_module_names", sys.builtin_module_names))]  # Python 3.10
    files = []
    for i, (module, what, _) in enumerate(rows):
        files.append(os.path.join(folder, f"class{i}.pkl"))
        with open(files[-1], "wb") as f:
            f.write(b"\x80\2c" + module.encode() + b"\n" + what.encode() + b"\n.")
    got = [(f[0][2][0][0], f[0][2][0][1], f[0][2][0][5]) for f in ours(files)]
    wrong = [f"{g} for {r}" for g, r in zip(got, rows) if g != r]
    check("classes of globals", not wrong, "\n".join(wrong[:9]))
    attribute = b"\x80\2cbuiltins\ngetattr\ncmy.mod\nColour\nX\3\0\0\0RED\x86R"
    tricks = {attribute + b".": "known", attribute + b")R.": "dangerous", attribute + b"}b.": "dangerous",
              b"\x80\2cbuiltins\ngetattr\nctorch.distributed._shard.sharded_tensor.api\nShardedTensor\n"
              b"X\x11\0\0\0ProcessGroupState\x86R)\x81.": "known",
              attribute.replace(b"RED", b"_ED") + b".": "dangerous", b"\x80\2cbuiltins\ngetattr\nN\x85R.": "dangerous",
              b"\x80\2ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\ngetattr\nNtR.": "dangerous",
              b"\x80\4\x8c\1ac__builtin__\nchr\nK\x61\x85R\x93.": "dangerous"}
    files = []
    for i, data in enumerate(tricks):
        files.append(os.path.join(folder, f"trick{i}.pkl"))
        with open(files[-1], "wb") as f:
            f.write(data)
    for (data, want), found in zip(tricks.items(), ours(files)):
        got = [u[5] for u in found[0][2] if u[1] in ("getattr", "?")]
        check(f"{data!r} is {want}", got == [want], found)


# ---- checkpoints -------------------------------------------------------------------------------


def pickles_of(path):
    """(member, pickle) of each that Python's own modules find in a file."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:4] == b"PK\3\4":
        start = 0
        while data[start:start + 4] == b"PK\3\4":
            ends = [m.end() for m in re.finditer(rb"PK\x05\x06.{18}", data[start:], re.S)]
            for end in ends:
                try:
                    z = zipfile.ZipFile(io.BytesIO(data[start:start + end]))
                    if z.infolist() and min(i.header_offset for i in z.infolist()) == 0:
                        break
                except zipfile.BadZipFile:
                    continue
            else:
                return
            for info in z.infolist():
                if info.filename.endswith(".pkl"):
                    info.CRC = None if info.compress_type == 0 else info.CRC
                    with z.open(info) as member:
                        member._expected_crc = None  # pylint: disable=protected-access
                        yield info.filename, member.read()
            start += end
    elif data[:1] == b"\x80" and data[1:2] <= b"\5":
        f, n = io.BytesIO(data), 0
        while n < (5 if TORCH_MAGIC in data[:64] else 1):
            start = f.tell()
            s = Spy(data[start:])
            s.run()
            if s.error:
                if n == 0 and not s.asked:
                    return  # numbers that begin as a pickle does
                f.seek(0, 2)
            else:
                f.seek(start + s.input.tell())
            yield "", data[start:f.tell()]
            n += 1


def checkpoints():
    files = sorted(os.path.join(d, x) for root in DATA for d, _, names in os.walk(root) for x in names
                   if "\n" not in x and not re.match(r"(truth|live)", x))
    wrong, n, pickles = [], 0, 0
    for path, found in zip(files, ours(files)):
        if isinstance(found, str):
            wrong.append(f"{path}: {found}")
            continue
        want = sorted((m, [name_of for name_of in s.asked], sorted(s.called), s.error is None)
                      for m, s in ((m, spy(p)) for m, p in pickles_of(path)))
        got = sorted((p[0], [name(u) for u in p[2]], sorted(name(u) for u in p[2] if u[3] is not None), not p[1]) for p in found
                     if p[2] or not p[1])
        n += sum(len(w[1]) for w in want)
        pickles += len(want)
        if [[m, a] for m, a, _, _ in want] != [[m, a] for m, a, _, _ in got] or (all(w[3] for w in want) and want != got):
            wrong.append(f"{path}: {str(got)[:600]} for {str(want)[:600]}")
    check(f"{pickles} pickles of {len(files)} files of real checkpoints, with {n} globals", not wrong and pickles > 500,
          f"{len(wrong)} differ\n" + "\n".join(wrong[:6]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        seed = int(os.environ.get("SEED", "37"))
        made = [Maker(seed * 100000 + i).pickle() for i in range(600)]
        check("enough of them end well", judge(folder, made, "hostile") >= 400)
        r = random.Random(seed)
        judge(folder, [mutated(r.choice(made), r) for _ in range(1500)], "mutated")
        judge(folder, [m[:n] for m in made[:12] for n in range(len(m))], "truncated")
        containers(folder)
        classes(folder)
    checkpoints()
    done()


main()
