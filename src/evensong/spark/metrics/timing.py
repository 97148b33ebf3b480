"""How long things took: messages from their first broadcast to their delivery, the token's rounds.

A message is timed at its sender, from its first broadcast to its delivery there, by one clock. The
time to everybody else (`one_way`) is known only of simulated runs, which have one clock for all.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.metrics.lives import LIFE, VIRTUAL, in_order, ring_level, service_name

OWN: Final = "own"
ONE_WAY: Final = "one_way"
STEPS: Final = 4  # bins of a density for each doubling of the time
QUANTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
ACCURACY: Final = 10_000


def latencies(deliveries: DataFrame, sends: DataFrame, lives: DataFrame) -> DataFrame:
    """Return one row a timed delivery: `kind`, the node that delivered, service, `took_us`."""
    unit = ["run_id", "sender", "sender_inc", "origin_no"]
    sent = ring_level(sends).select(
        "run_id",
        F.col("node").alias("sender"),
        F.col("incarnation").alias("sender_inc"),
        "origin_no",
        F.col("t_us").alias("sent_us"),
    )
    virtual = (
        lives.groupBy("run_id")
        .agg(F.every(F.col("clock") == VIRTUAL).alias("is_virtual"))
        .where("is_virtual")
    )
    own = (F.col("sender") == F.col("node")) & (F.col("sender_inc") == F.col("incarnation"))
    timed = ring_level(deliveries).select(
        *unit,
        "node",
        service_name(F.col("service")).alias("service"),
        "t_us",
        F.when(own, F.lit(OWN)).otherwise(F.lit(ONE_WAY)).alias("kind"),
    )
    comparable = timed.where(F.col("kind") == OWN).unionByName(
        timed.where(F.col("kind") == ONE_WAY).join(
            F.broadcast(virtual.select("run_id")), "run_id", "left_semi"
        )
    )
    took = (F.col("t_us") - F.col("sent_us")).alias("took_us")
    return comparable.join(sent, unit).select("run_id", "node", "kind", "service", took)


def tokens(events: DataFrame) -> DataFrame:
    """Return the visits of the token, with what was sent at each and the time since the last.

    `took_us` is empty at the first visit of a ring, and after a gap in the trace.
    """
    visits = events.where("etype in ('token', 'gap')").select(
        *LIFE,
        "pseq",
        "etype",
        "t_us",
        F.col("aux")["ring"].alias("ring"),
        F.col("aux")["sent"].cast("bigint").alias("sent"),
        F.col("aux")["resent"].cast("bigint").alias("resent"),
    )
    in_turn = Window.partitionBy(*LIFE).orderBy("pseq")
    is_same = (F.lag("etype").over(in_turn) == "token") & (
        F.lag("ring").over(in_turn) == F.col("ring")
    )
    return (
        visits.withColumn("took_us", F.when(is_same, F.col("t_us") - F.lag("t_us").over(in_turn)))
        .where("etype = 'token'")
        .drop("etype")
    )


def rotations(visits: DataFrame) -> DataFrame:
    """Return one row a round of the token, as the node saw it come back."""
    return visits.where("took_us is not null").select("run_id", "node", "took_us")


def quantiles(timed: DataFrame, *by: str) -> DataFrame:
    """Return number, mean, quantiles and the longest of `took_us`, by columns."""
    approximate = F.percentile_approx("took_us", list(QUANTILES.values()), ACCURACY)
    found = timed.groupBy(*by).agg(
        F.count("*").alias("n"),
        F.avg("took_us").alias("mean_us"),
        approximate.alias("quantiles"),
        F.max("took_us").alias("max_us"),
    )
    named = [F.col("quantiles")[at].alias(name) for at, name in enumerate(QUANTILES)]
    return found.select(*by, "n", "mean_us", *named, "max_us").transform(in_order, *by)


def density(timed: DataFrame, *by: str) -> DataFrame:
    """Count `took_us` in bins that grow with it, by columns: four for each doubling.

    A bin is `from_us` up to but not including `to_us`. What took no time at all, as when a sender
    delivers at once what it broadcasts, is the bin -1, from 0 to 1.
    """
    grown = F.floor(F.log2(F.greatest(F.col("took_us"), F.lit(1))) * STEPS)
    step = F.when(F.col("took_us") < 1, F.lit(-1)).otherwise(grown).cast("int")
    return (
        timed.groupBy(*by, step.alias("step"))
        .agg(F.count("*").alias("n"))
        .select(
            *by,
            "step",
            _edge(F.col("step")).alias("from_us"),
            _edge(F.col("step") + 1).alias("to_us"),
            "n",
        )
        .transform(in_order, *by, "step")
    )


def _edge(step: Column) -> Column:
    return F.when(step < 0, F.lit(0.0)).otherwise(F.pow(F.lit(2.0), step / STEPS))
