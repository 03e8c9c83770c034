#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training in fp32 without ZeRO: the optimizer's states have numbers, and names only where something proves them."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
from dumped import dumped  # noqa: E402
from makeds import OrderedDict, f32  # noqa: E402
from tap import check, done  # noqa: E402

SHAPES = {"a": (4, 3), "b": (4,), "c": (2, 2)}


def save(shapes, order, frozen=None, names=None, states=("exp_avg", "exp_avg_sq"), more=None, groups=1):
    """order: the parameters as the optimizer was given them."""
    module = OrderedDict((n, f32(makeds.values_of(n, makeds.numel(s)), s)) for n, s in {**shapes, **(frozen or {})}.items())
    state = {i: {"step": f32([3.0], ()), **{k: f32(makeds.values_of(n + k, makeds.numel(shapes[n])), shapes[n]) for k in states}, **(more or {})}
             for i, n in enumerate(order)}
    ids = [list(range(g, len(order)))[:1 if g < groups - 1 else None] for g in range(groups)]
    settings = [{"lr": 0.1, "params": i, **({"param_names": [names[k] for k in i]} if names else {})} for i in ids]
    return {"mp_rank_00_model_states.pt": {
        "module": module, "buffer_names": [], "optimizer": {"state": state, "param_groups": settings}, "param_shapes": None,
        "frozen_param_shapes": None, "shared_params": {}, "global_steps": 3, "dp_world_size": 2, "mp_world_size": 1, "ds_config": {}, "ds_version": "0.19.8"}}


def named(what, files, shapes, order, states=("exp_avg", "exp_avg_sq")):
    """With names, or (order is a list of numbers for names) below bucket/."""
    got, notes, err = dumped(files)
    want = {(where + "/" + k, key): ("f32", ",".join(map(str, shapes[n])), makeds.f32(makeds.values_of(n + k, makeds.numel(shapes[n]))).hex())
            for where, key, n in order for k in states}
    steps = {(where + "/step", key): ("f32", "", makeds.f32([3.0]).hex()) for where, key, _ in order}
    mine = {k: v for k, v in got.items() if k[0].startswith(("optim/", "bucket/"))}
    check(what, not err and mine == {**want, **steps} and ("", "a") in got and
          any("in bucket/" in n for n in notes) == (order[0][0] == "bucket"), (err, notes, sorted(mine)))


def proved(order):
    return [("optim", n, n) for n in order]


def numbered(order):
    return [("bucket", str(i), n) for i, n in enumerate(order)]


# ---- one vector of masters a group, without names (fp16/fused_optimizer.py) ----

ORDER = OrderedDict([("a", (4, 3)), ("b", (4,)), ("c", (2, 2)), ("d", (5,)), ("e", (3, 2))])


def values(name, what="fp32"):
    return makeds.values_of(f"{name} {what}", makeds.numel(ORDER[name]))


def fused(groups, same=(), edit=None, tail=()):
    """Weights have storages of their own.  groups: the names of each; same: names whose weights and masters are one's; edit: what is done to each vector."""
    def of(name, what="fp32"):
        return values(same[0] if name in same else name, what)
    module = OrderedDict((n, makeds.Half(of(n), s)) for n, s in ORDER.items())
    vectors = [[v for n in g for v in of(n)] + list(tail) for g in groups]
    for v in vectors if edit else ():
        edit(v)
    state = {g: {"step": 3, **{k: f32([v for n in names for v in values(n, k)]) for k in ("exp_avg", "exp_avg_sq")}} for g, names in enumerate(groups)}
    return {"mp_rank_00_model_states.pt": {
        "module": module, "buffer_names": [], "param_shapes": None, "frozen_param_shapes": None, "shared_params": {}, "global_steps": 3, "dp_world_size": 1,
        "mp_world_size": 1, "ds_config": {}, "ds_version": "0.19.8", "optimizer": {
            "fp32_groups_flat": [f32(v) for v in vectors],
            "optimizer_state_dict": {"state": state, "param_groups": [{"lr": 0.1, "params": [g]} for g in range(len(groups))]}}}}


def cut(what, groups):
    got, notes, err = dumped(fused(groups))
    names = {n for g in groups for n in g}
    want = {}
    for n, s in ORDER.items():
        shape = ",".join(map(str, s))
        half = ("bf16", shape, makeds.bf16(values(n)).hex())
        want["", n] = ("f32", shape, makeds.f32(values(n)).hex()) if n in names else half
        if n in names:
            want.update({("optim/" + k, n): ("f32", shape, makeds.f32(values(n, k)).hex()) for k in ("exp_avg", "exp_avg_sq")})
            want["optim/step", n] = ("i64", "", (3).to_bytes(8, "little").hex())
    mine = {k: v for k, v in got.items() if k[0] == "" or k[0].startswith("optim/")}
    wrong = sorted(k for k in {*mine, *want} if mine.get(k) != want.get(k))
    check(f"fused: {what}", not err and not any("left out" in n for n in notes) and not wrong, (err, notes, wrong[:5]))


for groups in (["abcde"], ["ace", "bd"], ["bd", "ace"], ["e", "d", "c", "b", "a"], ["bcd"], ["a"], ["e"], ["ae", ""]):
    cut(f"in {len(groups)} groups {groups}", groups)
for groups in (["abd"], ["acd"], ["e", "abd"]):
    got, notes, err = dumped(fused(groups, same="bc"))
    check(f"fused: {groups}, and b is c", not err and got["", "a"][0] == "bf16" and any('fits "b" as well as "c"' in n for n in notes), (err, notes))


def refused(what, part, *args, **how):
    got, _, err = dumped(fused(*args, **how))
    check(f"fused: {what}", not got and part in err, (err, sorted(got)[:3]))


refused("more than there are weights for", "the last 1 elements of the masters round to no weight", ["abcde"], tail=[0.5])
refused("an element of the last", 'element 4 of the master of "e"', ["abcde"], edit=lambda v: v.__setitem__(29, 7.0))
refused("an element of the last of some: it is held against what comes behind", 'element 0 of the master of "b"', ["ad"], edit=lambda v: v.__setitem__(13, 7.0))
refused("all of them", "of the master of", ["abcde"], edit=lambda v: v.reverse())

for given in ("abc", "cab", "bca"):
    for groups in (1, 2):
        named(f"one weight of each shape, given as {given} in {groups} groups", save(SHAPES, given, groups=groups), SHAPES, proved(given))
twins = {**SHAPES, "d": (4,)}
named("two weights of a shape", save(twins, "dabc"), twins, numbered("dabc"))
named("a frozen weight of that shape", save(SHAPES, "cab", frozen={"z": (4,)}), SHAPES, numbered("cab"))
named("a frozen weight of another", save(SHAPES, "cab", frozen={"z": (5,)}), SHAPES, proved("cab"))
for groups in (1, 3):
    named(f"names were recorded, {groups} groups", save(twins, "dabc", names="dabc", groups=groups), twins, proved("dabc"))
named("a recorded name that there is not", save(twins, "dabc", names="dabx"), twins, numbered("dabc"))
named("a recorded name twice", save(twins, "dabc", names="ddbc"), twins, numbered("dabc"))
named("recorded names of other shapes", save(twins, "dabc", names="adbc"), twins, numbered("dabc"))
named("no states but the step", save(SHAPES, "abc", states=()), SHAPES, numbered("abc"), ())
mixed = save(SHAPES, "abc")
mixed["mp_rank_00_model_states.pt"]["optimizer"]["state"][0]["row"] = f32([1.0] * 4, (4,))
got, notes, err = dumped(mixed)
check("states of several shapes", not err and ("bucket/row", "0") in got and ("bucket/exp_avg", "1") in got and not any(k[0].startswith("optim") for k in got), err)
plain = save(SHAPES, "")
got, notes, err = dumped(plain)
check("an optimizer without states: nothing to note", not err and not [n for n in notes if "optimizer's states" in n] and ("", "a") in got, (err, notes))
other = save(SHAPES, "abc")
other["mp_rank_00_model_states.pt"]["optimizer"] = {"something": 1}
got, notes, err = dumped(other)
check("an optimizer of another kind", not err and any("left out" in n for n in notes), (err, notes))
got, notes, err = dumped(save(SHAPES, "abc", more={"d": 0.25, "k": 7}))
check("numbers", not err and got["optim/d", "a"][0] == "f64" and got["optim/k", "b"][0] == "i64", (err, sorted(got)))
done()
