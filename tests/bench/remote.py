# SPDX-License-Identifier: Apache-2.0
"""The part "remote" of bench.py: checkpoints behind an address, over a line with delay (delay.c), from nginx on this machine.

About 80 s; DELAYS='1 20 100' ROUNDS=3 takes longer, RANKS=1024 makes a larger save, ONLY='mount read boto rclone convert http2' are the parts
(the last two are left out otherwise: convert takes minutes)."""
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

import tools

DELAYS = [float(x) for x in os.environ.get('DELAYS', '1 100').split()]
ROUNDS = int(os.environ.get('ROUNDS', 1))
RANKS = int(os.environ.get('RANKS', 64))
RATE = int(os.environ.get('RATE', 200_000_000))
CONNECTIONS = 16
MIB = 1 << 20
CONF = '''daemon off; worker_processes 2; pid {at}/pid; error_log {at}/errors;
events {{ worker_connections 1024; }}
http {{
    client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3; uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;
    log_format counts '$request_method $body_bytes_sent'; access_log {at}/log counts;
    sendfile on; keepalive_requests 1000000;
    server {{ listen 127.0.0.1:{port}; root {root}; autoindex on; {more} }}
}}
'''


class Server:
    def __init__(self, tmp, root, name='nginx', more=''):
        nginx = shutil.which('nginx') or '/usr/sbin/nginx'
        if not os.path.exists(nginx):
            raise RuntimeError('there is no nginx')
        self.at = os.path.join(tmp, name)
        os.mkdir(self.at)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]
        conf = os.path.join(self.at, 'conf')
        with open(conf, 'w') as f:
            f.write(CONF.format(at=self.at, root=root, port=self.port, more=more))
        os.chmod(tmp, 0o711)  # nginx's workers are another user
        self.run = subprocess.Popen([nginx, '-c', conf, '-p', self.at], stderr=subprocess.DEVNULL)
        while socket.socket().connect_ex(('127.0.0.1', self.port)) != 0:
            if self.run.poll() is not None:
                raise RuntimeError('nginx does not start')
            time.sleep(0.01)
        self.seen = 0

    def sent(self):
        """(requests, bytes) since the last time; nginx writes its log when a request is over."""
        time.sleep(0.05)
        with open(os.path.join(self.at, 'log')) as f:
            f.seek(self.seen)
            rows = f.read().split('\n')[:-1]
            self.seen = f.tell()
        return len(rows), sum(int(r.split()[1]) for r in rows)

    def stop(self):
        self.run.terminate()
        self.run.wait()


class Line:
    def __init__(self, tool, port, ms, rate=0):
        self.run = subprocess.Popen([tool, str(port), str(ms), str(rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.url = f'http://127.0.0.1:{int(self.run.stdout.readline())}/'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run.stdin.close()
        self.run.wait()


def plain(path, n):
    """A safetensors file of one tensor of n bytes that are holes."""
    text = json.dumps({'w': {'dtype': 'U8', 'shape': [n], 'data_offsets': [0, n]}}).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        f.truncate(8 + len(text) + n)


def curl(urls, n):
    """Seconds to fetch files of n bytes, one in as many ranges as there are connections."""
    if len(urls) == 1:
        step = -(-n // CONNECTIONS)
        job = [(urls[0], f'{i}-{min(n, i + step) - 1}') for i in range(0, n, step)]
    else:
        job = [(u, None) for u in urls]
    args = ['curl', '-s', '-f', '--parallel', '--parallel-immediate', '--parallel-max', str(CONNECTIONS)]
    for i, (url, r) in enumerate(job):
        args += (['--next'] if i and r else []) + (['-s', '-f', '-r', r] if r else []) + ['-o', '/dev/null', url]
    began = time.monotonic()
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def read_all(paths):
    """Seconds to read files, all at once; the reads themselves are a C program's."""
    tool = os.path.join(os.environ['top_builddir'], 'tests/bench/bench_read')
    began = time.monotonic()
    for p in [subprocess.Popen([tool, 'seq', p], stdout=subprocess.DEVNULL) for p in paths]:
        if p.wait():
            raise RuntimeError('a read failed')
    return time.monotonic() - began


def throughput(b, server, line_of, sizes, what):
    for ms in DELAYS:
        keep = {k: [] for k in sizes}
        best = {k: [] for k in sizes}
        for _ in range(ROUNDS):
            for names in sizes:
                n = sizes[names]
                with line_of(ms) as line:
                    theirs = curl([line.url + f for f in names], n)
                with line_of(ms) as line:
                    where = line.url + (names[0] if len(names) == 1 else 'many/')
                    with b.Mount(b.ZEROFS, 'mount', '-f', where) as m:
                        ours = read_all([os.path.join(m.at, x) for x in (['w.u8'] if len(names) == 1 else
                                                                         [f'w{i:02}.u8' for i in range(len(names))])])
                keep[names].append(theirs / ours)
                best[names].append(len(names) * n / ours / 1e6)
        for names in sizes:
            b.ratio(f'{ms:g} ms{what}: {len(names)} file(s), beside curl --parallel', keep[names], 0.9)
            b.tell('', f'{statistics.median(best[names]):6.0f} MB/s')
    server.sent()


def mounting(b, server, tool, ckpt):
    tensor = 'model.layers.3.self_attn.q_proj.weight.f32'
    for ms in DELAYS:
        for again in (False, True):
            times, firsts, counts = [], [], []
            cache = os.path.join(b.tmp, f'cache{ms:g}')
            for _ in range(ROUNDS):
                if not again:
                    shutil.rmtree(cache, ignore_errors=True)
                with Line(tool, server.port, ms) as line:
                    server.sent()
                    # Another port is another address: the cache of the second mount is that of the same one.
                    with b.Mount(b.ZEROFS, 'mount', '-f', line.url + ckpt + '/', '-o', f'cache_dir={cache}') as m:
                        at_mount = server.sent()
                        began = time.monotonic()
                        size = os.stat(os.path.join(m.at, tensor)).st_size
                        read_all([os.path.join(m.at, tensor)])
                        firsts.append(m.took + time.monotonic() - began)
                        times.append(m.took)
                        counts.append((*at_mount, *server.sent()))
                    if not again:
                        continue
                    with b.Mount(b.ZEROFS, 'mount', '-f', line.url + ckpt + '/', '-o', f'cache_dir={cache}') as m:
                        times[-1] = m.took
                        began = time.monotonic()
                        read_all([os.path.join(m.at, tensor)])
                        firsts[-1] = m.took + time.monotonic() - began
                        counts[-1] = (*server.sent(), 0, 0)
            n, got, n2, got2 = counts[-1]
            name = f'{ms:g} ms, ' + ('a second mount (cache_dir)' if again else 'first mount')
            b.tell(f'{name}: mount, + a tensor of {size // MIB} MiB', f'{statistics.median(times):6.2f} s, {statistics.median(firsts):6.2f} s')
            b.tell('  requests and MiB', f'{n} {got / MIB:.1f}' + ('' if again else f', for the tensor {n2} {got2 / MIB:.1f}'))


# -- beside others ---------------------------------------------------------------------------------------
def boto(b, server, line_of, n):
    """A reader of OLMo's kind: get_object of ranges of 64 MiB, one after the other; unsigned, which nginx does not mind."""
    try:
        import boto3  # pylint: disable=import-outside-toplevel
        from botocore import UNSIGNED  # pylint: disable=import-outside-toplevel
        from botocore.config import Config  # pylint: disable=import-outside-toplevel
    except ImportError:
        print('  beside boto3: left out, it is not installed')
        return
    for ms in DELAYS:
        with line_of(ms) as line:
            s3 = boto3.client('s3', endpoint_url=line.url, region_name='us-east-1', config=Config(signature_version=UNSIGNED, s3={'addressing_style': 'path'}))
            began = time.monotonic()
            for at in range(0, n, 64 * MIB):
                s3.get_object(Bucket='bucket', Key='model.safetensors', Range=f'bytes={at}-{min(n, at + 64 * MIB) - 1}')['Body'].read()
            theirs = time.monotonic() - began
        with line_of(ms) as line, b.Mount(b.ZEROFS, 'mount', '-f', line.url + 'bucket/model.safetensors') as m:
            ours = read_all([os.path.join(m.at, 'w.u8')])
        b.ratio(f'{ms:g} ms: beside get_object of boto3, ranges of 64 MiB in turn', [theirs / ours])
    server.sent()


class Rclone:
    """rclone's mount of what an HTTP server lists, as it comes: every read goes to the server."""

    def __init__(self, tmp, url):
        self.at = os.path.join(tmp, 'rclone')
        os.makedirs(self.at, exist_ok=True)
        self.run = subprocess.Popen(['rclone', 'mount', ':http:', self.at, '--http-url', url, '--read-only', '--config', '/dev/null', '--cache-dir',
                                     os.path.join(tmp, 'rclone.cache')], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not os.path.ismount(self.at):
            if self.run.poll() is not None or time.monotonic() > end:
                self.run.kill()
                raise RuntimeError('rclone does not mount')
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(['fusermount3', '-uz', self.at], check=False)
        self.run.terminate()
        self.run.wait()


def rclone(b, server, line_of, n):
    """One file of n bytes from the beginning to the end, through both mounts."""
    if not shutil.which('rclone'):
        print('  beside rclone mount: left out, it is not installed')
        return
    for ms in DELAYS:
        with line_of(ms) as line, Rclone(b.tmp, line.url) as m:
            theirs = read_all([os.path.join(m.at, 'bucket/model.safetensors')])
        with line_of(ms) as line, b.Mount(b.ZEROFS, 'mount', '-f', line.url + 'bucket/model.safetensors') as m:
            ours = read_all([os.path.join(m.at, 'w.u8')])
        b.ratio(f'{ms:g} ms: a file of {n // MIB} MiB, beside rclone mount', [theirs / ours])
        b.tell('', f'{n / ours / 1e6:6.0f} MB/s, rclone {n / theirs / 1e6:.0f}')
    server.sent()


def converter(b, line_of, root):
    """What is done today, zero_to_fp32 on rclone's mount, beside a mount of the same address: the first tensor, and all."""
    tools.B = b
    python = tools.interpreter()
    if not python or not tools.has(python, 'deepspeed') or not shutil.which('rclone'):
        print('  beside zero_to_fp32 on rclone mount: left out, DeepSpeed or rclone is not installed')
        return
    out = os.path.join(b.tmp, 'out')
    os.makedirs(out, exist_ok=True)
    tools.make('zero3', python, os.path.join(root, 'zero3'))
    for ms in DELAYS:
        with line_of(ms) as line, Rclone(b.tmp, line.url) as m:
            theirs = tools.Cost(python, '-c', tools.PROGRAMS['zero3']['zero_to_fp32, lazy'], os.path.join(m.at, 'zero3'), out)
        with line_of(ms) as line:
            began = time.monotonic()
            with b.Mount(b.ZEROFS, 'mount', '-f', line.url + 'zero3/') as m:
                files = tools.tensors(m.at)
                read_all(files[:1])
                first = time.monotonic() - began
                read_all(files[1:])
                whole = time.monotonic() - began
        b.ratio(f'{ms:g} ms: first tensor, beside zero_to_fp32 (lazy) on rclone mount', [theirs.first / first])
        b.tell('', f'{first:6.2f} s, {theirs.first:.2f} s')
        b.ratio('  all tensors', [theirs.all / whole])
        b.tell('', f'{whole:6.2f} s, {theirs.all:.2f} s')


def http2(b, root):
    """curl alone: 16 connections of HTTP/1.1 beside one of HTTP/2, over TLS, for much and for little at a time."""
    tls = os.path.join(b.tmp, 'tls')
    if not shutil.which('openssl') or 'HTTP2' not in b.run('curl', '--version'):
        print('  HTTP/2: left out, there is no openssl, or curl speaks none')
        return
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', tls + '.key', '-out', tls + '.pem', '-days', '2',
                    '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'], check=True, stderr=subprocess.DEVNULL)
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    server = Server(b.tmp, root, 'nginx2', f'listen 127.0.0.1:{port} ssl http2; ssl_certificate {tls}.pem; ssl_certificate_key {tls}.key; '
                    'http2_max_concurrent_streams 256; http2_max_requests 1000000;')
    tool = os.path.join(os.environ['top_builddir'], 'tests/bench/delay')
    jobs = {'16 x 64 MiB': [(i * 64 * MIB, 64 * MIB) for i in range(16)], '640 x 64 KiB': [(i * MIB, 1 << 16) for i in range(640)]}
    try:
        for ms in DELAYS:
            for name, job in jobs.items():
                took = {}
                for version, most in (('http1.1', CONNECTIONS), ('http2', 100)):
                    with Line(tool, port, ms, RATE) as line:
                        url = line.url.replace('http:', 'https:') + 'model.safetensors'
                        with open(tls + '.cfg', 'w') as f:
                            f.write('next\n'.join(f'url="{url}"\nrange="{at}-{at + n - 1}"\noutput="/dev/null"\nsilent\nfail\ncacert="{tls}.pem"\n{version}\n'
                                                  for at, n in job))
                        began = time.monotonic()
                        subprocess.run(['curl', '--parallel', '--parallel-max', str(most), '-K', tls + '.cfg'] +
                                       (['--parallel-immediate'] if version == 'http1.1' else []),
                                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        took[version] = time.monotonic() - began
                b.ratio(f'{ms:g} ms, {name}: HTTP/2 beside 16 connections of HTTP/1.1 (curl)', [took['http1.1'] / took['http2']])
    finally:
        server.stop()


def part(b):
    """b: the module bench."""
    if 'without libcurl' in subprocess.run([b.ZEROFS, 'ls', 'http://127.0.0.1:1/'], check=False, capture_output=True, text=True).stderr:
        raise RuntimeError('built without libcurl')
    tool = os.path.join(os.environ['top_builddir'], 'tests/bench/delay')
    root = os.path.join(b.tmp, 'www')
    os.makedirs(os.path.join(root, 'many'))
    only = os.environ.get('ONLY', 'mount read boto rclone').split()
    one, each = 1024 * MIB, 64 * MIB
    plain(os.path.join(root, 'model.safetensors'), one)
    names = [f'many/model-{i + 1:05}-of-00016.safetensors' for i in range(16)]
    for i, f in enumerate(names):
        text = json.dumps({f'w{i:02}': {'dtype': 'U8', 'shape': [each], 'data_offsets': [0, each]}}).encode()
        with open(os.path.join(root, f), 'wb') as out:
            out.write(struct.pack('<Q', len(text)) + text)
            out.truncate(8 + len(text) + each)
    with open(os.path.join(root, 'many/model.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': {}, 'weight_map': {f'w{i:02}': os.path.basename(x) for i, x in enumerate(names)}}, f)
    b.run(sys.executable, os.path.join(b.SRC, 'tests/support/mkdeepspeed.py'), os.path.join(root, '70b'), 'zero3', '--ranks', RANKS,
          '--layers', 80, '--hidden', 8192, '--ffn', 28672, '--kv', 1024, '--vocab', 32000)
    server = Server(b.tmp, root)
    try:
        if 'mount' in only:
            print(f'  a 70B save of ZeRO-3 on {RANKS} ranks (holes)')
            mounting(b, server, tool, '70b')
        if 'read' in only:
            sizes = {('model.safetensors',): one, tuple(names): each}
            throughput(b, server, lambda ms: Line(tool, server.port, ms, RATE), sizes, f', {RATE / 1e6:.0f} MB/s')
        os.mkdir(os.path.join(root, 'bucket'))
        plain(os.path.join(root, 'bucket/model.safetensors'), 256 * MIB)
        for name, beside in (('boto', boto), ('rclone', rclone)):
            if name in only:
                beside(b, server, lambda ms: Line(tool, server.port, ms, RATE), 256 * MIB)
        if 'convert' in only:
            converter(b, lambda ms: Line(tool, server.port, ms, RATE), root)
    finally:
        server.stop()
    if 'http2' in only:
        http2(b, root)
