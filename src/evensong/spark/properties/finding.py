"""What a property is, and what it says of a history."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from evensong.spark.history import History


class Finding(NamedTuple):
    """What one property says of all runs of a history.

    A run without a row in `checked` had nothing that the property is about. `n_unknown` are those
    rows that the recording leaves open; they are counted in `n_checked` too.
    """

    checked: "DataFrame"  # run_id, n_checked, n_unknown
    violations: "DataFrame"  # run_id, node, incarnation, conf_id, text


class Property(NamedTuple):
    """One promise, and how it is judged."""

    id: str
    title: str  # a few words
    meaning: str  # what it is to an application
    judge: "Callable[[History], Finding]"
