"""What clients saw comes back from a trace as it was recorded, or is refused by name."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evensong.core.groups.events import MemberId
from evensong.errors import BadTrace
from evensong.sim.groups.acts import JOIN, LEAVE, SEND, Act, Clients
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import History, Life
from evensong.sim.setup import Setup
from evensong.sim.swarm import swarm
from evensong.trace.groups import (
    Destinations,
    To,
    check_event,
    member_of,
    member_text,
    read_dest,
    shown,
)
from evensong.trace.parquet import read_trace, write_trace

MS = 1_000
ACTS = (
    Act(100 * MS, 1, 0, SEND, ("Ann", "cid"), count=3),
    Act(101 * MS, 2, 1, SEND, ("Ann",), size=5_000, safe=True),
    Act(102 * MS, 2, 1, JOIN, ("cid",)),
    Act(110 * MS, 1, 0, SEND, ("Bea",)),
    Act(112 * MS, 1, 2, SEND, ("@2.1", "cid"), discard=True),
    Act(120 * MS, 2, 1, LEAVE, ("Bea",)),
    Act(130 * MS, 1, 0, "close"),
)


def calm(acts: tuple[Act, ...] = ACTS) -> Setup:
    """Two processors without faults, and clients that do these things."""
    drawn = swarm(1, 2, 0)
    return replace(drawn, plan=(), clients=Clients(acts=acts))


@pytest.fixture(scope="module")
def recorded() -> History:
    outcome, history = run_recorded(calm())
    assert not outcome.violations
    return history


def events_of(history: History, etype: str) -> list[dict[str, str]]:
    lives = history.lives.values()
    return [dict(one.aux) for life in lives for one in life.events if one.etype == etype]


def life_at(history: History, node: int) -> Life:
    (life,) = [life for life in history.lives.values() if life.node == node]
    return life


def test_every_frame_has_a_row_for_each_session_that_it_was_told_to(recorded: History) -> None:
    assert sum(row.messages for row in life_at(recorded, 1).said if row.session == 1) >= 4
    for life in recorded.lives.values():
        for rows in life.heard.values():
            for row in rows:
                (sent,) = [
                    one
                    for one in recorded.lives[row.frame_id[:2]].said
                    if (one.session, one.first_no) == row.frame_id[2:]
                ]
                assert (sent.digest, sent.size, sent.messages) == (
                    row.digest,
                    row.size,
                    row.messages,
                )
                assert (sent.ring_id, sent.seq, sent.service) == (
                    row.ring_id,
                    row.seq,
                    row.service,
                )


def test_a_large_frame_that_went_in_pieces_is_one_row_with_the_digest_of_all(
    recorded: History,
) -> None:
    (row,) = [row for row in life_at(recorded, 2).said if row.size == 5_000]
    heard = [
        one
        for life in recorded.lives.values()
        for rows in life.heard.values()
        for one in rows
        if one.size == 5_000
    ]
    assert heard
    assert {one.digest for one in heard} == {row.digest}


def test_views_and_departures_say_where_in_each_stream_they_come(recorded: History) -> None:
    views = events_of(recorded, "gview")
    assert {view["group"] for view in views} == {"Ann", "Bea", "cid"}
    for life in recorded.lives.values():
        for event in life.events:
            if event.etype == "gview":
                aux = dict(event.aux)
                for session, at in zip(aux["sessions"].split(), aux["at"].split(), strict=True):
                    assert 0 <= int(at) <= len(life.heard.get(int(session), []))
    assert [(left["group"], left["session"]) for left in events_of(recorded, "left")] == [
        ("Bea", "1")
    ]
    assert len(events_of(recorded, "close")) == 1


def test_a_destination_is_told_once_and_names_who_does_not_want_it_back(recorded: History) -> None:
    dests = [read_dest(aux) for aux in events_of(recorded, "dest")]
    assert {to.names for _, to in dests if to.is_discarded} == {("#c1#2#1.1", "cid")}
    for life in recorded.lives.values():
        told = [dict(event.aux)["dest_no"] for event in life.events if event.etype == "dest"]
        assert told == [str(number) for number in range(len(told))]


def test_what_clients_saw_comes_back_row_by_row(recorded: History, tmp_path: Path) -> None:
    (back,) = read_trace(write_trace(recorded, tmp_path, "x")).values()
    for key, life in recorded.lives.items():
        assert back.lives[key].heard == life.heard
        assert back.lives[key].said == life.said
        assert [one.aux for one in back.lives[key].events] == [one.aux for one in life.events]


def test_views_have_the_columns_that_a_query_asks_for(recorded: History, tmp_path: Path) -> None:
    where = write_trace(recorded, tmp_path, "x") / "node=2" / "events-0000.parquet"
    with pq.ParquetFile(where) as file:
        events = file.read().to_pylist()
    view = next(event for event in events if event["etype"] == "gview")
    aux = dict(view["aux"])
    assert (view["group"], view["conf_id"], view["conf_kind"]) == (
        aux["group"],
        aux["view"],
        "view",
    )
    assert view["members"] == [int(one.split("/")[0]) for one in aux["members"].split()]
    left = next(event for event in events if event["etype"] == "left")
    assert left["sender_session"] == 1


def tampered(recorded: History, tmp_path: Path, table: str, column: str, value: object) -> None:
    path = write_trace(recorded, tmp_path, "x") / "node=2" / f"{table}-0000.parquet"
    with pq.ParquetFile(path) as file:
        rows = file.read()
    at = rows.schema.get_field_index(column)
    values = rows.column(column).to_pylist()
    sessions = rows.column("session").to_pylist()
    values[next(i for i, one in enumerate(sessions) if one)] = value
    changed = pa.array(values, rows.schema.field(at).type)
    pq.write_table(rows.set_column(at, rows.schema.field(at), changed), path)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("pos", 7_000, "pos 7000 of session"),
        ("conf_no", 900, "conf_no 900 where"),
        ("service", 9, "is not one of a ring"),
    ],
)
def test_a_session_s_row_that_cannot_be_is_refused(
    column: str, value: int, why: str, recorded: History, tmp_path: Path
) -> None:
    tampered(recorded, tmp_path, "deliveries", column, value)
    with pytest.raises(BadTrace, match=why):
        read_trace(tmp_path)


def test_a_send_in_no_configuration_is_refused(recorded: History, tmp_path: Path) -> None:
    tampered(recorded, tmp_path, "sends", "conf_no", 900)
    with pytest.raises(BadTrace, match="conf_no 900 where"):
        read_trace(tmp_path)


def test_traces_from_before_there_were_groups_are_read(recorded: History, tmp_path: Path) -> None:
    where = write_trace(recorded, tmp_path, "x")
    for path in where.glob("node=*/*.parquet"):
        if not path.name.startswith("events"):
            with pq.ParquetFile(path) as file:
                rows = file.read()
            pq.write_table(rows.drop_columns(["dest_no"]), path)
    (back,) = read_trace(where).values()
    rows_read = [
        row for life in back.lives.values() for rows in life.heard.values() for row in rows
    ]
    assert rows_read
    assert {row.dest_no for row in rows_read} == {-1}


@pytest.mark.parametrize(
    ("etype", "aux"),
    [
        ("gview", {"group": "a"}),
        ("gview", {"view": "8.1:x:3"}),
        ("left", {"group": "a", "session": "1", "place": "4", "conf_no": "0"}),
        ("dest", {"dest_no": "0", "groups": '"a"', "discard": "0"}),
        ("open", {"session": "one"}),
        ("close", {}),
    ],
)
def test_an_event_about_groups_that_makes_no_sense_is_refused(
    etype: str, aux: dict[str, str], recorded: History, tmp_path: Path
) -> None:
    with pytest.raises((KeyError, ValueError)):
        check_event(etype, aux)
    spoilt = History()
    life = Life(1, 1)
    spoilt.lives[1, 1] = life
    life.start(0)
    life.note(etype, 0, aux=tuple(aux.items()))
    if etype == "open":
        return  # not even a column can hold it
    where = write_trace(spoilt, tmp_path, "x") if "members" not in aux else tmp_path
    with pytest.raises(BadTrace, match=f"a {etype} that makes no sense"):
        read_trace(where)


@pytest.mark.parametrize("name", ["orders", "a\nb", "back\\slash", "\x7f", "\u202eevil", "日本"])
def test_a_name_can_be_shown_and_told_from_every_other(name: str) -> None:
    assert shown(name).isprintable()
    assert (shown(name) == name) == (name in ("orders", "日本"))


def test_a_member_is_written_and_read_back() -> None:
    member = MemberId(3, 1_700_000_000_000, 7, "c")
    assert member_of(member_text(member)) == member[:3]


def test_destinations_beyond_those_remembered_get_new_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evensong.trace.groups.KNOWN_MAX", 2)
    numbers = Destinations()
    names = [To((name,), is_discarded=False) for name in "abc"]
    assert [numbers.add(one) for one in names] == [0, 1, 2]
    assert [numbers.find(one) for one in names] == [None, None, 2]
