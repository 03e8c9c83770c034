# SPDX-License-Identifier: Apache-2.0
"""One line a test, as TAP has it, and a last line that counts them."""
import traceback


class Tap:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def line(self, good, name, why=""):
        number = self.passed + self.failed + self.skipped
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
        for row in why.splitlines():
            print(f"# {row}", flush=True)

    def ok(self, name):
        self.passed += 1
        self.line(True, name)

    def fail(self, name, why):
        self.failed += 1
        self.line(False, name, why)

    def skip(self, name, why):
        self.skipped += 1
        self.line(True, f"{name} # SKIP {why}")

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

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return self.failed == 0 and self.passed + self.skipped > 0


class Skip(Exception):
    pass
