# SPDX-License-Identifier: Apache-2.0
"""Asks aws_dump, the parts of src/remote that need no network, from Python."""
import json
import os
import subprocess

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "tests/remote/aws_dump")
# Nothing of the machine that runs the tests may count.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "S3_", "R2_", "WEKA_", "GOOGLE_"))}


class Refused(Exception):
    """What src/remote refused, with its sentence."""

    def __init__(self, answer):
        super().__init__(answer["error"])
        self.code = answer["code"]


class Dump:
    def __init__(self, env=None):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=dict(CLEAN, **(env or {})))

    def ask(self, do, **what):
        self.process.stdin.write(json.dumps(dict(what, do=do)).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"aws_dump ended with {self.process.wait()} at {do} {str(what)[:200]}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise Refused(answer)
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
