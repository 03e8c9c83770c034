#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkolmo.py DIR [--layout local|olmo_core|core] [--ranks R] [--layers N] [--hidden N]: a model with its optimizer in OLMo's "local"
layout, as FSDP1 of torch >= 2.1 cuts it; in OLMo-core 0.x's, of FSDP1 as well; or as OLMo-core >= 1.0 saves FSDP2.  The elements are
holes in the files, so that terabytes take little room."""
import argparse
import json
import os
import pickle
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mkdcp  # noqa: E402 pylint: disable=wrong-import-position
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


def parts(units, rank, ranks):
    """(name, shape, first, end) of what one rank has of each parameter, whose flat vectors are cut into equal shards."""
    for module, each in units.items():
        size, at = -(-sum(numel(s) for _, s in each) // ranks), 0
        for name, shape in each:
            first, last = max(at, rank * size) - at, min(at + numel(shape), (rank + 1) * size) - at
            yield f"{module}.{name}" if module else name, shape, *((first, last) if first < last else (0, 0))
            at += numel(shape)


def whole_file(path, head, size):
    """A safetensors file whose data are a hole."""
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + size)


def olmo_core(units, a):
    """OLMo-core 0.x: metadata.json tells of each tensor and file what is in it."""
    for d, names in (("model", ["{}"]), ("optim", ["state.{}.__exp_avg", "state.{}.__exp_avg_sq"])):
        meta = {}
        for r in range(a.ranks):
            head, at = {}, 0
            for name, shape, first, end in parts(units, r, a.ranks):
                for key in (n.format(name) for n in names):
                    head[key] = {"dtype": "F32", "shape": [end - first], "data_offsets": [at, at + 4 * (end - first)]}
                    at += 4 * (end - first)
                    t = meta.setdefault(key, {"shape": shape, "is_sharded": True, "dtype": "F32", "shard_spec_per_file": {}})
                    t["shard_spec_per_file"][f"rank_{r}.safetensors"] = {
                        "flattened_offsets": [[first, end]], "local_shape": None, "global_offset": None}
            whole_file(os.path.join(a.dir, d, f"rank_{r}.safetensors"), head, at)
        with open(os.path.join(a.dir, d, "metadata.json"), "w", encoding="ascii") as f:
            json.dump({"tensors": meta}, f)


def core(units, a):
    """OLMo-core >= 1.0: a DCP with its own _StorageInfo."""
    options = dict(torch="2.6", sparse=True, hollow=False, columns=False, plans=False, ranks=a.ranks)
    c = mkdcp.Checkpoint(argparse.Namespace(dir=os.path.join(a.dir, "model_and_optim"), **options))
    c.w.StorageInfo = mkdcp.named("olmo_core.distributed.checkpoint.filesystem", "_StorageInfo")
    for name, shape, _, _ in parts(units, 0, a.ranks):
        c.tensor(("model", name), shape)
        for key in ("exp_avg", "exp_avg_sq"):
            c.tensor(("optim", "state", name, key), shape)
        c.tensor(("optim", "state", name, "step"), ())
    for o in c.out:
        o.close()
    with open(os.path.join(a.dir, "model_and_optim/.metadata"), "wb") as f:
        pickle.dump(c.metadata(), f, 4)


def local(units, a):
    for r in range(a.ranks):
        weights, optimizer = rank_of(units, r, a.ranks)
        save(weights, os.path.join(a.dir, f"model/rank{r}.pt"))
        save(optimizer, os.path.join(a.dir, f"optim/rank{r}.pt"))
    with open(os.path.join(a.dir, "metadata.yaml"), "w") as f:
        f.write(f"world_size: {a.ranks}\n")


LAYOUTS = {"local": (local, ("model", "optim")), "olmo_core": (olmo_core, ("model", "optim")), "core": (core, ("model_and_optim",))}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dir")
    p.add_argument("--layout", default="local", choices=LAYOUTS)
    p.add_argument("--ranks", type=int, default=256)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--hidden", type=int, default=4096)
    a = p.parse_args()
    write, folders = LAYOUTS[a.layout]
    for d in (*folders, "train"):
        os.makedirs(os.path.join(a.dir, d))
    write(model(a.layers, a.hidden), a)
    for r in range(a.ranks):  # holes count no step
        save({"global_step": 3 if a.layout == "local" else 1, "world_size": a.ranks}, os.path.join(a.dir, f"train/rank{r}.pt"))


main()
