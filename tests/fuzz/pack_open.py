#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pack_open.py DIR [PART…] > FILE: the files below DIR whose path holds one of PART (all without) as one
input of fuzz_open: for each a length byte, its path, four bytes of little-endian size, its bytes."""
import os
import struct
import sys


def main():
    top, parts = sys.argv[1], sys.argv[2:]
    out = sys.stdout.buffer
    for folder, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, top)
            if rel.endswith("expected.json") or (parts and not any(p in rel for p in parts)):
                continue
            with open(path, "rb") as f:
                data = f.read()
            raw = os.fsencode(rel)
            out.write(bytes([len(raw)]) + raw + struct.pack("<I", len(data)) + data)


main()
