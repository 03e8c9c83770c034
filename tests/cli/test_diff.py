#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs diff: what it reports, its exit codes, one save in two shardings.  How far apart numbers are is compared with numpy in
tests/frameworks/digits.py."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from stfile import f32, save  # noqa: E402 pylint: disable=wrong-import-position
from tap import results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
ZERO3 = os.path.join(DATA, "deepspeed/zero3_w2")


def diff(*words):
    return subprocess.run([ZEROFS, "diff", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)


def ends(code, *words):
    done = diff(*words)
    assert done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stderr}{done.stdout}"
    return done


def reported(folder):
    a = save(os.path.join(folder, "a.safetensors"), {
        "same": f32(1, 2), "values": f32(1, 2, 3), "gone": f32(1), "shape": f32(1, 2), "bits": f32(0, 1), "wide": f32(1.0001, 2),
        "kind": ("I8", [1], b"\1")})
    b = save(os.path.join(folder, "b.safetensors"), {
        "same": f32(1, 2), "values": f32(1, 2.5, 3), "new": f32(1), "shape": ("F32", [2, 1], bytes(8)), "bits": f32(-0.0, 1),
        "wide": ("BF16", [2], b"\x80\x3f\x00\x40"), "kind": ("F32", [1], bytes(4))})
    rows = {r.get("name", r["kind"]): r for r in map(json.loads, ends(1, "--json", a, b).stdout.splitlines())}
    assert {k: r["kind"] for k, r in rows.items()} == {
        "values": "values", "gone": "only_a", "new": "only_b", "shape": "shape", "bits": "values", "wide": "values", "kind": "dtype",
        "sum": "sum"}, rows
    assert (rows["values"]["differ"], rows["values"]["most"], rows["values"]["at"]) == (1, 0.5, 1), rows["values"]
    assert (rows["values"]["value_a"], rows["values"]["value_b"]) == (2, 2.5)
    assert (rows["bits"]["differ"], rows["bits"]["other_bits"]) == (0, 1), "0.0 and -0.0 are equal, and other bits"
    assert (rows["wide"]["differ"], rows["wide"]["compared_as"]) == (0, "bf16"), "the wider type is rounded"
    assert rows["sum"] == {"kind": "sum", "equal": 3, "differ": 3, "only_a": 1, "only_b": 1, "other_bits": 1}, rows["sum"]
    text = ends(1, a, b).stdout
    for line in ("- gone\n", "+ new\n", "~ shape  [2] / [2, 1]\n", "~ values  1 of 3 differ, at most by 0.5 at [1]: 2.0 / 2.5\n",
                 "= wide  f32 / bf16, compared as bf16\n", "~ kind  i8 / f32\n"):
        assert line in text, (line, text)
    assert ends(1, "-q", a, b).stdout == ""
    assert ends(0, "--atol=0.5", a, b, "values").returncode == 0
    assert ends(1, "--atol=0.4", a, b, "values").returncode == 1
    assert ends(0, a, b, "same").stdout.startswith("1 equal, 0 differ")
    ends(0, a, b, "[bw]*")


def beyond_a_stretch(folder):
    """Tensors are compared 128 KiB at a time: places are those in the tensor, and each difference counts."""
    values = [float(i % 1000) for i in range(100_000)]
    a = save(os.path.join(folder, "long-a.safetensors"), {"before": f32(1, 2), "w": f32(*values), "x": f32(*values)})
    for i, by in ((5, 0.25), (40_000, 1), (99_999, 0.5)):
        values[i] += by
    b = save(os.path.join(folder, "long-b.safetensors"), {"before": f32(1, 2), "w": f32(*values), "x": f32(*values)})
    for words in ([], ["-j1"], ["-j", "9"]):
        rows = {r.get("name", "sum"): r for r in map(json.loads, ends(1, "--json", *words, a, b).stdout.splitlines())}
        assert rows.keys() == {"w", "x", "sum"}, rows
        for name in "wx":
            found = rows[name]
            assert (found["differ"], found["at"], found["most"], found["value_a"], found["value_b"]) == (3, 40_000, 1, 0, 1), found


def saves_of_a_run(folder):
    """One value of one shard: exactly its tensor differs, and its twin by another name."""
    one = os.path.join(folder, "one")
    shutil.copytree(ZERO3, one)
    assert ends(0, ZERO3, one).stdout.endswith("0 differ, 0 only in A, 0 only in B\n")
    part = os.path.join(folder, "bf16")
    subprocess.run([ZEROFS, "export", "-q", ZERO3, "model.safetensors", part + "/"], check=True, timeout=60)
    done = ends(0, ZERO3, part, "*")
    assert ", 0 differ, 0 only in A, 0 only in B" in done.stdout, done.stdout


def prefixes(folder):
    a = save(os.path.join(folder, "plain.safetensors"), {"a": f32(1), "b.c": f32(2)})
    b = save(os.path.join(folder, "prefixed.safetensors"), {"model.a": f32(1), "model.b.c": f32(2)})
    assert "-B strip_prefix=model." in ends(1, a, b).stderr
    assert "-A strip_prefix=model." in ends(1, b, a).stderr
    ends(0, "-B", "strip_prefix=model.", a, b)
    ends(2, "-A", "strip_prefx=model.", b, a)


def refusals(folder):
    a = save(os.path.join(folder, "whole.safetensors"), {"w": f32(*range(1000))})
    b = os.path.join(folder, "cut.safetensors")
    shutil.copy(a, b)
    os.truncate(b, 3000)
    ends(4, a, b)
    done = ends(5, "-B", "degraded", a, b)
    assert "cut.safetensors" in done.stderr and "equal" not in done.stdout, done
    ends(2, a)
    ends(2, "--rtol=-1", a, a)
    ends(2, "--atol=nan", a, a)
    ends(1, a, a, "nothing*")
    ends(5, a, os.path.join(folder, "absent"))


with tempfile.TemporaryDirectory(prefix="zf-diff-") as scratch:
    for test in (reported, beyond_a_stretch, saves_of_a_run, prefixes, refusals):
        results.run(test.__name__, test, scratch)
results.done()
