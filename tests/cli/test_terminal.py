#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names from a file that a terminal would obey: control characters, writing directions, separators of lines.  Python's own
tables say which those are."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import results  # noqa: E402 pylint: disable=wrong-import-position
from terminal import shown  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
MARKS = ("LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK")


def obeyed(c):
    return (unicodedata.category(c) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(c) in DIRECTIONS or
            unicodedata.name(c, "") in MARKS)


ALL = [chr(k) for k in range(1, 0x110000) if not 0xd800 <= k < 0xe000]
BAD = [c for c in ALL if obeyed(c)]
# Neighbours of those, and letters of every length.
GOOD = sorted({chr(ord(c) + d) for c in BAD for d in (-1, 1) if 0x20 < ord(c) + d} - set(BAD) - {"/"}) + list("aé€𝄞")


def on_terminal(words):
    return shown(words, on=("stdout", "stderr"), env={**os.environ, "LC_ALL": "C.UTF-8"})


def save(path, names):
    os.mkdir(path)
    head = json.dumps({n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + bytes(len(names)))


def listed(tmp):
    ckpt = os.path.join(tmp, "ckpt")
    save(ckpt, [f"x{k}{c}y" for k, c in enumerate(BAD + GOOD)])
    for words in (["ls", "-R"], ["ls", "-l", "-R"]):
        seen = on_terminal([ZEROFS, *words, ckpt])
        assert not [hex(ord(c)) for c in set(seen) if obeyed(c) and c != "\n"]
        for k, c in enumerate(BAD + GOOD):
            if c in GOOD:
                assert f"x{k}{c}y" in seen, (words, hex(ord(c)))
    text = subprocess.run([ZEROFS, "ls", "-R", ckpt], capture_output=True, check=True, timeout=60).stdout.decode()
    assert "\u202e" in text, "no terminal: names are as they are"


def said(tmp):
    for c in BAD:
        got = subprocess.run([ZEROFS, "ls", "-R", os.path.join(tmp, f"no{c}where")], capture_output=True, check=False, timeout=60)
        assert got.returncode != 0
        text = got.stderr.decode()
        assert not [hex(ord(x)) for x in text if obeyed(x) and x != "\n"], (hex(ord(c)), text)
    for c in ("é", "€"):
        got = subprocess.run([ZEROFS, "ls", "-R", os.path.join(tmp, f"no{c}where")], capture_output=True, check=False, timeout=60)
        assert f"no{c}where" in got.stderr.decode()


with tempfile.TemporaryDirectory(prefix="zf-terminal-") as where:
    results.run("a list on a terminal", listed, where)
    results.run("sentences", said, where)
results.done()
