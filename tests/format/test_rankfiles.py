#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that each rank leaves beside the weights: where some have one, a note says which are missing."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from made import A, B, check, done, optimizer  # noqa: E402
from rundir import Dir, zerofs  # noqa: E402

DATA = os.environ.get("ZF_DATA", "tests/data")


def notes(path, *opts):
    r = zerofs("info", "--json", *opts, path)
    return json.loads(r.stdout).get("notes", []) if r.returncode == 0 else [r.stderr]


def without(what, save, word, *cases, at=""):
    """Each case: the files that are removed, and the note that says it, or None.  The whole save has no note with `word`."""
    for gone, said in ((None, None), *cases):
        with tempfile.TemporaryDirectory() as d:
            top = shutil.copytree(os.path.join(DATA, save), os.path.join(d, os.path.basename(save)))
            for name in gone.split() if gone else ():
                os.remove(os.path.join(top, name))
            got = [n for n in notes(os.path.join(top, at)) if word in n]
            check(f"{what}: {gone or 'whole'}", got == ([said] if said else []), got)


ACCELERATE = "dcp/torch2.13/accelerate_fsdp2_save_state"
without("accelerate", ACCELERATE, "random_states",
        ("random_states_0.pkl", "random_states_0.pkl is missing: 2 ranks wrote this save, and 1 left such a file"),
        ("random_states_1.pkl", "random_states_1.pkl is missing: 2 ranks wrote this save, and 1 left such a file"),
        ("random_states_0.pkl random_states_1.pkl", None))
without("transformers with DeepSpeed", "deepspeed/ds0_19_8_hftrainer_zero3_w2", "rng_state",
        ("rng_state_0.pth", "rng_state_0.pth is missing: 2 ranks wrote this save, and 1 left such a file"),
        ("rng_state_1.pth", "rng_state_1.pth is missing: 2 ranks wrote this save, and 1 left such a file"))
# Data-parallel times model-parallel ranks, by the names of ZeRO's optimizer files.
with tempfile.TemporaryDirectory() as folder:
    whole = shutil.copytree(os.path.join(DATA, "deepspeed/ds0_19_8_autotp2_zero3_w4/global_step2"), os.path.join(folder, "global_step2"))
    for rank in range(2):
        with open(os.path.join(whole, f"rng_state_{rank}.pth"), "wb") as out:
            out.write(b"x")
    found = [n for n in notes(whole) if "rng_state" in n]
    check("two data-parallel by two model-parallel ranks", len(found) == 1 and "4 ranks wrote this save, and 2 left such a file" in found[0], found)
NANOTRON = "nanotron/tp2dp2_zero1_0.4"
RANDOM = "random/tp-{}-of-2_dp-{}-of-2_pp-0-of-1.pt"
without("nanotron", NANOTRON, "random/",
        (RANDOM.format(1, 1), RANDOM.format(1, 1) + ": it is missing (3 of 4 files found, like tp-0-of-2_dp-0-of-2_pp-0-of-1.pt)"),
        (RANDOM.format(0, 1), RANDOM.format(0, 1) + ": it is missing (3 of 4 files found, like tp-0-of-2_dp-0-of-2_pp-0-of-1.pt)"))
OLMO = "olmo/pypi_core_2.4.0/step2"
without("OLMo-core", OLMO, "train/",
        ("train/rank0.pt", "1 of 2 ranks have a file in train/"), ("train/rank1.pt", "1 of 2 ranks have a file in train/"),
        ("train/rank0.pt train/rank1.pt", None))

# ---- transformers' trainer, by its files' names ----


def trainer(what, want, *ranks, weights=("model.safetensors",), more=()):
    with Dir() as d:
        for name in weights:
            d.st(name) if name.endswith(".safetensors") else d.torch(name, {"w": A})
        for r in ranks:
            d.torch(f"rng_state_{r}.pth", {"cpu": B})
        for name, value in more:
            d.torch(name, value) if not name.endswith(".json") else d.file(name, value)
        got = [n for n in notes(d.dir) if "rng_state" in n or "optimizer" in n]
        check(what, got == want, got)


trainer("all of them", [], 0, 1, 2)
trainer("none of them", [])
trainer("one in between", ["rng_state_1.pth is missing: 3 ranks wrote this save, and 2 left such a file"], 0, 2)
trainer("several", ["rng_state_0.pth is missing, like 2 more: 4 ranks wrote this save, and 1 left such a file"], 3)
trainer("the last, and the weights say how many", ["rng_state_1.pth is missing: 2 ranks wrote this save, and 1 left such a file"], 0,
        weights=[f"model_world_size_2_rank_{r}.pt" for r in (0, 1)])
trainer("one that is no number", ["rng_state_0.pth is missing: 2 ranks wrote this save, and 1 left such a file"], 1, "01", "x")

for how, said in (("empty", "is empty"), ("a directory", "is a directory, not a file"), ("a link to nothing", "is a dangling link")):
    with Dir() as d:
        d.st("model.safetensors")
        d.torch("rng_state_0.pth", {"cpu": B})
        path = d.path("rng_state_1.pth")
        open(path, "w").close() if how == "empty" else os.mkdir(path) if how == "a directory" else os.symlink("nowhere", path)
        got = [n for n in notes(d.dir) if "rng_state_1" in n and "2 ranks wrote this save" in n]
        check(f"one that is {how}", len(got) == 1 and said in got[0], notes(d.dir))

STATE = ("trainer_state.json", {"global_step": 5})
trainer("weights, optimizer and scheduler", [], more=(STATE, ("scheduler.pt", {"last_epoch": 3}), ("optimizer.pt", optimizer(B))))
trainer("weights and scheduler", ["the save has no optimizer states, which transformers' trainer writes with scheduler.pt"],
        more=(STATE, ("scheduler.pt", {"last_epoch": 3})))
trainer("weights and a scheduler of someone else", [], more=(("scheduler.pt", {"last_epoch": 3}),))
with Dir() as d:
    d.torch("train.pt", {"rng": B})
    check("neither weights nor an optimizer", "the save has no weights" in notes(d.dir), notes(d.dir))
done()
