#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs show and zerofs stat: what they print, which bytes they read, how they refuse.  The numbers themselves are compared with
torch's and numpy's in tests/frameworks/digits.py."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from stfile import save  # noqa: E402 pylint: disable=wrong-import-position
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
ZERO3 = os.path.join(DATA, "deepspeed/zero3_w2")


def zerofs(*words):
    return subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)


def good(*words):
    done = zerofs(*words)
    assert done.returncode == 0, f"{words}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def refused(code, *words):
    done = zerofs(*words)
    assert done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stderr}{done.stdout}"
    assert done.stderr.count("\n") == 1 or "Try `zerofs" in done.stderr, done.stderr
    return done.stderr


def counting(n):
    return struct.pack(f"<{n}f", *range(n))


def layouts(folder):
    """As numpy 1.24 prints these arrays with np.printoptions(threshold=0, edgeitems=3), but for its dots at the end of a number."""
    path = os.path.join(folder, "layout.safetensors")
    save(path, {"few": ("I64", [2, 3], struct.pack("<6q", 1, -20, 3, 4, 5, 6)), "cube": ("U8", [2, 7, 7], bytes(range(98))),
                "row": ("I16", [9], struct.pack("<9h", *range(9))), "none": ("F32", [3, 0], b""), "one": ("BOOL", [], b"\1"),
                "long": ("F64", [6], struct.pack("<6d", *[-1.2345678901234567e-300] * 6))})
    assert good("show", path, "few") == "few  i64 [2, 3]\n[[  1 -20   3]\n [  4   5   6]]\n"
    assert good("show", path, "row") == "row  i16 [9]\n[0 1 2 ... 6 7 8]\n"
    assert good("show", path, "none").endswith("\n[]\n")
    assert good("show", path, "one") == "one  bool []\ntrue\n"
    assert good("show", path, "cube") == (
        "cube  u8 [2, 7, 7]\n"
        "[[[ 0  1  2 ...  4  5  6]\n  [ 7  8  9 ... 11 12 13]\n  [14 15 16 ... 18 19 20]\n  ...\n"
        "  [28 29 30 ... 32 33 34]\n  [35 36 37 ... 39 40 41]\n  [42 43 44 ... 46 47 48]]\n\n"
        " [[49 50 51 ... 53 54 55]\n  [56 57 58 ... 60 61 62]\n  [63 64 65 ... 67 68 69]\n  ...\n"
        "  [77 78 79 ... 81 82 83]\n  [84 85 86 ... 88 89 90]\n  [91 92 93 ... 95 96 97]]]\n")
    rows = good("show", path, "long").splitlines()
    assert all(len(row) <= 79 for row in rows) and len(rows) == 3, rows
    assert good("show", path, "cube[1, 6]") == "cube[1, 6]  u8 [2, 7, 7]\n[91 92 93 ... 95 96 97]\n"
    assert good("show", "--hex", path, "few[0, 1]") == "few[0, 1]  i64 [2, 3]\nffffffffffffffec\n"


def names(folder):
    """A tensor is found with and without its suffix, in any set, and a name may look like a slice."""
    path = os.path.join(folder, "names.safetensors")
    save(path, {"a[0]": ("F32", [2], counting(2)), "a": ("F32", [2], struct.pack("<2f", 7, 8))})
    assert json.loads(good("show", "--json", path, "a[0]"))["values"] == [0, 1]
    assert json.loads(good("show", "--json", path, "a[1]"))["values"] == 8
    assert json.loads(good("show", "--json", path, "a[0][1]"))["values"] == 1
    for name in ("embed.weight", "embed.weight.f32", "/embed.weight", "as/bf16/embed.weight", "optim/exp_avg/embed.weight.f32"):
        found = json.loads(good("show", "--json", ZERO3, name + "[1:3,0]"))
        assert found["shape"] == [7, 5] and found["slice_shape"] == [2] and len(found["values"]) == 2, found


def reads_no_more(folder):
    """Of a tensor whose other bytes are lost, a slice can be shown: nothing else is read."""
    path = os.path.join(folder, "cut.safetensors")
    save(path, {"w": ("F32", [1000, 1000], counting(1_000_000))})
    whole = json.loads(good("show", "--json", path, "w[:3, 5]"))["values"]
    os.truncate(path, os.path.getsize(path) - 3_000_000)
    assert json.loads(good("show", "-o", "degraded", "--json", path, "w[:3, 5]"))["values"] == whole == [5, 1005, 2005]
    refused(5, "show", "-o", "degraded", path, "w")
    refused(5, "stat", "-o", "degraded", path)


def refusals(folder):
    path = os.path.join(folder, "refused.safetensors")
    save(path, {"w": ("F32", [3, 2], counting(6))})
    for text in ("w[3]", "w[0,0,0]", "w[x]", "w[::0]", "w[]]"):
        assert refused(2, "show", path, text).startswith("zerofs: w: ")
    for text in ("w[0", "v[0]"):
        refused(1, "show", path, text)
    refused(1, "show", ZERO3, "embed.wieght[0]")
    refused(2, "show", ZERO3, "state")
    refused(2, "show", ZERO3)
    refused(2, "show", ZERO3, "embed.weight", "norm.weight")
    refused(2, "stat", "-j", "0", ZERO3)
    refused(2, "stat", "-j", "x", ZERO3)
    refused(2, "stat")
    refused(1, "stat", ZERO3, "nothing*here")


def terminals(folder):
    """Columns of `stat` do not depend on the names, and rows fit in 80 columns without them."""
    path = os.path.join(folder, "wide.safetensors")
    save(path, {"n" * 100: ("F32", [2], struct.pack("<2f", -1e-38, 1e38)), "x": ("F16", [2], b"\x00\x7e\x00\xfc")})
    rows = good("stat", path).splitlines()
    assert len({len(row) - len(row.split()[-1]) for row in rows}) == 1, rows
    assert len(rows[0]) <= 80, rows[0]
    assert re.match(r" +- +- +- +- +0 +1 +1  x\.f16$", rows[2]), rows[2]


def beyond_a_stretch(folder):
    """Sums of tensors that several threads read in parts; Fractions have no rounding."""
    values = [(i * 37 % 1001 - 500) / 4 for i in range(100_000)]
    path = os.path.join(folder, "sums.safetensors")
    data = struct.pack("<100000f", *values)
    save(path, {"a": ("F32", [100_000], data), "b": ("F32", [0], b""), "c": ("F32", [100_000], data), "d": ("F32", [1], data[:4])})
    mean = sum(map(Fraction, values)) / len(values)
    std = float(sum((Fraction(v) - mean) ** 2 for v in values) / len(values)) ** 0.5
    texts = {good("stat", "--json", *words, path) for words in ([], ["-j1"], ["-j", "9"])}
    assert len(texts) == 1, texts
    rows = {r["path"][0]: r for r in map(json.loads, texts.pop().splitlines())}
    for row in (rows["a"], rows["c"]):
        assert (row["elements"], row["zeros"], row["min"], row["max"]) == (len(values), values.count(0), min(values), max(values)), row
        assert abs(row["mean"] - float(mean)) < 1e-12 and abs(row["std"] - std) < 1e-12 * std, (row, float(mean), std)
    assert rows["b"]["elements"] == 0 and "min" not in rows["b"] and rows["d"]["max"] == values[0]


def ties(_):
    rows = {r["path"]: r for r in map(json.loads, good("stat", "--json", ZERO3, "*").splitlines())}
    a, b = rows["embed.weight.f32"], rows["head.weight.f32"]
    assert {**a, "path": ""} == {**b, "path": ""} and a["elements"] == 35
    assert "head.weight.f32 = embed.weight.f32" in good("stat", ZERO3, "*")
    assert good("stat", "-j1", ZERO3) == good("stat", "-j", "33", ZERO3)


with tempfile.TemporaryDirectory(prefix="zf-show-") as scratch:
    for test in (layouts, names, reads_no_more, refusals, terminals, beyond_a_stretch, ties):
        results.run(test.__name__, test, scratch)
results.done()
