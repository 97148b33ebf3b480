"""Turns closed spools into Parquet, beside the daemon: `python -m evensong.trace.convert DIR`.

The parts made of a spool carry its number and appear by renaming, the spool goes last. So whenever
this is killed, it can be done again: the same parts are written over, and whoever reads meanwhile
takes the spool and not the parts.
"""

import gc
import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from evensong.errors import BadTrace
from evensong.trace.columns import Part, part_name
from evensong.trace.directory import Source, Whose, part_path, starts_late
from evensong.trace.schema import TABLES, arrow
from evensong.trace.spool import CLOSED, Fragment, read_spool, serial_of, spools_in

NICENESS: Final = 10
PARTIAL: Final = ".partial-"


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
    )
    with TemporaryDirectory(prefix=PARTIAL, dir=folder) as made:
        part.write(Path(made), number, folder)
        for table in TABLES:  # `events` comes last: it is what makes a part known
            (Path(made) / part_name(table, number)).rename(folder / part_name(table, number))


def convert(directory: Path) -> int:
    """Convert every closed spool of a daemon's trace; return how many could not be."""
    failed = 0
    for left in directory.glob(f"run_id=*/node=*/{PARTIAL}*"):  # by one that was killed
        shutil.rmtree(left)
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
            shutil.copyfile(part_path(source, table, serial), folder / part_name(table, number))


def main(directory: str) -> int:
    """Convert at low priority, so that the ring does not feel it."""
    os.nice(NICENESS)
    gc.disable()  # rows by the hundred thousand and no cycles among them
    arrow("pyarrow.parquet")
    return min(1, convert(Path(directory)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
