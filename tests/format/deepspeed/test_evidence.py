#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real DeepSpeed saves in which one value was changed and every checksum put right: two places of a save that
record the same thing are compared."""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from made import check, done  # noqa: E402
from torchedit import Archive, Id  # noqa: E402

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "deepspeed")


def run(*args):
    return subprocess.run([ZEROFS, *args], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def copy(name):
    """A copy of a save that may be written to; gives its tag directory."""
    with tempfile.TemporaryDirectory(prefix="zf-evidence-") as top:
        folder = os.path.join(top, "c")
        shutil.copytree(os.path.join(DATA, name), folder)
        for place, _, files in os.walk(folder):
            os.chmod(place, 0o755)
            for f in files:
                os.chmod(os.path.join(place, f), 0o644)
        with open(os.path.join(folder, "latest")) as f:
            yield os.path.join(folder, f.read().strip())


def files(tag, kind):
    return sorted(glob.glob(os.path.join(tag, f"*{kind}_states.pt")))


def refused(name, tag, *parts, opts=()):
    r = run("info", tag, *opts)
    text = r.stderr.decode(errors="replace")
    check(" ".join([name, *opts]), r.returncode == 4 and text.count("\n") == 1 and all(p in text for p in parts),
          f"exit {r.returncode}: {text}")


def mixed(what, name, kind, change, *values):
    """The last file of a kind says something else: both files and both values are named, degraded too."""
    with copy(name) as tag:
        one, *_, last = [*files(tag, kind)] * 2
        last = files(tag, kind)[-1]
        with Archive(last) as a:
            change(a)
        for opts in ((), ("-o", "degraded")):
            refused(f"{name}: {what}", tag, os.path.basename(one), os.path.basename(last), *values, opts=opts)


def alike(what, name, kind, change):
    """The last file of a kind may say something else."""
    with copy(name) as tag:
        with Archive(files(tag, kind)[-1]) as a:
            change(a)
        r = run("info", tag)
        check(f"{name}: {what} may differ", r.returncode == 0, r.stderr.decode())


def inner(a):
    return a.root["optimizer_state_dict"]


def base(a):
    return inner(a).get("base_optimizer_state") or inner(a)["optimizer_state_dict"]


def flip(raw, i, size):
    """Another sign for element i: no rounding makes that good."""
    raw[size * i + size - 1] ^= 0x80


def bare(tensor):
    """The call of _rebuild_tensor_v2 inside."""
    while len(tensor.args) < 5:
        tensor = tensor.args[0]
    return tensor


def length(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def raise_step(group):
    def change(a):
        states = base(a)
        state = states[group] if isinstance(states, list) else states["state"][group]
        if isinstance(state["step"], int):
            state["step"] += 1
        else:
            raw = a.record(state["step"])
            raw[:] = struct.pack("<f", struct.unpack("<f", raw[:4])[0] + 1)
    return change


def put(value, *keys):
    def change(a):
        at = a.root
        for k in keys[:-1]:
            at = at[k] if isinstance(at, (dict, list)) else at.state[k]
        (at if isinstance(at, (dict, list)) else at.state)[keys[-1]] = value
    return change


def drop(*keys):
    def change(a):
        at = a.root
        for k in keys[:-1]:
            at = at[k]
        del at[keys[-1]]
    return change


def shape(name, extents):
    def change(a):
        for group in a.root["param_shapes"]:
            if name in group:
                group[name].args = (extents,)
    return change


INNER = "optimizer_state_dict"
for save, group in (("zero2_w2", 0), ("zero2_w2", 1), ("zero3_w2", 0), ("zero1_w2", 0), ("zero2_w2_elastic", 0),
                    ("ds0_19_8_zero1_bf16opt_w3", 1), ("zero2_w12", 0), ("ds0_19_8_zero3_nvme_swp_w2", 3),
                    ("ds0_19_8_zero2_muon_w2", 1)):
    mixed(f"the step of group {group}", save, "optim", raise_step(group), f"[{group}].step is ", ", but ")
for save in ("zero2_w2", "zero3_w2"):
    groups = (INNER, "base_optimizer_state" if save == "zero2_w2" else INNER, "param_groups", 1)
    mixed("a learning rate", save, "optim", put(0.125, *groups, "lr"), "param_groups[1].lr is 0.125, but 0.01")
    mixed("a beta", save, "optim", put((0.5, 0.999), *groups, "betas"), "param_groups[1].betas[0] is 0.5, but 0.9")
    mixed("the loss scale", save, "optim", put(64.0, INNER, "loss_scaler", "cur_scale"), "cur_scale is 64, but 1")
    mixed("an overflow", save, "optim", put(True, INNER, "overflow"), "overflow is True, but False")
    mixed("a missing flag", save, "optim", drop(INNER, "overflow"), "overflow is missing, but False")
    mixed("the version", save, "optim", put("0.14.4", "ds_version"), "0.14.4", "0.14.5")
    mixed("a setting", save, "optim", put(7, "ds_config", "train_micro_batch_size_per_gpu"),
          "train_micro_batch_size_per_gpu is 7, but 4")
    alike("who prints", save, "optim", put(9, "ds_config", "steps_per_print"))
    alike("an estimate of the rank", save, "optim", put(0.5, *groups, "d_numerator"))
mixed("the clipping", "zero2_w2", "optim", put(3.0, INNER, "clip_grad"), "clip_grad is 3, but 0")
mixed("the partitions", "zero2_w2", "optim", put([3, 3], INNER, "partition_count"), "partition_count is 3, but 2")
alike("the padding", "zero2_w2", "optim", put([5, 5], INNER, "group_paddings"))
# rank files of the model: one save with frozen slices in them, one of which only rank 0's is needed
for save in ("zero3_w2", "ds0_19_8_hftrainer_zero3_w2"):
    mixed("the steps of the model", save, "model", put(99, "global_steps"), "global_steps is 99, but ")
    mixed("the samples", save, "model", put(99, "global_samples"), "global_samples is 99, but ")
    mixed("the skipped steps", save, "model", put(99, "skipped_steps"), "skipped_steps is 99, but 0")
    alike("the client's state", save, "model", put(99, "client"))
mixed("a shape", "zero3_w2", "model", shape("l1.weight", (5, 11)), "l1.weight[0] is 5, but 11")
mixed("the steps of the model", "ds0_19_8_zero3_subgroups_w3_universal", "model", put(99, "global_steps"),
      "global_steps is 99, but ")
# what is wrong with the parameters is told before what is wrong with the files of the model
with copy("ds0_19_8_hftrainer_zero3_w2") as tag:
    with Archive(files(tag, "optim")[-1]) as a:
        del base(a)["state"][0]["exp_avg"]
    with Archive(files(tag, "model")[-1]) as a:
        put(99, "global_steps")(a)
    refused("a missing state, and other steps", tag, os.path.basename(files(tag, "optim")[-1]),
            'the state "exp_avg" of group 0 is missing')
# both kinds of file tell the version and the settings
for save in ("zero2_w2", "zero3_w2", "ds0_19_8_zero1_bf16opt_w3"):
    with copy(save) as tag:
        for f in files(tag, "optim"):
            with Archive(f) as a:
                put("0.14.1", "ds_version")(a)
        refused(f"{save}: model and optimizer of two versions", tag, os.path.basename(files(tag, "optim")[0]),
                os.path.basename(files(tag, "model")[0]), "ds_version is '0.14.1', but '0.1")
    with copy(save) as tag:
        for f in files(tag, "model"):
            with Archive(f) as a:
                put(9, "ds_config", "train_micro_batch_size_per_gpu")(a)
        refused(f"{save}: model and optimizer of two settings", tag, os.path.basename(files(tag, "optim")[0]),
                os.path.basename(files(tag, "model")[0]), "train_micro_batch_size_per_gpu is 4, but 9")


# ---- the model's files are of another step than the optimizer's ---------------------------------------------------------

for save in ("zero3_w2", "ds0_19_8_zero3_nvme_swp_w2"):
    for more, told in ((1, False), (2, True), (-2, True)):
        with copy(save) as tag:
            for f in files(tag, "model"):
                with Archive(f) as a:
                    a.root["global_steps"] += more
            r = run("info", tag)
            check(f"{save}: the model is {more} steps ahead", r.returncode == 0 and
                  (b"the optimizer counted " in r.stdout and b"two saves are mixed" in r.stdout) == told, r.stdout + r.stderr)


# ---- masters that have no names ---------------------------------------------------------------------------------

def masters(a):
    """(name, tensor, first element, elements) of each master of a save without ZeRO, by their order in module."""
    optim, module = a.root["optimizer"], a.root["module"]
    wanted = {name: bare(t) for name, t in module.items()}
    with open(os.path.join(os.path.dirname(os.path.dirname(a.origin)), "expected.json")) as f:
        trained = json.load(f)["params"]
    names = [n for n in module if n in trained]
    if "fp32_groups" in optim:
        for group in optim["fp32_groups"]:
            for t in group:
                shape = bare(t).args[2]
                name = next(n for n in names if wanted[n].args[2] == shape)
                names.remove(name)
                yield name, bare(t), 0, length(shape)
    else:
        for t in optim["fp32_groups_flat"]:
            members = {}
            for n in names:
                members.setdefault(wanted[n].args[0].pid[2], []).append(n)
            same = next(m for m in members.values()
                        if sum(length(wanted[n].args[2]) for n in m) == bare(t).args[2][0])
            for n in sorted(same, key=lambda n: wanted[n].args[1]):
                yield n, bare(t), wanted[n].args[1], length(wanted[n].args[2])


def plain_model(tag):
    return os.path.join(tag, "mp_rank_00_model_states.pt")


for save in ("ds0_19_8_zero0_bf16_w2", "ds0_19_8_zero0_fused_bf16"):
    origin = plain_model(glob.glob(os.path.join(DATA, save, "global_step*"))[0])
    with Archive(origin, write=False) as a:
        every = [(n, i) for n, _, _, size in masters(a) for i in sorted({0, size // 2, size - 1})]
    check(f"{save}: every parameter has a master", len({n for n, _ in every}) >= 7, every)
    for name, element in every:
        with copy(save) as tag:
            with Archive(plain_model(tag)) as a:
                a.origin = origin
                t, first = next((t, first) for n, t, first, _ in masters(a) if n == name)
                flip(a.record(t), t.args[1] + first + element, 4)
            refused(f"{save}: element {element} of {name}", tag, f'element {element} of the master of "{name}"')
            r = run("cat", "-o", "degraded", tag, f"{name}.bf16")
            w = bare(a.root["module"][name])
            want = a.record(w)[2 * w.args[1]:2 * (w.args[1] + length(w.args[2]))]
            check(f"{save}: {name} degraded", r.stdout == want, r.stderr)
            r = run("info", "-o", "degraded", tag)
            check(f"{save}: degraded says why", b"are left out" in r.stdout and name.encode() in r.stdout, r.stdout)


with copy("ds0_19_8_zero0_bf16_w2") as tag:
    with Archive(plain_model(tag)) as a:
        source = a.root["module"]["norm.weight"]
        twin = type(source)(*source.args)
        key = a.add_record(bytes(a.record(bare(source))))
        twin.args = (a.with_key(bare(source).args[0], key), *bare(source).args[1:])
        a.root["module"]["twin.weight"] = twin
        w = bare(source)
        want = bytes(a.record(w)[2 * w.args[1]:2 * (w.args[1] + length(w.args[2]))])
    told = run("info", tag).stdout
    check("a master that fits two parameters is told", b'"norm.weight"' in told and b'"twin.weight"' in told
          and b"as well as" in told, told)
    r = run("cat", tag, "norm.weight.bf16")
    check("a master that fits two parameters: the weights are served", r.stdout == want, r.stderr)
    check("a master that fits two parameters: no states", b"optim/" not in run("ls", "-R", tag).stdout, run("ls", "-R", tag).stdout)

# ---- the order of the parameters ----------------------------------------------------------------------------------

with copy("ds0_4_0_zero2_w2") as tag:
    for f in files(tag, "optim"):
        with Archive(f) as a:
            flip(a.record(bare(inner(a)["single_partition_of_fp32_groups"][0])), 3, 4)
    refused("0.4.0: no order is right", tag, "the masters do not belong to these names", "optim_states.pt")
with copy("ds0_4_0_zero2_w2") as tag:
    with Archive(files(tag, "model")[0]) as a:
        a.root["module"] = {n: t for n, t in a.root["module"].items() if n in ("running", "counter")}
    refused("0.4.0 without weights to compare", tag, "is not proven")
with copy("ds0_4_0_zero2_w2") as tag:
    for f in files(tag, "optim") + files(tag, "model"):
        with Archive(f) as a:
            for raw in ([r for n, r in a.member.items() if "/data/" in n] if "model" in f else
                        [a.record(bare(inner(a)["single_partition_of_fp32_groups"][0]))]):
                raw[:] = bytes(len(raw))
    with open(os.path.join(DATA, "ds0_4_0_zero2_w2", "expected.json")) as f:
        params = json.load(f)["params"]
    same = [n for n in params
            if hashlib.sha256(run("cat", tag, f"optim/exp_avg/{n}.f32").stdout).hexdigest() == params[n]["exp_avg"]["sha256"]]
    check("0.4.0 with weights that fit both orders: their storages tell", len(same) == len(params) > 0, run("info", tag).stderr)
    with Archive(files(tag, "model")[0]) as a:
        for n, t in [(n, t) for n, t in a.root["module"].items() if t.args[0].pid[1].__name__ == "HalfStorage"]:
            key = a.add_record(bytes(2 * length(t.args[2])))
            a.root["module"][n] = type(t)(Id((*t.args[0].pid[:2], key, "cpu", length(t.args[2]))), 0, *t.args[2:])
    refused("0.4.0 with weights that fit both orders", tag, "as well as", "do not prove it")

# the first, the last and a middle element of masters and of weights, in every kind of save that has both
for save in ("zero1_w2", "zero2_w2", "zero2_w2_elastic", "zero2_w12", "zero1_w2_bf16optimizer", "zero2_w2_ds0_9_5",
             "zero2_w2_fp16_step0_clientstate", "ds0_19_8_zero2_align_roundrobin_w3", "ds0_19_8_zero2_muon_w2",
             "ds0_19_8_zero1_bf16opt_w3", "ds0_19_8_zero2_bf16masters_bf16states_w3"):
    for rank in (0, -1):
        with copy(save) as tag:
            f = files(tag, "optim")[rank]
            with Archive(f) as a:
                t = bare(inner(a)["single_partition_of_fp32_groups"][0])
                size = 2 if "bf16masters" in save else 4
                flip(a.record(t), t.args[1] + 1, size)
            refused(f"{save}: a master of rank {rank}", tag, os.path.basename(f), "element ",
                    "do not belong to these names", "mp_rank_00_model_states.pt")
    with copy(save) as tag:
        with Archive(files(tag, "model")[0]) as a:
            t = bare(a.root["module"]["l1.weight"])
            flip(a.record(t), t.args[1] + length(t.args[2]) - 1, 2)
            want = a.record(t)[2 * t.args[1]:2 * (t.args[1] + length(t.args[2]))]
        refused(f"{save}: a weight", tag, 'of "l1.weight"', "do not belong to these names")
        kind = "f16" if "fp16" in save else "bf16"
        r = run("cat", "-o", "degraded", tag, f"l1.weight.{kind}")
        check(f"{save}: the weights, degraded", r.stdout == want, r.stderr)
        r = run("info", "-o", "degraded", tag)
        check(f"{save}: degraded says why", b"are left out" in r.stdout and b'"l1.weight"' in r.stdout, r.stdout)


def swap_names(a):
    """Two parameters of one length change places in the recorded order."""
    shapes = a.root["param_shapes"][0]
    names = list(shapes)
    i, k = names.index("l1.weight"), names.index("embed.weight")
    names[i], names[k] = names[k], names[i]
    a.root["param_shapes"][0] = type(shapes)((n, shapes[n]) for n in names)


for save in ("zero2_w2", "ds0_19_8_zero2_align_w2"):
    with copy(save) as tag:
        with Archive(files(tag, "model")[0]) as a:
            swap_names(a)
        refused(f"{save}: another order is recorded", tag, "do not belong to these names")
with copy("zero2_w2") as tag:
    one, two = files(tag, "optim")
    os.rename(one, one + "x")
    os.rename(two, one)
    os.rename(one + "x", two)
    refused("zero2_w2: two ranks have changed places", tag, "the file of another rank")
    for f in (one, two):
        with Archive(f) as a:
            a.rename("archive")
    refused("zero2_w2: two ranks have changed places in silence", tag, "do not belong to these names")

# ---- swap files ------------------------------------------------------------------------------------------------------

SWAP = "ds0_19_8_zero3_nvme_swp_w2"
for what, change in (("a byte in front", lambda b: b"x" + b), ("a byte behind", lambda b: b + b"x"),
                     ("a byte less", lambda b: b[1:]), ("a block more", lambda b: b + bytes(1024)),
                     ("a block less", lambda b: b[1024:])):
    for name in ("0_2", "exp_avg-0_2"):
        with copy(SWAP) as tag:
            for rank in ("rank01",) if name == "0_2" else ("rank00", "rank01"):
                path = os.path.join(tag, "offloaded_tensors", rank, f"{name}.tensor.swp")
                with open(path, "rb") as f:
                    data = f.read()
                with open(path, "wb") as f:
                    f.write(change(data))
            refused(f"{what} of {name}.tensor.swp", tag, f"{name}.tensor.swp", "expected 6144",
                    f"{len(change(data))} bytes")
            r = run("info", "-o", "degraded", tag)
            check(f"{what} of {name}.tensor.swp, degraded", r.returncode == 4 and b"is lost" in r.stdout, r.stderr)
# A swap file that is gone, or all of them, costs what is in it.
for lost in (("rank01", "0_2"), ("rank00", "exp_avg-0_2"), None):
    with copy(SWAP) as tag:
        swapped = os.path.join(tag, "offloaded_tensors")
        if lost:
            os.remove(os.path.join(swapped, lost[0], lost[1] + ".tensor.swp"))
        else:
            shutil.rmtree(swapped)
        refused(f"without swap file {lost}", tag, (lost or ("", "0_2"))[1] + ".tensor.swp")
        hurt = {name: run("cat", "-o", "degraded", tag, name) for name in
                ("big.f32", "one.f32", "l1.weight.f32", "optim/exp_avg/big.f32", "optim/exp_avg/one.f32", "optim/exp_avg_sq/l1.weight.f32")}
        whole = {name: run("cat", os.path.join(DATA, SWAP), name).stdout for name in hurt}
        gone = {("rank01", "0_2"): ["big.f32"], ("rank00", "exp_avg-0_2"): ["optim/exp_avg/big.f32", "optim/exp_avg/one.f32"],
                None: ["big.f32", "one.f32", "optim/exp_avg/big.f32", "optim/exp_avg/one.f32"]}[lost]
        for name, r in hurt.items():
            good = r.returncode == 5 and whole[name].startswith(r.stdout) if name in gone else r.stdout == whole[name]
            check(f"without swap file {lost}, degraded: {name}", good and whole[name], f"exit {r.returncode}, {len(r.stdout)} bytes")
        if lost == ("rank01", "0_2"):
            r = run("info", "-v", "-o", "degraded", tag)
            check("the half of rank 0 is served", b"big: bytes 6004 to 12003 of 12004: " in r.stdout, r.stdout)
for setting, size, good in (("thread_count", 4, True), ("intra_op_parallelism", 4, True), ("thread_count", 5, False)):
    with copy(SWAP) as tag:
        for f in files(tag, "optim") + files(tag, "model"):
            with Archive(f) as a:
                a.root["ds_config"]["aio"][setting] = size
        for path in glob.glob(os.path.join(tag, "offloaded_tensors", "*", "*.swp")):
            with open(path, "ab") as f:
                f.write(bytes(2048))
        r = run("info", tag)
        check(f"swap files in multiples of {setting} = {size}", (r.returncode == 0) == good, r.stderr)

# ---- layers and experts ----------------------------------------------------------------------------------------

with copy("ds0_19_8_pp2_zero1_w2") as tag:
    one, last = (os.path.join(tag, f"layer_{n}-model_states.pt") for n in ("00", "01"))
    shutil.copy(one, last)
    refused("ds0_19_8_pp2_zero1_w2: layer 0 over layer 1", tag, '"layer_00-model_states.pt"', "file of another layer")
with copy("ds0_19_8_moe_ep2_tp2_zero1_w4") as tag:
    os.remove(os.path.join(tag, "layer_0_expert_2_mp_rank_01_model_states.pt"))
    refused("ds0_19_8_moe_ep2_tp2_zero1_w4: an expert of the second tensor rank is missing", tag, "16-bit weight")

# ---- stage 3, where nothing but the files' own words says whose slices they hold -------------------------------

for save in ("zero3_w2", "zero3_w12", "ds0_19_8_zero3_bf16_w3"):
    for kind in ("optim", "model"):
        with copy(save) as tag:
            one, *_, last = files(tag, kind)
            shutil.copy(one, last)
            refused(f"{save}: {kind} of rank 0 over another", tag, os.path.basename(last),
                    f'saved as "{os.path.basename(one)}"')
        with copy(save) as tag:
            one, *_, last = files(tag, kind)
            os.rename(one, one + "x")
            os.rename(last, one)
            os.rename(one + "x", last)
            refused(f"{save}: two {kind} files have changed places", tag, "the file of another rank")
    r = run("cat", os.path.join(DATA, save), "embed.weight.f32")
    with copy(save) as tag:
        one, *_, last = files(tag, "optim")
        shutil.copy(one, last)
        again = run("cat", "-o", "degraded", tag, "embed.weight.f32")
        check(f"{save}: a rank twice, degraded", again.returncode == 5 and r.stdout.startswith(again.stdout),
              again.stderr)

with copy("zero3_w2_gather16") as tag:
    top = os.path.dirname(tag)
    r = run("cat", top, "stored/embed.weight.bf16")
    check("gathered weights are stored/", len(r.stdout) == 70, r.stderr)
    with Archive(os.path.join(top, "pytorch_model.bin")) as a:
        t = bare(a.root["back.weight"])
        flip(a.record(t), t.args[1] + length(t.args[2]) - 1, 2)
    r = run("cat", top, "stored/embed.weight.bf16")
    check("gathered weights of another save are not", r.returncode != 0 and not r.stdout, r.stdout)
    r = run("info", top)
    check("gathered weights of another save are noted", b'master of "back.weight"' in r.stdout,
          r.stdout)

# Empty tensors of a safetensors file share a place; nothing says that they are one.
with copy("ds0_19_8_hftrainer_zero3_w2") as tag:
    path = os.path.join(os.path.dirname(tag), "model.safetensors")
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    for name in ("empty1", "empty2"):
        header[name] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data)] * 2}
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)
    r = run("ls", "-R", os.path.dirname(tag))
    check("empty tensors of a gathered file are two", all(b"stored/empty%d.f32\n" % i in r.stdout for i in (1, 2)), r)

# The only rank left is none of the save's: there is nothing to go by, degraded or not.
with copy("ds0_19_8_zero2_legacyser_w2") as tag:
    one, last = files(tag, "optim")
    os.rename(last, last.replace("rank_1", "rank_5"))
    os.remove(one)
    r = run("info", "-o", "degraded", tag)
    check("only a rank of another save", r.returncode == 4 and b"none of the optimizer files" in r.stderr, r.stderr)

# ---- one record for two vectors, in every kind of optimizer file ------------------------------------------------------

for save in ("zero2_w2", "zero2_w2_elastic", "zero1_w2_bf16optimizer", "zero3_w2", "ds0_4_0_zero2_w2", "ds0_19_8_hftrainer_zero3_w2",
             "ds0_19_8_moe_ep2_zero2_w4", "ds0_19_8_zero2_muon_w2"):
    for twist in ("record", "stride"):
        with copy(save) as tag:
            with Archive(files(tag, "optim")[-1]) as a:
                states = base(a)
                states = states if isinstance(states, list) else list(states["state"].values())
                moments = [(group, k) for group in states for k, v in group.items() if k != "step" and length(bare(v).args[2]) > 1]
                (one, first), (two, last) = moments[0], moments[-1]
                t, other = bare(one[first]), bare(two[last])
                if twist == "stride":
                    one[first] = type(t)(*t.args[:3], (0,), *t.args[4:])
                else:
                    n = min(length(t.args[2]), length(other.args[2]))
                    one[first] = type(t)(other.args[0], 0, (n,), *t.args[3:])
            refused(f"{save}: a state has {'the record of another' if twist == 'record' else 'a stride of 0'}", tag, "optim_states.pt",
                    "share bytes" if twist == "record" else "is not contiguous")
# Of two names that one storage ties, shared_params gives one another partner, which is not there: the storage tells.
for save in ("zero1_w2", "zero2_w2_elastic", "ds0_19_8_zero2_tag_slash_w2"):
    with copy(save) as tag:
        want = run("cat", tag, "embed.weight.f32").stdout
        with Archive(files(tag, "model")[0]) as a:
            a.root["shared_params"]["head.weight"] = "embed.weight.gone"
        r = run("cat", tag, "head.weight.f32")
        check(f"{save}: a tie to a name that is not there", r.stdout == want != b"", r.stderr)

# The same without ZeRO, and of the slices of frozen parameters; a frozen parameter of another shape than is recorded.
for twist in ("record", "number", "length"):
    with copy("ds0_19_8_zero0_bf16_w2") as tag:
        with Archive(files(tag, "model")[0]) as a:
            optimizer = a.root["optimizer"]["optimizer_state_dict"]
            ids = optimizer["param_groups"][1]["params"]
            vectors = sorted((length(bare(optimizer["state"][i]["exp_avg"]).args[2]), k) for k, i in enumerate(ids)
                             if len(bare(optimizer["state"][i]["exp_avg"]).args[2]) == 1)
            (n, short), (_, long) = vectors[0], vectors[-1]
            state = optimizer["state"][ids[short]]
            t = bare(state["exp_avg"])
            if twist == "record":
                state["exp_avg"] = type(t)(bare(optimizer["state"][ids[long]]["exp_avg"]).args[0], *t.args[1:])
            elif twist == "number":
                ids[short] = ids[long]
            else:
                state["exp_avg"] = type(t)(*t.args[:2], (n - 1,), *t.args[3:])
        if twist == "record":
            refused("stage 0: a state has the record of another", tag, "model_states.pt", "share bytes")
        else:
            told = run("info", tag).stdout
            check(f"stage 0: a state of another length is told, by its {twist}", b'"exp_avg" of "' in told and b"another length" in told, told)
with copy("ds0_19_8_peft_lora_zero3_w2") as tag:
    with Archive(files(tag, "model")[-1]) as a:
        slices = a.root["frozen_param_fragments"]
        one, two = [n for n in slices if n.endswith("up_proj.weight") or n.endswith("up_proj.base_layer.weight")][:2]
        slices[one] = slices[two]
    refused("stage 3: the slice of a frozen parameter is that of another", tag, "model_states.pt", one, two, "share bytes")
with copy("zero2_w2") as tag:
    with Archive(files(tag, "model")[0]) as a:
        t = bare(a.root["module"]["norm.bias"])
        a.root["module"]["norm.bias"] = type(t)(*t.args[:2], (length(t.args[2]) - 1,), *t.args[3:])
    refused("stage 2: a frozen parameter of another shape", tag, "model_states.pt", '"norm.bias"', "frozen_param_shapes")

# ---- one mapping for the parameters of all groups (before 0.5.4) -----------------------------------------------------


def merge_shapes(tag, order):
    """Moves param_shapes of a newer save to where releases before 0.5.4 kept them."""
    with Archive(files(tag, "model")[0]) as a:
        groups = a.root.pop("param_shapes")
    for f in files(tag, "optim"):
        with Archive(f) as a:
            merged = type(groups[0])()
            for group in groups:
                names = list(group)
                for i in order(len(names)):
                    merged[names[i]] = group[names[i]]
            a.root["param_shapes"] = merged


def dealt(n):
    """The inverse of dealing n parameters to two ranks."""
    places = sorted(range(n), key=lambda i: (i % 2, i))
    return [places.index(i) for i in range(n)]


for what, order in (("in the order of the groups", range), ("dealt", dealt)):
    with copy("zero2_w2") as tag:
        merge_shapes(tag, order)
        with open(os.path.join(DATA, "zero2_w2", "expected.json")) as f:
            params = json.load(f)["params"]
        same = [n for n in params
                if hashlib.sha256(run("cat", tag, f"{n}.f32").stdout).hexdigest() == params[n]["fp32"]["sha256"]]
        check(f"one mapping for all groups, {what}", len(same) == len(params), run("info", tag).stderr)
with copy("zero2_w2") as tag:
    merge_shapes(tag, lambda n: range(n - 1, -1, -1))
    same = [n for n in params
            if hashlib.sha256(run("cat", tag, f"{n}.f32").stdout).hexdigest() == params[n]["fp32"]["sha256"]]
    check("one mapping in another order: the storages tell", len(same) == len(params) > 0, run("info", tag).stderr)
# Without a list of buffers, empty tensors of the module are stage 3's placeholders, and only they.
with copy("zero3_w2") as tag:
    for f in files(tag, "model"):
        with Archive(f) as a:
            del a.root["buffer_names"]
    listed = [{n for n in run("ls", "-R", c).stdout.split() if not n.startswith(b"state/")}
              for c in (tag, os.path.join(DATA, "zero3_w2"))]
    check("without buffer_names the same tensors are shown", listed[0] == listed[1], listed[0] ^ listed[1])
done()
