#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPT-NeoX's pipeline saves as GPTNeoXForCausalLM: layers joined over tensor-parallel ranks, settings of configs/*.yml, and what
contradicts them.  The layout is that of gpt-neox megatron/checkpointing.py and tools/ckpts/convert_neox_to_hf.py; the logits of such a
save are compared by the frameworks' suite."""
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "format", "deepspeed")]
import makeds  # noqa: E402 pylint: disable=wrong-import-position
import makemp  # noqa: E402 pylint: disable=wrong-import-position
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position

LAYERS, WIDTH, HEADS, ROWS = 2, 8, 4, 12
MODEL = "# a model\n{\n  \"pos-emb\": \"rotary\", # halves\n  \"rotary-pct\": 0.5, \"no-weight-tying\": true, \"gpt-j-residual\": false,\n" \
        "  \"num-layers\": 2, \"hidden-size\": 8, \"num-attention-heads\": 4, \"norm\": \"layernorm\", \"bias-gelu-fusion\": true,\n" \
        "  \"attention-config\": [[[\"flash\"], 2]], \"max-position-embeddings\": 64, \"layernorm-epsilon\": 0.0001,\n}\n"
TRAIN = "model_parallel_size: 2\npipe-parallel-size: 1\nseq_length: 64\nrotary_emb_base: 20000\n"
# Names behind a layer's number: shape, how it is cut, the name in the model.
LAYER = {"input_layernorm.weight": ((WIDTH,), "copy"), "input_layernorm.bias": ((WIDTH,), "copy"),
         "post_attention_layernorm.weight": ((WIDTH,), "copy"), "post_attention_layernorm.bias": ((WIDTH,), "copy"),
         "attention.query_key_value.weight": ((3 * WIDTH, WIDTH), "0"), "attention.query_key_value.bias": ((3 * WIDTH,), "0"),
         "attention.dense.weight": ((WIDTH, WIDTH), "1"), "attention.dense.bias": ((WIDTH,), "copy"),
         "mlp.dense_h_to_4h.weight": ((4 * WIDTH, WIDTH), "0"), "mlp.dense_h_to_4h.bias": ((4 * WIDTH,), "0"),
         "mlp.dense_4h_to_h.weight": ((WIDTH, 4 * WIDTH), "1"), "mlp.dense_4h_to_h.bias": ((WIDTH,), "copy")}


def parts(tied=False):
    """{name in the save: (shape, cut, name in the model)}"""
    word = "tied_modules.embed." if tied else "0."
    out = {word + "word_embeddings.weight": ((ROWS, WIDTH), "0", "gpt_neox.embed_in.weight"),
           **{f"{i + 2}.{n}": (*how, f"gpt_neox.layers.{i}.{n}") for i in range(LAYERS) for n, how in LAYER.items()},
           "5.norm.weight": ((WIDTH,), "copy", "gpt_neox.final_layer_norm.weight"),
           "5.norm.bias": ((WIDTH,), "copy", "gpt_neox.final_layer_norm.bias")}
    if not tied:
        out["6.final_linear.weight"] = ((ROWS, WIDTH), "0", "embed_out.weight")
    return out


class Neox(Case):
    def save(self, tp=1, pp=1, model=MODEL, train=TRAIN, args=None, twist=None, tied=False, front="", without=(), renamed=()):
        of = {front + n: p for n, p in parts(tied).items() if not n.endswith(without)}
        for old, new in renamed:
            of = {n.replace(old, new): p for n, p in of.items()}
        state = makeds.State({n: p[0] for n, p in of.items()})
        stages = [[0, 2, 3, 5, 6]] if pp == 1 else [[0, 2], [3, 5, 6]]
        cuts = {n: p[1] for n, p in of.items()}
        if front:
            files = makemp.tensor(state, cuts, tp, 1, stage=1, degrees=False, twist=twist)
        else:
            files = makemp.pipeline(state, stages, tp=tp, cuts=cuts, axis=True, twist=twist, degrees=False,
                                    tied={"embed": (0, pp - 1)} if tied else None)
        for name, has in files.items():
            if name.startswith("mp_rank"):
                has["iteration"] = 3
                has["args"] = {"num_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": HEADS, "max_position_embeddings": 64,
                               "make_vocab_size_divisible_by": 2, "padded_vocab_size": ROWS, "tokenizer_type": "HFTokenizer",
                               "model_parallel_size": tp, **(args or {})}
        at = os.path.join(self.dir, "global_step3")
        makeds.write(at, files)
        for name, text in (("a model.yml", model), ("train.yml", train)):
            if text is not None:
                self.file(f"global_step3/configs/{name}", text.replace("model_parallel_size: 2", f"model_parallel_size: {tp}").encode())
        self.of, self.state, self.cut = of, state, {}
        return self

    def holds(self, *opts):
        """hf/ is the model, element for element."""
        r = self.run("cat", "hf/model.safetensors", *opts, at="global_step3")
        assert r.returncode == 0, r.stderr.decode()
        (n,) = struct.unpack_from("<Q", r.stdout)
        head = json.loads(r.stdout[8:8 + n])
        head.pop("__metadata__", None)
        got = {k: r.stdout[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()}
        want = {**{p[2]: makeds.bf16(self.state.values(n)) for n, p in self.of.items()}, **self.cut}
        assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
        for name, data in want.items():
            assert got[name] == data, name
        r = self.run("cat", "hf/config.json", *opts, at="global_step3")
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)

    def is_no_model(self, *said, opts=()):
        self.told("hf/ is no", *said, at="global_step3", opts=opts)


def layers_are_joined_over_ranks_and_stages():
    for tp, pp in ((1, 1), (2, 1), (2, 2)):
        with Neox() as c:
            config = c.save(tp, pp).holds()
            want = {"architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
                    "vocab_size": 12, "rotary_pct": 0.5, "rotary_emb_base": 20000.0, "layer_norm_eps": 0.0001, "tie_word_embeddings": False,
                    "use_parallel_residual": False, "hidden_act": "gelu_new", "max_position_embeddings": 64}
            c.told("bias_gelu_fusion) is taken for the tanh form", at="global_step3")
            assert {k: config.get(k) for k in want} == want, config


def a_model_that_is_no_pipeline():
    for tp in (1, 2):
        with Neox() as c:
            c.save(tp, front="sequential.").holds()


def parallel_residuals_of_one_rank():
    with Neox() as c:
        config = c.save(model=MODEL.replace("residual\": false", "residual\": true")).holds()
        assert config["use_parallel_residual"] is True


def a_feed_forward_by_its_other_names():
    with Neox() as c:
        config = c.save(renamed=(("dense_h_to_4h", "linear1"), ("dense_4h_to_h", "linear2"))).holds()
        assert config == {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "attention_bias": True, "bos_token_id": None, "eos_token_id": None,
                          "hidden_act": "gelu_new", "hidden_size": 8, "intermediate_size": 32, "layer_norm_eps": 0.0001, "max_position_embeddings": 64, "num_attention_heads": 4,
                          "num_hidden_layers": 2, "rotary_emb_base": 20000.0, "rotary_pct": 0.5, "tie_word_embeddings": False, "torch_dtype": config["torch_dtype"],
                          "use_parallel_residual": False, "vocab_size": 12}, config


def attentions_without_biases():
    with Neox() as c:
        biases = (".attention.query_key_value.bias", ".attention.dense.bias")
        config = c.save(train=TRAIN + "use_bias_in_attn_linear: false\n", without=biases).holds()
        assert config["attention_bias"] is False
        c.save(without=biases).is_no_model("query_key_value.bias")


def a_tied_head():
    with Neox() as c:
        config = c.save(2, model=MODEL.replace("tying\": true", "tying\": false"), tied=True).holds()
        assert config["tie_word_embeddings"] is True
    with Neox() as c:
        c.save(model=MODEL.replace("tying\": true", "tying\": false")).is_no_model("no_weight_tying")


def biases_that_are_added_are_no_model():
    name = "3.attention.dense.bias"
    with Neox() as c:  # each rank's own
        c.save(2, twist={(1, name, "fp32"): 1.0})
        c.told("shown separately", name, at="global_step3")
    with Neox() as c:  # equal, and to be added
        c.save(2, model=MODEL.replace("residual\": false", "residual\": true")).is_no_model("biases of its own")


def settings_that_contradict_are_refused():
    for more, said in (({"args": {"num_attention_heads": 2}}, ("num_attention_heads is", "2", "4")),
                       ({"train": TRAIN + "hidden_size: 16\n"}, ("hidden_size", "16", "8")),
                       ({"args": {"num_attention_heads": 3}, "model": MODEL.replace("heads\": 4", "heads\": 3")}, ("no multiple of num_attention_heads",)),
                       ({"args": {"padded_vocab_size": 14}}, ("padded_vocab_size", "14 and 12")),
                       ({"args": {"num_layers": 3}, "model": MODEL.replace("layers\": 2", "layers\": 3")}, ("num_layers",)),
                       ({"args": {"hidden_size": 16}, "model": MODEL.replace("size\": 8", "size\": 16")}, ("hidden_size", "8 and 16")),
                       ({"train": TRAIN + "intermediate_size: 24\n"}, ("intermediate_size", "32 and 24")),
                       ({"model": MODEL.replace("\"rotary\"", "\"alibi\"")}, ("pos_emb",)),
                       ({"train": TRAIN + "gpt_j_tied: true\n"}, ("gpt_j_tied",)),
                       ({"train": TRAIN + "activation: relu\n"}, ("activation",)),
                       ({"train": TRAIN + "num_kv_heads: 2\n"}, ("num_kv_heads",)),
                       *(({"train": TRAIN + f"{key}: {value}\n"}, (key,)) for key, value in (
                           ("use_qk_layernorm", "true"), ("mlp_type", "llama"), ("moe_num_experts", 4), ("sliding_window_width", 8), ("use_mup", "true"))),
                       ({"model": MODEL.replace("\"layernorm\"", "\"rmsnorm\"")}, ("(norm)",)),
                       ({"train": "seq_length: [64\n"}, ("train.yml", "cannot be read")),
                       ({"train": "rotary_pct: 0.25\n"}, ("rotary_pct is", "0.5", "0.25")),
                       ({"model": MODEL.replace("flash", "local")}, ("attention_config",))):
        with Neox() as c:
            c.save(**more).is_no_model(*said)


def tensors_of_layers_that_the_settings_do_not_give():
    with Neox() as c:  # made anew by the model
        LAYER["attention.rotary_emb.inv_freq"] = ((1,), "copy")
        try:
            c.save()
            c.told("hf/ is the model GPTNeoXForCausalLM", at="global_step3")
        finally:
            LAYER.pop("attention.rotary_emb.inv_freq")
    kept = dict(LAYER)
    with Neox() as c:  # groups of queries that no setting speaks of
        LAYER.update({"attention.query_key_value.weight": ((2 * WIDTH, WIDTH), "0"), "attention.query_key_value.bias": ((2 * WIDTH,), "0")})
        try:
            c.save().is_no_model("rows of query_key_value and 3 * hidden_size: 16 and 24")
        finally:
            LAYER.update(kept)


def a_vocabulary_is_cut_by_a_config_json_from_outside():
    for tied in (False, True):
        with Neox() as c:
            c.save(2, model=MODEL.replace("tying\": true", "tying\": false") if tied else MODEL, tied=tied)
            c.file("side/config.json", {"model_type": "gpt_neox", "vocab_size": 10, "hidden_act": "gelu"})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            for name, part in c.of.items():
                if part[2] in ("gpt_neox.embed_in.weight", "embed_out.weight"):
                    c.cut[part[2]] = makeds.bf16(c.state.values(name))[:2 * 10 * WIDTH]
            assert len(c.cut) == 1 + (not tied)
            c.holds(*opts)


def without_settings_a_config_json_is_asked_for():
    side = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "num_attention_heads": 4, "use_parallel_residual": False,
            "rotary_pct": 0.25, "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "gelu"}
    with Neox() as c:
        c.save(model=None, train=None).is_no_model("configs/*.yml", "side=DIR")
        c.file("side/config.json", side)
        opts = ("-o", "side=" + os.path.join(c.dir, "side"))
        assert c.holds(*opts)["rotary_pct"] == 0.25
        c.file("side/config.json", {**side, "num_attention_heads": 2})
        c.is_no_model("num_attention_heads", opts=opts)
        c.file("side/config.json", {k: v for k, v in side.items() if k != "use_parallel_residual"})
        c.is_no_model("gpt_j_residual", opts=opts)
    with Neox() as c:
        c.save(model=None, train=None, args={"num_layers": None})
        said = " ".join(c.run("recipes", None, at="global_step3").stdout.decode().split())
        assert "nothing beside its tensors holds the settings of GPT-NeoX (num_layers)" in said and "fits" not in said and "refused" not in said, said
    with Neox() as c:  # a config.json decides what the settings leave open
        c.save()
        opts = ("-o", "side=" + os.path.join(c.dir, "side"))
        for said in ("gelu", "gelu_new"):
            c.file("side/config.json", {"model_type": "gpt_neox", "hidden_act": said})
            assert c.holds(*opts)["hidden_act"] == said
            assert "tanh" not in c.run("info", None, "-v", *opts, at="global_step3").stdout.decode()


main([tensors_of_layers_that_the_settings_do_not_give, a_feed_forward_by_its_other_names, attentions_without_biases, layers_are_joined_over_ranks_and_stages, a_model_that_is_no_pipeline, parallel_residuals_of_one_rank, a_tied_head, biases_that_are_added_are_no_model,
      settings_that_contradict_are_refused, without_settings_a_config_json_is_asked_for,
      a_vocabulary_is_cut_by_a_config_json_from_outside])
