# SPDX-License-Identifier: Apache-2.0
"""show.py CHECK ARGUMENTS: what a mounted tree lists; an exception is a failure.  The checkpoint is ZeRO-2 with masters."""
import filecmp
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

WORDS = {"npy": "npy", "as": "as", "hf": "hf", "safetensors": "model.safetensors", "bin": "pytorch_model.bin",
         "optim": "optim", "stored": "stored", "trained": "trained", "state": "state"}
SETS = ("", "optim/exp_avg", "optim/exp_avg_sq", "optim/step", "stored", "trained")
DTYPES = ("f32", "f16", "bf16")


def index(mnt):
    with open(os.path.join(mnt, ".zerofs/index.json"), encoding="utf8") as f:
        return json.load(f)


def raw(mnt, path):
    """The raw files of a set; its directories below as/ have files of the same number."""
    return {t["file"] for t in index(mnt)["tensors"] if t["set"] == path}


def listed(*path):
    names = os.listdir(os.path.join(*path))
    assert len(names) == len(set(names)), names
    return set(names)


def expect(found, wanted, where):
    assert found == wanted, f"{where or '/'}: not listed {sorted(wanted - found)}, listed {sorted(found - wanted)}"


def auto(mnt):
    expect(listed(mnt), raw(mnt, "") | (set(WORDS.values()) - {"as", "trained"}), "")
    assert os.path.isdir(os.path.join(mnt, "trained")) and listed(mnt, "trained")
    expect(listed(mnt, "optim"), {"exp_avg", "exp_avg_sq", "step"}, "optim")
    for path in SETS[1:]:
        expect(listed(mnt, path), raw(mnt, path), path)
    for path in SETS:
        expect(listed(mnt, path, "as"), set(DTYPES), path + "/as")
        for dtype in DTYPES:
            found = listed(mnt, path, "as", dtype)
            assert len(found) == len(raw(mnt, path)), (path, dtype, found)
            assert all(os.path.isfile(os.path.join(mnt, path, "as", dtype, f)) for f in found), (path, dtype)


def everything(mnt):
    presentations = {"npy", "as", "hf", "model.safetensors", "pytorch_model.bin"}
    expect(listed(mnt), raw(mnt, "") | set(WORDS.values()), "")
    for path in SETS[1:]:
        expect(listed(mnt, path), raw(mnt, path) | presentations, path)
        for dtype in DTYPES:
            assert presentations - {"as"} <= listed(mnt, path, "as", dtype), (path, dtype)


def trained(mnt, *words):
    """Of what was trained alone, the root lists these."""
    expect(listed(mnt) & {"adapter", "trained"}, set(words), "")


def lists(mnt, *words):
    wanted = {WORDS[w] for w in words if w in WORDS}
    expect(listed(mnt), wanted | (raw(mnt, "") if "raw" in words else set()), "")
    # Within a directory that is not listed itself, the same words count.
    inner = {WORDS[w] for w in words if w in ("npy", "as", "hf", "safetensors", "bin")}
    if "raw" in words or not inner - {"as"}:
        inner |= raw(mnt, "optim/exp_avg")
    expect(listed(mnt, "optim/exp_avg"), inner, "optim/exp_avg")


def by_name(mnt):
    for path in SETS:
        for below in [""] + ["as/" + d for d in DTYPES]:
            top = os.path.join(mnt, path, below)
            assert len(listed(top, "npy")) == len(raw(mnt, path)), top
            assert "model.safetensors" in listed(top, "hf"), top
            for name in ("model.safetensors", "pytorch_model.bin", "hf/model.safetensors"):
                with open(os.path.join(top, name), "rb") as f:
                    assert len(f.read()) == os.fstat(f.fileno()).st_size > 0, name
    for t in index(mnt)["tensors"]:
        assert os.stat(os.path.join(mnt, t["set"], t["file"])).st_size == t["bytes"]


def links(mnt):
    n = 0
    for folder, dirs, _ in os.walk(mnt):
        assert os.stat(folder).st_nlink == 2 + len(dirs), folder
        n += 1
    assert subprocess.run(["find", mnt, "-type", "d"], capture_output=True, check=True).stdout.count(b"\n") == n


class Plain(pickle.Unpickler):
    """Imports nothing."""

    def find_class(self, module_name, global_name):
        raise pickle.UnpicklingError(module_name + "." + global_name)


def plain(path):
    """(the value,) of a torch.save archive of nothing but Python's own types, or None."""
    try:
        with zipfile.ZipFile(path) as z:
            pkl = next(n for n in z.namelist() if n.endswith("/data.pkl"))
            return (json.loads(json.dumps(Plain(io.BytesIO(z.read(pkl))).load(), allow_nan=False)),)
    except (zipfile.BadZipFile, pickle.UnpicklingError, AttributeError, ImportError, TypeError, ValueError):
        return None


def told(mnt, some, state="state/checkpoint.json"):
    """What state/ says is found in extra/, and listed only with what else is there; `some`: there is something else."""
    extra = os.path.join(mnt, "extra")
    assert ("extra" in listed(mnt)) == (some == "some"), listed(mnt)
    with open(os.path.join(mnt, state), encoding="utf8") as f:
        said = json.load(f)
    n = 0
    for key, value in said.items():
        path = os.path.join(extra, key.replace("/", "%2F"))
        item = plain(path)
        if item and "__" not in json.dumps(value):
            assert item == (value,), (key, item, value)
            assert (key in listed(mnt, "extra")) == (some != "some"), key
            n += 1
        else:
            assert os.path.basename(path) in listed(mnt, "extra"), key
    assert n, said
    assert some != "some" or listed(mnt, "extra"), "nothing else"


def has(mnt, path, name):
    assert name in listed(mnt, path)


def weights(path, dtype):
    """128 matrices of 16 MiB, sparse."""
    size = 16 << 20
    width = {"BF16": 2, "F32": 4}[dtype]
    head = {f"model.layers.{i}.mlp.down_proj.weight": {"dtype": dtype, "shape": [1024, size // width // 1024],
                                                       "data_offsets": [i * size, (i + 1) * size]} for i in range(128)}
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + 128 * size)


def du(mnt, file, times):
    run = subprocess.run(["du", "-s", "--apparent-size", "--block-size=1", mnt], capture_output=True, check=True)
    total, size = int(run.stdout.split()[0]), os.stat(file).st_size
    headers = 1 << 16
    assert 0.99 * size < total <= int(times) * size + headers, f"{total / size} times the weights"


def one_file(mnt, a, b):
    a, b = os.stat(os.path.join(mnt, a)), os.stat(os.path.join(mnt, b))
    assert a.st_ino == b.st_ino and a.st_nlink == b.st_nlink == 2, (a, b)


def same(a, b):
    cmp = filecmp.dircmp(a, b)
    assert cmp.common_files and not cmp.left_only and not cmp.right_only and not cmp.diff_files, cmp.report()


def copy(mnt, to):
    subprocess.run(["cp", "-r", mnt, to], check=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
