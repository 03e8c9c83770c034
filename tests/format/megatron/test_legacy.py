#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron saves: cut over ranks in every way and joined again; what is no proof leaves each rank in its own tree;
what is damaged is refused."""
import io
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makelegacy  # noqa: E402
import torchfile as tf  # noqa: E402
from makelegacy import Mem, Model  # noqa: E402
from tap import check, done  # noqa: E402

DUMP = os.path.join(os.environ.get("top_builddir", "."), "tests/unit/format/tree_dump")


def tree(files, *opts):
    """(set, name) -> (dtype, shape, hex), the notes, the error."""
    with tempfile.TemporaryDirectory() as d:
        makelegacy.write(d, files)
        run = subprocess.run([DUMP, *opts, d], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return ({(r[1], r[2]): tuple(r[3:6]) for r in rows if r[0] == "tensor"}, [r[1] for r in rows if r[0] == "note"],
            run.stderr.strip())


def in_ranks(model):
    """What each rank's own tree must have."""
    out = {}
    for p in range(model.pp):
        for t, e, et in model.expert_ranks():
            d = f"mp_rank_{t:02d}" + (f"_{p:03d}" if model.pp > 1 else "") + (f"_{e:03d}" if model.ep > 1 else "")
            for v, name, _, x, _, _ in model.rank(t, p, e, et):
                out[d, f"model{v}.{name}" if model.vp else name] = x.bf16().row()
    return out


def joins(name, model):
    got, notes, err = tree(model.files())
    want = {**model.expected(), **in_ranks(model)}
    got = {k: v for k, v in got.items() if k[0] not in ("optim/step", "extra") and not k[0].endswith("/bucket")}
    wrong = sorted(k for k in {*got, *want} if got.get(k) != want.get(k))
    check(name, not err and not wrong and not notes, f"{err} {notes} wrong: {len(wrong)} {wrong[:6]}")


def stays(name, files, part, contradicts):
    """What files that contradict themselves show with -o degraded, without which they are refused; or what others show."""
    if not contradicts:
        return tree(files)
    refused(name + ": refused", files, part.replace("the ranks are shown separately: ", ""))
    return tree(files, "-d")


def by_rank(name, model, part, contradicts=False):
    """No tensors in the root, all in the ranks, and a note with the reason."""
    got, notes, err = stays(name, model.files(), part, contradicts)
    want = in_ranks(model)
    wrong = sorted(k for k in want if got.get(k) != want.get(k))
    roots = [k for k in got if k[0] == ""]
    check(name, not err and not wrong and not roots and any(part in n for n in notes), f"{err} {notes} {wrong[:4]} {roots[:4]}")
    return got


def unnamed(name, model, part):
    """The weights are joined, the optimizer is by rank."""
    got, notes, err = tree(model.files())
    want = {("", n): x.bf16().row() for _, a, b, _, x, _ in model.tensors() for n in [b or a]}
    wrong = sorted(k for k in want if got.get(k) != want.get(k))
    ids = [k for k in got if k[0].startswith("mp_rank") and "/optim/" in k[0]]
    check(name, not err and not wrong and ids and any(part in n for n in notes), f"{err} {notes} {wrong[:4]}")
    return got


def refused(name, files, *parts, opts=()):
    got, _, err = tree(files, *opts)
    check(name, not got and all(p in err for p in parts), f"{err!r} {sorted(got)[:4]}")


def edited(model, **values):
    for k, v in values.items():
        setattr(model, k, v)
    return model


MOE = {"num_experts": 4, "moe_ffn_hidden_size": 6}
MLA = {"multi_latent_attention": True, "q_lora_rank": 6, "kv_lora_rank": 8, "qk_head_dim": 4, "qk_pos_emb_head_dim": 2, "v_head_dim": 3}

# ---- joined ----

for kind in ("plain", "flat", None):
    for how, args in {"one rank": {}, "tp 2": {"tp": 2}, "tp 4": {"tp": 4}, "pp 2": {"pp": 2}, "tp 2 pp 2": {"tp": 2, "pp": 2},
                      "uneven stages": {"pp": 3, "layers": [[1, 3, 2]]}, "a stage without layers": {"pp": 2, "layers": [[0, 2]]},
                      "virtual stages": {"tp": 2, "pp": 2, "vp": 2}, "uneven virtual stages": {"pp": 2, "vp": 2, "layers": [[1, 2], [3, 1]]},
                      "no gate": {"tp": 2, "swiglu": False}, "query groups": {"tp": 2, "num_query_groups": 2, "group_query_attention": True},
                      "ep 2": {"ep": 2, **MOE}, "ep 2 tp 2": {"ep": 2, "tp": 2, **MOE}, "ep 4 tp 2 etp 1": {"ep": 4, "tp": 2, "etp": 1, **MOE},
                      "ep 2 tp 2 etp 1 pp 2": {"ep": 2, "tp": 2, "etp": 1, "pp": 2, **MOE},
                      "every other layer has experts": {"ep": 2, "pp": 2, "layers": [[2, 2]], "_freq": 2, **MOE},
                      "mla": {"tp": 2, **MLA}, "mla, down projections cut": {"tp": 2, "_down": "rows", **MLA},
                      "cross attention": {"tp": 2, "_cross": True, "num_query_groups": 2, "group_query_attention": True},
                      "shared experts": {"ep": 2, "tp": 2, "moe_shared_expert_intermediate_size": 10, **MOE},
                      "mtp": {"tp": 2, "pp": 2, "mtp_num_layers": 2}}.items():
        joins(f"{how}, {kind} optimizer", edited(Model(**args), optimizer=kind))
for down in ("copy", "rows", "duplicated"):
    for kind in ("plain", "flat", None):
        for what, args in {"": {}, ", fused norms": {"_fused": True}, ", queries in one": {"q_lora_rank": None}}.items():
            joins(f"mla, tp 2 pp 2, down projections {down}{what}, {kind} optimizer",
                  edited(Model(tp=2, pp=2, **{**MLA, "_down": down, **args}), optimizer=kind))
joins("experts in one module", edited(Model(ep=2, tp=2, **MOE), grouped=True))
for kind in ("plain", "flat", None):
    for how, args in {"one rank": {}, "pp 2": {"pp": 2}, "uneven stages": {"pp": 3, "layers": [[1, 3, 2]]}, "no gate": {"swiglu": False}}.items():
        joins(f"experts in one matrix, {how}, {kind} optimizer", edited(Model(**args, **MOE), grouped="matrix", optimizer=kind))
joins("a flat buffer without gaps", edited(Model(**{**MLA, "q_lora_rank": 5}), optimizer="flat", align=1))
joins("masters without attributes", edited(Model(tp=2, pp=2), attributes=False))
# A state of a kind that is not understood costs itself, in any rank, with one note.
STORAGE = tf.tensor(tf.storage("9", "MysteryStorage", 8), 0, (8,), (1,))
for kind, key in (("plain", "exp_avg_sq"), ("flat", "exp_avg_sq"), ("flat", "param")):
    for what, value in (("call", tf.Call("torch._utils", "_rebuild_mystery_tensor", 1, 2)), ("storage", STORAGE)):
        for odd_rank in (0, 1):
            m = edited(Model(tp=2), optimizer=kind)

            def odd(rows, m=m, key=key, value=value, odd_rank=odd_rank, make=getattr(m, kind), seen=[]):
                out = make(rows)
                seen.append(0)
                if len(seen) - 1 == odd_rank and m.optimizer == "plain":
                    out["optimizer"]["state"][0][key] = value
                elif len(seen) - 1 == odd_rank:
                    out[0][next(iter(out[0]))][key] = value
                return out
            setattr(m, kind, odd)
            got, notes, err = tree(m.files())
            said = [n for n in notes if f'"{key}" is left out' in n and f"mp_rank_0{odd_rank}" in n]
            check(f"{kind}: {key} is an unknown {what} on rank {odd_rank}", not err and len(said) == 1 and
                  any(k == "decoder.final_layernorm.weight" and s in ("", "stored") for s, k in got), (err, notes, sorted(got)[:9]))

joins("names of old releases", edited(Model(tp=2, pp=2), old=True, optimizer=None))



def aside():
    """What is beside the tensors, of every rank or of the first."""
    with tempfile.TemporaryDirectory() as d:
        makelegacy.write(d, edited(Model(tp=2), optimizer="flat", edit=put("decoder.layers.0._extra_state", None)).files())
        run = subprocess.run([DUMP, d], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    blobs = sorted(r[1] for r in rows if r[0] == "blob")
    extra = sorted(r[2] for r in rows if r[0] == "tensor" and r[1] == "extra")
    buckets = sorted(r[1] for r in rows if r[0] == "tensor" and r[1].endswith("bucket") and r[2].endswith(".exp_avg"))
    check("settings are of the first rank, random states of each", blobs == [f"state/{k}.json" for k in (
        "args", "checkpoint_version", "iteration", "optimizer")] and extra == [f"mp_rank_0{t}.rng_state.0.torch_rng_state" for t in (0, 1)] and
        buckets == ["mp_rank_00/bucket", "mp_rank_01/bucket"], f"{blobs} {extra} {buckets} {run.stderr}")


def extra_states():
    """What modules' get_extra_state gave, a file or a tensor of each rank; nothing where they had nothing to say."""
    def edit(rank, model):
        stem, mark = "decoder.layers.0.", bytes([65 + rank[0]])
        model.update({stem + "a._extra_state": io.BytesIO(b"stream of " + mark), stem + "b._extra_state": b"bytes of " + mark,
                      stem + "c._extra_state": Mem((2,), [7, rank[0]]).torch(), stem + "d._extra_state": None, stem + "e._extra_state": io.BytesIO(b"")})
    with tempfile.TemporaryDirectory() as d:
        makelegacy.write(d, edited(Model(tp=2), optimizer=None, edit=edit).files())
        run = subprocess.run([DUMP, d], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    got = {r[1]: r[2] for r in rows if r[0] == "blob" and r[1].startswith("extra/")}
    want = {f"extra/mp_rank_0{t}.model.decoder.layers.0.{n}._extra_state": v + m
            for t, m in enumerate("AB") for n, v in (("a", "stream of "), ("b", "bytes of "))}
    want.update({f"extra/mp_rank_0{t}.model.decoder.layers.0.e._extra_state": "" for t in (0, 1)})
    check("extra states are files of each rank", got == want, f"{got} {run.stderr}")
    got = {r[2]: tuple(r[3:6]) for r in rows if r[0] == "tensor" and r[1] == "extra" and "_extra_state" in r[2]}
    want = {f"mp_rank_0{t}.model.decoder.layers.0.c._extra_state": Mem((2,), [7, t]).row() for t in (0, 1)}
    check("extra states that are tensors", got == want, got)


def beside_the_model():
    """Keys that begin as the model's do (ModelOpt's modelopt_state) are shown, tensors and settings."""
    keys = ("modelopt_state", "model_x", "models", "model0x", "model00", "modelopt", "other")

    def edit(rank, value):
        value.update({k: {"amax": Mem((2,), [9, rank[0]]).torch(), "mode": k} for k in keys})
    for name, model in (("one model", Model(tp=2)), ("chunks", Model(tp=2, vp=2))):
        with tempfile.TemporaryDirectory() as d:
            makelegacy.write(d, edited(model, optimizer=None, edit_file=edit).files())
            run = subprocess.run([DUMP, d], capture_output=True, text=True, timeout=60)
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        got = {r[2]: tuple(r[3:6]) for r in rows if r[0] == "tensor" and r[1] == "extra" and ".amax" in r[2]}
        want = {f"mp_rank_0{t}.{k}.amax": Mem((2,), [9, t]).row() for k in keys for t in (0, 1)}
        blobs = {r[1] for r in rows if r[0] == "blob"}
        check(f"{name}: keys like the model's", got == want and all(f"state/{k}.json" in blobs for k in keys),
              f"{sorted(got)} {blobs} {run.stderr}")


def settings():
    """A learning rate that is a tensor (capturable) is not left out."""
    def edit(_, value):
        value["optimizer"]["optimizer"]["param_groups"][0]["lr"] = Mem((), [7]).torch()
    with tempfile.TemporaryDirectory() as d:
        makelegacy.write(d, edited(Model(tp=2), edit_file=edit).files())
        run = subprocess.run([DUMP, d], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    got = {r[2]: tuple(r[3:6]) for r in rows if r[0] == "tensor" and r[1] == "extra" and ".lr" in r[2]}
    check("settings that are tensors", got == {f"mp_rank_0{t}.optimizer.optimizer.param_groups.0.lr": Mem((), [7]).row() for t in (0, 1)}, f"{got} {run.stderr}")


def presentations():
    """The record of what is on disk is raw files; only where there is nothing else the ranks have all forms."""
    for name, model, more in (("joined", Model(tp=2), False), ("not joined", edited(Model(tp=2), edit_file=lambda r, v: v.pop("args")), True)):
        with tempfile.TemporaryDirectory() as d:
            makelegacy.write(d, edited(model, optimizer=None).files())
            for path in ("model.safetensors", "npy/decoder.layers.0.mlp.linear_fc2.weight.npy"):
                r = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "cat", d, "mp_rank_01/" + path], capture_output=True, timeout=60)
                check(f"{path} of a rank that is {name}", (r.returncode == 0 and len(r.stdout) > 60) == more, r.stderr.decode())


def pairs():
    """Megatron-LM 3.0 with its first distributed optimizer: model_rng.pt a rank, optim.pt a data-parallel rank of it."""
    model = edited(Model(tp=2), optimizer=None)
    files = {k.replace("model_optim_rng", "model_rng"): v for k, v in model.files().items()}
    for t in (0, 1):
        for d in (0, 1):
            files[f"mp_rank_0{t}_00{d}/optim.pt"] = {"optimizer": {"fp32_param": Mem((3,), [1, 2, 3]).torch()}}
    got, notes, err = tree(files)
    want = {**model.expected(), **in_ranks(model)}
    wrong = sorted(k for k in want if got.get(k) != want[k])
    check("a model's file and its optimizer's apart", not err and not wrong and len(notes) == 1 and "optim.pt of 4 folders" in notes[0], f"{err} {notes} {wrong[:4]}")
    refused("one of these ranks is missing", {k: v for k, v in files.items() if k != "mp_rank_01/model_rng.pt"}, "mp_rank_01/model_rng.pt", "is missing", "by args there are 2")
    refused("files of both kinds", {**files, "mp_rank_01/model_optim_rng.pt": files.pop("mp_rank_01/model_rng.pt")}, "mp_rank_01", "two saves are mixed")


# ---- tied ----

def ties(name, model, second, first):
    got, notes, err = tree(model.files())
    same = all(got.get((s, second)) == got.get((s, first)) is not None for s in ("", "stored"))
    check(name, not err and not notes and same and ("optim/exp_avg", second) not in got, f"{err} {notes} {sorted(got)[:5]}")


TIED = {"untie_embeddings_and_output_weights": False}
ties("a tied output layer", Model(tp=2, pp=2, **TIED), "output_layer.weight", "embedding.word_embeddings.weight")
for down in ("copy", "rows", "duplicated"):
    ties(f"a tied output layer, mla, down projections {down}", Model(tp=2, pp=2, _down=down, **MLA, **TIED), "output_layer.weight",
         "embedding.word_embeddings.weight")
ties("a tied head of old releases", edited(Model(tp=2, pp=2, **TIED), old=True), "word_embeddings_for_head.weight",
     "language_model.embedding.word_embeddings.weight")


def other_head(rank, model):
    if rank[1] == 1 and "output_layer.weight" in model:
        model["output_layer.weight"] = makelegacy.fresh("other", (8, 8)).bf16().torch()


# ---- not joined, and why ----

COO = tf.Call("torch._utils", "_rebuild_sparse_tensor", tf.Call("torch.serialization", "_get_layout", "torch.sparse_coo"),
              (Mem((1, 1), [0, 0]).torch(), Mem((1,), [1]).torch(), (4,)))

def without_bytes(model, part, name, want_root=False, contradicts=True):
    """What an edit changed is not compared; only where things are."""
    got, notes, err = stays(name, model.files(), part, contradicts)
    roots = [k for k in got if k[0] == ""]
    check(name, not err and bool(roots) == want_root and any(part in n for n in notes), f"{err} {notes} {roots[:4]}")
    return got


def put(name, t, rank=None):
    def edit(at, model):
        if (rank is None or at[0] == rank) and model:
            model[name] = t
    return edit


without_bytes(edited(Model(tp=2, pp=2, **TIED), edit=other_head, optimizer=None), "tied", "a tied output layer with other bytes")
without_bytes(edited(Model(tp=2), edit=put("decoder.layers.0.mixer.in_proj.weight", Mem((2, 2), [1] * 4).torch()), optimizer=None),
              'the save does not record how "decoder.layers.0.mixer.in_proj.weight" is sharded', "a name that is not in the table", contradicts=False)
without_bytes(edited(Model(tp=2), edit=put("decoder.layers.0.input_layernorm.weight", Mem((8,), [1] * 8, "bf16").torch(), 1), optimizer=None),
              "differs from its copy in mp_rank_00", "copies that differ")
without_bytes(edited(Model(tp=2), edit=put("decoder.layers.0.input_layernorm.weight", Mem((8,), [1] * 8).torch(), 1), optimizer=None),
              "its dtype or shape differs", "copies of two types")
without_bytes(edited(Model(tp=2), edit=put("decoder.layers.0.mlp.linear_fc2.weight", Mem((8, 5), [1] * 40, "bf16").torch()), optimizer=None),
              "dimension 1 of all ranks together is 10, but by args it is 12", "a shape that args contradict")
without_bytes(edited(Model(tp=2), edit=lambda r, m: m.pop("decoder.layers.0.mlp.linear_fc2.weight") if r[0] == 1 else None, optimizer=None),
              'part 1 of 2 of "decoder.layers.0.mlp.linear_fc2.weight" is in no file', "a piece that one rank lacks")
without_bytes(edited(Model(ep=2, **MOE), edit=lambda r, m: m.pop("decoder.layers.0.mlp.experts.local_experts.1.linear_fc2.weight", None)
                     if r[2] == 1 else None, optimizer=None), "is in no file, but args.num_experts is 4", "an expert that no rank has")
without_bytes(edited(Model(ep=2, **MOE), grouped=True, edit=lambda r, m: m.pop("decoder.layers.0.mlp.experts.linear_fc1.weight0", None)
                     if r[2] == 0 else None, optimizer=None), "is in no file, but args.num_experts is 4", "an expert of one module that no rank has")
for ranks in ({"tp": 2}, {"ep": 2}, {"tp": 2, "etp": 1, "ep": 2}):  # a rank's file with the matrices of its own experts
    without_bytes(edited(Model(**ranks, **MOE), grouped="matrix", optimizer=None, edit=lambda r, m: m.update(
        {k: makelegacy.fresh(f"{r}", (8, 24)).bf16().torch() for k in m if k.endswith("weight1")})), 'weight1": it holds all experts of a rank (GroupedMLP), which zerofs does not join',
                  f"experts in one matrix of each rank, {ranks}", contradicts=False)
without_bytes(edited(Model(**MOE), grouped="matrix", optimizer=None, edit_file=lambda r, v: v["args"].row[2].update(moe_ffn_hidden_size=7)),
              "dimension 1 of all ranks together is 48, but by args it is 56", "a matrix of experts that args contradict")
without_bytes(edited(Model(mtp_num_layers=2), optimizer=None, edit_file=lambda r, v: v["args"].row[2].update(mtp_num_layers=1)), "args.mtp_num_layers is 1",
              "a layer of multi-token prediction too many")
without_bytes(edited(Model(mtp_num_layers=3), optimizer=None, edit=lambda r, m: [m.pop(k) for k in list(m) if k.startswith("mtp.layers.1.")]),
              'layer 1 of "mtp.layers." is in no file', "a layer of multi-token prediction that no rank has")
for what, part, model in (
        ("an expert beyond the rank's", 'mp_rank_00_000!"decoder.layers.0.mlp.experts.local_experts.2.linear_fc2.weight": it belongs to expert 2 of the rank, but args.num_experts is 4 on 2 ranks',
         edited(Model(ep=2, **MOE), edit=put("decoder.layers.0.mlp.experts.local_experts.2.linear_fc2.weight", Mem((8, 6), [1] * 48, "bf16").torch()))),
        ("a module that may be cut", 'mp_rank_00!"decoder.layers.0.self_attention.linear_q_down_proj.weight": neither args nor its attributes record whether it is replicated',
         edited(Model(tp=2, **MLA), edit_file=lambda r, v: v["args"].row[2].pop("q_lora_rank"))),
        ("an extent beyond 64 bits", 'mp_rank_00!"decoder.layers.0.self_attention.linear_qkv.weight": the product of its sizes exceeds 64 bits',
         edited(Model(tp=4), edit=put("decoder.layers.0.self_attention.linear_qkv.weight", Mem((1 << 62, 0), []).torch()))),
        ("a gated unit of odd rows", 'mp_rank_00!"decoder.layers.0.mlp.linear_fc1.weight": its 23 rows cannot be the two halves of a gated linear unit',
         edited(Model(), edit=put("decoder.layers.0.mlp.linear_fc1.weight", Mem((23, 8), [1] * 184, "bf16").torch()),
                edit_file=lambda r, v: v["args"].row[2].pop("ffn_hidden_size"))),
        ("a norm of two dimensions", 'mp_rank_00!"decoder.layers.0.input_layernorm.weight": it has 2 dimensions, expected 1',
         edited(Model(tp=2), edit=put("decoder.layers.0.input_layernorm.weight", Mem((2, 4), [1] * 8, "bf16").torch()))),
        *((f"{what} of another size", f'mp_rank_00!"decoder.layers.0.{name}": dimension {d} of all ranks together is {is_}, but by args it is {want}',
           edited(Model(tp=2, moe_shared_expert_intermediate_size=10, **MOE), edit=put(f"decoder.layers.0.{name}", Mem(shape, [1] * shape[0] * shape[-1], "bf16").torch())))
          for what, name, shape, d, is_, want in (
              ("shared experts", "mlp.shared_experts.linear_fc1.weight", (12, 8), 0, 24, 20), ("a gate", "mlp.shared_experts.gate_weight", (2, 8), 0, 2, 1),
              ("queries", "cross_attention.linear_q.weight", (5, 8), 0, 10, 8), ("keys and values", "cross_attention.linear_kv.weight", (5, 8), 0, 10, 16))),
        ("a norm of keys of another size", 'mp_rank_00!"decoder.layers.0.self_attention.k_layernorm.weight": dimension 0 of all ranks together is 3, but by args it is 2',
         edited(Model(tp=2), edit=put("decoder.layers.0.self_attention.k_layernorm.weight", Mem((3,), [1] * 3, "bf16").torch()))),
        ("a layer that no file has", 'layer 1 of "decoder.layers." is in no file',
         edited(Model(layers=[[3]]), edit=lambda r, m: [m.pop(k) for k in list(m) if k.startswith("decoder.layers.1.")])),
        ("a rank that lacks the last layer of its stage", 'part 1 of 2 of "decoder.layers.1.',
         edited(Model(tp=2, layers=[[2]]), edit=lambda r, m: [m.pop(k) for k in list(m) if r[0] == 1 and k.startswith("decoder.layers.1.")])),
        ("a sparse tensor", 'mp_rank_00: "decoder.layers.0.mlp.linear_fc2.weight" is not a dense tensor',
         edited(Model(tp=2), edit=put("decoder.layers.0.mlp.linear_fc2.weight", COO, 0))),
        ("a stage of fewer chunks", "mp_rank_00_001 has 1 chunks of a virtual pipeline, mp_rank_00_000 has 2",
         edited(Model(pp=2, vp=2), edit_file=lambda r, v: v.pop("model1") if r[1] == 1 else None)),
):
    without_bytes(edited(model, optimizer=None), "the ranks are shown separately: " + part, what,
                  contradicts=what not in ("a module that may be cut", "a gated unit of odd rows", "a sparse tensor"))
for what, part, attrs in (("whole", "by its name it is cut along dimension 1, but by its master's attributes it is not cut", {"tensor_model_parallel": False}),
                          ("in two stripes", "by its master's attributes each rank has 2 interleaved parts, but by its name one",
                           {"tensor_model_parallel": True, "partition_dim": 1, "partition_stride": 2})):
    without_bytes(edited(Model(tp=2), attrs=lambda cut, a=attrs: a if cut == "columns" else Model.attrs(Model(tp=2), cut)), part, "a master that says it is " + what)
by_rank("another number of layers", edited(Model(tp=2, num_layers=2), optimizer=None), "but args.num_layers is 2", contradicts=True)
by_rank("no args", edited(Model(tp=2), edit_file=lambda r, v: v.pop("args"), optimizer=None), "args")
by_rank("no vocabulary size", edited(Model(tp=2, padded_vocab_size=16), edit_file=lambda r, v: v["args"].row[2].pop("padded_vocab_size"), optimizer=None),
        "args do not record the full length")
by_rank("old order of queries", edited(Model(tp=2), old=True, optimizer=None, version=1.0), "checkpoint_version is 1")
by_rank("attributes that contradict the name", edited(Model(tp=2), attrs=lambda cut: {"tensor_model_parallel": True, "partition_dim": 1, "partition_stride": 1}
                                                      if cut == "rows" else Model.attrs(Model(tp=2), cut)), "by its master's attributes along 1", contradicts=True)

aside()
extra_states()
beside_the_model()
settings()
presentations()
pairs()

# ---- masters without names ----


def other_master(rank, value):
    if rank[0] == 1:
        masters = value["optimizer"]["fp32_from_fp16_params"][0]
        masters[2] = Mem(masters[2].t.shape, range(0x3f800000, 0x3f800000 + masters[2].t.storage.n)).torch()


def alike(rank, model):
    """Two parameters of one shape and the same bytes, of which the optimizer has one."""
    del rank
    for n in ("pre_mlp_layernorm", "input_layernorm"):
        model[f"decoder.layers.0.{n}.weight"] = Mem((8,), [0x3f80] * 8, "bf16").torch()


def drop_one(rank, value):
    del rank
    o = value["optimizer"]
    masters = o["fp32_from_fp16_params"][1]
    ones = [i for i, m in enumerate(masters) if len(getattr(m, "t", m).shape) == 1]
    masters[:] = [Mem((8,), [0x3f800000] * 8).torch()]
    o["optimizer"]["param_groups"][1]["params"] = [len(o["optimizer"]["param_groups"][0]["params"])]
    assert ones


unnamed("a master that rounds to no weight", edited(Model(tp=2), edit_file=other_master), "does not round to any weight of its shape")
without_bytes(edited(Model(), edit=alike, edit_file=drop_one), "as well as", "a master that fits two weights", want_root=True, contradicts=False)


def numbers(rank, value):
    del rank
    del value["optimizer"]["fp32_from_fp16_params"]


got = tree(edited(Model(tp=2), edit_file=numbers).files())[0]
check("states without masters keep their numbers", ("mp_rank_00/optim/exp_avg", "0") in got and not any(k[0].startswith("optim/") for k in got),
      sorted(k for k in got if "optim" in k[0])[:4])


def states(change):
    """change(state) of each parameter's states on rank 1, which are those of rank 0 otherwise."""
    def edit(rank, value):
        for state in value["optimizer"]["optimizer"]["state"].values():
            change(state) if rank[0] == 1 else None
    return edit


def steps(first, second=None):
    """Steps that are numbers, as torch.optim kept them until 1.11."""
    def edit(rank, value):
        for state in value["optimizer"]["optimizer"]["state"].values():
            state["step"] = second if rank[0] == 1 and second is not None else first
    return edit


for value, row in ((7, ("i64", "", struct.pack("<q", 7).hex())), (2.5, ("f64", "", struct.pack("<d", 2.5).hex()))):
    model = edited(Model(tp=2), edit_file=steps(value))
    joins(f"steps that are numbers, {value}", model)
    got = tree(model.files())[0]
    check(f"step {value} is each parameter's", {got.get(("optim/step", n)) for s, n in model.expected() if s == "optim/exp_avg"} == {row}, sorted(got)[:4])
EMB = '"embedding.word_embeddings.weight"'
for what, part, change in (
        ("another step", f"step of {EMB} in mp_rank_01 differs from the one in mp_rank_00", steps(7, 8)),
        ("a step of another kind", f"step of {EMB} in mp_rank_01 differs in dtype or dimensions from the one in mp_rank_00", states(lambda s: s.update(step=2))),
        ("a state that one rank lacks", f"{EMB} has a different master or different states in mp_rank_01 and in mp_rank_00", states(lambda s: s.pop("exp_avg"))),
        ("a state of another name", f"{EMB} has a different master or different states in mp_rank_01 and in mp_rank_00",
         states(lambda s: s.update(momentum=s.pop("exp_avg")))),
):
    unnamed(what, edited(Model(tp=2), edit_file=change), part)
refused("masters too many", edited(Model(tp=2), edit_file=lambda r, v: v["optimizer"]["fp32_from_fp16_params"].__setitem__(0, [Mem((2,), [1, 2]).torch()] * 40)).files(),
        "mp_rank_00/model_optim_rng.pt: fp32_from_fp16_params[0] has 40 masters, but the model only 12 tensors")


def buffers(change, second=None):
    """The only buffer of both ranks, after change(types, values), and a second one."""
    model = edited(Model(tp=2), optimizer="flat")
    files = model.files()
    for t in (0, 1):
        types = files[f"mp_rank_0{t}/distrib_optim.pt"][0]
        change(types, types[makelegacy.BF16, makelegacy.FLOAT32])
        files[f"mp_rank_0{t}/distrib_optim.pt"].update({} if second is None else {1: second})
    return tree(files)


class Twins(Model):
    """Two layers hold the same, and the buffer one of them."""

    def tensors(self):
        for place, name, full_name, cut, full, expert in super().tensors():
            yield place, name, full_name, cut, makelegacy.fresh(name.replace("layers.1", "layers.0"), full.shape), expert

    def flat(self, rows):
        return super().flat([r for r in rows if ".layers.1." not in r[1]])


for what, part, change in (
        ("no masters", "it has no fp32 masters", lambda types, v: v.pop("param")),
        ("masters that are no vector", "its masters are not one vector of at least numel_unpadded elements", lambda types, v: v.update(param=Mem((2, 2), [0] * 4).torch())),
        ("more elements than there are", "its masters are not one vector of at least numel_unpadded elements", lambda types, v: v.update(numel_unpadded=1 << 40)),
        ("two types", "it holds several dtypes, or is not coalesced", lambda types, v: types.update({(makelegacy.FLOAT32, makelegacy.FLOAT32): v})),
        ("a chunk too many", "buffer 1 of optimizer 0: the save does not record the virtual pipeline chunk it belongs to", lambda types, v: None),
):
    got, notes, err = buffers(change, {} if what == "a chunk too many" else None)
    check(f"a buffer with {what} has no map", not err and any("mp_rank_00/distrib_optim.pt: " in n and part in n for n in notes) and
          ("", EMB[1:-1]) in got and not any(k[0].startswith("optim/") for k in got), f"{err} {notes}")
got, notes, err = tree(edited(Twins(layers=[[2]]), optimizer="flat").files())
check("two orders of a buffer", not err and any("the masters round to the weights in more than one order of the parameters" in n for n in notes) and
      not any(k[0].startswith("optim/") for k in got), f"{err} {notes}")


def one_byte(at):
    """One byte of a master in the flat buffer of rank 1."""
    model = edited(Model(tp=2, pp=2), optimizer="flat")
    files = model.files()
    data = files["mp_rank_01_001/distrib_optim.pt"][0][(makelegacy.BF16, makelegacy.FLOAT32)]["param"].storage
    at %= len(data.data)
    data.data = data.data[:at] + bytes([data.data[at] ^ 0x40]) + data.data[at + 1:]
    return model, tree(files)


model = edited(Model(tp=2), optimizer="flat")
files = model.files()
files["mp_rank_01/distrib_optim.pt"][0][(makelegacy.BF16, makelegacy.FLOAT32)]["numel_unpadded"] = 0
got, notes, err = tree(files)
check("a buffer that says that it is empty has no map", not err and any("by numel_unpadded it is empty" in n for n in notes) and
      not any(k[0].startswith("optim/") for k in got), f"{err} {notes}")
for key, value in (("exp_avg", Mem((64,), [0] * 64).torch()), ("exp_avg_sq", Mem((2, 2), [0] * 4).torch())):
    files = edited(Model(tp=2), optimizer="flat").files()
    for t in (0, 1):
        files[f"mp_rank_0{t}/distrib_optim.pt"][0][(makelegacy.BF16, makelegacy.FLOAT32)][key] = value
    got, notes, err = tree(files)
    check(f"{key} of another length than the masters", not err and any(f"{key} is not one vector of" in n for n in notes) and
          not any(k[0].startswith("optim/") for k in got), f"{err} {notes}")
for at in (3, -1):
    model, (got, notes, err) = one_byte(at)
    want = model.expected()
    stage0 = [k for k in want if "layers.0." in k[1] or "embedding" in k[1]]
    stage1 = [k for k in want if k not in stage0]
    ok = all(got.get(k) == want[k] for k in stage0) and \
        all(k not in got if k[0].startswith("optim") else k[0] == "stored" or got[k][2] == want["stored", k[1]][2] for k in stage1)
    check(f"byte {at} of a buffer: that buffer alone has no map", not err and ok and any("mp_rank_01_001/distrib_optim.pt: buffer 0" in n for n in notes), f"{err} {notes}")

# ---- another rank's file in a folder ----


def exchanged(model, moves):
    """The files of these folders are those of others."""
    files = model.files()
    return {**files, **{a + "/" + k.split("/")[1]: v for a, b in moves.items() for k, v in files.items() if k.startswith(b + "/")}}


def not_joined(name, files, *parts):
    refused(name + ": refused", files, *parts)
    got, notes, err = tree(files, "-d")
    check(name, not err and not any(k[0] in ("", "stored") for k in got) and any(all(p in n for p in parts) for n in notes), f"{err} {notes}")


files = {k: v for k, v in exchanged(edited(Model(tp=2, pp=2), optimizer=None), {"mp_rank_01_001": "mp_rank_00_000"}).items() if not k.startswith("mp_rank_01_000")}
got, notes, err = tree(files, "-d")
check("a folder copied over another, and one that is missing", not err and got and any("mp_rank_00_000 and mp_rank_01_001 hold the same bytes" in n for n in notes), (err, notes))


def numbered(rank, value):
    """args.rank: processes count along the tensor axis first; two data-parallel ones."""
    value["args"].row[2]["rank"] = rank[0] + 2 * 2 * rank[1]


not_joined("a folder copied over its neighbour", exchanged(edited(Model(tp=2), optimizer=None), {"mp_rank_01": "mp_rank_00"}),
           "mp_rank_00 and mp_rank_01 hold the same bytes")
not_joined("a stage copied over another", exchanged(edited(Model(pp=3), optimizer=None), {"mp_rank_00_002": "mp_rank_00_001"}),
           "mp_rank_00_001 and mp_rank_00_002 hold the same bytes")
not_joined("an expert rank copied over another", exchanged(edited(Model(ep=2, **MOE), optimizer=None), {"mp_rank_00_001": "mp_rank_00_000"}),
           "hold the same bytes")
not_joined("the first stage and the last exchanged", exchanged(edited(Model(pp=2), optimizer=None), {"mp_rank_00_001": "mp_rank_00_000", "mp_rank_00_000": "mp_rank_00_001"}),
           "embedding.word_embeddings.weight", "not on the first stage")
not_joined("the last stage and one before it exchanged", exchanged(edited(Model(pp=3), optimizer=None), {"mp_rank_00_001": "mp_rank_00_002", "mp_rank_00_002": "mp_rank_00_001"}),
           "comes after", "decoder.final_layernorm.weight", "mp_rank_00_001")
not_joined("tensor ranks exchanged, by args", exchanged(edited(Model(tp=2), optimizer=None, edit_file=numbered), {"mp_rank_01": "mp_rank_00", "mp_rank_00": "mp_rank_01"}),
           "process 1 wrote it", "mp_rank_00")
not_joined("inner stages exchanged, by args", exchanged(edited(Model(pp=4), optimizer=None, edit_file=numbered), {"mp_rank_00_001": "mp_rank_00_002", "mp_rank_00_002": "mp_rank_00_001"}),
           "mp_rank_00_001 was written by process 8 and mp_rank_00_002 by 4")
joins("processes as they should be", edited(Model(tp=2, pp=2), edit_file=numbered))
joins("only one rank says which process it was", edited(Model(tp=2, pp=2), edit_file=lambda r, v: v["args"].row[2].update(rank=0) if r[:2] == (0, 0) else None))
joins("numbers among the weights", edited(Model(tp=2), edit=lambda r, m: m.update({"count": 7, "decoder.layers.0.a._extra_state": 7})))
joins("attributes and slots", edited(Model(tp=2), attrs=lambda cut: (Model.attrs(Model(tp=2), cut), None) if cut != "copy" else None))
joins("states of no parameter", edited(Model(tp=2), edit_file=lambda r, v: v["optimizer"]["optimizer"]["state"].update({"x": {"step": 1}, 99: 5})))
joins("states with more than tensors", edited(Model(tp=2), edit_file=lambda r, v: v["optimizer"]["optimizer"]["state"][0].update({5: 1, "name": "adam"})))
joins("one process that wrote all", edited(Model(tp=2, pp=2), edit_file=lambda r, v: v["args"].row[2].update(rank=0)))
joins("stages of experts, numbered", edited(Model(tp=2, pp=2, ep=2, etp=1, **MOE), edit_file=lambda r, v: v["args"].row[2].update(rank=r[0] + 4 * r[1] + 0 * r[2])))
same = edited(Model(tp=2), optimizer=None, edit=lambda r, m: [m.update({k: Mem(t.shape, [0x3f80] * t.storage.n, "bf16").torch()}) for k, t in list(m.items())])
got, notes, err = tree(same.files())
check("a model of ones", not err and not notes and got["", "embedding.word_embeddings.weight"][1] == "16,8", f"{err} {notes}")

# ---- refused ----


def mixed(**other):
    files = Model(tp=2).files()
    files["mp_rank_01/model_optim_rng.pt"] = edited(Model(tp=2), **other).files()["mp_rank_01/model_optim_rng.pt"]
    return files


def lacks(path, model=None):
    files = (model or Model(tp=2, pp=2)).files()
    files.pop(path)
    return files


refused("two iterations mixed", mixed(iteration=11), "iteration", "11", "10", "mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt")
files = Model(tp=2, seed=3).files()
files["mp_rank_01/model_optim_rng.pt"] = Model(tp=2, seed=7).files()["mp_rank_01/model_optim_rng.pt"]
refused("two runs mixed", files, "args.seed")
refused("a missing rank", lacks("mp_rank_01_000/model_optim_rng.pt"), "mp_rank_01_000/model_optim_rng.pt", "is missing", "2 tensor, 2 pipeline")
flat = edited(Model(tp=2, pp=2), optimizer="flat")
refused("states of a distributed optimizer that are missing", lacks("mp_rank_01_000/distrib_optim.pt", flat), "mp_rank_01_000/distrib_optim.pt is missing",
        "mp_rank_00_000 has one")
stub = edited(Model(tp=2, pp=2), optimizer="flat", edit_file=lambda r, v: v.pop("optimizer") if r[0] == 1 else None)
frozen = stub.files()
for name in [n for n in frozen if n.startswith("mp_rank_01_") and n.endswith("distrib_optim.pt")]:
    frozen.pop(name)
got, notes, err = tree(frozen)
check("ranks that train nothing have no such file", not err and not any("is missing" in n for n in notes) and got, f"{err} {notes}")
got, notes, err = tree(lacks("mp_rank_01_000/distrib_optim.pt", flat), "-d")
check("degraded: weights without those states", not err and any("distrib_optim.pt is missing" in n for n in notes) and
      all(got.get(k, ())[1:] == v[1:] for k, v in in_ranks(flat).items()), f"{err} {notes}")
bare = edited(Model(tp=2, pp=2), optimizer=None, edit_file=lambda r, v: v.pop("args")).files()
bare.pop("mp_rank_01_000/model_optim_rng.pt")
refused("a missing rank, without args", bare, "mp_rank_01_000/model_optim_rng.pt", "is missing, although by the names of the folders there are 2 tensor, 2 pipeline and 1 expert")
refused("a missing expert rank", lacks("mp_rank_01_001/model_optim_rng.pt", Model(tp=2, ep=2, etp=1, **MOE)), "mp_rank_01_001")
files = Model(tp=2, ep=2, etp=1, **MOE).files()
files["mp_rank_01_000/model_optim_rng.pt"] = files["mp_rank_00_000/model_optim_rng.pt"]
refused("a rank that does not save", files, "mp_rank_01_000", "belongs to no rank that saves")
files = Model(tp=2).files()
files["mp_rank_02/model_optim_rng.pt"] = files["mp_rank_00/model_optim_rng.pt"]
refused("a rank too many", files, "mp_rank_02", "by args there are 2")
refused("a pipeline rank too many", {**Model(pp=2).files(), "mp_rank_00_002/model_optim_rng.pt": Model(pp=2).files()["mp_rank_00_000/model_optim_rng.pt"]},
        "mp_rank_00_002", "the folder is of pipeline rank 2, but by args there are 2")
refused("an expert rank too many", {**Model(ep=2, **MOE).files(), "mp_rank_00_002/model_optim_rng.pt": Model(ep=2, **MOE).files()["mp_rank_00_000/model_optim_rng.pt"]},
        "mp_rank_00_002", "the folder is of expert rank 2, but by args there are 2")
refused("two folders of one rank", {**Model(tp=2).files(), "mp_rank_1/model_optim_rng.pt": Model(tp=2).files()["mp_rank_01/model_optim_rng.pt"]},
        "are of the same rank: the saves of two runs are mixed", '"mp_rank_01"', '"mp_rank_1"')
refused("a model that is a list", edited(Model(tp=2), edit_file=lambda r, v: v.update(model=[1]) if r[0] == 1 else None).files(),
        'mp_rank_01/model_optim_rng.pt: "model" does not map names to tensors')
refused("a file that is a list", {**Model(tp=2).files(), "mp_rank_01/model_optim_rng.pt": [1]}, "mp_rank_01/model_optim_rng.pt: it is not a dict")
refused("a master that is no tensor", edited(Model(tp=2), edit_file=lambda r, v: v["optimizer"]["fp32_from_fp16_params"][1].__setitem__(0, None)).files(),
        "mp_rank_00/model_optim_rng.pt", "optimizer.fp32_from_fp16_params[1][0]")
refused("three numbers", {k.replace("mp_rank_00_000", "mp_rank_00_000_000"): v for k, v in Model(tp=2, pp=2).files().items()}, "mp_rank_00_000_000",
        "3 numbers")
refused("a file that is damaged", {**Model(tp=2).files(), "mp_rank_01/model_optim_rng.pt": b"PK\3\4 and no more"}, "mp_rank_01/model_optim_rng.pt")
refused("no model in it", edited(Model(tp=2), edit_file=lambda r, v: v.pop("model")).files(), 'neither "model" nor "model0"')
refused("a chunk that is missing", edited(Model(pp=2, vp=3), edit_file=lambda r, v: v.pop("model1"), optimizer=None).files(), "mp_rank_00_000/model_optim_rng.pt", '"model2"')
refused("a chunk beside the model", edited(Model(tp=2), edit_file=lambda r, v: v.update(model0=v["model"]), optimizer=None).files(), '"model0"', 'and also "model"')
refused("an impossible size", Model(tp=2, hidden_size=8, ffn_hidden_size=12, num_layers=1, kv_channels=-1).files(), "kv_channels is negative")
refused("a mesh beyond bounds", {k.replace("_00", "_00_000", 1): v for k, v in Model(expert_model_parallel_size=1 << 20, expert_tensor_parallel_size=1 << 20, num_experts=4)
                                 .files().items()}, "by args there are more than")
refused("an expert's tensor group larger than all", Model(tp=1, ep=1, etp=2, **MOE).files(), "two ranks write")

# ---- degraded ----

model = edited(Model(tp=2, pp=2), optimizer=None)
got, notes, err = tree(lacks("mp_rank_01_000/model_optim_rng.pt", model), "-d")
want = {k: v for k, v in in_ranks(model).items() if k[0] != "mp_rank_01_000"}
check("degraded: the ranks that are left", not err and all(got.get(k) == v for k, v in want.items()) and not any(k[0] == "" for k in got) and
      any("is missing" in n for n in notes), f"{err} {notes}")
got, notes, err = tree({**model.files(), "mp_rank_01_000/model_optim_rng.pt": b"PK\3\4 and no more"}, "-d")
check("degraded: a rank that cannot be read", not err and all(got.get(k) == v for k, v in want.items()) and not any(k[0] == "" for k in got),
      f"{err} {notes}")
done()
