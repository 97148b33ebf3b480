"""Small tables that come from Python: Spark is told how small they are, and joins accordingly."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from evensong.spark.session import for_small_tables

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
}


def small_table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Return rows as a DataFrame; `schema` is `name type, name type, …`."""
    fields = [column.strip().split(" ", 1) for column in schema.split(",")]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    arrays = [
        pa.array(list(values), _ARROW[kind])
        for values, (_, kind) in zip(columns, fields, strict=True)
    ]
    beside = for_small_tables(spark)
    return beside.createDataFrame(pa.table(arrays, names=[name for name, _ in fields]), schema)
