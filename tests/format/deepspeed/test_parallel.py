#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model-parallel saves of one state, cut in many ways, are that state again, or complete trees; and what must not be joined is not."""
import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
import makemp  # noqa: E402
from dumped import dump  # noqa: E402
from makeds import State  # noqa: E402
from tap import check, done  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")


def dumped(files, rules=None, *opts):
    with tempfile.TemporaryDirectory() as d:
        makeds.write(os.path.join(d, "tag"), files)
        if rules is not None:
            with open(os.path.join(d, "rules"), "w") as f:
                f.write(rules)
            opts = [*opts, "-r" + os.path.join(d, "rules")]
        return dump(os.path.join(d, "tag"), *opts)


def weights(tree):
    return {k: v for k, v in tree.items() if not re.search(r"(^|/)(stored|optim/step|trained|extra)$", k[0])}


def want_of(state, drop=()):
    want = state.expected()
    return {k: v for k, v in want.items() if k[1] not in drop}


def same(name, got, want, err=""):
    wrong = sorted(str(k) for k in {*got, *want} if got.get(k) != want.get(k))
    check(name, not err and not wrong, f"{err} wrong: {wrong[:5]}")


def joined(name, files, state, rules=None):
    got, notes, err = dumped(files, rules)
    same(name, weights(got), want_of(state), err)
    stored = {k[1]: v for k, v in got.items() if k[0] == "stored"}
    if stored:
        want = {n: ("bf16", ",".join(map(str, state.shape(n))), makeds.bf16(state.values(n)).hex())
                for n in [*state.names(), *state.frozen, *state.buffers]}
        same(f"{name}: stored", stored, want)
    check(f"{name}: no note", not [n for n in notes if "shown separately" in n], notes)


def trees(name, files, shards, why, rules=None, *opts):
    """Complete mp_rank_NN/ trees, nothing at the root, and the reason."""
    got, notes, err = dumped(files, rules, *opts)
    want = {(f"mp_rank_{r:02d}" + ("/" + k[0] if k[0] else ""), k[1]): v for r, s in enumerate(shards) for k, v in s.expected().items()}
    same(name, weights(got), want, err)
    check(f"{name}: the reason", any("shown separately" in n and why in n for n in notes), notes)


def refused(name, files, part, rules=None, *opts):
    got, _, err = dumped(files, rules, *opts)
    check(name, not got and part in err and err.count("\n") == 0, f"{err!r} {sorted(got)[:3]}")


CUTS = {"embed.weight": "0", "l1.weight": "two", "l1.bias": "0", "back.weight": "1", "l2.weight": "1"}
STATE = State({"embed.weight": (7, 4), "l1.weight": (12, 5), "scale": (), "back.weight": (5, 6)}, {"l1.bias": (11,), "norm.weight": (5,)},
              frozen={"l2.weight": (3, 11)}, buffers={"running": (6,)})
INFO = makemp.patterns(STATE, CUTS)
RULES = """# how it is cut
embed\\.weight   0
l1\\.weight  sub:2
.*bias 0
(back|l2)\\.weight 1   # row parallel
norm.weight replicated
"""


def shards(tp, cuts=None):
    return [makemp.Shard(STATE, cuts or CUTS, tp, r) for r in range(tp)]


def tensor_parallel():
    for stage in (1, 2, 3):
        for tp, dp in ((2, 1), (2, 3), (3, 2)):
            label = f"stage {stage}, tp {tp}, dp {dp}"
            for degrees in (True, False):
                joined(f"{label}, patterns{'' if degrees else ', degrees not recorded'}",
                       makemp.tensor(STATE, CUTS, tp, dp, stage, INFO, degrees), STATE)
            joined(f"{label}, affine map", makemp.tensor(STATE, CUTS, tp, dp, stage, makemp.affine(STATE, CUTS, tp)), STATE)
            joined(f"{label}, rules", makemp.tensor(STATE, CUTS, tp, dp, stage), STATE, RULES)
            trees(f"{label}, nothing says how", makemp.tensor(STATE, CUTS, tp, dp, stage), shards(tp), "tp_rules")
    joined("one rank of many that is empty", makemp.tensor(STATE, CUTS, 9, 1, 2, makemp.affine(STATE, CUTS, 9)), STATE)


def vocabulary():
    """A padded vocabulary is cut to the original size, weights, moments and stored/ alike."""
    padded = State({"embed.weight": (8, 3)}, {"norm.weight": (3,)})
    cut = State({"embed.weight": (7, 3)}, {"norm.weight": (3,)})
    plain = cut.values
    cut.values = lambda n, k="fp32": padded.values(n, k)[:21] if n == "embed.weight" else plain(n, k)
    info = {**makemp.patterns(padded, {}, ["embed.weight"]), "original_vocab_size": 7, "padded_vocab_size": 8}
    info["tp_replicated_parameter_patterns"] = ["norm.weight"]
    joined("a padded vocabulary", makemp.tensor(padded, {"embed.weight": "0"}, 2, 2, 2, info), cut)
    info["original_vocab_size"] = 9
    got, notes, err = dumped(makemp.tensor(padded, {"embed.weight": "0"}, 2, 2, 2, info))
    check("more rows than there are", not err and ("", "embed.weight") not in got and any("9 rows" in n for n in notes), (err, notes))


def sub_parameters():
    """parameter_with_sub_params: as many of equal width, or widths, which are divided equally where nothing says how."""
    def case(cut, shape, listed, wide=None, why=None, record=lambda **k: k):
        state = State({"qkv.weight": shape, "scale": ()}, {"norm.weight": (5,)})
        cuts = {"qkv.weight": cut}
        info = makemp.patterns(state, cuts)
        info["parameter_with_sub_params"] = [record(patterns=[r"^qkv\.\w+$"], shape=listed, partition_dim=cut[0])]
        info.update({"sub_param_shard_widths": {r"^qkv\.\w+$": wide}} if wide is not None else {})
        tp, label = len(cut[1][0]), f"sub-parameters {listed} {wide or ''}"
        files = makemp.tensor(state, cuts, tp, 1, 2, info)
        if why is None:
            joined(label, files, state)
        else:
            trees(label, files, [makemp.Shard(state, cuts, tp, r) for r in range(tp)], why)

    def kept(**fields):
        return makeds.Call("deepspeed.checkpoint.universal_checkpoint", "SubparamShape", state=fields)

    even, odd = (0, [[3, 3], [1, 1]]), (0, [[4, 3], [2, 2], [0, 1]])
    case((0, [[3, 3], [3, 3]]), (12, 5), [2, 5])
    case((0, [[6, 6]]), (12, 5), [1, 5])
    case(even, (8, 5), [(6, 2), 5])
    case(even, (8, 5), ((6, 2), -1), record=kept)
    case((0, [[2] * 3, [1] * 3]), (9, 5), [[6, 3], 5])
    case((1, [[1, 1], [2, 2]]), (5, 6), [5, (2, 4)])
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 2], [0, 1]])
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 2], [0, 1]], record=kept)
    case((1, [[2, 1], [1, 3]]), (5, 7), [5, (3, 4)], [[2, 1], [1, 3]])
    case(odd, (12, 5), [(7, 4, 1), 5], None, "not divisible by 2 ranks")
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 2]], r"sub_param_shard_widths!^qkv\.\w+$[2]: it is missing")
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 1, 1], [0, 1]], "$[1]: it has 3 entries, expected 2")
    case(odd, (12, 5), [(7, "4", 1), 5], [[4, 3], [2, 2], [0, 1]], "parameter_with_sub_params[0]!shape[0][1]: expected a number")
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 3], [0, 1]], "$[1][1]: it and the widths before it add up to more than 4")
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, -1], [0, 1]], "$[1][1]: expected a number")
    case(odd, (12, 5), [(7, 4, 1), 5], [[4, 3], [2, 1], [0, 1]], "$[1]: the widths do not add up to 4")
    for none in (0, -1, "2", [], 1000, [1] * 1001):
        case(even, (8, 5), [none, 5], None, "parameter_with_sub_params[0]!shape[0]: ")
    case((1, [[3, 3]]), (5, 6), [6], None, "parameter_with_sub_params[0]!partition_dim: it is 1, but the shape has 1 dimensions")


def not_joined():
    """What is recorded does not fit: the trees stay."""
    def case(name, why, change, **options):
        info = copy.deepcopy(options.pop("info", INFO))
        change(info)
        trees(name, makemp.tensor(STATE, CUTS, 2, 2, 2, info, **options), shards(2), why)

    def drop(key, i=0):
        return lambda info: info[key].pop(i)

    case("two patterns for one name", "two patterns", lambda i: i["tp_replicated_parameter_patterns"].append(r"l1\.w\w+"))
    case("a pattern that fits nothing", "matches no parameter", lambda i: i["parameter_with_row_parallelism_patterns"].append(r"\d+.dense"))
    case("patterns of other names", "", lambda i: i.update(makemp.patterns(State({"0.x": (2,)}), {})))
    case("a pattern that is not understood", "differently", lambda i: i["tp_replicated_parameter_patterns"].append(r"a\Z"))
    case("a pattern that takes for ever", "takes too long", lambda i: i["tp_replicated_parameter_patterns"].append("((a|k|w|b|c|[a-z.])*)*[!?]"))
    case("a scalar cut by default is a copy, a vector along dimension 1 is not", "dimension 1",
         lambda i: i["parameter_with_row_parallelism_patterns"].append(i["tp_replicated_parameter_patterns"].pop()))
    case("AutoTP that cannot tell", "AutoTP lists", lambda i: i.update({"autotp_unsupported_parameter_patterns": {"^x$": "conv"}}))
    case("no patterns", "no patterns", lambda i: [i.pop(k) for k in list(i) if k.startswith(("tp_", "param", "voc"))])

    def piece(change, why, name, n="back.weight", r=1):
        def go(info):
            change(info["affine_map"]["params"]["^" + re.escape(n) + "$"]["ranks"][r]["pieces"])
        case(name, why, go, info=makemp.affine(STATE, CUTS, 2))

    piece(lambda p: p[0]["source"].__setitem__(0, 4), "outside the whole", "a piece that leaves the tensor")
    piece(lambda p: p[0]["dest"].__setitem__(0, 4), "outside the shard", "a piece that leaves the shard")
    piece(lambda p: p[0]["source"].__setitem__(0, 2), "overlaps", "pieces that overlap")
    piece(lambda p: p.clear(), "pieces: they do not cover each element of the shard exactly once", "a piece that is missing")
    piece(lambda p: p[1].update(dest=p[0]["dest"]), "pieces: they do not cover each element of the shard exactly once", "two pieces from one place of a shard", "l1.weight", 0)
    piece(lambda p: p[0]["dest"].__setitem__(1, [0, 1]), "pieces: they do not cover each element of the shard exactly once", "a piece that reads one row again and again")
    case("a map that drops the last row", "pieces: they do not cover each element of the shard exactly once", lambda i: [
        i["affine_map"]["params"][r"^embed\.weight$"].update(logical_shape=[6, 4]),
        i["affine_map"]["params"][r"^embed\.weight$"]["ranks"][1]["pieces"][0].update(shape=[2, 4])], info=makemp.affine(STATE, CUTS, 2))
    piece(lambda p: p[0].update(shape=[5, 1 << 63]), "", "a piece of 2^63 elements")
    piece(lambda p: p[0]["source"].__setitem__(1, [6]), "strides", "a piece with a stride too few")
    piece(lambda p: p.append("x"), "shape", "a piece that is a text")
    for name, why, change in (
            ("a stride that is a text", "[0]!source[1][1]: expected a number", lambda p: p[0]["source"].__setitem__(1, [6, "x"])),
            ("seventeen strides", "[0]!dest[1]: expected at most 16 numbers, found 17", lambda p: p[0]["dest"].__setitem__(1, [1] * 17)),
            ("a place that is a number", "[0]!source[1]: it is missing", lambda p: p[0].update(source=3)),
            ("a piece of 4097 columns", "[0]: a rank has more than 4096 pieces", lambda p: p[0].update(shape=[4097, 1], source=[0, [0, 1]])),
            ("4097 pieces", "[4096]: a rank has more than 4096 pieces", lambda p: p.extend([p[0]] * 4096)),
            ("a piece that steps beyond 64 bits", "[0]: its end exceeds 64 bits", lambda p: p[0].update(shape=[2, 1], source=[3, [(1 << 64) - 1, 1]]))):
        piece(change, rf"affine_map!params!^back\.weight$!ranks[1]!pieces{why}", name)

    def mapped(change, why, name):
        def go(info):
            change(info["affine_map"]["params"])
        case(name, why, go, info=makemp.affine(STATE, CUTS, 2))

    back, why = r"^back\.weight$", r"affine_map!params!^back\.weight$!"
    for name, text, change in (
            ("a shape that is a text", why + "logical_shape: expected a list of at most 64 sizes, found a text", lambda p: p[back].update(logical_shape="x")),
            ("a shape beyond 64 bits", why + "logical_shape: the product of its sizes exceeds 64 bits", lambda p: p[back].update(logical_shape=[1 << 40, 1 << 40])),
            ("a shard that is a text", why + "ranks[1]!shard_shape: expected a list of at most 64 sizes, found a text", lambda p: p[back]["ranks"][1].update(shard_shape="x")),
            ("a shard of one dimension", why + "ranks[1]!shard_shape: the shard has 1 dimensions, the whole tensor 2", lambda p: p[back]["ranks"][1].update(shard_shape=[15])),
            ("a shard beyond 64 bits", why + "ranks[1]!shard_shape: the product of its sizes exceeds 64 bits", lambda p: p[back]["ranks"][1].update(shard_shape=[1 << 40, 1 << 40])),
            ("a map of ranks 0 and 5", why + "ranks[1]!shard_shape: it is missing", lambda p: p[back]["ranks"].update({5: p[back]["ranks"].pop(1)})),
            ("a name without its ends", 'affine_map!params[7]: "back" matches more than one name', lambda p: p.update(back={})),
            ("a name that is a pattern", 'affine_map!params[7]: "^back.*$" matches more than one name', lambda p: p.update({"^back.*$": {}})),
            ("a name that ends within an escape", 'affine_map!params[7]: "^back\\$" matches more than one name', lambda p: p.update({"^back\\$": {}})),
            ("a name that is a number", "affine_map!params[7]: expected a text, found 7", lambda p: p.update({7: {}})),
            ("a name twice", 'affine_map!params[7]: "back.weight" occurs twice', lambda p: p.update({r"^\back\.weight$": p[back]}))):
        mapped(change, text, name)
    for name, change in (("a piece without elements", lambda p: p[back]["ranks"][1]["pieces"].append({**p[back]["ranks"][1]["pieces"][0], "shape": [0, 3]})),
                         ("one stretch of rows", lambda p: p[r"^embed\.weight$"]["ranks"][0].update(
                             pieces=[{"shape": [16], "source": [0, [1]], "dest": [0, [1]], "locations": [0]}]))):
        info = makemp.affine(STATE, CUTS, 2)
        change(info["affine_map"]["params"])
        joined(name, makemp.tensor(STATE, CUTS, 2, 2, 2, info), STATE)
    case("20001 patterns", "there are more than 20000 patterns", lambda i: i.update(tp_replicated_parameter_patterns=["x"] * 20001))
    case("a pattern that is a number", "tp_replicated_parameter_patterns[2]: expected a text, found 7", lambda i: i["tp_replicated_parameter_patterns"].append(7))
    case("a map of other ranks", "!ranks: it has 3 ranks, but 2 have files", lambda i: i["affine_map"]["params"]["^scale$"]["ranks"].update({2: {}}),
         info=makemp.affine(STATE, CUTS, 2))
    case("a parameter that is not in the map", "affine_map does not list it", lambda i: i["affine_map"]["params"].pop(r"^embed\.weight$"),
         info=makemp.affine(STATE, CUTS, 2))
    case("a map that is newer", "version", lambda i: i["affine_map"].update(version=2), info=makemp.affine(STATE, CUTS, 2))
    other = makemp.affine(STATE, {**CUTS, "embed.weight": "1"}, 2)
    case("a map of other shapes", "another shape", lambda i: None, info=other)
    files = makemp.tensor(STATE, CUTS, 2, 2, 2, INFO)
    files["mp_rank_01_model_states.pt"]["module"]["more"] = makeds.Half([1.0], [1])
    got, notes, err = dumped(files)
    check("a tensor that one rank has", not err and ("mp_rank_01", "more") in got and any("shown separately" in n for n in notes), (err, notes))


def copies_differ():
    info, norm = makemp.affine(STATE, CUTS, 2), "norm.weight"
    for label, how in (("patterns", INFO), ("affine map", info)):
        for state in ("fp32", "exp_avg"):
            files = makemp.tensor(STATE, CUTS, 2, 2, 3, how, twist={(1, norm, state): 0.5})
            got, notes, err = dumped(files)
            check(f"copies whose {state} differs, {label}",
                  not err and ("", norm) not in got and ("mp_rank_01", norm) in got and any("copies" in n and norm in n for n in notes),
                  (err, notes))
    refused("rules and copies that differ", makemp.tensor(STATE, CUTS, 2, 2, 3, twist={(1, norm, "fp32"): 0.5}),
            '"norm.weight": the copies of rank 0 and rank 1 differ', RULES)


    long = State({"a": (4,), "norm": (300_000,)})
    info = makemp.patterns(long, {"a": "0"})
    for at, differ in ((0, True), (299_999, True), (70_000, False)):
        files = makemp.tensor(long, {"a": "0"}, 2, 1, 3, info)
        masters = files["bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt"]["optimizer_state_dict"]["fp32_flat_groups"][0].storage
        raw = bytearray(masters.data)
        raw[8 + 4 * at] ^= 1
        masters.data = bytes(raw)
        _, notes, err = dumped(files)
        check(f"a long copy that differs at {at}", not err and any("copies of rank 0 and rank 1 differ" in n for n in notes) == differ
              and any("3 replicas" in n and "beginning, middle and end" in n for n in notes) != differ, (err, notes))


def rules():
    files = makemp.tensor(STATE, CUTS, 2, 2, 2)
    refused("a parameter that no rule covers", files, '"norm.weight": no line', RULES.replace("norm.weight replicated", ""))
    refused("two rules that differ", files, "lines 2 and 7", RULES + "embed.* 1\n".rjust(11))
    for stage in (2, 3):
        got, notes, err = dumped(makemp.tensor(STATE, CUTS, 2, 2, stage), RULES.replace("norm.weight replicated", "norm.weight 0"))
        check(f"stage {stage}, a rule that cuts what all ranks have whole", not err and ("", "norm.weight") in got and
              any("tp_rules join" in n and '"norm.weight"' in n for n in notes), (err, notes))
        got, notes, err = dumped(makemp.tensor(STATE, CUTS, 2, 2, stage), RULES)
        check(f"stage {stage}, no such note where the rules are right", not err and not any("tp_rules" in n for n in notes), (err, notes))
    joined("two rules that say the same", files, STATE, RULES + "embed.* 0\n")
    refused("a dimension that is not there", files, '"embed.weight": it has 2 dimensions', RULES.replace("embed\\.weight   0", "embed.weight 2"))
    refused("sub-parameters that do not divide", files, "sub-parameters of equal width", RULES.replace("sub:2", "sub:5"))
    refused("a rule without a cut", files, "line 1: expected", "embed.weight\n")
    refused("a cut that is no word", files, "line 2: expected", "\nembed.weight rows\n")
    refused("an expression that does not compile", files, "line 1:", "embed( 0\n")
    refused("an expression that is none by itself", files, "line 1:", "x)|(embed.* 0\n" + RULES)
    for name, text in (("nested bounds", "((((a{1,99}){1,99}){1,99}){1,99})"), ("groups in groups", "(" * 1000 + "a" + ")" * 1000),
                       ("a long expression", "a|" * 4000 + "b")):
        refused(name, files, "line 1: the expression", text + " 0\n" + RULES)
    refused("an expression that takes for ever", files, "takes too long", "((a|k|w|b|c|[a-z.])*)*[!?] 0\n" + RULES)
    for name, text in (("repetitions in each other", "(" * 30 + "x" + ")+" * 30), ("a bound of a thousand", "x{1000}"), ("alternatives", "(x|yy|z)+")):
        joined(name, files, STATE, text + " 0\n" + RULES)
    joined("bounds that are not", files, STATE, "x(y{2,3}z){4}[0-9]+\\((a+)+ 0\nx{999} 0\n((x{9}){9}){9} 0\n" + RULES)
    refused("no rules", files, "no rule", "# nothing\n")
    refused("a file of noise", files, "not text", "a 0\n\0")
    joined("as many rules as there may be", files, STATE, RULES + "x 0\n" * (10000 - 5))
    refused("one more", files, "there are more than 10000 rules", RULES + "x 0\n" * (10001 - 5))
    refused("a file of a mebibyte", files, "is longer than 1048575 bytes", RULES + "#" * (1 << 20))
    got, _, err = dumped(files, None, "-r/")
    check("rules that are a directory", not got and "tp_rules=/ cannot be read: Invalid argument" in err, err)
    got, _, err = dumped(files, None, "-r/nowhere")
    check("a file that is not there", not got and "tp_rules=/nowhere cannot be read" in err, err)
    trees("rules that do not fit, degraded", files, shards(2), "no line", RULES.replace("norm.weight replicated", ""), "-d")


PP = State({"tied_modules.embed.word.weight": (6, 4), "1.weight": (4, 4), "2.weight": (3, 4), "4.weight": (4, 3), "4.bias": (4,)},
           buffers={"4.running": (2,)})
PP_CUTS = {"tied_modules.embed.word.weight": "0", "1.weight": "1", "2.weight": "0", "4.weight": "two", "4.bias": "0"}
TIED = {"embed": (0, 1)}


def pipelines():
    for dp in (1, 2, 3):
        for degrees in (True, False):
            joined(f"pp 2, dp {dp}, degrees {degrees}", makemp.pipeline(PP, [[1, 2], [4]], dp=dp, tied=TIED, degrees=degrees), PP)
        joined(f"pp 3, dp {dp}, tied in all", makemp.pipeline(PP, [[1], [2], [4]], dp=dp, tied={"embed": (0, 1, 2)}), PP)
        joined(f"pp 3, dp {dp}, tied in the last two", makemp.pipeline(PP, [[1], [2], [4]], dp=dp, tied={"embed": (0, 2)}), PP)
        joined(f"pp 2, dp {dp}, stage 0", makemp.pipeline(PP, [[1, 2], [4]], dp=dp, tied=TIED, mappings=True), PP)
        info = makemp.patterns(PP, PP_CUTS)
        joined(f"pp 2, tp 2, dp {dp}", makemp.pipeline(PP, [[1, 2], [4]], 2, dp, PP_CUTS, info, TIED), PP)
        joined(f"pp 2, tp 2, dp {dp}, degrees by names", makemp.pipeline(PP, [[1, 2], [4]], 2, dp, PP_CUTS, info, TIED, degrees=False), PP)
        files = makemp.pipeline(PP, [[1, 2], [4]], 2, dp, PP_CUTS, None, TIED)
        keep = [lambda n: n[0] in "t12", lambda n: n[0] in "t4"]
        trees(f"pp 2, tp 2, dp {dp}, nothing says how", files, [makemp.Shard(PP, PP_CUTS, 2, r % 2, keep[r // 2]) for r in range(4)], "tp_rules")
    frozen = State(*PP.groups, buffers=PP.buffers, frozen={"3.up": (2, 2)})
    joined("a layer that is not trained", makemp.frozen_layer(makemp.pipeline(PP, [[1, 2], [4]], tied=TIED), 3, "up",
                                                              frozen.values("3.up"), [2, 2]), frozen)
    name = "tied_modules.embed.word.weight"
    for state in ("fp32", "exp_avg_sq"):
        refused(f"stages whose {state} of a tied module differs", makemp.pipeline(PP, [[1, 2], [4]], tied=TIED, twist={(1, name, state): 0.25}),
                "in mp_rank_01 it differs from mp_rank_00")
    got, notes, err = dumped(makemp.pipeline(PP, [[1, 2], [4]], tied=TIED, twist={(1, name, "fp32"): 0.25}), None, "-d")
    check("the same, degraded", not err and ("mp_rank_00", name) in got and ("", name) not in got, (err, notes))
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    files["layer_00-model_states.pt"] = makeds.OrderedDict({"word.weight": makeds.Half([0.5] * 24, [6, 4])})
    refused("a tied module's file of another save", files, 'names and shapes of "tied_modules.embed"')
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    del files["layer_02-model_states.pt"]
    refused("a layer's file is missing", files, "layer_02-model_states.pt is missing")
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    files["layer_04-model_states.pt"] = files["layer_00-model_states.pt"]
    refused("a layer's file with the weights of another", files, '"4.weight", which the file of layer 4 does not hold')
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    files["mp_rank_01_model_states.pt"]["buffer_names"] = ["4.running", "1.x"]
    refused("a layer of two stages", files, "layer 1 is listed by")
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    files["layer_04-model_states.pt"] = [1, 2]
    refused("a layer that is a list", files, "layer_04-model_states.pt")
    layers_alone()


def layers_alone():
    """Files of layers, one of which is changed."""
    def case(change, *args, **options):
        files = makemp.pipeline(PP, [[1, 2], [4]], *args, tied=TIED, **options)
        change(files)
        return files

    half, layer = makeds.Half([1.0, 2.0, 3.0, 4.0], [2, 2]), "layer_{:02d}-model_states.pt".format
    refused("an entry whose name is a number", case(lambda f: f[layer(4)].update({7: half})), f"/{layer(4)}: the file holds a name that is not a string")
    files = case(lambda f: f.pop("layer_02-model_01-model_states.pt"), 2, 1, PP_CUTS, makemp.patterns(PP, PP_CUTS))
    refused("a layer's file of the second tensor rank is missing", files,
            'layer_02-model_01-model_states.pt is missing; by "mp_rank_01_model_states.pt", "2.weight" is in it')
    got, notes, err = dumped(files, None, "-d")
    check("the same, degraded: only what it held is missing", not err and ("mp_rank_01", "2.weight") in got and ("mp_rank_01/stored", "2.weight") not in got and
          [n for n in notes if "layer" in n] == ['layer_02-model_01-model_states.pt is missing; weights of "mp_rank_01" are in it'], (err, notes))
    refused("files of layers for one tensor rank", case(lambda f: [f.pop(n) for n in list(f) if "-model_01-" in n], 2, 1, PP_CUTS),
            "layer_04-model_00-model_states.pt: there are 2 tensor-parallel ranks, but layer files of 1")
    for what, other in (("of another name", {"up": half}), ("of another shape", {"word.weight": half})):
        def before(f, other=other):
            f[layer(5)] = f.pop(layer(0))
            f[layer(0)] = makeds.OrderedDict(other)
        name = f"0.{next(iter(other))}"
        got, _, err = dumped(case(before))
        check(f"a layer {what} in front of a tied module", not err and got["", name] == got["stored", name] == ("bf16", "2,2", "803f004040408040") and
              got["stored", "tied_modules.embed.word.weight"][2] == makeds.bf16(PP.values("tied_modules.embed.word.weight")).hex() and
              ("", "5.word.weight") not in got, (err, sorted(got)))
    joined("an entry of a tied module that is no tensor", case(lambda f: f[layer(0)].update(more=7)), PP)
    lost = case(lambda f: [f.pop(n) for n in list(f) if "rank_0_mp_rank_0" in n and "optim" in n], dp=2)
    got, notes, err = dumped(lost, None, "-d")
    check("a tied module whose masters are lost", not err and not any("stored/ lacks" in n for n in notes) and
          ("stored", "tied_modules.embed.word.weight") in got and ("", "0.word.weight") not in got and
          any(f'"{layer(0)}" is assumed to be the file of "tied_modules.embed"' in n for n in notes), (err, notes))
    for where in (3, 6):  # lost bytes prove nothing, wherever the frozen layer of the same names and shapes comes
        for gone, known in (("rank_0_mp_rank_00", True), ("rank_0_mp_rank_0", False)):
            def frozen(f, where=where, gone=gone):
                f[layer(5)] = f.pop(layer(0))
                makemp.frozen_layer(f, where, "word.weight", [9.0] * 24, (6, 4))
                for n in [n for n in f if gone in n and "optim" in n]:
                    f.pop(n)
            got, notes, err = dumped(case(frozen, dp=2), None, "-d")
            true, tied = makeds.bf16(PP.values("tied_modules.embed.word.weight")).hex(), got.get(("stored", "tied_modules.embed.word.weight"))
            nines = makeds.bf16([9.0] * 24).hex()
            check(f"the same beside frozen layer {where}, {gone}", not err and got["", f"{where}.word.weight"][2] == nines and
                  (tied[2] == true and ("", "5.word.weight") not in got if known else
                   not tied and got["", "5.word.weight"][2] == true and
                   any(layer(5) in n and layer(where) in n and '"tied_modules.embed"' in n for n in notes)), (err, notes, sorted(got)))
    files = case(lambda f: f.update({layer(3): makeds.OrderedDict({"word.weight": makeds.Half([1.0] * 24, [4, 6])})}), mappings=True)
    refused("two files that may be a tied module's", files,
            'the shape of "tied_modules.embed.word.weight" is not recorded, and there is no 16-bit weight of its 24 elements')

    def twice(f):
        f[layer(3)] = makeds.OrderedDict(up=half)
        f["mp_rank_00_model_states.pt"]["shared_params"] = {"3.up": "1.weight"}
    refused("a name that is tied and in a file of its own", case(twice), f'{layer(3)}: there are two tensors named "3.up" in mp_rank_00')


def universals():
    joined("universal, tp 2", makemp.universal(makemp.tensor(STATE, CUTS, 2, 2, 2, INFO), STATE), STATE)
    pp = State(*PP.groups)
    got, _, err = dumped(makemp.universal(makemp.pipeline(pp, [[1, 2], [4]], 2, 1, PP_CUTS, makemp.patterns(pp, PP_CUTS), TIED), pp))
    same("universal, pp 2, tp 2", weights(got), pp.expected(), err)
    files = makemp.universal(makemp.tensor(STATE, CUTS, 2, 2, 2, INFO), STATE)
    for n in files.values():
        if isinstance(n, dict) and "module" in n:
            n["num_experts"] = [4]
    joined("universal, experts joined already", files, STATE)
    del files["zero/l1.bias/fp32.pt"]
    refused("universal, a parameter is missing", files, "zero/l1.bias/fp32.pt is missing")
    files = {n: v for n, v in files.items() if "l1.bias" not in n}
    got, notes, err = dumped(files, None, "-d")
    want = {k: v for k, v in STATE.expected().items() if k[1] != "l1.bias"}
    check("the same, degraded: its 16-bit weights, and nothing else is lost", not err and all(got.get(k) == v for k, v in want.items()) and
          got["", "l1.bias"] == ("bf16", "11", makeds.bf16(STATE.values("l1.bias")).hex()) and
          [n for n in notes if "l1.bias" in n] == ['zero/l1.bias/fp32.pt is missing or damaged; its weight is taken from "module"'], (err, notes))
    files = makemp.universal(makemp.pipeline(pp, [[1, 2], [4]], 2, 1, PP_CUTS, makemp.patterns(pp, PP_CUTS), TIED), pp)
    with tempfile.TemporaryDirectory() as d:
        makeds.write(os.path.join(d, "tag"), {n: v for n, v in files.items() if "4.bias" not in n})
        said = subprocess.run([ZEROFS, "info", "-v", "-o", "degraded", os.path.join(d, "tag")], capture_output=True, text=True, timeout=60)
    check("universal, pp 2, tp 2, degraded: what no layer has is lost, once", said.returncode == 4 and
          said.stdout.count("4.bias: all bytes: ") == 1 and "zero/4.bias/fp32.pt is missing or damaged" in said.stdout, (said.stdout, said.stderr))


def several_saves():
    def case(name, part, change, *opts):
        files = makemp.tensor(STATE, CUTS, 3, 2, 2, INFO)
        change(files)
        refused(name, files, part, None, *opts)

    def remove(word):
        return lambda files: [files.pop(n) for n in list(files) if word in n]

    case("a rank in the middle is missing", "model-parallel rank 1 (mp_rank_01) are missing", remove("mp_rank_01"))
    case("the last rank is missing", "3", remove("mp_rank_02"))
    case("a model file is missing", "the model-states file of rank 0 of mp_rank_01", remove("mp_rank_01_model"))
    case("an optimizer file is missing", "zero_pp_rank_1_mp_rank_01_optim_states.pt is missing", remove("rank_1_mp_rank_01"))
    case("ranks of two saves", "global_steps is 9", lambda f: f["mp_rank_02_model_states.pt"].update(global_steps=9))
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    remove("mp_rank_01_optim")(files)
    refused("a stage without its optimizer", files, "mp_rank_01_model_states.pt: all optimizer files of mp_rank_01 are missing")
    got, notes, err = dumped(files, None, "-d")
    check("the same, degraded: its 16-bit weights, and a note",
          not err and got["", "4.weight"][0] == "bf16" and got["", "1.weight"][0] == "f32" and any("all optimizer files of mp_rank_01" in n for n in notes),
          (err, notes))
    files = makemp.tensor(STATE, CUTS, 2, 2, 2, INFO)
    remove("optim_states")(files)
    got, notes, err = dumped(files)
    check("no optimizer files at all: a note", not err and sum("there are no optimizer files" in n for n in notes) == 2, (err, notes))
    later = State(*STATE.groups, frozen=STATE.frozen, buffers=STATE.buffers, step=STATE.step + 1)
    for stage in (2, 3):
        files, other = makemp.tensor(STATE, CUTS, 2, 2, stage, INFO), makemp.tensor(later, CUTS, 2, 2, stage, INFO)
        files.update({n: v for n, v in other.items() if "mp_rank_01_optim" in n})
        refused(f"stage {stage}: one rank's optimizer of another save", files, "state[0].step is 4, but 3")
    layers = State({"1.weight": (4, 4), "4.weight": (4, 3)})
    later = State(*layers.groups, seed=1, step=layers.step + 1)
    files, other = (makemp.pipeline(s, [[1], [4]], dp=2) for s in (layers, later))
    files.update({n: v for n, v in other.items() if "mp_rank_01_optim" in n or "layer_04" in n})
    refused("one stage's optimizer and layers of another save", files, "state[0].step is 4, but 3")
    refused("the same, degraded", files, "state[0].step is 4, but 3", None, "-d")
    case("ranks with other patterns", "universal_checkpoint_info",
         lambda f: f["mp_rank_01_model_states.pt"].update(universal_checkpoint_info={**INFO, "tp_replicated_parameter_patterns": []}))
    for stage in (2, 3):
        def other(f):
            for n, v in f.items():
                if "mp_rank_01_model" in n:
                    params = v["universal_checkpoint_info"]["affine_map"]["params"]
                    v["universal_checkpoint_info"] = {**makemp.affine(STATE, CUTS, 2), "affine_map": {"version": 1, "params": changed(params)}}

        for what, changed in (("another offset", lambda p: {k: {**e, "ranks": {**e["ranks"], 1: {**e["ranks"][1], "pieces": []}}} for k, e in p.items()}),
                              ("one parameter less", lambda p: dict(list(p.items())[1:])), ("none", lambda p: {})):
            for opts in ((), ("-d",)):
                files = makemp.tensor(STATE, CUTS, 2, 2, stage, makemp.affine(STATE, CUTS, 2))
                other(files)
                refused(f"stage {stage}, the second rank's affine map: {what} {opts}", files, "its affine_map differs", None, *opts)
        files = makemp.tensor(STATE, CUTS, 2, 2, stage, makemp.affine(STATE, CUTS, 2))
        changed = lambda p: dict(reversed(p.items()))  # noqa: E731 pylint: disable=unnecessary-lambda-assignment
        other(files)
        joined(f"stage {stage}, the second rank's affine map in another order", files, STATE)
    case("degrees that do not make the ranks", "are not the 3",
         lambda f: [v.update(checkpoint_parallel_dimensions={"tp_degree": 2, "pp_degree": 1}) for n, v in f.items() if "model_states" in n])
    case("mp_world_size of another job", "mp_world_size is 5", lambda f: [v.update(mp_world_size=5) for n, v in f.items() if "model_states" in n])
    case("degrees that are no numbers", "!tp_degree: 0 is not", lambda f: [v.update(checkpoint_parallel_dimensions={"tp_degree": 0, "pp_degree": "x"})
                                                              for n, v in f.items() if "model_states" in n])
    files = makemp.tensor(STATE, CUTS, 3, 2, 2, INFO)
    remove("mp_rank_01")(files)
    got, notes, err = dumped(files, None, "-d")
    check("degraded, a rank is missing: the others have trees", not err and ("mp_rank_02", "embed.weight") in got and ("", "embed.weight") not in got,
          (err, notes))


def many_ranks():
    """mp_rank_100 comes behind mp_rank_11."""
    s = State({"w": (1024, 1), "norm": (1,)})
    joined("1,024 tensor-parallel ranks", makemp.tensor(s, {"w": "0"}, 1024, 1, 2, makemp.patterns(s, {"w": "0"})), s)


def golden(name):
    """Real saves: every digest of expected.json, at its place."""
    folder = os.path.join(DATA, name)
    with open(os.path.join(folder, "expected.json")) as f:
        e = json.load(f)
    got, _, err = dump(folder)
    ranks = {"": e["merged"]} if "merged" in e else {f"mp_rank_{r}": d["params"] for r, d in e["per_mp_rank"].items()}
    if "merged" not in e and not any(k[0].startswith("mp_rank") for k in got):
        ranks = {"": {n: v for d in e["per_mp_rank"].values() for n, v in d["params"].items()}}
    bad, n = [err] if err else [], 0
    for tree, params in ranks.items():
        for param, states in params.items():
            for state, want in states.items():
                where = "/".join(x for x in (tree, "" if state == "fp32" else f"optim/{state}") if x)
                have = got.get((where, param), ("", "", ""))[2]
                n += 1
                if "sha256" in want and hashlib.sha256(bytes.fromhex(have)).hexdigest() != want["sha256"]:
                    bad.append(f"{where}/{param}")
    check(f"{name}: {n} digests", n > 0 and not bad, bad[:5])


def main():
    tensor_parallel()
    vocabulary()
    sub_parameters()
    not_joined()
    copies_differ()
    rules()
    pipelines()
    universals()
    several_saves()
    many_ranks()
    for name in ("ds0_19_8_autotp2_zero1_uneven_w2", "ds0_19_8_autotp2_zero3_w4", "ds0_19_8_pp2_tp2_zero1_info_w4", "ds0_19_8_pp2_zero0_w2",
                 "ds0_19_8_pp2_zero1_w2", "ds0_19_8_pp3_tied_zero1_w3", "ds0_19_8_tp2_zero2_info_w4", "pp2_zero1", "tp2_zero1"):
        golden(name)
    done()


main()
