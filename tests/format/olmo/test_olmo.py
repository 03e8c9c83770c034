#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OLMo's layouts: the checkpoints that OLMo wrote, the same state on different numbers of ranks, and what is refused."""
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
sys.path[:0] = [HERE, os.path.join(HERE, "../../support")]
import makeolmo as m  # noqa: E402 pylint: disable=wrong-import-position
from tap import check, done  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Call, Tensor  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
DATA = os.path.join(HERE, "../../data/olmo")
SUFFIX = {"float32": "f32", "bfloat16": "bf16", "int64": "i64", "uint8": "u8"}


class Tree:
    def __init__(self, folder, *opts):
        run = subprocess.run([DUMP, *opts, folder], capture_output=True, text=True, errors="surrogateescape", timeout=60)
        self.code, self.err = run.returncode, run.stderr.strip()
        self.tensor, self.blob, self.notes = {}, {}, []
        for line in run.stdout.splitlines():
            f = line.split("\t")
            if f[0] == "tensor":
                self.tensor[f[1], f[2]] = tuple(f[3:6])
            elif f[0] == "blob":
                self.blob[f[1]] = f[2]
            elif f[0] == "note":
                self.notes.append(f[1])

    def state(self):
        """What does not depend on how it was saved."""
        return {k: v for k, v in self.tensor.items() if k[0] in ("", *sets())}


def sets():
    return [f"optim/{k}" for k in (*m.STATES, "step", "grad_norm_exp_avg")]


def truth(model=None):
    out = {}
    for n, s in m.params(model or m.MODEL).items():
        dims, count = ",".join(map(str, s)), math.prod(s)
        out["", n] = ("f32", dims, m.floats(m.values("", n, count)).hex())
        for k in m.STATES:
            if count:
                out[f"optim/{k}", n] = ("f32", dims, m.floats(m.values(k, n, count)).hex())
        if count:
            out["optim/step", n] = ("f32", "", m.floats([m.step_of(n)]).hex())
        out["optim/grad_norm_exp_avg", n] = ("f32", "", m.floats([m.step_of(n) / 2]).hex())
    return out


def write_all(d, files, change=None):
    if isinstance(files, list):
        for rank in files:
            rank.write(d)
    else:
        m.write(d, files)
    if change:
        change(d)


def saved(files, *opts, change=None, point=""):
    """The tree of files that are written (and then changed on disk)."""
    with tempfile.TemporaryDirectory() as d:
        write_all(d, files, change)
        return Tree(os.path.join(d, point), *opts)


def same(name, files, want=None, **how):
    tree = saved(files, **how)
    want, got = want or truth(), tree.state()
    wrong = [k for k in want if got.get(k) != want[k]]
    extra = [k for k in got if k not in want and got[k][2]]
    check(name, tree.code == 0 and not wrong and not extra, f"{tree.err} wrong {wrong[:4]} extra {extra[:4]}")
    return tree


def refused(name, files, *parts, **how):
    tree = saved(files, **how)
    check(name, tree.code == 1 and all(p in tree.err for p in parts) and "\n" not in tree.err,
          f"{tree.code} {tree.err!r}")


def saved_lost(files, change=None):
    """The (set, name) of tensors that LOST.json names and that have no file."""
    with tempfile.TemporaryDirectory() as d:
        write_all(d, files, change)
        run = subprocess.run([os.environ["ZEROFS"], "cat", "-o", "degraded,lost=omit", d, "LOST.json"], capture_output=True, timeout=60)
    told = json.loads(run.stdout)["lost"] if run.returncode == 0 else []
    return {tuple(t["name"].rsplit("/", 1)) for t in told if "file" in t}


def lost(name, files, n, *opts, **how):
    """Degraded: exactly n elements of the root and of the optimizer's moments are lost, all others are right."""
    strict = saved(files, **how)
    tree, want = saved(files, "-n", *opts, **how), truth()
    named = saved_lost(files, **how)
    wrong = missing = 0
    for k, v in want.items():
        got = tree.tensor.get(k, ("", "", ""))
        if got[2].startswith("unreadable") or k not in tree.tensor and (k[0], k[1]) in named:
            missing += len(v[2]) // 8 * (k[0] != "optim/step")
            continue
        for i in range(0, len(v[2]), 8):
            have = got[2][i:i + 8]
            missing += have == "0000c07f"
            wrong += have not in (v[2][i:i + 8], "0000c07f")
    check(name, strict.code == 1 and tree.code == 0 and wrong == 0 and missing == n,
          f"{strict.code} {tree.code} {tree.err} {wrong} wrong, {missing} lost")


def without(files, path):
    for rank in files if isinstance(files, list) else [files]:
        rank.pop(path, None)
    return files


# ---- what OLMo wrote -----------------------------------------------------------------------------------

for e in sorted(os.path.join(d, "expected.json") for d, _, f in os.walk(DATA) if "expected.json" in f):
    folder = os.path.dirname(e)
    with open(e) as f:
        expected = json.load(f)
    want = {("", k): v for k, v in expected["tensors"].items()}
    want.update({("optim/" + k.rsplit("/", 1)[1], k.rsplit("/", 1)[0]): v for k, v in expected.get("optim", {}).items()})
    if expected.get("container"):
        want = {}
        for k, v in expected["tensors"].items():
            head, name = k.split(".", 1)
            if head == "optim":
                name, key = name[len("state."):].rsplit(".", 1)
            want[("", name) if head == "model" else (f"optim/{key}", name)] = v
    tree = Tree(folder)
    bad = []
    for k, v in want.items():
        got = tree.tensor.get(k)
        right = (SUFFIX[v["dtype"]], ",".join(map(str, v["shape"])), v["sha256"])
        if not got or (got[0], got[1], hashlib.sha256(bytes.fromhex(got[2])).hexdigest()) != right:
            bad.append(k)
    check(os.path.relpath(folder, DATA), tree.code == 0 and want and not bad, f"{tree.err} {bad[:3]}")

tree = Tree(os.path.join(DATA, "core_v0.1.0"))
check("OLMo-core 0.1.0 itself", tree.code == 0 and tree.tensor["", "0.weight"][1] == "7,5" and
      ("optim/exp_avg", "1.weight") in tree.tensor and "0.999" in tree.blob["state/optim.json"], tree.err)
tree = Tree(os.path.join(DATA, "pypi_0.6.0/local"))
check("the trainer's state", "global_step" in tree.blob["state/train.json"] and
      ("extra", "train.rng.torch") in tree.tensor and "param_names" in tree.blob["state/optim.json"], tree.blob.keys())

# ---- one state, however it was saved --------------------------------------------------------------------

for world in (1, 2, 3, 5, 16):
    same(f"local on {world} ranks", m.local(world))
    same(f"local of torch 2.0 on {world} ranks", m.local(world, new=False))
for world in (1, 2, 3):
    for how in ("ranges", "boxes", "old"):
        same(f"OLMo-core 0.x on {world} ranks, {how}", m.core(world, how))
for world in (2, 3):
    replicas = m.core(1)
    for rank in range(world):
        replicas[f"train/rank{rank}.pt"] = m.train(world)
        for d in ("model", "optim"):
            replicas.setdefault(f"{d}/rank_{rank}.safetensors", {})
    same(f"OLMo-core 0.x, one of {world} replicas has the tensors, the others' files are empty", replicas)
same("local, two replicas of three shards", m.local(6, replicas=2))
same("local, unsharded replicas", m.local(3, replicas=3))
for m.ALIGN in (1, 2, 8):
    same(f"local, parameters that begin at multiples of {m.ALIGN} elements", m.local(3))
m.ALIGN = 4
whole = {k: v for k, v in truth().items()}
same("full in safetensors", m.full())
same("full, ids instead of names", m.full(ids=True))
same("full, protocol 5", m.full(protocol=5))
same("full, of DDP by ids", m.full(ids=True, head="module."))
same("full, of DDP by names", m.full(head="module."))
tiny = {"": [(f"p{i}", (1,)) for i in range(30)]}
same("30 parameters of one element on 5 ranks", m.local(5, tiny), truth(tiny))
same("ranks of nothing but padding", m.local(4, {"": [("w", (1,))]}), truth({"": [("w", (1,))]}))
with tempfile.TemporaryDirectory() as folder:  # 19 elements of the last shard belong to no parameter
    write_all(folder, m.local(20, {"": [("w", (381,))]}))
    told = subprocess.run([os.environ["ZEROFS"], "verify", "--json", folder], capture_output=True, text=True, timeout=60)
    kinds = [json.loads(line)["kind"] for line in told.stdout.splitlines()]
    check("padding is not taken for bytes that are shown nowhere", "sum" in kinds and "coverage" not in kinds, told)


def pt_and_safetensors(d):
    shutil.copy(os.path.join(d, "train.pt"), os.path.join(d, "model.pt"))


def with_metadata(d):
    """As other tools write a header: with what they say of it in front."""
    for name in ("model.safetensors", "optim.safetensors"):
        with open(os.path.join(d, name), "rb") as f:
            n = int.from_bytes(f.read(8), "little")
            head, data = json.loads(f.read(n)), f.read()
        text = json.dumps({"__metadata__": {"format": "pt"}, **head}, separators=(",", ":")).encode()
        with open(os.path.join(d, name), "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text + data)


same("full, with metadata in the headers", m.full(), change=with_metadata)
tree = same("X.safetensors wins over X.pt", m.full(), change=pt_and_safetensors)
check("which is told", any("model.pt is not shown" in n for n in tree.notes), tree.notes)
check("the groups of an optimizer are told", "0.5" in tree.blob["state/optim.param_groups.json"], tree.blob)
tree = saved(m.local(2), point="model")
check("model/ alone", tree.code == 0 and tree.state() == {k: v for k, v in truth().items() if k[0] == ""}, tree.err)
refused("optim/ alone", m.local(2), "flat parameters", "the directory above", point="optim")
refused("optim/ alone, of one rank", m.local(1), "the directory above", point="optim")
refused("OLMo-core: optim/ without metadata.json", without(m.core(2), "optim/metadata.json"), "optim/metadata.json", "rank_0")
tree = saved(m.core(2), point="model")
check("model/ of OLMo-core alone", tree.code == 0 and ("", "wte.weight") in tree.tensor, tree.err)
tree = saved(m.core(2), point="optim")
check("optim/ of OLMo-core alone", tree.code == 0 and ("optim/exp_avg", "wte.weight") in tree.tensor, tree.err)

# ---- what unsharding leaves ---------------------------------------------------------------------------------


def tensor_of(kind, name, shape):
    return Tensor(*m.values(kind, name, math.prod(shape)), shape=shape)


def flat_states(optim=""):
    each = m.params(m.MODEL)
    model = {n: tensor_of("", n, s) for n, s in each.items()}
    moments = {f"{optim}state.{n}.{k}": tensor_of(k, n, s) for n, s in each.items() for k in m.STATES}
    moments.update({f"{optim}state.{n}.step": Tensor(m.step_of(n), shape=()) for n, s in each.items() if math.prod(s)})
    moments.update({f"{optim}state.{n}.grad_norm_exp_avg": Tensor(m.step_of(n) / 2, shape=()) for n in each})
    return model, moments


def chunks(optim="", n=4):
    out = {}
    for d, each in zip(("model", "optim"), flat_states(optim)):
        for i in range(n):
            out[f"{d}/chunk-{i:05}.pt"] = dict(list(each.items())[i::n])
    out["optim/chunk-00000.pt"][optim + "param_groups.0.lr"] = 0.5
    return out


def file_each(optim=""):
    out = {f"{d}/{k.replace('.', '-')}.pt": v for d, each in zip(("model", "optim"), flat_states(optim)) for k, v in each.items()}
    return {**out, "optim/param_groups-0-lr.pt": 0.5}


for prefix in ("", "optim."):
    same(f"chunks, keys begin with \"{prefix}\"", chunks(prefix))
    tree = same(f"a file for each tensor, names begin with \"{prefix}\"", file_each(prefix))
    check("and settings", tree.blob.get("state/optim.param_groups.0.lr.json", "").startswith("0.5"), tree.blob)
for what, files in (("chunks", chunks()), ("files", file_each())):
    same(f"model/ of {what} alone", {k: v for k, v in files.items() if k.startswith("model/")},
         {k: v for k, v in truth().items() if not k[0]})
    tree = saved(files, point="model")
    check(f"pointing at model/ of {what}", tree.code == 0 and tree.state() == {k: v for k, v in truth().items() if not k[0]},
          (tree.err, tree.tensor.keys()))
refused("a chunk is missing", without(chunks(), "model/chunk-00002.pt"), "model/chunk-00002.pt", "missing")
refused("a name in two chunks", {**chunks(), "model/chunk-00004.pt": {"wte.weight": Tensor(1)}}, "wte.weight")
refused("a chunk that is no dict", {**chunks(), "model/chunk-00001.pt": [1]}, "chunk-00001.pt", "dict")
refused("a chunk of numbers for names", {**chunks(), "model/chunk-00001.pt": {1: Tensor(1)}}, "chunk-00001.pt", "not text")

# ---- what counts steps --------------------------------------------------------------------------------


def noted(name, files, *parts):
    tree = saved(files)
    check(name, tree.code == 0 and any(all(p in n for p in parts) for n in tree.notes), f"{tree.err} {tree.notes}")


for at in ("ema/model.safetensors", "model_ema/rank_0.safetensors"):
    noted(f"OLMo-core: {at} beside it", {**m.core(2), at: {"w": ("F32", [1], b"0123")}}, at.split("/")[0] + "/ is not shown")


def stepped(files, names, n):
    """The optimizer counted n steps of these parameters."""
    for path, value in files.items():
        if path.startswith("optim/rank_"):
            for key in (f"state.{name}.__step" for name in names):
                if key in value:
                    value[key] = ("F32", [], m.floats([n]))
    return files


one = list(m.params(m.MODEL))[0]
noted("one parameter has other steps", stepped(m.core(2), [one], 9.0), "counted 9 steps of", one, "but 3", "two saves")
noted("all have others than the trainer", stepped(m.core(2), m.params(m.MODEL), 9.0), "counted 9 steps, but the trainer 3")
noted("local: all have others than the trainer", m.local(2, step=7), "counted 3 steps, but the trainer 7")
for step in (2, 3, 4):  # a state that is made to be saved counts one step
    tree = saved(m.local(2, step=step))
    check(f"3 steps, {step} of the trainer", tree.code == 0 and not any("counted" in n for n in tree.notes), tree.notes)
for what, n in ("i64", 3), ("f64", 3.0):
    files = m.local(2, step=7)
    for rank in files:
        for path in rank:
            for entry in rank[path].get("state", {}).values() if path.startswith("optim/") else ():
                entry.update(step=n, empty=None)
    tree = saved(files)
    check(f"steps that are Python's numbers, {what}", tree.tensor["optim/step", one] == (what, "", struct.pack("<q" if what == "i64" else "<d", n).hex()) and
          any("counted 3 steps, but the trainer 7" in x for x in tree.notes), tree.notes)
noted("full: of another step than train.pt", {**m.full(), "train.pt": m.train(1, 7)}, "counted 3 steps, but the trainer 7")

# ---- a run -------------------------------------------------------------------------------------------


def run_of(saves, links=()):
    """A run directory: {name: files}, and links."""
    d = tempfile.mkdtemp()
    for name, files in saves.items():
        for rank in files if isinstance(files, list) else [m.Rank()]:
            rank.write(os.path.join(d, name))
        if isinstance(files, dict):
            m.write(os.path.join(d, name), files)
    for name, to in links:
        os.symlink(to, os.path.join(d, name))
    tree = Tree(d)
    shutil.rmtree(d)
    return tree


def chosen(name, tree, step, *notes):
    text = tree.blob.get("state/train.json", tree.blob.get("state/train.pt.json", ""))
    check(name, tree.code == 0 and f'"global_step": {step},' in text and
          all(any(n in x for x in tree.notes) for n in notes), f"{tree.err} {text} {tree.notes}")


def full_at(step):
    return {**m.full(), "train.pt": m.train(1, step)}


chosen("the newest step", run_of({"step3": m.local(1, step=3), "step12": m.local(1, step=12)}), 12)
tree = run_of({"step3": m.local(1, step=3), "step12": m.local(2, step=12), "step12-unsharded": full_at(12)})
chosen("the sharded one of two", tree, 12, "step12 is the newest")
chosen("an unsharded one that is newer", run_of({"step3": m.local(1, step=3), "step12-unsharded": full_at(12)}), 12)
tree = run_of({"step3": m.local(1, step=3), "step12": m.local(1, step=12), "step20-tmp": m.local(1, step=20)})
chosen("never one that was being written", tree, 12, "step20-tmp was being written")
tree = run_of({"step3": m.local(1, step=3), "step12": m.local(1, step=12), "step20-tmp": m.local(1, step=20)}, [("latest", "step3")])
chosen("latest decides", tree, 3, "step12 is newer", "step20-tmp was being written")
tree = run_of({"step20-tmp": m.local(1, step=20)})
check("nothing else is there", tree.code == 1 and "step20-tmp" in tree.err and "being written" in tree.err, tree.err)

# ---- local: refused --------------------------------------------------------------------------------------

H, W = "flat_param.", ("model/rank1.pt", "modules")


def edit(files, path, change):
    """Calls change with the value that a rank writes at path, which is written with torch.save."""
    for rank in files:
        if path in rank:
            change(rank[path])
    return files


def handle_of(value, i=1):
    return value["modules"][i]["handles"][0]


def put(key, new, i=1):
    def change(value):
        h = handle_of(value, i)
        h[H + key] = new(h[H + key]) if callable(new) else new
    return change


def renamed(files, old, new):
    for rank in files:
        if old in rank:
            rank[new] = rank.pop(old)
    return files


def swapped(files, kind):
    a, b = f"{kind}/rank0.pt", f"{kind}/rank1.pt"
    files[0][a], files[1][b] = files[1][b], files[0][a]
    return files


def info(j, *args):
    def change(infos):
        out = list(infos)
        out[j] = Call("torch.distributed.fsdp._flat_param", "_ShardParamInfo", *args)
        return tuple(out)
    return change


refused("a model file is missing", without(m.local(3), "model/rank1.pt"), "model/rank1.pt", "2 of 3")
refused("the last model file is missing", without(m.local(3), "model/rank2.pt"), "model/rank2.pt", "missing")
refused("it is missing, and metadata.yaml too", without(without(m.local(3), "model/rank2.pt"), "metadata.yaml"),
        "files of another save")
refused("an optimizer file is missing", without(m.local(3), "optim/rank2.pt"), "optim/rank2.pt", "missing")
extra = m.local(3)
extra[0]["model/rank3.pt"] = extra[0]["model/rank0.pt"]
refused("a file of a further rank", extra, "metadata.yaml 3", "rank3.pt")
refused("the same without metadata.yaml", without(extra, "metadata.yaml"), "files of another save")
extra = m.local(2)
extra[0]["optim/rank2.pt"] = extra[0]["optim/rank0.pt"]
refused("an optimizer file of a further rank", extra, "optim/rank2.pt", "only 2")
refused("model files of ranks swapped", swapped(m.local(2), "model"), "model/rank0.pt", "to another rank or save")
refused("optimizer files of ranks swapped", swapped(m.local(2), "optim"), "optim/rank0.pt", "elements")
mixed = m.local(3)
mixed[1]["model/rank1.pt"] = m.local(2)[1]["model/rank1.pt"]
refused("a rank of a save on fewer ranks", mixed, "model/rank1.pt", "in model/rank0.pt it has")
other = {k: [(n, s) for n, s in v if n != "scale"] for k, v in m.MODEL.items()}
mixed = m.local(2)
mixed[1]["model/rank1.pt"] = m.local(2, other)[1]["model/rank1.pt"]
refused("a rank of another model", mixed, "model/rank1.pt", "the one in model/rank0.pt")
mixed = m.local(2)
mixed[1]["train/rank1.pt"] = m.train(2, step=4)
refused("trainers of two steps", mixed, "global_step", "train/rank1.pt")
mixed = m.local(2)
for rank in mixed:
    for path in rank:
        if path.startswith("train/"):
            rank[path] = m.train(4)
refused("the trainer says files of another save", mixed, "4 ranks wrote the save, but 2")
mixed = m.local(2)
for entry in mixed[1]["optim/rank1.pt"]["state"].values():
    entry["grad_norm_exp_avg"] = Tensor(9.0, shape=())
refused("numbers that all ranks repeat differ", mixed, "grad_norm_exp_avg", "two saves")
copies = m.local(4, replicas=2)
handle_of(copies[3]["model/rank3.pt"])[H + "data"].storage.data = b"\1" * 4 * handle_of(
    copies[3]["model/rank3.pt"])[H + "data"].storage.n
refused("replicas that differ", copies, "model/rank3.pt", "a copy of the one in model/rank1.pt")
copies = m.local(4, replicas=2)
copies[2]["optim/rank2.pt"]["state"][0]["exp_avg"].storage.data = b"\1" * 4 * copies[2]["optim/rank2.pt"][
    "state"][0]["exp_avg"].storage.n
refused("replicas of moments that differ", copies, "optim/rank2.pt", "exp_avg")

P = "model/rank1.pt"
BAD = [("no data", P, lambda v: handle_of(v).pop(H + "data"), "flat_param.data"),
       ("no names", P, lambda v: handle_of(v).pop(H + "_fqns"), "_fqns"),
       ("fewer shapes than names", P, put("_shapes", lambda s: s[:-1]), "_shapes", "4", "5"),
       ("a shape of another length", P, put("_shapes", lambda s: [(2, 9)] + s[1:]), "has 18 elements", "has 27"),
       ("no module list", P, lambda v: v.pop("modules"), "modules"),
       ("a module without a name", P, lambda v: v["modules"][0].pop("name"), "modules[0]!name"),
       ("padding that does not fit", P, put("_numels_with_padding", lambda n: n + (3, 3)), "_numels_with_padding"),
       ("an offset beyond the shard", P, put("_shard_param_infos", info(4, True, 4000, 1, 0, 0)), "of a shard of"),
       ("an end behind the parameter", P, put("_shard_param_infos", info(4, True, 0, 99, 0, 98)), "which has 35"),
       ("a count that is not end - start", P, put("_shard_param_infos", info(4, True, 0, 9, 0, 3)), "9 elements here"),
       ("a negative start", P, put("_shard_param_infos", info(4, True, 0, 9, -1, 3)), "_shard_param_infos"),
       ("a part that is elsewhere", P, put("_shard_param_infos", info(4, True, 0, 9, 0, 8)), "another rank or save"),
       ("a hole: a part that is not there", P, put("_shard_param_infos", info(4, False, None, None, None, None)),
        "another rank or save"),
       ("a shard that is too short", P, put("data", Tensor(1.0, 2.0)), "of a shard of 2"),
       ("data of two dimensions", P, put("data", Tensor(*[0.0] * 36, shape=(6, 6))), "flat_param.data"),
       ("no groups", "optim/rank1.pt", lambda v: v.pop("param_groups"), "param_groups"),
       ("no state", "optim/rank1.pt", lambda v: v.pop("state"), "state"),
       ("groups without names", "optim/rank1.pt", lambda v: v["param_groups"][0].pop("param_names"), "param_names"),
       ("an unknown name", "optim/rank1.pt", lambda v: v["param_groups"][0]["param_names"].__setitem__(0, "x"),
        "\"x\", which is in no flat"),
       ("an id of no group", "optim/rank1.pt", lambda v: v["state"].__setitem__(99, {}), "no group"),
       ("a moment that is missing", "optim/rank1.pt", lambda v: v["state"][0].pop("exp_avg"), "does not hold \"exp_avg\""),
       ("a moment that is too long", "optim/rank1.pt", lambda v: v["state"][0].__setitem__("exp_avg", Tensor(*[1.0] * 30)),
        "has 30 elements"),
       ("no names' list", P, put("_fqns", 5), "_fqns"),
       ("a name that is a number", P, put("_fqns", lambda n: [5] + n[1:]), "_fqns"),
       ("shapes that are no list", P, put("_shapes", 5), "_shapes"),
       ("a shape that is a number", P, put("_shapes", lambda s: [7] + s[1:]), "_shapes"),
       ("a negative extent", P, put("_shapes", lambda s: [(-3, -9)] + s[1:]), "_shapes"),
       ("a length that is text", P, put("_numels", lambda n: ("27",) + n[1:]), "_numels"),
       ("lengths beyond 64 bits", P, lambda v: [put(k, [x] * 5)(v) for k, x in (("_shapes", (1 << 62,)), ("_numels", 1 << 62))], "_numels"),
       ("padding that is no list", P, put("_numels_with_padding", 5), "_numels_with_padding"),
       ("an end that is padded otherwise", P, put("_numels_with_padding", lambda n: n[:-1] + (9,)),
        '"blocks.0.ff.weight" is followed by padding of 9 elements, but in model/rank0.pt of 1'),
       ("a place that is no _ShardParamInfo", P, put("_shard_param_infos", lambda i: (5,) + i[1:]), "_shard_param_infos"),
       ("a place of text", P, put("_shard_param_infos", info(4, True, "0", 9, 0, 8)), "_shard_param_infos"),
       ("a module fewer", P, lambda v: v["modules"].pop(), "it has 2 flat parameters, but model/rank0.pt has 3"),
       ("no data in the first file", "model/rank0.pt", lambda v: handle_of(v).pop(H + "data"), "flat_param.data"),
       ("a name of the optimizer that is a number", "optim/rank1.pt", lambda v: v["param_groups"][0]["param_names"].__setitem__(0, 5),
        "parameter 0 of param_groups[0] has no name or id"),
       ("an id that is text", "optim/rank1.pt", lambda v: v["param_groups"][0]["params"].__setitem__(1, "1"),
        "parameter 1 of param_groups[0] has no name or id"),
       ("a step that is a number here and a tensor there", "optim/rank1.pt", lambda v: v["state"][0].update(step=3),
        f'"step" of "{one}" differs from that in optim/rank0.pt'),
       ("a moment of one number", "optim/rank1.pt", lambda v: v["state"][0].update(exp_avg=Tensor(1.0, shape=())),
        f'"exp_avg" of "{one}" differs from that in optim/rank0.pt'),
       ("a moment of one number in front of vectors", "optim/rank0.pt", lambda v: v["state"][0].update(exp_avg=Tensor(1.0, shape=())),
        f'"exp_avg" of "{one}" differs from that in optim/rank0.pt', "optim/rank1.pt"),
       ("a moment that is text", "optim/rank1.pt", lambda v: v["state"][0].__setitem__("exp_avg", "x"), "neither")]
for what, path, change, *parts in BAD:
    refused(what, edit(m.local(2), path, change), path, *parts)


def by_name(value):
    names = value["param_groups"][0]["param_names"]
    value["state"] = {names[i]: entry for i, entry in value["state"].items()}


same("states called by names", edit(edit(m.local(2), "optim/rank0.pt", by_name), "optim/rank1.pt", by_name))
same("nothing is here of a parameter of no elements", edit(m.local(2), P, put("_shard_param_infos", info(2, True, 0, 0, 0, 0), 0)))
for what, n in ("numbers", 4), ("more exact numbers", 3.5):
    files = m.local(2)
    for i, rank in enumerate(files):
        rank[f"optim/rank{i}.pt"]["state"][0]["step"] = n + i
    refused(f"steps that are other {what}", files, "optim/rank1.pt", f'"step" of "{one}" differs from that in optim/rank0.pt')
for what, key, new, *parts in [("no offsets", "_shard_param_offsets", None, "_shard_param_offsets"),
                               ("an offset of text, torch 2.0", "_shard_param_offsets", lambda o: (("0", 1),) + o[1:], "_shard_param_offsets"),
                               ("indices that are too many", "_shard_indices", (0, 4), "_shard_indices"),
                               ("an end behind the parameter, torch 2.0", "_shard_param_offsets", lambda o: ((0, 999),) + o[1:],
                                "999"),
                               ("a hole, torch 2.0", "_shard_param_offsets",
                                lambda o: ((o[0][0] + 1, o[0][1]),) + o[1:], "another rank or save")]:
    refused(what, edit(m.local(2, new=False), P, put(key, new)), P, *parts)
files = m.local(2)
files[0]["metadata.yaml"] = b"# of a run\nworld_size:  2 # ranks\n"
same("metadata.yaml says it behind a comment", files)
noted("a trainer's file is missing", without(m.local(2), "train/rank1.pt"), "1 of 2 ranks have a file in train/")
files = m.local(2)
files[1]["train/rank1.pt"] = b"PK\3\4 and no more"
noted("a trainer's file that cannot be read is left out", files, "train/rank1.pt")
files = m.local(2)
files[1]["model/rank9999999.pt"] = b""
refused("a rank of seven digits", files, "10000000 ranks are more than")
for text in (b"world_size: 3\n", b"world_size: two\n", b"", b"world_size: 0\n", b"world_size: 2x\n"):
    files = m.local(2)
    files[0]["metadata.yaml"] = text
    refused(f"metadata.yaml says {text}", files, "metadata.yaml" if text[12:13] != b"3" else "model/rank2.pt")


def on_disk(path, how):
    def change(d):
        how(os.path.join(d, path))
    return change


def fifo(path):
    os.remove(path)
    os.mkfifo(path)


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


for path in ("model/rank1.pt", "optim/rank1.pt"):
    refused(f"{path} is a FIFO", m.local(2), path, "FIFO", change=on_disk(path, fifo))
    refused(f"{path} is cut", m.local(2), path, change=on_disk(path, cut))

# ---- local: degraded -------------------------------------------------------------------------------------


def held(model, shard, shards):
    """Elements of parameters in a shard."""
    n = 0
    for each in model.values():
        placed, _, size = m.layout(each, shards, True)
        n += sum((m.part(b, math.prod(s), shard, size) or (0, 0, 0))[2] for _, s, b in placed)
    return n


lost("degraded: a model file is missing", without(m.local(3), "model/rank1.pt"), held(m.MODEL, 1, 3))
lost("degraded: the first model file is missing", without(m.local(3), "model/rank0.pt"), held(m.MODEL, 0, 3))
lost("degraded: a model file is cut", m.local(3), held(m.MODEL, 2, 3), change=on_disk("model/rank2.pt", cut))
lost("degraded: an optimizer file is missing", without(m.local(3), "optim/rank1.pt"), 2 * held(m.MODEL, 1, 3))
lost("degraded: a moment is missing", edit(m.local(2), "optim/rank1.pt", lambda v: v["state"][0].pop("exp_avg")),
     m.part(0, 35, 1, m.layout(m.MODEL[""], 2, True)[2])[2])
tree = saved(edit(m.local(2), "optim/rank0.pt", lambda v: v["state"][0].__setitem__("exp_avg", Tensor(1.0))), "-n")
check("degraded: the first moment is no part", tree.code == 0 and tree.tensor["optim/exp_avg", "blocks.1.ff.weight"], tree.err)


def cut_all(d):
    for i in (0, 1):
        cut(os.path.join(d, f"model/rank{i}.pt"))


tree = saved(m.local(2), "-d", change=cut_all)
check("degraded: no model file can be read", tree.code == 1 and "model/rank0.pt" in tree.err, tree.err)
# a replica has the same
copies = saved(without(m.local(4, replicas=2), "model/rank0.pt"), "-n")
check("degraded: a replica is as good", copies.code == 0 and
      all(copies.tensor[k] == v for k, v in truth().items() if k[0] == ""), copies.err)

# ---- OLMo-core 0.x: refused ------------------------------------------------------------------------------

T = "wte.weight"


def core(path, change, world=2, how="ranges"):
    files = m.core(world, how)
    change(files[path])
    return files


def spec(tensor, rank, **new):
    def change(meta):
        meta["tensors"][tensor]["shard_spec_per_file"][f"rank_{rank}.safetensors"].update(new)
    return change


def of(tensor, **new):
    return lambda meta: meta["tensors"][tensor].update(new)


META = "model/metadata.json"
refused("a rank's file is missing", without(m.core(3), "model/rank_1.safetensors"), "model/rank_1.safetensors", "missing")
extra = m.core(2)
extra["model/rank_2.safetensors"] = extra["model/rank_1.safetensors"]
refused("a rank's file that nobody names", extra, "model/rank_2.safetensors", "does not list this file")
for what, path, change, *parts in [
        ("ranges that overlap", META, spec(T, 1, flattened_offsets=[[17, 34]]), T, "more than one piece"),
        ("a hole", META, spec(T, 1, flattened_offsets=[[19, 21], [21, 34]]), "rank_1.safetensors"),
        ("an end beyond the tensor", META, spec(T, 1, flattened_offsets=[[18, 36]]), T, "36"),
        ("an end before its begin", META, spec(T, 1, flattened_offsets=[[20, 18]]), T),
        ("offsets that are no numbers", META, spec(T, 1, flattened_offsets=[["a", 18]]), T),
        ("neither offsets nor a box", META, spec(T, 1, flattened_offsets=None), T, "neither"),
        ("offsets and a box", META, spec(T, 1, local_shape=[1, 5], global_offset=[0, 0]), T, "both"),
        ("a box of text", META, spec(T, 1, flattened_offsets=None, local_shape=["7", 2], global_offset=[0, 3]), T, 'local_shape[0]: expected a number >= 0, found a text'),
        ("a box of three sizes", META, spec(T, 1, flattened_offsets=None, local_shape=[7, 2, 1], global_offset=[0, 3]), T, 'local_shape: it has 3 sizes, expected 2'),
        ("ranges beyond 64 bits", META, lambda j: [of(T, shape=[(1 << 63) - 1, 1])(j), spec(T, 1, flattened_offsets=[[0, (1 << 63) - 1]] * 3)(j)], T,
         "its ranges are too long"),
        ("another type", META, of(T, dtype="BF16"), T, "bfloat16"),
        ("an unknown type", META, of(T, dtype="F99"), "F99"),
        ("another shape", META, of(T, shape=[6, 5]), T),
        ("a shape beyond 64 bits", META, of(T, shape=[2**40, 2**40]), T, "64 bits"),
        ("no shape", META, of(T, shape=None), T, "shape"),
        ("a path for a file", META, lambda j: j["tensors"][T]["shard_spec_per_file"].update({"../x": {}}), "../x"),
        ("no tensors", META, lambda j: j.update(tensors=[]), "tensors"),
        ("a file lacks a tensor", "model/rank_1.safetensors", lambda t: t.pop(T), "rank_1.safetensors", T),
        ("a file has fewer elements", "model/rank_1.safetensors",
         lambda t: t.update({T: ("F32", [2], b"\0" * 8)}), "has 2 elements", "says 17"),
        ("a tensor that is not listed", "model/rank_1.safetensors",
         lambda t: t.update({"hidden": ("F32", [2], b"\0" * 8)}), "model/rank_1.safetensors", '"hidden", which metadata.json does not list'),
        ("two of them", "model/rank_0.safetensors",
         lambda t: t.update({k: ("F32", [2], b"\0" * 8) for k in "xy"}), "model/rank_0.safetensors", '"x" and others'),
        ("a moment that is not listed", "optim/rank_0.safetensors",
         lambda t: t.update({f"state.{T}.__third": ("F32", [2], b"\0" * 8)}), "optim/rank_0.safetensors", f"state.{T}.__third"),
        ("a tensor that is listed for another file", META,
         lambda j: j["tensors"][T]["shard_spec_per_file"].pop("rank_1.safetensors"), T),
        ("a tensor that is taken off the list", META, lambda j: j["tensors"].pop("ln_f.weight"), "ln_f.weight"),
        ("a moment of no parameter", "optim/metadata.json",
         lambda j: j["tensors"].update({"state.x.__exp_avg": j["tensors"][f"state.{T}.__exp_avg"]}), "does not belong to any parameter"),
]:
    refused("OLMo-core: " + what, core(path, change), *parts)
for key, raw, what in [("num_param_groups", b"\2" + b"\0" * 7, "another number of groups"), ("param_group0", None, "no pickle")]:
    files = m.core(2)
    for value in files.values():
        if key in value:
            dtype, shape, old = value[key]
            value[key] = (dtype, shape, raw or b"\xff" * len(old))
    refused("OLMo-core: " + what, files, key)


def grouped(change, *opts, **how):
    """OLMo-core's tree after change(files, metadata of optim/, name of the file that has the group)."""
    files = m.core(2)
    meta = files["optim/metadata.json"]["tensors"]
    (where,) = meta["param_group0"]["shard_spec_per_file"]
    change(files, meta, where)
    return saved(files, *opts, **how)


def move(files, meta, where):
    meta["param_group1"] = meta.pop("param_group0")
    files["optim/" + where]["param_group1"] = files["optim/" + where].pop("param_group0")


def uncounted(files, meta, where):
    (at,) = meta.pop("num_param_groups")["shard_spec_per_file"]
    files["optim/" + at].pop("num_param_groups")


def strange(files, meta, where):
    meta["temperature"] = meta.pop("state_keys")
    for value in files.values():
        if "state_keys" in value:
            value["temperature"] = value.pop("state_keys")


def twice(files, meta, where, key="param_group0"):
    said = meta[key]["shard_spec_per_file"]
    other = "rank_0.safetensors" if "rank_1.safetensors" in said else "rank_1.safetensors"
    said[other] = {"flattened_offsets": [[0, 1]], "local_shape": None, "global_offset": None}


tree = grouped(move)
check("OLMo-core: a group of another number", tree.code == 1 and 'there is no "param_group0"' in tree.err, tree.err)
tree = grouped(twice)
check("OLMo-core: a group in two files", tree.code == 1 and '"param_group0" is spread over several files' in tree.err, (tree.code, tree.err, tree.notes))
tree = grouped(lambda *of: twice(*of, "num_param_groups"))
check("OLMo-core: a count of groups in two files", tree.code == 1 and '"num_param_groups" is spread over several files' in tree.err, (tree.code, tree.err, tree.notes))
tree = grouped(uncounted)
check("OLMo-core: groups that nobody counts", tree.code == 0 and '"lr": 0.5' in tree.blob["state/optim.json"], tree.err)
tree = grouped(strange)
check("OLMo-core: what is of no parameter", tree.code == 0 and ("extra", "temperature") in tree.tensor, (tree.err, sorted(tree.tensor)[-3:]))
tree = grouped(lambda files, meta, where: files.pop("optim/" + where), "-d")
check("OLMo-core, degraded: a group is lost with its file", tree.code == 0 and any('"param_group0" is lost with its file' in n for n in tree.notes) and
      "state/optim.json" not in tree.blob, f"{tree.err} {tree.notes}")
hidden = core("model/rank_1.safetensors", lambda t: t.update({"hidden": ("F32", [2], b"\0" * 8), "nothing": ("F32", [0], b"")}))
tree = saved(hidden, "-d")
check("OLMo-core, degraded: a tensor that is not listed is told", tree.code == 0 and tree.state().items() >= truth().items() and
      any('"hidden", which' in n and "model/rank_1.safetensors" in n for n in tree.notes), (tree.err, tree.notes))
tree = saved(core("model/rank_1.safetensors", lambda t: t.update({"nothing": ("F32", [0], b"")})))
check("OLMo-core: of no elements it may be there", tree.code == 0 and not tree.notes, (tree.err, tree.notes))
extra = {**m.core(2), "model/rank_2.safetensors": b"no header"}
refused("a rank's file that nobody names, and nobody can read", extra, "model/rank_2.safetensors")
tree = saved(extra, "-d")
check("OLMo-core, degraded: the same", tree.code == 0 and tree.state().items() >= truth().items(), tree.err)
box = m.core(2, "boxes")
spec(T, 1, global_offset=[0, 3])(box[META])
refused("OLMo-core: a box that reaches beyond dimension", box, T, "reaches beyond dimension")
box = m.core(2, "boxes")
spec(T, 1, global_offset=[0, 1])(box[META])
refused("OLMo-core: boxes that overlap", box, T)
refused("OLMo-core: a file is a FIFO", m.core(2), "rank_1.safetensors", "FIFO",
        change=on_disk("model/rank_1.safetensors", fifo))
refused("OLMo-core: a file is cut", m.core(2), "rank_1.safetensors", change=on_disk("model/rank_1.safetensors", cut))
refused("OLMo-core: metadata.json is cut", m.core(2), change=on_disk(META, cut))
mixed = m.core(2)
mixed["train/rank0.pt"] = m.train(2, step=9)
refused("OLMo-core: trainers of two steps", mixed, "global_step")
lost("OLMo-core, degraded: a file is missing", without(m.core(3), "model/rank_1.safetensors"),
     sum(len(m.core_spec(s, 1, 3, "ranges")[0]) for s in m.params(m.MODEL).values()))
lost("OLMo-core, degraded: a file of boxes is missing", without(m.core(2, "boxes"), "model/rank_1.safetensors"),
     sum(len(m.core_spec(s, 1, 2, "boxes")[0]) for s in m.params(m.MODEL).values()))
lost("OLMo-core, degraded: a tensor is missing", core("model/rank_1.safetensors", lambda t: t.pop(T)), 17)

# ---- full: refused ---------------------------------------------------------------------------------------


def full(path, change):
    files = m.full()
    change(files[path])
    return files


ONE = ("F32", [1], b"\0\0\0\0")
for name in ("model.safetensors", "weights.safetensors"):
    tree = saved({name: m.full()["model.safetensors"]}, point=name)
    check(f"pointing at {name}", tree.code == 0 and tree.state() == {k: v for k, v in truth().items() if not k[0]}, (tree.err, sorted(tree.tensor)[:3]))
for what, key, *parts in [("a name that is no base64", "gAS!", "base64"), ("a name that is no pickle", "gASVgASV", "gASVgASV"),
                          ("a plain name among them", "model.w", "base64"),
                          ("a list for a path", m.base64.urlsafe_b64encode(m.pickle.dumps((["w"], False))).decode(), "not a pair of a path"),
                          ("no flag", m.base64.urlsafe_b64encode(m.pickle.dumps((("w",), "x"))).decode(), "not a pair of a path"),
                          ("an empty path", m.key64(), "not a pair of a path"), ("a path of None", m.key64(None), "neither text"),
                          ("a name too long", "A" * 65540, "the name has 65540 characters, too many"),
                          ("one name twice", m.key64(T, protocol=5), T)]:
    if what == "one name twice":
        tree = saved(full("model.safetensors", lambda t, k=key: t.update({k: ONE})))
        check(what, tree.code == 1 or ("extra", T) in tree.tensor, tree.err)
        continue
    refused(what, full("model.safetensors", lambda t, k=key: t.update({k: ONE})), "model.safetensors", *parts)
refused("a cut file", m.full(), "model.safetensors", change=on_disk("model.safetensors", cut))
tree = saved(full("optim.safetensors", lambda t: t.update({m.key64("x", pickled=True): ("U8", [2], b"\xff\xff")})))
check("a pickled value that is none is left out", tree.code == 0 and any("left out" in n for n in tree.notes), tree.notes)
tree = saved(full("optim.safetensors", lambda t: t.update({m.key64("x", pickled=True): ONE})))
check("a pickled value that is no bytes is left out", tree.code == 0 and any("a pickled value has 4 elements of float32: these are not bytes" in n for n in tree.notes), tree.notes)
plain = saved({"model.safetensors": {"gain": ONE, "w": ONE}})
check("plain safetensors are not OLMo's", plain.code == 0 and ("", "gain") in plain.tensor, plain.err)
done()
