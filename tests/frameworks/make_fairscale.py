# SPDX-License-Identifier: Apache-2.0
"""make_fairscale.py OUT: models with the layers and names of Llama, cut by fairscale's tensor parallelism over ranks on CPU, and
saved as Meta releases them.  The truth is the weight that fairscale keeps of each layer from before it was cut."""
import json
import os
import sys

import torch
from fairscale.nn.model_parallel import initialize_model_parallel
from fairscale.nn.model_parallel.layers import ColumnParallelLinear, ParallelEmbedding, RowParallelLinear, VocabParallelEmbedding
from torch import distributed as dist

import truth

WIDTH, HEADS, KEY_HEADS, FEED, WORDS, LAYERS = 32, 8, 4, 48, 96, 2
# Title: ranks, how the embeddings are cut, element type, is params.json there?
CASES = {
    "llama2-2": (2, ParallelEmbedding, torch.float16, True),
    "llama2-4-bare": (4, ParallelEmbedding, torch.float32, False),
    "llama3-4": (4, VocabParallelEmbedding, torch.bfloat16, True),
}


def layers(embedding):
    """[(name, module)] of all that is cut."""
    def column(inputs, outputs):
        return ColumnParallelLinear(inputs, outputs, bias=False, gather_output=False, init_method=torch.nn.init.normal_,
                                    keep_master_weight_for_test=True)

    def row(inputs, outputs):
        return RowParallelLinear(inputs, outputs, bias=False, input_is_parallel=True, init_method=torch.nn.init.normal_,
                                 keep_master_weight_for_test=True)

    keys = WIDTH // HEADS * KEY_HEADS
    found = [("tok_embeddings", embedding(WORDS, WIDTH, init_method=torch.nn.init.normal_)),
             ("output", column(WIDTH, WORDS))]
    for n in range(LAYERS):
        at = f"layers.{n}."
        found += [(at + "attention.wq", column(WIDTH, WIDTH)), (at + "attention.wk", column(WIDTH, keys)),
                  (at + "attention.wv", column(WIDTH, keys)), (at + "attention.wo", row(WIDTH, WIDTH)),
                  (at + "feed_forward.w1", column(WIDTH, FEED)), (at + "feed_forward.w2", row(FEED, WIDTH)),
                  (at + "feed_forward.w3", column(WIDTH, FEED))]
    return found


def masters(cut):
    """{name: weight} as it was before it was cut; of embeddings, what they answer to every word."""
    with torch.no_grad():
        return {f"{name}.weight": m.master_weight if hasattr(m, "master_weight") else m(torch.arange(WORDS)) for name, m in cut}


def work(rank, world, out, case):
    _, embedding, dtype, params = CASES[case]
    torch.manual_seed(11)  # the same on every rank: each makes the whole and keeps its part
    initialize_model_parallel(world)
    cut = layers(embedding)
    whole = {name: w.detach().to(dtype) for name, w in masters(cut).items()}
    norms = ["norm.weight"] + [f"layers.{n}.{k}.weight" for n in range(LAYERS) for k in ("attention_norm", "ffn_norm")]
    copies = {name: torch.randn(WIDTH).to(dtype) for name in norms} | {"rope.freqs": torch.arange(4.) / 7}
    dist.barrier()
    if rank == 0:
        truth.folder(out, case)
    dist.barrier()
    folder = os.path.join(out, case, "ckpt")
    mine = {f"{name}.weight": m.weight.detach().to(dtype) for name, m in cut}
    torch.save(mine | copies, os.path.join(folder, f"consolidated.{rank:02d}.pth"))
    if rank == 0:
        if params:
            with open(os.path.join(folder, "params.json"), "w", encoding="utf-8") as f:
                json.dump({"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KEY_HEADS, "vocab_size": WORDS}, f)
        truth.write(out, case, {"": whole | copies})
    dist.barrier()


if __name__ == "__main__":
    truth.watchdog()
    sys.exit(0 if all([truth.ranks(CASES[case][0], work, sys.argv[1], case) for case in CASES]) else 1)
