"""One scan of the deliveries to digests, and what the digests say of whole configurations.

A *chunk* is what a life delivered in one configuration under 1,024 consecutive numbers of its ring.
Its digest is the sum of hashes of (number, origin identity, content, service) and says which units
are in it, each under which number; beside it stand counts and the extremes of `pos` and of
`number - pos`. Where these two extremes are equal, numbers and positions run in step: then the
digest fixes the order of delivery as well. Numbers are the protocol's own, so they only decide what
is compared with what: a number that lies makes digests differ, and rows are looked at.

Sums are made of halves of 32 bits, which no number of rows can overflow.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.history import LIFE
from evensong.trace.schema import SERVICES

if TYPE_CHECKING:
    from evensong.spark.history import History

SHIFT: Final = 10
SAFE: Final = SERVICES.index("safe")
SUMS: Final = ("n", "low", "high", "other")  # a digest
_CONTENT: Final = (
    "ring_seq, ring_rep, seq, {sender}, {sender_inc}, origin_no, digest, size, service"
)
OF_DELIVERY: Final = _CONTENT.format(sender="sender", sender_inc="sender_inc")
OF_SEND: Final = _CONTENT.format(sender="node", sender_inc="incarnation")


def digest_columns(content: str) -> list[Column]:
    """Return the aggregates that make a digest of rows."""
    return [
        F.count("*").alias("n"),
        F.expr(f"sum(xxhash64({content}) & 4294967295L)").alias("low"),
        F.expr(f"sum(shiftrightunsigned(xxhash64({content}), 32))").alias("high"),
        F.expr(f"sum(cast(hash({content}) as bigint))").alias("other"),
    ]


def chunks_of(history: "History") -> DataFrame:
    """Return the digest of every chunk of every life: the one scan of all deliveries."""
    return (
        history.deliveries.groupBy(*LIFE, "conf_no", F.expr(f"seq >> {SHIFT}").alias("chunk"))
        .agg(
            *digest_columns(OF_DELIVERY),
            F.min("pos").alias("pos_min"),
            F.max("pos").alias("pos_max"),
            F.expr("min(seq - pos)").alias("step_min"),
            F.expr("max(seq - pos)").alias("step_max"),
            F.expr("sum(seq & 1023)").alias("places"),
            F.expr("sum((seq & 1023) * (seq & 1023))").alias("squares"),
            F.min("seq").alias("seq_min"),
            F.max("seq").alias("seq_max"),
            F.min("ring_seq").alias("ring_seq_min"),
            F.max("ring_seq").alias("ring_seq_max"),
            F.min("ring_rep").alias("ring_rep_min"),
            F.max("ring_rep").alias("ring_rep_max"),
            F.min("t_us").alias("t_min"),
            F.max("t_us").alias("t_max"),
            F.expr(f"count_if(service = {SAFE})").alias("n_safe"),
            F.expr(f"max(if(service = {SAFE}, seq, null))").alias("safe_max"),
            F.max("stable_seq").alias("line"),
        )
        .withColumn(
            "is_dense",
            # The numbers are the whole range from the least to the greatest, each once, in step
            # with the positions. Two sums of powers tell apart what could be instead.
            F.expr(
                "step_min = step_max and n = seq_max - seq_min + 1"
                " and 2 * places = n * ((seq_min & 1023) + (seq_max & 1023))"
                " and 6 * squares ="
                f" {_squares('seq_max & 1023')} - {_squares('(seq_min & 1023) - 1')}"
            ),
        )
    )


def _squares(last: str) -> str:
    """Return six times the sum of squares up to a number."""
    return f"({last}) * (({last}) + 1) * (2 * ({last}) + 1)"


def send_chunks_of(history: "History") -> DataFrame:
    """Return the digests of what was sent, by ring and chunk."""
    return history.sends.groupBy(
        "run_id", "ring_seq", "ring_rep", F.expr(f"seq >> {SHIFT}").alias("chunk")
    ).agg(*digest_columns(OF_SEND))


def totals_of(chunks: DataFrame) -> DataFrame:
    """Return per life how much it delivered, and where its positions begin and end."""
    return chunks.groupBy(*LIFE).agg(
        F.sum("n").alias("n_deliveries"),
        F.min("pos_min").alias("first"),
        F.max("pos_max").alias("last"),
    )


def spans_of(history: "History", chunks: DataFrame, totals: DataFrame) -> DataFrame:
    """Return the spans with what was delivered in each; `is_placed`: nothing of it lies outside."""
    delivered = chunks.groupBy(*LIFE, "conf_no").agg(
        *(F.sum(name).alias(name) for name in SUMS),
        F.min("pos_min").alias("pos_min"),
        F.max("pos_max").alias("pos_max"),
        F.sum("n_safe").alias("n_safe"),
        F.max("safe_max").alias("safe_max"),
        F.max("line").alias("line"),
    )
    spans = history.spans.join(F.broadcast(totals), list(LIFE), "left").withColumn(
        "stop", F.expr("coalesce(stop, n_deliveries, 0)")
    )
    joined = spans.join(delivered, [*LIFE, "conf_no"], "left")
    return joined.fillna(0, [*SUMS, "n_safe"]).withColumn(
        "is_placed",
        F.expr("n = stop - start and (n = 0 or (pos_min >= start and pos_max < stop))"),
    )


def com_chunks_of(spans: DataFrame, chunks: DataFrame) -> DataFrame:
    """Return the digests of com(c) by chunk: what lies in c and in its transitional, together."""
    where = spans.select(*LIFE, "conf_no", "rank", "regular_seq", "regular_rep", "com_start")
    return (
        chunks.join(F.broadcast(where), [*LIFE, "conf_no"])
        .groupBy(*LIFE, "rank", "chunk")
        .agg(
            *(F.sum(name).alias(name) for name in SUMS),
            F.min(F.expr("step_min + com_start")).alias("skew_min"),
            F.max(F.expr("step_max + com_start")).alias("skew_max"),
            F.every("is_dense").alias("is_dense"),
            F.every(
                F.expr(
                    "ring_seq_min = regular_seq and ring_seq_max = regular_seq"
                    " and ring_rep_min = regular_rep and ring_rep_max = regular_rep"
                )
            ).alias("is_own_ring"),
            F.min("ring_seq_min").alias("ring_seq_min"),
            F.max("ring_seq_max").alias("ring_seq_max"),
        )
    )


def coms_of(spans: DataFrame, com_chunks: DataFrame, lives: DataFrame) -> DataFrame:
    """Return com(c) at every life: how much, from which number, and how the life ended in it.

    `skew` is the number of its first unit; `end_seq` the number after its last, `is_reference`
    whether it is the longest of its configuration, which the others are held against.
    """
    delivered = com_chunks.groupBy(*LIFE, "rank").agg(
        F.sum("n").alias("n"),
        F.min("skew_min").alias("skew"),
        F.max("skew_max").alias("skew_max"),
        F.every("is_dense").alias("is_dense"),
        F.every("is_own_ring").alias("is_own_ring"),
        F.max("chunk").alias("chunk_max"),
        F.min("ring_seq_min").alias("ring_seq_min"),
        F.max("ring_seq_max").alias("ring_seq_max"),
    )
    installed = spans.groupBy(*LIFE, "rank", "regular_id").agg(
        F.max("is_last").alias("is_last"),
        F.min("com_start").alias("com_start"),
        F.max(F.expr("if(is_transitional, null, is_last)")).alias("stays"),
        F.max(F.expr("not is_transitional")).alias("has_regular"),
    )
    longest = Window.partitionBy("run_id", "rank").orderBy(F.desc("n"), "node", "incarnation")
    return (
        installed.join(delivered, [*LIFE, "rank"], "left")
        .fillna(0, ["n"])
        .join(F.broadcast(lives.select(*LIFE, "ended")), list(LIFE))
        .withColumn("life_ended", F.col("ended"))
        .withColumn("ended", F.expr("if(is_last, ended, null)"))  # null: it went on
        .withColumn("end_seq", F.expr("skew + n"))
        .withColumn("is_reference", F.row_number().over(longest) == 1)
    )
