# SPDX-License-Identifier: Apache-2.0
"""Weights in safetensors beside an optimizer that was saved in another way: one checkpoint, or a sentence that names what disagrees."""
import argparse
import hashlib
import json
import os
import pickle
import shutil
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Case, main  # noqa: E402
import mkdcp  # noqa: E402
import torchfile  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/hf")
MAP = ".hf_metadata/fqn_to_file_index_mapping.json"
LAYOUTS = [("", "optimizer"), ("model", "optim"), ("policy/weights/model", "policy/optimizer/optim"), ("", "optimizer_0")]
W = {"a.w": ("F32", [4, 2], bytes(range(32))), "b": ("F32", [3], b"123456789012")}


def shard(rank, of="00001-of-00001"):
    return f"shard-{rank:05d}-model-{of}.safetensors"


def weights(c, at, of="00001-of-00001", number=1):
    """a.w cut by rows, b whole in both ranks' box lists but stored by the second."""
    half = {"a.w": ("F32", [2, 2], W["a.w"][2][:16])}, {"a.w": ("F32", [2, 2], W["a.w"][2][16:]), "b": W["b"]}
    for rank, start in ((1, 0), (2, 2)):
        c.safetensors(os.path.join(at, shard(rank, of)), half[rank - 1], {"a.w": [start, 0], "b": [0]} if rank == 2 else {"a.w": [start, 0]})
    c.file(os.path.join(at, MAP), {"a.w": number, "b": number})


def moments(c, at, shapes=None, keys=("exp_avg", "exp_avg_sq")):
    """An optimizer as torch flattens it; gives the bytes of its tensors."""
    folder = os.path.join(c.dir, at)
    os.makedirs(folder)
    args = argparse.Namespace(dir=folder, ranks=2, torch="2.14", sparse=False, hollow=False, plans=False, columns=False)
    made, held = mkdcp.Checkpoint(args), {}
    for name, shape in (shapes or {"a.w": (4, 2), "b": (3,)}).items():
        for key in keys:
            path = ("optim", f"state.{name}.{key}")
            made.tensor(path, shape)
            held[f"optim/{key}/{name}.f32"] = made.expected[".".join(path)]["sha256"]
        made.bytes_item(("optim", f"param_groups.{name}.lr"), 0.5)
    for out in made.out:
        out.close()
    with open(os.path.join(folder, ".metadata"), "wb") as f:
        pickle.dump(made.metadata(), f, 4)
    return held


def same(c, want, *opts, at=""):
    for path, digest in want.items():
        r = c.run("cat", path, *opts, at=at)
        assert r.returncode == 0, r.stderr.decode()
        assert hashlib.sha256(r.stdout).hexdigest() == digest, path


def whole(c, at=""):
    for name, (_, _, raw) in W.items():
        c.cat(f"{name}.f32", raw, at=at)


def layouts():
    for where, optimizer in LAYOUTS:
        with Case() as c:
            weights(c, "run/step_7/" + where)
            held = moments(c, "run/step_7/" + optimizer)
            for at in ("run", "run/step_7"):
                whole(c, at)
                same(c, held, at=at)
            c.told("hf: DCP_SHARDING_INFO", f"joined with {optimizer}", at="run/step_7")
            r = c.run("info", None, at="run/step_7").stdout.decode()
            assert "the number of ranks" not in r, r  # the moments prove the shapes
            same(c, held, at="run/step_7/" + optimizer)
            if where:
                whole(c, "run/step_7/" + where)
                if where == "model":
                    c.told("the optimizer is in ../optim", at="run/step_7/model")
                    c.told("the number of ranks", "../optim", at="run/step_7/model/")


def what_lies_beside():
    """AutoModel's rng/ and dataloader/, each rank a file; the step; what from_pretrained wants, out of .hf_metadata."""
    with Case() as c:
        weights(c, "model")
        moments(c, "optim")
        state = {}
        for rank in (0, 1):
            for folder in ("rng", "dataloader"):
                os.makedirs(os.path.join(c.dir, folder), exist_ok=True)
                state[folder, rank] = torchfile.Tensor(rank + 1, 2, 3)
                torchfile.save({"state": state[folder, rank], "n": rank}, os.path.join(c.dir, folder, f"{folder}_dp_rank_{rank}.pt"))
        torchfile.save({"step": 41, "epoch": 0}, os.path.join(c.dir, "step_scheduler.pt"))
        c.file("model/.hf_metadata/config.json", {"model_type": "x"})
        c.file("model/.hf_metadata/fqn_to_dtype_mapping.json", {})
        c.file("model/consolidated/model.safetensors", b"x")
        whole(c)
        for (folder, rank), t in state.items():
            c.cat(f"extra/{folder}_dp_rank_{rank}.state.f32", bytes.fromhex(t.hex()))
            assert c.run("cat", f"state/{folder}%2F{folder}_dp_rank_{rank}.pt.json").returncode == 0
        c.cat("config.json", b'{"model_type": "x"}')
        assert b"fqn_to" not in c.run("ls", None, "-R").stdout
        c.told("step     41", "model/consolidated is not shown")


def the_list_of_names():
    """Every tensor is in fqn_to_file_index_mapping.json, with the number of its files."""
    for more in ([], [("optim",)]):
        with Case() as c:
            weights(c, "model")
            for args in more:
                moments(c, *args)
            for at in ("", "model"):
                whole(c, at)
                inside = os.path.relpath("model/" + MAP, at) if at else "model/" + MAP
                c.file("model/" + MAP, {"a.w": 1, "b": 1, "gone": 1})
                c.refused(inside, '"gone" in shard-*-model-00001-of-*.safetensors', at=at)
                c.cat("b.f32", W["b"][2], "-o", "degraded", at=at)
                assert b'"gone"' in c.run("cat", "LOST.json", "-o", "degraded,lost=omit", at=at).stdout
                c.file("model/" + MAP, {"a.w": 1})
                c.refused(shard(2), '"b"', inside + " does not list", at=at)
                c.file("model/" + MAP, {"a.w": 1, "b": 2})
                c.refused(shard(2), '"b"', "model-00002", inside, at=at)
                c.cat("b.f32", W["b"][2], "-o", "degraded", at=at)
                c.file("model/" + MAP, {"a.w": 1, "b": 1})


def a_tied_head_that_is_listed():
    """AutoModel of a model that is not of the hub: the list has lm_head.weight, which is not saved where it is tied."""
    embedding, n = bytes(range(32)), "model.embed_tokens.weight"
    for text in (False, True):
        with Case() as c:
            for rank, start in ((1, 0), (2, 2)):
                c.safetensors("model/" + shard(rank), {n: ("F32", [2, 2], embedding[start * 8:start * 8 + 16])}, {n: [start, 0]})
            c.file("model/" + MAP, {n: 1, "lm_head.weight": 1})

            def config(said):
                c.file("model/.hf_metadata/config.json", {"text_config": said} if text else said)

            config({"tie_word_embeddings": False})
            c.refused(MAP, '"lm_head.weight"')
            config({"tie_word_embeddings": True})
            for opts in ((), ("-o", "degraded")):
                c.cat("lm_head.weight.f32", embedding, *opts)
                assert "lm_head" not in c.run("info", None, *opts).stdout.decode()
            config({})
            c.told('"lm_head.weight" is listed in')
            c.cat(n + ".f32", embedding)
            assert c.run("cat", "lm_head.weight.f32").returncode != 0
            os.unlink(os.path.join(c.dir, "model/.hf_metadata/config.json"))
            c.told('"lm_head.weight" is listed in')
            config({"tie_word_embeddings": True})
            c.file("model/" + MAP, {n: 1, "lm_head.weight": 1, "draft.lm_head.weight": 1})
            c.refused(MAP, "lm_head.weight")
            c.file("model/" + MAP, {n: 1, "lm_head.weight": 1, "gone": 1})
            c.refused(MAP, '"gone"')


def the_list_is_damaged():
    with Case() as c:
        weights(c, "model")
        good = json.dumps({"a.w": 1, "b": 1}).encode()
        bad = [good[:n] for n in range(len(good))] + [b'{"a.w": "1", "b": 1}', b'{"a.w": -1}', b'{"a.w": 1.0}', b'[1]', b'{"b": 1, "b": 1, "a.w": 1}',
                                                      b'{"a.w": 99999999999999999999}', good + b"x"]
        for text in bad:
            c.file("model/" + MAP, text)
            c.refused("model/" + MAP)
            c.cat("b.f32", W["b"][2], "-o", "degraded")
        os.unlink(os.path.join(c.dir, "model", MAP))
        os.mkfifo(os.path.join(c.dir, "model", MAP))
        c.refused("model/" + MAP)


def the_last_rank_is_missing():
    """Boxes alone would pass for a smaller tensor; the moments tell."""
    for where, optimizer in LAYOUTS:
        with Case() as c:
            weights(c, where)
            moments(c, optimizer)
            os.unlink(os.path.join(c.dir, where, shard(2)))
            c.file(os.path.join(where, MAP), {"a.w": 1})
            c.refused('"a.w"', "cover 2 of the 4 elements of dimension 0", "optim/exp_avg/a.w", "files of a rank are missing")
            r = c.run("cat", "a.w.f32", "-o", "degraded")
            assert r.returncode == 5 and W["a.w"][2].startswith(r.stdout), (r.returncode, r.stdout)
            c.told("a.w", opts=("-o", "degraded"))


def a_rank_that_cannot_be_read():
    """With the moments its tensors keep their shape."""
    with Case() as c:
        weights(c, "model")
        moments(c, "optim")
        os.truncate(os.path.join(c.dir, "model", shard(1)), 5)
        c.refused("model/" + shard(1))
        assert c.run("cat", "a.w.f32", "-o", "degraded,lost=nan").stdout == b"\x00\x00\xc0\x7f" * 4 + W["a.w"][2][16:]


def moments_of_another_shape():
    """A missing rank does not explain it: the weights are as they are stored."""
    for shape in ((2, 4), (2, 2), (1, 2), (4,), (4, 2, 1), (4, 1)):
        with Case() as c:
            weights(c, "model")
            moments(c, "optim", {"a.w": shape, "b": (3,)})
            whole(c)
    with Case() as c:  # more rows: of another save, or not all ranks are here
        weights(c, "model")
        moments(c, "optim", {"a.w": (5, 2), "b": (3,)})
        c.refused("cover 4 of the 5", "or the optimizer belongs to another save")


def parameters_of_another_model():
    with Case() as c:
        weights(c, "model")
        held = moments(c, "optim", {"a.w": (4, 2), "c": (3,), "d": (1,)})
        whole(c)
        same(c, held)
        c.told("2 parameters of the optimizer are not among the weights, beginning with c")


def masters():
    """An optimizer's fp32 copies are the weights, and what they shadow is in stored/."""
    with Case() as c:
        weights(c, "")
        made = moments(c, "optimizer", keys=("exp_avg", "master_param"))
        same(c, {"a.w.f32": made["optim/master_param/a.w.f32"]})
        c.cat("stored/a.w.f32", W["a.w"][2])


def bad_boxes():
    for start, rows, part in (([0, 0], 4, "cover 2 of the 4"), ([1, 0], 4, "cover 3 of the 4"), ([0, 0], 2, "more than one piece"),
                              ([1, 0], 3, "more than one piece"), ([3, 0], 5, "covered by nothing"), ([3, 0], 6, "cover 5 of the 6"),
                              ([2**60, 0], 4, "covered by nothing"), ([2**62, 0], 4, "larger than 2^64"), ([2**63 - 1, 0], 4, "larger than 2^64"), ([2**64 - 1, 0], 4, "does not fit"),
                              ([2, 1], 4, "covered by nothing")):
        with Case() as c:
            weights(c, "model")
            moments(c, "optim", {"a.w": (rows, 2)})
            c.safetensors("model/" + shard(2), {"a.w": ("F32", [2, 2], bytes(16)), "b": W["b"]}, {"a.w": start, "b": [0]})
            c.refused(part, shard(2) if part == "does not fit" else "a.w")
    with Case() as c:  # one name whole in two files
        weights(c, "model")
        moments(c, "optim")
        c.safetensors("model/" + shard(1), {"a.w": ("F32", [2, 2], bytes(16)), "b": W["b"]}, {"a.w": [0, 0]})
        c.refused("b", "more than one piece")


def damaged_optimizer():
    with Case() as c:
        weights(c, "model")
        moments(c, "optim")
        path = os.path.join(c.dir, "optim/.metadata")
        with open(path, "rb") as f:
            whole_text = f.read()
        for n in range(0, len(whole_text), max(1, len(whole_text) // 40)):
            with open(path, "wb") as f:
                f.write(whole_text[:n])
            c.refused("optim/.metadata")
        whole_degraded = c.run("cat", "b.f32", "-o", "degraded")
        assert whole_degraded.stdout == W["b"][2], whole_degraded.stderr
        os.unlink(path)
        c.refused("optim: the save is incomplete")


def plain_files():
    """PEFT's adapter in model/, a whole model beside optimizer_0/, one behind an index."""
    files = {"model/adapter_model.safetensors": "optim", "model.safetensors": "optimizer_0", "weights/model.safetensors": "optimizer"}
    for file, optimizer in files.items():
        with Case() as c:
            c.safetensors(file, W)
            c.file(os.path.join(os.path.dirname(file), "adapter_config.json"), {"r": 1})
            held = moments(c, optimizer)
            whole(c)
            same(c, held)
            c.cat("adapter_config.json", b'{"r": 1}')
    with Case() as c:
        c.safetensors("model/x.safetensors", {"a.w": W["a.w"]})
        c.safetensors("model/y.safetensors", {"b": W["b"]})
        c.file("model/model.safetensors.index.json", {"weight_map": {"a.w": "x.safetensors", "b": "y.safetensors"}})
        held = moments(c, "optim")
        whole(c)
        same(c, held)
        os.unlink(os.path.join(c.dir, "model/y.safetensors"))
        c.refused("model/model.safetensors.index.json", '"model/y.safetensors", which is missing')


# ---- ColossalAI ----

REAL = os.path.join(DATA, "colossalai0.5.0_zero1_w2")
STATES = "optimizer/pytorch_optim-00001.bin"
INDEX = "optimizer/pytorch_optim.bin.index.json"


def records(path):
    """The storages of a torch.save file, in the order in which this optimizer saved them: step, exp_avg, exp_avg_sq of each parameter."""
    with zipfile.ZipFile(path) as z:
        names = sorted((n for n in z.namelist() if "/data/" in n and n.rsplit("/", 1)[1].isdigit()), key=lambda n: int(n.rsplit("/", 1)[1]))
        return [z.read(n) for n in names]


def colossalai():
    data = records(os.path.join(REAL, STATES))
    assert len(data) == 42
    with open(os.path.join(REAL, "expected.json"), encoding="utf8") as f:
        tensors = json.load(f)["tensors"]
    with Case() as c:
        shutil.copytree(REAL, os.path.join(c.dir, "run"))
        for at in ("run", "run/optimizer"):
            for i, raw in enumerate(data):
                c.cat(f"optim/{('step', 'exp_avg', 'exp_avg_sq')[i % 3]}/{i // 3}.f32", raw, at=at)
        same(c, {f"{n}.f32": v["sha256"] for n, v in tensors.items()}, at="run")
        groups = c.run("cat", "state/optimizer%2Fpytorch_optim_group.bin.json", at="run").stdout
        assert json.loads(groups)[0]["lr"] == 0.01
        c.told("the optimizer is in ../optimizer", at="run/model")


def colossalai_made(c, weights_in="model.safetensors.index.json"):
    """Two files of states, weights by either kind of index."""
    t = torchfile.Tensor
    held = {0: t(1, 2), 1: t(3), 2: t(4, 5, 6)}
    for d in ("model", "optimizer"):
        os.makedirs(os.path.join(c.dir, d))
    torchfile.save({0: {"exp_avg": held[0]}, 1: {"exp_avg": held[1]}}, os.path.join(c.dir, STATES))
    torchfile.save({2: {"exp_avg": held[2]}}, os.path.join(c.dir, STATES.replace("00001", "00002")))
    torchfile.save([{"lr": 0.5, "params": [0, 1, 2]}], os.path.join(c.dir, "optimizer/pytorch_optim_group.bin"))
    c.file(INDEX, {"metadata": {"param_groups": "pytorch_optim_group.bin", "total_size": 0.5},
                   "weight_map": {"0": "pytorch_optim-00001.bin", "1": "pytorch_optim-00001.bin", "2": "pytorch_optim-00002.bin"}})
    if "safetensors" in weights_in:
        c.safetensors("model/x.safetensors", {"w": W["b"]})
        c.file("model/" + weights_in, {"weight_map": {"w": "x.safetensors"}})
    else:
        torchfile.save({"w": t(1, 2, 3)}, os.path.join(c.dir, "model/x.bin"))
        c.file("model/" + weights_in, {"weight_map": {"w": "x.bin"}})
    return {f"optim/exp_avg/{i}.f32": bytes.fromhex(v.hex()) for i, v in held.items()}


def colossalai_in_parts():
    for kind in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        with Case() as c:
            for path, raw in colossalai_made(c, kind).items():
                c.cat(path, raw)
            assert c.run("cat", "w.f32").returncode == 0
            changes = {
                "names parameters in a file that lacks them": ({0: {"exp_avg": torchfile.Tensor(1)}}, '"1"'),
                "a file holds what another should": ({i: {"exp_avg": torchfile.Tensor(1)} for i in range(3)}, "parameter 2"),
                "a file holds what nobody names": ({i: {"exp_avg": torchfile.Tensor(1)} for i in (0, 1, 7)}, "parameter 7"),
                "no dict": ([torchfile.Tensor(1)], "expected a dict"),
                "no number": ({0: {}, 1: {}, (1, 2): {}}, "(no number)"),
            }
            for value, part in changes.values():
                torchfile.save(value, os.path.join(c.dir, STATES))
                for at in ("", "optimizer"):
                    c.refused(part, at=at)
                    assert c.run("cat", "optim/exp_avg/2.f32", "-o", "degraded", at=at).returncode == 0
            os.unlink(os.path.join(c.dir, STATES))
            c.refused(INDEX, "pytorch_optim-00001.bin", "which is missing")
            assert c.run("cat", "w.f32", "-o", "degraded").returncode == 0


def colossalai_index_is_damaged():
    with Case() as c:
        colossalai_made(c)
        with open(os.path.join(c.dir, INDEX), "rb") as f:
            good = f.read()
        texts = [good[:n] for n in range(len(good))] + [good.replace(b'"pytorch_optim_group.bin"', v) for v in (b"5", b'"../x"', b'"/x"', b"null")]
        for text in texts + [good.replace(b'"param_groups"', b'"groups"')]:
            c.file(INDEX, text)
            c.refused(INDEX)
            assert c.run("cat", "w.f32", "-o", "degraded").returncode == 0
        c.file(INDEX, good)
        os.unlink(os.path.join(c.dir, "optimizer/pytorch_optim_group.bin"))
        c.told("pytorch_optim_group.bin")


main(
    [
        layouts,
        what_lies_beside,
        the_list_of_names,
        a_tied_head_that_is_listed,
        the_list_is_damaged,
        the_last_rank_is_missing,
        a_rank_that_cannot_be_read,
        moments_of_another_shape,
        parameters_of_another_model,
        masters,
        bad_boxes,
        damaged_optimizer,
        plain_files,
        colossalai,
        colossalai_in_parts,
        colossalai_index_is_damaged,
    ]
)
