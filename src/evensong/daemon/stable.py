"""The stable record on disk: written to a temporary file, made durable, then renamed into place.

A crash leaves the old record or the new one, never a mixture; a temporary file that is left over is
no record. A missing record is a first start; an unreadable one is an error, for starting anyway
could use a ring id twice.
"""

import errno
import os
from pathlib import Path
from typing import Final, final

from evensong.core.stable import FIRST_START, StableRecord, decode_record

RECORD_NAME: Final = "ring.record"


@final
class StableStore:
    """One processor's record in its state directory."""

    __slots__ = ("_path",)

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / RECORD_NAME

    def read(self) -> StableRecord:
        """Return the record, or that of a first start."""
        try:
            return decode_record(self._path.read_bytes())
        except FileNotFoundError:
            return FIRST_START

    def write(self, record: bytes) -> None:
        """Make a record durable; when this returns, it survives a crash."""
        temporary = self._path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            if os.write(descriptor, record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # the old one stays
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(self._path)
        self._sync_directory()

    def _sync_directory(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
