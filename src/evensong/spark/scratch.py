"""A directory for what an audit needs only while it runs: spools, converted to Parquet."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SCRATCH: Final = "evensong-audit-"


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make a directory, and remove it at the end.

    Its name is known before it is made: `tempfile.TemporaryDirectory` leaves it behind if Ctrl-C
    comes between the making and the noting down of what was made.
    """
    directory = Path(tempfile.gettempdir(), SCRATCH + secrets.token_hex(8))
    try:
        directory.mkdir(mode=0o700)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
