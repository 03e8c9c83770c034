# SPDX-License-Identifier: Apache-2.0
"""Results of a test script as TAP: one line a test, "1..N" at the end, the reasons of a failure as comments."""
import os
import subprocess
import sys
import tempfile
import traceback


class Skip(Exception):
    """Raised by a test that cannot be tried here, with the reason."""


class Tap:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def line(self, good, name, why=""):
        number = self.passed + self.failed + self.skipped
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
        for row in str(why).splitlines():
            print(f"# {row[:2000]}", flush=True)

    def ok(self, name):
        self.passed += 1
        self.line(True, name)

    def fail(self, name, why=""):
        self.failed += 1
        self.line(False, name, why)

    def skip(self, name, why):
        self.skipped += 1
        self.line(True, f"{name} # SKIP {why}")

    def check(self, name, good, why=""):
        if good:
            self.ok(name)
        else:
            self.fail(name, why)

    def run(self, name, judge, *args):
        """A test is a function that raises: Skip for what cannot be tried here, all else is a failure."""
        try:
            judge(*args)
        except Skip as e:
            self.skip(name, e)
        except AssertionError as e:
            self.fail(name, str(e) or traceback.format_exc())
        except Exception:  # pylint: disable=broad-except
            self.fail(name, traceback.format_exc())
        else:
            self.ok(name)

    def done(self):
        """The plan; ends the script."""
        print(f"1..{self.passed + self.failed + self.skipped}", flush=True)
        sys.exit(self.failed > 0)

    def close(self):
        """For people: the counts as a sentence; true if something passed and nothing failed."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return self.failed == 0 and self.passed + self.skipped > 0


# Most scripts need no more than one list of results.
results = Tap()
check, done = results.check, results.done


def main(tests):
    """Runs the functions, named after what they test; ends the script."""
    for test in tests:
        results.run(test.__name__, test)
    done()


def main_in_folders(tests):
    """The same; each function gets an empty directory of its own."""
    with tempfile.TemporaryDirectory(prefix="zerofs-test-") as folder:
        for test in tests:
            inside = os.path.join(folder, test.__name__)
            os.mkdir(inside)
            results.run(test.__name__, test, inside)
    done()


def need_fuse():
    """Ends the script where no test of it can mount."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("1..0 # SKIP /dev/fuse cannot be opened")
        sys.exit(0)


def need_addresses():
    """Ends the script where zerofs was built without libcurl."""
    asked = subprocess.run([os.environ.get("ZEROFS", "./zerofs"), "ls", "http://127.0.0.1:1/", "-o", "timeout=2"], check=False,
                           capture_output=True, timeout=60)
    if b"built without libcurl" in asked.stderr:
        print("1..0 # SKIP built without libcurl")
        sys.exit(0)
