"""A command in a terminal of a given width, as somebody who sits there would see and use it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

STALEROW = str(Path(sys.executable).with_name("stalerow"))
WAIT_S = 3600.0


def session(
    command: Sequence[str], folder: Path, columns: int, typed: Sequence[tuple[str, str]] = (), **env: str
) -> tuple[int, str]:
    """Exit code and all that the terminal got. `typed`: what is waited for, and what is typed then, in order.

    Progress, which goes to standard error, is left out.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM")}
    process = subprocess.Popen(
        [STALEROW, *command],
        cwd=folder,
        env={**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env},
        stdin=slave,
        stdout=slave,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(slave)
    seen, at, waiting, deadline = b"", 0, list(typed), time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([master], [], [], 0.2)
            try:
                seen += os.read(master, 65536) if ready else b""
            except OSError:  # the other side is closed
                break
            if waiting and waiting[0][0].encode() in seen[at:]:
                at = len(seen)
                os.write(master, waiting.pop(0)[1].encode())
        return process.wait(timeout=max(deadline - time.monotonic(), 1)), seen.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(master)


def plain(text: str) -> str:
    """Without what colours it."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
