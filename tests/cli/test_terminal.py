#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names from a file that a terminal would obey: control characters, writing directions, separators of lines.  Python's own
tables say which those are."""
import json
import os
import shutil
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


DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
LONG = "model." + "a_long_name." * 7 + "weight"
NAMES = [LONG, "a\u202eb\x1b[31mc", "model.layers.0.self_attn.q_proj.weight", "é€", "model.layers.0.mlp.weight"]


def commands(tmp):
    """Every command that prints, on what is whole, damaged, hostile and not there; and whether each line must fit, for a
    sentence about what is wrong is one line however long."""
    one, two, run, ds = (os.path.join(tmp, d) for d in ("one", "two", "run", "ds"))
    save(one, NAMES)
    save(two, [*NAMES[:3], "other"])
    with open(os.path.join(two, "model.safetensors"), "r+b") as f:
        f.seek(-4, os.SEEK_END)
        f.write(b"\1")
    shutil.copytree(os.path.join(DATA, "deepspeed/zero3_w2"), ds)
    for tag in ("global_step3", "global_step20", "a_save_with_a_long_name_of_its_own-global_step100"):
        shutil.copytree(os.path.join(ds, "global_step3"), os.path.join(run, tag))
    cut = os.path.join(run, "global_step20", sorted(n for n in os.listdir(os.path.join(run, "global_step20")) if "optim" in n)[0])
    os.truncate(cut, os.path.getsize(cut) // 2)
    table = [["info", one], ["info", ds], ["info", "-v", "-o", "model_cache=off", one], ["info", "-v", "-o", "model_cache=off", ds],
             ["ls", one], ["ls", "-l", "-R", one], ["ls", "--tree", one], ["ls", "--tree", ds],
             ["tags", run], ["show", ds, "embed.weight"], ["stat", one], ["stat", ds], ["map", one, NAMES[2]],
             ["map", "--file", "model.safetensors", one], ["diff", one, two], ["verify", one], ["verify", ds],
             ["verify", os.path.join(run, "global_step20")], ["recipes", ds], ["--help"], ["ls", "--help"], ["mount", "--help"]]
    sentences = [["newest", run], ["cache", "ls", tmp], ["umount", tmp],
                 ["cat", one, NAMES[1] + ".u8"], ["cat", one, "no" + NAMES[1]], ["export", one, os.path.join(tmp, "out")],
                 ["index", os.path.join(tmp, "no" + NAMES[1])], ["info", os.path.join(tmp, "no" + NAMES[1])], ["mount", one, os.path.join(tmp, "none/at/all")],
                 ["recipe", "check", "no" + NAMES[1], ds], ["info", "-o", "tag=no" + NAMES[1], run], ["lss", one]]
    return [(words, True) for words in table] + [(words, False) for words in sentences]


def fits(line, width, tmp):
    """A line is no wider than the terminal.  A name or a path that is wider itself stays whole, and begins its line
    but for a mark."""
    name = line.strip().removeprefix("damage  ").removeprefix("- ").removeprefix("+ ").removeprefix("~ ")
    return len(line) <= width or " " not in name or name.startswith((LONG, tmp))


def every_command(tmp):
    for words, narrow in commands(tmp):
        for width in (40, 80, 200):
            for locale in ("C.UTF-8", "C"):
                env = {**os.environ, "LC_ALL": locale, "NO_COLOR": "1", "XDG_CACHE_HOME": "/dev/null"}
                env.pop("COLUMNS", None)
                seen = shown([ZEROFS, *words], width=width, on=("stdout", "stderr"), codes=range(6), env=env)
                seen = seen.replace("\r\033[K", "\n").replace("\r", "\n")  # of the line of progress
                assert seen.strip(), words
                assert not [hex(ord(c)) for c in set(seen) if obeyed(c) and c != "\n"], (words, seen)
                assert locale != "C" or seen.isascii(), (words, seen)
                # where there are only words; the numbers of a table take what they need
                room = width if words[0] == "recipes" or words[0] == "info" and words[1] != "-v" else max(width, 80)
                wide = [line for line in seen.split("\n") if narrow and not fits(line, room, tmp)]
                assert not wide, (words, width, locale, wide)


with tempfile.TemporaryDirectory(prefix="zf-terminal-") as where:
    results.run("a list on a terminal", listed, where)
    results.run("sentences", said, where)
    results.run("every command on terminals of 40, 80 and 200 columns", every_command, where)
results.done()
