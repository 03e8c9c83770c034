#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated mixtures of experts: sizes and placements that no real save here has, and saves that must be refused."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.dirname(HERE))
import makeds  # noqa: E402
from makeds import Half, OrderedDict, Size, State, f32, flat, partitions, settings  # noqa: E402
from tap import check, done  # noqa: E402
from torchedit import Archive  # noqa: E402

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
WORD = ".deepspeed_moe.experts.deepspeed_experts."


def dump(folder, *opts):
    run = subprocess.run([DUMP, *opts, folder], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return ({(r[1], r[2]): tuple(r[3:6]) for r in rows if r[0] == "tensor"}, [r[1] for r in rows if r[0] == "note"], run.stderr.strip())


class Moe:
    """Dense parameters, and groups of layers with experts: {layer: (experts, {rest: shape})}, cut ep ways each."""

    def __init__(self, groups, dp, blocks=False, told=None):
        self.dense = State({"inp.weight": (6, 5), "gate.wg.weight": (4, 6), "inp.bias": (6,)})
        self.dp, self.blocks, self.told = dp, blocks, blocks if told is None else told
        self.groups = groups
        self.all = State({**self.dense.groups[0], **{n: s for g in range(len(groups)) for e in range(groups[g][0])
                                                     for n, s in self.names(g, e).items()}})

    def names(self, g, e):
        """Names and shapes of expert-parallel rank e's experts in the whole model."""
        ep, layers = self.groups[g]
        return {f"{layer}{WORD}{e * (n // ep) + i}.{rest}": s for layer, (n, shapes) in layers.items() for i in range(n // ep)
                for rest, s in shapes.items()}

    def where(self, g, rank):
        """The vector of the rank, and its place among the ranks of that."""
        ep = self.groups[g][0]
        return divmod(rank, self.dp // ep) if self.blocks else divmod(rank, ep)[::-1]

    def files(self, shapes=True):
        groups = [State(self.dense.groups[0]), *[State(self.names(g, 0)) for g in range(len(self.groups))]]
        m = makeds.model(self.dense, self.dp)
        m["param_shapes"] = [makeds.sizes(s.groups[0]) for s in groups]
        m["num_experts"] = [n for _, layers in self.groups for n, _ in layers.values()]
        m["ds_config"] = {"zero_optimization": {"stage": 2}, "use_data_before_expert_parallelism": self.told}
        if not shapes:
            for key in ("param_shapes", "buffer_names", "frozen_param_shapes", "frozen_param_fragments", "shared_params"):
                del m[key]
        files = {"mp_rank_00_model_states.pt": m}
        layer_id = 0
        for ep, layers in self.groups:
            for layer, (n, rests) in layers.items():
                for e in range(n):
                    files[f"layer_{layer_id}_expert_{e}_mp_rank_00_model_states.pt"] = OrderedDict(
                        (f"{layer}{WORD}{e}.{rest}", Half(self.all.values(f"{layer}{WORD}{e}.{rest}"), s)) for rest, s in rests.items())
                layer_id += 1
        for r in range(self.dp):
            files[f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt"] = self.optim(r, shapes)
        return files

    def optim(self, r, shapes):
        base, masters, maps = {"state": {}, "param_groups": []}, [], []
        for i in range(len(self.groups) + 1):
            e, k = self.where(i - 1, r) if i else (0, r)
            names = self.names(i - 1, e) if i else self.dense.groups[0]
            ranks = self.dp // self.groups[i - 1][0] if i else self.dp
            part, n = partitions(flat(self.all, names, "fp32"), ranks)[k]
            masters.append(f32(part[:n]))
            base["state"][i] = {"step": 3, **{m: f32(partitions(flat(self.all, names, m), ranks)[k][0]) for m in self.all.moments}}
            base["param_groups"].append(settings(i, **({"moe": True} if i else {})))
            maps.append(self.slices(self.names(i - 1, 0) if i else names, len(part), k))
        return {"optimizer_state_dict": {
            "overflow": False, "base_optimizer_state": base, "single_partition_of_fp32_groups": masters, "zero_stage": 2,
            "partition_count": [self.dp, *[self.dp // ep for ep, _ in self.groups]], "ds_version": "0.19.8",
            **({} if shapes else {"param_slice_mappings": maps})}, "ds_version": "0.19.8"}

    @staticmethod
    def slices(names, size, k):
        out, at = OrderedDict(), 0
        for n, s in names.items():
            lo, hi = max(at, k * size), min(at + makeds.numel(s), (k + 1) * size)
            if lo < hi:
                out[n] = makeds.Call("deepspeed.utils.tensor_fragment", "fragment_address", state={"numel": hi - lo, "start": lo - k * size})
            at += makeds.numel(s)
        return out


def shows(name, moe, files=None, note=None):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files or moe.files())
        got, notes, err = dump(d)
    stored = {k[1]: v for k, v in got.items() if k[0] == "stored"}
    got = {k: v for k, v in got.items() if k[0] in ("", "optim/exp_avg", "optim/exp_avg_sq")}
    want = moe.all.expected()
    half = {n: makeds.bf16(moe.all.values(n)).hex() for n in moe.all.names()}
    wrong = sorted(k for k in {*got, *want} if got.get(k) != want.get(k)) or [n for n in half if stored.get(n, ("",) * 3)[2] != half[n]]
    check(name, not err and not wrong, f"{err} wrong: {wrong[:6]}")
    if note:
        check(f"{name}: the note", any(note in n for n in notes), notes)


def refused(name, files, *parts):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        got, _, err = dump(d)
    check(name, not got and all(p in err for p in parts), f"{err!r} {sorted(got)[:4]}")


SMALL = {"0.weight": (7, 6), "0.bias": (7,)}
FOUR = {"moe": (4, SMALL), "moe2": (4, {"up": (3, 6), "down": (6, 3)})}
for ep in (1, 2, 4):
    shows(f"ep_size {ep}", Moe([(ep, FOUR)], 4))
    shows(f"ep_size {ep}, without param_shapes", Moe([(ep, FOUR)], 4), Moe([(ep, FOUR)], 4).files(False))
BLOCKS = {"use_data_before_expert_parallelism": True}
shows("blocks of ranks", Moe([(2, FOUR)], 4, True))


def told_by_optimizers(moe, shapes=True):
    """As before 0.19.3: the model's file has no ds_config."""
    files = moe.files(shapes)
    for n, v in files.items():
        if "optim" in n:
            v["ds_config"] = {**v.get("ds_config", {}), **BLOCKS}
    del files["mp_rank_00_model_states.pt"]["ds_config"]
    return files


for named in (True, False):
    moe = Moe([(2, FOUR)], 4, True, False)
    shows(f"blocks of ranks, told by the optimizer's files, names: {named}", moe, told_by_optimizers(moe, named))
shows("layers of 2 and 8 experts", Moe([(2, {"a": (2, SMALL), "b": (8, SMALL)}), (4, {"c": (8, SMALL)})], 4))
shows("6 ranks", Moe([(3, {"a": (6, SMALL)})], 6))

GOOD = Moe([(2, FOUR)], 4)


def changed(change):
    files = GOOD.files()
    change(files)
    return files


def expert(layer, e):
    return f"layer_{layer}_expert_{e}_mp_rank_00_model_states.pt"


refused("an expert's file is missing", changed(lambda f: f.pop(expert(1, 3))), expert(1, 3), "is missing")
refused("an expert's file holds another", changed(lambda f: f.update({expert(0, 2): f[expert(0, 1)]})), "the file of expert 2")
refused("an expert's file holds a list", changed(lambda f: f.update({expert(0, 1): [1, 2]})), expert(0, 1), "does not map names to tensors")
refused("two files hold an expert", changed(lambda f: f.update({expert(7, 1): f[expert(0, 1)]})), "both hold")
refused("an expert too many", changed(lambda f: f.update({expert(0, 4): OrderedDict(
    (n.replace(f"{WORD}1.", f"{WORD}4."), t) for n, t in f[expert(0, 1)].items())})), "files of 5 experts")
refused("an expert of another shape", changed(lambda f: f[expert(0, 1)].update(
    {f"moe{WORD}1.0.bias": Half([1.0], [1])})), "has 1 elements, but its shape in param_shapes has 7")
refused("experts of another save", changed(lambda f: f[expert(0, 1)].update(
    {f"moe{WORD}1.0.bias": Half([9.0] * 7, [7])})), "the masters do not belong to these names")


def count(n):
    def change(files):
        for f in files.values():
            if "optimizer_state_dict" in f:
                f["optimizer_state_dict"]["partition_count"][1] = n
    return change


refused("partitions that are no divisor", changed(count(3)), "do not divide")
refused("dense parameters in fewer partitions", changed(lambda f: f["mp_rank_00_model_states.pt"]["param_shapes"].__setitem__(
    1, OrderedDict(x=Size((242,))))), "not a parameter of experts")
for blocks in (True, False):
    refused(f"blocks of ranks or not, told wrongly: {blocks}", Moe([(2, FOUR)], 4, blocks, not blocks).files(), "of group 1 ")
HOLE = GOOD.files(False)
HOLE["zero_pp_rank_0_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]["param_slice_mappings"][0].popitem(False)
refused("mappings with a hole", HOLE, "the shape of \"inp.weight\"")


# ---- AutoEP: a real save of stage 3, changed; stage 2 generated ----

def autoep(name, change, *parts, kind="optim", every=False):
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(glob.glob(os.path.join(DATA, "ds0_19_8_autoep2_zero3_w4/global_step*"))[0], f"{d}/c")
        files = sorted(glob.glob(f"{d}/c/*{kind}_states.pt"))
        for f in files if every else files[:1]:
            os.chmod(f, 0o644)
            with Archive(f) as a:
                change(a.root)
        got, _, err = dump(f"{d}/c")
    check(name, not got and all(p in err for p in parts), f"{err!r} {len(got)}")


def ranks(value, **more):
    def change(root):
        root["optimizer_state_dict"]["ds_zero_partition_groups"][1].update(partition_ranks=value, **more)
    return change


def fused(change):
    def on_all(root):
        for layer in root["ds_autoep_layers"]:
            for m in layer["affine_maps"]["params"].values():
                change(layer, m)
    return on_all


autoep("partition_ranks name a rank twice", ranks([0, 0]), "rank 0 twice")
autoep("partition_ranks name a rank that is in another vector", ranks([0, 1]), "partition_ranks of group 1")
autoep("partition_ranks leave the rank out", ranks([2, 3]), "rank 0 is not at index")
autoep("partition_ranks of ranks that there are not", ranks([0, 9]), "rank 9, which does not exist")
autoep("partition_count lies", ranks([0, 2], partition_count=4), "is not at index")
autoep("a map that leaves the tensor", fused(lambda _, m: m["ranks"][1]["pieces"][0]["source"].__setitem__(0, 192 * 3)),
       "!ranks[1]!pieces[0]: it reaches outside the whole tensor", kind="model", every=True)
autoep("a map with an overlap", fused(lambda _, m: m["ranks"][1]["pieces"][0]["source"].__setitem__(0, 192)),
       "!ranks[1]: it begins with expert 1, expected 2", kind="model", every=True)
autoep("a placement that is another", fused(lambda layer, _: layer["expert_placement"]["ranks"][1].update(experts=[3, 2])),
       "!expert_placement!ranks[1]: ", kind="model", every=True)
def plain(**more):
    """As a release without maps has it."""
    def on_all(root):
        for layer in root["ds_autoep_layers"]:
            del layer["affine_maps"]
            layer.update(more)
    return on_all


for why, size in (("of no ranks", 0), ("of too many ranks", 1 << 40)):
    autoep(f"a layer without maps and {why}", plain(ep_size=size), "!ep_size: expected 1 to 65536", kind="model", every=True)
autoep("an ep_rank that is another", fused(lambda layer, _: layer.update(ep_rank=1)), "expert-parallel rank 1", kind="model", every=True)


with tempfile.TemporaryDirectory() as d:
    shutil.copytree(glob.glob(os.path.join(DATA, "ds0_19_8_autoep2_zero3_w4/global_step*"))[0], f"{d}/c")
    for gone in glob.glob(f"{d}/c/*zero_pp_rank_[13]_*optim_states.pt"):
        os.remove(gone)
    got, _, err = dump(f"{d}/c", "-d")
    check("no rank that lists the second vector's is left", not got and err.endswith("partition_ranks of group 1 do not list all ranks"), (err, len(got)))


class Fused(Moe):
    """Stages 1 and 2 of AutoEP: one tensor w1 of 4 experts, two of them on each expert-parallel rank."""

    def __init__(self, stage=2):
        super().__init__([], 4)
        self.stage = stage
        self.whole = State({**self.dense.groups[0], "m.experts.w1": (4, 3, 5)})
        self.all = self.whole

    def files(self, shapes=True):
        files = makeds.zero12(self.dense, 4, self.stage)
        m = files["mp_rank_00_model_states.pt"]
        m["param_shapes"].append(OrderedDict({"m.experts.w1": Size((2, 3, 5))}))
        pieces = {e: {"shard_shape": [2, 3, 5], "pieces": [{"shape": [2, 3, 5], "source": [30 * e, [15, 5, 1]], "dest": [0, [15, 5, 1]],
                                                            "locations": [e]}]} for e in range(2)}
        m["ds_autoep_layers"] = [{"expert_key_prefix": "m.experts", "ep_rank": 0, "affine_maps": {"version": 1, "params": {
            "m.experts.w1": {"logical_shape": [4, 3, 5], "ranks": pieces}}}}]
        for e in range(4):
            files[expert(0, e)] = {f"m.experts.w1.{e}": Half(self.all.values("m.experts.w1")[15 * e:15 * e + 15], (3, 5))}
        for r in range(4):
            inner = files[f"bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]
            part = {k: partitions(self.all.values("m.experts.w1", k)[30 * (r % 2):30 * (r % 2) + 30], 2)[r // 2][0]
                    for k in ("fp32", *self.all.moments)}
            inner["partition_count"] = [4, 2]
            inner["single_partition_of_fp32_groups"].append(f32(part["fp32"][:16 if r < 2 else 14]))
            inner["base_optimizer_state"]["state"][1] = {"step": 3, **{k: f32(part[k]) for k in self.all.moments}}
            inner["base_optimizer_state"]["param_groups"].append(settings(1, moe=True))
        return files


for zero in (1, 2):
    with tempfile.TemporaryDirectory() as top:
        AUTO = Fused(zero)
        makeds.write(top, AUTO.files())
        tensors, _, error = dump(top)
    expected = AUTO.all.expected()
    check(f"AutoEP, stage {zero}", not error and all(tensors.get(k) == v for k, v in expected.items()),
          f"{error} {[k for k in expected if tensors.get(k) != expected[k]]}")
    check(f"AutoEP, stage {zero}: slices", not [k for k in tensors if k[0] == "" and "w1." in k[1]] and
          all(("stored", f"m.experts.w1.{e}") in tensors for e in range(4)), sorted(tensors))
GONE = Fused().files()
del GONE[expert(0, 3)]
refused("AutoEP: an expert's file is missing", GONE, "expert_3")


# ---- what the sentences say ----

MODEL = "mp_rank_00_model_states.pt"


def mapped(change):
    """AutoEP's map of w1, in every way that it can be wrong."""
    files = Fused().files()
    layer = files[MODEL]["ds_autoep_layers"][0]
    change(layer["affine_maps"]["params"]["m.experts.w1"])
    return files


def short(files, ranks):
    return {n: v for n, v in files.items() if not any(f"_rank_{r}_" in n and "optim" in n for r in ranks)}


def renamed(files):
    shapes = files[MODEL]["param_shapes"]
    shapes[1] = OrderedDict((n.replace(f"moe{WORD}0.", f"moe{WORD}2."), s) for n, s in shapes[1].items())


W1 = f"{MODEL}!ds_autoep_layers[0]!affine_maps!params!m.experts.w1"
for what, files, sentence, opts in (
        ("a map without dimensions", mapped(lambda m: m.update(logical_shape=[])), f'{W1}!ranks[0]!shard_shape: the shard has 3 dimensions, the whole tensor 0', ()),
        ("a map of nine", mapped(lambda m: m.update(logical_shape=[1] * 9)), f'{W1}!ranks[0]!shard_shape: the shard has 3 dimensions, the whole tensor 9', ()),
        ("a map beyond 64 bits", mapped(lambda m: m.update(logical_shape=[4, 1 << 40, 1 << 40])),
         f'{W1}!logical_shape: the product of its sizes exceeds 64 bits', ()),
        ("a map of ranks 0 and 2", mapped(lambda m: m["ranks"].update({2: m["ranks"].pop(1)})),
         f'{W1}!ranks[1]!shard_shape: it is missing: expected a list of at most 64 sizes', ()),
        ("a map with a text", mapped(lambda m: m["ranks"][0].update(shard_shape="x")),
         f'{W1}!ranks[0]!shard_shape: expected a list of at most 64 sizes, found a text', ()),
        ("a map from nowhere", mapped(lambda m: m["ranks"][1]["pieces"][0]["source"].__setitem__(0, "x")),
         f'{W1}!ranks[1]!pieces[0]!source[0]: expected a number >= 0, found a text', ()),
        ("a map that ends early", mapped(lambda m: m["ranks"].pop(1)),
         f'{W1}: it covers 2 of 4 experts', ()),
        ("a map of columns", mapped(lambda m: m["ranks"][1]["pieces"][0]["dest"].__setitem__(1, [1, 2, 6])),
         f'{W1}!ranks[1]: expert tensors are read only if each rank holds consecutive experts', ()),
        ("another shape than the map has", (lambda f: f[MODEL]["param_shapes"][1].update({"m.experts.w1": Size((3, 3, 5))}) or f)(Fused().files()),
         f'{MODEL}: "m.experts.w1" is in 2 vectors, but by the affine map it is on 2 expert-parallel ranks, or has another shape', ()),
        ("experts 1 and 2", changed(renamed),
         f'{MODEL}: the experts of "moe.deepspeed_moe.experts.deepspeed_experts.2.0.weight" in group 1 are not numbered 0 to 1', ()),
        ("all ranks of a vector are lost", short(GOOD.files(), (1, 3)),
         "none of the optimizer files that hold vector 1 of group 1 can be read", ("-d",)),
        ("another type in one vector", None, '"m.experts.w1" has different dtypes on different ranks', ())):
    if files is None:
        files = Fused().files()
        for r in (1, 3):
            parts = files[f"bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]["single_partition_of_fp32_groups"]
            whole = partitions(AUTO.all.values("m.experts.w1")[30:], 2)[r // 2]
            parts[1] = Half(whole[0][:whole[1]], (whole[1],))
    with tempfile.TemporaryDirectory() as top:
        makeds.write(os.path.join(top, "tag"), files)
        got, _, error = dump(os.path.join(top, "tag"), *opts)
    error = error.split("/tag/")[-1]
    check(what, not got and error == sentence, f"{error!r}\n{sentence!r}")
done()
