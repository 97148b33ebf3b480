"""Properties of what was sent and delivered: EVS1 to EVS7.1 but for EVS1.2, TR, TG, FIFO, LV-1.

What breaks them is found by looking at the rows of configurations that the digests put in doubt
(`evensong.spark.soundness` says why no other can break them). Here is what each is about, counted.
"""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.core.engine import TRANSIS
from evensong.spark.digests import SAFE
from evensong.spark.history import LIFE, kept
from evensong.spark.properties.finding import Finding
from evensong.spark.properties.membership import named
from evensong.spark.properties.sound import (
    VIOLATION,
    counted,
    found,
    row_counts,
    row_violations,
    summed,
)
from evensong.spark.rows import AGAIN, OWN
from evensong.spark.segmented import COM

if TYPE_CHECKING:
    from evensong.spark.history import History


def partial_order(history: "History") -> Finding:
    """EVS1.1: process order and send-before-deliver form a partial order: no cycle."""
    return found(history, "EVS1.1", _deliveries(history), _sends(history))


def sent_before(history: "History") -> Finding:
    """EVS1.3: what is delivered was sent, with this content, in the same regular configuration."""
    unknown = _open_deliveries(history).selectExpr("run_id", "0 as n_checked", "n as n_unknown")
    by_rows = row_counts(history, "EVS1.3").selectExpr("run_id", "0 as n_checked", "n_unknown")
    return found(history, "EVS1.3", _deliveries(history), unknown, by_rows)


def sent_once(history: "History") -> Finding:
    """EVS1.4: one send a unit, by its own sender, in a regular configuration; delivered once."""
    return found(history, "EVS1.4", _deliveries(history), _sends(history))


def inside_span(history: "History") -> Finding:
    """EVS2.2: every event lies in the configuration it says it belongs to."""
    lives = history.lives.where("not is_blank")
    so_far = Window.partitionBy(*LIFE).orderBy("pseq")
    installed = F.sum(F.expr("if(etype = 'conf', 1, 0)")).over(so_far) - 1
    astray = (
        history.quiet_events.withColumn(  # a visit of the token says nothing of membership
            "installed", installed
        )
        .where("coalesce(conf_no, -1) <> installed")
        .selectExpr(
            *LIFE,
            "conf_id",
            "concat('p', node, ' has ', etype, ' for configuration number ',"
            " coalesce(conf_no, -1), ' while in number ', installed) as text",
        )
    )
    return Finding(
        summed(_deliveries(history), _sends(history), counted(lives, "n_events")),
        row_violations(history, "EVS2.2").union(astray.select(*VIOLATION)),
    )


def consistent_cuts(history: "History") -> Finding:
    """EVS2.3, EVS2.4: the installations of a configuration form one cut through the run."""
    return found(history, "EVS2.3", counted(history.spans, "1"))


def self_delivery(history: "History") -> Finding:
    """EVS3: a sender delivers what it sent in c, in com(c), unless it failed there."""
    sent = (
        history.account.sent.join(
            history.sound_coms.select(*LIFE, "rank", "ended"), [*LIFE, "rank"]
        )
        .where("ended is null or ended not in ('fail', 'stop')")
        .withColumnRenamed("ended", "end")
    )
    # Whose recording stops there may have delivered it afterwards.
    sound = counted(sent, "n_sends", "if(end in ('', 'lost'), n_missing, 0)")
    return found(history, "EVS3", sound, row_counts(history, "EVS3"))


def failure_atomicity(history: "History") -> Finding:
    """EVS4: who goes from c directly to the same next configuration delivered the same set in c."""
    together = (
        history.spans.where("next_id is not null").groupBy("run_id", "conf_id", "next_id").count()
    )
    return found(history, "EVS4", counted(together, "count - 1"))


def causal_order(history: "History") -> Finding:
    """EVS5: who delivers m' delivers, before it and in com(c), all of c that m' could depend on."""
    coms = history.sound_coms
    first = history.evidence.sent.where("causeless_seq is not null").select(*COM, "causeless_seq")
    without = (
        coms.join(first, list(COM))
        .where("causeless_seq < end_seq")
        .groupBy("run_id")
        .agg(F.count("*").alias("n"))
    )
    minus = without.union(_open_deliveries(history)).selectExpr(
        "run_id", "-n as n_checked", "0 as n_unknown"
    )
    return found(history, "EVS5", counted(coms, "n"), minus, row_counts(history, "EVS5"))


def numbering(history: "History") -> Finding:
    """EVS6.1: the protocol's numbers rise with the order of events at every process."""
    return found(history, "EVS6.1", _deliveries(history), _sends(history))


def same_number(history: "History") -> Finding:
    """EVS6.2: a unit has the same number everywhere, and no other unit has it."""
    return found(history, "EVS6.2", _deliveries(history))


def no_holes(history: "History") -> Finding:
    """EVS6.3: who delivers m' in c' also delivers what somebody delivered before m'."""
    several = (
        history.sound_coms.where("n > 0")
        .groupBy(*COM)
        .agg(F.sum("n").alias("n"), F.count("*").alias("n_coms"))
        .where("n_coms > 1")
    )
    sound = counted(several, "n - n_coms")
    return found(history, "EVS6.3", sound, row_counts(history, "EVS6.3"))


def safe_delivery(history: "History") -> Finding:
    """EVS7.1: what is delivered as safe in c, every member of c delivers in com(c), or it fails."""
    spans = history.sound(history.evidence.spans)
    safe = (
        spans.where("n_safe > 0")
        .groupBy(*COM, "conf_id", "members")
        .agg(F.max("n_safe").alias("n_safe"))
    )
    sound = counted(safe, "n_safe * size(members)")
    unknown = _unseen_safe(history, spans)
    return found(history, "EVS7.1", sound, unknown, row_counts(history, "EVS7.1"))


def _unseen_safe(history: "History", spans: DataFrame) -> DataFrame:
    """Count safe deliveries that a member may have made after its recording stops."""
    unseen = history.sound(history.evidence.lacking_safe)
    unseen = unseen.select(*COM, "conf_id", F.coalesce("end_seq", F.lit(0)).alias("end_seq"))
    if unseen.isEmpty():
        return counted(unseen, "0")
    fullest = Window.partitionBy(*COM, "conf_id").orderBy(F.desc("n_safe"), "node", "incarnation")
    who = (
        spans.withColumn("place", F.row_number().over(fullest))
        .where("place = 1")
        .join(
            unseen.groupBy(*COM, "conf_id").agg(F.min("end_seq").alias("least")), [*COM, "conf_id"]
        )
        .select(*LIFE, "conf_no", "rank", "conf_id", "least")
    )
    late = (
        history.deliveries.where(f"service = {SAFE}")
        .join(F.broadcast(who), [*LIFE, "conf_no"])
        .where("seq >= least")
        .select(*COM, "conf_id", "seq")
    )
    pairs = late.join(unseen, [*COM, "conf_id"]).where("seq >= end_seq")
    return kept(counted(pairs, "0", "1"))


def stable_line(history: "History") -> Finding:
    """TF3: what a life is told that everybody has, every member delivers in com(c), or it fails."""
    evidence = history.evidence
    told = counted(history.sound(evidence.told), "size(members)")
    unknown = counted(history.sound(evidence.lacking_told), "0", "1")
    return found(history, "TF3", told, unknown, row_counts(history, "TF3"))


def in_its_configuration(history: "History") -> Finding:
    """TR2: a unit is delivered in the configuration c it was sent in, or in its transitional."""
    unknown = _open_deliveries(history).selectExpr("run_id", "-n as n_checked", "n as n_unknown")
    sound = counted(history.sound_coms, "n")
    return found(history, "TR2", sound, unknown, row_counts(history, "TR2"))


def all_delivered(history: "History") -> Finding:
    """TR3: in a configuration that no change ends, every member delivers every unit sent."""
    stayed = history.sound_coms.where("stays and ended in ('quiesce', '')")
    members = history.spans.where("not is_transitional").select(*COM, "members").distinct()
    sent = history.account.sent.select(*LIFE, "rank", "n_sends")
    final = (
        stayed.join(sent, [*LIFE, "rank"], "left")
        .groupBy(*COM)
        .agg(
            F.sum("n_sends").alias("n_sends"),
            F.count("*").alias("n_coms"),
            F.array_sort(F.collect_set("node")).alias("nodes"),
        )
        .join(members, list(COM))
        .where("nodes = members")
    )
    checked = counted(final, "n_sends * n_coms")
    unknown = _unseen_sends(history, stayed.join(final.select(*COM), list(COM), "left_semi"))
    return found(history, "TR3", checked, unknown, row_counts(history, "TR3"))


def _unseen_sends(history: "History", stayed: DataFrame) -> DataFrame:
    """Count what was sent last in a configuration, and may be delivered after recordings stop."""
    if history.engine == TRANSIS:
        return history.domain.unseen_by(stayed)
    open_coms = stayed.where("ended = ''").select(
        *COM, F.coalesce("end_seq", F.lit(0)).alias("end")
    )
    sent = history.evidence.sent.groupBy(*COM).agg(F.max("seq_max").alias("seq_max"))
    late = open_coms.join(sent, list(COM)).where("seq_max >= end").select(*COM, "end")
    if late.isEmpty():
        return counted(late, "0")
    senders = stayed.select(
        *COM, F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc")
    )
    sends = history.matching.sends.join(
        F.broadcast(senders), [*COM, "sender", "sender_inc"], "left_semi"
    )
    return kept(counted(sends.join(F.broadcast(late), list(COM)).where("seq >= end"), "0", "1"))


def global_order(history: "History") -> Finding:
    """TG: all lives' orders fit into one: "directly before", over all of them, has no cycle."""
    sound = counted(history.evidence.totals, "n_deliveries - 1")
    return found(history, "TG", sound, _without_second(history))


def sender_order(history: "History") -> Finding:
    """FIFO: each receiver delivers a sender's units in the order in which they were spoken."""
    return found(history, "FIFO", _deliveries(history), _without_second(history))


def submitted_delivered(history: "History") -> Finding:
    """LV-1: what a life that saw the end of the run submitted, it and its members delivered.

    How much was submitted is told by the end of the trace. Of members, those of the final
    configuration owe what was sent in it.
    """
    coms = history.sound_coms
    asked = history.lives.where("ended = 'quiesce' and submitted > 0")
    untold = counted(history.all_lives.where("ended = ''"), "0", "1")
    sent = history.account.sent.join(coms.select(*LIFE, "rank", "stays"), [*LIFE, "rank"])
    own = sent.selectExpr(*LIFE, "n_sends - n_missing as n").union(
        history.row_findings.where(f"property = '{OWN}'").select(*LIFE, "n_checked")
    )
    delivered = own.groupBy(*LIFE).agg(F.sum("n").alias("n"))
    judged = asked.join(delivered, list(LIFE), "left").fillna(0, ["n"])
    lacking = named(history, judged.where("n < submitted")).selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        "concat(name, ' submitted ', submitted, ' units and delivered ', n, ' of them') as text",
    )
    others = (
        coms.where("life_ended = 'quiesce'").groupBy(*COM).agg((F.count("*") - 1).alias("n_others"))
    )
    final = sent.where("stays").join(asked.select(*LIFE), list(LIFE), "left_semi")
    owed = counted(final.join(others, list(COM)), "n_sends * n_others")
    return Finding(
        summed(counted(asked, "submitted"), untold, owed, row_counts(history, "LV-1")),
        lacking.union(row_violations(history, "LV-1")),
    )


# Counts that several properties share


def _deliveries(history: "History") -> DataFrame:
    return counted(history.account.totals, "n_deliveries")


def _sends(history: "History") -> DataFrame:
    return counted(history.account.sent, "n_sends")


def _without_second(history: "History") -> DataFrame:
    """Second deliveries of a unit are left out of orders."""
    again = row_counts(history, AGAIN)
    return again.selectExpr("run_id", "-n_checked as n_checked", "n_unknown")


def _open_deliveries(history: "History") -> DataFrame:
    """Deliveries in sound configurations whose send may be in a recording that is not there."""
    if history.engine == TRANSIS:
        return history.domain.open_deliveries
    units = history.sound(history.matching.open_units).select(*COM, "seq")
    delivered = history.sound_coms.select(*COM, "end_seq").join(units, list(COM))
    return delivered.where("seq < end_seq").groupBy("run_id").agg(F.count("*").alias("n"))
