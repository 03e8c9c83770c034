#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zerofs verify: what it finds in checkpoints that were damaged here, a bit, a byte or a file at a time.  Whether an archive's
member is right is asked of Python's zipfile, which tensors a damaged byte belongs to of the tree itself: the files whose
bytes, read before and after, differ."""
import hashlib
import io
import itertools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../format/deepspeed"))
import makeds  # noqa: E402 pylint: disable=wrong-import-position
import makemp  # noqa: E402 pylint: disable=wrong-import-position
import torchfile  # noqa: E402 pylint: disable=wrong-import-position
from stfile import f32, save  # noqa: E402 pylint: disable=wrong-import-position
from tap import main_in_folders  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
SEED = int(os.environ.get("ZEROFS_SEED", "37"))
FLIPS = int(os.environ.get("ZEROFS_FLIPS", "240"))
# Saves in archives: one file, a file a rank, and several archives in a file.
FLIPPED = ["hf/torchsave_training_ckpt", "deepspeed/zero3_w2", "deepspeed/zero2_w2_universal/global_step3_universal", "dcp/torch2.4/fsdp2_w2",
           "megatron/pypi_0.16.1_ep2_moe", "hf/torchsave_rezipped_deflate"]


def run(*words):
    return subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)


def verify(code, *words):
    """The findings, and the sum; an opening that fails has neither."""
    done = run("verify", "--json", *words)
    assert done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stderr.decode()}{done.stdout.decode()}"
    rows = [json.loads(r) for r in done.stdout.splitlines()]
    return rows[:-1], rows[-1] if rows else None


def bad(rows):
    return [r for r in rows if r["weight"] != "note"]


def flip(path, bit):
    with open(path, "r+b") as f:
        f.seek(bit // 8)
        byte = f.read(1)[0]
        f.seek(bit // 8)
        f.write(bytes([byte ^ 1 << bit % 8]))


def files_of(folder):
    return sorted(os.path.join(top, n) for top, _, names in os.walk(folder) for n in names)


# ---- values -------------------------------------------------------------------------------------------------------------

def numbers(folder):
    nan, inf = float("nan"), float("inf")
    path = save(os.path.join(folder, "n.safetensors"), {
        "good": f32(1, 2, 3), "nan": f32(*[1, 2] * 40, nan, 3), "inf": f32(1, -inf, inf, 2), "same": f32(*[7] * 100),
        "tiny": f32(*[1e-40, 1] * 50), "half": ("F16", [3], struct.pack("<3e", 1, nan, 2)), "bf": ("BF16", [2], b"\x80\x7f\x80\x3f"),
        "f8": ("F8_E4M3", [4], b"\x01\x7f\x7e\xff"), "wide": ("F64", [9], struct.pack("<9d", *range(8), -nan)), "int": ("I8", [2], b"\0\0")})
    rows, total = verify(4, path)
    found = {r["tensors"][0].split(".")[0]: r for r in bad(rows)}
    assert {k: r["text"] for k, r in found.items()} == {
        "nan": "1 of 82 values are NaN", "inf": "2 of 4 values are infinite", "half": "1 of 3 values are NaN",
        "bf": "1 of 2 values are infinite", "f8": "2 of 4 values are NaN", "wide": "1 of 9 values are NaN"}, found
    with open(path, "rb") as f:
        data = f.read()
    for name, size, wrong in (("nan", 4, lambda v: v != v), ("inf", 4, lambda v: v in (inf, -inf))):
        row = found[name]
        assert row["end"] - row["first"] == size
        assert wrong(struct.unpack("<f", data[row["first"]:row["end"]])[0]), (name, row)
    notes = {r["text"]: r["tensors"] for r in rows if r["weight"] == "note" and r["kind"] == "value"}
    assert notes == {"1 tensor with one value throughout": ["same.f32"],
                     "1 tensor with denormal numbers, a tenth of the values or more": ["tiny.f32"]}, notes
    assert (total["verdict"], total["bad_files"], total["files"], total["bad_tensors"], total["tensors"]) == ("DAMAGED", 1, 1, 6, 10), total
    assert not bad(verify(0, path, "good*")[0]) and len(bad(verify(4, path, "*nan*")[0])) == 1
    assert run("verify", path).stdout.splitlines()[-1].startswith(b"DAMAGED: 1 of 1 file"), run("verify", path).stdout
    assert b"WHOLE: 1 file, 1 tensor." in run("verify", path, "good.f32").stdout


# ---- recorded sums --------------------------------------------------------------------------------------------------------

def sums(folder):
    """sha256sum(1) writes the lists, of the shards and of files of the tree."""
    copy = os.path.join(folder, "gpt2")
    shutil.copytree(os.path.join(DATA, "hf/transformers5.23.0_gpt2_sharded"), copy)
    names = sorted(os.listdir(copy))
    written = subprocess.run(["sha256sum", *names], cwd=copy, capture_output=True, check=True, text=True).stdout
    out = os.path.join(folder, "out")
    assert run("export", "--sha256", copy, ".", out).returncode == 0
    with open(os.path.join(out, "SHA256SUMS"), encoding="utf-8") as f:
        exported = f.read()

    def checked(code, text):
        with open(os.path.join(folder, "list"), "w", encoding="utf-8") as f:
            f.write(text)
        done = run("verify", "--json", "--check", os.path.join(folder, "list"), copy)
        assert done.returncode == code, (code, text, done.stderr, done.stdout)
        return [r for r in map(json.loads, done.stdout.splitlines()) if r["kind"] == "sum" and "text" in r], done.stderr.decode()

    assert checked(0, written)[0] == checked(0, exported)[0] == checked(0, "")[0] == []
    assert checked(0, written.replace("  ", " *").replace(" *", " *./") + "\n")[0] == []
    for text in (written, exported):
        for i, line in enumerate(text.splitlines()):
            wrong = text.splitlines()
            wrong[i] = ("0" if line[0] != "0" else "1") + line[1:]
            found = checked(4, "\n".join(wrong))[0]
            assert len(found) == 1 and found[0]["file"].endswith(line[66:].split("/")[-1]), (line, found)
            if line.endswith(".safetensors"):
                with open(os.path.join(copy, line[66:]), "rb") as f:
                    held = set(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))) - {"__metadata__"}
                assert {t[:-4] for t in found[0]["tensors"]} == held, (line, found)
    missing = checked(4, written + "0" * 64 + "  not/there.bin\n")[0]
    assert [r["file"] for r in missing] == ["not/there.bin"] and "the file is missing" in missing[0]["text"], missing
    for line in ("0" * 63 + "g  a", "0" * 64 + "  ../config.json", "0" * 64 + "  a/../../b", "0" * 64 + "  /etc/passwd", "0" * 64 + " config.json",
                 "config.json", "0" * 64 + "  ", "SHA256 (config.json) = " + "0" * 64, "\\" + "0" * 64 + "  ../x\\n"):
        assert "line 1 " in checked(2, line)[1], line
    shard = [n for n in names if n.endswith(".safetensors")][1]
    flip(os.path.join(copy, shard), 9000)
    found = checked(4, written)[0]
    assert [r["file"].endswith(shard) for r in found] == [True], (shard, found)


def integrity(folder):
    """Megatron's own list: a bit anywhere, in headers and padding too."""
    for name in ("run_folder_core_0.19.2/iter_0000020", "pypi_0.19.2_tp2pp2_dp_zero_buckets/iter_0000010"):
        copy = os.path.join(folder, name.replace("/", "-"))
        shutil.copytree(os.path.join(DATA, "megatron", name), copy)
        assert not any("are not" in r["text"] for r in verify(0, copy)[0]), "all files are compared"
        shards = [f for f in files_of(copy) if f.endswith(".distcp")]
        dice = random.Random(SEED)
        for _ in range(10):
            file = dice.choice(shards)
            bit = dice.randrange(8 * os.path.getsize(file))
            flip(file, bit)
            done = run("verify", "--json", copy)
            rows = [json.loads(r) for r in done.stdout.splitlines()]
            assert done.returncode == 4, (file, bit, done)
            assert not rows or any(r["kind"] == "sum" and r.get("file") == file for r in rows), (file, bit, rows)
            flip(file, bit)


# ---- copies ---------------------------------------------------------------------------------------------------------------

def copied(path, save_again, where):
    """A copy of 1.2 MB that differs where opening does not look."""
    def told(at):
        save_again(at)
        rows = [json.loads(r) for r in run("verify", "--json", path).stdout.splitlines()]
        assert not any("middle only" in r.get("text", "") for r in rows), "all of them are compared"
        return [r for r in rows if r["kind"] == "copy"]

    assert told(None) == []
    for at in where:
        found = told(at)
        assert len(found) == 1 and found[0]["kind"] == "copy" and len(found[0]["tensors"]) == 1, (at, found)
        with open(found[0]["file"], "rb") as f:
            f.seek(found[0]["first"])
            assert f.read(1) == b"\x77", (at, found)
        yield found[0]


def bytes_read(*words):
    """By the process, as the kernel counts them."""
    done = subprocess.run(["sh", "-c", '"$@" >/dev/null; cat /proc/$$/io', "sh", ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          check=True, timeout=120, text=True)
    return int(done.stdout.split("rchar: ")[1].split()[0])


def copies(folder):
    long, n = makeds.State({"a": (4,), "norm": (300_000,)}), 300_000

    def deepspeed(at):
        files = makemp.tensor(long, {"a": "0"}, 2, 1, 3, makemp.patterns(long, {"a": "0"}))
        if at is not None:
            masters = files["bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt"]["optimizer_state_dict"]["fp32_flat_groups"][0].storage
            raw = bytearray(masters.data)
            raw[8 + 4 * at + 1] = 0x77
            masters.data = bytes(raw)
        makeds.write(os.path.join(folder, "tag"), files)

    for found in copied(os.path.join(folder, "tag"), deepspeed, (70_000, 230_001)):
        assert found["tensors"][0].startswith("norm"), found

    def llama(at):
        os.makedirs(os.path.join(folder, "llama"), exist_ok=True)
        for rank in range(2):
            norm = torchfile.Tensor(*[0.5] * n)
            if at is not None and rank == 1:
                raw = bytearray(norm.storage.data)
                raw[4 * at] = 0x77
                norm.storage.data = bytes(raw)
            torchfile.save({"norm.weight": norm, "output.weight": torchfile.Tensor(*[0.25] * (2 * n), shape=(2, n))},
                           os.path.join(folder, "llama", f"consolidated.{rank:02d}.pth"))
        with open(os.path.join(folder, "llama", "params.json"), "w", encoding="utf-8") as f:
            json.dump({"dim": n, "n_layers": 0, "n_heads": 1, "vocab_size": 4, "multiple_of": 4, "norm_eps": 1e-5}, f)

    for found in copied(os.path.join(folder, "llama"), llama, (100_000,)):
        assert found["tensors"] == ["norm.weight.f32"], found
    llama(None)
    path = os.path.join(folder, "llama")
    size = sum(os.path.getsize(f) for f in files_of(path))
    assert bytes_read("verify", path) - bytes_read("verify", "--quick", path) <= 1.02 * size, "each file is read once"


# ---- the fixtures as they are ---------------------------------------------------------------------------------------------

def whole(_folder):
    for name in FLIPPED + ["deepspeed/zero3_w2_universal/global_step3_universal",
                           "deepspeed/ds0_19_8_zero3_subgroups_w3_universal/global_step2_universal"]:
        path = os.path.join(DATA, name)
        rows, total = verify(0, path)
        assert not bad(rows) and total["verdict"] == "WHOLE", (name, bad(rows))
        assert total["bytes"] <= 1.02 * sum(os.path.getsize(f) for f in files_of(path)) + 65536, (name, total)
        for jobs in ("1", "7"):
            assert verify(0, "-j", jobs, path)[0] == rows, (name, jobs)
        quick = verify(0, "--quick", path)
        assert quick[1]["bytes"] == 0 and all(r["kind"] == "structure" for r in quick[0]), quick


# ---- other damage ---------------------------------------------------------------------------------------------------------

def not_recorded(folder):
    """A CRC-32 of 0, as torch may write it, says nothing; another one in header or directory alone is damage."""
    path = os.path.join(folder, "m.pt")
    torchfile.save({"w": torchfile.Tensor(*range(1000))}, path)
    with zipfile.ZipFile(path) as z:
        at, crc = next((m.header_offset, m.CRC) for m in z.infolist() if "/data/" in m.filename)
    with open(path, "rb") as f:
        good = f.read()
    places = [i for i in range(len(good)) if good.startswith(struct.pack("<I", crc), i)]
    assert len(places) == 2 and places[0] == at + 14, places

    def written(data):
        with open(path, "wb") as f:
            f.write(data)
        return path

    assert verify(0, written(good))[1]["verdict"] == "WHOLE"
    none = bytearray(good)
    for i in places:
        none[i:i + 4] = bytes(4)
    none[at + 500] ^= 1
    assert not bad(verify(0, written(none))[0]) and python_finds(path, archives(path)), "nothing is recorded of it"
    for i in places:
        one = bytearray(good)
        one[i] ^= 1
        found = bad(verify(4, written(one))[0])
        assert any("differs from the directory in its CRC-32" in r["text"] for r in found), found
    hidden = bytearray(good) + b"behind the archive"
    found = verify(0, written(hidden))[0]
    assert any(r["text"] == "these bytes belong to no member" and r["first"] == len(good) and r["end"] == len(hidden) for r in found), found


def cut_short(folder):
    dice = random.Random(SEED)
    for name in ("hf/transformers5.23.0_gpt2_sharded", "hf/bin_sharded_llama", "dcp/torch2.4/fsdp2_w2", "olmo", "deepspeed/zero3_w2"):
        name = name if name != "olmo" else "olmo/" + sorted(os.listdir(os.path.join(DATA, "olmo")))[0]
        copy = os.path.join(folder, name.replace("/", "-"))
        shutil.copytree(os.path.join(DATA, name), copy)
        shards = [f for f in files_of(copy) if f.endswith((".safetensors", ".bin", ".distcp", "optim_states.pt"))]
        for file in dice.sample(shards, min(3, len(shards))):
            with open(file, "rb") as f:
                data = f.read()
            for n in (0, 7, len(data) - 1, dice.randrange(len(data))):
                os.truncate(file, n)
                done = run("verify", copy)
                assert done.returncode in (3, 4, 5) and b"WHOLE" not in done.stdout, (file, n, done)
                assert os.path.basename(file).encode() in done.stdout + done.stderr, (file, n, done)
            with open(file, "wb") as f:
                f.write(data)
        verify(0, copy)


def hole(path, name, size):
    head = json.dumps({name: {"dtype": "I8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + size)


def changed(folder):
    """A file is written to, or replaced, once a gigabyte of four was read."""
    def overwrite(big, _small):
        with open(big, "r+b") as f:
            f.seek(-1, 2)
            f.write(b"x")

    def replace(_big, small):
        save(small + ".new", {"a": f32(3, 4)})
        os.rename(small + ".new", small)

    small, big = (os.path.join(folder, f"model-0000{i}-of-00002.safetensors") for i in (1, 2))
    for change, file in ((overwrite, big), (replace, small)):
        save(small, {"a": f32(1, 2)})
        hole(big, "b", 4 << 30)
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump({"metadata": {}, "weight_map": {"a": os.path.basename(small), "b": os.path.basename(big)}}, f)
        with subprocess.Popen([ZEROFS, "verify", "-j1", "--json", folder], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
            read = 0
            while read < 1 << 30:
                with open(f"/proc/{child.pid}/io", encoding="ascii") as f:
                    read = int(f.readline().split()[1])
            child.send_signal(signal.SIGSTOP)
            change(big, small)
            child.send_signal(signal.SIGCONT)
            rows = [json.loads(r) for r in child.communicate(timeout=120)[0].splitlines()]
            assert child.returncode == 5, (child.returncode, rows)
        found = [r for r in rows if r["kind"] == "read"]
        assert [r["file"] for r in found] == [file] and rows[-1]["verdict"] == "NOT VERIFIED", rows


# ---- single bits ----------------------------------------------------------------------------------------------------------

def tensors(path):
    """{name: bytes}"""
    rows = [r.split() for r in run("ls", "-lR", path).stdout.decode().splitlines()]
    return {r[-1]: int(r[0]) for r in rows if r and not r[-1].endswith("/") and not r[-1].startswith(("state/", "extra/"))}


def read(path, names):
    """{name: digest}, or None where it cannot be read.  All at once, as long as none fails."""
    whole = run("cat", "-o", "degraded", path, *("./" + n for n in names))
    if whole.returncode == 0 and len(whole.stdout) == sum(names.values()):
        at, out = 0, {}
        for n, size in names.items():
            out[n] = hashlib.sha256(whole.stdout[at:at + size]).digest()
            at += size
        return out
    return {k: v for n, size in names.items() for k, v in read(path, {n: size}).items()} if len(names) > 1 else dict.fromkeys(names)


def archives(path):
    """[(first, end)] of a file that is an archive, or several one behind the other; [] of another.  Each is opened by itself: of several
    of one size, zipfile of Python 3.14 takes the end record of the first for that of the last."""
    with open(path, "rb") as f:
        data = f.read()
    out, first = [], 0
    for mark in re.finditer(b"PK\5\6", data):
        try:
            with zipfile.ZipFile(io.BytesIO(data[first:mark.start() + 22])):
                out.append((first, mark.start() + 22))
                first = mark.start() + 22
        except (zipfile.BadZipFile, ValueError):
            pass
    return out if first == len(data) else []


def members(path):
    """[(first, end)] of the bytes of members with a checksum."""
    out = []
    with open(path, "rb") as f:
        data = f.read()
    for first, behind in archives(path):
        with zipfile.ZipFile(io.BytesIO(data[first:behind])) as z:
            for m in z.infolist():
                name, extra = struct.unpack_from("<HH", data, first + m.header_offset + 26)
                at = first + m.header_offset + 30 + name + extra
                if m.CRC != 0 and m.compress_size > 0:
                    out.append((at, at + m.compress_size))
    return out


def python_finds(path, spans):
    """Does `python -m zipfile -t` of one of these archives?"""
    with open(path, "rb") as f:
        data = f.read()
    try:
        return any(zipfile.ZipFile(io.BytesIO(data[first:end])).testzip() is not None for first, end in spans)
    except Exception:  # pylint: disable=broad-except
        return True


def flipped(folder):
    dice = random.Random(SEED)
    for name in FLIPPED:
        copy = os.path.join(folder, name.replace("/", "-"))
        shutil.copytree(os.path.join(DATA, name), copy)
        assert not bad(verify(0, copy)[0])
        shards = [(f, members(f), archives(f)) for f in files_of(copy) if members(f)]
        names = tensors(copy)
        before = read(copy, names)
        for _ in range(FLIPS // len(FLIPPED)):
            file, spans, whole_of = dice.choice(shards)
            first, end = dice.choice(spans)
            bit = dice.randrange(first * 8, end * 8)
            flip(file, bit)
            try:
                judged(copy, file, bit // 8, names, before, python_finds(file, whole_of))
            finally:
                flip(file, bit)


def judged(copy, file, byte, names, before, found):
    done = run("verify", "--json", copy)
    where = f"{file}, byte {byte}: "
    if not found:  # bits behind the end of a deflated stream
        assert done.returncode in (0, 4) and "deflate" in file, where + done.stdout.decode()
        return
    if not done.stdout:  # it does not open: that is told, with the exit code of damage
        assert done.returncode in (3, 4) and done.stderr, where + done.stderr.decode()
        return
    rows = [json.loads(r) for r in done.stdout.splitlines()]
    hits = [r for r in rows if r.get("file", "").endswith(os.path.basename(file)) and r.get("first", 0) <= byte < r.get("end", 0)
            and r["kind"] == "archive"]
    if not hits:  # a file that the checkpoint does without
        os.rename(file, file + ".aside")
        try:
            assert verify(0, copy)[1]["files"] == rows[-1]["files"], where + done.stdout.decode()
        finally:
            os.rename(file + ".aside", file)
        return
    assert done.returncode == 4, where + str(done.returncode)
    if any("the structure cannot be read" in r.get("text", "") for r in rows):  # no tensor is known
        return
    after = read(copy, names)
    changed = {n for n in before if after.get(n) != before[n]}
    told = {t for r in bad(rows[:-1]) for t in r["tensors"]}
    assert changed <= told or "data.pkl" in hits[0]["text"], where + f"changed {changed}, told {told}"


def beside_python(folder):
    """A bit anywhere in the archives of all checkpoints: verify finds it where `python -m zipfile -t` does, and of members' bytes nothing else."""
    dice = random.Random(SEED)
    saves = [top for top, _, names in os.walk(DATA) if "expected.json" in names]
    found = [(s, os.path.relpath(f, s)) for s in sorted(saves) for f in files_of(s) if archives(f)]
    assert len({s for s, _ in found}) > 50, len(found)
    counts = {True: 0, False: 0}

    def told(path):
        """Exit code, all that is said, and the bytes that were read of files."""
        done = run("verify", "--json", path)
        rows = [json.loads(r) for r in done.stdout.splitlines()] or [{"bytes": 0}]
        return done.returncode, done.stderr + b"".join(done.stdout.splitlines()[:-1]), rows[-1]["bytes"]

    for save_of, some in itertools.groupby(sorted(dice.choices(found, k=FLIPS // 4)), lambda p: p[0]):
        copy = os.path.join(folder, "copy")
        shutil.copytree(save_of, copy, ignore=shutil.ignore_patterns("expected.json"))
        before = told(copy)
        for _, name in some:
            file = os.path.join(copy, name)
            spans, inside = archives(file), members(file)
            bit = dice.randrange(8 * os.path.getsize(file))
            flip(file, bit)
            ours, theirs = told(copy), python_finds(file, spans)
            os.rename(file, file + ".aside")
            without = told(copy)
            needed = without[0] != before[0] or without[2] < before[2]
            os.rename(file + ".aside", file)
            flip(file, bit)
            counts[theirs] += 1
            where = f"{save_of}: {name}, byte {bit // 8}, needed {needed}, Python {theirs}: {ours}"
            if theirs and needed:
                assert ours[0] in (1, 3, 4) and ours[:2] != before[:2], where
                assert not ours[2] or os.path.basename(name).encode() in ours[1], where
            if not theirs and any(first <= bit // 8 < end for first, end in inside):
                assert ours[:2] == before[:2] or "deflate" in save_of, where
        shutil.rmtree(copy)
    assert min(counts.values()) > 0, counts


def padding_of_slots(folder):
    """Under ZeRO-3 each rank has a slot of every parameter, and nothing sets what of it is behind the parameter's elements."""
    state = makeds.State({**{f"p{i}": (41 + 40 * i,) for i in range(9)}, "tail": (39 * 40 + 1,)}, frozen={"still": (41 * 40 + 1,)}, moments=("exp_avg",))
    makeds.write(os.path.join(folder, "global_step3"), makeds.zero3(state, 40))
    rows, last = verify(0, os.path.join(folder, "global_step3"))
    assert not bad(rows) and last["verdict"] == "WHOLE", rows
    with open(os.path.join(folder, "latest"), "w", encoding="ascii") as f:
        f.write("global_step3")
    done = run("newest", folder)
    assert done.returncode == 0 and done.stdout == os.path.join(folder, "global_step3").encode() + b"\n", done
    for choice in ("only=p[0-3]", "except=p[0-3]"):
        rows, last = verify(0, "-o", choice, os.path.join(folder, "global_step3"))
        assert not [r for r in rows if r["kind"] == "coverage"] and last["verdict"] == "WHOLE", rows


def another_save_below(folder):
    """Trainer's folder whose `latest` was lost is opened as its model.safetensors: the optimizer's save below is another save, which a note names."""
    copy = os.path.join(folder, "checkpoint-2")
    shutil.copytree(os.path.join(DATA, "deepspeed/ds0_19_8_hftrainer_zero3_w2"), copy, ignore=shutil.ignore_patterns("expected.json", "latest"))
    rows, last = verify(0, copy)
    assert last["verdict"] == "WHOLE" and not [r for r in rows if r["kind"] == "coverage"], rows
    assert any("global_step2" in r["text"] for r in rows), rows


def lost(folder):
    """Every kind of checkpoint without one of its files: an answer (1: of dangerous code), and WHOLE with exit 0 alone."""
    chance = random.Random(SEED)
    saves = sorted(top for top, _, names in os.walk(DATA) if "expected.json" in names)
    assert len(saves) > 50, saves
    for n, save_of in enumerate(saves):
        copy = os.path.join(folder, str(n))
        shutil.copytree(save_of, copy, ignore=shutil.ignore_patterns("expected.json"))
        files = files_of(copy)
        for path in chance.sample(files, min(len(files), 2)) + [f for f in files if f.endswith(".swp")][:2]:
            os.rename(path, os.path.join(folder, "away"))
            done = run("verify", "--json", copy)
            where = f"{save_of} without {os.path.relpath(path, copy)}: "
            assert done.returncode in (0, 1, 3, 4), where + f"exit {done.returncode}: {done.stderr.decode()}"
            assert (done.returncode == 0) == (b'"verdict":"WHOLE"' in done.stdout), where + done.stdout.decode()
            plain = run("info", copy)
            assert done.returncode != 0 or plain.returncode == 0, where + plain.stderr.decode()
            assert plain.returncode == 0 or run("info", "-o", "degraded", copy).returncode != 0, where + "info -o degraded"
            os.rename(os.path.join(folder, "away"), path)


if __name__ == "__main__":
    main_in_folders((numbers, sums, integrity, copies, whole, not_recorded, cut_short, changed, padding_of_slots, another_save_below, lost, flipped, beside_python))
