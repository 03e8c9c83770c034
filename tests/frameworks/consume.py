# SPDX-License-Identifier: Apache-2.0
"""The judges: each opens the mount with somebody else's loader and compares bits with what the trainer said."""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import safetensors
import torch
from safetensors.torch import load_file

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))  # also for make_hf.py alone
from tap import Skip  # noqa: E402

SUFFIX = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2", torch.int64: "i64", torch.int32: "i32",
          torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
DTYPE = {suffix: dtype for dtype, suffix in SUFFIX.items()}
CASTS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
BESIDE = ("config.json", "generation_config.json", "model.safetensors", "pytorch_model.bin")
SECONDS = 60
# Logits of two programs that compute the same in float32.
MOST_OFF = 4e-5


def bits(t):
    """A tensor's bytes, C order."""
    return t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def file_name(name, dtype):
    """A parameter's file, as zerofs(5) encodes it (no name here is longer than a file name may be)."""
    raw = (name + "." + SUFFIX[dtype]).encode()
    encode = [c < 0x20 or c in b"/%\x7f" or (c == ord(".") and i == 0) for i, c in enumerate(raw)]
    return os.fsdecode(b"".join(b"%%%02X" % c if e else bytes([c]) for c, e in zip(raw, encode)))


def same(found, wanted, where):
    assert found.dtype == wanted.dtype, f"{where}: type {found.dtype}, trained {wanted.dtype}"
    assert found.shape == wanted.shape, f"{where}: shape {tuple(found.shape)}, trained {tuple(wanted.shape)}"
    assert bits(found) == bits(wanted), f"{where}: {differs(found, wanted)}"


def differs(found, wanted):
    a, b = np.frombuffer(bits(found), np.uint8), np.frombuffer(bits(wanted), np.uint8)
    at = np.flatnonzero(a != b)
    return f"{len(at)} of {len(a)} bytes differ, the first at {at[0]}"


def all_same(found, wanted, where):
    assert set(found) == set(wanted), \
        f"{where}: lacks {sorted(set(wanted) - set(found))}, has besides {sorted(set(found) - set(wanted))}"
    for name, t in wanted.items():
        same(found[name], t, f"{where}: {name}")


# ---- one set -------------------------------------------------------------------------------------------------

def names(directory, tensors):
    """Exactly the trained tensors are listed, each with its type and size."""
    wanted = {file_name(n, t.dtype): t.numel() * t.element_size() for n, t in tensors.items()}
    found = {}
    for e in os.scandir(directory):
        if e.is_file() and e.name.rsplit(".", 1)[-1] in DTYPE and e.name not in BESIDE:
            found[e.name] = e.stat().st_size
    assert found == wanted, f"lists {sorted(found.items() - wanted.items())}, not {sorted(wanted.items() - found.items())}"


def raw(directory, tensors):
    """np.fromfile, np.memmap and torch.from_file."""
    for name, t in tensors.items():
        path = os.path.join(directory, file_name(name, t.dtype))
        assert np.fromfile(path, np.uint8).tobytes() == bits(t), f"{path}: np.fromfile differs"
        if t.numel() == 0:
            continue
        assert np.memmap(path, np.uint8, "r").tobytes() == bits(t), f"{path}: np.memmap differs"
        mapped = torch.from_file(path, shared=False, size=t.numel(), dtype=t.dtype).view(t.shape)
        same(mapped, t, f"{path}: torch.from_file")


def npy(directory, tensors):
    """np.load, mapped and read; what NumPy lacks comes as float32."""
    for name, t in tensors.items():
        path = os.path.join(directory, "npy", file_name(name, t.dtype)[: -len(SUFFIX[t.dtype])] + "npy")
        wide = t.float() if SUFFIX[t.dtype] in ("bf16", "f8_e4m3", "f8_e5m2") else t
        for mode in ("r", None) if t.numel() else (None,):
            a = np.load(path, mmap_mode=mode, allow_pickle=False)
            assert a.shape == tuple(t.shape), f"{path}: shape {a.shape}, trained {tuple(t.shape)}"
            same(torch.from_numpy(np.array(a)), wide, path)


def safe(directory, tensors):
    """safetensors: load_file, and safe_open with slices."""
    path = os.path.join(directory, "model.safetensors")
    all_same(load_file(path), tensors, path)
    with safetensors.safe_open(path, framework="pt") as f:
        assert (f.metadata() or {}).get("format") == "pt", f"{path}: metadata {f.metadata()}"
        for name in f.keys():
            t = tensors[name]
            same(f.get_tensor(name), t, f"{path}: {name}")
            if t.dim() and t.shape[0] > 1 and t.numel():
                same(f.get_slice(name)[1:], t[1:], f"{path}: {name}[1:]")


def binary(directory, tensors, ties):
    """torch.load: weights only, mapped, and plain; what was tied shares its memory."""
    path = os.path.join(directory, "pytorch_model.bin")
    for how in ({"weights_only": True}, {"weights_only": True, "mmap": True}, {"weights_only": False}):
        found = torch.load(path, map_location="cpu", **how)
        all_same(found, tensors, f"{path} {how}")
        for a, b in ties:
            assert found[a].data_ptr() == found[b].data_ptr(), f"{path} {how}: {a} and {b} are two tensors"


def hub(directory, tensors):
    """hf/: the index names each tensor once, and each stands where it says."""
    folder = os.path.join(directory, "hf")
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        all_same(load_file(os.path.join(folder, "model.safetensors")), tensors, folder)
        return
    with open(index, encoding="utf-8") as f:
        index = json.load(f)
    found, shards = {}, sorted(set(index["weight_map"].values()))
    assert sorted(os.path.basename(p) for p in glob.glob(folder + "/*.safetensors")) == shards, f"{folder}: not the index's"
    for shard in shards:
        for name, t in load_file(os.path.join(folder, shard)).items():
            assert index["weight_map"][name] == shard, f"{folder}: {name} is in {shard}"
            found[name] = t
    all_same(found, tensors, folder)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    assert index["metadata"]["total_size"] == size, f"{folder}: total_size {index['metadata']}, not {size}"


def cast(directory, tensors, to, ties):
    """as/<type>: what torch's .to() makes, in every presentation."""
    wanted = {n: t.to(CASTS[to]) if t.is_floating_point() else t for n, t in tensors.items()}
    directory = os.path.join(directory, "as", to)
    names(directory, wanted)
    for name, t in wanted.items():
        path = os.path.join(directory, file_name(name, t.dtype))
        assert np.fromfile(path, np.uint8).tobytes() == bits(t), f"{path}: differs from .to()"
    all_same(load_file(os.path.join(directory, "model.safetensors")), wanted, directory)
    binary(directory, wanted, ties)


def linked(directory, tensors, ties):
    """Tied names are hard links, and no others are."""
    inode = {n: os.stat(os.path.join(directory, file_name(n, t.dtype))) for n, t in tensors.items()}
    for a, b in ties:
        assert inode[a].st_ino == inode[b].st_ino, f"{a} and {b} are not one inode"
    for n, s in inode.items():
        count = sum(o.st_ino == s.st_ino for o in inode.values())
        assert s.st_nlink == count, f"{n}: st_nlink {s.st_nlink}, {count} names"
    tied = {n for pair in ties for n in pair}
    assert all(s.st_nlink == 1 for n, s in inode.items() if n not in tied), "names that were never tied are linked"


# ---- the whole mount -------------------------------------------------------------------------------------------

def run(*words):
    done = subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{words[0]}: {done.stderr.decode(errors='replace').strip()}"
    return done.stdout


def files(top):
    """{path: SHA-256} of all that can be listed."""
    out = {}
    for folder, _, inside in os.walk(top):
        for f in inside:
            path = os.path.join(folder, f)
            with open(path, "rb") as fh:
                out[os.path.relpath(path, top)] = hashlib.file_digest(fh, "sha256").hexdigest()
    return out


def tools(mount, tensors, scratch):
    """cp, dd, tar, rsync and sha256sum see what Python sees, and the root's tensors."""
    wanted = files(mount)
    for name, t in tensors.items():
        path = file_name(name, t.dtype)
        assert wanted[path] == hashlib.sha256(bits(t)).hexdigest(), f"{path}: differs from the trained tensor"
    listed = run("sh", "-c", 'cd "$1" && find . -type f -exec sha256sum {} +', "sh", mount).decode()
    found = {line.lstrip("\\").split("  ./", 1)[1]: line.lstrip("\\")[:64] for line in listed.splitlines()}
    assert found == wanted, "sha256sum differs"
    copy = os.path.join(scratch, "copy")
    copiers = [["cp", "-r", mount + "/.", copy]]
    if shutil.which("rsync"):
        copiers.append(["rsync", "-a", mount + "/", copy])
    for words in copiers:
        os.mkdir(copy)
        run(*words)
        assert files(copy) == wanted, f"{words[0]}'s copy differs"
        run("chmod", "-R", "u+w", copy)
        shutil.rmtree(copy)
    archive = os.path.join(scratch, "all.tar")
    run("tar", "-C", mount, "-cf", archive, ".")
    with tarfile.open(archive) as tar:
        for m in tar.getmembers():
            if m.isfile():
                digest = hashlib.sha256(tar.extractfile(m).read()).hexdigest()
                assert digest == wanted[os.path.normpath(m.name)], f"tar's {m.name} differs"
    os.unlink(archive)
    largest = max(tensors, key=lambda n: tensors[n].numel())
    path = os.path.join(mount, file_name(largest, tensors[largest].dtype))
    for size in ("7", "4099", "1M"):
        assert run("dd", "if=" + path, "bs=" + size, "status=none") == bits(tensors[largest]), f"dd bs={size} differs"


def answer(m, ids):
    """A model's logits, the same to the bit each time: sums depend on threads and on how memory is aligned."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for p in m.parameters():
        p.data = p.data.clone()
    m.tie_weights()
    with torch.no_grad():
        logits = m.eval()(ids).logits
    torch.set_num_threads(threads)
    return logits


def model(mount, truth):
    """transformers' from_pretrained on the mount and on its hf/: the same logits as the trained model."""
    import transformers  # pylint: disable=import-outside-toplevel
    for path in (mount, os.path.join(mount, "hf")):
        m = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=truth["hub"]["dtype"])
        same(answer(m, truth["hub"]["ids"]), truth["hub"]["logits"], f"logits from {path}")
        same(m.lm_head.weight.detach(), truth["hub"]["head"], f"output embedding from {path}")
    # What is cast says so in its config.json.
    for suffix, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        m = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(mount, "as", suffix, "hf"), dtype="auto")
        assert m.dtype == dtype, f"as/{suffix}/hf loads as {m.dtype}"


def decoder(mount, recipe, ids, logits, tensors):
    """hf/ is what this recipe makes: transformers leaves out and lacks nothing, and answers as the trained model did."""
    import transformers  # pylint: disable=import-outside-toplevel
    path = os.path.join(mount, "hf")
    with open(os.path.join(path, "recipe.json"), encoding="utf-8") as f:
        assert json.load(f)["recipe"] == recipe, "another recipe"
    m, said = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, output_loading_info=True)
    assert not said["missing_keys"] and not said["unexpected_keys"], said
    with torch.no_grad():
        off = (m.eval()(ids).logits - logits).abs().max().item()
    assert off <= MOST_OFF and logits.abs().max() > 0.1, f"logits differ by {off}"
    if tensors:
        shown = {}
        for file in glob.glob(os.path.join(path, "*.safetensors")):
            shown.update(load_file(file))
        all_same(shown, tensors, path)


def adapter(mount, checkpoint, truth):
    """adapter/default/ is what PEFT saved, byte for byte, and PEFT loads it: the same logits as the trained model."""
    import peft  # pylint: disable=import-outside-toplevel
    import transformers  # pylint: disable=import-outside-toplevel
    path = os.path.join(mount, "adapter", "default")
    if truth["computed"]:
        assert not os.path.exists(path), f"{path} is there"
        with open(os.path.join(mount, ".zerofs", "index.json"), encoding="utf-8") as f:
            assert "adapter/default/" in f.read(), "nothing says why"
        return
    all_same(load_file(os.path.join(path, "adapter_model.safetensors")),
             load_file(os.path.join(checkpoint, "adapter_model.safetensors")), path)
    m = transformers.LlamaForCausalLM(transformers.LlamaConfig(**truth["settings"]))
    m.load_state_dict(truth["base"])
    m = peft.PeftModel.from_pretrained(m, path).eval()
    with torch.no_grad():
        # From a mapping, whose alignment is another one, they may be rounded otherwise.
        torch.testing.assert_close(m(input_ids=truth["ids"]).logits, truth["logits"], rtol=1e-5, atol=1e-6)


# ---- the frameworks' own converters ----------------------------------------------------------------------------

def zero_to_fp32(mount, checkpoint, truth):
    """DeepSpeed's converter returns the same float32 weights."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint  # pylint: disable=C0415
    with contextlib.redirect_stdout(sys.stderr):
        found = get_fp32_state_dict_from_zero_checkpoint(checkpoint)
    assert found, "zero_to_fp32 found nothing"
    for name, t in found.items():
        trained = truth["sets"][""][name]
        path = os.path.join(mount, "as", "f32", file_name(name, torch.float32))
        if not trained.is_floating_point():
            # The converter makes floats of all buffers.
            path = os.path.join(mount, file_name(name, trained.dtype))
            served = torch.from_numpy(np.fromfile(path, np.uint8)).view(trained.dtype).view(trained.shape)
            same(served.to(t.dtype), t.detach(), f"zero_to_fp32: {name}")
            continue
        served = torch.from_numpy(np.fromfile(path, np.float32)).view(t.shape)
        same(served, t.detach().float(), f"zero_to_fp32: {name}")


def dcp_to_torch(mount, checkpoint, scratch):
    """torch.distributed.checkpoint's converter returns the same model and moments."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # pylint: disable=C0415
    path = os.path.join(scratch, "dcp.pt")
    dcp_to_torch_save(checkpoint, path)
    found = torch.load(path, weights_only=False)
    os.unlink(path)
    seen = 0
    for name, t in found["model"].items():
        read(mount, name, t)
        seen += 1
    for name, state in found["optim"]["state"].items():
        for key, t in state.items():
            read(os.path.join(mount, "optim", key), name, t)
            seen += 1
    assert seen, "dcp_to_torch_save found nothing"


def read(directory, name, wanted):
    path = os.path.join(directory, file_name(name, wanted.dtype))
    with open(path, "rb") as f:
        assert f.read() == bits(wanted), f"{path}: differs from dcp_to_torch_save"


def converter(mount, checkpoint, truth, scratch):
    if truth["reference"] == "deepspeed":
        zero_to_fp32(mount, checkpoint, truth)
    elif truth["reference"] == "dcp":
        dcp_to_torch(mount, checkpoint, scratch)
    else:
        raise Skip("no converter of its own")
