# SPDX-License-Identifier: Apache-2.0
"""cli.py CHECK ARGUMENTS: what the commands print; an exception is a failure."""
import hashlib
import json
import os
import pty
import struct
import subprocess
import sys


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0 and not done.stderr, (words, done.returncode, done.stderr)
    return done.stdout


def ls_json(zerofs, checkpoint):
    lines = [json.loads(line) for line in run(zerofs, "ls", "-R", "--json", checkpoint).splitlines()]
    assert [x["path"] for x in lines] == run(zerofs, "ls", "-R", checkpoint).decode().splitlines()
    by_path = {x["path"]: x for x in lines}
    embed = by_path["embed.weight.f32"]
    assert (embed["dtype"], embed["shape"], embed["bytes"]) == ("f32", [7, 5], 140), embed
    assert by_path["state/ds_version.json"]["bytes"] == 9
    cast = json.loads(run(zerofs, "ls", "--json", checkpoint, "as/bf16/embed*"))
    assert (cast["dtype"], cast["bytes"]) == ("bf16", 70), cast


def all_readable(zerofs, checkpoint):
    entries = [json.loads(line) for line in run(zerofs, "ls", "-R", "-a", "--json", checkpoint).splitlines()]
    assert len(entries) > 100, len(entries)
    all_bytes = run(zerofs, "cat", checkpoint, *(x["path"] for x in entries))
    assert len(all_bytes) == sum(x["bytes"] for x in entries)


def odd_names(zerofs, path):
    keys = ["a\nb", "\x1b[31mred", "..", "a/../../etc/passwd", "%41", ".hidden", "x" * 400, "é", ""]
    head = {k: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, k in enumerate(keys)}
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(range(len(keys))))
    listed = run(zerofs, "ls", "-R", path).split(b"\n")[:-1]
    assert len(listed) == len(keys), listed
    for name in listed:
        assert len(name) <= 255 and b"/" not in name and name[:1] != b".", name
        assert not [c for c in name if c < 32 or c == 127], name
        assert len(run(zerofs, "cat", path, os.fsdecode(name))) == 1, name
    assert run(zerofs, "cat", path, "a%0Ab.u8") == b"\0"


def info_json(zerofs, checkpoint):
    i = json.loads(run(zerofs, "info", "--json", checkpoint))
    assert i["schema"] == "zerofs.info/1" and i["format"] == "deepspeed" and i["path"] == checkpoint, i
    assert i["tag"] == "global_step3" and i["step"] == 3, i
    root = [s for s in i["sets"] if s["path"] == ""]
    assert len(root) == 1 and root[0]["tensors"] == 12 and root[0]["dtypes"]["f32"] > 0, root


def cat_digest(zerofs, checkpoint):
    with open(os.path.join(checkpoint, "expected.json")) as f:
        want = json.load(f)["params"]["embed.weight"]["exp_avg"]["sha256"]
    got = run(zerofs, "cat", checkpoint, "optim/exp_avg/embed.weight.f32")
    assert hashlib.sha256(got).hexdigest() == want


def ls_terminal(zerofs, folder):
    """A name that is no text is shown on a terminal as "?", for each byte one; what is text is shown as it is."""
    try:
        keeper, terminal = pty.openpty()
    except OSError:
        return  # a machine without pseudo terminals
    sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests/support"))
    import torchfile
    path = os.path.join(folder, "names.pt")
    one, two = torchfile.Tensor(1.0), torchfile.Tensor(2.0)
    torchfile.save({"caf\u00e9 \U0001f40d": one, "x": one, "no\udcff\x07text": two, "y": two}, path)
    words = [zerofs, "ls", "-R", "-l", path]
    plain = run(*words).splitlines()
    assert subprocess.run(words, stdin=subprocess.DEVNULL, stdout=terminal, env={**os.environ, "LC_ALL": "C.UTF-8"}).returncode == 0
    os.close(terminal)
    seen = b""
    while b"y.f32 ->" not in seen or not seen.endswith(b"\n"):
        seen += os.read(keeper, 1000)
    seen = seen.replace(b"\r\n", b"\n").splitlines()
    ends = [line.rpartition(b" -> ")[2] for line in plain if b" -> " in line]
    assert sorted(ends) == ["caf\u00e9 \U0001f40d".encode(), b"no\xed\xb3\xbf\x07text"], plain
    for was, shown in zip(plain, seen):
        assert shown == was.replace(b"\xed\xb3\xbf\x07", b"????"), (was, shown)


def cat_terminal(zerofs, checkpoint):
    try:
        keeper, terminal = pty.openpty()
    except OSError:
        return  # a machine without pseudo terminals
    words = [zerofs, "cat", checkpoint, "scale.f32"]
    for path in "scale.f32", "model.safetensors", "npy/scale.npy", "as/bf16/pytorch_model.bin":
        done = subprocess.run(words[:3] + [path], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE)
        assert done.returncode == 2 and b"terminal" in done.stderr, done
    text = words[:3] + ["state/ds_config.json"]
    assert subprocess.run(text, stdin=subprocess.DEVNULL, stdout=terminal).returncode == 0
    assert os.read(keeper, 1) == b"{"
    assert subprocess.run(words[:2] + ["-f"] + words[2:], stdin=subprocess.DEVNULL, stdout=terminal).returncode == 0
    os.close(terminal)
    assert os.read(keeper, 100)


def ties(zerofs, data):
    """Tied names: each file is listed as itself, and info counts what it says it counts."""
    c = data + "/hf/torchsave_whole_module"
    lines = [json.loads(line) for line in run(zerofs, "ls", "-R", "--json", c).splitlines()]
    tied = [x for x in lines if "alias_of" in x]
    assert tied, lines
    for x in lines:
        if "name" in x and "/" not in x["path"]:
            assert x["path"] == x["name"] + "." + x["dtype"], x
    for x in tied:
        assert any(y.get("name") == x["alias_of"] and "alias_of" not in y for y in lines), x
    shown = run(zerofs, "ls", "-R", "-l", c).decode().splitlines()
    for x in tied:
        assert any(line.endswith("  %s -> %s" % (x["path"], x["alias_of"])) for line in shown), shown
    for s in json.loads(run(zerofs, "info", "--json", c))["sets"]:
        assert s["tensors"] == sum(s["dtypes"].values()), s


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
