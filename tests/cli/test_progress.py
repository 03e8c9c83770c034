#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that read much say on a terminal how far they are: one line, no wider than it, taken away at the end.  In a pipe, and with
--quiet, they say nothing.  So do those that open a checkpoint for long: a server withholds one file of it until the line is there."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../remote")]
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from serve import Handler, Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Skip, results  # noqa: E402 pylint: disable=wrong-import-position
import terminal  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SIZE = 1 << 30
TENSORS = 4


def save(path):
    """A file of zeros that takes a while to go through, and no room."""
    each = SIZE // TENSORS
    head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [each // 4], "data_offsets": [i * each, (i + 1) * each]} for i in range(TENSORS)}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + SIZE)
    return path


def seen(words, width):
    """Of standard error alone."""
    return terminal.shown([ZEROFS, *words], width, on=("stderr",))


def shown(words):
    for width in (200, 40):
        text = seen(words, width)
        lines = [line for line in re.split("\r|\033\\[K|\n", text) if "%" in line]
        if not lines:
            raise Skip("it was over at once")
        part = r"\d+ %, [\d.]+ [KMG]?i?B of 1\.0 GiB"
        assert all(re.match(part, line) and len(line) < width for line in lines), lines
        done = [int(line.split()[0]) for line in lines]
        assert done == sorted(done) and done[-1] <= 100, done
        assert width == 40 or re.search(r"iB/s, \d+:\d\d left", lines[-1]) or done[-1] == 100, lines
        assert text.rindex("\033[K") > text.rindex("%"), "the line is taken away"


def silent(words):
    done = subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=120)
    assert b"%" not in done.stderr and b"\r" not in done.stderr, done.stderr


SHARDS = 6
ENV = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}


class Gated(Handler):
    """Answers nothing about one shard before the gate is open."""

    def early_fault(self):
        return (self.command == "GET" and "-00004-" in self.path and not self.server.gate.wait(100)) or super().early_fault()


def sharded(path):
    os.makedirs(path)
    names = [f"model-{i:05}-of-{SHARDS:05}.safetensors" for i in range(1, SHARDS + 1)]
    for i, name in enumerate(names):
        head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        with open(os.path.join(path, name), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + bytes(4))
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": 4 * SHARDS}, "weight_map": {f"t{i}": name for i, name in enumerate(names)}}, f)


def gated(root):
    server = Server(root, handler=Gated)
    server.gate = threading.Event()
    return server


def slow_open(words, root, width=80):
    """On a terminal: the line comes while the file is withheld, and goes when it is not."""
    with gated(root) as server:
        def look(text):
            if re.search(rb"\r\033\[Kopening, files \d+", text):
                server.gate.set()
        text = terminal.shown([ZEROFS, *(server.url if w == "URL" else w for w in words)], width, on=("stderr",), env=ENV, look=look)
    lines = [line for line in re.split("\r|\033\\[K|\n", text) if line]
    assert lines and all(len(line) < width for line in lines), lines
    if words[0] == "tags":
        assert all(re.fullmatch(r"opening, files \d+", line) for line in lines), lines
    else:
        all_of = [re.fullmatch(rf"opening, files (\d+) of ({SHARDS}|{SHARDS + 1})", line) for line in lines]
        assert all(all_of) and all(int(m[1]) < int(m[2]) for m in all_of[:1]), lines
    assert text.endswith("\r\033[K"), ("the line is taken away", text)


def slow_mount(root, mnt):
    os.mkdir(mnt)
    with mount_point(mnt):
        slow_open(["mount", "URL", mnt], root)
        assert "t0.npy" in os.listdir(os.path.join(mnt, "npy")) or os.listdir(mnt), os.listdir(mnt)


def slow_silent(root):
    """Longer than the line would need, where nobody sees it."""
    with gated(root) as server:
        timer = threading.Timer(2.7, server.gate.set)
        timer.start()
        done = subprocess.run([ZEROFS, "info", server.url], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120, env=ENV)
        timer.join()
    assert done.stderr == b"", done.stderr


def quick_silent(root):
    for command in ("info", "ls", "tags"):
        text = seen([command, root], 80)
        assert "opening" not in text, text


with tempfile.TemporaryDirectory(prefix="zf-progress-") as where:
    a, b = save(os.path.join(where, "a.safetensors")), save(os.path.join(where, "b.safetensors"))
    for command in (["stat", a], ["diff", a, b], ["verify", a]):
        results.run(f"{command[0]} on a terminal", shown, command)
        results.run(f"{command[0]} in a pipe", silent, command)
    far = os.path.join(where, "far")
    sharded(far)
    asked = subprocess.run([ZEROFS, "ls", "http://127.0.0.1:1/", "-o", "timeout=2"], check=False, capture_output=True, timeout=60)
    if b"built without libcurl" in asked.stderr:
        results.skip("opening slowly", "built without libcurl")
    else:
        for command in (["info", "URL"], ["ls", "URL"], ["show", "URL", "t1"], ["tags", "URL"], ["verify", "--quick", "URL"], ["cat", "URL", "t1.f32"]):
            results.run(f"{command[0]} of what opens slowly", slow_open, command, far)
        results.run("on a narrow terminal", slow_open, ["info", "URL"], far, 28)
        if os.access("/dev/fuse", os.R_OK | os.W_OK):
            results.run("mount of what opens slowly", slow_mount, far, os.path.join(where, "mnt"))
        else:
            results.skip("mount of what opens slowly", "/dev/fuse cannot be opened")
        results.run("what opens slowly, in a pipe", slow_silent, far)
    results.run("what opens at once", quick_silent, far)
    results.run("diff --quiet", lambda: seen(["diff", "-q", a, b], 80) == "" or sys.exit("something was said"))
results.done()
