#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Releases up to 0.4.2 record the model's parameters in the model's order and nothing of the optimizer's groups.  Which masters are
whose is proved by the 16-bit weights, by their storages or by their values, or the save is refused."""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
from dumped import dumped  # noqa: E402
from makeds import OrderedDict, State  # noqa: E402
from tap import check, done  # noqa: E402

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")


class Alike(State):
    """Masters of some names are alike; their moments are not."""
    same = {}

    def values(self, name, state="fp32"):
        of = self.same.get(name, name) if state == "fp32" else name
        return [0.0] * makeds.numel(self.shape(name)) if of == 0 else super().values(of, state)


def tree(files, *opts):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, files)
        run = subprocess.run([DUMP, *opts, d], capture_output=True, text=True, timeout=120)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return ({(r[1], r[2]): tuple(r[3:6]) for r in rows if r[0] == "tensor" and r[1] in ("", "optim/exp_avg", "optim/exp_avg_sq")},
            [r[1] for r in rows if r[0] == "note"], run.stderr.strip())


def shows(name, files, want, note=None, sets=("", "optim/exp_avg", "optim/exp_avg_sq"), names=()):
    got, notes, err = tree(files)
    got = {k: v for k, v in got.items() if k[0] in sets and (not names or k[1] in names)}
    wrong = sorted(k for k in {*got, *want} if got.get(k) != want.get(k))
    check(name, not err and not wrong, f"{err} wrong: {wrong[:6]}")
    check(f"{name}: the note", not note or any(note in n for n in notes), notes)


def refused(name, files, *parts):
    got, _, err = tree(files)
    check(name, not got and all(p in err for p in parts) and err.count("\n") == 0, f"{err!r} {sorted(got)[:4]}")
    got, notes, err = tree(files, "-d")
    check(f"{name}: degraded shows the weights alone", not err and all(v[0] == "bf16" and k[0] == "" for k, v in got.items()) and
          any("optimizer states are left out" in n for n in notes), f"{err} {notes}")


# a model of layers, weights and biases in turn, of which one group decays and the other does not
DECAY = OrderedDict((f"h.{i}.{n}.weight", s) for i in range(3) for n, s in (("qkv", (9, 3)), ("mlp", (3, 4))))
NONE = OrderedDict((f"h.{i}.{n}", s) for i in range(3) for n, s in (("ln.weight", (3,)), ("qkv.bias", (9,)), ("mlp.bias", (4,))))
FROZEN = OrderedDict([("embed", (6, 3)), ("head", (3, 3))])
TWO = State(DECAY, NONE, frozen=FROZEN, buffers={"mask": (4,)})
ORDER = ["embed", *sorted([*DECAY, *NONE], key=lambda n: (n.split(".")[1], list({**DECAY, **NONE}).index(n))), "head"]
# without a list of buffers these look like frozen parameters
EXPECTED = TWO.expected()

for ranks in (1, 2, 3, 8):
    for deal in (False, True):
        for views, how in ((True, "the storages in"), (False, "the weights in")):
            for stage in (1, 2):
                what = f"two groups on {ranks} ranks, {'dealt' if deal else 'declared'}, {'views' if views else 'storages of their own'}, stage {stage}"
                shows(what, makeds.zero12_merged(TWO, ranks, ORDER, deal, views, stage), EXPECTED, how)
ONE = State({**DECAY, **NONE}, frozen=FROZEN)
for deal in (False, True):
    for views in (False, True):
        files = makeds.zero12_merged(ONE, 2, ["embed", *DECAY, "head", *NONE], deal, views)
        shows(f"one group with frozen parameters between, {deal} {views}", files, ONE.expected(), "zero_to_fp32.py of that release")
MANY = State(*[{f"{g}.{i}": (g + 2, i + 1) for i in range(4)} for g in range(5)])
for deal in (False, True):
    names = [f"{g}.{i}" for i in range(4) for g in range(5)]
    shows(f"five groups, dealt: {deal}", makeds.zero12_merged(MANY, 2, names, deal, False), MANY.expected())

# Stage 1 of 0.3.14, whose partitions are cut once more.
for ranks, cuts in ((1, [2, 1]), (2, [3, 2]), (3, [2, 4])):
    files = makeds.zero1_0_3_14(State(DECAY, NONE), ranks, cuts, [n for n in ORDER if n not in FROZEN])
    shows(f"two groups, {cuts} sub-partitions on {ranks} ranks", files, State(DECAY, NONE).expected(), "the weights in")

# Norms that are still ones: their storage says which is which; of their values, the order does where it can.
ones = Alike(DECAY, NONE, frozen=FROZEN)
ones.same = {f"h.{i}.ln.weight": "h.0.ln.weight" for i in range(3)}
for deal in (False, True):
    shows(f"equal norms, views, dealt: {deal}", makeds.zero12_merged(ones, 2, ORDER, deal, True), ones.expected())
    shows(f"equal norms, storages of their own, dealt: {deal}", makeds.zero12_merged(ones, 2, ORDER, deal, False), ones.expected())

# What is not proved: equal parameters, one of them frozen or of the other group; a short one that a longer one begins with.
twin = Alike({"a": (3, 3), "b": (5,)}, {"c": (2, 2), "d": (7,)}, frozen={"f": (7,)})
twin.same = {"f": "d"}
files = makeds.zero12_merged(twin, 2, ["a", "c", "d", "b", "f"], False, False)
refused("a frozen parameter has the values of a trained one", files, '"d"', '"f"', "as well as")
shows("and storages tell which it is", makeds.zero12_merged(twin, 2, ["a", "c", "d", "b", "f"], False, True), twin.expected())
short = Alike({"c": (2, 2), "d": (7,)}, {"a": (3, 3), "b": (5,)})
short.same = {"b": 0, "d": 0}
refused("zeros of two lengths", makeds.zero12_merged(short, 2, ["a", "c", "d", "b"], False, False), '"b"', '"d"', "as well as")
pad = Alike({"a": (3, 3), "b": (5, 3)}, {"c": (2, 2), "d": (1,)}, frozen={"f": (1,)})
pad.same = {"d": 0}
refused("a zero at the end is a parameter or padding", makeds.zero12_merged(pad, 2, ["a", "c", "b", "d", "f"], False, False), '"d"', "padding")
full = Alike({"a": (3, 3), "b": (5, 3)}, {"c": (2, 2), "d": (4,)})
full.same = {"d": 0}
shows("zeros at the end that are longer than any padding", makeds.zero12_merged(full, 2, ["a", "c", "b", "d"], False, False), full.expected())

# In no order that a release has written; a value that no weight rounds from.
odd = makeds.zero12_merged(TWO, 2, list(reversed(ORDER)), False, False)
refused("an order of no release", odd, "neither in the order of the model nor")
for views in (True, False):
    files = makeds.zero12_merged(TWO, 2, ORDER, True, views)
    inner = files["zero_pp_rank_1_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]
    values = list(inner["single_partition_of_fp32_groups"][1].storage.data)
    values[6] ^= 0x40
    inner["single_partition_of_fp32_groups"][1].storage.data = bytes(values)
    refused(f"a master that fits no weight, views: {views}", files, "round to")

# A file that would take for ever: nothing but equal parameters.
flood = Alike({f"a{i}": (2,) for i in range(3000)}, {f"b{i}": (3,) for i in range(3000)})
flood.same = {n: 0 for g in flood.groups for n in g}
refused("thousands of equal parameters", makeds.zero12_merged(flood, 2, [n for p in zip(*flood.groups) for n in p], False, False), "as well as")


def inner(files, rank):
    return files[f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]


# Many groups of one length, whose storages are compared with each other.
CROWD = State(*[{f"{g}.a": (2,), f"{g}.b": (3,)} for g in range(130)], moments=("exp_avg",))
shows("130 groups of one length", makeds.zero12_merged(CROWD, 1, CROWD.names()), CROWD.expected())
for views, shown in ((True, "the storages in"), (False, "the weights in")):
    shows(f"the same in another order, views: {views}", makeds.zero12_merged(CROWD, 1, [f"{g}.{k}" for k in "ab" for g in range(130)], False, views),
          CROWD.expected() if views else {k: v for k, v in CROWD.expected().items() if k[0] != "stored"}, shown)
# Three alike, in one group: both orders are possible.
same = Alike({"a": (3,), "b": (3,), "c": (3,)})
same.same = {"b": "a", "c": "a"}
refused("three alike in one group", makeds.zero12_merged(same, 2, "abc", False, False),
        'mp_rank_00_model_states.pt: a master of group 0 fits "b" as well as "c": param_shapes does not record')
# Partitions that are no equal parts.
for views in (True, False):
    files = makeds.zero12_merged(TWO, 3, ORDER, False, views)
    one, two = (inner(files, r)["single_partition_of_fp32_groups"] for r in (1, 2))
    values = [*struct.iter_unpack("<f", one[0].storage.data), *struct.iter_unpack("<f", two[0].storage.data)]
    one[0], two[0] = (makeds.f32([v for v, in part]) for part in (values[:one[0].storage.n - 1], values[one[0].storage.n - 1:]))
    refused(f"a partition that is short, views: {views}", files, "zero_pp_rank_1_mp_rank_00_optim_states.pt: the partition of group 0 has 38 elements, expected 39 as on other ranks")
# Settings of the groups that are tensors (capturable).
for what, files, key in (("stage 2", makeds.zero12(TWO, 2, prefix=""), "base_optimizer_state"), ("stage 3", makeds.zero3(TWO, 2, prefix=""), "optimizer_state_dict")):
    for r in range(2):
        inner(files, r)[key]["param_groups"][1]["lr"] = makeds.f32([0.5], ())
    got, _, err = dumped(files)
    extra = {k[1]: v for k, v in got.items() if k[0] == "extra"}
    check(f"a learning rate that is a tensor, {what}", not err and extra == {f"optimizer_state_dict.{key}.param_groups.1.lr": ("f32", "", makeds.f32([0.5]).hex())},
          (err, sorted(got)))

# Masters that were saved with their padding, and in 16 bits.
for ranks in (2, 3):
    files = makeds.zero12_merged(TWO, ranks, ORDER, False, False)
    for k in range(ranks):
        for g, group in enumerate(TWO.groups):
            inner(files, k)["single_partition_of_fp32_groups"][g] = makeds.f32(makeds.partitions(makeds.flat(TWO, group, "fp32"), ranks)[k][0])
    shows(f"masters with padding, {ranks} ranks", files, {k: v for k, v in EXPECTED.items() if not k[0]}, "the weights in", ("",))
files = makeds.zero12_merged(TWO, 2, ORDER, False, False)
for r in range(2):
    masters = inner(files, r)["single_partition_of_fp32_groups"]
    for g, m in enumerate(masters):
        values = [v for v, in struct.iter_unpack("<f", m.storage.data)]
        masters[g] = makeds.Half(values, (len(values),))
half = {("", n): ("bf16", ",".join(map(str, TWO.shape(n))), makeds.bf16(TWO.values(n)).hex()) for n in [*TWO.names(), *TWO.frozen, *TWO.buffers]}
shows("masters of 16 bits", files, half, "the weights in", ("",))
files = makeds.zero12_merged(TWO, 2, ORDER)
files["mp_rank_00_model_states.pt"]["ds_config"] = {"zero_optimization": {"zenflow": {}}}
got, _, err = tree(files)
check("ZenFlow, which is younger", not got and err.rpartition("/")[2].startswith("mp_rank_00_model_states.pt: a ZenFlow save"
                                                            ), err)
# Weights of 32 bits, which masters of 16 on another rank cannot round to.
files = makeds.zero12_merged(TWO, 2, ORDER, False, False)
for n, s in {**DECAY, **NONE, **FROZEN}.items():
    files["mp_rank_00_model_states.pt"]["module"][n] = makeds.f32(TWO.values(n), s)
shows("weights of 32 bits", files, {k: v for k, v in EXPECTED.items() if k[1] in TWO.names()}, "the weights in", ("", "optim/exp_avg", "optim/exp_avg_sq"), TWO.names())
masters = inner(files, 1)["single_partition_of_fp32_groups"]
masters[0] = makeds.Half([v for v, in struct.iter_unpack("<f", masters[0].storage.data)], (masters[0].storage.n,))
got, _, err = tree(files)
check("and masters of 16 on another rank", not got and "the masters of group 0" in err and 'from element ' in err, err)
done()
