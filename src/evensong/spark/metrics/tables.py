"""All tables that a trace measures, by name; as Parquet for whoever wants to go on with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from pyspark.sql import DataFrame

from evensong.spark.metrics.changes import changes
from evensong.spark.metrics.lives import LIFE, in_order, lives
from evensong.spark.metrics.load import fairness, intervals, load, throughput
from evensong.spark.metrics.timing import density, latencies, quantiles, rotations, tokens

TABLES: Final = (
    "lives",
    "stays",
    "throughput",
    "load",
    "fairness",
    "latency",
    "latency_density",
    "rotation",
    "rounds",
    "rotation_density",
    "changes",
)


class Tables(Protocol):
    """The three tables of a trace."""

    @property
    def deliveries(self) -> DataFrame:
        """What was delivered."""
        ...

    @property
    def sends(self) -> DataFrame:
        """What was broadcast."""
        ...

    @property
    def events(self) -> DataFrame:
        """Everything else."""
        ...


@contextmanager
def measured(trace: Tables) -> Iterator[Mapping[str, DataFrame]]:
    """Give all tables of measurements by name; what several are made of is kept until the end."""
    about = lives(trace.events).persist()
    counted = intervals(trace.deliveries, about).persist()
    visits = tokens(trace.events).persist()
    timed = latencies(trace.deliveries, trace.sends, about).persist()
    try:
        yield {
            "lives": in_order(about, *LIFE),
            "stays": stays(trace.events),
            "throughput": throughput(counted, about),
            "load": load(counted, trace.sends, visits, about),
            "fairness": fairness(trace.sends, trace.events),
            "latency": quantiles(timed, "run_id", "kind", "service"),
            "latency_density": density(timed, "run_id", "kind", "service"),
            "rotation": quantiles(rotations(visits), "run_id", "node"),
            "rounds": quantiles(rotations(visits), "run_id"),
            "rotation_density": density(rotations(visits), "run_id"),
            "changes": changes(trace.events, about),
        }
    finally:
        for kept in (about, counted, visits, timed):
            kept.unpersist()


def stays(events: DataFrame) -> DataFrame:
    """Return which configurations each life installed, and when."""
    return (
        events.where("etype = 'conf'")
        .select(
            "run_id",
            "node",
            "incarnation",
            "conf_no",
            "conf_id",
            "conf_kind",
            "members",
            "cause",
            "t_us",
            "pos",
        )
        .transform(in_order, "run_id", "node", "incarnation", "conf_no")
    )


def write_tables(tables: Mapping[str, DataFrame], directory: str) -> None:
    """Write each table as Parquet in a folder of its name below a directory."""
    for name, table in tables.items():
        table.write.mode("overwrite").parquet(f"{directory.rstrip('/')}/{name}")
