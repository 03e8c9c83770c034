#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron's run directories: the tracker file, iterations that were not finished, saves that are overwritten soon, and what
NeMo and Megatron-Bridge put around them."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from made import check, done  # noqa: E402
from rundir import Dir  # noqa: E402

TRACKER = "latest_checkpointed_iteration.txt"


class Run(Dir):
    """A run directory of Megatron; what a save holds does not matter here."""

    def iteration(self, name, whole=True):
        if whole:
            self.st(f"{name}/model.safetensors")
        else:
            self.file(f"{name}/__0_0.distcp", b"")

    def tracker(self, data, at=""):
        self.file(os.path.join(at, TRACKER), data)

    def gives(self, what, tag, *notes, at="", opts=()):
        r, j = self.info(at, *opts)
        found = j.get("notes", [])
        check(what, j.get("tag") == tag and len(found) == len(notes) and
              all(n in f for n, f in zip(notes, found)), r.stderr or j)


# ---- what the tracker says -------------------------------------------------------------------------------

with Run() as d:
    for step in (10, 20, 100):
        d.iteration(f"iter_{step:07d}", whole=step < 100)
    d.iteration("release")
    for data, tag in ((b"10", "iter_0000010"), (b"20\n", "iter_0000020"), (b" \t10 \r\n\n", "iter_0000010"),
                      (b"0000020", "iter_0000020")):
        d.tracker(data)
        d.gives(f"the tracker holds {data}", tag, "iter_0000100 is newer" + (" (as are 1 more)" if tag[-2] == "1" else ""))
        d.gives("the tracker is pointed at", tag, "iter_0000100 is newer", at=TRACKER)
    for data in (b"release", b"release\n"):
        d.tracker(data)
        d.gives(f"the tracker holds {data}", "release")
    for word, tag in (("iter_0000010", "iter_0000010"), ("10", "iter_0000010"), ("release", "release"), ("latest", "release")):
        d.gives(f"tag={word}", tag, opts=("-o", "tag=" + word))
    for data in (b"", b"\n", b"ten", b"10 20", b"10\n20", b"-10", b"+10", b"1e1", b"0x10", b"10.0", b"release7", b"../10", b"..",
                 b"/etc", b"10\0", b"10\0" + b"9" * 40, b"9" * 16, b"9" * 400, "\u0661\u0660".encode(), b"\xff" * 9):
        d.tracker(data)
        d.says(f"the tracker holds {data[:30]}", 4, TRACKER, 'expected a number or "release"')
        d.gives("but a save can be asked for", "iter_0000020", opts=("-o", "tag=20"))
    d.tracker(b" " * 5000 + b"10")
    d.says("a tracker of 5,000 bytes", 4, TRACKER, "4096")
    d.tracker(b"30")
    d.says("the tracker names what is gone", 4, '"iter_0000030", which does not exist', "iter_0000010, iter_0000020, release")
    d.says("an unfinished one that is asked for", 4, "iter_0000100: the save is incomplete", ".metadata",
           opts=("-o", "tag=iter_0000100"))
    d.says("by its number", 4, "iter_0000100: the save is incomplete", opts=("-o", "tag=100"))
    d.tracker(b"100")
    d.says("or that the tracker names", 4, "iter_0000100: the save is incomplete")
    os.unlink(d.path(TRACKER))
    os.mkfifo(d.path(TRACKER))
    d.says("a FIFO as tracker", 4, TRACKER, "this is a FIFO")
    os.unlink(d.path(TRACKER))
    os.symlink("gone", d.path(TRACKER))
    d.says("a tracker that is a dangling link", 4, TRACKER)
    os.unlink(d.path(TRACKER))
    d.gives("without a tracker, the highest whole iteration", "iter_0000020", "iter_0000020 is the newest", "iter_0000100 is newer, but")
    d.gives("tag=newest", "iter_0000020", "iter_0000020 is the newest", opts=("-o", "tag=newest"))

with Run() as d:
    d.iteration("release")
    d.gives("release alone", "release", "the only one here")
    d.iteration("best")
    d.says("release and something else", 3, "there are several checkpoints here", "best, release")

with Run() as d:
    for step in (5, 10, 20):
        d.iteration(f"iter_{step:07d}")
    d.tracker(b"10")
    d.gives("a newer one that is whole", "iter_0000010", "iter_0000020 is newer than the save that is shown")
    d.tracker(b"20")
    d.gives("nothing is newer", "iter_0000020")
    os.mkdir(d.path("iter_0000030"))
    d.gives("an empty one", "iter_0000020", "iter_0000030 is newer, but unfinished or without weights")
    os.rmdir(d.path("iter_0000030"))
    d.iteration("non_persistent/iter_0000015")
    d.tracker(b"15", at="non_persistent")
    d.gives("an older non-persistent one", "iter_0000020")
    d.iteration("non_persistent/iter_0000025")
    d.tracker(b"25", at="non_persistent")
    d.gives("a newer non-persistent one", "iter_0000020", "non_persistent/iter_0000025 is newer")
    for tag in ("non_persistent/iter_0000015", "non_persistent/iter_0000025"):
        d.gives(f"tag={tag}", tag, opts=("-o", "tag=" + tag))
    d.gives("tag=non_persistent", "non_persistent/iter_0000025", opts=("-o", "tag=non_persistent"))
    d.gives("non_persistent/ pointed at", "iter_0000025", at="non_persistent")
    d.gives("an iteration pointed at", "iter_0000010", at="iter_0000010")

# ---- what is put around a save ------------------------------------------------------------------------------

def listed(d, at):
    r = d.run("ls", None, "-R", at=at)
    return r.stdout.decode().split("\n"), r.stderr.decode()


with Dir() as d:
    d.zero("nemo/weights", 5, latest=5)
    d.file("nemo/context/model.yaml", b"num_layers: 2\n")
    d.file("nemo/context/io.json", {"a": 1})
    d.file("nemo/context/notes.txt", b"x")
    d.file("nemo/context/nemo_tokenizer/tokenizer.json", {"t": 1})
    d.file("nemo/context/nemo_tokenizer/vocab.json", {"v": 1})
    names, why = listed(d, "nemo")
    check("NeMo 2's context", {"state/model.yaml", "state/io.json", "tokenizer.json", "vocab.json"} <= set(names) and
          not any("notes" in n for n in names), why or names)
    r = d.run("cat", "state/model.yaml", at="nemo")
    check("as it is", r.stdout == b"num_layers: 2\n", r)
    d.zero("bridge", 5, latest=5)
    d.file("bridge/run_config.yaml", b"model:\n  num_layers: 2\n")
    d.file("bridge/tokenizer/tokenizer.json", {"t": 2})
    d.file("bridge/tokenizer/merges.txt", b"a b\n")
    os.mkfifo(d.path("bridge/tokenizer/vocab.txt"))
    d.file("bridge/tokenizer/other.txt", b"x")
    names, why = listed(d, "bridge")
    check("Megatron-Bridge's tokenizer/", {"state/run_config.yaml", "tokenizer.json", "merges.txt"} <= set(names) and
          "vocab.txt" not in names and "other.txt" not in names, why or names)
    r, j = d.info("bridge")
    check("what cannot be shown is a note", any("tokenizer/vocab.txt is not shown" in n for n in j["notes"]), j)
    d.file("bridge/tokenizer.json", {"t": 3})
    r = d.run("cat", "tokenizer.json", at="bridge")
    check("what lies beside the weights comes first", r.stdout == b'{"t": 3}', r)
    d.zero("bridge/none", 5, latest=5)
    names, why = listed(d, "bridge/none")
    check("a run without", "tokenizer.json" not in names, why or names)

done()
