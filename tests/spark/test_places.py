"""Where traces lie: what is found, converted, refused, before Spark reads a row."""

import os
import re
import shutil
from errno import EACCES
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evensong.errors import BadTrace
from evensong.spark.places import _elsewhere, find_places, is_elsewhere, size_of
from evensong.spark.reading import read_places
from evensong.trace.parquet import read_run, write_trace
from tests.daemon.test_spool import begin, lives, play, rows
from tests.sim.history_language import history


def test_the_tail_of_a_spool_is_converted_into_a_place_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    trace, scratch = tmp_path / "trace", tmp_path / "scratch"
    trace.mkdir()
    spool = begin(trace)
    play(spool)
    spool.flush(8)
    (place,) = find_places(spark, [str(trace)], scratch).places
    (converted,) = read_run(Path(place.folders[0]))
    (spooled,) = lives(trace)
    assert rows(converted.life) == rows(spooled.life)
    assert place.nodes == (("test", 1),)
    assert Path(place.base).is_relative_to(scratch)
    assert place.last_end == ""  # whether its daemon lives, nobody knows


def test_a_daemon_that_is_gone_has_lost_its_last_rows(spark: SparkSession, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "trace").mkdir(parents=True)
    (state / "lock").touch()
    spool = begin(state / "trace")
    play(spool)
    spool.flush(8)
    (place,) = find_places(spark, [str(state)], tmp_path / "scratch").places
    assert place.last_end == "lost"


def test_a_run_of_a_trace_is_a_place(spark: SparkSession, tmp_path: Path) -> None:
    write_trace(history("p: conf R1{p}, quiesce"), tmp_path, "one")
    write_trace(history("p: conf R1{p}, quiesce"), tmp_path, "two")
    found = find_places(spark, [str(tmp_path / "run_id=two")], tmp_path / "scratch")
    assert [place.nodes for place in found.places] == [(("two", 1),)]


@pytest.mark.parametrize("pattern", ["*esday", "{tues,wednes}day", "t{{uesday},x}", "[s-u]*"])
def test_wildcards_mean_every_trace_that_they_match(
    pattern: str, spark: SparkSession, tmp_path: Path
) -> None:
    for day in ("monday", "tuesday", "friday"):
        write_trace(history("p: conf R1{p}, quiesce"), tmp_path / day, day)
    found = find_places(spark, [f"{tmp_path}/{pattern}"], tmp_path / "scratch")
    assert [place.nodes for place in found.places] == [(("tuesday", 1),)]
    assert found.places[0].base.endswith("/tuesday")
    assert found.refused == []


def test_wildcards_that_match_nothing_or_damage_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = find_places(spark, [f"{tmp_path}/*sunday"], tmp_path / "scratch")
    assert found.refused == [f"{tmp_path}/*sunday: there is nothing of that name"]
    for day in ("monday", "friday"):
        write_trace(history("p: conf R1{p}, quiesce"), tmp_path / day, day)
    damaged = tmp_path / "friday" / "run_id=friday" / "node=1" / "sends-0000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    found = find_places(spark, [f"{tmp_path}/*day"], tmp_path / "scratch")
    assert [place.nodes for place in found.places] == [(("monday", 1),)]
    assert [line.partition(": ")[0] for line in found.refused] == [str(damaged)]


def test_what_only_spark_can_list_is_listed_by_it(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        write_trace(history("p: conf R1{p}, quiesce"), tmp_path / day, day)
    found = _elsewhere(spark, f"file:{tmp_path}/*esday")
    assert [place.nodes for place in found] == [(("tuesday", 1),)]
    with pytest.raises(BadTrace, match=r"sunday: has no run_id=…/node=… in it"):
        _elsewhere(spark, f"file:{tmp_path}/*sunday")


@pytest.mark.parametrize("table", ["deliveries", "sends", "events"])
def test_a_table_that_is_missing_elsewhere_is_named(
    table: str, spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p,q}, quiesce\nq: conf R1{p,q}"), tmp_path, "x")
    (run / "node=2" / f"{table}-0000.parquet").unlink()
    with pytest.raises(BadTrace, match=rf"node=2: has no {table}-0000.parquet"):
        _elsewhere(spark, f"file:{tmp_path}")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("hdfs://nowhere.invalid:9000/x", "UnknownHostException: nowhere.invalid"),
        ("s3a://bucket/x", "this Spark has no classes for such addresses .*spark.jars.packages"),
        ("nonsense://x/y", "this Spark has no classes for such addresses"),
    ],
)
def test_an_address_that_cannot_be_read_is_told_with_the_reason(
    path: str, why: str, spark: SparkSession, tmp_path: Path
) -> None:
    (refused,) = find_places(spark, [path], tmp_path).refused
    assert re.match(f"{path}: cannot be read: {why}", refused), refused


@pytest.mark.parametrize(
    ("path", "elsewhere"),
    [
        ("hdfs://head/traces", True),
        ("s3a://traces/2026-*", True),
        ("traces/*", False),
        ("file:///traces", False),
        ("traces", False),
    ],
)
def test_what_is_not_of_this_machine_is_left_to_spark(path: str, elsewhere: bool) -> None:
    assert is_elsewhere(path) is elsewhere


def test_what_lies_here_has_a_size(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "part").write_bytes(bytes(100))
    assert size_of([str(tmp_path), f"file://{tmp_path}"]) == 200
    assert size_of([str(tmp_path), "hdfs://there/trace"]) is None


def test_tiny_traces_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    write_trace(history("p: conf R1{p}, send m1, del m1, quiesce"), tmp_path / "trace", "one")
    trace = read_places(spark, find_places(spark, [str(tmp_path / "trace")], tmp_path).places)
    shutil.rmtree(tmp_path / "trace")
    assert [table.count() for table in trace] == [1, 1, 3]


def with_null(path: Path, column: str) -> None:
    """Write a table again as others would: any column may have nulls, and one does."""
    rows = pq.read_table(path)
    field = rows.schema.get_field_index(column)
    emptied = pa.array([None, *rows.column(column).to_pylist()[1:]], rows.schema.types[field])
    nullable = pa.schema([one.with_nullable(True) for one in rows.schema])
    columns = [emptied if at == field else rows.column(at) for at in range(rows.num_columns)]
    pq.write_table(pa.table(columns, schema=nullable), path)


@pytest.mark.parametrize(
    ("table", "column"), [("deliveries", "sender_inc"), ("sends", "pos"), ("events", "etype")]
)
def test_a_column_with_nulls_where_none_may_be_is_refused_by_name(
    table: str, column: str, spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p}, send m1, del m1, quiesce"), tmp_path / "trace", "x")
    damaged = run / "node=1" / f"{table}-0000.parquet"
    with_null(damaged, column)
    found = find_places(spark, [str(run)], tmp_path / "scratch")
    assert found.refused == [f"{damaged}: column {column} has nulls"]
    with pytest.raises(BadTrace, match=rf"trace: {table} have nulls in column {column}"):
        _elsewhere(spark, f"file:{tmp_path}/trace")


def test_a_table_that_others_wrote_again_without_nulls_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p}, send m1, del m1, quiesce"), tmp_path / "trace", "x")
    sends = run / "node=1" / "sends-0000.parquet"
    with_null(sends, "dest_no")  # which may be null
    found = find_places(spark, [str(run)], tmp_path / "scratch")
    assert (len(found.places), found.refused) == (1, [])


@pytest.mark.parametrize("table", ["deliveries", "sends"])
@pytest.mark.parametrize("has_statistics", [True, False])
def test_a_service_that_nothing_is_promised_of_is_refused_by_name(
    table: str, has_statistics: bool, spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p}, send m1, del m1, quiesce"), tmp_path / "trace", "x")
    path = run / "node=1" / f"{table}-0000.parquet"
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("service")
    other = rows.set_column(at, rows.schema.field(at), pa.array([9], pa.uint8()))
    pq.write_table(other, path, write_statistics=has_statistics)
    found = find_places(spark, [str(run)], tmp_path / "scratch")
    assert found.refused == [f"{path}: service 9 is not one of any engine"]
    with pytest.raises(BadTrace, match=rf"trace: {table} have service 9, of no engine"):
        _elsewhere(spark, f"file:{tmp_path}/trace")


@pytest.mark.parametrize("run_id", ["", "a%20b", "__HIVE_DEFAULT_PARTITION__"])
def test_a_run_that_spark_would_call_otherwise_is_refused(
    run_id: str, spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p}, quiesce"), tmp_path / "trace", "x")
    renamed = run.rename(run.with_name(f"run_id={run_id}"))
    found = find_places(spark, [str(tmp_path / "trace")], tmp_path / "scratch")
    assert (found.places, found.refused) == ([], [f"{renamed}: {run_id!r} cannot name a run"])


@pytest.mark.parametrize(
    "stray",
    [
        "node=1/deliveries-0.parquet",
        "node=1/deliveries-copy.parquet",
        "node=1/before/sends-0000.parquet",
        "old/events-0000.parquet",
    ],
)
def test_files_that_spark_would_read_with_a_run_are_refused(
    stray: str, spark: SparkSession, tmp_path: Path
) -> None:
    run = write_trace(history("p: conf R1{p}, quiesce"), tmp_path / "trace", "x")
    (run / "_old").mkdir()
    shutil.copy(run / "node=1" / "sends-0000.parquet", run / "_old")  # which Spark passes over
    assert find_places(spark, [str(run)], tmp_path / "scratch").refused == []
    (run / stray).parent.mkdir(exist_ok=True)
    shutil.copy(run / "node=1" / "sends-0000.parquet", run / stray)
    found = find_places(spark, [str(run)], tmp_path / "scratch")
    told = f"{run / stray}: is no part of a trace, and lies among them"
    assert (found.places, found.refused) == ([], [told])


def test_a_directory_that_may_not_be_read_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(history("p: conf R1{p}, quiesce"), tmp_path / "trace", "x")
    run = write_trace(history("p: conf R1{p}, quiesce"), tmp_path / "trace", "y")
    listed = os.listdir

    def list_or_not(path: Path) -> list[str]:  # as the system does for anybody but root
        if path == run / "node=1":
            raise PermissionError(EACCES, os.strerror(EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", list_or_not)
    found = find_places(spark, [str(tmp_path / "trace")], tmp_path / "scratch")
    assert [place.nodes for place in found.places] == [(("x", 1),)]
    assert found.refused == [f"{run / 'node=1'}: cannot be read: Permission denied"]
