"""What runs on a cluster gives what it gives here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evensong.errors import SparkUnavailable
from evensong.spark.cluster import WAIT
from evensong.spark.session import open_session, session
from evensong.spark.settings import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator

# Small data and cold executors: what a quick session here has by itself, for a cluster too.
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.defaultJavaOptions": " ".join(QUICK),
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


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


def test_a_cluster_that_has_no_room_for_an_executor_is_told(cluster: str) -> None:
    greedy = {**CONF, "spark.executor.memory": "500g", WAIT: "2"}
    with pytest.raises(SparkUnavailable, match=r"gave no executor within 2 s.* 500g of memory"):
        open_session("greedy", master=cluster, conf=greedy)
    with session("modest", master=cluster, conf=CONF) as spark:
        assert spark.range(10).count() == 10


def evensong(*arguments: object, code: int = 0) -> dict[str, object]:
    """Run a command on Spark; return what it says at its end."""
    spark = [item for pair in CONF.items() for item in ("--conf", "=".join(pair))]
    command = [sys.executable, "-m", "evensong", *map(str, arguments), *spark, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == code, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    said: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return said


def verdicts(said: dict[str, object]) -> dict[str, object]:
    """Return what an audit says, without the time that it took."""
    properties = said["properties"]
    assert isinstance(properties, dict)
    untimed = {
        name: {key: value for key, value in verdict.items() if key != "took_ms"}
        for name, verdict in properties.items()
    }
    return {**said, "seconds": None, "properties": untimed}


def test_an_audit_finds_the_same_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    simulated = [sys.executable, "-m", "evensong", "sim", "--seeds", "0:5"]
    subprocess.run([*simulated, "--trace", str(tmp_path)], check=True, capture_output=True)
    # In one place something else was delivered: a violation and its witness are compared too.
    change_the_last(min(tmp_path.glob("run_id=0/node=*")) / "deliveries-0000.parquet")
    here = evensong("audit", tmp_path, "--master", "local[2]", code=1)
    there = evensong("audit", tmp_path, "--master", cluster, code=1)
    assert verdicts(here) == verdicts(there)
    assert here["runs"] == 5


def change_the_last(path: Path) -> None:
    """Have the last unit of a file hold something else."""
    rows = parquet.ParquetFile(path).read()
    digests = rows.column("digest").to_pylist()
    digests[-1] ^= 1
    at = rows.schema.get_field_index("digest")
    field = rows.schema.field(at)
    changed = rows.set_column(at, field, pyarrow.array(digests, field.type))
    parquet.write_table(changed, path)


def table(directory: Path) -> list[tuple[object, ...]]:
    """Return the verdicts of a campaign, in some order that is always the same."""
    rows = parquet.ParquetDataset(directory).read().to_pylist()
    return sorted(tuple(map(str, row.values())) for row in rows)


def contents(directory: Path) -> dict[str, bytes]:
    """Return what the files below a directory hold, by their names."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_campaign_comes_to_the_same_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    # Its audit is the one above; what matters here is who has simulated, and who wrote it down.
    seeds = ("campaign", "--seeds", "0:200", "--keep-traces", "2", "--no-audit")
    evensong(*seeds, "--output", here, "--master", "local[2]")
    evensong(*seeds, "--output", there, "--master", cluster)
    assert table(here / "verdicts") == table(there / "verdicts")
    assert len({row[0] for row in table(here / "verdicts")}) == 200
    traces = [contents(one / "traces") for one in (here, there)]
    assert len(traces[0]) > 2
    assert traces[0] == traces[1]
    summaries = [json.loads((one / "summary.json").read_text()) for one in (here, there)]
    assert summaries[0] == summaries[1]
