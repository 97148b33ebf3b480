"""Traces as a long run would leave them, made by arithmetic: tens of millions of rows in a minute.

Eight nodes are one ring, split into five and three, and are one ring again, until there were 199
configurations (with a transitional one at each change); a second, short run has one alone, which
some properties need. Members send in turn, a batch a visit of the token; three in ten are safe.
What a ring leaves behind when it breaks is delivered in the transitional configuration by those
who have it. Nothing is drawn: the same size is the same trace.
"""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from evensong.sim.whole import whole
from evensong.trace.columns import parquet_options, part_name
from evensong.trace.schema import COLUMNS, schema

NODES: Final = tuple(range(1, 9))
SIDES: Final = (NODES[:5], NODES[5:])
CYCLES: Final = 66  # with the last ring of all, 199 configurations
BATCH: Final = 20  # units a visit
LEFT_BEHIND: Final = BATCH  # sent in the last visit, and safe to nobody when the ring breaks
LAG: Final = 3 * BATCH  # what a sender has not delivered yet when it sends
AGREED, SAFE = 3, 4
UNIT_US: Final = 10
DELAY_US: Final = 1000
PAUSE_US: Final = 20_000
ROW_GROUP: Final = 1 << 20
LIMITS: Final = {
    "level": "events",
    "window_size": str(BATCH * len(NODES)),
    "messages_max": str(BATCH),
    "settle_us": "5000000",
    "state_us": "5000000",
}
PLANT_NODE: Final = 2
PLANTS: Final = ("swap", "missing", "early", "content")


class Ring(NamedTuple):
    """One configuration: who is in it, and what was sent there."""

    seq: int
    members: tuple[int, ...]
    n_regular: int  # delivered by all members while the ring was whole
    n_left: int  # delivered after that, in a transitional configuration
    heirs: tuple[int, ...]  # who delivers what was left behind: they go on with its sender
    t_us: int
    sent_before: dict[int, int]  # by each member, in earlier rings
    plant: str = ""

    @property
    def id(self) -> str:
        """Its name in the trace."""
        return f"{self.seq}.{self.members[0]}"

    @property
    def n_sent(self) -> int:
        """All that was sent in it."""
        return self.n_regular + self.n_left

    @property
    def planted_at(self) -> int:
        """The index of the unit with which something is wrong, if anything is."""
        if self.plant == "early":
            return self.n_regular  # safe, and left behind
        middle = self.n_regular // 2 // BATCH * BATCH  # the first of a visit: its sender is another
        return middle + 5 if self.plant == "missing" else middle


class Stay(NamedTuple):
    """A node in a ring: from where on, in which of its configurations, and what came after."""

    ring: Ring
    start: int  # deliveries made before
    conf_no: int
    follows: str  # the id of the configuration before
    together: tuple[int, ...]  # who goes on with it; nobody: it stays to the end

    @property
    def transitional_id(self) -> str:
        """The configuration after the ring has broken."""
        return f"{self.ring.seq + 2}.{self.together[0]}"


def plan(rows: int, plant: str = "", cycles: int = CYCLES) -> list[list[Ring]]:
    """Return the rings of the long run in order, those at the same time together."""
    share = rows // (cycles * 12)  # a whole ring has twice as much as each of its sides
    phases: list[list[Ring]] = []
    sent = dict.fromkeys(NODES, 0)
    seq, now = 4, 0
    for number in range(2 * cycles + 1):
        is_last = number == 2 * cycles
        rings = []
        for members in SIDES if number % 2 else (NODES,):
            step = BATCH * len(members)
            least = 4 * step
            n_regular = max(least, (share // 2 if number % 2 else share) // step * step)
            n_left = 0 if is_last else LEFT_BEHIND
            heirs = members if number % 2 else SIDES[0]
            here = plant if number == cycles // 2 * 2 else ""
            rings.append(Ring(seq, members, n_regular, n_left, heirs, now, dict(sent), here))
        for ring in rings:
            for member in ring.members:
                sent[member] += ring.n_regular // len(ring.members)
            sent[ring.members[0]] += ring.n_left
        phases.append(rings)
        seq += 4
        now = max(ring.t_us + ring.n_sent * UNIT_US for ring in rings) + PAUSE_US
    return phases


def calm() -> list[list[Ring]]:
    """Return the one ring of the short run."""
    n_regular = BATCH * len(NODES) * 10
    return [[Ring(4, NODES, n_regular, 0, NODES, 0, dict.fromkeys(NODES, 0))]]


def stays_of(node: int, phases: list[list[Ring]]) -> list[Stay]:
    """Return the rings that a node was in."""
    stays: list[Stay] = []
    start = conf_no = 0
    follows = "0.0"
    mine = [next(ring for ring in rings if node in ring.members) for rings in phases]
    for ring, after in zip(mine, [*mine[1:], None], strict=True):
        together = (
            tuple(one for one in ring.members if one in after.members) if after is not None else ()
        )
        stay = Stay(ring, start, conf_no, follows, together)
        stays.append(stay)
        start += delivered(node, ring)
        conf_no += 2
        follows = stay.transitional_id if together else ""
    return stays


def delivered(node: int, ring: Ring) -> int:
    """Return how many units of a ring a node delivered."""
    is_lacking = ring.plant == "missing" and node == PLANT_NODE
    return ring.n_regular + (ring.n_left if node in ring.heirs else 0) - is_lacking


def n_rows(phases: list[list[Ring]]) -> int:
    """Return how many deliveries all nodes have made."""
    return sum(delivered(node, ring) for rings in phases for ring in rings for node in ring.members)


Columns = dict[str, np.ndarray]


def units(ring: Ring, index: np.ndarray) -> Columns:
    """Return what is the same of a unit wherever it is seen, by its index in the ring."""
    visit = index // BATCH
    members = np.array(ring.members, dtype=np.uint32)
    before = np.array([ring.sent_before[member] for member in ring.members], dtype=np.int64)
    turn = visit % len(members)
    mixed = (index.astype(np.uint64) + np.uint64(ring.seq << 40)) * np.uint64(0x9E3779B97F4A7C15)
    return {
        "count": (1 + index % 3).astype(np.uint16),
        "seq": (index + 1).astype(np.uint64),
        "sender": members[turn],
        "origin_no": (before[turn] + visit // len(members) * BATCH + index % BATCH + 1).astype(
            np.uint64
        ),
        "service": np.where(index % 10 < 3, SAFE, AGREED).astype(np.uint8),
        "digest": mixed >> np.uint64(32),
        "size": (100 + index % 1300).astype(np.uint32),
    }


def deliveries(node: int, stay: Stay) -> Columns:
    """Return what a node delivered in a ring."""
    ring = stay.ring
    index = np.arange(ring.n_sent if node in ring.heirs else ring.n_regular)
    is_planted = node == PLANT_NODE
    if is_planted and ring.plant == "missing":
        index = np.delete(index, ring.planted_at)
    t_us = ring.t_us + (index + 1) * UNIT_US + DELAY_US + node
    n_regular = ring.n_regular - (is_planted and ring.plant == "missing")
    n_regular += is_planted and ring.plant == "early"
    is_late = np.arange(len(index)) >= n_regular
    if is_planted and ring.plant == "swap":
        at = ring.planted_at
        index[[at - 1, at]] = index[[at, at - 1]]
    columns = units(ring, index)
    if is_planted and ring.plant == "content":
        columns["digest"][ring.planted_at] ^= np.uint64(1)
    stable = np.minimum((index // BATCH + 1) * BATCH, ring.n_regular)
    return {
        **columns,
        "pos": (stay.start + np.arange(len(index))).astype(np.uint64),
        "conf_no": (stay.conf_no + is_late).astype(np.uint32),
        "reduced": is_late & (columns["service"] == SAFE),
        "stable_seq": stable.astype(np.uint64),
        "after_gap": np.zeros(len(index), dtype=bool),
        "t_us": t_us.astype(np.int64),
    }


def visits(node: int, ring: Ring) -> np.ndarray:
    """Return which visits of the token, of all in a ring, were a member's own."""
    found = np.arange(ring.members.index(node), ring.n_regular // BATCH, len(ring.members))
    if node == ring.members[0] and ring.n_left:
        return np.append(found, ring.n_regular // BATCH)
    return found


def past(node: int, stay: Stay, visit: np.ndarray) -> np.ndarray:
    """Return how much a node had delivered at visits of the token."""
    known = np.maximum(visit * BATCH - LAG, 0)
    if stay.ring.plant == "missing" and node == PLANT_NODE:
        known = known - (known > stay.ring.planted_at)
    return np.asarray(stay.start + known)


def sends(node: int, stay: Stay) -> Columns:
    """Return what a node sent in a ring."""
    ring = stay.ring
    visit = visits(node, ring)
    index = (visit[:, None] * BATCH + np.arange(BATCH)).ravel()
    columns = units(ring, index)
    del columns["sender"]
    return {
        **columns,
        "conf_no": np.full(len(index), stay.conf_no, dtype=np.uint32),
        "pos": np.repeat(past(node, stay, visit), BATCH).astype(np.uint64),
        "t_us": np.repeat(ring.t_us + visit * BATCH * UNIT_US, BATCH).astype(np.int64),
    }


def tokens(node: int, stay: Stay) -> Columns:
    """Return the visits of the token as numbers; `aux` is made of those that begin with it."""
    ring = stay.ring
    visit = visits(node, ring)
    return {
        "pos": past(node, stay, visit),
        "t_us": ring.t_us + visit * BATCH * UNIT_US,
        "aux_token_seq": visit + 1,
        "aux_seq": (visit + 1) * BATCH,
        "aux_aru": np.maximum(visit * BATCH - BATCH, 0),
        "aux_fcc": np.minimum(visit, len(ring.members) - 1) * BATCH,
        "aux_sent": np.full(len(visit), BATCH),
        "aux_resent": np.zeros(len(visit), dtype=int),
    }


Row = dict[str, object]


def arrival(node: int, stay: Stay) -> list[Row]:
    """Return the events by which a node comes to be in a ring, in order."""
    ring = stay.ring
    about = {"pos": stay.start, "t_us": ring.t_us - PAUSE_US // 2 if ring.t_us else 0}
    old = {"conf_no": stay.conf_no - 1} if stay.conf_no else {}
    said = [("gather", stay.follows), ("commit", ring.id), ("recovery", ring.id)]
    rows: list[Row] = [] if stay.conf_no else [{**about, "etype": "start", "aux": dict(LIMITS)}]
    rows += [
        {**about, **old, "etype": "state", "cause": "join", "aux": {"state": state, "ring": name}}
        for state, name in said
    ]
    rows.append(
        {
            **about,
            "etype": "conf",
            "conf_no": stay.conf_no,
            "conf_id": ring.id,
            "conf_kind": "regular",
            "prev_conf_id": stay.follows,
            "members": list(ring.members),
            "cause": "join" if stay.conf_no else "start",
        }
    )
    state = {"state": "operational", "ring": ring.id}
    rows.append({**about, "conf_no": stay.conf_no, "etype": "state", "cause": "", "aux": state})
    return rows


def departure(node: int, stay: Stay) -> list[Row]:
    """Return the events by which a ring ends for a node."""
    ring = stay.ring
    t_us = ring.t_us + ring.n_regular * UNIT_US + DELAY_US + node + 1
    if not stay.together:
        end = {"pos": stay.start + delivered(node, ring), "t_us": t_us, "conf_no": stay.conf_no}
        return [{**end, "etype": "quiesce", "cause": ""}]
    n_regular = ring.n_regular
    if node == PLANT_NODE:
        n_regular += (ring.plant == "early") - (ring.plant == "missing")
    about = {"pos": stay.start + n_regular, "t_us": t_us}
    return [
        {**about, "conf_no": stay.conf_no, "etype": "fault_inject", "cause": "partition or heal"},
        {
            **about,
            "etype": "conf",
            "conf_no": stay.conf_no + 1,
            "conf_id": stay.transitional_id,
            "conf_kind": "transitional",
            "prev_conf_id": ring.id,
            "members": list(stay.together),
            "cause": "token loss",
        },
    ]


def delivery_tables(node: int, stays: list[Stay]) -> Iterator[pa.Table]:
    """Return a node's deliveries, ring by ring."""
    for stay in stays:
        yield _table("deliveries", deliveries(node, stay), stay.ring)


def send_tables(node: int, stays: list[Stay]) -> Iterator[pa.Table]:
    """Return a node's sends, ring by ring."""
    for stay in stays:
        yield _table("sends", sends(node, stay), stay.ring)


def event_tables(node: int, stays: list[Stay]) -> Iterator[pa.Table]:
    """Return a node's events, in order."""
    pseq = 0
    for stay in stays:
        for rows in (
            _events(arrival(node, stay)),
            _token_events(tokens(node, stay), stay),
            _events(departure(node, stay)),
        ):
            numbers = np.arange(pseq, pseq + rows.num_rows, dtype=np.uint64)
            yield rows.set_column(1, rows.schema.field("pseq"), pa.array(numbers))
            pseq += rows.num_rows


def _table(table: str, columns: Columns, ring: Ring) -> pa.Table:
    rows = len(columns["seq"])
    given = {
        "incarnation": np.ones(rows, dtype=np.uint64),
        "sender_inc": np.ones(rows, dtype=np.uint64),
        "ring_seq": np.full(rows, ring.seq, dtype=np.uint64),
        "ring_rep": np.full(rows, ring.members[0], dtype=np.uint32),
        **columns,
    }
    whole_schema = pa.schema(schema(table))
    arrays = []
    for name, _, is_null in COLUMNS[table]:
        kind = whole_schema.field(name).type
        if name in given:
            arrays.append(pa.array(given[name], type=kind))
        elif is_null:
            arrays.append(pa.nulls(rows, kind))
        else:
            arrays.append(pa.array(np.zeros(rows, dtype=np.int64)).cast(kind))
    return pa.table(arrays, schema=whole_schema)


def _events(rows: list[Row]) -> pa.Table:
    whole_rows = [{"incarnation": 1, "pseq": 0, "cause": "", "aux": {}, **row} for row in rows]
    for row in whole_rows:
        aux = row["aux"]
        assert isinstance(aux, dict)
        row["aux"] = list(aux.items())
    return pa.Table.from_pylist(whole_rows, schema=pa.schema(schema("events")))


def _token_events(columns: Columns, stay: Stay) -> pa.Table:
    rows = len(columns["pos"])
    told = [name for name in columns if name.startswith("aux_")]
    values = [pa.array([stay.ring.id] * rows)]
    values += [pa.array(columns[name]).cast(pa.string()) for name in told]
    keys = ["ring", *(name.removeprefix("aux_") for name in told)]
    # Columns to rows: the first value of each, then the second of each.
    order = np.arange(rows * len(keys)).reshape(len(keys), rows).T.ravel()
    aux = pa.MapArray.from_arrays(
        np.arange(0, rows * len(keys) + 1, len(keys), dtype=np.int32),
        pa.array(keys * rows),
        pa.concat_arrays(values).take(pa.array(order)),
    )
    given = {
        "incarnation": pa.array(np.ones(rows, dtype=np.uint64)),
        "pseq": pa.array(np.zeros(rows, dtype=np.uint64)),
        "pos": pa.array(columns["pos"].astype(np.uint64)),
        "t_us": pa.array(columns["t_us"].astype(np.int64)),
        "etype": pa.array(["token"] * rows),
        "conf_no": pa.array(np.full(rows, stay.conf_no, dtype=np.uint32)),
        "cause": pa.array([""] * rows),
        "aux": aux,
    }
    whole_schema = pa.schema(schema("events"))
    arrays = [given.get(field.name, pa.nulls(rows, field.type)) for field in whole_schema]
    return pa.table(arrays, schema=whole_schema)


TABLES_OF: Final = {"deliveries": delivery_tables, "sends": send_tables, "events": event_tables}


def write_node(node: int, phases: list[list[Ring]], run: Path) -> None:
    """Write the three tables of a node."""
    folder = run / f"node={node}"
    folder.mkdir(parents=True, exist_ok=True)
    stays = stays_of(node, phases)
    for table, tables in TABLES_OF.items():
        _write(table, tables(node, stays), folder / part_name(table, 0))


def _write(table: str, tables: Iterator[pa.Table], path: Path) -> None:
    with parquet.ParquetWriter(path, pa.schema(schema(table)), **parquet_options(table)) as file:
        waiting: list[pa.Table] = []
        for rows in tables:
            waiting.append(rows)
            if sum(one.num_rows for one in waiting) >= ROW_GROUP:
                file.write_table(pa.concat_tables(waiting), row_group_size=2 * ROW_GROUP)
                waiting = []
        if waiting:
            file.write_table(pa.concat_tables(waiting), row_group_size=2 * ROW_GROUP)


def make(directory: Path, rows: int, plant: str = "", cycles: int = CYCLES) -> Path:
    """Return a trace with so many deliveries, made now if it is not there; whole or not at all."""
    assert plant in ("", *PLANTS)
    place = directory / "-".join([str(rows), *([plant] if plant else [])])
    if place.is_dir():
        return place
    clean = make(directory, rows, cycles=cycles) if plant else None
    nodes = (PLANT_NODE,) if plant else NODES
    directory.mkdir(parents=True, exist_ok=True)
    with whole(place) as made:
        if clean is not None:
            shutil.copytree(clean, made, copy_function=os.link)  # one node's files are its own
            shutil.rmtree(made / "run_id=long" / f"node={PLANT_NODE}")
        phases = plan(rows, plant, cycles)
        with ProcessPoolExecutor(os.cpu_count()) as workers:
            write = partial(write_node, phases=phases, run=made / "run_id=long")
            list(workers.map(write, nodes))
        if clean is None:
            for node in NODES:
                write_node(node, calm(), made / "run_id=calm")
    return place
