#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over a server with a manifest, one that wants a token, and a stand-in for the Hugging Face hub's calls: what
`zerofs export` writes is, byte for byte, what it writes from the directory on disk."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

sys.path[:0] = [os.path.join(os.environ.get("top_srcdir", "."), "tests", d) for d in ("support", "remote")]
import serve  # noqa: E402
from places import DATA, TMP, compare, same, sets, tree, zerofs  # noqa: E402
from tap import Skip, Tap  # noqa: E402

COMMIT = "0123456789abcdef0123456789abcdef01234567"


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
        assert got.returncode == 4 and "none inside the directory" in got.stderr, got


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


# ---- the hub: GET api/models/ID/revision/REV, api/models/ID/tree/COMMIT/DIR, ID/resolve/COMMIT/PATH, as huggingface_hub 0.36 asks ----
class Hub(serve.Handler):
    TOKEN = None
    seen = []

    def do_GET(self):
        self.hub(True)

    def do_HEAD(self):
        self.hub(False)

    def hub(self, body):
        path = urllib.parse.urlsplit(self.path)
        if path.path.startswith("/store/"):
            # The store behind the hub: never sees the token.
            Hub.seen.append(self.headers.get("Authorization"))
            self.path = path.path[len("/store"):]
            return self.answer(body)
        if self.TOKEN and self.headers.get("Authorization") != "Bearer " + self.TOKEN:
            code = "GatedRepo" if "gated" in path.path else "RepoNotFound"
            return self.finish_status(401, b"{}", [("X-Error-Code", code)])
        if path.path.startswith("/api/models/o/r/revision/"):
            if not path.path.endswith(("/main", "/v1%2Fx")):
                return self.finish_status(404, b"{}", [("X-Error-Code", "RevisionNotFound")])
            return self.finish_status(200, json.dumps({"sha": COMMIT}).encode(), [("Content-Type", "application/json")])
        if path.path.startswith(f"/api/models/o/r/tree/{COMMIT}"):
            return self.tree(urllib.parse.unquote(path.path.partition(COMMIT)[2].strip("/")), urllib.parse.parse_qs(path.query))
        if path.path.startswith(f"/o/r/resolve/{COMMIT}/"):
            rel = path.path.partition(COMMIT)[2]
            full = self.server.root + urllib.parse.unquote(rel)
            if os.path.isfile(full) and os.path.getsize(full) > 2000:
                size = os.path.getsize(full)
                host = self.server.other
                return self.finish_status(302, b"", [("Location", f"{host}store{rel}"), ("X-Linked-Size", str(size)), ("X-Repo-Commit", COMMIT)])
            self.path = rel
            return self.answer(body)
        return self.finish_status(404, b"{}", [("X-Error-Code", "RepoNotFound")])

    def tree(self, rel, query):
        full = os.path.join(self.server.root, rel)
        if not os.path.isdir(full):
            return self.finish_status(404, b"{}", [("X-Error-Code", "EntryNotFound")])
        rows = []
        for name in sorted(os.listdir(full)):
            path = os.path.join(full, name)
            row = {"type": "directory" if os.path.isdir(path) else "file", "oid": "00", "size": 0, "path": os.path.join(rel, name)}
            if row["type"] == "file":
                row["size"] = os.path.getsize(path)
                if row["size"] > 2000:
                    row["lfs"] = {"oid": "ab", "size": row["size"], "pointerSize": 134}
            rows.append(row)
        at = int(query.get("cursor", ["0"])[0])
        headers = [("Content-Type", "application/json")]
        if at + 2 < len(rows):
            headers.append(("Link", f"<{self.server.url}api/models/o/r/tree/{COMMIT}/{rel}?cursor={at + 2}>; rel=\"next\""))
        return self.finish_status(200, json.dumps(rows[at:at + 2]).encode(), headers)


def with_hub(judge):
    s = sets()[0]
    here = os.path.join(DATA, s)
    with serve.Server(here, handler=Hub) as store, serve.Server(here, handler=Hub) as hub:
        hub.other = store.url
        Hub.TOKEN, Hub.seen = None, []
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
    assert got.returncode == 0, got.stderr


def hub_refuses(hub, here):
    Hub.TOKEN = "hf_x"
    for address, env, code, why in (
            ("hf://o/r", {}, 5, "HF_TOKEN"), ("hf://o/gated", {}, 5, "gated"), ("hf://o/r", {"HF_TOKEN": "hf_bad"}, 5, "token in use"),
            ("hf://o/r@nope", {"HF_TOKEN": "hf_x"}, 5, "no revision"), ("hf://o", {"HF_TOKEN": "hf_x"}, 5, "hf://OWNER/NAME"),
            ("hf://o/r", {"HF_HUB_OFFLINE": "1"}, 5, "HF_HUB_OFFLINE")):
        got = zerofs("info", address, HF_ENDPOINT=hub.url, **env)
        assert got.returncode != 0 and why in got.stderr and "hf_bad" not in got.stderr, (address, env, got)


def hub_library():
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as e:
        raise Skip("huggingface_hub is not installed") from e

    def judge(hub, here):
        # The stand-in is believed because the library itself gets the same files from it.
        out = subprocess.run([sys.executable, "-c", "import huggingface_hub as h, sys; print(sorted(f.path for f in h.HfApi().list_repo_tree('o/r', revision='"

                              + COMMIT + "') if hasattr(f, 'size')))"], env={**os.environ, "HF_ENDPOINT": hub.url.rstrip("/")},
                             capture_output=True, text=True, timeout=100)
        assert out.returncode == 0, out.stderr
        assert eval(out.stdout) == sorted(n for n in os.listdir(here) if os.path.isfile(os.path.join(here, n))), out.stdout
    with_hub(judge)


tap = Tap()
features = zerofs("info", "http://127.0.0.1:1/")
if "built without libcurl" in features.stderr:
    tap.skip("addresses", "zerofs was built without libcurl")
else:
    tap.run("a bearer token from the environment", bearer)
    tap.run("a manifest", manifest)
    tap.run("local_cache", local_cache)
    tap.run("the hub: pages, redirects, tokens", with_hub, hub_reads)
    tap.run("the hub refuses", with_hub, hub_refuses)
    tap.run("huggingface_hub sees the same files", hub_library)
tap.done()
