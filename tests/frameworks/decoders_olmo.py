# SPDX-License-Identifier: Apache-2.0
"""Decoders that OLMo-core trains a step and its checkpointer saves: Llama, Qwen 3, OLMo 3 with another rotary base than transformers'
class has, and OLMo 2, which its own converter puts out too."""
import json
import os

import torch
from olmo_core import version
from olmo_core.nn.attention import SlidingWindowAttentionConfig
from olmo_core.nn.hf.config import get_hf_config
from olmo_core.nn.hf.convert import convert_state_to_hf
from olmo_core.nn.transformer import TransformerBlockType, TransformerConfig
from olmo_core.train.checkpoint import Checkpointer
from torch import distributed as dist
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import truth

SIZES = {"d_model": 32, "vocab_size": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "hidden_size_multiple_of": 16,
         "rope_theta": 50000, "layer_norm_eps": 1e-4}
# title: (recipe, what the configuration has besides, whether its own converter is right)
CASES = {
    "llama": ("olmo-core-llama", {}, False),
    "olmo2": ("olmo-core-olmo2", {"block_name": TransformerBlockType.reordered_norm, "qk_norm": True}, True),
    "olmo3": ("olmo-core-olmo3", {"block_name": TransformerBlockType.reordered_norm, "qk_norm": True, "sliding_window": SlidingWindowAttentionConfig(
        pattern=[4, -1], force_full_attention_on_first_layer=False, force_full_attention_on_last_layer=False)}, False),
    "qwen3": ("olmo-core-qwen3", {"qk_norm": True, "use_head_qk_norm": True}, False),
}


class Module:
    """What the checkpointer asks of a train module."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict_to_save(self):
        return {"model": get_model_state_dict(self.model), "optim": get_optimizer_state_dict(self.model, self.optimizer)}


def whole(model):
    return {name: p.full_tensor() for name, p in model.state_dict().items()}


def one(rank, world, out, title, recipe, more, converted):
    case = f"olmo-core-{version.VERSION}-decoder-{title}"
    if rank == 0:
        truth.folder(out, case)
    config = TransformerConfig.llama_like(**SIZES, **more)
    model = config.build(init_device="cpu")
    generator = torch.Generator().manual_seed(38)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.2 + (p.ndim == 1))
    made = get_hf_config(model) if converted else None
    for block in model.blocks.values():
        fully_shard(block, mesh=init_device_mesh("cpu", (world,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(0, 64, (2, 16), generator=generator)
    torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()
    with torch.no_grad():
        logits = model.eval()(ids)
    dist.barrier()
    step = os.path.join(out, case, "ckpt", "step1")
    Checkpointer(work_dir=os.path.join(out, case, "work")).save(step, Module(model, optimizer), {"global_step": 1, "world_size": world})
    state = whole(model)
    if rank == 0:
        # What its callback writes beside a step: the settings of the run.
        with open(os.path.join(step, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"model": config.as_config_dict(), "dataset": {"sequence_length": 64}}, f)
        truth.decoder(out, case, recipe, ids, logits, convert_state_to_hf(made, state) if converted else None)
    dist.barrier()


def work(rank, world, out):
    torch.set_num_threads(1)
    for title, how in CASES.items():
        one(rank, world, out, title, *how)
