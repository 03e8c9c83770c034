#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Megatron's keys become: axes, parts, masters, prefixes; and saves that must be refused."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from golden import Case, main  # noqa: E402 pylint: disable=wrong-import-position
from mkmegatron import Save  # noqa: E402 pylint: disable=wrong-import-position

DUMP = os.path.join(os.environ.get("top_builddir", "."), "tests/unit/format/tree_dump")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "megatron")
STATES = ("param", "exp_avg", "exp_avg_sq")


class Tree:
    """What is shown of a save: (set, name) -> bytes."""

    def __init__(self, folder, *opts):
        r = subprocess.run([DUMP, *opts, folder], capture_output=True, timeout=60)
        self.err, self.tensor, self.shape, self.blob, self.notes = r.stderr.decode(), {}, {}, {}, []
        assert r.returncode == 0, self.err
        for line in r.stdout.decode("utf8", "surrogateescape").split("\n"):
            f = line.split("\t")
            if f[0] == "tensor":
                self.shape[f[1], f[2]] = [int(n) for n in f[4].split(",") if n]
                self.tensor[f[1], f[2]] = f[5] if f[5].startswith("unreadable") else bytes.fromhex(f[5])
            elif f[0] == "blob":
                self.blob[f[1]] = f[2]
            elif f[0] == "note":
                self.notes.append(f[1])

    def names(self, where=""):
        return sorted(n for s, n in self.tensor if s == where)

    def holds(self, where, name, data, shape=None):
        got = self.tensor.get((where, name))
        assert got == data, f"{where or '/'}: {name}: {got!r}, of {sorted(self.tensor)}"
        assert shape is None or self.shape[where, name] == list(shape), self.shape[where, name]


def slices(t, save, key, where, name, shape, axes=1):
    """Every slice of a stacked tensor is where it should be, and the whole in stacked/."""
    data, each = save.bytes[key], len(save.bytes[key])
    for n in shape[:axes]:
        each //= n
    t.holds("stacked", key, data, shape)
    for i in range(len(data) // each):
        index = (i,) if axes == 1 else (i // shape[1], i % shape[1])
        t.holds(where, name % index, data[i * each:(i + 1) * each], shape[axes:])


def axes_of_layers_and_experts():
    """T5's two stacks, experts that are cut by ranks, a parameter a layer, and numbered layers."""
    with Case() as c:
        s = Save(c.dir)
        s.stack("encoder.layers.self_attention.linear_qkv.weight", (2, 6, 4))
        s.stack("decoder.layers.self_attention.linear_qkv.weight", (3, 6, 4))
        s.stack("decoder.layers.mlp.scale", (3,))
        s.stack("decoder.layers.mlp.experts.experts.linear_fc1.weight", (3, 4, 2, 3), axes=2, each=[1, 2])
        s.stack("mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc1.weight", (4, 2, 3), each=[2])
        s.stack("decoder.layers.5.mlp.linear_fc2.weight", (4, 2), axes=0)
        s.finish(num_layers=3)
        t = Tree(c.dir)
        slices(t, s, "encoder.layers.self_attention.linear_qkv.weight", "",
               "encoder.layers.%d.self_attention.linear_qkv.weight", (2, 6, 4))
        slices(t, s, "decoder.layers.self_attention.linear_qkv.weight", "",
               "decoder.layers.%d.self_attention.linear_qkv.weight", (3, 6, 4))
        slices(t, s, "decoder.layers.mlp.scale", "", "decoder.layers.%d.mlp.scale", (3,))
        slices(t, s, "decoder.layers.mlp.experts.experts.linear_fc1.weight", "",
               "decoder.layers.%d.mlp.experts.experts.%d.linear_fc1.weight", (3, 4, 2, 3), 2)
        slices(t, s, "mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc1.weight", "",
               "mtp.layers.0.transformer_layer.mlp.experts.experts.%d.linear_fc1.weight", (4, 2, 3))
        t.holds("", "decoder.layers.5.mlp.linear_fc2.weight", s.bytes["decoder.layers.5.mlp.linear_fc2.weight"], (4, 2))
        assert len(t.names()) == 2 + 3 + 3 + 12 + 4 + 1 and len(t.names("stacked")) == 5, t.names()


def what_only_looks_stacked():
    """A first dimension that is cut otherwise, or that the stack does not agree about, is no axis of layers."""
    with Case() as c:
        s = Save(c.dir)
        s.stack("decoder.layers.a", (3, 4))
        s.stack("decoder.layers.rows", (6, 4), axes=0)
        s.stack("other.layers.a", (3, 4))
        s.stack("other.layers.b", (5, 4))
        s.stack("decoder.layers.none", (0, 4))
        s.finish()
        t = Tree(c.dir)
        slices(t, s, "decoder.layers.a", "", "decoder.layers.%d.a", (3, 4))
        for key, shape in (("decoder.layers.rows", (6, 4)), ("other.layers.a", (3, 4)), ("other.layers.b", (5, 4))):
            t.holds("", key, s.bytes[key], shape)
        assert t.names("stacked") == ["decoder.layers.a"], t.names("stacked")
    with Case() as c:
        s = Save(c.dir)
        s.stack("decoder.layers.a", (3, 4))
        s.stack("decoder.layers.b", (5, 4))
        s.finish(num_layers=3)
        t = Tree(c.dir)
        slices(t, s, "decoder.layers.a", "", "decoder.layers.%d.a", (3, 4))
        t.holds("", "decoder.layers.b", s.bytes["decoder.layers.b"], (5, 4))


def masters_and_moments():
    """Stacked, flattened, of chained optimizers: under the names of their parameters."""
    with Case() as c:
        s, key = Save(c.dir), "decoder.layers.mlp.weight"
        master = b"".join(struct.pack("<f", i - 3.5) for i in range(24))  # which bfloat16 holds exactly
        s.stack("module." + key, (2, 4, 3), "bfloat16", data=b"".join(master[i + 2:i + 4] for i in range(0, 96, 4)))
        s.stack("module.output.weight", (4, 3), "bfloat16", axes=0)
        s.flattened("chained_0.optimizer.state.fp32_param.module." + key, (2, 4, 3), (1, 2, 3), [5, 1],
                    data=master)
        s.flattened("chained_0.optimizer.state.exp_avg.module." + key, (2, 4, 3), (1, 4, 3), [2, 10])
        s.stack("chained_1.optimizer.state.exp_avg.module.output.weight", (4, 3), axes=0)
        s.object("optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1", {"step": 3})
        s.object("decoder.layers.mlp._extra_state/shard_0_2", None)
        s.object("rng_state/shard_0.0_1.1", [{"seed": 5}])
        s.finish()
        t = Tree(c.dir)
        slices(t, s, "module." + key, "stored", "decoder.layers.%d.mlp.weight", (2, 4, 3))
        slices(t, s, "chained_0.optimizer.state.fp32_param.module." + key, "", "decoder.layers.%d.mlp.weight", (2, 4, 3))
        slices(t, s, "chained_0.optimizer.state.exp_avg.module." + key, "optim/exp_avg", "decoder.layers.%d.mlp.weight",
               (2, 4, 3))
        t.holds("", "output.weight", s.bytes["module.output.weight"], (4, 3))
        t.holds("optim/exp_avg", "output.weight", s.bytes["chained_1.optimizer.state.exp_avg.module.output.weight"])
        for name in ("optimizer.distributed.dp_group_idx_0.optimizer%2Fshard_0_1", "rng_state%2Fshard_0.0_1.1",
                     "decoder.layers.mlp._extra_state%2Fshard_0_2"):
            assert "extra/" + name in t.blob, sorted(t.blob)
        assert '"iteration": 7' in t.blob["state/iteration.json"] if "state/iteration.json" in t.blob else \
            '"iteration": 7' in t.blob["state/common.json"], sorted(t.blob)
        assert '"seed": 5' in t.blob["state/objects.json"], t.blob["state/objects.json"]
        assert "_extra_state" not in t.blob["state/objects.json"]


def masters_that_are_not_the_weights():
    """Of fp32 weights they are copies, of the same shape; else the root has the weights."""
    def bfloat16(data):
        return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    exact = b"".join(struct.pack("<f", i - 3.5) for i in range(24))
    for dtype, weight, shape, sound in (("float32", exact, (6, 4), True), ("float32", exact[4:] + exact[:4], (6, 4), False),
                                        ("bfloat16", bfloat16(exact), (6, 4), True),
                                        ("bfloat16", bfloat16(exact), (4, 6), False)):
        with Case() as c:
            s = Save(c.dir)
            s.stack("a.weight", (6, 4), dtype, axes=0, data=weight)
            s.stack("optimizer.state.fp32_param.a.weight", shape, axes=0, data=exact)
            s.finish()
            t = Tree(c.dir)
            t.holds("stored" if sound else "", "a.weight", weight, (6, 4))
            t.holds("" if sound else "optim/param", "a.weight", exact, shape)
            assert any("masters do not belong" in n for n in t.notes) != sound, t.notes


def masters_that_shadow_nothing():
    """Of a name that no weight has, or of values that cannot be rounded to it: not in the root."""
    exact = b"".join(struct.pack("<f", i - 3.5) for i in range(24))
    with Case() as c:
        s = Save(c.dir)
        s.stack("a.weight", (6, 4), axes=0, data=exact)
        s.stack("optimizer.state.fp32_param.a.weight", (6, 4), axes=0, data=exact)
        s.stack("optimizer.state.fp32_param.b.weight", (6, 4), axes=0)
        s.stack("optimizer.state.fp32_param.c.weight", (6, 4), axes=0)
        s.finish()
        t = Tree(c.dir)
        assert t.names() == ["a.weight"] and t.names("optim/param") == ["b.weight", "c.weight"] and t.names("stored") == ["a.weight"]
        assert len([n for n in t.notes if 'no weight named "b.weight"' in n]) == 1, t.notes
    for dtype in ("uint8", "bfloat16"):
        with Case() as c:
            s = Save(c.dir)
            s.stack("a.weight", (6, 4), axes=0, data=exact)
            s.stack("optimizer.state.fp32_param.a.weight", (6, 4), dtype, axes=0)
            s.finish()
            t = Tree(c.dir)
            t.holds("", "a.weight", exact)
            t.holds("optim/param", "a.weight", s.bytes["optimizer.state.fp32_param.a.weight"])
            assert any("do not round to f32" in n for n in t.notes), t.notes


def tensors_called_as_objects_are():
    """They are in extra/ under their keys."""
    with Case() as c:
        s = Save(c.dir)
        s.stack("a.weight", (4, 3), axes=0)
        s.stack("a/shard_0_1", (4, 3), axes=0)
        s.finish()
        Tree(c.dir).holds("extra", "a/shard_0_1", s.bytes["a/shard_0_1"], (4, 3))


def a_state_shorter_than_its_masters():
    """One buffer is not mapped, the save is shown."""
    for short in (False, True):
        with Case() as c:
            s, optimizer = Save(c.dir), "optimizer.distributed.dp_group_idx_0."
            bucket = optimizer + "gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0."
            masters = b"".join(struct.pack("<f", i - 3.5) for i in range(64))
            s.stack("a.weight", (64,), "bfloat16", axes=0, data=b"".join(masters[i + 2:i + 4] for i in range(0, 256, 4)))
            s.stack(bucket + "param", (64,), axes=0, data=masters)
            s.stack(bucket + "exp_avg", (60 if short else 64,), axes=0)
            types = (s.w.torch_dtype("bfloat16"), s.w.torch_dtype("float32"))
            s.object(optimizer + "per_bucket_numel_unpadded/shard_0_1", [{types: [64]}])
            s.finish()
            t = Tree(c.dir)
            t.holds("bucket", bucket + "exp_avg", s.bytes[bucket + "exp_avg"])
            assert (("optim/exp_avg", "a.weight") in t.tensor) != short, t.notes
            assert any("60 elements of exp_avg" in n for n in t.notes) == short, t.notes


def a_name_that_is_taken():
    """Two keys that wrap one name: the second is shown under its key."""
    with Case() as c:
        s = Save(c.dir)
        s.stack("model.a.weight", (4, 3), axes=0)
        s.stack("module.a.weight", (4, 3), axes=0)
        s.stack("chained_0.optimizer.state.exp_avg.a.weight", (4, 3), axes=0)
        s.stack("chained_1.optimizer.state.exp_avg.a.weight", (4, 3), axes=0)
        s.stack("chained_1.optimizer.state.exp_avg.module.b.weight", (4, 3), axes=0)
        s.stack("chained_1.optimizer.state.exp_avg.b.weight", (4, 3), axes=0)
        s.finish()
        t = Tree(c.dir)
        t.holds("", "a.weight", s.bytes["model.a.weight"])
        t.holds("extra", "module.a.weight", s.bytes["module.a.weight"])
        for n in (0, 1):
            t.holds("optim/exp_avg", f"chained_{n}.optimizer.a.weight", s.bytes[f"chained_{n}.optimizer.state.exp_avg.a.weight"])
        t.holds("optim/exp_avg", "b.weight", s.bytes["chained_1.optimizer.state.exp_avg.module.b.weight"])
        t.holds("extra", "chained_1.optimizer.state.exp_avg.b.weight", s.bytes["chained_1.optimizer.state.exp_avg.b.weight"])
        assert len(t.names("optim/exp_avg")) == 3, t.names("optim/exp_avg")


def two_optimizers_of_one_parameter():
    """Stacked as well; and of two masters neither is believed to be the weight."""
    with Case() as c:
        s, key = Save(c.dir), "decoder.layers.mlp.weight"
        weight = b"".join(struct.pack("<f", i - 3.5) for i in range(24))
        s.stack(key, (2, 4, 3), "bfloat16", data=b"".join(weight[i + 2:i + 4] for i in range(0, 96, 4)))
        for n in (0, 1):
            for state in ("fp32_param", "exp_avg"):
                s.stack(f"chained_{n}.optimizer.state.{state}.{key}", (2, 4, 3), data=weight if state == "fp32_param" else None)
        s.finish()
        t = Tree(c.dir)
        for n in (0, 1):
            for state, where in (("fp32_param", "param"), ("exp_avg", "exp_avg")):
                slices(t, s, f"chained_{n}.optimizer.state.{state}.{key}", "optim/" + where,
                       f"chained_{n}.optimizer.decoder.layers.%d.mlp.weight", (2, 4, 3))
        slices(t, s, key, "", "decoder.layers.%d.mlp.weight", (2, 4, 3))
        assert not t.names("stored") and not t.names("extra"), sorted(t.tensor)
        assert any('two fp32 masters of "decoder.layers.0.mlp.weight"' in n for n in t.notes), t.notes


def parts_are_joined():
    """Beside the parts, and whole files hold the joined one; of incomplete or odd parts there is none."""
    with Case() as c:
        s = Save(c.dir)
        keys = {"decoder.layers.mlp.linear_fc1.weight": ("_w", "_v"), "decoder.layers.3.mixer.in_proj.weight":
                (".z", ".x", ".B", ".C", ".dt"), "decoder.layers.3.mixer.conv1d.bias": (".x", ".B", ".C"),
                "decoder.layers.4.self_attention.in_proj.weight": (".query", ".key", ".value", ".z", ".beta", ".alpha"),
                "decoder.layers.4.self_attention.conv1d.bias": (".query", ".key", ".value")}
        for key, ends in keys.items():
            for i, end in enumerate(ends):
                n = () if "in_proj" in key or "bias" in key else (2,)
                s.stack(key + end, n + ((2 * i + 2,) if "bias" in key else (2 * i + 2, 3)) if not n else n + (4, 3),
                        axes=len(n))
        s.stack("a.weight_w", (4, 3), axes=0)
        s.stack("b.weight_w", (4, 3), axes=0)
        s.stack("b.weight_v", (4, 2), axes=0)
        s.stack("c.weight_w", (4, 3), axes=0)
        s.stack("c.weight_v", (4, 3), axes=0)
        s.stack("c.weight", (8, 3), axes=0)
        s.stack("c.reweight_w", (4, 3), axes=0)
        s.stack("c.reweight_v", (4, 3), axes=0)
        s.finish()
        t = Tree(c.dir)
        for key, ends in keys.items():
            if "fc1" in key:
                for layer in range(2):
                    w, v = (s.bytes[key + e][layer * 48:layer * 48 + 48] for e in ends)
                    name = f"decoder.layers.{layer}.mlp.linear_fc1.weight"
                    t.holds("", name, w + v, (8, 3))
                    t.holds("", name + "_v", v, (4, 3))
            else:
                t.holds("", key, b"".join(s.bytes[key + e] for e in ends))
        for name in ("a.weight", "b.weight", "c.reweight"):
            assert ("", name) not in t.tensor, name
        t.holds("", "c.weight", s.bytes["c.weight"])
        whole = c.run("cat", "model.safetensors").stdout
        head = json.loads(whole[8:8 + int.from_bytes(whole[:8], "little")])
        assert set(keys) - {"decoder.layers.mlp.linear_fc1.weight"} < set(head), sorted(head)
        assert not any(k.endswith((".z", ".dt", ".alpha", ".key", "fc1.weight_w", "fc1.weight_v")) for k in head), sorted(head)
        assert "a.weight_w" in head and "c.weight_w" in head and "c.weight" in head, sorted(head)
        for path in ("stacked/model.safetensors", "stacked/npy", "stacked/as", "npy/" + "a.weight.npy"):
            assert c.run("cat", path).returncode, path


def real(name):
    """A copy of a real save that can be damaged; the folder of its iteration."""
    to = tempfile.mkdtemp(prefix="zf-megatron-")
    shutil.copytree(os.path.join(DATA, name, "iter_0000010"), to, dirs_exist_ok=True)
    return to


MOE = "pypi_0.16.1_ep2_moe"


def damaged_saves():
    """One sentence each."""
    def without(path, name):
        os.remove(os.path.join(path, name))

    def put(path, name, data):
        with open(os.path.join(path, name), "wb") as f:
            f.write(data)

    def cut(path, name, n):
        with open(os.path.join(path, name), "r+b") as f:
            f.truncate(n)

    def only(path, *names):
        for n in os.listdir(path):
            if n not in names:
                os.remove(os.path.join(path, n))
    cases = [
        (lambda d: without(d, "metadata.json"), "metadata.json, which is written last, is missing"),
        (lambda d: only(d, "common.pt"), "metadata.json, which is written last, is missing"),
        (lambda d: put(d, "metadata.json", b'{"sharded_backend": "parquet"}'), 'sharded_backend "parquet"'),
        (lambda d: without(d, ".metadata"), "torch_dist, but .metadata, which lists the tensors, is missing"),
        (lambda d: cut(d, ".metadata", 3000), ".metadata"),
        (lambda d: without(d, "__1_0.distcp"), "__1_0.distcp"),
        (lambda d: cut(d, "__1_0.distcp", 5000), "__1_0.distcp"),
        (lambda d: cut(d, "common.pt", 700), "common.pt"),
        (lambda d: put(d, "common.pt", b"nothing"), "common.pt"),
        (lambda d: without(d, "common.pt"), "common.pt"),
    ]
    for i, (damage, part) in enumerate(cases):
        folder = real(MOE)
        damage(folder)
        r = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "info", folder], capture_output=True, timeout=60)
        text = r.stderr.decode()
        rest = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "info", "-o", "degraded", folder], capture_output=True, timeout=60)
        shutil.rmtree(folder)
        assert r.returncode == 4 and part in text and len(text.strip().splitlines()) == 1, f"case {i}: {r.returncode} {text}"
        if part == "common.pt":  # it holds no tensor
            assert b"notes " in rest.stdout and b"common.pt: " in rest.stdout and b"30 tensors" in rest.stdout, rest


def lost_settings():
    """Every Megatron that keeps common.pt needs it: a save without is damaged, and its weights can be read."""
    folder = real(MOE)
    os.remove(os.path.join(folder, "common.pt"))
    r = {}
    for how in ("verify", "verify --quick", "info", "ls", "ls -o degraded"):
        r[how] = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), *how.split(), folder], capture_output=True, timeout=60)
    shutil.rmtree(folder)
    for how in ("verify", "verify --quick"):
        assert r[how].returncode == 4 and b"DAMAGED: 1 of 5 files, 0 of 37 tensors" in r[how].stdout and b"common.pt" in r[how].stdout, r[how]
    assert r["info"].returncode == 4 and b"30 tensors" in r["info"].stdout, r["info"]
    assert r["ls"].returncode == 4 and b"-o degraded shows the rest" in r["ls"].stderr, r["ls"]
    assert r["ls -o degraded"].returncode == 0 and b"optim" in r["ls -o degraded"].stdout or b"stacked" in r["ls -o degraded"].stdout, r


def refused_arithmetic():
    """mcore_data that does not divide the stored shape, and a range that is missing or there twice."""
    for change, part in ((lambda s, k: s.mcore[k].update(nd_reformulated_orig_global_shape=(2, 5, 3)), "not divided evenly"),
                         (lambda s, k: s.mcore[k].update(nd_reformulated_orig_global_shape=(4, 4, 3)), "boxes have"),
                         (lambda s, k: s.mcore[k].update(nd_reformulated_orig_global_shape=(2, 4, 3, 1)), "one less")):
        with Case() as c:
            s, key = Save(c.dir), "optimizer.state.exp_avg.decoder.layers.w"
            s.flattened(key, (2, 4, 3), (1, 2, 3), [5, 1])
            change(s, key)
            s.finish()
            c.refused(key, part)
    with Case() as c:
        s, key = Save(c.dir), "decoder.final_layernorm.weight"
        s.boxes(key, (1,), [(0, (0,), (1,))])
        s.mcore[key] = {"nd_reformulated_orig_global_shape": ()}
        s.finish()
        c.refused(key, "one less")
    with Case() as c:
        s, key = Save(c.dir), "decoder.final_layernorm.weight"
        s.boxes(key, (1,) * 66, [(0, (0,) * 66, (1,) * 66)])
        s.mcore[key] = {"nd_reformulated_orig_global_shape": (1,) * 65}
        s.finish()
        c.refused(key, "shape of 65 dimensions", opts=("-o", "limit=tensor_dims=70"))
    for pieces, part in (([5], "covered by nothing"), ([4, 1], "covered by nothing")):
        with Case() as c:
            s = Save(c.dir)
            s.flattened("optimizer.state.exp_avg.decoder.layers.w", (2, 4, 3), (1, 2, 3), pieces)
            s.finish()
            c.refused("decoder.layers.w", part)


def lost_slices():
    """-o degraded: exactly the slices that a missing file held answer EIO."""
    with Case() as c:
        s, key = Save(c.dir), "decoder.layers.mlp.weight"
        s.boxes(key, (3, 2, 2), [(0, (0, 0, 0), (1, 2, 2)), (1, (1, 0, 0), (1, 2, 2)), (0, (2, 0, 0), (1, 2, 2))])
        s.finish()
        os.remove(os.path.join(c.dir, "__1_0.distcp"))
        c.refused("__1_0.distcp")
        t = Tree(c.dir, "-d")
        for layer in (0, 2):
            t.holds("", f"decoder.layers.{layer}.mlp.weight", s.bytes[key][16 * layer:16 * layer + 16])
        assert str(t.tensor["", "decoder.layers.1.mlp.weight"]).startswith("unreadable")
        assert str(t.tensor["stacked", key]).startswith("unreadable")


if __name__ == "__main__":
    main([axes_of_layers_and_experts, what_only_looks_stacked, masters_and_moments, masters_that_are_not_the_weights, masters_that_shadow_nothing,
          tensors_called_as_objects_are, a_state_shorter_than_its_masters,
          a_name_that_is_taken, two_optimizers_of_one_parameter, parts_are_joined, damaged_saves, lost_settings, refused_arithmetic, lost_slices])
