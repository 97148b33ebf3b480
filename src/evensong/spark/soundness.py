"""Which configurations the digests prove sound, and which need a look at their rows.

In a sound configuration c every com(c) is a beginning of the longest one, numbers run in step with
positions, what was delivered is what was sent, under the same number and with the same content, and
what had to be delivered was. Then nothing in c breaks any property about deliveries and sends:

- numbers give a rising number to every event (a send takes that of the last delivery before it), so
  there is no cycle (EVS1.1, EVS6.1, TG), and installations of one configuration lie at one number
  (EVS2.3), since those who go on together have delivered the same;
- a unit is in one configuration only, under one number, once at each life (EVS1.3, EVS1.4, EVS6.2,
  TR2); beginnings of one order have no holes (EVS6.3); who sends in order is heard in order (EVS5,
  FIFO);
- who owes a unit has it (EVS3, EVS4, EVS7.1, TF3, TR3, LV-1).

And since configurations rise at every node, no cycle leads out of one. So whatever is wrong is
wrong inside a *segment*, a stretch of configurations in which something does not add up; its rows
are judged one by one (`evensong.spark.rows`).
"""

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark import digests
from evensong.spark.history import LIFE, kept
from evensong.spark.segmented import COM, Segment, odd_structure, only, whole
from evensong.spark.sendings import placed_sends, sends_by_com

if TYPE_CHECKING:
    from evensong.spark.history import History


class Evidence:
    """The digests of a history, and the doubts they leave."""

    def __init__(self, history: "History") -> None:
        self.history: Final = history

    @cached_property
    def chunks(self) -> DataFrame:
        """The digest of every chunk."""
        return digests.chunks_of(self.history).localCheckpoint()

    @cached_property
    def totals(self) -> DataFrame:
        """How much each life delivered."""
        return kept(digests.totals_of(self.chunks))

    @cached_property
    def spans(self) -> DataFrame:
        """Spans with the digest of what was delivered in them."""
        return kept(digests.spans_of(self.history, self.chunks, self.totals))

    @cached_property
    def com_chunks(self) -> DataFrame:
        """The digests of com(c) by chunk."""
        return digests.com_chunks_of(self.spans, self.chunks).localCheckpoint()

    @cached_property
    def coms(self) -> DataFrame:
        """com(c) at every life."""
        found = digests.coms_of(self.spans, self.com_chunks, self.history.lives)
        return kept(found)

    @cached_property
    def ranks(self) -> DataFrame:
        """The regular configurations of each run by their rank."""
        return self.spans.select(*COM, "regular_id", "regular_seq", "regular_rep").distinct()

    @cached_property
    def placed(self) -> DataFrame:
        """Every send with its configuration."""
        return placed_sends(self.history, self.spans, self.coms)

    @cached_property
    def sent(self) -> DataFrame:
        """What was sent, per life and configuration."""
        return kept(sends_by_com(self.placed))

    @cached_property
    def late_lives(self) -> DataFrame:
        """Lives whose deliveries go back in time, as far as chunks tell."""
        along = Window.partitionBy(*LIFE).orderBy("pos_min")
        late = self.chunks.withColumn("latest", F.lag("t_max").over(along))
        return late.where("t_min < latest").select(*LIFE).distinct()

    # Doubts: (run_id, lo, hi), null for the whole run

    @cached_property
    def doubts(self) -> list[Segment]:
        """Return what does not add up, before any row has been looked at again."""
        found = [
            odd_structure(self.history.spans),
            self._odd_places(),
            self._own_doubts(),
            self._unequal_sets(),
            self._unequal_chunks().select("run_id", "lo", "hi"),
            self._unsafe(),
            self._bad_sends(),
            self._owed(),
        ]
        rows = reduce(_union, found).distinct().collect()
        return [Segment(row["run_id"], row["lo"], row["hi"]) for row in rows]

    def _odd_places(self) -> DataFrame:
        """Runs with rows outside the configuration that they name."""
        spans = self.spans.select(*LIFE, "conf_no")
        homeless = self.chunks.join(F.broadcast(spans), [*LIFE, "conf_no"], "left_anti")
        return (
            whole(self.spans.where("not is_placed"))
            .union(whole(homeless))
            .union(whole(self.sent.where("n_off > 0")))
        )

    def _own_doubts(self) -> DataFrame:
        """Configurations in which a life's own numbers do not run in step with its positions."""
        firsts = self.coms.groupBy(*COM).agg(
            F.min("skew").alias("one"), F.max("skew").alias("other")
        )
        doubtful = self.coms.where("n > 0 and not (is_dense and is_own_ring and skew = skew_max)")
        named = self._reaching(doubtful, "ring_seq_min", "ring_seq_max")
        return named.union(only(firsts.where("one <> other")))

    def _reaching(self, rows: DataFrame, least: str, most: str) -> DataFrame:
        """Stretch a doubt from its configuration to the rings that its rows name."""
        named = rows.select(*COM, F.col(least).alias("least"), F.col(most).alias("most"))
        ranks = self.ranks.select("run_id", F.col("rank").alias("other"), "regular_seq")
        return (
            named.join(ranks, "run_id")
            .where("other = rank or regular_seq between least and most")
            .groupBy("run_id", "rank")
            .agg(F.min("other").alias("lo"), F.max("other").alias("hi"))
            .select("run_id", "lo", "hi")
        )

    def _unequal_sets(self) -> DataFrame:
        """EVS4: configurations that lives left together with different sets delivered."""
        digest = F.struct(*digests.SUMS)
        return only(
            self.spans.where("next_id is not null")
            .groupBy(*COM, "conf_id", "next_id")
            .agg(F.min(digest).alias("one"), F.max(digest).alias("other"))
            .where("one <> other")
        )

    @cached_property
    def references(self) -> DataFrame:
        """The digests of the longest com(c), which the others are held against."""
        who = self.coms.where("is_reference").select(*LIFE, "rank")
        return self.com_chunks.join(F.broadcast(who), [*LIFE, "rank"])

    @cached_property
    def differing(self) -> DataFrame:
        """Chunks of com(c) that are not what the longest one has there."""
        reference = self.references.select(
            *COM, "chunk", F.struct(*digests.SUMS).alias("due"), F.col("node").alias("due_node"),
            F.col("incarnation").alias("due_incarnation"),
        )  # fmt: skip
        return (
            self.com_chunks.join(reference, [*COM, "chunk"], "left")
            .where("due is null or due <> struct(n, low, high, other)")
            .join(self.coms.select(*LIFE, "rank", "chunk_max"), [*LIFE, "rank"])
            .select(*LIFE, "rank", "chunk", "chunk_max", "due_node", "due_incarnation")
            .localCheckpoint()
        )

    def _unequal_chunks(self) -> DataFrame:
        """Orders that part in the middle; where they part in the last chunk, rows will tell."""
        apart = self.differing.where("chunk < chunk_max or due_node is null")
        return apart.select("run_id", F.col("rank").alias("lo"), F.col("rank").alias("hi"))

    @cached_property
    def _reached(self) -> DataFrame:
        """How far each node came in a configuration, and how it ended there."""
        return self.coms.groupBy(*COM, "node").agg(
            F.max("end_seq").alias("end_seq"),
            F.max(F.expr("coalesce(ended in ('fail', 'stop'), false)")).alias("is_excused"),
            F.max(F.expr("coalesce(ended in ('', 'lost'), false)")).alias("is_cut"),
        )

    @cached_property
    def lacking_safe(self) -> DataFrame:
        """EVS7.1: members that may lack a safe delivery of a configuration, without excuse.

        Of one that is cut the recording stops there; from `end_seq` on nothing is known of it.
        """
        safe = (
            self.spans.where("n_safe > 0")
            .groupBy(*COM, "conf_id", "members")
            .agg(F.max("safe_max").alias("safe_max"))
            .select(*COM, "conf_id", "safe_max", F.explode("members").alias("node"))
        )
        lacking = safe.join(self._reached, [*COM, "node"], "left").where(
            "not coalesce(is_excused, false) and not coalesce(safe_max < end_seq, false)"
        )
        return kept(lacking.select(*COM, "conf_id", "node", "end_seq", "is_cut"))

    @cached_property
    def told(self) -> DataFrame:
        """TF3: how far everybody in a configuration is said to have all, where that is anything."""
        line = self.spans.groupBy(*COM).agg(F.max("line").alias("line"))
        longest = self.coms.where("is_reference").select(*COM, "skew", "end_seq")
        members = self.spans.where("not is_transitional").select(*COM, "members").distinct()
        told = line.join(longest, list(COM)).where("line >= skew").join(members, list(COM))
        return kept(told.selectExpr(*COM, "members", "least(line + 1, end_seq) as owed_end"))

    @cached_property
    def lacking_told(self) -> DataFrame:
        """TF3: members that may lack what everybody is said to have, without excuse."""
        owed = self.told.select(*COM, "owed_end", F.explode("members").alias("node"))
        lacking = owed.join(self._reached, [*COM, "node"], "left").where(
            "not coalesce(is_excused, false) and not coalesce(owed_end <= end_seq, false)"
        )
        return kept(lacking.select(*COM, "node", "is_cut"))

    def _unsafe(self) -> DataFrame:
        """EVS7.1, TF3: configurations with something that some member seems to lack."""
        missing = "not coalesce(is_cut, false)"
        return only(self.lacking_safe.where(missing)).union(only(self.lacking_told.where(missing)))

    def _bad_sends(self) -> DataFrame:
        """Configurations with a send that breaks the order of sending."""
        bad = self.sent.where("n_bad > 0 and rank is not null")
        order = bad.select(
            "run_id",
            F.least("rank", "bad_min").alias("lo"),
            F.greatest("rank", "bad_max").alias("hi"),
        )
        # What comes before everything that anybody delivered may be what the rest depends on.
        first = self.coms.groupBy(*COM).agg(F.min("skew").alias("skew"))
        before_all = self.sent.join(first, list(COM)).where("seq_min < skew")
        named = self._reaching(bad, "bad_ring_min", "bad_ring_max")
        return order.union(named).union(only(before_all))

    def _owed(self) -> DataFrame:
        """EVS3, TR3, LV-1: configurations in which somebody may owe what was sent."""
        sent = self.sent.join(self.coms.select(*LIFE, "rank", "ended"), [*LIFE, "rank"])
        own = sent.where("n_missing > 0 and (ended is null or ended = 'quiesce')")
        # Who stays in a configuration to the end of the run owes what anybody sent in it.
        last = self.sent.groupBy(*COM).agg(F.max("seq_max").alias("seq_max"))
        final = self.coms.where("life_ended in ('quiesce', '') and is_last").select(*COM).distinct()
        alive = self.coms.where("life_ended = 'quiesce'").join(final, list(COM))
        late = alive.join(last, list(COM)).where("not coalesce(seq_max < end_seq, false)")
        return only(own).union(only(late))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)
