#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verl's Megatron saves: three saves of Megatron-core that are one, or two beside files of Hugging Face."""
import json
import os
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position
from mkmegatron import Save  # noqa: E402 pylint: disable=wrong-import-position

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "megatron")
DIST, HF = "megatron_dist_checkpoint", "huggingface"
QKV, NORM = "decoder.layers.self_attention.linear_qkv.weight", "decoder.final_layernorm.weight"
LAYERS = 2
STATES = ("fp32_param", "exp_avg", "exp_avg_sq")


def contents(model=DIST, **more):
    """What ckpt_contents.json says of a save of everything."""
    c = {"model": {"path": "model/dist_ckpt" if model == DIST else "model/huggingface", "format": model},
         "optimizer": {"path": "optimizer/dist_ckpt", "format": DIST},
         "lr_scheduler": {"path": "optimizer/dist_ckpt", "format": DIST, "key": "lr_scheduler"},
         "rng_state": {"path": "extra/dist_ckpt", "format": DIST, "key": "rng_state"},
         "transformer_config": {"path": "transformer_config.json", "format": "json"}}
    return {**c, **more}


class Verl(Case):
    """A role's directory, global_step_20/actor, of two tensor-parallel ranks."""
    at = "global_step_20/actor"

    def part(self, name, ranks=2):
        return Save(os.path.join(self.dir, self.at, name), ranks)

    def manifest(self, said=None, **more):
        self.file(f"{self.at}/ckpt_contents.json", {
            "schema_version": 2, "framework": "megatron", "role": "actor", "global_step": 20, "world_size": 2,
            "save_contents": ["model", "optimizer", "extra"], "contents": said or contents(), "saved_any_dist_ckpt": True, **more})
        self.file(f"{self.at}/transformer_config.json", {"num_layers": LAYERS, "hidden_size": 4, "fp16": False, "activation_func": "silu"})
        self.file("latest_checkpointed_iteration.txt", b"20")

    @staticmethod
    def weights(save):
        save.stack(QKV, (LAYERS, 6, 4), "bfloat16")
        save.stack(NORM, (4,), "bfloat16", axes=0)

    @staticmethod
    def states(save, of):
        for key, shape, axes in ((QKV, (LAYERS, 6, 4), 1), (NORM, (4,), 0)):
            for state in STATES:
                save.stack(f"optimizer.state.{state}.{key}", shape, axes=axes,
                           data=save.wide(of[key]) if state == "fp32_param" else None)

    @staticmethod
    def common(sharding="fully_reshardable", **more):
        return {"content_metadata": {"distrib_optim_sharding_type": sharding, "chained_optim_avoid_prefix": True}, **more}

    def save(self, optimizer="fully_reshardable", iterations=(None, None)):
        """All three; returns those of the model and of the optimizer."""
        model, optim, extra = self.part("model/dist_ckpt"), self.part("optimizer/dist_ckpt"), self.part("extra/dist_ckpt")
        self.weights(model)
        self.states(optim, model.bytes)
        for rank in range(2):
            extra.object(f"rng_state/shard_0.{rank}_1.2", {"random_rng_state": rank})
        say = [{} if n is None else {"iteration": n} for n in iterations]
        model.finish(state=self.common(**say[0]))
        optim.finish(state=self.common(optimizer, lr_scheduler={"num_steps": 640}, **say[1]))
        extra.finish(state=self.common())
        self.manifest()
        return model, optim

    def holds(self, model, optim, at=""):
        """Every weight and every state of it is what was written, from either end."""
        each = len(optim.bytes[f"optimizer.state.exp_avg.{QKV}"]) // LAYERS
        for i in range(LAYERS):
            name = f"decoder.layers.{i}.self_attention.linear_qkv.weight"
            self.cat(f"stored/{name}.bf16", model.bytes[QKV][i * each // 2:(i + 1) * each // 2], at=at)
            for state, path in (("fp32_param", name), ("exp_avg", f"optim/exp_avg/{name}"), ("exp_avg_sq", f"optim/exp_avg_sq/{name}")):
                self.cat(f"{path}.f32", optim.bytes[f"optimizer.state.{state}.{QKV}"][i * each:(i + 1) * each], at=at)
        self.cat(f"{NORM}.f32", optim.bytes[f"optimizer.state.fp32_param.{NORM}"], at=at)

    def json(self, path, *opts, at=""):
        r = self.run("cat", path, *opts, at=at)
        assert r.returncode == 0, r.stderr.decode()
        return json.loads(r.stdout)

    def info(self, *opts, at=""):
        r = self.run("info", None, "--json", *opts, at=at)
        assert r.returncode in ((0, 4) if "degraded" in "".join(opts) else (0,)), r.stderr.decode()
        return json.loads(r.stdout)


def three_saves_are_one():
    """From the run with its tracker, from the step and from the role; what is no tensor is in state/ and extra/."""
    with Verl() as c:
        model, optim = c.save()
        for at in ("", "global_step_20", c.at):
            c.holds(model, optim, at)
        j = c.info()
        assert (j["format"], j["tag"], j["step"]) == ("megatron", "global_step_20/actor", 20), j
        assert "ckpt_contents.json" in j["why"] and len(j["notes"]) == 1, j
        assert c.json("state/optimizer.common.json")["lr_scheduler"]["num_steps"] == 640
        assert c.json("state/model.common.json") == c.json("state/extra.common.json")
        assert c.json("state/objects.json")["rng_state/shard_0.1_1.2"][0]["random_rng_state"] == 1
        assert c.json("state/ckpt_contents.json")["world_size"] == 2
        assert c.json("state/transformer_config.json")["num_layers"] == LAYERS
        c.cat("optim/exp_avg_sq/" + NORM + ".f32", optim.bytes["optimizer.state.exp_avg_sq." + NORM], at=c.at)
    with Verl() as c:  # a part alone is what it was
        model, _ = c.save()
        c.cat(f"{NORM}.bf16", model.bytes[NORM], at=c.at + "/model/dist_ckpt")
        for at in ("model", "model/dist_ckpt", "optimizer/dist_ckpt"):
            assert any("part of the save in ../.." in n for n in c.info(at=f"{c.at}/{at}")["notes"]), at
        j = c.info(at=c.at + "/ckpt_contents.json")
        assert j["step"] == 20 and not any("a part" in n for n in j["notes"]), j


def buffers_of_another_directory():
    """dp_reshardable: what is in the optimizer's flat buffers is told by the weights beside it."""
    with Verl() as c:
        model, optim = c.part("model/dist_ckpt"), c.part("optimizer/dist_ckpt")
        Verl.weights(model)
        keys = ["decoder.layers.mlp.a.weight", "decoder.layers.mlp.b.weight"]
        model = c.part("model/dist_ckpt")
        for key in keys:
            model.stack(key, (LAYERS, 8, 4), "bfloat16")
        optim.bytes = dict(model.bytes)
        order = optim.buckets(keys, LAYERS)
        model.finish(state=c.common("dp_reshardable"))
        optim.finish(state=c.common("dp_reshardable"))
        c.manifest({k: v for k, v in contents().items() if k != "rng_state"})
        for k, (key, layer) in enumerate(order):
            name = key.replace("layers.", f"layers.{layer}.")
            for state, where in (("exp_avg", "optim/exp_avg/"), ("param", "")):
                bucket = f"optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_{k}.{state}"
                c.cat(f"{where}{name}.f32", optim.bytes[bucket])


def the_common_state_in_metadata():
    """As core 0.19 has it, each of the three."""
    with Verl() as c:
        model, optim = c.save()
        for name, value in (("model", {}), ("optimizer", {"lr_scheduler": {"num_steps": 9}}), ("extra", {})):
            s = c.part(f"{name}/dist_ckpt")
            s.bytes = (model if name == "model" else optim).bytes
            if name == "model":
                Verl.weights(s)
            elif name == "optimizer":
                Verl.states(s, model.bytes)
            s.object("common_state/shard_0_1", c.common(**value))
            s.finish()
            os.remove(os.path.join(s.a.dir, "common.pt"))
        c.holds(model, optim)
        assert c.json("state/optimizer.common.json")[0]["lr_scheduler"]["num_steps"] == 9
        for name in ("model", "optimizer", "extra"):
            assert c.run("cat", f"extra/{name}.common_state%2Fshard_0_1").returncode == 0, name


def parts_that_are_missing():
    """Weights: never without.  Anything else: with -o degraded only."""
    for gone, said in (("model/dist_ckpt", "model in model/dist_ckpt"), ("optimizer/dist_ckpt", "optimizer in optimizer/dist_ckpt"),
                       ("optimizer/dist_ckpt/metadata.json", "optimizer in optimizer/dist_ckpt"),
                       ("extra/dist_ckpt", "rng_state in extra/dist_ckpt")):
        with Verl() as c:
            model, _ = c.save()
            path = os.path.join(c.dir, c.at, gone)
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
            c.refused("ckpt_contents.json", said)
            if gone == "model/dist_ckpt":
                c.refused(said, opts=("-o", "degraded"))
                continue
            assert any(said in n for n in c.info("-o", "degraded")["notes"])
            c.cat(("stored/" if gone[0] == "e" else "") + NORM + ".bf16", model.bytes[NORM], "-o", "degraded")
    with Verl() as c:
        model, _ = c.save()
        os.remove(os.path.join(c.dir, c.at, "ckpt_contents.json"))
        c.refused("ckpt_contents.json, which is written last", at=c.at)
        c.cat(f"stored/{NORM}.bf16", model.bytes[NORM], "-o", "degraded", at=c.at)
    with Verl() as c:
        c.save()
        c.manifest({k: v for k, v in contents().items() if k != "model"})
        assert any("has no weights" in n for n in c.info()["notes"])


def a_part_that_is_damaged():
    """Whatever is not the weights costs itself only, with -o degraded."""
    for name in ("metadata.json", ".metadata"):
        for part in ("optimizer", "extra", "model"):
            with Verl() as c:
                model, optim = c.save()
                path = os.path.join(c.dir, c.at, part, "dist_ckpt", name)
                whole = os.path.getsize(path)
                os.truncate(path, whole * 2 // 3)
                c.refused(f"{part}/dist_ckpt/{name}")
                if part == "model":
                    c.refused(f"{part}/dist_ckpt/{name}", opts=("-o", "degraded"))
                    continue
                notes = c.info("-o", "degraded")["notes"]
                assert sum(f"{part}/dist_ckpt is left out: {part}/dist_ckpt/{name}" in n for n in notes) == 1, notes
                if part == "extra":
                    c.cat(f"optim/exp_avg/{NORM}.f32", optim.bytes[f"optimizer.state.exp_avg.{NORM}"], "-o", "degraded")
                else:
                    c.cat(f"{NORM}.bf16", model.bytes[NORM], "-o", "degraded")
                    assert c.json("state/objects.json", "-o", "degraded")


def parts_of_two_saves():
    with Verl() as c:
        c.save(iterations=(20, 30))
        c.refused("optimizer/dist_ckpt/common.pt", "30 here", "20 elsewhere")
        c.told("are two saves mixed?", opts=("-o", "degraded"))
    with Verl() as c:
        c.save(iterations=(None, 30))
        c.refused("optimizer/dist_ckpt/common.pt", "30 here", "20 elsewhere")
    with Verl() as c:
        c.save("dp_reshardable")
        c.refused("optimizer/dist_ckpt/common.pt", "dp_reshardable here", "fully_reshardable elsewhere")
    with Verl() as c:
        c.save()
        c.manifest(global_step=10)
        c.refused("ckpt_contents.json", "global_step is 10", "global_step_20")
    with Verl() as c:  # masters of other weights: the stored ones are shown
        model, _ = c.save()
        optim = c.part("optimizer/dist_ckpt")
        c.states(optim, {k: bytes(len(v)) for k, v in model.bytes.items()})
        optim.finish(state=c.common())
        assert any("masters do not belong to the weights" in n for n in c.info()["notes"]), c.info()
        c.cat(f"{NORM}.bf16", model.bytes[NORM])


def manifests_that_say_otherwise():
    with Verl() as c:
        c.save()
        for version in (1, 3, "2", None):
            c.manifest(schema_version=version)
            c.refused("ckpt_contents.json", "this verl save has schema_version", "only 2")
        c.manifest(contents=[])
        c.refused("ckpt_contents.json", '"contents"')
        for entry in ({"format": DIST}, {"path": "../x", "format": DIST}, "model/dist_ckpt"):
            c.manifest(contents(optimizer=entry))
            c.refused("ckpt_contents.json", '"optimizer"')
        c.manifest({**contents(), "model": {"path": "m", "format": "gguf"}})
        c.refused("ckpt_contents.json", "the model in m in the format gguf")
        c.manifest(contents(**{f"x{i}": {"path": f"{p}/dist_ckpt", "format": DIST} for i, p in enumerate("abc")}))
        c.refused("x0 in a/dist_ckpt")
        for p in "abc":
            shutil.copytree(os.path.join(c.dir, c.at, "extra/dist_ckpt"), os.path.join(c.dir, c.at, p, "dist_ckpt"))
        c.refused("more than 4 directories")
        c.file(f"{c.at}/ckpt_contents.json", b"{")
        c.refused("ckpt_contents.json")


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def weights_of_hugging_face():
    """mbridge's default: the root has them, the optimizer keeps Megatron's names."""
    names = ("model.embed_tokens.weight", "model.norm.weight")
    data = {n: f32(i, i + .5) for i, n in enumerate(names)}
    with Verl() as c:
        _, optim = c.save()
        shutil.rmtree(os.path.join(c.dir, c.at, "model/dist_ckpt"))
        c.manifest(contents(HF))
        hf = f"{c.at}/model/huggingface"
        c.refused("model/huggingface")
        for i, n in enumerate(names):
            c.safetensors(f"{hf}/model-{i + 1:05}-of-00002.safetensors", {n: ("F32", [2], data[n])})
        c.file(f"{hf}/config.json", {"model_type": "qwen3"})
        for index in (False, True):
            if index:
                c.file(f"{hf}/model.safetensors.index.json",
                       {"weight_map": {n: f"model-{i + 1:05}-of-00002.safetensors" for i, n in enumerate(names)}})
            for n in names:
                c.cat(f"{n}.f32", data[n])
            for opts in ((), ("-o", "degraded")):
                c.cat(f"optim/exp_avg/{NORM}.f32", optim.bytes[f"optimizer.state.exp_avg.{NORM}"], *opts)
                c.cat(f"optim/param/{NORM}.f32", optim.bytes[f"optimizer.state.fp32_param.{NORM}"], *opts)
            j = c.info()
            assert j["format"] == "megatron" and any("Hugging Face names" in n for n in j["notes"]), j
            assert c.json("config.json")["model_type"] == "qwen3"
        gone = os.path.join(c.dir, hf, "model-00002-of-00002.safetensors")
        os.remove(gone)
        c.refused("model-00002-of-00002.safetensors")
        c.cat(f"{names[0]}.f32", data[names[0]], "-o", "degraded")
        c.safetensors(f"{hf}/model-00002-of-00002.safetensors", {names[0]: ("F32", [2], data[names[0]])})
        c.refused(names[0], "also in another file")
        os.remove(os.path.join(c.dir, hf, "model.safetensors.index.json"))
        c.refused(names[0], "also in another file")


def an_export_beside_the_shards():
    with Verl() as c:
        model, optim = c.save()
        c.safetensors(f"{c.at}/model/huggingface/model.safetensors", {"model.norm.weight": ("F32", [1], f32(1))})
        c.manifest(contents(hf_model={"path": "model/huggingface", "format": HF}))
        c.holds(model, optim)
        assert any("model/huggingface is not shown" in n for n in c.info()["notes"])
        c.cat("model.norm.weight.f32", f32(1), at=c.at + "/model/huggingface")
    with Verl() as c:  # an adapter: shards in model/dist_ckpt, and an export that is no model
        model, optim = c.save()
        c.safetensors(f"{c.at}/model/huggingface/adapter/adapter_model.safetensors", {"a": ("F32", [1], f32(1))})
        c.manifest(contents(HF, peft_adapters={"path": "model/dist_ckpt", "format": DIST}))
        c.holds(model, optim)
        assert any("model/huggingface is not shown" in n for n in c.info()["notes"])


def migrated_from_one_dist_ckpt():
    """All three directories are the same save, and nothing says so but .metadata."""
    with Verl() as c:
        whole = c.part("model/dist_ckpt")
        c.weights(whole)
        c.states(whole, whole.bytes)
        whole.finish(state=c.common())
        for name in ("optimizer", "extra"):
            shutil.copytree(whole.a.dir, os.path.join(c.dir, c.at, name, "dist_ckpt"))
        c.holds(whole, whole, at=c.at)
        assert sum("a copy" in n for n in c.info(at=c.at)["notes"]) == 2, c.info(at=c.at)
        c.manifest()
        c.holds(whole, whole)


def megatron_fsdp_in_one():
    """The optimizer is in model/dist_ckpt, whatever the file says."""
    with Verl() as c:
        source = os.path.join(DATA, "pypi_0.16.1_fsdp_dtensor_w3", "iter_0000010")
        to = os.path.join(c.dir, c.at, "model/dist_ckpt")
        os.makedirs(os.path.dirname(to))
        shutil.copytree(source, to)
        c.manifest(contents(HF))
        c.safetensors(f"{c.at}/model/huggingface/model.safetensors", {"model.norm.weight": ("F32", [1], f32(1))})
        for path in ("decoder.final_layernorm.weight", "optim/exp_avg/decoder.final_layernorm.weight"):
            alone = c.run("cat", f"{path}.f32", at=to)
            assert alone.returncode == 0, alone.stderr.decode()
            c.cat(f"{path}.f32", alone.stdout)


if __name__ == "__main__":
    main([three_saves_are_one, buffers_of_another_directory, the_common_state_in_metadata, parts_that_are_missing,
          a_part_that_is_damaged, parts_of_two_saves,
          manifests_that_say_otherwise, weights_of_hugging_face, an_export_beside_the_shards, migrated_from_one_dist_ckpt,
          megatron_fsdp_in_one])
