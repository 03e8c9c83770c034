# SPDX-License-Identifier: Apache-2.0
"""make_olmo.py OUT: checkpoints of OLMo-core's own checkpointer, FSDP2 on CPU, what its unshard tool makes of them, and saves of
other kinds of parallelism, optimizers and types, some written in the background."""
import os
import shutil
import sys

import torch
from olmo_core import version
from olmo_core.distributed.checkpoint import (UnshardStrategy, async_save_model_and_optim_state, save_model_and_optim_state,
                                              unshard_checkpoint)
from olmo_core.optim import Lion, SkipStepAdamW
from olmo_core.train.checkpoint import Checkpointer
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import decoders_olmo
import models
import truth

STEP = 3
# What the tool leaves of a save: title, whether the optimizer is among it, arguments, what to mount of it.
UNSHARDED = [
    ("one-file", True, {}, ""),
    ("safetensors", False, {"use_safetensors": True}, ""),
    ("per-tensor", False, {"unshard_strategy": UnshardStrategy.one_file_per_tensor()}, ""),
    ("chunked", False, {"unshard_strategy": UnshardStrategy.chunks(4096)}, ""),
]

# Bare saves: title, ranks, how it is parallel, element type, optimizer, whether it is saved in the background.
OTHERS = [
    ("hsdp-lion-bf16", 4, "hsdp", torch.bfloat16, lambda p: Lion(p, lr=1e-2), False),
    ("tp-fsdp-amsgrad", 4, "tp-fsdp", torch.float32, lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True), True),
    ("columns-skipstep", 2, "columns", torch.float32, lambda p: SkipStepAdamW(p, lr=1e-2), True),
    ("ddp-tied-sgd-f64", 3, "ddp", torch.float64, lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9), False),
]


class Experts(torch.nn.Module):
    """A mixture of experts whose weights are one tensor; odd sizes, a frozen parameter, buffers."""

    def __init__(self, tied):
        super().__init__()
        self.wte = torch.nn.Embedding(37, 6)
        self.up, self.down = torch.nn.Linear(6, 10), torch.nn.Linear(10, 6, bias=False)
        self.experts = torch.nn.Parameter(torch.randn(4, 6, 6) / 8)
        self.router = torch.nn.Linear(6, 4, bias=False)
        self.gain = torch.nn.Parameter(torch.ones(1))
        self.norm = torch.nn.LayerNorm(6)
        self.norm.bias.requires_grad_(False)
        self.head = torch.nn.Linear(6, 37, bias=False)
        if tied:
            self.head.weight = self.wte.weight
        self.register_buffer("seen", torch.tensor([7, 2**40]))

    def forward(self, ids):
        x = self.wte(ids)
        x = x + torch.einsum("bth,ehk,bte->btk", x, self.experts, self.router(x).softmax(-1))
        x = x + self.down(self.up(x).relu()) * self.gain
        return self.head(self.norm(x)).float().logsumexp(-1).mean()


def full(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def sets_of(model, optimizer):
    """What the live model holds, gathered by torch; every rank must call it."""
    root = {name: full(p) for name, p in model.named_parameters()}
    moments = truth.moments(model, optimizer)
    return {"": root, **{s: {n: full(v) for n, v in of.items()} for s, of in moments.items()}}


def title(world):
    return f"olmo-core-{version.VERSION}-w{world}"


def work(rank, world, out):
    torch.set_num_threads(1)
    path = os.path.join(out, title(world), "ckpt")
    if rank == 0:
        truth.folder(out, title(world))
    torch.manual_seed(1)
    # A tie has one name in OLMo-core's saves; it ties nothing itself.
    model = models.Gpt(layers=2)
    model.head = torch.nn.Linear(24, 61, bias=False)
    for layer in model.layers:
        fully_shard(layer, mesh=init_device_mesh("cpu", (world,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(17 + rank)
    for _ in range(STEP):
        model(model.batch(generator)).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    Checkpointer(work_dir=os.path.join(out, title(world), "work")).save(
        os.path.join(path, f"step{STEP}"), decoders_olmo.Module(model, optimizer), {"global_step": STEP, "world_size": world})
    sets = sets_of(model, optimizer)
    if rank == 0:
        truth.write(out, title(world), sets)


def parallel(model, how, world):
    """The model as it is trained; its parameters become DTensors in place."""
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if how == "columns":
        def cut(p):
            return Shard(1) if p.ndim > 1 and p.shape[1] % world == 0 else None
        return fully_shard(model, mesh=init_device_mesh("cpu", (world,)), shard_placement_fn=cut)
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("outer", "inner"))
    if how == "tp-fsdp":
        parallelize_module(model, mesh["inner"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        mesh = mesh["outer"]
    return fully_shard(model, mesh=mesh)


def other(rank, world, out, case, how, dtype, optimizer_of, background):
    torch.set_num_threads(1)
    path = os.path.join(out, case, "ckpt")
    if rank == 0:
        truth.folder(out, case)
    torch.manual_seed(1)
    bare = Experts(tied=how == "ddp").to(dtype)
    model = parallel(bare, how, world)
    optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad])
    for step in range(STEP):
        loss = model(torch.arange(10).view(2, 5) + rank + step)
        loss.backward()
        optimizer.latest_loss = loss.detach()  # SkipStep looks at it
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    if background:
        async_save_model_and_optim_state(path, model, optimizer).result()
    else:
        save_model_and_optim_state(path, model, optimizer)
    sets = sets_of(bare, optimizer)
    sets[""] = {name: full(v) for name, v in bare.state_dict().items()}  # both names of a tie, and buffers
    if rank == 0:
        truth.write(out, case, sets)


def unshard(out, world):
    """The tool's output, in folders of their own, with the sharded save's truth."""
    save = os.path.join(out, title(world), "ckpt", f"step{STEP}", "model_and_optim")
    sets = torch.load(os.path.join(out, title(world), "truth.pt"), weights_only=False)["sets"]
    for name, optimizer, how, inside in UNSHARDED:
        case = f"{title(world)}-{name}"
        path = truth.folder(out, case)
        try:
            shutil.rmtree(path)
            unshard_checkpoint(save, path, optim=optimizer, quiet=True, **how)
        except Exception:  # pylint: disable=broad-except
            truth.failed(out, case)
            continue
        truth.write(out, case, {s: t for s, t in sets.items() if optimizer or not s}, os.path.join("ckpt", inside))


def main():
    truth.watchdog()
    good = [truth.ranks(world, work, sys.argv[1]) for world in (1, 2, 3)]
    if all(good):
        unshard(sys.argv[1], 3)
    for name, world, *how in OTHERS:
        case = f"olmo-core-{version.VERSION}-{name}"
        good.append(truth.ranks(world, other, sys.argv[1], case, *how))
        if not good[-1]:
            truth.failed(sys.argv[1], case)
    good.append(truth.ranks(2, decoders_olmo.work, sys.argv[1]))
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
