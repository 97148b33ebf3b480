"""What a measurement has left running."""

import os
from pathlib import Path


def descendants() -> list[str]:
    """Return the command of every process that this one has started and that still runs."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended
            if int(fields[1]) == os.getpid() and fields[0] != "Z" and command:
                found.append(command)
    return found
