# SPDX-License-Identifier: Apache-2.0
"""A command with a terminal of a given width."""
import fcntl
import os
import pty
import struct
import subprocess
import termios

from tap import Skip


def shown(words, width=80, on=("stdout",), codes=(0,), env=None, look=None):
    """What it writes to the terminal, which is `on` of stdout and stderr; the other goes nowhere.  look: called with all of it so
    far whenever there is more."""
    try:
        mine, theirs = pty.openpty()
    except OSError as e:
        raise Skip(f"no pseudo-terminal can be had here: {e}") from e
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    to = {name: theirs if name in on else subprocess.DEVNULL for name in ("stdout", "stderr")}
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, env=env, **to) as child:
        os.close(theirs)
        text = b""
        try:
            while more := os.read(mine, 65536):
                text += more
                if look:
                    look(text)
        except OSError:
            pass  # EIO: the other end is closed
        assert child.wait(120) in codes, (words, text)
    os.close(mine)
    return text.decode().replace("\r\n", "\n")
