"""Traces read for their events alone, and those for what tells anything.

Who delivered what is not asked here, nor what every visit of the token was like.
"""

from pathlib import Path

from evensong.trace.assembly import Assembly, TracedLife
from evensong.trace.columns import part_name
from evensong.trace.directory import (
    Place,
    Whose,
    add_fragment,
    part_path,
    settle,
    sources_in,
    starts_late,
    steadily,
)
from evensong.trace.parquet import add_telling_events, node_of, parts_in, runs_in
from evensong.trace.spool import Fragment, spools_in
from evensong.why.records import Account, from_life


def read_accounts(place: Place, *, is_running: bool) -> dict[str, list[Account]]:
    """Return what lies at a place, by run; who neither runs nor said goodbye was killed."""
    found: dict[str, list[Account]] = {}
    for (run, _), lives in _lives(place).items():
        last = "lost" if place.state is not None and not is_running else ""
        settle(lives, last)
        source = f"the trace {place.directory}"
        found.setdefault(run, []).extend(
            from_life(one.life, source, has_beginning=one.has_beginning) for one in lives
        )
    return found


def _lives(place: Place) -> dict[Whose, list[TracedLife]]:
    directory = place.directory
    if place.state is not None or spools_in(directory):
        return steadily(directory, lambda: _of_daemon(directory))
    return {
        (run_id, node_of(folder)): _of_folder(folder)
        for run_id, run in runs_in(directory).items()
        for folder in sorted(run.glob("node=*"))
    }


def _of_daemon(directory: Path) -> dict[Whose, list[TracedLife]]:
    sources = sources_in(directory)
    found: dict[Whose, list[TracedLife]] = {}
    for whose in sorted(sources):
        assembly = Assembly(whose[1], may_start_late=starts_late(sources))
        for serial, source in sources[whose]:
            if isinstance(source, Fragment):
                add_fragment(assembly, source, "events")
            else:
                add_telling_events(assembly, part_path(source, "events", serial))
        found[whose] = list(assembly.lives.values())
    return found


def _of_folder(folder: Path) -> list[TracedLife]:
    parts = parts_in(folder)["events"]
    assembly = Assembly(node_of(folder), may_start_late=parts[0] > 0)
    for part in parts:
        add_telling_events(assembly, folder / part_name("events", part))
    return list(assembly.lives.values())
