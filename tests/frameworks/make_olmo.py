# SPDX-License-Identifier: Apache-2.0
"""make_olmo.py OUT: checkpoints of OLMo-core's own checkpointer, FSDP2 on CPU, and what its unshard tool makes of them."""
import os
import shutil
import sys

import torch
from olmo_core import version
from olmo_core.distributed.checkpoint import UnshardStrategy, unshard_checkpoint
from olmo_core.train.checkpoint import Checkpointer
from torch import distributed as dist
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

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


class Module:
    """What the checkpointer asks of a train module."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict_to_save(self):
        return {"model": get_model_state_dict(self.model), "optim": get_optimizer_state_dict(self.model, self.optimizer)}


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
        os.path.join(path, f"step{STEP}"), Module(model, optimizer), {"global_step": STEP, "world_size": world})
    sets = sets_of(model, optimizer)
    if rank == 0:
        truth.write(out, title(world), sets)


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
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
