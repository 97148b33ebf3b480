"""How much went through: over time, by node and by service, and how evenly it was shared.

Deliveries are counted once, into short intervals of each node's own time; everything that is about
deliveries is summed up from there, so that a long trace is read once for all of it.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evensong.spark.metrics.lives import LIFE, in_order, ring_level, service_name

FINE_US: Final = 10_000
BINS_MAX: Final = 60  # over a whole run: what a picture can show
MINUTE_US: Final = 60_000_000
WIDTHS_US: Final = (
    *[factor * 10**power for power in (4, 5, 6) for factor in (1, 2, 5)],
    *[factor * 10_000_000 for factor in (1, 3)],
    *[factor * MINUTE_US for factor in (1, 2, 5, 10, 30, 60, 120, 360, 720, 1440, 10080, 100800)],
)


def intervals(deliveries: DataFrame, lives: DataFrame) -> DataFrame:
    """Count what each life delivered, in intervals of 10 ms since the origin of its clock."""
    about = lives.select(*LIFE, "origin_us")
    at = F.floor((F.col("t_us") - F.col("origin_us")) / FINE_US).cast("bigint")
    return (
        ring_level(deliveries)
        .join(F.broadcast(about), list(LIFE))
        .groupBy(*LIFE, service_name(F.col("service")).alias("service"), at.alias("at"))
        .agg(
            F.count("*").alias("units"),
            F.sum("count").alias("messages"),
            F.sum("size").alias("bytes"),
        )
    )


def throughput(counted: DataFrame, lives: DataFrame) -> DataFrame:
    """Return what each node delivered over time, by service.

    `at_us` is since the origin of the node's clock, `width_us` the length of the interval: at most
    sixty of them make up the longest stretch of a run. An interval without deliveries has no row.
    """
    spans = lives.groupBy("run_id").agg(F.max(F.col("to_us") - F.col("origin_us")).alias("events"))
    reached = counted.groupBy("run_id").agg(((F.max("at") + 1) * FINE_US).alias("deliveries"))
    span = F.greatest("events", "deliveries")
    wide_enough = F.filter(
        F.array(*[F.lit(width) for width in WIDTHS_US]), lambda width: width * BINS_MAX >= span
    )
    width = F.coalesce(F.get(wide_enough, F.lit(0)), F.lit(WIDTHS_US[-1])).cast("bigint")
    widths = spans.join(reached, "run_id").select("run_id", width.alias("width_us"))
    bin_no = F.floor(F.col("at") * FINE_US / F.col("width_us")).cast("bigint")
    return (
        counted.join(F.broadcast(widths), "run_id")
        .groupBy(
            "run_id", "node", "service", "width_us", (bin_no * F.col("width_us")).alias("at_us")
        )
        .agg(*[F.sum(name).alias(name) for name in ("units", "messages", "bytes")])
        .transform(in_order, "run_id", "node", "service", "at_us")
    )


def load(counted: DataFrame, sends: DataFrame, tokens: DataFrame, lives: DataFrame) -> DataFrame:
    """Return what each node sent, delivered and sent again, and its share of all that was sent."""
    nodes = lives.select("run_id", "node").distinct()
    delivered = counted.groupBy("run_id", "node").agg(
        F.sum("units").alias("units_delivered"),
        F.sum("messages").alias("messages_delivered"),
        F.sum("bytes").alias("bytes_delivered"),
    )
    sent = (
        ring_level(sends)
        .groupBy("run_id", "node")
        .agg(
            F.count("*").alias("units_sent"),
            F.sum("count").alias("messages_sent"),
            F.sum("size").alias("bytes_sent"),
        )
    )
    total = sent.groupBy("run_id").agg(F.sum("messages_sent").alias("total"))
    share = F.when(F.col("total") > 0, F.col("messages_sent") / F.col("total"))
    key = ["run_id", "node"]
    return (
        nodes.join(delivered, key, "left")
        .join(sent, key, "left")
        .join(retransmissions(tokens), key, "left")
        .na.fill(0)
        .join(total, "run_id", "left")
        .withColumn("share", share)
        .drop("total")
        .transform(in_order, *key)
    )


def retransmissions(tokens: DataFrame) -> DataFrame:
    """Return, by node, visits of the token, and what was sent again since someone lacked it."""
    return tokens.groupBy("run_id", "node").agg(
        F.count("*").alias("visits"),
        F.sum("sent").alias("packets_sent"),
        F.sum("resent").alias("packets_resent"),
    )


def fairness(sends: DataFrame, events: DataFrame) -> DataFrame:
    """Return how evenly the members of each configuration shared what was sent in it.

    `jain` is Jain's index: 1 if all sent the same number of messages, 1/n if one of n sent all.
    """
    confs = events.where("etype = 'conf' and conf_kind = 'regular' and size(members) > 1").select(
        *LIFE, "conf_no", "conf_id", F.size("members").alias("members")
    )
    by_member = (
        ring_level(sends)
        .groupBy(*LIFE, "conf_no")
        .agg(F.sum("count").alias("messages"))
        .join(confs, [*LIFE, "conf_no"])
        .groupBy("run_id", "conf_id", "members", "node")
        .agg(F.sum("messages").cast("double").alias("messages"))
    )
    total = F.sum("messages")
    index = total * total / (F.col("members") * F.sum(F.col("messages") * F.col("messages")))
    least = F.when(F.count("*") < F.col("members"), F.lit(0.0)).otherwise(F.min("messages"))
    ring_seq = F.split("conf_id", r"\.")[0].cast("bigint")
    return (
        by_member.groupBy("run_id", "conf_id", "members")
        .agg(
            total.cast("bigint").alias("messages"),
            index.alias("jain"),
            (least / total).alias("least_share"),
            (F.max("messages") / total).alias("most_share"),
        )
        .transform(in_order, "run_id", ring_seq, "conf_id")
    )
