#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A directory over HTTP, with ranges, ETags and conditions, and with faults where a test asks for them.

As a program:  serve.py [--port N] [--fault NAME=VALUE]... DIR   prints "http://127.0.0.1:PORT/" and serves until it is ended.
In a test:     with Server(dir) as s:  … s.url …  s.faults["status"] = "503"  … s.log

Faults (a value "VALUE@PATTERN" concerns paths that hold PATTERN; "N*VALUE" the next N requests only):
  status=CODE[,HEADER:VALUE]  answers that, e.g. 503,Retry-After:1
  short=BYTES        closes after so many bytes of a body       reset=BYTES      the same with RST
  stall=SECONDS      sends half of the body, then nothing       slow=SECONDS     waits before it answers
  ignore_range=1     answers ranges with 200 and all            wrong_range=N    Content-Range moved by N
  wrong_total=N      total of Content-Range larger by N         multipart=1      multipart/byteranges
  encoding=gzip      says so, sends it plain                    garbage=1        no HTTP at all
  excess=N           of a range N bytes more, and no length
  flip=1             another byte with the same ETag (a lie: nothing can notice that)
  etag=TEXT          that ETag instead of the file's            no_etag=1, no_time=1
  etag=nginx, apache, inode   one as nginx and Apache make it
  redirect=URL       302 to that                                no_list=1        404 for directories
  list=json          directories as nginx lists them in JSON    list=nginx       … and in HTML, to the minute
  clock=SECONDS      Date is so much later
  auth=USER:PASS     401 without these; bearer=TOKEN
"""
import argparse
import base64
import email.utils
import hashlib
import html
import http.server
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "serve"
    wbufsize = 1 << 16  # head and body in one piece
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def fault(self, name):
        return self.server.fault(name, urllib.parse.unquote(self.path))

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def finish_status(self, code, body=b"", headers=()):
        self.send_response(code)
        for k, v in headers:
            self.send_header(k, v)
        if not any(k.lower() == "content-length" for k, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refused(self):
        for name, value in (("auth", self.fault("auth")), ("bearer", self.fault("bearer"))):
            if value is None:
                continue
            want = "Basic " + base64.b64encode(value.encode()).decode() if name == "auth" else "Bearer " + value
            if self.headers.get("Authorization") != want:
                self.finish_status(401, b"", [("WWW-Authenticate", "Basic realm=x")])
                return True
        return False

    def early_fault(self):
        slow = self.fault("slow")
        if slow:
            self.server.stopping.wait(float(slow))
        if self.fault("garbage"):
            self.wfile.write(b"\x00\x01\x02 nonsense\r\n\r\n" * 3)
            self.close_connection = True
            return True
        status = self.fault("status")
        if status:
            code, _, rest = status.partition(",")
            headers = [tuple(h.split(":", 1)) for h in rest.split(",") if h]
            self.finish_status(int(code), b"<Error><Code>Asked</Code><Message>as the test wants it</Message></Error>", headers)
            return True
        to = self.fault("redirect")
        if to:
            self.finish_status(302, b"", [("Location", to)])
            return True
        return False

    def answer(self, body):
        with self.server.lock:
            self.server.log.append((self.command, urllib.parse.unquote(self.path), self.headers.get("Range"), dict(self.headers)))
            self.server.busy += 1
            self.server.most_busy = max(self.server.most_busy, self.server.busy)
        try:
            if not self.early_fault() and not self.refused():
                self.file_or_directory(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def file_or_directory(self, body):
        path = urllib.parse.unquote(self.path.split("?")[0])
        full = os.path.normpath(os.path.join(self.server.root, path.lstrip("/")))
        if not (full + "/").startswith(self.server.root.rstrip("/") + "/") or not os.path.exists(full):
            self.finish_status(404, b"no such file")
        elif os.path.isdir(full):
            self.directory(path, full)
        else:
            self.file(full, body)

    def directory(self, path, full):
        if self.fault("no_list"):
            self.finish_status(404, b"no listing")
            return
        if not path.endswith("/"):
            self.finish_status(301, b"", [("Location", urllib.parse.quote(path) + "/")])
            return
        style = self.fault("list")
        if style:
            self.as_nginx(full, style == "json")
            return
        # As Python's own http.server.
        rows = []
        for name in sorted(os.listdir(full)):
            shown = name + "/" if os.path.isdir(os.path.join(full, name)) else name
            rows.append(f'<li><a href="{urllib.parse.quote(shown)}">{html.escape(shown)}</a></li>')
        text = f"<!DOCTYPE HTML>\n<html>\n<body>\n<h1>Directory listing for {html.escape(path)}</h1>\n<hr>\n<ul>\n" + "\n".join(rows)
        self.finish_status(200, (text + "\n</ul>\n<hr>\n</body>\n</html>\n").encode(), [("Content-Type", "text/html")])

    def as_nginx(self, full, as_json):
        rows = []
        for name in sorted(n for n in os.listdir(full) if n[0] != "."):
            st = os.stat(os.path.join(full, name))
            is_dir = os.path.isdir(os.path.join(full, name))
            if as_json:
                row = {"name": name, "type": "directory" if is_dir else "file", "mtime": email.utils.formatdate(int(st.st_mtime), usegmt=True)}
                rows.append(row if is_dir else {**row, "size": st.st_size})
            else:
                shown = urllib.parse.quote(name) + ("/" if is_dir else "")
                when = time.strftime("%d-%b-%Y %H:%M", time.gmtime(st.st_mtime))
                rows.append(f'<a href="{shown}">{html.escape(name)}{"/" if is_dir else ""}</a>  {when}  {"-" if is_dir else st.st_size}')
        text = json.dumps(rows) if as_json else \
            '<html>\n<head><title>Index of /</title></head>\n<body>\n<h1>Index of /</h1><hr><pre><a href="../">../</a>\n' + \
            "\n".join(rows) + "\n</pre><hr></body>\n</html>\n"
        self.finish_status(200, text.encode(), [("Content-Type", "application/json" if as_json else "text/html")])

    def date_time_string(self, timestamp=None):
        return super().date_time_string((timestamp or time.time()) + float(self.fault("clock") or 0))

    def same(self, etag, mtime):
        match = self.headers.get("If-Match")
        if match and match != "*" and etag not in [t.strip() for t in match.split(",")]:
            return False
        since = self.headers.get("If-Unmodified-Since")
        return match or not since or int(mtime) <= email.utils.parsedate_to_datetime(since).timestamp()

    def span(self, size):
        """The range asked for as (first, end), None for all of it, or False where it cannot be."""
        text = self.headers.get("Range")
        if not text or not text.startswith("bytes=") or "," in text:
            return None
        a, _, b = text[6:].partition("-")
        first, end = (int(a), min(int(b) + 1, size) if b else size) if a else (max(size - int(b), 0), size)
        return (first, end) if first < end else False

    def file(self, full, want_body):
        st = os.stat(full)
        made = {"nginx": '"%x-%x"' % (int(st.st_mtime), st.st_size), "apache": '"%x-%x"' % (st.st_size, int(st.st_mtime) * 1000000),
                "inode": '"%x-%x-%x"' % (st.st_ino, st.st_size, int(st.st_mtime) * 1000000)}
        etag = made.get(self.fault("etag")) or self.fault("etag") or '"%s"' % hashlib.md5(f"{st.st_ino} {st.st_size} {st.st_mtime_ns}".encode()).hexdigest()
        headers = [("Accept-Ranges", "bytes"), ("Content-Type", "application/octet-stream")]
        if not self.fault("no_etag"):
            headers.append(("ETag", etag))
        if not self.fault("no_time"):
            headers.append(("Last-Modified", email.utils.formatdate(int(st.st_mtime), usegmt=True)))
        if not self.same(etag, st.st_mtime):
            self.finish_status(412, b"")
            return
        span = None if self.fault("ignore_range") else self.span(st.st_size)
        if span is False:
            self.finish_status(416, b"", [("Content-Range", f"bytes */{st.st_size}")])
            return
        first, end = span or (0, st.st_size)
        if span:
            move, more = int(self.fault("wrong_range") or 0), int(self.fault("wrong_total") or 0)
            headers.append(("Content-Range", f"bytes {first + move}-{end - 1 + move}/{st.st_size + more}"))
        if self.fault("multipart"):
            headers[1] = ("Content-Type", "multipart/byteranges; boundary=x")
        if self.fault("encoding"):
            headers.append(("Content-Encoding", self.fault("encoding")))
        excess = self.fault("excess") if want_body and span else None
        self.send_response(206 if span else 200)
        for k, v in headers + [("Connection", "close") if excess is not None else ("Content-Length", str(end - first))]:
            self.send_header(k, v)
        self.end_headers()
        if want_body and self.command != "HEAD":
            self.body(full, first, end - first)
            self.wfile.write(bytes(int(excess or 0)))

    def body(self, full, first, n):
        cut = {k: self.fault(k) for k in ("short", "reset", "stall")}
        send = n
        for k in ("short", "reset"):
            if cut[k] is not None:
                send = min(send, int(cut[k]))
        if cut["stall"] is not None:
            send = n // 2
        with open(full, "rb") as f:
            f.seek(first)
            left = send
            while left:
                data = f.read(min(left, 1 << 18))
                if not data:
                    break
                left -= len(data)
                if self.fault("flip"):
                    data = bytes([data[0] ^ 1]) + data[1:]
                self.wfile.write(data)
        with self.server.lock:
            self.server.sent += send
        if cut["stall"] is not None:
            self.server.stopping.wait(float(cut["stall"]))
        if send < n:
            self.wfile.flush()
            if cut["reset"] is not None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, root, port=0, handler=Handler, tls=None):
        super().__init__(("127.0.0.1", port), handler)
        self.root = os.path.realpath(root)
        self.faults, self.log = {}, []
        self.lock = threading.Lock()
        self.busy = self.most_busy = self.sent = 0
        self.stopping = threading.Event()
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request, client_address):
        pass

    def fault(self, name, path):
        with self.lock:
            value = self.faults.get(name)
            if value is None:
                return None
            rest, at, pattern = value.rpartition("@")
            if at and pattern not in path:
                return None
            rest = rest if at else value
            count, star, one = rest.partition("*")
            if star and count.isdigit():
                if int(count) == 0:
                    return None
                self.faults[name] = f"{int(count) - 1}*{one}" + at + (pattern if at else "")
                rest = one
            return rest

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.shutdown()
        self.server_close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--fault", action="append", default=[])
    p.add_argument("dir")
    o = p.parse_args()
    s = Server(o.dir, o.port)
    s.faults = dict(f.partition("=")[::2] for f in o.fault)
    print(s.url, flush=True)
    try:
        s.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
