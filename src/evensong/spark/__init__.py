"""The pipeline on Spark: traces in, verdicts and measurements out.

    from evensong.spark import audit, session

    with session("notebook") as spark:
        audit(spark, "traces").where("status = 'fail'").show(truncate=False)

PySpark is imported when a session is opened, not before.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evensong.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["audit", "session"]


def audit(
    spark: "SparkSession",
    path: str | Path | Sequence[str | Path],
    properties: Iterable[str] | None = None,
) -> "DataFrame":
    """Judge the traces at a path, or at several; return one row a run and property.

    The columns are `run_id, property, status, n_checked, n_unknown, n_violations, samples` and
    `took_ms`; `status` is pass, fail, vacuous or inconclusive, `samples` has witnesses.
    """
    from evensong.spark.auditing import run_audit
    from evensong.spark.verdicts import verdict_table

    paths = [path] if isinstance(path, str | Path) else list(path)
    found = run_audit(spark, [str(one) for one in paths], properties)
    return verdict_table(found.history, found.verdicts)
