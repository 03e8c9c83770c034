# SPDX-License-Identifier: Apache-2.0
"""make_deepspeed.py OUT: checkpoints of ZeRO 1, 2 and 3, written by the installed DeepSpeed on CPU."""
import os
import sys

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

import models
import truth

# (stage, model, type, more of the configuration)
CASES = {
    2: [
        (1, models.Gpt, "bf16", {}),
        (2, models.Gpt, "bf16", {}),
        (3, models.Gpt, "bf16", {}),
        (1, models.Odd, "fp32", {}),
        (2, models.Odd, "fp16", {}),
        (3, models.Odd, "bf16", {}),
    ],
    3: [
        (1, models.Odd, "bf16", {}),
        (2, models.Odd, "bf16", {}),
        (2, models.Gpt, "fp32", {}),
        (3, models.Odd, "bf16", {"sub_group_size": 20}),
        (3, models.Gpt, "fp32", {}),
    ],
}


def config(stage, dtype, more):
    out = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True,
           "zero_force_ds_cpu_optimizer": False, "steps_per_print": 10**9,
           "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, **more}}
    if dtype != "fp32":
        out[dtype] = {"enabled": True}
        if dtype == "fp16":
            out[dtype]["loss_scale"] = 1
    return out


def whole(p):
    """A parameter's 16-bit value, gathered if it is partitioned."""
    if not hasattr(p, "ds_id"):
        return p.detach().clone()
    with deepspeed.zero.GatheredParameters([p]):
        return p.detach().clone()


def sets_of(engine, stage):
    """What the live engine holds, asked through DeepSpeed's public getters; every rank must call it."""
    module, root, stored, moments = engine.module, {}, {}, {}
    if stage < 3:
        # 0.19 links the states of all groups when only the first one's exist; have it done again.
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, p in module.named_parameters(remove_duplicate=False):
        stored[name] = whole(p)
        root[name] = safe_get_full_fp32_param(p) if p.requires_grad else stored[name]
    for name, p in module.named_parameters():
        for key in ("exp_avg", "exp_avg_sq") if p.requires_grad else ():
            moments.setdefault("optim/" + key, {})[name] = safe_get_full_optimizer_state(p, key)
    for name, b in module.named_buffers():
        if name != "scratch":
            root[name] = stored[name] = b
    return {"": root, **({"stored": stored} if stage < 3 else {}), **moments}


def one(rank, out, case, stage, kind, dtype, more):
    path = truth.folder(out, case) if rank == 0 else os.path.join(out, case, "ckpt")
    torch.manual_seed(stage)
    model = kind()
    if hasattr(model, "scale"):
        # DeepSpeed 0.19 cannot broadcast a parameter without dimensions.
        model.scale.data = model.scale.data.view(1)
    ties = models.ties(model)
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    rest = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0}], lr=1e-2)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config(stage, dtype, more))
    generator = torch.Generator().manual_seed(17 + rank)
    for _ in range(3):
        engine.backward(engine(model.batch(generator)))
        engine.step()
    engine.save_checkpoint(path)
    sets = sets_of(engine, stage)
    engine.destroy()
    if rank == 0:
        truth.write(out, case, sets, ties=ties, reference="deepspeed")


def work(rank, world, out):
    torch.set_num_threads(1)
    # Else a shared-memory all-reduce is compiled, for minutes; gloo's own does.
    for op in deepspeed.ops.__compatible_ops__:
        deepspeed.ops.__compatible_ops__[op] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    for stage, kind, dtype, more in CASES[world]:
        case = f"deepspeed-{deepspeed.__version__}-zero{stage}-{kind.__name__.lower()}-{dtype}-w{world}"
        if dtype == "fp16" and not get_accelerator().is_fp16_supported():
            if rank == 0:
                truth.skip(out, case, "DeepSpeed does not train in fp16 on this processor")
            continue
        try:
            one(rank, out, case, stage, kind, dtype, more)
        except Exception:  # pylint: disable=broad-except
            if rank == 0:
                truth.failed(out, case)
            raise


def main():
    truth.watchdog()
    good = [truth.ranks(world, work, sys.argv[1]) for world in CASES]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
