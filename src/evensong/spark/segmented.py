"""Segments: stretches of configurations that are judged row by row, and everything beside them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.history import LIFE
from evensong.spark.tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COM: Final = ("run_id", "rank")
SEGMENTS: Final = "run_id string, lo int, hi int, segment int"


class Segment(NamedTuple):
    """Configurations of a run that are judged row by row; without bounds, the whole run."""

    run_id: str
    lo: int | None
    hi: int | None


def merged(found: Iterable[Segment]) -> list[Segment]:
    """Merge segments that overlap; a whole run takes all of its own in."""
    by_run: dict[str, list[Segment]] = {}
    for segment in found:
        by_run.setdefault(segment.run_id, []).append(segment)
    result = []
    for run_id, segments in sorted(by_run.items()):
        bounded = [
            (one.lo, one.hi) for one in segments if one.lo is not None and one.hi is not None
        ]
        if len(bounded) < len(segments):
            result.append(Segment(run_id, None, None))
            continue
        lo, hi = sorted(bounded)[0]
        for following in sorted(bounded)[1:]:
            if following[0] > hi:
                result.append(Segment(run_id, lo, hi))
                lo, hi = following
            hi = max(hi, following[1])
        result.append(Segment(run_id, lo, hi))
    return result


def segments_table(spark: "SparkSession", segments: list[Segment]) -> DataFrame:
    """Return segments as a table, numbered."""
    rows = [(*segment, number) for number, segment in enumerate(segments)]
    return small_table(spark, rows, SEGMENTS)


def spans_in(spark: "SparkSession", segments: list[Segment], spans: DataFrame) -> DataFrame:
    """Return which spans lie in which segment."""
    table = F.broadcast(segments_table(spark, segments))
    return (
        spans.select(*LIFE, "conf_no", "rank")
        .join(table, "run_id")
        .where("lo is null or rank between lo and hi")
        .select(*LIFE, "conf_no", "rank", "segment", F.col("lo").isNull().alias("is_whole"))
    )


def not_in(spark: "SparkSession", segments: list[Segment], rows: DataFrame) -> DataFrame:
    """Leave out what lies in a segment."""
    if not segments:
        return rows
    doubtful = F.broadcast(segments_table(spark, segments)).alias("doubtful")
    return rows.alias("rows").join(
        doubtful,
        F.expr(
            "rows.run_id = doubtful.run_id and"
            " (doubtful.lo is null or rows.rank between doubtful.lo and doubtful.hi)"
        ),
        "left_anti",
    )


def whole(rows: DataFrame) -> DataFrame:
    """Return doubts about the whole run of each row."""
    return rows.selectExpr("run_id", "cast(null as int) as lo", "cast(null as int) as hi")


def only(rows: DataFrame) -> DataFrame:
    """Return doubts about the configuration of each row."""
    return rows.selectExpr("run_id", "rank as lo", "rank as hi")


def odd_structure(spans: DataFrame) -> DataFrame:
    """Runs whose configurations do not follow one another as they should."""
    node = Window.partitionBy("run_id", "node").orderBy("incarnation", "conf_no")
    life = Window.partitionBy(*LIFE).orderBy("conf_no")
    disorder = (
        spans.withColumn("last", F.lag(F.struct("conf_seq", "conf_rep")).over(node))
        .withColumn("was_transitional", F.lag("is_transitional").over(life))
        .where(
            "prev_conf_id <> coalesce(before_id, '0.0')"
            " or (is_transitional and coalesce(was_transitional, true))"
            " or struct(conf_seq, conf_rep) <= last or start > stop or said_no <> conf_no"
            " or said_no is null"
        )
    )
    about = F.struct("members", "is_transitional")
    many = (
        spans.groupBy("run_id", "conf_id")
        .agg(
            F.min(about).alias("one"),
            F.max(about).alias("other"),
            F.min("regular_id").alias("one_id"),
            F.max("regular_id").alias("other_id"),
        )
        .where("one <> other or one_id <> other_id")
    )
    return whole(disorder).union(whole(many))
