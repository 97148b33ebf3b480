"""What runs on a cluster gives what it gives here."""

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evensong.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

CONF = {"spark.executor.memory": "512m", "spark.driver.memory": "1g"}


def computed(spark: SparkSession) -> list[tuple[object, ...]]:
    """Have rows meet evensong where they are; return what it computed there, and where it was."""

    # Inside, so that executors get it by value: they do not have this file.
    def meet(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        import pyarrow as pa

        import evensong
        from evensong.sim.swarm import swarm

        for batch in batches:
            ids = batch.column("id").to_pylist()
            plans = [repr(swarm(number)) for number in ids]
            files = [evensong.__file__] * len(ids)
            columns = [batch.column("id"), pa.array(plans), pa.array(files)]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "plan", "file"])

    rows = spark.range(0, 20, 1, 4).mapInArrow(meet, "id long, plan string, file string")
    found = rows.groupBy("id", "plan", "file").agg(F.count("*").alias("n")).orderBy("id").collect()
    return [tuple(row) for row in found]


def test_a_function_of_ours_gives_the_same_on_a_cluster(cluster: str) -> None:
    with session("here", master="local[2]", conf=CONF) as spark:
        here = computed(spark)
    with session("there", master=cluster, conf=CONF) as spark:
        there = computed(spark)
    assert [row[:2] for row in here] == [row[:2] for row in there]
    assert len(here) == 20
    assert all("evensong.zip" in str(row[2]) for row in there)
    assert not any("evensong.zip" in str(row[2]) for row in here)
