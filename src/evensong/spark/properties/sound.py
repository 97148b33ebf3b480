"""How findings are put together: counts of sound configurations, rows of all others.

In a sound configuration nothing breaks the property, so it only adds to the counts. What was
judged row by row brings its own counts and its violations.
"""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evensong.spark.properties.finding import Finding
from evensong.spark.tables import small_table

if TYPE_CHECKING:
    from evensong.spark.history import History

VIOLATION = ("run_id", "node", "incarnation", "conf_id", "text")


def nothing(history: "History") -> Finding:
    """Return the finding of a property that nothing was about."""
    counts = small_table(history.spark, [], "run_id string, n_checked bigint, n_unknown bigint")
    return Finding(counts, no_violations(history))


def no_violations(history: "History") -> DataFrame:
    """Return violations of which there are none."""
    columns = "run_id string, node bigint, incarnation bigint, conf_id string, text string"
    return small_table(history.spark, [], columns)


def row_violations(history: "History", property_id: str) -> DataFrame:
    """Return the violations of a property that were found by looking at rows."""
    found = history.row_findings.where(f"property = '{property_id}' and not is_count")
    return found.select(*VIOLATION)


def row_counts(history: "History", property_id: str) -> DataFrame:
    """Return what the rows that were looked at add to the counts of a property."""
    found = history.row_findings.where(f"property = '{property_id}' and is_count")
    return found.select("run_id", "n_checked", "n_unknown")


def summed(*counts: DataFrame) -> DataFrame:
    """Return counts of one property, summed by run; runs without anything are left out."""
    from functools import reduce

    together = reduce(_union, [one.select("run_id", "n_checked", "n_unknown") for one in counts])
    return (
        together.groupBy("run_id")
        .agg(F.sum("n_checked").alias("n_checked"), F.sum("n_unknown").alias("n_unknown"))
        .where("n_checked > 0 or n_unknown > 0")
    )


def counted(rows: DataFrame, checked: str, unknown: str = "0") -> DataFrame:
    """Return two sums over rows as counts by run."""
    return rows.groupBy("run_id").agg(
        F.expr(f"cast(coalesce(sum({checked}), 0) as bigint)").alias("n_checked"),
        F.expr(f"cast(coalesce(sum({unknown}), 0) as bigint)").alias("n_unknown"),
    )


def found(history: "History", property_id: str, *counts: DataFrame) -> Finding:
    """Return the finding of a property whose violations are all found by looking at rows."""
    return Finding(summed(*counts), row_violations(history, property_id))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)
