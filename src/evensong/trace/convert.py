"""The helper beside a daemon: `python -m evensong.trace.convert DIR KEEP_BYTES`.

It deletes the oldest files beyond so many bytes and turns closed spools into Parquet, if pyarrow is
there. It works alone: the helper of a daemon that was killed is waited for.

The parts made of a spool carry its number and appear by renaming, the spool goes last. So whenever
this is killed, it can be done again: the same parts are written over, and whoever reads meanwhile
takes the spool and not the parts.
"""

import fcntl
import gc
import os
import shutil
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from evensong.errors import BadTrace
from evensong.trace.columns import Part, part_name
from evensong.trace.directory import Moved, Source, Whose, part_path, starts_late
from evensong.trace.schema import TABLES, arrow
from evensong.trace.spool import CLOSED, Fragment, read_spool, serial_of, spools_in
from evensong.trace.trim import trim

NICENESS: Final = 10
PARTIAL: Final = ".partial-"
LOCK_NAME: Final = ".helper"  # in the directory of the trace


def convert_spool(path: Path) -> None:
    """Turn one closed spool into parts of the three tables, and remove it."""
    fragment = read_spool(path)
    if fragment is not None:
        header = fragment.header
        folder = path.parent / f"run_id={header.run}" / f"node={header.node}"
        folder.mkdir(parents=True, exist_ok=True)
        write_part(fragment, folder, serial_of(path))
    path.unlink()


def write_part(fragment: Fragment, folder: Path, number: int) -> None:
    """Write the rows of a spool as parts of that number."""
    header = fragment.header
    part = Part(
        [(header.incarnation, pos, d) for pos, d in enumerate(fragment.deliveries, header.pos)],
        [(header.incarnation, send) for send in fragment.sends],
        [(header.incarnation, pseq, event) for pseq, event in fragment.events],
        sorted((header.incarnation, *row) for row in fragment.sessions.heard),
        [(header.incarnation, said) for said in fragment.sessions.said],
    )
    with TemporaryDirectory(prefix=PARTIAL, dir=folder) as made:
        part.write(Path(made), number, folder)
        for table in TABLES:  # `events` comes last: it is what makes a part known
            (Path(made) / part_name(table, number)).rename(folder / part_name(table, number))


def convert(directory: Path) -> int:
    """Convert every closed spool of a daemon's trace; return how many could not be."""
    failed = 0
    for left in directory.glob(f"run_id=*/node=*/{PARTIAL}*"):  # by one that was killed
        try:
            shutil.rmtree(left)
        except OSError as error:
            print(f"evensong: {left}: cannot be removed: {error}", file=sys.stderr)
            failed += 1
    for path in spools_in(directory):
        if path.suffix == CLOSED:
            try:
                convert_spool(path)
            except (BadTrace, OSError) as error:
                print(f"evensong: {path}: stays a spool: {error}", file=sys.stderr)
                failed += 1
    return failed


def merge_into(folder: Path, whose: Whose, sources: dict[Whose, list[Source]]) -> None:
    """Write all rows of a node below `folder`, whatever they are kept in.

    Numbers begin at 0 if the trace has its beginning, else at 1.
    """
    for number, (serial, source) in enumerate(sources[whose], int(starts_late(sources))):
        if isinstance(source, Fragment):
            write_part(source, folder, number)
            continue
        for table in TABLES:
            path = part_path(source, table, serial)
            try:
                shutil.copyfile(path, folder / part_name(table, number))
            except FileNotFoundError:
                if path.exists():
                    raise
                raise Moved from None


def work_alone(directory: Path) -> None:
    """Wait until no other helper works there, and keep others waiting while this process lives.

    Where there is no room for the lock, work without: deleting what is old makes room.
    """
    with suppress(OSError):
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)


def main(directory: Path, keep_bytes: int | None) -> int:
    """Trim and convert at low priority, so that the ring does not feel it."""
    os.nice(NICENESS)
    gc.disable()  # rows by the hundred thousand and no cycles among them
    work_alone(directory)
    if keep_bytes is not None:
        trim(directory, keep_bytes)
    if find_spec("pyarrow") is None:
        return 0
    arrow("pyarrow.parquet")
    return min(1, convert(directory))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
