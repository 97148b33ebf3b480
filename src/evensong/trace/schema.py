"""The trace on disk: three tables of plain columns, one row an observable event.

`deliveries` and `sends` hold integers only, `events` everything else. Node and run are in the path
(`run_id=…/node=…/`), not in the rows. Identity is fixed before ordering: a unit is (sender,
sender_inc, sender_session, origin_no), so that order can be judged without the protocol's keys.

Columns that only other protocols or the group layer fill are present and null, so that one schema
reads every trace. The codes of `service` are written into the files' metadata.

pyarrow is needed here and nowhere below; it comes with `evensong[trace]`.
"""

import re
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from evensong.core.effects import Service
from evensong.errors import BadTrace

RUN: Final = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")  # what becomes part of a path
TABLES: Final = ("deliveries", "sends", "events")

SERVICES: Final = (
    "basic",
    "fifo",
    "causal",
    "agreed",
    "safe",
    "be_n",
    "be_to",
    "al_n",
    "al_to",
    "reliable",
    "atomic",
    "tight",
    "prio",
)
CODE_BY_SERVICE: Final = {service: SERVICES.index(service.name.lower()) for service in Service}
SERVICE_BY_CODE: Final = {code: service for service, code in CODE_BY_SERVICE.items()}

# (column, type, null allowed)
DELIVERIES: Final = (
    ("incarnation", "uint64", False),
    ("session", "uint32", False),  # 0: the node itself
    ("pos", "uint64", False),
    ("count", "uint16", False),
    ("ring_seq", "uint64", False),
    ("ring_rep", "uint32", False),
    ("seq", "uint64", False),
    ("sub", "uint16", False),
    ("conf_no", "uint32", True),  # null: none that the node ever installed
    ("sender", "uint32", False),
    ("sender_inc", "uint64", False),
    ("sender_session", "uint32", False),
    ("origin_no", "uint64", False),
    ("service", "uint8", False),
    ("reduced", "bool_", False),
    ("stable_seq", "uint64", False),
    ("after_gap", "bool_", False),
    ("digest", "uint64", False),
    ("size", "uint32", False),
    ("t_us", "int64", False),
    ("dest_no", "uint32", True),  # of a session's row: which groups, by the `dest` events
)
SENDS: Final = (
    ("incarnation", "uint64", False),
    ("session", "uint32", False),
    ("origin_no", "uint64", False),
    ("count", "uint16", False),
    ("ring_seq", "uint64", False),
    ("ring_rep", "uint32", False),
    ("seq", "uint64", False),
    ("conf_no", "uint32", True),
    ("pos", "uint64", False),
    ("service", "uint8", False),
    ("size", "uint32", False),
    ("digest", "uint64", False),
    ("t_us", "int64", False),
    ("dest_no", "uint32", True),
)
EVENTS: Final = (
    ("incarnation", "uint64", False),
    ("pseq", "uint64", False),
    ("pos", "uint64", False),
    ("t_us", "int64", False),
    ("etype", "string", False),
    ("conf_no", "uint32", True),  # null: before the first
    ("conf_id", "string", True),
    ("conf_kind", "string", True),
    ("prev_conf_id", "string", True),
    ("members", "list<uint32>", True),
    ("group", "string", True),
    ("sender", "uint32", True),
    ("sender_inc", "uint64", True),
    ("sender_session", "uint32", True),
    ("origin_no", "uint64", True),
    ("service", "uint8", True),
    ("clabel", "uint32", True),
    ("prio", "int32", True),
    ("dest", "list<uint32>", True),
    ("deps", "list<string>", True),
    ("size", "uint32", True),
    ("reason", "string", True),
    ("cause", "string", True),
    ("aux", "map<string,string>", True),
)
LATER: Final = ("dest_no",)  # columns that the first traces do not have
COLUMNS: Final = {"deliveries": DELIVERIES, "sends": SENDS, "events": EVENTS}

METADATA: Final = {"evensong.trace": "1", "evensong.services": ",".join(SERVICES)}


def arrow(module: str = "pyarrow") -> ModuleType:
    """Return pyarrow or one of its modules, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise BadTrace(
            f"traces need pyarrow, which is not installed ({missing}): "
            "pip install 'evensong[trace]'"
        ) from missing


@cache
def schema(table: str) -> object:
    """Return the pyarrow schema of a table."""
    pa = arrow()
    nested = {
        "list<uint32>": pa.list_(pa.uint32()),
        "list<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    fields = [
        pa.field(name, nested[kind] if kind in nested else getattr(pa, kind)(), nullable=null)
        for name, kind, null in COLUMNS[table]
    ]
    return pa.schema(fields, metadata=METADATA)
