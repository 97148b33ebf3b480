"""What every life of a broadcast domain did in each view, in its own order: sends and deliveries.

Messages have no numbers here that order them: many have no place at all, and the protocol's places
are not looked at. So one sort by position gives each ordered message its place at the life, each
delivery the message that its life sent next, which it may have caused, and each send the one
before. A view and the transitional configuration that ends it count as one, com(c), by `rank`.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.core.effects import Service
from evensong.spark.history import IS_ORDERED, LIFE
from evensong.trace.schema import CODE_BY_SERVICE

if TYPE_CHECKING:
    from evensong.spark.history import History

BASIC: Final = CODE_BY_SERVICE[Service.BASIC]
SAFE: Final = CODE_BY_SERVICE[Service.SAFE]
UNIT: Final = ("sender", "sender_inc", "origin_no")
IS_VOTED: Final = f"(not is_send and {IS_ORDERED} and not after_gap)"
IS_CAUSAL: Final = f"service <> {BASIC}"  # part of the causal order
IS_OWN: Final = "(sender = node and sender_inc = incarnation)"


def totals_of(history: "History") -> DataFrame:
    """Return per life how much it delivered, and where its positions begin and end."""
    return history.deliveries.groupBy(*LIFE).agg(
        F.count("*").alias("n_deliveries"), F.min("pos").alias("first"), F.max("pos").alias("last")
    )


def walk_of(history: "History", totals: DataFrame) -> DataFrame:
    """Return every send and delivery with its view, in the order of its life.

    Of a delivery: `place` among what the votes ordered in com(c) there, `turn` among all that is
    ordered, `next_no` the message that its life sent next in com(c); of a send: `before_no`, the
    one before it; BASIC ones are neither. `is_late`: it has an earlier time than something before
    it; `is_told_late`, of a delivery: than a delivery. `is_double`: its position is not its own.
    """
    where = (
        history.spans.join(F.broadcast(totals), list(LIFE), "left")
        .withColumn("stop", F.expr("coalesce(stop, n_deliveries, 0)"))
        .select(
            *LIFE, "conf_no", "rank", "is_transitional", "start", "stop", "com_start",
            "regular_seq", "regular_rep",
        )
    )  # fmt: skip
    rows = _rows(history).join(F.broadcast(where), [*LIFE, "conf_no"], "left")
    com = Window.partitionBy(*LIFE, "rank").orderBy("pos", F.desc("is_send"), "origin_no")
    so_far = com.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = com.rowsBetween(Window.unboundedPreceding, -1)
    after = com.rowsBetween(1, Window.unboundedFollowing)
    caused = F.expr(f"if(is_send and {IS_CAUSAL}, origin_no, null)")
    told_us = F.expr("if(is_send, null, t_us)")
    return (
        rows.withColumn("place", F.count_if(F.expr(IS_VOTED)).over(so_far))
        .withColumn("turn", F.count_if(F.expr(f"not is_send and {IS_ORDERED}")).over(so_far))
        .withColumn("n_told", F.count_if(F.expr("not is_send")).over(so_far))
        .withColumn("next_no", F.first(caused, ignorenulls=True).over(after))
        .withColumn("before_no", F.last(caused, ignorenulls=True).over(before))
        .withColumn("is_late", F.col("t_us") < F.max("t_us").over(before))
        .withColumn("is_told_late", told_us < F.max(told_us).over(before))
        .withColumn("is_double", F.expr("not is_send and n_told <> pos - com_start + 1"))
        .drop("n_told")
    )


def _rows(history: "History") -> DataFrame:
    """Return deliveries and sends as rows of one kind."""
    content = "xxhash64(digest, size, service) as content"
    told = history.deliveries.selectExpr(
        *LIFE, "conf_no", "pos", *UNIT, "service", "after_gap", content, "t_us",
        "false as is_send", "cast(null as bigint) as sent_seq", "cast(null as bigint) as sent_rep",
    )  # fmt: skip
    sent = history.sends.selectExpr(
        *LIFE, "conf_no", "pos", "node as sender", "incarnation as sender_inc", "origin_no",
        "service", "false as after_gap", content, "t_us", "true as is_send",
        "ring_seq as sent_seq", "ring_rep as sent_rep",
    )  # fmt: skip
    return told.union(sent)
