# SPDX-License-Identifier: Apache-2.0
"""What zerofs makes of a save."""
import os
import subprocess
import tempfile

import makeds

DUMP = os.path.join(os.environ["top_builddir"], "tests/unit/format/tree_dump")


def dump(folder, *opts):
    """(set, name) -> (dtype, shape, hex), the notes, the error."""
    run = subprocess.run([DUMP, *opts, folder], capture_output=True, text=True, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    return ({(r[1], r[2]): tuple(r[3:6]) for r in rows if r[0] == "tensor"}, [r[1] for r in rows if r[0] == "note"],
            run.stderr.strip())


def dumped(files, *opts):
    """The same of files as makeds.py describes them; one of bytes is written as it is."""
    with tempfile.TemporaryDirectory() as d:
        tag = os.path.join(d, "tag")
        makeds.write(tag, {n: v for n, v in files.items() if not isinstance(v, bytes)})
        for n, v in files.items():
            if isinstance(v, bytes):
                os.makedirs(os.path.dirname(os.path.join(tag, n)), exist_ok=True)
                with open(os.path.join(tag, n), "wb") as f:
                    f.write(v)
        return dump(tag, *opts)
