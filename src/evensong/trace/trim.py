"""Keeps a daemon's trace within its bounds: the oldest closed files go."""

from contextlib import suppress
from pathlib import Path

from evensong.trace.spool import OPEN, serial_of, spools_in


def trim(directory: Path, keep_bytes: int) -> None:
    """Delete the oldest closed files until no more than so many bytes are left."""
    sizes: dict[int, int] = {}
    by_serial: dict[int, list[Path]] = {}
    open_bytes = 0
    for path in [*spools_in(directory), *directory.glob("run_id=*/node=*/*.parquet")]:
        with suppress(FileNotFoundError):  # closed meanwhile
            size = path.stat().st_size
            serial = serial_of(path)
            if path.suffix == OPEN:
                open_bytes += size
            elif serial >= 0:
                sizes[serial] = sizes.get(serial, 0) + size
                by_serial.setdefault(serial, []).append(path)
    left = open_bytes + sum(sizes.values())
    for serial in sorted(sizes):
        if left <= keep_bytes:
            return
        left -= sizes[serial]
        for path in sorted(by_serial[serial], key=_is_other):
            path.unlink(missing_ok=True)


def _is_other(path: Path) -> bool:
    """Sort `events` first: a part is known by them, and without them counts as gone."""
    return not path.name.startswith("events-")
