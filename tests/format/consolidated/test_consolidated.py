#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""consolidated.NN.pth: the tensor-parallel ranks of Llama.  Which dimension each parameter is cut along is written down here
a second time, after fairscale's layers; that fairscale itself cuts so is what tests/frameworks asks."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import Tensor, Tree, check, done, expect, refused, write  # noqa: E402

WIDTH, HEADS, FEED, WORDS = 8, 4, 12, 20
PARAMS = {"dim": WIDTH, "n_layers": 2, "n_heads": HEADS, "vocab_size": -1, "multiple_of": 4, "norm_eps": 1e-5}


def matrix(rows, columns, start):
    return [[start + r * columns + c for c in range(columns)] for r in range(rows)]


def tensor(rows):
    return Tensor(*[x for r in rows for x in r], shape=(len(rows), len(rows[0])))


def model(keys=WIDTH, layers=2):
    """{name: (its values, dimension along which it is cut; None: every rank has all of it)}"""
    shapes = {"tok_embeddings.weight": (WORDS, WIDTH, 1), "output.weight": (WORDS, WIDTH, 0)}
    vectors = {"norm.weight": WIDTH, "rope.freqs": 3}
    for n in range(layers):
        at = f"layers.{n}."
        shapes |= {at + "attention.wq.weight": (WIDTH, WIDTH, 0), at + "attention.wk.weight": (keys, WIDTH, 0),
                   at + "attention.wv.weight": (keys, WIDTH, 0), at + "attention.wo.weight": (WIDTH, WIDTH, 1),
                   at + "feed_forward.w1.weight": (FEED, WIDTH, 0), at + "feed_forward.w2.weight": (WIDTH, FEED, 1),
                   at + "feed_forward.w3.weight": (FEED, WIDTH, 0)}
        vectors |= {at + "attention_norm.weight": WIDTH, at + "ffn_norm.weight": WIDTH}
    whole = {name: (matrix(r, c, 1000 * i), dim) for i, (name, (r, c, dim)) in enumerate(shapes.items())}
    return whole | {name: ([float(i) for i in range(n)], None) for name, n in vectors.items()}


def shard(values, dim, rank, ranks):
    if dim is None:
        return Tensor(*values)
    if dim == 0:
        n = len(values) // ranks
        return tensor(values[n * rank:n * (rank + 1)])
    n = len(values[0]) // ranks
    return tensor([row[n * rank:n * (rank + 1)] for row in values])


def cut(whole, ranks, params=PARAMS, **other):
    """The files of a save; other: dimensions along which parameters are cut instead."""
    files = {f"consolidated.{r:02d}.pth": {name: shard(v, other.get(name.split(".")[0], dim), r, ranks)
                                           for name, (v, dim) in whole.items()} for r in range(ranks)}
    if params is not None:
        files["params.json"] = json.dumps(params).encode()
    return files


def joined(whole):
    return {f":{name}": Tensor(*v) if dim is None else tensor(v) for name, (v, dim) in whole.items()}


def change(files, rank, name, value):
    """The same save, where a rank has another value."""
    f = f"consolidated.{rank:02d}.pth"
    return {**files, f: {**files[f], name: value}}


def stays(title, files, why, **options):
    """The ranks are shown each for itself, and a note says why."""
    tree = Tree(files, **options)
    check(title, tree.code == 0 and ("", "norm.weight") not in tree.tensor and
          ("mp_rank_00", "norm.weight") in tree.tensor and any("shown separately" in n and why in n for n in tree.notes),
          f"{tree.err} {tree.notes} {sorted(tree.tensor)[:3]}")
    return tree


LLAMA = model()
for n in 2, 4:
    expect(f"{n} ranks", cut(LLAMA, n), joined(LLAMA))
expect("without params.json", cut(LLAMA, 2, None), joined(LLAMA))
expect("embeddings cut along the vocabulary (Llama 3)", cut(LLAMA, 2, {**PARAMS, "vocab_size": WORDS}, tok_embeddings=0), joined(LLAMA))
GROUPED = model(keys=4)
expect("fewer heads of keys", cut(GROUPED, 2, {**PARAMS, "n_kv_heads": 2}), joined(GROUPED))

# ---- what fairscale itself cut --------------------------------------------------------------------------

real = os.path.join(os.environ["ZF_DATA"], "consolidated/fairscale0.4.13_llama3_w4")
with open(os.path.join(real, "expected.json"), encoding="utf-8") as f:
    want = {("", name): ("bf16" if t["dtype"] == "bfloat16" else "f32", ",".join(map(str, t["shape"])), t["sha256"])
            for name, t in json.load(f)["tensors"].items()}
tree = Tree({name: open(os.path.join(real, name), "rb").read() for name in os.listdir(real) if name != "expected.json"})
found = {k: (dtype, shape, hashlib.sha256(bytes.fromhex(data)).hexdigest()) for k, (dtype, shape, data) in tree.tensor.items()}
check("digests of the weights before they were cut", found == want and len(want) == 13, f"{tree.err} {found}")

# ---- what does not fit is not joined -------------------------------------------------------------------

four = cut(LLAMA, 4)
last = {f: v for f, v in four.items() if f != "consolidated.03.pth"}
stays("the last rank is missing", last, "do not add up to the 8 of the whole")
stays("the last rank is missing, and params.json", {f: v for f, v in last.items() if f != "params.json"},
      "do not add up to the 8 of the whole")
refused("a rank between is missing", {f: v for f, v in four.items() if f != "consolidated.01.pth"}, "consolidated.01.pth: it is missing")
refused("the first rank is missing", {f: v for f, v in four.items() if f != "consolidated.00.pth"}, "consolidated.00.pth: it is missing")
stays("degraded: a rank between is missing", {f: v for f, v in four.items() if f != "consolidated.01.pth"}, "cannot be read", degraded=True)
refused("a rank's file is damaged", {**four, "consolidated.02.pth": b"PK\3\4 no more"}, "consolidated.02.pth")
tree = stays("degraded: a rank's file is damaged", {**four, "consolidated.02.pth": b"PK\3\4 no more"}, "cannot be read", degraded=True)
check("which is told", any("consolidated.02.pth" in n for n in tree.notes), tree.notes)

two = cut(LLAMA, 2)
stays("ranks of two saves", change(two, 1, "norm.weight", Tensor(*range(1, WIDTH + 1))), "the copies of rank 0 and rank 1 differ")
stays("params.json of another width", {**two, "params.json": json.dumps({**PARAMS, "dim": 16}).encode()},
      '"dim" is 16, but norm.weight has 8')
stays("params.json of other heads", {**two, "params.json": json.dumps({**PARAMS, "n_kv_heads": 2}).encode()}, "do not add up to the 4")
stays("params.json of another vocabulary", {**two, "params.json": json.dumps({**PARAMS, "vocab_size": 40}).encode()},
      "do not add up to the 40")
stays("params.json is no JSON", {**two, "params.json": b"{"}, "params.json")
stays("a width that is no number", {**two, "params.json": b'{"n_heads": "4"}'}, "n_heads")
stays("a width that is absurd", {**two, "params.json": b'{"n_heads": 9223372036854775807}'}, "n_heads")
stays("shards of unequal shapes", change(two, 1, "output.weight", tensor(matrix(9, WIDTH, 0))), "differs in shape")
stays("a parameter of more dimensions", change(change(two, 0, "norm.weight", Tensor(*range(8))), 1, "layers.0.attention.wq.weight",
                                               Tensor(*range(32), shape=(4, 8, 1))), "another dtype")
for title, name in ("a parameter that Llama has not", "lm_head.bias"), ("… in a layer", "layers.0.attention.wz.weight"), \
                   ("… without a layer", "attention.wq.weight"), ("… of a layer without number", "layers..attention.wq.weight"):
    more = {f: {**v, name: Tensor(1, 2)} if f.endswith("pth") else v for f, v in two.items()}
    stays(title, more, "does not record how it is sharded")
one = {f: {**v, "b": Tensor(1)} if f == "consolidated.00.pth" else v for f, v in two.items()}
stays("a parameter of one rank", one, "there are 22 tensors in mp_rank_01, but 23")
bare = {f: {k: t for k, t in v.items() if "norm" in k} if f.endswith("pth") else v for f, v in two.items()}
stays("nothing but copies", bare, "no tensor proves that there are only 2 ranks")
norms = {f: {k: t for k, t in v.items() if k != "norm.weight"} if f.endswith("pth") else v for f, v in two.items()}
tree = Tree(norms)
check("no norm.weight", tree.code == 0 and any('no "norm.weight"' in n for n in tree.notes), f"{tree.err} {tree.notes}")

# ---- beside other files --------------------------------------------------------------------------------

tree = Tree({"consolidated.00.pth": {"w": Tensor(1, 2)}, "params.json": b"{}"})
check("one file alone is torch's", tree.code == 0 and ("", "w") in tree.tensor, f"{tree.err} {tree.tensor}")
for ranks in (2, 4):
    left = {f: v for f, v in cut(LLAMA, ranks).items() if f in ("consolidated.00.pth", "params.json")}
    refused(f"the first of {ranks} alone", left, f"so that {ranks} ranks saved it")
    refused(f"the first of {ranks} alone, by name", left, "consolidated.01.pth: it is missing")
    tree = Tree(left, degraded=True)
    check("the same, degraded", tree.code == 0 and ("", "norm.weight") in tree.tensor and any("consolidated.01.pth" in n for n in tree.notes),
          f"{tree.err} {tree.notes}")
for title, params in (("all of a model", PARAMS), ("one whose heads are wider", {**PARAMS, "n_heads": 2, "head_dim": 4}),
                      ("one with settings of another", {**PARAMS, "dim": 16}), ("one with fewer heads than rows", {**PARAMS, "n_heads": 1, "head_dim": 3})):
    tree = Tree(cut(LLAMA, 1, params))
    check(f"alone: {title}", tree.code == 0 and ("", "norm.weight") in tree.tensor and not any("consolidated" in n for n in tree.notes), f"{tree.err} {tree.notes}")
tree = Tree({f: v for f, v in two.items() if f == "consolidated.00.pth"})
check("alone without params.json nothing tells", tree.code == 0 and ("", "norm.weight") in tree.tensor, f"{tree.err} {tree.notes}")
whole = Tree({**two, "notes.txt": b"", "consolidated.1.pth": b"", "consolidated.003.pth": b"", "consolidated.+2.pth": b""})
check("files of almost such names", whole.code == 0 and ("", "norm.weight") in whole.tensor, whole.err)
steps = {f"consolidated.0{r}.pth": {**two[f"consolidated.0{r}.pth"], "step": 7 + r} for r in (0, 1)}
tree = Tree({**two, **steps})
check("plain values are the first rank's", tree.blob.get("state/step.json", "").startswith("7"), f"{tree.err} {tree.blob}")

# ---- the user's rules ----------------------------------------------------------------------------------


def ruled(files, rules, command="ls"):
    """What zerofs lists, or says, with -o tp_rules."""
    with tempfile.TemporaryDirectory() as d:
        write(files, d)
        with tempfile.NamedTemporaryFile("w", suffix=".rules") as f:
            f.write(rules)
            f.flush()
            return subprocess.run([os.environ["ZEROFS"], command, *["-R"] * (command == "ls"), "-o", f"tp_rules={f.name}", d], capture_output=True, text=True,
                                  timeout=60)


other = {f"consolidated.{r:02d}.pth": {"up.weight": tensor(matrix(2, 4, 10 * r)), "scale": Tensor(5, 6)} for r in (0, 1)}
run = ruled(other, "up.* 0\nscale replicated\n")
check("by the user's rules", run.stdout.split() == ["scale.f32", "up.weight.f32"], f"{run.stdout} {run.stderr}")
run = ruled(other, "up.* 0\n")
check("rules that leave a parameter out", run.returncode == 4 and "scale" in run.stderr, f"{run.returncode} {run.stderr}")
run = ruled(other, "up.* 0\nscale 0\n", "info")
check("rules that cut what both ranks have", run.returncode == 0 and 'tp_rules join 1 tensors' in run.stdout and '"scale"' in run.stdout, run)
run = ruled(other, "up.* 0\nscale replicated\n", "info")
check("rules that do not", run.returncode == 0 and "tp_rules" not in run.stdout, run)

done()
