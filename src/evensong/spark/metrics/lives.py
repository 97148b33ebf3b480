"""Whose rows a trace has: one line a life, with the clock that its times are of.

A simulated run has one clock. A daemon names the clock of its machine at its start; one that does
not, or whose start is gone, has times that compare with nobody's.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evensong.trace.assembly import ENDS
from evensong.trace.schema import SERVICES
from evensong.trace.spool import LEVELS

VIRTUAL: Final = "virtual"  # the clock of a simulated run
LIFE: Final = ("run_id", "node", "incarnation")
NOTHING: Final = "nothing"  # of the end: the trace stops without one


def service_name(code: Column) -> Column:
    """Return the service that a code means."""
    names = F.array(*[F.lit(name) for name in SERVICES])
    return F.element_at(names, code.cast("int") + 1)


def lives(events: DataFrame) -> DataFrame:
    """Return the lives of a trace: clock, level, first and last time, how it ended, gaps.

    `origin_us` is the first time of anybody with the same clock: what a time axis starts with.
    """
    told = [F.col("aux")[name].alias(name) for name in ("host", "boot", "level")]
    start = F.max(F.when(F.col("etype") == "start", F.struct(*told)))
    last = F.max_by("etype", "pseq")
    found = events.groupBy(*LIFE).agg(
        start.alias("start"),
        F.min("t_us").alias("from_us"),
        F.max("t_us").alias("to_us"),
        F.when(last.isin(*ENDS), last).otherwise(F.lit(NOTHING)).alias("ended"),
        F.count_if(F.col("etype") == "gap").alias("gaps"),
        F.count_if(F.col("etype") == "conf").alias("configurations"),
        F.count("*").alias("events"),
    )
    host = F.col("start.host")
    unnamed = F.concat_ws("-", F.lit("life"), "node", F.col("incarnation").cast("string"))
    clock = (
        F.when(F.col("start").isNull(), unnamed)
        .when(F.coalesce(host, F.lit("")) != "", host)
        .when(F.col("start.boot").isNull(), F.lit(VIRTUAL))
        .otherwise(unnamed)
    )
    named = found.select(
        *LIFE,
        clock.alias("clock"),
        F.coalesce("start.level", F.lit(LEVELS[-1])).alias("level"),
        F.col("start").isNotNull().alias("has_beginning"),
        "ended",
        "gaps",
        "configurations",
        "events",
        "from_us",
        "to_us",
    )
    origins = named.groupBy("run_id", "clock").agg(F.min("from_us").alias("origin_us"))
    return named.join(F.broadcast(origins), ["run_id", "clock"])


def ring_level(rows: DataFrame) -> DataFrame:
    """Return the rows of a node itself, without those of its clients' sessions."""
    return rows.where(F.col("session") == 0)


def in_order(table: DataFrame, *columns: Column | str) -> DataFrame:
    """Return a small table in order, in one piece: sorting by ranges would compute it twice."""
    return table.repartition(1).sortWithinPartitions(*columns)
