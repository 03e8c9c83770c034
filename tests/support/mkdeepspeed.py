#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkdeepspeed.py DIR zero3|3d [--ranks R] [--layers N] …: what DeepSpeed 0.19.8 leaves of a Llama-like model of any size on any
number of ranks.  Elements are holes in the files, so that terabytes take little room; --values writes some that can be told
apart (see value()), for small models.

From other programs: zero3(dir, model(…), ranks), pipeline(dir, …).  The pickles are those of fixtures that DeepSpeed wrote,
key by key; a bf16 model, Adam, two groups (with and without weight decay), as the Trainer of transformers makes them."""
import argparse
import array
import collections
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sparsefile import Saver, save  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Call, Pickler, Storage, Tensor, named, rebuild  # noqa: E402 pylint: disable=wrong-import-position

VERSION, STEP = "0.19.8", 1000


# ---- values ----------------------------------------------------------------------------------------------

def on(device):
    """Options of the pickle of a process on that device."""
    return {"pickler": type("On", (Pickler,), {"device": device})}


def hole(n, cls="FloatStorage", shape=None):
    return Tensor(shape=(n,) if shape is None else shape, storage=Storage(data=b"", n=n, cls=cls))


def number(v):
    return Tensor(v, shape=())


def flat(n, data=b"", ds_id=None):
    """A flat fp32 vector that wants gradients."""
    args = Storage(data=data, n=n), 0, (n,), (1,), True, collections.OrderedDict()
    if ds_id is None:
        return Call("torch._utils", "_rebuild_tensor_v2", *args)
    return Call("torch._tensor", "_rebuild_from_type_v2", rebuild, named("torch", "Tensor"), args, {"ds_id": ds_id})


def size(shape):
    return Call("torch", "Size", tuple(shape))


def instance(where, name, **state):
    """An object as copyreg makes it: NEWOBJ and BUILD"""
    o = object.__new__(named(where, name))
    o.__dict__.update(state)
    return o


def stage(n):
    return Call("deepspeed.runtime.zero.config", "ZeroStageEnum", n)


def numel(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def value(param, x, kind=0):
    """Element x of parameter number `param`: exact in float32.  kind: 0 master, 1 exp_avg, 2 exp_avg_sq"""
    return float((param * 7919 + x) % (1 << 20) + kind * (1 << 20))


def values(param, first, n, kind):
    return array.array("f", [value(param, first + x, kind) for x in range(n)])


# ---- models ----------------------------------------------------------------------------------------------

def model(layers=80, hidden=8192, ffn=28672, kv=1024, vocab=32000):
    """[(name, shape)] as transformers' LlamaForCausalLM has them; the defaults are those of 70B."""
    out = [("model.embed_tokens.weight", (vocab, hidden))]
    for i in range(layers):
        at = f"model.layers.{i}."
        out += [(at + "self_attn.q_proj.weight", (hidden, hidden)), (at + "self_attn.k_proj.weight", (kv, hidden)),
                (at + "self_attn.v_proj.weight", (kv, hidden)), (at + "self_attn.o_proj.weight", (hidden, hidden)),
                (at + "mlp.gate_proj.weight", (ffn, hidden)), (at + "mlp.up_proj.weight", (ffn, hidden)),
                (at + "mlp.down_proj.weight", (hidden, ffn)), (at + "input_layernorm.weight", (hidden,)),
                (at + "post_attention_layernorm.weight", (hidden,))]
    return out + [("model.norm.weight", (hidden,)), ("lm_head.weight", (vocab, hidden))]


# ---- what the files of all stages have ---------------------------------------------------------------------

def config(n_stage):
    return {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
            "zero_optimization": {"stage": n_stage}, "bf16": {"enabled": True}}


def model_states(module, shapes, buffers, shared, world, mp, pp, tp, n_stage, frozen=True):
    empty = collections.OrderedDict() if frozen else None
    return {"module": module, "buffer_names": buffers, "optimizer": None, "param_shapes": shapes,
            "frozen_param_shapes": empty, "shared_params": shared,
            "frozen_param_fragments": collections.OrderedDict() if frozen else None,
            "lr_scheduler": {"base_lrs": [1e-4, 1e-4], "last_epoch": STEP, "_step_count": STEP + 1, "_last_lr": [1e-4, 1e-4],
                             "lr_lambdas": [None, None]},
            "data_sampler": None, "random_ltd": None, "skipped_steps": 0, "global_steps": STEP,
            "global_samples": STEP * 4 * world, "dp_world_size": world, "mp_world_size": mp,
            "checkpoint_parallel_dimensions": {"pp_degree": pp, "tp_degree": tp}, "ds_config": config(n_stage),
            "ds_version": VERSION}


def groups_of_optimizer(n):
    return [{"weight_decay": 0.1 if i == 0 else 0.0, "lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-08, "amsgrad": False,
             "maximize": False, "foreach": None, "capturable": False, "differentiable": False, "fused": True,
             "decoupled_weight_decay": True, "params": p} for i, p in enumerate(n)]


def scaler():
    return instance("deepspeed.runtime.fp16.loss_scaler", "LossScaler", cur_scale=1.0, dynamic=False)


def begin(path):
    tag = os.path.join(path, f"global_step{STEP}")
    os.makedirs(tag)
    with open(os.path.join(path, "latest"), "w") as f:
        f.write(os.path.basename(tag))
    return tag


# ---- stage 3 -----------------------------------------------------------------------------------------------

def sub_groups(params, ranks, limit):
    """[[(number, name, shape)]] and which of them each group of the optimizer has.  Source: stage3.py,
    _create_fp16_sub_groups"""
    out, owned = [], []
    for group in ([p for p in enumerate(params) if len(p[1][1]) > 1], [p for p in enumerate(params) if len(p[1][1]) <= 1]):
        if not group:
            continue
        owned.append([])
        open_one, at = None, 0
        for i, (name, shape) in group:
            if open_one is None:
                open_one, at = [], 0
                owned[-1].append(len(out))
                out.append(open_one)
            open_one.append((i, name, shape))
            at += -(-numel(shape) // ranks)
            if at >= limit:
                open_one = None
    return out, owned


def slots(sub, rank, ranks, kind):
    """The elements of a sub group's vector on one rank; what is in nobody's slot is not a number."""
    out = array.array("f")
    for i, _, shape in sub:
        n = numel(shape)
        c = -(-n // ranks)
        have = max(0, min((rank + 1) * c, n) - rank * c)
        out += values(i, rank * c, have, kind) + array.array("f", [float("nan")] * (c - have))
    return out.tobytes()


def zero3(path, params, ranks, limit=10 ** 9, some=False, client=None):
    """A save of ZeRO stage 3.  some: with values; client(rank): the client state, of which all else is overwritten"""
    tag, saver = begin(path), Saver()
    subs, owned = sub_groups(params, ranks, limit)
    shapes = [collections.OrderedDict((name, size(shape)) for _, name, shape in sub) for sub in subs]
    length = [sum(-(-numel(shape) // ranks) for _, _, shape in sub) for sub in subs]

    def states(device, rank):
        module = collections.OrderedDict((name, hole(0, "BFloat16Storage")) for name, _ in params)
        module._metadata = collections.OrderedDict([("", {"version": 1}), ("model", {"version": 1}), ("lm_head", {"version": 1})])
        out = model_states(module, shapes, [], {}, ranks, 1, 1, 1, 3)
        out.update(client(rank) if client else {})
        return out, on(device)

    def optim(device, rank):
        def data(i, kind):
            return slots(subs[i], rank, ranks, kind) if some else b""
        state = {i: {"step": number(float(STEP)), "exp_avg": Tensor(shape=(n,), storage=Storage(data=data(i, 1), n=n)),
                     "exp_avg_sq": Tensor(shape=(n,), storage=Storage(data=data(i, 2), n=n))} for i, n in enumerate(length)}
        return {"optimizer_state_dict": {
            "zero_stage": stage(3), "loss_scaler": scaler(), "dynamic_loss_scale": False, "overflow": False,
            "partition_count": ranks,
            "optimizer_state_dict": {"state": state, "param_groups": groups_of_optimizer(owned)},
            "fp32_flat_groups": [flat(n, data(i, 0), f"{i}_{len(params) + i}") for i, n in enumerate(length)]},
            "ds_config": config(3), "ds_version": VERSION}, on(device)
    for r in range(ranks):
        device = f"cuda:{r % 8}"
        saver.save(("model", r if client else r % 8), lambda d=device, r=r: states(d, r),
                   os.path.join(tag, f"zero_pp_rank_{r}_mp_rank_00_model_states.pt"))
        saver.save(("optim", r if some else r % 8), lambda d=device, r=r: optim(d, r),
                   os.path.join(tag, f"bf16_zero_pp_rank_{r}_mp_rank_00_optim_states.pt"))
    return tag


# ---- pipeline x tensor x data, stage 1 ------------------------------------------------------------------------

ROW = [r"\d+.self_attention.dense.weight", r"\d+.mlp.dense_4h_to_h.weight"]
SAME = [r"\d+.input_layernorm.weight", r"\d+.post_attention_layernorm.weight", r"\d+.weight"]
SUBS = [r"\d+.mlp.dense_h_to_4h.weight"]
VOCAB = [r"\d+.word_embeddings.weight", r"\d+.lm_head.weight"]


def pipeline_layers(layers, hidden, ffn, kv, vocab, tp):
    """[(layer, [(name, shape on one tensor rank)])] as Megatron-DeepSpeed's GPTModelPipe numbers them: 0 and the one behind
    the blocks are functions."""
    block = [("input_layernorm.weight", (hidden,)), ("self_attention.query_key_value.weight", ((hidden + 2 * kv) // tp, hidden)),
             ("self_attention.dense.weight", (hidden, hidden // tp)), ("post_attention_layernorm.weight", (hidden,)),
             ("mlp.dense_h_to_4h.weight", (2 * ffn // tp, hidden)), ("mlp.dense_4h_to_h.weight", (hidden, ffn // tp))]
    return [(1, [("word_embeddings.weight", (vocab // tp, hidden))])] + [(2 + i, block) for i in range(layers)] + \
        [(3 + layers, [("weight", (hidden,))]), (4 + layers, [("lm_head.weight", (vocab // tp, hidden))])]


def partitions(params, dp):
    """The length of an untrimmed one, and what each rank maps: [(name, start, numel)]"""
    total = sum(numel(s) for _, s in params)
    each = -(-total // (2 * dp)) * 2
    out, at = [[] for _ in range(dp)], 0
    for name, shape in params:
        end = at + numel(shape)
        for r in range(at // each, -(-end // each)):
            lo, hi = max(at, r * each), min(end, (r + 1) * each)
            out[r].append((name, lo - r * each, hi - lo))
        at = end
    return total, each, out


def pipeline(path, pp=8, tp=8, dp=16, layers=80, hidden=8192, ffn=28672, kv=1024, vocab=32000):
    """A save of ZeRO stage 1 by pp x tp x dp ranks of a model whose vocabulary was padded, and which says how it is cut."""
    tag, unit = begin(path), 128 * tp
    padded = -(-vocab // unit) * unit
    all_layers = pipeline_layers(layers, hidden, ffn, kv, padded, tp)
    info = {"universal_checkpoint_version": 0.2, "padded_vocab_size": padded, "original_vocab_size": vocab,
            "pipeline_replicated_parameter_patterns": [], "tp_replicated_parameter_patterns": SAME,
            "vocabulary_parameter_patterns": VOCAB, "parameter_to_average_patterns": [],
            "parameter_with_row_parallelism_patterns": ROW, "parameter_with_2_sub_params_cat_dim_0": SUBS}
    saver, per = Saver(), -(-len(all_layers) // pp)
    for n, params in all_layers:
        for t in range(tp):
            saver.save(("layer", n), lambda p=params: (collections.OrderedDict(
                (k, hole(numel(s), "BFloat16Storage", s)) for k, s in p), on("cuda:0")),
                       os.path.join(tag, f"layer_{n:02d}-model_{t:02d}-model_states.pt"))
    for s in range(pp):
        mine = [(f"{n}.{k}", shape) for n, params in all_layers[s * per:(s + 1) * per] for k, shape in params]
        split = [g for g in ([p for p in mine if len(p[1]) > 1], [p for p in mine if len(p[1]) <= 1]) if g]
        shapes = [collections.OrderedDict((k, size(shape)) for k, shape in g) for g in split]
        parts = [partitions(g, dp) for g in split]

        def optim(r, parts=parts, split=split):
            cut = [max(0, min(total - r * each, each)) for total, each, _ in parts]
            state = {g: {"step": number(float(STEP)), "exp_avg": hole(each), "exp_avg_sq": hole(each)}
                     for g, (_, each, _) in enumerate(parts)}
            maps = [collections.OrderedDict((k, instance("deepspeed.utils.tensor_fragment", "fragment_address", numel=n, start=at))
                                            for k, at, n in have[r]) for _, _, have in parts]
            return {"optimizer_state_dict": {
                "loss_scaler": scaler(), "dynamic_loss_scale": False, "overflow": False, "clip_grad": 1.0,
                "base_optimizer_state": {"state": state, "param_groups": groups_of_optimizer([[g] for g in range(len(split))])},
                "single_partition_of_fp32_groups": [flat(n) for n in cut], "zero_stage": stage(1),
                "group_paddings": [max(0, min(each, (r + 1) * each - total)) for total, each, _ in parts],
                "param_alignment_paddings": [[0] * len(g) for g in split], "partition_count": [dp] * len(split),
                "ds_version": VERSION, "param_slice_mappings": maps},
                "ds_config": config(1), "ds_version": VERSION}, on("cuda:0")
        for t in range(tp):
            mp = s * tp + t
            saver.save(("model", s), lambda shapes=shapes: ({**model_states(None, shapes, [], {}, dp, pp * tp, pp, tp, 1, False),
                                                             "universal_checkpoint_info": info}, on("cuda:0")),
                       os.path.join(tag, f"mp_rank_{mp:02d}_model_states.pt"))
            for r in range(dp):
                saver.save(("optim", s, r), lambda r=r, optim=optim: optim(r),
                           os.path.join(tag, f"bf16_zero_pp_rank_{r}_mp_rank_{mp:02d}_optim_states.pt"))
    return tag


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dir")
    p.add_argument("kind", choices=("zero3", "3d"))
    p.add_argument("--ranks", type=int, default=64, help="of stage 3, or the data-parallel ones")
    p.add_argument("--pp", type=int, default=8)
    p.add_argument("--tp", type=int, default=8)
    p.add_argument("--layers", type=int, default=80)
    p.add_argument("--hidden", type=int, default=8192)
    p.add_argument("--ffn", type=int, default=28672)
    p.add_argument("--kv", type=int, default=1024)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--sub-group", type=int, default=10 ** 9)
    p.add_argument("--values", action="store_true")
    a = p.parse_args()
    if a.kind == "zero3":
        zero3(a.dir, model(a.layers, a.hidden, a.ffn, a.kv, a.vocab), a.ranks, a.sub_group, a.values)
    else:
        pipeline(a.dir, a.pp, a.tp, a.ranks, a.layers, a.hidden, a.ffn, a.kv, a.vocab)


if __name__ == "__main__":
    main()
