#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron's saves where they lie: every level of a run folder, saves that are not whole, two that were mixed, what lies
around them, and whose sizes are in YAML."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from golden import ZEROFS  # noqa: E402
from made import A, check, done  # noqa: E402
from rundir import Dir  # noqa: E402

DATA = os.path.join(os.environ["ZF_DATA"], "megatron")
FSDP, RUN, NEMO = "pypi_0.16.1_fsdp_dtensor_w3", "run_folder_core_0.19.2", "nemo2_layout_core_0.12.3"


class Copy(Dir):
    """A writable copy of a real save."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        super().__enter__()
        shutil.copytree(os.path.join(DATA, self.name), self.dir, dirs_exist_ok=True)
        for path, dirs, files in os.walk(self.dir):
            for f in dirs + files:
                os.chmod(os.path.join(path, f), 0o755)
        return self

    def names(self, at="", *opts):
        r = subprocess.run([ZEROFS, "ls", "-R", *opts, os.path.join(self.dir, at)], capture_output=True, text=True, timeout=60)
        return set(r.stdout.splitlines()), r.stderr

    def json(self, path, at=""):
        r = self.run("cat", path, at=at)
        return json.loads(r.stdout) if r.returncode == 0 else r.stderr


# ---- a run folder ---------------------------------------------------------------------------------------

with Copy(RUN) as d:
    for at, tag, step in (("", "iter_0000020", 20), ("iter_0000010", "iter_0000010", 10), ("iter_0000020", "iter_0000020", 20),
                          ("latest_checkpointed_iteration.txt", "iter_0000020", 20), ("iter_0000010/metadata.json", "iter_0000010", 10),
                          ("iter_0000020/.metadata", "iter_0000020", 20), ("iter_0000020/__0_0.distcp", "iter_0000020", 20),
                          ("iter_0000020/integrity.json", "iter_0000020", 20)):
        r, j = d.info(at)
        check(f"pointing at {at or 'the run'}", (j.get("format"), j.get("tag"), j.get("step")) == ("megatron", tag, step), r.stderr or j)
    r, j = d.info()
    check("the half-written one is named", any("iter_0000100 is newer, but unfinished" in n for n in j["notes"]), j)
    d.says("and refused", 4, "iter_0000100: the save is incomplete", opts=("-o", "tag=iter_0000100"))
    d.torch("iter_0000200/common.pt", {"iteration": 200})
    d.says("one with common.pt alone is refused, too", 4, "iter_0000200: the save is incomplete", "metadata.json",
           opts=("-o", "tag=200"))
    os.unlink(d.path("latest_checkpointed_iteration.txt"))
    r, j = d.info()
    check("and never chosen", j.get("tag") == "iter_0000020" and any("iter_0000200" in n for n in j["notes"]), r.stderr or j)
    os.mkdir(d.path("modelopt"))
    shutil.copytree(d.path("iter_0000010"), d.path("iter_0000020/modelopt_state"))
    r, j = d.info()
    check("modelopt_state/ is not in the way", j.get("tag") == "iter_0000020", r.stderr or j)

# ---- sums -------------------------------------------------------------------------------------------------

with Copy(RUN) as d:
    r, j = d.info()
    check("sums that are not compared are told",
          any("integrity.json has SHA-256 sums of 4 files: 2 are compared, 2 are not (__0_0.distcp, …)" in n for n in j["notes"]), j)
    for name in (".metadata", "metadata.json"):
        with open(d.path("iter_0000020/" + name), "rb") as f:
            was = f.read()
        with open(d.path("iter_0000020/" + name), "wb") as f:
            f.write(was.replace(b"linear_fc1", b"linear_fc9") if name == ".metadata" else was + b" ")
        is_now = hashlib.sha256(open(d.path("iter_0000020/" + name), "rb").read()).hexdigest()
        d.says(f"{name} is not what was summed", 4, name, "SHA-256", is_now[:16], hashlib.sha256(was).hexdigest()[:16])
        r, j = d.info("", "-o", "degraded")
        check(f"{name} is not what was summed, degraded: a note", any(f"{name}: its SHA-256 is" in n for n in j.get("notes", [])), r.stderr or j)
        with open(d.path("iter_0000020/" + name), "wb") as f:
            f.write(was)
    for text, part in ((b"{", "integrity.json"), (b'{"algorithm": "sha256", "files": {".metadata": "00"}}', "is not a SHA-256 sum")):
        with open(d.path("iter_0000020/integrity.json"), "wb") as f:
            f.write(text)
        d.says("sums that cannot be read", 4, "integrity.json", part)
    with open(d.path("iter_0000020/integrity.json"), "wb") as f:
        f.write(b'{"algorithm": "crc32c", "files": {".metadata": "00"}}')
    r, j = d.info()
    check("sums of another kind are told", any("its algorithm is crc32c" in n for n in j["notes"]), j)
    os.unlink(d.path("iter_0000020/integrity.json"))
    os.mkdir(d.path("iter_0000020/integrity.json"))
    d.says("sums in a directory", 4, "integrity.json", "this is a directory, not a file")
    os.rmdir(d.path("iter_0000020/integrity.json"))
    os.symlink("nowhere", d.path("iter_0000020/integrity.json"))
    d.says("sums behind a dangling link", 4, "integrity.json", "this is a dangling link, not a file")


def exported(d, *args):
    """What an export says, its code, and the names at its destination."""
    to = d.path("out")
    shutil.rmtree(to, ignore_errors=True)
    r = subprocess.run([ZEROFS, "export", *args, to + "/"], capture_output=True, text=True, timeout=60)
    return r, sorted(os.listdir(to)) if os.path.exists(to) else None


with Copy(RUN) as d:
    save = d.path("iter_0000020")
    r, j = exported(d, save, ".")
    check("an export of all compares every shard", r.returncode == 0 and j and "sums of 4 files: 2 were compared" in r.stderr, r.stderr)
    with open(d.path("out/state/integrity.json")) as f:
        listed = json.load(f)["files"]
    check("integrity.json is shown", set(listed) == {".metadata", "metadata.json", "__0_0.distcp", "__1_0.distcp"}, listed)
    one = "decoder.final_layernorm.weight.bf16"
    with open(d.path("iter_0000020/__1_0.distcp"), "r+b") as f:
        whole = f.read()
        at = whole.index(subprocess.run([ZEROFS, "cat", save, "output_layer.weight.bf16"], capture_output=True, check=True).stdout[-64:])
        f.seek(at)
        f.write(bytes([whole[at] ^ 1]))
        f.seek(0)
        is_now = hashlib.sha256(f.read()).hexdigest()
    r, j = exported(d, save, ".")
    check("a shard that was changed is not exported", r.returncode == 4 and j is None and "__1_0.distcp" in r.stderr and
          is_now[:16] in r.stderr and listed["__1_0.distcp"][:16] in r.stderr, (r.returncode, j, r.stderr))
    for opts in ((), ("-o", "model_cache=" + d.path("cache"))):
        r, j = exported(d, *opts, "-o", "degraded", save, ".")
        check("with degraded it is a warning", r.returncode == 0 and j and "warning" in r.stderr and "__1_0.distcp" in r.stderr, r.stderr)
    r, j = exported(d, save, one)
    check("a part of a shard is not compared, and that is said",
          r.returncode == 0 and j == [one] and "0 were compared" in r.stderr, (j, r.stderr))
    r, j = exported(d, "-q", save, one)
    check("quietly", r.returncode == 0 and r.stderr == "", r.stderr)

# ---- two saves mixed --------------------------------------------------------------------------------------

for name, where in ((RUN, "iter_0000010"), (FSDP, "iter_0000010")):
    with Copy(name) as d:
        if os.path.exists(d.path("iter_0000020")):
            shutil.rmtree(d.path("iter_0000020"))
        os.rename(d.path(where), d.path("iter_0000020"))
        d.file("latest_checkpointed_iteration.txt", b"20")
        d.says(f"{name}: the folder of another iteration", 4, "the iteration is 10, but the folder is named iter_0000020")
        r, j = d.info("", "-o", "degraded")
        check("with degraded it is a note", any("the iteration is 10" in n for n in j.get("notes", [])), r.stderr or j)
        os.rename(d.path("iter_0000020"), d.path("mine"))
        r, j = d.info("mine")
        check("a folder with a name of its own says nothing", j.get("step") == 10 and j["format"] == "megatron", r.stderr or j)

# ---- what lies around -----------------------------------------------------------------------------------------

with Copy(RUN) as d:
    d.torch("iter_0000020/train_state.pt", {"step": A, "floating": 7})
    d.torch("latest_train_state.pt", {"step": A})
    d.torch("iter_0000020/train_dataloader_dprank000.pt", {"dataloader_state_dict": {"at": 3}})
    d.file("iter_0000020/run_config.yaml", b"model:\n  num_layers: 2\n  tensor_model_parallel_size: 2\n")
    d.file("iter_0000020/tokenizer/tokenizer.json", {"t": 1})
    names, why = d.names()
    check("Megatron-Bridge's files", {"state/run_config.yaml", "tokenizer.json", "state/train_state.pt.json"} <= names, why or names)
    check("a data loader's state", any("dataloader" in n and n.startswith("state/") for n in names), names)
    check("and no weights of them", not any(n.startswith("step.") for n in names), names)

with Copy(NEMO) as d:
    for at in ("", "weights"):
        r, j = d.info(at)
        check(f"NeMo 2: pointing at {at or 'the outer folder'}", j.get("format") == "megatron", r.stderr or j)
    whole = d.names()[0]
    check("its settings and tokenizer", {"state/model.yaml", "state/io.json", "tokenizer_config.json"} <= whole, whole)
    alone = d.names("weights")[0]
    check("the tensors are the same", {n for n in whole if n.endswith((".f32", ".bf16"))} ==
          {n for n in alone if n.endswith((".f32", ".bf16"))}, whole ^ alone)
    for text, part in ((b"config: [\n", "invalid YAML at line"), (b"config:\n  num_layers: 1\n  num_layers: 3\n", "num_layers is 3"),
                       (b"num_layers: 99999999\n", "expected at most")):
        d.file("context/model.yaml", text)
        r, j = d.info()
        said = any("context/model.yaml" in n and part in n for n in j.get("notes", []))
        told = any("without libyaml" in n for n in j.get("notes", []))
        check(f"a model.yaml that cannot be read ({part}) is a note", said or told, r.stderr or j)
        check("and the sizes come from the chunks", d.names()[0] == whole, d.names())
    os.rename(d.path("weights"), d.path("model_weights"))
    shutil.rmtree(d.path("context"))
    d.file("model_config.yaml", b"num_layers: 1\n")
    d.file("0123_tokenizer.model", b"x")
    names, why = d.names()
    check("NeMo 1, unpacked", {"state/model_config.yaml", "0123_tokenizer.model"} <= names, why or names)

with Dir() as d:
    for rank in (0, 1, 10):
        d.torch(f"local/session/{rank}/iter_0000010_{rank}_local.pt", {"w": A})
    for at in ("local/session/0", "local/session", "local"):
        d.says(f"local non-persistent checkpoints: {at}", 4, "iter_0000010_0_local.pt", "nvidia-resiliency-ext", at=at)

# ---- a plain DCP directory ---------------------------------------------------------------------------------------

with Copy(FSDP) as d:
    common, optimizer = d.json("state/common.json"), d.json("state/optimizer.json")
    check("what is saved once", common["iteration"] == 10 and common["args"]["ckpt_format"] == "fsdp_dtensor" and
          not any(k.startswith(("optimizer", "model", "rng")) for k in common), common)
    check("settings a parameter", len(optimizer) == 8 * 18 and all(k.startswith("optimizer.") for k in optimizer), len(optimizer))
    names = d.names()[0]
    check("one name of a parameter everywhere", {"embedding.word_embeddings.weight.f32",
          "optim/exp_avg/embedding.word_embeddings.weight.f32", "optim/step/embedding.word_embeddings.weight.f32"} <= names and
          not any("module" in n for n in names if not n.startswith("extra/")), names)
    os.truncate(d.path("iter_0000010/__1_0.distcp"), 100000)
    d.says("a file that was cut", 4, "__1_0.distcp")
    r, j = d.info("", "-o", "degraded")
    check("degraded it is megatron still", j.get("format") == "megatron", r.stderr or j)
    os.unlink(d.path("iter_0000010/.metadata"))
    d.says("without .metadata", 4, "the save is incomplete")

done()
