#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that answers otherwise than it was asked.  Whatever it says: the bytes are the file's, or there is one sentence and
exit status 5; what one answer left behind, also on disk, is never taken for the file's."""
import concurrent.futures
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from rawserver import Raw  # noqa: E402 pylint: disable=wrong-import-position
from tap import main, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
# Memory that nobody has written to holds other bytes than the file.
ENV = {**{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}, "MALLOC_PERTURB_": "165"}
N = 1 << 20
WANT = hashlib.shake_256(b"hostile").digest(N)
HEAD = json.dumps({"w": {"dtype": "U8", "shape": [N], "data_offsets": [0, N]}}).encode()
FILE = len(HEAD).to_bytes(8, "little") + HEAD + WANT


def cat(s, *options, seconds=10):
    return subprocess.run([ZEROFS, "cat", s.url + "model.safetensors", "w.u8", "-o", ",".join((f"timeout={seconds}", *options))],
                          capture_output=True, timeout=120, env=ENV)


def sentences(r):
    return [line for line in r.stderr.decode().splitlines() if line.strip()]


def right(s, *options):
    r = cat(s, *options)
    assert r.returncode == 0, r.stderr.decode()
    assert r.stdout == WANT, "wrong bytes"


def refused(s, part, *options):
    r = cat(s, *options)
    text = r.stderr.decode()
    assert WANT.startswith(r.stdout), "wrong bytes in front of the failure"
    assert r.returncode == 5, f"exit status {r.returncode}: {text}"
    assert part in text and len(sentences(r)) == 1, text


def tails(answer):
    """That answer to ranges behind the first block, the right one to all else."""
    return lambda a: answer(a) if a.is_tail else a.good()


def another_status_is_no_range():
    with Raw(FILE) as s:
        for status in (200, 201, 202, 203, 204, 205, 207, 208, 226, 299):
            s.answer = tails(lambda a, n=status: a.head(n, a.headers(0 if n in (204, 205) else None)) + (b"" if n in (204, 205) else a.part()))
            refused(s, f"status {status}")
            s.answer = tails(lambda a, n=status: a.head(n, {"Content-Length": "0"}))
            refused(s, f"status {status}")


def another_status_is_no_file():
    """Of what is asked for whole, and of a head."""
    with Raw(FILE) as s:
        for status in (201, 203, 204, 206):
            s.answer = lambda a, n=status: a.head(n, a.headers()) if a.method == "HEAD" else a.good()
            r = subprocess.run([ZEROFS, "info", s.url], capture_output=True, timeout=60, env=ENV)
            assert r.returncode == 5 and f"{status}".encode() in r.stderr, (status, r)


TRAILERS = (b"HTTP/1.1 204 x: y\r\n", b"HTTP/1.1 204 x: y\r\n\r\n", b"HTTP/1.1 500 x: y\r\n", b"HTTP/1.1 301 x: y\r\nLocation: /model.safetensors\r\n",
            b"Content-Range: bytes 0-0/1048648\r\n", b"Content-Range: bytes 65536-65545/%d\r\n" % len(FILE), b"Content-Length: 10\r\n",
            b'ETag: "other"\r\n', b"Content-Encoding: gzip\r\n", b"X: y\r\n")


def a_trailer_says_nothing_of_the_answer():
    with Raw(FILE) as s:
        for trailer in TRAILERS:
            if trailer.endswith(b"\r\n\r\n"):
                continue  # the trailer ends there; what comes behind it belongs to nothing
            s.answer = lambda a, t=trailer: a.chunked(a.part(), t) if a.is_file and a.first is not None else a.good()
            right(s)


def at_once(n, one, cases):
    """`one` of each of the cases, n at a time: most of them take the time that an answer is waited for."""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        bad = [f"{c}: {f.exception()}" for c, f in [(c, pool.submit(one, *c)) for c in cases] if f.exception()]
    assert not bad, "\n".join(bad)


def a_short_answer_is_not_whole():
    """Nor with a trailer that says so; and what is kept of it on disk is the file's."""
    def one(trailer, n):
        with Raw(FILE) as s, tempfile.TemporaryDirectory() as tmp:
            kept = "cache_dir=" + os.path.join(tmp, "cache")
            s.answer = tails(lambda a: a.chunked(a.part()[:n], trailer))
            refused(s, "", kept)
            s.answer = lambda a: a.good()
            right(s, kept)

    at_once(10, one, [(t, n) for t in TRAILERS for n in (0, 10, 100000)])


def a_head_that_contradicts_itself():
    with Raw(FILE) as s:
        for name, value in (("Content-Range", f"bytes 0-0/{N}"), ("Content-Range", "nonsense"), ("ETag", '"other"'), ("Content-Length", "7"),
                            ("Content-Encoding", "gzip"), ("x-amz-version-id", "b")):
            for turn in (1, -1):
                pairs = lambda a, n=name, v=value, t=turn: ([*a.headers().items(), ("x-amz-version-id", "a"), (n, v)])[::t]
                s.answer = tails(lambda a, p=pairs: a.head(206, p(a)) + a.part())
                refused(s, "")
        s.answer = tails(lambda a: a.chunked(a.part(), b"", **{"Content-Length": str(len(a.part()))}))
        refused(s, "contradicts itself")
        s.answer = tails(lambda a: a.head(206, [*a.headers().items(), ("ETag", s.etag), ("Content-Range", a.headers()["Content-Range"])]) + a.part())
        right(s)  # said twice is no contradiction


def a_trailer_without_an_end():
    def flood(a):
        a.sock.sendall(a.chunked(a.part(), b"")[:-2])
        while not a.server.stopping.is_set():
            a.sock.sendall(b"X-Pad: " + b"y" * 1000 + b"\r\n")

    with Raw(FILE) as s:
        s.answer = tails(flood)
        refused(s, "bytes of headers")


def credentials_go_nowhere_else():
    """A service that hands out credentials, and redirects: neither to another host nor on its own is it asked there, and what would be
    answered there is nothing to go by."""
    there = json.dumps({"access_token": "t", "expires_in": 3600, "AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2099-01-01T00:00:00Z"})
    with Raw(FILE) as store, Raw(FILE) as service, Raw(FILE) as other, tempfile.TemporaryDirectory() as tmp:
        other.answer = lambda a: a.head(200, {"Content-Length": str(len(there))}) + there.encode()
        secret = "s3cr3t"
        for name, text in (("token", secret), ("gs.json", json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": secret,
                                                                      "refresh_token": secret, "token_uri": service.url + "token"}))):
            with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
                f.write(text)
        base = {"HOME": tmp, "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "XDG_CACHE_HOME": tmp}
        aws = {**base, "AWS_ENDPOINT_URL_S3": store.url, "AWS_EC2_METADATA_DISABLED": "true"}
        flows = {
            "sts": ("s3://bucket/x", {**aws, "AWS_ENDPOINT_URL_STS": service.url, "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
                                      "AWS_WEB_IDENTITY_TOKEN_FILE": os.path.join(tmp, "token")}),
            "container": ("s3://bucket/x", {**aws, "AWS_CONTAINER_CREDENTIALS_FULL_URI": service.url + "c",
                                            "AWS_CONTAINER_AUTHORIZATION_TOKEN": secret}),
            "instance": ("s3://bucket/x", {**base, "AWS_ENDPOINT_URL_S3": store.url, "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url}),
            "google": ("gs://bucket/x", {**base, "STORAGE_EMULATOR_HOST": store.url, "GOOGLE_APPLICATION_CREDENTIALS": os.path.join(tmp, "gs.json")}),
            "machine": ("gs://bucket/x", {**base, "STORAGE_EMULATOR_HOST": store.url, "GCE_METADATA_HOST": service.url.split("/")[2]}),
        }
        for flow, (where, env) in flows.items():
            for status in (302, 307):
                for to in (other, service):
                    service.log.clear()
                    service.answer = lambda a, n=status, t=to: a.head(n, {"Location": t.url + "elsewhere", "Content-Length": "0"}) \
                        if a.path != "/elsewhere" else other.answer(a)
                    r = subprocess.run([ZEROFS, "info", where, "-o", "timeout=5"], capture_output=True, timeout=60, env={**ENV, **env})
                    assert r.returncode and secret.encode() not in r.stderr, (flow, status, r)
                    assert service.log, f"{flow}: the service was not asked"
                    assert not other.log, f"{flow}, {status}: resent to another host: {other.log}"
                    assert not [x for x in service.log if x[1] == "/elsewhere"], f"{flow}, {status}: followed"


def a_listing_does_not_decide_how_much_is_asked():
    """Sizes that it does not tell, and names in an index."""
    def listing(a, n):
        if a.path != "/run/":
            return a.good()
        text = "<html><body><h1>Directory listing for /</h1><ul>" + "".join(f'<li><a href="f{i}">f{i}</a></li>' for i in range(n)) + "</ul></body></html>"
        return a.head(200, {"Content-Type": "text/html", "Content-Length": str(len(text))}) + text.encode()

    def index(a, n):
        if not a.path.endswith("model.safetensors.index.json"):
            return a.good()
        text = json.dumps({"metadata": {}, "weight_map": {f"t{i}": f"m{i}.safetensors" for i in range(n)}}).encode()
        if a.first is not None:
            text = text[a.first:]
            return a.head(206, {**a.headers(len(text)), "Content-Range": f"bytes {a.first}-{a.first + len(text) - 1}/{a.first + len(text)}"}) + text
        return a.head(200, a.headers(len(text))) + (b"" if a.method == "HEAD" else text)

    for kind, where in ((listing, "run"), (index, "")):
        with Raw(FILE) as s:
            s.answer = lambda a, k=kind: k(a, 3000)
            r = subprocess.run([ZEROFS, "info", s.url + where, "-o", "limit=head_requests=2000"], capture_output=True, timeout=120, env=ENV)
            said = r.stderr.decode().splitlines()
            assert r.returncode == 4 and "head_requests" in said[-1] and "zerofs index" in said[-1], r
            assert len(s.log) < 1000, f"{len(s.log)} requests"


def many_questions_are_told():
    """Of a place without a listing, once, with what makes it shorter; with that, it is not said."""
    n = 300
    made = [b""]

    def answer(a):
        if a.path.endswith("model.safetensors.index.json"):
            text = json.dumps({"metadata": {}, "weight_map": {f"t{i}": f"m{i}.safetensors" for i in range(n)}}).encode()
        elif a.path == "/zerofs.index.json" and made[0]:
            text = made[0]
        elif a.path.startswith("/m") and a.path[2].isdigit():
            head = json.dumps({"t" + a.path[2:].split(".")[0]: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
            text = len(head).to_bytes(8, "little") + head + b"abcd"
        else:
            return a.head(404, {"Content-Length": "0"})
        part = text[a.first:(a.last or 0) + 1] if a.first is not None else text
        h = {**a.headers(len(part))}
        if a.first is not None:
            h["Content-Range"] = f"bytes {a.first}-{a.first + len(part) - 1}/{len(text)}"
        return a.head(206 if a.first is not None else 200, h) + (b"" if a.method == "HEAD" else part)

    with Raw(FILE) as s:
        s.answer = answer
        for told in (1, 0):
            r = subprocess.run([ZEROFS, "info", s.url, "-o", "model_cache=off"], capture_output=True, timeout=120, env=ENV)
            said = r.stderr.decode().splitlines()
            assert r.returncode == 0 and len(said) == told, r
            assert not told or ("zerofs index" in said[0] and s.url.rstrip("/") in said[0]), said
            with tempfile.TemporaryDirectory() as tmp:
                for name in ("model.safetensors.index.json", *(f"m{i}.safetensors" for i in range(n))):
                    with urllib.request.urlopen(s.url + name) as f, open(os.path.join(tmp, name), "wb") as to:
                        to.write(f.read())
                subprocess.run([ZEROFS, "index", tmp], check=True, capture_output=True, timeout=60)
                with open(os.path.join(tmp, "zerofs.index.json"), "rb") as f:
                    made[0] = f.read()


def a_proxy_that_wants_credentials():
    """Is asked once, and its password is told nobody."""
    with Raw(FILE) as s, Raw(FILE) as proxy:
        proxy.answer = lambda a: a.head(407, {"Proxy-Authenticate": "Basic realm=x", "Content-Length": "0"})
        for scheme in ("http", "https"):
            proxy.log.clear()
            env = {**ENV, scheme + "_proxy": proxy.url.replace("//", "//me:s3cr3t@"), "no_proxy": ""}
            r = subprocess.run([ZEROFS, "info", scheme + "://files.example/x.safetensors", "-o", "timeout=10"], capture_output=True, timeout=60, env=env)
            text = r.stderr.decode()
            assert r.returncode == 5 and "407" in text and "the proxy needs credentials" in text and "s3cr3t" not in text, text
            assert len(proxy.log) == 1, f"{scheme}: asked {len(proxy.log)} times"
        for status, times in ((403, 1), (503, 3)):
            proxy.log.clear()
            proxy.answer = lambda a, n=status: a.head(n, {"Content-Length": "0"})
            r = subprocess.run([ZEROFS, "info", "https://files.example/x.safetensors", "-o", "timeout=10"], capture_output=True, timeout=60,
                               env={**ENV, "https_proxy": proxy.url})
            assert r.returncode == 5 and f"the proxy answers {status}".encode() in r.stderr, r.stderr
            assert len(proxy.log) == times, proxy.log
        for bad in ("http://me:s3cr3t@[::1", "http://me:s3cr3t@host:99999999", "nonsense://me:s3cr3t@host", "http://me:s3cr3t pa@host", "me:s3cr3t",
                    "http://me:" + "s3cr3t" * 60 + "@[", "http://me:s3cr3t@no.such.host.invalid:1"):
            r = subprocess.run([ZEROFS, "info", s.url + "model.safetensors", "-v", "-o", "timeout=3"], capture_output=True, timeout=60,
                               env={**ENV, "http_proxy": bad, "no_proxy": ""})
            text = r.stderr.decode()
            assert r.returncode == 5 and "s3cr3t" not in text and "proxy" in text.lower(), (bad, text)


def drip(a, part, seconds):
    """Some bytes at a time, for longer than a read may take."""
    out = a.head(206, a.headers()) + part
    end = time.monotonic() + seconds
    while time.monotonic() < end and not a.server.stopping.wait(.2):
        a.sock.sendall(out[:100])
        out = out[100:]
    a.close = True


def endless(a, text):
    while not a.server.stopping.is_set():
        a.sock.sendall(text * 100)


def cut(a, out):
    a.close = True
    return out


def kinds(s):
    """What is said to a range, and whether the file can be had all the same."""
    state = {"n": 0}

    def now_and_then(a, other):
        state["n"] += 1
        return other if state["n"] % 2 else a.good()

    early = b"HTTP/1.1 103 early\r\nContent-Range: bytes 0-0/1\r\nETag: \"other\"\r\nContent-Length: 3\r\n\r\n"
    half = lambda a: a.part()[:len(a.part()) // 2]
    return {
        "interim answers": (lambda a: early * 3 + b"HTTP/1.1 100 c\r\n\r\n" + a.good(), True),
        "interim answers without end": (lambda a: endless(a, early), False),
        "a header without end": (lambda a: endless(a, b"HTTP/1.1 206 x\r\nX: " + b"y" * 1000), False),
        "gzip": (lambda a: (lambda z: a.head(206, {**a.headers(len(z)), "Content-Encoding": "gzip"}) + z)(gzip.compress(a.part())), False),
        "gzip for the transfer": (lambda a: (lambda z: a.head(206, {**a.headers(False), "Transfer-Encoding": "gzip, chunked"}) +
                                             b"%x\r\n" % len(z) + z + b"\r\n0\r\n\r\n")(gzip.compress(a.part())), False),
        "HTTP/1.0": (lambda a: cut(a, a.head(206, a.headers(), "1.0") + a.part()), True),
        "HTTP/1.0 without a length": (lambda a: cut(a, a.head(206, a.headers(False), "1.0") + a.part()), True),
        "HTTP/1.0, cut": (lambda a: cut(a, a.head(206, a.headers(False), "1.0") + half(a)), False),
        "HTTP/2": (lambda a: cut(a, a.head(206, a.headers(), "2") + a.part()), None),
        "HTTP/0.9": (lambda a: cut(a, a.part()), False),
        "a cut": (lambda a: cut(a, a.head(206, a.headers()) + half(a)), False),
        "a cut now and then": (lambda a: now_and_then(a, cut(a, a.head(206, a.headers()) + half(a))) if state["n"] % 2 == 0 else
                               now_and_then(a, None), True),
        "a chunk that is cut": (lambda a: cut(a, a.chunked(a.part(), b"")[:-7]), False),
        "a chunk of a size that is none": (lambda a: cut(a, a.head(206, {**a.headers(False), "Transfer-Encoding": "chunked"}) + b"-5\r\nabcde\r\n"), False),
        "a length beyond all numbers": (lambda a: cut(a, a.head(206, {**a.headers(False), "Content-Length": "9" * 30}) + a.part()), None),
        "another part": (lambda a: a.head(206, {**a.headers(), "Content-Range": f"bytes {a.first - 1}-{a.last - 1}/{len(FILE)}"}) + a.part(), False),
        "less of it": (lambda a: a.head(206, {**a.headers(10), "Content-Range": f"bytes {a.first}-{a.first + 9}/{len(FILE)}"}) + a.part()[:10], False),
        "more of it": (lambda a: a.head(206, {**a.headers(), "Content-Range": f"bytes {a.first}-{a.last + 1}/{len(FILE) + 1}"}) + a.part() + b"x", False),
        "a part beyond all numbers": (lambda a: a.head(206, {**a.headers(), "Content-Range": f"bytes {a.first}-{2**64 - 1}/{2**64}"}) + a.part(), False),
        "no Content-Range": (lambda a: a.head(206, {k: v for k, v in a.headers().items() if k != "Content-Range"}) + a.part(), False),
        "several parts": (lambda a: a.head(206, {**a.headers(), "Content-Type": "multipart/byteranges; boundary=x"}) + a.part(), False),
        "all of it": (lambda a: a.head(200, {**{k: v for k, v in a.headers(len(FILE)).items() if k != "Content-Range"}}) + FILE, False),
        "416": (lambda a: a.head(416, {"Content-Range": f"bytes */{len(FILE)}", "Content-Length": "0"}), False),
        "another ETag": (lambda a: a.head(206, {**a.headers(), "ETag": '"b"'}) + a.part(), False),
        "no ETag": (lambda a: a.head(206, {k: v for k, v in a.headers().items() if k != "ETag"}) + a.part(), False),
        "redirects in a circle": (lambda a: a.head(302, {"Location": a.path, "Content-Length": "0"}), False),
        "a redirect to nothing": (lambda a: a.head(302, {"Location": "", "Content-Length": "0"}), False),
        "a redirect to odd places": (lambda a: a.head(302, {"Location": "http://[::1/%00\t x", "Content-Length": "0"}), False),
        "401 with a proxy's words": (lambda a: a.head(401, {"WWW-Authenticate": "Negotiate", "Content-Length": "0"}), False),
        "a body with 304": (lambda a: cut(a, a.head(304, a.headers()) + a.part()), False),
        "switching": (lambda a: a.head(101, {"Upgrade": "h2c", "Connection": "upgrade"}) + a.good(), None),
        "a drip": (lambda a: drip(a, a.part(), 30), False),
    }


def answers_of_all_kinds():
    def one(kind):
        with Raw(FILE) as s:
            answer, can = kinds(s)[kind]
            s.answer = tails(answer)
            begin = time.monotonic()
            r = cat(s, seconds=4)
            said = r.stderr.decode()
            assert WANT.startswith(r.stdout), "wrong bytes"
            assert (r.returncode == 0) == (r.stdout == WANT) and r.returncode in (0, 5), f"{r.returncode} {said}"
            assert can is None or (r.returncode == 0) == can, f"{r.returncode} {said}"
            assert r.returncode == 0 or len(sentences(r)) == 1, said
            assert time.monotonic() - begin < 60, f"{time.monotonic() - begin} s"

    with Raw(FILE) as s:
        at_once(4, one, [(k,) for k in kinds(s)])


if __name__ == "__main__":
    need_addresses()
    TESTS = [another_status_is_no_range, another_status_is_no_file, a_trailer_says_nothing_of_the_answer, a_short_answer_is_not_whole,
             a_head_that_contradicts_itself, a_trailer_without_an_end, credentials_go_nowhere_else,
             a_listing_does_not_decide_how_much_is_asked, many_questions_are_told, a_proxy_that_wants_credentials,
             answers_of_all_kinds]
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
