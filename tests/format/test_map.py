#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs map: every tensor of every checkpoint in tests/data put together from its JSON with pread alone has the bytes that the
framework held, and map --file finds in a range of a file exactly the elements that the same JSON puts there."""
import hashlib
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import ZEROFS, Case  # noqa: E402
from tap import Skip, results as tap  # noqa: E402
from test_sources import rebuilt  # noqa: E402
from test_views import DATA, lacks, wanted  # noqa: E402

RANGES = int(os.environ.get("ZEROFS_MAP_RANGES", "2"))


def zerofs(*words, code=0):
    run = subprocess.run([ZEROFS, *words], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == code, f"{words}: exit {run.returncode}: {run.stderr}"
    return [json.loads(line) for line in run.stdout.splitlines()] if "--json" in words else run.stdout + run.stderr


def width(t):
    return {"f4": 1, "bool": 1, "c32": 4, "c64": 8, "c128": 16}.get(t["dtype"]) or int(re.search(r"\d+", t["dtype"])[0]) // 8


def gathered(t):
    """The tensor's bytes, where packed little-endian stretches of files are all that it is; else None."""
    out = bytearray(math.prod(t["shape"]) * width(t))
    for e in t["sources"]:
        stretch = [c == n for c, n in zip(e["count"], t["shape"])]
        inner = next((d for d, c in enumerate(e["count"]) if c != 1), len(stretch))
        if "strides" in e or "codec" in e or "swap" in e or "offset" not in e or not all(stretch[inner + 1:]):
            return None
        at = 0
        for s, n in zip(e["start"], t["shape"]):
            at = at * n + s
        fd = os.open(e["file"], os.O_RDONLY)
        try:
            out[at * width(t):at * width(t) + e["bytes"]] = os.pread(fd, e["bytes"], e["offset"])
        finally:
            os.close(fd)
    return bytes(out) if t["sources"] else b""


def content(t):
    data = gathered(t)
    return b"".join(rebuilt(t["sources"], t["shape"], width(t), "/")) if data is None else data


def boxed(start, count):
    return itertools.product(*(range(s, s + c) for s, c in zip(start, count)))


def hit(t, file, a, b):
    """The elements of the tensor that have one of bytes [a, b) of the file."""
    found = set()
    for e in t["sources"]:
        if e.get("file") != file or "offset" not in e or e["offset"] >= b or e["offset"] + e["bytes"] <= a:
            continue
        strides = e.get("strides") or [width(t) * math.prod(e["count"][d + 1:]) for d in range(len(e["count"]))]
        for at in boxed(e["start"], e["count"]):
            first = e["offset"] + sum((x - s) * d for x, s, d in zip(at, e["start"], strides))
            if "codec" in e or first < b and first + width(t) > a:
                found.add(at)
    return found


def inverse(ckpt, tensors, file, a, b):
    want = {t["path"]: hit(t, file, a, b) for t in tensors}
    want = {path: at for path, at in want.items() if at}
    found, loose = {}, set()
    for t in zerofs("map", "--json", "--file", f"{file}:{a}-{b - 1}", ckpt, code=0 if want else 1):
        elements = [at for box in t["boxes"] for at in boxed(box["start"], box["count"])]
        assert t["path"] not in found and len(elements) == len(set(elements)) and t["file"] == file, t
        assert all(a <= box["offset"] and box["offset"] + box["bytes"] <= b and box["bytes"] for box in t["boxes"]), t
        found[t["path"]] = set(elements)
        loose |= {t["path"]} if any(box.get("exact") is False for box in t["boxes"]) else set()
    assert found.keys() == want.keys(), f"{file} [{a}, {b}): {found.keys() ^ want.keys()}"
    for path, at in want.items():
        assert found[path] >= at if path in loose else found[path] == at, f"{file} [{a}, {b}): {path}"
    return loose


def checkpoint(ckpt, expected):
    needed = ["libzstd", "c-blosc", "liblz4"] if "_recoded_" in ckpt else ["libzstd"] if "zstd" in ckpt else []
    if needed and lacks(*needed):
        raise Skip(f"built without {', '.join(lacks(*needed))}")
    run = subprocess.run([ZEROFS, "map", "--json", ckpt, "**"], capture_output=True, text=True, timeout=120, check=False)
    if run.returncode == 4:
        raise Skip("refused")
    assert run.returncode == 0, run.stderr
    tensors = [json.loads(line) for line in run.stdout.splitlines()]
    listed = {t["path"]: t for t in zerofs("ls", "-R", "--json", ckpt) if "set" in t}
    assert {t["path"] for t in tensors} == set(listed), "other tensors than ls lists"
    by_name = {(t["set"], t["name"]): {**t, **m} for m in tensors for t in [listed[m["path"]]]}
    n = 0
    for w in wanted(expected):
        t = w.find(by_name)
        assert t, f"{w} is missing"
        assert hashlib.sha256(content(t)).hexdigest() == w.sha, f"{w}: other bytes"
        n += 1
    assert n > 0, "nothing was compared"
    rng = random.Random(ckpt)
    files = sorted({e["file"] for t in tensors for e in t["sources"] if "offset" in e})
    for file in rng.sample(files, min(RANGES, len(files))):
        size = os.path.getsize(file)
        a = rng.randrange(size)
        inverse(ckpt, tensors, file, a, min(size, a + rng.choice((1, 3, 512, size))))
        e = rng.choice([e for t in tensors for e in t["sources"] if e.get("file") == file and "offset" in e])
        a = e["offset"] + rng.randrange(e["bytes"])
        inverse(ckpt, tensors, file, a, min(size, a + rng.choice((1, 2, 7, 512))))


def golden():
    for top, _, names in sorted(os.walk(DATA)):
        if "expected.json" in names:
            with open(os.path.join(top, "expected.json"), "rb") as f:
                yield os.path.abspath(top), json.load(f)


def every_byte_of_views():
    """Overlapping, transposed, expanded and strided views of one storage: each of its bytes by itself."""
    ckpt = os.path.abspath(os.path.join(DATA, "hf/torchsave_legacy_views"))
    tensors = zerofs("map", "--json", ckpt, "*")
    e = next(e for t in tensors if t["path"] == "base.f32" for e in t["sources"])
    for a in range(e["offset"], e["offset"] + e["bytes"], 5):
        assert inverse(ckpt, tensors, e["file"], a, a + 1 + a % 13) == set()


def streams_are_told_whole():
    ckpt = os.path.abspath(os.path.join(DATA, "hf/torchsave_rezipped_deflate"))
    tensors = zerofs("map", "--json", ckpt, "*")
    e = next(e for t in tensors for e in t["sources"] if "codec" in e)
    assert inverse(ckpt, tensors, e["file"], e["offset"] + e["bytes"] - 1, e["offset"] + e["bytes"])


def what_people_read():
    with Case() as c:
        c.safetensors("m.safetensors", {"w": ("BF16", [2, 3], bytes(12)), "s": ("I8", [], b"x")})
        path = os.path.join(c.dir, "m.safetensors")
        first = os.path.getsize(path) - 13
        table = zerofs("map", c.dir, "w")
        assert table.splitlines()[0] == "w  bf16 [2, 3]" and table.splitlines()[2] == path, table
        assert table.splitlines()[3].split() == [str(first), "12", "[:,", ":]"], table
        assert "f32 [2, 3], cast from bf16" in zerofs("map", c.dir, "as/f32/w.f32")
        for name in ("m.safetensors", path):
            table = zerofs("map", "--file", f"{name}:{first + 1}-{first + 2}", c.dir)
            assert table.splitlines()[2].split(None, 2) == [str(first + 1), "2", "w.bf16[0, 0:2]"], table
        assert "s.i8[]" in zerofs("map", "--file=m.safetensors", c.dir)
        assert "no tensor has any of these bytes" in zerofs("map", "--file=m.safetensors:0-7", c.dir, code=1)
        os.rename(path, os.path.join(c.dir, "m:7.safetensors"))
        assert "w.bf16" in zerofs("map", "--file", "m:7.safetensors", c.dir)
        assert "w.bf16[0, 0]" in zerofs("map", "--file", f"m:7.safetensors:{first}", c.dir)


def refusals():
    ckpt = os.path.abspath(os.path.join(DATA, "deepspeed/zero3_w2"))
    name = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
    assert "did you mean" in zerofs("map", "--file", name[1:], ckpt, code=1)
    assert "is beyond the end" in zerofs("map", "--file", name + ":999999", ckpt, code=2)
    for bad in (":4-3", ":5-", ":7x", ":18446744073709551616", ":0-18446744073709551615"):
        assert "not a range of bytes" in zerofs("map", "--file", name + bad, ckpt, code=2), bad
    assert "needs a checkpoint and a tensor" in zerofs("map", ckpt, code=2)
    assert "needs a checkpoint and a tensor" in zerofs("map", "--file", name, ckpt, "w", code=2)
    assert "no such file" in zerofs("map", ckpt, "nowhere", code=1)
    assert "is not a tensor" in zerofs("map", ckpt, "state/" + os.path.basename(
        zerofs("ls", ckpt, "state").split()[0]), code=2)


if __name__ == "__main__":
    for where, told in golden():
        tap.run(os.path.relpath(where, DATA), checkpoint, where, told)
    for test in (every_byte_of_views, streams_are_told_whole, what_people_read, refusals):
        tap.run(test.__name__, test)
    tap.done()
