#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over a server with a manifest, one that wants a token, and a stand-in for the Hugging Face hub's calls: what
`zerofs export` writes is, byte for byte, what it writes from the directory on disk."""
import hashlib
import json
import os
import shutil
import sys
import tempfile

sys.path[:0] = [os.path.join(os.environ.get("top_srcdir", "."), "tests", d) for d in ("support", "remote")]
import serve  # noqa: E402
from hub import COMMIT, Hub, hub_of  # noqa: E402
from places import DATA, TMP, compare, same, sets, tree, zerofs  # noqa: E402
from tap import Tap, need_addresses  # noqa: E402


def bearer():
    s = sets()[0]
    with serve.Server(DATA) as srv:
        srv.faults["bearer"] = "t0ken"
        compare(srv.url + s, os.path.join(DATA, s), ZEROFS_HTTP_BEARER="t0ken")
        assert zerofs("info", srv.url + s, ZEROFS_HTTP_BEARER="other").returncode == 5


def manifest():
    s = sets()[0]
    here = os.path.join(TMP, "m")
    shutil.copytree(os.path.join(DATA, s), here)
    os.symlink("/etc", os.path.join(here, "outward"))
    os.symlink(".", os.path.join(here, "loop"))
    got = zerofs("index", "--sha256", here)
    assert got.returncode == 0, got.stderr
    with open(os.path.join(here, "zerofs.index.json")) as f:
        files = json.load(f)["files"]
    want = {os.path.relpath(os.path.join(d, n), here) for d, _, names in os.walk(here) for n in names} - {"zerofs.index.json", "outward", "loop"}
    assert {e["path"] for e in files} == want, files
    for e in files:
        path = os.path.join(here, e["path"])
        with open(path, "rb") as f:
            assert e["sha256"] == hashlib.sha256(f.read()).hexdigest() and e["size"] == os.path.getsize(path)
    assert "outward" not in zerofs("index", "--stdout", here).stdout
    with serve.Server(here) as srv:
        srv.faults["no_list"] = "1"
        compare(srv.url, os.path.join(DATA, s))
        asked = {p for _, p, _, _ in srv.log}
        assert not any("zerofs-asks" in p for p in asked), asked
        with open(os.path.join(here, "zerofs.index.json"), "w") as f:
            f.write('{"zerofs_index": 1, "files": [{"path": "../x", "size": 1}]}')
        got = zerofs("info", srv.url)
        assert got.returncode == 4 and "not inside the directory" in got.stderr, got


def local_cache():
    s = sets()[0]
    here = os.path.join(DATA, s)
    with serve.Server(DATA) as srv:
        compare(srv.url + s, here, **{})
        before = srv.sent
        out = tempfile.mkdtemp(dir=TMP)
        got = zerofs("export", "-q", "-o", "local_cache=" + here, srv.url + s, ".", out + "/x")
        assert got.returncode == 0 and same(tree(here), out + "/x") > 0, got.stderr
        assert srv.sent - before < before / 2, (before, srv.sent)
        got = zerofs("info", "-o", "local_cache=/nowhere", srv.url + s)
        assert got.returncode != 0 and "/nowhere" in got.stderr, got.stderr


# ---- the hub ----
def with_hub(judge):
    here = os.path.join(DATA, sets()[0])
    with hub_of(here) as hub:
        judge(hub, here)


def hub_reads(hub, here):
    Hub.TOKEN = "hf_x"
    token = os.path.join(TMP, "token")
    with open(token, "w") as f:
        f.write("hf_x\n")
    compare("hf://o/r", here, HF_ENDPOINT=hub.url, HF_TOKEN="hf_x")
    compare("hf://o/r@main", here, HF_ENDPOINT=hub.url, HF_TOKEN_PATH=token)
    assert Hub.seen and not any(Hub.seen), Hub.seen
    got = zerofs("info", "hf://o/r@v1%2Fx", HF_ENDPOINT=hub.url, HF_TOKEN="hf_x")
    assert got.returncode == 0 and f"commit     hf://o/r@{COMMIT}\n" in got.stdout, got
    got = zerofs("info", "--json", "hf://o/r", HF_ENDPOINT=hub.url, HF_TOKEN="hf_x")
    assert json.loads(got.stdout)["at"] == f"hf://o/r@{COMMIT}", got


def hub_refuses(hub, here):
    Hub.TOKEN = "hf_x"
    for address, env, code, why in (
            ("hf://o/r", {}, 5, "HF_TOKEN"), ("hf://o/gated", {}, 5, "gated"), ("hf://o/r", {"HF_TOKEN": "hf_bad"}, 5, "token in use"),
            ("hf://o/r@nope", {"HF_TOKEN": "hf_x"}, 5, "no revision"), ("hf://o", {"HF_TOKEN": "hf_x"}, 5, "hf://OWNER/NAME"),
            ("hf://o/r", {"HF_HUB_OFFLINE": "1"}, 5, "HF_HUB_OFFLINE")):
        got = zerofs("info", address, HF_ENDPOINT=hub.url, **env)
        assert got.returncode != 0 and why in got.stderr and "hf_bad" not in got.stderr, (address, env, got)


def hub_listings_that_lie(hub, here):
    """Pages in a circle, and one elsewhere, which the token may not go to."""
    for endless, why in ((f"{hub.url}api/models/o/r/tree/{COMMIT}?cursor=0", "adds nothing"), (hub.other + "api/x", "on another server"),
                         ("file:///etc/passwd", "")):
        Hub.endless = endless
        got = zerofs("info", "hf://o/r", HF_ENDPOINT=hub.url, HF_TOKEN="hf_x")
        assert got.returncode not in (0, 1) and why in got.stderr and got.stderr.count("\n") == 1 and "hf_x" not in got.stderr, got


need_addresses()
tap = Tap()
tap.run("a bearer token from the environment", bearer)
tap.run("a manifest", manifest)
tap.run("local_cache", local_cache)
tap.run("the hub: pages, redirects, tokens", with_hub, hub_reads)
tap.run("the hub refuses", with_hub, hub_refuses)
tap.run("the hub's listing has no end", with_hub, hub_listings_that_lie)
tap.done()
