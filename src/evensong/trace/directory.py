"""The trace of one daemon as it lies on disk: parts in Parquet, and spools that are none yet.

A spool has a number, and the parts made of it have the same; while both are there the spool is
read, so no row is met twice. Everything may change while it is read: the daemon goes on, its
converter too.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from evensong.core.ids import ProcessorId
from evensong.errors import BadTrace
from evensong.trace.assembly import Assembly, TracedLife
from evensong.trace.columns import part_name
from evensong.trace.parquet import TABLES_IN_TURN, add_part, node_of
from evensong.trace.spool import Fragment, read_spool, serial_of, spools_in

ATTEMPTS: Final = 20  # a file that is gone was renamed or converted under our eyes
Whose: TypeAlias = tuple[str, ProcessorId]  # run and node


def read_directory(directory: Path) -> dict[Whose, list[TracedLife]]:
    """Read a daemon's trace, by run and node; lives without an end are left so."""
    for _ in range(ATTEMPTS):
        try:
            return _read(directory)
        except _Moved:
            continue
    raise BadTrace(f"{directory}: changes faster than it can be read")


class _Moved(Exception):
    """A file that was listed is no longer there."""


def _read(directory: Path) -> dict[Whose, list[TracedLife]]:
    spools = spools_in(directory)
    fragments = [fragment for path in spools if (fragment := _fragment(path)) is not None]
    spooled = {serial_of(path) for path in spools}
    parts: dict[Whose, list[tuple[int, Path]]] = {}
    for path in sorted(directory.glob("run_id=*/node=*/events-*.parquet")):
        serial = serial_of(path)
        if serial >= 0 and serial not in spooled:
            whose = (path.parent.parent.name.removeprefix("run_id="), node_of(path.parent))
            parts.setdefault(whose, []).append((serial, path.parent))
    all_serials = [*spooled, *(serial for found in parts.values() for serial, _ in found)]
    if not all_serials:
        raise BadTrace(f"{directory}: has no trace in it: neither spool-… nor run_id=…")
    by_whose: dict[Whose, list[Fragment]] = {}
    for fragment in fragments:
        by_whose.setdefault((fragment.header.run, fragment.header.node), []).append(fragment)
    read = {}
    for whose in sorted({*parts, *by_whose}):
        assembly = Assembly(whose[1], may_start_late=min(all_serials) > 0)
        _assemble(assembly, parts.get(whose, []), by_whose.get(whose, []))
        read[whose] = assembly.finish(directory)
    return read


def _fragment(path: Path) -> Fragment | None:
    try:
        return read_spool(path)
    except BadTrace:
        if not path.exists():
            raise _Moved from None
        raise


def _assemble(
    assembly: Assembly, parts: Sequence[tuple[int, Path]], fragments: Sequence[Fragment]
) -> None:
    sources: list[tuple[int, Path | Fragment]] = [*parts]
    sources += [(serial_of(fragment.path), fragment) for fragment in fragments]
    sources.sort(key=_serial)
    for table in TABLES_IN_TURN:
        for serial, source in sources:
            if isinstance(source, Fragment):
                add_fragment(assembly, source, table)
                continue
            path = source / part_name(table, serial)
            if not path.exists():
                raise (
                    _Moved
                    if not any(source.glob(f"*-{serial:04}.parquet"))
                    else BadTrace(f"{source}: has no {path.name}")
                )
            add_part(assembly, path, table)


def _serial(source: tuple[int, Path | Fragment]) -> int:
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
    else:
        for send in fragment.sends:
            assembly.add_send(path, incarnation, send)


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
