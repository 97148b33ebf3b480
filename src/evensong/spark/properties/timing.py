"""Properties of the token and of time: TF1, TF2, LV-2, LV-3.

Limits are those that the run was made with, as its `start` events tell them (`window_size`,
`messages_max`, `settle_us`, `state_us` in `aux`); where they do not, there is nothing to judge by.
"""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.sim.evs.timing import ENDS_A_STATE, OPERATIONAL
from evensong.spark.history import LIFE, kept
from evensong.spark.properties.finding import Finding
from evensong.spark.properties.membership import named
from evensong.spark.properties.sound import VIOLATION, counted, nothing, summed

if TYPE_CHECKING:
    from evensong.spark.history import History


def _visits(history: "History") -> DataFrame:

    return history.events.where("etype = 'token'").select(
        *LIFE,
        F.col("aux")["ring"].alias("conf_id"),
        F.col("aux")["token_seq"].cast("bigint").alias("token_seq"),
        (F.col("aux")["sent"].cast("bigint") + F.col("aux")["resent"].cast("bigint")).alias(
            "n_messages"
        ),
        F.col("aux")["fcc"].cast("bigint").alias("fcc"),
    )


def window(history: "History") -> Finding:
    """TF1: no visit sends more than messages_max, no rotation more than window_size.

    Only gapless stretches of visits are judged as rotations, since recordings may be sampled.
    """
    ring = Window.partitionBy("run_id", "conf_id").orderBy("token_seq", "node", "incarnation")
    stretch = Window.partitionBy("run_id", "conf_id", "stretch").orderBy("token_seq")
    limits = history.limits.where("window_size is not null and messages_max is not null")
    if limits.isEmpty():
        return nothing(history)
    sizes = history.spans.groupBy("run_id", "conf_id").agg(
        F.max(F.size("members")).alias("n_members")
    )
    visits = (
        _visits(history)
        .join(F.broadcast(limits), "run_id")
        .join(F.broadcast(sizes), ["run_id", "conf_id"], "left")
        .fillna(1, ["n_members"])
        .withColumn("stretch", F.col("token_seq") - F.row_number().over(ring))
        .withColumn("total", F.sum("n_messages").over(stretch))
        .withColumn("number", F.row_number().over(stretch))
    )
    # What the last rotation sent is a total less the total one rotation before.
    earlier = visits.selectExpr(
        "run_id", "conf_id", "stretch", "number + n_members as number", "total as earlier"
    )
    judged = visits.join(earlier, ["run_id", "conf_id", "stretch", "number"], "left").withColumn(
        "rotation", F.expr("total - coalesce(earlier, 0)")
    )
    complaint = F.expr(
        "case when n_messages > messages_max then"
        "  concat(n_messages, ' messages, messages_max is ', messages_max)"
        " when rotation > window_size then"
        "  concat(rotation, ' in a rotation, window_size is ', window_size)"
        " when fcc < 0 or fcc > window_size then"
        "  concat('fcc is ', fcc, ', window_size is ', window_size) end"
    )
    broken = named(history, judged.withColumn("complaint", complaint)).where(
        "complaint is not null"
    )
    text = "concat('token ', token_seq, ' of ', conf_id, ' at ', name, ': ', complaint) as text"
    return Finding(summed(counted(visits, "1")), broken.selectExpr(*LIFE, "conf_id", text))


def token_uniqueness(history: "History") -> Finding:
    """TF2: on one ring, no two visits forward the same token_seq."""
    visits = _visits(history)
    key = ["run_id", "conf_id", "token_seq"]
    by_token = visits.groupBy(*key).agg(F.count("*").alias("n"))
    checked = summed(counted(by_token, "n"))
    again = kept(by_token.where("n > 1"))
    if again.isEmpty():
        return Finding(checked, nothing(history).violations)
    one = Window.partitionBy(*key).orderBy("node", "incarnation")
    twice = (
        named(history, visits.join(F.broadcast(again), key))
        .withColumn("other", F.lag("name").over(one))
        .where("other is not null")
    )
    text = (
        "concat('token ', token_seq, ' of ', conf_id, ' is forwarded by ', other, ' and by ', name)"
        " as text"
    )
    return Finding(checked, twice.selectExpr(*LIFE, "conf_id", text))


def settles(history: "History") -> Finding:
    """LV-2, TM3: in time after the last disturbance, whoever lives is in its final configuration.

    Who saw the end of the run while it formed another one is late if the time is over, and unknown
    if it is not; so is who has no end. Only a run with one clock tells such a limit.
    """
    limits = history.limits.where("settle_us is not null").select("run_id", "settle_us", "last_us")
    if limits.isEmpty():
        return nothing(history)
    # The last configuration, and whether the life has left it for another that it did not install.
    is_conf, is_state = "etype = 'conf'", "etype = 'state'"
    ends = (
        history.quiet_events.join(F.broadcast(limits), "run_id")
        .groupBy(*LIFE, "settle_us", "last_us")
        .agg(
            F.expr(f"max(if({is_conf}, pseq, null))").alias("conf_pseq"),
            F.expr(f"max_by(if({is_conf}, t_us, null), if({is_conf}, pseq, null))").alias("t_us"),
            F.expr(f"max_by(conf_id, if({is_conf}, pseq, null))").alias("conf_id"),
            F.expr(f"max_by(conf_kind, if({is_conf}, pseq, null))").alias("conf_kind"),
            F.expr(f"max(if({is_state} and aux['state'] <> 'operational', pseq, null))").alias(
                "forming_pseq"
            ),
            F.max("t_us").alias("end_us"),
        )
        .where("conf_pseq is not null")
        .join(history.lives.where("ended in ('quiesce', '')").select(*LIFE, "ended"), list(LIFE))
    )
    judged = (
        ends.where("ended = 'quiesce'")
        .withColumn(
            "is_settled",
            F.expr("conf_kind <> 'transitional' and coalesce(forming_pseq < conf_pseq, true)"),
        )
        .withColumn("took", F.expr("if(is_settled, t_us, end_us) - last_us"))
    )
    text = (
        "concat(name, ' ', if(is_settled, concat('installs its final ', conf_id),"
        " 'has not settled'), ' ', took, ' us after the last fault, ', settle_us, ' are allowed')"
        " as text"
    )
    late = named(history, judged.where("took > settle_us"))
    unknown = "if(not is_settled and took <= settle_us, 1, 0)"
    without_end = counted(ends.where("ended = ''"), "0", "1")
    counts = summed(counted(judged, "1", unknown), without_end)
    return Finding(counts, late.selectExpr(*LIFE, "conf_id", text))


def leaves_states(history: "History") -> Finding:
    """LV-3: undisturbed, no process stays in a state other than operational beyond the limit."""
    limits = history.limits.where("state_us is not null").select("run_id", "state_us", "last_us")
    if limits.isEmpty():
        return nothing(history)
    # A new state ends the one before it; so does the end of the life, if there is one.
    life = Window.partitionBy(*LIFE).orderBy("pseq")
    states = (
        history.quiet_events.where(F.col("etype").isin(*ENDS_A_STATE))
        .withColumn("state", F.col("aux")["state"])
        .withColumn("until_us", F.lead("t_us").over(life))
        .where(f"etype = 'state' and state <> '{OPERATIONAL}' and until_us is not null")
        .join(F.broadcast(limits), "run_id")
        .withColumn("stayed", F.expr("until_us - greatest(t_us, last_us)"))
        .where("stayed > 0")
    )
    text = (
        "concat(name, ' stays in ', state, ' for ', stayed, ' us, ', state_us, ' are allowed')"
        " as text"
    )
    late = named(history, states.where("stayed > state_us"))
    return Finding(
        summed(counted(states, "1")), late.selectExpr(*LIFE, "conf_id", text).select(*VIOLATION)
    )
