"""A trace comes back as the history it was, or is refused by name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evensong.errors import BadTrace
from evensong.sim.evs import check
from evensong.sim.history import History
from evensong.trace.parquet import read_trace, write_trace
from evensong.trace.schema import SERVICES, TABLES, arrow, schema
from tests.sim.history_language import history

RUNS = {
    "split": """
        p: conf R1{p,q,r}, send m1, send m2, del m1, del m2, conf T2{p}<R1, conf R3{p}, quiesce
        q: conf R1{p,q,r}, del m1, del m2, send m3 safe, conf T2q{q,r}<R1, del m3,\
 conf R2q{q,r}, stop
        r: conf R1{p,q,r}, del m1, del m2, conf T2q{q,r}<R1, del m3, conf R2q{q,r}""",
    "restart": """
        p: conf R1{p,q}, send m1 safe, token R1 1 sent 1 fcc 1, fail
        p#2: commit R6, conf R5{p}, conf T6{p}, conf R6{p,q}, send m2, del m2, quiesce
        q: conf R1{p,q}, conf T2q{q}, del m1, conf R6{p,q}, del m2, quiesce""",
    "broken": """
        p: conf R1{p,q}, send m1, del m1, del m1 for R9, quiesce
        q: conf R1{p,q}, del m1 body x, del 7/1:1, quiesce""",
    "empty": "",
}


def rows(run: History) -> list[object]:
    """Everything a history holds, in a form that compares."""
    told: list[object] = []
    for key in sorted(run.lives):
        life = run.lives[key]
        events = [event._replace(conf=None) for event in life.events]
        confs = [(repr(event.conf), event.conf and event.conf.cause) for event in life.events]
        told.append((key, life.ended, life.sends, life.deliveries, events, confs))
        told.append([repr(conf) for conf in life.confs])
    return told


@pytest.mark.parametrize("name", RUNS)
def test_a_history_comes_back_row_by_row(name: str, tmp_path: Path) -> None:
    run = history(RUNS[name])
    where = write_trace(run, tmp_path, name)
    assert where == tmp_path / f"run_id={name}"
    (back,) = read_trace(where).values()
    assert rows(back) == rows(run)
    assert check(back) == check(run)


def test_a_directory_of_runs_is_read_by_run_id(tmp_path: Path) -> None:
    for name, text in RUNS.items():
        write_trace(history(text), tmp_path, name)
    assert read_trace(tmp_path).keys() == RUNS.keys()


def test_files_have_every_column_of_the_schema_in_order_and_zstd(tmp_path: Path) -> None:
    where = write_trace(history(RUNS["restart"]), tmp_path, "x") / "node=1"
    assert sorted(path.name for path in where.iterdir()) == [
        f"{table}-0000.parquet" for table in sorted(TABLES)
    ]
    for table in TABLES:
        with pq.ParquetFile(where / f"{table}-0000.parquet") as file:
            assert file.schema_arrow.equals(schema(table))
            assert file.metadata.row_group(0).column(0).compression == "ZSTD"
            assert file.schema_arrow.metadata[b"evensong.services"] == ",".join(SERVICES).encode()


def test_a_row_has_the_values_of_the_catalogue(tmp_path: Path) -> None:
    where = write_trace(history(RUNS["restart"]), tmp_path, "x")
    (first, *_) = pq.ParquetFile(where / "node=2" / "deliveries-0000.parquet").read().to_pylist()
    assert first["service"] == SERVICES.index("safe")
    assert (first["session"], first["sub"], first["count"], first["pos"]) == (0, 0, 1, 0)
    assert (first["sender"], first["sender_inc"], first["origin_no"]) == (1, 1, 1)
    assert (first["ring_seq"], first["ring_rep"], first["reduced"]) == (4, 1, True)
    events = pq.ParquetFile(where / "node=1" / "events-0000.parquet").read().to_pylist()
    assert [event["incarnation"] for event in events if event["etype"] == "start"] == [1, 2]
    conf = next(event for event in events if event["etype"] == "conf")
    assert (conf["conf_id"], conf["conf_kind"], conf["members"]) == ("4.1", "regular", [1, 2])
    assert (conf["prev_conf_id"], conf["group"], conf["deps"]) == ("0.0", None, None)


def test_a_trace_is_not_written_over(tmp_path: Path) -> None:
    write_trace(History(), tmp_path, "x")
    with pytest.raises(BadTrace, match="run_id=x: a trace of that name"):
        write_trace(History(), tmp_path, "x")


@pytest.mark.parametrize("run_id", ["", "a/b", ".."])
def test_a_run_id_must_fit_into_a_path(run_id: str, tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="cannot name a run"):
        write_trace(History(), tmp_path, run_id)


def test_a_number_too_large_for_its_column_is_refused_with_the_file(tmp_path: Path) -> None:
    run = history("p: conf R1{p}, send m1, del m1, quiesce")
    life = run.lives[1, 1]
    life.deliveries[0] = life.deliveries[0]._replace(size=2**32)
    with pytest.raises(BadTrace, match=r"deliveries-0000\.parquet"):
        write_trace(run, tmp_path, "x")


def test_a_send_under_another_life_s_name_cannot_be_written(tmp_path: Path) -> None:
    run = history("p: conf R1{p}, send m1, del m1, quiesce")
    life = run.lives[1, 1]
    life.sends[0] = life.sends[0]._replace(unit_id=life.sends[0].unit_id._replace(sender=9))
    with pytest.raises(BadTrace, match="a unit of another life"):
        write_trace(run, tmp_path, "x")


def damaged(tmp_path: Path, table: str) -> tuple[Path, pa.Table]:
    where = write_trace(history(RUNS["split"]), tmp_path, "x")
    path = where / "node=1" / f"{table}-0000.parquet"
    with pq.ParquetFile(path) as file:
        return path, file.read()


def test_a_path_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="nowhere: not a directory"):
        read_trace(tmp_path / "nowhere")
    with pytest.raises(BadTrace, match="has no run_id="):
        read_trace(tmp_path)


def test_a_node_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run_id=x" / "node=p").mkdir(parents=True)
    with pytest.raises(BadTrace, match="node=p: 'p' is not a processor id"):
        read_trace(tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_is_named(table: str, tmp_path: Path) -> None:
    path, _ = damaged(tmp_path, table)
    path.unlink()
    with pytest.raises(BadTrace, match=f"node=1: has no {table}-0000"):
        read_trace(tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_a_file_that_is_not_parquet_is_named(table: str, tmp_path: Path) -> None:
    path, _ = damaged(tmp_path, table)
    path.write_bytes(b"not parquet")
    with pytest.raises(BadTrace, match=rf"{table}-0000\.parquet: cannot be read as Parquet"):
        read_trace(tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "sends")
    pq.write_table(table.drop_columns(["digest"]), path)
    with pytest.raises(BadTrace, match=r"sends-0000\.parquet: has no column digest"):
        read_trace(tmp_path)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    at = table.schema.get_field_index("size")
    pq.write_table(table.set_column(at, "size", table["size"].cast(pa.int64())), path)
    with pytest.raises(BadTrace, match="column size is int64, not uint32"):
        read_trace(tmp_path)


def test_nulls_where_none_belong_are_refused(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    at = table.schema.get_field_index("pos")
    pq.write_table(table.set_column(at, "pos", pa.nulls(len(table), pa.uint64())), path)
    with pytest.raises(BadTrace, match="column pos has nulls"):
        read_trace(tmp_path)


@pytest.mark.parametrize(("table", "number"), [("deliveries", "pos"), ("events", "pseq")])
def test_a_gap_in_a_numbering_is_refused(table: str, number: str, tmp_path: Path) -> None:
    path, written = damaged(tmp_path, table)
    pq.write_table(written.slice(1), path)
    with pytest.raises(BadTrace, match=f"{number} 1 of incarnation 1 where 0 is due"):
        read_trace(tmp_path)


def test_deliveries_of_a_life_without_events_are_refused(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    at = table.schema.get_field_index("incarnation")
    other = pa.array([9] * len(table), pa.uint64())
    pq.write_table(table.set_column(at, table.schema.field(at), other), path)
    with pytest.raises(BadTrace, match="incarnation 9 has no events"):
        read_trace(tmp_path)


@pytest.mark.parametrize(("code", "name"), [(10, "atomic"), (200, "unheard of")])
def test_a_service_of_another_protocol_is_refused(code: int, name: str, tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    at = table.schema.get_field_index("service")
    other = pa.array([code] * len(table), pa.uint8())
    pq.write_table(table.set_column(at, table.schema.field(at), other), path)
    with pytest.raises(BadTrace, match=rf"service {code} \({name}\)"):
        read_trace(tmp_path)


def test_what_clients_saw_is_no_part_of_the_ring_s_history(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    at = table.schema.get_field_index("session")
    other = pa.array([3] * len(table), pa.uint32())
    pq.write_table(table.set_column(at, table.schema.field(at), other), path)
    assert read_trace(tmp_path)["x"].lives[1, 1].deliveries == []


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("conf_id", "four", "'four' is not the id of a configuration"),
        ("conf_kind", "view", "kind 'view' is not one of a ring"),
    ],
)
def test_a_configuration_that_is_none_is_refused(
    column: str, value: str, why: str, tmp_path: Path
) -> None:
    path, table = damaged(tmp_path, "events")
    at = table.schema.get_field_index(column)
    other = pa.array([value] * len(table), pa.string())
    pq.write_table(table.set_column(at, table.schema.field(at), other), path)
    with pytest.raises(BadTrace, match=why):
        read_trace(tmp_path)


def test_parts_of_a_table_are_read_in_order(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    whole = rows(read_trace(tmp_path)["x"])
    pq.write_table(table.slice(0, 1), path)
    pq.write_table(table.slice(1), path.with_name("deliveries-0001.parquet"))
    assert rows(read_trace(tmp_path)["x"]) == whole


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    with pytest.raises(BadTrace, match=r"pip install 'evensong\[trace\]'"):
        arrow("pyarrow_that_is_not_there")
