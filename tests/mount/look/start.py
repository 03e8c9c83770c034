# SPDX-License-Identifier: Apache-2.0
"""start.py CHECK …: who mounts, when, and for whom."""
import array
import contextlib
import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import time

MNT_DETACH, MS_BIND, MS_REC, MS_PRIVATE, CLONE_NEWNS = 2, 4096, 16384, 1 << 18, 0x20000
PR_SET_NO_NEW_PRIVS = 38
NOBODY = 65534  # fusermount3 serves only users with a name
FILE = 'l1.bias.f32'
libc = ctypes.CDLL(None, use_errno=True)


def done(rc):
    assert rc == 0, os.strerror(ctypes.get_errno())


def mounts(at):
    with open('/proc/self/mountinfo') as f:
        return [line for line in f if line.split()[4] == at]


def together(zerofs, at, how, *ckpts):
    """Twelve at once, some rounds: never two mounts, and whoever got 0 finds the bytes."""
    for _ in range(2):
        script = '"$0" mount "$1" "$2"; code=$?; [ $code != 0 ] || [ "$(stat -c %s "$2/l1.bias.f32")" = 44 ] || exit 99; exit $code'
        tasks = [subprocess.Popen(['sh', '-c', script, zerofs, ckpts[i % len(ckpts)], at], stderr=subprocess.PIPE,
                                  text=True) for i in range(12)]
        ends = [(t.communicate(timeout=300)[1], t.returncode) for t in tasks]
        try:
            assert len(mounts(at)) == 1, mounts(at)
            if how == 'same':
                assert [c for _, c in ends] == [0] * 12, ends
                assert sum('already shows' in e for e, _ in ends) == 11, ends
            else:
                assert sorted(c for _, c in ends) == [0] * 6 + [2] * 6, ends
                assert all('another checkpoint' in e for e, c in ends if c), ends
        finally:
            subprocess.run([zerofs, 'umount', at], check=True)


# -- as another user ---------------------------------------------------------------------------------
def user_setup(zerofs, ckpt, tmp):
    home = os.path.join(tmp, 'user')
    shutil.copytree(ckpt, os.path.join(home, 'ckpt'))
    os.mkdir(os.path.join(home, 'mnt'))
    shutil.copy(zerofs, os.path.join(home, 'zerofs'))  # the build may be where only its owner gets to
    for folder, _, files in os.walk(home):
        for name in ['.', *files]:
            os.chown(os.path.join(folder, name), NOBODY, NOBODY)


def device(tmp, mode):
    """A /dev/fuse of that mode, for this process alone; 0: none.  Gives one that is elsewhere."""
    done(libc.unshare(CLONE_NEWNS))
    done(libc.mount(None, b'/', None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None))
    node = os.path.join(tmp, f'device.{os.getpid()}')
    os.mknod(node, stat.S_IFCHR | 0o666, os.stat('/dev/fuse').st_rdev)
    os.chmod(node, 0o666)
    shown = node
    if mode != 0o666:
        shown = node + '.shown'
        os.mknod(shown, stat.S_IFCHR | mode, os.stat('/dev/fuse').st_rdev)
        os.chmod(shown, mode)
    done(libc.mount(shown.encode(), b'/dev/fuse', None, ctypes.c_ulong(MS_BIND), None))
    return node


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


@contextlib.contextmanager
def child():
    """The body runs in a process of its own, and its failure is ours."""
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0, 'the child failed'
        os._exit(0)
    try:
        os.chdir('/')
        yield
        os._exit(0)
    except BaseException as e:  # noqa: B902
        print(repr(e), flush=True)
        os._exit(1)


def mount_as_user(tmp, *words, env=None):
    home = os.path.join(tmp, 'user')
    r = subprocess.run([f'{home}/zerofs', 'mount', f'{home}/ckpt', f'{home}/mnt', *words], stderr=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True, timeout=60, env=env)
    print(r)
    return r


def refused(tmp, *parts, words=(), env=None):
    r = mount_as_user(tmp, *words, env=env)
    assert r.returncode == 5 and r.stdout == '' and r.stderr.count('\n') == 1, r
    assert f'{tmp}/user/mnt: cannot ' in r.stderr and 'ls, cat and export need no FUSE' in r.stderr, r
    for part in parts:
        assert part in r.stderr, (part, r.stderr)
    assert not mounts(f'{tmp}/user/mnt')


def no_access(tmp):
    with child():
        device(tmp, 0o600)
        become(NOBODY)
        refused(tmp, 'cannot open /dev/fuse: Permission denied', 'mode', 'fusermount3')


def no_allow_other(tmp):
    with child():
        device(tmp, 0o666)
        conf = os.path.join(tmp, 'fuse.conf')
        open(conf, 'w').close()
        done(libc.mount(conf.encode(), b'/etc/fuse.conf', None, ctypes.c_ulong(MS_BIND), None))
        become(NOBODY)
        refused(tmp, 'user_allow_other', '/etc/fuse.conf', words=('-o', 'allow_other'))
        refused(tmp, 'user_allow_other', '/etc/fuse.conf', words=('-o', 'allow_root'))


def no_new_privs(tmp):
    with child():
        device(tmp, 0o666)
        become(NOBODY)
        done(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        refused(tmp, 'no_new_privs')


def no_fusermount(tmp):
    with child():
        device(tmp, 0o666)
        become(NOBODY)
        refused(tmp, 'fusermount3 is not in PATH', env={'PATH': '/nowhere'})


def fusermount_says(tmp):
    """Its sentence is passed on, its name is said once."""
    path = os.path.join(tmp, 'says')
    os.mkdir(path)
    os.chmod(path, 0o755)
    with open(os.path.join(path, 'fusermount3'), 'w') as f:
        f.write('#!/bin/sh\necho "fusermount3: not today" >&2\nexit 1\n')
    os.chmod(f.name, 0o755)
    with child():
        device(tmp, 0o666)
        become(NOBODY)
        refused(tmp, '; fusermount3: not today', env={'PATH': f'{path}:/usr/bin:/bin'})


# What stands in for the setuid program in a pod; runs as root, and gets the device from elsewhere.
PROXY = '''#!/bin/sh
exec python3 -B "{script}" proxy "{socket}" "$@"
'''


def proxy(address, *words):
    """The program on PATH: passes its words and the socket on to the one who may mount."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(address)
        back = int(os.environ.get('_FUSE_COMMFD', '-1'))
        fds = array.array('i', [back] if back >= 0 else [2])
        s.sendmsg(['\0'.join(words).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        sys.exit(s.recv(1) != b'0')


def answer(listener, node, log):
    """One request: mount, and send the descriptor, or unmount."""
    conn, _ = listener.accept()
    with conn:
        text, control, _, _ = conn.recvmsg(4096, socket.CMSG_SPACE(4))
        words, back = text.decode().split('\0'), array.array('i', control[0][2])[0]
        log.append(words)
        if '-o' in words:
            fd = os.open(node, os.O_RDWR)
            data = f'fd={fd},rootmode=40000,user_id={NOBODY},group_id={NOBODY}'.encode()
            assert libc.mount(b'proxied', words[-1].encode(), b'fuse.zerofs', ctypes.c_ulong(1), data) == 0
            with socket.socket(fileno=back) as s:
                s.sendmsg([b'\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])
            os.close(fd)
        else:
            assert libc.umount2(words[-1].encode(), MNT_DETACH) == 0
            os.close(back)
        conn.send(b'0')


def proxied(tmp):
    at = f'{tmp}/user/mnt'
    with child():
        node = device(tmp, 0o600)
        os.chmod(node, 0o600)
        address, tools = f'{tmp}/proxy', f'{tmp}/tools'
        os.mkdir(tools)
        with open(f'{tools}/fusermount3', 'w') as f:
            f.write(PROXY.format(script=os.path.abspath(__file__), socket=address))
        os.chmod(f'{tools}/fusermount3', 0o755)
        script = shutil.copy(__file__, f'{tmp}/proxy.py')  # where the user gets to
        with open(f'{tools}/fusermount3', 'w') as f:
            f.write(PROXY.format(script=script, socket=address))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address)
            os.chmod(address, 0o777)
            listener.listen()
            log = []
            user = os.fork()
            if user == 0:
                become(NOBODY)
                env = {**os.environ, 'PATH': f'{tools}:/usr/bin:/bin'}
                ok = mount_as_user(tmp, env=env).returncode == 0
                with open(f'{at}/{FILE}', 'rb') as f:
                    ok = ok and len(f.read()) == 44
                ok = ok and subprocess.run([f'{tmp}/user/zerofs', 'umount', at], env=env).returncode == 0
                os._exit(0 if ok else 1)
            listener.settimeout(60)
            answer(listener, node, log)
            answer(listener, node, log)
            assert os.waitpid(user, 0)[1] == 0
            assert log[0][:1] == ['-o'] and 'ro' in log[0][1].split(',') and log[0][-2:] == ['--', at], log
            assert log[1] == ['-u', '--', at], log


def foreign(tmp):
    """Another user's mount cannot even be asked what it shows."""
    home = os.path.join(tmp, 'user')
    at = f'{home}/mnt'
    with child():
        subprocess.run([f'{home}/zerofs', 'mount', f'{home}/ckpt', at], check=True)
        try:
            user = os.fork()
            if user == 0:
                become(NOBODY)
                r = mount_as_user(tmp)
                os._exit(0 if r.returncode == 2 and 'another user' in r.stderr else 1)
            assert os.waitpid(user, 0)[1] == 0
        finally:
            subprocess.run([f'{home}/zerofs', 'umount', at], check=True)


# -- allow_other -------------------------------------------------------------------------------------
def as_other(path, groups=()):
    """The errno with which NOBODY, in those groups, fails to read it; 0 = reads."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.setgroups(list(groups))
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        with open(path, 'rb') as f:
            os._exit(0 if len(f.read()) == 44 else 99)
    except OSError as e:
        os._exit(e.errno)


def other_users(zerofs, ckpt, tmp):
    where = f'{tmp}/private'
    shutil.copytree(ckpt, f'{where}/c')
    at = f'{tmp}/mnt'
    shard = f'{where}/c/global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt'
    for folder, _, files in os.walk(where):
        os.chmod(folder, 0o755)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o644)

    def shown(options='allow_other'):
        r = subprocess.run([zerofs, 'mount', f'{where}/c', at, '-o', options], stderr=subprocess.PIPE, text=True)
        assert r.returncode == 0, r
        try:
            path = f'{at}/{FILE}' if 'all_tags' not in options else f'{at}/global_step3/{FILE}'
            until = time.monotonic() + 30  # a save that was changed just now is not opened
            while as_other(path, [0]) == errno.EIO and time.monotonic() < until:
                time.sleep(0.05)
            as_other(path)  # opens it, where that is done when somebody looks
            modes = [stat.S_IMODE(os.stat(p).st_mode) for p in (path, os.path.dirname(path))]
            found = [as_other(path), as_other(path, [0]), as_other(path, [4321])]
            return [oct(m)[2:] for m in modes], found, r.stderr.count('\n')
        finally:
            subprocess.run([zerofs, 'umount', at], check=True)

    def case(what, mode, expected, options='allow_other', gid=0):
        before = os.stat(what)
        os.chown(what, 0, gid)
        os.chmod(what, mode)
        got = shown(options)
        os.chown(what, before.st_uid, before.st_gid)
        os.chmod(what, stat.S_IMODE(before.st_mode))
        assert got == expected, (what, oct(mode), gid, options, got, expected)

    E = 13  # EACCES
    everybody, group, owner = [0, 0, 0], [E, 0, E], [E, E, E]
    assert shown() == (['444', '555'], everybody, 0)
    case(shard, 0o600, (['400', '500'], owner, 1))
    case(shard, 0o640, (['440', '550'], group, 1))
    case(shard, 0o604, (['404', '505'], [0, E, 0], 1))
    case(shard, 0o640, (['400', '500'], owner, 1), gid=4321)
    case(shard, 0o604, (['400', '500'], owner, 1), gid=4321)
    case(shard, 0o644, (['444', '555'], everybody, 0), gid=4321)
    case(shard, 0o640, (['440', '550'], [E, E, 0], 1), 'allow_other,gid=4321', gid=4321)
    case(f'{where}/c/latest', 0o600, (['400', '500'], owner, 1))
    case(f'{where}/c/global_step3', 0o700, (['400', '500'], owner, 1))
    case(where, 0o700, (['400', '500'], owner, 1))
    case(where, 0o711, (['444', '555'], everybody, 0))
    case(shard, 0o644, (['440', '550'], group, 0), 'allow_other,umask=007')
    case(shard, 0o600, (['400', '500'], owner, 0), 'allow_other,all_tags')
    case(shard, 0o644, (['444', '555'], everybody, 0), 'allow_other,all_tags')
    # Without it nobody else gets in, and the modes are plain.
    case(shard, 0o600, (['444', '555'], owner, 0), 'allow_root')


if __name__ == '__main__':
    globals()[sys.argv[1]](*sys.argv[2:])
