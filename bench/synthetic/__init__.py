"""Traces as a long run would leave them, made by arithmetic: tens of millions of rows in a minute.

Eight nodes are one ring, split into five and three, and are one ring again, until there were 199
configurations (with a transitional one at each change); a second, short run has one alone, which
some properties need. Members send in turn, a batch a visit of the token; three in ten are safe.
What a ring leaves behind when it breaks is delivered in the transitional configuration by those
who have it. At each node a client is in fifty groups; every fourth unit is a frame to one of them,
and each change of membership a view of each. Nothing is drawn: the same size is the same trace.
"""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from bench.synthetic.events import (
    event_tables,
)
from bench.synthetic.plan import (
    CYCLES,
    NODES,
    PLANT_NODE,
    Ring,
    Stay,
    calm,
    plan,
    stays_of,
)
from bench.synthetic.rows import (
    Columns,
    deliveries,
    frames_sent,
    frames_told,
    sends,
)
from evensong.sim.whole import whole
from evensong.trace.columns import parquet_options, part_name
from evensong.trace.schema import COLUMNS, schema

ROW_GROUP: Final = 1 << 20
LAYOUT: Final = "v2"  # in the names of traces: another one has other rows
PLANTS: Final = ("swap", "missing", "early", "content")


def delivery_tables(node: int, stays: list[Stay]) -> Iterator[pa.Table]:
    """Return a node's deliveries, ring by ring."""
    for stay in stays:
        yield _table("deliveries", deliveries(node, stay), stay.ring)
        yield _table("deliveries", frames_told(node, stay), stay.ring)


def send_tables(node: int, stays: list[Stay]) -> Iterator[pa.Table]:
    """Return a node's sends, ring by ring."""
    for stay in stays:
        yield _table("sends", sends(node, stay), stay.ring)
        yield _table("sends", frames_sent(node, stay), stay.ring)


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
    place = directory / "-".join([str(rows), LAYOUT, *([plant] if plant else [])])
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
