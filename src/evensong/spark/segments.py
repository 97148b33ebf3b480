"""Segments handed to tasks of Spark, and their findings gathered."""

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evensong.core.engine import TRANSIS
from evensong.spark import rows
from evensong.spark.history import LIFE, kept
from evensong.spark.lives import lives_table
from evensong.spark.segmented import segments_table, spans_in
from evensong.spark.tables import small_table

if TYPE_CHECKING:
    from evensong.spark.history import History

_NAMES: Final = [column.split()[0] for column in rows.INPUT.split(", ")]
_TYPES: Final = dict(column.split() for column in rows.INPUT.split(", "))
_UNIT: Final = (
    "conf_no", "pos", "ring_seq", "ring_rep", "seq", "origin_no", "service", "size", "digest",
    "t_us",
)  # fmt: skip


def judge_rows(history: "History") -> DataFrame:
    """Judge every segment row by row; return counts and violations, as `rows.OUTPUT` has them."""
    segments = history.segments
    if not segments:
        return small_table(history.spark, [], rows.OUTPUT)
    found = rows_of_segments(history).groupBy("run_id", "segment")
    is_domain = history.engine == TRANSIS
    judge = rows.judge_domain_segment if is_domain else rows.judge_segment
    return kept(found.applyInArrow(judge, rows.OUTPUT))


def rows_of_segments(history: "History") -> DataFrame:
    """Return all that the segments are judged by, in one table."""
    spark, segments = history.spark, history.segments
    inside = spans_in(spark, segments, history.account.spans).where("not is_whole")
    table = segments_table(spark, segments)
    runs = F.broadcast(table.select("run_id", "segment"))
    whole = F.broadcast(table.where("lo is null").select("run_id", "segment"))
    places = F.broadcast(inside.select(*LIFE, "conf_no", "segment"))
    confs = (
        history.spans.join(runs, "run_id")
        .withColumnRenamed("prev_conf_id", "prev_id")
        .withColumnRenamed("start", "pos")
        .select(
            "run_id", "segment", "node", "incarnation", "conf_no", "pos", "conf_id", "prev_id",
            "is_transitional", "members", "t_us",
        )
    )  # fmt: skip
    lives = (
        lives_table(history.spark, [*history.known_lives, *history.absent])
        .join(runs, "run_id")
        .select("run_id", "segment", "node", "incarnation", "ended", "submitted")
    )
    parts = []
    for kind, all_rows, more in (
        (rows.DELIVERY, history.deliveries, ("sender", "sender_inc", "stable_seq", "after_gap")),
        (rows.SEND, history.sends, ()),
    ):
        columns = ("run_id", "segment", "node", "incarnation", *_UNIT, *more)
        parts.append(_part(all_rows.join(places, [*LIFE, "conf_no"]).select(*columns), kind))
        if any(segment.lo is None for segment in history.segments):
            parts.append(_part(all_rows.join(whole, "run_id").select(*columns), kind))
    # The first decides how all of it is planned, and these are few.
    parts += [_part(confs, rows.CONF), _part(lives, rows.LIFE)]
    return reduce(_union, parts)


def _part(table: DataFrame, kind: int) -> DataFrame:
    """Lay a table out as the judge expects its rows; what it does not have is null."""
    has = set(table.columns)
    return table.selectExpr(
        *(
            f"cast({kind} as int) as kind"
            if name == "kind"
            else f"cast({name if name in has else 'null'} as {_TYPES[name]}) as {name}"
            for name in _NAMES
        )
    )


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)
