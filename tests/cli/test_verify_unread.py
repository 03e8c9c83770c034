#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs verify of saves of which something cannot be read: the files are checked without their metadata.  Python's zipfile says which members are
damaged, sha256sum(1) writes the lists, CPython's pickle the code."""
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import main_in_folders  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))


def verify(code, *words):
    done = subprocess.run([ZEROFS, "verify", "--json", *words], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    assert done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stderr.decode()}{done.stdout.decode()}"
    rows = [json.loads(r) for r in done.stdout.splitlines()]
    return rows[:-1], rows[-1]["verdict"] if rows else done.stderr.decode()


def copy_of(folder, name):
    out = os.path.join(folder, os.path.basename(name))
    shutil.copytree(os.path.join(DATA, name), out, ignore=shutil.ignore_patterns("expected.json"))
    return out


def cut(path, size):
    os.truncate(path, size)


def unread(rows, path):
    """The finding that says why there is no map."""
    found = [r for r in rows if "the structure cannot be read" in r["text"]]
    assert len(found) == 1 and found[0]["file"].endswith(path) and found[0]["kind"] == "structure", rows
    return found[0]


def damage(path):
    """Flips a byte in the middle of the largest archive member; returns the place."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    # Archives follow each other in a .distcp file: each begins with the header of its first member.
    at = data.index(b"PK\3\4")
    end = data.index(b"PK\5\6", at) + 22
    with zipfile.ZipFile(io.BytesIO(data[at:end])) as z:
        member = max((i for i in z.infolist() if i.CRC), key=lambda i: i.file_size)
        name = member.filename
        place = at + member.header_offset + 30 + int.from_bytes(data[at + member.header_offset + 26:at + member.header_offset + 28], "little") \
            + int.from_bytes(data[at + member.header_offset + 28:at + member.header_offset + 30], "little") + member.file_size // 2
    data[place] ^= 1
    with zipfile.ZipFile(io.BytesIO(data[at:end])) as z:
        assert z.testzip() == name, name
    with open(path, "wb") as f:
        f.write(data)
    return place


def dcp(folder):
    """A cut .metadata: the archives of its shards, a list of sums, and code are still checked."""
    save = copy_of(folder, "dcp/torch2.14/dt_2p")
    lists = os.path.join(folder, "sums")
    with open(lists, "wb") as f:
        f.write(subprocess.run(["sha256sum", "__0_0.distcp", "__1_0.distcp"], cwd=save, capture_output=True, check=True).stdout)
    cut(os.path.join(save, ".metadata"), 700)
    rows, verdict = verify(4, save)
    assert verdict == "DAMAGED" and unread(rows, ".metadata")["weight"] == "damage", rows
    assert not [r for r in rows if r["kind"] != "structure" and r["weight"] != "note"], rows
    assert not [r for r in verify(4, "--check", lists, save)[0] if r["kind"] == "sum"], "the sums of both shards are right"
    assert "so only" not in unread(verify(4, "--quick", save)[0], ".metadata")["text"]

    place = damage(os.path.join(save, "__1_0.distcp"))
    rows = verify(4, "--check", lists, save)[0]
    found = [r for r in rows if r["kind"] == "archive" and r["weight"] == "damage"]
    assert len(found) == 1 and found[0]["file"].endswith("__1_0.distcp") and found[0]["first"] <= place < found[0]["end"], (place, rows)
    found = [r for r in rows if r["kind"] == "sum"]
    assert [r["file"].endswith("__1_0.distcp") for r in found] == [True], rows

    with open(os.path.join(save, "extra.pkl"), "wb") as f:
        f.write(pickle.dumps(os.system))
    assert any(r["weight"] == "danger" and r["file"] == "extra.pkl" for r in verify(4, save)[0]), "code in other files of the folder"
    text = subprocess.run([ZEROFS, "verify", save], stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True).stdout
    assert text.splitlines()[-1].startswith("DAMAGED: 2 of 3 files. "), text


def one_file(folder):
    """A file without its zip directory: named once, and its neighbours are not looked at."""
    save = copy_of(folder, "hf/torchsave_training_ckpt")
    path = os.path.join(save, "checkpoint-3.pth.tar")
    with open(os.path.join(save, "other.pkl"), "wb") as f:
        f.write(pickle.dumps(os.system))
    cut(path, 700)
    rows, verdict = verify(4, path)
    assert verdict == "DAMAGED" and len([r for r in rows if r["weight"] == "damage" and r["kind"] != "structure"]) == 1, rows
    unread(rows, "checkpoint-3.pth.tar")
    assert not [r for r in rows if r["file"] == "other.pkl"], rows


def integrity(folder):
    """Megatron's list, without the index; a run directory, whose tracker names the save."""
    run = copy_of(folder, "megatron/run_folder_core_0.19.2")
    save = os.path.join(run, "iter_0000020")
    metadata = os.path.join(save, ".metadata")
    cut(metadata, os.path.getsize(metadata) // 2)
    shard = sorted(n for n in os.listdir(save) if n.endswith(".distcp"))[-1]
    damage(os.path.join(save, shard))
    for path in (run, save):
        rows, _ = verify(4, path)
        unread(rows, ".metadata")
        assert sorted(os.path.basename(r["file"]) for r in rows if r["kind"] == "sum") == sorted([".metadata", shard]), rows
    lists = os.path.join(folder, "sums")
    for where in (run, save):
        inside = os.path.relpath(os.path.join(save, shard), where)
        with open(lists, "wb") as f:
            f.write(subprocess.run(["sha256sum", inside], cwd=where, capture_output=True, check=True).stdout)
        assert not [r for r in verify(4, "--check", lists, run)[0] if r["kind"] == "sum" and "integrity" not in r["text"]], where


def compressed(folder):
    """Damaged compressed data, of which strided tensors are made row by row: the file is named, and each tensor once."""
    save = copy_of(folder, "hf/torchsave_rezipped_deflate")
    path = os.path.join(save, "m.pt")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    with zipfile.ZipFile(path) as z:
        for i in z.infolist():
            if "/data/" in i.filename and i.compress_size > 100:
                at = i.header_offset + 30 + int.from_bytes(data[i.header_offset + 26:i.header_offset + 28], "little") \
                    + int.from_bytes(data[i.header_offset + 28:i.header_offset + 30], "little")
                data[at + 20:at + 24] = b"\xff" * 4
    with open(path, "wb") as f:
        f.write(data)
    rows = [r for r in verify(4, save)[0] if r["kind"] == "read"]
    assert rows and all(os.path.samefile(r["file"], path) and "first" not in r and "archive/data/" in r["text"] for r in rows), rows
    names = [(r["text"], tuple(r["tensors"])) for r in rows]
    assert len(set(names)) == len(names), names
    done = subprocess.run([ZEROFS, "verify", save], stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True)
    assert done.stdout.splitlines()[-1].startswith("DAMAGED: 1 of 1 files, "), done.stdout


def emptied(folder):
    """Files that lost their contents are named without a map, too."""
    save = copy_of(folder, "dcp/torch2.14/dt_2p")
    cut(os.path.join(save, ".metadata"), 700)
    for name in ("scheduler.pt", "trainer_state.json"):
        with open(os.path.join(save, name), "wb"):
            pass
    rows = verify(4, save)[0]
    for name in ("scheduler.pt", "trainer_state.json"):
        assert [r["weight"] for r in rows if r["text"] == name + " is empty"] == ["damage"], rows


def directories(folder):
    """Links back to the save do not multiply its files; directories beyond the limit are not left out silently."""
    save = copy_of(folder, "dcp/torch2.14/dt_2p")
    cut(os.path.join(save, ".metadata"), 700)
    for name in ("a", "b"):
        os.symlink(".", os.path.join(save, name))
    done = subprocess.run([ZEROFS, "verify", "--json", save], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    files = json.loads(done.stdout.splitlines()[-1])["files"]
    assert done.returncode == 4 and 3 <= files <= 2 * 3 and b"more than 4096" not in done.stdout, done.stdout
    for name in ("a", "b"):
        os.unlink(os.path.join(save, name))
    for i in range(4095):
        os.makedirs(os.path.join(save, f"d{i % 64}", str(i)), exist_ok=True)
    rows, _ = verify(4, "--quick", save)
    assert [r["weight"] for r in rows if "more than 4096 directories" in r["text"]] == ["note"], rows


def unchanged(folder):
    """What is no checkpoint, or has no such tensor, is answered as before; a limit and a foreign kind are no damage."""
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    verify(3, empty)
    save = copy_of(folder, "dcp/torch2.14/dt_2p")
    rows, verdict = verify(4, "-o", "limit=pickle_bytes=100", save)
    assert verdict == "NOT VERIFIED" and unread(rows, ".metadata")["weight"] == "unread", rows
    assert "-o limit=pickle_bytes=N raises it" in unread(rows, ".metadata")["text"], rows
    assert verify(0, "-o", f"limit=pickle_bytes={os.path.getsize(os.path.join(save, '.metadata'))}", save)[1] == "WHOLE"
    cut(os.path.join(save, ".metadata"), 700)
    said = verify(4, save, "*weight*")[1]
    assert ".metadata: byte 2: a frame of" in said and "structure" not in said, said
    os.chmod(os.path.join(save, ".metadata"), 0)
    if not os.access(os.path.join(save, ".metadata"), os.R_OK):
        # Without the right to read it, zerofs does not know what the folder is.
        rows, said = verify(5, save)
        assert not rows and ".metadata: cannot open the file: Permission denied" in said, (rows, said)


if __name__ == "__main__":
    main_in_folders((dcp, one_file, integrity, compressed, emptied, directories, unchanged))
