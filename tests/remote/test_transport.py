# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over HTTP: the same as from disk; and what servers, networks and proxies do wrong."""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from serve import Server  # noqa: E402 pylint: disable=wrong-import-position
from tap import Skip, main, need_addresses  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
DATA = os.environ.get("ZF_DATA", os.path.join(HERE, "..", "data"))
ENV = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")}
ZARR = "megatron/megatron_zarr_core_v0.4.0"
MODEL = "hf/transformers5.23.0_llama_tied_bf16_single"


def run(*args, timeout=60, **env):
    return subprocess.run([ZEROFS, *args], capture_output=True, timeout=timeout, env={**ENV, **env})


def good(*args, **env):
    r = run(*args, **env)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def refused(code, *parts, args, timeout=60, **env):
    r = run(*args, timeout=timeout, **env)
    text = r.stderr.decode()
    assert r.returncode == code, f"exit status {r.returncode}: {text}"
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"
    assert len(text.strip().splitlines()) == 1, text
    return text


def weights(where, *opts):
    return hashlib.sha256(good("cat", where, "model.safetensors", *opts)).hexdigest()


def fixtures():
    for family in ("consolidated", "dcp", "deepspeed", "hf", "megatron", "olmo"):
        for name in sorted(os.listdir(os.path.join(DATA, family))):
            d = os.path.join(family, name)
            if os.path.isdir(os.path.join(DATA, d)):
                yield d


def big(tmp, n=24 << 20):
    """A safetensors file of one tensor, and its bytes."""
    data = hashlib.shake_256(b"zerofs").digest(n)
    head = json.dumps({"w": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
    with open(os.path.join(tmp, "model.safetensors"), "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head + data)
    return data


def tmpdir():
    return tempfile.TemporaryDirectory(prefix="zf-remote-")


# ---- what is right ----------------------------------------------------------------------------------


def told(r):
    """What `info` says, but for where it is, what was fetched, and how many files it left for later, which are more where each costs requests."""
    return set(x for x in r.stdout.split(b"\n")[1:] if not x.startswith((b"fetched", b"code")))


def every_fixture_is_the_same_as_from_disk():
    seen = 0
    with Server(DATA) as s:
        for d in fixtures():
            disk = run("info", "-v", os.path.join(DATA, d))
            there = run("info", "-v", s.url + d)
            assert disk.returncode == there.returncode, f"{d}: {there.stderr.decode()}"
            if disk.returncode:
                continue
            assert told(disk) == told(there), f"{d}: info differs: {told(disk) ^ told(there)}"
            a, b = (run("cat", w, "model.safetensors") for w in (os.path.join(DATA, d), s.url + d))
            assert (a.returncode, a.stdout) == (b.returncode, b.stdout), f"{d}: {b.stderr.decode()}"
            seen += a.returncode == 0
    assert seen > 30, f"only {seen} fixtures could be compared"


def a_single_file_and_directories_with_odd_names():
    with tmpdir() as tmp, Server(tmp) as s:
        d = os.path.join(tmp, "run =+*@:%é 1")
        shutil.copytree(os.path.join(DATA, MODEL), d)
        want = weights(d)
        odd = s.url + "run%20%3D%2B%2A%40%3A%25%C3%A9%201"
        assert weights(odd) == want and weights(odd + "/") == want
        assert weights(odd + "/model.safetensors") == want


def a_large_read_uses_several_connections_and_few_bytes():
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp)
        s.faults["slow"] = "0.05@model"
        got = good("cat", s.url, "w.u8")
        assert got == data, "the bytes differ"
        assert s.most_busy > 1, "one request at a time"
        assert s.sent < len(data) + (256 << 10), f"{s.sent} bytes for {len(data)}"
        s.most_busy = 0
        assert good("cat", s.url, "w.u8", "-o", "connections=2") == data
        assert s.most_busy <= 2, f"{s.most_busy} connections"


def memory_is_bounded():
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp)
        assert good("cat", s.url, "w.u8", "-o", "cache_mem=1M") == data


# ---- what passes ------------------------------------------------------------------------------------


def failures_that_pass_are_tried_again():
    with tmpdir() as tmp, Server(tmp) as s:
        want = hashlib.sha256(big(tmp)).hexdigest()
        for fault in ({"status": "2*503@safetensors"}, {"status": "1*429,Retry-After:1@safetensors"}, {"status": "2*408@safetensors"},
                      {"short": "3*1000@safetensors"}, {"reset": "3*70000@safetensors"}, {"garbage": "1*1@safetensors"}):
            s.faults = dict(fault)
            begin = time.monotonic()
            got = hashlib.sha256(good("cat", s.url, "w.u8")).hexdigest()
            assert got == want, f"{fault}: wrong bytes"
            if "429" in str(fault):
                assert time.monotonic() - begin > .9, "Retry-After was not obeyed"


def a_stalled_answer_is_given_up_and_asked_for_again():
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp, 1 << 20)
        s.faults["stall"] = "1*30@safetensors"
        begin = time.monotonic()
        assert good("cat", s.url, "w.u8", "-o", "timeout=12") == data
        assert time.monotonic() - begin < 12


# ---- what does not ----------------------------------------------------------------------------------


def never_tried_again():
    with tmpdir() as tmp, Server(tmp) as s:
        big(tmp, 1000)
        for status in (400, 401, 403):
            s.log.clear()
            s.faults = {"status": f"{status}@safetensors"}
            text = refused(5, str(status), "as the test wants it", args=("info", s.url))
            assert s.url in text, text
            # Each family that is asked opens it once.
            n = len([x for x in s.log if "safetensors" in x[1]])
            assert n <= 4, f"{n} requests of a file that answers {status}"
        s.faults = {}
        refused(5, "nothing found at this URL", args=("info", s.url + "nothing"))


def answers_that_are_not_what_was_asked_for():
    with tmpdir() as tmp, Server(tmp) as s:
        big(tmp, 3 << 20)
        for fault, part in (("ignore_range=1", "does not serve ranges"), ("wrong_range=5", "were asked for"),
                            ("wrong_range=-1", ""), ("multipart=1", "multipart"), ("encoding=gzip", "Content-Encoding"),
                            ("wrong_total=9", "")):
            name, _, value = fault.partition("=")
            s.faults = {name: value + "@safetensors"}
            refused(5 if name != "wrong_total" else 5, part, args=("cat", s.url, "w.u8", "-o", "timeout=10"))


def an_object_that_changes_is_never_mixed():
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp)
        other = hashlib.shake_256(b"other").digest(len(data))
        path = os.path.join(tmp, "model.safetensors")
        head = open(path, "rb").read()[: -len(data)]

        def replace():
            with open(path + ".new", "wb") as f:
                f.write(head + other)
            os.rename(path + ".new", path)

        s.faults["slow"] = "0.05@model"
        t = threading.Thread(target=lambda: (until(lambda: s.sent > 4 << 20), replace()))
        t.start()
        r = run("cat", s.url, "w.u8")
        t.join()
        assert r.stdout in (data, other) or r.returncode != 0, "bytes of both"
        if r.returncode:
            assert data.startswith(r.stdout) or other.startswith(r.stdout), "bytes of both in front of the failure"


def until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(.01)


def neither_etag_nor_time():
    with tmpdir() as tmp, Server(tmp) as s:
        big(tmp, 1000)
        s.faults = {"no_etag": "1", "no_time": "1"}
        refused(5, "neither ETag nor Last-Modified", args=("cat", s.url, "w.u8"))
        s.faults = {"no_etag": "1"}
        good("cat", s.url, "w.u8")
    # Also of a file that is first asked for when somebody reads it.
    with Server(DATA) as s:
        s.faults = {"no_etag": "1@/0.", "no_time": "1@/0."}
        refused(5, "neither ETag nor Last-Modified", args=("cat", s.url + ZARR, "model.safetensors"))
        s.faults = {"no_etag": "1@/0."}
        assert weights(s.url + ZARR) == weights(os.path.join(DATA, ZARR))


def faults_that_stay():
    """One sentence with the address, within the total time-out, and no byte."""
    faults = ["short=1000", "reset=1000", "reset=0", "garbage=1", "stall=60", "slow=60", "status=500", "status=503", "status=429,Retry-After:600",
              "encoding=br", "wrong_range=1", "status=302", "status=206"]

    def one(fault):
        with Server(tmp) as s:
            s.faults = dict([(fault + "@safetensors").split("=", 1)])
            begin = time.monotonic()
            said = refused(5, s.url + "model.safetensors", args=("cat", s.url, "w.u8", "-o", "timeout=3"))
            assert time.monotonic() - begin < 20, (fault, said)

    with tmpdir() as tmp, concurrent.futures.ThreadPoolExecutor(16) as pool:
        big(tmp, 1 << 20)
        for fault, done in [(f, pool.submit(one, f)) for f in faults]:
            assert done.exception() is None, (fault, done.exception())


def a_body_that_goes_on():
    """Without a length the end of the connection is the end of the bytes, of which there may be as many as announced."""
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp, 1 << 20)
        s.faults["excess"] = "0@safetensors"
        assert good("cat", s.url, "w.u8") == data
        for excess in (1, 100000):
            s.faults["excess"] = f"{excess}@safetensors"
            refused(5, "the server sends more than the bytes it announced", args=("info", s.url))


def redirects():
    with tmpdir() as tmp, Server(tmp) as s, Server(tmp) as t:
        data = big(tmp, 1 << 20)
        s.faults["redirect"] = t.url + "model.safetensors@safetensors"
        assert good("cat", s.url, "w.u8") == data
        for to, part in (("file:///etc/passwd", "not an http or https"), ("ftp://127.0.0.1/", "not an http or https"),
                         (s.url + "model.safetensors", "more than 5")):
            s.faults["redirect"] = to + "@safetensors"
            refused(5, part, args=("info", s.url))


def a_password_in_a_redirect():
    """Is refused, unless libcurl leaves it out by itself (8.23 does): it is never sent."""
    with tmpdir() as tmp, Server(tmp) as s, Server(tmp) as t:
        big(tmp, 1000)
        s.faults["redirect"] = t.url.replace("//", "//user:secret@") + "model.safetensors@safetensors"
        r = run("info", s.url)
        assert (r.returncode == 5 and b"password" in r.stderr and not t.log) or (r.returncode == 0 and t.log), r.stderr
        assert b"secret" not in r.stderr
        assert not any("Authorization" in headers for _, _, _, headers in t.log), t.log


def nobody_answers():
    begin = time.monotonic()
    refused(5, "127.0.0.1:1", "attempts", args=("info", "http://127.0.0.1:1/x"))
    refused(5, "resolve", args=("info", "http://no.such.host.invalid/x"))
    with tmpdir() as tmp, Server(tmp) as s:
        big(tmp, 1000)
        s.faults["slow"] = "60"
        refused(5, s.url.rstrip("/"), args=("info", s.url, "-o", "timeout=3"))
    assert time.monotonic() - begin < 40


def each_request_is_told_with_v():
    with tmpdir() as tmp, Server(tmp) as s:
        big(tmp, 1000)
        r = run("info", s.url, "-v", "-o", "model_cache=off")
        lines = r.stderr.decode().splitlines()
        assert r.returncode == 0 and len(lines) == len(s.log), r.stderr.decode()
        assert any(x.startswith(f"zerofs: GET {s.url}model.safetensors bytes 0-") and "206" in x for x in lines), lines
        with Server(tmp) as t:
            s.faults["redirect"] = t.url + "model.safetensors@safetensors"
            lines = run("info", s.url, "-v").stderr.decode().splitlines()
        for line in (f"GET {s.url}model.safetensors bytes 0-1073: 302, 0 bytes", f"GET {t.url}model.safetensors bytes 0-1073: 206, 1074 bytes"):
            assert any(x.endswith(line) for x in lines), (line, lines)


def random_faults_never_make_a_wrong_byte():
    with tmpdir() as tmp, Server(tmp) as s:
        data = big(tmp, 8 << 20)
        chaos = ["status=503", "status=503,Retry-After:0", "short=40000", "reset=100000", "reset=0", "garbage=1", "wrong_range=7", "ignore_range=1",
                 "encoding=gzip", 'etag="other"', "multipart=1", "wrong_total=1", "status=500", "slow=0.05"]
        whole = 0
        for i in range(3 * len(chaos)):
            s.faults = {}
            for k in (i, 5 * i + 3):
                name, _, value = chaos[k % len(chaos)].partition("=")
                s.faults[name] = f"{1 + i % 3}*{value}@safetensors"
            r = run("cat", s.url, "w.u8", "-o", "timeout=20")
            assert data.startswith(r.stdout), f"{s.faults}: wrong bytes"
            assert r.returncode or r.stdout == data, f"{s.faults}: cut short without a failure"
            whole += r.returncode == 0
        assert whole > 8, f"only {whole} came through"


def addresses_with_secrets():
    for url in ("http://me:secret@127.0.0.1:1/x", "http://127.0.0.1:1/x?token=secret"):
        text = refused(2, "", args=("info", url))
        assert "secret" not in text, text


# ---- TLS --------------------------------------------------------------------------------------------


def authority(tmp):
    key, cert = os.path.join(tmp, "key.pem"), os.path.join(tmp, "cert.pem")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip(f"openssl cannot make a certificate: {e}") from e
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(cert, key)
    return c, cert


def tls_is_verified():
    with tmpdir() as tmp, tmpdir() as keys:
        data = big(tmp, 1 << 20)
        context, cert = authority(keys)
        with Server(tmp, tls=context) as s, Server(tmp) as plain:
            refused(5, "certificate", args=("info", s.url))
            assert good("cat", s.url, "w.u8", "-o", "cacert=" + cert) == data
            assert good("cat", s.url, "w.u8", CURL_CA_BUNDLE=cert) == data
            assert good("cat", s.url, "w.u8", SSL_CERT_FILE=cert) == data
            s.faults["redirect"] = plain.url + "model.safetensors@safetensors"
            refused(5, "from https to", args=("info", s.url, "-o", "cacert=" + cert))


# ---- a mount ----------------------------------------------------------------------------------------


class Mount:
    def __init__(self, url, at, *opts):
        self.at, self.args, self.point = at, (url, at, *opts), mount_point(at)

    def __enter__(self):
        self.point.__enter__()
        good("mount", *self.args)
        return self

    def __exit__(self, *exc):
        self.point.__exit__(*exc)


def ended_by_a_signal():
    """A script of these tests that is ended while something is mounted takes it off."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    text = "import sys, mounts; m = mounts.mount_point(sys.argv[1]); m.__enter__(); print(1, flush=True); sys.stdin.read()"
    with Server(DATA) as s, tempfile.TemporaryDirectory() as at:
        good("mount", s.url + "hf/transformers5.23.0_gpt2_sharded", at)
        with subprocess.Popen([sys.executable, "-c", text, at], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": os.path.join(HERE, "..", "support")}) as script:
            assert script.stdout.readline() == b"1\n"
            assert os.path.ismount(at)
            script.terminate()
            assert script.wait(timeout=60) == 128 + signal.SIGTERM
        assert not os.path.ismount(at)


def stats(at):
    with open(os.path.join(at, ".zerofs", "stats.json"), encoding="utf-8") as f:
        return json.load(f)


def the_network_goes_and_comes_back():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    with tmpdir() as tmp, tmpdir() as at, Server(tmp) as s:
        data = big(tmp)
        with Mount(s.url, at, "-o", "timeout=4"):
            path = os.path.join(at, "w.u8")
            with open(path, "rb", buffering=0) as f:
                assert f.read(1 << 16) == data[: 1 << 16]
                s.faults["status"] = "503"
                begin = time.monotonic()
                try:
                    os.pread(f.fileno(), 4096, 20 << 20)
                    raise AssertionError("a read without a server")
                except OSError as e:
                    assert e.errno == 5, e
                assert time.monotonic() - begin < 8
                assert os.listdir(at), "metadata waits for the network"
                del s.faults["status"]
                assert os.pread(f.fileno(), 4096, 20 << 20) == data[20 << 20 : (20 << 20) + 4096]
            with open(os.path.join(at, ".zerofs", "log"), encoding="utf-8") as f:
                log = f.read()
            assert "503" in log and "model.safetensors" in log, log
            host = stats(at)["hosts"][0]
            assert host["requests"] > 3 and host["retries"] > 0 and host["bytes"] > 0, host
            assert re.sub("^.*//|/$", "", s.url) == host["host"], host


def a_replaced_object_is_stale_for_ever():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    with tmpdir() as tmp, tmpdir() as at, Server(tmp) as s:
        data = big(tmp)
        with Mount(s.url, at), open(os.path.join(at, "w.u8"), "rb", buffering=0) as f:
            assert os.pread(f.fileno(), 4096, 0) == data[:4096]
            big(tmp)  # the same bytes at another time
            for _ in range(2):
                try:
                    os.pread(f.fileno(), 4096, 10 << 20)
                    raise AssertionError("bytes of another object")
                except OSError as e:
                    assert e.errno == 116, e
                shutil.copystat(__file__, os.path.join(tmp, "model.safetensors"))


def shards(tmp):
    """Two files of one save: a in the first, b in the second; gives b's bytes."""
    for name, file in (("a", "model-00001-of-00002"), ("b", "model-00002-of-00002")):
        head = json.dumps({name: {"dtype": "U8", "shape": [4 << 20], "data_offsets": [0, 4 << 20]}}).encode()
        with open(os.path.join(tmp, file + ".safetensors"), "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head + hashlib.shake_256(name.encode()).digest(4 << 20))
    with open(os.path.join(tmp, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}, f)
    return hashlib.shake_256(b"b").digest(4 << 20)


def a_slow_object_stops_nobody_else():
    """More readers of it than there are connections or threads, also with O_DIRECT: the other is read, names are looked up; who is ended is gone at once."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    with tmpdir() as tmp, tmpdir() as at, Server(tmp) as s:
        data = shards(tmp)
        with Mount(s.url, at):
            s.faults["slow"] = "100@00001-of"
            readers = [subprocess.Popen(["dd", "if=" + os.path.join(at, "a.u8"), "of=/dev/null", "bs=4k", "count=1", f"skip={(i + 1) * 50}",
                                         *(["iflag=direct"] if i % 3 == 0 else [])],
                                        stderr=subprocess.DEVNULL) for i in range(20)]
            until(lambda: s.busy > 1)
            begin = time.monotonic()
            with open(os.path.join(at, "b.u8"), "rb") as f:
                assert f.read() == data
            assert sorted(os.listdir(at))[:2] and os.stat(os.path.join(at, "a.u8")).st_size == 4 << 20 and stats(at)["hosts"]
            assert time.monotonic() - begin < 30, "others wait for a slow object"
            assert all(r.poll() is None for r in readers), "a reader of the slow object ended"
            begin = time.monotonic()
            for i, r in enumerate(readers):
                r.send_signal(signal.SIGKILL if i % 2 else signal.SIGTERM)  # a page of a file is waited for until a signal is fatal
            for r in readers:
                r.wait(60)
            assert time.monotonic() - begin < 20, "readers that were ended did not let go"
            s.faults.clear()
            with open(os.path.join(at, "a.u8"), "rb") as f:
                f.seek(3 << 20)
                assert f.read(4096) == hashlib.shake_256(b"a").digest(4 << 20)[3 << 20:][:4096]


if __name__ == "__main__":
    need_addresses()
    TESTS = [every_fixture_is_the_same_as_from_disk, a_single_file_and_directories_with_odd_names,
             a_large_read_uses_several_connections_and_few_bytes, memory_is_bounded, failures_that_pass_are_tried_again,
             a_stalled_answer_is_given_up_and_asked_for_again, never_tried_again, answers_that_are_not_what_was_asked_for,
             an_object_that_changes_is_never_mixed, neither_etag_nor_time, faults_that_stay, a_body_that_goes_on, redirects,
             a_password_in_a_redirect, nobody_answers, each_request_is_told_with_v,
             random_faults_never_make_a_wrong_byte, addresses_with_secrets, tls_is_verified, the_network_goes_and_comes_back,
             a_replaced_object_is_stale_for_ever, a_slow_object_stops_nobody_else, ended_by_a_signal]
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
