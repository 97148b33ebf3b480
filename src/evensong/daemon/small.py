"""Files that people write: small and regular, or not read at all."""

import os
import stat
from pathlib import Path


class NoSmallFile(Exception):
    """It is a pipe, a device, a directory or too large."""


def read_small(path: Path, size_max: int) -> tuple[int, bytes]:
    """Return mode and content of a small file; of what is none, such as a pipe, nothing is read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > size_max:
            raise NoSmallFile
        return about.st_mode, file.read(size_max)
