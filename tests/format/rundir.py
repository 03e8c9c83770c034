# SPDX-License-Identifier: Apache-2.0
"""Run directories made for a test, and what `info` says of them."""
import json
import os
import struct
import subprocess

from golden import ZEROFS, Case
from made import A, check, save

TWO = struct.pack("<2f", 1, 2)


def zerofs(*args, **more):
    return subprocess.run([ZEROFS, *args], capture_output=True, text=True, errors="replace", timeout=60, **more)


def info(path, *opts):
    r = zerofs("info", "--json", *opts, path)
    told = r.returncode == 0 or (r.returncode == 4 and "degraded" in opts and r.stdout)  # 4: something is lost
    return r, json.loads(r.stdout) if told else {}


class Dir(Case):
    def path(self, name=""):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def torch(self, name, value):
        save(value, self.path(name))

    def st(self, name, key="w"):
        self.safetensors(name, {key: ("F32", [2], TWO)})

    def zero(self, run, *steps, latest=None):
        """A run directory of DeepSpeed."""
        for step in steps:
            self.torch(f"{run}/global_step{step}/mp_rank_00_model_states.pt", {"module": {"w": A}})
        if latest is not None:
            self.file(f"{run}/latest", f"global_step{latest}".encode())

    def info(self, at="", *opts):
        return info(os.path.join(self.dir, at), *opts)

    def says(self, what, code, *parts, at="", opts=(), **more):
        r = zerofs("info", *opts, os.path.join(self.dir, at), **more)
        check(what, r.returncode == code and all(p in r.stderr for p in parts) and
              len(r.stderr.splitlines()) == 1 and (not r.stdout or code == 4), (r.returncode, r.stderr, r.stdout))
