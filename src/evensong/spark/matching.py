"""Rows looked at again where digests differ: what was delivered against what was sent.

The longest com(c) is held against the sends of c chunk by chunk. Where a chunk differs, its rows
tell why: a unit that was sent and not delivered is nothing unusual; one that was delivered and not
sent so is a *stray*, and puts every configuration in doubt that it has to do with; one whose
sender's recording is missing is *open*, and counted as unknown.
"""

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark import digests
from evensong.spark.absent import SPOKEN
from evensong.spark.digests import OF_DELIVERY, OF_SEND, SHIFT
from evensong.spark.history import LIFE, kept
from evensong.spark.segmented import COM, Segment, merged, not_in, segments_table, spans_in
from evensong.spark.soundness import Evidence

if TYPE_CHECKING:
    from evensong.spark.history import History

UNIT: Final = ("sender", "sender_inc", "origin_no")


class Matching:
    """Deliveries and sends of the configurations that digests leave open."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence: Final = evidence
        self.history: Final = evidence.history
        self.first: Final = merged(evidence.doubts)

    @cached_property
    def sends(self) -> DataFrame:
        """Every send as a unit, with the configuration that it names."""
        where = self.evidence.spans.select(*LIFE, "conf_no", "rank")
        return (
            self.history.sends.withColumn("row", F.expr(f"xxhash64({OF_SEND})"))
            .join(F.broadcast(where), [*LIFE, "conf_no"])
            .select(
                *COM, F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
                "origin_no", "ring_seq", "ring_rep", "seq", "row",
            )
        )  # fmt: skip

    # Sound so far: the longest com(c) against the sends, and the last chunks against it

    @cached_property
    def unmatched_chunks(self) -> DataFrame:
        """Chunks in which the longest com(c) is not exactly what was sent."""
        evidence = self.evidence
        sent = (
            digests.send_chunks_of(self.history)
            .join(F.broadcast(evidence.ranks), ["run_id"])
            .where("ring_seq = regular_seq and ring_rep = regular_rep")
            .select(*COM, "chunk", F.struct(*digests.SUMS).alias("sent"))
        )
        delivered = evidence.references.select(
            *COM, "chunk", F.struct(*digests.SUMS).alias("delivered")
        )
        differing = delivered.join(sent, [*COM, "chunk"], "full").where(
            "sent is null or delivered is null or sent <> delivered"
        )
        return kept(self._not_in_doubt(differing).select(*COM, "chunk"))

    def _not_in_doubt(self, rows: DataFrame) -> DataFrame:
        """Leave out what will be judged row by row anyway."""
        return not_in(self.history.spark, self.first, rows)

    @cached_property
    def picked(self) -> DataFrame:
        """Rows of those chunks at the longest com(c), and of last chunks that differ from it."""
        evidence = self.evidence
        reference = evidence.coms.where("is_reference").select(*LIFE, "rank")
        wanted = self.unmatched_chunks.join(reference, list(COM)).select(*LIFE, "rank", "chunk")
        differing = self._not_in_doubt(evidence.differing)
        theirs = differing.select(*LIFE, "rank", "chunk")
        due = differing.select(
            "run_id", F.col("due_node").alias("node"),
            F.col("due_incarnation").alias("incarnation"), "rank", "chunk",
        )  # fmt: skip
        picks = kept(
            wanted.union(theirs).union(due).distinct()
            .join(evidence.spans.select(*LIFE, "conf_no", "rank"), [*LIFE, "rank"])
            .join(reference.withColumn("is_reference", F.lit(True)), [*LIFE, "rank"], "left")
            .fillna(False, ["is_reference"])
        )  # fmt: skip
        if picks.isEmpty():
            return picks.selectExpr(
                "run_id", "rank", "is_reference", "node", "incarnation", "rank as sender",
                "rank as sender_inc", "rank as origin_no", "rank as seq", "rank as row",
            )  # fmt: skip
        return (
            self.history.deliveries.withColumn("chunk", F.expr(f"seq >> {SHIFT}"))
            .join(F.broadcast(picks), [*LIFE, "conf_no", "chunk"])
            .select(
                *COM, "is_reference", "node", "incarnation", *UNIT, "seq",
                F.expr(f"xxhash64({OF_DELIVERY})").alias("row"),
            )
            .localCheckpoint()
        )  # fmt: skip

    @cached_property
    def unmatched(self) -> DataFrame:
        """Units of the longest com(c) that were not sent so, with what is known of the sender."""
        sent = self._sends_in(self.unmatched_chunks)
        rows = self.picked.where("is_reference").join(
            F.broadcast(self.unmatched_chunks),
            F.expr(f"seq >> {SHIFT} = chunk")
            .__and__(self.picked["run_id"] == self.unmatched_chunks["run_id"])
            .__and__(self.picked["rank"] == self.unmatched_chunks["rank"]),
            "left_semi",
        )
        alone = rows.join(sent.select(*COM, *UNIT, "row"), [*COM, *UNIT, "row"], "left_anti")
        return self._with_sender(alone).localCheckpoint()

    def _sends_in(self, chunks: DataFrame) -> DataFrame:

        return self.sends.withColumn("chunk", F.expr(f"seq >> {SHIFT}")).join(
            F.broadcast(chunks), [*COM, "chunk"], "left_semi"
        )

    def _with_sender(self, rows: DataFrame) -> DataFrame:
        """Add whether the sender's recording is there, and may lack the send of a unit."""
        last = self.evidence.sent.groupBy(*LIFE).agg(F.max("origin_max").alias("origin_max"))
        senders = (
            self.history.lives.select(*LIFE, "is_cut")
            .join(last, list(LIFE), "left")
            .select(
                "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
                "is_cut", F.coalesce("origin_max", F.lit(0)).alias("origin_max"),
            )
        )  # fmt: skip
        return (
            rows.join(F.broadcast(senders), ["run_id", "sender", "sender_inc"], "left")
            .withColumn("is_unknown", F.col("is_cut").isNull())
            .withColumn("is_open", F.expr("is_unknown or (is_cut and origin_no > origin_max)"))
        )

    # Doubts that rows raise

    @cached_property
    def doubtful(self) -> list[Segment]:
        """The stretches of configurations that rows or digests put in doubt."""
        found = list(self.first)
        if not self.unmatched_chunks.isEmpty():
            found += self._rows_of(self._strays(self.unmatched.where("not is_open")))
            found += self._rows_of(self._open_out_of_order())
            found += self._rows_of(self._keys_sent_twice())
        if not self.evidence.differing.isEmpty():
            found += self._rows_of(self._no_beginnings())
        found = merged(found)
        bounded = [segment for segment in found if segment.lo is not None]
        if bounded:
            found += self._rows_of(self._strays_in(bounded))
        return merged(found)

    def _rows_of(self, doubts: DataFrame) -> list[Segment]:
        rows = doubts.select("run_id", "lo", "hi").distinct().collect()
        return [Segment(row["run_id"], row["lo"], row["hi"]) for row in rows]

    def _no_beginnings(self) -> DataFrame:
        """Last chunks that are no beginning of what the longest com(c) has there."""
        due = self.picked.where("is_reference").select(*COM, "row").distinct()
        apart = self.picked.where("not is_reference").join(due, [*COM, "row"], "left_anti")
        return apart.select("run_id", F.col("rank").alias("lo"), F.col("rank").alias("hi"))

    def _keys_sent_twice(self) -> DataFrame:
        """Configurations in which two sends have one number."""
        sent = self._sends_in(self.unmatched_chunks)
        twice = sent.groupBy(*COM, "seq").count().where("count > 1")
        return twice.select("run_id", F.col("rank").alias("lo"), F.col("rank").alias("hi"))

    def _open_out_of_order(self) -> DataFrame:
        """Senders without a recording whose units do not come in order, or under two numbers."""
        spoken = self.unmatched.where("is_open").select(
            "run_id", "sender", "sender_inc", "origin_no", "rank", "seq"
        )
        sent = self.sends.join(
            F.broadcast(spoken.select("run_id", "sender", "sender_inc").distinct()),
            ["run_id", "sender", "sender_inc"],
            "left_semi",
        ).select(*spoken.columns)
        in_order = Window.partitionBy("run_id", "sender", "sender_inc").orderBy("rank", "seq")
        return (
            spoken.union(sent)
            .withColumn("before", F.lag("origin_no").over(in_order))
            .groupBy("run_id", "sender", "sender_inc")
            .agg(
                F.min("rank").alias("lo"),
                F.max("rank").alias("hi"),
                F.count_if(F.expr("before >= origin_no")).alias("n_bad"),
            )
            .where("n_bad > 0")
        )

    def _strays(self, strays: DataFrame) -> DataFrame:
        """Stretch doubts over everything a stray unit has to do with.

        That is where it was delivered and where it was sent; if it was not sent at all, where its
        alleged sender sent anything.
        """
        strays = strays.select("run_id", *UNIT, "rank").distinct().localCheckpoint()
        sent = self.sends.join(
            F.broadcast(strays.select("run_id", *UNIT).distinct()), ["run_id", *UNIT], "left_semi"
        ).select("run_id", *UNIT, "rank")
        unsent = strays.join(sent, ["run_id", *UNIT], "left_anti")
        last = self.evidence.sent.select(
            "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc"),
            F.col("rank").alias("sent_rank"),
        )  # fmt: skip
        alleged = unsent.join(last, ["run_id", "sender", "sender_inc"]).select(
            "run_id", *UNIT, F.col("sent_rank").alias("rank")
        )
        return (
            strays.union(sent).union(alleged)
            .groupBy("run_id", *UNIT)
            .agg(F.min("rank").alias("lo"), F.max("rank").alias("hi"))
        )  # fmt: skip

    def _strays_in(self, segments: list[Segment]) -> DataFrame:
        """Strays among all rows of segments, which may lead out of them."""
        inside = spans_in(self.history.spark, segments, self.evidence.spans).select(
            *LIFE, "conf_no", "rank"
        )
        rows = (
            self.history.deliveries.join(F.broadcast(inside), [*LIFE, "conf_no"])
            .select(*COM, *UNIT)
            .distinct()
        )
        ranks = F.broadcast(inside.select(*COM).distinct())
        sent = self.sends.join(ranks, list(COM), "left_semi").select(*COM, *UNIT)
        return self._strays(rows.join(sent, [*COM, *UNIT], "left_anti"))

    @cached_property
    def open_units(self) -> DataFrame:
        """Units of sound configurations whose send may be in a recording that is not there."""
        return self.unmatched.where("is_open").select(*COM, *UNIT, "seq", "is_unknown")

    @cached_property
    def strangers(self) -> DataFrame | None:
        """Which senders without any trace were heard, by whom and in which configuration."""
        history, evidence = self.history, self.evidence
        heard = []
        if not self.unmatched_chunks.isEmpty():
            where = (
                evidence.coms.where("is_reference")
                .select(*LIFE, "rank")
                .join(evidence.spans.where("not is_transitional"), [*LIFE, "rank"])
                .select(*LIFE, "rank", "conf_no")
            )
            unknown = self.open_units.where("is_unknown").select(*COM, "sender", "sender_inc")
            heard.append(unknown.distinct().join(where, list(COM)).select(*SPOKEN))
        if self.doubtful:
            spans = spans_in(history.spark, self.doubtful, evidence.spans)
            inside = spans.where("not is_whole").select(*LIFE, "conf_no")
            table = segments_table(history.spark, self.doubtful).where("lo is null")
            known = history.lives.select(
                "run_id", F.col("node").alias("sender"), F.col("incarnation").alias("sender_inc")
            )
            rows = history.deliveries.select(*SPOKEN)
            for some in (
                rows.join(F.broadcast(inside), [*LIFE, "conf_no"]).select(*SPOKEN),
                rows.join(F.broadcast(table.select("run_id")), "run_id").select(*SPOKEN),
            ):
                among = F.broadcast(known)
                heard.append(some.join(among, ["run_id", "sender", "sender_inc"], "left_anti"))
        if not heard:
            return None
        return reduce(_union, [one.select(*SPOKEN) for one in heard])


def segments_of(history: "History") -> list[Segment]:
    """Return what must be judged row by row, once it is known who must have been.

    A unit of a sender that never lived is an error, wherever it was delivered.
    """
    matching = history.matching
    found = list(matching.doubtful)
    if not matching.unmatched_chunks.isEmpty():
        absent = {(life.run_id, life.node, life.incarnation) for life in history.absent}
        unknown = matching.open_units.where("is_unknown")
        heard = unknown.select("run_id", "sender", "sender_inc", "rank").distinct().collect()
        found += [
            Segment(row["run_id"], row["rank"], row["rank"])
            for row in heard
            if (row["run_id"], row["sender"], row["sender_inc"]) not in absent
        ]
    return merged(found)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)
