#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf/ of real saves against tensors and config.json that were proved by logits: transformers' model gave those of the trainer."""
import hashlib
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "recipes")
# Fields that transformers fills in itself, or that say the same in another way.
SAME = {"rope_parameters", "torch_dtype", "max_position_embeddings"}


class Save(Case):
    def read(self, save, path, *opts):
        r = self.run("cat", path, *opts, at=save)
        assert r.returncode == 0, r.stderr.decode()
        return r.stdout


def tensors_of(data):
    (n,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    return {k: (v["shape"], hashlib.sha256(data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]).hexdigest())
            for k, v in head.items() if k != "__metadata__"}


def holds(name, save):
    with open(os.path.join(DATA, name, "expected_hf.json"), encoding="utf-8") as f:
        want = json.load(f)
    with Save() as c:
        at = os.path.join(os.path.abspath(DATA), name, save)
        got = tensors_of(c.read(at, "hf/model.safetensors"))
        assert got == {k: (v["shape"], v["sha256"]) for k, v in want["tensors"].items()}
        config = json.loads(c.read(at, "hf/config.json"))
        assert config["architectures"] == [want["architecture"]]
        for key, value in want["config"].items():
            assert key in SAME or config.get(key) == value, f"{key}: {config.get(key)} is not {value}"
        rope = want["config"].get("rope_parameters", want["config"])
        assert config["rope_theta"] == rope["rope_theta"]
        # The shards of a small size hold the same, and the index names them.
        index = json.loads(c.read(at, "hf/model.safetensors.index.json", "-o", "shard_size=64k"))
        cut = {}
        for shard in sorted(set(index["weight_map"].values())):
            cut.update(tensors_of(c.read(at, "hf/" + shard, "-o", "shard_size=64k")))
        assert cut == got
        # Half as wide, so says config.json.
        assert len(c.read(at, "as/bf16/hf/model.safetensors")) < 0.6 * len(c.read(at, "hf/model.safetensors"))
        assert json.loads(c.read(at, "as/bf16/hf/config.json"))["torch_dtype"] == "bfloat16"
        record = json.loads(c.read(at, "hf/recipe.json"))
        assert record["schema"] == "zerofs.recipe/1" and record["sizes"]["layers"]["value"] == config["num_hidden_layers"]


def meta_llama3_with_interleaved_rotary_of_two_ranks():
    holds("meta_llama3_mp2", "")


def megatron_llama_of_two_legacy_ranks():
    holds("llama_legacy_tp2", "run")


def olmo_1_with_clipped_queries_and_groups():
    holds("olmo_0.6.0_full_gqa_clip", "step2-unsharded")


main([meta_llama3_with_interleaved_rotary_of_two_ranks, megatron_llama_of_two_legacy_ranks, olmo_1_with_clipped_queries_and_groups])
