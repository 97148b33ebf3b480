"""Histories as Parquet, and back: the same check then runs on a trace as on a simulated run.

A run is a directory `run_id=…`, in it `node=…` a processor, in that `deliveries`, `sends` and
`events` in numbered parts, rows in the order of `pos` and `pseq`. All incarnations of a processor
share its files, one after the other. Reading is exact: the history that comes back has the same
rows, and what would not (a gap in a numbering, a column of another type, a bit that has flipped) is
refused by name; pages carry checksums.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from evensong.core.effects import Service
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.unit import UnitId
from evensong.errors import BadTrace
from evensong.sim.history import (
    Delivery,
    Event,
    FrameId,
    GroupDelivery,
    GroupSend,
    History,
    Life,
    Send,
)
from evensong.sim.whole import whole
from evensong.trace.assembly import Assembly, TracedLife
from evensong.trace.columns import Part, heard_of, part_name
from evensong.trace.rows import Row, rows_of, telling_rows
from evensong.trace.schema import RUN, SERVICE_BY_CODE, SERVICES, TABLES, arrow

TABLES_IN_TURN: Final = ("events", "deliveries", "sends")  # the others refer to the first
KINDS: Final = ("regular", "transitional")
_ID: Final = re.compile("[1-9][0-9]{0,9}")
_CONF_ID: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})\.(?:0|[1-9][0-9]{0,9})")


def write_trace(
    history: History, directory: Path | str, run_id: str, *, is_replaced: bool = False
) -> Path:
    """Write a run below `directory`; return its own directory, which must not exist yet.

    The directory is there once all of it is written, whatever happens meanwhile.
    """
    if not RUN.fullmatch(run_id):
        raise BadTrace(
            f"{run_id!r} cannot name a run: it becomes part of a path, and takes letters, digits, "
            "dots, dashes and underscores"
        )
    run = Path(directory) / f"run_id={run_id}"
    arrow()
    if run.exists() and not is_replaced:
        raise BadTrace(f"{run}: a trace of that name is already there")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        with whole(run) as partial:
            partial.mkdir()  # a run without a single life is a trace too
            _write_lives(history, partial, run)
    except OSError as error:
        raise BadTrace(f"{run}: cannot be written: {error.strerror or error}") from error
    return run


def _write_lives(history: History, partial: Path, run: Path) -> None:
    by_node: dict[ProcessorId, list[Life]] = {}
    for key in sorted(history.lives):
        by_node.setdefault(key[0], []).append(history.lives[key])
    for node, lives in by_node.items():
        for life in lives:
            _check_own_sends(life)
        (partial / f"node={node}").mkdir()
        part = Part(
            [(life.incarnation, pos, d) for life in lives for pos, d in enumerate(life.deliveries)],
            [(life.incarnation, send) for life in lives for send in life.sends],
            [(life.incarnation, pseq, e) for life in lives for pseq, e in enumerate(life.events)],
            [row for life in lives for row in heard_of(life)],
            [(life.incarnation, said) for life in lives for said in life.said],
        )
        part.write(partial / f"node={node}", 0, run / f"node={node}")


def _check_own_sends(life: Life) -> None:
    for send in life.sends:
        if send.unit_id[:2] != (life.node, life.incarnation):
            raise BadTrace(f"node={life.node}: sends of {send.unit_id}, a unit of another life")


def no_directory(path: Path) -> str:
    """Say what a path is that is no directory."""
    return "not a directory" if path.exists() else "there is no such directory"


def runs_in(root: Path) -> dict[str, Path]:
    """Return the run that a path is (`…/run_id=x`), or all runs below a directory, by run id."""
    if not root.is_dir():
        raise BadTrace(f"{root}: {no_directory(root)}")
    runs = [root] if root.name.startswith("run_id=") else sorted(root.glob("run_id=*"))
    for run in runs:
        if not run.is_dir():
            raise BadTrace(f"{run}: not a directory")
    if not runs:
        raise BadTrace(f"{root}: has no run_id=… in it")
    return {run.name.removeprefix("run_id="): run for run in runs}


def read_trace(path: Path | str) -> dict[str, History]:
    """Read one run (`…/run_id=x`) or all runs below a directory, by run id."""
    return {run_id: history_of(read_run(run)) for run_id, run in runs_in(Path(path)).items()}


def history_of(lives: Iterable[TracedLife]) -> History:
    """Return lives as a history, in the order in which they began."""
    history = History()
    for life in sorted((one.life for one in lives), key=_began):
        history.lives[life.node, life.incarnation] = life
    return history


def _began(life: Life) -> tuple[int, ProcessorId, int]:
    return (life.events[0].t_us if life.events else 0, life.node, life.incarnation)


def read_run(run: Path) -> list[TracedLife]:
    """Read the lives of one run."""
    lives: list[TracedLife] = []
    for folder in sorted(run.glob("node=*")):
        node = node_of(folder)
        parts = parts_in(folder)
        assembly = Assembly(node, may_start_late=parts["events"][0] > 0)
        for table in TABLES_IN_TURN:
            for part in parts[table]:
                add_part(assembly, folder / part_name(table, part), table)
        lives.extend(assembly.finish(folder))
    return lives


def node_of(folder: Path) -> ProcessorId:
    """Return the node whose rows a folder holds."""
    name = folder.name.removeprefix("node=")
    if not _ID.fullmatch(name) or int(name) >= 2**32:
        raise BadTrace(f"{folder}: {name!r} is not a processor id")
    return int(name)


def parts_in(folder: Path) -> dict[str, list[int]]:
    """Return the numbers of the tables' parts; none may be missing but the first ones."""
    return parts_among(str(folder), [path.name for path in folder.glob("*.parquet")])


def parts_among(folder: str, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of the tables' parts among the names of files, wherever these lie.

    A number that no table has was a spool without a single row. What is before the first `events`
    is being deleted.
    """
    listed = list(names)
    found = {table: _numbers_among(folder, listed, table) for table in TABLES}
    first = found["events"][0]
    somewhere = {number for numbers in found.values() for number in numbers}
    for table, numbers in found.items():
        for before, after in pairwise([min(first, numbers[0]) - 1, *numbers]):
            if after == before + 1:
                continue
            is_nowhere = not any(before < number < after for number in somewhere)
            ends = [(others[0], others[-1]) for others in found.values()]
            if not is_nowhere or not all(low <= before and after <= high for low, high in ends):
                raise BadTrace(f"{folder}: has no {part_name(table, before + 1)}")
    return {table: [one for one in numbers if one >= first] for table, numbers in found.items()}


def _numbers_among(folder: str, names: Iterable[str], table: str) -> list[int]:
    numbers = [name.removeprefix(f"{table}-").removesuffix(".parquet") for name in names]
    found = sorted(int(number) for number in numbers if number.isdecimal())
    if not found:
        raise BadTrace(f"{folder}: has no {part_name(table, 0)}")
    return found


def add_part(assembly: Assembly, path: Path, table: str) -> None:
    """Read one part of a table of a node."""
    for row in rows_of(path, table):
        incarnation = row.whole("incarnation")
        if table == "events":
            assembly.add_event(path, incarnation, row.whole("pseq"), _event(path, row))
        elif row.whole("session"):
            _add_session_row(assembly, path, table, row)
        elif table == "deliveries":
            row.check_ring_level(path, {"sub": 0, "sender_session": 0})
            assembly.add_delivery(path, incarnation, row.whole("pos"), _delivery(path, row))
        else:
            assembly.add_send(path, incarnation, _send(assembly.node, path, row))


def add_telling_events(assembly: Assembly, path: Path) -> None:
    """Read the events of one part of a node, but for what tells nothing about the others.

    Nearly all events of a long run are visits of the token, of which only the last before anything
    else tells something of it, and views of groups. They are counted, so that a gap is noticed.
    """
    for row, passed in telling_rows(path):
        incarnation, pseq = row.whole("incarnation"), row.whole("pseq")
        if passed:
            assembly.pass_over(path, incarnation, pseq - passed, passed)
        assembly.add_event(path, incarnation, pseq, _event(path, row))


def _add_session_row(assembly: Assembly, path: Path, table: str, row: Row) -> None:
    incarnation, session = row.whole("incarnation"), row.whole("session")
    if table == "deliveries":
        assembly.add_heard(path, incarnation, session, row.whole("pos"), _heard(path, row))
    else:
        assembly.add_said(path, incarnation, _said(path, row))


def _event(path: Path, row: Row) -> Event:
    etype = row.text("etype")
    return Event(
        row.whole("pos"),
        row.whole("t_us"),
        etype,
        row.conf_no(),
        _configuration(path, row) if etype == "conf" else None,
        row.text("cause"),
        tuple(_pairs(path, row.several("aux"))),
    )


def _configuration(path: Path, row: Row) -> Configuration:
    kind = row.text("conf_kind")
    if kind not in KINDS:
        raise BadTrace(f"{path}: a configuration of kind {kind!r} is not one of a ring")
    conf_id = _conf_id(path, row.text("conf_id"))
    members = tuple(member for member in row.several("members") if isinstance(member, int))
    if not members or len(members) != len(row.several("members")):
        raise BadTrace(f"{path}: configuration {conf_id} has no members, or null among them")
    return Configuration(
        conf_id,
        _conf_id(path, row.text("prev_conf_id")),
        members,
        transitional=kind == "transitional",
        cause=row.text("cause"),
    )


def _pairs(path: Path, values: Sequence[object]) -> Iterator[tuple[str, str]]:
    for value in values:
        assert isinstance(value, tuple)
        if not isinstance(value[1], str):
            raise BadTrace(f"{path}: aux has null under {value[0]!r}")
        yield str(value[0]), value[1]


def _conf_id(path: Path, text: str) -> RingId:
    if not _CONF_ID.fullmatch(text):
        raise BadTrace(f"{path}: {text[:50]!r} is not the id of a configuration")
    seq, _, rep = text.partition(".")
    conf_id = RingId(int(seq), int(rep))
    return NO_RING if conf_id == NO_RING else conf_id


def _service(path: Path, code: int) -> Service:
    if code not in SERVICE_BY_CODE:
        name = SERVICES[code] if code < len(SERVICES) else "unheard of"
        raise BadTrace(f"{path}: service {code} ({name}) is not one of a ring")
    return SERVICE_BY_CODE[code]


def _delivery(path: Path, row: Row) -> Delivery:
    return Delivery(
        UnitId(row.whole("sender"), row.whole("sender_inc"), row.whole("origin_no")),
        row.ring_id(),
        row.whole("seq"),
        row.conf_no(),
        _service(path, row.whole("service")),
        row.truth("reduced"),
        row.whole("stable_seq"),
        row.truth("after_gap"),
        row.whole("size"),
        row.whole("digest"),
        row.whole("t_us"),
        row.whole("count"),
    )


def _send(node: ProcessorId, path: Path, row: Row) -> Send:
    return Send(
        UnitId(node, row.whole("incarnation"), row.whole("origin_no")),
        row.ring_id(),
        row.whole("seq"),
        row.conf_no(),
        row.whole("pos"),
        _service(path, row.whole("service")),
        row.whole("size"),
        row.whole("digest"),
        row.whole("t_us"),
        row.whole("count"),
    )


def _heard(path: Path, row: Row) -> GroupDelivery:
    return GroupDelivery(
        FrameId(
            row.whole("sender"),
            row.whole("sender_inc"),
            row.whole("sender_session"),
            row.whole("origin_no"),
        ),
        row.ring_id(),
        row.whole("seq"),
        row.whole("sub"),
        row.conf_no(),
        _service(path, row.whole("service")),
        row.truth("reduced"),
        row.number_or_none("dest_no"),
        row.whole("size"),
        row.whole("digest"),
        row.whole("t_us"),
        row.whole("count"),
    )


def _said(path: Path, row: Row) -> GroupSend:
    return GroupSend(
        row.whole("session"),
        row.whole("origin_no"),
        row.ring_id(),
        row.whole("seq"),
        row.conf_no(),
        row.whole("pos"),
        _service(path, row.whole("service")),
        row.number_or_none("dest_no"),
        row.whole("size"),
        row.whole("digest"),
        row.whole("t_us"),
        row.whole("count"),
    )
