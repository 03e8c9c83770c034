#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which family wins where several fit one directory, what `why` says, and where pointing leads."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from golden import ZEROFS, Case  # noqa: E402
from made import A, B, C, check, done, optimizer, save  # noqa: E402

MAKE = os.path.join(HERE, "../support/mkdcp.py")
TWO = struct.pack("<2f", 1, 2)


class Dir(Case):
    """A directory to put pieces of checkpoints in."""

    def path(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def torch(self, name, value):
        save(value, self.path(name))

    def st(self, name, key="w", **more):
        self.safetensors(name, {key: ("F32", [2], TWO)}, **more)

    def dcp(self, name="", *args):
        folder = self.path(os.path.join(name, "x"))[:-2]
        subprocess.run([sys.executable, MAKE, folder, "--tensors", "2", "--ranks", "1", *args], check=True,
                       capture_output=True)

    def info(self, at="", *opts):
        r = subprocess.run([ZEROFS, "info", "--json", *opts, os.path.join(self.dir, at)], capture_output=True,
                           text=True, timeout=60)
        return r, json.loads(r.stdout) if r.returncode == 0 else {}

    def tree(self, at="", *opts):
        r = subprocess.run([ZEROFS, "ls", "-R", *opts, os.path.join(self.dir, at)], capture_output=True, text=True,
                           timeout=60)
        return r.stdout.split()


def rank_local(d, folder=""):
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sys.executable, MAKE, made, "--tensors", "2", "--ranks", "1"], check=True)
        os.makedirs(os.path.join(d.dir, folder), exist_ok=True)
        shutil.copy(os.path.join(made, ".metadata"), os.path.join(d.dir, folder, "__0.metadata"))
        shutil.copy(os.path.join(made, "__0_0.distcp"), os.path.join(d.dir, folder))


def index(d):
    d.file("model.safetensors.index.json", {"weight_map": {"i": "model-00001-of-00001.safetensors"}})
    d.st("model-00001-of-00001.safetensors", "i")


def ranks(d, folder=""):
    for r in range(2):
        d.torch(f"{folder}model_world_size_2_rank_{r}.pt", {"r": A})


def boxes(d, folder=""):
    d.st(f"{folder}shard-00001-model-00001-of-00001.safetensors", "b", boxes={"b": [0]})


# In the order of precedence: name, what makes it, format, part of `why`.
PIECES = [
    (".metadata", Dir.dcp, "dcp", ".metadata is a pickle"),
    ("__R.metadata", rank_local, "dcp", "__0.metadata is a pickle"),
    ("model_and_optim", lambda d: d.dcp("model_and_optim"), "dcp", "model_and_optim/.metadata is a pickle"),
    ("accelerate", lambda d: d.dcp("pytorch_model_fsdp_0"), "dcp", "pytorch_model_fsdp_0/.metadata is a pickle"),
    ("an index", index, "hf", "the index model.safetensors.index.json"),
    ("boxes", boxes, "hf", "DCP_SHARDING_INFO in the headers"),
    ("sharded/", lambda d: boxes(d, "sharded/"), "hf", "headers of sharded/"),
    ("ranks", ranks, "ranks", "one file a rank, such as model_world_size_2_rank_0.pt"),
    ("safetensors", lambda d: d.st("weights.safetensors", "s"), "safetensors", "safetensors file"),
    ("torch", lambda d: d.torch("weights.pt", {"t": B}), "torch", "weights.pt begins as torch.save writes it"),
    ("a step", lambda d: d.torch("step-7/m.pt", {"u": C}), "torch", "m.pt begins as torch.save writes it"),
]

for n, (first, make_first, fmt, why) in enumerate(PIECES):
    for second, make_second, other, _ in PIECES[n + 1:]:
        with Dir() as d:
            make_first(d)
            make_second(d)
            r, j = d.info()
            if second == "a step" and first in ("safetensors", "torch"):
                check(f"a step before {first}, and a note", j.get("tag") == "step-7" and
                      any("weights." in n and "not shown" in n for n in j["notes"]), r.stderr or j)
                continue
            check(f"{first} before {second}", j.get("format") == fmt and why in j["why"] and
                  ("tag" not in j or not j["tag"]), r.stderr or j)
            if second == "a step" and fmt != "dcp":
                check("what lies beside it is told", any("step-7 next to them" in n for n in j["notes"]), j)
            if other != fmt and second != "a step" and (first, second) != ("ranks", "torch"):
                r, j = d.info("", "-o", "format=" + other)
                check(f"-o format={other}: {second} although there is {first}", j.get("format") == other,
                      r.stderr or j)

with Dir() as d:
    d.torch("step-7/m.pt", {"u": C})
    d.torch("step-12/m.pt", {"u": C})
    r, j = d.info()
    check("the newest step", (j.get("tag"), j.get("step")) == ("step-12", 12), r.stderr or j)
    check("and what else there is", "step-12 is the newest of 2 saves here" in j["notes"], j)

# ---- ties and what lies beside -----------------------------------------------------------------------

with Dir() as d:
    d.dcp()
    d.torch("zero_pp_rank_0_mp_rank_00_optim_states.pt", {"optimizer_state_dict": {}})
    d.torch("mp_rank_00_model_states.pt", {"module": {"w": A}})
    d.refused("two formats fit", "deepspeed (1 model and 1 optimizer files", "dcp (.metadata is a pickle",
              "-o format=NAME")
    r, j = d.info("", "-o", "format=dcp")
    check("a tie is settled by -o format", j.get("format") == "dcp", r.stderr or j)

for weights in ("model.safetensors", "pytorch_model.bin"):
    for name in ("optimizer.pt", "optimizer.bin"):
        with Dir() as d:
            if weights.endswith(".bin"):
                d.torch(weights, {"w": A})
            else:
                d.st(weights)
            d.torch(name, optimizer(A))
            tree = d.tree()
            check(f"{name} beside {weights}", "w.f32" in tree and "optim/exp_avg/0.f32" in tree, tree)

with Dir() as d:
    d.st("model.safetensors")
    d.torch("pytorch_model.bin", {"w": A})
    r, j = d.info()
    check("weights that are not shown are told", any("pytorch_model.bin is not shown" in n for n in j["notes"]), j)
    d.torch("consolidated.00.pth", {"w": A})
    d.torch("model.pt", {"w": A})
    r, j = d.info()
    check("and how many", any("consolidated.00.pth, model.pt and 1 more are not shown" in n for n in j["notes"]), j)

with Dir() as d:
    d.st("model.safetensors")
    d.torch("model_world_size_2_rank_0.pt", {"r": A})
    r, j = d.info()
    check("incomplete ranks do not hide whole weights", j.get("format") == "safetensors", r.stderr or j)
with Dir() as d:
    d.torch("model_world_size_2_rank_0.pt", {"r": A})
    d.refused("only 1 of 2 ranks have a file")

# ---- what wraps a checkpoint -------------------------------------------------------------------------

with Dir() as d:
    d.dcp("pytorch_model_fsdp_0", "--plans")
    d.dcp("pytorch_model_fsdp_1", "--plans", "--rows", "5")
    d.torch("random_states_0.pkl", {"cpu": C})
    d.file("trainer_state.json", {"global_step": 5})
    r, j = d.info()
    tree = d.tree()
    check("accelerate with two models", "layers.0.weight.f32" in tree and "model_1/layers.0.weight.f32" in tree, tree)
    check("why names both", "pytorch_model_fsdp_0" in j["why"] and "pytorch_model_fsdp_1" in j["why"], j)
    check("random states and the trainer's", "extra/random_states_0.cpu.f32" in tree and
          "state/trainer_state.json" in tree, tree)
    own = {}
    for k, name in enumerate(("layers.0.weight.f32", "model_1/layers.0.weight.f32")):
        one = subprocess.run([ZEROFS, "cat", os.path.join(d.dir, f"pytorch_model_fsdp_{k}"), "layers.0.weight.f32"],
                             capture_output=True, check=True).stdout
        both = subprocess.run([ZEROFS, "cat", d.dir, name], capture_output=True, check=True).stdout
        check(f"model {k} has its own bytes", one == both, (len(one), len(both)))

with Dir() as d:
    d.dcp("optimizer_0", "--plans")
    d.torch("pytorch_model_fsdp_rank0.bin", {"w": A})
    d.torch("pytorch_model_fsdp_rank1.bin", {"w": B})
    notes = d.info()[1]["notes"]
    check("FSDP's local weights beside their optimizer", any("oint at" in n for n in notes), notes)

with Dir() as d:
    d.torch("pytorch_model.bin", {"w": A})
    d.torch("pytorch_model_1.bin", {"w": B})
    d.torch("optimizer.bin", optimizer(A))
    d.torch("optimizer_1.bin", optimizer(B))
    d.torch("scheduler.bin", {"last_epoch": 3})
    d.torch("custom_checkpoint_0.pkl", {"n": 3})
    tree = d.tree()
    want = ["w.f32", "model_1/w.f32", "optim/exp_avg/optimizer.0.f32", "optim/exp_avg/optimizer_1.0.f32",
            "state/scheduler.bin.json", "state/custom_checkpoint_0.pkl.json"]
    check("accelerate with two plain models", all(w in tree for w in want), tree)

with Dir() as d:
    ranks(d, "global_step_20/actor/")
    d.torch("global_step_20/data.pt", {"x": 1})
    d.torch("global_step_10/data.pt", {"x": 1})
    d.file("latest_checkpointed_iteration.txt", b"20")
    r, j = d.info()
    check("verl's run directory", (j.get("format"), j.get("tag"), j.get("step")) ==
          ("ranks", "global_step_20/actor", 20), r.stderr or j)

with Dir() as d:
    d.dcp("step_10/policy/weights", "--plans")
    d.dcp("step_10/policy/optimizer", "--plans")
    r, j = d.info()
    check("NeMo-RL's policy", j.get("format") == "dcp" and "policy/optimizer" in j["why"], r.stderr or j)

with Dir() as d:
    d.dcp("epoch=0-step=4.ckpt", "--plans")
    d.torch("epoch=0-step=4.ckpt/meta.pt", {"epoch": 0, "callbacks": {}})
    r, j = d.info()
    check("a Lightning directory", j.get("step") == 4 and "state/meta.pt.json" in d.tree(), r.stderr or j)

with Dir() as d:
    d.torch("checkpoint-5/global_step5/mp_rank_00_model_states.pt", {"module": {"w": A}})
    d.file("checkpoint-5/latest", b"global_step5")
    d.torch("checkpoint-5/scheduler.pt", {"last_epoch": 3})
    d.file("checkpoint-5/trainer_state.json", {"global_step": 5})
    r, j = d.info("checkpoint-5")
    tree = d.tree("checkpoint-5")
    check("the Trainer with DeepSpeed", j.get("format") == "deepspeed" and "state/scheduler.pt.json" in tree and
          "state/trainer_state.json" in tree, r.stderr or tree)

# ---- pointing ----------------------------------------------------------------------------------------

with Dir() as d:
    for step in (9, 10):
        d.dcp(f"home/run/step-{step}")
    os.symlink("run", os.path.join(d.dir, "home/link"))
    run = "home/run"
    for at, tag in ((run, "step-10"), (run + "/", "step-10"), ("home", "run/step-10"),
                    (run + "/step-9/..", "step-10"), (run + "/step-9", "step-9"),
                    (run + "/step-9/", "step-9"), (run + "/step-10/../step-9", "step-9"),
                    (run + "/step-9/.metadata", "step-9"), (run + "/step-9/__0_0.distcp", "step-9"),
                    ("home/link/step-9", "step-9")):
        r, j = d.info(at)
        check(f"pointing at {at}", j.get("tag") == tag, r.stderr or j)
    os.unlink(os.path.join(d.dir, "home/link"))
    r, j = d.info("")
    check("two levels too high", j.get("tag") == "home/run/step-10", r.stderr or j)
    os.unlink(os.path.join(d.dir, run, "step-10/.metadata"))
    r, j = d.info(run)
    check("a save that is being written", j.get("tag") == "step-9" and "unfinished" in j["notes"][0], r.stderr or j)
    d.refused("home/run/step-10: the save is incomplete", at=run + "/step-10")
    d.file(run + "/latest", b"step-10\n")
    d.refused("home/run/step-10: the save is incomplete", at=run)
    d.file(run + "/latest", b"step-9\n")
    for at in (run, run + "/latest"):
        r, j = d.info(at)
        check(f"latest decides: {at}", j.get("tag") == "step-9", r.stderr or j)
    d.file(run + "/latest", b"step-8\n")
    d.refused('"step-8", which does not exist', "Found: step-9 ", at=run)
    d.file(run + "/latest", b"../../etc\n")
    d.refused("latest", "expected the name of a directory", at=run)
    r, _ = d.info(run, "-o", "tag=step-1")
    check("a tag that is not there", r.returncode == 2 and "step-9" in r.stderr, r.stderr)

with Dir() as d:
    d.st("checkpoint-5/model.safetensors")
    for writing in ("tmp-checkpoint-9", "checkpoint-9-tmp", "checkpoint-9.tmp", "tmp_step_9"):
        d.st(writing + "/model.safetensors")
    r, j = d.info()
    r = subprocess.run([ZEROFS, "info", "-o", "tag=checkpoint-7", d.dir], capture_output=True, text=True)
    check("saves that could be meant", r.returncode == 2 and "Found: checkpoint-5 " in r.stderr, r.stderr)
    r, j = d.info()
    check("saves under the names they are written with", j.get("tag") == "checkpoint-5", r.stderr or j)

with Dir() as d:
    d.file("none/readme.txt", b"hello")
    d.file("none/empty.pt", b"")
    d.path("void/x")
    d.refused("there is no checkpoint here", at="none", code=3)
    d.refused("there is no checkpoint here", at="void", code=3)
    d.refused("readme.txt: this is neither", at="none/readme.txt", code=3)
    d.refused("empty.pt: this is neither", at="none/empty.pt", code=3)
    d.refused("cannot open", at="nope", code=5)
    d.st("many/a/model.safetensors")
    d.torch("many/b/m.pt", {"w": A})
    d.refused("several checkpoints", "a, b", "Point at one", at="many", code=3)
    for fmt in ("deepspeed", "dcp", "hf", "ranks", "torch"):
        d.refused("format " + fmt, at="many/a", opts=("-o", "format=" + fmt), code=3)
    d.refused('no format "nope"', "safetensors", at="many/a", opts=("-o", "format=nope"), code=2)

with Dir() as d:
    index(d)
    d.st("model-00001-of-00002.safetensors", "half")
    d.torch("pytorch_model-00001-of-00002.bin", {"x": A})
    r, j = d.info("model.safetensors.index.json")
    check("pointing at an index", j.get("format") == "hf", r.stderr or j)
    for shard in ("model-00001-of-00002.safetensors", "pytorch_model-00001-of-00002.bin"):
        r, j = d.info(shard)
        check(f"pointing at {shard}", any("Point at its directory" in n for n in j["notes"]), r.stderr or j)
    ranks(d)
    r, j = d.info("model_world_size_2_rank_1.pt")
    check("pointing at one rank", j.get("format") == "ranks", r.stderr or j)

with Dir() as d:
    blob = os.path.join(d.dir, "hub/blobs/0123")
    d.st("hub/blobs/0123")
    os.makedirs(os.path.join(d.dir, "hub/snapshots/abc"))
    os.symlink("../../blobs/0123", os.path.join(d.dir, "hub/snapshots/abc/model.safetensors"))
    for at in ("hub/snapshots/abc", "hub/snapshots/abc/model.safetensors", "hub"):
        r, j = d.info(at)
        check(f"a cache of Hugging Face: {at}", j.get("format") == "safetensors", r.stderr or j)

done()
