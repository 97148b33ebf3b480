"""What caused what in a view of a broadcast domain, and where causes do not come first (LC1).

A message is asked for the one that its sender sent before it, and for what its sender delivered
between the two; what is further back is before these. BASIC messages are neither asked nor asked
for. No clocks are compared: positions tell what a sender had delivered.
"""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evensong.spark.segmented import COM
from evensong.spark.walk import IS_CAUSAL, IS_OWN, UNIT

if TYPE_CHECKING:
    from evensong.spark.history import History


def views_with_late_causes(history: "History", walk: DataFrame, units: DataFrame) -> DataFrame:
    """Return the views in which somebody delivers a message without its causes before it."""
    told = units.where(f"{IS_CAUSAL} and size(at) > 0").select(
        *COM, F.col("sender").alias("by"), F.col("sender_inc").alias("by_inc"),
        F.col("origin_no").alias("no"), "at",
    )  # fmt: skip
    unit = [*COM, *UNIT]
    before = units.where(IS_CAUSAL).select(*unit, F.col("at").alias("before"))
    asked = causes_of(history, walk).join(told, [*COM, "by", "by_inc", "no"])
    is_kept = (
        "forall(at, one -> exists(before, other -> other.node = one.node"
        " and other.incarnation = one.incarnation and other.pos < one.pos))"
    )
    late = asked.join(before, unit, "left").where(f"not coalesce({is_kept}, false)")
    return late.select(*COM).distinct()


def causes_of(history: "History", walk: DataFrame) -> DataFrame:
    """Return which message (`by`, `by_inc`, `no`) was directly caused by which unit.

    Of several units of one sender the last is enough: the others come before it by being asked for
    themselves. Not so where sends may be missing from its recording.
    """
    known = history.lives.where("not is_cut").select(
        "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
        F.lit(True).alias("is_whole"),
    )  # fmt: skip
    by = [*map(F.col, COM), F.col("node").alias("by"), F.col("incarnation").alias("by_inc")]
    heard = (
        walk.where(f"not is_send and {IS_CAUSAL} and not {IS_OWN} and next_no is not null")
        .join(F.broadcast(known), ["run_id", "sender", "sender_inc"], "left")
        .groupBy(
            *by, F.col("next_no").alias("no"), F.col("sender"), F.col("sender_inc"),
            F.expr("if(is_whole, null, origin_no)"),
        )
        .agg(F.max("origin_no").alias("origin_no"))
    )  # fmt: skip
    spoken = walk.where(f"is_send and {IS_CAUSAL} and before_no is not null").select(
        *by, F.col("origin_no").alias("no"), F.col("sender"), F.col("sender_inc"),
        F.col("before_no").alias("origin_no"),
    )  # fmt: skip
    names = [*COM, "by", "by_inc", "no", *UNIT]
    return heard.select(*names).union(spoken.select(*names))
