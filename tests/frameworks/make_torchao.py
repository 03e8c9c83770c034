# SPDX-License-Identifier: Apache-2.0
"""make_torchao.py OUT: AdamW8bit of torchao under FSDP2, through torch.distributed.checkpoint and as one torch.save file a rank."""
import sys

import torch
import torch.distributed.checkpoint as dcp
import torchao
from torch import distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchao.optim import AdamW8bit

import truth


class Model(torch.nn.Module):
    """A rank of two has as many rows of `table` as a state's table has values."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(16, 512, bias=False)
        self.wide = torch.nn.Linear(256, 32)

    def forward(self, x):
        return self.wide(x).pow(2).sum() + self.table(x[:, :16]).pow(2).sum()


def whole(t):
    """{suffix: tensor} of a state, joined over the ranks."""
    local = t.to_local() if hasattr(t, "to_local") else t
    if not hasattr(local, "tensor_attrs"):
        return {"": t.full_tensor() if hasattr(t, "full_tensor") else t}
    out = {}
    for part in local.tensor_attrs:
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, getattr(local, part).contiguous())
        out["." + part] = ranks[0] if part == "qmap" else torch.cat(ranks)
    return out


def work(rank, world, out):
    torch.set_num_threads(1)
    case = f"torchao-{torchao.__version__}-adamw8-w{world}"
    path = truth.folder(out, case) if rank == 0 else f"{out}/{case}/ckpt"
    torch.manual_seed(3)
    model = Model()
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = AdamW8bit(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(4 + rank)
    for _ in range(2):
        model(torch.randn(4, 256, generator=generator)).backward()
        optimizer.step()
        optimizer.zero_grad()
    sets = {"": {n: p.full_tensor() for n, p in model.named_parameters()}}
    for name, p in model.named_parameters():
        for key, value in optimizer.state[p].items():
            sets.setdefault("optim/" + key, {}).update({name + part: t for part, t in whole(value).items()})
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": states}, checkpoint_id=path)
    if rank == 0:
        truth.write(out, case, sets)
        truth.folder(out, case + "-ranks")
    dist.barrier()
    for kind, value in (("model", weights), ("optim", states)):
        torch.save(value, f"{out}/{case}-ranks/ckpt/{kind}_world_size_{world}_rank_{rank}.pt")
    if rank == 0:
        truth.write(out, case + "-ranks", sets)


def main():
    truth.watchdog()
    sys.exit(not truth.ranks(2, work, sys.argv[1]))


if __name__ == "__main__":
    main()
