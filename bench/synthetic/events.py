"""What else happened: configurations, views, states, visits of the token."""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from bench.synthetic.plan import (
    BATCH,
    FRAME_EVERY,
    NODES,
    PAUSE_US,
    PLANT_NODE,
    UNIT_US,
    Nodes,
    Ring,
    Stay,
    delivered,
)
from bench.synthetic.rows import (
    DELAY_US,
    GROUPS,
    SESSION,
    Columns,
    past,
    visits,
)
from evensong.trace.schema import schema

STATE_US: Final = 1_000  # in each state of forming a ring
LIMITS: Final = {
    "level": "events",
    "window_size": str(BATCH * len(NODES)),
    "messages_max": str(BATCH),
    "settle_us": str(PAUSE_US),
    "state_us": str(2 * STATE_US),
}
Row = dict[str, object]
GROUP_NAMES: Final = tuple(f"group-{number:02}" for number in range(GROUPS))


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


def arrival(node: int, stay: Stay) -> list[Row]:
    """Return the events by which a node comes to be in a ring, in order."""
    ring = stay.ring
    began = ring.t_us - PAUSE_US // 2
    about: Row = {"pos": stay.start, "t_us": began}
    old = {"conf_no": stay.conf_no - 1} if stay.conf_no else {}
    said = [("gather", stay.follows), ("commit", ring.id), ("recovery", ring.id)]
    rows: list[Row] = [] if stay.conf_no else [{**about, "etype": "start", "aux": dict(LIMITS)}]
    for number, (step, name) in enumerate(said):
        aux = {"state": step, "ring": name}
        about = {**about, "t_us": began + number * STATE_US}
        rows.append({**about, **old, "etype": "state", "cause": "join", "aux": aux})
    about = {**about, "t_us": began + len(said) * STATE_US}
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
    there = {**about, "conf_no": stay.conf_no}
    if not stay.conf_no:
        return [*rows, *_clients(there), *_joins(there, node, ring)]
    return rows + _views(there, View(ring.id, stay.conf_no, ring.members, stay.came, stay.told))


def _clients(about: Row) -> list[Row]:
    """Return how a client begins, and what the numbers of its destinations stand for."""
    aux = {"session": str(SESSION), "user": "client"}
    rows: list[Row] = [{**about, "etype": "open", "sender_session": SESSION, "aux": aux}]
    for number, group in enumerate(GROUP_NAMES):
        aux = {"dest_no": str(number), "groups": json.dumps([group]), "discard": "0"}
        rows.append({**about, "etype": "dest", "aux": aux})
    return rows


def _joins(about: Row, node: int, ring: Ring) -> list[Row]:
    """Return how the clients join every group, one after the other; each sees those after it."""
    rows: list[Row] = []
    for number, subject in enumerate(ring.members, start=1):
        if subject >= node:
            joined = ring.members[:number]
            rows += _views(about, View(ring.id, 0, joined, joined[:-1], 0, number, subject))
    return rows


class View(NamedTuple):
    """What a client is shown of each of its groups."""

    conf_id: str
    conf_no: int
    members: Nodes
    stayed: Nodes
    told: int  # frames before it
    sub: int = 0  # its place among others at the same place
    subject: int = 0  # who has joined; 0: the network has changed
    kind: str = "regular"


def _views(about: Row, view: View) -> list[Row]:
    """Return one view of every group."""
    # Joining takes as many views as there are nodes; after that each configuration has one more.
    counter = view.sub or len(NODES) + 1 + view.conf_no
    name = f"{view.conf_id}:0.{view.sub}:{counter}"
    aux = {
        "view": name,
        "kind": view.kind,
        "members": _sessions(view.members),
        "stayed": _sessions(view.stayed),
        "subject": _sessions((view.subject,)) if view.subject else "",
        "conf_no": str(view.conf_no),
        "sessions": str(SESSION),
        "at": str(view.told),
    }
    shown = {"conf_id": name, "conf_kind": "view", "members": list(view.members)}
    cause = "join" if view.subject else "network"
    whole_row = {**about, **shown, "etype": "gview", "cause": cause}
    return [{**whole_row, "group": group, "aux": {"group": group, **aux}} for group in GROUP_NAMES]


def _sessions(nodes: Nodes) -> str:
    return " ".join(f"{node}/1.{SESSION}" for node in nodes)


def departure(node: int, stay: Stay) -> list[Row]:
    """Return the events by which a ring ends for a node."""
    ring = stay.ring
    t_us = ring.t_us + ring.n_regular * UNIT_US + DELAY_US + node + 1
    if not stay.together:
        end = {"pos": stay.start + delivered(node, ring), "t_us": t_us, "conf_no": stay.conf_no}
        submitted = ring.sent_before[node] + len(visits(node, ring)) * BATCH
        return [{**end, "etype": "quiesce", "cause": "", "aux": {"submitted": str(submitted)}}]
    n_regular = ring.n_regular
    if node == PLANT_NODE:
        n_regular += (ring.plant == "early") - (ring.plant == "missing")
    about: Row = {"pos": stay.start + n_regular, "t_us": t_us}
    there = {**about, "conf_no": stay.conf_no + 1}
    told = stay.told + ring.n_regular // FRAME_EVERY
    later, going = stay.conf_no + 1, stay.together
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
        *_views(there, View(stay.transitional_id, later, going, going, told, kind="transitional")),
    ]


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
