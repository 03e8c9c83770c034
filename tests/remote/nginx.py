# SPDX-License-Identifier: Apache-2.0
"""nginx on loopback for tests, on ports that the kernel chooses, with an authority of the tests' own."""
import http.client
import os
import shutil
import socket
import subprocess
import threading
import time

from tap import Skip


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def openssl(*args, cwd):
    try:
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=cwd)
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip(f"openssl: {getattr(e, 'stderr', e)}") from e


def authority(d):
    """ca.pem, and what it says of this machine: good.pem and good.key, and other.* of a host that this is not."""
    # Everything in the file: what a system's own openssl.cnf adds by default differs.
    with open(d + "/cnf", "w", encoding="utf-8") as f:
        f.write("[req]\ndistinguished_name = dn\nprompt = no\n[dn]\nCN = authority of " + os.path.basename(d) + "\n[ca]\nbasicConstraints = critical,CA:TRUE\n"
                "keyUsage = keyCertSign\nsubjectKeyIdentifier = hash\n[good]\nsubjectAltName = IP:127.0.0.1\n[other]\nsubjectAltName = DNS:other.example\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-config", "cnf", "-extensions", "ca",
            cwd=d)
    for name in ("good", "other"):
        # With the authority's own name it would count as signed by itself, and the key of another authority of that
        # name as one that does not work (OpenSSL 1.1).
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-config", "cnf", "-subj", "/CN=" + name, cwd=d)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", str(len(name)), "-days", "2", "-extfile", "cnf",
                "-extensions", name, "-out", name + ".pem", cwd=d)
    return d + "/ca.pem"


class Nginx:
    """Servers of one nginx, each (lines of its block, certificate or None); .url[i] is the i-th.  Its files are in `scratch`.

    In the lines, URL0, URL1, … stand for the servers' own."""

    def __init__(self, root, scratch, *servers):
        self.path = shutil.which("nginx") or "/usr/sbin/nginx"
        if not os.path.exists(self.path):
            raise Skip("nginx is not installed")
        self.dir = scratch
        self.port = [free_port() for _ in servers]
        self.marks, self.n_marks = free_port(), 0
        self.url = [f"http{'s' if cert else ''}://127.0.0.1:{p}/" for p, (_, cert) in zip(self.port, servers)]
        blocks = f"server {{ listen 127.0.0.1:{self.marks}; return 204; }}\n"
        for port, (lines, cert) in zip(self.port, servers):
            for i, url in enumerate(self.url):
                lines = lines.replace(f"URL{i}", url.rstrip("/"))
            tls = f"ssl_certificate {cert}.pem; ssl_certificate_key {cert}.key;" if cert else ""
            blocks += f"server {{ listen 127.0.0.1:{port}{' ssl' if cert else ''}; {tls} root {os.path.realpath(root)}; {lines} }}\n"
        temporary = "".join(f"{k}_temp_path {scratch}/{k};" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(scratch + "/conf", "w", encoding="utf-8") as f:
            f.write(f"daemon off; master_process off; pid {scratch}/pid; error_log {scratch}/error;\nevents {{}}\nhttp {{ {temporary}\n"
                    f"log_format asked '$server_port $request_method $request_uri $status $bytes_sent auth=$http_authorization range=$http_range';\n"
                    f"access_log {scratch}/access asked;\n{blocks}}}\n")
        self.child = None

    def start(self):
        log = ["-e", self.dir + "/error"] if "-e filename" in subprocess.run([self.path, "-h"], capture_output=True, text=True).stderr else []
        self.child = subprocess.Popen([self.path, "-p", self.dir, "-c", self.dir + "/conf", *log], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while time.monotonic() < until and self.child.poll() is None:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port[-1])) == 0:
                    return self
            threading.Event().wait(0.02)
        self.stop()
        with open(self.dir + "/error", errors="replace", encoding="utf-8") as f:
            raise Skip(f"nginx does not start here: {f.read()[-300:]}")

    def stop(self):
        self.child.terminate()
        self.child.wait()

    def asked(self):
        """The lines of the log so far.  A line is written after its answer was sent, so a request of our own must be there first."""
        self.n_marks += 1
        mark = f"{self.marks} GET /mark{self.n_marks} "
        http.client.HTTPConnection("127.0.0.1", self.marks, timeout=20).request("GET", f"/mark{self.n_marks}")
        until, lines = time.monotonic() + 20, []
        while time.monotonic() < until and not any(x.startswith(mark) for x in lines):
            with open(self.dir + "/access", encoding="utf-8") as f:
                lines = f.read().splitlines()
        return [x for x in lines if not x.startswith(str(self.marks))]

    __enter__ = start

    def __exit__(self, *exc):
        self.stop()
