#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are gone or damaged: refused with a sentence, and -o degraded shows what the others have."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import makeds  # noqa: E402
import makemp  # noqa: E402
from dumped import dump, dumped  # noqa: E402
from makeds import State  # noqa: E402
from tap import check, done  # noqa: E402
from torchedit import Archive  # noqa: E402

DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")
DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")

STATE = State({"embed.weight": (6, 4), "l1.weight": (4, 4), "l1.bias": (4,), "norm": (3,)}, frozen={"base": (5, 2)}, buffers={"count": (2,)})
CUTS = {"embed.weight": "0", "l1.weight": "1"}
PP = State({"tied_modules.embed.word.weight": (6, 4), "1.weight": (4, 4), "2.weight": (3, 4), "4.weight": (4, 3), "4.bias": (4,)},
           buffers={"4.running": (2,)})
TIED = {"embed": (0, 1)}


def without(files, word, how="gone"):
    """The files, of which those with the word in their names are gone, or noise."""
    return {n: b"noise" if word in n else v for n, v in files.items() if how != "gone" or word not in n}


def lost(name, files, word, part, here, gone=(), note=None):
    """here: what of the tree without the loss must be there as before; gone: what must not."""
    whole, _, err = dumped(files)
    check(f"{name}: whole", not err and all(k in whole for k in here), (err, sorted(whole)))
    for how in ("gone", "noise"):
        hurt = without(files, word, how)
        got, _, err = dumped(hurt)
        check(f"{name}, {how}: refused", not got and err.count("\n") == 0 and (part in err or how == "noise" and word in err), err)
        got, notes, err = dumped(hurt, "-d")
        wrong = [k for k in here if got.get(k) != whole[k]] + [k for k in gone if k in got]
        check(f"{name}, {how}, degraded", not err and not wrong and (not note or any(note in n for n in notes)), (err, wrong, notes))


def tensor_ranks():
    for stage in (2, 3):
        files = makemp.tensor(STATE, CUTS, 2, 2, stage)
        part = "zero_pp_rank_0_mp_rank_01_model" if stage == 3 else "mp_rank_01_model"
        word = part if stage == 2 else "mp_rank_01_model"
        here = [(s, n) for s, n in dumped(files)[0] if s.startswith("mp_rank_00")]
        lost(f"stage {stage}: the model states of a tensor rank", files, word, "the model-states file of rank 0 of mp_rank_01 is missing", here,
             [("mp_rank_01", "l1.bias"), ("", "l1.bias")], "mp_rank_01 is left out")
    files = makemp.universal(makemp.tensor(STATE, CUTS, 2, 2, 2, makemp.patterns(STATE, CUTS)), STATE)
    here = [(s, n) for s, n in dumped(files)[0] if s in ("", "optim/exp_avg") and n not in ("base", "count")]
    lost("universal: the copied model states of a tensor rank", files, "mp_rank_01_model", "mp_world_size is 2, but there are files of 1",
         here)
    for stage in (2, 3):
        for degrees in (False, True):
            files = makemp.tensor(STATE, CUTS, 3, 2, stage, degrees=degrees)
            for gone in ("mp_rank_02", "mp_rank_01 mp_rank_02"):
                left = files
                for word in gone.split():
                    left = without(left, word)
                got, _, err = dumped(left)
                check(f"stage {stage}, the files of {gone} are missing: refused", not got and "mp_world_size is 3, but there are files of" in err, err)
                got, notes, err = dumped(left, "-d")
                whole = dumped(files)[0]
                same = all(got.get(k) == whole[k] for k in whole if k[0].startswith("mp_rank_00"))
                check(f"stage {stage}, the files of {gone} are missing, degraded: each of the others has a tree",
                      not err and same and not any(k[0] == "" for k in got) and any("shown separately" in n for n in notes), (err, notes))
    got, _, err = dumped(without(makemp.tensor(STATE, CUTS, 2, 2, 2), "model_states", "noise"), "-d")
    check("no model states at all", not got and "no model-states file can be read" in err and "mp_rank_00_model_states.pt" in err, err)


def ranks_of_stage_3():
    """Each rank with an optimizer's file has one of the model's, which nothing else tells where nothing is frozen."""
    bare = State({"embed.weight": (6, 4), "norm": (3,)})
    for files in (makeds.zero3(bare, 3, prefix=""), makemp.tensor(bare, {"embed.weight": "0"}, 2, 3, 3)):
        here = list(dumped(files)[0])
        for r in (1, 2):
            gone = f"zero_pp_rank_{r}_mp_rank_00_model_states.pt"
            got, _, err = dumped(without(files, gone))
            check(f"stage 3, {gone} is missing: refused",
                  not got and f"{gone} is missing; ZeRO stage 3 writes one for each of the 3 ranks" in err and err.count("\n") == 0, err)
            got, notes, err = dumped(without(files, gone), "-d")
            check(f"stage 3, {gone} is missing, degraded: all tensors", not err and sorted(got) == sorted(here) and any(gone in n for n in notes), (err, notes))


def pipelines():
    for dp in (1, 2):
        shapes, names = (makemp.pipeline(PP, [[1, 2], [4]], dp=dp, tied=TIED, mappings=m) for m in (False, True))
        files = {n: shapes[n] if "model_states" in n else names[n] for n in shapes}
        lost(f"pipeline, dp {dp}: the model states of a stage, whose optimizer names the parameters", files, "mp_rank_01_model",
             "the model-states file of rank 0 of mp_rank_01", list(dumped(files)[0]), (), "mp_rank_01")
        lost(f"pipeline, dp {dp}: those of the first stage", files, "mp_rank_00_model", "the model-states file of rank 0 of mp_rank_00",
             list(dumped(files)[0]), (), "mp_rank_00")
        lost(f"pipeline, dp {dp}: the model states of a stage, nothing names the parameters", shapes, "mp_rank_01_model",
             "the model-states file of rank 0 of mp_rank_01",
             [("", n) for n in ("tied_modules.embed.word.weight", "1.weight", "2.weight", "4.running")] + [("stored", "4.weight")], (), "mp_rank_01")
        if dp > 1:
            got, notes, err = dumped(without(without(files, "mp_rank_01_model"), "rank_1_mp_rank_01_optim"), "-d")
            check("pipeline: the model states of a stage and an optimizer's file, which names parameters",
                  not err and got["", "1.weight"] == PP.expected()["", "1.weight"] and got["stored", "4.weight"][0] == "bf16" and
                  not any(k[1] == "4.weight" and k[0].startswith("optim") for k in got), (err, notes, sorted(got)))
        got, notes, err = dumped(without(files, "layer_00"))
        check(f"pipeline, dp {dp}: a tied module without a file", not err and ("stored", "tied_modules.embed.word.weight") not in got and
              sum('"tied_modules.embed", so stored/ lacks' in n for n in notes) == 1, (err, notes))
        check(f"pipeline, dp {dp}: no such note where it is there", not any("stored/ lacks" in n for n in dumped(files)[1]), dumped(files)[1])
    other = makemp.pipeline(State(*PP.groups, buffers=PP.buffers, step=PP.step + 1), [[1, 2], [4]], tied=TIED)
    files = makemp.pipeline(PP, [[1, 2], [4]], tied=TIED)
    files["mp_rank_01_model_states.pt"] = other["mp_rank_01_model_states.pt"]
    got, _, err = dumped(files, "-d")
    check("model states of two saves are refused, degraded too", not got and "global_steps is 4, but 3" in err, err)


def slices():
    files = makeds.zero3(STATE, 3)
    for r in range(3):
        word = f"zero_pp_rank_{r}_mp_rank_00_model"
        here = [k for k in dumped(files)[0] if k[1] != "base"]
        for how in ("gone", "noise"):
            whole = dumped(files)[0]
            got, _, err = dumped(without(files, word, how))
            check(f"stage 3, model states of rank {r} {how}: refused", not got and word in err or "rank 0 is missing" in err, err)
            got, _, err = dumped(without(files, word, how), "-d")
            check(f"stage 3, model states of rank {r} {how}: all but its slices",
                  not err and all(got.get(k) == whole[k] for k in here) and ("", "base") in got and got["", "base"] != whole["", "base"], err)


def false_ties():
    """Names that shared_params ties and `module` does not."""
    def bare(shape):
        return makeds.Tensor(shape=list(shape), storage=makeds.Storage(data=b"", n=0, cls="BFloat16Storage"))

    empty = {"e1": (0, 4), "e2": (0,), "e3": (3, 0)}
    for stage in (1, 2):
        for fragments in (True, False):
            files = makeds.zero12(STATE, 2, stage)
            m = files["mp_rank_00_model_states.pt"]
            m["module"].update({n: bare(s) for n, s in empty.items()})
            m["shared_params"] = {"e2": "e1", "e3": "embed.weight", "again": "norm"}
            if fragments:
                m["frozen_param_shapes"].update({n: makeds.Size(s) for n, s in empty.items()})
                m["frozen_param_fragments"].update({n: bare(s) for n, s in empty.items()})
            got, notes, err = dumped(files)
            check(f"empty parameters, stage {stage}, fragments {fragments}",
                  not err and all(got["", n] == ("bf16", ",".join(map(str, s)), "") for n, s in empty.items()) and
                  got["", "again"] == got["", "norm"] and any("ties 2 names to parameters of other shapes" in n for n in notes), (err, notes))
    for stage in (1, 2, 3):  # a frozen parameter, saved in bfloat16, beside the master of what it is tied to
        state = makeds.State(*STATE.groups, frozen={"still": STATE.shape("norm")})
        files = makeds.zero3(state, 2) if stage == 3 else makeds.zero12(state, 2, stage)
        for name, m in files.items():
            if "model_states" in name:
                m["shared_params"] = {"still": "norm"}
        if stage < 3:  # of one value
            files["mp_rank_00_model_states.pt"]["module"]["still"] = files["mp_rank_00_model_states.pt"]["module"]["norm"]
            files["mp_rank_00_model_states.pt"]["frozen_param_fragments"]["still"] = files["mp_rank_00_model_states.pt"]["module"]["norm"]
        got, notes, err = dumped(files)
        said = [n for n in notes if '"still" and "norm"' in n]
        check(f"a frozen name tied to a trained one, stage {stage}",
              not err and len(said) == (got["", "still"][0] != got["", "norm"][0]) == 1, (err, notes, got["", "still"], got["", "norm"]))
    for own, of, good in ((STATE.values("norm"), "norm", True), ([1.0, 2.0, 3.0], "norm", False), ([1.0, 2.0], "count", False), ([1.0, 2.0], "nowhere", True)):
        files = makeds.zero12(STATE, 2)
        m = files["mp_rank_00_model_states.pt"]
        m["module"]["again"] = makeds.Half(own, (len(own),))
        m["shared_params"] = {"again": of}
        got, _, err = dumped(files)
        check(f"a tie to {of} with bytes of its own", (("", "again") in got) == good and good != ('ties "again" to' in err), err)


def alone():
    """No model-states file at all, and no other rank: what the optimizer's files name and prove."""
    def real(name, change=lambda a: None):
        with tempfile.TemporaryDirectory() as d:
            top = os.path.join(d, "run")
            shutil.copytree(os.path.join(DATA, name), top)
            for place, _, names in os.walk(top):
                os.chmod(place, 0o755)
                for n in names:
                    os.chmod(os.path.join(place, n), 0o644)
                    if "model_states" in n:
                        os.remove(os.path.join(place, n))
                    elif "optim_states" in n:
                        with Archive(os.path.join(place, n)) as a:
                            change(a)
            with open(os.path.join(top, "expected.json")) as f:
                params = json.load(f)["params"]
            runs = [subprocess.run([DUMP, *o, os.path.join(top, open(os.path.join(top, "latest")).read().strip())], capture_output=True, text=True, timeout=60)
                    for o in ([], ["-d"])]
        rows = [line.split("\t") for line in runs[1].stdout.splitlines()]
        return params, {(r[1], r[2]): r[3:6] for r in rows if r[0] == "tensor"}, runs, [r[1] for r in rows if r[0] == "note"]

    for name in ("zero2_w2", "zero2_w12", "zero2_w2_elastic", "zero1_w2", "zero1_w2_bf16optimizer", "zero2_w2_ds0_9_5", "ds0_19_8_zero2_fastwriter_w2",
                 "ds0_19_8_zero2_tag_slash_w2", "ds0_19_8_zero1_bf16opt_w3"):
        params, got, runs, notes = real(name)
        check(f"{name}, alone: refused", runs[0].returncode and "is missing; the names of the parameters are in it" in runs[0].stderr, runs[0].stderr)
        wrong = [(s, n) for n, p in params.items() for s, v in p.items() if not got.get((f"bucket{'' if s == 'fp32' else '/optim/' + s}", n)) or
                 hashlib.sha256(bytes.fromhex(got[f"bucket{'' if s == 'fp32' else '/optim/' + s}", n][2])).hexdigest() != v["sha256"]]
        check(f"{name}, alone, degraded", params and not wrong and all(k[0].startswith("bucket") for k in got) and
              any("bucket/" in n for n in notes), (wrong, runs[1].stderr, notes))

    def config(key, value):
        def change(a):
            a.root["ds_config"] = value if key is None else {**a.root["ds_config"], "zero_optimization": {
                **a.root["ds_config"]["zero_optimization"], key: value}}
        return change
    for what, change, part in (("round_robin_gradients", config("round_robin_gradients", True), "with round_robin_gradients, param_slice_mappings"),
                               ("settings elsewhere", config(None, "ds.json"), "with round_robin_gradients, param_slice_mappings"),
                               ("ZenFlow", config("zenflow", {}), "no other file has the shapes"),
                               ("no mappings", lambda a: a.root["optimizer_state_dict"].pop("param_slice_mappings"), "no other file has the shapes")):
        _, got, runs, _ = real("zero2_w2", change)
        check(f"alone, {what}: refused, degraded too", not got and part in runs[1].stderr, runs[1].stderr)
    for name, part in (("zero3_w2", "in the vectors of ZeRO stage 3"), ("ds0_19_8_moe_ep2_zero2_w4", "no other file has the shapes"),
                       ("ds0_4_0_zero2_w2", "order of the parameters is not proven")):
        _, got, runs, _ = real(name)
        check(f"{name}, alone: refused, degraded too", not got and part in runs[1].stderr, runs[1].stderr)
    plain = State(STATE.groups[0])
    two = State({"a": (4,), "b": (2, 2)}, {"c": (4,), "d": (4,)})
    for state, ranks, good in ((plain, 1, True), (plain, 8, True), (plain, 2, False), (two, 1, False)):
        files = without(makeds.zero12_merged(state, ranks, state.names()), "model_states")
        got, notes, err = dumped(files, "-d")
        want = {k: v for k, v in state.expected().items() if k[0] in ("", "optim/exp_avg")}
        check(f"0.3.14 alone, {ranks} ranks, {len(state.groups)} groups", all(got.get(k) == v for k, v in want.items()) and
              any("under the names in its files" in n for n in notes) if good else not got and "is not proven" in err, (err, notes))


def never_saved():
    """What DeepSpeed did not save is told, and the rest is served."""
    for flag in (True, False):
        files = makeds.zero3(STATE, 2)
        for n, v in files.items():
            if "model_states" in n:
                v["ds_config"]["zero_optimization"]["zero_quantized_nontrainable_weights"] = flag
                v["frozen_param_fragments"] = {"base": makeds.Tensor(shape=[5], storage=makeds.Storage(data=b"abcde", n=5, cls="CharStorage"))}
        got, notes, err = dumped(files)
        check(f"frozen weights in 8 bits, quantized {flag}", not err and (("", "base") in got) != flag and ("", "norm") in got and
              any("1 frozen parameters are quantized" in n for n in notes) == flag and any('"base" is left out' in n for n in notes) == flag, (err, notes))
    for moments in (True, False):
        files = makeds.zero3(State(*STATE.groups, moments=("exp_avg",) if moments else ()), 2)
        for n, v in files.items():
            v["ds_config"]["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "super_offload": True}
        got, notes, err = dumped(files)
        check(f"SuperOffload, moments {moments}", not err and ("", "norm") in got and any("SuperOffload" in n for n in notes) != moments, (err, notes))


def layers():
    """One tensor of a layer's file cannot be read."""
    def hurt(files, *tensors):
        for file, name in tensors:
            t = files[file][name]
            short = makeds.Storage(data=t.storage.data, n=t.storage.n - 1, cls=t.storage.cls.__name__)
            files[file] = makeds.OrderedDict({**files[file], name: makeds.Tensor(shape=t.shape, storage=short)})
        return files

    def alone(whole, got, lost):
        """trained/ depends on what else there is"""
        lost = [k for s, n in lost for k in ((s, n), ("stored", n))]
        return all(k in whole for k in lost[::2]) and {k: v for k, v in got.items() if k[0] != "trained"} == \
            {k: v for k, v in whole.items() if k not in lost and k[0] != "trained"}

    for dp in (1, 2):
        files = makemp.pipeline(PP, [[1, 2], [4]], dp=dp, tied=TIED)
        whole = dumped(files)[0]
        for names, lost in ((["2 weight"], [("stored", "2.weight")]), (["1 weight", "2 weight"], [("stored", "1.weight"), ("stored", "2.weight")]),
                            (["4 weight", "2 weight"], [("stored", "4.weight"), ("stored", "2.weight")]),
                            (["4 weight", "4 running"], [("stored", "4.weight"), ("", "4.running")]),
                            (["0 word.weight", "4 bias"], [("stored", "tied_modules.embed.word.weight"), ("stored", "4.bias")]),
                            (["4 running", "1 weight", "2 weight", "4 weight"],
                             [("", "4.running"), ("stored", "1.weight"), ("stored", "2.weight"), ("stored", "4.weight")])):
            bad = hurt(dict(files), *[(f"layer_{n[0]:>02}-model_states.pt", n[2:]) for n in names])
            got, _, err = dumped(bad)
            check(f"dp {dp}, {names} of layers cannot be read: refused", not got and "layer_0" in err and "storage" in err, err)
            got, notes, err = dumped(bad, "-d")
            check(f"dp {dp}, {names} of layers cannot be read, degraded: they alone are lost", not err and alone(whole, got, lost) and
                  all(any(f"layer_{n[0]:>02}" in t and n[2:] in t for t in notes) for n in names), (err, notes, set(whole) ^ set(got)))
    for stage in (1, 2, 3):
        files = makeds.zero12(STATE, 2, stage) if stage < 3 else makeds.zero3(STATE, 2)
        whole = dumped(files)[0]
        first = next(n for n in files if "model_states" in n)
        for name in ("count", "l1.weight")[:1 if stage == 3 else 2]:
            bad = {**files, first: {**files[first], "module": hurt({"m": files[first]["module"]}, ("m", name))["m"]}}
            got, _, err = dumped(bad)
            check(f"stage {stage}, {name} cannot be read: refused", not got and "storage" in err, err)
            got, notes, err = dumped(bad, "-d")
            check(f"stage {stage}, {name} cannot be read, degraded: it alone is lost",
                  not err and alone(whole, got, [("", name)] if name == "count" else [("stored", name)]) and
                  any(f'"{name}"' in n for n in notes), (err, notes, set(whole) ^ set(got)))
    name = "ds0_19_8_pp2_zero1_w2"
    with tempfile.TemporaryDirectory() as d:
        top = shutil.copytree(os.path.join(DATA, name, "global_step2"), os.path.join(d, "global_step2"))
        whole = dump(top)[0]
        os.remove(os.path.join(top, "layer_03-model_states.pt"))
        without_it = dump(top, "-d")[0]
        shutil.copy(os.path.join(top, "layer_04-model_states.pt"), os.path.join(top, "layer_03-model_states.pt"))
        got, notes, err = dump(top, "-d")
        check("the file of another layer, degraded: nothing of it is shown", not err and got and got == without_it != whole and
              any("file of another layer" in n for n in notes), (err, notes, set(whole) ^ set(got)))


tensor_ranks()
ranks_of_stage_3()
pipelines()
layers()
slices()
never_saved()
alone()
false_ties()
done()
