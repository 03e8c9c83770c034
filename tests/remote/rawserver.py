# SPDX-License-Identifier: Apache-2.0
"""A server of one file that says what a test wants, byte for byte: heads that contradict bodies, trailers, answers that
http.server would not give.

    with Raw(data) as s:
        s.answer = lambda a: a.good()            # the default
        s.answer = lambda a: a.head(206, a.headers()) + a.part()

`answer` gets a request (Ask) and gives the bytes to send; None: it has sent them itself, or nothing.  The connection goes on
afterwards unless the answer set a.close."""
import socket
import threading

DAY = "Mon, 02 Jan 2023 03:04:05 GMT"
NOW = "Mon, 02 Jan 2023 04:04:05 GMT"


class Ask:
    def __init__(self, server, sock, method, path, headers):
        self.server, self.sock, self.method, self.path, self.header = server, sock, method, path, headers
        self.close = False
        text = headers.get("range")
        self.first, self.last = (int(x) for x in text[6:].split("-")) if text else (None, None)
        if text:
            self.last = min(self.last, len(server.data) - 1)

    @property
    def is_file(self):
        return self.path.endswith("model.safetensors")

    @property
    def is_tail(self):
        """A range behind the first block, which opening the file does not ask for."""
        return self.is_file and self.first is not None and self.first >= 64 << 10

    def part(self):
        return self.server.data[self.first:self.last + 1] if self.first is not None else self.server.data

    def headers(self, length=None):
        """Those of the right answer; length=False: no Content-Length."""
        h = {"Date": NOW, "Last-Modified": DAY, "ETag": self.server.etag, "Accept-Ranges": "bytes"}
        if self.first is not None:
            h["Content-Range"] = f"bytes {self.first}-{self.last}/{len(self.server.data)}"
        if length is not False:
            h["Content-Length"] = str(len(self.part()) if length is None else length)
        return h

    @staticmethod
    def head(status, headers, version="1.1"):
        pairs = headers.items() if isinstance(headers, dict) else headers
        return (f"HTTP/{version} {status} x\r\n" + "".join(f"{k}: {v}\r\n" for k, v in pairs) + "\r\n").encode("latin-1")

    def good(self):
        if not self.is_file:
            return self.head(404, {"Content-Length": "0"})
        return self.head(206 if self.first is not None else 200, self.headers()) + (b"" if self.method == "HEAD" else self.part())

    def chunked(self, body, trailer, status=206, **more):
        h = {**self.headers(False), "Transfer-Encoding": "chunked", **more}
        size = b"%x\r\n" % len(body) if body else b""
        return self.head(status, h) + size + body + (b"\r\n" if body else b"") + b"0\r\n" + trailer + b"\r\n"


class Raw:
    def __init__(self, data, etag='"strong"', host="127.0.0.1"):
        self.data, self.etag = data, etag
        self.answer = lambda a: a.good()
        self.log, self.lock = [], threading.Lock()
        self.stopping = threading.Event()
        self.listener = socket.create_server((host, 0), backlog=256)
        self.url = f"http://{host}:{self.listener.getsockname()[1]}/"

    def one(self, sock):
        try:
            with sock, sock.makefile("rb") as f:
                while True:
                    line = f.readline().split()
                    if len(line) < 2:
                        return
                    headers = {}
                    while (text := f.readline().strip()):
                        k, _, v = text.decode("latin-1").partition(":")
                        headers[k.lower()] = v.strip()
                    body = f.read(int(headers.get("content-length", 0)))
                    a = Ask(self, sock, line[0].decode(), line[1].decode(), headers)
                    a.body = body
                    with self.lock:
                        self.log.append((a.method, a.path, headers.get("range"), headers, body))
                    out = self.answer(a)
                    if out:
                        sock.sendall(out)
                    if a.close:
                        return
        except OSError:
            pass

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(sock,), daemon=True).start()

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
