"""What was sent, held against where and when it may have been sent.

In a sound configuration the number of a unit is its place in everybody's order. So whether a send
comes after what it depends on is arithmetic: it has a greater number than the send before it by the
same life, and than everything that life had delivered by then.
"""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.history import LIFE

if TYPE_CHECKING:
    from evensong.spark.history import History


def placed_sends(history: "History", spans: DataFrame, coms: DataFrame) -> DataFrame:
    """Return every send with its configuration, what its life delivered there, and what is wrong.

    `is_off`: its place cannot be told. `is_bad`: it breaks the order of sending, `rank_before` is
    then the configuration of the send before it. `is_missing`: its life never delivered it in
    com(c). `has_cause`: something in c could have caused it.
    """
    where = (
        spans.select(
            *LIFE, "conf_no", "rank", "start", "stop", "is_transitional", "regular_seq",
            "regular_rep", "com_start",
        )
        .join(coms.select(*LIFE, "rank", "skew", "n"), [*LIFE, "rank"])
        .withColumnRenamed("n", "n_com")
    )  # fmt: skip
    about = F.struct("origin_no", "rank", "seq", "pos", "t_us")
    in_order = Window.partitionBy(*LIFE).orderBy("origin_no", "pos", "seq")
    return (
        history.sends.select(
            *LIFE, "conf_no", "pos", "t_us", "origin_no", "ring_seq", "ring_rep", "seq"
        )
        .join(F.broadcast(where), [*LIFE, "conf_no"], "left")
        .withColumn("before", F.lag(about).over(in_order))
        .withColumn("is_off", F.expr("rank is null or pos < start or pos > stop"))
        .withColumn("is_backwards", F.expr("pos < before.pos or t_us < before.t_us"))
        .withColumn(
            "is_bad",
            F.expr(
                "is_transitional or ring_seq <> regular_seq or ring_rep <> regular_rep"
                " or (pos > com_start and seq <= skew + pos - 1 - com_start)"
                " or (before is not null and (before.origin_no >= origin_no or before.rank > rank"
                "     or (before.rank = rank and before.seq >= seq)))"
            ),
        )
        .withColumn("is_missing", F.expr("skew is null or seq >= skew + n_com"))
        .withColumn("has_cause", F.expr("pos > com_start or before.rank = rank"))
    )  # fmt: skip


def sends_by_com(placed: DataFrame) -> DataFrame:
    """Return per life and configuration what was sent."""
    return placed.groupBy(*LIFE, "rank").agg(
        F.count("*").alias("n_sends"),
        F.count_if("is_missing").alias("n_missing"),
        F.count_if(F.expr("coalesce(is_off, true)")).alias("n_off"),
        F.count_if(F.expr("coalesce(is_bad, true)")).alias("n_bad"),
        F.min(F.expr("if(is_bad, before.rank, null)")).alias("bad_min"),
        F.max(F.expr("if(is_bad, before.rank, null)")).alias("bad_max"),
        F.min(F.expr("if(is_bad, ring_seq, null)")).alias("bad_ring_min"),
        F.max(F.expr("if(is_bad, ring_seq, null)")).alias("bad_ring_max"),
        F.count_if("is_backwards").alias("n_backwards"),
        F.min("seq").alias("seq_min"),
        F.max("seq").alias("seq_max"),
        F.max("origin_no").alias("origin_max"),
        F.min(F.expr("if(coalesce(has_cause, false), null, seq)")).alias("causeless_seq"),
    )
