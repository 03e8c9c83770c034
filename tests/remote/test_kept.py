#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model kept of a save behind an address (-o model_cache=): what it costs to use again, and that nothing that was replaced is served from
it.  Servers are this folder's own: one of the web with three kinds of listing, one of objects, one of the hub."""
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
sys.path.insert(0, HERE)
import bytefile  # noqa: E402 pylint: disable=wrong-import-position
import hub  # noqa: E402 pylint: disable=wrong-import-position
import s3server  # noqa: E402 pylint: disable=wrong-import-position
from serve import Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Skip, Tap, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", "tests/data")
SECRET = "s3cr3t-w0rd"
OLD = 1_700_000_000


def age(root, to=OLD):
    for d, dirs, files in os.walk(root):
        for name in dirs + files:
            os.utime(os.path.join(d, name), (to, to))


class Case:
    """A checkpoint of its own in `root`, behind a server, and a directory of kept models."""

    def __init__(self, list_as="json", **faults):
        self.faults = {"list": list_as, **faults} if list_as else faults

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.root, self.cache = (os.path.join(self.tmp.name, n) for n in ("root", "cache"))
        self.run = os.path.join(self.root, "run")
        shutil.copytree(os.path.join(DATA, "deepspeed/zero2_w2"), self.run)
        self.step = next(os.path.join(self.run, d) for d in os.listdir(self.run) if os.path.isdir(os.path.join(self.run, d)))
        age(self.root)
        self.server = Server(self.root)
        self.server.faults.update(self.faults)
        self.server.__enter__()
        self.url = self.server.url + "run/" + os.path.basename(self.step)
        self.env = {}
        return self

    def __exit__(self, *exc):
        self.server.__exit__(*exc)
        self.tmp.cleanup()

    def zerofs(self, *args, ok=True, options=""):
        with self.server.lock:
            self.server.log.clear()
        p = subprocess.run([ZEROFS, *args, "-v", "-o", f"model_cache={self.cache}{options}"], check=False, capture_output=True, timeout=120,
                           env={**os.environ, **self.env})
        assert (p.returncode == 0) == ok, p.stderr.decode()
        self.said = p.stderr.decode()
        return p.stdout

    def ls(self, url=None):
        return self.zerofs("ls", "-R", url or self.url)

    def asked(self):
        with self.server.lock:
            return [(m, p, r) for m, p, r, _ in self.server.log]

    def is_kept(self):
        return "the model is cached" in self.said

    def from_kept(self):
        """Did the last command do without reading a file?"""
        return "kept" not in self.said.replace("model_cache:", "") and not [a for a in self.asked() if a[0] == "GET" and a[2]]

    def keep(self, url=None):
        first = self.ls(url)
        assert self.is_kept(), self.said
        return first

    def again(self, requests, url=None):
        """The second time is as the first, and costs no more than that."""
        first = self.keep(url)
        assert self.ls(url) == first and self.from_kept(), self.said
        assert len(self.asked()) == requests, self.asked()

    def read_anew(self, why=None):
        """What changed is seen, and then kept as it is now unless it is too young for that."""
        out = self.ls()
        assert not self.from_kept(), self.asked()
        assert why is None or why in self.said, self.said
        return out

    def shards(self):
        return sorted(os.path.join(self.step, n) for n in os.listdir(self.step) if n.endswith(".pt"))


def one_request_a_directory():
    with Case() as c:
        c.again(1)
        shutil.rmtree(c.cache)
        c.again(2, c.server.url + "run")  # latest is in the one, the shards in the other


def a_head_a_file_where_times_are_of_minutes():
    with Case("nginx") as c:
        c.again(1 + len(c.shards()))
        assert sum(m == "HEAD" for m, _, _ in c.asked()) == len(c.shards())


def a_head_a_file_where_nothing_is_said():
    with Case(None) as c:
        c.again(1 + len(os.listdir(c.step)))


def what_is_read_is_right():
    with Case() as c:
        c.keep()
        assert c.ls() == subprocess.run([ZEROFS, "ls", "-R", c.step], check=True, capture_output=True, timeout=60).stdout
        out = [os.path.join(c.tmp.name, name) for name in ("local", "kept")]
        c.zerofs("export", "-q", c.step, ".", out[0])
        c.zerofs("export", "-q", c.url, ".", out[1])
        assert "the cached model" not in c.said and "is kept" not in c.said, c.said
        # info.json names the place
        diff = subprocess.run(["diff", "-r", "-x", ".zerofs*", *out], check=False, capture_output=True, text=True, timeout=60)
        assert diff.returncode == 0, diff.stdout
        assert os.listdir(out[1])


def rewritten(c, keep_time):
    path = c.shards()[0]
    st = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(st.st_size // 2)
        byte = f.read(1)
        f.seek(st.st_size // 2)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, (OLD + (0 if keep_time else 1),) * 2)


def the_same_size_and_another_second():
    for style in ("json", "nginx", None):
        with Case(style) as c:
            c.keep()
            rewritten(c, False)
            c.ls()
            assert not c.from_kept() and "the cached model is unusable" in c.said, (style, c.said)


def the_same_size_and_time_with_another_etag():
    """Where the listing shows it, or each file is asked for it."""
    for style in ("nginx", None):
        with Case(style, etag='"one"') as c:
            c.keep()
            c.server.faults["etag"] = '"two"'
            c.ls()
            assert not c.from_kept() and ("ETag changed" if style else "directory has changed") in c.said, (style, c.said)


def a_time_in_the_listing_is_no_proof_of_bytes():
    """A listing that says what it did of an object that is another: the bytes are refused, because each range names the ETag that was kept."""
    with Case(etag='"one"') as c:
        c.keep()
        c.server.faults["etag"] = '"two"'
        out = c.zerofs("cat", c.url, "embed.weight.f32", ok=False)
        assert out == b"" and "replaced" in c.said, c.said


def added_removed_renamed():
    def add(c):
        with open(os.path.join(c.step, "zzz.txt"), "w", encoding="ascii") as f:
            f.write("more")
        os.utime(os.path.join(c.step, "zzz.txt"), (OLD, OLD))

    def rename(c):
        os.rename(c.shards()[0], c.shards()[0] + ".bak")

    for change, fails in ((add, False), (lambda c: os.unlink(c.shards()[0]), True), (rename, True)):
        for style in ("json", "nginx", None):
            with Case(style) as c:
                c.keep()
                change(c)
                c.zerofs("ls", "-R", c.url, ok=not fails)
                assert not c.from_kept() and ("has changed" in c.said or fails), (style, c.said)


def another_save_under_latest():
    with Case() as c:
        url = c.server.url + "run"
        c.keep(url)
        shutil.copytree(c.step, c.step + "9")
        with open(os.path.join(c.run, "latest"), "w", encoding="ascii") as f:
            f.write(os.path.basename(c.step) + "9")
        age(c.root)
        os.utime(os.path.join(c.run, "latest"), (OLD + 5, OLD + 5))
        c.ls(url)
        assert not c.from_kept(), c.said


def what_could_change_unnoticed_is_not_kept():
    with Case(None, no_etag="1", no_time="1") as c:
        c.zerofs("ls", "-R", c.url, ok=False)  # nothing tells one object from another: refused as ever
    with Case(None, no_etag="1") as c:
        c.again(1 + len(os.listdir(c.step)))  # Last-Modified, which is old
    with Case() as c:
        age(c.root, time.time())
        c.ls()
        assert not c.is_kept() and "only a moment ago" in c.said, c.said
    # By the clock of the server, which here is an hour behind ours: what it wrote now has its time of now.
    with Case(clock="-3600") as c:
        age(c.root, time.time() - 3600)
        c.ls()
        assert not c.is_kept() and "only a moment ago" in c.said, c.said
    with Case(clock="3600") as c:
        age(c.root, time.time())
        c.ls()
        assert c.is_kept(), c.said


def nobody_may_list_the_second_time():
    with Case() as c:
        first = c.keep()
        c.server.faults["no_list"] = "1"
        assert c.ls() == first and not c.from_kept(), c.said


def nobody_answers_the_second_time():
    with Case() as c:
        c.keep()
        c.server.faults["status"] = "503"
        began = time.monotonic()
        c.zerofs("ls", "-R", c.url, ok=False, options=",timeout=4")
        assert time.monotonic() - began < 7.5, "it was waited for twice"
        assert "503" in c.said, c.said


def a_hidden_name():
    """nginx lists no name with a dot in front; what a checkpoint needs of them is asked for."""
    with Case() as c:
        shutil.rmtree(c.run)
        shutil.copytree(os.path.join(DATA, "dcp/torch2.13/fsdp2_w2_adamw"), c.run)
        age(c.root)
        c.url = c.server.url + "run"
        c.keep()
        first = c.ls()
        assert c.from_kept() and first, c.said
        with open(os.path.join(c.run, ".metadata"), "r+b") as f:
            f.seek(0, 2)
            f.write(b" ")
        os.utime(os.path.join(c.run, ".metadata"), (OLD, OLD))
        c.ls()
        assert not c.from_kept(), c.said


def a_file_that_was_pointed_at():
    with Case() as c:
        path = os.path.join(c.root, "m.safetensors")
        bytefile.write(path, dict(a=b"1" * 1000, b=b"2" * 1000))
        os.utime(path, (OLD, OLD))
        c.url = c.server.url + "m.safetensors"
        first = c.keep()
        assert c.ls() == first and "the cached model" not in c.said, c.said
        # Is it there, what is beside it, also hidden, and is it the same?
        assert len(c.asked()) == 4, c.asked()
        bytefile.write(path, dict(a=b"1" * 1000, c=b"2" * 1000))
        os.utime(path, (OLD, OLD + 1))
        assert c.ls() != first, "the old names"


def spelled_otherwise():
    with Case() as c:
        first = c.keep()
        assert c.ls(c.url + "//") == first
        assert c.ls(c.url.replace("http:", "HTTP:")) == first
        try:
            socket.getaddrinfo("localhost", None)
        except OSError as e:
            raise Skip("localhost is not resolved here") from e
        assert c.ls(c.url.replace("127.0.0.1", "localhost")) == first


def closed_and_without_secrets():
    with Case(auth=f"me:{SECRET}") as c:
        netrc = os.path.join(c.tmp.name, "netrc")
        with open(netrc, "w", encoding="ascii") as f:
            f.write(f"machine 127.0.0.1 login me password {SECRET}\n")
        os.chmod(netrc, 0o600)
        c.env = {"NETRC": netrc}
        old = os.umask(0)
        try:
            c.again(1)
        finally:
            os.umask(old)
        assert stat.S_IMODE(os.stat(c.cache).st_mode) == 0o700
        for name in os.listdir(c.cache):
            path = os.path.join(c.cache, name)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
            with open(path, "rb") as f:
                data = f.read()
            assert SECRET.encode() not in data and b"bWU6" not in data and b"Authorization" not in data, name
        # Who may not ask is not told either.
        c.env = {"NETRC": "/dev/null"}
        c.zerofs("ls", "-R", c.url, ok=False)


def every_byte_of_a_kept_file():
    """Cut or flipped at any place it is of no use, and the save is read."""
    with Case() as c:
        small = os.path.join(c.root, "small")
        os.mkdir(small)
        bytefile.write(os.path.join(small, "m.safetensors"), {"a": b"1"})
        age(c.root)
        c.url = c.server.url + "small"
        first = c.keep()
        path = os.path.join(c.cache, os.listdir(c.cache)[0])
        with open(path, "rb") as f:
            whole = f.read()
        for i in range(len(whole)):
            for bad in (whole[:i], whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1:]):
                with open(path, "wb") as f:
                    f.write(bad)
                assert c.ls() == first and "the cached model is unusable" in c.said, (i, c.said)


def local_copies_are_not_kept():
    with Case() as c:
        c.zerofs("ls", "-R", c.url, options=f",local_cache={c.root}")
        assert not c.is_kept() and not os.path.exists(c.cache), c.said


class Bucket(Case):
    """The same save in a bucket; what it is asked goes to a server of objects."""

    def __enter__(self):
        super().__enter__()
        self.s3 = s3server.Server({"b": self.root})
        self.s3.public.add("b")
        self.s3.__enter__()
        self.url = "s3://b/run/" + os.path.basename(self.step)
        self.env = {"AWS_ENDPOINT_URL": self.s3.url, "AWS_NO_SIGN_REQUEST": "1", "AWS_EC2_METADATA_DISABLED": "true"}
        return self

    def __exit__(self, *exc):
        self.s3.__exit__(*exc)
        super().__exit__(*exc)

    def zerofs(self, *args, **more):
        with self.s3.lock:
            self.s3.requests.clear()
        return super().zerofs(*args, **more)

    def asked(self):
        with self.s3.lock:
            return [(m, p, h.get("range")) for m, p, h, _ in self.s3.requests]


def one_page_a_directory_of_a_bucket():
    with Bucket() as c:
        c.again(1)
        shutil.rmtree(c.cache)
        c.again(2, "s3://b/run")
        c.s3.page = 2
        shutil.rmtree(c.cache)
        c.again((len(os.listdir(c.step)) + 1) // 2)


def objects_replaced_in_a_bucket():
    """Also of the same size, in the same second, and just now: an ETag of such a store is of the bytes."""
    def add(c):
        with open(os.path.join(c.step, "zzz.txt"), "w", encoding="ascii") as f:
            f.write("more")

    for change, fails in ((lambda c: rewritten(c, False), False), (lambda c: os.utime(c.shards()[0], ns=(OLD * 10**9, OLD * 10**9 + 5)), False),
                          (add, False), (lambda c: os.unlink(c.shards()[0]), True)):
        with Bucket() as c:
            age(c.root, time.time())
            c.keep()
            c.ls()
            assert c.from_kept(), c.said
            change(c)
            c.zerofs("ls", "-R", c.url, ok=not fails)
            assert not c.from_kept() and ("has changed" in c.said or fails), c.said


def another_store_of_the_same_name():
    with Bucket() as c, s3server.Server({"b": c.root}) as other:
        c.keep()
        other.public.add("b")
        c.env["AWS_ENDPOINT_URL"] = other.url
        c.ls()
        assert "leads elsewhere" in c.said, c.said


def a_bucket_that_may_not_be_listed_any_more():
    with Bucket() as c:
        first = c.keep()
        c.s3.no_list.add("b")
        assert c.ls() == first and not c.from_kept(), c.said


class OfHub(Case):
    """What is asked of a hub, which logs nothing, as zerofs says it."""

    def asked(self):
        words = [line.split() for line in self.said.splitlines() if line.startswith(("zerofs: GET", "zerofs: HEAD"))]
        return [(w[1], w[2], w[4] if w[3] == "bytes" else None) for w in words]


def a_commit_is_the_proof():
    with OfHub() as c, hub.hub_of(c.root) as h:
        c.env = {"HF_ENDPOINT": h.url, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
        url = "hf://o/r/run/" + os.path.basename(c.step)
        pages = (len(os.listdir(c.step)) + 1) // 2
        c.again(1 + pages, url)  # the commit of main, and whether this is a directory
        assert not [p for _, p, _ in c.asked() if "resolve" in p], c.asked()
        was, hub.COMMIT = hub.COMMIT, "f" * 40
        try:
            rewritten(c, False)
            c.ls(url)
            assert "the checkpoint was replaced" in c.said and not c.from_kept(), c.said
        finally:
            hub.COMMIT = was


def main():
    need_addresses()
    tap = Tap()
    for test in (one_request_a_directory, a_head_a_file_where_times_are_of_minutes, a_head_a_file_where_nothing_is_said,
                 what_is_read_is_right, the_same_size_and_another_second, the_same_size_and_time_with_another_etag,
                 a_time_in_the_listing_is_no_proof_of_bytes, added_removed_renamed, another_save_under_latest,
                 what_could_change_unnoticed_is_not_kept, nobody_may_list_the_second_time, nobody_answers_the_second_time,
                 a_hidden_name, a_file_that_was_pointed_at, spelled_otherwise, closed_and_without_secrets,
                 every_byte_of_a_kept_file, local_copies_are_not_kept, one_page_a_directory_of_a_bucket, objects_replaced_in_a_bucket,
                 another_store_of_the_same_name, a_bucket_that_may_not_be_listed_any_more, a_commit_is_the_proof):
        tap.run(test.__name__.replace("_", " "), test)
    tap.done()


main()
