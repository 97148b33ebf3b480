"""A trace comes back as the history it was, or is refused by name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evensong.errors import BadTrace
from evensong.sim.evs import check
from evensong.sim.history import History
from evensong.trace.parquet import _ID, read_trace, write_trace
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
    with pytest.raises(BadTrace, match="nowhere: there is no such directory"):
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
    for table in ("deliveries", "sends"):
        path, written = damaged(tmp_path / table, table)
        whole = rows(read_trace(tmp_path / table)["x"])
        at = written.schema.get_field_index("session")
        clients = pa.array([3] * len(written), pa.uint32())
        seen = written.set_column(at, written.schema.field(at), clients)
        pq.write_table(pa.concat_tables([seen, written]), path)
        assert rows(read_trace(tmp_path / table)["x"]) == whole


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("conf_id", "four", "'four' is not the id of a configuration"),
        ("conf_id", "04.1", "'04.1' is not the id of a configuration"),
        ("conf_id", "4.²", "'4.²' is not the id of a configuration"),
        ("prev_conf_id", "7" * 5_000 + ".1", "'77777.* is not the id of a configuration"),
        ("conf_kind", "view", "kind 'view' is not one of a ring"),
        ("etype", "sing", "an event 'sing' is none of start, conf"),
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


def with_column(table: pa.Table, column: str, values: list[object]) -> pa.Table:
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


@pytest.mark.parametrize(
    ("table", "column", "last", "why"),
    [
        ("events", "pos", 2**62, "events of incarnation 1 have pos 4611686018427387904 where 2 to"),
        ("events", "pos", 0, "events of incarnation 1 have pos 0 where 2 to 2 is due"),
        ("events", "conf_no", 3, "conf_no 3 where there are 3 configurations"),
        ("sends", "pos", 3, "sends of incarnation 1 have pos 3 where 0 to 2 is due"),
        ("sends", "conf_no", 2**31, "conf_no 2147483648 where there are 3 configurations"),
        ("sends", "origin_no", 1, "origin_no 1 of incarnation 1 after 1"),
        ("sends", "origin_no", 0, "origin_no 0 of incarnation 1 after 1"),
        ("deliveries", "conf_no", 3, "conf_no 3 where there are 3 configurations"),
        ("deliveries", "sub", 1, "sub 1 is not one of a ring"),
        ("deliveries", "sender_session", 7, "sender_session 7 is not one of a ring"),
    ],
)
def test_a_row_that_cannot_be_is_refused(
    table: str, column: str, last: int, why: str, tmp_path: Path
) -> None:
    path, written = damaged(tmp_path, table)
    values = written[column].to_pylist()
    pq.write_table(with_column(written, column, [*values[:-1], last]), path)
    with pytest.raises(BadTrace, match=rf"node=1.*{why}"):
        read_trace(tmp_path)


@pytest.mark.parametrize("members", [None, [], [1, None]])
def test_a_configuration_without_its_members_is_refused(
    members: list[object] | None, tmp_path: Path
) -> None:
    path, table = damaged(tmp_path, "events")
    pq.write_table(with_column(table, "members", [members] * len(table)), path)
    with pytest.raises(BadTrace, match=r"events-0000\.parquet: configuration 4\.1 has no members"):
        read_trace(tmp_path)


def test_a_configuration_out_of_turn_is_refused(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "events")
    pq.write_table(with_column(table, "conf_no", [None] * len(table)), path)
    with pytest.raises(BadTrace, match="a conf with conf_no -1 where 0 is due"):
        read_trace(tmp_path)


def test_a_null_among_the_further_figures_is_refused(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "events")
    pq.write_table(with_column(table, "aux", [[("state", None)]] * len(table)), path)
    with pytest.raises(BadTrace, match="aux has null under 'state'"):
        read_trace(tmp_path)


def test_text_that_is_none_is_refused_with_the_file(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "events")
    garbled = pa.array([b"\xff\xfe"] * len(table), pa.binary()).view(pa.string())
    at = table.schema.get_field_index("cause")
    pq.write_table(table.set_column(at, table.schema.field(at), garbled), path)
    with pytest.raises(BadTrace, match=r"events-0000\.parquet: cannot be read"):
        read_trace(tmp_path)


@pytest.mark.parametrize("name", ["01", "²", "0", "4294967296", "1" * 5_000])
def test_a_node_has_one_name(name: str, tmp_path: Path) -> None:
    if len(name) > 200:
        assert _ID.fullmatch(name) is None
        return
    where = write_trace(history(RUNS["split"]), tmp_path, "x")
    (where / f"node={name}").mkdir()
    with pytest.raises(BadTrace, match=f"node={name}: '{name}' is not a processor id"):
        read_trace(tmp_path)


def test_a_file_in_the_place_of_a_run_is_refused(tmp_path: Path) -> None:
    write_trace(history(RUNS["split"]), tmp_path, "a")
    (tmp_path / "run_id=x").write_text("a file", encoding="utf-8")
    with pytest.raises(BadTrace, match="run_id=x: not a directory"):
        read_trace(tmp_path)


def test_parts_far_apart_are_refused_at_once(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "sends")
    pq.write_table(table.slice(1), path.with_name("sends-9999999999.parquet"))
    with pytest.raises(BadTrace, match=r"node=1: has no sends-0001\.parquet"):
        read_trace(tmp_path)


def test_a_missing_part_is_refused(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "sends")
    pq.write_table(table.slice(1), path.with_name("sends-0002.parquet"))
    with pytest.raises(BadTrace, match=r"node=1: has no sends-0001\.parquet"):
        read_trace(tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_a_flipped_bit_is_refused_or_without_effect(table: str, tmp_path: Path) -> None:
    path, _ = damaged(tmp_path, table)
    whole = rows(read_trace(tmp_path)["x"])
    content = path.read_bytes()
    refused = 0
    for bit in range(3, 8 * len(content), 211):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            back = rows(read_trace(tmp_path)["x"])
        except BadTrace:
            refused += 1
        else:
            assert back == whole, f"bit {bit}"
    assert refused > 20


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_is_not_written_to_its_end_is_not_there(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def fill(rows: object, where: Path, **how: object) -> None:
        written.append(where)
        where.write_bytes(b"half")
        if len(written) == 5:
            raise error

    monkeypatch.setattr(pq, "write_table", fill)
    with pytest.raises((BadTrace, KeyboardInterrupt)) as raised:
        write_trace(history(RUNS["split"]), tmp_path, "x")
    assert len(written) == 5
    assert list(tmp_path.iterdir()) == []
    if isinstance(raised.value, BadTrace):
        assert "run_id=x: cannot be written: No space left on device" in str(raised.value)


def test_parts_of_a_table_are_read_in_order(tmp_path: Path) -> None:
    path, table = damaged(tmp_path, "deliveries")
    whole = rows(read_trace(tmp_path)["x"])
    pq.write_table(table.slice(0, 1), path)
    pq.write_table(table.slice(1), path.with_name("deliveries-0001.parquet"))
    assert rows(read_trace(tmp_path)["x"]) == whole


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    with pytest.raises(BadTrace, match=r"pip install 'evensong\[trace\]'"):
        arrow("pyarrow_that_is_not_there")
