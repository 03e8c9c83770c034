# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Hugging Face hub: GET api/models/ID/revision/REV, api/models/ID/tree/COMMIT/DIR and ID/resolve/COMMIT/PATH, as
huggingface_hub 0.36 asks for them and 1.33 still does.  Large files are redirected to a store, which must never see the token."""
import contextlib
import json
import os
import urllib.parse

import serve

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(serve.Handler):
    TOKEN = None
    seen = []
    endless = None  # a page's cursor leads there

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
            return self.finish_status(200, json.dumps({"id": "o/r", "sha": COMMIT}).encode(), [("Content-Type", "application/json")])
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
        if at + 2 < len(rows) or self.endless:
            to = self.endless or f"{self.server.url}api/models/o/r/tree/{COMMIT}/{rel}?cursor={at + 2}"
            headers.append(("Link", f"<{to}>; rel=\"next\""))
        return self.finish_status(200, json.dumps(rows[at:at + 2]).encode(), headers)


@contextlib.contextmanager
def hub_of(here):
    """Serves `here` as o/r."""
    with serve.Server(here, handler=Hub) as store, serve.Server(here, handler=Hub) as hub:
        hub.other = store.url
        Hub.TOKEN, Hub.seen, Hub.endless = None, [], None
        yield hub
