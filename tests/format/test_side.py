#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Side files (config.json, the tokenizer, ...): where they are shown, from where they are taken, and which type the
config.json below as/<dtype>/ names."""
import json
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__))))
from golden import Case, main  # noqa: E402

DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data"))
W = {"w": ("BF16", [2], b"\x80\x3f\x00\x40"), "n": ("I32", [1], b"\1\0\0\0")}
TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}

# Odd spacing, keys that look alike, texts that look like keys, escapes; and every place where a type is named.
CONFIG = """{ "a\\"dtype" : "dtype", "torch_dtype":"float16" ,
  "text_config": {"dtype" : "bfloat16", "list": [{"dtype": "float16"}, "torch_dtype"],
\t\t"vision_config":{"torch_dtype":null}},
  "quantization_config": {"dtype": "float16", "x_config": {"dtype": "float16"}},
  "encoder": {"dtype": "torch.float16"}, "rope_config": {"theta": 1e4, "n": null},
  "labels": {"dtype": "float16"}, "empty_config": {}, "z": "\\\\",
  "audio_config": {"dtype": "auto"},
  "dtype" : {"" : "float16", "text_config": "bfloat16"}, "name_dtype": "float16"\n}\n\n"""


def edited(to):
    """What must come out: done by hand, place by place."""
    out = CONFIG
    for old in ('"torch_dtype":"float16"', '"text_config": {"dtype" : "bfloat16"', '"torch_dtype":null',
                '"encoder": {"dtype": "torch.float16"', '"" : "float16"', '"text_config": "bfloat16"'):
        assert out.count(old) == 1, old
        value = old.rsplit('"', 2)[1] if old.endswith('"') else "null"
        new = old[:-4] + f'"{to}"' if value == "null" else old[:-len(value) - 1] + to + '"'
        out = out.replace(old, new)
    return out


def told(folder, *opts):
    with Case() as c:
        c.dir = folder
        r = c.run("info", "--json", *opts)
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)["notes"]


def listing(c, *opts, at=""):
    r = c.run("ls", "-R", "-a", *opts, at=at)
    assert r.returncode == 0, r.stderr.decode()
    return set(r.stdout.decode().splitlines())


def config_names_the_type_served():
    with Case() as c:
        c.safetensors("model.safetensors", W)
        c.file("config.json", CONFIG.encode())
        for path in ("config.json", "hf/config.json"):
            c.cat(path, CONFIG.encode())
        for suffix, torch in TORCH.items():
            c.cat(f"as/{suffix}/hf/config.json", edited(torch).encode())
            got = json.loads(edited(torch))
            assert got["torch_dtype"] == got["text_config"]["dtype"] == torch


def config_that_is_none_is_passed_through():
    for text in ('{"dtype":"float32"', '{"dtype":"float32"}}', '["dtype","float32"]', "", "\0\1", " {", "}", '{"dtype":"',
                 '{"dtype":"float32"} x', '{"dtype":n', '{"dtype":nul}', '{"dtype":"float32\\"}', '{"dtype" "float32"}',
                 '{"dtype": 32, "torch_dtype": ["float32"]}', '{"dtype":"no such type"}', '"dtype"', "{" * 9999):
        with Case() as c:
            c.safetensors("model.safetensors", W)
            c.file("config.json", text.encode())
            for suffix in TORCH:
                c.cat(f"as/{suffix}/hf/config.json", text.encode())


def what_python_reads_is_understood():
    """Infinity, huge numbers, deep nesting, a key twice: jansson would refuse them."""
    for text in ('{"time_step_limit":[0.0,Infinity],"dtype":"float64"}', '{"a":NaN,"b":-Infinity,"dtype":"float64"}',
                 '{"n":' + "1" * 40 + ',"dtype":"float64"}', '{"dtype":"float64","dtype":"float64"}',
                 '{"x":' + "[" * 300 + "]" * 300 + ',"dtype":"float64"}', '\r\n{"dtype":"float64"}\t'):
        with Case() as c:
            c.safetensors("model.safetensors", W)
            c.file("config.json", text.encode())
            assert json.loads(text)["dtype"] == "float64"
            c.cat("as/f16/hf/config.json", text.replace("float64", "float16").encode())
            c.told("config.json says float64")


def config_and_weights_that_differ_are_noted():
    cases = (("float32", "BF16", True), ("bfloat16", "BF16", False), ("float16", "F32", True), ("auto", "F32", False))
    for says, have, noted in cases:
        for key in ("dtype", "torch_dtype"):
            with Case() as c:
                width = 2 if have == "BF16" else 4
                c.safetensors("model.safetensors", {"w": (have, [2], bytes(2 * width)), "i": ("I64", [9], bytes(72))})
                c.file("config.json", {key: says, "text_config": {"dtype": "float64"}})
                notes = [n for n in told(c.dir) if "config.json" in n]
                assert bool(notes) == noted, (says, have, notes)
                assert not noted or (says in notes[0] and len(notes) == 1), notes


def every_set_of_weights_has_them():
    zero = os.path.join(DATA, "deepspeed/zero2_w2")
    with Case() as c:
        c.file("config.json", {"dtype": "bfloat16"})
        c.file("tokenizer.json", b"{}")
        side = ("--side", c.dir)
        r = c.run("info", None)  # the directory itself is no checkpoint
        assert r.returncode != 0
        c2 = Case()
        c2.dir = zero
        names = listing(c2, *side)
        for folder in ("hf", "stored/hf", "as/f32/hf", "stored/as/f16/hf"):
            assert {f"{folder}/config.json", f"{folder}/tokenizer.json"} <= names, folder
        assert {"config.json", "tokenizer.json"} <= names
        for name in names:
            assert not name.startswith("optim/") or not name.endswith("config.json"), name
        c2.cat("stored/hf/config.json", b'{"dtype": "bfloat16"}', *side)
        c2.cat("stored/as/f16/hf/config.json", b'{"dtype": "float16"}', *side)
        notes = [n for n in told(zero, *side) if "config.json" in n]
        assert len(notes) == 1 and "bfloat16" in notes[0] and "float32" in notes[0], notes


ALL = ("tekken.json", "hf_quant_config.json", "processing_x.py", "image_processing_x.py", "chat_template.jinja",
       "preprocessor_config.json", "special_tokens_map.json", "added_tokens.json", "modeling_x.py", "configuration_x.py",
       "tokenization_x.py", "generation_config.json", "tokenizer.model", "vocab.txt", "merges.txt", "qwen.tiktoken",
       "source.spm")


def all_of_them():
    with Case() as c:
        c.safetensors("model.safetensors", W)
        for name in ALL:
            c.file(name, name.encode())
        c.file("train.py", b"no side file")
        names = listing(c)
        for name in ALL:
            assert {name, "hf/" + name, "as/f32/hf/" + name} <= names, name
            c.cat("hf/" + name, name.encode())
        assert "train.py" not in names


def from_another_directory():
    with Case() as c:
        c.safetensors("ckpt/model.safetensors", W)
        c.file("ckpt/config.json", b'{"beside": 1}')
        c.file("base/config.json", b'{"other": 1}')
        c.file("base/tokenizer.json", b"tok")
        c.file("base/trainer_state.json", b"{}")
        c.safetensors("base/model.safetensors", W)
        side = ("-o", "side=" + os.path.join(c.dir, "base"))
        c.cat("config.json", b'{"beside": 1}', *side, at="ckpt")
        c.cat("hf/tokenizer.json", b"tok", *side, at="ckpt")
        assert "state/trainer_state.json" not in listing(c, *side, at="ckpt")
        assert "tokenizer.json" not in listing(c, at="ckpt")
        c.file("empty/x", b"")
        c.told("holds no config.json", opts=("-o", "side=" + os.path.join(c.dir, "empty")), at="ckpt")
        for wrong in ("gone", "base/config.json"):
            c.refused("side=", wrong, code=2, at="ckpt", opts=("-o", "side=" + os.path.join(c.dir, wrong)))


def what_cannot_be_read_is_noted():
    with Case() as c:
        c.safetensors("ckpt/model.safetensors", W)
        c.file("base/config.json", b"{}")
        os.mkfifo(os.path.join(c.dir, "base/vocab.txt"))
        os.symlink("/nowhere", os.path.join(c.dir, "base/merges.txt"))
        side = ("-o", "side=" + os.path.join(c.dir, "base"))
        c.told("vocab.txt in side=", "merges.txt in side=", opts=side, at="ckpt")
        names = listing(c, *side, at="ckpt")
        assert "hf/config.json" in names and not {"vocab.txt", "merges.txt"} & names


def in_a_hub_cache():
    """A snapshot's files are links into blobs/."""
    with Case() as c:
        c.safetensors("ckpt/model.safetensors", W)
        c.file("models--o--n/blobs/abc", b'{"x": 1}')
        snapshot = os.path.join(c.dir, "models--o--n/snapshots/r")
        os.makedirs(snapshot)
        os.symlink("../../blobs/abc", os.path.join(snapshot, "config.json"))
        c.cat("hf/config.json", b'{"x": 1}', "-o", "side=" + snapshot, at="ckpt")


LORA = {f"base_model.model.q.lora_{x}.weight": ("F32", [2], bytes(8)) for x in "AB"}


def an_adapter_is_called_so():
    with Case() as c:
        c.safetensors("adapter_model.safetensors", LORA)
        c.file("adapter_config.json", {"peft_type": "LORA"})
        names = listing(c, "-o", "shard_size=8")
        assert {"hf/adapter_model.safetensors", "hf/adapter_config.json", "model.safetensors"} <= names, names
        assert "as/bf16/hf/adapter_model.safetensors" in names
        assert not any(n.startswith("hf/model") for n in names), names
        whole = c.run("cat", "model.safetensors").stdout
        c.cat("hf/adapter_model.safetensors", whole)
        n = struct.unpack("<Q", whole[:8])[0]
        assert set(json.loads(whole[8:8 + n])) - {"__metadata__"} == set(LORA)


def an_adapter_beside_shards_is_shown():
    """A PEFT run under ZeRO: the tag has all parameters, the Trainer's own adapter lies beside it."""
    with Case() as c:
        shutil.copytree(os.path.join(DATA, "deepspeed/zero2_w2"), os.path.join(c.dir, "run"))
        c.safetensors("run/adapter_model.safetensors", LORA)
        assert not [n for n in listing(c, at="run") if "adapter" in n]
        c.file("run/adapter_config.json", {})
        with open(os.path.join(c.dir, "run/adapter_model.safetensors"), "rb") as f:
            c.cat("hf/adapter_model.safetensors", f.read(), at="run")
        names = [n for n in listing(c, at="run") if n.endswith("adapter_model.safetensors")]
        assert sorted(names) == ["adapter_model.safetensors", "hf/adapter_model.safetensors",
                                 "stored/hf/adapter_model.safetensors", "trained/hf/adapter_model.safetensors"], names


def a_model_with_an_adapter_config_is_none():
    with Case() as c:
        c.safetensors("model.safetensors", W)
        c.file("adapter_config.json", {})
        assert "hf/model.safetensors" in listing(c)
    with Case() as c:
        c.safetensors("adapter_model.safetensors", LORA)
        assert "hf/model.safetensors" in listing(c)


main([config_names_the_type_served, config_that_is_none_is_passed_through, what_python_reads_is_understood,
      config_and_weights_that_differ_are_noted, every_set_of_weights_has_them, all_of_them, from_another_directory,
      what_cannot_be_read_is_noted, in_a_hub_cache, an_adapter_is_called_so, an_adapter_beside_shards_is_shown,
      a_model_with_an_adapter_config_is_none])
