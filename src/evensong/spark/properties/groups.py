"""The promises of process groups, G1 to G8, on what clients were told.

What is asked is said in `evensong.sim.evs.groups`, which judges the same in memory. Here digests of
stays are compared first; frames are looked at one by one only where two that should be equal are
not, and where cells (`evensong.spark.cells`) leave something open.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.core.engine import TOTEM
from evensong.spark.cells import CELL, IS_OWN, IS_PRIVATE, OWN, SENT, STREAM, with_cell
from evensong.spark.digests import SUMS
from evensong.spark.history import LIFE, kept
from evensong.spark.properties import views
from evensong.spark.properties.finding import Finding, Property
from evensong.spark.properties.sides import Sides, causal_order_by_side, side_columns, sides_of
from evensong.spark.properties.sound import (
    VIOLATION,
    counted,
    no_violations,
    nothing,
    summed,
)
from evensong.spark.streams import (
    AT,
    COHORT,
    FRAME,
    FRAME_NAME,
    IS_OWN_DISCARD,
    LAST_PLACE,
    MEMBER,
    SIDE,
    STAY,
    VIEW,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from evensong.spark.history import History
    from evensong.spark.streams import Streams

DIFFERS: Final = " or ".join([*(f"low_{name} <> high_{name}" for name in SUMS), "has_discard"])


def same_messages(history: "History") -> Finding:
    """G2: who goes together from a view to the next has been told the same between them."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    going = streams.digests.where(
        "how = 'view' and array_contains(split(next_stayed, ' '), member)"
    )
    cohorts = kept(going.groupBy(*COHORT).agg(*_spread()).where("n_stays > 1"))
    checked = summed(counted(cohorts, "n_stays"))
    doubtful = cohorts.where(DIFFERS).select(*COHORT)
    if doubtful.isEmpty():
        return Finding(checked, no_violations(history))
    asked = going.join(doubtful, list(COHORT)).select(*STAY, "member", *COHORT[2:])
    missing = (
        _missing(streams, asked, COHORT)
        .localCheckpoint()
        .selectExpr(
            *LIFE,
            "view as conf_id",
            "concat(member, ' and ', other, ' went together from view ', view, ' of ', group, "
            f"' to ', next_view, '; only ', other, ' was told ', {FRAME_NAME}, "
            "' between them') as text",
        )
    )
    return Finding(checked, missing.select(*VIOLATION))


def to_the_members(history: "History") -> Finding:
    """G3: a frame is told to the members of its groups at its place, and to nobody else."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    counts = [counted(streams.cells.all, "n")]
    violations = _told_to_others(streams).union(_not_there(streams)).union(_not_own(streams))
    shown = streams.digests.select(*VIEW, "members").dropDuplicates(list(VIEW))
    known = streams.streams.select("run_id", "member").withColumn("is_known", F.lit(True))
    members = shown.withColumn("member", F.explode(F.split("members", " ")))
    unknown = members.join(known, ["run_id", "member"], "left").where("is_known is null")
    counts.append(counted(unknown, "0", "1"))
    views = streams.digests.groupBy(*VIEW).agg(*_spread())
    doubtful = kept(views.where(f"n_stays > 1 and ({DIFFERS})").select(*VIEW))
    if not doubtful.isEmpty():
        asked = streams.digests.join(doubtful, list(VIEW)).select(
            *STAY, "member", "view", "how", "reach"
        )
        sides = sides_of if streams.has_sides else None
        missing = _elsewhere_too(streams, _missing(streams, asked, VIEW, sides)).localCheckpoint()
        is_below = "coalesce(place < reach, false)"
        unseen = missing.where(f"how = '' and not {is_below}")  # it may have been told it
        counts.append(counted(unseen, "0", "1"))
        violations = violations.union(
            missing.where(is_below)
            .selectExpr(
                *LIFE,
                "view as conf_id",
                f"concat(member, ' was not told ', {FRAME_NAME}, ', which others under view ', "
                "view, ' of ', group, ' were') as text",
            )
            .select(*VIOLATION)
        )
    return Finding(summed(*counts), violations)


def total_order(history: "History") -> Finding:
    """G4: all clients are told frames in one order, whatever groups these are sent to."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    falling = streams.flaws.where("not is_send")
    if streams.has_again:
        falling = _falling_first(streams)
    falls = falling.selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        f"concat({MEMBER}, ' was told ', {FRAME_NAME}, ' at ', {AT}, ' after something at ', "
        f"{AT.replace('place', 'before')}) as text",
    )
    if streams.is_as_sent and not streams.has_again:
        # Each frame is in one set of equal cells, and was told to so many.
        told = counted(streams.cells.references, "if(weight > 1, n * weight, 0)")
        return Finding(summed(told), falls)
    moved = streams.moved.selectExpr(
        "run_id",
        "sender as node",
        "sender_inc as incarnation",
        "cast(null as string) as conf_id",
        f"concat({FRAME_NAME}, ' is at ', {AT.replace('place', 'lowest')}, ' and at ', "
        f"{AT.replace('place', 'highest')}) as text",
    )
    frames = streams.by_side
    if streams.has_again:
        frames = _frames_told(streams)
    return Finding(summed(counted(frames, "if(n > 1, n, 0)")), falls.union(moved))


def sender_order(history: "History") -> Finding:
    """G5: what one client sends comes in the order in which it was sent."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    rows = streams.first_only(streams.rows)
    heard = rows if streams.has_again else streams.deliveries
    told = heard.groupBy(*STREAM, *FRAME[:3]).count()
    checked = summed(counted(told, "count - 1"))
    if streams.is_as_sent and streams.falling.isEmpty():
        return Finding(checked, no_violations(history))
    # If a sender's frames have rising places, whoever was told them in the order of places, as
    # G4 asks of everybody, was told them in the order of sending.
    sent = Window.partitionBy("run_id", *FRAME[:3]).orderBy("origin_no")
    crossing = (
        streams.by_frame.withColumn("before", F.lag("highest").over(sent))
        .withColumn("due", F.lag(F.col("origin_no") + F.col("count")).over(sent))
        .where("lowest <= before or origin_no < due")
        .select("run_id", *FRAME[:3])
        .distinct()
    )
    stream = (
        Window.partitionBy(*STREAM, *FRAME[:3])
        .orderBy("pos")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    crossing = kept(crossing)
    if crossing.isEmpty() and streams.falling.isEmpty():
        return Finding(checked, no_violations(history))
    doubtful = (
        rows.join(F.broadcast(crossing), ["run_id", *FRAME[:3]], "left_semi")
        .unionByName(rows.join(F.broadcast(streams.falling), list(STREAM), "left_semi"))
        .dropDuplicates([*STREAM, "pos"])
        .withColumn("due", F.max(F.col("origin_no") + F.col("count")).over(stream))
        .where("origin_no < due")
    )
    return Finding(
        checked,
        doubtful.selectExpr(
            *LIFE,
            "cast(null as string) as conf_id",
            f"concat({MEMBER}, ' was told ', {FRAME_NAME}, "
            "' after what its sender sent later, up to number ', due - 1) as text",
        ),
    )


def as_sent(history: "History") -> Finding:
    """G6: no message is told in part, altered, invented or twice."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    if streams.is_as_sent and not streams.has_again:
        return Finding(summed(counted(streams.cells.all, "n")), no_violations(history))
    sent = history.client_sends.join(
        F.broadcast(streams.destinations), [*LIFE, "dest_no"], "left"
    ).selectExpr(
        "run_id",
        "node as sender",
        "incarnation as sender_inc",
        "session as sender_session",
        "origin_no",
        "struct(digest, size, count, service, dest) as said",
    )
    whole = streams.whole.where("not is_cut").selectExpr(
        "run_id", "node as sender", "incarnation as sender_inc", "true as is_whole"
    )
    matched = (
        streams.by_frame.join(sent, ["run_id", *FRAME], "left")
        .join(F.broadcast(whole), ["run_id", *FRAME[:2]], "left")
        .where("said is null or content <> said or other <> said")
        .select("run_id", *FRAME, "n", "said", "is_whole", "content", "other")
        .localCheckpoint()
    )
    checked = counted(streams.by_frame, "n")
    twice = _told_again(streams) if streams.has_again else no_violations(history)
    if matched.isEmpty():
        return Finding(summed(checked), twice)
    unknown = matched.where("said is null and is_whole is null")
    altered = matched.where("said is not null or is_whole").select("run_id", *FRAME, "said")
    name = FRAME_NAME
    rows = streams.rows.join(F.broadcast(altered), ["run_id", *FRAME]).where(
        "said is null or struct(digest, size, count, service, dest) <> said"
    )
    wrong = rows.selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        f"concat({MEMBER}, ' was told ', {name}, if(said is null, ', which was never sent', "
        "' other than it was sent')) as text",
    )
    versions = unknown.where("content <> other").selectExpr(
        "run_id",
        "sender as node",
        "sender_inc as incarnation",
        "cast(null as string) as conf_id",
        f"concat({name}, ' was told in several versions') as text",
    )
    checked = summed(checked, counted(unknown, "0", "n"))
    return Finding(checked, wrong.union(twice).union(versions))


def causal_order(history: "History") -> Finding:
    """G8: what a client had been told when it sent a message comes before that message."""
    if history.streams.is_empty:
        return nothing(history)
    streams = history.streams
    if streams.has_sides:
        return causal_order_by_side(streams)
    return Finding(
        summed(counted(streams.cells.sent, "n_after")),
        streams.flaws.where("is_send").selectExpr(
            *LIFE,
            "cast(null as string) as conf_id",
            f"concat({MEMBER}, ' sent number ', origin_no, ' to ', sent.ring_seq, '.', "
            "sent.ring_rep, ' ', sent.seq, ' when it had been told something at ', "
            f"{AT.replace('place', 'before')}) as text",
        ),
    )


# What G2 and G3 share


def _spread() -> list[Column]:
    """Return what tells whether all stays of a kind have the same digests."""
    ends = [
        end(name).alias(f"{label}_{name}")
        for name in SUMS
        for end, label in ((F.min, "low"), (F.max, "high"))
    ]
    return [F.count("*").alias("n_stays"), F.bool_or("has_discard").alias("has_discard"), *ends]


def _missing(
    streams: "Streams",
    asked: DataFrame,
    kind: tuple[str, ...],
    sides: "Sides | None" = None,
) -> DataFrame:
    """Return which frames that one stay of a kind has are missing in another of that kind.

    One row a stay and missing frame, with its `place` and an `other` that was told it; without
    what its sender did not want to have back. With `sides`, one row for each side of the frame
    that the stay is of.
    """
    about = F.broadcast(asked.select(*STAY).distinct())
    cells = kept(streams.cells.placed.join(about, list(STAY), "left_semi").select(*CELL).distinct())
    frames = (
        streams.told(cells)
        .where("turn is not null")
        .drop("view")
        .join(F.broadcast(asked), list(STAY))
        .select(*STAY, *FRAME, *kind[2:], "place", "discard", "member")
    )
    apart = [] if sides is None else side_columns()
    union = frames.groupBy(*map(F.col, (*kind, *FRAME)), *apart).agg(
        F.min("place").alias("place"),
        F.bool_or("discard").alias("discard"),
        F.min("member").alias("other"),
    )
    due = union.join(F.broadcast(asked), list(kind)).where(f"not {IS_OWN_DISCARD}")
    missing = due.join(frames.select(*STAY, *FRAME), [*STAY, *FRAME], "left_anti")
    return missing if sides is None else sides(streams, missing, frames)


def _elsewhere_too(streams: "Streams", missing: DataFrame) -> DataFrame:
    """Return what is missing in the whole stream, and not only under a view."""
    known = missing.localCheckpoint()
    there = streams.rows.select(*STREAM, *FRAME).join(
        F.broadcast(known.select(*STREAM, *FRAME).distinct()), [*STREAM, *FRAME], "left_semi"
    )
    return known.join(there, [*STREAM, *FRAME], "left_anti")


def _told_to_others(streams: "Streams") -> DataFrame:
    """G3: frames told to a session that was in none of their groups."""
    lost = streams.cells.lost
    if lost.isEmpty():
        return no_violations(streams.history)
    row = [*STREAM, "pos", *FRAME, "groups"]
    nowhere = streams.told(lost).where("turn is null").where(f"not {IS_PRIVATE}")
    outside = (
        nowhere.groupBy(*row)
        .agg(F.count("*").alias("n"))
        .where("n = size(groups)")
        .select(*row)
        .union(streams.cells.rows_of(lost).where("size(groups) = 0").select(*row))
    )
    return outside.selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        f"concat({MEMBER}, ' was told ', {FRAME_NAME}, ', sent to ', "
        "if(size(groups) = 0, 'nobody knows whom', array_join(groups, ', ')), "
        "', and is in none of them') as text",
    )


def _not_there(streams: "Streams") -> DataFrame:
    """G3: members of a view in which others end that do not end in it themselves."""
    final = streams.stays.where("how = 'quiesce'")
    views = final.select(*VIEW, "members").dropDuplicates(list(VIEW))
    due = views.withColumn("member", F.explode(F.split("members", " "))).join(
        streams.streams.where("ending = 'quiesce'").select(*LIFE, "member"), ["run_id", "member"]
    )
    return due.join(final.select(*VIEW, "member"), [*VIEW, "member"], "left_anti").selectExpr(
        *LIFE,
        "view as conf_id",
        "concat(member, ' is in view ', view, ' of ', group, "
        "', in which others end, and does not end in it') as text",
    )


def _not_own(streams: "Streams") -> DataFrame:
    """G3: frames that their senders, members from before to the end of the run, were not told."""
    group = Window.partitionBy(*STREAM, "group").orderBy(F.desc("turn"))
    later = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    lasting = (
        streams.turns.where("ending = 'quiesce'")
        .join(F.broadcast(streams.rings), [*LIFE, "conf_no"], "left")
        .withColumn("has_left", F.bool_or(F.col("view").isNull()).over(later))
        .where("not has_left")
        .groupBy(*STREAM, "group")
        .agg(F.min_by(F.struct("regular_seq", "regular_rep", "seq"), "turn").alias("since"))
    )
    lasting = kept(lasting)

    def asked(sent: DataFrame, is_since: str) -> DataFrame:
        return (
            sent.join(F.broadcast(streams.destinations), [*LIFE, "dest_no"])
            .where("not discard")
            .withColumn("group", F.explode("groups"))
            .join(F.broadcast(lasting), [*STREAM, "group"])
            .where(is_since)
        )

    # Where a session was told as much of its own as it sent, and the same, nothing is missing.
    is_about = "struct(since.regular_seq, since.regular_rep) <= struct(ring_seq, ring_rep)"
    is_unequal = " or ".join(f"{name} <> coalesce(told_{name}, 0)" for name in OWN)
    doubtful = kept(
        asked(streams.cells.sent, is_about)
        .join(streams.cells.own, [*STREAM, *SENT], "left")
        .where(is_unequal)
        .select(*STREAM, *SENT)
        .distinct()
    )
    if doubtful.isEmpty():
        return no_violations(streams.history)
    sends = with_cell(streams.sends).join(F.broadcast(doubtful), [*STREAM, *SENT], "left_semi")
    said = asked(sends, "since < struct(ring_seq, ring_rep, seq)").select(*STREAM, "origin_no")
    whose = F.broadcast(doubtful.select(*STREAM).distinct())
    own = streams.rows.where(IS_OWN).join(whose, list(STREAM), "left_semi")
    own = own.select(*STREAM, "origin_no")
    said = said.distinct()
    return said.join(own, [*STREAM, "origin_no"], "left_anti").selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        f"concat({MEMBER}, ' was never told ', {MEMBER}, ':', origin_no, ', its own') as text",
    )


# What is asked where something was told twice


def _told_again(streams: "Streams") -> DataFrame:
    return streams.again.selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        f"explode(array_repeat(concat({MEMBER}, ' was told ', {FRAME_NAME}, ' twice'), "
        "cast(times - 1 as int))) as text",
    )


def _falling_first(streams: "Streams") -> DataFrame:
    before = Window.partitionBy(*STREAM).orderBy("pos").rowsBetween(Window.unboundedPreceding, -1)
    rows = streams.first_only(streams.rows.select(*STREAM, "pos", *FRAME, "place", "count"))
    last = F.max(F.expr(LAST_PLACE)).over(before)
    return rows.withColumn("before", last).where("place <= before")


def _frames_told(streams: "Streams") -> DataFrame:
    rows = streams.first_only(streams.rows.select(*STREAM, "pos", *FRAME, "place.*"))
    apart = SIDE if streams.has_sides else ()
    return rows.groupBy("run_id", *FRAME, *apart).agg(F.count("*").alias("n"))


def _leaving_open(judge: "Callable[[History], Finding]") -> "Callable[[History], Finding]":
    """Judge what has a place in the order; of clients that were told anything else, say so.

    What is promised of that (CAUSAL, BASIC) goes by causes and views alone, which the judge in
    memory holds against each other, and no digest of places does.
    """

    def judged(history: "History") -> Finding:
        finding = judge(history)
        if history.engine == TOTEM or history.streams.is_empty:
            return finding
        return Finding(
            summed(finding.checked, counted(history.unordered, "1", "1")), finding.violations
        )

    return judged


GROUPS: Final = (
    Property(
        "G1",
        "one view id, one list of members",
        "Members that are shown the same view see the same members, in the same order.",
        views.same_members,
    ),
    Property(
        "G2",
        "who goes on together was told the same",
        "Members that go together from a view to the next need not compare what they have.",
        _leaving_open(same_messages),
    ),
    Property(
        "G3",
        "told to the members, and to nobody else",
        "Who is in the view at a message's place gets it, unless it goes away first.",
        _leaving_open(to_the_members),
    ),
    Property(
        "G4",
        "one order over all groups",
        "Two clients never see two messages in different orders, whatever their groups.",
        _leaving_open(total_order),
    ),
    Property(
        "G5",
        "each client in order",
        "What one client sends comes in the order in which it was sent.",
        _leaving_open(sender_order),
    ),
    Property(
        "G6",
        "whole, unaltered, once",
        "A message comes as it was sent, from who sent it, and no more than once.",
        _leaving_open(as_sent),
    ),
    Property(
        "G7",
        "views in order with messages",
        "A change of members lies between the same messages for every member.",
        _leaving_open(views.views_in_order),
    ),
    Property(
        "G8",
        "causes first, over all groups",
        "An answer comes after its question, even if it goes to another group.",
        _leaving_open(causal_order),
    ),
)
