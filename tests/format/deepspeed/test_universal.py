#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Universal checkpoints: parameters that are missing, damaged or of other saves are found by what lies beside them."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
from dumped import dumped  # noqa: E402
from makeds import State  # noqa: E402
from tap import check, done  # noqa: E402

STATE = State({"embed.weight": (6, 4), "l1.weight": (4, 4), "l1.bias": (4,)}, {"norm": (3,), "one": (1,), "scale": ()},
              frozen={"base": (5, 2)}, buffers={"count": (2,)})
OTHER = State(*STATE.groups, frozen=STATE.frozen, buffers=STATE.buffers, seed=1, step=STATE.step)
LATER = State(*STATE.groups, frozen=STATE.frozen, buffers=STATE.buffers, seed=1, step=STATE.step + 1)


def good(name, files, state=STATE):
    got, _, err = dumped(files)
    want = state.expected()
    wrong = [k for k in want if got.get(k) != want[k]]
    check(name, not err and not wrong, (err, wrong))


def refused(name, files, *parts):
    """Degraded, too."""
    for opts in ((), ("-d",)):
        got, _, err = dumped(files, *opts)
        check(" ".join([name, *opts]), not got and all(p in err for p in parts) and "\n" not in err, (err, len(got)))


def mixed(files, other, word):
    return {n: other[n] if word in n else v for n, v in files.items()}


one, three = makeds.universal(STATE, 1), makeds.universal3(STATE, 2)
good("stages 1 and 2", one)
for ranks in (1, 2, 3, 7):
    good(f"stage 3, {ranks} ranks", makeds.universal3(STATE, ranks))

# ---- two saves ----------------------------------------------------------------------------------------------------------

for n in ("embed.weight", "l1.bias", "scale"):
    refused(f"one parameter of another save: {n}", mixed(one, makeds.universal(OTHER, 1), f"zero/{n}/fp32"),
            f"zero/{n}/fp32.pt: element 0 is", "does not round", "mp_rank_00_model_states.pt")
    for k in ("fp32", "exp_avg", "exp_avg_sq"):
        refused(f"stage 3, one file of another save: {n} {k}", mixed(three, makeds.universal3(OTHER, 2), f"zero/{n}/{k}.pt"),
                f"zero/{n}/{k}.pt: element 0 is", "in zero/optimizer_state.pt")
refused("one parameter's files of a later step", mixed(one, makeds.universal(LATER, 1), "zero/l1.bias/"), "zero/l1.bias/step.pt", "step")
refused("one step of a later step", mixed(one, makeds.universal(LATER, 1), "zero/l1.bias/step"), "two saves", f"has step {STATE.step}",
        f"has step {STATE.step + 1}")
ALONE = State({"embed.weight": (6, 4), "l1.bias": (4,)}, {"one": (1,)})
alone = makeds.universal(ALONE, 1)
good("a group of one parameter", alone, ALONE)
refused("a group of one parameter of a later step", {**alone, "zero/one/step.pt": ALONE.step + 1}, "zero/one/step.pt has step", "two saves")
got, notes, err = dumped({**one, **{f: STATE.step + 5 for f in one if f.endswith("/step.pt")}})
check("the model's step is another", not err and any(f"the optimizer counted {STATE.step + 5} steps" in n and "model_states" in n for n in notes),
      (err, notes))
scrambled = {n: dict(v) if isinstance(v, dict) else v for n, v in one.items()}
scrambled["mp_rank_00_model_states.pt"]["ds_config"] = {"zero_optimization": {"stage": 2, "round_robin_gradients": True}}
scrambled["zero/l1.bias/fp32.pt"] = {"cat_dim": 0, "param": makeds.f32(STATE.values("embed.weight")[:4], (4,))}
refused("a conversion that scrambled", scrambled, "scrambles saves with round_robin_gradients")
for stage, files, value in ((2, one, {"cat_dim": 0, "param": makeds.f32([1.0] * 24, (4, 6))}), (3, three, makeds.f32([1.0] * 25))):
    got, _, err = dumped({**files, "zero/embed.weight/fp32.pt": value})
    check(f"stage {stage}: another shape", not got and 'model_states.pt" the parameter has 24 in 2' in err, err)
    for key in ("fp32", "exp_avg"):
        files = {n: v for n, v in {**files, f"zero/embed.weight/{key}.pt": value}.items() if n != "zero/optimizer_state.pt"}
        files["zero/embed.weight/fp32.pt"] = b"noise" if key == "exp_avg" else files["zero/embed.weight/fp32.pt"]
        got, notes, err = dumped(files, "-d")
        shown = got.get(("" if key == "fp32" else "optim/exp_avg", "embed.weight"), ("", "", "unreadable"))
        check(f"stage {stage}: {key} of another shape, degraded: it is not served", not err and ("", "l1.bias") in got and
              shown[2].startswith("unreadable") and any("belongs to another save" in n for n in notes), (err, shown, notes))
for state in ("exp_avg", "exp_avg_sq", "step"):
    hurt = {f: v for f, v in alone.items() if f != f"zero/one/{state}.pt"}
    got, _, err = dumped(hurt)
    check(f"a group of one parameter without {state}", not got and f"zero/one/{state}.pt is missing" in err, err)
    got, notes, err = dumped(hurt, "-d")
    check(f"the same, degraded: {state}", got and not err and any(f"zero/one/{state}.pt is missing" in n for n in notes), (err, notes))
for what, files, name in (("a group of one parameter", alone, "one"), ("stage 2", one, "l1.bias"), ("stage 3", three, "l1.bias")):
    for state in ("exp_avg", "exp_avg_sq", "step", "fp32"):
        at = f"zero/{name}/{state}.pt"
        if at in files:
            hurt = {f: v for f, v in files.items() if f != at} | {f"{at}/file": b""}
            got, _, err = dumped(hurt)
            check(f"{what}: a directory called {state}.pt", not got and f"{at}: this is a directory" in err and "\n" not in err, err)
            got, notes, err = dumped(hurt, "-d")
            check(f"the same, degraded: {what}, {state}", got and not err and any(at in n for n in notes), (err, notes))
muon = {f.replace("one/exp_avg.pt", "one/momentum_buffer.pt"): v for f, v in alone.items() if f not in ("zero/one/exp_avg_sq.pt", "zero/one/step.pt")}
got, notes, err = dumped(muon)
check("a group of another optimizer", not err and not notes and ("optim/momentum_buffer", "one") in got, (err, notes))
for what, files in (("2", one), ("3", three)):
    got, notes, err = dumped({f: v for f, v in files.items() if f != "zero/optimizer_state.pt"})
    check(f"stage {what} without optimizer_state.pt", not err and got and any("zero/optimizer_state.pt is missing" in n for n in notes), (err, notes))
    check(f"stage {what} with it", not any("optimizer_state.pt" in n for n in dumped(files)[1]))
cut = {n: makeds.f32(STATE.values("embed.weight", n)[:20], (5, 4)) for n in ("fp32", *STATE.moments)}
got, _, err = dumped({**one, **{f"zero/embed.weight/{n}.pt": {"cat_dim": 0, "param": v, "vocab_tensor": True} for n, v in cut.items()}})
check("a vocabulary without its padding", not err and got["", "embed.weight"][1:] == ("5,4", cut["fp32"].hex()), err)

# ---- releases that converted wrongly: told where nothing proves it, refused (above) where something does ----------------

for version, state_file, word in (("0.16.9", True, "the beginning of every parameter agrees with zero/optimizer_state.pt"),
                                  ("0.14.5", False, "nothing proves"), ("0.17.6+abc", False, "nothing proves"),
                                  ("0.14.4", False, None), ("0.18.0", False, None), ("1.16.0", False, None)):
    old = {n: {**v, "ds_version": version} if "model_states" in n else v for n, v in three.items() if state_file or "optimizer_state" not in n}
    got, notes, err = dumped(old)
    said = [n for n in notes if "scrambles stage 3" in n]
    check(f"sub-groups of {version}", not err and got and len(said) == (word is not None) and (not word or word in said[0]), (err, notes))

# ---- losses -------------------------------------------------------------------------------------------------------------

for what, files in (("stage 2", one), ("stage 3", three)):
    for file in ("fp32", "exp_avg"):
        path = f"zero/l1.weight/{file}.pt"
        for how in ("gone", "noise"):
            hurt = {n: b"noise" if n == path else v for n, v in files.items() if how == "noise" or n != path}
            got, _, err = dumped(hurt)
            check(f"{what}, {path} {how}: refused", not got and path in err, err)
            got, notes, err = dumped(hurt, "-d")
            whole = dumped(files)[0]
            kept = [k for k in whole if k[1] != "l1.weight" or k[0] not in ("" if file == "fp32" else f"optim/{file}", "trained")]
            check(f"{what}, {path} {how}, degraded: nothing else is lost", not err and all(got.get(k) == whole[k] for k in kept) and
                  got.get(("" if file == "fp32" else f"optim/{file}", "l1.weight")) != whole["" if file == "fp32" else f"optim/{file}", "l1.weight"],
                  (err, notes))

# ---- what a file may hold -----------------------------------------------------------------------------------------------

for value, want in ((0.25, ("f64", "", "000000000000d03f")), (7, ("i64", "", "0700000000000000"))):
    good(f"a state that is the number {value}", {**one, "zero/l1.bias/more.pt": value, **{f"zero/{n}/more.pt": value for n in STATE.groups[0]}})
    got = dumped({**one, **{f"zero/{n}/more.pt": value for n in STATE.groups[0]}})[0]
    check(f"the number {value}", got["optim/more", "l1.bias"] == want, got.get(("optim/more", "l1.bias")))
for name in sorted({f.split("/")[1] for f in one if f.startswith("zero/") and f.count("/") == 2}):
    lost = f"zero/{name}/exp_avg.pt"
    for flag in ("", "-d"):
        got, notes, err = dumped({f: v for f, v in one.items() if f != lost}, *filter(None, (flag,)))
        said = [err] if not flag else notes
        check(f"{name} without a moment {flag}", bool(got) == bool(flag) and any(lost in x and "is missing" in x for x in said), (err, notes))
got, _, err = dumped({**one, "zero/l1.bias/exp_avg.pt": "x"})
check("a file that holds a text", not got and err.endswith("zero/l1.bias/exp_avg.pt: it holds neither a tensor nor a number"), err)
for what, change in (("of another number of ranks", lambda v: v.update(partition_count=3)), ("of one group", lambda v: v["fp32_flat_groups"].pop()),
                     ("with a state under a number", lambda v: v["optimizer_state_dict"]["state"][0].update({7: 1}))):
    again = makeds.universal3(STATE, 2)
    change(again["zero/optimizer_state.pt"])
    good(f"an optimizer_state.pt {what}", again)
for files in (one, three):
    noise = {**files, "zero/optimizer_state.pt": b"noise"}
    got, _, err = dumped(noise)
    check("an optimizer_state.pt that is noise", not got and "zero/optimizer_state.pt" in err and err.count("\n") == 0, err)
    got, notes, err = dumped(noise, "-d")
    check("the same, degraded", not err and all(got.get(k) == v for k, v in STATE.expected().items()) and
          any("zero/optimizer_state.pt" in n for n in notes), (err, notes))
done()
