# SPDX-License-Identifier: Apache-2.0
"""Signatures, settings and credentials against botocore, INI files against Python's configparser."""
import calendar
import configparser
import datetime
import itertools
import os
import shutil
import sys
import tempfile
import time

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "../support")]
from aws_dump import CLEAN, Dump, Refused  # noqa: E402
from tap import Skip, main  # noqa: E402

try:
    import botocore
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    import botocore.session
except ImportError:
    botocore = None

NOW = 1767323045


def need_botocore():
    if botocore is None:
        raise Skip("python3-botocore is not installed")


def need_endpoints():
    """Endpoints in the settings came with botocore 1.31; Debian 12 has 1.29."""
    need_botocore()
    if not hasattr(botocore.configprovider, "ConfiguredEndpointProvider"):
        raise Skip(f"botocore {botocore.__version__} does not know endpoint_url")


# ---- signatures ---------------------------------------------------------------------------------------

class Clock(datetime.datetime):
    """The time that botocore signs with: whichever of its ways of asking this version uses."""

    @classmethod
    def utcnow(cls):
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=NOW)

    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW, tz)


def botocore_signs(request, s3=True):
    botocore.auth.datetime = type("module", (), {"datetime": Clock, "timedelta": datetime.timedelta,
                                                 "timezone": datetime.timezone})
    if hasattr(botocore.auth, "get_current_datetime"):
        botocore.auth.get_current_datetime = lambda remove_tzinfo=True: Clock.utcnow()
    headers = dict(h.split(": ", 1) for h in request["headers"])
    aws = botocore.awsrequest.AWSRequest(method=request["method"], url=request["url"], headers=headers,
                                         data=request.get("body", ""))
    if not s3:  # S3's signer adds it by itself
        import hashlib
        aws.headers["X-Amz-Content-SHA256"] = hashlib.sha256(request.get("body", "").encode()).hexdigest()
    key = botocore.credentials.Credentials(request["id"], request["secret"], request.get("token"))
    kind = botocore.auth.S3SigV4Auth if s3 else botocore.auth.SigV4Auth
    kind(key, request["service"], request["region"]).add_auth(aws)
    return aws.headers


def same_signature(dump, request, s3=True):
    date, sha256, token, authorization = dump.ask("sign", **request)
    want = botocore_signs(request, s3)
    assert date == "x-amz-date: " + want["X-Amz-Date"], (date, want["X-Amz-Date"])
    assert sha256 == "x-amz-content-sha256: " + want["X-Amz-Content-SHA256"]
    assert token == ("x-amz-security-token: " + request["token"] if request.get("token") else "")
    assert authorization == "authorization: " + want["Authorization"], \
        f"{request}\n{authorization}\n{want['Authorization']}"


def request_of(url, **more):
    return dict({"method": "GET", "url": url, "headers": [], "region": "us-east-1", "service": "s3", "now": NOW,
                 "id": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, **more)


def signatures():
    need_botocore()
    import urllib.parse
    keys = ["a", "plain/rank_00.pt", "a=b", "a+b", "a*b", "a@b", "a:b", "100%", "a%2Fb", "ä/ö.pt", "日本/語", "a b", "~x_-.y",
            "!'()", "a//b", "a/./b", "a/../b", "q?x&y", "#", "\x01", "€" * 50]
    hosts = ["https://bucket.s3.us-east-1.amazonaws.com", "http://127.0.0.1:9000/bucket", "https://s3.example.com:443/b",
             "http://s3.example.com:80/b", "https://[::1]:9000/b", "https://HOST.example.com:80/b"]
    with Dump() as dump:
        for key, host in itertools.product(keys, hosts):
            same_signature(dump, request_of(f"{host}/{urllib.parse.quote(key, safe='/-_.~')}"))
        for token in [None, "FwoGZXIvYXdzEB==/+"]:
            for headers in [[], ["Range: bytes=0-99"], ["Range: bytes=5-", 'If-Match: "abc"'],
                            ["x-amz-request-payer: requester"], ["X-B:   spaces around"], ["A: 1", "b: 2", "C: 3"]]:
                same_signature(dump, request_of(hosts[0] + "/k", token=token, headers=headers))


def queries():
    need_botocore()
    rows = ["", "a=1", "a=1&b=2", "a=1&a=2", "delimiter=%2F&list-type=2&prefix=a%2Fb%3D", "location=",
            "continuation-token=1%2B%2F%3D&list-type=2", "A=1&B=0&a=1", "prefix=%C3%A4", "versionId=x"]
    with Dump() as dump:
        for row in rows:
            same_signature(dump, request_of("https://b.s3.eu-central-1.amazonaws.com/?" + row, region="eu-central-1"))
            same_signature(dump, request_of("http://127.0.0.1:1/b/k?" + row, region="auto"))


def services_and_bodies():
    need_botocore()
    with Dump() as dump:
        body = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
        for region in ["us-east-1", "cn-north-1"]:
            same_signature(dump, request_of("https://sts.amazonaws.com/", method="POST", body=body, service="sts", region=region,
                                            headers=["Content-Type: application/x-www-form-urlencoded; charset=utf-8"]), s3=False)
        same_signature(dump, request_of("https://b.s3.amazonaws.com/k", method="HEAD"))
        for secret in ["x", "x" * 100, "ä"]:
            same_signature(dump, request_of("https://b.s3.amazonaws.com/k", secret=secret))


def no_urls_are_refused():
    with Dump() as dump:
        for url in ["", "b", "https:/x", "https://", "https:///k", "https://[::1/k", "https://h:x/k"]:
            try:
                dump.ask("sign", **request_of(url))
            except Refused as e:
                assert "absolute URL" in str(e), e
            else:
                raise AssertionError(f"{url!r} was signed")


# ---- INI files ----------------------------------------------------------------------------------------

INI = ["", "[a]\nx=1", "[a]\nx = 1 \n y\n\n z\n[b]\nX:2\n", "[a]\nx=1\n[a]\ny=2", "[a]\nx=1\nx=2", "x=1", "[a]\njunk", "[a]\n=1",
       "[a] # comment\nx = 1 # not a comment\n", "; c\n#d\n[a]\n  x = 1\n  y = 2\n", "[a]\ns3 =\n  addressing_style = path\n  z = 1\nq=2",
       "[a]\nx=1\n\n\n\n[b]\n", "[a]\nx =\n\n\n", "[a]\r\nx=1\r\ny=2\r\n", "[a]\n  x=1\n y=2\n   z", "[a\nx=1", "[]\nx=1",
       "[a]\nx = = :\n", "[a]\nx:=1", "[DEFAULT]\nx=1\n[a]\ny=2\n", "[a]\nx=1\n#c\n  more\n", "[a]\nx=1\n  #c\n  more\n", "\n\n[a]\nk = v w\n",
       "[a]\nä = ö\n", "[profile \"x y\"]\na=b\n", "[a]\nx\n=1\n", "[a]\n[b]\n[c]\n", "  [a]\n  x=1\n", "[a]\nx=1\n  [b]\n  y=2\n"]
if sys.version_info >= (3, 10):  # before, a section's name ended at its first bracket
    INI.append("[a]b]\nx=1")


def ini_by_python(text):
    parser = configparser.RawConfigParser(default_section="\0")
    parser.read_string(text)
    return {s: dict(parser.items(s)) for s in parser.sections()}


def ini_like_configparser():
    with Dump() as dump:
        for text in INI:
            for end in {len(text), *range(0, len(text), 3)}:
                cut = text[:end]
                try:
                    want = ini_by_python(cut)
                except configparser.Error:
                    want = None
                try:
                    found = dump.ask("ini", text=cut)
                except Refused as e:
                    assert "line" in str(e), e
                    found = None
                assert found == want, f"{cut!r}: {found} instead of {want}"


def ini_never_says_what_is_in_a_line():
    with Dump() as dump:
        for text in ["aws_secret_access_key=SECRET", "[a]\nSECRET", "[a]\nSECRET=1\nSECRET=2", "[SECRET]\n[SECRET]"]:
            try:
                dump.ask("ini", text=text)
            except Refused as e:
                assert "SECRET" not in str(e), e
            else:
                raise AssertionError(f"{text!r} was taken")


def ini_is_bounded():
    with Dump() as dump:
        start = time.process_time()
        for text in ["[a]\n" + "".join(f"k{i}=\n" for i in range(20000)), "".join(f"[{i}]\n" for i in range(20000)), "#" * (1 << 20 | 1)]:
            try:
                dump.ask("ini", text=text)
            except Refused as e:
                assert e.code == 6, e
            else:
                raise AssertionError("taken")
        assert time.process_time() - start < 20


# ---- settings and credentials -------------------------------------------------------------------------

CONFIG = """
[default]
region = eu-west-1
aws_access_key_id = default-id
aws_secret_access_key = default-secret

[profile keys]
aws_access_key_id = keys-id
aws_secret_access_key = keys-secret
aws_session_token = keys-token
endpoint_url = http://127.0.0.1:1
s3 =
    addressing_style = virtual

[profile mixed]
region = us-west-2
aws_access_key_id = config-id
aws_secret_access_key = config-secret

[profile "two words"]
aws_access_key_id = two-id
aws_secret_access_key = two-secret

[profile half]
aws_access_key_id = half-id

[profile services]
aws_access_key_id = s-id
aws_secret_access_key = s-secret
services = local
endpoint_url = http://127.0.0.1:2

[services local]
s3 =
    endpoint_url = http://127.0.0.1:3
sts =
    endpoint_url = http://127.0.0.1:4

[profile noservices]
services = gone

[profile web]
role_arn = arn:aws:iam::1:role/web
web_identity_token_file = /tokens/web
role_session_name = me

[profile webnoarn]
web_identity_token_file = /tokens/web

[profile role]
role_arn = arn:aws:iam::1:role/one
source_profile = keys
external_id = ext
role_session_name = sess
duration_seconds = 900

[profile chain]
role_arn = arn:aws:iam::1:role/two
source_profile = role

[profile self]
role_arn = arn:aws:iam::1:role/self
source_profile = self
aws_access_key_id = self-id
aws_secret_access_key = self-secret

[profile loop]
role_arn = arn:aws:iam::1:role/loop
source_profile = loop2

[profile loop2]
role_arn = arn:aws:iam::1:role/loop2
source_profile = loop

[profile webchain]
role_arn = arn:aws:iam::1:role/three
source_profile = web

[profile both]
role_arn = arn:aws:iam::1:role/both
source_profile = keys
credential_source = Environment

[profile neither]
role_arn = arn:aws:iam::1:role/neither

[profile env]
role_arn = arn:aws:iam::1:role/env
credential_source = Environment

[profile ec2]
role_arn = arn:aws:iam::1:role/ec2
credential_source = Ec2InstanceMetadata

[profile odd]
role_arn = arn:aws:iam::1:role/odd
credential_source = Moon

[profile gone]
role_arn = arn:aws:iam::1:role/gone
source_profile = nobody

[profile empty]
region = eu-north-1

[profile dangling]
role_arn = arn:aws:iam::1:role/dangling
source_profile = empty

[profile ignore]
ignore_configured_endpoint_urls = true
endpoint_url = http://127.0.0.1:5
aws_access_key_id = i-id
aws_secret_access_key = i-secret
"""
SHARED = """
[mixed]
aws_access_key_id = shared-id
aws_secret_access_key = shared-secret
aws_session_token = shared-token

[only]
aws_access_key_id = only-id
aws_secret_access_key = only-secret
region = ap-south-1
"""


class Home:
    """The two files, and the environment that leads to them."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp()
        os.mkdir(os.path.join(self.dir, ".aws"))
        for name, text in [("config", CONFIG), ("credentials", SHARED)]:
            with open(os.path.join(self.dir, ".aws", name), "w", encoding="utf-8") as f:
                f.write(text)
        return {"HOME": self.dir}

    def __exit__(self, *exc):
        shutil.rmtree(self.dir)


class Asked:
    """Stands in for STS: botocore's fetchers call it, nothing goes out."""

    def __init__(self, plan, **args):
        self.plan, self.args = plan, args

    def role(self, **what):
        self.plan["roles"].append([what["RoleArn"], what.get("RoleSessionName"), what.get("ExternalId"),
                                   str(what["DurationSeconds"]) if "DurationSeconds" in what else None])
        return {"Credentials": {"AccessKeyId": "r", "SecretAccessKey": "r", "SessionToken": "r",
                                "Expiration": datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)}}

    def assume_role(self, **what):
        if "aws_access_key_id" in self.args and not self.plan["roles"]:
            self.plan.update(base=self.plan["base"] or "static", id=self.args["aws_access_key_id"],
                             secret=self.args["aws_secret_access_key"], token=self.args.get("aws_session_token"))
        return self.role(**what)

    def assume_role_with_web_identity(self, **what):
        self.plan.update(base="web-identity", id=None, secret=None, token=None)
        return self.role(**what)


def plan_by_botocore(profile, variable):
    """What botocore does; the environment is set already."""
    plan = {"base": None, "id": None, "secret": None, "token": None, "roles": []}
    session = botocore.session.Session(profile=profile if variable else None)
    session.create_client_once = session.create_client
    names = {}

    def create(service, *args, **kw):
        return Asked(plan, **kw) if service == "sts" else session.create_client_once(service, *args, **kw)
    session.create_client = create
    real = botocore.credentials.FileWebIdentityTokenLoader
    botocore.credentials.FileWebIdentityTokenLoader.__call__ = lambda self: names.update(file=self._web_identity_token_path) or "t"
    assert real is botocore.credentials.FileWebIdentityTokenLoader
    found = session.get_credentials()
    if found is None:
        plan["base"] = "instance"
    elif found.method in ("env", "shared-credentials-file", "config-file"):
        plan.update(base="static", id=found.access_key, secret=found.secret_key, token=found.token)
    else:
        found.get_frozen_credentials()
        plan["base"] = plan["base"] or "static"
    # A session name that botocore makes up is none that somebody set.
    plan["roles"] = [[a, None if n and n.startswith("botocore-session-") else n, x, d] for a, n, x, d in plan["roles"]]
    plan["token_file"] = names.get("file")
    if plan["base"] == "web-identity":
        plan.update(id=None, secret=None, token=None)
    plan["region"] = session.get_config_variable("region")
    for service in ["s3", "sts"]:
        ignore = session.get_config_variable("ignore_configured_endpoint_urls")
        provider = botocore.configprovider.ConfiguredEndpointProvider(session.full_config, session.get_scoped_config(), service)
        plan[service] = None if ignore else provider.provide()
    s3 = session.get_scoped_config().get("s3")
    plan["style"] = s3.get("addressing_style") if isinstance(s3, dict) else None
    return plan


def outcome(ask):
    try:
        return ask()
    except Refused as e:
        return "refused: " + str(e)


def plan_both(env, profile=None):
    """profile: by a variable like S3_PROFILE, which is botocore's Session(profile=…)."""
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(CLEAN, **env, AWS_EC2_METADATA_DISABLED="true")
    try:
        want = plan_by_botocore(profile, profile is not None)
    except (botocore.exceptions.BotoCoreError, KeyError) as e:
        want = "refused: " + repr(e)
    finally:
        os.environ.clear()
        os.environ.update(kept)
    with Dump(env) as dump:
        found = outcome(lambda: dump.ask("plan", profile=profile))
    return found, want


def same_plan(env, profile=None):
    found, want = plan_both(env, profile)
    refused = [isinstance(x, str) for x in (found, want)]
    if any(refused):
        assert all(refused), f"{env} {profile}:\n{found}\ninstead of\n{want}"
        return found
    assert found == want, f"{env} {profile}:\n{found}\ninstead of\n{want}"
    return found


PROFILES = ["default", "keys", "mixed", "two words", "half", "services", "noservices", "web", "webnoarn", "role", "chain", "self", "loop",
            "webchain", "both", "neither", "env", "odd", "gone", "empty", "dangling", "only", "nowhere"]


def profiles():
    need_endpoints()
    with Home() as home:
        same_plan(home)
        for profile in PROFILES:
            same_plan(dict(home, AWS_PROFILE=profile))
            same_plan(home, profile)
        env = {"AWS_ACCESS_KEY_ID": "env-id", "AWS_SECRET_ACCESS_KEY": "env-secret"}
        for profile in PROFILES:
            same_plan(dict(home, AWS_PROFILE=profile, **env))
            same_plan(dict(home, **env, AWS_SESSION_TOKEN="env-token"), profile)


def environment():
    need_endpoints()
    with Home() as home:
        key = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "s"}
        for env in [key, {"AWS_ACCESS_KEY_ID": "e"}, {"AWS_SECRET_ACCESS_KEY": "s"}, dict(key, AWS_SESSION_TOKEN="t"),
                    dict(key, AWS_SESSION_TOKEN="t", AWS_SECURITY_TOKEN="u"), {"AWS_DEFAULT_PROFILE": "keys", "AWS_PROFILE": "only"},
                    {"AWS_DEFAULT_REGION": "r"}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
                    {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:10"},
                    {"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:11"}, {"AWS_PROFILE": "services", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
                    {"AWS_PROFILE": "keys", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, {"AWS_PROFILE": "ignore"},
                    {"AWS_WEB_IDENTITY_TOKEN_FILE": "/tokens/env", "AWS_ROLE_ARN": "arn:aws:iam::1:role/env"},
                    {"AWS_WEB_IDENTITY_TOKEN_FILE": "/tokens/env"},
                    {"AWS_WEB_IDENTITY_TOKEN_FILE": "/tokens/env", "AWS_ROLE_ARN": "a", "AWS_ROLE_SESSION_NAME": "n", "AWS_PROFILE": "keys"},
                    {"AWS_PROFILE": "web", "AWS_ROLE_ARN": "arn:aws:iam::1:role/env"},
                    {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_PROFILE": "mixed"}, {"AWS_CONFIG_FILE": "/nowhere"},
                    {"AWS_CONFIG_FILE": "~/.aws/credentials"}, {"HOME": "/nowhere"}]:
            same_plan(dict(home, **env) if "HOME" not in env else env)


def places_without_botocore():
    """What botocore asks at once, or does not know."""
    with Home() as home:
        for env, want in [({"AWS_NO_SIGN_REQUEST": "YES", "AWS_ACCESS_KEY_ID": "e"}, "nobody"),
                          ({"AWS_PROFILE": "empty", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/"}, "container"),
                          ({"AWS_PROFILE": "ec2"}, "instance")]:
            with Dump(dict(home, **env)) as dump:
                assert dump.ask("plan", profile=None)["base"] == want, env
        with Dump(dict(home, AWS_REGION="a", AWS_DEFAULT_REGION="b")) as dump:
            assert dump.ask("plan", profile=None)["region"] == "a"


def what_wants_a_program_or_a_person():
    rows = {"credential_process = /bin/true": "runs no other program", "sso_start_url = https://x": "SSO", "sso_session = x": "SSO",
            "role_arn = a\nsource_profile = default\nmfa_serial = 1": "MFA"}
    for row, why in rows.items():
        with Home() as home:
            with open(os.path.join(home["HOME"], ".aws/config"), "a", encoding="utf-8") as f:
                f.write(f"\n[profile new]\n{row}\n")
            with Dump(dict(home, AWS_PROFILE="new")) as dump:
                said = outcome(lambda d=dump: d.ask("plan", profile=None))
                assert isinstance(said, str) and why in said, said


def messages_hold_no_secret():
    with Home() as home:
        for profile in PROFILES:
            with Dump(dict(home, AWS_PROFILE=profile)) as dump:
                said = outcome(lambda d=dump: d.ask("plan", profile=None))
                if isinstance(said, str):
                    assert "secret" not in said.replace("aws_secret_access_key", ""), said
        for url in ["ftp://x", "http://user:hunter2@x", "nothing", "http://x?hunter2"]:
            with Dump(dict(home, AWS_ENDPOINT_URL=url)) as dump:
                said = outcome(lambda d=dump: d.ask("plan", profile=None))
                assert isinstance(said, str) and "hunter2" not in said and "http" in said, said


def times():
    with Dump() as dump:
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z", "1999-12-31T23:59:59+01:00", "2024-02-29T00:00:00-0530"]:
            want = datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace("-0530", "-05:30"))
            sec, ns = dump.ask("time", text=text)
            assert (sec, ns) == (calendar.timegm(want.utctimetuple()), want.microsecond * 1000), text
        for text in ["", "2026", "2026-02-30T00:00:00Z", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05", "2026-13-01T00:00:00Z",
                     "2026-01-02T24:00:00Z", "2026-01-02T03:04:05+1", "2026-01-02T03:04:05ZZ"]:
            assert isinstance(outcome(lambda t=text: dump.ask("time", text=t)), str), text


main([signatures, queries, services_and_bodies, no_urls_are_refused, ini_like_configparser, ini_never_says_what_is_in_a_line,
      ini_is_bounded, profiles, environment, places_without_botocore, what_wants_a_program_or_a_person, messages_hold_no_secret, times])
