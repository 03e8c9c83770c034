#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that lie beside those of a checkpoint: they are shown, or a note names them."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from made import A, B, C, check, done, optimizer  # noqa: E402
from rundir import Dir, zerofs  # noqa: E402
import mkdcp  # noqa: E402


class Save(Dir):
    def dcp(self, at, *paths):
        args = argparse.Namespace(dir=os.path.join(self.dir, at), tensors=0, ranks=1, bytes=0, torch="2.14", protocol=4, dtype="float32",
                                  sparse=False, hollow=False, plans=False, columns=False, bad="")
        os.makedirs(args.dir, exist_ok=True)
        c = mkdcp.Checkpoint(args)
        for path in paths:
            c.tensor(path, (2, 3))
        c.out[0].close()
        with open(os.path.join(args.dir, ".metadata"), "wb") as f:
            mkdcp.pickle.dump(c.metadata(), f, 4)

    def index(self, name, **files):
        self.file(name, {"metadata": {}, "weight_map": files})

    def ranks(self):
        for r in (0, 1):
            self.torch(f"model_rank_{r}.pt", {"w": A, f"w{r}": B})

    def files(self):
        r = zerofs("ls", "-R", self.dir)
        return {f for f in r.stdout.split() if not f.endswith("/")}


def told(what, make, family, *names, shown=("w.f32",)):
    """The notes that say what is not shown name these and nothing else."""
    with Save() as d:
        make(d)
        for at in (d.dir, d.dir + "/"):
            r = zerofs("info", "--json", at)
            j = json.loads(r.stdout) if r.returncode == 0 else {}
            notes = [n for n in j.get("notes", ()) if "not shown" in n]
            said = notes[0].split(" is not shown")[0].split(" are not shown")[0].split(", ") if len(notes) == 1 else notes
            check(what + (" (with a slash)" if at[-1] == "/" else ""), j.get("format") == family and said == list(names) and
                  d.files() >= set(shown), r.stderr or (j.get("format"), j.get("notes"), d.files()))


def torch_index(d):
    d.index("pytorch_model.bin.index.json", w="pytorch_model-00001-of-00002.bin")
    d.torch("pytorch_model-00001-of-00002.bin", {"w": A})


def st_index(d):
    d.index("model.safetensors.index.json", w="model-00001-of-00002.safetensors")
    d.st("model-00001-of-00002.safetensors")


def both(*parts):
    return lambda d: [p(d) for p in parts]


def st(name, key="v"):
    return lambda d: d.st(name, key)


def torch(name, value=None):
    return lambda d: d.torch(name, {"v": B} if value is None else value)


def dcp(at, *path):
    return lambda d: d.dcp(at, path or ("model", "v"))


MOMENT = ("state", "w", "exp_avg")
model, ranks = st("model.safetensors", "w"), Save.ranks
told("a file whose name begins as a word of a note does", both(lambda d: d.torch("model_rank_0.pt", {"model": {"w": A, "x": A}}),
                                                               lambda d: d.torch("model_rank_1.pt", {"model": {"w": A, "x": C}}), torch("e0.bin")), "ranks", "e0.bin")
told("a file that the index of torch.save files does not name", both(torch_index, torch("ema.bin")), "torch", "ema.bin")
told("one of its series", both(torch_index, torch("pytorch_model-00002-of-00002.bin")), "torch", "pytorch_model-00002-of-00002.bin")
told("a file that the index of safetensors does not name", both(st_index, st("adapter.safetensors")), "hf", "adapter.safetensors")
told("one of its series", both(st_index, st("model-00002-of-00002.safetensors")), "hf", "model-00002-of-00002.safetensors")
told("one of no tensors", both(st_index, lambda d: d.safetensors("model-00002-of-00002.safetensors", {})), "hf")
told("weights beside those of ranks", both(ranks, torch("ema.pt")), "ranks", "ema.pt")
told("safetensors beside ranks", both(ranks, st("ema.safetensors")), "ranks", "ema.safetensors")
told("ranks that hold copies alone", both(lambda d: [d.torch(f"model_rank_{r}.pt", {"w": A}) for r in range(3)]), "ranks")
told("what trainers leave beside ranks is shown", both(ranks, torch("optimizer.pt", optimizer(C)), torch("scheduler.pt", {"last_epoch": 3}),
     lambda d: [d.torch(f"rng_state_rank_{r}.pt", {"cpu": C}) for r in (0, 1)]), "ranks",
     shown=("w.f32", "w0.f32", "w1.f32", "optim/exp_avg/0.f32", "state/scheduler.pt.json"))
told("directories with weights beside safetensors", both(model, st("ema/model.safetensors"), torch("old/pytorch_model.bin"), torch("old/x.pt")),
     "safetensors", "ema/", "old/")
told("two levels down", both(model, st("ema/last/model.safetensors"), dcp("old/step"), st("a/b/c/model.safetensors"), torch("x/y/z.pt")),
     "safetensors", "ema/", "old/")
told("a directory with other things", both(model, lambda d: d.file("docs/vocab.bin", b"text"), torch("rng/rng_state_0.pth", {"cpu": C})), "safetensors")
told("a directory beside torch.save files", both(torch("pytorch_model.bin", {"w": A}), st("ema/model.safetensors")), "torch", "ema/")
told("a DCP save beside safetensors", both(model, dcp("model_ema")), "safetensors", "model_ema/")
told("an optimizer of DCP beside safetensors and a second one", both(model, dcp("optimizer_0", *MOMENT), dcp("optimizer_1", *MOMENT)), "hf",
     "optimizer_1/", shown=("w.f32", "optim/exp_avg/w.f32"))
told("the same beside weights of a directory", both(st("model/model.safetensors", "w"), dcp("optimizer_0", *MOMENT), dcp("optimizer_1", *MOMENT)), "hf",
     "optimizer_1/", shown=("w.f32", "optim/exp_avg/w.f32"))
told("two optimizers", both(st("model/model.safetensors", "w"), dcp("optimizer", *MOMENT), dcp("optim", *MOMENT)), "hf", "optim/")
told("safetensors beside a DCP save", both(dcp("", "model", "w"), st("ema.safetensors")), "dcp", "ema.safetensors")
told("a DCP save below another", both(dcp("", "model", "w"), dcp("optimizer", *MOMENT)), "dcp", "optimizer/")
told("torch.save files beside a DCP save", both(dcp("", "model", "w"), torch("ema.pt"), torch("ema2.pt")), "dcp", "ema.pt", "ema2.pt")
told("a directory in a save of DeepSpeed", both(torch("mp_rank_00_model_states.pt", {"module": {"w": A}}), st("ema/model.safetensors"),
     torch("logs/x.pt")), "deepspeed", "ema/")
for name, way in (("safetensors", model), ("ranks", ranks), ("dcp", dcp("", "model", "w"))):
    with Save() as d:
        both(way, torch("optimizer-00001-of-00002.bin", optimizer(C)))(d)
        r, j = d.info()
        check(f"a part of an optimizer beside {name}", [n.split(" is incomplete")[0] for n in j.get("notes", ())] == ["optimizer-00001-of-00002.bin"] and
              any("exp_avg" in f for f in d.files()), r.stderr or (j.get("notes"), d.files()))
        d.torch("optimizer-00002-of-00002.bin", optimizer(C))
        r, j = d.info()
        check("and all of it", r.returncode == 0 and not j.get("notes"), r.stderr or j.get("notes"))
with Save() as d:
    torch("optimizer.pt", optimizer(C))(d)
    r, j = d.info()
    check("an optimizer alone", r.returncode == 0 and j["notes"] == ["the save has no weights, only optimizer states"] and
          any("exp_avg" in f for f in d.files()), r.stderr or j)
    r, j = d.info("optimizer.pt")
    check("pointed at, it is what was asked for", r.returncode == 0 and not any("no weights" in n for n in j["notes"]), r.stderr or j)
    d.torch("pytorch_model.bin", {"w": A})
    r, j = d.info()
    check("and not alone", r.returncode == 0 and j["notes"] == [], r.stderr or j)
told("links to what is shown", both(dcp("step_1", "model", "w"), lambda d: os.symlink("step_1", d.path("last"))), "dcp")
done()
