"""One table of judgements over a whole campaign: a row for each run and property.

The simulator has judged every run while it had the whole history in memory. The runs whose traces
are kept are judged a second time, from their traces, by the audit; the two must agree.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyspark.sql import functions as F

from evensong.spark.campaign.store import RUNS, TRACES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from evensong.spark.campaign.store import Store

# Judges the traces at a path: verdicts, and what could not be read and why.
Audit: TypeAlias = "Callable[[SparkSession, str], tuple[DataFrame, list[str]]]"

COLUMNS: Final = (
    "run_id",
    "property",
    "judge",
    "status",
    "n_checked",
    "n_unknown",
    "n_violations",
    "samples",
)
SIMULATOR: Final = "simulator"
AUDIT: Final = "audit"


def of_simulator(runs: "DataFrame") -> "DataFrame":
    """Return the verdicts that are folded into rows of runs."""
    each = runs.select("seed", "violations", F.explode("verdicts").alias("verdict"))
    texts = F.transform(
        F.filter("violations", lambda one: one["property"] == F.col("verdict.property")),
        lambda one: one["text"],
    )
    return each.select(
        F.col("seed").cast("string").alias("run_id"),
        "verdict.property",
        F.lit(SIMULATOR).alias("judge"),
        "verdict.status",
        "verdict.n_checked",
        "verdict.n_unknown",
        "verdict.n_violations",
        texts.alias("samples"),
    )


def of_audit(verdicts: "DataFrame") -> "DataFrame":
    """Return the audit's verdicts in the same form."""
    return verdicts.withColumn("judge", F.lit(AUDIT)).select(*COLUMNS)


def disagreements(verdicts: "DataFrame") -> "DataFrame":
    """Return the runs and properties of which one judge says that they hold and one that not."""
    statuses = verdicts.where(F.col("status").isin("pass", "fail"))
    both = statuses.groupBy("run_id", "property").agg(F.collect_set("status").alias("statuses"))
    return both.where(F.size("statuses") > 1).select("run_id", "property")


class Audited(NamedTuple):
    """What the audit said of the traces that are kept."""

    runs: int
    disagreements: list[str]  # run and property
    refused: list[str]  # traces that it could not judge, and why


def write_verdicts(spark: "SparkSession", store: "Store", audit: Audit) -> Audited:
    """Write the table of verdicts; with traces to judge, hold the two judges against each other."""
    judged = of_simulator(spark.read.parquet(store.folder.place(RUNS)))
    runs = len(store.traced())
    differing: list[str] = []
    refused: list[str] = []
    if runs:
        verdicts, refused = audit(spark, store.folder.local(TRACES))
        judged = judged.unionByName(of_audit(verdicts)).cache()
        rows = disagreements(judged).orderBy("run_id", "property").collect()
        differing = [f"{row.run_id} {row.property}" for row in rows]
    ordered = judged.orderBy("run_id", "property", "judge").coalesce(1)
    ordered.write.mode("overwrite").parquet(store.folder.place(VERDICTS))
    judged.unpersist()
    return Audited(runs, differing, refused)
