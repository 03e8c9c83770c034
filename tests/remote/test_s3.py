# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in buckets: every fixture gives the same digests as from disk, signed and checked by botocore;
credentials from everywhere, renewed in time; what stores refuse, in one sentence; no credential anywhere."""
import glob
import hashlib
import os
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import zlib

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "../support")]
from aws_dump import CLEAN  # noqa: E402
from mounts import mount_point  # noqa: E402
from s3server import Refused, Server, botocore  # noqa: E402
from tap import Skip, main  # noqa: E402

ZEROFS = os.environ["ZEROFS"]
DATA = os.environ["ZF_DATA"]
SMALL = "deepspeed/zero2_w2"
KEY = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "sEcReT/key+of=the/tests"}
SECRETS = [KEY["AWS_SECRET_ACCESS_KEY"], "secret1", "secretIMDS", "secretECS", "secretSTS", "t0ken+", "imds-token", "container-token",
           "web-token", "ya29.", "0f-a-task", "Signature=", "hunter2"]


def zerofs(*args, env=None, seconds=60):
    """Runs it; nothing it says may hold a credential."""
    try:
        base = dict(CLEAN, HOME="/nonexistent", XDG_CACHE_HOME="/dev/null", AWS_EC2_METADATA_DISABLED="true", NO_GCE_CHECK="true")
        done = subprocess.run([ZEROFS, *args], env=dict(base, **{k: v for k, v in (env or {}).items() if v is not None}),
                              capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as e:
        raise AssertionError(f"{args} took longer than {seconds} s: {e.stderr}") from e
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if args[0] != "cat":
        for secret in SECRETS:
            assert secret not in said, f"{secret} is said: {said}"
    return done


def env_of(server, **more):
    return dict(dict(KEY, AWS_ENDPOINT_URL=server.url), **more)


def good(*args, **kw):
    done = zerofs(*args, **kw)
    assert done.returncode == 0, f"{args}: {done.returncode} {done.stderr.decode()}"
    return done.stdout


def refused(why, *args, code=5, **kw):
    done = zerofs(*args, **kw)
    said = done.stderr.decode()
    assert done.returncode == code and why in said, f"{args}: {done.returncode} instead of {code}, {why!r} in {said!r}?"
    assert said.count("\n") == 1, f"no single sentence: {said}"
    return said


def need():
    if "built without" in zerofs("info", "s3://b/x", env={"AWS_NO_SIGN_REQUEST": "1", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}).stderr.decode():
        raise Skip("built without libcurl or expat")
    if botocore is None:
        raise Skip("python3-botocore is not installed")


def listing(*args, **kw):
    return good("ls", "-R", "-l", *args, **kw)


def digests(where, env=None):
    """Of all that the tree lists, by an export of it."""
    with tempfile.TemporaryDirectory() as d:
        names = [n for n in good("ls", "-R", where, env=env).decode().splitlines() if n]
        done = zerofs("export", "-q", where, *sorted({n.split("/", 1)[0] for n in names}), d, env=env, seconds=120)
        sums = {}
        for path in glob.glob(d + "/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    sums[os.path.relpath(path, d)] = hashlib.sha256(f.read()).hexdigest()
        return done.returncode, sums


# ---- bytes --------------------------------------------------------------------------------------------

FIXTURES = ["deepspeed/zero2_w2", "deepspeed/zero3_w2", "deepspeed/ds0_19_8_zero2_tag_slash_w2", "deepspeed/pp2_zero1", "dcp/torch2.14", "dcp/torch1.13",
            "hf/bin_sharded_llama", "hf/torchsave_rezipped_deflate", "hf/transformers5.23.0_gpt2_sharded", "megatron/megatron_zarr_core_v0.4.0",
            "megatron/run_folder_core_0.19.2", "megatron/pypi_0.16.1_legacy_tp2pp2_glu", "olmo/full", "olmo/torch2.14",
            "olmo/synthetic_local_torch2.0_w3"]


def fixtures():
    """The ones named here, or with ZEROFS_TEST_ALL all."""
    need()
    names = sorted(os.path.relpath(p, DATA) for p in glob.glob(DATA + "/*/*")) if os.environ.get("ZEROFS_TEST_ALL") else FIXTURES
    compared = 0
    with Server({"b": DATA}) as server:
        for name in names:
            disk = zerofs("ls", "-R", os.path.join(DATA, name))
            if disk.returncode:
                there = zerofs("ls", "-R", f"s3://b/{name}", env=env_of(server))
                assert there.returncode == disk.returncode, f"{name}: {disk.stderr} from disk, {there.stderr} from the bucket"
                continue
            want, found = digests(os.path.join(DATA, name)), digests(f"s3://b/{name}", env_of(server))
            assert want == found and want[1], f"{name}: {want[0]} {found[0]} {set(want[1].items()) ^ set(found[1].items())}"
            compared += len(want[1])
        assert not [r for r in server.requests if r[0] not in ("GET", "HEAD")], "the bucket was written to"
    assert compared > 100, compared


def keys_that_want_encoding():
    need()
    odd = "a=b +c*d@e:f%g%2Fh/ä 日本/~(x)!'&?#"
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(os.path.join(DATA, SMALL), os.path.join(d, odd))
        with Server({"bucket": d}) as server:
            for more in ({}, {"AWS_REGION": "eu-central-1"}):
                server.region = more.get("AWS_REGION", "us-east-1")
                assert listing(f"s3://bucket/{odd}", env=env_of(server, **more)) == listing(os.path.join(DATA, SMALL))


def virtual_hosts():
    need()
    with Server({"bucket": DATA}) as server, tempfile.TemporaryDirectory() as home:
        os.mkdir(home + "/.aws")
        with open(home + "/.aws/config", "w", encoding="utf-8") as f:
            f.write(f"[default]\nendpoint_url = http://localhost:{server.port}\ns3 =\n  addressing_style = virtual\n")
        done = zerofs("ls", "-R", "-l", f"s3://bucket/{SMALL}", env=dict(KEY, HOME=home))
        if "resolve" in done.stderr.decode():
            raise Skip("bucket.localhost is not resolved here")
        assert done.returncode == 0 and done.stdout == listing(os.path.join(DATA, SMALL)), done.stderr
        assert all(r[2]["host"] == f"bucket.localhost:{server.port}" for r in server.requests)


class Proxy(socketserver.ThreadingTCPServer):
    """Writes down the first host that is asked for, and lets nobody through."""
    daemon_threads = allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.host, self.asked = None, threading.Event()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class ProxyHandler(socketserver.StreamRequestHandler):
    def handle(self):
        what = self.rfile.readline().decode().split()
        while self.rfile.readline().strip():
            pass
        if len(what) > 1 and not self.server.host:
            self.server.host = what[1] if what[0] == "CONNECT" else what[1].split("/")[2]
            self.server.asked.set()
        self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def hosts():
    """Which host a bucket has: a name of its own where no setting says otherwise, but over https none with dots, which no certificate fits."""
    need()
    amazon = "s3.eu-west-1.amazonaws.com:443"
    rows = [("bucket", None, None, "bucket." + amazon), ("a.b.c", None, None, amazon), ("bucket", None, "path", amazon), ("UPPER", None, None, amazon),
            ("bucket", "https://store.example", None, "store.example:443"), ("bucket", "https://store.example", "virtual", "bucket.store.example:443"),
            ("a.b.c", "https://store.example", "virtual", "store.example:443"), ("a.b.c", "http://store.example", "virtual", "a.b.c.store.example"),
            ("a..c", "http://store.example", "virtual", "store.example"), ("-ab", "http://store.example", "virtual", "store.example"),
            ("ab", "http://store.example", "virtual", "store.example"), ("a" * 63, "http://store.example", "virtual", "a" * 63 + ".store.example"),
            ("a" * 64, "http://store.example", "virtual", "store.example")]
    for bucket, endpoint, style, host in rows:
        with Proxy() as proxy, tempfile.TemporaryDirectory() as home:
            with open(home + "/config", "w", encoding="utf-8") as f:
                f.write("[default]\n" + (f"s3 =\n  addressing_style = {style}\n" if style else ""))
            url = f"http://127.0.0.1:{proxy.server_address[1]}"
            env = dict(CLEAN, **KEY, HOME=home, AWS_CONFIG_FILE=home + "/config", AWS_REGION="eu-west-1", https_proxy=url, http_proxy=url)
            env.update({"AWS_ENDPOINT_URL_S3": endpoint} if endpoint else {})
            with subprocess.Popen([ZEROFS, "ls", "-R", f"s3://{bucket}/x"], env=env, stderr=subprocess.DEVNULL) as ls:
                proxy.asked.wait(30)
                ls.kill()  # it would try again for a while
            assert proxy.host == host, (bucket, endpoint, style, proxy.host)


def pages():
    need()
    with Server({"b": DATA}) as server:
        server.page = 1
        assert listing(f"s3://b/{SMALL}", env=env_of(server)) == listing(os.path.join(DATA, SMALL))
        assert any("continuation-token=next%20" in r[1] for r in server.requests)


def one_file():
    need()
    name = "hf/transformers5.23.0_llama_tied_bf16_single/model.safetensors"
    with Server({"b": DATA}) as server:
        assert listing(f"s3://b/{name}", env=env_of(server)) == listing(os.path.join(DATA, name))


def other_schemes():
    need()
    want = listing(os.path.join(DATA, SMALL))
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as home:
        os.mkdir(home + "/.aws")
        with open(home + "/.aws/credentials", "w", encoding="utf-8") as f:
            f.write(f"[mine]\naws_access_key_id = AKIDTEST\naws_secret_access_key = {KEY['AWS_SECRET_ACCESS_KEY']}\n")
        wrong = {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "hunter2", "HOME": home}
        for scheme in ("r2", "weka"):
            server.region = "auto" if scheme == "r2" else "us-east-1"
            name = scheme.upper()
            env = dict(wrong, **{f"{name}_PROFILE": "mine", f"{name}_ENDPOINT_URL": server.url})
            assert listing(f"{scheme}://b/{SMALL}", env=env) == want
            refused(f"{name}_ENDPOINT_URL is not set", "ls", "-R", f"{scheme}://b/{SMALL}", env=wrong, code=2)
        assert listing(f"s3://b/{SMALL}", env=dict(wrong, S3_PROFILE="mine", AWS_ENDPOINT_URL_S3=server.url)) == want
        refused("no profile", "ls", "-R", f"s3://b/{SMALL}", env=dict(wrong, S3_PROFILE="gone"), code=2)


# Saves of which each file is named by another one, or has a number.
UNLISTED = ["deepspeed/zero2_w2", "deepspeed/pp2_zero1", "dcp/torch2.13/fsdp2_w2_adamw", "hf/transformers5.23.0_gpt2_sharded", "hf/bin_sharded_llama",
            "hf/transformers5.23.0_llama_tied_bf16_single"]


# ---- credentials --------------------------------------------------------------------------------------

def public_buckets():
    need()
    with Server({"b": DATA}) as server:
        server.public.add("b")
        assert listing(f"s3://b/{SMALL}", env={"AWS_ENDPOINT_URL": server.url})
        assert listing(f"s3://b/{SMALL}", env=env_of(server, AWS_NO_SIGN_REQUEST="YES"))
        assert not [r for r in server.requests if "authorization" in r[2]]
        server.public.clear()
        refused("no credentials were found", "ls", "-R", f"s3://b/{SMALL}", env={"AWS_ENDPOINT_URL": server.url}, code=4)


def requester_pays():
    need()
    with Server({"b": DATA}) as server:
        server.payers.add("b")
        assert listing(f"s3://b/{SMALL}", env=env_of(server, AWS_REQUEST_PAYER="requester"))
        refused("Requester pays", "ls", "-R", f"s3://b/{SMALL}", env=env_of(server), code=4)


def services():
    """Instance, container, STS by web identity and by a chain of roles."""
    need()
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as home:
        server.serve_instance()
        server.serve_container()
        server.serve_sts()
        with open(home + "/token", "w", encoding="utf-8") as f:
            f.write("web-token")
        with open(home + "/auth", "w", encoding="utf-8") as f:
            f.write("container-token")
        os.mkdir(home + "/.aws")
        with open(home + "/.aws/config", "w", encoding="utf-8") as f:
            f.write(f"""[profile first]
aws_access_key_id = AKIDTEST
aws_secret_access_key = {KEY['AWS_SECRET_ACCESS_KEY']}
[profile second]
role_arn = arn:aws:iam::1:role/second
source_profile = first
[profile third]
role_arn = arn:aws:iam::1:role/third
source_profile = second
external_id = ext
[profile web]
role_arn = arn:aws:iam::1:role/web
web_identity_token_file = {home}/token
role_session_name = me
[profile instance]
role_arn = arn:aws:iam::1:role/instance
credential_source = Ec2InstanceMetadata
""")
        base = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ENDPOINT_URL_STS": server.url + "/sts/", "HOME": home}
        imds = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}
        ecs = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container/0f-a-task"}
        cases = {"IMDS": imds, "ECS": dict(ecs, AWS_CONTAINER_AUTHORIZATION_TOKEN="container-token"),
                 "ECS ": dict(ecs, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=home + "/auth"), "STS": {"AWS_PROFILE": "third"},
                 "STS ": {"AWS_PROFILE": "web"}, "STS  ": dict(imds, AWS_PROFILE="instance"),
                 "STS   ": {"AWS_WEB_IDENTITY_TOKEN_FILE": home + "/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}}
        want = listing(os.path.join(DATA, SMALL))
        for kind, env in cases.items():
            with server.lock:
                server.requests.clear()
            assert listing(f"s3://b/{SMALL}", env=dict(base, **env)) == want, kind
            good("info", "-v", f"s3://b/{SMALL}", env=dict(base, **env))
            signed = [r[2]["authorization"] for r in server.requests if r[1].startswith("/b/")]
            assert signed and all(f"Credential=ASIATEST{kind.strip()}" in s for s in signed), (kind, signed[:2])
        refused("401", "ls", "-R", f"s3://b/{SMALL}", env=dict(base, **ecs, AWS_CONTAINER_AUTHORIZATION_TOKEN="hunter2"))
        refused("must be https", "ls", "-R", f"s3://b/{SMALL}", env=dict(base, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.com/x"), code=2)


def renewed_before_they_run_out():
    """Credentials that live two seconds: each is replaced before the store would refuse it."""
    need()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as mnt, mount_point(mnt):
        server.serve_container(seconds=2)
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container/",
               "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-token"}
        good("mount", "-o", "cache_mem=1", f"s3://b/{SMALL}", mnt, env=env)
        try:
            command_lines_and_attributes(mnt)
            names = [n for n in sorted(os.listdir(mnt)) if n.endswith(".f32")]
            end = time.monotonic() + 4
            while time.monotonic() < end and not {"ASIATESTECS2", "ASIATESTECS3"} <= set(server.keys):
                for name in names:
                    with open(os.path.join(mnt, name), "rb") as f:
                        f.read()
                for name in names:  # what the kernel keeps would ask nobody
                    fd = os.open(os.path.join(mnt, name), os.O_RDONLY)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(fd)
                # Those handed out earlier are refused from now on, as they are when their time is over.
                for key in [k for k in server.keys if k.startswith("ASIATESTECS")][:-1]:
                    server.expired.add(key)
            assert "ASIATESTECS2" in server.keys, list(server.keys)
        finally:
            zerofs("umount", mnt)


def renewed_in_their_last_quarter():
    """Credentials that live ten seconds are replaced while they are good, and not before the half of it is over."""
    need()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as mnt, mount_point(mnt):
        server.serve_container(seconds=10)
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container/",
               "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-token"}
        begin = time.time()
        good("mount", "-o", "cache_mem=1", f"s3://b/{SMALL}", mnt, env=env)
        try:
            files = [os.path.join(mnt, n) for n in os.listdir(mnt) if n.endswith(".f32")]
            while "ASIATESTECS2" not in server.keys and time.time() < begin + 14:
                for name in files:
                    with open(name, "rb") as f:
                        f.read()
                        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert begin + 5 < time.time() < begin + 12 and "ASIATESTECS2" in server.keys, (time.time() - begin, list(server.keys))
        finally:
            zerofs("umount", mnt)


def command_lines_and_attributes(mnt):
    """Of all processes that belong to the mount, and of its files."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                text = f.read()
        except OSError:
            continue
        if mnt.encode() in text:
            assert not [s for s in SECRETS if s.encode() in text], text
    files = glob.glob(mnt + "/*") + glob.glob(mnt + "/.zerofs/*")
    for path in files:
        for name in os.listxattr(path):
            value = os.getxattr(path, name).decode("utf-8", "replace")
            assert not [s for s in SECRETS if s in value], (path, name, value)
    for path in glob.glob(mnt + "/.zerofs/*"):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                text = f.read()
            assert not [s for s in SECRETS if s.encode() in text], path


def nothing_secret_in_the_cache():
    """What is kept on disk holds addresses and bytes of objects, and is its owner's alone."""
    need()
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as d:
        server.serve_container()
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container/0f-a-task",
               "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-token"}
        good("cat", "-o", f"cache_dir={d}/c", f"s3://b/{SMALL}", "model.safetensors", env=env)
        good("cat", "-o", f"cache_dir={d}/c", f"s3://b/{SMALL}", "model.safetensors", env=env_of(server))
        kept = 0
        for path in glob.glob(d + "/c/**", recursive=True):
            assert os.stat(path).st_mode & 0o077 == 0, path
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    text = f.read()
                kept += len(text)
                assert not [x for x in [*SECRETS, "ASIATEST", "AKIDTEST"] if x.encode() in text + path.encode()], path
        assert kept > 10000 and b"rank_1" in subprocess.run([ZEROFS, "cache", "ls", d + "/c"], capture_output=True, check=True).stdout, kept


def expired_once():
    """The store refuses a key of the instance: a new one is fetched, and the request sent again."""
    need()
    with Server({"b": DATA}) as server:
        server.serve_instance()
        server.expired.add("ASIATESTIMDS1")
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}
        assert listing(f"s3://b/{SMALL}", env=env)
        assert "ASIATESTIMDS2" in server.keys


# ---- what goes wrong ----------------------------------------------------------------------------------

def refusals():
    need()
    with Server({"b": DATA, "c": {}}) as server:
        path = f"s3://b/{SMALL}"
        refused("no bucket nobucket", "ls", "-R", "s3://nobucket/x", env=env_of(server))
        refused("no objects below", "ls", "-R", "s3://b/nothing/here", env=env_of(server))
        refused("does not accept the signature", "ls", "-R", path, env=env_of(server, AWS_SECRET_ACCESS_KEY="hunter2"))
        refused("does not know the access key", "ls", "-R", path, env=env_of(server, AWS_ACCESS_KEY_ID="nobody"))
        server.expired.add("AKIDTEST")
        refused("have expired", "ls", "-R", path, env=env_of(server))
        server.expired.clear()
        for address in ("s3://", "s3:///x", "s3://a b/x", "s3://b/../x", "s3://b/x/./y", "s3://user:hunter2@b/x"):
            done = zerofs("ls", "-R", address, env=env_of(server))
            assert done.returncode == 2 and "hunter2" not in done.stderr.decode(), (address, done)
        refused("AWS_SECRET_ACCESS_KEY is not", "ls", "-R", path, env=env_of(server, AWS_SECRET_ACCESS_KEY=None), code=2)


def clock_skew():
    need()
    with Server({"b": DATA}) as server:
        def wrong(handler, number):
            raise Refused(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.",
                          "<ServerTime>2020-01-01T00:00:00Z</ServerTime>")
        server.wrong = wrong
        refused("ahead of the server's. Set it", "ls", "-R", f"s3://b/{SMALL}", env=env_of(server))


def regions():
    """400 with the right region and 301 with it in a header are followed; what names none is said."""
    need()
    with Server({"b": DATA}) as server:
        server.region = "eu-west-3"
        assert listing(f"s3://b/{SMALL}", env=env_of(server))
        assert listing(f"s3://b/hf/transformers5.23.0_llama_tied_bf16_single/model.safetensors", env=env_of(server))

        def moved(handler, number):
            if "/eu-west-3/" not in handler.headers["Authorization"]:
                raise Refused(301, "PermanentRedirect", "Use another endpoint.", head={"x-amz-bucket-region": "eu-west-3"})
        server.wrong = moved
        assert listing(f"s3://b/{SMALL}", env=env_of(server))
        assert listing(f"s3://b/hf/transformers5.23.0_llama_tied_bf16_single/model.safetensors", env=env_of(server))

        def lost(handler, number):
            raise Refused(301, "PermanentRedirect", "Use another endpoint.")
        server.wrong = lost
        refused("Set AWS_REGION", "ls", "-R", f"s3://b/{SMALL}", env=env_of(server))

        def circle(handler, number):
            raise Refused(301, "PermanentRedirect", "x", head={"x-amz-bucket-region": f"eu-west-{number % 2 + 1}"})
        server.wrong = circle
        refused("Set AWS_REGION", "ls", "-R", f"s3://b/{SMALL}", env=env_of(server))

        def evil(handler, number):
            raise Refused(301, "PermanentRedirect", "x", head={"x-amz-bucket-region": "x.evil.example/"})
        server.wrong = evil
        refused("Set AWS_REGION", "ls", "-R", f"s3://b/{SMALL}", env=env_of(server))


def no_permission_to_list():
    """Who may read and not list: what metadata name is found without; a list of our own says all; else one sentence."""
    need()
    with tempfile.TemporaryDirectory() as d:
        for name in (*UNLISTED, "olmo/full"):
            shutil.copytree(os.path.join(DATA, name), os.path.join(d, name))
        good("index", os.path.join(d, "olmo/full"))
        with Server({"b": d}) as server:
            server.no_list.add("b")
            name = "hf/transformers5.23.0_llama_tied_bf16_single/model.safetensors"
            # One file is asked for alone: without the side files that a listing would show.
            there, here = (x.decode().splitlines() for x in (listing(f"s3://b/{name}", env=env_of(server)), listing(os.path.join(DATA, name))))
            assert there == [line for line in here if not line.endswith("config.json")] != here, (there, here)
            for name in UNLISTED:
                assert listing(f"s3://b/{name}", env=env_of(server)) == listing(os.path.join(DATA, name)), name
                assert digests(f"s3://b/{name}", env_of(server)) == digests(os.path.join(DATA, name)), name
            said = zerofs("ls", "-R", "s3://b/olmo/full", env=env_of(server)).stderr.decode()
            assert said == zerofs("ls", "-R", os.path.join(DATA, "olmo/full")).stderr.decode().replace(DATA, "s3://b"), said
            refused("may not list the bucket b; s3:ListBucket is needed", "ls", "-R", "s3://b/olmo", env=env_of(server), code=4)
            refused("may not list the bucket", "info", "s3://b/nothing/here", env=env_of(server), code=4)
            # One rank's file is not to be had: that is no smaller save.
            missing = glob.glob(d + "/deepspeed/zero2_w2/*/*rank_1*optim*")[0]
            os.unlink(missing)
            done = zerofs("ls", "-R", "s3://b/deepspeed/zero2_w2", env=env_of(server))
            assert done.returncode == 4 and b"zero_pp_rank" in done.stderr, done


def listings_that_lie():
    need()
    from test_s3_list import page
    with Server({"b": DATA}) as server:
        prefix = SMALL + "/"
        bad = {"endless": page([(prefix + "a", 1)], more="t"), "the name of a file": page([(prefix + "..", 1)]), "not below it": page([("x", 1)]),
               "document type": '<!DOCTYPE l [<!ENTITY a "b">]><ListBucketResult/>', "trailing slash": page([(prefix + "a", 1)], [prefix + "a/"]),
               "<html>": "<html></html>", "well-formed": "\0\1\2"}
        for why, body in bad.items():
            server.wrong = lambda h, n, b=body: h.answer(200, b.encode()) or True
            done = zerofs("ls", "-R", f"s3://b/{SMALL}", env=env_of(server))
            assert done.returncode in (4, 5) and why in done.stderr.decode(), (why, done)


def an_object_that_is_missing_or_replaced():
    need()
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(os.path.join(DATA, SMALL), d + "/run")
        with Server({"b": d}) as server:
            rank = glob.glob(d + "/run/*/*rank_1*optim*")[0]

            def gone(handler, number):
                if "rank_1" in handler.path and "list-type" not in handler.path:
                    raise Refused(404, "NoSuchKey", "The specified key does not exist.")
            server.wrong = gone
            done = zerofs("ls", "-R", "s3://b/run", env=env_of(server))
            assert done.returncode in (4, 5) and os.path.basename(rank) in done.stderr.decode(), done

            def replaced(handler, number):
                if "rank_1" in handler.path and "list-type" not in handler.path:
                    os.utime(rank, ns=(number, number * 10 ** 9))
            server.wrong = replaced
            done = zerofs("ls", "-R", "s3://b/run", env=env_of(server))
            assert done.returncode == 5 and "replaced" in done.stderr.decode(), done


def sizes_that_lie():
    """A listing's size is no more than a claim: what is there is no longer, nor shorter."""
    need()
    with Server({"b": DATA}) as server:
        was = server.walk
        for more in (1, -1, 10 ** 12, 2 ** 63 - 1):
            server.walk = lambda b, p, n=more: ((k, min(max(size + n, 1), 2 ** 63 - 1), e, t) for k, size, e, t in was(b, p))
            done = zerofs("cat", f"s3://b/{SMALL}", "model.safetensors", env=env_of(server))
            said = done.stderr.decode()
            assert done.returncode and not done.stdout and said.count("\n") == 1 and f"s3://b/{SMALL}" in said, (more, done)


def deleted_or_replaced_while_mounted():
    need()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    head = b'{"w": {"dtype": "U8", "shape": [4194304], "data_offsets": [0, 4194304]}}'
    first, second = (len(head).to_bytes(8, "little") + head + hashlib.shake_256(x).digest(4 << 20) for x in (b"1", b"2"))
    for then, numbers in ({}, (5, 116)), ({"run/model.safetensors": second}, (116,)):
        with Server({"b": {"run/model.safetensors": first}}) as server, tempfile.TemporaryDirectory() as mnt, mount_point(mnt):
            good("mount", "s3://b/run", mnt, env=env_of(server))
            try:
                with open(os.path.join(mnt, "w.u8"), "rb", buffering=0) as f:
                    assert os.pread(f.fileno(), 4096, 0) == first[-(4 << 20):][:4096]
                    server.buckets["b"] = then
                    try:
                        os.pread(f.fileno(), 4096, 3 << 20)
                        raise AssertionError("bytes of an object that is gone")
                    except OSError as e:
                        assert e.errno in numbers, (then.keys(), e)
                with open(os.path.join(mnt, ".zerofs/log"), encoding="utf-8") as f:
                    log = f.read()
                assert "s3://b/run/model.safetensors" in log, log
            finally:
                zerofs("umount", mnt)


def chaos_of(salt):
    """Faults that pass: the same digests, and no wrong byte."""
    need()
    with Server({"b": DATA}) as server:
        lock = threading.Lock()
        seen = {}

        def wrong(handler, number):
            with lock:
                tries = seen[handler.path, handler.headers.get("Range")] = seen.get((handler.path, handler.headers.get("Range")), 0) + 1
            if tries > 2 or handler.command != "GET":
                return False
            kind = zlib.crc32(f"{salt} {handler.path} {tries}".encode()) % 5
            if kind == 0:
                raise Refused(503, "SlowDown", "Please reduce your request rate.", head={"Retry-After": "0"})
            if kind == 1:
                raise Refused(500, "InternalError", "We encountered an internal error.")
            if kind == 2:
                handler.answer(200 if "list-type" in handler.path else 206, b"short", {"Content-Range": "bytes 0-9/10"}, length=10)
                handler.close_connection = True
                return "list-type" in handler.path or True
            if kind == 3:
                handler.close_connection = True
                return True
            return False
        server.wrong = wrong
        found = zerofs("ls", "-R", "-l", f"s3://b/{SMALL}", env=env_of(server))
        if found.returncode:  # a lying Content-Range is refused, not tried again
            assert "were asked for" in found.stderr.decode(), found.stderr
        else:
            want = listing(os.path.join(DATA, SMALL))
            assert found.stdout == want, f"{found.stdout.decode()}\ninstead of\n{want.decode()}\n{found.stderr.decode()}"


def a_pointer_file_that_cannot_be_read():
    """No other family may take the run's directory for its own."""
    need()
    with Server({"b": DATA}) as server:
        asked = []

        def wrong(handler, number):
            if not handler.path.endswith("/latest"):
                return False
            asked.append(number)
            if len(asked) > 1:  # later questions are answered
                return False
            handler.answer(206, b"short", {"Content-Range": "bytes 0-9/10"}, length=10)
            handler.close_connection = True
            return True
        server.wrong = wrong
        found = zerofs("ls", "-R", "-l", f"s3://b/{SMALL}", env=env_of(server))
        assert found.returncode == 5 and b"were asked for" in found.stderr and not found.stdout, found


def chaos():
    """Which requests fail is the same in every run."""
    for salt in range(8):
        chaos_of(salt)


TESTS = [fixtures, keys_that_want_encoding, virtual_hosts, hosts, pages, one_file, other_schemes, public_buckets, requester_pays, services,
         renewed_before_they_run_out, renewed_in_their_last_quarter, nothing_secret_in_the_cache, expired_once, refusals, clock_skew, regions, no_permission_to_list, listings_that_lie,
         an_object_that_is_missing_or_replaced, a_pointer_file_that_cannot_be_read, sizes_that_lie,
         deleted_or_replaced_while_mounted, chaos]
if __name__ == "__main__":
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
