"""Traces as DataFrames: `deliveries`, `sends` and `events`, with `run_id` and `node` in the rows.

Unsigned numbers of 64 bits are read as signed ones, bit by bit: Spark would make decimals of them,
which are many times slower. Only `digest` ever has its highest bit set, and that is a hash.

Pages carry checksums, and they are verified: a bit that has flipped ends the reading.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from evensong.trace.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evensong.spark.places import Place

_TYPES: Final = {
    "uint64": "bigint",
    "int64": "bigint",
    "uint32": "bigint",
    "int32": "int",
    "uint16": "int",
    "uint8": "int",
    "bool_": "boolean",
    "string": "string",
    "list<uint32>": "array<bigint>",
    "list<string>": "array<string>",
    "map<string,string>": "map<string,string>",
}


class Trace(NamedTuple):
    """The three tables of one or many runs, as they lie on disk."""

    deliveries: "DataFrame"
    sends: "DataFrame"
    events: "DataFrame"


def schema_of(table: str) -> str:
    """Return how Spark reads a table; run and node come from the path."""
    columns = [f"`{name}` {_TYPES[kind]}" for name, kind, _ in COLUMNS[table]]
    return ", ".join([*columns, "run_id string", "node bigint"])


def read_places(spark: "SparkSession", places: "Sequence[Place]") -> Trace:
    """Read what lies at some places, all of it as one trace."""
    return Trace(*(_read(spark, places, table) for table in ("deliveries", "sends", "events")))


def _read(spark: "SparkSession", places: "Sequence[Place]", table: str) -> "DataFrame":
    tables = [
        spark.read.schema(schema_of(table))
        .option("basePath", place.base)
        .option("parquet.page.verify-checksum.enabled", "true")
        .parquet(*place.files[table])
        for place in places
    ]
    return reduce(_union, tables)


def _union(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    return one.unionByName(other)
