# SPDX-License-Identifier: Apache-2.0
"""-o model_cache=: a second opening of a save that did not change gives the same in everything and opens no shard; whatever
changed, is damaged, or may be somebody else's, is read as if there were no cache."""
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

SRC = os.environ['top_srcdir']
sys.path.insert(0, os.path.join(SRC, 'tests/support'))
from tap import Skip, main  # noqa: E402

ZEROFS, DATA = os.environ['ZEROFS'], os.environ['ZF_DATA']
SMALL = 'deepspeed/ds0_19_8_zero3_clientstate_w2'
tmp = tempfile.mkdtemp(prefix='zf-models-')


def run(*args, env=None):
    p = subprocess.run([ZEROFS, *args], capture_output=True, timeout=60, check=False, env=dict(os.environ, **(env or {})))
    return p.returncode, p.stdout, p.stderr


def info(ckpt, cache, *more):
    """Exit code, what info says but for where it is from, and whether the model was kept."""
    code, out, err = run('info', '--json', '-o', f'model_cache={cache}', *more, ckpt)
    if code:
        return code, err, None
    said = json.loads(out)
    kept = said.pop('model_kept')
    return code, said, kept


def both(ckpt, cache, *more):
    """Is the second one kept?  Both are to say what is said without a cache."""
    plain = info(ckpt, 'off', *more)[:2]
    first, second = info(ckpt, cache, *more), info(ckpt, cache, *more)
    assert first[:2] == plain == second[:2], ckpt
    assert not first[2], 'there was one before'
    return second[2]


def new(name):
    at = os.path.join(tmp, name)
    shutil.rmtree(at, ignore_errors=True)
    return at


def copy(name):
    """What changed a moment ago is not kept: until the clock that dates files has gone on for certain."""
    at = shutil.copytree(os.path.join(DATA, SMALL), new(name), symlinks=True)
    _settled(at)
    return at


def _settled(at):
    last = max(os.stat(f).st_ctime_ns for f in _files(at))
    while time.time_ns() < last + (50_000_000 if last % 1_000_000_000 else 2_500_000_000):
        time.sleep(0.005)


def tree(at):
    """A digest of every file below."""
    out = {}
    for d, _, files in os.walk(at):
        for f in files:
            with open(os.path.join(d, f), 'rb') as x:
                out[os.path.relpath(os.path.join(d, f), at)] = hashlib.sha256(x.read()).hexdigest()
    return out


def sets():
    for family in sorted(os.listdir(DATA)):
        at = os.path.join(DATA, family)
        for name in sorted(os.listdir(at)) if os.path.isdir(at) and family != 'remote' else []:
            if os.path.isdir(os.path.join(at, name)):
                yield os.path.join(at, name)


def every_set_is_kept_and_says_the_same():
    cache, n = new('all'), 0
    for ckpt in sets():
        if info(ckpt, 'off')[0] == 0:
            assert both(ckpt, cache), ckpt
            n += 1
    assert n > 40, n


def another_name_of_the_place_is_the_same_place():
    """By a link, from another directory, with a slash: the model that was kept serves, and speaks of the place as it is called now."""
    cache, n, kept = new('names'), 0, 0
    link = new('link-of')
    os.mkdir(link)
    os.chdir(link)
    for ckpt in sets():
        if info(ckpt, 'off')[0]:
            continue
        name = os.path.join(link, os.path.basename(ckpt))
        if os.path.lexists(name):
            continue
        os.symlink(ckpt, name)
        assert not info(ckpt, cache)[2], ckpt
        for other in (name, ckpt + '/', os.path.relpath(ckpt), os.path.basename(ckpt) + '//', ckpt):
            code, said, was_kept = info(other, cache)
            assert (code, said) == info(other, 'off')[:2], other
            n += 1
            kept += was_kept
    os.chdir(tmp)
    assert n > 200 and kept > 0.8 * n, (n, kept)


def a_text_that_names_the_place_is_good_for_that_name():
    """What is wrong with the newest save is told with its path, as it was given: said by another name, that would be another text."""
    run_of_two, cache = copy('two'), new('named')
    shutil.copytree(os.path.join(run_of_two, 'global_step0'), os.path.join(run_of_two, 'global_step9'))
    for f in _files(os.path.join(run_of_two, 'global_step9')):
        os.truncate(f, os.stat(f).st_size // 2)
    _settled(run_of_two)
    link = new('two-by-link')
    os.symlink(run_of_two, link)
    assert both(run_of_two, cache, '-o', 'tag=whole')
    assert both(link, cache, '-o', 'tag=whole')  # which is kept instead
    assert not info(run_of_two, cache, '-o', 'tag=whole')[2]
    code, said, _ = info(link, cache, '-o', 'tag=whole')
    assert code == 0 and any(f'global_step9 is not whole: {link}' in n for n in said['notes']), said['notes']


def every_byte_is_the_same():
    cache, n = new('bytes'), 0
    for ckpt in list(sets())[::4]:
        if info(ckpt, 'off')[0]:
            continue
        trees = []
        for how in ('off', cache, cache):
            dest = new('dest')
            os.mkdir(dest)
            code, _, err = run('export', '-o', f'model_cache={how}', '-o', 'show=raw', ckpt, '/', dest)
            assert code == 0, err
            trees.append(tree(dest))
        assert trees[0] == trees[1] == trees[2] and trees[0], ckpt
        assert info(ckpt, cache)[2], ckpt
        n += 1
    assert n > 10, n


def _files(at):
    return [os.path.join(d, f) for d, _, files in os.walk(at) for f in files]


def _changes(ckpt):
    """Everything that can happen to each file, and each directory."""
    for f in _files(ckpt):
        st = os.stat(f)
        yield 'touched', f, lambda f=f, st=st: os.utime(f, ns=(st.st_atime_ns, st.st_mtime_ns + 1000))
        yield 'same times', f, lambda f=f, st=st: os.utime(f, ns=(st.st_atime_ns, st.st_mtime_ns))
        yield 'replaced', f, lambda f=f: (shutil.copy2(f, f + '~'), os.rename(f + '~', f))
        yield 'longer', f, lambda f=f: open(f, 'ab').write(b'x')
        yield 'gone', f, lambda f=f: os.unlink(f)
        yield 'a directory', f, lambda f=f: (os.unlink(f), os.mkdir(f))
    for d in {os.path.dirname(f) for f in _files(ckpt)}:
        for name in ('latest', 'config.json', 'zzz', 'zero_pp_rank_9_mp_rank_00_model_states.pt', 'model.safetensors'):
            at = os.path.join(d, name)
            if not os.path.exists(at):
                yield 'new', at, lambda at=at: open(at, 'wb').write(b'{}')
        yield 'new directory', os.path.join(d, 'tokenizer'), lambda d=d: os.mkdir(os.path.join(d, 'tokenizer'))


def whatever_changes_is_seen():
    cache, n = new('changes'), len(list(_changes(copy('changed'))))
    for k in range(n):
        ckpt = copy('changed')
        what, path, change = list(_changes(ckpt))[k]
        shutil.rmtree(cache, ignore_errors=True)
        assert both(ckpt, cache), f'{what} {path}'
        change()
        code, said, kept = info(ckpt, cache)
        assert (code, said) == info(ckpt, 'off')[:2], f'{what} {path}'
        assert not kept, f'{what} {path}: the old model was shown'


def _opened(*words):
    """Shards that a command opened, and its output."""
    log = os.path.join(tmp, 'strace.log')
    p = subprocess.run(['strace', '-f', '-o', log, '-e', 'trace=open,openat,openat2', ZEROFS, *words], capture_output=True,
                       timeout=60, check=False)
    if p.returncode:
        raise Skip(p.stderr.decode(errors='replace')[:200])
    with open(log, encoding='utf-8', errors='replace') as f:
        return sum('.pt"' in line or 'latest"' in line for line in f), p.stdout


def no_shard_is_opened():
    if not shutil.which('strace'):
        raise Skip('there is no strace')
    ckpt = os.path.join(DATA, SMALL)
    for words in (['ls'], ['info'], ['info', '--json']):
        how = '-o', f'model_cache={new("strace-" + "-".join(words))}'
        (first, said), (again, same) = [_opened(*words, *how, ckpt) for _ in range(2)]
        assert first > 0 and again == 0, (words, first, again)
        if words == ['info']:
            assert b'\ncode ' in said and said == same, same
        elif '--json' in words:
            assert json.loads(said)['code']['pickles'] == json.loads(same)['code']['pickles'] > 0
    # the model of a command that does not look for code: the first info does, and the second need not
    how = '-o', f'model_cache={new("strace-mixed")}'
    assert _opened('ls', *how, ckpt)[0] > 0
    (first, said), (again, same) = [_opened('info', *how, ckpt) for _ in range(2)]
    assert first > 0 and again == 0 and said == same, (first, again)


def _model(cache):
    name, = [n for n in os.listdir(cache) if n.endswith('.model')]
    return os.path.join(cache, name)


def a_damaged_model_is_read_anew():
    cache, ckpt = new('damaged'), os.path.join(DATA, SMALL)
    assert both(ckpt, cache)
    at = _model(cache)
    with open(at, 'rb') as f:
        whole = f.read()
    want = info(ckpt, 'off')[:2]
    changed = [whole[:n] for n in (0, 1, 8, 31, 32, 36, 40, len(whole) // 2, len(whole) - 1)] + [whole + b'x']
    changed += [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1:] for n in range(0, len(whole), len(whole) // 40)]
    for bad in changed:
        with open(at, 'wb') as f:
            f.write(bad)
        code, said, kept = info(ckpt, cache)
        assert (code, said) == want and not kept, len(bad)
        with open(at, 'rb') as f:
            assert f.read() == whole, 'it was not kept anew'
    assert info(ckpt, cache)[2]


def what_may_be_anothers_is_not_believed():
    cache, ckpt = new('anothers'), os.path.join(DATA, SMALL)
    assert both(ckpt, cache)
    at = _model(cache)
    assert stat.S_IMODE(os.stat(at).st_mode) == 0o600 and stat.S_IMODE(os.stat(cache).st_mode) == 0o700
    os.chmod(at, 0o622)
    assert not info(ckpt, cache)[2], 'others may write to the file'
    assert info(ckpt, cache)[2], 'it was kept anew'
    for mode in (0o777, 0o755, 0o710):
        os.chmod(cache, mode)
        code, _, err = run('info', '-o', f'model_cache={cache}', ckpt)
        assert code == 2 and f'chmod 700 {cache}'.encode() in err and len(err.splitlines()) == 1, (mode, err)
    os.chmod(cache, 0o700)
    os.rename(at, at + '.away')
    os.symlink(at + '.away', at)
    assert not info(ckpt, cache)[2], 'it is a link'
    assert not os.path.islink(_model(cache)) and info(ckpt, cache)[2]
    if os.getuid() == 0:
        os.chown(at, 1, 1)
        assert not info(ckpt, cache)[2], 'it is of another user'
        os.chown(cache, 1, 1)
        assert not info(ckpt, cache)[2], 'the directory is of another user'
        os.chown(cache, 0, 0)
    parent = new('open')
    os.mkdir(parent)
    os.chmod(parent, 0o777)
    below = os.path.join(parent, 'models')
    assert info(ckpt, below)[0] == 2, 'others may replace the directory'


def no_place_is_no_failure():
    ckpt = os.path.join(DATA, SMALL)
    for place in ('/proc/zerofs', '/dev/null', '/dev/full/x'):
        code, said, kept = info(ckpt, place)
        assert (code, said) == info(ckpt, 'off')[:2] and not kept, place
    code, out, err = run('info', '--json', '-o', 'model_cache=auto', ckpt, env={'HOME': '', 'XDG_CACHE_HOME': 'relative'})
    assert code == 0 and not json.loads(out)['model_kept'] and not err, err


def damage_and_other_places_are_always_read():
    cache, ckpt = new('never'), copy('never-of')
    assert not both(ckpt, cache, '-o', 'degraded')
    side = new('side')
    os.mkdir(side)
    with open(os.path.join(side, 'tokenizer.json'), 'w', encoding='utf-8') as f:
        f.write('{}')
    assert not both(ckpt, cache, '-o', f'side={side}')
    assert not os.path.isdir(cache) or not os.listdir(cache)


def options_that_shape_the_model_count():
    cache, ckpt = new('options'), os.path.join(DATA, SMALL)
    assert both(ckpt, cache)
    assert not info(ckpt, cache, '-o', 'format=deepspeed')[2]
    assert not info(ckpt, cache, '-o', 'limit=tensors=1000')[2]
    code, said, kept = info(ckpt, cache, '-o', 'only=*weight*')  # done to the model afterwards
    assert kept and (code, said) == info(ckpt, 'off', '-o', 'only=*weight*')[:2]


def many_at_once():
    cache, ckpt = new('many'), os.path.join(DATA, SMALL)
    all_at_once = [subprocess.Popen([ZEROFS, 'info', '--json', '-o', f'model_cache={cache}', ckpt], stdout=subprocess.PIPE)
                   for _ in range(12)]
    said = []
    for p in all_at_once:
        said.append(json.loads(p.communicate(timeout=60)[0]))
        assert p.returncode == 0
        said[-1].pop('model_kept')
    assert all(s == said[0] for s in said)
    assert len(os.listdir(cache)) == 1 and info(ckpt, cache)[2]


def listed_and_cleared():
    cache, ckpt = new('listed'), os.path.join(DATA, SMALL)
    assert both(ckpt, cache)
    with open(os.path.join(cache, 'mine.txt'), 'w', encoding='utf-8') as f:
        f.write('not a model')
    code, out, _ = run('cache', 'ls', cache)
    assert code == 0 and os.path.realpath(ckpt).encode() in out and b'1 model,' in out, out
    code, out, _ = run('cache', 'clear', cache)
    assert code == 0 and out.startswith(b'freed ') and os.listdir(cache) == ['mine.txt'], out
    home = {'XDG_CACHE_HOME': new('home')}
    assert run('cache', 'ls', env=home)[:2] == (0, b'0 models, 0 B\n')


def _mounted(ckpt, cache):
    """What a mount shows: `find -ls`, every file but those that count, the log, and the reads that it took."""
    at = new('mnt')
    os.mkdir(at)
    code, _, err = run('mount', '-o', f'model_cache={cache}', ckpt, at)
    if code:
        raise Skip(err.decode(errors='replace')[:300])
    try:
        with open(f'{at}/.zerofs/stats.json', encoding='utf-8') as f:
            stats = json.load(f)
        with open(f'{at}/.zerofs/log', encoding='utf-8') as f:
            log = f.read()
        found = subprocess.run(['find', '.', '-ls'], cwd=at, capture_output=True, check=True, timeout=60).stdout
        files = tree(at)
        with open(f'{at}/.zerofs/index.json', 'rb') as f:
            files['index'] = f.read()
    finally:
        run('umount', at)
    return found, files, stats, log


def a_mount_shows_the_same():
    if not os.access('/dev/fuse', os.R_OK | os.W_OK):
        raise Skip('/dev/fuse cannot be opened')
    ckpt = copy('mounted')
    cache = new('mount-cache')
    found, files, stats, log = _mounted(ckpt, cache)
    again = _mounted(ckpt, cache)
    assert again[0] == found and again[1] == files
    assert not stats['model_kept'] and sum(s['reads'] for s in stats['sources']) > 0 and not log, log
    assert again[2]['model_kept'] and not any(s['reads'] for s in again[2]['sources'])
    assert [s['file'] for s in stats['sources']] == [s['file'] for s in again[2]['sources']]
    assert 'is unchanged' in again[3], again[3]
    with open(f'{ckpt}/new', 'wb'):
        pass
    changed = _mounted(ckpt, cache)
    assert not changed[2]['model_kept'] and 'has changed' in changed[3], changed[3]


try:
    main([every_set_is_kept_and_says_the_same, another_name_of_the_place_is_the_same_place,
          a_text_that_names_the_place_is_good_for_that_name, every_byte_is_the_same,
          whatever_changes_is_seen, no_shard_is_opened, a_damaged_model_is_read_anew, what_may_be_anothers_is_not_believed, no_place_is_no_failure,
          damage_and_other_places_are_always_read, options_that_shape_the_model_count, many_at_once, listed_and_cleared,
          a_mount_shows_the_same])
finally:
    shutil.rmtree(tmp, ignore_errors=True)
