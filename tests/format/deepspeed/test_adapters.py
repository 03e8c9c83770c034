#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adapter/<name>/ of every method of PEFT has the names and values that PEFT's own file has, or is not there and a note says why.

tests/data/peft/names_0.21.2.json: of a model with an adapter, its state, what is trained, and of which tensor each of
get_peft_model_state_dict's names is (null: of none).
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import makeds  # noqa: E402
import makemp  # noqa: E402
from makeds import State  # noqa: E402
from tap import check, done  # noqa: E402

DATA = os.environ.get("ZF_DATA", "tests/data")
DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")
MODEL = "mp_rank_00_model_states.pt"
with open(os.path.join(DATA, "peft", "names_0.21.2.json"), encoding="utf-8") as file:
    METHODS = json.load(file)
# What PEFT saves of these is computed, or is in no state dict; Shadow's modules are a model of their own.
UNSHOWN = {"prefix_proj", "ptuning", "cpt", "shira", "cartridge", "shadow"}


def named(text, adapter):
    """A name of the table, of an adapter called so."""
    head = "base_model.model.model.layers.0.self_attn."
    parts = [adapter if p == "NAME" else p for p in text.split(".")]
    return (head + ".".join(parts[1:])) if parts[0] == "L" else ".".join(parts)


class Save:
    """A run of DeepSpeed's that trains one or several adapters."""

    def __init__(self, *adapters, wrapper="", more=()):
        """adapters: (row of the table, name)."""
        trained, others, self.ties, self.saved = OrderedDict(), OrderedDict(), {}, {}
        for case, adapter in adapters:
            trained.update({wrapper + named(n, adapter): s for n, s in case["trained"].items()})
            others.update({wrapper + named(n, adapter): s for n, s in case["others"].items()})
            self.ties.update({wrapper + named(a, adapter): wrapper + named(b, adapter) for a, b in case["ties"].items()})
            self.saved[adapter] = {named(k, adapter): v and wrapper + named(v, adapter) for k, v in case["saved"].items()}
        trained.update(dict(more))
        self.state = State(trained, buffers={n: s for n, s in others.items() if n not in trained})
        self.files = makeds.zero12(self.state, 2)
        model = self.files[MODEL]
        for alias, of in self.ties.items():
            model["module"][alias] = model["module"][of]
        model["shared_params"] = {a: b for a, b in self.ties.items() if b in trained}

    def freeze(self, *names):
        """As buffers: they are in the model's state and no optimizer's."""
        group = self.state.groups[0]
        frozen = {n: group.pop(n) for n in list(group) if n in names}
        self.state = State(group, buffers={**self.state.buffers, **frozen})
        self.files = makeds.zero12(self.state, 2)

    def adapters(self, config=None, beside="adapter_config.json"):
        """{adapter: {name: (dtype, shape, hex)}}, the notes, the adapters with settings, the error."""
        with tempfile.TemporaryDirectory() as run:
            makeds.write(run + "/step", self.files)
            with open(run + "/latest", "w", encoding="utf-8") as f:
                f.write("step")
            if config is not None:
                path = os.path.join(run, beside)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(config if isinstance(config, str) else json.dumps(config))
            out = subprocess.run([DUMP, run], capture_output=True, text=True, timeout=60)
        got, notes, files = {}, [], set()
        for row in (line.split("\t") for line in out.stdout.splitlines()):
            if row[0] == "tensor" and row[1].startswith("adapter/"):
                got.setdefault(row[1][8:], {})[row[2]] = tuple(row[3:6])
            if row[0] == "note":
                notes.append(row[1])
            if row[0] == "blob" and row[1].endswith("/adapter_config.json"):
                files.add(row[1].split("/")[1])
        return got, notes, files, out.stderr.strip()

    def want(self, adapter):
        """As PEFT would save it; of what is trained the master."""
        full = self.state.expected()
        return {k: full["", self.ties.get(v, v)] for k, v in self.saved[adapter].items()}


def is_as_saved(title, save, *adapters, config=None):
    got, notes, files, err = save.adapters(config)
    want = {a: save.want(a) for a in adapters}
    wrong = [(a, k) for a in {*got, *want} for k in {*got.get(a, {}), *want.get(a, {})} if got.get(a, {}).get(k) != want.get(a, {}).get(k)]
    check(title, not err and not wrong, f"{err} {sorted(wrong)[:4]} {[n for n in notes if 'adapter' in n]}")
    check(f"{title}: no note", not [n for n in notes if "adapter" in n], notes)
    if config:
        check(f"{title}: settings", files, files)


def is_not_there(title, save, *words, config=None, left=(), beside="adapter_config.json"):
    """The note has these words."""
    got, notes, files, err = save.adapters(config, beside)
    notes = [n for n in notes if "adapter/" in n]
    check(title, not err and set(got) == set(left) and len(notes) == 1 and all(w in notes[0] for w in words) and files <= set(left),
          f"{err} {sorted(got)} {notes} {files}")


for method, row in METHODS.items():
    if method in UNSHOWN:
        is_not_there(f"{method} is told", Save((row, "default")), "adapter/default/", config=row["config"])
        continue
    for called in ("default", "ad", "layers", "weight"):
        if called == "weight" and method not in ("lora", "lora_mts", "lora_lora_bias"):
            continue  # as the last of a name it is a parameter's
        nameless = row["config"]["peft_type"] == "ADAPTION_PROMPT"
        s = Save((row, called))
        if nameless and called != "default":
            continue  # no adapter's name is in the names
        is_as_saved(f"{method} called {called}", s, called, config=row["config"] if called == "default" else None)
is_as_saved("adalora below a wrapper", Save((METHODS["adalora"], "default"), wrapper="module."), "default")

LORA, ADALORA, VERA, PREFIX, TOKENS = (METHODS[n] for n in ("lora", "adalora", "vera", "prefix", "lora_tok"))
Q = "base_model.model.model.layers.0.self_attn.q_proj."

# Two adapters: both trained; one frozen, as a reference is; one of a method that is not known.
is_as_saved("two adapters", Save((LORA, "default"), (TOKENS, "other")), "default", "other")
two = Save((LORA, "default"), (TOKENS, "other"))
two.freeze(*[n for n in two.state.names() if ".other" in n])
is_as_saved("a frozen adapter", two, "default", "other")
new = Save((LORA, "default"), (LORA, "other"), more={Q + "nova_A.other.weight": (2, 3)})
is_not_there("one of two is not known", new, "adapter/other/", "nova_A", left=["default"])

# What is trained and has no name in any adapter's file.
new = Save((LORA, "default"), more={Q + "nova_A.default.weight": (2, 3)})
is_not_there("a method that is not known", new, "adapter/default/", "nova_A")
new = Save(({"trained": {"L.q_proj.nova_A.NAME": (2, 3)}, "others": LORA["others"], "ties": {}, "saved": {}}, "mine"))
is_not_there("an adapter of a method that is not known, alone", new, "nova_A")
# A trained parameter of the model is in the file under its own name, as a bias is; PEFT loads it.
base = Save((LORA, "score"), more={"base_model.model.score.weight": (3, 4)})
base.saved["score"]["base_model.model.score.weight"] = "base_model.model.score.weight"
is_as_saved("a trained layer of the model, called as the adapter", base, "score")

# Settings that say otherwise.
is_not_there("settings of another method", Save((ADALORA, "default")), "LOHA", "ADALORA", config={"peft_type": "LOHA"})
is_not_there("LoRA's settings of AdaLoRA", Save((ADALORA, "default")), "LORA", "ADALORA", config={"peft_type": "LORA"})
is_not_there("a prompt that is computed", Save((PREFIX, "default")), "P_TUNING", config={"peft_type": "P_TUNING"})
is_not_there("settings that are no JSON", Save((LORA, "default")), "adapter_config.json", config="{")
is_not_there("settings of an adapter in its folder", Save((LORA, "default"), (LORA, "two")), "IA3", "adapter/two/",
             config={"peft_type": "IA3"}, beside="two/adapter_config.json", left=["default"])
is_not_there("ranks that were pruned", Save((ADALORA, "default")), "rank_pattern",
             config={"peft_type": "ADALORA", "rank_pattern": {"model.layers.0.self_attn.q_proj.lora_E": [True, False, True]}})
lost = {**VERA, "others": {n: s for n, s in VERA["others"].items() if "vera_" not in n}, "ties": {},
        "saved": {k: v for k, v in VERA["saved"].items() if "lambda" in k}}
is_not_there("a projection that is said to be saved", Save((lost, "default")), "save_projection", "vera_A",
             config={"peft_type": "VERA", "save_projection": True})
is_as_saved("a projection that is made again", Save((lost, "default")), "default", config={"peft_type": "VERA", "save_projection": False})

# A half.
half = {**LORA, "trained": {n: s for n, s in LORA["trained"].items() if n != "L.v_proj.lora_B.NAME.weight"}}
is_not_there("a layer without its lora_B", Save((half, "default")), "2 lora_A and 1 lora_B")

# Model-parallel ranks that are not joined: each has the adapters of its own tree, and each of their files in bf16.
LOW = {f"lora_{x}.{name}.weight": shape for name in ("default", "ref") for x, shape in (("A", (2, 4)), ("B", (4, 2)))}
whole = State({Q + n: s for n, s in LOW.items() if ".default" in n}, buffers={Q + n: s for n, s in LOW.items() if ".ref" in n})
cuts = {Q + n: "0" for n in LOW if "lora_B" in n}
with tempfile.TemporaryDirectory() as run:
    makeds.write(run, makemp.tensor(whole, cuts, 2, 1))
    out = subprocess.run([DUMP, run], capture_output=True, text=True, timeout=60)
    got = {(r[1], r[2]): tuple(r[3:6]) for r in (line.split("\t") for line in out.stdout.splitlines()) if r[0] == "tensor" and "adapter/" in r[1]}
    want, low = {}, {}
    for rank in (0, 1):
        mine = makemp.Shard(whole, cuts, 2, rank)
        full = mine.expected()
        for n in LOW:
            side = n.split(".")[1]
            where = f"mp_rank_0{rank}/adapter/{side}", Q + n.replace("." + side, "")
            want[where] = full["", Q + n]
            low[where] = makeds.bf16(mine.values(Q + n))
    check("adapters of ranks that are not joined", got == want, f"{out.stderr} {sorted({*got} ^ {*want})}")
    for (at, name), data in low.items():
        cat = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "cat", run, f"{at}/as/bf16/{name}.bf16"], capture_output=True, timeout=60)
        check(f"{at}/as/bf16/{name}", cat.stdout == data, cat.stderr)
    for at in sorted({a for a, _ in low}):
        cat = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "cat", run, f"{at}/as/bf16/adapter_model.safetensors"], capture_output=True, timeout=60)
        size = int.from_bytes(cat.stdout[:8], "little")
        head = json.loads(cat.stdout[8:8 + size] or "{}")
        head.pop("__metadata__", None)
        inside = {k: (v["dtype"], cat.stdout[8 + size:][slice(*v["data_offsets"])]) for k, v in head.items()}
        check(f"{at}/as/bf16/adapter_model.safetensors", inside == {n: ("BF16", d) for (a, n), d in low.items() if a == at}, cat.stderr)

# Saves of the real DeepSpeed and PEFT.
for folder in ("ds0_19_8_peft_adalora_zero2_w2", "ds0_19_8_peft_prompt_zero3_w2"):
    with open(os.path.join(DATA, "deepspeed", folder, "expected.json"), encoding="utf-8") as file:
        truth = json.load(file)
    out = subprocess.run([DUMP, os.path.join(DATA, "deepspeed", folder)], capture_output=True, text=True, timeout=60)
    rows = [r.split("\t") for r in out.stdout.splitlines()]
    got = {r[2]: hashlib.sha256(bytes.fromhex(r[5])).hexdigest() for r in rows if r[0] == "tensor" and r[1] == "adapter/default"}
    want = {n: v["sha256"] for n, v in truth["adapters"]["default"].items()}
    if not want:  # recorded from PEFT, whose file was empty under stage 3
        want = {"prompt_embeddings": truth["params"]["prompt_encoder.default.embedding.weight"]["fp32"]["sha256"]}
    check(folder, got == want, f"{out.stderr} {sorted({*got} ^ {*want})}")

done()
