"""Histories as Parquet, and back: the same check then runs on a trace as on a simulated run.

A run is a directory `run_id=…`, in it `node=…` a processor, in that `deliveries`, `sends` and
`events` in numbered parts, rows in the order of `pos` and `pseq`. All incarnations of a processor
share its files, one after the other. Reading is exact: the history that comes back has the same
rows, and what would not (a gap in a numbering, a column of another type, a bit that has flipped) is
refused by name; pages carry checksums.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from evensong.core.effects import Service
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.unit import UnitId
from evensong.errors import BadTrace
from evensong.sim.history import Delivery, Event, History, Life, Send
from evensong.sim.whole import whole
from evensong.trace.schema import COLUMNS, SERVICE_CODES, SERVICES, TABLES, arrow, schema

Column: TypeAlias = list[object]
Columns: TypeAlias = dict[str, Column]

CODE_BY_SERVICE: Final = {service: SERVICE_CODES[service.name.lower()] for service in Service}
SERVICE_BY_CODE: Final = {code: service for service, code in CODE_BY_SERVICE.items()}
KINDS: Final = ("regular", "transitional")
ENDS: Final = ("fail", "stop", "quiesce")
ETYPES: Final = ("start", "conf", "state", "token", "fault_inject", *ENDS)
_ID: Final = re.compile("[1-9][0-9]{0,9}")
_CONF_ID: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})\.(?:0|[1-9][0-9]{0,9})")


def write_trace(
    history: History, directory: Path | str, run_id: str, *, is_replaced: bool = False
) -> Path:
    """Write a run below `directory`; return its own directory, which must not exist yet.

    The directory is there once all of it is written, whatever happens meanwhile.
    """
    if not run_id or "/" in run_id or "\0" in run_id or run_id.startswith("."):
        raise BadTrace(f"{run_id!r} cannot name a run: it becomes part of a path")
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
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    by_node: dict[ProcessorId, list[Life]] = {}
    for key in sorted(history.lives):
        by_node.setdefault(key[0], []).append(history.lives[key])
    for node, lives in by_node.items():
        folder = f"node={node}"
        (partial / folder).mkdir()
        for table, columns in (
            ("deliveries", _delivery_columns(lives)),
            ("sends", _send_columns(lives)),
            ("events", _event_columns(lives)),
        ):
            file = f"{folder}/{table}-0000.parquet"
            try:
                rows = pa.table(_in_order(table, columns), schema=schema(table))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise BadTrace(f"{run / file}: {error}") from error
            parquet.write_table(rows, partial / file, compression="zstd", write_page_checksum=True)


def _in_order(table: str, columns: Columns) -> Columns:
    """Return every column of the table; those this protocol does not fill are null."""
    n_rows = len(columns["incarnation"])
    return {name: columns.get(name, [None] * n_rows) for name, _, _ in COLUMNS[table]}


def _delivery_columns(lives: list[Life]) -> Columns:
    rows = [(life.incarnation, pos, d) for life in lives for pos, d in enumerate(life.deliveries)]
    return {
        "incarnation": [incarnation for incarnation, _, _ in rows],
        "session": [0] * len(rows),
        "pos": [pos for _, pos, _ in rows],
        "count": [1] * len(rows),
        "ring_seq": [d.ring_id.seq for _, _, d in rows],
        "ring_rep": [d.ring_id.rep for _, _, d in rows],
        "seq": [d.seq for _, _, d in rows],
        "sub": [0] * len(rows),
        "conf_no": [_or_null(d.conf_no) for _, _, d in rows],
        "sender": [d.unit_id.sender for _, _, d in rows],
        "sender_inc": [d.unit_id.incarnation for _, _, d in rows],
        "sender_session": [0] * len(rows),
        "origin_no": [d.unit_id.origin_no for _, _, d in rows],
        "service": [CODE_BY_SERVICE[d.service] for _, _, d in rows],
        "reduced": [d.reduced for _, _, d in rows],
        "stable_seq": [d.safe_line for _, _, d in rows],
        "after_gap": [d.after_gap for _, _, d in rows],
        "digest": [d.digest for _, _, d in rows],
        "size": [d.size for _, _, d in rows],
        "t_us": [d.t_us for _, _, d in rows],
    }


def _send_columns(lives: list[Life]) -> Columns:
    rows = [(life, send) for life in lives for send in life.sends]
    for life, send in rows:
        if send.unit_id[:2] != (life.node, life.incarnation):
            raise BadTrace(f"node={life.node}: sends of {send.unit_id}, a unit of another life")
    return {
        "incarnation": [life.incarnation for life, _ in rows],
        "session": [0] * len(rows),
        "origin_no": [send.unit_id.origin_no for _, send in rows],
        "count": [1] * len(rows),
        "ring_seq": [send.ring_id.seq for _, send in rows],
        "ring_rep": [send.ring_id.rep for _, send in rows],
        "seq": [send.seq for _, send in rows],
        "conf_no": [_or_null(send.conf_no) for _, send in rows],
        "pos": [send.pos for _, send in rows],
        "service": [CODE_BY_SERVICE[send.service] for _, send in rows],
        "size": [send.size for _, send in rows],
        "digest": [send.digest for _, send in rows],
        "t_us": [send.t_us for _, send in rows],
    }


def _event_columns(lives: list[Life]) -> Columns:
    rows = [(life.incarnation, pseq, e) for life in lives for pseq, e in enumerate(life.events)]
    confs = [event.conf for _, _, event in rows]
    return {
        "incarnation": [incarnation for incarnation, _, _ in rows],
        "pseq": [pseq for _, pseq, _ in rows],
        "pos": [event.pos for _, _, event in rows],
        "t_us": [event.t_us for _, _, event in rows],
        "etype": [event.etype for _, _, event in rows],
        "conf_no": [_or_null(event.conf_no) for _, _, event in rows],
        "conf_id": [str(conf.conf_id) if conf else None for conf in confs],
        "conf_kind": [_kind(conf) if conf else None for conf in confs],
        "prev_conf_id": [str(conf.prev_id) if conf else None for conf in confs],
        "members": [list(conf.members) if conf else None for conf in confs],
        "cause": [event.cause for _, _, event in rows],
        "aux": [list(event.aux) for _, _, event in rows],
    }


def _or_null(conf_no: int) -> int | None:
    return conf_no if conf_no >= 0 else None


def _kind(conf: Configuration) -> str:
    return "transitional" if conf.transitional else "regular"


def read_trace(path: Path | str) -> dict[str, History]:
    """Read one run (`…/run_id=x`) or all runs below a directory, by run id."""
    root = Path(path)
    if not root.is_dir():
        raise BadTrace(f"{root}: not a directory")
    runs = [root] if root.name.startswith("run_id=") else sorted(root.glob("run_id=*"))
    for run in runs:
        if not run.is_dir():
            raise BadTrace(f"{run}: not a directory")
    if not runs:
        raise BadTrace(f"{root}: has no run_id=… in it")
    return {run.name.removeprefix("run_id="): _read_run(run) for run in runs}


def _read_run(run: Path) -> History:
    lives: list[Life] = []
    for folder in sorted(run.glob("node=*")):
        name = folder.name.removeprefix("node=")
        if not _ID.fullmatch(name) or int(name) >= 2**32:
            raise BadTrace(f"{folder}: {name!r} is not a processor id")
        lives.extend(_read_node(folder, int(name)))
    history = History()
    for life in sorted(lives, key=_began):
        history.lives[life.node, life.incarnation] = life
    return history


def _began(life: Life) -> tuple[int, ProcessorId, int]:
    return (life.events[0].t_us if life.events else 0, life.node, life.incarnation)


def _read_node(folder: Path, node: ProcessorId) -> Iterator[Life]:
    lives: dict[int, Life] = {}
    found = {table: _parts(folder, table) for table in TABLES}
    for path in found["events"]:
        for row in _rows(path, "events"):
            _add_event(lives, node, path, row)
    for path in found["deliveries"]:
        for row in _rows(path, "deliveries"):
            _add_delivery(lives, path, row)
    for path in found["sends"]:
        for row in _rows(path, "sends"):
            _add_send(lives, path, row)
    for life in lives.values():
        _check_positions(life, folder)
    yield from lives.values()


def _parts(folder: Path, table: str) -> list[Path]:
    """Return the parts of a table in order; none may be missing."""
    found = set(folder.glob(f"{table}-*.parquet"))
    parts = [folder / f"{table}-{number:04}.parquet" for number in range(max(1, len(found)))]
    for part in parts:
        if part not in found:
            raise BadTrace(f"{folder}: has no {part.name}")
    return parts


def _check_positions(life: Life, folder: Path) -> None:
    """Refuse events and sends that are not in order among the deliveries."""
    end = len(life.deliveries)
    for what, rows in (("events", life.events), ("sends", life.sends)):
        before = 0
        for row in rows:
            if not before <= row.pos <= end:
                raise BadTrace(
                    f"{folder}: {what} of incarnation {life.incarnation} have pos {row.pos} where "
                    f"{before} to {end} is due"
                )
            before = row.pos


class _Row:
    """One row; asks for a column by name and by type."""

    __slots__ = ("_columns", "_number")

    def __init__(self, columns: Columns, number: int) -> None:
        self._columns: Final = columns
        self._number: Final = number

    def whole(self, column: str) -> int:
        """Return an integer."""
        value = self._columns[column][self._number]
        assert isinstance(value, int)
        return value

    def truth(self, column: str) -> bool:
        """Return a boolean."""
        return bool(self._columns[column][self._number])

    def text(self, column: str) -> str:
        """Return a string, empty for null."""
        value = self._columns[column][self._number]
        return value if isinstance(value, str) else ""

    def several(self, column: str) -> Sequence[object]:
        """Return a list, empty for null."""
        value = self._columns[column][self._number]
        return value if isinstance(value, list) else ()

    def conf_no(self, path: Path, confs: Sequence[Configuration]) -> int:
        """Return the configuration's number, -1 for none."""
        value = self._columns["conf_no"][self._number]
        if not isinstance(value, int):
            return -1
        if value >= len(confs):
            raise BadTrace(f"{path}: conf_no {value} where there are {len(confs)} configurations")
        return value

    def check_ring_level(self, path: Path, columns: Mapping[str, int]) -> None:
        """Refuse what a ring does not have: packed units, and clients of its own."""
        for column, due in columns.items():
            if self.whole(column) != due:
                raise BadTrace(f"{path}: {column} {self.whole(column)} is not one of a ring: {due}")

    def ring_id(self) -> RingId:
        """Return the ring the unit was sequenced on."""
        return RingId(self.whole("ring_seq"), self.whole("ring_rep"))


def _rows(path: Path, table: str) -> Iterable[_Row]:
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            rows = file.read()
            rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadTrace(f"{path}: cannot be read as Parquet: {error}") from error
    _check_schema(pa, path, table, rows)
    try:
        columns: Columns = {name: rows.column(name).to_pylist() for name, _, _ in COLUMNS[table]}
    except ValueError as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error
    return (_Row(columns, number) for number in range(rows.num_rows))


def _check_schema(pa: ModuleType, path: Path, table: str, rows: object) -> None:
    assert isinstance(rows, pa.Table)
    written = {field.name: field for field in rows.schema}
    expected = {field.name: field for field in pa.schema(schema(table))}
    for name, field in expected.items():
        if name not in written:
            raise BadTrace(f"{path}: has no column {name}")
        if written[name].type != field.type:
            raise BadTrace(f"{path}: column {name} is {written[name].type}, not {field.type}")
        if not field.nullable and rows.column(name).null_count:
            raise BadTrace(f"{path}: column {name} has nulls")


def _add_event(lives: dict[int, Life], node: ProcessorId, path: Path, row: _Row) -> None:
    incarnation = row.whole("incarnation")
    if incarnation not in lives:
        lives[incarnation] = Life(node, incarnation)
    life = lives[incarnation]
    if row.whole("pseq") != len(life.events):
        raise BadTrace(
            f"{path}: pseq {row.whole('pseq')} of incarnation {incarnation} "
            f"where {len(life.events)} is due"
        )
    etype, cause = row.text("etype"), row.text("cause")
    if etype not in ETYPES:
        raise BadTrace(f"{path}: an event {etype!r} is none of {', '.join(ETYPES)}")
    conf = None
    if etype == "conf":
        conf = _configuration(path, row)
        life.confs.append(conf)
    conf_no = row.conf_no(path, life.confs)
    if conf is not None and conf_no != len(life.confs) - 1:
        raise BadTrace(f"{path}: a conf with conf_no {conf_no} where {len(life.confs) - 1} is due")
    aux = tuple(_pairs(path, row.several("aux")))
    event = Event(row.whole("pos"), row.whole("t_us"), etype, conf_no, conf, cause, aux)
    life.events.append(event)
    if etype in ENDS:
        life.ended = etype


def _configuration(path: Path, row: _Row) -> Configuration:
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


def _life_of(lives: dict[int, Life], path: Path, row: _Row) -> Life:
    incarnation = row.whole("incarnation")
    if incarnation not in lives:
        raise BadTrace(f"{path}: incarnation {incarnation} has no events")
    return lives[incarnation]


def _service(path: Path, code: int) -> Service:
    if code not in SERVICE_BY_CODE:
        name = SERVICES[code] if code < len(SERVICES) else "unheard of"
        raise BadTrace(f"{path}: service {code} ({name}) is not one of a ring")
    return SERVICE_BY_CODE[code]


def _add_delivery(lives: dict[int, Life], path: Path, row: _Row) -> None:
    if row.whole("session"):
        return  # what a client saw; the ring's history is about the node itself
    row.check_ring_level(path, {"count": 1, "sub": 0, "sender_session": 0})
    life = _life_of(lives, path, row)
    if row.whole("pos") != len(life.deliveries):
        raise BadTrace(
            f"{path}: pos {row.whole('pos')} of incarnation {life.incarnation} "
            f"where {len(life.deliveries)} is due"
        )
    life.deliveries.append(
        Delivery(
            UnitId(row.whole("sender"), row.whole("sender_inc"), row.whole("origin_no")),
            row.ring_id(),
            row.whole("seq"),
            row.conf_no(path, life.confs),
            _service(path, row.whole("service")),
            row.truth("reduced"),
            row.whole("stable_seq"),
            row.truth("after_gap"),
            row.whole("size"),
            row.whole("digest"),
            row.whole("t_us"),
        )
    )


def _add_send(lives: dict[int, Life], path: Path, row: _Row) -> None:
    if row.whole("session"):
        return
    row.check_ring_level(path, {"count": 1})
    life = _life_of(lives, path, row)
    origin_no = row.whole("origin_no")
    if life.sends and origin_no <= life.sends[-1].unit_id.origin_no:
        raise BadTrace(
            f"{path}: origin_no {origin_no} of incarnation {life.incarnation} after "
            f"{life.sends[-1].unit_id.origin_no}"
        )
    life.sends.append(
        Send(
            UnitId(life.node, life.incarnation, origin_no),
            row.ring_id(),
            row.whole("seq"),
            row.conf_no(path, life.confs),
            row.whole("pos"),
            _service(path, row.whole("service")),
            row.whole("size"),
            row.whole("digest"),
            row.whole("t_us"),
        )
    )
