#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that may have few threads, descriptors or bytes, or that has somebody else's home."""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "look"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from death import private_device  # noqa: E402 pylint: disable=wrong-import-position
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from tap import Skip, need_fuse, results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
CKPT = os.path.join(os.environ.get("ZF_DATA", "tests/data"), "hf", "torchsave_legacy_views")
NOBODY = 65534  # fusermount3 serves only users with a name
INSTRUMENTED = any(mark in open(ZEROFS, "rb").read() for mark in (b"__asan_init", b"__tsan_init"))


def mounted(at):
    with open("/proc/self/mounts", encoding="utf-8") as f:
        return any(line.split()[1] == at for line in f)


def run(words, before=None, env=None, limit=120):
    """Ends in time, with the end of its output, or is a failure."""
    return subprocess.run([ZEROFS, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=before,
                          env=env, timeout=limit, check=False)


def settled(at, code, want=0):
    """Of a mount that failed nothing is left."""
    end = time.monotonic() + 30
    while code != want and mounted(at) and time.monotonic() < end:
        time.sleep(0.01)
    assert mounted(at) == (code == want), (code, mounted(at))


def ended(at):
    """Nothing of the last mount counts against the next."""
    end = time.monotonic() + 60
    while any(at.encode() in cmdline(p).split(b"\0") for p in os.listdir("/proc") if p.isdigit()):
        assert time.monotonic() < end, at
        time.sleep(0.01)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def threads(tmp):
    """RLIMIT_NPROC does not bind root.  From here on the mounts of this process are its own."""
    helper = shutil.which("fusermount3")
    if os.geteuid() != 0 or not helper or not os.stat(helper).st_mode & 0o4000 or not os.path.exists("/etc/mtab"):
        raise Skip("needs root, and fusermount3 for others")
    if INSTRUMENTED:
        raise Skip("the checker has threads of its own")
    private_device(tmp)
    home = os.path.join(tmp, "user")
    at = os.path.join(home, "mnt")
    os.makedirs(at)
    ckpt = shutil.copytree(CKPT, os.path.join(home, "ckpt"))
    program = shutil.copy(ZEROFS, os.path.join(home, "zerofs"))
    os.chmod(tmp, 0o755)
    for path in (home, at):
        os.chown(path, NOBODY, NOBODY)

    def user(most):
        os.setgroups([])
        os.setgid(NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setuid(NOBODY)

    codes = []
    for most in range(1, 20):
        with mount_point(at):
            try:
                got = subprocess.run([program, "mount", ckpt, at], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                     preexec_fn=lambda: user(most), timeout=50, check=False)  # pylint: disable=cell-var-from-loop
            except BlockingIOError:
                continue  # not even this one process
            codes.append(got.returncode)
            assert got.returncode in (0, 5), (most, got)
            settled(at, got.returncode)
        ended(at)
    assert 5 in codes and 0 in codes, codes


def descriptors(tmp):
    at = os.path.join(tmp, "mnt")
    codes = []
    for most in range(6, 14):
        with mount_point(at):
            code = run(["mount", CKPT, at], lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))).returncode  # pylint: disable=cell-var-from-loop
            settled(at, code)
            codes.append(code)
    assert 0 in codes, codes


def short_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


def file_size(tmp):
    cache, at = os.path.join(tmp, "cache"), os.path.join(tmp, "mnt")
    os.mkdir(cache, 0o700)
    want = run(["ls", "-R", CKPT])
    got = run(["ls", "-R", "--model_cache=" + cache, CKPT], short_files)
    assert got.returncode == 0 and got.stdout == want.stdout, got
    assert "not cached: File too large" in got.stderr, got.stderr
    assert os.listdir(cache) == []
    with mount_point(at):
        got = run(["mount", CKPT, at, "-o", "model_cache=" + cache], short_files)
        settled(at, got.returncode)
        assert got.returncode == 0 and "not cached: File too large" in got.stderr, got
        with open(os.path.join(at, ".zerofs/log"), encoding="utf-8") as f:
            assert "not cached: File too large" in f.read()


def other_home(tmp):
    """HOME as sudo keeps it."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    home = os.path.join(tmp, "theirs")
    env = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"}
    os.mkdir(home, 0o755)
    os.chown(home, NOBODY, NOBODY)
    assert run(["info", CKPT], env=dict(env, HOME=home)).returncode == 0
    assert os.listdir(home) == [], os.listdir(home)
    own = os.path.join(tmp, "mine")
    os.mkdir(own, 0o755)
    assert run(["info", CKPT], env=dict(env, HOME=own)).returncode == 0
    assert os.listdir(own) == [".cache"], os.listdir(own)


def options_given(tmp):
    at = os.path.join(tmp, "mnt")
    for given in ([], ["umask=027"], ["degraded", "shard_size=1048576", "attr_timeout=5", "model_cache=off"]):
        with mount_point(at):
            words = [w for o in given for w in ("-o", o)]
            assert run(["mount", CKPT, at, *words]).returncode == 0
            with open(os.path.join(at, ".zerofs/mount.json"), encoding="utf-8") as f:
                got = json.load(f)["options"]
            assert sorted(x.replace("=27", "=027") for x in got) == sorted(given), (given, got)


need_fuse()
with tempfile.TemporaryDirectory(prefix="zf-short-") as where:
    where = os.path.realpath(where)
    os.mkdir(os.path.join(where, "mnt"))
    results.run("few descriptors: the caller's pipes are closed", descriptors, where)
    results.run("no room for a file: a note", file_size, where)
    results.run("nothing is made in somebody else's home", other_home, where)
    results.run("mount.json has the options that were given", options_given, where)
    results.run("a thread that cannot be made: exit code 5, unmounted", threads, where)
results.done()
