"""Traces as DataFrames: `deliveries`, `sends` and `events`, with `run_id` and `node` in the rows.

Unsigned numbers of 64 bits are read as signed ones, bit by bit: Spark would make decimals of them,
which are many times slower. Only `digest` ever has its highest bit set, and that is a hash. Where a
file keeps them in dictionaries, as old traces do, Spark can only take the slow way.

Pages carry checksums, and they are verified: a bit that has flipped ends the reading.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from evensong.spark.session import is_tiny
from evensong.trace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
AS_NAMED: Final = "__globPaths__"  # false: folders are called that, brackets and braces included
_TOP: Final = "18446744073709551616"  # 2 to the 64th


class Trace(NamedTuple):
    """The three tables of one or many runs, as they lie on disk."""

    deliveries: "DataFrame"
    sends: "DataFrame"
    events: "DataFrame"


def schema_of(table: str, *, wide: str = "bigint") -> str:
    """Return how Spark reads a table; run and node come from the path."""
    types = {**_TYPES, "uint64": wide}
    columns = [f"`{name}` {types[kind]}" for name, kind, _ in COLUMNS[table]]
    return ", ".join([*columns, "run_id string", "node bigint"])


def read_places(spark: "SparkSession", places: "Sequence[Place]") -> Trace:
    """Read what lies at some places, all of it as one trace.

    A session for tiny data reads it here and now, and keeps it: opening files once more for each
    question takes longer than to answer it.
    """
    with _listing_here(spark):
        tables = [_read(spark, places, table) for table in ("deliveries", "sends", "events")]
    if is_tiny(spark):
        tables = [table.localCheckpoint() for table in tables]
    return Trace(*tables)


@contextmanager
def _listing_here(spark: "SparkSession") -> Iterator[None]:
    """List files in this process: a job of Spark for each few dozen of folders takes longer."""
    before = spark.conf.get(_LISTING, None)
    spark.conf.set(_LISTING, "100000")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_LISTING)
        else:
            spark.conf.set(_LISTING, before)


def _read(spark: "SparkSession", places: "Sequence[Place]", table: str) -> "DataFrame":
    by_base: dict[tuple[str, bool], list[str]] = {}
    for place in places:
        by_base.setdefault((place.base, place.has_dictionaries), []).extend(place.folders)
    tables = [
        _read_one(spark, base, folders, table, is_slow=is_slow)
        for (base, is_slow), folders in by_base.items()
    ]
    return reduce(_union, tables)


def _read_one(
    spark: "SparkSession", base: str, folders: list[str], table: str, *, is_slow: bool
) -> "DataFrame":
    rows = (
        spark.read.schema(schema_of(table, wide="decimal(20,0)" if is_slow else "bigint"))
        .option("basePath", base)
        .option("pathGlobFilter", f"{table}-*.parquet")
        .option(AS_NAMED, "false")
        .option("parquet.page.verify-checksum.enabled", "true")
        .parquet(*folders)
    )
    if not is_slow:
        return rows
    narrow = {
        name: f"cast(if(`{name}` < 9223372036854775808, `{name}`, `{name}` - {_TOP}) as bigint)"
        for name, kind, _ in COLUMNS[table]
        if kind == "uint64"
    }
    return rows.selectExpr(
        *(f"{narrow.get(name, f'`{name}`')} as `{name}`" for name in rows.columns)
    )


def _union(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    return one.unionByName(other)
