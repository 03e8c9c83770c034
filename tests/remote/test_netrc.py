#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""User names and passwords of ~/.netrc go to the host that they are for, and to none that it redirects to."""
import base64
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from rawserver import Raw  # noqa: E402 pylint: disable=wrong-import-position
from tap import main, need_addresses  # noqa: E402 pylint: disable=wrong-import-position
from test_hostile import ENV, FILE, WANT, ZEROFS  # noqa: E402 pylint: disable=wrong-import-position


def basic(pair):
    return "Basic " + base64.b64encode(pair.encode()).decode()


def cat(url, netrc, **env):
    """The file's bytes, with that text in ~/.netrc."""
    with tempfile.TemporaryDirectory() as home:
        if netrc:
            with open(os.path.join(home, ".netrc"), "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(netrc)
        return subprocess.run([ZEROFS, "cat", url + "model.safetensors", "w.u8", "-o", "timeout=20"], capture_output=True, timeout=120,
                              env={**{k: v for k, v in ENV.items() if k != "NETRC"}, "HOME": home, **env})


def sent(netrc, **env):
    """Values of Authorization that the server got, and that the host got which it redirects to."""
    home, away = set(), set()
    with Raw(FILE, host="127.0.0.2") as there, Raw(FILE) as s:
        def redirect(a):
            home.add(a.header.get("authorization"))
            if not a.is_file:
                return a.good()
            return a.head(302, {"Location": there.url + a.path[1:], "Content-Length": "0"})

        def take(a):
            away.add(a.header.get("authorization"))
            return a.good()
        s.answer, there.answer = redirect, take
        r = cat(s.url, netrc, **env)
    assert r.returncode == 0 and r.stdout == WANT, r.stderr.decode()
    return home, away


def the_password_goes_home_only():
    both = "machine 127.0.0.1 login alice password s3cret\nmachine 127.0.0.2 login bob password other\n"
    assert sent(both) == ({basic("alice:s3cret")}, {None})
    assert sent("default login anonymous password me@here\n") == ({basic("anonymous:me@here")}, {None})
    assert sent("machine elsewhere.example login a password b\n") == ({None}, {None})
    assert sent(None) == ({None}, {None})


def variables_go_first():
    file = "machine 127.0.0.1 login alice password s3cret\n"
    assert sent(file, ZEROFS_HTTP_USERPWD="carol:pw: 3") == ({basic("carol:pw: 3")}, {None})
    assert sent(file, ZEROFS_HTTP_USERPWD="carol:pw", ZEROFS_HTTP_BEARER="t0ken") == ({"Bearer t0ken"}, {None})


def another_file():
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as f:
        f.write("machine 127.0.0.1\nlogin dora\npassword d0ra\n")
        f.flush()
        assert sent("default login anonymous password x\n", NETRC=f.name) == ({basic("dora:d0ra")}, {None})


def a_pipe_is_refused():
    with tempfile.TemporaryDirectory() as d, Raw(FILE) as s:
        os.mkfifo(os.path.join(d, "fifo"))
        r = cat(s.url, None, NETRC=os.path.join(d, "fifo"))
        assert r.returncode == 2 and b"a pipe, but the file is read for every request. Set ZEROFS_HTTP_USERPWD" in r.stderr, r
        r = cat(s.url, None, NETRC="/dev/null")
        assert r.returncode == 0 and r.stdout == WANT, r.stderr.decode()


need_addresses()
main([the_password_goes_home_only, variables_go_first, another_file, a_pipe_is_refused])
