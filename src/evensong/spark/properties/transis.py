"""What Transis promises: LV1, LV2, LC1, LA1, LS1, LB1, LM1, LM2, LM3, LW1.

What is asked is said in `evensong.sim.transis.judge`, which judges the same in memory. What is
about messages is broken only in views that `evensong.spark.domain` puts in doubt; here it is
counted in all others. What is about views, incarnations, times and windows is judged by events.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.sim.transis.judge import AGREE
from evensong.spark.history import LIFE
from evensong.spark.properties import membership
from evensong.spark.properties.finding import Finding, Property
from evensong.spark.properties.membership import named
from evensong.spark.properties.sound import (
    VIOLATION,
    counted,
    found,
    nothing,
    row_counts,
    row_violations,
    summed,
)
from evensong.spark.segmented import COM
from evensong.spark.walk import IS_CAUSAL

if TYPE_CHECKING:
    from evensong.spark.history import History


def _passages(history: "History") -> DataFrame:
    """Count, of all who went together from one configuration to the next, those but the first."""
    together = history.spans.where("next_id is not null").groupBy("run_id", "conf_id", "next_id")
    return counted(together.count(), "count - 1")


def same_set(history: "History") -> Finding:
    """LV1: who goes on together delivered the same in each configuration, BASIC apart."""
    return found(history, "LV1", _passages(history))


def same_sequence(history: "History") -> Finding:
    """LV2: and ordered messages in the same sequence."""
    return found(history, "LV2", _passages(history))


def causal_order(history: "History") -> Finding:
    """LC1: whatever its sender had delivered or sent before comes before a message."""
    asked = history.sound(history.domain.units.where(f"n_sends > 0 and {IS_CAUSAL}"))
    return found(history, "LC1", counted(asked, "size(at)"), row_counts(history, "LC1"))


def agreed_order(history: "History") -> Finding:
    """LA1: in a view all order alike what the votes decide, also those who part later."""
    voted = history.sound(history.domain.units)
    return found(history, "LA1", counted(voted, "n_voted"), row_counts(history, "LA1"))


def safe_delivery(history: "History") -> Finding:
    """LS1: what is safe in a view, not only behind it, every member of it delivers, or fails."""
    domain = history.domain
    checked = counted(history.sound(domain.safe_units), "n_safe * size(members)")
    unseen = domain.lacking.where("is_safe and ended in ('', 'lost')")
    unknown = counted(history.sound(unseen), "0", "1")
    return found(history, "LS1", checked, unknown, row_counts(history, "LS1"))


def basic_delivery(history: "History") -> Finding:
    """LB1: a message comes to all who stay in its view or leave it together with its sender."""
    sent = history.domain.sent.select(*LIFE, "rank", "n_sends")
    company = (
        history.sound_coms.where("has_regular")
        .join(sent, [*LIFE, "rank"], "left")
        .groupBy(*COM, "following")
        .agg(
            F.sum(F.expr("if(following is not null or ended = 'quiesce', n_sends, 0)")).alias("n"),
            F.count_if(F.expr("ended is null or ended = 'quiesce'")).alias("n_others"),
        )
    )
    return found(history, "LB1", counted(company, "n * n_others"), row_counts(history, "LB1"))


def views(history: "History") -> Finding:
    """LM1: a view id is one set of members, with oneself; the views of one processor rise."""
    told = membership.uniqueness(history)
    node = Window.partitionBy("run_id", "node").orderBy("incarnation", "conf_no")
    spans = history.spans.withColumn("last", F.coalesce(F.lag("conf_seq").over(node), F.lit(0)))
    astray = named(history, spans.where("conf_seq <= last or not array_contains(members, node)"))
    text = "concat(name, ' installs ', conf_id, ' after number ', last) as text"
    more = astray.selectExpr(*LIFE, "conf_id", text)
    return Finding(told.checked, told.violations.select(*VIOLATION).union(more))


def identities(history: "History") -> Finding:
    """LM2: incarnations of a processor rise in time, and no name of a message is used twice."""
    known = history.quiet_events.groupBy(*LIFE).agg(F.min_by("t_us", "pseq").alias("t_us"))
    in_time = Window.partitionBy("run_id", "node").orderBy("t_us", "incarnation")
    back = known.withColumn("earlier", F.lag("incarnation").over(in_time)).where(
        "incarnation <= earlier"
    )
    text = "concat(name, ' begins after incarnation ', earlier) as text"
    broken = named(history, back).selectExpr(*LIFE, "cast(null as string) as conf_id", text)
    return Finding(summed(counted(known, "1")), broken.union(row_violations(history, "LM2")))


def settled(history: "History") -> Finding:
    """LM3: after the last disturbance everybody is in its final view within the bound told.

    Who sees the end of the run while it agrees on another view is late if the time is over, and
    unknown if it is not; so is who has no end.
    """
    limits = history.limits.where("settle_us is not null").select("run_id", "settle_us", "last_us")
    if limits.isEmpty():
        return nothing(history)
    is_conf = "etype = 'conf'"
    meant = f"if({is_conf}, conf_kind <> 'transitional', coalesce(aux['state'] <> '{AGREE}', true))"
    ends = (
        history.quiet_events.join(F.broadcast(limits), "run_id")
        .groupBy(*LIFE, "settle_us", "last_us")
        .agg(
            F.expr(f"max_by(conf_id, if({is_conf}, pseq, null))").alias("conf_id"),
            F.expr(f"max_by(t_us, if({is_conf}, pseq, null))").alias("t_us"),
            F.expr(f"max_by({meant}, if(etype in ('conf', 'state'), pseq, null))").alias(
                "is_settled"
            ),
            F.expr("max_by(t_us, pseq)").alias("end_us"),
        )
        .where("conf_id is not null")
        .join(history.lives.where("ended in ('quiesce', '')").select(*LIFE, "ended"), list(LIFE))
    )
    judged = ends.where("ended = 'quiesce'").withColumn(
        "took", F.expr("if(is_settled, t_us, end_us) - last_us")
    )
    text = (
        "concat(name, ' ', if(is_settled, concat('installs its final ', conf_id),"
        " 'has not settled'), ' ', took, ' us after the last disturbance, ', settle_us,"
        " ' are allowed') as text"
    )
    late = named(history, judged.where("took > settle_us"))
    unknown = "if(not is_settled and took <= settle_us, 1, 0)"
    without_end = counted(ends.where("ended = ''"), "0", "1")
    counts = summed(counted(judged, "1", unknown), without_end)
    return Finding(counts, late.selectExpr(*LIFE, "conf_id", text))


def window(history: "History") -> Finding:
    """LW1: no more is unacknowledged at once than flow control allows."""
    told = history.quiet_events.where("etype = 'window'").selectExpr(
        *LIFE,
        "aux['view'] as conf_id",
        "cast(aux['window'] as bigint) as size",
        "cast(aux['bound'] as bigint) as bound",
    )
    text = (
        "concat(name, ' has ', size, ' unacknowledged messages in ', conf_id, ', ', bound,"
        " ' are allowed') as text"
    )
    broken = named(history, told.where("size > bound")).selectExpr(*LIFE, "conf_id", text)
    return Finding(summed(counted(told, "1")), broken)


# What extended virtual synchrony and Transis have in common is judged by the same functions.
SHARED: Final = (
    "EVS1.1",
    "EVS1.2",
    "EVS1.3",
    "EVS1.4",
    "EVS2.1",
    "EVS2.2",
    "EVS3",
    "TR2",
    "TR3",
    "LV-1",
)

TRANSIS: Final = (
    Property(
        "LV1",
        "who goes on together has the same messages",
        "After a change, members that came along with you have what you have, BASIC ones apart.",
        same_set,
    ),
    Property(
        "LV2",
        "and in the same order",
        "Members that came along with you have ordered messages in your order.",
        same_sequence,
    ),
    Property(
        "LC1",
        "causes first",
        "An answer never comes before its question, BASIC ones apart.",
        causal_order,
    ),
    Property(
        "LA1",
        "one order in a view",
        "What the votes have ordered comes in one order to all, also to those who part later.",
        agreed_order,
    ),
    Property(
        "LS1",
        "safe means everybody",
        "A message delivered as safe in a view reaches every member of it, unless it fails.",
        safe_delivery,
    ),
    Property(
        "LB1",
        "what is sent arrives",
        "A message comes to all who stay with its sender, whatever its service.",
        basic_delivery,
    ),
    Property(
        "LM1",
        "one id, one view",
        "Two processes with the same view id have the same members, themselves among them.",
        views,
    ),
    Property(
        "LM2",
        "no name is used twice",
        "A restarted process is another one, and a message is told apart from every other.",
        identities,
    ),
    Property(
        "LM3",
        "views settle in time",
        "So long after the last fault everyone is in its final view.",
        settled,
    ),
    Property(
        "LW1",
        "flow control is kept",
        "No more messages are unacknowledged at once than was allowed.",
        window,
    ),
)
