#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real Megatron saves: every tensor as stored, per layer, per expert and joined has the digest that the live model had,
in the place that zerofs(5) gives it."""
import hashlib
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from tap import done, results  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ.get("top_builddir", "."), "tests/unit/format/tree_dump")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "megatron")
DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32",
          "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "float8_e4m3fn": "f8_e4m3",
          "float8_e5m2": "f8_e5m2"}


def tree(folder):
    """(set, name) -> (dtype, shape, digest) of what is shown."""
    out = {}
    r = subprocess.run([DUMP, folder], capture_output=True, timeout=60)
    if b"was built without" in r.stdout + r.stderr:
        return None
    assert r.returncode == 0, r.stderr.decode() + r.stdout.decode()
    for line in r.stdout.split(b"\n"):
        f = line.split(b"\t")
        if f[0] == b"tensor":
            where, name, dtype, shape, data = (x.decode("utf8", "surrogateescape") for x in f[1:6])
            digest = data if data.startswith("unreadable") else hashlib.sha256(bytes.fromhex(data)).hexdigest()
            out[where, name] = (dtype, [int(n) for n in shape.split(",") if n], digest)
    return out


def bare(name):
    return re.sub(r"^(model\.)?(module\.)*(?=.)", "", name)


def places(key):
    """Where a tensor of this key may be, the best first."""
    if key.startswith("optimizer/"):  # joined out of legacy files
        _, state, name = key.split("/", 2)
        return [("", name)] if state in ("param", "fp32_param") else [("optim/" + state, name)]
    m = re.match(r"(?:chained_\d+\.)?optimizer\.state\.(exp_avg|exp_avg_sq|param|fp32_param)\.(.*)$", key, re.S) or \
        re.match(r"optimizer\.state\.(?P<n>.*)\.(?P<k>\w+)$", key, re.S)
    if m:
        state, name = (m["k"], m["n"]) if "k" in m.groupdict() else m.groups()
        own = [("", bare(name)), ("optim/param", bare(name))] if state in ("param", "fp32_param") else \
            [("optim/" + state, bare(name))]
    else:
        own = [("", bare(key)), ("stored", bare(key)), ("extra", key)]
    return own + [("stacked", key), ("bucket", key)]


def in_ranks(e):
    """Legacy files: (place, what is expected there) of each rank's model."""
    for path, tensors in e.get("files", {}).items():
        for key, want in tensors.items():
            if key.startswith("model"):
                model, name = key.split("/", 1)
                yield (path.split("/")[0], name if model == "model" else f"{model}.{name}"), want


def judge(folder, expected):
    with open(expected, encoding="utf8") as f:
        e = json.load(f)
    have, missed, n = tree(folder), [], 0
    if have is None:
        print("# one of its codecs is not in this build")
        return
    for place, want in in_ranks(e):
        n += 1
        if have.get(place) != (DTYPES[want["dtype"]], want["shape"], want["sha256"]):
            missed.append(f"{place}: {have.get(place, 'nowhere')}")
    for section in ("tensors", "logical"):
        for key, want in e.get(section, {}).items():
            if "sha256" not in want or key in e.get("unservable", []):
                continue
            dtype = want["dtype"].replace("torch.", "")
            # A flattened tensor is stored in another shape than it has; the bytes of the latter are in `logical`.
            true = e.get("logical", {}).get(key, want)
            got = [have[p] for p in places(key) if p in have]
            n += 1
            if not any(g == (DTYPES[dtype], true["shape"], true["sha256"]) for g in got):
                missed.append(f"{key}: {got or 'nowhere'}")
    assert n, "nothing is expected"
    assert not missed, f"{len(missed)} of {n} are not where they should be: " + "; ".join(missed[:5])


def main():
    found = sorted(d for d, _, files in os.walk(DATA) if "expected.json" in files)
    for folder in found:
        results.run(os.path.relpath(folder, DATA), judge, folder, os.path.join(folder, "expected.json"))
    done()


if __name__ == "__main__":
    main()
