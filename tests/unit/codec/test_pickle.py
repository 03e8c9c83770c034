#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our pickle reader with Python's own: same pickles in, same values out.

Python's unpickler runs with stand-ins for every class, so nothing is imported there either.
"""
import argparse
import collections
import datetime
import decimal
import enum
import fractions
import functools
import glob
import io
import json
import math
import os
import pathlib
import pickle
import pickletools
import random
import resource
import re
import struct
import subprocess
import sys
import types
import uuid
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/codec/pickle_dump")
DATA = os.environ["ZF_DATA"]
DEPTH = 40


class Global(type):
    """A class or function that was named; calling it is recorded."""

    def __new__(mcs, module, name):
        g = super().__new__(mcs, "Global", (Call,), {"__slots__": ()})
        g.text = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module) + "." + name
        return g

    def __init__(cls, module, name):
        pass

    def __call__(cls, *args):
        return cls.__new__(cls, *args)


class Call:
    __slots__ = ("callee", "args", "kwargs", "pairs", "elements", "state")

    def __new__(cls, *args, **kwargs):
        self = object.__new__(Call)
        self.callee, self.args, self.kwargs = cls, args, kwargs
        self.pairs, self.elements, self.state = [], [], None
        return self

    def __setstate__(self, state):
        self.state = (state,)

    def __setitem__(self, key, value):
        self.pairs.append((key, value))

    def append(self, value):
        self.elements.append(value)

    def add(self, value):
        self.elements.append(value)

    def extend(self, values):
        self.elements.extend(values)

    def __call__(self, *args):
        call = Call(*args)
        call.callee = self
        return call


class Pid:
    def __init__(self, pid):
        self.pid = pid

    def __call__(self, *args):
        raise pickle.UnpicklingError("calls an object")


class Reader(pickle._Unpickler):
    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module, name):
        if isinstance(module, str) and "\0" in module + name:
            raise pickle.UnpicklingError("NUL in a name")
        return Global(module, name)

    def persistent_load(self, pid):
        return Pid(pid)

    def _decode_string(self, value):
        try:
            return value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return value

    def _instantiate(self, klass, args):
        self.append(klass(*args))


def show(v, depth=DEPTH):
    """pickle_dump's notation."""
    if depth == 0:
        return "..."
    depth -= 1

    def each(values, brackets):
        return brackets[0] + "".join(show(x, depth) + "," for x in values) + brackets[1]

    def pairs(items):
        return "{" + "".join(show(k, depth) + ":" + show(x, depth) + "," for k, x in items) + "}"

    if v is None or v is True or v is False:
        return repr(v)
    if isinstance(v, int):
        if -2**63 <= v < 2**63:
            return str(v)
        return "I" + v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "little", signed=True).hex()
    if isinstance(v, float):
        return "f" + struct.pack(">d", v).hex()
    if isinstance(v, (bytes, bytearray, memoryview)):
        return "b" + v.hex()
    if isinstance(v, str):
        return "u" + v.encode("utf-8", "surrogatepass").hex()
    if isinstance(v, tuple):
        return each(v, "()")
    if isinstance(v, list):
        return each(v, "[]")
    if isinstance(v, dict):
        return pairs(v.items())
    if isinstance(v, (set, frozenset)):
        return each(v, "<>")
    if isinstance(v, Global):
        return re.sub("[\0-\x1f]", "?", v.text)
    if isinstance(v, Pid):
        return "pid " + show(v.pid, depth)
    if isinstance(v, Call):
        text = "call " + show(v.callee, depth) + show(v.args, depth)
        if v.kwargs:
            text += "**" + show(v.kwargs, depth)
        text += each(v.elements, "[]") if v.elements else ""
        text += pairs(v.pairs) if v.pairs else ""
        return text + ("state " + show(v.state[0], depth) if v.state else "")
    raise TypeError(type(v))


def reference(data):
    f = io.BytesIO(data)
    try:
        v = Reader(f, fix_imports=False, encoding="utf-8").load()
        return show(v) + " @%d" % f.tell()
    except RecursionError:
        raise
    except Exception as e:
        return "! " + repr(e)


def ours(pickles):
    data = b"".join(struct.pack("<Q", len(p)) + p for p in pickles)
    run = subprocess.run([DUMP], input=data, stdout=subprocess.PIPE, check=True, preexec_fn=unlimited)
    return run.stdout.decode().split("\n")


# A damaged BYTEARRAY8 makes Python allocate whatever it claims: it gets a MemoryError instead of the machine.
HARD = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, HARD))


def unlimited():
    resource.setrlimit(resource.RLIMIT_AS, (HARD, HARD))


def same(name, pickles):
    """Each of them must be read, and as Python reads it."""
    wrong = []
    for data, got in zip(pickles, ours(pickles)):
        want = reference(data)
        if want.startswith("!") or got != want:
            wrong.append("%r\n  python %s\n  here   %s" % (data[:80], want, got))
    check("%s: %d pickles" % (name, len(pickles)), not wrong, "\n".join(wrong[:5]))


def refused(name, data, said):
    """It must be refused with this sentence."""
    got = ours([data])[0]
    check(name, got.startswith("! ") and said in got, "expected %r\nfound    %r" % (said, got))


# ---- values ----------------------------------------------------------------------------------------

class Plain:
    def __init__(self):
        self.a, self.b = 1, [2.5, "x"]


class Slots:
    __slots__ = ("p", "q")

    def __init__(self):
        self.p, self.q = 1, (2,)


class State:
    def __getstate__(self):
        return (b"bytes", 3)

    def __setstate__(self, state):
        pass


class New:
    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __getnewargs_ex__(self):
        return (1, 2), {"key": "word"}


class ListChild(list):
    pass


class DictChild(dict):
    pass


class SetChild(set):
    pass


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


Point = collections.namedtuple("Point", "x y")


def values():
    loop = [1]
    loop.append(loop)
    knot = ([],)
    knot[0].append(knot)
    ring = Plain()
    ring.me = ring
    child = ListChild([1, 2])
    child.name = "n"
    shared = ["s"]
    text = ["", "a", "\0", "naïve", "日本", "\U0001f600", "\ud800", "a\\b", "\\u0041", "\n\r\t'\"", "x" * 255,
            "y" * 256, "z" * 70000, "é" * 300]
    return [
        None, True, False, (), [], {}, set(), frozenset(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [None],
        [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, 2**63, -2**63,
         -2**63 - 1, 2**64 - 1, 2**64, 2**2000, -2**2000, 2**2040, -2**2041, 10**300, 127, 128, -128, -129],
        [0.0, -0.0, 1.5, math.pi, 1e308, 5e-324, math.inf, -math.inf, 0.1, 1e22, 123456789.125],
        text, [t.encode("utf-8", "surrogatepass") for t in text], b"\x80\xff\x00", bytearray(b"\x80\0abc"),
        [bytes(range(256)), bytearray(range(256))], {1: 2}, {"a": {"b": {"c": [1, (2, {3})]}}},
        {i: str(i) for i in range(2001)}, list(range(2001)), {(1, 2): "t", 1.5: "f", None: "n", b"k": 1},
        {1, 2, 3}, frozenset({"x"}), [shared, shared, (shared,)], loop, knot, ring,
        Plain(), Slots(), State(), New(), child, DictChild(a=1), SetChild({1}), Colour.RED, Level.HIGH, Point(1, 2),
        collections.OrderedDict(a=1, b=2), collections.defaultdict(list, a=[1]), collections.Counter("aab"),
        collections.deque([1, 2], 5), argparse.Namespace(lr=0.1, n=3), types.SimpleNamespace(a=1),
        pathlib.PurePosixPath("/a/b"), datetime.datetime(2024, 1, 2, 3, 4), datetime.timedelta(1),
        decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.UUID(int=5), functools.partial(print, 1, end=""),
        complex(1, -2), range(3), slice(1, None), int, print, len, collections.OrderedDict,
        Exception("boom"), io.BytesIO(b"abc"), types.MappingProxyType,
    ]


def with_pids(value, protocol):
    f = io.BytesIO()

    class P(pickle._Pickler):
        def persistent_id(self, obj):
            return obj[1] if isinstance(obj, tuple) and obj[:1] == ("pid",) else None
    P(f, protocol).dump(value)
    return f.getvalue()


def fixtures():
    """The pickles of the real checkpoints under tests/data."""
    out = []
    for path in sorted(glob.glob(DATA + "/**/*", recursive=True) + glob.glob(DATA + "/**/.metadata", recursive=True)):
        if path.endswith(".metadata"):
            out.append((path, open(path, "rb").read()))
        elif os.path.isfile(path) and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as z:
                out += [(path, z.read(n)) for n in z.namelist() if n.endswith("data.pkl")]
    return out


def handmade():
    """Opcodes that Python 3 no longer writes, or writes differently."""
    return [
        b"I0\n.", b"I-5\n.", b"I4294967296\n.", b"I9223372036854775807\n.", b"I-9223372036854775808\n.",
        b"T\x03\0\0\0abc.", b"U\x03a\xffc.", b"U\x02\xc3\xa9.", b"U\0.", b"(I1\nI2\nl.", b"(I1\nI2\nd.", b"(t.", b"(l.", b"(d.",
        b"(1N.", b"N(0.", b"N(NN1.", b"]q\x05h\x05a.", b"]r\x40\x42\x0f\0j\x40\x42\x0f\0a.",
        b"Nq\x01K\x01q\x010h\x01.", b"(c__main__\nKlass\nK\x01o.",
        b"(c__main__\nKlass\no}(X\x01\0\0\0aK\x01ub.", b"cmod\nfn\n(tR.", b"cmod\nfn\n)\x81.", b"cmod\nfn\n)\x81Nb.",
        b"cmod\nfn\n)RK\x01bK\x02b.", b"cmod\nfn\n)RK\x01aK\x02a(K\x03K\x04e.", b"cmod\nfn\n)RK\x01K\x02s(K\x03K\x04u.",
        b"cmod\na.b.c\n.", b"\x8c\x03mod\x8c\x03a.b\x93.", b"(NNtQ.", b"\x8a\0.", b"\x8a\1\xff.", b"\x8a\2\xff\xff.",
        b"\x8a\2\x80\0.", b"\x8b\0\0\0\0.", b"\x8b\x09\0\0\0\0\0\0\0\0\0\0\x80\0.", b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8f\x94(K\x01K\x02\x90.", b"(K\x01\x91.", b"]2K\x01a0.", b"}2K\x01K\x02s0.", b"\x8f.", b"]\x94]\x94h\0h\1a.",
        b"\x80\x04\x95\x02\0\0\0\0\0\0\0N..", b"N.tail", b"\x80\x05\x96\x02\0\0\0\0\0\0\0ab.", b"\x96\x01\0\0\0\0\0\0\0a\x98.",
        b"c__builtin__\nset\n((ltR.", b"ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR.",
        b"NK\1K\2K\3\x87.",
        b"(((ttt.", b"]]a.", b"}N]s.", b"]q\0(]q\1K\1ah\1h\1e.", b"]" + b"K\1a" * 300 + b".", b"}" + b"K\1Ns" + b".",
    ]


OLD = ("INT", "LONG", "FLOAT", "STRING", "UNICODE", "PUT", "GET", "INST", "PERSID")


def old():
    """What protocols 0 and 1 alone write, and at which byte."""
    return [
        (b"I01\n.", 0), (b"NI00\n.", 1), (b"L12L\n.", 0), (b"L-123456789012345678901234567890L\n.", 0), (b"F1.5\n.", 0), (b"]F-1e-5\n.", 1),
        (b"S'abc'\n.", 0), (b"S'\\x41\\n\\t\\\\\\101\\0\\a\\q'\n.", 0), (b"Va\\u00e9\\U0001f600\xe9\n.", 0), (b"(lp0\ng0\na.", 2),
        (b"]q\0g0\na.", 3), (b"]p123456789012\ng123456789012\na.", 1), (b"(i__main__\nKlass\n.", 1), (b"P12ab\n.", 0),
        (b"\x80\x02(K\x01K\x02i__main__\nKlass\n.", 7), (b"(lp0\n(lp1\na(lp2\na.", 2), (b"L" + b"9" * 10**6 + b"L\n.", 0),
    ]


def check_old(pickles):
    """Protocols 0 and 1: what is read is as Python reads it; else the opcode is named."""
    wrong, read = [], 0
    for data, got in zip(pickles, ours(pickles)):
        read += got[0] != "!"
        said = re.fullmatch(r"! .*byte (\d+): opcode (\w+) of pickle protocol 0; protocols 2 to 5 are read", got)
        first = next(((o.name, at) for o, arg, at in pickletools.genops(data) if o.name in OLD and (o.name != "INT" or isinstance(arg, bool))), None)
        if first != (said and (said[2], int(said[1]))) or (not said and got != reference(data)):
            wrong.append("%r\n  first %s\n  here  %s" % (data[:80], first, got))
    check("protocols 0 and 1: %d pickles, of which %d have nothing of them" % (len(pickles), read), read and not wrong, "\n".join(wrong[:5]))
    for data, at in old():
        name = next(o.name for o in pickletools.opcodes if o.code == chr(data[at]))
        refused("%s at byte %d" % (name, at), data, "byte %d: opcode %s of pickle protocol 0; protocols 2 to 5 are read" % (at, name))


def mutants(seeds, n):
    rnd = random.Random(7)
    codes = [ord(o.code) for o in pickletools.opcodes]
    for _ in range(n):
        data = bytearray(rnd.choice(seeds))
        for _ in range(rnd.randint(1, 4)):
            at = rnd.randrange(len(data) + 1)
            what = rnd.random()
            if what < 0.4:
                data[at:at] = bytes([rnd.choice(codes)])
            elif what < 0.6 and at < len(data):
                data[at] = rnd.randrange(256)
            elif what < 0.8:
                del data[at:at + rnd.randint(1, 3)]
            else:
                b = rnd.randrange(len(data) + 1)
                data[at:at] = data[b:b + rnd.randint(1, 12)]
        yield bytes(data)


def check_table():
    """opcodes.def agrees with pickletools."""
    text = open(os.path.join(os.environ["top_srcdir"], "src/codec/pickle/opcodes.def")).read()
    have = {}
    for code, name, pops, mark, proto in re.findall(
            r"^OP\(('.'|0x..), (\w+), \w+, (\d), (\d), \d, (\d), \w+\)", text, re.M):
        number = ord(code[1]) if code[0] == "'" else int(code, 16)
        have[name] = (number, int(proto))
    want = {o.name: (ord(o.code), o.proto) for o in pickletools.opcodes}
    diff = {k: (have.get(k), want.get(k)) for k in set(have) | set(want) if have.get(k) != want.get(k)}
    check("opcodes.def has pickletools' %d opcodes" % len(want), not diff, str(diff))


def check_differential(seeds, n):
    """Where both accept a damaged pickle, they read the same."""
    wrong, both, only_us, only_python = [], 0, [], []
    batch = list(mutants(seeds, n))
    for data, got in zip(batch, ours(batch)):
        want = reference(data)
        if want[0] == "!" or got[0] == "!":
            if want[0] != got[0]:
                (only_us if want[0] == "!" else only_python).append((data, want, got))
            continue
        both += 1
        # Sets and dicts of equal keys lose members in Python; object graphs are what counts here.
        # Python reads on to the end of a frame, so the place of STOP is not compared.
        same_value = got.rsplit(" @")[0] == want.rsplit(" @")[0]
        if not same_value and "<" not in got and not loses_keys(data):
            wrong.append("%r\n  python %s\n  here   %s" % (data, want[:200], got[:200]))
    if os.environ.get("VERBOSE"):
        for name, cases in (("only here", only_us), ("only python", only_python)):
            for c in cases[:int(os.environ["VERBOSE"])]:
                print("# %s: %r\n#    python %s\n#    here   %s" % ((name,) + tuple(x[:200] for x in c)))
    check("%d damaged pickles, %d accepted by both" % (len(batch), both), not wrong, "\n".join(wrong[:4]))


def loses_keys(data):
    class Loser(Exception):
        pass

    def track(d, k):
        if k in d:
            raise Loser

    class Strict(Reader):
        dispatch = dict(Reader.dispatch)

        def load_setitem(self):
            track(self.stack[-3], self.stack[-2]) if isinstance(self.stack[-3], dict) else None
            pickle._Unpickler.load_setitem(self)
        dispatch[ord("s")] = load_setitem

        def load_setitems(self):
            items = self.pop_mark()
            d = self.stack[-1]
            for i in range(0, len(items) // 2 * 2, 2):
                track(d, items[i]) if isinstance(d, dict) else None
                d[items[i]] = items[i + 1]
        dispatch[ord("u")] = load_setitems

        def load_dict(self):
            items = self.pop_mark()
            if len({repr(x) for x in items[::2]}) < len(items[::2]) or len(set(items[::2])) < len(items[::2]):
                raise Loser
            self.append({items[i]: items[i + 1] for i in range(0, len(items), 2)})
        dispatch[ord("d")] = load_dict
    try:
        Strict(io.BytesIO(data), fix_imports=False).load()
    except Loser:
        return True
    except Exception:
        return False
    return False


def check_refused():
    frame = b"\x95%s\0\0\0\0\0\0\0"
    for name, data, said in [
        ("an empty file", b"", "byte 0: the pickle ends without STOP"),
        ("PROTO alone", b"\x80\x02", "byte 2: the pickle ends without STOP"),
        ("PROTO 6", b"\x80\x06N.", "byte 0: pickle protocol 6 is not known"),
        ("an unknown opcode", b"N\xff.", "byte 1: 0xff is not a pickle opcode"),
        ("SETITEM on one value", b"}s.", "byte 1: opcode SETITEM takes 3 values from the stack, which holds 1"),
        ("STOP on nothing", b".", "byte 0: opcode STOP takes 1 value from the stack, which holds 0"),
        ("TUPLE without a mark", b"Nt.", "byte 1: opcode TUPLE finds no mark"),
        ("POP_MARK without a mark", b"N1.", "opcode POP_MARK finds no mark"),
        ("POP on nothing", b"0.", "opcode POP finds nothing"),
        ("reaching below a mark", b"NN(\x86.", "opcode TUPLE2 takes 2 values from the stack, which holds 0"),
        ("APPENDS on nothing", b"(Ne.", "opcode APPENDS takes 1 value"),
        ("memo that is not set", b"h\x07.", "byte 0: opcode BINGET reads memo 7, which is not set"),
        ("a memo number far away", b"Nr\xff\xff\xff\x7f0j\xff\xff\xff\x6f.", "byte 1: memo number 2147483647, more than the limit pickle_memo allows"),
        ("a memo number that is asked for alone", b"j\xff\xff\xff\x6f.", "reads memo 1879048191"),
        ("a memo number that is asked for before it is set", b"h\0Nq\0.", "byte 0: opcode BINGET reads memo 0, which is not set"),
        ("odd SETITEMS", b"}(Nu.", "opcode SETITEMS takes pairs of key and value, but finds 1 values"),
        ("odd DICT", b"(Nd.", "opcode DICT takes pairs of key and value"),
        ("SETITEM on a list", b"]NNs.", "opcode SETITEM on a list"),
        ("APPEND on a dict", b"}Na.", "opcode APPEND on a dict"),
        ("APPEND on a tuple", b")Na.", "opcode APPEND on a tuple"),
        ("BUILD on an int", b"K\x01Nb.", "opcode BUILD on an int"),
        ("REDUCE with a list", b"cm\nf\n]R.", "opcode REDUCE takes a tuple of arguments, found a list"),
        ("NEWOBJ_EX without a dict", b"cm\nf\n)N\x92.", "found a tuple and None"),
        ("OBJ without a class", b"(o.", "opcode OBJ finds no class"),
        ("text cut", b"X\x05\0\0\0abc.", "byte 0: opcode BINUNICODE announces 5 bytes, but only 4 are left"),
        ("length 2^64-1", b"\x8d" + b"\xff" * 8 + b"a.", "announces 18446744073709551615 bytes"),
        ("length 2^63", b"\x8e" + b"\0" * 7 + b"\x80a.", "announces 9223372036854775808 bytes"),
        ("bytearray 2^63", b"\x96" + b"\0" * 7 + b"\x80a.", "announces"),
        ("LONG4 of 2^31-1", b"\x8b\xff\xff\xff\x7f.", "opcode LONG4 announces 2147483647 bytes"),
        ("LONG4 of negative length", b"\x8b\xff\xff\xff\xff.", "opcode LONG4 has a negative length, -1"),
        ("BINSTRING of negative length", b"T\xff\xff\xff\xff.", "opcode BINSTRING has a negative length, -1"),
        ("operand cut", b"NJ\x01\x02", "byte 1: the pickle ends within opcode BININT"),
        ("line cut", b"I12", "the pickle ends within opcode INT"),
        ("second line cut", b"cm\nname", "the pickle ends within opcode GLOBAL"),
        ("INT of letters", b"Iabc\n.", "opcode INT is not followed by a decimal number of 64 bits"),
        ("INT of nothing", b"I\n.", "opcode INT is not followed by a decimal number of 64 bits"),
        ("INT of a sign", b"I-\n.", "opcode INT is not followed by a decimal number of 64 bits"),
        ("INT of 2^63", b"I9223372036854775808\n.", "opcode INT is not followed by a decimal number of 64 bits"),
        ("INT below -2^63", b"I-9223372036854775809\n.", "opcode INT is not followed by a decimal number of 64 bits"),
        ("text that is not UTF-8", b"X\x02\0\0\0\xc3(.", "opcode BINUNICODE holds text that is not UTF-8"),
        ("an overlong form", b"X\x02\0\0\0\xc0\x80.", "not UTF-8"),
        ("a name that is not UTF-8", b"cm\xff\nf\n.", "opcode GLOBAL holds text that is not UTF-8"),
        ("a name with a NUL", b"cm\0\nf\n.", "opcode GLOBAL lacks a module and name that are text"),
        ("STACK_GLOBAL of numbers", b"K\x01K\x02\x93.", "opcode STACK_GLOBAL lacks a module and name that are text"),
        ("EXT1 0", b"\x82\0.", "opcode EXT1 has the impossible code 0"),
        ("EXT4 negative", b"\x84\xff\xff\xff\xff.", "opcode EXT4 has the impossible code -1"),
        ("a frame longer than the rest", frame % b"\x05" + b"N.", "a frame of 5 bytes begins, but only 2 are left"),
        ("a frame in a frame", frame % b"\x0b" + frame % b"\x02" + b"N.", "a frame begins inside another frame"),
        ("an opcode over a frame's end", frame % b"\x02" + b"J\0\0\0\0.", "opcode BININT reaches beyond the end of its frame"),
        ("a million nested tuples", b")" + b"\x85" * 10**6 + b".", "nested deeper than the limit pickle_depth"),
        ("a million nested lists", b"]" * 10**6 + b"a" * (10**6 - 1) + b".", "nested deeper than the limit pickle_depth"),
        ("ten million marks", b"(" * 10**7, "the values need more memory"),
    ]:
        refused(name, data, said)


def check_keys():
    """Two keys in every kind of mapping: refused exactly when Python says that they are one."""
    nan = float("nan")
    keys = [1, True, 1.0, 0, False, -0.0, 2**70, -1, -1.0, 2**53 + 1, 2.0**53, 0.5, nan, float("inf"), None, "1", b"1", "", "é",
            "é".encode(), "x" * 200, "x" * 100 + "y" + "x" * 99, (), (1, "a"), (True, "a"), (1, b"a"), ((1, 2), None),
            ((1.0, 2), None), ((1, 3), None), collections.OrderedDict, int]
    wrong, n = [], 0
    for i, a in enumerate(keys):
        for b in keys[i:]:
            x, y = pickle.dumps(a, 3)[2:-1], pickle.dumps(b, 3)[2:-1]
            both = [b"(" + x + b"N" + y + b"Nd.", b"}" + x + b"Ns" + y + b"Ns.",
                    b"ccollections\nOrderedDict\n)R(" + x + b"N" + y + b"Nu.",
                    b"ccollections\nOrderedDict\n](](" + x + b"Ne](" + y + b"Nee\x85R."]
            many = b"".join(b"J" + struct.pack("<i", 1000 + k) + b"N" for k in range(40))
            both.append(b"}(" + x + b"N" + many + y + b"Nu.")
            one = a == b
            for data, got in zip(both, ours(both)):
                n += 1
                if one != (got.startswith("! ") and "occurs twice in one dict" in got):
                    wrong.append("%r %r %r: %r" % (a, b, data, got))
    check("keys that are one in Python: %d mappings" % n, not wrong, "\n".join(wrong[:5]))
    wrong, edges = [], (0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0)
    texts = [bytes([a, b, *rest]) for a in (0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5)
             for b in edges for rest in ((), *((c,) for c in edges), *((c, d) for c in edges for d in (0x7f, 0x80, 0xbf, 0xc0)))]
    for text, got in zip(texts, ours([b"X" + struct.pack("<I", len(t)) + t + b"." for t in texts])):
        try:
            text.decode("utf-8", "surrogatepass")
            good = not got.startswith("! ")
        except UnicodeDecodeError:
            good = got.startswith("! ") and "not UTF-8" in got
        if not good:
            wrong.append("%r: %r" % (text, got))
    check("what Python takes for UTF-8: %d texts" % len(texts), not wrong, "\n".join(wrong[:5]))
    refused("a key twice is named", b"}(X\2\0\0\0aaK\1X\2\0\0\0bbK\2X\2\0\0\0aaK\3u.", 'the key "aa" occurs twice')
    refused("in a mapping inside another", b"}(K\1}(K\7NK\7Nuu.", "the key 7 occurs twice")
    long = b"X" + struct.pack("<I", 10**5) + b"x" * (10**5 - 1)
    refused("long keys in many mappings", b"(" + long + b"yq\0" + long + b"zq\1" + b"}(h\0Nh\1Nu" * 10**5 + b"l.",
            "too long to compare")
    collide = [bytes([65 + (i >> k & 1) for k in range(14)]) for i in range(1 << 14)]
    check("many keys alike", ours([b"}(" + b"".join(b"U\x0e" + k + b"N" for k in collide) + b"u."])[0].startswith("{"))


def check_bombs():
    """Few bytes that are many values as a tree are few values to us."""
    dup = b"(" + b"K\1" + b"2" * 9 + b"t"
    for _ in range(8):
        dup = b"(" + dup + b"2" * 9 + b"t"
    memo = b"]\x94"
    for i in range(10):
        memo += b"]\x94(" + (b"h" + bytes([i])) * 9 + b"e"
    for name, data in (("DUP bomb", dup + b"0N."), ("memo bomb", memo + b"0N.")):
        check("%s of %d bytes" % (name, len(data)), ours([data])[0].startswith("None"))


def check_truncation(pickles):
    """Every beginning of a real pickle is refused, never misread."""
    for name, data in pickles:
        cuts = sorted(set(range(min(len(data), 3000))) | set(range(max(0, len(data) - 300), len(data))))
        lines = ours([data[:n] for n in cuts])
        bad = [(n, line[:100]) for n, line in zip(cuts, lines) if not line.startswith("! ")]
        check("%s cut at %d places" % (os.path.relpath(name, DATA), len(cuts)), not bad, str(bad[:3]))


def as_json(pickles):
    data = b"".join(struct.pack("<Q", len(p)) + p for p in pickles)
    out = io.BytesIO(subprocess.run([DUMP, "--json"], input=data, stdout=subprocess.PIPE, check=True,
                                    preexec_fn=unlimited).stdout)
    return [out.read(int(out.readline())).decode() for _ in pickles]


def strict(text):
    """Parses JSON that any reader takes: no NaN, no key twice."""
    def once(pairs):
        keys = [k for k, _ in pairs]
        if len(set(keys)) < len(keys):
            raise ValueError("a key twice")
        return dict(pairs)

    def no(name):
        raise ValueError(name)
    return json.loads(text, object_pairs_hook=once, parse_constant=no)


def numpy_scalar(code, data, order="<"):
    return b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\2\0\0\0" + code.encode() + b"\x89\x88\x87R(K\3X\1\0\0\0" + order.encode() + \
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbC" + bytes([len(data)]) + data + b"\x86R."


def check_json(pickles, plain):
    """What Python reads in our JSON."""
    wrong = []
    for data, text in zip(pickles, as_json(pickles)):
        try:
            strict(text) if not text.startswith("! ") else None
        except ValueError as e:
            wrong.append("%s: %s" % (e, text[:200]))
    check("JSON of %d pickles is strict" % len(pickles), not wrong, "\n".join(wrong[:3]))
    wrong = []
    for value in plain:
        text = as_json([pickle.dumps(value, 4)])[0]
        if strict(text) != value:
            wrong.append("%r: %s" % (value, text[:200]))
    check("%d plain values come back from JSON" % len(plain), not wrong, "\n".join(wrong[:3]))
    for value, want in [
        ((1, 2), "[1, 2]\n"), ([], "[]\n"), ({}, "{}\n"), ([1, "a"], '[\n  1,\n  "a"\n]\n'), ({1}, "[1]\n"),
        ({1: "a", "1": "b", True: "c", None: 0, (2, "x"): 1}, None),
        (math.nan, '{"__float__": "nan"}\n'), (-math.inf, '{"__float__": "-inf"}\n'),
        (b"\0\xff", '{"__bytes__": "00ff", "length": 2}\n'), ("\ud800", '"\\\\ud800"\n'), ("한국\n힣", '"한국\\n힣"\n'),
        (collections.OrderedDict(a=1), '{\n  "a": 1\n}\n'), (collections.defaultdict(list, a=1), '{\n  "a": 1\n}\n'),
        (collections.Counter("aa"), '{\n  "a": 2\n}\n'), (collections.deque([1, 2]), "[1, 2]\n"),
        (argparse.Namespace(lr=0.1), '{\n  "__class__": "argparse.Namespace",\n  "lr": 0.1\n}\n'),
        (Slots(), '{\n  "__class__": "__main__.Slots",\n  "p": 1,\n  "q": [2]\n}\n'),
        (pathlib.PurePosixPath("/a/b"), '"/a/b"\n'), (pathlib.PurePosixPath("a/b"), '"a/b"\n'),
        (int, '{"__global__": "builtins.int"}\n'), (range(3), None), (Exception("x"), None), (DictChild(a=1), None),
    ]:
        for protocol in (2, 5):
            if protocol < 3 and (value is int or isinstance(value, (range, Exception))):
                continue  # Python 2 had other names for these
            text = as_json([pickle.dumps(value, protocol)])[0]
            got = strict(text)
            if want is None:
                want = {dict: '{"1": "c", "1#2": "b", "None": 0, "(2, x)": 1}',
                        range: '{"__class__": "builtins.range", "args": [0, 3, 1]}',
                        Exception: '{"__class__": "builtins.Exception", "args": ["x"]}',
                        DictChild: '{"__class__": "__main__.DictChild", "items": {"a": 1}}'}[type(value)]
            same_text = text == want if want.endswith("\n") else got == json.loads(want)
            name = "JSON of %s, protocol %d" % (ascii(value).split(" at 0x")[0].replace("#", ""), protocol)
            check(name, same_text, "%r\n%r" % (text, want))
    many = 3 ** 12600
    size = many.bit_length() // 8 + 1
    got = strict(as_json([pickle.dumps(many, 2)])[0])
    check("JSON of a number of 6,000 digits is its bytes", got["length"] == size and len(got["__int__"]) >= 64 and
          many.to_bytes(size, "little").hex().startswith(got["__int__"].rstrip(".")), got)
    for name, data, want in [
        ("a cycle", b"]\x94h\0a.", [{"__ref__": "1 level up"}]),
        ("an enum member of CPython 3.11", b"cbuiltins\ngetattr\ncm\nE\nX\1\0\0\0W\x86R.", {"__enum__": "m.E.W"}),
        ("a path of CPython 3.13", b"cpathlib._local\nPosixPath\nX\1\0\0\0/X\1\0\0\0a\x86R.", "/a"),
        ("a path of another library", b"clibrary\nPosixPath\nX\1\0\0\0a\x85R.", {"__class__": "library.PosixPath", "args": ["a"]}),
        ("torch.device", b"ctorch\ndevice\nX\4\0\0\0cudaK\1\x86R.", "cuda:1"),
        ("torch.Size", b"ctorch\nSize\nK\2K\3\x86\x85R.", [2, 3]), ("torch.float32", b"ctorch\nfloat32\n.", "torch.float32"),
        ("an OrderedDict of Python 2", b"ccollections\nOrderedDict\n]]U\1aaK\1aa\x85R.", {"a": 1}),
        ("a numpy scalar", b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R"
         b"(K\3X\1\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbC\x08\0\0\0\0\0\0\xf8\x3f\x86R.", 1.5),
        ("a persistent id", b"X\1\0\0\0aQ.", {"__persid__": "a"}), ("keys of one text", b"}(X\1\0\0\0" b"1K\1K\1K\2u.",
                                                                 {"1": 1, "1#2": 2}),
        ("101 lists", b"]" * 101 + b"a" * 100 + b".", None),
    ]:
        text = as_json([data])[0]
        if name == "101 lists":
            check("JSON of 101 lists is cut", "__cut__" in text and strict(text) is not None, text)
        elif want is not None:
            check("JSON of " + name, strict(text) == want, text)
    for code, data in [("f4", struct.pack("<f", -1.625)), ("f8", struct.pack("<d", 1e300)), ("u1", b"\xfe"), ("u2", b"\1\xff"), ("u4", b"\1\2\3\xff"),
                       ("u8", b"\xff" * 7 + b"\xfe"), ("i1", b"\x80"), ("i2", b"\xfe\xff"), ("i4", b"\1\2\3\x84"), ("i8", b"\0" * 7 + b"\x80"), ("i8", b"\5" + b"\0" * 7),
                       ("i1", b"\x7f"), ("b1", b"\1"), ("b1", b"\0")]:
        want = {"f": lambda: struct.unpack("<f" if len(data) == 4 else "<d", data)[0], "u": lambda: int.from_bytes(data, "little"),
                "i": lambda: int.from_bytes(data, "little", signed=True), "b": lambda: data != b"\0"}[code[0]]()
        text = as_json([numpy_scalar(code, data)])[0]
        check(f"JSON of numpy's {code} {data.hex()}", strict(text) == want and (strict(text) is want or code != "b1"), text)
    for code, data, order in [("i4", b"\1\0\0\0", ">"), ("i4", b"\1\0", "<"), ("i4", b"\1" * 8, "<"), ("f2", b"\1\2", "<"), ("f1", b"\1", "<"), ("b2", b"\1\0", "<"),
                              ("b0", b"", "<"), ("c8", b"\1" * 8, "<"), ("U1", b"a", "<"), ("i9", b"\1" * 9, "<")]:
        text = as_json([numpy_scalar(code, data, order)])[0]
        check(f"JSON of numpy's {order}{code} of {len(data)} bytes is a call", strict(text).get("__class__") == "numpy.core.multiarray.scalar", text)
    bomb = b"(" + b"K\1" + b"2" * 9 + b"t"
    for _ in range(8):
        bomb = b"(" + bomb + b"2" * 9 + b"t"
    check("JSON of a bomb meets its limit", "text_bytes" in as_json([bomb + b"."])[0])


def main():
    sys.setrecursionlimit(10000)
    seeds, older = [], []
    check_table()
    for protocol in range(6):
        pickles = []
        for v in values():
            for make in (pickle.dumps, lambda v, p: with_pids(v, p)):
                try:
                    pickles.append(make(v, protocol))
                except (pickle.PicklingError, TypeError, RecursionError, ValueError):
                    continue
        seeds += [p for p in pickles if len(p) < 400]
        older += pickles if protocol < 2 else []
        if protocol > 1:
            same("protocol %d" % protocol, pickles)
            same("persistent ids, protocol %d" % protocol, [with_pids([("pid", ("storage", int, "0", 5)), 1], protocol)])
    check_old(older)
    same("opcodes of old", handmade())
    real = fixtures()
    same("real checkpoints", [data for _, data in real])
    check_refused()
    check_keys()
    check_bombs()
    small = [x for x in real if len(x[1]) < 20000]
    check_truncation(small[:: max(1, len(small) // 6)])
    check_differential(seeds + handmade() + [p for p, _ in old() if len(p) < 400], int(os.environ.get("ZF_MUTANTS", 2500)))
    check_json([data for _, data in real] + seeds + handmade() + list(mutants(seeds, 600)),
               [v for v in ([1, "a", None, True, {"k": [1.5, -2, 10**30, -10**400, 2**64]}], "naïve \"q\"\n\0\x7f",
                            [0.1, 1e22, 5e-324, 1e308, 123456789.125, -0.0, 3.0], {"a": {}, "b": []}, "日本\U0001f600",
                            [2**63, -2**63, -2**63 - 1, 2**2000])])
    done()


main()
