#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkolmo.py DIR [--ranks R] [--layers N] [--hidden N]: OLMo's "local" layout of a model with its optimizer, as FSDP1 of
torch >= 2.1 cuts it.  The elements are holes in the files, so that terabytes take little room."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sparsefile import save  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Call, Storage, Tensor  # noqa: E402 pylint: disable=wrong-import-position


def hole(n):
    return Tensor(shape=(n,), storage=Storage(data=b"", n=n))


def number(v):
    return Tensor(v, shape=())


def model(layers, h):
    block = [("attn_out.weight", (h, h)), ("ff_out.weight", (h, 2 * h)), ("att_proj.weight", (3 * h, h)),
             ("ff_proj.weight", (4 * h, h)), ("attn_norm.weight", (h,)), ("attn_norm.bias", (h,)), ("ff_norm.weight", (h,)),
             ("ff_norm.bias", (h,))]
    return {"": [("transformer.wte.weight", (50304, h)), ("transformer.ln_f.weight", (h,))],
            **{f"transformer.blocks.{i}": block for i in range(layers)}}


def numel(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def rank_of(units, rank, ranks):
    """What one rank saves of model and optimizer."""
    modules, names, state = [], [], {}
    for module, each in units.items():
        size = -(-sum(numel(s) for _, s in each) // ranks)
        lo, hi, at, infos = rank * size, (rank + 1) * size, 0, []
        for name, shape in each:
            first, last = max(at, lo), min(at + numel(shape), hi)
            here, n = last > first, last - first
            part = (True, first - lo, n, first - at, last - at - 1) if here else (False, None, None, None, None)
            infos.append(Call("torch.distributed.fsdp._flat_param", "_ShardParamInfo", *part))
            entry = {"grad_norm_exp_avg": number(1.0)}
            if here:
                entry.update(step=number(3.0), exp_avg=hole(n), exp_avg_sq=hole(n))
            state[len(names)] = entry
            names.append(f"{module}.{name}" if module else name)
            at += numel(shape)
        handle = {"data": hole(size), "_fqns": [n for n, _ in each], "_shapes": [s for _, s in each],
                  "_numels": tuple(numel(s) for _, s in each), "_numels_with_padding": tuple(numel(s) for _, s in each),
                  "_shard_numel_padded": size * ranks - at, "_shard_param_infos": tuple(infos)}
        modules.append({"name": module and "_fsdp_wrapped_module." + module,
                        "handles": [{"flat_param." + k: v for k, v in handle.items()}]})
    group = {"lr": 1e-4, "params": list(range(len(names))), "param_names": names}
    return {"modules": modules}, {"state": state, "param_groups": [group]}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dir")
    p.add_argument("--ranks", type=int, default=256)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--hidden", type=int, default=4096)
    a = p.parse_args()
    units = model(a.layers, a.hidden)
    for d in ("model", "optim", "train"):
        os.makedirs(os.path.join(a.dir, d))
    for r in range(a.ranks):
        weights, optimizer = rank_of(units, r, a.ranks)
        save(weights, os.path.join(a.dir, f"model/rank{r}.pt"))
        save(optimizer, os.path.join(a.dir, f"optim/rank{r}.pt"))
        save({"global_step": 3, "world_size": a.ranks}, os.path.join(a.dir, f"train/rank{r}.pt"))
    with open(os.path.join(a.dir, "metadata.yaml"), "w") as f:
        f.write(f"world_size: {a.ranks}\n")


main()
