#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints: refused with one sentence; degraded, the rest is served and the lost bytes fail."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from golden import ZEROFS, Case  # noqa: E402
from made import A, check, done, save  # noqa: E402

MAKE = os.path.join(HERE, "../support/mkdcp.py")
DATA = os.environ["ZF_DATA"]
ONE = ("F32", [1], struct.pack("<f", 1))
DEGRADED = ("-o", "degraded")

# Case of mkdcp.py: parts of the sentence, weights that degraded must serve in full.
DCP = {
    "missing-item": ([".metadata", "layers.0.weight", "no item for a chunk"], (1, 2)),
    "duplicate-index": ([".metadata", "layers.0.weight", "two items"], (1, 2)),
    "overlap": (["layers.0.weight", "[5, 6]", "more than one piece"], (1, 2)),
    "hole": (["layers.0.weight", "[5, 6]", "covered by nothing"], (1, 2)),
    "outside": ([".metadata", "layers.0.weight", "0 … 6 of dimension 0, which has 5"], (1, 2)),
    "negative": ([".metadata", "layers.0.weight"], (1, 2)),
    "huge": ([".metadata", "layers.0.weight", "overflows"], (1, 2)),
    "beyond": (["__0_0.distcp", "byte 1099511627776", "layers.0.weight", "ends at byte"], (1, 2)),
    "same-item": (["__0_0.distcp", "byte 1641", "layers.0.weight", "layers.1.weight", "overlap"], (2,)),
    "path": ([".metadata", "../x.distcp"], (1, 2)),
    "unknown-dtype": ([".metadata", "int3"], (1, 2)),
    "missing-file": (["__1_0.distcp", "missing"], ()),
    "short-file": (["__1_0.distcp", "1577 bytes", "byte 100"], ()),
    "no-metadata": (["incomplete", ".metadata, which is written last, is missing"], None),
}
# What only an item itself tells: mounted, refused when it is read.
ITEM = {
    "dtype": ("layers.0.weight.i32", ["__0_0.distcp", "float32", "int32"]),
    "shape": ("layers.0.weight.f32", ["__0_0.distcp", "the shape of the item"]),
    "truncated-item": ("layers.0.weight.f32", ["__0_0.distcp", "no zip directory"]),
    "encoding": ("layers.0.weight.f32", ["__0_0.distcp", "unsupported item encoding"]),
}

BROKEN = ("truncated-item", "encoding")


def run(command, path, *args):
    return subprocess.run([ZEROFS, command, *args[1:], path, *args[:1]], capture_output=True, timeout=60)


def one_sentence(r, parts, code=4):
    text = r.stderr.decode()
    return r.returncode == code and text.count("\n") == 1 and all(p in text for p in parts)


def make(folder, case):
    subprocess.run([sys.executable, MAKE, folder, "--tensors", "3", "--ranks", "2", "--plans", "--bad", case],
                   check=True, capture_output=True)
    return folder


def size_of(path, name):
    r = run("cat", path, name, *DEGRADED)
    return len(r.stdout) if r.returncode == 0 else -1


with tempfile.TemporaryDirectory() as top:
    for case, (parts, whole) in DCP.items():
        d = make(os.path.join(top, case), case)
        r = subprocess.run([ZEROFS, "info", d], capture_output=True, timeout=60)
        check(f"dcp {case} is refused", one_sentence(r, parts), r.stderr)
        if whole is None:
            continue
        r = subprocess.run([ZEROFS, "info", *DEGRADED, d], capture_output=True, timeout=60)
        check(f"dcp {case} is told when degraded", r.returncode == 4 and
              all(p in r.stdout.decode() for p in parts), r.stdout + r.stderr)
        got = [i for i in range(3) if size_of(d, f"layers.{i}.weight.f32") == 120]
        check(f"dcp {case}: the rest is served", tuple(got) == whole, got)
    for case, (name, parts) in ITEM.items():
        d = make(os.path.join(top, case), case)
        r = run("cat", d, name)
        check(f"dcp {case}: the item is not served", one_sentence(r, parts) and not r.stdout, r.stderr)
        r = run("cat", d, name, *DEGRADED)
        check(f"dcp {case}, degraded: the item is not served", one_sentence(r, parts[:1], 5) and not r.stdout, r.stderr)
        r = subprocess.run([ZEROFS, "info", *DEGRADED, d], capture_output=True, timeout=60)
        check(f"dcp {case}, degraded: and told", r.returncode == (4 if b"\ndamaged  " in r.stdout else 0) and all(p in r.stdout.decode() for p in parts), r)
        # a sound item that is another tensor makes the whole file another's
        check(f"dcp {case}, degraded: the others are served", (size_of(d, "layers.1.weight.f32") == 120) == (case in BROKEN))

INDEX = "model.safetensors.index.json"
BAD_JSON = {
    "nested deeply": (b'{"weight_map":' + b"[" * 100000 + b"]" * 100000 + b"}", ["byte", "nested deeper"]),
    "a huge number": (b'{"metadata":{"total_size":1e999},"weight_map":{"a":"x.safetensors"}}', ["byte", "1e999"]),
    "a huge integer": (b'{"metadata":{"n":%s},"weight_map":{"a":"x.safetensors"}}' % (b"9" * 40), ["byte"]),
    "a name twice": (b'{"weight_map":{"a":"x.safetensors","a":"x.safetensors"}}', ["byte", "duplicate"]),
    "no JSON": (b"hello", ["byte", "not valid JSON"]),
    "nothing": (b"", ["byte 0"]),
    "a list": (b'{"weight_map":["x.safetensors"]}', ["weight_map"]),
    "a way out": (b'{"weight_map":{"a":"../x.safetensors"}}', ['"../x.safetensors"']),
}
for what, (text, parts) in BAD_JSON.items():
    with Case() as c:
        c.file(INDEX, text)
        c.safetensors("x.safetensors", {"a": ONE})
        r = subprocess.run([ZEROFS, "info", c.dir], capture_output=True, timeout=60)
        check(f"an index with {what} is refused", one_sentence(r, [INDEX, *parts]), r.stderr)
        check(f"an index with {what}, degraded", size_of(c.dir, "a.f32") == 4)
    with Case() as c:
        c.file("pytorch_model.bin.index.json", text.replace(b"x.safetensors", b"x.bin"))
        save({"a": A}, os.path.join(c.dir, "x.bin"))
        r = subprocess.run([ZEROFS, "info", c.dir], capture_output=True, timeout=60)
        check(f"a .bin index with {what} is refused", one_sentence(r, ["pytorch_model.bin.index.json"]), r.stderr)
        check(f"a .bin index with {what}, degraded", size_of(c.dir, "a.f32") == 12)

with Case() as c:
    c.file(INDEX, {"weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})
    c.safetensors("x.safetensors", {"a": ONE})
    c.refused(INDEX, "y.safetensors", "is missing")
    c.told("y.safetensors is missing", opts=DEGRADED)
    check("a missing file: the rest", size_of(c.dir, "a.f32") == 4)
    c.safetensors("y.safetensors", {"z": ONE})
    c.refused(INDEX, '"b"', "no file holds it")
    c.told("1 tensor is lost: ", "y.safetensors, which does not hold it: b", opts=DEGRADED)
    check("a missing tensor: the rest", size_of(c.dir, "a.f32") == 4 and size_of(c.dir, "z.f32") == 4)
    c.safetensors("y.safetensors", {"b": ("F32", [3], b"\0" * 12)}, cut=5)
    c.refused("y.safetensors", "found a file of", "describes")
    r = run("cat", c.dir, "b.f32", *DEGRADED)
    check("a file cut short: what is there", one_sentence(r, ["y.safetensors", "ends at byte"], 5) and len(r.stdout) in (0, 4), r)
    check("a file cut short: the rest", size_of(c.dir, "a.f32") == 4)

# Behind an index a file of a kind that is not read; the refusal says what gets past it.
with Case() as c:
    c.file("model.safetensors.index.json", {"weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})
    c.safetensors("x.safetensors", {"a": ("F32", [3], b"\0" * 12)})
    c.safetensors("y.safetensors", {"b": ("F3", [3], b"\0" * 12)})
    r = run("ls", c.dir)
    check("an unknown type is refused, with the remedy",
          one_sentence(r, ["y.safetensors", "unknown dtype"]) and r.stderr.endswith(b"; -o degraded shows the rest\n"), r)
    check("an unknown type: the rest", size_of(c.dir, "a.f32") == 12)
    os.unlink(os.path.join(c.dir, "model.safetensors.index.json"))
    os.unlink(os.path.join(c.dir, "y.safetensors"))
    r = run("info", c.dir, "--limit=json_bytes=20")
    check("a limit is named as an option", r.stderr.endswith(b"; -o limit=json_bytes=N raises it\n"), r)

# Every limit that a sentence names is also named as an option.
SAVES = {"hf/torchsave_rezipped_deflate": "pickle_bytes pickle_memory pickle_objects pickle_depth pickle_memo meta_slack "
                                          "zip_entries zip_directory inflate_bytes tensors tensor_dims pieces",
         "hf/automodel0.7.0_weights_w2": "json_bytes dir_entries", "consolidated/fairscale0.4.13_llama3_w4": "json_depth meta_memory",
         "dcp/torch2.4": "pickle_depth pickle_memory tensors",
         "megatron/pypi_0.9.0_zarr_recoded_1": "grid_cells chunk_bytes"}
for save_dir, names in SAVES.items():
    named = set()
    for limit in sorted(set(" ".join(SAVES.values()).split())):
        r = run("info", os.path.join(DATA, save_dir), "--limit=%s=0" % limit)
        told = re.search(rb"limits? (\w+)", r.stderr)
        if r.returncode == 4 and told:
            named.add(told[1].decode())
            check(f"{save_dir}: a limit that is named, {limit}", r.stderr.endswith(b"; -o limit=%s=N raises it\n" % told[1]), r)
    check(f"{save_dir}: the limits that are named", named >= set(names.split()), named)

# Words of a limit in a tensor's name are no limit: what is damaged is shown without it.
with Case() as c:
    c.file("model.safetensors.index.json", {"weight_map": {"a": "x.safetensors", "b limit tensors": "x.safetensors"}})
    c.safetensors("x.safetensors", {"a": ("F32", [3], b"\0" * 12)})
    r = run("ls", c.dir)
    check("a name that says limit: the remedy", r.returncode == 4 and b"limit tensors" in r.stderr and r.stderr.endswith(b"; -o degraded shows the rest\n"), r)
    r = run("info", c.dir)
    check("a name that says limit: the rest", r.returncode == 4 and b"3 parameters in 1 tensor" in r.stdout, r)

# Of torch.save files behind an index one that cannot be read costs its own tensors; the refusal says what gets past it.
with Case() as c:
    c.file("pytorch_model.bin.index.json", {"weight_map": {"a": "x.bin", "b": "y.bin", "c": "y.bin"}})
    save({"a": A}, os.path.join(c.dir, "x.bin"))
    save({"b": A, "c": A}, os.path.join(c.dir, "y.bin"))
    save({"state": {}, "param_groups": []}, os.path.join(c.dir, "optimizer.pt"))
    os.truncate(os.path.join(c.dir, "y.bin"), 100)
    r = run("ls", c.dir)
    check("a .bin cut short is refused, with the remedy",
          one_sentence(r, ["y.bin", "truncated"]) and r.stderr.endswith(b"; -o degraded shows the rest\n"), r)
    check("a .bin cut short: the rest", size_of(c.dir, "a.f32") == 12)
    c.told("2 tensors are lost: ", "y.bin, which cannot be read", opts=DEGRADED)
    lost = json.loads(run("info", c.dir, "--json", *DEGRADED).stdout)["lost"]
    check("a .bin cut short: its tensors are lost by name", [t["name"] for t in lost] == ["b", "c"], lost)
    os.truncate(os.path.join(c.dir, "optimizer.pt"), 100)
    check("an optimizer cut short too: the rest", size_of(c.dir, "a.f32") == 12)
    os.truncate(os.path.join(c.dir, "x.bin"), 100)
    r = run("ls", c.dir, "/", *DEGRADED)
    check("no file that can be read is refused, degraded too", one_sentence(r, ["x.bin", "truncated"]), r)
    r = run("ls", c.dir)
    check("and nothing is promised of files that cannot be read", one_sentence(r, ["x.bin", "truncated"]) and b"degraded" not in r.stderr, r)
    for name in ("x.bin", "y.bin", "optimizer.pt"):
        os.unlink(os.path.join(c.dir, name))
    r = run("ls", c.dir)
    check("nor of files that are all missing", one_sentence(r, ["is missing"]) and b"degraded" not in r.stderr, r)

with Case() as c:
    c.file("model.safetensors", struct.pack("<Q", 1 << 60) + b"{}")
    for opts in ((), DEGRADED):
        c.refused("model.safetensors", "byte 0", "1152921504606846976", opts=opts)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
for name in ("model.safetensors", "pytorch_model.bin"):
    with Case() as c:
        c.file(name, POINTER)
        c.file("config.json", {})
        c.refused(name, "git lfs pull")
        c.refused(name, "git lfs pull", at=name)
        check(f"{name} that Git LFS did not fetch", True)

done()
