#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint behind an address costs, in requests and bytes: times depend on the machine, these do not."""
import collections
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Handler, Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Tap, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
MAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/mkdeepspeed.py")
ZARR = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "megatron/pypi_0.5.0_zarr_pp2_bf16/iter_0000010")
RANKS, BLOCK = 8, 64 << 10


def zerofs(*args):
    return subprocess.run([ZEROFS, *args], check=True, stdout=subprocess.PIPE, timeout=300).stdout


class Asked:
    """The requests that the server has seen since it was made."""

    def __init__(self, server):
        with server.lock:
            server.log.clear()
            server.sent = server.most_busy = 0
        self.server = server

    def by_file(self, method="GET"):
        files = collections.defaultdict(list)
        for m, path, span, _ in self.server.log:
            if m == method and not path.endswith("/"):
                files[os.path.basename(path)].append(span)
        return files

    def twice(self):
        """Bytes that were asked for more than once."""
        n = 0
        for spans in self.by_file().values():
            end = 0
            for a, b in sorted(tuple(map(int, s[6:].split("-"))) for s in spans if s):
                n += max(0, min(b + 1, end) - a)
                end = max(end, b + 1)
        return n


def mount_of_many_ranks(server):
    asked = Asked(server)
    server.faults["slow"] = "0.02"
    zerofs("info", server.url + "zero3/")
    server.faults.clear()
    files = asked.by_file()
    optim = [len(v) for k, v in files.items() if "optim_states" in k]
    model = [len(v) for k, v in files.items() if "model_states" in k]
    print(f"# {len(server.log)} requests, {server.sent >> 10} KiB; a rank's optimizer file {max(optim)}, model file {max(model)}")
    assert len(optim) == len(model) == RANKS
    # Head and end, and the steps, which lie between its large members; an archive below 512 KiB in one piece.
    assert max(optim) <= 3 and max(model) == 1, (optim, model)
    assert asked.twice() == 0, f"{asked.twice()} bytes were fetched twice"
    # A listing without sizes has them asked for; a file that was read with If-Match after that was there together with the others.
    heads = {k: len(v) for k, v in asked.by_file("HEAD").items()}
    assert max(n for k, n in heads.items() if k.endswith(".pt")) == 1, heads
    assert server.most_busy >= 8, f"{server.most_busy} requests at once"


def mount_of_listed_sizes(server):
    """What a file is was learnt from the answer to its first range, perhaps before the last one was met: such a one is looked at once more."""
    asked = Asked(server)
    server.faults["list"] = "nginx"
    zerofs("info", server.url + "zero3/")
    server.faults.clear()
    heads = {k: len(v) for k, v in asked.by_file("HEAD").items()}
    print(f"# {len(server.log)} requests, {sum(heads.values())} of them HEAD")
    # A model file is read with one request.
    assert max(heads.values()) == 1 and sum("model_states" in k for k in heads) >= RANKS - 1, heads


def one_file_of_listed_size(server):
    """Its end was asked for with the ETag that came with its head, when all else had been met."""
    asked = Asked(server)
    server.faults["list"] = "nginx"
    zerofs("ls", "-R", server.url + "model.pt")
    server.faults.clear()
    assert len(asked.by_file()["model.pt"]) >= 2 and not asked.by_file("HEAD"), server.log
    # What lies in the directories beside it is nothing to it.
    assert {path for _, path, _, _ in server.log} <= {"/model.pt", "/"}, server.log


def one_file_without_listing(server, root):
    """The file that was named, and not what might lie beside it."""
    os.mkdir(os.path.join(root, "one"))
    os.link(os.path.join(root, "hf", "model-00001-of-00016.safetensors"), os.path.join(root, "one", "model.safetensors"))
    asked = Asked(server)
    server.faults["no_list"] = "1"
    told = subprocess.run([ZEROFS, "info", "--json", server.url + "one/model.safetensors"], check=True, capture_output=True, timeout=300)
    server.faults.clear()
    print(f"# {len(asked.server.log)} requests")
    assert json.loads(told.stdout)["sets"][0]["tensors"] == 1 and len(asked.server.log) <= 8, (told, [(m, path) for m, path, _, _ in server.log])
    assert not told.stderr, told


class Meddler(Handler):
    """Calls server.meddle(method, path) before it answers."""

    def answer(self, body):
        meddle = getattr(self.server, "meddle", None)
        if meddle:
            meddle(self.command, urllib.parse.unquote(self.path))
        super().answer(body)


def replaced_before_the_last_listing(root, style):
    """`latest` was read, with a guard where its ETag is known, and names another save before that save is listed: no moment saw both."""
    run = os.path.join(root, f"turn-{style}")
    shutil.copytree(os.path.join(root, "zero3"), run)
    with open(os.path.join(run, "latest"), encoding="ascii") as f:
        first = f.read().strip()
    shutil.copytree(os.path.join(run, first), os.path.join(run, "another"))
    done = []

    def meddle(method, path):
        if method == "GET" and path.endswith(f"/{first}/") and not done:
            done.append(path)
            with open(os.path.join(run, "new"), "w", encoding="ascii") as f:
                f.write("another")
            os.rename(os.path.join(run, "new"), os.path.join(run, "latest"))

    with Server(root, handler=Meddler) as server:
        if style != "python":
            server.faults["list"] = style
        server.meddle = meddle
        told = json.loads(zerofs("info", "--json", server.url + os.path.basename(run)))
    assert done and told["tag"] == "another", told


def replaced_unread_in_a_directory_that_is_relied_on(root):
    """Chunks of an array are known by their listing alone, and no mount reads them: they are asked for again."""
    run = os.path.join(root, "zarr")
    shutil.copytree(ZARR, run)
    chunk = next(os.path.join(d, n) for d, _, names in sorted(os.walk(run)) if ".zarray" in names for n in sorted(names) if n[0] != ".")
    url_path, heads, dirs = "/" + os.path.relpath(chunk, root), [], []

    def meddle(method, path):
        if method == "HEAD" and path == url_path:
            heads.append(path)
        if method == "GET" and path == os.path.dirname(url_path) + "/":
            dirs.append(path)
            if len(dirs) == 2:  # all was read
                shutil.copyfile(chunk, chunk + ".new")
                os.rename(chunk + ".new", chunk)

    with Server(root, handler=Meddler) as server:
        server.meddle = meddle
        zerofs("info", server.url + "zarr")
    # Found to be another, and opened again: each opening asks twice.
    assert len(dirs) == 4 and len(heads) == 4, (dirs, heads)


def one_parameter(server):
    asked = Asked(server)
    zerofs("info", server.url + "zero3/")
    metadata = server.sent
    asked = Asked(server)
    got = zerofs("cat", server.url + "zero3/", "model.layers.1.mlp.down_proj.weight.f32")
    print(f"# metadata {metadata >> 10} KiB, with {len(got) >> 10} KiB of a tensor {server.sent >> 10} KiB")
    assert len(got) == 512 * 2048 * 4
    # A block for where the range begins or ends, and one for the member's header.
    assert server.sent <= metadata + len(got) + 2 * RANKS * BLOCK, server.sent
    assert asked.twice() == 0


def headers_of_many_files(server):
    asked = Asked(server)
    server.faults["slow"] = "0.02"
    zerofs("ls", "-R", server.url + "hf/")
    server.faults.clear()
    files = asked.by_file()
    assert sum(k.endswith(".safetensors") for k in files) == 16
    assert all(len(v) == 1 for v in files.values()), files
    assert server.most_busy >= 8, f"{server.most_busy} requests at once"


def many_saves(server, root):
    """Each is looked at with some requests, one after the other; several are looked at together, and told as they are of a directory."""
    asked = Asked(server)
    server.faults["slow"] = "0.05"
    told = subprocess.run([ZEROFS, "info", server.url + "runs/"], check=False, capture_output=True, text=True, timeout=300)
    server.faults.clear()
    local = subprocess.run([ZEROFS, "info", os.path.join(root, "runs")], check=False, capture_output=True, text=True, timeout=300)
    print(f"# {len(server.log)} requests, {server.most_busy} at once")
    assert server.most_busy >= 8, f"{server.most_busy} requests at once"
    kept = [[line for line in t.stdout.splitlines() if line.split(" ")[0] in ("format", "tag", "step", "notes")] for t in (told, local)]
    assert kept[0] == kept[1] and "checkpoint-12 is the newest of 12 saves here" in kept[0][-1], kept


def an_archive_of_many_members(server):
    """Each header lies in a block of its own, and is looked at when its member is read."""
    asked = Asked(server)
    zerofs("ls", "-R", server.url + "model.pt")
    listing = len(asked.by_file()["model.pt"])
    asked = Asked(server)
    got = zerofs("cat", server.url + "model.pt", "w150.f32")
    reading = len(asked.by_file()["model.pt"])
    print(f"# {listing} requests to open an archive of 200 members, {reading} to read one")
    assert len(got) == 4 << 17
    assert listing <= 3 and reading <= listing + 3, (listing, reading)
    assert asked.twice() == 0


def an_item_of_a_dcp(server):
    """Directory, pickle and bytes of a small item are in two blocks, or three."""
    asked = Asked(server)
    assert len(zerofs("cat", server.url + "dcp/", "layers.3.weight.f32")) == RANKS << 16
    files = {name: spans for name, spans in asked.by_file().items() if name.endswith(".distcp")}
    # The first block, which tells that the file is there, and the item.
    assert len(files) == RANKS and all(len(spans) <= 2 for spans in files.values()), files
    assert asked.twice() == 0, files


def make(root):
    subprocess.run([sys.executable, os.path.join(os.path.dirname(MAKE), "mkdcp.py"), os.path.join(root, "dcp"), "--ranks", str(RANKS),
                    "--tensors", "4", "--rows", str(64 * RANKS), "--cols", "256"], check=True)
    subprocess.run([sys.executable, MAKE, os.path.join(root, "zero3"), "zero3", "--ranks", str(RANKS), "--layers", "4", "--hidden", "512",
                    "--ffn", "2048", "--kv", "512", "--vocab", "4096"], check=True, stdout=subprocess.DEVNULL, timeout=120)
    hf = os.path.join(root, "hf")
    os.mkdir(hf)
    names = [f"model-{i + 1:05}-of-00016.safetensors" for i in range(16)]
    for i, name in enumerate(names):
        text = json.dumps({f"t{i}": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}}).encode()
        with open(os.path.join(hf, name), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + (1 << 20))
    with open(os.path.join(hf, "model.safetensors.index.json"), "w", encoding="ascii") as f:
        json.dump({"metadata": {}, "weight_map": {f"t{i}": n for i, n in enumerate(names)}}, f)
    for i in range(12):
        at = os.path.join(root, f"runs/checkpoint-{i + 1}")
        os.makedirs(at)
        os.link(os.path.join(hf, names[0]), os.path.join(at, "model.safetensors"))
    from sparsefile import save  # pylint: disable=import-outside-toplevel
    from torchfile import Storage, Tensor  # pylint: disable=import-outside-toplevel
    save(collections.OrderedDict((f"w{i}", Tensor(shape=(1 << 17,), storage=Storage(data=b"", n=1 << 17, cls="FloatStorage"))) for i in range(200)),
         os.path.join(root, "model.pt"))


def main():
    need_addresses()
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        make(root)
        with Server(root) as server:
            tap.run("a mount asks each rank's file a few times, and for no byte twice", mount_of_many_ranks, server)
            tap.run("a file that was read once is looked at once more", mount_of_listed_sizes, server)
            tap.run("a file that was read when all had been met is not", one_file_of_listed_size, server)
            tap.run("one file of a server that lists nothing is asked for alone", one_file_without_listing, server, root)
            tap.run("one parameter costs its bytes and a block a shard", one_parameter, server)
            tap.run("headers of many files are fetched at once", headers_of_many_files, server)
            tap.run("many saves are looked at together", many_saves, server, root)
            tap.run("an archive's members are found when they are read", an_archive_of_many_members, server)
            tap.run("a small item of a DCP is asked for whole", an_item_of_a_dcp, server)
        for style in ("python", "nginx", "json"):
            tap.run(f"latest that turns before its save is listed is noticed, listed as by {style}", replaced_before_the_last_listing, root, style)
        tap.run("a chunk that nobody reads is asked for again", replaced_unread_in_a_directory_that_is_relied_on, root)
    tap.done()


main()
