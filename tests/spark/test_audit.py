"""What the audit makes of traces that are broken, incomplete, damaged or none at all."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from evensong.cli.main import main
from evensong.errors import BadTrace
from evensong.spark import audit
from evensong.spark.auditing import run_audit
from evensong.spark.properties import BY_ENGINE, PROPERTIES, Finding
from evensong.spark.settings import IS_TINY, TINY
from evensong.trace.columns import parquet_options
from evensong.trace.parquet import write_trace
from tests.sim.history_language import history, with_limits

GOOD = """p: conf R1{p,q}, send m1, del m1, quiesce
          q: conf R1{p,q}, del m1, quiesce"""
BAD = """p: conf R1{p,q}, send m1, del m1, del m2, quiesce
         q: conf R1{p,q}, send m2, del m2, del m1, quiesce"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_trace(history(GOOD), tmp_path / "trace", "good")
    return tmp_path / "trace"


def part(trace: Path, table: str = "deliveries", node: int = 1) -> Path:
    return trace / "run_id=good" / f"node={node}" / f"{table}-0000.parquet"


def test_an_empty_folder_is_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="has no trace in it"):
        run_audit(spark, [str(tmp_path)])


def test_a_csv_is_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "deliveries.csv"
    table.write_text("run_id,node\n1,2\n")
    with pytest.raises(BadTrace, match=r"deliveries\.csv: a file; a trace is a directory"):
        run_audit(spark, [str(table)])


def test_a_table_of_another_schema_is_refused_by_name(spark: SparkSession, trace: Path) -> None:
    pa.parquet.write_table(pa.table({"pos": [1]}), part(trace))
    with pytest.raises(BadTrace, match=r"deliveries-0000.parquet: has no column incarnation"):
        run_audit(spark, [str(trace)])


def test_a_truncated_file_is_refused_by_name(spark: SparkSession, trace: Path) -> None:
    path = part(trace)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadTrace, match=r"deliveries-0000.parquet: cannot be read as Parquet"):
        run_audit(spark, [str(trace)])


def test_a_file_that_is_missing_is_named(spark: SparkSession, trace: Path) -> None:
    part(trace, "sends").unlink()
    with pytest.raises(BadTrace, match=r"node=1: has no sends-0000.parquet"):
        run_audit(spark, [str(trace)])


def renumber(path: Path, column: str, numbers: list[int]) -> None:
    """Put other numbers into a column of a table."""
    rows = pa.parquet.read_table(path)
    columns = [rows.column(at) for at in range(rows.num_columns)]
    columns[rows.schema.get_field_index(column)] = pa.array(numbers, pa.uint64())
    options = parquet_options(path.name.partition("-")[0])  # Spark reads no other numbers
    pa.parquet.write_table(pa.table(columns, schema=rows.schema), path, **options)


def test_rows_that_are_missing_are_no_trace(spark: SparkSession, trace: Path) -> None:
    renumber(part(trace), "pos", [5])
    with pytest.raises(BadTrace, match=r"node 1/1 of run good: has 1 deliveries at positions 5"):
        run_audit(spark, [str(trace)])


@pytest.mark.parametrize(
    ("table", "column", "numbers", "told"),
    [
        ("events", "pseq", [0, 1, 1, 3, 4], "p1 events: (0, 20) follows (0, 10)"),
        ("deliveries", "pos", [0, 1, 1, 3], "p1 deliveries: several at position 1"),
    ],
)
def test_a_number_taken_twice_for_one_that_is_missing_is_no_order(
    spark: SparkSession, tmp_path: Path, table: str, column: str, numbers: list[int], told: str
) -> None:
    steps = "send m1, send m2, send m3, send m4, del m1, del m2, del m3, del m4"
    text = f"p: conf R1{{p}}, conf T2{{p}}, conf R2{{p}}, {steps}, quiesce"
    write_trace(history(text), tmp_path, "good")
    renumber(part(tmp_path, table), column, numbers)
    (found,) = run_audit(spark, [str(tmp_path)], ["EVS1.2"]).verdicts
    assert found.status == "fail"
    assert told in [sample.splitlines()[0] for sample in found.samples]


def rewrite(path: Path, column: str, at: int, value: object) -> None:
    """Put another value into a row of a table."""
    rows = pa.parquet.read_table(path)
    place = rows.schema.get_field_index(column)
    values = rows.column(column).to_pylist()
    values[at] = value
    changed = pa.array(values, rows.schema.types[place])
    rows = rows.set_column(place, rows.schema.field(place), changed)
    pa.parquet.write_table(rows, path, **parquet_options(path.name.partition("-")[0]))


NO_CONFIGURATION = "event 1 is a configuration without its id, kind, members or what was before it"
SENSELESS: tuple[
    tuple[str, int, object, str], ...
] = (  # of the events of GOOD: which column of which one, its value, what is told of it
    ("etype", 1, "konf", "an event 'konf' is none of start, conf,"),
    ("conf_id", 1, None, NO_CONFIGURATION),
    ("conf_id", 1, "x.1", NO_CONFIGURATION),
    ("conf_id", 1, "9999999999999999999.1", NO_CONFIGURATION),
    ("prev_conf_id", 1, "", NO_CONFIGURATION),
    ("conf_kind", 1, None, NO_CONFIGURATION),
    ("conf_kind", 1, "odd", NO_CONFIGURATION),
    ("members", 1, None, NO_CONFIGURATION),
    ("members", 1, [], NO_CONFIGURATION),
    ("members", 1, [1, None, 2], NO_CONFIGURATION),
    ("aux", 0, [("level", None)], "event 0 has null in its aux"),
)


def test_events_that_tell_nothing_are_refused_and_the_rest_is_judged(
    spark: SparkSession, trace: Path
) -> None:
    for number, (column, at, value, _) in enumerate(SENSELESS, 10):
        run = write_trace(history(GOOD), trace, f"bad{number}")
        rewrite(run / "node=1" / "events-0000.parquet", column, at, value)
    found = run_audit(spark, [str(trace)], ["TM1"], keep_going=True)
    assert (found.runs, found.verdict) == (["good"], "inconclusive")
    for number, (refused, (*_, told)) in enumerate(zip(found.refused, SENSELESS, strict=True), 10):
        assert refused.startswith(f"node 1/1 of run bad{number}: {told}")


def test_two_runs_under_one_id_are_not_mixed(spark: SparkSession, trace: Path) -> None:
    write_trace(history(BAD), trace.parent / "other", "good")
    with pytest.raises(BadTrace, match="two different runs cannot share an id"):
        run_audit(spark, [str(trace), str(trace.parent / "other")])


def test_parts_of_two_runs_in_one_folder_are_noticed(spark: SparkSession, trace: Path) -> None:
    for table in ("deliveries", "sends", "events"):
        source = part(trace, table)
        shutil.copy(source, source.with_name(f"{table}-0001.parquet"))
    with pytest.raises(BadTrace, match="rows of different runs are mixed"):
        run_audit(spark, [str(trace)])


@pytest.mark.parametrize("name", ["a b [x] {y,z} 100% é", "run?*"])
def test_a_path_may_be_called_anything(name: str, spark: SparkSession, tmp_path: Path) -> None:
    write_trace(history(GOOD), tmp_path / name, "good")
    write_trace(history(BAD), tmp_path / "runs", "bad")
    found = run_audit(spark, [str(tmp_path / name)], ["EVS1.3"])
    assert (found.runs, found.n_events) == (["good"], 9)


def test_told_to_keep_going_it_judges_the_rest_and_proves_nothing(
    spark: SparkSession, trace: Path
) -> None:
    write_trace(history(GOOD), trace, "other")
    part(trace).write_bytes(b"PAR1")
    found = run_audit(spark, [str(trace)], ["TG"], keep_going=True)
    assert found.runs == ["other"]
    assert [line.split(":")[0] for line in found.refused] == [str(part(trace))]
    assert found.verdict == "inconclusive"


def test_an_unknown_property_is_refused(spark: SparkSession, trace: Path) -> None:
    with pytest.raises(BadTrace, match="no property is called 'EVS9'"):
        run_audit(spark, [str(trace)], ["EVS9"])


def test_a_notebook_gets_a_table(spark: SparkSession, trace: Path) -> None:
    table = audit(spark, trace, ["TG", "EVS2.1"])
    assert table.columns == [
        "run_id", "property", "status", "n_checked", "n_unknown", "n_violations", "samples",
        "took_ms",
    ]  # fmt: skip
    rows = {row["property"]: row for row in table.collect()}
    assert (rows["TG"]["status"], rows["TG"]["n_checked"]) == ("vacuous", 0)
    assert (rows["EVS2.1"]["status"], rows["EVS2.1"]["n_checked"]) == ("pass", 4)


def test_the_command_says_what_is_broken_and_shows_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(history(BAD), tmp_path / "trace", "bad")
    assert main(["audit", str(tmp_path / "trace"), "--property", "TG", "--property", "TM1"]) == 1
    said = capsys.readouterr().out
    assert "TG       fail" in said
    assert "TM1      pass" in said
    assert "1/1:1 before 2/1:1 at p1; 2/1:1 before 1/1:1 at p2" in said
    assert said.rstrip().splitlines()[-1] == "BROKEN; unknown: 0 rows"


def test_json_ends_in_one_object(
    spark: SparkSession, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(trace), "--property", "EVS1.3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["events"], told["runs"], told["violations"]) == (9, 1, 0)
    assert told["seconds"] > 0
    assert told["properties"]["EVS1.3"]["status"] == "pass"
    assert told["properties"]["EVS1.3"]["checked"] == 2


def test_bad_input_is_one_sentence(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip().splitlines() == [
        f"evensong: {tmp_path}: has no trace in it: neither spool-… nor run_id=…"
    ]


def test_verdicts_come_in_the_order_of_the_catalogue_and_each_is_told_of(
    spark: SparkSession, trace: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    found = run_audit(spark, [str(trace)], told=lambda *step: told.append(step))
    promised = BY_ENGINE["totem"]
    assert tuple(one.property for one in found.verdicts) == promised
    assert sorted(name for name, _, _ in told) == sorted(promised)
    assert [step[1:] for step in told] == [(at, len(promised)) for at in range(len(promised))]


def test_a_run_is_held_to_what_its_own_engine_promises(spark: SparkSession, tmp_path: Path) -> None:
    text = "p: conf R1{p}, send m1, del m1, quiesce"
    write_trace(history(text), tmp_path, "ring")
    write_trace(with_limits(history(text), engine="transis"), tmp_path, "transis")
    told: list[tuple[str, int, int]] = []
    asked = ["EVS2.1", "TM1", "LM1"]
    found = run_audit(spark, [str(tmp_path)], asked, told=lambda *step: told.append(step))
    assert {(one.run_id, one.property, one.status) for one in found.verdicts} == {
        ("ring", "EVS2.1", "pass"),
        ("ring", "TM1", "pass"),
        ("transis", "EVS2.1", "pass"),
        ("transis", "LM1", "pass"),
    }
    assert [step[1:] for step in told] == [(at, 4) for at in range(4)]
    assert (found.runs, found.n_events) == (["ring", "transis"], 10)


def test_a_promise_of_another_engine_proves_nothing(spark: SparkSession, trace: Path) -> None:
    found = run_audit(spark, [str(trace)], ["LA1"])
    assert (found.verdicts, found.verdict) == ([], "inconclusive")
    (doubts,) = found.doubts.values()
    assert doubts == ["nothing that was asked is promised by totem"]


@pytest.mark.parametrize("engines", [("totem", "transis"), ("xamp", "xamp")])
def test_a_run_that_is_not_of_one_known_engine_is_refused(
    engines: tuple[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    mixed = history("p: conf R1{p,q}, quiesce\nq: conf R1{p,q}, quiesce")
    for life, engine in zip(mixed.lives.values(), engines, strict=True):
        life.events[0] = life.events[0]._replace(aux=(("engine", engine),))
    write_trace(mixed, tmp_path, "mixed")
    with pytest.raises(
        BadTrace, match=f"run mixed: its engines are {', '.join(sorted({*engines}))}"
    ):
        run_audit(spark, [str(tmp_path)])


def test_a_service_that_the_engine_of_a_run_does_not_have_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = "p: conf R1{p}, send m1 basic, del m1, quiesce"
    write_trace(history(text), tmp_path, "ring")
    write_trace(with_limits(history(text), engine="transis"), tmp_path, "transis")
    found = run_audit(spark, [str(tmp_path)], ["EVS1.3"], keep_going=True)
    assert found.runs == ["transis"]
    assert found.refused == ["run ring: sends have service 0, which totem has not"]


@pytest.mark.parametrize("name", ["EVS1.2", "G1"])
def test_a_property_that_cannot_be_judged_ends_the_audit(
    name: str, spark: SparkSession, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Finding:
        raise ZeroDivisionError

    monkeypatch.setitem(PROPERTIES, name, PROPERTIES[name]._replace(judge=fail))
    with pytest.raises(ZeroDivisionError):
        run_audit(spark, [str(trace)], ["EVS1.2", "G1"])


def test_plans_for_tiny_data_come_to_what_those_for_large_data_do(
    spark: SparkSession, trace: Path
) -> None:
    write_trace(history(BAD), trace, "bad")
    judged = ["EVS1.3", "EVS4", "TG", "G1"]
    tiny = run_audit(spark, [str(trace)], judged).verdicts
    ours = {name: value for name, value in TINY.items() if name.startswith("spark.sql.")}
    try:
        for name in ours:
            spark.conf.unset(name)
        spark.conf.set(IS_TINY, "false")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        large = run_audit(spark, [str(trace)], judged).verdicts
    finally:
        for name, value in {**ours, IS_TINY: "true"}.items():
            spark.conf.set(name, value)
    assert [one._replace(took_ms=0) for one in tiny] == [one._replace(took_ms=0) for one in large]
    assert any(one.status == "fail" for one in large)
