#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training in fp32 without ZeRO: the optimizer's states have numbers, and names only where something proves them."""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
import makemp  # noqa: E402
import torchfile  # noqa: E402
from dumped import DUMP, dumped  # noqa: E402
from makeds import OrderedDict, f32, values_of  # noqa: E402
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
    """With names, or under the optimizer's numbers, and then with a note."""
    got, notes, err = dumped(files)
    want = {(where + "/" + k, key): ("f32", ",".join(map(str, shapes[n])), makeds.f32(makeds.values_of(n + k, makeds.numel(shapes[n]))).hex())
            for where, key, n in order for k in states}
    steps = {(where + "/step", key): ("f32", "", makeds.f32([3.0]).hex()) for where, key, _ in order}
    mine = {k: v for k, v in got.items() if k[0].startswith("optim/")}
    check(what, not err and mine == {**want, **steps} and ("", "a") in got and
          any("does not record the parameter names" in n for n in notes) == order[0][1].isdigit(), (err, notes, sorted(mine)))


def proved(order):
    return [("optim", n, n) for n in order]


def numbered(order):
    return [("optim", str(i), n) for i, n in enumerate(order)]


# Two names of one storage are one tensor, also where it has no elements; two storages are two.
def ties(files):
    with tempfile.TemporaryDirectory() as tag:
        makeds.write(tag, files)
        run = subprocess.run([DUMP, tag], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return {r[2]: r[6] for r in rows if r[0] == "tensor" and r[1] == ""}, run.stderr


def nothing():
    return torchfile.Tensor(shape=(0, 4), storage=torchfile.Storage(data=b"", n=0))


files = save(SHAPES, "abc")
module = files["mp_rank_00_model_states.pt"]["module"]
module["e1"], module["e3"] = nothing(), nothing()
module["e2"] = module["e1"]
got, err = ties(files)
check("a tie of empty parameters, without ZeRO", got == {**{n: n for n in (*SHAPES, "e1", "e3")}, "e2": "e1"}, (err, got))

files = save(SHAPES, "abc")
files["mp_rank_00_model_states.pt"]["optimizer"]["param_groups"][0]["lr"] = f32([0.5], ())
got, _, err = dumped(files)
check("a learning rate that is a tensor", not err and got.get(("extra", "optimizer.param_groups.0.lr")) == ("f32", "", f32([0.5]).hex()), (err, sorted(got)))

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


def cut(what, groups, files=None):
    got, notes, err = dumped(files or fused(groups))
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


refused("more than there are weights for", 'the masters of group 0 round to no weight in "module" from element 31 on', ["abcde"], tail=[0.5])
refused("an element of the last", 'element 4 of the master of "e"', ["abcde"], edit=lambda v: v.__setitem__(29, 7.0))
refused("an element of the last of some", 'element 1 of the master of "d"', ["ad"], edit=lambda v: v.__setitem__(13, 7.0))
refused("all of them", "of the master of", ["abcde"], edit=lambda v: v.reverse())

# ---- a list of masters a group (fp16/unfused_optimizer.py) ----

MODEL = "mp_rank_00_model_states.pt"


def unfused(groups, change=lambda optimizer: None):
    """groups: the names of each, in the optimizer's order."""
    files = fused(groups)
    optimizer = files[MODEL]["optimizer"]
    del optimizer["fp32_groups_flat"]
    optimizer["fp32_groups"] = [[f32(values(n), ORDER[n]) for n in names] for names in groups]
    given = [n for names in groups for n in names]
    numbers = iter(range(len(given)))
    optimizer["optimizer_state_dict"] = {
        "state": {i: {"step": 3, **{k: f32(values(n, k), ORDER[n]) for k in ("exp_avg", "exp_avg_sq")}} for i, n in enumerate(given)},
        "param_groups": [{"lr": 0.1, "params": [next(numbers) for _ in names]} for names in groups]}
    change(optimizer)
    return files


def number(n):
    return lambda o: o["optimizer_state_dict"]["state"][0].update(n)


for groups in (["abcde"], ["edcba"], ["ba", "edc"], ["cad"], ["eb", ""]):
    cut(f"unfused, in {len(groups)} groups {groups}", groups, unfused(groups))
cut("unfused, beside an empty list of vectors", ["edcba"], unfused(["edcba"], change=lambda o: o.update(fp32_groups_flat=[])))
EMPTY = fused(["abcde"])
EMPTY[MODEL]["optimizer"]["fp32_groups"] = []
cut("beside an empty list of masters", ["abcde"], EMPTY)
cut("unfused, a state that is a text, and one under a number", ["edcba"], unfused(["edcba"], change=number({"d": "x", 7: 1})))
for what, value in (("call", torchfile.Call("torch._utils", "_rebuild_mystery_tensor", 1, 2)),
                    ("storage", torchfile.tensor(torchfile.storage("9", "MysteryStorage", 8), 0, (8,), (1,)))):
    got, notes, err = dumped(unfused(["edcba"], change=number({"exp_avg": value})))
    check(f"unfused: a state that is an unknown {what}", not err and ("optim/exp_avg", "e") not in got and ("optim/exp_avg", "a") in got and ("", "e") in got and
          len([n for n in notes if "optim/exp_avg/e" in n and "left out" in n]) == 1, (err, notes))
got, notes, err = dumped(unfused(["edcba"], change=number({"d": 0.25})))
check("unfused: a state that is a number", not err and got["optim/d", "e"] == ("f64", "", "000000000000d03f") and ("optim/d", "a") not in got, err)
got, notes, err = dumped(unfused(["edcba"], change=number({"d": f32([1.0] * 7)})))
check("unfused: a state of another length", not err and not any(k[0] == "optim/d" for k in got) and
      'the optimizer state "d" of "e" is left out: it has another length than the weight' in notes, (err, notes))


def left_out(what, files, note):
    """Only the weights of 16 bits, and why."""
    got, notes, err = dumped(files)
    check(what, not err and note in notes and {k for k in got if k[0] != "trained"} == {("", n) for n in files[MODEL]["module"]} and
          all(v[0] == "bf16" for v in got.values()), (err, notes, sorted(got)))


OPEN = ("the fp32 masters and the optimizer states are left out, and the 16-bit weights are shown: a master of group {} fits "
        '"{}" as well as "{}", so the names of the masters are uncertain')
for given in ("edcba", "abcd"):
    TWIN = unfused([given])
    TWIN[MODEL]["module"]["f"] = makeds.Half(values("d"), ORDER["d"])
    left_out(f"unfused: {given}, and a frozen one has the values of d", TWIN, OPEN.format(0, "d", "f"))
TWICE = fused(["ab"])
for first, second in ("ab", "cd"):
    whole = makeds.Storage(data=makeds.bf16(values("a") + values("b")), n=16, cls="BFloat16Storage")
    TWICE[MODEL]["module"][first] = makeds.Tensor(shape=(4, 3), storage=whole)
    TWICE[MODEL]["module"][second] = makeds.Tensor(shape=(4,), storage=whole, offset=12)
left_out("fused: the weights are in two storages alike", TWICE, OPEN.format(0, "a", "c"))
EXPERTS = unfused(["abcde"])
EXPERTS[MODEL]["num_experts"] = [4]
got, notes, err = dumped(EXPERTS)
check("experts, and an optimizer in the model's file", not err and any("does not record the parameter names" in n for n in notes) and got["", "a"][0] == "bf16" and
      got["optim/param", "0"] == ("f32", "4,3", makeds.f32(values("a")).hex()) and
      got["optim/exp_avg_sq", "4"] == ("f32", "3,2", makeds.f32(values("e", "exp_avg_sq")).hex()), (err, notes, sorted(got)))


def told(what, files, sentence):
    got, _, err = dumped(files)
    check(what, not got and err.endswith(f"{MODEL}{sentence}"), (err, sorted(got)[:3]))


def masters(change):
    return unfused(["edcba"], change=lambda o: change(o["fp32_groups"][0]))


told("masters of both kinds", unfused(["edcba"], change=lambda o: o.update(fp32_groups_flat=[f32([9.0] * 31)])),
     "!optimizer: the optimizer has fp32_groups_flat and fp32_groups, expected one of them")
ACROSS = f32(values("a"), (4, 3))
ACROSS.strides = (1, 4)
told("a master in columns", masters(lambda m: m.__setitem__(4, ACROSS)), "!optimizer!fp32_groups[0][4]: it is not packed")
told("a master that is a text", masters(lambda m: m.__setitem__(1, "x")), "!optimizer!fp32_groups[0][1]: it is not a dense tensor")
told("a master too many", masters(lambda m: m.append(m[0])), '!optimizer!fp32_groups[0]: it has 6 masters, but "module" only 5 names')
told("a master of no parameter's shape", masters(lambda m: m.__setitem__(1, f32([1.0] * 7))),
     ': master 1 of group 0 has 7 elements in 1 dimensions, but "module" has no further parameter of that shape')
told("a master of another value", masters(lambda m: m.__setitem__(1, f32([9.0] * 5, (5,)))),
     f': element 0 of the master of "d" is 9, which does not round to its weight {struct.unpack("<f", bytes(2) + makeds.bf16(values("d"))[:2])[0]:.9g} in "module"')


# ---- no masters ----

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
check("states of several shapes", not err and ("optim/row", "0") in got and ("optim/exp_avg", "1") in got and ("optim/exp_avg", "b") not in got, err)
plain = save(SHAPES, "")
got, notes, err = dumped(plain)
check("an optimizer without states: nothing to note", not err and not [n for n in notes if "optimizer states" in n] and ("", "a") in got, (err, notes))
other = save(SHAPES, "abc")
other["mp_rank_00_model_states.pt"]["optimizer"] = {"something": 1}
got, notes, err = dumped(other)
check("an optimizer of another kind", not err and any("left out" in n for n in notes), (err, notes))
got, notes, err = dumped(save(SHAPES, "abc", more={"d": 0.25, "k": 7}))
check("numbers", not err and got["optim/d", "a"][0] == "f64" and got["optim/k", "b"][0] == "i64", (err, sorted(got)))
given = save(SHAPES, "abc", more={7: 1.0, "note": "x"})
named("a state under a number, and a text", given, SHAPES, proved("abc"))
given = save(SHAPES, "abc", names="abc")
given[MODEL]["optimizer"]["param_groups"][0]["params"] = [0, 2, 1]
named("names of numbers that do not follow each other", given, SHAPES, numbered("abc"))


# ---- model-parallel ranks ----

def ranks(stages, tp, cuts, info=None, names=()):
    """Whole weights of fp32, cut; the optimizer of each rank has its parameters in the order of its module."""
    whole = makemp.State(OrderedDict((n, s) for stage in stages for n, s in stage.items()))
    files = {}
    for p, stage in enumerate(stages):
        for t in range(tp):
            s = makemp.Shard(whole, cuts, tp, t, lambda n, stage=stage: n in stage)
            mine = save({n: s.shape(n) for n in stage}, list(stage), names=names and list(stage))
            m = mine[MODEL]
            m.update({"module": OrderedDict((n, f32(s.values(n), s.shape(n))) for n in stage), "mp_world_size": len(stages) * tp,
                      "checkpoint_parallel_dimensions": {"tp_degree": tp, "pp_degree": len(stages)}})
            m.update({"universal_checkpoint_info": info(whole, cuts)} if info else {})
            for i, n in enumerate(stage):
                m["optimizer"]["state"][i].update({k: f32(s.values(n, k), s.shape(n)) for k in whole.moments})
            files.update(makemp.rename(mine, p * tp + t))
    return whole, files


def moments(whole, where, name, key, cuts=(), tp=1, rank=0):
    s = makemp.Shard(whole, dict(cuts), tp, rank)
    return {(f"{where}optim/{k}", key): ("f32", ",".join(map(str, s.shape(name))), makeds.f32(s.values(name, k)).hex()) for k in whole.moments}


def moved(what, files, want, note, joined):
    """The moments are these, wherever they are; the weights are joined or not."""
    got, notes, err = dumped(files)
    mine = {k: v for k, v in got.items() if "optim/" in k[0] and not k[0].endswith("/step")}
    wrong = sorted(k for k in {*mine, *want} if mine.get(k) != want.get(k))
    check(f"ranks: {what}", not err and not wrong and len([n for n in notes if "does not record the parameter names" in n]) == note and
          not any("left out" in n for n in notes) and any(k[0] == "" for k in got) == joined, (err, notes, wrong[:4]))


PAIR, CUTS = OrderedDict([("u", (4, 3)), ("v", (4, 3)), ("w", (6,))]), {"u": "0", "v": "1", "w": "copy"}
whole, files = ranks([PAIR], 2, CUTS, makemp.patterns)
want = {k: v for n in PAIR for k, v in moments(whole, "", n, n).items()}
moved("tensor-parallel, each rank's shapes prove names", files, want, 0, True)
whole, files = ranks([PAIR], 2, {"u": "0", "v": "0", "w": "copy"}, makemp.patterns)
want = {k: v for r in range(2) for i, n in enumerate(PAIR) for k, v in moments(whole, f"mp_rank_{r:02d}/", n, str(i), {"u": "0", "v": "0"}, 2, r).items()}
moved("tensor-parallel, two of a shape", files, want, 2, True)
whole, files = ranks([PAIR], 2, {"u": "0", "v": "0", "w": "copy"}, makemp.patterns, names=True)
moved("tensor-parallel, two of a shape with recorded names", files, {k: v for n in PAIR for k, v in moments(whole, "", n, n).items()}, 0, True)
whole, files = ranks([PAIR], 2, {"u": "0", "v": "0"})
moved("tensor-parallel, and nothing says how to join", files,
      {k: v for r in range(2) for i, n in enumerate(PAIR) for k, v in moments(whole, f"mp_rank_{r:02d}/", n, str(i), {"u": "0", "v": "0"}, 2, r).items()}, 2, False)

# ---- experts: each expert-parallel rank has an optimizer of its own ----

NATIVE = "moe.deepspeed_moe.experts.deepspeed_experts.{}.w"


def experts(n, masters=False):
    """A dense weight and one expert on each of n ranks, whose numbers begin with 0 on each of them."""
    files = {MODEL: {"module": OrderedDict(d=f32(values_of("d", 6), (2, 3))), "buffer_names": [], "param_shapes": None, "frozen_param_shapes": None,
                     "shared_params": {}, "global_steps": 3, "dp_world_size": n, "mp_world_size": 1, "num_experts": [n], "ds_config": {}, "ds_version": "0.19.8"}}
    for r in range(n):
        files[f"layer_0_expert_{r}_mp_rank_00_model_states.pt"] = OrderedDict({NATIVE.format(r): f32(values_of(f"e{r}", 4), (2, 2))})
        state = {i: {"step": f32([3.0], ()), **{k: f32(values_of(x + k, len(v)), None) for k in ("exp_avg", "exp_avg_sq")}}
                 for i, (x, v) in enumerate((("d", [0] * 6), (f"e{r}", [0] * 4)))}
        torch = {"state": state, "param_groups": [{"lr": 0.1, "params": [0]}, {"lr": 0.1, "params": [1], "moe": True}]}
        files[f"expp_rank_{r}_mp_rank_00_optim_states.pt"] = {"optimizer": torch if not masters else {
            "optimizer_state_dict": torch, "fp32_groups": [[f32(values_of("d", 6))], [f32(values_of(f"e{r}", 4))]]}}
    return files


def experts_want(n, states):
    return {(f"optim/{k}", f"expp_rank_{r}.{i}"): ("f32", str(len(values_of(x, c))), makeds.f32(values_of(x + e, c)).hex())
            for r in range(n) for i, (x, c) in enumerate((("d", 6), (f"e{r}", 4))) for k, e in states}


ADAM = (("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq"))
moved("experts", experts(2), experts_want(2, ADAM), 1, True)
moved("experts, with masters", experts(3, masters=True), experts_want(3, (*ADAM, ("param", ""))), 1, True)
got, notes, err = dumped({k: v for k, v in experts(1).items() if not k.startswith("expp")})
check("experts, and no optimizer anywhere", not err and any("no file holds fp32 masters" in n for n in notes), (err, notes))
LESS = {k: v for k, v in experts(3).items() if "expp_rank_1" not in k}
got, _, err = dumped(LESS)
check("experts, and a rank's optimizer is missing", not got and "expp_rank_1_mp_rank_00_optim_states.pt is missing" in err, (err, sorted(got)[:3]))
got, notes, err = dumped(LESS, "-d")
check("the same, degraded", ("optim/exp_avg", "expp_rank_2.1") in got and any("expp_rank_1" in n for n in notes), (err, notes))
LAST = {k: v for k, v in experts(3).items() if "expp_rank_2" not in k}
LAST["expp_rank_1_mp_rank_00_optim_states.pt"]["optimizer"]["param_groups"][1]["name"] = "ep_size_3"  # as deepspeed/moe names it
got, _, err = dumped(LAST)
check("the last rank's optimizer is missing", not got and "expp_rank_2_mp_rank_00_optim_states.pt is missing (there are 3" in err, (err, sorted(got)[:3]))
got, notes, err = dumped(LAST, "-d")
check("the same, degraded", ("optim/exp_avg", "expp_rank_1.1") in got and any("expp_rank_2" in n for n in notes), (err, notes))
for name in ("ep_size_", "ep_size_x", "ep_size_99999999", "ep_size_2"):
    WORD = experts(2)
    WORD["expp_rank_0_mp_rank_00_optim_states.pt"]["optimizer"]["param_groups"][1]["name"] = name
    moved(f"experts in a group named {name}", WORD, experts_want(2, ADAM), 1, True)
OTHER = experts(2)
OTHER["expp_rank_0_mp_rank_00_optim_states.pt"] = {"optimizer": {"state": {0: {"exp_avg": 1}, "x": {}}, "param_groups": []}}
got, notes, err = dumped(OTHER)
check("a state under a name", not err and any("1 entries of the optimizer state are left out" in n for n in notes), (err, notes))
done()
