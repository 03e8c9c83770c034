#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way from what was pointed at to a save: pointer files that lead astray, the words of -o tag=, lists of saves whose
advice must work, one tag everywhere, and what is said of things that are not read."""
import bz2
import io
import lzma
import os
import pickle
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from made import A, check, done  # noqa: E402
from rundir import TWO, ZEROFS, Dir, zerofs  # noqa: E402

DATA = os.environ["ZF_DATA"]


# ---- what `latest` names cannot be the save -----------------------------------------------------------

def astray(d, how):
    d.st("model.safetensors")  # must not be taken for what `latest` means
    d.file("latest", b"global_step5\n")
    how(os.path.join(d.dir, "global_step5"))


for what, how, part in (
        ("a file", lambda p: open(p, "w").close(), "it is a file, not a directory"),
        ("a dangling link", lambda p: os.symlink("gone", p), "it is a dangling link"),
        ("a FIFO", os.mkfifo, "it is a FIFO, neither a directory nor a link to one"),
        ("an empty directory", os.mkdir, "it is empty"),
        ("a link that leads out", lambda p: os.symlink("/usr", p), "leads out of the checkpoint"),
        ("a directory without a save", lambda p: (os.mkdir(p), open(p + "/notes", "w").close()),
         "it does not hold a save"),
        ("a directory of something else", lambda p: (os.mkdir(p), open(p + "/x.gguf", "wb").write(b"GGUF" * 9)),
         "x.gguf is a GGUF file")):
    for loose in (True, False):
        with Dir() as d:
            astray(d, how)
            if not loose:
                os.unlink(d.path("model.safetensors"))
            d.says(f"latest names {what}{', and a file lies beside it' if loose else ''}", 4,
                   '"global_step5", but ', part)

with Dir() as d:
    astray(d, os.mkdir)
    d.torch("global_step5/mp_rank_00_model_states.pt", {"module": {"w": A}})
    os.chmod(d.path("global_step5"), 0)
    os.chmod(d.dir, 0o755)

    def somebody():
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
    with tempfile.TemporaryDirectory() as away:
        # The build may lie where somebody else has no way to, such as in root's home.
        os.chmod(away, 0o755)
        d.says("latest names a directory that may not be read", 5, "global_step5", "Permission denied",
               preexec_fn=somebody, executable=shutil.copy(ZEROFS, away))
    os.chmod(d.path("global_step5"), 0o755)
    r, j = d.info()
    check("readable, it is the save", (j.get("format"), j.get("tag")) == ("deepspeed", "global_step5"), r.stderr or j)

with Dir() as d:
    d.st("model.safetensors")
    d.file("latest", b"global_step5\n")
    r, j = d.info()
    check("a save that was removed, its weights were kept", j.get("format") == "safetensors" and
          any("global_step5" in n and "does not exist" in n for n in j["notes"]), r.stderr or j)
    os.unlink(d.path("latest"))
    os.symlink("nowhere", d.path("latest"))
    d.says("a link called latest that dangles", 4, "latest", "link")
    os.unlink(d.path("latest"))
    d.file("latest/notes.txt", b"hello")
    r, j = d.info()
    check("a directory called latest promises nothing", j.get("format") == "safetensors", r.stderr or j)

with Dir() as d:
    d.st("model.safetensors")
    d.file("latest_checkpointed_iteration.txt", b"10")
    d.path("iter_0000010/x")
    d.says("Megatron's pointer", 4, '"iter_0000010", but it is empty')

with Dir() as d:
    d.st("model.safetensors")
    d.file("latest-rank0.pt", b"x" * 300)
    r, j = d.info()
    check("Composer's tracker that is neither text nor torch.save", j.get("format") == "safetensors", r.stderr or j)

with Dir() as d:
    for at in ("", "step-1/"):
        d.file(f"{at}latest-rank0.pt", b"x" * 300)
    d.st("step-1/model.safetensors")
    r, j = d.info()
    # LeakSanitizer ends the program with another code if the first name is not freed.
    check("the same above a save that has one, too", r.returncode == 0 and j.get("format") == "safetensors", r.stderr or j)

# ---- one tag, the one that -o tag= takes -----------------------------------------------------------------

with Dir() as d:
    for step in (500, 1500):
        d.zero(f"exp/run/checkpoint-{step}", step, latest=step)
        d.file(f"exp/run/checkpoint-{step}/trainer_state.json", {"global_step": step})
    d.zero("zero/run7", 3, 5, latest=5)
    d.file("zero/run7/config.json", {})
    d.zero("one/run7", 3, 5, latest=5)
    for step in (9, 10):
        d.torch(f"plain/step-{step}/m.pt", {"w": A})
    d.torch("slash/runs/best step=1/mp_rank_00_model_states.pt", {"module": {"w": A}})
    d.file("slash/latest", b"runs/best step=1")
    for at, tag in (("exp/run", "checkpoint-1500"), ("exp", "run/checkpoint-1500"),
                    ("exp/run/checkpoint-500", "global_step500"), ("zero/run7", "global_step5"),
                    ("zero", "run7/global_step5"), ("zero/run7/global_step3", "global_step3"),
                    ("plain", "step-10"), ("plain/step-9", "step-9"), ("slash", "runs/best step=1")):
        r, j = d.info(at)
        check(f"the tag of {at}", j.get("tag") == tag, r.stderr or j)
        s, k = d.info(at, "-o", "tag=" + tag)
        said = {"notes": 0, "note_kinds": 0}
        check("-o tag= takes it", {**j, **said} == {**k, **said}, s.stderr or (j, k))
        a, b = (zerofs("ls", "-R", "-a", "-o", o, os.path.join(d.dir, at)) for o in ("degraded", "tag=" + tag))
        check("and shows the same", a.stdout and a.stdout == b.stdout, (a.stdout, b.stdout))

    # ---- words ----
    for at, word, tag in (
            ("exp/run", "500", "checkpoint-500"), ("exp/run", "1500", "checkpoint-1500"),
            ("exp", "500", "run/checkpoint-500"), ("exp/run", "newest", "checkpoint-1500"),
            ("exp/run", "whole", "checkpoint-1500"), ("zero/run7", "3", "global_step3"),
            ("zero/run7", "newest", "global_step5"), ("zero/run7", "latest", "global_step5"),
            ("zero/run7", "whole", "global_step5"), ("plain", "9", "step-9"),
            ("zero", "run7/global_step3", "run7/global_step3"), ("slash", "latest", "runs/best step=1"),
            ("exp/run", "checkpoint-500/global_step500", "checkpoint-500/global_step500")):
        r, j = d.info(at, "-o", "tag=" + word)
        check(f"{at}: tag={word}", j.get("tag") == tag, r.stderr or j)
    d.zero("zero/run7", 20)
    os.truncate(d.path("zero/run7/global_step20/mp_rank_00_model_states.pt"), 100)
    d.says("tag=newest is the newest, whole or not", 4, "global_step20", at="zero/run7", opts=("-o", "tag=newest"))
    r, j = d.info("zero/run7", "-o", "tag=whole")
    check("tag=whole passes over what cannot be opened, and says so", j.get("tag") == "global_step5" and
          any("global_step20" in n and "not whole" in n for n in j["notes"]), r.stderr or j)
    r, j = d.info("zero/run7", "-o", "tag=whole,degraded")
    check("tag=whole with degraded", j.get("tag") == "global_step5", r.stderr or j)
    for step in (3, 5):
        os.truncate(d.path(f"zero/run7/global_step{step}/mp_rank_00_model_states.pt"), 100)
    d.says("none is whole", 4, "none of the 3 saves here is whole", "global_step20", at="zero/run7",
           opts=("-o", "tag=whole"))
    d.says("no such step", 2, 'no save "7"', "checkpoint-500", at="exp/run", opts=("-o", "tag=7"))
    d.says("latest, and nothing says which", 2, "the latest save is not recorded", at="plain", opts=("-o", "tag=latest"))
    d.torch("plain/epoch-9/m.pt", {"w": A})
    d.says("a step that two saves have", 2, "tag=9", "epoch-9, step-9", at="plain", opts=("-o", "tag=9"))
    d.torch("plain/newest/m.pt", {"w": A})
    r, j = d.info("plain", "-o", "tag=newest")
    check("a directory of that name comes first", j.get("tag") == "newest", r.stderr or j)
    d.torch("names/best/m.pt", {"w": A})
    d.torch("names/last/m.pt", {"w": A})
    d.says("names without steps", 2, "best, last", at="names", opts=("-o", "tag=newest"))
    for word in ("newest", "whole"):
        r, j = d.info("plain/step-9", "-o", "tag=" + word)
        check(f"tag={word} of a save is the save", j.get("tag") == "step-9", r.stderr or j)
    d.says("tag= of a file", 2, "tag=9 selects one of the saves in a directory", at="plain/step-9/m.pt",
           opts=("-o", "tag=9"))
    with open(d.path("zero/run7/global_step5/mp_rank_00_model_states.pt"), "wb"):
        pass

# ---- lists of saves: following the advice works --------------------------------------------------------

def advice(what, path):
    """Each NAME that a refusal lists opens, or is refused for a reason of its own."""
    r = zerofs("info", path)
    m = re.search(r": ([^:]*)\. Point at one of them, or (?:mount all|select one) with -o (?:all_tags|tag=NAME)$", r.stderr.strip())
    if not m:
        return []
    names = [n for n in m[1].split(", ") if n != "…"]
    bad = []
    for name in names:
        one = zerofs("info", "-o", "tag=" + name, path)
        own = one.returncode == 3 and "files of several checkpoints" in one.stderr
        if not (own or one.returncode in (0, 4)) or not os.path.isdir(os.path.join(path, name)):
            bad.append((name, one.returncode, one.stderr))
    check(f"the advice for {what}: {', '.join(names)[:60]}", names and not bad, bad)
    return names


with Dir() as d:
    for rank in ("00_000", "00_001", "01_000"):
        d.torch(f"megatron/iter_0000010/mp_rank_{rank}/model_optim_rng.pt", {"model": {"w": A}})
    d.file("megatron/latest_checkpointed_iteration.txt", b"10")
    for part in ("model", "optim", "train"):
        d.torch(f"local/{part}/rank0.pt", {"w": A})
        d.torch(f"several/local/{part}/rank0.pt", {"w": A})
    d.torch("several/run/step5/m.pt", {"w": A})
    for array in "abcd":
        d.file(f"zarr/iter_0000010/{array}/.zarray", {"chunks": [1]})
    d.file("zarr/iter_0000010/metadata.json", {"sharded_backend": "zarr", "sharded_backend_version": 1})
    d.torch("zarr/iter_0000010/common.pt", {"iteration": 10})
    for part in ("rng_state", "decoder.layers._extra_state"):
        d.torch(f"zarr/iter_0000010/{part}/shard_0_1.pt", {"w": A})
    d.file("zarr/latest_checkpointed_iteration.txt", b"10")
    d.st("plain/best/model.safetensors")
    d.torch("plain/last/m.pt", {"w": A})
    want = {"local": "model", "several": "local", "plain": "best"}
    for at, name in want.items():
        names = advice(at, os.path.join(d.dir, at))
        check(f"{at}: {name}", name in names, names)
    d.says("parts of one save are not called checkpoints", 4, "there are several models in one directory", at="local")
    for at in ("zarr", "zarr/iter_0000010"):
        d.says(f"pieces of {at} are not called saves", 4, "iter_0000010/a/.zarray: zarr_format is missing", at=at)
    os.remove(os.path.join(d.dir, "zarr/iter_0000010/metadata.json"))
    d.says("a zarr save without its end is incomplete", 4, "the save is incomplete", "metadata.json", at="zarr/iter_0000010")
    os.remove(os.path.join(d.dir, "zarr/iter_0000010/common.pt"))
    d.says("zarr arrays alone are no save", 4, "iter_0000010: this is a directory of zarr arrays", "metadata.json",
           at="zarr/iter_0000010")

for top in [DATA, *os.environ.get("ZF_FIXTURES", "").split()]:
    for path, dirs, _ in os.walk(top):
        dirs.sort()
        advice(os.path.relpath(path, top), path)

# ---- files of weights beside saves ---------------------------------------------------------------------

def beside(what, d, at, tag, *notes, opts=()):
    r, j = d.info(at, *opts)
    found = [n for n in j.get("notes", []) if "newest of" not in n and "the only one here" not in n]
    check(what, j.get("tag") == (tag or "") and len(found) == len(notes) and all(n in f for n, f in zip(notes, found)),
          r.stderr or j)


NOT_SHOWN = "old.pt is not shown"
with Dir() as d:
    for step in (10, 20):
        d.st(f"run/iter_00000{step}/model.safetensors")
        d.st(f"epochs/epoch_{step}/model.safetensors")
    d.torch("run/old.pt", {"x": A})
    beside("a stray file does not hide the saves of a run", d, "run", "iter_0000020", NOT_SHOWN)
    beside("it is shown when it is pointed at", d, "run/old.pt", None)
    beside("or its format is asked for", d, "run", None, "iter_0000010/, iter_0000020/ are not shown", opts=("-o", "format=torch"))
    beside("a save that is asked for", d, "run", "iter_0000010", opts=("-o", "tag=10"))
    d.file("run/latest_checkpointed_iteration.txt", b"10")
    beside("nor what the tracker names", d, "run", "iter_0000010", "iter_0000020 is newer", NOT_SHOWN)
    os.unlink(d.path("run/latest_checkpointed_iteration.txt"))
    d.torch("run/older.pth", {"y": A})
    d.torch("run/rng_state_0.pth", {"y": A})
    beside("several stray files", d, "run", "iter_0000020", "old.pt, older.pth are not shown")
    d.file("run/config.json", {"model_type": "llama"})
    beside("a configuration makes torch.save files no model of a Megatron run", d, "run", "iter_0000020", "old.pt, older.pth")
    d.st("epochs/stray.safetensors")
    d.st("epochs/step_3/model.safetensors")
    d.says("saves of two series and a stray file", 3, "there are several checkpoints here", "epoch_10, epoch_20, step_3", at="epochs")
    d.file("unfinished/iter_0000010/__0_0.distcp", b"")
    d.torch("unfinished/old.pt", {"x": A})
    beside("beside a save that was not finished the file is shown", d, "unfinished", None, "1 save next to them is unfinished",
           "iter_0000010/ is not shown")

with Dir() as d:
    d.zero("zero", 3, 4)
    r, j = d.info("zero")
    check("DeepSpeed's saves without latest: the newest, and a note", j.get("tag") == "global_step4" and
          "global_step4 is the newest of 2 saves here" in j["notes"], r.stderr or j)
    d.torch("zero/pytorch_model.bin", {"x": A})
    beside("what zero_to_fp32 left does not hide a ZeRO save", d, "zero", "global_step4",
           "pytorch_model.bin is not shown")
    d.file("zero/config.json", {"model_type": "llama"})
    beside("nor with a configuration", d, "zero", "global_step4", "pytorch_model.bin is not shown")
    d.file("zero/latest", b"global_step3")
    beside("nor an older one, and that a newer one is beside it is told", d, "zero", "global_step3", "global_step4 is newer than the save that is shown",
           "pytorch_model.bin is not shown")
    beside("the same, of the format that was asked for", d, "zero", "global_step3", "global_step4 is newer", opts=("-o", "format=deepspeed"))
    beside("not of a save that was asked for", d, "zero", "global_step3", opts=("-o", "tag=global_step3"))
    d.file("zero/latest", b"global_step4")
    beside("nor where latest names it", d, "zero", "global_step4", "pytorch_model.bin is not shown")

for at, there in (("zero3_w2_gather16", True), ("zero3_w2_universal", False), ("zero2_w2", False)):
    with Dir() as d:
        shutil.copytree(os.path.join(DATA, "deepspeed", at), d.path("run"), ignore=shutil.ignore_patterns("*.json", "expected*", "truth*"))
        found = [n for n in d.info("run")[1]["notes"] if "not shown" in n]
        check(f"{at}: nothing is said not to be shown", not found, found)
        d.torch("run/unlike.bin", {"x": A})
        if not there:
            d.torch("run/pytorch_model.bin", {"x": A})
        d.torch("run/nothing.pt", {"version": 3})
        found = [n for n in d.info("run")[1]["notes"] if "not shown" in n]
        check(f"{at}: files of tensors are named that are not shown, no others", len(found) == 1 and "unlike.bin" in found[0] and
              ("pytorch_model.bin" in found[0]) != there and "nothing.pt" not in found[0], found)

for name in ("model.safetensors", "pytorch_model.bin"):
    with Dir() as d:
        if name.endswith(".bin"):
            d.torch("run/" + name, {"x": A})
        else:
            d.st("run/" + name)
        for step in (5, 15):
            d.st(f"run/checkpoint-{step}/model.safetensors")
        beside(f"{name} without a configuration, beside saves", d, "run", "checkpoint-15", name + " is not shown")
        d.file("run/config.json", {"model_type": "llama"})
        beside(f"a trainer's last model of {name}", d, "run", None, "checkpoint-5, checkpoint-15 next to them are saves")
        beside("and its saves", d, "run", "checkpoint-15", opts=("-o", "tag=newest"))

# ---- files without a tensor ------------------------------------------------------------------------------

with Dir() as d:
    d.torch("run/step_1/step_scheduler.pt", {"steps": 1})
    d.says("a file without a tensor makes no checkpoint", 3, "there is no checkpoint here", at="run")
    d.says("nor where it lies", 3, "there is no checkpoint here", at="run/step_1")
    r, j = d.info("run/step_1/step_scheduler.pt")
    check("pointed at, it is shown with a note", "it holds no tensors" in j.get("notes", []), r.stderr or j)
    d.st("run/step_1/model/model.safetensors")
    r, j = d.info("run")
    check("what lies below is found", j.get("tag") == "run/step_1/model" or j.get("tag") == "step_1/model", r.stderr or j)
    d.safetensors("empty/model.safetensors", {})
    d.says("a mount of no tensors", 3, "this save holds no tensors", at="empty")

# ---- a format that is not there --------------------------------------------------------------------------

with Dir() as d:
    d.zero("zero", 3, 5, latest=5)
    d.st("mega/iter_0000010/model.safetensors")
    for at, name, is_in, found in (("zero", "megatron", "deepspeed", "global_step5"), ("zero", "olmo", "deepspeed", "global_step5"),
                                   ("zero/global_step3", "dcp", "deepspeed", "it"), ("mega", "dcp", "safetensors", "iter_0000010")):
        d.says(f"{at} as {name}", 3, f"there is nothing here in the format {name}, which was asked for: {found} is in the format {is_in}",
               at=at, opts=("-o", "format=" + name))

# ---- saves of which a part is left -------------------------------------------------------------------------

with Dir() as d:
    for step in (3, 4, 5):
        shutil.copytree(os.path.join(DATA, "deepspeed/zero2_w2/global_step3"), d.path(f"run/global_step{step}"))
    for name in os.listdir(d.path("run/global_step5")):
        if "optim_states" in name:
            os.unlink(d.path("run/global_step5/" + name))
    for what, opts in (("newest", ("-o", "tag=newest")), ("whole", ("-o", "tag=whole")), ("nothing", ())):
        r, j = d.info("run", *opts)
        check(f"a save without its optimizer is passed over: {what}", j.get("tag") == "global_step4" and
              any("unfinished" in n for n in j["notes"]), r.stderr or j)
    r, j = d.info("run", "-o", "tag=5")
    check("asked for, it is opened", j.get("tag") == "global_step5", r.stderr or j)
    for step in (3, 4):
        for name in os.listdir(d.path(f"run/global_step{step}")):
            if "optim_states" in name:
                os.unlink(d.path(f"run/global_step{step}/{name}"))
    r, j = d.info("run", "-o", "tag=whole")
    check("where none has one, nothing is missing", j.get("tag") == "global_step5", r.stderr or j)

with Dir() as d:
    for step in (10, 20):
        shutil.copytree(os.path.join(DATA, "megatron/megatron_torch_dist_v0.11.0_torch2.6/iter_0000010"), d.path(f"run/iter_00000{step}"))
    for name in ("metadata.json", "common.pt"):
        os.unlink(d.path("run/iter_0000020/" + name))
    d.says("what is left of a Megatron save is no plain DCP save", 4, "the save is incomplete", "Megatron", "metadata.json",
           at="run/iter_0000020")
    for text, part in ((b'{"sharded_backend": "torch_dist", "\xff": 1}', "metadata.json: byte 35: not valid JSON"),
                       (b'{"sharded_bac": "torch_dist"}', 'metadata.json has no "sharded_backend"')):
        d.file("run/iter_0000020/metadata.json", text)
        d.says("nor with a damaged manifest", 4, part, at="run/iter_0000020")
    os.unlink(d.path("run/iter_0000020/metadata.json"))
    for what, opts in (("newest", ("-o", "tag=newest")), ("whole", ("-o", "tag=whole")), ("nothing", ())):
        r, j = d.info("run", *opts)
        check(f"it is passed over: {what}", j.get("tag") == "iter_0000010" and any("unfinished" in n for n in j["notes"]),
              r.stderr or j)

# ---- links and files that name a save ------------------------------------------------------------------------

for link in (True, False):
    with Dir() as d:
        def name(where, what):
            if link:
                os.symlink(what, d.path(where))
            else:
                d.file(where, what.encode() + b"\n" * (where == "auto/LATEST"))
        for step in (1, 2):
            d.st(f"auto/epoch_0_step_{step}/model.safetensors")
            d.st(f"composer/ckpt/ep0-ba{step}/model.safetensors")
            d.torch(f"ddp/ep0-ba{step}-rank0.pt", {"state": {"model": {f"w{step}": A}}})
            d.st(f"sky/global_step_{step}/policy/model.safetensors")
        name("auto/LATEST", "epoch_0_step_1")
        name("auto/LOWEST_VAL", "epoch_0_step_2")
        name("composer/ckpt/latest-rank0.pt", "ep0-ba1")
        name("ddp/latest-rank0.pt", "ep0-ba1-rank0.pt")
        d.file("sky/latest_ckpt_global_step.txt", b"1")
        how = "link" if link else "text"
        for at, tag in (("auto", "epoch_0_step_1"), ("composer/ckpt", "ep0-ba1"), ("composer", "ckpt/ep0-ba1"),
                        ("sky", "global_step_1/policy"), ("sky/latest_ckpt_global_step.txt", "global_step_1/policy")):
            r, j = d.info(at)
            check(f"{how}: the save that is named in {at}", j.get("tag") == tag, r.stderr or j)
        if not link:
            for at, tag in (("auto/LATEST", "epoch_0_step_1"), ("composer/ckpt/latest-rank0.pt", "ep0-ba1")):
                r, j = d.info(at)
                check(f"{how}: {at} means its directory", j.get("tag") == tag, r.stderr or j)
        r, j = d.info("auto")
        check(f"{how}: a newer one is told", any("epoch_0_step_2 is newer" in n for n in j["notes"]), j)
        for word, tag in (("latest", "epoch_0_step_1"), ("LOWEST_VAL", "LOWEST_VAL" if link else "epoch_0_step_2")):
            r, j = d.info("auto", "-o", "tag=" + word)
            check(f"{how}: tag={word}", j.get("tag") == tag and j.get("step") == int(tag[-1]) if tag[-1] != "L" else
                  j.get("tag") in (tag, "epoch_0_step_2"), r.stderr or j)
        r, j = d.info("ddp")
        check(f"{how}: the file that is named is the save", any("latest save" in n for n in j["notes"]), r.stderr or j)
        r = zerofs("ls", "-R", d.path("ddp"))
        check(f"{how}: and no other", "w1" in r.stdout and "w2" not in r.stdout, r.stderr or r.stdout)
        name("auto/gone/LATEST", "step_7")
        d.st("auto/gone/step_6/model.safetensors")
        d.says(f"{how}: LATEST that names nothing", 4, "LATEST" if link else "step_7", at="auto/gone")

# ---- names that look like a link's or a part's ------------------------------------------------------------

for alone in ("latest_model", "latest-checkpoint", "latest_universal", "LOWEST_VAL"):
    with Dir() as d:
        d.st(f"{alone}/model.safetensors")
        r, j = d.info()
        check(f"{alone}/ is a save", j.get("tag") == alone, r.stderr or j)
        d.st("best/model.safetensors")
        d.says(f"{alone}/ is one of two", 3, alone, "best")
        os.symlink("best", d.path("latest_best"))
        os.symlink("best", d.path("LATEST_of_all"))
        d.says("links to one of them are not counted", 3, "here: " + ", ".join(sorted((alone, "best"))) + ".")
with Dir() as d:
    d.st("step_5/model.safetensors")
    d.st("latest_step_10/model.safetensors")
    d.says("latest_step_10/ is not passed over", 3, "step_5", "latest_step_10")
for kind in ("model", "optim", "remodeled"):
    with Dir() as d:
        for step in (9, 10):
            d.st(f"{kind}_step_{step}/model.safetensors")
        r, j = d.info()
        check(f"the newest of {kind}_step_N", j.get("tag") == f"{kind}_step_10" and j.get("step") == 10, r.stderr or j)
        r, j = d.info("", "-o", "tag=9")
        check("and one by its number", j.get("tag") == f"{kind}_step_9", r.stderr or j)
        d.st(f"rank_3_{kind}_step_20/model.safetensors")
        d.says("what counts ranks is no step", 2, "20", opts=("-o", "tag=20"))

# ---- what is there and not read ------------------------------------------------------------------------

def tar_of(mode):
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode=mode) as t:
        t.addfile(tarfile.TarInfo("model.safetensors"), io.BytesIO())
    return f.getvalue()


def zip_of(name):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr(name, "x")
    return f.getvalue()


FILES = (
    ("m.gguf", b"GGUF\3\0\0\0" + bytes(80), "a GGUF file"),
    ("weights.h5", b"\x89HDF\r\n\x1a\n" + bytes(80), "an HDF5 file"),
    ("m.onnx", b"\x08\x08\x12\x07pytorch" + bytes(80), "an ONNX model"),
    ("m.tflite", b"\x1c\0\0\0TFL3" + bytes(80), "a TensorFlow Lite model"),
    ("m.keras", zip_of("config.json"), "a Keras archive"),
    ("a.npz", zip_of("w.npy"), "a NumPy archive"),
    ("a.npy", b"\x93NUMPY\1\0" + bytes(80), "a NumPy array"),
    ("flax_model.msgpack", b"\x81\xa5model\xc0", "a msgpack file"),
    ("checkpoint_100", b"\x82\xa5state\xc0\xa4step\1", "a msgpack file"),
    ("model.pkl", pickle.dumps({"w": [1.0]}, 4), "a pickle that torch.save did not write"),
    ("model2.pkl", pickle.dumps({"w": [1.0]}, 2), "a pickle that torch.save did not write"),
    ("model0.pkl", pickle.dumps({"w": [1.0]}, 0), "a pickle that torch.save did not write"),
    ("c.tar", tar_of("w"), "a tar archive"),
    ("c.nemo", tar_of("w"), "a NeMo archive"),
    ("c.tar.gz", tar_of("w:gz"), "a gzip archive"),
    ("c.tar.xz", lzma.compress(b"x"), "an xz archive"),
    ("c.tar.bz2", bz2.compress(b"x"), "a bzip2 archive"),
    ("c.tar.zst", b"\x28\xb5\x2f\xfd" + bytes(20), "a zstd archive"),
    ("c.7z", b"7z\xbc\xaf\x27\x1c" + bytes(20), "a 7z archive"),
    ("c.zip", zip_of("model.safetensors"), "a zip archive that torch.save did not write"),
    ("t.parquet", b"PAR1" + bytes(20), "a Parquet table"),
    ("model.bin", b"<!DOCTYPE html><html>", "a web page"),
    ("cut.safetensors.incomplete", b"\0" * 20, "an incomplete download"),
)
for name, data, what in FILES:
    with Dir() as d:
        d.file("some/where/" + name, data)
        d.file("some/readme.txt", b"hello")
        d.says(f"pointing at {name}", 4, f"{name}: this is {what}", "which zerofs does not read",
               at="some/where/" + name)
        d.says(f"{name}, two directories down", 4, f"there is no checkpoint here; some/where/{name} is {what}")

with Dir() as d:
    d.file("orbax/1000/_CHECKPOINT_METADATA", {})
    d.file("orbax/1000/default/manifest.ocdbt", b"x")
    d.file("orbax/1000/default/_METADATA", {})
    d.file("tf/saved_model.pb", b"\x08\1")
    d.file("tf/variables/variables.index", bytes(40) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb")
    d.file("ckpt/checkpoint", b'model_checkpoint_path: "model-5"\n')
    d.file("ckpt/model-5.index", bytes(40) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb")
    d.file("ckpt/model-5.data-00000-of-00001", bytes(40))
    d.file("snap/.snapshot_metadata", b"version: 0.1.0\nworld_size: 1\n")
    d.file("snap/0/model/weight", bytes(24))
    d.file("dict/meta.json", {"shape": [], "_type": "<class 'tensordict._td.TensorDict'>"})
    d.file("dict/weight.memmap", bytes(24))
    head = b'{"__metadata__":{},"data":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    whole = len(head).to_bytes(8, "little") + head + bytes(4)
    shard = "model/model/lm_head/pp_block/model_weight_pp-rank-0-of-1_tp-rank-0-of-2.safetensors"
    for step in ("10", "20"):
        d.file(f"nanorun/{step}/checkpoint_metadata.json", {"version": "1.2"})
        d.file(f"nanorun/{step}/{shard}", whole)
        d.file(f"nanorun/{step}/model/model/decoder/0/pp_block/norm/model_weight.safetensors", whole)
        d.torch(f"nanorun/{step}/random/tp-0-of-2_dp-0-of-1_pp-0-of-1.pt", {"w": A})
        d.torch(f"nanorun/{step}/optimizer/optimizer_pp-0-of-1_dp-0-of-2_tp-0-of-2_exp-0-of-1.pt", {"state": {0: {"exp_avg": A}}})
        d.torch(f"fair/checkpoints/step_{step}/model/pp_00/tp_00/sdp_00.pt", {"w": A})
        d.torch(f"fair/checkpoints/step_{step}/optimizer/pp_00/tp_00/sdp_00.pt", {"w": A})
        d.torch(f"fair/checkpoints/step_{step}/trainer/rank_00.pt", {"w": A})
        d.torch(f"fair/checkpoints/step_{step}/data_reader/dp_00.pt", {"w": A})
        d.file(f"paddle/{step}/0.metadata", b"\x80\4.")
        d.file(f"paddle/{step}/0_0.distcp", b"\x80\4.")
    d.file("pdp/0_0.distcp", b"\x80\4.")
    part = "one part of a nanotron save"
    for at, what in (("nanorun/10/model", part), ("nanorun/10/model/model/decoder", part), ("nanorun/10/model/model/lm_head/pp_block", part),
                     ("nanorun/10/random", part), ("nanorun/10/optimizer", part),
                     ("fair", "a save of fairseq2"), ("fair/checkpoints/step_10", "a save of fairseq2"),
                     ("fair/checkpoints/step_10/model", "one part of a fairseq2 save"),
                     ("fair/checkpoints/step_10/model/pp_00/tp_00", "one part of a fairseq2 save"),
                     ("paddle", "a save of PaddlePaddle"),
                     ("paddle/10", "a save of PaddlePaddle"), ("pdp/0_0.distcp", "a save of PaddlePaddle")):
        d.says(f"a save that no part stands for: {at}", 4, "this is " + what, "which zerofs does not read", at=at)
    for at in ("nanorun/10/" + shard, "fair/checkpoints/step_10/model/pp_00/tp_00/sdp_00.pt"):
        r, j = d.info(at)
        check(f"one file of it, with a note: {os.path.basename(at)}", any("this file is one of several" in n for n in j.get("notes", [])),
              r.stderr or j)
    d.torch("metatmp/tmp_10/model_0.pt", {"w": A})
    d.says("a save of torch_checkpointing that is being written", 3, '"tmp_10", was still being written', at="metatmp")
    d.st("metatmp/tmp_data/model.safetensors")
    d.says("another folder of such a name is none", 3, '"tmp_10", was still being written', at="metatmp")
    d.st("sole/a/b/model.safetensors")
    d.file("sole/c/notes", b"x")
    r, j = d.info("sole")
    check("the only one is said where all was looked at", any("the only one here" in n for n in j["notes"]), r.stderr or j)
    d.st("sole/c/d/e/f/g/model.safetensors")
    r, j = d.info("sole")
    check("and not where something was not", any("is in a/b" in n and "only" not in n for n in j["notes"]), r.stderr or j)
    for at, what in (("snap", "a save of torchsnapshot"), ("dict", "memory-mapped arrays (TensorDict and others)"),
                     ("orbax", "1000/_CHECKPOINT_METADATA: this is an Orbax checkpoint"), ("orbax/1000", "an Orbax checkpoint"),
                     ("orbax/1000/default", "an Orbax checkpoint"), ("tf", "a TensorFlow SavedModel"),
                     ("tf/variables", "a TensorFlow checkpoint"), ("ckpt", "a TensorFlow checkpoint")):
        d.says(f"a directory: {at}", 4, what, "which zerofs does not read", at=at)

with Dir() as d:
    d.path("hub/blobs/0123")
    os.makedirs(d.path("hub/snapshots/abc"))
    os.symlink("../../blobs/0123", d.path("hub/snapshots/abc/model.safetensors"))
    d.file("hub/snapshots/abc/config.json", {})
    for at in ("hub", "hub/snapshots/abc"):
        d.says(f"a Hub cache whose link dangles: {at}", 4, "abc/model.safetensors: this is a link to ", at=at)

with Dir() as d:
    d.path("hub/blobs/0123")
    os.makedirs(d.path("hub/snapshots/abc"))
    os.symlink("../../blobs/0123", d.path("hub/snapshots/abc/model.gguf"))
    d.says("a cache of something else whose link dangles", 4, "abc/model.gguf: this is a link to a missing file",
           at="hub")

with Dir() as d:
    d.file("lfs/model.bin.index.json.bak", b"{}")
    d.file("lfs/weights.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    d.says("a pointer of Git LFS, one directory down", 4, "lfs/weights.bin: this is a Git LFS pointer")

with Dir() as d:
    d.file("model.gguf", b"GGUF" + bytes(80))
    d.file("data.zarr/.zarray", {})
    d.torch("run/step-5/m.pt", {"w": A})
    r, j = d.info()
    check("a checkpoint beside other things is found", j.get("tag") == "run/step-5", r.stderr or j)

for address in ("ftp://host/run7", "azure://container/x"):
    for command in (("info",), ("ls",), ("mount",)):
        r = zerofs(*command, address, *(["/nonexistent"] if command == ("mount",) else []))
        check(f"{command[0]} {address}", r.returncode == 4 and address in r.stderr and "local paths" in r.stderr,
              (r.returncode, r.stderr))

done()
