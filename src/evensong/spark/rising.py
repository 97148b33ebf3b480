"""In which streams places do not rise, found without putting all of them in order.

Sixteen consecutive positions of a stream become one row with a slot for each: what was told there,
and the least number of what was sent between there and the position before. Whether places rise
along the slots is seen in the row itself; rows are a sixteenth of what was told, and only they are
put in order. Rings are told apart before that: of each ring only the extremes of position matter.

A slot holds number, sub and count of a frame in 63 bits. What does not fit is in doubt.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.cells import STREAM

BITS: Final = 4
SLOTS: Final = range(1 << BITS)
RING: Final = (*STREAM, "ring_seq", "ring_rep")
SEQ_MOST: Final = (1 << 31) - 1


def doubtful_streams(told: DataFrame, sent: DataFrame) -> DataFrame:
    """Return every stream with a frame or a send that may lie below what was told before it."""
    rows = _rows(told, sent)
    runs = _runs(rows).localCheckpoint()
    return runs.where("is_odd").select(*STREAM).union(_crossing(runs)).distinct()


def _rows(told: DataFrame, sent: DataFrame) -> DataFrame:
    """Return sixteen positions of a stream on one ring as a row."""
    frames = told.selectExpr(
        *RING, "pos", "seq",
        "shiftleft(seq, 32) + shiftleft(cast(sub as bigint), 16) + count as frame",
        "cast(null as bigint) as sent",
    )  # fmt: skip
    sends = sent.selectExpr(*RING, "pos", "seq", "cast(null as bigint) as frame", "seq as sent")
    at = f"pos & {len(SLOTS) - 1}"
    return (
        frames.union(sends)
        .groupBy(*RING, F.expr(f"pos >> {BITS}").alias("row"))
        .agg(
            F.count("frame").alias("n"),
            F.max("seq").alias("seq_max"),
            F.expr("min(if(frame is null, null, pos))").alias("pos_min"),
            F.expr("max(if(frame is null, null, pos))").alias("pos_max"),
            F.expr("max(if(sent is null, null, pos))").alias("sent_pos_max"),
            F.min("sent").alias("sent_min"),
            *(F.expr(f"max(if({at} = {slot}, frame, null))").alias(f"f{slot}") for slot in SLOTS),
            *(F.expr(f"min(if({at} = {slot}, sent, null))").alias(f"s{slot}") for slot in SLOTS),
        )
    )


def _runs(rows: DataFrame) -> DataFrame:
    """Return what a stream was told and sent on each ring, and whether places rise there."""
    ends = [
        f"(shiftright(f{slot}, 16) + (f{slot} & 65535) - 1)" for slot in SLOTS
    ]  # its last message
    falls = []
    for slot in SLOTS[1:]:
        end = ends[slot - 1]
        falls += [f"shiftright(f{slot}, 16) <= {end}", f"s{slot} <= shiftright({end}, 16)"]
        # Nothing of this ring was told just before, but something was further back.
        is_later = f"f{slot - 1} is null and pos_min < shiftleft(row, {BITS}) + {slot}"
        falls.append(f"{is_later} and s{slot} <= shiftright(highest, 16)")
    is_falling = " or ".join(f"coalesce({one}, false)" for one in falls)
    filled = " + ".join(f"if(f{slot} is null, 0, 1)" for slot in SLOTS)
    is_dense = f"n = {filled} and coalesce(n = pos_max - pos_min + 1, n = 0)"
    before = Window.partitionBy(*RING).orderBy("row").rowsBetween(Window.unboundedPreceding, -1)
    return (
        rows.withColumn("highest", F.expr(f"greatest({', '.join(ends)})"))
        .selectExpr(
            *RING, "row", "pos_min", "pos_max", "sent_pos_max", "sent_min", "highest",
            f"shiftright(least({', '.join(f'f{slot}' for slot in SLOTS)}), 16) as lowest",
            f"not ({is_dense}) or seq_max > {SEQ_MOST} or {is_falling} as is_odd",
        )
        .withColumn("before", F.max("highest").over(before))
        .groupBy(*RING)
        .agg(
            F.expr(
                "bool_or(is_odd or coalesce(lowest <= before, false)"
                " or coalesce(sent_min <= shiftright(before, 16), false))"
            ).alias("is_odd"),
            F.min("pos_min").alias("pos_min"),
            F.max("pos_max").alias("pos_max"),
            F.max("sent_pos_max").alias("sent_pos_max"),
        )
    )  # fmt: skip


def _crossing(runs: DataFrame) -> DataFrame:
    """Return streams that were told of a ring after a later one, or sent on it after that."""
    earlier = (
        Window.partitionBy(*STREAM)
        .orderBy("ring_seq", "ring_rep")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        runs.withColumn("told_until", F.max("pos_max").over(earlier))
        .withColumn("sent_until", F.max("sent_pos_max").over(earlier))
        .where("pos_min < told_until or pos_min < sent_until")
        .select(*STREAM)
    )
