#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs info says what loading a checkpoint with Python would run.  tests/unit/codec/test_code.py compares the lists with Python's."""
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import stfile  # noqa: E402 pylint: disable=wrong-import-position
from tap import main  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")


def tensor(key):
    """torch._utils._rebuild_tensor_v2 of four floats."""
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + key + b"X\3\0\0\0cpuK\4tQK\0K\4\x85K\1\x85\x89"
            b"ccollections\nOrderedDict\n)RtR")


def save(path, extra=b"", values=b""):
    """A torch.save archive of {"w": tensor, "x": extra}."""
    data = b"\x80\2}(X\1\0\0\0w" + tensor(b"0") + (b"X\1\0\0\0x" + extra if extra else b"") + b"u."
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("a/data.pkl", data)
        z.writestr("a/data/0", values or struct.pack("<4f", 1, 2, 3, 4))
        z.writestr("a/version", "3\n")
    with open(path, "wb") as out:
        out.write(f.getvalue())
    return data, f.getvalue()


def info(path):
    """The document's "code", and the line."""
    done = [subprocess.run([ZEROFS, "info", *flags, path], capture_output=True, text=True, check=False, timeout=60) for flags in ([], ["--json"])]
    assert [d.returncode for d in done] == [0, 0], done
    line = [x for x in done[0].stdout.splitlines() if x.startswith("code ")]
    assert len(line) == 1, done[0].stdout
    return json.loads(done[1].stdout)["code"], line[0]


def weights_only():
    with tempfile.TemporaryDirectory() as d:
        stfile.save(os.path.join(d, "model.safetensors"), {"w": ("F32", [1], bytes(4))})
        code, line = info(d)
        assert code["pickles"] == 0 and code["globals"] == [] and "no pickle" in line, (code, line)


def writers_own():
    with tempfile.TemporaryDirectory() as d:
        save(os.path.join(d, "x.pt"))
        code, line = info(os.path.join(d, "x.pt"))
        assert {g["name"]: g["class"] for g in code["globals"]} == {
            "torch._utils._rebuild_tensor_v2": "known", "torch.FloatStorage": "known", "collections.OrderedDict": "known"}, code
        assert "would run nothing" in line and "DANGEROUS" not in line, line


def foreign():
    with tempfile.TemporaryDirectory() as d:
        _, whole = save(os.path.join(d, "x.pt"), b"cmy.trainer\nConfig\n")
        code, line = info(os.path.join(d, "x.pt"))
        mine = [g for g in code["globals"] if g["class"] == "foreign"]
        assert mine == [{"name": "my.trainer.Config", "class": "foreign", "files": 1, "called": None,
                         "first": {"file": "x.pt", "member": "a/data.pkl", "byte": whole.index(b"cmy.trainer")}}], mine
        assert "import my.trainer.Config (1 file); nothing is called" in line, line


def dangerous():
    with tempfile.TemporaryDirectory() as d:
        _, whole = save(os.path.join(d, "x.pt"), b"cposix\nsystem\nX\2\0\0\0id\x85R")
        code, line = info(os.path.join(d, "x.pt"))
        mine = [g for g in code["globals"] if g["class"] == "dangerous"]
        assert [g["name"] for g in mine] == ["posix.system"] and mine[0]["called"]["byte"] == whole.index(b"id\x85R") + 3, mine
        assert "DANGEROUS: loading it with Python would import posix.system (1 file) and call posix.system" in line, line


def verify(folder):
    """Exit code and the findings about code: (weight, file, byte, text)."""
    done = subprocess.run([ZEROFS, "verify", "--json", folder], capture_output=True, text=True, check=False, timeout=60)
    rows = [json.loads(x) for x in done.stdout.splitlines()]
    return done.returncode, rows[-1]["verdict"], [(r["weight"], r["file"], r.get("first"), r["text"]) for r in rows if r["kind"] == "code"]


def verified():
    """Also of files that are beside those of the save, in a run's directory, and behind a pointer."""
    with tempfile.TemporaryDirectory() as d:
        run = os.path.join(d, "run")
        os.makedirs(os.path.join(run, "step5"))
        stfile.save(os.path.join(run, "step5", "model.safetensors"), {"w": ("F32", [1], struct.pack("<f", 1.5))})
        assert verify(run) == (0, "WHOLE", []), verify(run)
        _, whole = save(os.path.join(run, "step5", "beside.pt"), b"cmy.trainer\nConfig\n")
        want = ("note", "beside.pt", whole.index(b"cmy.trainer"), "loading it with Python would import my.trainer.Config (1 file)")
        code, verdict, rows = verify(run)
        assert (code, verdict) == (0, "WHOLE") and [(w, os.path.basename(f), at, t) for w, f, at, t in rows] == [want], rows
        with open(os.path.join(run, "step5", "optimizer.pkl"), "wb") as f:
            f.write(b"\x80\2cos\nsystem\nX\2\0\0\0id\x85R.")
        code, verdict, rows = verify(run)
        assert (code, verdict) == (1, "DANGEROUS"), (code, verdict, rows)
        assert [(w, os.path.basename(f), at, t) for w, f, at, t in rows if w == "danger"] == [
            ("danger", "optimizer.pkl", 21, "loading it with Python would import and call os.system (dangerous; 1 file)")], rows
        assert verify(os.path.join(run, "step5", "beside.pt"))[:2] == (0, "WHOLE")


main([verified, weights_only, writers_own, foreign, dangerous])
