# SPDX-License-Identifier: Apache-2.0
"""A small Llama by the names and settings of Megatron-core, as one safetensors file."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case  # noqa: E402 pylint: disable=wrong-import-position

HEADS, GROUPS, DIM, WIDTH, FFN, ROWS, LAYERS = 4, 2, 6, 16, 10, 32, 2
SETTINGS = {"num_layers": LAYERS, "hidden_size": WIDTH, "ffn_hidden_size": FFN, "num_attention_heads": HEADS,
            "num_query_groups": GROUPS, "kv_channels": DIM, "normalization": "RMSNorm", "gated_linear_unit": True,
            "position_embedding_type": "rope", "rotary_base": 10000, "layernorm_epsilon": 1e-5, "add_bias_linear": False,
            "share_embeddings_and_output_weights": False, "seq_length": 64}


def numbered(shape, first):
    n = 1
    for x in shape:
        n *= x
    return ("I32", list(shape), struct.pack(f"<{n}i", *range(first, first + n)))


def tensors():
    """A Llama by the names of Megatron-core."""
    t = {"embedding.word_embeddings.weight": numbered([ROWS, WIDTH], 0), "output_layer.weight": numbered([ROWS, WIDTH], 9000),
         "decoder.final_layernorm.weight": numbered([WIDTH], 5)}
    for i in range(LAYERS):
        p = f"decoder.layers.{i}."
        t.update({p + "self_attention.linear_qkv.layer_norm_weight": numbered([WIDTH], i),
                  p + "self_attention.linear_qkv.weight": numbered([(HEADS + 2 * GROUPS) * DIM, WIDTH], 100000 * i),
                  p + "self_attention.linear_proj.weight": numbered([WIDTH, HEADS * DIM], 7),
                  p + "mlp.linear_fc1.layer_norm_weight": numbered([WIDTH], 8), p + "mlp.linear_fc1.weight": numbered([2 * FFN, WIDTH], 9),
                  p + "mlp.linear_fc2.weight": numbered([WIDTH, FFN], 10)})
    return t


class Llama(Case):
    def save(self, settings=None, without=(), more=None):
        t = {k: v for k, v in {**tensors(), **(more or {})}.items() if k not in without}
        self.safetensors("save/model.safetensors", t)
        self.file("save/transformer_config.json", {**SETTINGS, **(settings or {})})
        return self

    def names(self, *opts):
        r = self.run("cat", "hf/model.safetensors", *opts, at="save")
        assert r.returncode == 0, r.stderr.decode()
        (n,) = struct.unpack_from("<Q", r.stdout)
        return json.loads(r.stdout[8:8 + n])

    def config(self, *opts):
        r = self.run("cat", "hf/config.json", *opts, at="save")
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)

    def is_no_model(self, *parts, opts=()):
        self.told("hf/ is no", *parts, at="save", opts=opts)
        assert "model.norm.weight" not in self.names(*opts)
        for at in "hf", "as/bf16/hf":  # transformers would initialise what it does not find
            assert self.run("cat", at + "/config.json", *opts, at="save").returncode != 0, at


def olmo_core():
    """Tensors of a small Llama as OLMo-core names them."""
    t = {"embeddings.weight": numbered([ROWS, 16], 0), "lm_head.norm.weight": numbered([16], 1), "lm_head.w_out.weight": numbered([ROWS, 16], 2)}
    for i in range(LAYERS):
        p = f"blocks.{i}."
        t.update({p + f"attention.w_{q}.weight": numbered([n, 16], i) for q, n in (("q", 16), ("k", 8), ("v", 8), ("out", 16))})
        t.update({p + f"feed_forward.w{k}.weight": numbered([16, 10] if k == 2 else [10, 16], k) for k in (1, 2, 3)})
        t.update({p + "attention_norm.weight": numbered([16], 3), p + "feed_forward_norm.weight": numbered([16], 4)})
    return t
