# SPDX-License-Identifier: Apache-2.0
"""gs://: bearer tokens from the environment, from the machine and for a service account, whose assertion openssl
verifies, HMAC keys, and what Google's answers mean."""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "../support")]
from s3server import Server  # noqa: E402
from tap import Skip, main  # noqa: E402
from test_s3 import DATA, KEY, SMALL, listing, need, refused, zerofs  # noqa: E402

WANT = []


def good(server, **env):
    WANT[:] = WANT or [listing(os.path.join(DATA, SMALL))]
    assert listing(f"gs://b/{SMALL}", env=dict({"STORAGE_EMULATOR_HOST": server.url}, **env)) == WANT[0]


def openssl(*args, **kw):
    try:
        return subprocess.run(["openssl", *args], check=True, capture_output=True, **kw).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip(f"openssl: {e}") from e


def token_in_the_environment():
    need()
    with Server({"b": DATA}) as server:
        server.bearers.add("ya29.good")
        good(server, GOOGLE_OAUTH_ACCESS_TOKEN="ya29.good")
        refused("line break", "ls", "-R", f"gs://b/{SMALL}", code=2,
                env={"STORAGE_EMULATOR_HOST": server.url, "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.bad\r\nX: y"})
        refused("GOOGLE_OAUTH_ACCESS_TOKEN", "ls", "-R", f"gs://b/{SMALL}", env={"STORAGE_EMULATOR_HOST": server.url, "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.bad"})


def hmac_keys():
    need()
    with Server({"b": DATA}) as server:
        server.region = "auto"
        good(server, GS_ACCESS_KEY_ID="AKIDTEST", GS_SECRET_ACCESS_KEY=KEY["AWS_SECRET_ACCESS_KEY"])
        refused("only one of GS_", "ls", "-R", f"gs://b/{SMALL}", env={"STORAGE_EMULATOR_HOST": server.url, "GS_ACCESS_KEY_ID": "x"}, code=2)


def public():
    need()
    with Server({"b": DATA}) as server:
        server.public.add("b")
        good(server)
        server.public.clear()
        refused("GOOGLE_APPLICATION_CREDENTIALS", "ls", "-R", f"gs://b/{SMALL}", env={"STORAGE_EMULATOR_HOST": server.url}, code=4)


def machine():
    """The metadata server; a token that was withdrawn is fetched anew."""
    need()
    with Server({"b": DATA}) as server:
        count = [0]

        def metadata(h):
            assert h.headers["Metadata-Flavor"] == "Google"
            count[0] += 1
            if count[0] > 1:
                server.bearers.add(f"ya29.{count[0]}")
            h.answer(200, json.dumps({"access_token": f"ya29.{count[0]}", "expires_in": 3599, "token_type": "Bearer"}).encode())
        server.services["/computeMetadata/"] = metadata
        good(server, GCE_METADATA_HOST=f"127.0.0.1:{server.port}", NO_GCE_CHECK="")
        assert count[0] == 2


def unbase64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def service_account():
    need()
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as d:
        pem = openssl("genrsa", "2048")
        keys = [openssl("pkcs8", "-topk8", "-nocrypt", input=pem)]
        traditional = subprocess.run(["openssl", "rsa", "-traditional"], input=pem, capture_output=True, check=False)
        keys += [traditional.stdout] if traditional.returncode == 0 else []
        with open(d + "/pub.pem", "wb") as f:
            f.write(openssl("rsa", "-pubout", input=pem))
        judged = []

        def token(h):
            form = dict(urllib.parse.parse_qsl(h.body.decode()))
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            head, claims, signature = form["assertion"].split(".")
            with open(d + "/sig", "wb") as f:
                f.write(unbase64(signature))
            verdict = subprocess.run(["openssl", "dgst", "-sha256", "-verify", d + "/pub.pem", "-signature", d + "/sig"],
                                     input=f"{head}.{claims}".encode(), capture_output=True, check=False)
            told = json.loads(unbase64(claims))
            judged.append((verdict.returncode, json.loads(unbase64(head)), told))
            server.bearers.add("ya29.service")
            h.answer(200, json.dumps({"access_token": "ya29.service", "expires_in": 3599}).encode())
        server.services["/token"] = token
        for key in keys:
            with open(d + "/key.json", "w", encoding="utf-8") as f:
                json.dump({"type": "service_account", "client_email": "me@x.iam.gserviceaccount.com", "private_key_id": "kid",
                           "private_key": key.decode(), "token_uri": server.url + "/token"}, f)
            done = zerofs("ls", "-R", f"gs://b/{SMALL}", env={"STORAGE_EMULATOR_HOST": server.url, "GOOGLE_APPLICATION_CREDENTIALS": d + "/key.json"})
            if "without GnuTLS" in done.stderr.decode():
                raise Skip("built without GnuTLS")
            good(server, GOOGLE_APPLICATION_CREDENTIALS=d + "/key.json")
        assert len(judged) == 2 * len(keys)
        for code, head, claims in judged:
            assert code == 0, "openssl does not accept the signature"
            assert head == {"alg": "RS256", "typ": "JWT", "kid": "kid"}, head
            assert claims["iss"] == "me@x.iam.gserviceaccount.com" and claims["aud"] == server.url + "/token"
            assert claims["exp"] - claims["iat"] == 3600 and abs(claims["iat"] - time.time()) < 100
            assert claims["scope"].endswith("devstorage.read_only")


def spoiled(pem):
    """An RSA key with another modulus than the product of its primes."""
    der = bytearray(base64.b64decode("".join(r for r in pem.decode().splitlines() if not r.startswith("-"))))
    der[100] ^= 1  # of 257 bytes from 11 on, or, in PKCS #8, from 37 on
    return "-----BEGIN PRIVATE KEY-----\n" + base64.encodebytes(der).decode() + "-----END PRIVATE KEY-----\n"


def files_that_are_none():
    need()
    rsa = openssl("pkcs8", "-topk8", "-nocrypt", input=openssl("genrsa", "2048"))
    good_key = {"type": "service_account", "client_email": "a@b", "private_key": "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"}
    cases = [("not a JSON object", "hunter2"), ("not a JSON object", "[1]"), ("have type", '{"type": "external_account", "x": "hunter2"}'),
             ('no "private_key"', '{"type": "service_account", "client_email": "a"}'), ('no "refresh_token"', json.dumps(
                 {"type": "authorized_user", "client_id": "i", "client_secret": "hunter2"})),
             ("not an RSA key", json.dumps(good_key)), ("not an RSA key", json.dumps(dict(good_key, private_key="hunter2"))),
             ("not an RSA key", json.dumps(dict(good_key, private_key=openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout").decode()))),
             ("not an RSA key", json.dumps(dict(good_key, private_key=openssl("pkcs8", "-topk8", "-passout", "pass:hunter2", input=rsa).decode()))),
             ("not an RSA key", json.dumps(dict(good_key, private_key=rsa.decode() + "\n" * 16384))),
             ("contradict each other", json.dumps(dict(good_key, private_key=spoiled(rsa)))),
             ("not an https URL", json.dumps(dict(good_key, token_uri="http://example.com/token"))),
             ("not an https URL", json.dumps(dict(good_key, token_uri="file:///etc/passwd")))]
    with tempfile.TemporaryDirectory() as d:
        env = {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:1", "GOOGLE_APPLICATION_CREDENTIALS": d + "/key.json"}
        for why, text in cases:
            with open(d + "/key.json", "w", encoding="utf-8") as f:
                f.write(text)
            done = zerofs("ls", "-R", "gs://b/x", env=env)
            said = done.stderr.decode()
            assert done.returncode and (why in said or "without GnuTLS" in said) and "hunter2" not in said, (why, done)
        refused("does not exist", "ls", "-R", "gs://b/x", env=dict(env, GOOGLE_APPLICATION_CREDENTIALS=d + "/gone"), code=2)


def refresh_token():
    need()
    with Server({"b": DATA}) as server, tempfile.TemporaryDirectory() as d:
        def token(h):
            form = dict(urllib.parse.parse_qsl(h.body.decode()))
            assert form == {"grant_type": "refresh_token", "client_id": "i", "client_secret": "s&/=", "refresh_token": "1//r"}, form
            server.bearers.add("ya29.user")
            h.answer(200, b'{"access_token": "ya29.user", "expires_in": 3599, "scope": "x"}')
        server.services["/token"] = token
        os.makedirs(d + "/.config/gcloud")
        with open(d + "/.config/gcloud/application_default_credentials.json", "w", encoding="utf-8") as f:
            json.dump({"type": "authorized_user", "client_id": "i", "client_secret": "s&/=", "refresh_token": "1//r",
                       "token_uri": server.url + "/token"}, f)
        good(server, HOME=d)


TESTS = [token_in_the_environment, hmac_keys, public, machine, service_account, files_that_are_none, refresh_token]
if __name__ == "__main__":
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
