"""What is asked of views: G1 and G7."""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.cells import CELL, STREAM
from evensong.spark.history import LIFE, kept
from evensong.spark.properties.finding import Finding
from evensong.spark.properties.sound import VIOLATION, counted, no_violations, nothing, summed
from evensong.spark.streams import FRAME_NAME, MEMBER, VIEW

if TYPE_CHECKING:
    from evensong.spark.history import History
    from evensong.spark.streams import Streams


def same_members(history: "History") -> Finding:
    """G1: a view id is one list of members, and who is shown a view is in it."""
    shown = history.streams.showings
    lists = shown.groupBy(*VIEW).agg(
        F.count("*").alias("times"),
        F.count_distinct("members").alias("n_lists"),
        F.min(F.struct("members", "node")).alias("low"),
        F.max(F.struct("members", "node")).alias("high"),
    )
    differing = lists.where("n_lists > 1").selectExpr(
        "run_id",
        "low.node as node",
        "cast(null as bigint) as incarnation",
        "view as conf_id",
        "concat('view ', view, ' of ', group, ' is ', low.members, ' at ', low.node, ' and ', "
        "high.members, ' at ', high.node) as text",
    )
    strangers = (
        shown.withColumn("session", F.explode("sessions"))
        .where(f"not array_contains(split(members, ' '), {MEMBER})")
        .groupBy(*LIFE, "turn", "group", "view")
        .agg(F.min("session").alias("session"))
        .selectExpr(
            *LIFE,
            "view as conf_id",
            f"concat('view ', view, ' of ', group, ' is shown to ', {MEMBER}, "
            "', which is not in it') as text",
        )
    )
    return Finding(
        summed(counted(lists, "if(times > 1, times, 0)")),
        differing.select(*VIOLATION).union(strangers.select(*VIOLATION)),
    )


def views_in_order(history: "History") -> Finding:
    """G7: views have their places among messages, the same for all, and say them rightly."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    shown = streams.turns.where("view is not null")
    return Finding(
        summed(counted(shown, "1")),
        _misnamed(history).union(_misplaced(streams)).union(_out_of_turn(streams)),
    )


def _misnamed(history: "History") -> DataFrame:
    """G7: frames that are called reduced where they are not, or not where they are."""
    streams = history.streams
    kinds = history.spans.select(*LIFE, "conf_no", "conf_id", "is_transitional")
    cells = kept(
        streams.cells.all.join(F.broadcast(kinds), [*LIFE, "conf_no"], "left")
        .where("is_transitional is null or n_reduced <> if(is_transitional, n, 0)")
        .select(*CELL)
    )
    if cells.isEmpty():
        return no_violations(history)
    return (
        streams.first_only(streams.cells.rows_of(cells))
        .join(F.broadcast(kinds), [*LIFE, "conf_no"], "left")
        .where("is_transitional is null or reduced <> is_transitional")
        .selectExpr(
            *LIFE,
            "conf_id",
            f"concat({MEMBER}, ' was told ', {FRAME_NAME}, ' as ', if(reduced, '', 'not '), "
            "'reduced in configuration ', coalesce(conf_id, 'none')) as text",
        )
    )


def _out_of_turn(streams: "Streams") -> DataFrame:
    """G7: views whose ids or places fall, and first views that are not one's own joining."""
    group = Window.partitionBy(*STREAM, "group").orderBy("turn")
    stream = Window.partitionBy(*STREAM).orderBy("turn")
    so_far = stream.rowsBetween(Window.unboundedPreceding, -1)
    in_group = group.rowsBetween(Window.unboundedPreceding, -1)
    rank = F.expr("if(view is null, null, struct(ring_seq, ring_rep, seq, sub, counter))")
    place = F.expr("if(view is null, null, struct(conf_no, seq, sub))")
    turns = (
        streams.turns.withColumn("rank", rank)
        .withColumn("place", place)
        .withColumn("rank_before", F.max("rank").over(in_group))
        .withColumn("place_before", F.max("place").over(so_far))
        .withColumn("is_first", F.lag("view").over(group).isNull())
        .where("view is not null")
    )
    about = f"concat(view, ' of ', group, ' at ', {MEMBER})"
    flaws = (
        (
            "is_first and not (coalesce(subject, '') = member and coalesce(cause, '') = 'join')",
            f"concat('the first view of ', {about}, ' is not its own joining')",
        ),
        ("rank_before >= rank", f"concat('view ', {about}, ' comes after a later one')"),
        (
            "place < place_before",
            f"concat('view ', {about}, ' comes after one of a later place')",
        ),
    )
    told = ", ".join(f"if({flaw}, {text}, null)" for flaw, text in flaws)
    return turns.selectExpr(
        *LIFE, "view as conf_id", f"explode(filter(array({told}), one -> one is not null)) as text"
    )


def _misplaced(streams: "Streams") -> DataFrame:
    """G7: views that lie on the wrong side of a frame.

    Before a view lies nothing that is as high as it, and after it nothing that is lower.
    """
    views = streams.turns.where("view is not null").selectExpr(
        *STREAM, "at", "struct(conf_no, seq, sub) as place", "turn", "view", "group"
    )
    frames = streams.cells.points.selectExpr(
        *STREAM,
        "at",
        "struct(conf_no, lowest.seq as seq, lowest.sub as sub) as lowest",
        "struct(conf_no, highest.seq as seq, highest.sub as sub) as highest",
    )
    stream = Window.partitionBy(*STREAM)
    before = stream.orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    after = stream.orderBy(F.desc("at")).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    wrong = (
        views.unionByName(frames, allowMissingColumns=True)
        .withColumn("highest", F.max("highest").over(before))
        .withColumn("lowest", F.min("lowest").over(after))
        .where("highest >= place or lowest < place")
    )
    return wrong.selectExpr(
        *LIFE,
        "view as conf_id",
        f"concat('view ', view, ' of ', group, ' at ', {MEMBER}, "
        "' is on the wrong side of a frame') as text",
    )
