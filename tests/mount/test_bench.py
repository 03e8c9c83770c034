#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The read part of `make bench`: starts, skips with a reason, and ends without leaving a mount, whatever is missing."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import main, need_fuse  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.path.abspath(os.environ.get("ZEROFS", "./zerofs"))
SRC, BUILD = os.path.abspath(os.environ["top_srcdir"]), os.path.abspath(os.environ["top_builddir"])
SWITCH = "/sys/module/fuse/parameters/enable_uring"


def switch():
    try:
        with open(SWITCH) as f:
            return f.read()
    except OSError:
        return None


def running():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                yield os.fsdecode(f.read())
        except OSError:
            pass  # it ended meanwhile


class Bench:
    """A build directory of its own, whose bench.json is nobody else's, and a folder as `scripts/test-libfuse --build` leaves it."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="zerofs-test.")
        at = self.dir.name
        self.build, self.other, self.path, self.tmp = (os.path.join(at, d) for d in ("build", "other", "bin", "tmp"))
        for folder in (os.path.join(self.build, "tests/bench"), self.other, self.path, self.tmp):
            os.makedirs(folder)
        os.symlink(ZEROFS, os.path.join(self.build, "zerofs"))
        os.symlink(ZEROFS, os.path.join(self.other, "zerofs"))
        for tool in ("null", "bench_read"):
            os.symlink(os.path.join(BUILD, "tests/bench", tool), os.path.join(self.build, "tests/bench", tool))
        os.symlink(os.path.join(BUILD, "tests/bench/null"), os.path.join(self.other, "null"))
        # squashfuse_ll is not among these.
        for tool in ("sh", "cat", "fusermount3"):
            where = next((p for d in os.environ["PATH"].split(":") if os.path.exists(p := os.path.join(d, tool))), None)
            if where:
                os.symlink(where, os.path.join(self.path, tool))
        return self

    def start(self, **settings):
        env = dict(os.environ, top_srcdir=SRC, top_builddir=self.build, PATH=self.path, TMPDIR=self.tmp, READ_MIB="2", ROUNDS="1",
                   **settings)
        return subprocess.Popen([sys.executable, "-B", os.path.join(SRC, "tests/bench/bench.py"), "read"], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __exit__(self, *_):
        self.dir.cleanup()

    def left(self):
        with open("/proc/self/mounts") as f:
            mounts = [line for line in f if self.tmp in line]
        return mounts + os.listdir(self.tmp) + [command for command in running() if self.tmp in command]


def another_libfuse_is_in_the_table():
    before = switch()
    with Bench() as b:
        with open(os.path.join(b.other, "libfuse"), "w") as f:
            f.write("3.99\n")
        p = b.start(READ_LIBFUSE=f"{b.other} {b.tmp}/none", READ_ROWS="^1 reader, second|^cast")
        said = p.communicate()[0]
        assert p.returncode == 0 and "squashfuse_ll" in said and "not installed" in said and "not measured" not in said, said
        assert f"{b.tmp}/none" in said and not b.left(), (said, b.left())
        with open(os.path.join(b.build, "tests/bench/bench.json")) as f:
            rows = {r.get("what"): r for r in json.load(f)["rows"]}
        # A whole mount's rows are measured, no other's.
        assert "1 reader, third" in rows and "2 readers, first" not in rows and "transposed" not in rows, list(rows)
        figures = rows["1 reader, first"]["figures"]
        assert {"raw", "null", "cached", "null 3.99", "cached 3.99"} <= set(figures), list(figures)
        assert all(len(f) >= 1 and min(f) > 0 for f in figures.values()), figures
        assert {"raw", "cached", "cached 3.99"} <= set(rows["cast to bf16"]["figures"]), rows["cast to bf16"]
        assert rows["1 reader, first"]["daemon"]["cached"][0] > 0, rows["1 reader, first"]
    assert switch() == before


def over_the_other_way_is_said_to_be_missing():
    """A libfuse that is said to have io_uring, and has not."""
    before = switch()
    with Bench() as b:
        with open(os.path.join(b.other, "libfuse"), "w") as f:
            f.write("3.99 io_uring\n")
        os.unlink(os.path.join(b.other, "zerofs"))
        with open(os.path.join(b.other, "zerofs"), "w") as f:
            # As one whose libfuse is older: the option is there, requests come over /dev/fuse.
            f.write(f'#!/bin/sh\nfor w; do case $w in io=*,io_uring) set -- "$@" io=cached ;; *) set -- "$@" "$w" ;; esac; shift; done\n'
                    f'exec "{ZEROFS}" "$@"\n')
        os.chmod(f.name, 0o755)
        p = b.start(READ_LIBFUSE=b.other, READ_ROWS="^4 KiB at random$")
        said = p.communicate()[0]
        assert p.returncode == 0 and "requests came over /dev/fuse" in said and not b.left(), (said, b.left())
        with open(os.path.join(b.build, "tests/bench/bench.json")) as f:
            assert not [r for r in json.load(f)["rows"] if any("io_uring" in n for n in r.get("figures", ()))]
    assert switch() == before


def stopped(moment):
    """In the middle of a round: what is mounted is taken off, and the kernel's switch is put back."""
    before = switch()
    with Bench() as b:
        with open(os.path.join(b.other, "libfuse"), "w") as f:
            f.write("3.99 io_uring\n")
        p = b.start(READ_LIBFUSE=b.other)
        moment(p, b)
        p.send_signal(signal.SIGTERM)
        p.communicate()
        assert p.returncode == 128 + signal.SIGTERM and not b.left(), (p.returncode, b.left())
    assert switch() == before


def between_rows(p, _):
    line = p.stdout.readline()
    while line and "1 reader, first" not in line:
        line = p.stdout.readline()
    assert line, "it ended by itself"


def while_it_mounts(p, b):
    """A daemon has been started whose mount does not answer yet, and never will."""
    os.unlink(os.path.join(b.other, "zerofs"))
    with open(os.path.join(b.other, "zerofs"), "w") as f:
        f.write(f'#!/bin/sh\n: >"{b.path}/started"\nexec sh -c \'read -r _ <"$0"\' "{b.path}/fifo" "$@" >/dev/null\n')
    os.mkfifo(os.path.join(b.path, "fifo"))
    os.chmod(f.name, 0o755)
    while not os.path.exists(os.path.join(b.path, "started")):
        assert p.poll() is None, p.stdout.read()


def stopped_between_rows():
    stopped(between_rows)


def stopped_while_it_mounts():
    stopped(while_it_mounts)


need_fuse()
main([another_libfuse_is_in_the_table, over_the_other_way_is_said_to_be_missing, stopped_between_rows,
      stopped_while_it_mounts])
