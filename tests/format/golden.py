# SPDX-License-Identifier: Apache-2.0
"""What the format tests share: tiny checkpoints made with the standard library, zerofs run on them, TAP."""
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from tap import main  # noqa: E402, F401 pylint: disable=unused-import,wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")


class Case:
    """One directory with a checkpoint in it, gone at the end of `with`."""

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="zf-format-")
        self.dir = self.tmp.name
        return self

    def __exit__(self, *exc):
        self.tmp.cleanup()

    def file(self, name, data):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else json.dumps(data).encode())
        return path

    def safetensors(self, name, tensors, boxes=None, cut=0):
        """tensors: {name: (dtype, shape, bytes)}; boxes: {name: offsets, or all that is said of it}, or the text itself; cut: bytes
        missing at the end."""
        head, data = {}, b""
        if boxes is not None:
            if not isinstance(boxes, str):
                boxes = json.dumps({k: v if isinstance(v, dict) else {"saved_offsets": v} for k, v in boxes.items()})
            head["__metadata__"] = {"DCP_SHARDING_INFO": boxes}
        for key, (dtype, shape, raw) in tensors.items():
            head[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(head).encode()
        whole = struct.pack("<Q", len(text)) + text + data
        return self.file(name, whole[: len(whole) - cut])

    def run(self, *args, at=""):
        command = [ZEROFS, args[0], *args[2:], os.path.join(self.dir, at), *args[1:2]]
        return subprocess.run([a for a in command if a is not None], capture_output=True, timeout=60)

    def cat(self, path, want, *opts, at=""):
        """The file at `path` of the tree holds these bytes."""
        r = self.run("cat", path, *opts, at=at)
        assert r.returncode == 0, r.stderr.decode()
        assert r.stdout == want, f"{path}: {len(r.stdout)} bytes differ from the {len(want)} written"

    def refused(self, *parts, code=4, at="", opts=()):
        """One sentence with all of these parts, and this exit status."""
        r = self.run("info", None, *opts, at=at)
        text = r.stderr.decode()
        assert r.returncode == code, f"exit status {r.returncode}: {text}"
        assert len(text.strip().splitlines()) == 1, text
        for part in parts:
            assert part in text, f"{part!r} is not in {text!r}"

    def told(self, *parts, opts=(), at=""):
        """`info -v` works and says all of these.  What is lost or refused, degraded, is exit code 4."""
        r = self.run("info", None, "-v", *opts, at=at)
        lost = b"\nlost  " in r.stdout
        degraded = "degraded" in "".join(opts)
        assert r.returncode == 4 if lost else r.returncode in ((0, 4) if degraded else (0,)), r.stderr.decode()
        assert degraded or not lost, r.stderr.decode()
        for part in parts:
            assert part in r.stdout.decode(), f"{part!r} is not in {r.stdout.decode()!r}"
