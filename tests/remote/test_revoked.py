# SPDX-License-Identifier: Apache-2.0
"""A key that is revoked while eight reads are under way: each of them is signed again, and one fetches the new key."""
import json
import mmap
import os
import struct
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "../support")]
from mounts import mount_point  # noqa: E402
from s3server import Server, json_key  # noqa: E402
from tap import Skip, main  # noqa: E402
from test_s3 import good, need, zerofs  # noqa: E402

READS = 8
SIZE = 1 << 20  # bytes of a tensor: no two of them in one block of the cache
TENSOR = [(b"%07d\n" % i) * (SIZE // 8) for i in range(READS + 1)]
HEAD = json.dumps({f"t{i}": {"dtype": "U8", "shape": [SIZE], "data_offsets": [i * SIZE, (i + 1) * SIZE]} for i in range(READS + 1)}).encode()
SAVE = {"save/model.safetensors": struct.pack("<Q", len(HEAD)) + HEAD + b"".join(TENSOR)}


def read_first(path):
    """4,096 bytes, past the page cache: the kernel asks a second time for what it read ahead in vain."""
    fd, page = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
    try:
        return page[:os.preadv(fd, [page], 0)]
    finally:
        os.close(fd)


def read_while(address, server, env, revoke):
    """Mounts, begins the reads, and calls `revoke` when the server has all of their requests and has answered none."""
    need()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("/dev/fuse cannot be opened")
    waiting, revoked = [], threading.Event()

    def wrong(h, _number):
        if not h.url_path.endswith(".safetensors") or revoked.is_set():
            return
        with server.lock:
            waiting.append(h.headers["Range"])
            if len(waiting) == READS:
                revoke()
                revoked.set()
        revoked.wait(30)
    with tempfile.TemporaryDirectory() as mnt, mount_point(mnt):
        good("mount", address, mnt, env=env)
        try:
            server.wrong = wrong
            paths = [os.path.join(mnt, n) for n in sorted(os.listdir(mnt)) if n.startswith("t")]
            assert len(paths) == READS + 1, os.listdir(mnt)
            del paths[0]  # came with the header
            with ThreadPoolExecutor(READS) as pool:
                asked = [pool.submit(read_first, p) for p in paths]
            errors = [f.exception() for f in asked if f.exception()]
            assert revoked.is_set(), f"no {READS} requests at a time: {waiting}"
            assert not errors, f"{len(errors)} of {READS} reads failed: {errors[0]}"
            assert [f.result() for f in asked] == [t[:4096] for t in TENSOR[1:]]
        finally:
            zerofs("umount", mnt)


def key_of_a_container():
    """It gives the same key until that is revoked, as all of them do."""
    with Server({"b": SAVE}) as server:
        given = []

        def container(h):
            with server.lock:
                given.append(h.url_path)
                key = server.new_key("ECS2" if server.expired else "ECS1")
            h.answer(200, json_key(key, 3600))
        server.services["/container/"] = container
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container/x"}
        read_while("s3://b/save", server, env, lambda: server.expired.add("ASIATESTECS1"))
        assert len(given) == 2, f"{len(given)} times a key was fetched"


def key_of_a_file():
    """A key that somebody replaced, in the store and in the file of credentials."""
    with Server({"b": SAVE}) as server, tempfile.NamedTemporaryFile("w+", encoding="ascii") as file:
        def write(number):
            key, secret, _ = server.new_key(number, token=False)
            file.seek(0)
            file.truncate()
            file.write(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
            file.flush()

        def replace():
            del server.keys["ASIATEST1"]
            write(2)
        write(1)
        read_while("s3://b/save", server, {"AWS_ENDPOINT_URL_S3": server.url, "AWS_SHARED_CREDENTIALS_FILE": file.name}, replace)


def region_of_a_bucket():
    """The same for the region that requests are signed for."""
    with Server({"b": SAVE}) as server:
        env = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": server.keys["AKIDTEST"][0]}
        read_while("s3://b/save", server, env, lambda: server.regions.update(b="eu-west-3"))


def token_of_a_machine():
    with Server({"b": SAVE}) as server:
        given, withdrawn = [], threading.Event()

        def metadata(h):
            with server.lock:
                given.append(h.url_path)
                token = "ya29.2" if withdrawn.is_set() else "ya29.1"
                server.bearers.add(token)
            h.answer(200, json.dumps({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}).encode())
        server.services["/computeMetadata/"] = metadata
        env = {"STORAGE_EMULATOR_HOST": server.url, "GCE_METADATA_HOST": f"127.0.0.1:{server.port}", "NO_GCE_CHECK": ""}

        def withdraw():
            withdrawn.set()
            server.bearers.clear()
        read_while("gs://b/save", server, env, withdraw)
        assert len(given) == 2, f"{len(given)} times a token was fetched"


TESTS = [key_of_a_container, key_of_a_file, region_of_a_bucket, token_of_a_machine]
if __name__ == "__main__":
    main([t for t in TESTS if not sys.argv[1:] or t.__name__ in sys.argv[1:]])
