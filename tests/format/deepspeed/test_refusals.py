#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One value of a generated save is another: what the refusal begins with (place and kind, or all of it), or what is shown all the same."""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
import makemp  # noqa: E402
import dtensors  # noqa: E402
import torchfile  # noqa: E402
from dumped import dump, dumped  # noqa: E402
from makeds import Call, Half, OrderedDict, Size, State, f32  # noqa: E402
from tap import check, done  # noqa: E402
from torchfile import Storage, Tensor, named  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
STATE = State({"w": (5, 3), "v": (4,)}, {"b": (3,), "one": ()}, frozen={"fix": (3, 2)}, buffers={"run": (2,)})
MODEL, INNER, BASE = "model_states", "optimizer_state_dict", "base_optimizer_state"
FLAT, CUTS = "single_partition_of_fp32_groups", "local_sub_partitions_of_fp32_groups"
GONE = object()  # takes the value away


def zero2():
    return makeds.zero12(STATE, 2, prefix="")


def elastic():
    return makeds.zero12(STATE, 2, prefix="", lean=True)


def zero3():
    return makeds.zero3(STATE, 2, prefix="")


def by_slices():
    """Only param_slice_mappings name the parameters."""
    return makemp.pipeline(State({"0.w": (5, 3), "0.v": (4,)}, {"1.b": (3,)}), [[0, 1]], 1, 2, mappings=True)


def cuts():
    return makeds.zero1_0_3_14(State({"w": (5, 3), "v": (4,)}, {"b": (3,)}), 2, [2, 1])


def set_in(value, keys, new):
    """value[keys] = new, or new(what it was); keys that are not in a container are attributes."""
    *way, last = keys
    for k in way:
        value = value[k] if isinstance(value, (dict, list)) else getattr(value, k)
    if new is GONE:
        del value[last]
    elif isinstance(value, (dict, list)):
        value[last] = new(value[last]) if callable(new) else new
    else:
        setattr(value, last, new(getattr(value, last)) if callable(new) else new)


def changed(save, word, *edits):
    """The files of a save; edits, (keys, value) each, are done to those with the word in their names."""
    files = save()
    mine = [v for n, v in files.items() if word in n]
    assert mine, word
    for value in mine:
        for keys, new in edits:
            set_in(value, keys, new)
    return files


def refused(what, files, sentence, *opts):
    got, _, err = dumped(files, *opts)
    err = err[err.find("/tag/") + 5:] if "/tag/" in err else err
    check(what, not got and err.startswith(sentence), f"{err!r}\n{sentence!r}\n{sorted(got)[:3]}")


def stage_by_name(name):
    return Call("builtins", "getattr", named("deepspeed.runtime.zero.config", "ZeroStageEnum"), name)


def matrix(n=6):
    return f32([1.0] * n, (2, n // 2))


def wide(add):
    """All masters in 64 bits, of which one is another."""
    files = zero2()
    for i, v in enumerate(v[INNER][FLAT] for n, v in files.items() if "optim" in n):
        for g, t in enumerate(v):
            values = [x for x, in struct.iter_unpack("<f", t.storage.data)]
            if (i, g) == (1, 0):
                values[3] += add
            v[g] = Tensor(shape=t.shape, storage=Storage(data=struct.pack(f"<{len(values)}d", *values), n=len(values), cls="DoubleStorage"))
    return files


O0, O1 = (f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt" for r in range(2))
M, M0, M1 = "mp_rank_00_model_states.pt", *(f"zero_pp_rank_{r}_mp_rank_00_model_states.pt" for r in range(2))
STATE0 = INNER, BASE, "state", 0
for what, save, word, keys, new, sentence in (
        # ---- the optimizer's files ----
        ("a stage that there is not", zero2, O0, (INNER, "zero_stage"), stage_by_name("all"),
         f"{O0}!optimizer_state_dict!zero_stage: it contradicts single_partition_of_fp32_groups"),
        ("stage 3 with partitions", zero2, O0, (INNER, "zero_stage"), 3,
         f"{O0}!optimizer_state_dict!zero_stage: it contradicts single_partition_of_fp32_groups"),
        ("stage 2 with slots", zero3, O0, (INNER, "zero_stage"), 2, f"{O0}!optimizer_state_dict!zero_stage: it contradicts fp32_flat_groups"),
        ("a partition_count of 0", zero2, O1, (INNER, "partition_count"), [2, 0],
         f"{O1}!optimizer_state_dict!partition_count[1]: expected a number"),
        ("a partition_count too few", zero2, O1, (INNER, "partition_count"), [2],
         f"{O1}!optimizer_state_dict!partition_count[1]: it is missing: expected a number"),
        ("a partition_count that is a text", zero3, O0, (INNER, "partition_count"), "2",
         f"{O0}!optimizer_state_dict!partition_count: expected a number >= 0, found a text"),
        ("1001 states", zero2, O0, STATE0, {str(i): 1 for i in range(1001)},
         f"{O0}!optimizer_state_dict!base_optimizer_state!state[0]: it has 1001 optimizer states, expected a handful"),
        ("a state that is not packed", zero2, O0, (*STATE0, "exp_avg"), Call("torch._utils", "_rebuild_tensor_v2", Storage([1.0] * 20), 0, (10,), (2,), False, OrderedDict()),
         f"{O0}!optimizer_state_dict!base_optimizer_state!state[0]!exp_avg: it has 1 dimensions and is not contiguous, expected a contiguous vector"),
        ("a padding that is a text", zero2, O0, (INNER, "param_alignment_paddings"), [[0, 0], [0, "x"]],
         f"{O0}!optimizer_state_dict!param_alignment_paddings[1][1]: expected a number >= 0, found a text"),
        ("a negative padding", zero2, O0, (INNER, "param_alignment_paddings"), [[0, 0], [0, -1]],
         f"{O0}!optimizer_state_dict!param_alignment_paddings[1][1]: expected a number >= 0, found -1"),
        ("paddings of three parameters", zero2, "optim", (INNER, "param_alignment_paddings"), [[0, 0], [0, 0, 0]],
         f"{O0}: param_alignment_paddings[1] has 3 entries for 2 parameters"),
        ("masters in a mapping", zero2, O1, (INNER, FLAT), {0: f32([1.0])}, f"{O1}!optimizer_state_dict!single_partition_of_fp32_groups: expected a list, found a dict"),
        ("masters that are a matrix", zero2, O1, (INNER, FLAT, 1), matrix(),
         f"{O1}!optimizer_state_dict!single_partition_of_fp32_groups[1]: it has 2 dimensions, expected a contiguous vector"),
        ("slots that are a mapping", zero3, O1, (INNER, "fp32_flat_groups"), {0: 1}, f"{O1}!optimizer_state_dict!fp32_flat_groups: expected a list, found a dict"),
        ("neither masters nor slots", zero2, O0, (INNER, FLAT), GONE,
         f"{O0}!optimizer_state_dict: this is not a ZeRO file: it has neither single_partition_of_fp32_groups nor fp32_flat_groups"),
        ("no optimizer", zero2, O0, (INNER,), GONE, f'{O0}: this is not a ZeRO file: it has no "optimizer_state_dict"'),
        ("an optimizer that is a list", zero2, O0, (INNER,), [], f'{O0}: this is not a ZeRO file: it has no "optimizer_state_dict"'),
        ("a group without sub-partitions", cuts, O1, (INNER, CUTS, 1), [],
         f"{O1}!optimizer_state_dict!local_sub_partitions_of_fp32_groups[1]: it has 0 sub-partitions, expected 1 to 65536"),
        ("sub-partitions that are a mapping", cuts, O0, (INNER, CUTS, 1), {0: 1},
         f"{O0}!optimizer_state_dict!local_sub_partitions_of_fp32_groups[1]: expected a list, found a dict"),
        ("a sub-partition that is a matrix", cuts, O1, (INNER, CUTS, 0, 1), matrix(),
         f"{O1}!optimizer_state_dict!local_sub_partitions_of_fp32_groups[0][1]: it has 2 dimensions, expected a contiguous vector"),
        ("a sub-partition's state that is a text", cuts, O0, (INNER, BASE, 0, 1, "exp_avg"), "x",
         f'{O0}, sub-partition 1: the state "exp_avg" of group 0 is missing, unlike in "{O0}"'),
        ("a sub-partition of another step", cuts, O0, (INNER, BASE, 0, 1, "step"), 4,
         f'{O0}, sub-partition 1: "step" of group 0 is 4, but 3 in "{O0}": two saves are mixed'),
        ("partition_ranks of one group", zero3, O0, (INNER, "ds_zero_partition_groups"), [{}],
         f"{O0}!optimizer_state_dict!ds_zero_partition_groups: it has 1 entries for 2 groups"),
        ("partition_ranks with a text", zero3, O0, (INNER, "ds_zero_partition_groups"), [{"partition_ranks": [0, "1"], "partition_count": 2, "partition_rank": 0}, {}],
         f"{O0}!optimizer_state_dict!ds_zero_partition_groups[0]!partition_ranks[1]: expected a number >= 0, found a text"),
        ("partition_ranks of no rank", zero3, O0, (INNER, "ds_zero_partition_groups"), [{}, {}],
         f"{O0}!optimizer_state_dict!ds_zero_partition_groups[0]!partition_ranks: it is missing: expected a list"),
        ("a mapping without a number", by_slices, O1, (INNER, "param_slice_mappings", 0, "0.v"), "x",
         f"bf16_{O1}!optimizer_state_dict!param_slice_mappings[0]!0.v!start: it is missing: expected a number"),
        ("a mapping under a number", by_slices, O1, (INNER, "param_slice_mappings", 0, 7), "x",
         f"bf16_{O1}!optimizer_state_dict!param_slice_mappings[0][2]: expected a text, found 7"),
        # ---- ranks of one save ----
        ("a rank with one group", zero2, O1, (INNER, FLAT), lambda v: v[:1], f'{O1}: it holds 1 parameter groups, but "{O0}" has 2'),
        ("a rank of another stage", zero2, O1, (INNER, "zero_stage"), 1, f'{O1}: it was saved by ZeRO stage 1, but "{O0}" by stage 2'),
        ("a rank cut otherwise", zero2, O1, (INNER, "partition_count"), [2, 1],
         f'{O1}: its groups have other numbers of partitions than in "{O0}"'),
        ("a state of another type", zero2, O1, (*STATE0, "exp_avg"), Half([1.0] * 10, (10,)),
         f'{O1}: the state "exp_avg" of group 0 is of another dtype than in "{O0}"'),
        ("a state that a rank lacks", zero2, O1, (*STATE0, "exp_avg"), GONE,
         f'{O1}: the state "exp_avg" of group 0 is missing, unlike in "{O0}"'),
        ("masters of another type", zero2, O1, (INNER, FLAT, 0), Half([1.0] * 9, (9,)),
         f'{O1}: the masters do not belong to these names: element 10 of "w" is 1, which does not round to its weight -1.046875 in "module" of "{M}"'),
        ("a state that is short on a rank", zero2, O1, (*STATE0, "exp_avg"), f32([1.0] * 7),
         f'{O1}: the optimizer state "exp_avg" of group 0 has 7 elements, expected 9, the length of the weights, as on 1 of the ranks'),
        ("a slot's state that is short on a rank", zero3, O1, (INNER, INNER, "state", 0, "exp_avg"), f32([1.0] * 7),
         f'{O1}: the optimizer state "exp_avg" of group 0 has 7 elements, expected 10, the length of the weights, as on 1 of the ranks'),
        ("slots that are short", zero3, O1, (INNER, "fp32_flat_groups", 0), f32([1.0] * 7),
         f"{O1}: fp32_flat_groups[0] has 7 elements, expected 10 for its 2 parameters on 2 ranks"),
        ("masters of another type, which round to the same", zero2, O1, (INNER, FLAT, 0), Half(makeds.flat(STATE, "wv", "fp32")[10:], (9,)),
         f'{O1}: the weights of group 0 are bfloat16, but float32 in "{O0}"'),
        ("masters of 64 bits", lambda: wide(0.5), O0, (INNER, "overflow"), False,
         f'{O1}: the masters do not belong to these names: element 13 of "w" is -1.16560531, which does not round to its weight -1.6640625 in "module" of "{M}"'),
        ("a number that is another on a rank", lambda: changed(zero2, O0, ((*STATE0, "k"), 5)), O1, (*STATE0, "k"), 6,
         f'{O1}: "k" of group 0 is 6, but 5 in "{O0}": two saves are mixed'),
        ("ZenFlow under stage 2 without a weight", lambda: changed(zero2, M, (("module", "w"), GONE)), "_rank_", ("ds_config", "zero_optimization", "zenflow"), {},
         'the 16-bit weight "w" is missing; without it zerofs cannot know how ZenFlow stored its master'),
        # ---- the model's files ----
        ("a shape that is a text", zero2, M, ("param_shapes", 0, "w"), "x", f'{M}!param_shapes[0]!w: expected a list of at most 64 sizes, found a text'),
        ("a shape of 65 dimensions", zero2, M, ("param_shapes", 0, "w"), Size([1] * 65),
         f'{M}!param_shapes[0]!w: it has 65 entries, more than the limit tensor_dims=64'),
        ("a negative extent", zero2, M, ("param_shapes", 0, "w"), Size([5, -3]), f'{M}!param_shapes[0]!w[1]: expected a number >= 0, found -3'),
        ("extents beyond 64 bits", zero2, M, ("param_shapes", 0, "w"), Size([1 << 40, 1 << 40]),
         f'{M}!param_shapes[0]!w: the product of its sizes exceeds 64 bits'),
        ("a group that is a list", zero2, M, ("param_shapes", 0), [1], f"{M}!param_shapes[0]: expected a mapping, found a list"),
        ("a parameter whose name is a number", zero2, M, ("param_shapes", 0, 7), Size([1]),
         f"{M}!param_shapes[0][2]: expected a text, found 7"),
        ("shapes that are a text", zero2, M, ("param_shapes",), "x", f"{M}!param_shapes: expected a list, found a text"),
        ("frozen shapes that are a list", zero2, M, ("frozen_param_shapes",), [1],
         f"{M}!frozen_param_shapes: expected a mapping, found a list"),
        ("a buffer whose name is a number", zero2, M, ("buffer_names",), [7], f"{M}!buffer_names[0]: expected a text, found 7"),
        ("a name that is tied to a number", zero2, M, ("shared_params",), {"more": 7},
         f"{M}!shared_params!more: expected a text, found 7"),
        ("a slice whose name is a number", zero2, M, ("frozen_param_fragments", 7), f32([1.0]),
         f"{M}!frozen_param_fragments[1]: expected a text, found 7"),
        ("a slice that is none", zero2, M, ("frozen_param_fragments", "fix"), "x",
         f'{M}!frozen_param_fragments!fix: it is not a dense tensor'),
        ("a module that is a list", zero2, M, ("module",), [1], f'{M}!module: expected a mapping, found a list'),
        ("no module", zero2, M, ("module",), GONE, f'{M}: this is not a model-states file: it has no "module"'),
        ("a weight of another length", zero2, M, ("module", "w"), Half([1.0] * 14, (14,)),
         f'{M}: "w" has 14 elements in "module", but its shape in param_shapes has 15'),
        ("a weight of the wrong storage", zero2, M, ("module", "w", "offset"), 1,
         f'{M}: a tensor reaches beyond its storage "0": element 15 of 15 is needed'),
        ("names of one group", zero2, M, ("param_shapes",), lambda v: v[:1], f'"{M}" lists the parameters of 1 groups, but "{O0}" holds 2'),
        ("no names", zero2, M, ("param_shapes",), GONE, f'the save does not record the names of the parameters ("{M}" has no param_shapes)'),
        ("mappings that begin late", by_slices, O1, (INNER, "param_slice_mappings", 0, "0.v"), Call("d.f", "fragment_address", state={"numel": 4, "start": 6}),
         f'bf16_{O1}: by param_slice_mappings[0], "0.v" begins at element 6, expected 5'),
        ("stage 3 with the model of stage 2", lambda: {n: v for n, v in {**zero2(), **zero3()}.items() if "optim" in n or n == M}, M, ("global_steps",), 3,
         f'"{O0}" was saved by ZeRO stage 3, but "{M}" was not: two saves are mixed in this directory'),
        ("universal without shapes", lambda: makeds.universal(STATE, 1), M, ("param_shapes",), GONE,
         f"{M}: a universal checkpoint without param_shapes is not supported"),
        ("layers alone", lambda: {"layer_00-model_states.pt": {"w": Half([1.0], (1,))}}, "layer", ("v",), Half([1.0], (1,)),
         "there are layer files, but no model-states file"),
        ("ZenFlow under stage 3", zero3, "model", ("ds_config", "zero_optimization", "zenflow"), {"topk_ratio": 0.1},
         "ZenFlow saves of ZeRO stage 3 are not supported, because they do not record whether matrices are stored transposed"),
        ("a rank without a frozen slice", zero3, M1, ("frozen_param_fragments", "fix"), GONE,
         f'{M1}: it has no slice of the frozen parameter "fix", but "{M0}" has one'),
        ("a frozen slice that is short", zero3, M1, ("frozen_param_fragments", "fix"), Half([1.0] * 2, (2,)),
         f'{M1}: the slice of frozen parameter "fix" has 2 elements, expected 3: it is quantized or belongs to another save'),
        ("a frozen slice of another type", zero3, M1, ("frozen_param_fragments", "fix"), f32([1.0] * 3),
         f'{M1}: the slice of frozen parameter "fix" has the dtype float32, but bfloat16 in "{M0}"'),
        ("no frozen slice on rank 0", zero3, M0, ("frozen_param_fragments", "fix"), GONE,
         f'the frozen parameter "fix" has a shape, but no slice in "{M0}"'),
        ("a frozen parameter that is trained", zero3, "model", ("frozen_param_shapes", "w"), Size([5, 3]),
         f'the frozen parameter "w" has a shape, but no slice in "{M0}"'),
):
    refused(what, changed(save, word, (keys, new)), sentence)


def shows(what, files, changes=(), note=None, state=STATE, opts=()):
    """The state, but for {(set, name): (dtype, shape, hex)}, None for what is left out."""
    got, notes, err = dumped(files, *opts)
    want = {k: v for k, v in {**state.expected(), **dict(changes)}.items() if v}
    got = {k: v for k, v in got.items() if k[0] in ("", "extra") or (k[0].startswith("optim/") and k[0] != "optim/step")}
    wrong = sorted(k for k in {*got, *want} if got.get(k) != want.get(k))
    check(what, not err and not wrong, (err, [(k, got.get(k), want.get(k)) for k in wrong[:4]]))
    if note:
        check(f"{what}: the note", note in notes, notes)


for what, files, most, sentence in (
        ("shapes", zero2(), 1, f'{M}!param_shapes[0]: it has 2 entries, more than the limit tensors=1'),
        ("entries", zero2(), 3, f'{M}!module: it has 6 entries, more than the limit tensors=3'),
        ("masters", changed(zero2, O0, ((INNER, FLAT), lambda v: v * 10)), 19, f'{O0}!optimizer_state_dict!single_partition_of_fp32_groups: it has 20 entries, more than the limit tensors=19'),
        ("layers", changed(zero2, M, (("ds_autoep_layers",), [{}] * 3)), 8, f"{M}!ds_autoep_layers: it has 9 entries, more than the limit tensors=8")):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(os.path.join(d, "tag"), files)
        r = subprocess.run([ZEROFS, "info", "-o", f"limit=tensors={most}", os.path.join(d, "tag")], capture_output=True, text=True, timeout=60)
    check(f"more {what} than the limit", r.returncode == 4 and r.stderr.strip().endswith(sentence + "; -o limit=tensors=N raises it"), (r.returncode, r.stderr))


def number(v):
    return "f64", "", struct.pack("<d", v).hex()


NO_LENGTH = 'the optimizer state "exp_avg" of group 0 is left out: it has another length than the weights'
NO_AVG = {("optim/exp_avg", n): None for n in STATE.groups[0]}
shows("a state that is a number", changed(zero2, "optim", ((*STATE0, "d"), 0.5)), {("optim/d", n): number(0.5) for n in STATE.groups[0]})
OWN = f'the optimizer state "d" of group 0 differs between ranks; the one in "{O0}" is shown'
for what, one, two, hexes in (("numbers", 0.5, 0.75, number(0.5)), ("tensors", f32([0.5], ()), f32([0.75], ()), ("f32", "", "0000003f"))):
    own = changed(lambda one=one: changed(zero2, O0, ((*STATE0, "d"), one)), O1, ((*STATE0, "d"), two))
    shows(f"{what} of each rank's own", own, {("optim/d", n): hexes for n in STATE.groups[0]}, OWN)
    notes = dumped(changed(zero2, "optim", ((*STATE0, "d"), one)))[1]
    check(f"{what} that all ranks have", OWN not in notes, notes)
shows("a state that is a text, and one under a number", changed(zero2, "optim", ((*STATE0, "d"), "x"), ((*STATE0, 7), 1)))
shows("a state that is a matrix", changed(zero2, "optim", ((*STATE0, "row"), matrix())))
shows("states in another order", changed(zero2, "optim", ((INNER, BASE, "state"), lambda s: {k: s[k] for k in (1, 0)})))
shows("a state of another length on all ranks", changed(zero2, "optim", ((*STATE0, "exp_avg"), f32([1.0] * 70))), NO_AVG, NO_LENGTH)
shows("the same, elastic", changed(elastic, "optim", ((INNER, BASE, 0, "exp_avg"), f32([1.0] * 70))), NO_AVG, NO_LENGTH)
shows("the same under stage 3", changed(zero3, "optim", ((INNER, INNER, "state", 0, "exp_avg"), f32([1.0] * 70))), NO_AVG, NO_LENGTH)
# A state of a kind that is not understood costs itself, on whichever rank it is.
ODD = 'the optimizer state "exp_avg" of group 0 is left out: it is not a plain tensor in "{}"'
MYSTERY = Call("torch._utils", "_rebuild_mystery_tensor", 1, 2)
UNSTORED = torchfile.tensor(torchfile.storage("9", "MysteryStorage", 8), 0, (8,), (1,))
QUANTIZED = dtensors.State(range(16), (4, 4), f32([1, 2, 3, 4]), f32([-1, 0, 1]))
for what, value in (("call", MYSTERY), ("storage", UNSTORED), ("subclass", QUANTIZED)):
    shows(f"a state that is an unknown {what}", changed(zero2, "optim", ((*STATE0, "exp_avg"), value)), NO_AVG, ODD.format(O0))
    shows(f"an unknown {what} on rank 0", changed(zero2, O0, ((*STATE0, "exp_avg"), value)), NO_AVG, ODD.format(O0))
    shows(f"an unknown {what} on rank 1", changed(zero2, O1, ((*STATE0, "exp_avg"), value)), NO_AVG, ODD.format(O1))
    shows(f"an unknown {what} under stage 3", changed(zero3, "optim", ((INNER, INNER, "state", 0, "exp_avg"), value)), NO_AVG, ODD.format(O0))
    shows(f"an unknown {what}, elastic", changed(elastic, O1, ((INNER, BASE, 0, "exp_avg"), value)), NO_AVG, ODD.format(O1))
TINY = State({"a": (1,)})
shows("ranks without an element", makeds.zero12(TINY, 4), state=TINY)
ACROSS = Tensor(shape=(5, 3), storage=Storage(data=makeds.bf16([STATE.values("w")[3 * i + j] for j in range(3) for i in range(5)]), n=15, cls="BFloat16Storage"))
ACROSS.strides = (1, 5)
shows("a weight in columns", changed(zero2, M, (("module", "w"), ACROSS)))
refused("a weight in columns, of another value", changed(zero2, M, (("module", "w"), ACROSS), (("module", "w", "storage", "data"), lambda d: d[:14] + bytes([d[14], d[15] ^ 128]) + d[16:])),
        f'{O0}: the masters do not belong to these names: element 7 of "w" is -1.12041903, which does not round to its weight 1.1171875 in "module" of "{M}"')
FROZEN = State({"w": (5, 3)}, frozen={"f1": (3,), "f2": (4,), "f3": (2, 2)})
shows("slices in another order", changed(lambda: makeds.zero3(FROZEN, 2), M1, (("frozen_param_fragments",), lambda d: OrderedDict(reversed(d.items())))), state=FROZEN)
shows("an entry that is no tensor", changed(zero2, M, (("module", "more"), 7)), (), '"more" is left out: it is not a dense tensor')
shows("an extra state that is a tensor", changed(zero2, M, (("module", "l._extra_state"), Half([1.0], (1,)))), {("extra", "l._extra_state"): ("bf16", "1", "803f")})
shows("an extra state that is not", changed(zero2, M, (("module", "l._extra_state"), 7)))
shows("a state under a text", changed(zero2, "optim", ((INNER, BASE, "state", "x"), {"step": 5})))

# Muon: every rank has the momentum of each parameter that touches its partition, wholly.
MUON = State({"a": (3, 4), "none": (0, 4), "b": (2, 4), "c": (5,)}, moments=("momentum_buffer",))


def muon(ranks):
    files = makeds.zero12(MUON, ranks, prefix="")
    each = makeds.partitions(makeds.flat(MUON, "abc", "fp32"), ranks)
    ends, at = {}, 0
    for n in MUON.names():
        ends[n] = at, at + makeds.numel(MUON.shape(n))
        at = ends[n][1]
    for r in range(ranks):
        base = files[f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt"][INNER][BASE]
        lo, hi = r * len(each[0][0]), (r + 1) * len(each[0][0])
        mine = [n for n, (first, end) in ends.items() if first < end and max(first, lo) < min(end, hi)]
        base["state"][0]["momentum_buffer"] = f32(makeds.flat(MUON, mine, "momentum_buffer"))
        base["param_groups"][0]["use_muon"] = True
    return files


for n_ranks in (1, 2, 3, 5):
    shows(f"Muon on {n_ranks} ranks", muon(n_ranks), state=MUON)
FIRST = muon(3)
del FIRST[O0]
got, notes, err = dumped(FIRST, "-d")
check("Muon without rank 0, degraded: what another rank has wholly is there", not err and all(
    (got.get(("optim/momentum_buffer", n)) == MUON.expected()["optim/momentum_buffer", n]) for n in "bc"), (err, notes, sorted(got)))
shows("a short momentum is left out", changed(lambda: muon(2), "optim", ((*STATE0, "momentum_buffer"), f32([1.0] * 70))),
      {("optim/momentum_buffer", n): None for n in MUON.names()},
      'the optimizer state "momentum_buffer" of group 0 is left out: it has another length than the weights', MUON)

refused("no optimizer file of stage 3 can be read", {n: b"noise" if "optim" in n else v for n, v in zero3().items()}, "none of the optimizer files can be read", "-d")


def gathered(what, files, note, same=True):
    """Files of 16-bit weights beside a tag of stage 3: stored/ is what they hold, or is left out."""
    with tempfile.TemporaryDirectory() as d:
        makeds.write(d, {**{f"tag/{n}": v for n, v in zero3().items()}, **{n: v for n, v in files.items() if not isinstance(v, bytes)}})
        for n, v in [("latest", b"tag"), *files.items()]:
            if isinstance(v, bytes):
                with open(os.path.join(d, n), "wb") as f:
                    f.write(v)
        got, notes, err = dump(d)
    stored = {k[1]: v for k, v in got.items() if k[0] == "stored"}
    check(what, not err and bool(stored) == same and all(stored[n][2] == makeds.bf16(STATE.values(n)).hex() for n in STATE.names() if same), (err, stored))
    check(f"{what}: the note", [n for n in notes if "stored/" in n] == ([note] if note else []), notes)
    check(f"{what}: a file that is not shown is named", any("not shown" in n for n in notes) == (not same), notes)


HALVES = [{n: Half(STATE.values(n), STATE.shape(n)) for n in names} for names in (["w", "b"], ["v", "one", "fix"])]
SERIES = "pytorch_model-0000{}-of-00002.bin".format
NOT_ONCE = "stored/ is left out: the pytorch_model*.bin next to the tag do not hold every trained parameter exactly once"
gathered("weights in one file", {"pytorch_model.bin": {**HALVES[0], **HALVES[1]}}, None)
gathered("weights in two", {SERIES(1): HALVES[0], SERIES(2): HALVES[1]}, None)
gathered("beside what is no tensor", {SERIES(1): {**HALVES[0], "version": 3}, SERIES(2): HALVES[1]}, None)
gathered("and more than was saved", {SERIES(1): {**HALVES[0], "kept": Half([1.0], (1,))}, SERIES(2): HALVES[1]},
         "1 tensors are only in stored/, because the save was made without frozen parameters")
gathered("one of two files", {SERIES(1): HALVES[0]}, NOT_ONCE, False)
gathered("a weight twice", {SERIES(1): HALVES[0], SERIES(2): {**HALVES[1], "w": HALVES[0]["w"]}}, NOT_ONCE, False)
gathered("a weight of another shape", {SERIES(1): {**HALVES[0], "w": Half(STATE.values("w"), (3, 5))}, SERIES(2): HALVES[1]}, NOT_ONCE, False)
gathered("of another name", {"pytorch_model_1.bin": {**HALVES[0], **HALVES[1]}}, None, False)
gathered("of another save", {SERIES(1): {**HALVES[0], "w": Half([9.0] * 15, (5, 3))}, SERIES(2): HALVES[1]},
         'stored/ is left out: the pytorch_model*.bin next to the tag belong to another save (the master of "w" does not round to the weight in them)', False)
done()
