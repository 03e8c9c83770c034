# SPDX-License-Identifier: Apache-2.0
"""make_titan.py OUT: a step of a small Llama by torchtitan, saved under the names of its checkpoints, and what its own adapter
makes of it."""
import json
import os
import shutil
import sys
from importlib import metadata
from unittest import mock

# Kernels for GPUs, which ask for Triton.
sys.modules["torchtitan.distributed.minimal_async_ep"] = mock.MagicMock()

import torch
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchtitan.models import llama3
from torchtitan.models.common.attention import ScaledDotProductAttention

import truth

DIM, HEADS, GROUPS, THETA, EPS, VOCAB = 64, 4, 2, 50000.0, 1e-4, 96


def settings():
    rope = llama3.ComplexRoPE.Config(dim=DIM // HEADS, max_seq_len=64, theta=THETA, scaling="none")
    layers = llama3._build_llama3_layers(n_layers=2, dim=DIM, n_heads=HEADS, n_kv_heads=GROUPS, hidden_dim=96, rope=rope,
                                         attn_backend="varlen")
    norm = {"param_init": {"weight": torch.nn.init.ones_}}
    for layer in layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
        layer.attention_norm.eps = layer.ffn_norm.eps = EPS
    return llama3.Llama3Model.Config(
        dim=DIM, vocab_size=VOCAB, layers=layers, norm=llama3.RMSNorm.Config(normalized_shape=DIM, eps=EPS, **norm),
        tok_embeddings=llama3.Embedding.Config(num_embeddings=VOCAB, embedding_dim=DIM, **norm),
        lm_head=llama3.Linear.Config(in_features=DIM, out_features=VOCAB, **norm))


def side():
    """What a user puts beside it: the model's config.json, for a step holds no settings."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
            "hidden_size": DIM, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": VOCAB, "rope_theta": THETA,
            "rms_norm_eps": EPS, "tie_word_embeddings": False, "max_position_embeddings": 64}


def work(rank, world, out):
    torch.set_num_threads(1)
    case = f"torchtitan-{metadata.version('torchtitan')}-llama3"
    if rank == 0:
        truth.folder(out, case)
        os.mkdir(os.path.join(out, case, "side"))
        with open(os.path.join(out, case, "side", "config.json"), "w", encoding="utf-8") as f:
            json.dump(side(), f)
    config = settings()
    model = config.build()
    model.init_states(buffer_device=torch.device("cpu"))
    generator = torch.Generator().manual_seed(38)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.2 + (p.ndim == 1))
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(0, VOCAB, (2, 16), generator=generator)
    torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()
    with torch.no_grad():
        logits = model(ids)
    dist.barrier()
    state = model.state_dict()
    dcp.save(state, checkpoint_id=os.path.join(out, case, "ckpt", "step-1"))
    whole = {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in state.items()}
    if rank == 0:
        tensors = llama3.Llama3StateDictAdapter(config, None).to_hf(whole)
        truth.decoder(out, case, "torchtitan-llama3", ids, logits, tensors, options=["side=" + os.path.join(out, case, "side")])
        # The settings of a job with debug.save_config_file, as trainer.py writes them.
        job = os.path.join(out, case + "-job")
        os.makedirs(os.path.join(job, "dump"))
        shutil.copytree(os.path.join(out, case, "ckpt"), os.path.join(job, "ckpt"))
        with open(os.path.join(job, "dump", "config.json"), "w", encoding="utf-8") as f:
            json.dump({"model_spec": {"name": "llama3", "flavor": "small", "model": config.to_dict()}}, f)
        truth.decoder(out, case + "-job", "torchtitan-llama3", ids, logits, tensors, options=["side=" + os.path.join(job, "dump")])
    dist.barrier()


def main():
    truth.watchdog()
    sys.exit(not truth.ranks(2, work, sys.argv[1]))


if __name__ == "__main__":
    main()
