#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkturned.py FILE ROWS COLS: torch.save of {"w": a float32 matrix in Fortran order}, all zeros."""
import collections
import sys

from torchfile import Storage, rebuild, save


class Turned:
    def __init__(self, rows, cols):
        self.row = (Storage(data=bytes(4 * rows * cols), n=rows * cols), 0, (rows, cols), (1, rows), False,
                    collections.OrderedDict())

    def __reduce__(self):
        return rebuild, self.row


save({"w": Turned(int(sys.argv[2]), int(sys.argv[3]))}, sys.argv[1])
