#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every checkpoint in tests/data through a mount: each tensor that a framework's digest is known of stands where
zerofs(5) says, as raw bytes, and .npy, model.safetensors, pytorch_model.bin and hf/ hold the same bytes, read by
readers of our own.  What is not supported is refused in one sentence."""
import concurrent.futures
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import readers  # noqa: E402
from tap import need_fuse, results as tap  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data"))

# Digests of bytes that stand nowhere in the checkpoint's files.
MASTERS = ("fp32",)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read(path):
    with open(path, "rb") as f:
        return f.read()


# ---- what is expected, and where ------------------------------------------------------------------------

class Want:
    """A tensor with a digest: set, name, torch type, digest; and other (set, name) it may stand at instead."""

    def __init__(self, path, name, entry, *instead):
        self.path, self.name = path, name
        self.places = [(path, name), *instead]
        self.dtype = entry["dtype"].replace("torch.", "")
        self.sha, self.shape = entry["sha256"], entry.get("shape")

    def find(self, by_name):
        """The first of its places that has one of its type."""
        there = [by_name[p] for p in self.places if p in by_name]
        return next((t for t in there if t["dtype"] == readers.TYPES[self.dtype][0]), there[0] if there else None)

    def __str__(self):
        return f"{self.path or '/'}: {self.name} {self.dtype}"


def place(key, container):
    """The set and name of a key of a saved state dict (zerofs(5), "Sets")."""
    if container and key.startswith(container):
        return "", key[len(container):]
    state = re.fullmatch(r"(?:[^.]+\.)?optim\w*\.state\.(.+)\.(\w+)", key)
    if state:
        return "optim/" + state[2], state[1]
    if not container:
        return "", key
    head, _, rest = key.partition(".")
    return (head, rest) if rest else ("extra", key)


def state_dict(tensors, e):
    for key, entry in tensors.items():
        if "sha256" in entry and key not in e.get("unservable", []):
            yield Want(*place(key, e.get("container")), entry)


def parameters(params, rank=None):
    """Masters and their optimizer state; those of a model-parallel rank may be joined at the root instead."""
    for name, parts in params.items():
        for kind, entry in parts.items():
            if "sha256" in entry:
                path = "" if kind in MASTERS else "optim/" + kind
                yield Want(f"{rank}/{path}".rstrip("/") if rank else path, name, entry, (path, name))


def deepspeed(e):
    params = e.get("merged") or e.get("params", {})
    yield from parameters(params)
    for rank, part in ({} if "merged" in e else e.get("per_mp_rank", {})).items():
        yield from parameters(part["params"], "mp_rank_" + rank)
    for section in ("frozen", "buffers"):
        for name, entry in e.get(section, {}).items():
            yield Want("", name, entry)
    for name, entry in e.get("module16", {}).items():
        if "fp32" in params.get(name, {}) and e["stage"] != 3:
            yield Want("stored", name, entry)
    for entries in (e.get("files") or {}).values():
        for name, entry in entries.items():
            yield Want("stored", name, entry)


def bare(name):
    """A parameter's name without the words that wrap it."""
    while re.match(r"(model|module)\.", name):
        name = name.split(".", 1)[1]
    return name


STATE = r"(?:chained_\d+\.)?(?:optimizer\.)*state\.({0})\.(.+)|(?:chained_\d+\.)?(?:optimizer\.)*state\.(.+)\.({0})"
STATE = STATE.format("exp_avg|exp_avg_sq|step|fp32_param|param")


def megatron_places(key):
    """A stored tensor is by itself, or, of several layers or of many parameters, under its own key."""
    m = re.fullmatch(STATE, key)
    if m:
        state, name = m[1] or m[4], bare(m[2] or m[3])
        return [("" if state in ("param", "fp32_param") else "optim/" + state, name), ("stacked", key)]
    return [("", bare(key)), ("stored", bare(key)), ("stacked", key), ("bucket", key), ("extra", key)]


def megatron(e):
    for key, entry in {**e.get("tensors", {}), **e.get("logical", {})}.items():
        if "sha256" in entry:
            first, *others = megatron_places(key)
            yield Want(*first, entry, *others)


def megatron_legacy(e):
    for path, objects in e["files"].items():
        for key, entry in objects.items():
            if key.startswith("model") and "/" in key and "sha256" in entry:
                model, name = key.split("/", 1)
                yield Want(path.split("/")[0], name if model == "model" else f"{model}.{name}", entry)
    for key, entry in e.get("logical", {}).items():
        if "sha256" in entry:
            state, name = key.split("/", 2)[1:] if key.startswith("optimizer/") else (None, key)
            if state and state not in ("param", "fp32_param"):
                yield Want("optim/" + state, name, entry)
            else:
                yield Want("", name, entry, ("stored", name))


def wanted(e):
    files = e.get("files")
    if isinstance(files, dict) and any("/" in key for objects in files.values() for key in objects):
        yield from megatron_legacy(e)
        return
    if e.get("logical") or "zarr" in e.get("source", "") or "megatron" in str(e.get("source", "")).lower():
        yield from megatron(e)
        return
    if "params" in e or "per_mp_rank" in e:
        yield from deepspeed(e)
        return
    yield from state_dict({**e.get("tensors", {}), **e.get("inner", {})}, e)
    for part in e.get("dirs", {}).values():
        yield from state_dict(part.get("tensors", {}), {**e, **part})
    for path, entry in e.get("paths", {}).items():
        folder, _, name = path.rpartition("/")
        yield Want(folder, name, entry)
    for key, entry in e.get("optim", {}).items():
        name, state = key.rsplit("/", 1)
        yield Want("optim/" + state, name, entry)
    for name, sparse in e.get("sparse", {}).items():
        for part, entry in sparse["parts"].items():
            yield Want("", f"{name}.{part}", entry)


# ---- a mounted checkpoint -------------------------------------------------------------------------------

class Mount:
    def __init__(self, ckpt, *options):
        self.ckpt, self.options = ckpt, options

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="zf-views-")
        self.run = subprocess.run([ZEROFS, "mount", self.ckpt, self.dir, *self.options], capture_output=True,
                                  text=True, timeout=60)
        return self

    def __exit__(self, *exc):
        if self.run.returncode == 0:
            subprocess.run(["fusermount3", "-u", "-z", self.dir], check=False, timeout=30)
        os.rmdir(self.dir)

    def path(self, *names):
        return os.path.join(self.dir, *[n for n in names if n])

    def index(self):
        return json.loads(read(self.path(".zerofs/index.json")))

    def raw(self, t):
        """The path of a tensor of the index."""
        return self.path(t["set"], t["file"])


# What is stored apart and joined beside: whole files hold only what it is a part of.
PART = re.compile(r"(.*\.weight)_[wv]|(.*\.in_proj\.weight)\.(?:z|x|B|C|dt)|(.*\.conv1d\.(?:weight|bias))\.[xBC]")


def parts_of(name):
    """What the tensor of that name is a part of."""
    m = PART.fullmatch(name)
    return [g for g in m.groups() if g] if m else []


def compare_sets(m, tensors):
    """Every tensor of every set through every presentation."""
    sets = {}
    for t in tensors:
        sets.setdefault(t["set"], []).append(t)
    for path, members in sets.items():
        # What is on disk, beside a root that has the model.
        record = "megatron" in m.ckpt and "" in sets and path.startswith("mp_rank_")
        if record or path.split("/")[-1] in ("stacked", "bucket"):
            assert not [n for n in os.listdir(m.path(path)) if n in ("npy", "as", "hf", "model.safetensors")], path
            continue
        whole = {t["name"] for t in members}
        members = [t for t in members if not whole.intersection(parts_of(t["name"]))]
        told = readers.safetensors(read(m.path(path, "model.safetensors")))
        shards = hf(m, path)
        pickled = readers.torch_zip(read(m.path(path, "pytorch_model.bin")))
        assert told == shards, f"{path}/hf differs from model.safetensors"
        assert set(pickled) == {t["name"] for t in members}, f"{path}: pytorch_model.bin lacks names"
        keys = {}
        for t in members:
            compare(m, t, told, pickled)
            canonical = t.get("alias_of", t["name"])
            assert keys.setdefault(pickled[t["name"]][3], canonical) == canonical, f"{t} shares a storage"
        listed = {n for n in os.listdir(m.path(path)) if os.path.isfile(m.path(path, n))}
        assert {t["file"] for t in members} <= listed, f"{path}: not everything is listed"
        assert not told, f"{path}/model.safetensors holds more: {list(told)}"


def compare(m, t, told, pickled):
    """One tensor: raw, .npy, safetensors and torch agree."""
    file = os.path.join(t["set"], t["file"])
    raw = read(m.raw(t))
    dtype = readers.SUFFIXES[t["dtype"]]
    shape = tuple(t["shape"])
    assert len(raw) == t["bytes"] == os.stat(m.raw(t)).st_size, f"{file}: size"
    _, _, st, descr = readers.TYPES[dtype]

    folder, base = os.path.split(file)
    stem = "%2Enpy" if base.startswith("%2E") and not t["name"] else base.rsplit(".", 1)[0] + ".npy"
    npy = os.path.join(folder, "npy", stem)
    if os.path.exists(m.path(npy)):
        got = readers.npy(read(m.path(npy)))
        assert got == (descr, shape, readers.widened(raw, dtype)), f"{npy} differs from the raw bytes"
    else:
        assert "~" in base, f"{npy} is missing"

    if st and t["name"] != "__metadata__" and (st != "F4" or shape):
        logical = shape[:-1] + (2 * shape[-1],) if st == "F4" else shape
        assert told.pop(t["name"]) == (st, logical, raw), f"{file} in model.safetensors"
    else:
        assert t["name"] not in told
    got = pickled[t["name"]]
    assert got[:3] == (readers.INTEGERS_OF.get(dtype, dtype), shape, raw), f"{file} in pytorch_model.bin"


def hf(m, path):
    """The tensors of hf/: one file, or shards and their index."""
    folder = m.path(path, "hf")
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        name = "adapter_model.safetensors" if path.startswith("adapter/") else "model.safetensors"
        return readers.safetensors(read(os.path.join(folder, name)))
    told = json.loads(read(index))
    out = {}
    for shard in sorted(set(told["weight_map"].values())):
        for name, entry in readers.safetensors(read(os.path.join(folder, shard))).items():
            assert told["weight_map"][name] == shard and name not in out
            out[name] = entry
    assert set(out) == set(told["weight_map"])
    assert told["metadata"]["total_size"] == sum(len(v[2]) for v in out.values())
    return out


def check_ties(m, e, by_name):
    for a, b in (e.get("shared") or {}).items():
        if ("", a) not in by_name or ("", b) not in by_name:
            raise AssertionError(f"{a} and {b} are tied, and one is missing")
        one, two = (os.stat(m.raw(by_name["", n])) for n in (a, b))
        assert one.st_ino == two.st_ino and one.st_nlink >= 2, f"{a} and {b} are not one file"


def check_items(m, e):
    """Everything that is no tensor is somewhere below extra/ or state/."""
    keys = list(e.get("bytes_items") or [])
    states = " ".join(os.listdir(m.path("state"))) if os.path.isdir(m.path("state")) else ""
    for key in keys:
        name = key.replace("%", "%25").replace("/", "%2F")
        assert os.path.exists(m.path("extra/" + name)) or name + ".json" in states, f"the item {key} is nowhere"


def check_mounted(m, e):
    index = m.index()
    by_name = {(t["set"], t["name"]): t for t in index["tensors"]}
    n = 0
    for w in wanted(e):
        t = w.find(by_name)
        assert t, f"{w} is missing"
        assert readers.TYPES[w.dtype][0] == t["dtype"], f"{w}: served as {t['dtype']}"
        assert w.shape is None or w.shape == t["shape"], f"{w}: shape {t['shape']}"
        assert digest(read(m.raw(t))) == w.sha, f"{w}: other bytes"
        n += 1
    assert n > 0, "nothing was compared"
    compare_sets(m, [t for t in index["tensors"] if not t.get("lost")])
    check_ties(m, e, by_name)
    check_items(m, e)
    return n


def check_unservable(ckpt, e):
    """Refused with a sentence; and mounted all the same on request, with an error in place of the bytes."""
    with Mount(ckpt) as m:
        if "deepspeed" in ckpt:  # what a save never held is no damage: it is left out, and noted
            names = {t["name"] for t in m.index()["tensors"]}
            assert not names & set(e["unservable"]), names
            return check_mounted(m, e)
        assert m.run.returncode == 4 and len(m.run.stderr.strip().splitlines()) == 1, m.run.stderr
    with Mount(ckpt, "-o", "degraded") as m:
        assert m.run.returncode == 0, m.run.stderr
        by_name = {(t["set"], t["name"]): t for t in m.index()["tensors"]}
        for w in wanted(e):
            assert digest(read(m.raw(by_name[w.path, w.name]))) == w.sha, f"{w}: other bytes"
        for name in e["unservable"]:
            t = by_name.get(("", name))
            try:
                assert not t or not read(m.raw(t)), f"{name} is served"
            except OSError as error:
                assert error.errno == errno.EIO, error
    return len(e["unservable"])


def lacks(*words):
    """What of these this program was built without."""
    told = subprocess.run([ZEROFS, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return [w for w in words if f"\n{w} missing" in told]


def check(ckpt, expected):
    with open(expected, encoding="utf8") as f:
        e = json.load(f)
    short = os.path.basename(ckpt)
    # The recoded arrays are of every codec.
    needed = ["libzstd"] if "zstd" in short else ["libzstd", "c-blosc", "liblz4"] \
        if "_recoded_" in ckpt else []
    if needed and lacks(*needed):
        return f"SKIP built without {', '.join(lacks(*needed))}"
    if e.get("unservable"):
        return f"{check_unservable(ckpt, e)} tensors unservable"
    with Mount(ckpt) as m:
        assert m.run.returncode == 0, m.run.stderr.strip()
        return f"{check_mounted(m, e)} tensors"


def guarded(job):
    try:
        return True, check(*job)
    except Exception as error:  # pylint: disable=broad-except
        return False, f"{type(error).__name__}: {error}"


def main():
    jobs = []
    for folder, _, files in sorted(os.walk(DATA)):
        if "expected.json" in files:
            jobs.append((folder, os.path.join(folder, "expected.json")))
    jobs = [j for j in jobs if any(w in j[0] for w in sys.argv[1:] or [""])]
    need_fuse()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job, (ok, text) in zip(jobs, pool.map(guarded, jobs)):
            tap.check(f"{os.path.relpath(job[0], DATA)} # {text}", ok)
    tap.done()


if __name__ == "__main__":
    main()
