# SPDX-License-Identifier: Apache-2.0
"""A mounted checkpoint that is unmounted, and whose server is ended, whatever happens."""
import os
import subprocess
import tempfile

SECONDS = 30


class Mount:
    def __init__(self, program, checkpoint, options, scratch, env=None):
        self.env = env
        self.program, self.checkpoint, self.options, self.scratch = program, checkpoint, options, scratch
        self.point = self.server = None

    def __enter__(self):
        self.point = tempfile.mkdtemp(prefix="mnt-", dir=self.scratch)
        options = [word for o in self.options for word in ("-o", o)]
        # In the foreground the server is our child, which can be ended by its id.
        self.server = subprocess.Popen([self.program, "mount", self.checkpoint, self.point, "-f", *options],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env)
        try:
            for _ in range(SECONDS * 50):
                if os.path.ismount(self.point):
                    return self.point
                try:
                    self.server.wait(0.02)
                except subprocess.TimeoutExpired:
                    continue
                break
            raise AssertionError(f"mount failed: {self.said()}")
        except BaseException:
            self.__exit__()
            raise

    def said(self):
        if self.server.poll() is None:
            return f"no answer within {SECONDS} seconds"
        return self.server.stdout.read().strip()

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", "-q", "-z", self.point], check=False, timeout=SECONDS)
        try:
            self.server.wait(10)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait(10)
        self.server.stdout.close()
        os.rmdir(self.point)
