# SPDX-License-Identifier: Apache-2.0
"""death.py CHECK ZEROFS CHECKPOINT MOUNTPOINT …: the processes of a mount end in every way."""
import contextlib
import ctypes
import errno
import glob
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

MNT_DETACH = 2
MS_BIND, MS_REC, MS_PRIVATE, CLONE_NEWNS = 4096, 16384, 1 << 18, 0x20000
FILE = 'l1.bias.f32'
NOBODY = 65534  # fusermount3 serves only users with a name
# The promise is a second, of a machine that is not busy with something else.
SECOND = 1 + os.getloadavg()[0] / os.cpu_count()
libc = ctypes.CDLL(None, use_errno=True)


def until(what, seconds, *args):
    deadline = time.monotonic() + seconds
    while not what(*args):
        assert time.monotonic() < deadline, f'{what.__name__}{args} is not so after {seconds} s'
        time.sleep(0.005)


def mounts(at):
    """Types of what is mounted there, the uppermost last."""
    with open('/proc/self/mountinfo') as f:
        rows = [line.split() for line in f]
    return [r[r.index('-') + 1] for r in rows if r[4] == at]


def free(at):
    return not mounts(at)


def processes(at):
    """{'worker': [pid], 'supervisor': [pid]} of the mount point."""
    found = {'worker': [], 'supervisor': []}
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, 'rb') as f:
                words = f.read().split(b'\0')
            if at.encode() not in words or b'mount' not in words or b'python' in words[0]:
                continue
            folder = os.path.dirname(path)
            with open(f'{folder}/comm') as f:
                comm = f.read().strip()
            with open(f'{folder}/stat') as f:
                state = f.read().rpartition(')')[2].split()[0]
        except OSError:
            continue
        if state not in 'ZX':
            found['supervisor' if comm == 'fuse-guard' else 'worker'].append(int(os.path.basename(folder)))
    return found


def pid_of(at, who):
    pids = processes(at)[who]
    assert len(pids) == 1, (who, processes(at))
    return pids[0]


def all_ended(at):
    p = processes(at)
    return not p['worker'] and not p['supervisor']


def tmpfs(at):
    assert libc.mount(b'none', at.encode(), b'tmpfs', 0, None) == 0, os.strerror(ctypes.get_errno())
    open(os.path.join(at, 'theirs'), 'w').close()


def detach(at):
    assert libc.umount2(at.encode(), MNT_DETACH) == 0


def serves(at):
    with open(os.path.join(at, FILE), 'rb') as f:
        return len(f.read()) == 44


def mount(zerofs, ckpt, at, *words):
    subprocess.run([zerofs, 'mount', ckpt, at, *words], check=True, timeout=60 * SECOND)
    assert serves(at)


@contextlib.contextmanager
def foreground(zerofs, ckpt, at):
    # A shell may have started us with SIGINT and SIGQUIT ignored, which zerofs respects.
    restore = {s: signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)}
    child = subprocess.Popen([zerofs, 'mount', ckpt, at, '-f'], stderr=subprocess.PIPE, text=True)
    for s, old in restore.items():
        signal.signal(s, old)
    try:
        until(lambda: not free(at), 60 * SECOND)
        assert serves(at)
        yield child
    finally:
        child.kill()
        child.wait()
        until(all_ended, 60, at)


@contextlib.contextmanager
def readers(at, n=4):
    """Keep reading; an error ends one, a wrong byte is remembered."""
    wrong, over = [], threading.Event()
    path = os.path.join(at, FILE)
    with open(path, 'rb') as f:
        right = f.read()

    def read():
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            return
        try:
            while not over.is_set():
                got = os.pread(fd, 4096, 0)
                if got != right:
                    wrong.append(got)
                with open(os.path.join(at, 'optim/exp_avg', FILE), 'rb', buffering=0) as f:
                    f.read(1)
                over.wait(0.002)
        except OSError:
            pass
        finally:
            os.close(fd)

    threads = [threading.Thread(target=read) for _ in range(n)]
    for t in threads:
        t.start()
    yield
    over.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), 'a reader hangs'
    assert not wrong


def killed(zerofs, ckpt, at, who, sig, rounds):
    for _ in range(int(rounds)):
        mount(zerofs, ckpt, at)
        with readers(at):
            os.kill(pid_of(at, who), getattr(signal, 'SIG' + sig))
            until(free, SECOND, at)
        until(all_ended, 5 * SECOND, at)
        assert os.listdir(at) == []


def ended_with(child, code):
    got = child.wait(60)
    said = child.stderr.read()
    assert got == code, (got, said)
    return said


def fg(zerofs, ckpt, at, sig, who):
    with foreground(zerofs, ckpt, at) as child, readers(at):
        os.kill(pid_of(at, who), sig)
        until(free, SECOND, at)
        return ended_with(child, 0 if sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) else 5)


def foreground_said(zerofs, ckpt, at, sig):
    said = fg(zerofs, ckpt, at, sig, 'worker')
    assert said.count('\n') == 1 and f'signal {int(sig)} ({signal.strsignal(sig).split(" (")[0]}' in said, said


def in_order(zerofs, ckpt, at, who):
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert fg(zerofs, ckpt, at, sig, who) == ''


def unharmed(zerofs, ckpt, at, who):
    mount(zerofs, ckpt, at)
    pid = pid_of(at, who)
    for sig in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE):
        os.kill(pid, sig)
        assert serves(at)
    assert pid_of(at, who) == pid
    subprocess.run([zerofs, 'umount', at], check=True)
    until(all_ended, 60, at)


def early(zerofs, ckpt, at):
    """At any moment of the beginning: no mount is left, and no process."""
    for i in range(12):
        child = subprocess.Popen([zerofs, 'mount', ckpt, at], stderr=subprocess.DEVNULL)
        who = ('worker', 'supervisor')[i % 2]
        time.sleep(0.001 * i)  # another moment each time, whichever it is
        # One alone: a process is called like the worker for a moment before it is the supervisor.
        for pid in [p for p in processes(at)[who] if p != child.pid][:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait(60)
        if child.returncode == 0 and processes(at)['supervisor']:
            subprocess.run([zerofs, 'umount', '-z', at], stderr=subprocess.DEVNULL)
        until(all_ended, 60, at)
        until(free, SECOND, at)


def stopped(zerofs, ckpt, at):
    mount(zerofs, ckpt, at)
    os.kill(pid_of(at, 'worker'), signal.SIGSTOP)
    os.kill(pid_of(at, 'supervisor'), signal.SIGTERM)
    until(free, 3 * SECOND, at)
    until(all_ended, 5 * SECOND, at)


def held(zerofs, ckpt, tmp):
    """The source is a mount whose worker is stopped: whoever reads from it cannot even be killed."""
    inner, outer = os.path.join(tmp, 'inner'), os.path.join(tmp, 'outer')
    os.mkdir(inner)
    os.mkdir(outer)
    for stop in ('worker', 'supervisor'):
        mount(zerofs, ckpt, inner)
        subprocess.run([zerofs, 'mount', os.path.join(inner, 'model.safetensors'), outer], check=True, timeout=60)
        source = pid_of(inner, 'worker')
        with contextlib.ExitStack() as later:
            later.callback(os.kill, source, signal.SIGKILL)
            # What the kernel keeps of it in its cache must be asked for again.
            with open(os.path.join(inner, 'model.safetensors'), 'rb') as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.kill(source, signal.SIGSTOP)
            reader = subprocess.Popen(['cat', os.path.join(outer, FILE)], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            supervisor = pid_of(outer, 'supervisor')
            with contextlib.suppress(subprocess.TimeoutExpired):
                reader.wait(0.2)
            os.kill(pid_of(outer, stop), signal.SIGTERM)
            until(free, SECOND, outer)
            until(lambda: supervisor not in processes(outer)['supervisor'], 5 * SECOND)
        reader.wait(60)
        until(free, SECOND, inner)
        until(all_ended, 60, inner)
        until(all_ended, 60, outer)


def lazily(zerofs, ckpt, at):
    mount(zerofs, ckpt, at)
    with open(os.path.join(at, 'l1.weight.f32'), 'rb', buffering=0) as f:
        subprocess.run([zerofs, 'umount', '-z', at], check=True)
        assert free(at)
        assert len(f.read()) == os.fstat(f.fileno()).st_size > 0
        assert not all_ended(at)
    until(all_ended, 60, at)


def later(zerofs, ckpt, at):
    for who in ('worker', 'supervisor'):
        for sig in (signal.SIGKILL, signal.SIGTERM):
            mount(zerofs, ckpt, at)
            old = processes(at)
            f = open(os.path.join(at, FILE), 'rb')
            detach(at)
            mount(zerofs, ckpt, at)
            os.kill(old[who][0], sig)
            until(lambda old=old: not set(old['worker'] + old['supervisor']) &
                  set(sum(processes(at).values(), [])), 5 * SECOND)
            f.close()
            assert mounts(at) == ['fuse.zerofs'] and serves(at)
            subprocess.run([zerofs, 'umount', at], check=True)
            until(all_ended, 60, at)
    # The same numbers in the mount table: the old processes are still ending when the next mount comes.
    for _ in range(10):
        mount(zerofs, ckpt, at)
        subprocess.run([zerofs, 'umount', at], check=True)
        mount(zerofs, ckpt, at)
        until(lambda: len(processes(at)['supervisor']) == 1 and len(processes(at)['worker']) == 1, 60)
        assert serves(at)
        subprocess.run([zerofs, 'umount', at], check=True)
        until(all_ended, 60, at)


def covered(zerofs, ckpt, at):
    for who in ('worker', 'supervisor'):
        mount(zerofs, ckpt, at)
        tmpfs(at)
        os.kill(pid_of(at, 'worker'), signal.SIGKILL if who == 'worker' else signal.SIGTERM)
        until(lambda: not processes(at)['worker'], 5 * SECOND)
        assert mounts(at)[-1] == 'tmpfs' and os.listdir(at) == ['theirs']
        detach(at)
        until(free, 2 * SECOND, at)
        until(all_ended, 5 * SECOND, at)


def below(zerofs, ckpt, at):
    tmpfs(at)
    try:
        for who in ('worker', 'supervisor'):
            for sig in (signal.SIGKILL, signal.SIGTERM):
                mount(zerofs, ckpt, at, '-o', 'nonempty')
                os.kill(pid_of(at, who), sig)
                until(lambda: mounts(at) == ['tmpfs'], SECOND)
                until(all_ended, 5 * SECOND, at)
                assert os.listdir(at) == ['theirs']
    finally:
        detach(at)


def aborted(zerofs, ckpt, at, tmp):
    control = os.path.join(tmp, 'control')
    os.mkdir(control)
    assert libc.mount(b'none', control.encode(), b'fusectl', 0, None) == 0
    try:
        mount(zerofs, ckpt, at)
        with open(os.path.join(at, FILE), 'rb'):
            with open(os.path.join(control, str(os.minor(os.stat(at).st_dev)), 'abort'), 'w') as f:
                f.write('1')
            until(free, SECOND, at)
        until(all_ended, 5 * SECOND, at)
    finally:
        detach(control)


def private_mounts():
    """What this process mounts from now on, nobody else sees."""
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    if libc.mount(None, b'/', None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) != 0:
        # The root of a chroot is no mount point; what is mounted below it can be made private one by one.
        with open('/proc/self/mountinfo') as f:
            for row in f:
                libc.mount(None, row.split()[4].encode(), None, ctypes.c_ulong(MS_PRIVATE), None)


def logged(zerofs, ckpt, at):
    """In the background there is no stderr: the system log hears how it ended."""
    private_mounts()
    devices = {name: os.stat(f'/dev/{name}').st_rdev for name in ('null', 'fuse')}
    assert libc.mount(b'none', b'/dev', b'tmpfs', 0, None) == 0
    for name, number in devices.items():
        os.mknod(f'/dev/{name}', stat.S_IFCHR | 0o666, number)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind('/dev/log')
        log.settimeout(60)
        mount(zerofs, ckpt, at)
        os.kill(pid_of(at, 'worker'), signal.SIGKILL)
        said = log.recv(4096).decode()
        assert f'{at}: ' in said and 'signal 9' in said, said
        until(free, SECOND, at)
        until(all_ended, 5 * SECOND, at)


def given(zerofs, ckpt, at):
    """A mount that somebody else made, and handed over: no process but the one that serves holds the device."""
    fd = os.open('/dev/fuse', os.O_RDWR)
    data = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
    assert libc.mount(b'given', at.encode(), b'fuse.zerofs', ctypes.c_ulong(1), data) == 0
    name = f'/dev/fd/{fd}'
    child = subprocess.Popen([zerofs, 'mount', ckpt, name, '-f'], pass_fds=[fd], stderr=subprocess.PIPE, text=True)
    os.close(fd)
    try:
        assert serves(at)
        with open(f'/proc/{child.pid}/task/{child.pid}/children') as f:
            os.kill(int(f.read()), signal.SIGKILL)
        assert 'signal 9' in ended_with(child, 5)
        try:
            os.listdir(at)
        except OSError as e:
            assert e.errno == errno.ENOTCONN, e
        else:
            raise AssertionError('it is still served')
    finally:
        child.kill()
        detach(at)


def automount(zerofs, ckpt, at):
    """As systemd does it: the mount point waits for whoever looks into it, until the mount is there."""
    ours, theirs = os.pipe()
    data = f'fd={theirs},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct'.encode()
    if libc.mount(b'auto', at.encode(), b'autofs', 0, data) != 0:
        return  # a kernel without autofs
    os.close(theirs)
    try:
        # In another process group, as systemd's helpers are: the trigger holds them like anybody.
        subprocess.run([zerofs, 'mount', ckpt, at], check=True, timeout=20 * SECOND, start_new_session=True)
        assert mounts(at) == ['autofs', 'fuse.zerofs'] and serves(at)
        os.kill(pid_of(at, 'worker'), signal.SIGKILL)
        until(lambda: mounts(at) == ['autofs'], SECOND)
        until(all_ended, 5 * SECOND, at)
    finally:
        os.close(ours)  # whoever waits is let go
        while mounts(at):
            detach(at)


def without_proc(zerofs, ckpt, at):
    """Which mount is whose cannot be told: the one at the mount point is taken off."""
    private_mounts()
    assert libc.umount2(b'/proc', MNT_DETACH) == 0
    child = subprocess.Popen([zerofs, 'mount', ckpt, at, '-f'])
    try:
        until(os.path.exists, 60 * SECOND, os.path.join(at, FILE))
        child.terminate()
        # Files are there a moment before the worker says that they are.  Asked in that moment, and without /proc
        # to find the mount by, it ends as if nothing had begun.
        code = child.wait(60)
        assert code in (0, -signal.SIGTERM), code
        assert os.listdir(at) == []
    finally:
        child.kill()


def private_device(tmp):
    """A /dev/fuse that everybody may open, as on most machines, for this process alone."""
    device = os.path.join(tmp, 'device')
    os.mknod(device, stat.S_IFCHR | 0o666, os.stat('/dev/fuse').st_rdev)
    os.chmod(device, 0o666)
    private_mounts()
    assert libc.mount(device.encode(), b'/dev/fuse', None, ctypes.c_ulong(MS_BIND), None) == 0


def as_user(zerofs, ckpt, tmp):
    """In a child with another uid, which can mount only through the setuid fusermount3."""
    helper = shutil.which('fusermount3')
    if not helper or not os.stat(helper).st_mode & 0o4000:
        return
    private_device(tmp)
    home = os.path.join(tmp, 'user')
    at = os.path.join(home, 'mnt')
    shutil.copytree(ckpt, os.path.join(home, 'ckpt'))
    os.mkdir(at)
    # The build may be where only its owner gets to.
    program = shutil.copy(zerofs, os.path.join(home, 'zerofs'))
    for folder, _, files in os.walk(home):
        for name in ['.', *files]:
            os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.chdir('/')
            for who in ('worker', 'supervisor'):
                for sig in ('KILL', 'TERM'):
                    killed(program, os.path.join(home, 'ckpt'), at, who, sig, 1)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == '__main__':
    name, zerofs, ckpt, *rest = sys.argv[1:]
    if name == 'foreground':
        foreground_said(zerofs, ckpt, rest[0], getattr(signal, 'SIG' + rest[1]))
    else:
        globals()[name](zerofs, ckpt, *rest)
