"""Which views of a broadcast domain are proved sound, and which need a look at their rows.

A view c is sound if every delivery in com(c) is of a unit sent in c, with its content, once at each
life; if what the votes ordered has one place at all who have it and each place one unit; if who
goes on together has the same set and the same sequence; if causes come first; and if who owes
something has it. Then nothing in c breaks any of the properties about messages. Two need a reason:

- No cycle of events (EVS1.1). Views rise at every node and a unit stays in its view, so a cycle
  lies within one view. If none of its units is BASIC, causal order (LC1) puts each of them before
  the next at whoever delivers that, so somebody delivers its own unit before it sends it; that is
  looked for. With BASIC units in a view, times must prove it: they rise along every life and from
  each send to all its deliveries elsewhere, whatever clocks they are of, or rows are looked at.
- All order alike (LA1). Places are counted at each life; if a unit has one place everywhere and a
  place has one unit, every order is a beginning of the longest.

Whatever does not add up is judged row by row (`evensong.spark.rows`), as the check in memory does.
"""

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.absent import SPOKEN
from evensong.spark.causes import views_with_late_causes
from evensong.spark.history import IS_ORDERED, LIFE, kept
from evensong.spark.segmented import COM, Segment, merged, odd_structure, only, whole
from evensong.spark.walk import (
    BASIC,
    IS_CAUSAL,
    IS_OWN,
    IS_VOTED,
    SAFE,
    UNIT,
    totals_of,
    walk_of,
)

if TYPE_CHECKING:
    from evensong.spark.history import History

SET: Final = ("set_n", "set_low", "set_high", "set_other")  # digests of what a span delivered,
SEQUENCE: Final = ("seq_n", "seq_low", "seq_high", "seq_other")  # and of its order
WHO: Final = "struct(node, incarnation)"
OF_SENDER: Final = ("ended", "life_ended", "stays", "following", "submitted")
GOES_ON: Final = "(ended is null or ended = 'quiesce')"


class Domain:
    """What was sent and delivered in the views of a history, and the doubts that it leaves."""

    def __init__(self, history: "History") -> None:
        self.history: Final = history

    @cached_property
    def totals(self) -> DataFrame:
        """How much each life delivered."""
        return kept(totals_of(self.history))

    @cached_property
    def walk(self) -> DataFrame:
        """Every send and delivery, in the order of its life."""
        return walk_of(self.history, self.totals).localCheckpoint()

    @cached_property
    def spans(self) -> DataFrame:
        """Spans with the digests of what was delivered in them."""
        told = (
            self.walk.where("not is_send")
            .groupBy(*LIFE, "conf_no")
            .agg(
                F.count("*").alias("n"),
                F.min("pos").alias("pos_min"),
                F.max("pos").alias("pos_max"),
                F.min("t_us").alias("t_min"),
                F.max("t_us").alias("t_max"),
                F.count_if("is_told_late").alias("n_late"),
                *_digest(SET, IS_CAUSAL, ", ".join(UNIT)),
                *_digest(SEQUENCE, IS_ORDERED, ", ".join(("turn", *UNIT))),
            )
        )
        spans = self.history.spans.join(F.broadcast(self.totals), list(LIFE), "left").withColumn(
            "stop", F.expr("coalesce(stop, n_deliveries, 0)")
        )
        joined = spans.join(told, [*LIFE, "conf_no"], "left").fillna(0, ["n", *SET, *SEQUENCE])
        return kept(
            joined.withColumn(
                "is_placed",
                F.expr("n = stop - start and (n = 0 or (pos_min >= start and pos_max < stop))"),
            )
        )

    @cached_property
    def coms(self) -> DataFrame:
        """com(c) at every life; `following` is where it went from c itself, `ended` how it ended.

        `ended` is null if the life went on from com(c), `life_ended` never is.
        """
        ended = self.history.lives.select(*LIFE, F.col("ended").alias("life_ended"))
        return kept(
            self.spans.groupBy(*LIFE, "rank", "regular_id")
            .agg(
                F.sum("n").alias("n"),
                F.max("is_last").alias("is_last"),
                F.max(F.expr("if(is_transitional, null, is_last)")).alias("stays"),
                F.max(F.expr("not is_transitional")).alias("has_regular"),
                F.max(F.expr("if(is_transitional, null, next_id)")).alias("following"),
            )
            .join(F.broadcast(ended), list(LIFE))
            .withColumn("ended", F.expr("if(is_last, life_ended, null)"))
        )

    @cached_property
    def units(self) -> DataFrame:
        """Every unit of a view: how it was sent, and who delivered it `at` which position."""
        told, own = "not is_send", f"not is_send and {IS_OWN}"
        return (
            self.walk.groupBy(*COM, *UNIT)
            .agg(
                F.count_if("is_send").alias("n_sends"),
                F.max(F.expr("if(is_send, pos, null)")).alias("sent_pos"),
                F.max(F.expr("if(is_send, t_us, null)")).alias("sent_us"),
                F.min("service").alias("service"),
                F.min("content").alias("content"),
                F.max("content").alias("other_content"),
                F.collect_list(F.expr(f"if({told}, struct(node, incarnation, pos), null)")).alias(
                    "at"
                ),
                F.collect_set(F.expr(f"if({told}, {WHO}, null)")).alias("who"),
                F.min(F.expr(f"if({own}, pos, null)")).alias("own_pos"),
                F.min(F.expr(f"if({told} and not {IS_OWN}, t_us, null)")).alias("other_us"),
                F.count_if(F.expr(IS_VOTED)).alias("n_voted"),
                F.min(F.expr(f"if({IS_VOTED}, place, null)")).alias("place"),
                F.max(F.expr(f"if({IS_VOTED}, place, null)")).alias("other_place"),
                F.max(
                    F.expr(f"{told} and service = {SAFE} and not coalesce(is_transitional, true)")
                ).alias("is_safe"),
            )
            .localCheckpoint()
        )

    @cached_property
    def placed(self) -> DataFrame:
        """Every send with the one before it, by number, and what is wrong with it.

        `is_off`: its place cannot be told. `is_bad`: it breaks the order of sending.
        """
        in_order = Window.partitionBy(*LIFE).orderBy("origin_no", "pos")
        about = F.struct("origin_no", "rank", "pos", "t_us")
        return (
            self.walk.where("is_send")
            .withColumn("before", F.lag(about).over(in_order))
            .withColumn("is_off", F.expr("rank is null or pos < start or pos > stop"))
            .withColumn("is_backwards", F.expr("pos < before.pos or t_us < before.t_us"))
            .withColumn(
                "is_bad",
                F.expr(
                    "is_transitional or sent_seq <> regular_seq or sent_rep <> regular_rep"
                    " or (before is not null and (before.origin_no >= origin_no"
                    "     or before.rank > rank or before.pos > pos))"
                ),
            )
        )

    @cached_property
    def sent(self) -> DataFrame:
        """What was sent, per life and view; `n_missing` of it its life did not deliver there."""
        missing = (
            self.units.where("n_sends > 0 and own_pos is null")
            .groupBy(*COM, F.col("sender").alias("node"), F.col("sender_inc").alias("incarnation"))
            .agg(F.count("*").alias("n_missing"))
        )
        return kept(
            self.placed.groupBy(*LIFE, "rank")
            .agg(
                F.count("*").alias("n_sends"),
                F.count_if(F.expr("coalesce(is_off, true)")).alias("n_off"),
                F.count_if(F.expr("coalesce(is_bad, true)")).alias("n_bad"),
                F.min(F.expr("if(is_bad, before.rank, null)")).alias("bad_min"),
                F.max(F.expr("if(is_bad, before.rank, null)")).alias("bad_max"),
                F.count_if("is_backwards").alias("n_backwards"),
                F.max("origin_no").alias("origin_max"),
            )
            .join(missing, [*LIFE, "rank"], "left")
            .fillna(0, ["n_missing"])
        )

    @cached_property
    def late_lives(self) -> DataFrame:
        """Lives whose deliveries go back in time."""
        along = Window.partitionBy(*LIFE).orderBy("conf_no")
        along = along.rowsBetween(Window.unboundedPreceding, -1)
        late = self.spans.where("n > 0").withColumn("latest", F.max("t_max").over(along))
        return late.where("n_late > 0 or t_min < latest").select(*LIFE).distinct()

    # Who lacks what

    @cached_property
    def lacking(self) -> DataFrame:
        """Which life in a view did not deliver which unit that was sent or safe in it."""
        lives = (
            self.coms.where("has_regular")
            .groupBy(*COM)
            .agg(F.collect_set(F.expr(WHO)).alias("lives"))
        )
        return (
            self.units.where("n_sends > 0 or is_safe")
            .join(F.broadcast(lives), list(COM))
            .select(
                *COM, *UNIT, F.expr("n_sends > 0").alias("is_sent"), "is_safe",
                F.explode(F.array_except("lives", "who")).alias("life"),
            )
            .select(*COM, *UNIT, "is_sent", "is_safe", "life.node", "life.incarnation")
            .join(self.coms.drop("n", "regular_id"), [*LIFE, "rank"])
            .localCheckpoint()
        )  # fmt: skip

    @cached_property
    def senders(self) -> DataFrame:
        """com(c) by its life as a sender, with columns that begin with `s_`."""
        submitted = self.history.lives.select(*LIFE, "submitted")
        return self.coms.join(F.broadcast(submitted), list(LIFE)).select(
            *COM, F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
            *(F.col(name).alias(f"s_{name}") for name in OF_SENDER),
        )  # fmt: skip

    @cached_property
    def final(self) -> DataFrame:
        """Views in which all members were when the run ended or was cut off; `is_open` if cut."""
        members = self.spans.where("not is_transitional").select(*COM, "members").distinct()
        return kept(
            self.coms.where("stays and ended in ('quiesce', '')")
            .groupBy(*COM)
            .agg(
                F.array_sort(F.collect_set("node")).alias("nodes"),
                F.max(F.expr("ended = ''")).alias("is_open"),
            )
            .join(members, list(COM))
            .where("nodes = members")
            .select(*COM, "is_open")
        )

    def unseen_by(self, stayed: DataFrame) -> DataFrame:
        """Count what was sent in an open final view, and is not delivered by who stays in it."""
        return _counts(
            self._lacking_at_the_end()
            .where("is_open")
            .join(stayed.select(*COM).distinct(), list(COM), "left_semi")
        )

    def _lacking_at_the_end(self) -> DataFrame:
        staying = "stays and ended in ('quiesce', '')"
        return (
            self.lacking.where(f"is_sent and {staying}")
            .join(F.broadcast(self.final), list(COM))
            .join(F.broadcast(self.senders), [*COM, "sender", "sender_inc"])
            .where("s_stays and s_ended in ('quiesce', '')")
        )

    @cached_property
    def safe_units(self) -> DataFrame:
        """How many units were safe in each view, and its members."""
        members = self.spans.where("not is_transitional").select(*COM, "members").distinct()
        safe = self.units.where("is_safe").groupBy(*COM).agg(F.count("*").alias("n_safe"))
        return kept(safe.join(members, list(COM)))

    # Doubts

    def _open(self) -> DataFrame:
        """Units that nobody is known to have sent in the view, with what is known of the sender.

        `is_unknown`: its sender has no trace; `is_open`: its send may be in what is missing.
        """
        last = self.sent.groupBy(*LIFE).agg(F.max("origin_max").alias("origin_max"))
        senders = (
            self.history.lives.select(*LIFE, "is_cut")
            .join(last, list(LIFE), "left")
            .select(
                "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
                "is_cut", F.coalesce("origin_max", F.lit(0)).alias("origin_max"),
            )
        )  # fmt: skip
        return (
            self.units.where("n_sends = 0")
            .join(F.broadcast(senders), ["run_id", "sender", "sender_inc"], "left")
            .withColumn("is_unknown", F.col("is_cut").isNull())
            .withColumn("is_open", F.expr("is_unknown or (is_cut and origin_no > origin_max)"))
        )

    @cached_property
    def unsent(self) -> DataFrame:
        """The same, kept."""
        return (
            self._open()
            .select(*COM, *UNIT, "is_unknown", "is_open", F.size("at").alias("n_told"))
            .localCheckpoint()
        )

    @cached_property
    def open_deliveries(self) -> DataFrame:
        """Deliveries in sound views whose send may be in a recording that is not there."""
        found = self.history.sound(self.unsent.where("is_open"))
        return found.groupBy("run_id").agg(F.sum("n_told").alias("n"))

    @cached_property
    def strangers(self) -> DataFrame | None:
        """Which senders without any trace were heard, by whom and in which configuration."""
        unknown = self.unsent.where("is_unknown").select("run_id", "sender", "sender_inc")
        unknown = kept(unknown.distinct())
        if unknown.isEmpty():
            return None
        told = self.walk.where("not is_send").select(*SPOKEN)
        return told.join(F.broadcast(unknown), ["run_id", "sender", "sender_inc"]).select(*SPOKEN)

    def segments(self) -> list[Segment]:
        """Return the stretches of views that are judged row by row.

        A unit of a sender that never lived is an error, wherever it was delivered.
        """
        found = [
            odd_structure(self.history.spans),
            self._odd_places(),
            self._bad_sends(),
            self._bad_units(),
            self._strays(),
            self._unequal_spans(),
            self._shared_places(),
            self._owed(),
            only(views_with_late_causes(self.history, self.walk, self.units)),
            self._unproved_order(),
        ]
        rows = reduce(_union, found).distinct().collect()
        segments = [Segment(row["run_id"], row["lo"], row["hi"]) for row in rows]
        absent = {(life.run_id, life.node, life.incarnation) for life in self.history.absent}
        heard = self.unsent.where("is_unknown").select(*COM, "sender", "sender_inc").distinct()
        segments += [
            Segment(row["run_id"], row["rank"], row["rank"])
            for row in heard.collect()
            if (row["run_id"], row["sender"], row["sender_inc"]) not in absent
        ]
        return merged(segments)

    def _odd_places(self) -> DataFrame:
        """Runs with rows outside the configuration that they name."""
        homeless = self.walk.where("rank is null or is_double")
        off = self.sent.where("n_off > 0")
        return whole(self.spans.where("not is_placed")).union(whole(homeless)).union(whole(off))

    def _bad_sends(self) -> DataFrame:
        """Views with a send that breaks the order of sending."""
        bad = self.sent.where("n_bad > 0 and rank is not null")
        return bad.select(
            "run_id",
            F.least("rank", "bad_min").alias("lo"),
            F.greatest("rank", "bad_max").alias("hi"),
        )

    def _bad_units(self) -> DataFrame:
        """Views with a unit that has two contents or two sends, or comes twice or too early."""
        return only(
            self.units.where(
                "content <> other_content or n_sends > 1 or size(at) > size(who)"
                " or place <> other_place or own_pos < sent_pos"
            )
        )

    def _strays(self) -> DataFrame:
        """Units that were not sent where they came, with all views that they have to do with.

        Those are where it was delivered and where it was sent; if it was not sent at all, where
        its alleged sender sent anything. One that may have been sent has to be in one view only.
        """
        unit = ["run_id", *UNIT]
        strays = self.unsent.where("not is_open").select(*unit, "rank").distinct()
        sent = self.units.where("n_sends > 0").select(*unit, "rank")
        there = sent.join(strays.select(*unit).distinct(), unit, "left_semi")
        unsent = strays.join(there.select(*unit), unit, "left_anti")
        where = self.sent.select(
            "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
            F.col("rank").alias("sent_rank"),
        )  # fmt: skip
        alleged = unsent.join(where, ["run_id", "sender", "sender_inc"]).select(
            *unit, F.col("sent_rank").alias("rank")
        )
        several = self.unsent.where("is_open").select(*unit, "rank")
        twice = several.groupBy(*unit).count().where("count > 1").select(*unit)
        found = strays.union(there).union(alleged).union(several.join(twice, unit, "left_semi"))
        stretched = found.groupBy(*unit).agg(F.min("rank").alias("lo"), F.max("rank").alias("hi"))
        return stretched.select("run_id", "lo", "hi")

    def _unequal_spans(self) -> DataFrame:
        """LV1, LV2: views that lives left together with different sets or sequences."""
        digest = F.struct(*SET, *SEQUENCE)
        return only(
            self.spans.where("next_id is not null")
            .groupBy(*COM, "conf_id", "next_id")
            .agg(F.min(digest).alias("one"), F.max(digest).alias("other"))
            .where("one <> other")
        )

    def _shared_places(self) -> DataFrame:
        """LA1: views in which two units have one place."""
        voted = self.units.where("n_voted > 0")
        return only(voted.groupBy(*COM, "place").count().where("count > 1"))

    def _owed(self) -> DataFrame:
        """EVS3, TR3, LV-1, LB1, LS1: views in which somebody lacks what it owes."""
        own = self.lacking.where(f"is_sent and {IS_OWN} and {GOES_ON}")
        late = self._lacking_at_the_end().where("not is_open")
        pairs = self.lacking.where("is_sent").join(
            F.broadcast(self.senders), [*COM, "sender", "sender_inc"]
        )
        together = pairs.where(
            f"following <=> s_following and {GOES_ON}"
            " and (s_following is not null or s_ended = 'quiesce')"
        )
        submitted = pairs.where(
            "s_stays and s_life_ended = 'quiesce' and s_submitted > 0 and life_ended = 'quiesce'"
        )
        unsafe = self.lacking.where(f"is_safe and {GOES_ON}")
        installed = self.coms.where("has_regular").select(*COM, "node")
        never = self.safe_units.select(*COM, F.explode("members").alias("node")).join(
            installed, [*COM, "node"], "left_anti"
        )
        found = [one.select(*COM) for one in (own, late, together, submitted, unsafe, never)]
        return only(reduce(_union, found).distinct())

    def _unproved_order(self) -> DataFrame:
        """EVS1.1: views with BASIC messages in which times prove nothing."""
        basic = self.units.where(f"service = {BASIC} and other_us is not null")
        back = self.units.where("other_us <= sent_us").select(*COM)
        late = self.walk.where("is_late").select(*COM)
        return only(basic.select(*COM).distinct().join(back.union(late), list(COM), "left_semi"))


def _digest(names: tuple[str, ...], condition: str, content: str) -> list[Column]:
    """Return the aggregates that make a digest of rows of which something is true."""
    return [
        F.count_if(F.expr(condition)).alias(names[0]),
        F.expr(f"sum(if({condition}, xxhash64({content}) & 4294967295L, 0L))").alias(names[1]),
        F.expr(f"sum(if({condition}, shiftrightunsigned(xxhash64({content}), 32), 0L))").alias(
            names[2]
        ),
        F.expr(f"sum(if({condition}, cast(hash({content}) as bigint), 0L))").alias(names[3]),
    ]


def _counts(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy("run_id").agg(F.count("*").alias("n_unknown"))
    return counted.selectExpr("run_id", "0L as n_checked", "n_unknown")


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)
