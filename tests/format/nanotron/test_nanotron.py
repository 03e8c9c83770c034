#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nanotron: the save that it wrote, the same state on different numbers of ranks, and what is refused."""
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from made import Folder, Tensor, check, done, save  # noqa: E402 pylint: disable=wrong-import-position
from stfile import elements, f32, pack  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(HERE, "../../data/nanotron/tp2dp2_zero1_0.4")

# name: shape, and how it is cut: a dimension, "qkv" (three stacked along the rows), or None
MODEL = {"model.norm.weight": ((6,), None), "model.down.weight": ((3, 12), 1), "model.up.bias": ((12,), 0),
         "model.decoder.0.up.weight": ((12, 2), 0), "model.decoder.0.qkv.weight": ((36, 2), "qkv"), "model.scale": ((), None)}
STATES = ("exp_avg", "exp_avg_sq")
STEP = 7


def values(what, name):
    """Different numbers for every tensor of the save."""
    first = int.from_bytes(hashlib.sha256(f"{what} {name}".encode()).digest()[:2], "little")
    return [float(first + i) for i in range(math.prod(MODEL[name][0]))]


def slices(name, rank, tp):
    """[(local box, global box)] of a rank, each box a (start, stop) a dimension."""
    shape, cut = MODEL[name]
    if cut == "qkv":
        own, third = shape[0] // 3 // tp, shape[0] // 3
        rest = [(0, e) for e in shape[1:]]
        return [([(k * own, (k + 1) * own)] + rest, [(k * third + rank * own, k * third + (rank + 1) * own)] + rest) for k in range(3)]
    own = shape[cut] // tp
    box = [(rank * own, (rank + 1) * own) if d == cut else (0, e) for d, e in enumerate(shape)]
    return [([(0, b - a) for a, b in box], box)]


def local(what, name, rank, tp):
    """What a rank has: its shape and values."""
    shape, cut = MODEL[name]
    whole = values(what, name)
    if cut is None or tp == 0:
        return shape, whole
    parts = slices(name, rank, tp)
    got = [whole[i] for _, box in parts for i in elements(shape, box)]
    dims = list(shape)
    dims[0 if cut == "qkv" else cut] //= tp
    return tuple(dims), got


def spell(box, shape):
    return "|".join("None,None,None" if (a, b) == (0, e) else f"{a},{b},None" for (a, b), e in zip(box, shape))


def bounds(n, dp):
    return [n * d // dp for d in range(dp + 1)]


def write(folder, tp=2, dp=2, pp=1, zero=True, numpy=True, edit=None):
    """edit(rank's optimizer, (pp, dp, tp)) changes what is saved."""
    def put(path, data):
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else json.dumps(data).encode())

    put("checkpoint_metadata.json", {"version": "1.2", "tp": tp, "dp": dp, "metas": {"last_train_step": STEP, "consumed_train_samples": 8}})
    stage = {n: i % pp for i, n in enumerate(MODEL)}
    for name, (shape, cut) in MODEL.items():
        path = "model/" + "/".join(name.split(".")[:-1]) + "/model_" + name.split(".")[-1]
        if cut is None:
            put(path + ".safetensors", pack({"data": f32(*values("", name), shape=shape)}, {}))
            continue
        for t in range(tp):
            dims, data = local("", name, t, tp)
            extents = [f"np.int64({e})" if numpy and i == 0 else str(e) for i, e in enumerate(shape)]
            meta = {"version": "1.2", "unsharded_shape": "(" + ", ".join(extents) + ("," if len(shape) == 1 else "") + ")",
                    "local_global_slices_pairs": ";".join(spell(a, dims) + "#" + spell(b, shape) for a, b in slices(name, t, tp))}
            put(f"{path}_pp-rank-{stage[name]}-of-{pp}_tp-rank-{t}-of-{tp}.safetensors", pack({"data": f32(*data, shape=dims)}, meta))
    sizes = {n: math.prod(local("", n, 0, tp)[0]) for n in MODEL}
    config = {"type": "AdamW", "parallelism": {"tp_size": str(tp), "dp_size": str(dp), "pp_size": str(pp), "expert_parallel_size": "1"}}
    if zero:
        config.update(type="ZeroDistributedOptimizer", configs={"param_name_to_dp_rank_offsets": {
            n: {str(d): [str(bounds(sizes[n], dp)[d]), str(bounds(sizes[n], dp)[d + 1])] for d in range(dp)} for n in MODEL}})
    put("optimizer/optimizer_config.json", config)
    for p in range(pp):
        names = {i: n for i, n in enumerate(n for n in MODEL if stage[n] == p)}
        for d in range(dp if zero else 1):
            for t in range(tp):
                state = {}
                for i, n in names.items():
                    lo, hi = (bounds(sizes[n], dp)[d], bounds(sizes[n], dp)[d + 1]) if zero else (0, sizes[n])
                    state[i] = {"step": Tensor(float(STEP), shape=())}
                    for k in STATES:
                        dims, data = local(k, n, t, tp)
                        state[i][k] = Tensor(*data[lo:hi], shape=(hi - lo,) if zero or not dims else dims)
                root = {"state": state, "param_groups": [{"lr": 0.5, "params": list(names)}], "names": dict(names)}
                if edit:
                    edit(root, (p, d, t))
                path = f"optimizer/optimizer_pp-{p}-of-{pp}{f'_dp-{d}-of-{dp}' if zero else ''}_tp-{t}-of-{tp}_exp-0-of-1.pt"
                os.makedirs(os.path.join(folder, "optimizer"), exist_ok=True)
                save(root, os.path.join(folder, path))


def truth():
    out = {}
    for n, (shape, _) in MODEL.items():
        for what, where in (("", ""), *((k, f"optim/{k}") for k in STATES)):
            out[where, n] = ("f32", ",".join(map(str, shape)), struct.pack(f"<{math.prod(shape)}f", *values(what, n)).hex())
        out["optim/step", n] = ("f32", "", struct.pack("<f", STEP).hex())
    return out


def saved(*opts, change=None, **how):
    with tempfile.TemporaryDirectory() as d:
        write(d, **how)
        if change:
            change(d)
        return Folder(d, *opts)


def same(name, **how):
    tree = saved(**how)
    wrong = [k for k, v in truth().items() if tree.tensor.get(k) != v]
    check(name, tree.code == 0 and not wrong and len(tree.tensor) == len(truth()), f"{tree.err} wrong {wrong[:4]}")


def refused(name, *parts, **how):
    tree = saved(**how)
    check(name, tree.code == 1 and all(p in tree.err for p in parts) and "\n" not in tree.err, f"{tree.code} {tree.err!r}")


def swap(path, old, new):
    """A change of bytes in a file, in place."""
    def change(d):
        with open(os.path.join(d, path), "r+b") as f:
            data = f.read()
            assert data.count(old) == 1 and len(old) == len(new), (path, data.count(old))
            f.seek(0)
            f.write(data.replace(old, new))
    return change


def drop(path):
    return lambda d: os.unlink(os.path.join(d, path))


# ---- what nanotron wrote ----

real = Folder(DATA)
WANT, bad = real.unlike()
check("nanotron's own save, bit by bit", real.code == 0 and len(WANT) == 72 and not bad, f"{real.err} {bad[:4]}")
rest = [k for k in real.tensor if k[0] not in ("", "optim/exp_avg", "optim/exp_avg_sq", "optim/step", "extra")]
check("and nothing else", real.code == 0 and not rest, rest)

# ---- the same state on other ranks ----

for zero in (True, False):
    for tp, dp, pp in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (3, 4, 2), (6, 5, 3)):
        same(f"tp {tp}, dp {dp}, pp {pp}{', ZeRO' if zero else ''}", tp=tp, dp=dp, pp=pp, zero=zero)
same("shapes as NumPy 1 writes them", numpy=False)


def module_in_front(root, _rank):
    root["names"] = {i: "module." + n for i, n in root["names"].items()}


same("names with the wrapper's module. in front", edit=module_in_front)
tree = saved(change=lambda d: shutil.rmtree(os.path.join(d, "optimizer")))
check("without an optimizer", tree.code == 0 and any("was not saved" in n for n in tree.notes) and len(tree.tensor) == len(MODEL), tree.err)

# ---- what is refused ----

UP, QKV = "model/model/decoder/0/up/model_weight_pp-rank-0-of-1_tp-rank-{}-of-2.safetensors", \
    "model/model/decoder/0/qkv/model_weight_pp-rank-0-of-1_tp-rank-1-of-2.safetensors"
OPT = "optimizer/optimizer_pp-0-of-1_dp-{}-of-2_tp-{}-of-2_exp-0-of-1.pt"
refused("a rank's file is missing", "model/model/decoder/0/up", "1 files like", change=drop(UP.format(1)))
refused("the optimizer's file of a rank is missing", OPT.format(1, 0), "it is missing", change=drop(OPT.format(1, 0)))
refused("of other ranks than the metadata say", "by checkpoint_metadata.json there are 3", change=swap("checkpoint_metadata.json", b'"tp": 2', b'"tp": 3'))
refused("another version", "checkpoint_metadata.json!version", "only version 1", change=swap("checkpoint_metadata.json", b'"1.2"', b'"2.0"'))
refused("metadata that are none", "checkpoint_metadata.json", change=swap("checkpoint_metadata.json", b'"version"', b'"versionx'))
refused("a shape that is none", UP.format(0), "unsharded_shape", change=swap(UP.format(0), b"(np.int64(12), 2)", b"(np.int64(12)x 2)"))
refused("a shape of other dimensions", UP.format(0), "unsharded_shape", change=swap(UP.format(0), b"(np.int64(12), 2)", b"(np.int64(12),  )"))
refused("another shape than other ranks have", UP.format(1), "two saves", change=swap(UP.format(1), b"(np.int64(12), 2)", b"(np.int64(13), 2)"))
refused("slices that leave the tensor", UP.format(0), "are not consecutive slices", change=swap(UP.format(0), b"0,6,None", b"0,7,None"))
refused("slices beyond the end", UP.format(1), "are not consecutive slices", change=swap(UP.format(1), b"6,12,None", b"7,13,None"))
refused("slices with a step", QKV, "are not consecutive slices", change=swap(QKV, b"18,24,None", b"18,24,   2"))
refused("slices that are no pairs", QKV, "are not consecutive slices", change=swap(QKV, b"#6,12", b";6,12"))
refused("slices in another order", QKV, "are not consecutive slices", change=swap(QKV, b";6,12,None", b";0,06,None"))
refused("a slice twice", "more than one piece", change=swap(QKV, b"18,24,None", b"06,12,None"))
refused("slices that other ranks have", "more than one piece", change=swap(UP.format(1), b"6,12,None", b"00,6,None"))


def other_step(root, rank):
    if rank == (0, 1, 1):
        root["state"][0]["step"] = Tensor(8.0, shape=())


def other_copy(root, rank):
    if rank == (0, 0, 1):
        root["state"][0]["exp_avg"] = Tensor(1.0, 2.0, 3.0, shape=(3,))


def shorter(root, rank):
    if rank == (0, 0, 1):
        root["state"][1]["exp_avg"] = Tensor(1.0, 2.0, shape=(2,))


def stranger(root, rank):
    if rank == (0, 1, 0):
        root["names"][1] = "model.nobody"


def nameless(root, rank):
    if rank == (0, 1, 0):
        del root["names"][1]


refused("the step of another save", OPT.format(1, 1), "two saves", edit=other_step)
refused("a copy that differs", OPT.format(0, 1), "two saves", OPT.format(0, 0), edit=other_copy)
refused("a part that is too short", OPT.format(0, 1), "2 elements, expected 9", edit=shorter)
refused("a state of a tensor that is not there", OPT.format(1, 0), "!state[1]", "model.nobody", edit=stranger)
refused("a state without a name", OPT.format(1, 0), "!state[1]", "names", edit=nameless)
refused("offsets that leave the tensor", "optimizer_config.json!configs", "are not within the",
        change=swap("optimizer/optimizer_config.json", b'"model.up.bias": {"0": ["0", "3"]', b'"model.up.bias": {"0": ["0", "9"]'))
refused("offsets of no numbers", "optimizer_config.json!configs", "expected a number",
        change=swap("optimizer/optimizer_config.json", b'"model.up.bias": {"0": ["0", "3"]', b'"model.up.bias": {"0": ["0", "x"]'))
refused("offsets that leave a hole", OPT.format(1, 0), "3 elements, expected 2",
        change=swap("optimizer/optimizer_config.json", b'"1": ["3", "6"]}, "model.decoder.0.up', b'"1": ["4", "6"]}, "model.decoder.0.up'))

# ---- what damage costs ----

tree = saved("-n", change=drop(UP.format(1)))
want = truth()["", "model.decoder.0.up.weight"][2]
check("degraded: one rank's rows are lost", tree.code == 0 and all(tree.tensor.get(k) == v for k, v in truth().items() if "0.up" not in k[1]) and
      any("1 files like" in n for n in tree.notes), f"{tree.err} {tree.notes}")


def cut(path):
    return lambda d: os.truncate(os.path.join(d, path), 100)


tree = saved("-n", change=cut(OPT.format(1, 1)))
check("degraded: the optimizer of one rank is lost", tree.code == 0 and any(OPT.format(1, 1) in n for n in tree.notes) and
      all(tree.tensor.get(k) == v for k, v in truth().items() if not k[0]), f"{tree.err} {tree.notes}")
refused("an optimizer's file is damaged", OPT.format(1, 1), change=cut(OPT.format(1, 1)))

# ---- the run ----

with tempfile.TemporaryDirectory() as run:
    for step in ("2", "10"):
        write(os.path.join(run, step))

    def info(at=""):
        r = subprocess.run([ZEROFS, "info", "--json", os.path.join(run, at)], capture_output=True, text=True, timeout=60)
        return json.loads(r.stdout)["tag"] + " " + json.loads(r.stdout)["format"] if r.returncode == 0 else r.stderr

    for text, want in (("2", "2 nanotron"), ("10\n", "10 nanotron"), ("11", '"11", which does not exist'), ("step 10", "several"), ("", "several")):
        with open(os.path.join(run, "latest.txt"), "w", encoding="ascii") as f:
            f.write(text)
        got = info()
        check(f"latest.txt holds {text!r}", want in got, got)
    check("the manifest means its directory", info("2/checkpoint_metadata.json") == " nanotron", info("2/checkpoint_metadata.json"))
    check("a part of a save", "point at the directory of the save" in info("2/model/model/up"), info("2/model/model/up"))

done()
