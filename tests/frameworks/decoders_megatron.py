# SPDX-License-Identifier: Apache-2.0
"""Decoders that Megatron-core trains a step and saves with the arguments of its trainer: what Llama and Mixtral are in its words.

The package holds no trainer and no converter; the arguments are those that Megatron-LM's saves hold under "args"."""
import argparse
import contextlib
import os

import megatron.core
import torch
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import distributed as dist

import truth

LAYERS, WIDTH, HEADS, GROUPS, FFN, VOCAB, THETA, EPS = 2, 32, 4, 2, 48, 64, 50000, 1e-4
EXPERTS = {"num_moe_experts": 4, "moe_router_topk": 2, "moe_ffn_hidden_size": 24, "moe_token_dispatcher_type": "allgather",
           "moe_router_load_balancing_type": "none"}
# title: (tensor ranks, expert ranks, recipe, what the configuration has besides)
CASES = {
    "llama-tp2": (2, 1, "megatron-llama", {}),
    "qwen3-dp2": (1, 1, "megatron-qwen3", {"qk_layernorm": True}),
    "mixtral-ep2": (1, 2, "megatron-mixtral", EXPERTS),
}


def build(tensor, expert, more):
    config = TransformerConfig(num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS, num_query_groups=GROUPS,
                               ffn_hidden_size=FFN, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
                               normalization="RMSNorm", layernorm_epsilon=EPS, add_bias_linear=False, hidden_dropout=0.0,
                               attention_dropout=0.0, use_cpu_initialization=True, bias_activation_fusion=False,
                               bias_dropout_fusion=False, apply_rope_fusion=False, masked_softmax_fusion=False,
                               tensor_model_parallel_size=tensor, expert_model_parallel_size=expert, **more)
    spec = get_gpt_layer_local_spec(num_experts=more.get("num_moe_experts"), moe_grouped_gemm=False,
                                    qk_layernorm=more.get("qk_layernorm", False), normalization="RMSNorm")
    return GPTModel(config, spec, vocab_size=VOCAB, max_sequence_length=64, position_embedding_type="rope", rotary_base=THETA,
                    share_embeddings_and_output_weights=False, parallel_output=False)


def arguments(more):
    """The arguments by which Megatron-LM would have built the model."""
    experts = {"num_experts": more["num_moe_experts"], "moe_router_topk": more["moe_router_topk"],
               "moe_ffn_hidden_size": more["moe_ffn_hidden_size"], "moe_router_pre_softmax": False} if "num_moe_experts" in more else {}
    return argparse.Namespace(num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS, group_query_attention=True,
                              num_query_groups=GROUPS, kv_channels=WIDTH // HEADS, ffn_hidden_size=FFN, swiglu=True,
                              normalization="RMSNorm", norm_epsilon=EPS, add_bias_linear=False, add_qkv_bias=False,
                              qk_layernorm=more.get("qk_layernorm", False), position_embedding_type="rope", rotary_base=THETA,
                              rotary_percent=1.0, untie_embeddings_and_output_weights=True, max_position_embeddings=64,
                              padded_vocab_size=VOCAB, **experts)


def answer(model, ids):
    n = ids.shape[1]
    hidden = torch.ones(1, 1, n, n, dtype=torch.bool).triu(1)
    return model(ids, torch.arange(n).expand_as(ids), hidden)


def one(rank, out, title, tensor, expert, recipe, more):
    parallel_state.initialize_model_parallel(tensor, expert_model_parallel_size=expert)
    case = f"megatron-{megatron.core.__version__}-{title}"
    if rank == 0:
        os.mkdir(os.path.join(truth.folder(out, case), "iter_0000001"))
    torch.manual_seed(38)
    model = build(tensor, expert, more)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:  # ones say nothing
                p.copy_(torch.rand(p.shape, generator=torch.Generator().manual_seed(sum(name.encode()))) + 0.5)
            else:
                p.mul_(10)  # with the small weights of a beginning a wrong rotary base changes little
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(0, VOCAB, (2, 16), generator=torch.Generator().manual_seed(1))
    torch.nn.functional.cross_entropy(answer(model, ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()
    with torch.no_grad():
        logits = answer(model.eval(), ids)
    dist_checkpointing.save({"iteration": 1, "checkpoint_version": 3.0, "args": arguments(more),
                             "model": model.sharded_state_dict(prefix="")}, os.path.join(out, case, "ckpt", "iter_0000001"))
    if rank == 0:
        truth.decoder(out, case, recipe, ids, logits)
    dist.barrier()
    parallel_state.destroy_model_parallel()


def work(rank, _, out, on_cpu):
    torch.set_num_threads(1)
    on_cpu()
    # Nothing here is random; its states of random numbers are those of GPUs.
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
    # 0.16 asks for it by a name that is not defined without Transformer Engine.
    moe_utils.te_general_gemm = getattr(moe_utils, "te_general_gemm", None)
    for title, how in CASES.items():
        one(rank, out, title, *how)
