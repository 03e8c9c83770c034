# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in stores that others wrote: moto's, which checks signatures and permissions, s3rver of npm (which does not), and the stand-in for
the Hugging Face hub beside huggingface_hub itself.  What a mount of each shows is, byte for byte, what one of the directory shows."""
import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "remote"))
from hub import COMMIT, Hub, hub_of
from mount import Mount
from nginx import free_port
from tap import Skip

DATA = os.path.realpath(os.path.join(HERE, "..", "data"))
# Of each family and each way to save, as many as show its kinds of files.
SETS = ["dcp/torch2.13/fsdp2_w2_adamw", "deepspeed/zero2_w2", "deepspeed/ds0_19_8_zero2_tag_slash_w2", "deepspeed/pp2_zero1", "deepspeed/zero3_w2",
        "hf/bin_sharded_llama", "hf/transformers5.23.0_gpt2_sharded", "hf/torchsave_rezipped_deflate", "megatron/megatron_zarr_core_v0.4.0",
        "megatron/run_folder_core_0.19.2", "megatron/pypi_0.16.1_legacy_tp2pp2_glu", "olmo/full", "olmo/torch2.14/fsdp_local"]


def clean(**more):
    """An environment that names no account but these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HF_", "XDG_CACHE_HOME")) and not k.lower().endswith("_proxy")}
    return {**kept, "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", **more}


def digests(point):
    found = {}
    for folder, dirs, names in os.walk(point):
        if folder == point:
            dirs[:] = [d for d in dirs if d != ".zerofs"]
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, point)] = hashlib.file_digest(f, "sha256").hexdigest()
    return found


def sets():
    found = [s for s in SETS if os.path.isdir(os.path.join(DATA, s))]
    assert len({s.split("/")[0] for s in found}) == 5, f"a family is missing: {found}"
    return found


def same(program, scratch, address, local, env):
    with Mount(program, address, [], scratch, env) as there, Mount(program, local, [], scratch, env) as here:
        want, found = digests(here), digests(there)
    differ = sorted(k for k in want.keys() | found.keys() if want.get(k) != found.get(k))
    assert want and not differ, f"{address}: {differ[:20]}"
    return len(want)


def upload(client, bucket):
    """All files of the sets; gives how many."""
    client.create_bucket(Bucket=bucket)
    n = 0
    for s in sets():
        for folder, _, names in os.walk(os.path.join(DATA, s)):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    client.put_object(Bucket=bucket, Key=os.path.relpath(path, DATA), Body=f)
                n += 1
    return n


def refused(program, address, env, code, *parts):
    got = subprocess.run([program, "info", address], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == code and got.stderr.count("\n") == 1 and all(p in got.stderr for p in parts), (address, got)


# ---- moto --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def moto_server():
    """(url, client that made the buckets, {name: environment}) of a store that checks who asks, and for what."""
    try:
        import boto3
        import flask
        import moto.settings
        from moto.iam.access_control import S3IAMRequest
        from moto.server import ThreadedMotoServer
    except ImportError as e:
        raise Skip(f"moto could not be installed: {e}") from e

    class Request(S3IAMRequest):
        """moto 5.2.1 signs the address after Flask has decoded and encoded it again, which botocore's own requests fail for a key with '='
        or a prefix with '/'; what came over the wire is what was signed."""

        def _create_aws_request(self):
            self._path = flask.request.environ["REQUEST_URI"]
            return super()._create_aws_request()

    moto.iam.access_control.S3IAMRequest = Request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(url + "/moto-api/reset", data=b"").close()

    def client(service, key):
        return boto3.client(service, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key["AccessKeyId"],
                            aws_secret_access_key=key["SecretAccessKey"])

    nobody = {"AccessKeyId": "x", "SecretAccessKey": "x"}
    iam, users = client("iam", nobody), {}
    for name, actions in (("owner", ["s3:*"]), ("reader", ["s3:GetObject", "s3:ListBucket"]), ("getter", ["s3:GetObject"]), ("nobody", ["sqs:*"])):
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}))
        users[name] = iam.create_access_key(UserName=name)["AccessKey"]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    was, moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = moto.settings.INITIAL_NO_AUTH_ACTION_COUNT, 0
    try:
        yield client("s3", users["owner"]), {n: clean(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID=k["AccessKeyId"], AWS_SECRET_ACCESS_KEY=k["SecretAccessKey"])
                                             for n, k in users.items()}
    finally:
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = was
        moto.iam.access_control.S3IAMRequest = S3IAMRequest
        server.stop()


def moto_gives_the_same(program, scratch):
    with moto_server() as (client, env):
        upload(client, "bucket")
        for s in sets():
            same(program, scratch, f"s3://bucket/{s}", os.path.join(DATA, s), env["reader"])


def moto_asks_who_it_is(program, scratch):
    with moto_server() as (client, env):
        upload(client, "bucket")
        where = "s3://bucket/deepspeed/zero2_w2"
        refused(program, where, {**env["reader"], "AWS_SECRET_ACCESS_KEY": "other"}, 5, "does not accept the signature")
        refused(program, where, {**env["reader"], "AWS_ACCESS_KEY_ID": "AKIAOTHER"}, 5, "does not know the access key")
        refused(program, where, env["nobody"], 4, "may not list the bucket")
        refused(program, "s3://other/x", env["reader"], 5, "no bucket other")
        # Who may read and not list.
        for s in ("deepspeed/zero2_w2", "dcp/torch2.13/fsdp2_w2_adamw", "hf/transformers5.23.0_gpt2_sharded"):
            same(program, scratch, f"s3://bucket/{s}", os.path.join(DATA, s), env["getter"])


# ---- s3rver ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def s3rver(scratch):
    try:
        import boto3
    except ImportError as e:
        raise Skip("boto3 could not be installed") from e
    path = os.environ.get("ZF_S3RVER", "")
    if not os.access(path, os.X_OK):
        raise Skip("s3rver of npm could not be installed")
    port = free_port()
    child = subprocess.Popen([path, "-d", os.path.join(scratch, "s3rver"), "-a", "127.0.0.1", "-p", str(port), "-s"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        answers(url, child)
        yield (boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="S3RVER", aws_secret_access_key="S3RVER"),
               clean(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER"))
    finally:
        child.terminate()
        child.wait()


def answers(url, child):
    until = time.monotonic() + 60
    while time.monotonic() < until and child.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(.05)
    raise Skip("s3rver does not start here")


def s3rver_gives_the_same(program, scratch):
    with s3rver(scratch) as (client, env):
        upload(client, "bucket")
        for s in sets():
            # It does not list a directory that holds nothing but directories (lib/stores/filesystem.js, listObjects of 3.7.1).
            if all(names for _, _, names in os.walk(os.path.join(DATA, s))):
                same(program, scratch, f"s3://bucket/{s}", os.path.join(DATA, s), env)


# ---- the hub -----------------------------------------------------------------------------------------

LIBRARY = """
import json, os, sys
import huggingface_hub as h
files = sorted(f.path for f in h.HfApi().list_repo_tree("o/r", revision=sys.argv[2], recursive=False) if hasattr(f, "size"))
print(json.dumps({"commit": h.HfApi().model_info("o/r", revision=sys.argv[1]).sha, "files": files, "token": h.get_token(),
                  "urls": [h.hf_hub_url("o/r", f, revision=sys.argv[2]) for f in files]}))
"""


def the_hub_as_its_library(program, scratch):
    """Revision, token and addresses of files: as huggingface_hub resolves them from the same environment."""
    here = os.path.join(DATA, "hf/bin_sharded_llama")
    with hub_of(here) as hub:
        Hub.TOKEN = "hf_x"
        for d in ("home", "home/.cache/huggingface", "other"):
            os.makedirs(os.path.join(scratch, d), exist_ok=True)
        for path in ("home/.cache/huggingface/token", "other/token"):
            with open(os.path.join(scratch, path), "w", encoding="utf-8") as f:
                f.write(" hf_x \n")
        home, other = os.path.join(scratch, "home"), os.path.join(scratch, "other")
        tokens = [{"HF_TOKEN": "hf_x"}, {"HF_TOKEN": "hf_x\n"}, {"HF_TOKEN_PATH": other + "/token"}, {"HF_HOME": other}, {"HOME": home},
                  {"HUGGING_FACE_HUB_TOKEN": "hf_x"}, {"XDG_CACHE_HOME": home + "/.cache"}]
        for number, more in enumerate(tokens):
            revision = ("main", "v1/x")[number % 2]
            env = clean(HF_ENDPOINT=hub.url.rstrip("/"), **more)
            asked = subprocess.run([sys.executable, "-c", LIBRARY, revision, COMMIT], env=env, capture_output=True, text=True, timeout=100,
                                   check=False)
            if "No module named" in asked.stderr:
                raise Skip("huggingface_hub could not be installed")
            assert asked.returncode == 0, (more, asked.stderr)
            said = json.loads(asked.stdout)
            assert said["token"] == "hf_x" and said["commit"] == COMMIT, said
            assert said["files"] == sorted(n for n in os.listdir(here) if os.path.isfile(os.path.join(here, n))), said
            with hub.lock:
                hub.log.clear()
            at = "" if revision == "main" else "@" + revision.replace("/", "%2F")
            got = subprocess.run([program, "info", "-v", "hf://o/r" + at], env=env, capture_output=True, text=True, timeout=60, check=False)
            assert got.returncode == 0 and COMMIT in got.stdout, (more, got)
            urls = {w.rstrip(":") for line in got.stderr.splitlines() for w in line.split() if "/resolve/" in w}
            assert urls and urls <= set(said["urls"]), (urls, said["urls"])
        same(program, scratch, "hf://o/r", here, clean(HF_ENDPOINT=hub.url, HF_TOKEN="hf_x"))
        assert Hub.seen and not any(Hub.seen), "the store saw the token"


def run(tap, program, scratch):
    for judge in (moto_gives_the_same, moto_asks_who_it_is, s3rver_gives_the_same, the_hub_as_its_library):
        folder = os.path.join(scratch, judge.__name__)
        os.mkdir(folder)
        tap.run(judge.__name__.replace("_", " "), judge, program, folder)
