# SPDX-License-Identifier: Apache-2.0
"""make_torch.py OUT: torch.save files, DCP from one process, and FSDP2 + DCP from two."""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import models
import truth


def trained(kind, dtype=torch.float32):
    torch.manual_seed(5)
    model = kind().to(dtype)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    models.train(model, optimizer)
    return model, optimizer


def save_file(out, case):
    """One torch.save file of a training script: state dicts, scalars, a generator state, odd names and types."""
    path = truth.folder(out, case)
    model, optimizer = trained(models.Odd)
    extra = {"odd/na%me": torch.arange(6, dtype=torch.int16), ".hidden": torch.tensor(2.5, dtype=torch.float64),
             "strided": torch.arange(24.0).view(4, 6).t()[1:5:2], "eight": torch.randn(9).to(torch.float8_e4m3fn),
             "half": torch.randn(3, 5).half(), "empty": torch.zeros(0, 4)}
    weights = {**model.state_dict(), **extra}
    torch.save({"model": weights, "optimizer": optimizer.state_dict(), "epoch": 3,
                "rng": torch.get_rng_state()}, os.path.join(path, "last.pt"))
    truth.write(out, case, {"": weights, **truth.numbered(optimizer)}, "ckpt/last.pt", ties=models.ties(model))


def save_bare(out, case):
    """A bare state dict in 16 bits, in the stream format of before torch 1.6."""
    path = truth.folder(out, case)
    model, _ = trained(models.Gpt, torch.bfloat16)
    torch.save(model.state_dict(), os.path.join(path, "weights.pth"), _use_new_zipfile_serialization=False)
    truth.write(out, case, {"": model.state_dict()}, "ckpt/weights.pth", ties=models.ties(model))


def save_dcp(out, case):
    """DCP without process groups."""
    path = truth.folder(out, case)
    model, optimizer = trained(models.Odd)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": states, "iteration": 3}, checkpoint_id=path, no_dist=True)
    truth.write(out, case, {"": weights, **truth.moments(model, optimizer)}, reference="dcp")


def full(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def save_fsdp2(rank, world, out, case, dtype):
    """fully_shard with a mixed precision policy or in 16 bits, and DCP of model and optimizer."""
    truth.watchdog()
    torch.set_num_threads(1)
    mesh = dist.init_device_mesh("cpu", (world,))
    path = truth.folder(out, case) if rank == 0 else os.path.join(out, case, "ckpt")
    dist.barrier()
    torch.manual_seed(6)
    model = models.Gpt().to(dtype)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if dtype == torch.float32 else MixedPrecisionPolicy()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    models.train(model, optimizer, seed=rank)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": states}, checkpoint_id=path)
    sets = truth.moments(model, optimizer)
    sets[""] = model.state_dict()
    sets = {directory: {n: full(t) for n, t in tensors.items()} for directory, tensors in sets.items()}
    if rank == 0:
        truth.write(out, case, sets, reference="dcp")
    dist.barrier()
    dist.destroy_process_group()


def main():
    truth.watchdog()
    out, good = sys.argv[1], True
    # The forking cases come first: a process whose thread pools run cannot be forked.
    for case, world, dtype in (("fsdp2-fp32-w2", 2, torch.float32), ("fsdp2-bf16-w3", 3, torch.bfloat16)):
        if not truth.ranks(world, save_fsdp2, out, case, dtype):
            truth.failed(out, case)
            good = False
    torch.set_num_threads(1)
    for case, make in (("torch-save", save_file), ("torch-save-legacy", save_bare), ("dcp-adamw", save_dcp)):
        try:
            make(out, case)
        except Exception:  # pylint: disable=broad-except
            truth.failed(out, case)
            good = False
    sys.exit(not good)


if __name__ == "__main__":
    main()
