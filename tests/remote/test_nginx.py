# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over a real nginx: its listings, ranges, TLS with an authority made here, redirects, passwords; and what a
mount does while it is away."""
import base64
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.environ.get("top_srcdir", "."), "tests", d) for d in ("support", "remote")]
from mounts import mount_point  # noqa: E402
from nginx import Nginx, authority  # noqa: E402
from places import DATA, TMP, compare, sets, zerofs  # noqa: E402
from tap import Skip, main, need_addresses  # noqa: E402

MODEL = "hf/transformers5.23.0_llama_tied_bf16_single"
LIST = "autoindex on; autoindex_format json;"


def nginx(*servers, root=DATA):
    return Nginx(root, tempfile.mkdtemp(dir=TMP), *[s if isinstance(s, tuple) else (s, None) for s in servers])


def refused(code, why, *words, **env):
    got = zerofs(*words, **env)
    assert got.returncode == code and why in got.stderr and got.stderr.count("\n") == 1, (words, env, got)
    return got.stderr


# ---- listings ----------------------------------------------------------------------------------------


def lists_in_html():
    with nginx("autoindex on;") as n:
        for s in sets():
            compare(n.url[0] + s, os.path.join(DATA, s))


def lists_in_json():
    with nginx(LIST) as n:
        for s in sets():
            compare(n.url[0] + s + "/", os.path.join(DATA, s))


def names_that_want_encoding():
    with tempfile.TemporaryDirectory(dir=TMP) as d:
        for odd in ("a=b +c*d@e:f%g", "ä 日本", "~(x)!'&?#;", '<b>"q"'):
            shutil.copytree(os.path.join(DATA, MODEL), os.path.join(d, odd))
        for lines in ("autoindex on;", LIST):
            with nginx(lines, root=d) as n:
                got = zerofs("info", n.url[0])
                for odd in os.listdir(d):
                    assert odd in got.stderr + got.stdout, (odd, got)
                compare(n.url[0] + "a=b%20+c*d@e:f%25g", os.path.join(DATA, MODEL))


def lists_nothing():
    """Only names are asked for."""
    with nginx("") as n:
        for s in sets():
            compare(n.url[0] + s, os.path.join(DATA, s))
        refused(5, "zerofs index DIR", "info", n.url[0] + "nowhere")


def a_page_is_no_listing():
    """What it links to is not taken for the names of files."""
    here = os.path.join(DATA, MODEL)
    with tempfile.TemporaryDirectory(dir=TMP) as d:
        shutil.copytree(here, d + "/m")
        with open(d + "/m/index.html", "w", encoding="utf-8") as f:
            f.write('<html><body><p>See <a href="config.json/">the settings</a> and <a href="none.pt">more</a>.</p></body></html>')
        with nginx("index index.html;", root=d) as n:
            compare(n.url[0] + "m", here)


# ---- ranges ------------------------------------------------------------------------------------------


def ranges():
    """Every answer to a request for bytes is a 206; nothing is asked for twice."""
    with nginx(LIST) as n:
        compare(n.url[0] + MODEL, os.path.join(DATA, MODEL))
        lines = [x for x in n.asked() if "safetensors " in x and " GET " in x]
        assert lines and all(" 206 " in x and "range=bytes=" in x for x in lines), lines
    with nginx(LIST + "max_ranges 0;") as n:
        refused(5, "does not serve ranges", "info", n.url[0] + MODEL)


def is_never_compressed():
    with nginx(LIST + "gzip on; gzip_types *; gzip_min_length 1;") as n:
        compare(n.url[0] + MODEL, os.path.join(DATA, MODEL))


def a_file_that_is_replaced():
    """nginx's own 412: its ETag is time and size."""
    with tempfile.TemporaryDirectory(dir=TMP) as d, mounted(d) as (n, at):
        path = os.path.join(d, "model.safetensors")
        with open(os.path.join(at, "w.u8"), "rb", buffering=0) as f:
            want = f.read(4096)
            was = os.stat(path)
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns + 10 ** 9))
            assert errno_of(f, 3 << 20) == 116
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
            assert errno_of(f, 3 << 20) == 116, "a stale object came back"
        assert any(" 412 " in x for x in n.asked()), n.asked()
        assert len(want) == 4096


def a_file_that_is_deleted():
    with tempfile.TemporaryDirectory(dir=TMP) as d, mounted(d) as (_, at):
        with open(os.path.join(at, "w.u8"), "rb", buffering=0) as f:
            f.read(4096)
            os.rename(os.path.join(d, "model.safetensors"), os.path.join(d, "gone"))
            assert errno_of(f, 3 << 20) in (5, 116)
            os.rename(os.path.join(d, "gone"), os.path.join(d, "model.safetensors"))


# ---- TLS and redirects -------------------------------------------------------------------------------


def secured():
    d = tempfile.mkdtemp(dir=TMP)
    return authority(d), d + "/good", d + "/other"


def tls():
    ca, good, other = secured()
    here = os.path.join(DATA, MODEL)
    with nginx((LIST, good), (LIST, other)) as n:
        where = n.url[0] + MODEL
        refused(5, "trust with -o cacert=FILE", "info", where)
        refused(5, "trust with -o cacert=FILE", "info", where, "-o", "cacert=" + secured()[0])
        assert zerofs("info", where, "-o", "cacert=" + ca).returncode == 0
        compare(where, here, CURL_CA_BUNDLE=ca)
        compare(where, here, SSL_CERT_FILE=ca)
        # Signed by the same authority, for another host.
        refused(5, "-o cacert=FILE", "info", n.url[1] + MODEL, SSL_CERT_FILE=ca)
        assert not any(x.startswith(str(n.port[1])) for x in n.asked()), "something was asked for before the host was proved"
        refused(5, "cacert", "info", where, "-o", "cacert=/nonexistent")


HOPS = " ".join(f"location /hop{i}/ {{ rewrite ^/hop{i}/(.*)$ URL0/hop{i - 1}/$1 redirect; }}" for i in range(2, 7))
MOVED = ("location /up/ { rewrite ^/up/(.*)$ URL1/$1 permanent; } location /round/ { return 302 URL0$request_uri; } "
         "location /file/ { return 302 file:///etc/passwd; } location /hop1/ { rewrite ^/hop1/(.*)$ /$1 redirect; } "
         "location /other/ { rewrite ^/other/(.*)$ URL2/$1 redirect; } location /ftp/ { return 301 ftp://127.0.0.1/x; } " + HOPS)


def redirects():
    ca, good, _ = secured()
    here = os.path.join(DATA, MODEL)
    with nginx(LIST + MOVED, (LIST + "location /down/ { rewrite ^/down/(.*)$ URL0/$1 redirect; }", good), LIST) as n:
        compare(n.url[0] + "up/" + MODEL, here, SSL_CERT_FILE=ca)
        assert any(x.startswith(str(n.port[1])) for x in n.asked())
        refused(5, "from https to", "info", n.url[1] + "down/" + MODEL, SSL_CERT_FILE=ca)
        compare(n.url[0] + "hop5/" + MODEL, here)
        refused(5, "more than 5", "info", n.url[0] + "hop6/" + MODEL)
        refused(5, "more than 5", "info", n.url[0] + "round/" + MODEL)
        for where in ("file/", "ftp/"):
            said = refused(5, "not an http or https", "info", n.url[0] + where + MODEL)
            assert "root:" not in said, said


def passwords_stay_with_their_host():
    with nginx(LIST + MOVED, LIST, LIST) as n:
        compare(n.url[0] + "other/" + MODEL, os.path.join(DATA, MODEL), ZEROFS_HTTP_USERPWD="alice:s3cret")
        first, last = ([x for x in n.asked() if x.startswith(str(p))] for p in (n.port[0], n.port[2]))
        assert first and all("auth=Basic" in x for x in first), first[:3]
        assert last and all("auth=-" in x for x in last), last[:3]


# ---- who may -----------------------------------------------------------------------------------------


def basic_auth():
    users = os.path.join(TMP, "users")
    with open(users, "w", encoding="utf-8") as f:
        for user, password in (("alice", b"s3 cret"), ("bob", b"s3cret")):
            f.write(user + ":{SHA}" + base64.b64encode(hashlib.sha1(password).digest()).decode() + "\n")
    os.chmod(users, 0o644)
    s = sets()[0]
    here = os.path.join(DATA, s)
    with nginx(LIST + f"auth_basic x; auth_basic_user_file {users};") as n:
        where = n.url[0] + s
        refused(5, "401", "info", where)
        compare(where, here, ZEROFS_HTTP_USERPWD="alice:s3 cret")
        rc = os.path.join(TMP, "netrc")
        with open(rc, "w", encoding="utf-8") as f:
            f.write('machine other login x password y\nmachine 127.0.0.1 login bob password s3cret\n')
        compare(where, here, NETRC=rc)
        os.mkfifo(os.path.join(TMP, "fifo"))
        refused(2, "a pipe", "info", where, NETRC=os.path.join(TMP, "fifo"))
        os.rename(rc, os.path.join(TMP, ".netrc"))
        compare(where, here)
        os.unlink(os.path.join(TMP, ".netrc"))
        said = refused(5, "401", "info", where, ZEROFS_HTTP_USERPWD="alice:wrong")
        assert "wrong" not in said.replace("missing or wrong", ""), said
        said = refused(2, ".netrc", "info", where.replace("//", "//alice:pw@", 1))
        assert "alice:pw" not in said, said


def a_file_that_may_not_be_read():
    """403 for one of the ranks' files: said with its URL, and asked for no more than each look needs."""
    s = sets()[0]
    with nginx(LIST + "location ~ rank_1 { deny all; }") as n:
        said = refused(5, "403", "info", n.url[0] + s)
        assert "rank_1" in said and n.url[0] in said, said


# ---- a mount -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(d, *options):
    """A tensor w of 8 MiB in `d`, served and mounted with a small cache."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    head = b'{"w": {"dtype": "U8", "shape": [8388608], "data_offsets": [0, 8388608]}}'
    with open(d + "/model.safetensors", "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head + hashlib.shake_256(b"w").digest(8 << 20))
    with nginx(LIST, root=d) as n, tempfile.TemporaryDirectory(dir=TMP) as at, mount_point(at):
        got = zerofs("mount", n.url[0], at, "-o", "timeout=3", *options)
        assert got.returncode == 0, got.stderr
        yield n, at


def errno_of(f, off):
    try:
        os.pread(f.fileno(), 4096, off)
    except OSError as e:
        return e.errno
    return 0


def is_away_for_a_while():
    """Nobody listens: EIO within the time-out, names and what was read all the same; back again, the mount goes on."""
    with tempfile.TemporaryDirectory(dir=TMP) as d, mounted(d) as (n, at):
        with open(d + "/model.safetensors", "rb") as f:
            data = f.read()[-(8 << 20):]
        with open(os.path.join(at, "w.u8"), "rb", buffering=0) as f:
            assert f.read(4096) == data[:4096]
            n.stop()
            for off in (3 << 20, 5 << 20):
                begin = time.monotonic()
                assert errno_of(f, off) == 5
                assert time.monotonic() - begin < 6
            assert os.pread(f.fileno(), 4096, 0) == data[:4096] and "w.u8" in os.listdir(at)
            n.start()
            assert os.pread(f.fileno(), 4096, 3 << 20) == data[3 << 20:][:4096]
            # A reader that waits while it is away gets its bytes when it comes back in time.
            n.stop()
            back = threading.Timer(.5, n.start)
            back.start()
            assert os.pread(f.fileno(), 4096, 6 << 20) == data[6 << 20:][:4096]
            back.join()


def is_not_there():
    """No server at mount: one sentence at once, and nothing is mounted."""
    n = nginx(LIST)
    begin = time.monotonic()
    refused(5, "is the server up", "info", n.url[0] + MODEL)
    with tempfile.TemporaryDirectory(dir=TMP) as at:
        refused(5, n.url[0] + MODEL, "mount", n.url[0] + MODEL, at)
        assert not os.path.ismount(at)
    assert time.monotonic() - begin < 10


if __name__ == "__main__":
    need_addresses()
    TESTS = [lists_in_html, lists_in_json, names_that_want_encoding, lists_nothing, a_page_is_no_listing, ranges, is_never_compressed, a_file_that_is_replaced,
             a_file_that_is_deleted, tls, redirects, passwords_stay_with_their_host, basic_auth, a_file_that_may_not_be_read, is_away_for_a_while,
             is_not_there]
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
