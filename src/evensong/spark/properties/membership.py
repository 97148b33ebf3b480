"""Properties of configurations: EVS1.2, EVS2.1, EVS7.2, TM1, TM2, TM4."""

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.history import LIFE, kept
from evensong.spark.properties.finding import Finding
from evensong.spark.properties.sound import VIOLATION, counted, row_violations, summed

if TYPE_CHECKING:
    from evensong.spark.history import History


def named(history: "History", rows: DataFrame) -> DataFrame:
    """Add the name of the life."""
    return rows.join(F.broadcast(history.names), list(LIFE))


def may_have_installed(history: "History", pairs: DataFrame) -> DataFrame:
    """Return those of (run_id, node, conf_id) that the lost tail of a recording may hold."""
    asked = pairs.select("run_id", "node", "conf_id").distinct()
    return (
        asked.withColumn("ring", ring_of("conf_id"))
        .join(F.broadcast(history.tails), ["run_id", "node"])
        .where("(last is null or ring > last) and (after is null or ring < after)")
        .select("run_id", "node", "conf_id")
        .distinct()
    )


def ring_of(column: str) -> Column:
    """Return the id of a configuration as something that can be compared."""
    seq = F.split_part(column, F.lit("."), F.lit(1)).cast("bigint").alias("conf_seq")
    return F.struct(
        seq, F.split_part(column, F.lit("."), F.lit(2)).cast("bigint").alias("conf_rep")
    )


def process_order(history: "History") -> Finding:
    """EVS1.2: the events of a process are totally ordered; so are its incarnations.

    On a ring times of deliveries are compared from chunk to chunk; positions exactly, since a chunk
    in which they do not run in step is looked at row by row.
    """
    account = history.account
    in_order = Window.partitionBy(*LIFE).orderBy("pseq")
    events = (
        history.events.select(*LIFE, "pos", "t_us", "conf_id", "pseq")
        .withColumn("before", F.lag(F.struct("pos", "t_us", "pseq")).over(in_order))
        .where("pos < before.pos or t_us < before.t_us or pseq <> before.pseq + 1")
        .withColumn("place", F.lit("events"))
    )
    before = F.struct("before.pos", "before.t_us").alias("before")
    backwards = events.select(*LIFE, "conf_id", "place", "pos", "t_us", before)
    if not account.sent.where("n_backwards > 0").isEmpty():  # else one more look at all sends
        backwards = backwards.union(
            account.placed.where("is_backwards").select(
                *LIFE,
                F.lit(None).cast("string").alias("conf_id"),
                F.lit("sends").alias("place"),
                "pos",
                "t_us",
                before,
            )
        )
    tables = named(history, backwards.localCheckpoint()).selectExpr(
        *LIFE,
        "conf_id",
        "concat(name, ' ', place, ': (', pos, ', ', t_us, ') follows (', before.pos, ', ',"
        " before.t_us, ')') as text",
    )
    clocks = named(history, account.late_lives).selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        "concat(name, ' deliveries: time runs backwards') as text",
    )
    lives = Window.partitionBy("run_id", "node").orderBy("incarnation")
    followed = history.all_lives.withColumn("next", F.lead("incarnation").over(lives)).where(
        "next is not null"
    )
    again = named(history, followed.where("ended = 'quiesce'")).selectExpr(
        *LIFE,
        "cast(null as string) as conf_id",
        "concat(name, ' saw the end of the run and lived again') as text",
    )
    checked = summed(
        counted(account.totals, "n_deliveries"),
        counted(account.sent, "n_sends"),
        counted(history.lives.where("not is_blank"), "n_events"),
        counted(followed, "1"),
    )
    twice = row_violations(history, "EVS1.2").select(*VIOLATION)
    return Finding(checked, tables.union(clocks).union(again).union(twice))


def stays_together(history: "History") -> Finding:
    """EVS2.1: who stays in c to the end stays with all of c's members, none of them failed."""
    latest = Window.partitionBy("run_id", "node").orderBy(F.desc("incarnation"))
    last_spans = history.spans.where("is_last").select(*LIFE, "conf_id", "members")
    last = (
        named(history, history.all_lives)
        .withColumn("place", F.row_number().over(latest))
        .where("place = 1")
        .join(last_spans, list(LIFE), "left")
        .select(*LIFE, "name", "ended", "conf_id", "members")
    )
    other = last.select(
        "run_id",
        F.col("node").alias("member"),
        F.col("name").alias("other_name"),
        F.col("ended").alias("other_ended"),
        F.col("conf_id").alias("other_id"),
    )
    pairs = (
        last.where("ended in ('quiesce', '') and conf_id is not null")
        .withColumn("member", F.explode("members"))
        .drop("members")
        .join(other, ["run_id", "member"], "left")
    )
    maybe = may_have_installed(
        history, pairs.select("run_id", F.col("member").alias("node"), "conf_id")
    ).select("run_id", F.col("node").alias("member"), "conf_id", F.lit(True).alias("maybe"))
    judged = pairs.join(maybe, ["run_id", "member", "conf_id"], "left").withColumn(
        "is_unknown",
        F.expr(
            "ended = '' or coalesce(other_ended = '', false)"
            " or (other_name is not null and other_id is null and coalesce(maybe, false))"
        ),
    )
    broken = judged.where(
        "not is_unknown and (other_name is null or coalesce(other_id, '') <> conf_id"
        " or other_ended <> 'quiesce')"
    ).selectExpr(
        *LIFE,
        "conf_id",
        "concat(name, ' stays in ', conf_id, ' with ', coalesce(other_name, concat('p', member)),"
        " if(other_name is null, ', which never lived', concat(', which ended in ',"
        " coalesce(other_id, 'no configuration'), ' by ', other_ended))) as text",
    )
    return Finding(summed(counted(judged, "1", "if(is_unknown, 1, 0)")), broken)


def safe_after_all_installed(history: "History") -> Finding:
    """EVS7.2: a safe unit delivered in a regular c means that all members installed c."""
    pairs = (
        history.evidence.spans.where("n_safe > 0 and not is_transitional")
        .select("run_id", "conf_id", "members")
        .distinct()
        .withColumn("node", F.explode("members"))
    )
    installed = history.spans.where("not is_transitional").select("run_id", "conf_id", "node")
    lacking = pairs.join(installed.distinct(), ["run_id", "conf_id", "node"], "left_anti")
    maybe = may_have_installed(history, lacking)
    unknown = lacking.join(maybe, ["run_id", "conf_id", "node"], "left_semi")
    broken = lacking.join(maybe, ["run_id", "conf_id", "node"], "left_anti").selectExpr(
        "run_id",
        "node",
        "cast(null as bigint) as incarnation",
        "conf_id",
        "concat('a safe unit was delivered in ', conf_id, ', which p', node, ' never installed')"
        " as text",
    )
    none = counted(unknown, "0", "1")
    return Finding(summed(counted(pairs, "1"), none), broken.select(*VIOLATION))


def uniqueness(history: "History") -> Finding:
    """TM1: an id stands for one set of members; a life is in one configuration at a time."""
    one_id = Window.partitionBy("run_id", "conf_id").orderBy("node", "incarnation", "conf_no")
    again = Window.partitionBy(*LIFE, "conf_id").orderBy("conf_no")
    spans = (
        named(history, history.spans)
        .withColumn("first", F.first(F.struct("members", "name")).over(one_id))
        .withColumn("time", F.row_number().over(again))
    )
    complaints = [
        ("members <> first.members",
         "concat(conf_id, ' is ', {first.members}, ' to ', first.name, ' and ', {members}, ' to ',"
         " name)"),
        ("prev_conf_id <> coalesce(before_id, '0.0')",
         "concat(name, ' installs ', conf_id, ' as following ', prev_conf_id, ' while in ',"
         " coalesce(before_id, '0.0'))"),
        ("time > 1", "concat(name, ' installs ', conf_id, ' twice')"),
    ]  # fmt: skip
    return Finding(summed(counted(history.spans, "1")), _complaints(spans, complaints))


def _complaints(rows: DataFrame, complaints: list[tuple[str, str]]) -> DataFrame:
    """Return a violation for each complaint that is true of a row; {x} shows x as a set."""
    import re
    from functools import reduce

    told = []
    for when, text in complaints:
        shown = re.sub(
            r"\{([\w.]+)\}", r"concat('{', array_join(cast(\1 as array<string>), ','), '}')", text
        )
        told.append(rows.where(when).selectExpr(*LIFE, "conf_id", f"{shown} as text"))
    return reduce(_union, told)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def consensus(history: "History") -> Finding:
    """TM2: who installs c is a member; a transitional c lies within both its neighbours.

    Where the states of the membership protocol are recorded: every member had agreed to c.
    """
    life = Window.partitionBy(*LIFE).orderBy("conf_no")
    about = F.struct("conf_id", "members")
    spans = (
        named(history, history.spans)
        .withColumn("earlier", F.lag(about).over(life))
        .withColumn("later", F.lead(about).over(life))
    )
    beside = (
        "concat(name, ': transitional ', conf_id, ' of ', {{members}}, ' beside ', {0}.conf_id,"
        " ' of ', {{{0}.members}})"
    )
    outside = "is_transitional and size(array_except(members, {0}.members)) > 0"
    broken = _complaints(
        spans,
        [
            ("not array_contains(members, node)",
             "concat(name, ' installs ', conf_id, ' of ', {members})"),
            (outside.format("earlier"), beside.format("earlier")),
            (outside.format("later"), beside.format("later")),
        ],
    )  # fmt: skip
    asked, unknown, disagreed = _agreement(history)
    checked = summed(counted(history.spans, "1"), counted(asked, "1"), counted(unknown, "0", "1"))
    return Finding(checked, broken.union(disagreed))


def _agreement(history: "History") -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return who had to agree to which ring; of whom it is not known; who did not."""
    agreed = kept(
        history.quiet_events.where("etype = 'state' and aux['state'] = 'commit'")
        .select("run_id", F.col("aux")["ring"].alias("conf_id"), "node")
        .distinct()
    )
    first = Window.partitionBy("run_id", "conf_id").orderBy("node", "incarnation", "conf_no")
    asked = (
        named(history, history.spans.where("not is_transitional"))
        .withColumn("place", F.row_number().over(first))
        .where("place = 1 and size(members) > 1")
        .join(agreed.select("run_id").distinct(), "run_id", "left_semi")
        .select(*LIFE, "name", "conf_id", F.explode("members").alias("member"))
    )
    asked = kept(asked)
    has_agreed = agreed.withColumnRenamed("node", "member")
    silent = kept(asked.join(has_agreed, ["run_id", "conf_id", "member"], "left_anti"))
    maybe = may_have_installed(
        history, silent.select("run_id", F.col("member").alias("node"), "conf_id")
    ).withColumnRenamed("node", "member")
    keys = ["run_id", "conf_id", "member"]
    disagreed = silent.join(maybe, keys, "left_anti").selectExpr(
        *LIFE,
        "conf_id",
        "concat(name, ' installs ', conf_id, ', to which p', member, ' never agreed') as text",
    )
    return asked, silent.join(maybe, keys, "left_semi"), disagreed


def same_change(history: "History") -> Finding:
    """TM4: who installs C2 directly after C1 is told the same about C2 as others who do."""
    told = Window.partitionBy("run_id", "before", "conf_id").orderBy(
        "node", "incarnation", "conf_no"
    )
    spans = (
        named(history, history.spans)
        .withColumn("before", F.coalesce("before_id", F.lit("0.0")))
        .withColumn("kind", F.expr("if(is_transitional, 'transitional', 'regular')"))
        .withColumn("first", F.first(F.struct("kind", "members", "name")).over(told))
        .withColumn("place", F.row_number().over(told))
        .where("place > 1")
    )
    text = (
        "concat('after ', before, ', ', conf_id, ' is ', first.kind, ' ', {first.members}, ' to ',"
        " first.name, ' and ', kind, ' ', {members}, ' to ', name)"
    )
    unequal = "kind <> first.kind or members <> first.members"
    return Finding(summed(counted(spans, "1")), _complaints(spans, [(unequal, text)]))
