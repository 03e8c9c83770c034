#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One state saved in many ways, by any stage, age and number of ranks, is one tree; and what generated saves show that
none of the real ones does."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
from makeds import State  # noqa: E402
from tap import check, done  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")


def tree(folder, *opts):
    """(set, name) -> (dtype, shape, hex), the notes, the error."""
    run = subprocess.run([DUMP, *opts, folder], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return ({(r[1], r[2]): tuple(r[3:6]) for r in rows if r[0] == "tensor"}, [r[1] for r in rows if r[0] == "note"],
            run.stderr.strip())


def shows(name, files, want, note=None):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        got, notes, err = tree(d)
    got = {k: v for k, v in got.items() if k[0] not in ("stored", "optim/step", "trained", "extra") and not k[0].startswith("adapter")}
    wrong = sorted(k for k in {*got, *want} if got.get(k) != want.get(k))
    check(name, not err and not wrong, f"{err} wrong: {wrong[:6]}")
    if note:
        check(f"{name}: the note", any(note in n for n in notes), notes)


def shows_stored(name, files, state):
    """stored/ is the whole 16-bit module."""
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        got, _, err = tree(d)
    got = {k[1]: v for k, v in got.items() if k[0] == "stored"}
    every = [*state.names(), *state.frozen, *state.buffers]
    want = {n: ("bf16", ",".join(map(str, state.shape(n))), makeds.bf16(state.values(n)).hex()) for n in every}
    wrong = sorted(n for n in {*got, *want} if got.get(n) != want.get(n))
    check(name, not err and not wrong, f"{err} wrong: {wrong[:6]}")


def refused(name, files, part, *opts):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        got, _, err = tree(d, *opts)
    check(name, not got and part in err, f"{err!r} {sorted(got)[:4]}")


STATE = State({"embed.weight": (7, 5), "l1.weight": (11, 5), "scale": (), "back.weight": (5, 3)}, {"l1.bias": (11,), "norm.weight": (5,)},
              frozen={"l2.weight": (3, 11)}, buffers={"running": (6,)})
ONE = State({"embed.weight": (7, 5), "l1.weight": (11, 5), "scale": (), "l1.bias": (11,), "norm.weight": (5,)})
WAYS = {"zero1": lambda w: makeds.zero12(STATE, w, 1), "zero2": lambda w: makeds.zero12(STATE, w),
        "elastic": lambda w: makeds.zero12(STATE, w, lean=True), "zero3": lambda w: makeds.zero3(STATE, w),
        "universal": lambda w: makeds.universal(STATE, w)}
for way, make in WAYS.items():
    for ranks in (1, 2, 3) if way != "universal" else (1, 2):
        shows(f"{way} on {ranks} ranks", make(ranks), STATE.expected())
        if way != "zero3":
            shows_stored(f"{way} on {ranks} ranks: stored", make(ranks), STATE)
deep = makeds.universal(STATE, 1)
deep.update({f"zero/{'d/' * n}fp32.pt": 1 for n in range(1, 40)})
shows("universal beside forty levels of directories", deep, STATE.expected())
empties = makeds.zero3(STATE, 2)
nothing = makeds.Empty()
for f in empties.values():
    f.get("module", {}).update({n: nothing for n in f.get("module", {}) if n not in STATE.buffers})
shows("placeholders of one storage are no ties", empties, STATE.expected())
odd = makeds.zero12(STATE, 2)
odd["mp_rank_00_model_states.pt"]["module"][5] = 1
refused("a name that is a number", odd, "!module[8]: expected a text, found 5")
# ---- stage 1 of 0.3.14 ----

for ranks, cuts in ((1, 1), (2, 1), (2, 4), (3, 3), (2, 40)):
    shows(f"0.3.14: {cuts} sub-partitions on {ranks} ranks", makeds.zero1_0_3_14(ONE, ranks, [cuts]), ONE.expected())
TWO = State({"a": (5, 3), "b": (4,)}, {"c": (9,)})
shows("0.3.14: two groups of other cuts", makeds.zero1_0_3_14(TWO, 2, [3, 2]), TWO.expected())


def cut_otherwise():
    files = makeds.zero1_0_3_14(ONE, 2, [4])
    name = "zero_pp_rank_1_mp_rank_00_optim_states.pt"
    files[name] = makeds.zero1_0_3_14(ONE, 2, [3])[name]
    return files


refused("0.3.14: ranks with other sub-partitions", cut_otherwise(), "other sub-partitions")
LATE = makeds.zero1_0_3_14(ONE, 2, [4])
LATE["zero_pp_rank_1_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]["local_sub_partitions_of_fp32_groups"][0][0] = makeds.f32([1.0])
refused("0.3.14: a sub-partition that is short", LATE, "the partition of group 0 has 1 elements")
SWAP = makeds.zero1_0_3_14(ONE, 2, [4])
for f in SWAP.values():
    if "optimizer_state_dict" in f:
        f["optimizer_state_dict"]["local_sub_partitions_of_fp32_groups"][0].reverse()
refused("0.3.14: sub-partitions in another order", SWAP, "")

# ---- what info says ----

def notes_of(files):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        return tree(d)[1]


def config(files, **zero):
    for f in files.values():
        if "ds_config" in f:
            f["ds_config"] = {"zero_optimization": {"stage": 2, **zero}, "optimizer": {"type": "AdamW"}}
    return files


DEALT = notes_of(config(makeds.zero12(ONE, 2, order=makeds.dealt), round_robin_gradients=True))
PLAIN = notes_of(config(makeds.zero12(ONE, 2)))
check("the optimizer's class and settings", any("optimizer AdamW: group 0 lr 0.01, weight decay 0.01" in n for n in PLAIN), PLAIN)
check("round-robin is told", any("scrambled" in n for n in DEALT) and not any("scrambled" in n for n in PLAIN), DEALT)
FROZEN = makeds.zero12(STATE, 2, 1)
FROZEN["mp_rank_00_model_states.pt"].update(frozen_param_shapes=None, frozen_param_fragments=None)
check("frozen parameters of stage 1 are told", any(n.startswith("1 frozen parameters") for n in notes_of(FROZEN)), notes_of(FROZEN))
check("those of stage 2 need not be", not any("frozen" in n for n in notes_of(makeds.zero12(STATE, 2))))

# ---- what is trained, and adapters ----

LORA = State({"base_model.model.q.lora_A.default.weight": (2, 5), "base_model.model.q.lora_B.default.weight": (3, 2),
              "base_model.model.q.lora_magnitude_vector.default.weight": (3,), "base_model.model.e.lora_embedding_A.default": (2, 4),
              "base_model.model.e.lora_embedding_B.default": (5, 2), "base_model.model.score.modules_to_save.default.weight": (2, 3)},
             frozen={"base_model.model.q.base_layer.weight": (3, 5), "base_model.model.score.original_module.weight": (2, 3),
                     "base_model.model.q.lora_A.idle.weight": (2, 5), "base_model.model.q.lora_B.idle.weight": (3, 2)})
PEFT = {"default": {"base_model.model.q.lora_A.weight": "base_model.model.q.lora_A.default.weight",
                    "base_model.model.q.lora_B.weight": "base_model.model.q.lora_B.default.weight",
                    "base_model.model.q.lora_magnitude_vector": "base_model.model.q.lora_magnitude_vector.default.weight",
                    "base_model.model.e.lora_embedding_A": "base_model.model.e.lora_embedding_A.default",
                    "base_model.model.e.lora_embedding_B": "base_model.model.e.lora_embedding_B.default",
                    "base_model.model.score.weight": "base_model.model.score.modules_to_save.default.weight"},
        "idle": {"base_model.model.q.lora_A.weight": "base_model.model.q.lora_A.idle.weight",
                 "base_model.model.q.lora_B.weight": "base_model.model.q.lora_B.idle.weight"}}


def wrapped(state, front):
    """The same under names with a wrapper's word in front."""
    return State(*[{front + n: s for n, s in g.items()} for g in state.groups], frozen={front + n: s for n, s in state.frozen.items()})


def extras(state, adapters, front=""):
    want, full = {}, state.expected()
    for n in state.names():
        want["trained", n] = full["", n]
    for a, names in adapters.items():
        for theirs, ours in names.items():
            want[f"adapter/{a}", theirs] = full["", front + ours]
    return want


def shows_extras(name, files, want):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        got, _, err = tree(d)
    got = {k: v for k, v in got.items() if k[0] == "trained" or k[0].startswith("adapter")}
    check(name, not err and got == want, f"{err} {sorted(k for k in {*got, *want} if got.get(k) != want.get(k))[:6]}")


for ranks in (1, 3):
    shows_extras(f"adapters, stage 2 on {ranks} ranks", makeds.zero12(LORA, ranks), extras(LORA, PEFT))
    shows_extras(f"adapters, stage 3 on {ranks} ranks", makeds.zero3(LORA, ranks), extras(LORA, PEFT))
shows_extras("adapters, universal", makeds.universal(LORA, 1), extras(LORA, PEFT))
LIGHT = wrapped(LORA, "model.")
shows_extras("adapters below a wrapper", makeds.zero12(LIGHT, 2), extras(LIGHT, PEFT, "model."))
shows_extras("all is trained", makeds.zero12(ONE, 2), {})
shows_extras("buffers are not trained", makeds.zero12(STATE, 2), extras(STATE, {}))
HALF = State({"base_model.model.q.lora_A.default.weight": (2, 5), "w": (3,)})
shows_extras("half an adapter is none", makeds.zero12(HALF, 2), {})


def safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + n])
    return {k: (v["dtype"], v["shape"], raw[8 + n:][slice(*v["data_offsets"])]) for k, v in head.items() if k != "__metadata__"}


def as_peft_saved(folder):
    """What zerofs serves as the adapter is what PEFT wrote beside the save, up to rounding."""
    theirs = safetensors(os.path.join(folder, "adapter_model.safetensors"))
    with tempfile.TemporaryDirectory() as d:
        for name in ("adapter/default/adapter_model.safetensors", "adapter/default/as/bf16/adapter_model.safetensors",
                     "adapter/default/adapter_config.json"):
            r = subprocess.run([ZEROFS, "cat", folder, name], capture_output=True, timeout=60)
            with open(os.path.join(d, name.replace("/", "_")), "wb") as f:
                f.write(r.stdout)
            check(f"{name} is there", r.returncode == 0, r.stderr)
        ours = safetensors(os.path.join(d, "adapter_default_adapter_model.safetensors"))
        half = safetensors(os.path.join(d, "adapter_default_as_bf16_adapter_model.safetensors"))
        with open(os.path.join(d, "adapter_default_adapter_config.json"), "rb") as f, \
                open(os.path.join(folder, "adapter_config.json"), "rb") as g:
            check("the adapter's own config", f.read() == g.read())
    check("PEFT's names and shapes", {k: v[1] for k, v in ours.items()} == {k: v[1] for k, v in theirs.items()},
          sorted({*ours} ^ {*theirs}))
    check("PEFT's values", all(v in (ours[k], half[k]) for k, v in theirs.items()),
          [k for k, v in theirs.items() if v not in (ours[k], half[k])][:4])


as_peft_saved(os.path.join(DATA, "ds0_19_8_peft_lora_zero3_w2"))

# Older fused optimizers count the steps in the group's settings alone.
fused = State(*STATE.groups, moments=("exp_avg", "mean"))
files = makeds.zero12(fused, 2)
for path in files:
    if "optim_states" in path:
        base = files[path]["optimizer_state_dict"]["base_optimizer_state"]
        for g, group in enumerate(base["param_groups"]):
            group["step"] = base["state"][g].pop("step")
shows("steps in the settings of the group", files, fused.expected())
with tempfile.TemporaryDirectory() as d:
    makeds.write(d, files)
    seen = {k[1]: v[2] for k, v in tree(d)[0].items() if k[0] == "optim/step"}
check("they are every parameter's", seen == {n: (3).to_bytes(8, "little").hex() for n in fused.names()}, seen)


class Large(State):
    """More elements than are all compared: a first parameter of nothing but zeros."""

    def values(self, name, state="fp32"):
        n = makeds.numel(self.shape(name))
        return [0.0] * n if n > 1000 else super().values(name, state)


large = Large({"embed.weight": (2049, 2048), "back.weight": (5, 3)}, moments=())
files = makeds.zero12(large, 4)
files["mp_rank_00_model_states.pt"]["module"]["back.weight"] = makeds.Half(makeds.values_of("another", 15), (5, 3))
refused("a large save, of which places are compared: every parameter has its places", files, 'of "back.weight" is')
done()
