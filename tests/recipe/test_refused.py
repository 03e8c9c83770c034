#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes that are wrong, and settings that contradict the tensors: one sentence each, with its place."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position
from megatron import DIM, FFN, GROUPS, HEADS, LAYERS, ROWS, SETTINGS, WIDTH, Llama, numbered, olmo_core, tensors  # noqa: E402 pylint: disable=wrong-import-position

def a_llama_is_shown():
    with Llama() as c:
        c.save()
        assert c.names()["model.layers.1.self_attn.k_proj.weight"]["shape"] == [GROUPS * DIM, WIDTH]
        config = c.config()
        assert (config["architectures"], config["head_dim"], config["num_key_value_heads"]) == (["LlamaForCausalLM"], DIM, GROUPS)
        c.told("hf/ is the model LlamaForCausalLM, by the recipe megatron-llama", at="save")
        assert "decoder.final_layernorm.weight" in c.names("-o", "recipe=off")
        # Megatron's window of 7 positions before a token is one of 8 with the token.
        c.save({"window_size": [7, 0]})
        config = c.config()
        assert (config["architectures"], config["sliding_window"]) == (["MistralForCausalLM"], 8), config


def settings_that_contradict_the_tensors_are_refused_with_both_values():
    for settings, parts in (
            ({"num_attention_heads": 8, "num_query_groups": 2}, ("columns of linear_proj", "24 and 48")),
            ({"num_query_groups": 4}, ("rows of linear_qkv", "48 and 72")),
            ({"num_layers": 3}, ("num_layers", "2 and 3")),
            ({"hidden_size": 32}, ("hidden_size", "16 and 32")),
            ({"ffn_hidden_size": 12}, ("ffn_hidden_size", "20 and 24")),
            ({"share_embeddings_and_output_weights": True}, ("the tensors differ",)),
            ({"layernorm_epsilon": None}, ("nothing says the epsilon",)),
            ({"rotary_base": None}, ("nothing says the base",)),
            ({"layernorm_zero_centered_gamma": True}, ("1 + w", "only re-orders")),
            ({"rotary_percent": 0.5}, ("rotary_percent",)),
            ({"num_attention_heads": "four"}, ("heads", "four"))):
        with Llama() as c:
            c.save(settings).is_no_model(*parts)


def every_tensor_has_a_place_or_is_named():
    with Llama() as c:
        c.save(without=["output_layer.weight"]).is_no_model("no output_layer.weight")
    with Llama() as c:
        c.save(without=["decoder.layers.1.mlp.linear_fc2.weight"]).is_no_model("decoder.layers.1.mlp.linear_fc2.weight")
    with Llama() as c:
        c.save(more={"decoder.layers.0.mlp.linear_fc1.bias": numbered([2 * FFN], 0)}).is_no_model(
            "decoder.layers.0.mlp.linear_fc1.bias is neither used")
    with Llama() as c:  # either name of a norm, not both
        c.save(more={"decoder.layers.0.input_layernorm.weight": numbered([WIDTH], 0)}).is_no_model("has both")
    with Llama() as c:
        c.save(more={"mtp.layers.0.w": numbered([3], 0)})
        assert "model.norm.weight" in c.names()


def a_config_json_from_outside_cuts_the_vocabulary_and_must_agree():
    side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30, "hidden_size": WIDTH,
            "num_attention_heads": HEADS, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
    for change, parts in (({}, None), ({"num_attention_heads": 8}, ("num_attention_heads is 4", "8 in config.json")),
                          ({"rope_parameters": {"rope_theta": 5.0}}, ("rope_theta is 10000.0", "5.0 in config.json")),
                          ({"vocab_size": 64}, ("vocab_size is 32", "64 in config.json")),
                          ({"model_type": "qwen2"}, ("model_type", "qwen2")), ({"rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0}}, ("in another way than the settings",)),
                          ({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": None}, ("in another way than the settings",)), ({"rms_norm_eps": 1e-6}, ("rms_norm_eps",))):
        with Llama() as c:
            c.save()
            c.file("side/config.json", {**side, **change})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if parts:
                c.is_no_model(*parts, opts=opts)
            else:
                assert c.names(*opts)["lm_head.weight"]["shape"] == [30, WIDTH]
                # What it lacks is filled in, by the names that it knows.
                shown = json.loads(c.run("cat", "hf/config.json", *opts, at="save").stdout)
                assert {k: shown[k] for k in side} == side and "rope_theta" not in shown and "rope_scaling" not in shown
                assert (shown["rms_norm_eps"], shown["num_key_value_heads"], shown["num_hidden_layers"], shown["intermediate_size"]) == (1e-5, GROUPS, LAYERS, FFN)


BAD = [
    ("x <- w", "1:6: x:", "no w"), ("a.b <- t [:3]", "not used by any rule"), ("a <- t\nb <- t [0]", "2:", "used twice"),
    ("a <- t\na <- u", "two rules make a"), ('a <- t "r c -> c"', "1:8", "only on the left"), ('a <- t "r c -> r c d"', "only on the right"),
    ('a <- t "r r -> r"', "twice"), ('a <- t "(r c -> r c"', "bracket"), ('a <- t "r c"', "no ->"), ('a <- t "r c -> r c -> c"', "two ->"),
    ('a <- t "r ... -> r ..."', "only names"), ('size k = 5\na <- t "(k r) c -> k r c"', "the axis has 5", "has 4"),
    ('a <- t "(k r) c -> k r c"', "neither k nor r"), ('a <- t "r c d -> d r c"', "for 3 dimensions, but the tensor has 2"),
    ("a <- t [0:9]", "[0:9] are outside the axis, which has 4"), ("a <- t [0, 0, 0]", "3 axes are cut"),
    ("a <- cat(0, t, u)", "differs in shape or dtype"), ("a <- cat(7, t)", "no dimension 7"), ("a <- {i}.w", '"index"'), ("# x\nlet a = has({i}.w)", 'bad.recipe:2:1: {i} is not named by an "index"'),
    ("index i < 2\na <- {i}.w", "index that the target lacks"), ("let a = 1 +", "expected a value"), ("let a = (1", "not closed"),
    ("let a = f(1)", "no function f()"), ("let a = 1 / 0\na <- t", '"/" does not work'), ("let a = log(0)\na <- t", '"log" does not work with 0'), ("let a = 3 / 2\na <- t", '"/" does not work with 3 and 2'),
    ('size a = "x"\na <- t', "not a number of elements"), ("size a = nothing\na <- t", "the size a is not recorded"),
    ("let a = 9223372036854775807 + 1", "not a number"), ("let a = 900000000000000000 * 100\na <- t", '"*" does not work'),
    ("use wrapped2", "no recipe wrapped2"), ("use _megatron/../x", "no recipe"), ("a <- t $", "cannot begin anything here"),
    ('need true', "sentence in quotes"), ('need t "unclosed', "must end on the line"), ("index i < 99999999999\na.{i} <- t", "limit tensors"),
    ("let a = " + "(" * 100 + "1", "nested too deep"), ("let a = 1" + " + 1" * 200, "more than 128 parts"), ("recipe", "expected a name"),
    ("check 1 == 2 \"sums\"\na <- t", "sums: 1 and 2"), ("# nothing\n", "there is no rule that makes a tensor"), ("a <- t\x00", "zero byte"),
    ("index i < 1\nindex j < 1\nindex k < 1\nindex l < 1\nindex m < 1", "more than 4 indices"),
]


def a_recipe_that_is_wrong_is_refused_with_its_place():
    with Case() as c:
        c.safetensors("save/model.safetensors", {"t": numbered([4, 6], 0), "u": numbered([2, 2], 0)})
        for text, *parts in BAD:
            path = c.file("bad.recipe", text.encode())
            for args in (("info", None, "-o", "recipe=" + path), ("recipe", None, "check", path)):
                r = c.run(*args, at="save")
                said = r.stdout.decode() + r.stderr.decode()
                assert r.returncode in (1, 4) and "bad.recipe" in said or "no rule uses" in said, f"{text!r}: {r.returncode} {said}"
                for part in parts if args[0] == "recipe" else []:
                    assert part in said, f"{text!r}: {part!r} is not in {said!r}"
        r = c.run("recipe", None, "check", c.file("deep.recipe", b"use megatron-llama\n"), at="save")  # which uses _megatron-frame, which uses _rope-scaling
        assert r.returncode == 4 and "_megatron-frame:" in r.stderr.decode() and "cannot use another" in r.stderr.decode(), r


def a_lost_tensor_is_lost_under_its_new_name_and_in_no_other():
    with Llama() as c:
        c.save()
        path = os.path.join(c.dir, "save/model.safetensors")
        os.truncate(path, os.path.getsize(path) - 100)  # of the last linear_fc2
        opts = ("-o", "degraded")
        c.told("hf/ is the model LlamaForCausalLM", at="save", opts=opts)
        r = c.run("cat", "hf/model.safetensors", *opts, at="save")
        assert r.returncode == 5 and "model.layers.1.mlp.down_proj.weight" in r.stderr.decode(), r.stderr.decode()
        assert "model.layers.1.mlp.down_proj.weight" not in c.names(*opts, "-o", "lost=omit")
        assert "model.layers.1.mlp.up_proj.weight" in c.names(*opts, "-o", "lost=omit")
        for where, name in (("LOST.json", "decoder.layers.1.mlp.linear_fc2.weight"), ("hf/LOST.json", "model.layers.1.mlp.down_proj.weight")):
            lost = json.loads(c.run("cat", where, *opts, "-o", "lost=omit", at="save").stdout)["lost"]
            assert [x["name"] for x in lost] == [name], (where, lost)


def a_head_that_is_lost_is_not_said_to_differ():
    with Llama() as c:
        t = tensors()
        t.pop("output_layer.weight")
        t["output_layer.weight"] = t["embedding.word_embeddings.weight"]
        path = c.safetensors("save/model.safetensors", t)
        c.file("save/transformer_config.json", {**SETTINGS, "share_embeddings_and_output_weights": True})
        assert "lm_head.weight" not in c.names() and c.config()["tie_word_embeddings"] is True
        os.truncate(path, os.path.getsize(path) - 100)  # of the head
        c.is_no_model("untie_embeddings_and_output_weights), which cannot be seen", opts=("-o", "degraded,lost=omit"))


def tensors_that_a_selection_hides_are_said_to_be_hidden_by_it():
    last, without = "decoder.layers.1.mlp.linear_fc2.weight", "Without -o {} the recipe megatron-llama fits"
    for opts, options, part in ((("-o", "except=" + last), "except=", "model.layers.1.mlp.down_proj.weight: the checkpoint has no " + last),
                                (("-o", "rename=linear_fc2=fc2"), "rename=", "model.layers.0.mlp.down_proj.weight: the checkpoint has no decoder.layers.0.mlp.linear_fc2.weight"),
                                (("-o", "only=decoder.*"), "only=", "not converted by a recipe"),
                                (("-o", "strip_prefix=decoder."), "strip_prefix=", "not converted by a recipe"),
                                (("-o", "only=*weight", "-o", "except=*.0.*", "-o", "rename=layers=l"), "except=, -o rename=", "not converted by a recipe")):
        with Llama() as c:
            c.save()
            c.is_no_model(part, without.format(options), opts=opts)
            c.refused("recipe megatron-llama", without.format(options), at="save", opts=("-o", "recipe=megatron-llama", *opts), code=4)
            r = c.run("recipes", None, *opts, at="save")
            said = " ".join(r.stdout.decode().split())
            assert r.returncode == 1 and said.count(without.format(options)) == 1, said
            assert f"megatron-llama: {without.format(options)}" not in said and said.count("Without -o") == 1, said
            r = c.run("recipe", None, "check", "megatron-llama", *opts, at="save")
            assert r.returncode == 1 and r.stdout.decode().endswith(without.format(options) + "\n"), r.stdout.decode()
    # What does not come of the selection is not said to.
    with Llama() as c:
        c.save({"softmax_scale": 0.5})
        for opts in (("-o", "except=" + last), ("-o", "only=*")):
            for r in (c.run("info", None, *opts, at="save"), c.run("recipes", None, *opts, at="save"), c.run("recipe", None, "check", "megatron-llama", *opts, at="save")):
                said = r.stdout.decode() + r.stderr.decode()
                assert "softmax_scale" in said and "Without" not in said, said
        c.save()
        assert "model.norm.weight" in c.names("-o", "only=*weight", "-o", "rename=nothing=something")


def names_that_fall_together_are_no_model():
    with Llama() as c:
        c.save(more={"_orig_mod.decoder.final_layernorm.weight": numbered([WIDTH], 0)})
        r = c.run("recipes", None, at="save")
        assert r.returncode == 1 and "without the prefixes of wrappers" in r.stdout.decode(), r.stdout.decode()
        assert "_orig_mod.decoder.final_layernorm.weight" in c.names()


def a_recipe_file_that_is_not_there_or_too_large():
    with Case() as c:
        c.safetensors("save/model.safetensors", {"t": numbered([4, 6], 0)})
        c.refused("cannot read the recipe", at="save", opts=("-o", "recipe=./nowhere"), code=5)
        c.refused("there is no recipe", at="save", opts=("-o", "recipe=nowhere"), code=2)
        c.refused("there is no recipe", at="save", opts=("-o", "recipe=_megatron"), code=2)
        path = c.file("big", b"#" * (1 << 21))
        c.refused("not a recipe", at="save", opts=("-o", "recipe=" + path))


def limits_of_the_table_hold_and_are_named():
    with Case() as c:
        c.safetensors("save/model.safetensors", {"t": numbered([4, 6], 0)})
        path = c.file("parts", b"a <- t [0]\nb <- t [1]\nc <- t [2]\nd <- t [3]\n")
        for most, part in ((4, "4 tensors"), (3, "it is cut into 4 parts, more than 3 (limit recipe_parts)")):
            r = c.run("recipe", None, "check", path, "--limit", f"recipe_parts={most}", at="save")
            assert (r.returncode == 0) == (most == 4) and part in r.stdout.decode() + r.stderr.decode(), r
    with Llama() as c:
        c.save()
        c.told("by the recipe megatron-llama", at="save", opts=("--limit", "json_bytes=4000"))
        c.save({"comment": "x" * 9000})
        c.told("settings are unreadable, state/transformer_config.json", "limit json_bytes", at="save", opts=("--limit", "json_bytes=4000"))


def experts():
    """A Mixtral by the names of Megatron-core, and its settings."""
    t = {k: v for k, v in tensors().items() if ".mlp." not in k}
    for i in range(LAYERS):
        p = f"decoder.layers.{i}."
        t.update({p + "pre_mlp_layernorm.weight": numbered([WIDTH], 8), p + "mlp.router.weight": numbered([4, WIDTH], 9)})
        for e in range(4):
            t.update({p + f"mlp.experts.experts.{e}.linear_fc1.weight": numbered([2 * FFN, WIDTH], e),
                      p + f"mlp.experts.experts.{e}.linear_fc2.weight": numbered([WIDTH, FFN], e)})
    return t, {**SETTINGS, "num_moe_experts": 4, "moe_ffn_hidden_size": FFN, "moe_router_topk": 2}


def settings_that_no_class_of_transformers_has_are_refused_by_name():
    for settings, part in (({"softmax_scale": 0.5}, "softmax_scale"), ({"activation_func": {"_target_": "torch.nn.functional.gelu"}}, "activation_func"),
                           ({"window_size": [-1, 0]}, "window_size"), ({"layernorm_epsilon": "x"}, 'does not work with "x"')):
        with Llama() as c:
            c.save(settings).is_no_model(part)
    with Llama() as c:  # a scaled rotary embedding, of which the older flag says nothing
        c.save({"position_embedding_type": "yarn", "use_rotary_position_embeddings": True}).is_no_model("YaRN")
    t, plain = experts()
    for settings, part in (({}, None), ({"window_size": [7, 0]}, "window_size"), ({"moe_router_num_groups": 2, "moe_router_group_topk": 1}, "num_groups"),
                           ({"moe_router_load_balancing_type": "sinkhorn"}, "sinkhorn"), ({"moe_apply_probs_on_input": True}, "moe_apply_probs_on_input"),
                           ({"moe_router_topk_limited_devices": 2}, "limited_devices"), ({"moe_router_topk": 5}, "moe_router_topk")):
        for more in ({}, {"qk_layernorm": True}):
            with Llama() as c:
                norms = {f"decoder.layers.{i}.self_attention.{q}_layernorm.weight": numbered([DIM], 0) for i in range(LAYERS) for q in "qk"}
                c.safetensors("save/model.safetensors", {**t, **(norms if more else {})})
                c.file("save/transformer_config.json", {**plain, **settings, **more})
                if part:
                    c.is_no_model(part)
                else:
                    assert "model.norm.weight" in c.names()


def settings_of_olmo_core_that_no_class_has_are_refused_by_name():
    t = olmo_core()
    rope, norm = {"name": "default", "theta": 10000}, {"name": "rms", "eps": 1e-5}
    for rotary, mixer, block, head, part in (
            ({}, {}, {}, {}, None), ({"name": "complex"}, {}, {}, {}, "rope.name"), ({}, {"clip_qkv": 8.0}, {}, {}, "clip_qkv"),
            ({}, {"scalable_softmax": True}, {}, {}, "scalable softmax"), ({"partial_rotary_factor": 0.5}, {}, {}, {}, "partial_rotary_factor"),
            ({"no_global_rope": True}, {}, {}, {}, "no_global_rope"), ({}, {"attention_sinks": True}, {}, {}, "attention_sinks"),
            ({}, {}, {"layer_norm": {"name": "default", "eps": 1e-5}}, {}, "layer_norm.name"), ({}, {}, {"attention_residual_alpha": 0.5}, {}, "residual"),
            ({}, {}, {}, {"eps": 1e-3}, "several epsilons")):
        for place in ("sequence_mixer", "attention"):  # 3.x and 2.x
            with Llama() as c:
                attention = {"n_heads": 4, "n_kv_heads": 2, "bias": False, "rope": {**rope, **rotary}, **mixer}
                blocks = {"name": "default", place: attention, "feed_forward": {"hidden_size": 10}, "layer_norm": norm, **block}
                c.safetensors("save/model.safetensors", t)
                c.file("save/config.json", {"model": {"d_model": 16, "n_layers": LAYERS, "vocab_size": ROWS, "block": blocks, "lm_head": {"layer_norm": {**norm, **head}}}})
                if part:
                    c.is_no_model(part)
                else:
                    assert "model.norm.weight" in c.names()


main([tensors_that_a_selection_hides_are_said_to_be_hidden_by_it, a_head_that_is_lost_is_not_said_to_differ, a_lost_tensor_is_lost_under_its_new_name_and_in_no_other, names_that_fall_together_are_no_model,
      settings_that_no_class_of_transformers_has_are_refused_by_name, settings_of_olmo_core_that_no_class_has_are_refused_by_name,
      a_llama_is_shown, settings_that_contradict_the_tensors_are_refused_with_both_values, every_tensor_has_a_place_or_is_named, a_config_json_from_outside_cuts_the_vocabulary_and_must_agree, a_recipe_that_is_wrong_is_refused_with_its_place, a_recipe_file_that_is_not_there_or_too_large, limits_of_the_table_hold_and_are_named])
