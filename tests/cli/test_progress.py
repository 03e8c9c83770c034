#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that read much say on a terminal how far they are: one line, no wider than it, taken away at the end.  In a pipe, and with
--quiet, they say nothing."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
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


with tempfile.TemporaryDirectory(prefix="zf-progress-") as where:
    a, b = save(os.path.join(where, "a.safetensors")), save(os.path.join(where, "b.safetensors"))
    for command in (["stat", a], ["diff", a, b], ["verify", a]):
        results.run(f"{command[0]} on a terminal", shown, command)
        results.run(f"{command[0]} in a pipe", silent, command)
    results.run("diff --quiet", lambda: seen(["diff", "-q", a, b], 80) == "" or sys.exit("something was said"))
results.done()
