"""The trace of one daemon as it lies on disk: parts in Parquet, and spools that are none yet.

A spool has a number, and the parts made of it have the same; while both are there the spool is
read, so no row is met twice. Everything may change while it is read: the daemon goes on, its
converter too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from evensong.core.ids import ProcessorId
from evensong.errors import BadTrace
from evensong.trace.assembly import Assembly, TracedLife
from evensong.trace.columns import part_name
from evensong.trace.parquet import (
    TABLES_IN_TURN,
    add_part,
    no_directory,
    node_of,
    read_run,
    runs_in,
)
from evensong.trace.spool import Fragment, read_spool, serial_of, spools_in

ATTEMPTS: Final = 20  # a file that is gone was renamed or converted under our eyes
TRACE_NAME: Final = "trace"  # below a state directory
LOCK_NAME: Final = "lock"  # what a state directory has
Whose: TypeAlias = tuple[str, ProcessorId]  # run and node
Source: TypeAlias = tuple[int, Path | Fragment]  # number, and a folder of parts or a spool
T = TypeVar("T")


class Place(NamedTuple):
    """Where a trace lies, and the state directory of the daemon that writes it, if one does."""

    directory: Path
    state: Path | None = None


def find(path: Path) -> list[Place]:
    """Return the traces that a path means.

    That may be a trace, a run of one, a daemon's state directory, or a directory of such, as
    `evensong up` makes it.
    """
    if not path.is_dir():
        raise BadTrace(f"{path}: {no_directory(path)}")
    if path.name.startswith("run_id=") or is_trace(path):
        is_beside_lock = (path.parent / LOCK_NAME).exists()
        return [Place(path, path.parent if is_beside_lock else None)]
    states = [path] if (path / TRACE_NAME).is_dir() else sorted(path.iterdir())
    places = [Place(state / TRACE_NAME, state) for state in states if is_trace(state / TRACE_NAME)]
    if not places:
        raise BadTrace(f"{path}: has no trace in it: neither spool-… nor run_id=…")
    return places


def is_trace(directory: Path) -> bool:
    """Whether a directory holds spools or runs."""
    return bool(spools_in(directory)) or any(directory.glob("run_id=*"))


def read_place(place: Place) -> dict[Whose, list[TracedLife]]:
    """Read what lies at a place, by run and node; lives without an end are left so."""
    directory = place.directory
    if place.state is not None or spools_in(directory):
        return read_directory(directory)
    read: dict[Whose, list[TracedLife]] = {}
    for run_id, run in runs_in(directory).items():
        for one in read_run(run):
            read.setdefault((run_id, one.life.node), []).append(one)
    return read


def read_directory(directory: Path) -> dict[Whose, list[TracedLife]]:
    """Read a daemon's trace, by run and node; lives without an end are left so."""

    def read() -> dict[Whose, list[TracedLife]]:
        sources = sources_in(directory)
        return {whose: _assemble(directory, *whose, sources) for whose in sorted(sources)}

    return steadily(directory, read)


class Moved(Exception):
    """A file that was listed is no longer there: renamed, converted or deleted meanwhile."""


def steadily(directory: Path, act: Callable[[], T]) -> T:
    """Do something with the files of a trace, again if they move under our eyes."""
    for _ in range(ATTEMPTS):
        try:
            return act()
        except Moved:
            continue
    raise BadTrace(f"{directory}: changes faster than it can be read")


def sources_in(directory: Path) -> dict[Whose, list[Source]]:
    """Return where the rows of a daemon's trace are, in order, by run and node."""
    spools = spools_in(directory)
    spooled = {serial_of(path) for path in spools}
    found: dict[Whose, list[Source]] = {}
    for path in spools:
        fragment = _fragment(path)
        if fragment is not None:
            header = fragment.header
            found.setdefault((header.run, header.node), []).append((serial_of(path), fragment))
    for path in directory.glob("run_id=*/node=*/events-*.parquet"):
        serial = serial_of(path)
        if serial >= 0 and serial not in spooled:
            whose = (path.parent.parent.name.removeprefix("run_id="), node_of(path.parent))
            found.setdefault(whose, []).append((serial, path.parent))
    if not found:
        raise BadTrace(f"{directory}: has no trace in it: neither spool-… nor run_id=…")
    for sources in found.values():
        sources.sort(key=_serial)
    return found


def _fragment(path: Path) -> Fragment | None:
    try:
        return read_spool(path)
    except BadTrace:
        if not path.exists():
            raise Moved from None
        raise


def starts_late(sources: Mapping[Whose, Sequence[Source]]) -> bool:
    """Whether the first files of a directory have been deleted."""
    return min(found[0][0] for found in sources.values()) > 0


def _assemble(
    directory: Path, run: str, node: ProcessorId, all_sources: Mapping[Whose, Sequence[Source]]
) -> list[TracedLife]:
    assembly = Assembly(node, may_start_late=starts_late(all_sources))
    for table in TABLES_IN_TURN:
        for serial, source in all_sources[run, node]:
            if isinstance(source, Fragment):
                add_fragment(assembly, source, table)
            else:
                _add_part(assembly, part_path(source, table, serial), table)
    return assembly.finish(directory)


def _add_part(assembly: Assembly, path: Path, table: str) -> None:
    try:
        add_part(assembly, path, table)
    except BadTrace:
        if not path.exists():
            raise Moved from None
        raise


def part_path(folder: Path, table: str, serial: int) -> Path:
    """Return where a part is; raise `Moved` if its `events`, which go first, are gone."""
    path = folder / part_name(table, serial)
    if path.exists():
        return path
    if (folder / part_name("events", serial)).exists():
        raise BadTrace(f"{folder}: has no {path.name}")
    raise Moved


def _serial(source: Source) -> int:
    return source[0]


def add_fragment(assembly: Assembly, fragment: Fragment, table: str) -> None:
    """Add the rows of a spool that belong to a table."""
    header, path = fragment.header, fragment.path
    incarnation = header.incarnation
    if table == "events":
        one = assembly.begin(incarnation, header.pseq)  # it may have died before its first event
        one.is_torn = fragment.is_torn
        one.level = header.level
        for pseq, event in fragment.events:
            assembly.add_event(path, incarnation, pseq, event)
    elif table == "deliveries":
        for pos, delivery in enumerate(fragment.deliveries, header.pos):
            assembly.add_delivery(path, incarnation, pos, delivery)
        for session, pos, heard in fragment.sessions.heard:
            assembly.add_heard(path, incarnation, session, pos, heard)
    else:
        for send in fragment.sends:
            assembly.add_send(path, incarnation, send)
        for said in fragment.sessions.said:
            assembly.add_said(path, incarnation, said)


def settle(lives: Iterable[TracedLife], last: str) -> None:
    """Say how the lives of one node ended whose traces do not.

    Who lived again had died before: its last rows are lost. The end of the last life is told:
    `lost`, `quiesce`, or nothing if the daemon goes on and may have done more by now.
    """
    *earlier, latest = sorted(lives, key=_incarnation)
    for one in [*earlier, latest]:
        if not one.life.ended and one.gap is None:
            how = last if one is latest else "lost"
            if how:
                one.life.end(how, one.life.events[-1].t_us if one.life.events else 0)


def _incarnation(one: TracedLife) -> int:
    return one.life.incarnation
