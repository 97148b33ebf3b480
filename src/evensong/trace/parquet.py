"""Histories as Parquet, and back: the same check then runs on a trace as on a simulated run.

A run is a directory `run_id=…`, in it `node=…` a processor, in that `deliveries`, `sends` and
`events` in numbered parts, rows in the order of `pos` and `pseq`. All incarnations of a processor
share its files, one after the other. Reading is exact: the history that comes back has the same
rows, and what would not (a gap in a numbering, a column of another type) is refused by name.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from evensong.core.effects import Service
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.errors import BadTrace
from evensong.sim.history import Delivery, Event, History, Life, Send
from evensong.sim.unit import UnitId
from evensong.trace.schema import COLUMNS, SERVICE_CODES, SERVICES, TABLES, arrow, schema

Column: TypeAlias = list[object]
Columns: TypeAlias = dict[str, Column]

CODE_BY_SERVICE: Final = {service: SERVICE_CODES[service.name.lower()] for service in Service}
SERVICE_BY_CODE: Final = {code: service for service, code in CODE_BY_SERVICE.items()}
KINDS: Final = ("regular", "transitional")
ENDS: Final = ("fail", "stop", "quiesce")


def write_trace(history: History, directory: Path | str, run_id: str) -> Path:
    """Write a run below `directory`; return its own directory, which must not exist yet."""
    if not run_id or "/" in run_id or run_id.startswith("."):
        raise BadTrace(f"{run_id!r} cannot name a run: it becomes part of a path")
    run = Path(directory) / f"run_id={run_id}"
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    if run.exists():
        raise BadTrace(f"{run}: a trace of that name is already there")
    by_node: dict[ProcessorId, list[Life]] = {}
    for key in sorted(history.lives):
        by_node.setdefault(key[0], []).append(history.lives[key])
    run.mkdir(parents=True)  # a run without a single life is a trace too
    for node, lives in by_node.items():
        folder = run / f"node={node}"
        folder.mkdir(parents=True)
        for table, columns in (
            ("deliveries", _delivery_columns(lives)),
            ("sends", _send_columns(lives)),
            ("events", _event_columns(lives)),
        ):
            path = folder / f"{table}-0000.parquet"
            try:
                rows = pa.table(_in_order(table, columns), schema=schema(table))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise BadTrace(f"{path}: {error}") from error
            parquet.write_table(rows, path, compression="zstd")
    return run


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
    if not runs:
        raise BadTrace(f"{root}: has no run_id=… in it")
    return {run.name.removeprefix("run_id="): _read_run(run) for run in runs}


def _read_run(run: Path) -> History:
    lives: list[Life] = []
    for folder in sorted(run.glob("node=*")):
        name = folder.name.removeprefix("node=")
        if not name.isdecimal():
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
    found = {table: sorted(folder.glob(f"{table}-*.parquet")) for table in TABLES}
    for table, paths in found.items():
        if not paths:
            raise BadTrace(f"{folder}: has no {table}-0000.parquet")
    for path in found["events"]:
        for row in _rows(path, "events"):
            _add_event(lives, node, path, row)
    for path in found["deliveries"]:
        for row in _rows(path, "deliveries"):
            _add_delivery(lives, path, row)
    for path in found["sends"]:
        for row in _rows(path, "sends"):
            _add_send(lives, path, row)
    yield from lives.values()


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

    def conf_no(self) -> int:
        """Return the configuration's number, -1 for none."""
        value = self._columns["conf_no"][self._number]
        return value if isinstance(value, int) else -1

    def ring_id(self) -> RingId:
        """Return the ring the unit was sequenced on."""
        return RingId(self.whole("ring_seq"), self.whole("ring_rep"))


def _rows(path: Path, table: str) -> Iterable[_Row]:
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            rows = file.read()
    except (pa.ArrowException, OSError) as error:
        raise BadTrace(f"{path}: cannot be read as Parquet: {error}") from error
    _check_schema(pa, path, table, rows)
    columns: Columns = {name: rows.column(name).to_pylist() for name, _, _ in COLUMNS[table]}
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
    conf = None
    if etype == "conf":
        kind = row.text("conf_kind")
        if kind not in KINDS:
            raise BadTrace(f"{path}: a configuration of kind {kind!r} is not one of a ring")
        conf = Configuration(
            _conf_id(path, row.text("conf_id")),
            _conf_id(path, row.text("prev_conf_id")),
            tuple(member for member in row.several("members") if isinstance(member, int)),
            transitional=kind == "transitional",
            cause=cause,
        )
        life.confs.append(conf)
    aux = tuple((str(key), str(value)) for key, value in _pairs(row.several("aux")))
    life.events.append(
        Event(row.whole("pos"), row.whole("t_us"), etype, row.conf_no(), conf, cause, aux)
    )
    if etype in ENDS:
        life.ended = etype


def _pairs(values: Sequence[object]) -> Iterator[tuple[object, object]]:
    for value in values:
        assert isinstance(value, tuple)
        yield value[0], value[1]


def _conf_id(path: Path, text: str) -> RingId:
    seq, _, rep = text.partition(".")
    if not (seq.isdecimal() and rep.isdecimal()):
        raise BadTrace(f"{path}: {text!r} is not the id of a configuration")
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
            row.conf_no(),
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
    life = _life_of(lives, path, row)
    life.sends.append(
        Send(
            UnitId(life.node, life.incarnation, row.whole("origin_no")),
            row.ring_id(),
            row.whole("seq"),
            row.conf_no(),
            row.whole("pos"),
            _service(path, row.whole("service")),
            row.whole("size"),
            row.whole("digest"),
            row.whole("t_us"),
        )
    )
