# SPDX-License-Identifier: Apache-2.0
"""An object store on loopback for tests: ListObjectsV2, ranged GET and HEAD over directories, every signature
checked by botocore's own signer; beside it STS, the metadata services of instances and containers, and Google's.
What a test wants to go wrong it says in `server.wrong`, a function that may answer instead."""
import datetime
import email.utils
import hashlib
import http.server
import json
import os
import threading
import urllib.parse
import xml.sax.saxutils

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
except ImportError:
    botocore = None


def esc(text):
    return xml.sax.saxutils.escape(text)


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Refused(Exception):
    def __init__(self, status, code, message="", more="", head=()):
        super().__init__(code)
        self.status, self.code, self.message, self.more, self.head = status, code, message, more, dict(head)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", head=(), length=None):
        self.send_response(status)
        for name, value in dict(head).items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        n = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(n)
        url = urllib.parse.urlsplit(self.path)
        self.url_path = urllib.parse.unquote(url.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with self.server.lock:
            self.server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self.body))
            number = len(self.server.requests)
        try:
            if self.server.wrong and self.server.wrong(self, number):
                return
            for prefix, handle in self.server.services.items():
                if self.url_path.startswith(prefix):
                    handle(self)
                    return
            self.object_store()
        except Refused as e:
            body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{e.code}</Code><Message>{esc(e.message)}</Message>{e.more}'
                    "<RequestId>1</RequestId></Error>").encode()
            self.answer(e.status, body, dict({"Content-Type": "application/xml"}, **e.head))

    do_GET = do_HEAD = do_POST = do_PUT = serve

    # ---- the store ----

    def object_store(self):
        host = self.headers["Host"].rsplit(":", 1)[0]
        if host.endswith(".localhost"):
            bucket, key = host[:-len(".localhost")], self.url_path[1:]
        else:
            bucket, _, key = self.url_path[1:].partition("/")
        if bucket not in self.server.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        self.authorize(bucket)
        if not key:
            if bucket in self.server.no_list:
                raise Refused(403, "AccessDenied", "Access Denied")
            self.list(bucket)
        else:
            self.object(bucket, key)

    def authorize(self, bucket):
        server = self.server
        given = self.headers.get("Authorization")
        if given is None and bucket in server.public:
            return
        if given and given.startswith("Bearer "):
            if given[7:] not in server.bearers:
                raise Refused(401, "AuthenticationRequired", "Authentication required.")
            return
        if given is None:
            raise Refused(403, "AccessDenied", "Access Denied")
        check_signature(self, server.keys, "s3", server.regions.get(bucket, server.region))
        if bucket in server.payers and self.headers.get("x-amz-request-payer") != "requester":
            raise Refused(403, "AccessDenied", "Requester pays")

    def list(self, bucket):
        if self.command == "HEAD":
            self.answer(200, head={"x-amz-bucket-region": self.server.region})
            return
        if self.query.get("list-type") != "2":
            raise Refused(400, "InvalidArgument", "only ListObjectsV2")
        prefix, token = self.query.get("prefix", ""), self.query.get("continuation-token", "")
        files, dirs = {}, set()
        for key, size, etag, mtime in self.server.walk(bucket, prefix):
            rest = key[len(prefix):]
            if "/" in rest:
                dirs.add(prefix + rest.split("/", 1)[0] + "/")
            else:
                files[key] = (size, etag, mtime)
        names = sorted([*files, *dirs], key=lambda k: k.encode())
        start = int(token[5:]) if token else 0
        some, more = names[start:start + self.server.page], start + self.server.page < len(names)

        def key_of(k):
            return esc(urllib.parse.quote_plus(k, safe="/") if self.query.get("encoding-type") == "url" else k)
        rows = ""
        for name in some:
            if name in files:
                size, etag, mtime = files[name]
                rows += (f"<Contents><Key>{key_of(name)}</Key><LastModified>{iso(mtime)}</LastModified><ETag>{esc(etag)}</ETag>"
                         f"<Size>{size}</Size></Contents>")
            else:
                rows += f"<CommonPrefixes><Prefix>{key_of(name)}</Prefix></CommonPrefixes>"
        token = f"<NextContinuationToken>next {start + self.server.page}</NextContinuationToken>" if more else ""
        kind = "<EncodingType>url</EncodingType>" if self.query.get("encoding-type") == "url" else ""
        self.answer(200, (f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                          f"<Name>{bucket}</Name>{kind}<IsTruncated>{str(more).lower()}</IsTruncated>{rows}{token}</ListBucketResult>").encode(),
                    {"Content-Type": "application/xml"})

    def object(self, bucket, key):
        found = self.server.find(bucket, key)
        if found is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.") if bucket not in self.server.no_list else \
                Refused(403, "AccessDenied", "Access Denied")
        data, etag, mtime = found
        head = {"ETag": etag, "Last-Modified": email.utils.formatdate(mtime, usegmt=True), "Accept-Ranges": "bytes",
                "Content-Type": "binary/octet-stream"}
        if self.headers.get("If-Match", etag) != etag:
            raise Refused(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        wanted = self.headers.get("Range")
        if not wanted or self.command == "HEAD":
            self.answer(200, data, head)
            return
        first, _, last = wanted[len("bytes="):].partition("-")
        if not first:
            first, last = max(0, len(data) - int(last)), len(data) - 1
        first, last = int(first), min(int(last), len(data) - 1) if last != "" else len(data) - 1
        if first >= len(data):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        self.answer(206, data[first:last + 1], dict(head, **{"Content-Range": f"bytes {first}-{last}/{len(data)}"}))


def check_signature(handler, keys, service, region):
    """botocore signs the same request with the key that the Authorization header names."""
    given = handler.headers["Authorization"]
    if not given.startswith("AWS4-HMAC-SHA256 "):
        raise Refused(400, "InvalidArgument", "Unsupported Authorization Type")
    parts = dict(p.strip().split("=", 1) for p in given[len("AWS4-HMAC-SHA256 "):].split(","))
    key_id, date, for_region, for_service, _ = parts["Credential"].split("/")
    if key_id not in keys:
        raise Refused(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    secret, token = keys[key_id]
    if handler.headers.get("x-amz-security-token") != token:
        raise Refused(400, "ExpiredToken" if token is None else "InvalidToken", "The provided token is malformed or otherwise invalid.")
    if key_id in handler.server.expired:
        raise Refused(400, "ExpiredToken", "The provided token has expired.")
    if for_region != region or for_service != service:
        raise Refused(400, "AuthorizationHeaderMalformed",
                      f"The authorization header is malformed; the region '{for_region}' is wrong; expecting '{region}'",
                      f"<Region>{region}</Region>")
    stamp = handler.headers["x-amz-date"]
    assert stamp[:8] == date
    names = parts["SignedHeaders"].split(";")
    headers = {n: handler.headers[n] for n in names}
    payload = handler.headers.get("x-amz-content-sha256")
    if payload != hashlib.sha256(handler.body).hexdigest():
        raise Refused(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match")
    request = botocore.awsrequest.AWSRequest(method=handler.command, url="http://" + handler.headers["Host"] + handler.path, headers=headers,
                                             data=handler.body)
    request.context["timestamp"] = stamp
    signer = (botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth)(
        botocore.credentials.Credentials(key_id, secret, token), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    if signer.signature(text, request) != parts["Signature"]:
        raise Refused(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
    for name in ("host", "x-amz-date", "x-amz-content-sha256", *(["x-amz-security-token"] if token else [])):
        assert name in names, f"{name} is not signed"


class Server(http.server.ThreadingHTTPServer):
    """buckets: name -> directory, or {key: bytes}."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, buckets):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.buckets = buckets
        self.keys = {"AKIDTEST": ("sEcReT/key+of=the/tests", None)}
        self.region, self.regions = "us-east-1", {}
        self.public, self.no_list, self.payers, self.expired, self.bearers = set(), set(), set(), set(), set()
        self.page = 1000
        self.requests, self.wrong, self.services = [], None, {}
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def handle_error(self, request, client_address):
        pass  # who was interrupted lets go

    def walk(self, bucket, prefix):
        top = self.buckets[bucket]
        if isinstance(top, dict):
            for key, data in top.items():
                if key.startswith(prefix):
                    yield key, len(data), '"%s"' % hashlib.md5(data).hexdigest(), 1767323045
            return
        start = os.path.join(top, os.path.dirname(prefix))
        for folder, _, files in os.walk(start):
            for name in files:
                path = os.path.join(folder, name)
                key = os.path.relpath(path, top)
                if key.startswith(prefix):
                    st = os.stat(path)
                    yield key, st.st_size, f'"{st.st_ino:x}-{st.st_mtime_ns:x}"', int(st.st_mtime)

    def find(self, bucket, key):
        top = self.buckets[bucket]
        if isinstance(top, dict):
            return (top[key], '"%s"' % hashlib.md5(top[key]).hexdigest(), 1767323045) if key in top else None
        path = os.path.join(top, key)
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as f:
            data, st = f.read(), os.fstat(f.fileno())
        return data, f'"{st.st_ino:x}-{st.st_mtime_ns:x}"', int(st.st_mtime)

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()

    # ---- services that hand out credentials ----

    def new_key(self, number, token=True):
        """A temporary key that the store takes from now on."""
        key = f"ASIATEST{number}", f"secret{number}", f"t0ken+{number}/=" if token else None
        self.keys[key[0]] = key[1:]
        return key

    def serve_instance(self, seconds=3600):
        """IMDSv2; each set of credentials is a new one."""
        count = [0]

        def handle(h):
            if h.url_path == "/latest/api/token":
                assert h.command == "PUT" and h.headers["x-aws-ec2-metadata-token-ttl-seconds"]
                h.answer(200, b"imds-token")
                return
            if h.headers.get("x-aws-ec2-metadata-token") != "imds-token":
                h.answer(401)
            elif h.url_path.endswith("/security-credentials/"):
                h.answer(200, b"the-role")
            else:
                count[0] += 1
                h.answer(200, json_key(self.new_key(f"IMDS{count[0]}"), seconds, Code="Success"))
        self.services["/latest/"] = handle

    def serve_container(self, seconds=3600, token="container-token"):
        count = [0]

        def handle(h):
            if h.headers.get("Authorization") != token:
                h.answer(401)
                return
            count[0] += 1
            h.answer(200, json_key(self.new_key(f"ECS{count[0]}"), seconds))
        self.services["/container/"] = handle

    def serve_sts(self, seconds=3600):
        """At /sts/: AssumeRole, signed, and AssumeRoleWithWebIdentity."""
        count = [0]

        def handle(h):
            form = dict(urllib.parse.parse_qsl(h.body.decode()))
            action = form["Action"]
            if action == "AssumeRole":
                check_signature(h, self.keys, "sts", self.region)
            elif form.get("WebIdentityToken") != "web-token":
                raise Refused(400, "InvalidIdentityToken", "Not a token")
            assert form["Version"] == "2011-06-15" and form["RoleArn"] and form["RoleSessionName"]
            count[0] += 1
            key = self.new_key(f"STS{count[0]}")
            when = iso(datetime.datetime.now().timestamp() + seconds)
            h.answer(200, (f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials><AccessKeyId>{key[0]}'
                           f"</AccessKeyId><SecretAccessKey>{key[1]}</SecretAccessKey><SessionToken>{key[2]}</SessionToken><Expiration>{when}"
                           f"</Expiration></Credentials></{action}Result></{action}Response>").encode())
        self.services["/sts/"] = handle


def json_key(key, seconds, **more):
    when = iso(datetime.datetime.now().timestamp() + seconds).replace(".000", "")
    return json.dumps(dict(more, AccessKeyId=key[0], SecretAccessKey=key[1], Token=key[2], Expiration=when)).encode()
