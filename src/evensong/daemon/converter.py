"""What becomes of spools once they are closed: Parquet, and oblivion, by a helper process.

The helper runs at low priority beside the daemon, one at a time; directories of thousands of files
are nothing for the ring's own thread. Where pyarrow is not installed spools stay as they are;
whoever reads traces reads both.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from evensong.errors import CannotStart
from evensong.trace.spool import CLOSED, OPEN, has_rows

HELPER: Final = "evensong.trace.convert"


def lock_trace(directory: Path) -> int:
    """Keep other daemons out of a trace directory for as long as the descriptor is open."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise CannotStart(f"trace_dir: {directory}: another daemon writes there") from None
    except OSError:  # a file system that cannot lock directories: then without
        pass
    return lock


def close_leftovers(directory: Path) -> None:
    """Close the spools of a daemon that was killed; this one holds the lock.

    One without a whole header has nothing in it. It goes, so that its number is used again.
    """
    for path in directory.glob(f"spool-*{OPEN}"):
        if has_rows(path):
            path.rename(path.with_suffix(CLOSED))
        else:
            path.unlink()


@final
class Converter:
    """Starts the helper when a spool was closed, and keeps the trace within its bounds."""

    def __init__(self, directory: Path, keep_bytes: int, say: Callable[[str], None]) -> None:
        self._directory: Final = directory
        self._keep_bytes: Final = keep_bytes
        self._say: Final = say
        self._helper: subprocess.Popen[bytes] | None = None
        self._is_wanted = any(directory.glob(f"spool-*{CLOSED}"))
        self._has_failed = False

    def want(self) -> None:
        """Ask for a conversion; it begins with the next chore."""
        self._is_wanted = True

    def tend(self, _: int) -> None:
        """See after the helper: a chore."""
        if self._helper is not None:
            code = self._helper.poll()
            if code is None:
                return
            self._helper = None
            if code and not self._has_failed:
                self._has_failed = True
                self._say("traces could not be converted and stay spools; they can be read as such")
        if self._is_wanted:
            self._is_wanted = False
            try:
                self._helper = self._start()
            except OSError as error:
                self._say(f"trace_dir: {self._directory}: {error.strerror}")

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", HELPER, self._directory, str(self._keep_bytes)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Stop the helper; what it did not finish is done again by the next life."""
        if self._helper is not None:
            self._helper.kill()
            self._helper.wait()
