"""Groups above a broadcast domain: what G3 and G8 ask where sides order by themselves.

What is left when a view ends gets its place from those who go on together, under the id of their
transitional configuration. So a frame may have a place on each *side*, and has none when it is
sent; `evensong.sim.evs.groups` says what is asked then.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.cells import STREAM
from evensong.spark.history import LIFE
from evensong.spark.properties.finding import Finding
from evensong.spark.properties.sound import counted, summed
from evensong.spark.streams import AT, FRAME, MEMBER, SIDE, STAY

if TYPE_CHECKING:
    from evensong.spark.streams import Streams

Sides: TypeAlias = Callable[["Streams", DataFrame, DataFrame], DataFrame]


def sides_of(streams: "Streams", missing: DataFrame, frames: DataFrame) -> DataFrame:
    """Leave out what was told on a side that a stay is not of (G3).

    A stay is of a side if it ends in it, or was told something later there; one that lasts to the
    end of the run, if its life was in the configuration.
    """
    installed = streams.history.spans.select(
        *LIFE, F.col("conf_seq").alias("ring_seq"), F.col("conf_rep").alias("ring_rep")
    ).distinct()
    tops = frames.groupBy(*STAY, *side_columns()).agg(F.max("place").alias("top"))
    return (
        missing.join(tops, [*STAY, *SIDE], "left")
        .join(F.broadcast(installed.withColumn("was_there", F.lit(True))), [*LIFE, *SIDE], "left")
        .where(
            "if(how = 'quiesce', coalesce(was_there, false), coalesce(place < top, false)"
            " or coalesce(reach.ring_seq = ring_seq and reach.ring_rep = ring_rep, false))"
        )
        .drop("top", "was_there", *SIDE)
    )


def causal_order_by_side(streams: "Streams") -> Finding:
    """G8: on each side, what a client had been told when it sent a frame lies before that frame."""
    first = streams.first_only(streams.rows)
    places = first.groupBy("run_id", *FRAME, *side_columns()).agg(
        F.min_by("place", F.struct("node", "incarnation", "session")).alias("place")
    )
    told = streams.rows.select(*STREAM, "pos", *FRAME).join(places, ["run_id", *FRAME])
    sent = (
        streams.sends.where("pos > 0")
        .selectExpr(
            *STREAM, "pos", "node as sender", "incarnation as sender_inc",
            "session as sender_session", "origin_no",
        )
        .join(places, ["run_id", *FRAME])
    )  # fmt: skip
    before = (
        Window.partitionBy(*STREAM, *SIDE)
        .orderBy("pos", F.desc("is_send"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    names = [*STREAM, *SIDE, "pos", "origin_no", "place"]
    broken = (
        told.select(*names, F.lit(False).alias("is_send"))
        .union(sent.select(*names, F.lit(True).alias("is_send")))
        .withColumn("before", F.max(F.expr("if(is_send, null, place)")).over(before))
        .where("is_send and before >= place")
    )
    text = (
        f"concat({MEMBER}, ' sent number ', origin_no, ', which came to ', {AT}, ', when it had "
        f"been told something at ', {AT.replace('place', 'before')}) as text"
    )
    return Finding(
        summed(counted(streams.cells.sent, "n_after")),
        broken.selectExpr(*LIFE, "cast(null as string) as conf_id", text),
    )


def side_columns() -> list[Column]:
    """Return the side of a frame, by its place."""
    return [F.expr(f"place.{name}").alias(name) for name in SIDE]
