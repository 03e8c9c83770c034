#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that answers otherwise than it was asked.  Whatever it says: the bytes are the file's, or there is one sentence and
exit status 5; what one answer left behind, also on disk, is never taken for the file's."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

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


def cat(s, *options):
    return subprocess.run([ZEROFS, "cat", s.url + "model.safetensors", "w.u8", "-o", ",".join(("timeout=10", *options))],
                          capture_output=True, timeout=120, env=ENV)


def right(s, *options):
    r = cat(s, *options)
    assert r.returncode == 0, r.stderr.decode()
    assert r.stdout == WANT, "wrong bytes"


def refused(s, part, *options):
    r = cat(s, *options)
    text = r.stderr.decode()
    assert WANT.startswith(r.stdout), "wrong bytes in front of the failure"
    assert r.returncode == 5, f"exit status {r.returncode}: {text}"
    assert part in text and len(text.strip().splitlines()) == 1, text


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


def a_short_answer_is_not_whole():
    """Nor with a trailer that says so; and what is kept of it on disk is the file's."""
    for trailer in TRAILERS:
        for n in (0, 10, 100000):
            with Raw(FILE) as s, tempfile.TemporaryDirectory() as tmp:
                kept = "cache_dir=" + os.path.join(tmp, "cache")
                s.answer = tails(lambda a, t=trailer, n=n: a.chunked(a.part()[:n], t))
                refused(s, "", kept)
                s.answer = lambda a: a.good()
                right(s, kept)


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


if __name__ == "__main__":
    need_addresses()
    TESTS = [another_status_is_no_range, another_status_is_no_file, a_trailer_says_nothing_of_the_answer, a_short_answer_is_not_whole,
             a_head_that_contradicts_itself, a_trailer_without_an_end]
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
