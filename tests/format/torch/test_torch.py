#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.save files of many shapes, alone, in directories and damaged, told as a tree."""
import collections
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import A, B, C, Storage, Tensor, Tree, check, done, expect, module, optimizer, refused, save, storage_of, write  # noqa: E402
import torchfile  # noqa: E402

# ---- values --------------------------------------------------------------------------------------------

expect("a flat state dict", {"m.pt": {"a.b": A, "c": B}}, {":a.b": A, ":c": B})
expect("nested dicts", {"m.pt": {"enc": {"w": A}, "dec": {"w": B, "l": [C, (A,)]}}},
       {":enc.w": A, ":dec.w": B, ":dec.l.0": C, ":dec.l.1.0": A})
expect("one tensor alone", {"m.pt": A}, {":": A})

loop = {"w": A}
loop["self"] = loop
expect("a dict that holds itself", {"m.pt": loop}, {":w": A})

bomb = [A]
for _ in range(60):
    bomb = [bomb, bomb]
refused("lists that hold the next one twice", {"m.pt": bomb}, "more than")
shared = {"inv_freq": A}
expect("a part that many layers share", {"m.pt": {f"l{i}": {"r": shared} for i in range(50)}},
       {f":l{i}.r.inv_freq": A for i in range(50)})
deep = A
for _ in range(3000):
    deep = [deep]
sys.setrecursionlimit(100000)
tree = Tree({"m.pt": deep})
check("three thousand lists in one another", tree.code in (0, 1), tree.err)

expect("a text key and a number that look alike", {"m.pt": {0: A, "0": B}}, {":0": A, "extra:0": B})

expect("keys that are no text", {"m.pt": {("a", "b"): A, (1, "c", 2): B}}, {":(a, b)": A, ":(1, c, 2)": B})

odd = {True: A, False: B, 2.5: C, None: A, collections.OrderedDict: B, b"x": C, 1 << 70: A}
expect("keys that are no text either", {"m.pt": odd},
       {":True": A, ":False": B, ":2.5": C, ":None": A, ":collections.OrderedDict": B, ":key5": C, ":key6": A})

Pair = collections.namedtuple("Pair", "first second")
module("made", Pair=Pair)
expect("a named tuple", {"m.pt": {"p": Pair(A, B)}}, {":p.0": A, ":p.1": B})

Thing = module("made", Thing=type("Thing", (), {})).Thing
thing = Thing()
thing.w, thing.more, thing.n = A, {"k": [B]}, 3
expect("an object's attributes", {"m.pt": {"thing": thing, "u": C}},
       {":thing.w": A, ":thing.more.k.0": B, ":u": C})

expect("an object is one step, and so no container", {"m.pt": {"model": thing, "u": C}},
       {":model.w": A, ":model.more.k.0": B, ":u": C})

Slots = module("made", Slots=type("Slots", (), {"__slots__": ("w", "v")})).Slots
slots = Slots()
slots.w, slots.v = A, 5
Slots.__reduce__ = lambda self: (Thing, (), (None, {"w": self.w, "v": self.v}))
expect("an object with slots", {"m.pt": slots}, {":w": A})
for what, root in (('an object of "made.Thing"', Thing()), ("a dict", {}), ("a list", [])):
    if isinstance(root, Thing):
        root.s = Storage([1, 2])
    elif isinstance(root, dict):
        root["s"] = Storage([1, 2])
    else:
        root.append(Storage([1, 2]))
    refused(f"a storage without a tensor in {what}", {"m.pt": root}, f"m.pt: this file has 1 storage, but no tensor that can be shown; its outermost value is {what}")
tree = expect("bytes of a module", {"m.pt": {"l._extra_state": io.BytesIO(b"abc"), "w": A}}, {":w": A})
check("they are a file", tree.blob.get("extra/l._extra_state") == "abc", tree.blob)

# ---- steps of optimizers that keep one a group ----

held = {"model": {"a": A, "b": B}}


def grouped(text, count=3, **state):
    """An optimizer of one parameter, whose group counts its steps."""
    out = optimizer(A, names=None if text else ["a"], step=count)
    out["state"] = {"a" if text else 0: {**out["state"][0], **state}}
    out["param_groups"][0]["params"] = ["a" if text else 0, 0.5]
    out["param_groups"][0].pop("param_names", None) if text else out["param_groups"][0]["param_names"].append("b")
    return out


for text in (True, False):
    for key, value in (("optimizer", grouped(text)), ("optimizer_states", [grouped(text), 5])):
        tree = Tree({"m.pt": {**held, key: value}})
        check(f"the step of a group, {key}, parameters by {'name' if text else 'number'}", tree.tensor.get(("optim/step", "a")) == ("i64", "", "03" + 14 * "0") and
              tree.has("optim/exp_avg:a", A) and ("optim/step", "b") not in tree.tensor, (tree.err, tree.tensor))
    tree = Tree({"m.pt": {**held, "optimizer": grouped(text, count=C)}})
    check("a step that is a tensor is no group's", ("optim/step", "a") not in tree.tensor, tree.tensor)
    tree = Tree({"m.pt": {**held, "optimizer": grouped(text, step=C)}})
    check("a parameter's own step is before that", tree.has("optim/step:a", C), tree.tensor)

# A setting of the groups that is a tensor (capturable, torchao) has one place, whatever is beside it.
one = optimizer(A, names=["a"])
one["param_groups"][0].update(lr=C, betas=(C, B))
settings = {f"extra:optimizer.param_groups.0.{k}": v for k, v in (("lr", C), ("betas.0", C), ("betas.1", B))}
for what, files, path in (("beside a container", {"m.pt": {"model": {"a": A}, "optimizer": one}}, "optimizer"),
                          ("without one", {"m.pt": {"a": A, "optimizer": one}}, "optimizer"),
                          ("in a file of its own", {"model.pt": {"a": A}, "optimizer.pt": one}, "optimizer"),
                          ("in a list", {"m.pt": {"model": {"a": A}, "optimizer_states": [one]}}, "optimizer_states.0"),
                          ("of Composer", {"m.pt": {"state": {"model": {"a": A}, "optimizers": {"Adam": one}}}}, "state.optimizers.Adam")):
    expect(f"a learning rate that is a tensor, {what}", files,
           {":a": A, "optim/exp_avg:a": A, **{k.replace("optimizer", path): v for k, v in settings.items()}})

# Composer without FSDP: container and optimizers are in "state", random states of each rank beside it.
for names in (None, ["a", "b"]):
    adam = grouped(False, count=3)
    adam["param_groups"][0]["param_names"] = names or []
    state = {"model": {"a": A, "b": B}, "optimizers": {"DecoupledAdamW": adam}, "callbacks": {"c": {"seen": C}}, "timestamp": {"batch": 2}}
    name = "a" if names else "0"
    rng = [{"python": (3, (1, 2), None), "torch": A}, {"torch": B}]
    tree = expect(f"Composer's save, parameters by {'name' if names else 'number'}", {"ep0-ba2-rank0.pt": {"state": state, "rng": rng}},
                  {":a": A, ":b": B, f"optim/exp_avg:{name}": A, "extra:state.callbacks.c.seen": C,
                   "extra:rng.0.torch": A, "extra:rng.1.torch": B}, exactly=False)
    check("and the steps of its groups", tree.tensor.get(("optim/step", name), ("",))[0] == "i64" and len(tree.tensor) == 7, tree.tensor)

base = Storage([1, 2, 3, 4])
x, y = Tensor(storage=base, shape=(2,)), Tensor(storage=base, shape=(2,), offset=2)
same = Tensor(storage=base, shape=(2,))
tree = expect("ties", {"m.pt": {"x": x, "y": y, "same": same}}, {":x": x, ":y": y, ":same": same})
check("only equal elements are tied", tree.tie["", "x"] == tree.tie["", "same"] != tree.tie["", "y"], tree.tie)

whole, z = Tensor(storage=base, shape=(4,)), Tensor(storage=base, shape=(2,), offset=2)
square = Tensor(storage=base, shape=(2, 2))
several = {"whole": whole, "x": x, "y": y, "square": square, "x2": same, "y2": z, "whole2": Tensor(storage=base, shape=(4,)),
           "x3": Tensor(storage=base, shape=(2,)), "square2": Tensor(storage=base, shape=(2, 2))}
tree = expect("several ties of one storage", {"m.pt": several}, {f":{k}": v for k, v in several.items()})
inodes = collections.defaultdict(set)
for k in several:
    inodes[tree.tie["", k]].add(k)
check("each with its own", sorted(map(sorted, inodes.values())) ==
      [["square", "square2"], ["whole", "whole2"], ["x", "x2", "x3"], ["y", "y2"]], tree.tie)
two = {"model": {"a": x, "b": y, "c": same}, "ema": {"a": x, "b": y, "c": same, "d": z}}
tree = expect("a storage in two sets", {"m.pt": two}, {":a": x, ":b": y, ":c": same, "ema:a": x, "ema:b": y, "ema:c": same, "ema:d": z})
check("ties stay in their set", tree.tie == {("", "a"): "a", ("", "b"): "b", ("", "c"): "a", ("ema", "a"): "a", ("ema", "b"): "b",
                                             ("ema", "c"): "a", ("ema", "d"): "b"}, tree.tie)

# ---- tensors of tensors --------------------------------------------------------------------------------

outer = module("torch._tensor", _rebuild_from_type_v2=lambda *a: None)._rebuild_from_type_v2
inner = module("torch._utils", _rebuild_wrapper_subclass=lambda *a: None)._rebuild_wrapper_subclass
dtype = module("torch", float32=type("float32", (), {})).float32
quantized = module("torchao.dtypes", AffineQuantizedTensor=type("AffineQuantizedTensor", (), {})).AffineQuantizedTensor


class Wrapper:
    """What torch makes of a subclass of Tensor whose attributes are tensors, as torchao's are, one in the other."""

    def __init__(self, **attributes):
        self.attributes = attributes

    def __reduce__(self):
        return outer, (inner, quantized, (quantized, dtype, (3,), (1,), 0, None, None, False), (None, self.attributes))


tree = expect("a part that is called as another tensor", {"m.pt": {"w.scale": A, "w": Wrapper(scale=B, int_data=C)}}, {":w.scale": A, ":w.int_data": C})
check("which is told", tree.notes == ['m.pt: part "w.scale" of a tensor is left out, because another tensor has its name'], tree.notes)
tree = expect("attributes that are no tensors", {"m.pt": {"v": Wrapper(x=A, block_size=64, layout=None), "w": Wrapper(y=Wrapper(z=B, zero="int"))}},
              {":v.x": A, ":w.y.z": B})
check("are named", tree.notes == [f"m.pt: attributes that are not tensors are not shown: AffineQuantizedTensor.{a}" for a in ("block_size", "zero")],
      tree.notes)
plain = Wrapper(int_data=A, scale=B)
expect("parts of parts", {"m.pt": {"w": Wrapper(tensor_impl=plain, mask=C), "v": Wrapper(a=plain, b=Wrapper(c=plain))}},
       {":w.mask": C, ":w.tensor_impl.int_data": A, ":w.tensor_impl.scale": B, ":v.a.int_data": A, ":v.a.scale": B,
        ":v.b.c.int_data": A, ":v.b.c.scale": B})


def nested(n):
    w = plain
    for _ in range(n):
        w = Wrapper(x=w)
    return w


expect("900 in one another", {"m.pt": {"w": nested(900)}},
       {":w" + ".x" * 900 + ".int_data": A, ":w" + ".x" * 900 + ".scale": B})
refused("and more than a thousand", {"m.pt": {"w": nested(1100)}}, "consists of too many tensors")

# ---- training checkpoints ------------------------------------------------------------------------------


lightning = {"state_dict": {"net.w": A}, "optimizer_states": [optimizer(B)], "epoch": 1, "global_step": 7,
             "hyper_parameters": {"lr": 0.1}}
tree = expect("Lightning", {"last.ckpt": lightning}, {":net.w": A, "optim/exp_avg:0": B},
              ["state/epoch.json", "state/hyper_parameters.json", "state/optimizer_states.json"])
check("its state dict has no JSON", "state/state_dict.json" not in tree.blob, tree.blob)
check("a tensor in JSON is its path", json.loads(tree.blob["state/optimizer_states.json"])[0]["state"]["0"] ==
      {"exp_avg": {"__tensor__": "optimizer_states.0.state.0.exp_avg"}}, tree.blob)

two = {"model": {"w": A}, "optimizers": [optimizer(A), optimizer(B)]}
expect("two optimizers", {"c.pt": two},
       {":w": A, "optim/exp_avg:optimizers.0.0": A, "optim/exp_avg:optimizers.1.0": B})
expect("param_names", {"c.pt": {"model": {"w": A, "v": B}, "optimizer": optimizer(A, B, names=["w", "v"])}},
       {":w": A, ":v": B, "optim/exp_avg:w": A, "optim/exp_avg:v": B})
expect("masters", {"c.pt": {"model": {"w": A, "buf": C},
                            "optimizer": optimizer(B, names=["w"], state=("exp_avg", "master_param"))}},
       {":w": B, ":buf": C, "stored:w": A, "optim/exp_avg:w": B})

tree = Tree({"c.pt": {"model": {"w": A}, "optimizer": optimizer(A, B, step=9)}})
check("a step of the group", tree.tensor.get(("optim/step", "1")) == ("i64", "", "0900000000000000"), tree.tensor)
opt = optimizer(A)
opt["state"][0]["step"] = 3
opt["state"][0]["beta"] = 0.5
tree = Tree({"c.pt": {"model": {"w": A}, "optimizer": opt}})
check("numbers of an entry", tree.tensor.get(("optim/step", "0")) == ("i64", "", "0300000000000000") and
      tree.tensor.get(("optim/beta", "0")) == ("f64", "", struct.pack("<d", .5).hex()), tree.tensor)
expect("an optimizer alone", {"optimizer.pt": optimizer(A)}, {"optim/exp_avg:0": A})
expect("an optimizer by its shape", {"state.pt": optimizer(A)}, {"optim/exp_avg:0": A})

extra = {"model": {"a._extra_state": b"\x80\x02raw", "w": A}}
tree = expect("opaque bytes", {"c.pt": extra}, {":w": A}, ["extra/model.a._extra_state"])
tree = expect("reserved names", {"c.pt": {"model": {"w": A}, "state": {"w": B}, "optim": {"lr": C}}},
              {":w": A, "extra:state.w": B, "extra:optim.lr": C})

# ---- directories ---------------------------------------------------------------------------------------

index = {"metadata": {}, "weight_map": {"a": "pytorch_model-00001-of-00002.bin",
                                        "b": "pytorch_model-00002-of-00002.bin"}}
first, second = {"pytorch_model-00001-of-00002.bin": {"a": A}}, {"pytorch_model-00002-of-00002.bin": {"b": B}}
with_index = {"pytorch_model.bin.index.json": json.dumps(index).encode()}
trainer = {"optimizer.pt": optimizer(C), "scheduler.pt": {"last_epoch": 3}, "rng_state.pth": {"cpu": C}}
expect("an index and its files", {**with_index, **first, **second}, {":a": A, ":b": B})
expect("a Trainer's directory", {**with_index, **first, **second, **trainer},
       {":a": A, ":b": B, "optim/exp_avg:0": C, "extra:rng_state.cpu": C}, ["state/scheduler.pt.json"])
expect("files without an index", {**first, **second}, {":a": A, ":b": B})
head = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
published = {"model.safetensors": struct.pack("<Q", len(head)) + head + b"x"}
for name, noted in ("m.bin", True), ("copy", False):
    tree = Tree({**published, name: {"w": A}})
    check(f"weights in {name} beside safetensors: {'a note' if noted else 'no word'}",
          tree.code == 0 and ["not shown" in n for n in tree.notes] == [True] * noted, f"{tree.err} {tree.notes}")
pair = {f"{n}.bin.index.json": json.dumps({"weight_map": {"a": "x.bin"}}).encode() for n in ("one", "two")}
refused("two indices", {**pair, "x.bin": {"a": A}}, "there are two indices here, one.bin.index.json and two.bin.index.json. Point at one of them")
for said, told in ((5, "(not a string)"), ("../x.bin", "../x.bin")):
    refused(f"an index that names {said}", {"pytorch_model.bin.index.json": json.dumps({"weight_map": {"a": said}}).encode(), "x.bin": {"a": A}},
            f'the file of tensor "a" is "{told}", expected the name of a file next to the index')
expect("two optimizers of one name", {"pytorch_model.bin": {"w": A}, "optimizer.bin": optimizer(B), "optimizer.pt": optimizer(C)},
       {":w": A, "optim/exp_avg:optimizer.0": B, "optim/exp_avg:optimizer_1.0": C})
expect("several models of accelerate", {"pytorch_model.bin": {"w": A}, "pytorch_model_1.bin": {"w": B},
                                        "pytorch_model_12.bin": {"w": C}}, {":w": A, "model_1:w": B, "model_12:w": C})
expect("several models of accelerate under FSDP", {"pytorch_model_fsdp.bin": {"w": A}, "pytorch_model_fsdp_1.bin": {"w": B}},
       {":w": A, "model_1:w": B})
muon = {"state": {0: {"momentum_buffer": B}}, "param_groups": [{"params": [0], "lr": 0.1}]}
expect("two optimizers with other states", {"c.pt": {"model": {"w": A}, "optimizer_adam": optimizer(C), "optimizer_muon": muon}},
       {":w": A, "optim/exp_avg:optimizer_adam.0": C, "optim/momentum_buffer:optimizer_muon.0": B})
expect("the same in files", {"pytorch_model.bin": {"w": A}, "optimizer.bin": optimizer(C), "optimizer_1.bin": muon},
       {":w": A, "optim/exp_avg:optimizer.0": C, "optim/momentum_buffer:optimizer_1.0": B})
expect("the keys of PyTorch's tutorial", {"c.pt": {"epoch": 3, "model_state_dict": {"w": A}, "optimizer_state_dict": optimizer(B)}},
       {":w": A, "optim/exp_avg:0": B}, ["state/epoch.json"])
refused("a file of the index is missing", {**with_index, **first}, "is missing")
tree = expect("the same, degraded", {**with_index, **first}, {":a": A}, degraded=True)
check("what is lost is told", any("is missing" in n for n in tree.notes), tree.notes)
with tempfile.TemporaryDirectory() as d:
    write({**with_index, **first}, d)
    for pattern, listed in ("*", True), ("a", False), ("b*", None):
        run = subprocess.run([os.path.join(os.environ["top_builddir"], "zerofs"), "info", "-v", "-o", "degraded", "-o", f"only={pattern}", d], capture_output=True, text=True)
        said = "lost     b: all bytes: pytorch_model-00002-of-00002.bin is missing\n"
        check(f"only {pattern} of what is lost is told", run.returncode == (2 if listed is None else 4 if listed else 0) and (said in run.stdout) == bool(listed), run)
refused("a numbered file is missing", first, "file 00002 of 00002 of the series pytorch_model is missing")
tree = expect("the same, degraded and without an index", first, {":a": A}, degraded=True)
check("the missing number is told", any("00002 of the series pytorch_model" in n for n in tree.notes), tree.notes)


def numbered(stem, of, *numbers, start="00001"):
    """{name: a tensor that no other file has}"""
    return {f"{stem}-{n:0{len(start)}d}-of-{of:0{len(start)}d}.bin": {f"{stem}.{of}.{n}": A} for n in numbers}


def names(*files):
    return {f":{k}": A for f in files for v in f.values() for k in v}


refused("two halves of two models", {**numbered("pytorch_model", 2, 1), **numbered("adapter", 2, 1)}, "is missing")
refused("two thirds of one and a third of another", {**numbered("pytorch_model", 3, 1, 2), **numbered("x", 3, 3)}, "is missing")
refused("files of two numberings of one stem", {**numbered("m", 2, 1), **numbered("m", 3, 2, 3)}, "is missing")
refused("a half of a mixture-of-experts", numbered("mixture-of-experts", 2, 1), "00002 of the series mixture-of-experts is missing")
refused("a half of a model, without zeros in front", numbered("m", 2, 1, start="1"), "file 2 of 2 of the series m is missing")
refused("a half of an optimizer beside a loose model", {"m.bin": {"w": A}, **numbered("optimizer", 2, 1)}, "optimizer is missing")
whole = numbered("pytorch_model", 2, 1, 2)
for what, half in (("model", numbered("adapter", 3, 1, 2)), ("optimizer", {"optimizer-00001-of-00002.bin": optimizer(C)})):
    for way in ({}, {"degraded": True}):
        tree = expect(f"a whole model beside a part of another {what}", {**whole, **half}, names(whole), **way)
        check("which is named", any(n.startswith(f"{min(half)} and the rest") for n in tree.notes), tree.notes)
    tree = expect(f"a part of an {what} beside an index", {**with_index, **first, **second, **half}, {":a": A, ":b": B})
expect("two whole models", {**whole, **numbered("adapter", 3, 1, 2, 3)}, names(whole, numbered("adapter", 3, 1, 2, 3)))
expect("a series that counts from zero", numbered("m", 3, 0, 1, 2), names(numbered("m", 3, 0, 1, 2)))
refused("a tensor of the index is missing", {**with_index, **first, "pytorch_model-00002-of-00002.bin": {"c": B}},
        '"b"')
refused("two checkpoints in one directory", {"epoch1.pt": {"w": A}, "epoch2.pt": {"w": B}}, "point at one of them")
expect("one of them", {"epoch1.pt": {"w": A}, "epoch2.pt": {"w": B}}, {":w": B}, point="epoch2.pt")

# ---- damage --------------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as d:
    save({"model": {"w": A, "v": B}, "optimizer": optimizer(C)}, os.path.join(d, "x"))
    whole = open(os.path.join(d, "x"), "rb").read()


def storage(data, n, cls="FloatStorage"):
    return Storage(data=data, n=n, cls=cls)


eight = struct.pack("<8f", *range(8))
for n, cls in (4, "FloatStorage"), (4, "HalfStorage"), (16, "HalfStorage"), (7, "FloatStorage"):
    s, name = storage(eight, n, cls), f"a record of 32 bytes that the pickle calls {n} of {cls}"
    if n == 16:
        tree = Tree({"m.pt": {"w": Tensor(storage=s, shape=(n,))}})
        check(f"{name} is read", tree.tensor.get(("", "w")) == ("f16", "16", eight.hex()), tree.err)
    else:
        refused(f"{name} is refused", {"m.pt": {"w": Tensor(storage=s, shape=(n,))}}, "but its record has 32")
refused("one of 32 bytes called 9 floats", {"m.pt": {"w": Tensor(storage=storage(eight, 9), shape=(8,))}}, "has 32")
tree = Tree({"m.pt": {"w": Tensor(storage=storage(eight + b"xyz", 8), shape=(8,))}})
check("less than an element may be left over", tree.tensor.get(("", "w")) == ("f32", "8", eight.hex()), tree.err)



class Expanded(Tensor):
    """all elements are the first of the storage"""

    def __reduce__(self):
        f, args = super().__reduce__()
        return f, args[:3] + ((0,) * len(self.shape),) + args[4:]


one = Storage([1.5])
tree = Tree({"m.pt": {"w": Expanded(storage=one, shape=(1000, 100))}})
check("a small expanded tensor is read", tree.tensor.get(("", "w")) == ("f32", "1000,100", 10**5 * one.data.hex()), tree.err)
for shape in (2**40,), (2**20, 2**20), (4097, 4096):
    refused(f"an expanded tensor of {shape} is refused", {"m.pt": {"w": Expanded(storage=one, shape=shape)}}, "view_ratio=1024")
with tempfile.TemporaryDirectory() as d:
    save({"w": Expanded(storage=one, shape=(4097, 4096))}, os.path.join(d, "m.pt"))
    run = [subprocess.run([os.path.join(os.environ["top_builddir"], "zerofs"), "ls", "-R", *limit, os.path.join(d, "m.pt")],
                          capture_output=True, text=True) for limit in ([], ["--limit", "view_bytes=1G"])]
    check("the limit is exit 4", run[0].returncode == 4, run[0])
    check("it can be raised", run[1].returncode == 0 and run[1].stdout == "w.f32\n", run[1])

# Bombs: a few KB that inflate to many MB of pickle, and JSON of brackets.
zerofs = os.path.join(os.environ["top_builddir"], "zerofs")
with open(zerofs, "rb") as f:
    program = f.read()
    INFLATED = b"__asan_init" in program or b"__tsan_init" in program


def ls(path):
    """exit code, sentence and largest size in bytes of `zerofs ls`; the size is 0 where a tool inflates it"""
    with tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            os.dup2(err.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            # What the C library fills for tests is not what a program takes.
            os.execve(zerofs, [zerofs, "ls", "-R", path], {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"})
        _, status, used = os.wait4(pid, 0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), err.read().decode(), 0 if INFLATED else used.ru_maxrss << 10


for what, head, body, n, tail, said in (
        ("190 Mi of None", b"(", b"N", 190, b"l.", "meta_slack=33554432"),
        ("60 Mi of empty dicts", b"", b"}", 60, b".", "meta_slack=33554432"),
        ("30 Mi of None", b"(", b"N", 30, b"l.", "meta_memory=16"),
        ("30 Mi of memoized dicts", b"(", b"}\x94", 15, b"l.", "meta_memory=16"),
        ("brackets", b'{"weight_map":[', b"{},", 8, b"{}]}", "meta_memory=16")):
    with tempfile.TemporaryDirectory() as d:
        if what == "brackets":
            path = os.path.join(d, "pytorch_model.bin.index.json")
            with open(path, "wb") as f:
                f.write(head + body * (n << 20) + tail)
        else:
            path = os.path.join(d, "m.pt")
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
                with z.open("archive/data.pkl", "w") as f:
                    f.write(head)
                    for _ in range(n):
                        f.write(body * (1 << 20))
                    f.write(tail)
        size = os.path.getsize(path)
        code, err, memory = ls(path)
        check(f"{what} are refused", code == 4 and said in err, (code, err))
        check(f"{what} take no memory to speak of", memory < 128 << 20, memory)
for what, unit in ("None", b"N"), ("tuples of None", b"N\x85"), ("lists of None", b"](Ne"):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "m.pth")
        with open(path, "wb") as f:
            f.write(pickle.dumps(0x1950a86a20f9469cfc6c, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2))
            f.write(b"(" + unit * ((4 << 20) // len(unit)) + b"l." + pickle.dumps([], 2))
        code, err, memory = ls(path)
        check(f"4 MiB of {what} take at most 16 bytes a byte and 32 MiB", code == 0 and memory <= 16 * (4 << 20) + (44 << 20),
              (code, err, memory))
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "m.pt")
    value = {f"model.layers.{i}.weight": C for i in range(3000)}
    save(value, path)
    with zipfile.ZipFile(path) as z, zipfile.ZipFile(path + "h", "w", zipfile.ZIP_DEFLATED) as to:
        for name in z.namelist():
            to.writestr(name, z.read(name))
    run = subprocess.run([zerofs, "ls", "-R", path + "h"], capture_output=True, text=True)
    check("a real file that was deflated is read", run.stdout.count("\n") == 3000, run)

# Many bytes of pickle, and a process that may take little more.
with tempfile.TemporaryDirectory() as d:
    with zipfile.ZipFile(os.path.join(d, "m.pt"), "w") as z:
        z.writestr("archive/data.pkl", b"(" + b"]" * (8 << 20) + b"l.")
    limited = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_AS, (60 << 20,) * 2); os.execv(sys.argv[1], sys.argv[1:])"
    run = subprocess.run([sys.executable, "-c", limited, zerofs, "ls", "-R", os.path.join(d, "m.pt")], capture_output=True, text=True)
    check("too little memory is the machine's, not the file's", run.returncode == 5 and "memory" in run.stderr or "Sanitizer" in run.stderr, run)

for what, value, key in (("at the top", {"aa": A, "bb": B}, "aa"), ("in a part", {"model": {"x": {"aa": A, "bb": B}}}, "aa"),
                         ("in an optimizer", optimizer(A, B), 0)):
    data = torchfile.archive(value)
    twice = data.replace(b"bb", b"aa") if key else data.replace(b"K\x01}", b"K\x00}")
    check(f"the key to be doubled {what} is there", twice != data)
    refused(f"a key twice {what}", {"m.pt": twice}, f'the key "{key}" occurs twice' if key else "the key 0 occurs twice")

bad = []
for n in range(0, len(whole), 23):
    tree = Tree({"m.pt": whole[:n]})
    if tree.code != 1 or not tree.err:
        bad.append((n, tree.code, tree.err))
check("a file cut anywhere is refused", not bad, bad)

done()
