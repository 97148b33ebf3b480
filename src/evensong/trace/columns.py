"""Rows laid out as the columns of the trace's tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from evensong.core.ids import Configuration
from evensong.errors import BadTrace
from evensong.sim.history import (
    GROUP_ETYPES,
    Delivery,
    Event,
    GroupDelivery,
    GroupSend,
    Life,
    Send,
)
from evensong.trace.groups import member_of
from evensong.trace.schema import CODE_BY_SERVICE, COLUMNS, arrow, schema

Column: TypeAlias = list[object]
Columns: TypeAlias = dict[str, Column]
NOTHING: Final[Mapping[str, str]] = {}


def part_name(table: str, part: int) -> str:
    """Return the name of a part of a table."""
    return f"{table}-{part:04}.parquet"


class Part(NamedTuple):
    """Rows of the three tables of one node that are written together."""

    deliveries: Sequence[tuple[int, int, Delivery]]  # with incarnation and `pos`
    sends: Sequence[tuple[int, Send]]  # with incarnation
    events: Sequence[tuple[int, int, Event]]  # with incarnation and `pseq`
    heard: Sequence[tuple[int, int, int, GroupDelivery]] = ()  # incarnation, session, `pos`
    said: Sequence[tuple[int, GroupSend]] = ()  # with incarnation

    def write(self, folder: Path, number: int, shown: Path) -> None:
        """Write the three files; an error names them as `shown`, where they are to be."""
        pa, parquet = arrow(), arrow("pyarrow.parquet")
        for table, columns in (
            ("deliveries", both(delivery_columns(self.deliveries), heard_columns(self.heard))),
            ("sends", both(send_columns(self.sends), said_columns(self.said))),
            ("events", event_columns(self.events)),
        ):
            file = part_name(table, number)
            try:
                rows = pa.table(in_order(table, columns), schema=schema(table))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise BadTrace(f"{shown / file}: {error}") from error
            parquet.write_table(rows, folder / file, **parquet_options(table))


def parquet_options(table: str) -> dict[str, object]:
    """Return how a table is laid out in Parquet.

    Counters rise by little, so their differences are small; what is a hash stays plain. Unsigned
    numbers of 64 bits have no dictionary: Spark can read them as its own only without.
    """
    wide = [name for name, kind, _ in COLUMNS[table] if kind == "uint64"]
    others = [_leaves(name, kind) for name, kind, _ in COLUMNS[table] if kind != "uint64"]
    return {
        "compression": "zstd",
        "write_page_checksum": True,
        "use_dictionary": [leaf for leaves in others for leaf in leaves],
        "column_encoding": {
            name: "PLAIN" if name == "digest" else "DELTA_BINARY_PACKED" for name in wide
        },
    }


def _leaves(name: str, kind: str) -> list[str]:
    """Return a column's names as Parquet has them."""
    if kind.startswith("list"):
        return [f"{name}.list.element"]
    if kind.startswith("map"):
        return [f"{name}.key_value.key", f"{name}.key_value.value"]
    return [name]


def both(first: Columns, second: Columns) -> Columns:
    """Return the rows of two layouts of one table, one behind the other."""
    return {name: [*column, *second[name]] for name, column in first.items()}


def heard_of(life: Life) -> list[tuple[int, int, int, GroupDelivery]]:
    """Return what the sessions of a life were told, numbered, one session after the other."""
    return [
        (life.incarnation, session, pos, row)
        for session in sorted(life.heard)
        for pos, row in enumerate(life.heard[session])
    ]


def in_order(table: str, columns: Columns) -> Columns:
    """Return every column of the table; those this protocol does not fill are null."""
    n_rows = len(columns["incarnation"])
    return {name: columns.get(name, [None] * n_rows) for name, _, _ in COLUMNS[table]}


def delivery_columns(rows: Sequence[tuple[int, int, Delivery]]) -> Columns:
    """Lay deliveries out; each comes with its incarnation and `pos`."""
    return {
        "incarnation": [incarnation for incarnation, _, _ in rows],
        "session": [0] * len(rows),
        "pos": [pos for _, pos, _ in rows],
        "count": [d.messages for _, _, d in rows],
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
        "dest_no": [None] * len(rows),
    }


def heard_columns(rows: Sequence[tuple[int, int, int, GroupDelivery]]) -> Columns:
    """Lay out what sessions were told; each comes with its incarnation, session and `pos`."""
    return {
        "incarnation": [incarnation for incarnation, _, _, _ in rows],
        "session": [session for _, session, _, _ in rows],
        "pos": [pos for _, _, pos, _ in rows],
        "count": [d.messages for _, _, _, d in rows],
        "ring_seq": [d.ring_id.seq for _, _, _, d in rows],
        "ring_rep": [d.ring_id.rep for _, _, _, d in rows],
        "seq": [d.seq for _, _, _, d in rows],
        "sub": [d.sub for _, _, _, d in rows],
        "conf_no": [_or_null(d.conf_no) for _, _, _, d in rows],
        "sender": [d.frame_id.sender for _, _, _, d in rows],
        "sender_inc": [d.frame_id.incarnation for _, _, _, d in rows],
        "sender_session": [d.frame_id.session for _, _, _, d in rows],
        "origin_no": [d.frame_id.first_no for _, _, _, d in rows],
        "service": [CODE_BY_SERVICE[d.service] for _, _, _, d in rows],
        "reduced": [d.reduced for _, _, _, d in rows],
        "stable_seq": [0] * len(rows),
        "after_gap": [False] * len(rows),
        "digest": [d.digest for _, _, _, d in rows],
        "size": [d.size for _, _, _, d in rows],
        "t_us": [d.t_us for _, _, _, d in rows],
        "dest_no": [_or_null(d.dest_no) for _, _, _, d in rows],
    }


def send_columns(rows: Sequence[tuple[int, Send]]) -> Columns:
    """Lay sends out; each comes with its incarnation."""
    return {
        "incarnation": [incarnation for incarnation, _ in rows],
        "session": [0] * len(rows),
        "origin_no": [send.unit_id.origin_no for _, send in rows],
        "count": [send.messages for _, send in rows],
        "ring_seq": [send.ring_id.seq for _, send in rows],
        "ring_rep": [send.ring_id.rep for _, send in rows],
        "seq": [send.seq for _, send in rows],
        "conf_no": [_or_null(send.conf_no) for _, send in rows],
        "pos": [send.pos for _, send in rows],
        "service": [CODE_BY_SERVICE[send.service] for _, send in rows],
        "size": [send.size for _, send in rows],
        "digest": [send.digest for _, send in rows],
        "t_us": [send.t_us for _, send in rows],
        "dest_no": [None] * len(rows),
    }


def said_columns(rows: Sequence[tuple[int, GroupSend]]) -> Columns:
    """Lay out what sessions sent; each comes with its incarnation."""
    return {
        "incarnation": [incarnation for incarnation, _ in rows],
        "session": [said.session for _, said in rows],
        "origin_no": [said.first_no for _, said in rows],
        "count": [said.messages for _, said in rows],
        "ring_seq": [said.ring_id.seq for _, said in rows],
        "ring_rep": [said.ring_id.rep for _, said in rows],
        "seq": [said.seq for _, said in rows],
        "conf_no": [_or_null(said.conf_no) for _, said in rows],
        "pos": [said.pos for _, said in rows],
        "service": [CODE_BY_SERVICE[said.service] for _, said in rows],
        "size": [said.size for _, said in rows],
        "digest": [said.digest for _, said in rows],
        "t_us": [said.t_us for _, said in rows],
        "dest_no": [_or_null(said.dest_no) for _, said in rows],
    }


def event_columns(rows: Sequence[tuple[int, int, Event]]) -> Columns:
    """Lay events out; each comes with its incarnation and `pseq`."""
    confs = [event.conf for _, _, event in rows]
    told = [dict(e.aux) if e.etype in GROUP_ETYPES else NOTHING for _, _, e in rows]
    return {
        "incarnation": [incarnation for incarnation, _, _ in rows],
        "pseq": [pseq for _, pseq, _ in rows],
        "pos": [event.pos for _, _, event in rows],
        "t_us": [event.t_us for _, _, event in rows],
        "etype": [event.etype for _, _, event in rows],
        "conf_no": [_or_null(event.conf_no) for _, _, event in rows],
        "conf_id": [
            str(conf.conf_id) if conf else aux.get("view")
            for conf, aux in zip(confs, told, strict=True)
        ],
        "conf_kind": [
            _kind(conf) if conf else "view" if "view" in aux else None
            for conf, aux in zip(confs, told, strict=True)
        ],
        "prev_conf_id": [str(conf.prev_id) if conf else None for conf in confs],
        "members": [
            list(conf.members) if conf else _nodes(aux)
            for conf, aux in zip(confs, told, strict=True)
        ],
        "group": [aux.get("group") for aux in told],
        "sender_session": [int(aux["session"]) if "session" in aux else None for aux in told],
        "cause": [event.cause for _, _, event in rows],
        "aux": [list(event.aux) for _, _, event in rows],
    }


def _or_null(conf_no: int) -> int | None:
    return conf_no if conf_no >= 0 else None


def _nodes(aux: Mapping[str, str]) -> list[int] | None:
    """Return where the members of a view are, in their order; None if this is about no view."""
    if "members" not in aux:
        return None
    return [member_of(text)[0] for text in aux["members"].split()]


def _kind(conf: Configuration) -> str:
    return "transitional" if conf.transitional else "regular"
