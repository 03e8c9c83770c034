# SPDX-License-Identifier: Apache-2.0
"""make_megatron.py OUT: torch_dist checkpoints of small GPT models, written by the installed Megatron-core on CPU.

The truth is put together from the live model and its optimizer: every rank says which box of which tensor each of its
values is, in Megatron's own words (ShardedTensor), and keeps the values beside the checkpoint for rank 0 to join."""
import os
import re
import sys

import megatron.core
import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.mapping import apply_factories
from megatron.core.dist_checkpointing.optimizer import get_param_id_to_sharded_param_map, make_sharded_optimizer_tensor
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import ChainedOptimizer, OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import distributed as dist
from torch.overrides import TorchFunctionMode

import decoders_megatron
import truth

# title: (tensor, pipeline, expert ranks, how the optimizer is sharded, None = not at all, more of the model)
GLU = {"gated_linear_unit": True}
MOE = {"num_moe_experts": 4, "moe_router_load_balancing_type": "aux_loss", "add_bias_linear": False}
CASES = {
    1: {
        "alone": (1, 1, 1, "dp_reshardable", GLU),
    },
    2: {
        "tp2-reshardable": (2, 1, 1, "dp_reshardable", GLU),
        "tp2-plain": (2, 1, 1, None, {}),
        "dp2-reshardable": (1, 1, 1, "dp_reshardable", {}),
        "dp2-fully": (1, 1, 1, "fully_reshardable", GLU),
        "dp2-zero": (1, 1, 1, "dp_zero_gather_scatter", GLU),
        "pp2-reshardable": (1, 2, 1, "dp_reshardable", {}),
        "ep2-reshardable": (1, 1, 2, "dp_reshardable", MOE),
        "ep2-fully": (1, 1, 2, "fully_reshardable", MOE),
    },
    4: {
        "tp2pp2-reshardable": (2, 2, 1, "dp_reshardable", GLU),
        "tp2dp2-fully": (2, 1, 1, "fully_reshardable", GLU),
    },
}
LAYERS, STEPS = 4, 2


class OnCpu(TorchFunctionMode):
    """Megatron names CUDA where any device does."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def without_cuda():
    """Its optimizers ask for the device of a parameter by the name of its type."""
    names = {torch.float32: "torch.cuda.FloatTensor", torch.bfloat16: "torch.cuda.BFloat16Tensor"}
    kind = torch.Tensor.type
    torch.Tensor.type = lambda t, *to, **how: kind(t, *to, **how) if to or how else names.get(t.dtype, "torch.Tensor")
    torch.Tensor.cuda = lambda t, *_, **__: t
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_, **__: None
    torch.cuda.FloatTensor = torch.FloatTensor
    OnCpu().__enter__()


def build(sharding, more):
    config = TransformerConfig(num_layers=LAYERS, hidden_size=16, num_attention_heads=4, ffn_hidden_size=40, bf16=True,
                               use_cpu_initialization=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
                               tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
                               pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(),
                               expert_model_parallel_size=parallel_state.get_expert_model_parallel_world_size(), **more)
    spec = get_gpt_layer_local_spec(num_experts=more.get("num_moe_experts"), moe_grouped_gemm=False)
    model = GPTModel(config, spec, vocab_size=48, max_sequence_length=16,
                     pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=False)
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=sharding is not None)
    model = DistributedDataParallel(config, ddp, Float16Module(config, model))
    how = OptimizerConfig(optimizer="adam", lr=1e-2, bf16=True, params_dtype=torch.bfloat16,
                          use_distributed_optimizer=sharding is not None)
    return model, get_megatron_optimizer(how, [model])


def seed(name, step):
    """All copies of a parameter get the same gradient, and no two parameters do."""
    return torch.Generator().manual_seed(sum(name.encode()) * 7 + step)


def train(model, optimizer):
    for step in range(STEPS):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        for name, p in model.named_parameters():
            p.main_grad.copy_(torch.randn(p.main_grad.shape, generator=seed(name, step)))
        optimizer.step()


def chain(optimizer):
    return optimizer.chained_optimizers if isinstance(optimizer, ChainedOptimizer) else [optimizer]


def flat_pieces(optimizer):
    """A distributed optimizer's (parameter, first element, {state: flat piece}): what this data rank keeps of it."""
    for p, (group, order) in optimizer.model_param_group_index_map.items():
        main = optimizer.optimizer.param_groups[group]["params"][order]
        state = optimizer.optimizer.state[main]
        if main.dtype != torch.float32:
            raise TypeError("a master is not float32")
        yield p, optimizer._get_model_param_range_map(p)["param"].start, {
            "param": main, "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]}


def whole_pieces(optimizer):
    for models, masters in zip(optimizer.float16_groups, optimizer.fp32_from_float16_groups):
        for p, main in zip(models, masters):
            state = optimizer.optimizer.state[main]
            yield p, 0, {"param": main, "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]}


def boxes(sharded):
    """[(key, prepended axes, global shape, offset, values)] of everything in a sharded state dict."""
    out = []

    def add(value):
        if isinstance(value, dict):
            for v in value.values():
                add(v)
        elif isinstance(value, (list, tuple)):
            for v in value:
                add(v)
        elif isinstance(value, dist_checkpointing.ShardedTensor):
            out.append((value.key, value.prepend_axis_num, value.global_shape, value.global_offset,
                        value.data.detach().clone()))
    add(sharded)
    return out


def state_pieces(model, optimizer, distributed):
    """(parameter's name, {state: this rank's (first, flat values)}): joined over the data ranks by rank 0."""
    names = {p: n for n, p in model.module.module.named_parameters()}
    for one in chain(optimizer):
        for p, first, states in flat_pieces(one) if distributed else whole_pieces(one):
            yield names[p], p.shape, {k: (first, v.detach().clone().flatten()) for k, v in states.items()}


def keep(path, rank, model, optimizer, distributed):
    """What rank 0 needs of this rank: boxes of weights, pieces of states, and how a state is cut into boxes."""
    bare = model.module.module
    sharded = bare.sharded_state_dict(prefix="")
    weights = sharded.copy()
    apply_factories(weights)
    place = (parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank(),
             parallel_state.get_expert_model_parallel_rank())
    torch.save({"place": place, "weights": boxes(weights),
                "states": list(state_pieces(model, optimizer, distributed))}, f"{path}.rank{rank}")


def place_states(model, pieces):
    """The boxes of one rank's parameters' states: Megatron is asked where a whole one goes."""
    bare = model.module.module
    params = dict(bare.named_parameters())
    known = get_param_id_to_sharded_param_map(bare.sharded_state_dict(prefix=""), params.values())
    ids = {n: i for i, n in enumerate(params)}
    out = {}
    for name, states in pieces.items():
        for state, values in states.items():
            made = {"x": make_sharded_optimizer_tensor(known[ids[name]], values, prefix=state)}
            apply_factories(made)
            out.setdefault(state, []).extend((key[len(state) + 1:], *box) for key, *box in boxes(made))
    return out


def join(listed):
    """{key: (tensor, prepended axes)} of boxes; a box that several ranks hold must be the same in all."""
    out, met = {}, {}
    for key, axes, shape, offset, data in listed:
        full = out.setdefault(key, (torch.zeros(shape, dtype=data.dtype), axes))[0]
        mask = met.setdefault(key, torch.zeros(shape, dtype=torch.bool))
        at = tuple(slice(o, o + 1) for o in offset[:axes]) + \
            tuple(slice(o, o + n) for o, n in zip(offset[axes:], data.shape))
        data = data.reshape(full[at].shape)
        if mask[at].any() and not torch.equal(full[at], data):
            raise ValueError(f"{key}: two ranks hold different values")
        full[at], mask[at] = data, True
    if not all(m.all() for m in met.values()):
        raise ValueError("a tensor has holes")
    return out


def by_layer(joined):
    """{name: tensor}: one for each layer and expert."""
    out = {}
    for key, (full, axes) in joined.items():
        if axes == 0:
            out[key] = full
        for i in range(full.shape[0] if axes else 0):
            name = re.sub(r"(^|\.)layers\.", lambda m, i=i: f"{m[0]}{i}.", key, count=1)
            if axes == 1:
                out[name] = full[i]
            for e in range(full.shape[1] if axes == 2 else 0):
                out[name.replace("experts.experts.", f"experts.experts.{e}.")] = full[i, e]
    return out


def joined_states(model, path, world):
    """States of all ranks: flat pieces of the ranks of one place make a whole local parameter, those boxes of the tensor."""
    ranks = [torch.load(f"{path}.rank{r}", weights_only=False) for r in range(world)]
    mine = ranks[dist.get_rank()]["place"]
    local = {}
    for rank in ranks:
        for name, shape, states in rank["states"]:
            if rank["place"] != mine and not ("experts" not in name and rank["place"][:2] == mine[:2]):
                continue
            for state, (first, values) in states.items():
                whole = local.setdefault(name, {}).setdefault(state, torch.full(shape, float("nan")))
                whole.view(-1)[first:first + values.numel()] = values
    return place_states(model, local)


def one(rank, world, out, case, parts, sharding, more):
    tensor, pipeline, expert = parts
    parallel_state.initialize_model_parallel(tensor, pipeline, expert_model_parallel_size=expert)
    path = os.path.join(out, case, "ckpt")
    if rank == 0:
        truth.folder(out, case)
    torch.manual_seed(1)
    model, optimizer = build(sharding, more)
    train(model, optimizer)
    sharded = model.module.module.sharded_state_dict(prefix="")
    state = {"iteration": STEPS, "checkpoint_version": 3.0, "model": sharded}
    how = {"metadata": {"distrib_optim_sharding_type": sharding}} if sharding else {}
    state["optimizer"] = optimizer.sharded_state_dict(sharded, **how)
    dist.barrier()
    folder = os.path.join(path, f"iter_{STEPS:07d}")
    if rank == 0:
        os.mkdir(folder)
        with open(os.path.join(path, "latest_checkpointed_iteration.txt"), "w", encoding="utf-8") as f:
            f.write(str(STEPS))
    dist.barrier()
    dist_checkpointing.save(state, folder)
    side = os.path.join(out, case, "live")
    keep(side, rank, model, optimizer, sharding is not None)
    dist.barrier()
    torch.save(joined_states(model, side, world), f"{side}.states{rank}")
    dist.barrier()
    if rank == 0:
        weights = by_layer(join([b for r in range(world) for b in torch.load(f"{side}.rank{r}", weights_only=False)["weights"]]))
        states = [torch.load(f"{side}.states{r}", weights_only=False) for r in range(world)]
        sets = {s: by_layer(join([b for of in states for b in of.get(s, [])])) for s in ("param", "exp_avg", "exp_avg_sq")}
        truth.write(out, case, {"": sets["param"], "stored": weights, "optim/exp_avg": sets["exp_avg"],
                                "optim/exp_avg_sq": sets["exp_avg_sq"]})
    dist.barrier()
    parallel_state.destroy_model_parallel()


def work(rank, world, out):
    torch.set_num_threads(1)
    without_cuda()
    for title, (tensor, pipeline, expert, sharding, more) in CASES[world].items():
        case = f"megatron-{megatron.core.__version__}-{title}"
        try:
            one(rank, world, out, case, (tensor, pipeline, expert), sharding, more)
        except Exception:  # pylint: disable=broad-except
            if rank == 0:
                truth.failed(out, case)
            raise


def main():
    truth.watchdog()
    good = [truth.ranks(world, work, sys.argv[1]) for world in CASES]
    good.append(truth.ranks(2, decoders_megatron.work, sys.argv[1], without_cuda))
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
