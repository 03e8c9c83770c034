#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mount -o current: current/ is the newest save that is whole, at every moment one save and no other, while saves are made,
pruned, half written and written again; what was opened keeps its save.  ZEROFS_CURRENT_SAVES=10000 for a longer race."""
import errno
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from mounts import mount_point  # noqa: E402 pylint: disable=wrong-import-position
from tap import need_fuse, results  # noqa: E402 pylint: disable=wrong-import-position

ZEROFS = os.environ.get("ZEROFS", "./zerofs")
SAVES = int(os.environ.get("ZEROFS_CURRENT_SAVES", "300"))
READERS = 10
KEEP = 4
N = 1024  # floats of a tensor: all are the number of the save
SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
tmp = tempfile.mkdtemp(prefix="zf-current-")
at = f"{tmp}/mnt"


def shard(path, name, number):
    data = struct.pack("<f", number) * N
    head = json.dumps({name: {"dtype": "F32", "shape": [N], "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.write(data)


def write(where, number, shards=2):
    """A save, or the first files of one."""
    os.makedirs(where, exist_ok=True)
    with open(f"{where}/model.safetensors.index.json", "w", encoding="ascii") as f:
        json.dump({"weight_map": dict(zip("ab", SHARDS))}, f)
    for name, path in list(zip("ab", SHARDS))[:shards]:
        shard(f"{where}/{path}", name, number)
    return where


def prepare(stage, numbers, shards=2):
    """Saves are opened when nothing in them has changed for some seconds.  So they are written first, and moved into the run
    when that time is over."""
    for number in numbers:
        write(f"{tmp}/{stage}/{number}", number, shards)


def move(number, run, step=None):
    os.rename(f"{tmp}/first/{number}", f"{run}/step-{step or number}")


def until(good, *args, seconds=60):
    end = time.monotonic() + seconds
    while not good(*args):
        assert time.monotonic() < end, (args, log())
        time.sleep(0.005)


def log():
    try:
        with open(f"{at}/.zerofs/log", encoding="utf-8") as f:
            return f.read()
    except OSError as e:
        return str(e)


def number_in(data):
    """The save that these are all bytes of."""
    number = struct.unpack("<f", data[:4])[0]
    assert data == struct.pack("<f", number) * N, ("bytes of two saves", len(data), set(struct.unpack(f"<{len(data) // 4}f", data)))
    return int(number)


def number_of(path, dir_fd=None):
    with open(os.open(path, os.O_RDONLY, dir_fd=dir_fd), "rb") as f:
        return number_in(f.read())


def shows(number):
    try:
        return number_of(f"{at}/current/a.f32") == number == number_of(f"{at}/current/b.f32")
    except OSError as e:  # the last one may be pruned just now
        return number is None and e.errno == errno.ENOENT


def mounted(run, *options):
    os.makedirs(run, exist_ok=True)
    r = subprocess.run([ZEROFS, "mount", run, at, "-o", "current,poll=0.02", *options],
                       capture_output=True, text=True, timeout=120, check=False)
    assert r.returncode == 0, r.stderr
    return r.stderr


def is_mounted():
    with open("/proc/mounts", encoding="utf-8") as f:
        return any(line.split()[1] == at for line in f)


def daemon():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                comm = f.read().strip()
        except OSError:
            continue
        if at.encode() in words and b"mount" in words and comm != "fuse-guard":
            return int(pid)
    raise AssertionError("no daemon")


def unmount():
    subprocess.run([ZEROFS, "umount", at], check=True, timeout=120)


# ---- one at a time ----

def appears_when_a_save_is_whole():
    run = f"{tmp}/run"
    said = mounted(run)
    assert "no save is whole" in said, said
    assert os.listdir(at) == [] and shows(None)
    move(102, run)  # half of it
    until(lambda: "skips this save" in log())
    assert shows(None) and os.listdir(at) == []
    move(1, run)
    until(shows, 1)
    assert os.listdir(at) == ["current"]
    assert os.getxattr(f"{at}/current", "user.zerofs.tag") == b"step-1"
    # The same reason once, however often it was looked at since.
    assert log().count("skips this save") == 1, log()
    assert "step-102" in log() and SHARDS[1] in log(), log()


def held(step):
    """Descriptors that the daemon has of a save's files."""
    pid, n = daemon(), 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += f"/{step}/" in os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    return n


def what_was_opened_stays():
    run = f"{tmp}/run"
    fd = os.open(f"{at}/current", os.O_RDONLY | os.O_DIRECTORY)
    f = open(f"{at}/current/a.f32", "rb")
    os.chdir(f"{at}/current")
    inode = os.stat(".").st_ino
    first = f.read(100)
    move(2, run)
    until(shows, 2)
    # Nothing of b was looked at before.
    assert number_of("b.f32") == 1 and number_of("b.f32", fd) == 1 and number_of("npy/../a.f32") == 1
    assert os.stat(".").st_ino == os.fstat(fd).st_ino == inode != os.stat(f"{at}/current").st_ino
    assert sorted(os.listdir(".")) == sorted(os.listdir(fd)) == sorted(os.listdir(f"{at}/current"))
    assert os.getxattr(".", "user.zerofs.tag") == b"step-1"
    os.chdir("/")
    for number in range(11, 17):
        move(number, run)
        until(shows, number)
    assert number_of("a.f32", fd) == 1 and number_of("as/f32/b.f32", fd) == 1
    assert number_in(first + f.read()) == 1
    assert held("step-1") > 0
    f.close()
    os.close(fd)
    until(lambda: held("step-1") == 0)


def a_pruned_one_gives_way():
    run = f"{tmp}/run"
    fd = os.open(f"{at}/current", os.O_RDONLY | os.O_DIRECTORY)
    shutil.rmtree(f"{run}/step-16")
    until(shows, 15)
    try:
        assert number_of("b.f32", fd) == 16
    except OSError as e:
        assert e.errno in (errno.ESTALE, errno.EIO), e
    os.close(fd)
    shutil.rmtree(run)
    os.mkdir(run)
    until(shows, None)
    move(3, run)
    until(shows, 3)


def a_rewritten_one_is_another():
    run = f"{tmp}/run"
    f = open(f"{at}/current/b.f32", "rb")
    unread = open(f"{at}/current/as/f16/b.f16", "rb", buffering=0)
    write(f"{run}/step-3", 33)
    try:
        raise AssertionError(unread.read())
    except OSError as e:
        assert e.errno == errno.ESTALE, e
    unread.close()
    assert "; open the path again to go on" in log() and "mount again" not in log(), log()
    try:
        assert number_in(f.read()) == 3
    except OSError as e:
        assert e.errno in (errno.ESTALE, errno.EIO), e
    f.close()
    until(shows, 33)
    os.rename(f"{run}/step-3", f"{tmp}/was")
    move(34, run, 3)
    until(shows, 34)


def a_file_beside_is_no_reason_to_go_back():
    run = f"{tmp}/run"
    move(4, run)
    until(shows, 4)
    with open(f"{run}/step-4/eval.json", "w", encoding="ascii") as f:
        f.write("{}")
    with open(f"{run}/step-4/config.json", "w", encoding="ascii") as f:
        f.write("{}")
    seen = set()

    def comes():
        seen.add(number_of(f"{at}/current/a.f32"))
        return os.path.exists(f"{at}/current/hf/config.json")
    until(comes)
    assert seen == {4}, seen


def one_that_is_being_written_is_not_whole_yet():
    run = f"{tmp}/run"
    write(f"{run}/step-30", 30)
    shard(f"{run}/step-30/{SHARDS[1]}", "b", 0)  # all of its bytes are there, and not yet what they will be
    move(25, run)
    until(shows, 25)
    shard(f"{run}/step-30/{SHARDS[1]}", "b", 30)
    seen = set()

    def comes():
        seen.add((number_of(f"{at}/current/a.f32"), number_of(f"{at}/current/b.f32")))
        return shows(30)
    until(comes)
    assert not {(30, 0), (0, 0)} & seen, seen


def the_log_has_every_switch():
    for said in ("no save is whole", "shows step-1\n", "shows step-2, after step-1", "shows step-15, after step-16",
                 "shows step-3", "shows step-4"):
        assert said in log(), (said, log())
    assert all("times)" not in line for line in log().splitlines() if "skips this save" in line), log()


def a_killed_daemon_leaves_no_mount():
    os.kill(daemon(), signal.SIGKILL)
    until(lambda: not is_mounted())


def refused(*words):
    r = subprocess.run([ZEROFS, *words], capture_output=True, text=True, timeout=120, check=False)
    assert r.returncode == 2, (words, r)
    return r.stderr


def others_do_not_go_with_it():
    for other, name in (("tag=step-3", "tag="), ("all_tags", "all_tags"), ("degraded", "degraded")):
        assert name in refused("mount", f"{tmp}/run", at, "-o", f"current,{other}")
    assert "current" in refused("ls", "-o", "current", f"{tmp}/run")


def again_is_the_same():
    r = subprocess.run([ZEROFS, "mount", f"{tmp}/run", at, "-o", "current"], capture_output=True, text=True, timeout=120, check=False)
    assert r.returncode == 0 and "current/ shows step-30" in r.stderr, r
    r = subprocess.run([ZEROFS, "mount", f"{tmp}/run", at, "-o", "current"], capture_output=True, text=True, timeout=120, check=False)
    assert r.returncode == 0 and "already shows" in r.stderr, r
    assert "step-30" in subprocess.run([ZEROFS, "info", at], capture_output=True, text=True, timeout=120, check=True).stdout
    unmount()


def a_second_mount_has_the_model():
    """What the first look kept is good for the save that it is of, while no other is there."""
    run = f"{tmp}/kept"
    os.mkdir(run)
    for number, kept in ((6, False), (6, True), (7, False), (7, True)):
        if not os.path.exists(f"{run}/step-{number}"):
            move(number, run)
            made = os.stat(run).st_ctime_ns
            until(lambda made=made: time.time_ns() > made + 50_000_000)  # nothing so new is kept
        mounted(run, "-o", f"model_cache={tmp}/models")
        until(shows, number)
        with open(f"{at}/current/.zerofs/stats.json", encoding="utf-8") as f:
            assert json.load(f)["model_kept"] or not kept, number  # a first look on a busy machine may be two
        unmount()
    write(f"{run}/step-7", 77)
    mounted(run, "-o", f"model_cache={tmp}/models")
    until(shows, 77)
    unmount()


# ---- all at once ----

class Race:
    """Readers; and a writer that goes on when they have read something."""

    def __init__(self, run):
        self.dir, self.lock, self.over = run, threading.Condition(), False
        self.reads = self.both = 0
        self.seen, self.wrong, self.halves, self.must, self.again = set(), [], set(), set(), 0

    def one(self):
        """Two files of one directory, and one by its path."""
        fd = os.open(f"{at}/current", os.O_RDONLY | os.O_DIRECTORY)
        try:
            step = int(os.getxattr(fd, "user.zerofs.step"))
            got = [number_of(name, fd) for name in ("b.f32", "a.f32", "as/f32/b.f32")]
            assert len(set(got)) == 1, ("two saves", got)
            assert got[0] % 20000 == step, ("not its bytes", got, step)
            assert got[0] not in self.halves, ("half of it", got)
            self.seen.add(got[0])
            self.both += 1
        finally:
            os.close(fd)
        number_of(f"{at}/current/b.f32")

    def read(self):
        while not self.over:
            try:
                self.one()
            except Exception as e:  # pylint: disable=broad-except
                if not isinstance(e, OSError) or e.errno not in (errno.ENOENT, errno.ESTALE, errno.EIO):
                    self.wrong.append(e)
            with self.lock:
                self.reads += 1
                self.lock.notify()

    def wait(self, good):
        with self.lock:
            assert self.lock.wait_for(good, 120), log()

    def step(self, number):
        what, there = number % 7, sorted(int(n[5:]) for n in os.listdir(self.dir))
        if what == 3:
            self.halves.add(number)
            write(f"{self.dir}/step-{number}", number, 1)
        elif what == 5 and there:
            # Over the newest, file by file or at once.
            self.again = self.again % 800 + 1
            again = self.again * 20000 + there[-1]  # a float has 24 bits
            if number % 2:
                write(f"{self.dir}/step-{there[-1]}", again)
            else:
                os.rename(f"{self.dir}/step-{there[-1]}", f"{tmp}/gone")
                write(f"{self.dir}/step-{there[-1]}", again)
                shutil.rmtree(f"{tmp}/gone")
        else:
            os.rename(f"{tmp}/second/{number}", f"{self.dir}/step-{number}")
            if number % 10 == 0:
                self.must.add(number)
                self.wait(lambda: number in self.seen)
        for old in there[:-KEEP] + (there[-1:] if number % 11 == 0 else []):
            shutil.rmtree(f"{self.dir}/step-{old}", ignore_errors=True)


def never_a_mixture():
    run = f"{tmp}/race"
    mounted(run)
    race = Race(run)
    threads = [threading.Thread(target=race.read) for _ in range(READERS)]
    for t in threads:
        t.start()
    try:
        for number in range(1, SAVES + 1):
            race.step(number)
            wanted = race.reads + 2 * READERS
            race.wait(lambda wanted=wanted: race.reads >= wanted)
    finally:
        race.over = True
        for t in threads:
            t.join()
    print(f"# {race.reads} looks, {race.both} at two files and more of one save, {len(race.seen)} saves seen, {len(race.wrong)} wrong")
    assert not race.wrong, race.wrong[:5]
    assert race.must <= race.seen and len(race.must) >= SAVES // 15 and race.both > SAVES, (race.seen, race.both, race.reads)
    # What is there last is what is shown in the end.
    move(5, run, 19999)
    until(shows, 5)
    unmount()


need_fuse()
try:
    with mount_point(at):
        os.mkdir(at)
        prepare("first", [1, 2, 3, 34, 4, 5, 25, 6, 7, *range(11, 17)])
        prepare("first", [102], 1)
        prepare("second", range(1, SAVES + 1))
        for test in (appears_when_a_save_is_whole, what_was_opened_stays, a_pruned_one_gives_way,
                     a_rewritten_one_is_another, a_file_beside_is_no_reason_to_go_back,
                     one_that_is_being_written_is_not_whole_yet, the_log_has_every_switch,
                     others_do_not_go_with_it, a_killed_daemon_leaves_no_mount, again_is_the_same, a_second_mount_has_the_model,
                     never_a_mixture):
            results.run(test.__name__, test)
finally:
    os.chdir("/")
    shutil.rmtree(tmp, ignore_errors=True)
results.done()
