"""What becomes of spools once they are closed: Parquet, made by a helper process, and oblivion.

The helper runs at low priority beside the daemon, one at a time. Where pyarrow is not installed
spools stay as they are; whoever reads traces reads both.
"""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final

from evensong.trace.spool import CLOSED, OPEN, serial_of


def close_leftovers(directory: Path) -> None:
    """Close the spools of a daemon that was killed; this one holds the lock."""
    for path in directory.glob(f"spool-*{OPEN}"):
        path.rename(path.with_suffix(CLOSED))


def trim(directory: Path, keep_bytes: int) -> None:
    """Delete the oldest closed files until no more than so many bytes are left."""
    parts = directory.glob("run_id=*/node=*/*.parquet")
    sizes: dict[int, int] = {}
    by_serial: dict[int, list[Path]] = {}
    open_bytes = 0
    for path in [*directory.glob("spool-*"), *parts]:
        with suppress(FileNotFoundError):  # converted meanwhile
            size = path.stat().st_size
            if path.suffix == OPEN:
                open_bytes += size
            else:
                serial = serial_of(path)
                sizes[serial] = sizes.get(serial, 0) + size
                by_serial.setdefault(serial, []).append(path)
    left = open_bytes + sum(sizes.values())
    for serial in sorted(sizes):
        if left <= keep_bytes:
            return
        left -= sizes[serial]
        for path in by_serial[serial]:
            path.unlink(missing_ok=True)


@final
class Converter:
    """Starts the helper when a spool was closed, and keeps the trace within its bounds."""

    def __init__(self, directory: Path, keep_bytes: int, say: Callable[[str], None]) -> None:
        self._directory: Final = directory
        self._keep_bytes: Final = keep_bytes
        self._say: Final = say
        self._can_convert: Final = find_spec("pyarrow") is not None
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
                trim(self._directory, self._keep_bytes)
                if self._can_convert:
                    self._helper = self._start()
            except OSError as error:
                self._say(f"trace_dir: {self._directory}: {error.strerror}")

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "evensong.trace.convert", self._directory],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Stop the helper; what it did not finish is done again by the next life."""
        if self._helper is not None:
            self._helper.kill()
            self._helper.wait()
