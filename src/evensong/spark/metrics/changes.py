"""What each change of membership took, as `evensong.trace.changes` says of a run in memory.

A change begins when the first of its members leaves its ring for Gather and ends when the last of
them has installed the new one; in a broadcast domain, when the first collects others or gives
somebody up. That compares times of several members, which is done only where
they are of one clock; else the times are those of the member whose own way was the longest, since
all install at nearly one moment, and `took_us` is left empty.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.metrics.lives import LIFE, NOTHING, in_order
from evensong.trace.changes import BEGINNING

BLOWS: Final = ("fail", "stop", "fault_inject", "start")


def changes(events: DataFrame, lives: DataFrame) -> DataFrame:
    """Return every regular configuration of two or more, and how it came about.

    Times are of `clock`, whose first time is `origin_us`. `silence_us` is how long the one who
    noticed had been without a token. `blow` is the last thing known to have been done before that
    in its former configuration, `detect_us` the time since.
    """
    found = _gathered(_ways(events, lives))
    blows = _blows(events, lives)
    is_before = (
        (F.col("blows.run_id") == F.col("change.run_id"))
        & (F.col("blows.clock") == F.col("change.clock"))
        & (F.col("blows.blow_us") <= F.col("change.noticed_us"))
        & (F.col("blows.blow_us") > F.col("change.before_us"))
    )
    struck = (
        found.alias("change")
        .join(blows.alias("blows"), is_before)
        .groupBy("change.run_id", "change.conf_id")
        .agg(F.max(F.struct("blows.blow_us", "blows.blow")).alias("struck"))
    )
    ring = F.split("conf_id", r"\.")
    return (
        found.join(struck, ["run_id", "conf_id"], "left")
        .withColumn("detect_us", F.col("noticed_us") - F.col("struck.blow_us"))
        .withColumn("blow", F.col("struck.blow"))
        .drop("struck", "before_us")
        .transform(in_order, "run_id", "first_us", ring[0].cast("bigint"), ring[1].cast("bigint"))
        .drop("first_us")
    )


def _ways(events: DataFrame, lives: DataFrame) -> DataFrame:
    """Return each member's way into each configuration of two or more."""
    is_ring = (F.col("etype") == "conf") & (F.col("conf_kind") == "regular")
    state = F.col("aux")["state"]
    in_turn = Window.partitionBy(*LIFE).orderBy("pseq")
    so_far = in_turn.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_turn.rowsBetween(Window.unboundedPreceding, -1)
    under_way = Window.partitionBy(*LIFE, "n_rests").orderBy("pseq")
    under_way_so_far = under_way.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def latest(when: Column, value: Column) -> Column:
        return F.last(F.when(when, value), ignorenulls=True).over(so_far)

    is_gather = (F.col("etype") == "state") & state.isin(*BEGINNING)
    is_stable = (F.col("etype") == "state") & (state == "stable")  # nobody was there to join with
    is_commit = (F.col("etype") == "state") & (state == "commit")
    n_gathers = F.count_if(is_gather).over(under_way_so_far)
    is_notice = is_gather & (n_gathers == 1)
    noted = (
        events.where("etype in ('conf', 'state', 'token')")
        .withColumn("n_rests", F.coalesce(F.count_if(is_ring | is_stable).over(before), F.lit(0)))
        .withColumn("is_notice", is_notice)
        .withColumn("token_us", latest(F.col("etype") == "token", F.col("t_us")))
        .withColumn("silence_us", F.col("t_us") - F.col("token_us"))
    )
    way = (
        noted.withColumn(
            "notice",
            F.last(
                F.when(F.col("is_notice"), F.struct("t_us", "silence_us")), ignorenulls=True
            ).over(under_way_so_far),
        )
        # A cause and a commit stay those of the last change that had one, as in memory.
        .withColumn("way_cause", F.coalesce(latest(F.col("is_notice"), F.col("cause")), F.lit("")))
        .withColumn("agreed_us", F.coalesce(latest(is_commit, F.col("t_us")), F.lit(-1)))
        .where(is_ring)
        .withColumn("former", F.lag("members").over(in_turn))
        .withColumn("before_us", F.coalesce(F.lag("t_us").over(in_turn), F.lit(-1)))
        .where(F.size("members") > 1)
    )
    return way.join(F.broadcast(lives.select(*LIFE, "clock", "origin_us")), list(LIFE)).select(
        "run_id",
        "conf_id",
        "node",
        "clock",
        "origin_us",
        "members",
        F.coalesce("former", F.array().cast("array<bigint>")).alias("former"),
        F.col("way_cause").alias("cause"),
        F.coalesce("notice.t_us", "t_us").alias("noticed_us"),
        "notice.silence_us",
        "agreed_us",
        F.col("t_us").alias("installed_us"),
        "before_us",
    )


def _gathered(ways: DataFrame) -> DataFrame:
    """Return the changes that the ways of their members make up."""
    is_fresh = F.col("cause") == "start"
    told = F.struct(
        "node", "cause", "agreed_us", "installed_us", "noticed_us", "silence_us", "clock",
        "origin_us", "before_us",
    )  # fmt: skip
    own_us = F.col("installed_us") - F.col("noticed_us")
    stayed = F.array_intersect("former", "members")
    members = F.first("members")
    left = F.array_sort(
        F.array_distinct(F.array_except(F.flatten(F.collect_list("former")), members))
    )
    # Of parts of one size, those who were there already take in those who had just started.
    core = F.max_by(stayed, F.struct(F.size(stayed), ~is_fresh, -F.col("node")))
    found = ways.groupBy("run_id", "conf_id").agg(
        members.alias("members"),
        left.alias("left"),
        F.array_sort(F.array_except(members, core)).alias("joined"),
        (F.count_distinct("clock") == 1).alias("is_one_clock"),
        F.min_by(told, F.struct(is_fresh, "noticed_us", "node")).alias("earliest"),
        F.min_by(told, F.struct(is_fresh, -own_us, "node")).alias("longest"),
        F.min("agreed_us").alias("first_agreed_us"),
        F.max("installed_us").alias("last_installed_us"),
        F.min("installed_us").alias("first_us"),
        F.max(own_us).alias("slowest_us"),
    )
    of_one = F.col("is_one_clock")
    first = F.when(of_one, F.col("earliest")).otherwise(F.col("longest"))
    agreed = F.when(of_one, F.col("first_agreed_us")).otherwise(F.col("first.agreed_us"))
    installed = F.when(of_one, F.col("last_installed_us")).otherwise(F.col("first.installed_us"))
    return found.withColumn("first", first).select(
        "run_id",
        "conf_id",
        "members",
        "left",
        "joined",
        F.col("first.cause").alias("cause"),
        F.col("first.node").alias("noticed_by"),
        "first.clock",
        "first.origin_us",
        "first.noticed_us",
        agreed.alias("agreed_us"),
        installed.alias("installed_us"),
        F.when(of_one, installed - F.col("first.noticed_us")).alias("took_us"),
        "slowest_us",
        "first.silence_us",
        "first.before_us",
        "first_us",
    )


def _blows(events: DataFrame, lives: DataFrame) -> DataFrame:
    """Return what is known to have been done to nodes, and when, by each clock."""
    clocks = F.broadcast(lives.select(*LIFE, "clock"))
    who = F.concat(F.lit("n"), F.col("node").cast("string"))
    text = (
        F.when(F.col("etype") == "fault_inject", F.col("cause"))
        .when(F.col("etype") == "fail", F.concat(who, F.lit(" crashed")))
        .when(F.col("etype") == "stop", F.concat(who, F.lit(" left")))
        .otherwise(F.concat(who, F.lit(" started")))
    )
    done = events.where(F.col("etype").isin(*BLOWS)).join(clocks, list(LIFE))
    ends = lives.where(F.col("ended") == NOTHING)
    return done.select(
        "run_id", "clock", F.col("t_us").alias("blow_us"), text.alias("blow")
    ).unionByName(
        ends.select(
            "run_id",
            "clock",
            F.col("to_us").alias("blow_us"),
            F.concat(who, F.lit(" was heard of for the last time")).alias("blow"),
        )
    )
