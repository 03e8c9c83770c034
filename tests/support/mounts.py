# SPDX-License-Identifier: Apache-2.0
"""Mount points of a test script.  They are taken off in every outcome, also when a signal ends the script (a time-out), at
whatever moment: a mount that stays behind holds its server, its directory, and who walks over it."""
import atexit
import contextlib
import signal
import subprocess
import sys

places = []


def ended(number, _frame):
    sys.exit(128 + number)


def take_off(at):
    if at not in places:
        return
    subprocess.run(["fusermount3", "-uzq", at], capture_output=True, check=False, timeout=60)
    places.remove(at)


@contextlib.contextmanager
def mount_point(at):
    """`at` may be mounted on from here on, and is not when this is left."""
    places.append(at)
    try:
        yield at
    finally:
        take_off(at)


@atexit.register
def leave():
    for at in list(places):
        take_off(at)


for n in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(n, ended)
