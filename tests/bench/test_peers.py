"""The comparison with peers, by figures that were recorded: nothing is timed here."""

import json
import socket
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench import compare, costs
from bench.peers import document, marks, takes
from bench.peers.acceptance import BARS, judge
from bench.peers.cells import (
    CHANCE,
    FLOOD,
    FULL_TIMES,
    HALF,
    IDLE,
    KIB,
    MEMORY,
    OURS,
    SHORT_TIMES,
    STEADY,
    THEIRS,
    TUNE,
    TUNINGS,
    Cell,
    Stop,
    full,
    seconds,
    short,
)
from bench.peers.client import facts
from bench.peers.corosync import window_of
from bench.peers.ledger import TAIL_SAMPLES, Entry, Ledger

MADE = b"MSG _INBOX.make.a 1 2\r\n{}\r\n"
ABOUT = {"cores": 2, "corosync": "3.1.7"}
BATCH, THEIR = Cell(FLOOD, OURS, way="batch"), Cell(FLOOD, THEIRS)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return one with what was seen on a machine with two cores."""
    made = Ledger(tmp_path / "results.jsonl", ABOUT)
    for turn, (ours, theirs) in enumerate(
        [(585_867, 59_632), (436_400, 46_416), (335_067, 83_227)]
    ):
        made.add(Entry(BATCH, turn, {"delivered_per_s": ours, "daemons_cpu_us": 2.5}))
        made.add(Entry(THEIR, turn, {"delivered_per_s": theirs, "daemons_cpu_us": 20}))
    made.add(Entry(Cell(STEADY, OURS), 0, {"samples_us": [978, 900, 1_100]}))
    made.add(Entry(Cell(STEADY, THEIRS), 0, {"samples_us": [667, 500, 900]}))
    return made


def verdict(ledger: Ledger, name: str) -> tuple[float, bool | None]:
    one = next(one for one in judge(ledger) if one.bar.name == name)
    return round(one.value or 0, 3), one.holds


def test_a_run_that_is_started_again_goes_on_behind_its_last_whole_line(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"cell": {"kind": "flood", "sys')  # killed while it wrote
    again = Ledger(path, {"cores": 64})
    assert again.entries == ledger.entries
    assert again.about == ABOUT
    assert path.read_text() == whole
    assert again.has(BATCH, 2)
    assert not again.has(BATCH, 3)
    again.add(Entry(BATCH, 3, {"delivered_per_s": 1}))
    assert Ledger(path, ABOUT).has(BATCH, 3)


def test_what_is_measured_is_left_out(ledger: Ledger) -> None:
    run = object.__new__(compare.Comparison)  # without a compiler
    run._ledger = ledger
    assert run._left(Stop(2, (BATCH, Cell(CHANCE, OURS)))).cells == (Cell(CHANCE, OURS),)
    assert run._left(Stop(3, (BATCH,))).cells == (BATCH,)


def test_bars_are_judged_by_medians_and_what_was_not_measured_is_neither(ledger: Ledger) -> None:
    batch = "3 nodes, MTU 1500, 100 B, by batch: delivered/s"
    assert verdict(ledger, batch) == (7.318, False)
    assert verdict(ledger, "p50 at 100/s, 100 B") == (1.466, False)
    cpu = "CPU of the daemons for a delivered message of 100 B"
    assert verdict(ledger, cpu) == (0.125, True)
    assert verdict(ledger, "fail-over") == (0, None)


def test_every_bar_is_measured_by_a_run() -> None:
    measured = {cell for stop in [*short(5), *full(5)] for cell in stop.cells}
    for bar in BARS:
        assert bar.ours in measured, bar
        assert bar.theirs is None or bar.theirs in measured, bar
    at_once = {cell for stop in short(5) for cell in stop.cells}
    assert {bar.name for bar in BARS if bar.ours not in at_once} == {
        bar.name for bar in BARS if bar.ours.kind == MEMORY
    }


def test_the_short_run_takes_at_most_forty_minutes() -> None:
    assert seconds(short(5), SHORT_TIMES) < 40 * 60
    assert seconds(full(5), FULL_TIMES) > seconds(short(5), SHORT_TIMES)


def test_systems_alternate_and_take_turns() -> None:
    stops = [stop for stop in short(5) if stop.cells[0].kind == FLOOD and stop.cells[0].nodes == 8]
    assert [stop.turn for stop in stops] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [stop.cells[0].system for stop in stops][:4] == [OURS, THEIRS, THEIRS, OURS]


def test_half_of_the_saturation_comes_after_the_flood_that_tells_it() -> None:
    for stops in (short(1), full(1)):
        order = [cell for stop in stops for cell in stop.cells]
        for cell in order:
            if cell.kind == HALF:
                assert order.index(takes.flood_of(cell)) < order.index(cell)


def test_the_settings_that_made_corosync_fastest_are_used(ledger: Ledger) -> None:
    assert set(TUNINGS) == {"usual", "window", "wide", "path"}
    for name, small, large in (("usual", 50, 30), ("window", 60, 29), ("wide", 61, 20)):
        for size, rate in ((100, small), (KIB, large)):
            cell = Cell(TUNE, THEIRS, 3, 9_000, size, name)
            ledger.add(Entry(cell, 0, {"delivered_per_s": rate}))
    ledger.add(Entry(Cell(TUNE, THEIRS, 3, 9_000, 100, "path"), 0, {"failed": "no ring"}))
    assert compare.best_tuning(ledger, 9_000) == "window"


def test_tables_have_medians_and_spread(ledger: Ledger) -> None:
    told = document.throughput(ledger)
    assert (
        "| 3 | 1500 | 100 B | 436,400 (335,067–585,867) |  | 59,632 (46,416–83,227) | 7.32 |"
        in told
    )
    assert "| 3 | 1500 | 100 B | 2.50 (2.50–2.50) | 20.00 (20.00–20.00) | 0.12 |" in document.cpu(
        ledger
    )
    assert "| evensong | 978 | 1,100 | 1,100 |  | 3 |" in document.latency(ledger)
    ledger.add(Entry(Cell(HALF, OURS, way="batch"), 0, {"samples_us": [5], "rate": 9}))
    assert "| evensong, clients in Python | 5 | 5 | 5 |  | 1 |" in document.latency(ledger)
    assert "| ≥ 10 | ≥ 15 | 7.32 | MISSED |" in document.bars(judge(ledger))


def test_the_picture_shows_the_half_with_like_clients(ledger: Ledger) -> None:
    for cell, took in ((Cell(HALF, OURS), 7), (Cell(HALF, OURS, way="batch"), 99)):
        ledger.add(Entry(cell, 0, {"samples_us": [took], "rate": 9}))
    ledger.add(Entry(Cell(HALF, THEIRS), 0, {"samples_us": [8], "rate": 9}))
    *_, half = compare._latency_groups(ledger)
    assert half == ("3 nodes, 1500, half", [7, 7, 8, 8])


def test_one_in_a_thousand_is_told_from_twenty_thousand_samples_on(ledger: Ledger) -> None:
    cell = Cell(CHANCE, OURS, size=KIB)
    ledger.add(Entry(cell, 0, {"samples_us": list(range(TAIL_SAMPLES - 1))}))
    assert "p99.9" not in ledger.latency(cell)
    ledger.add(Entry(cell, 1, {"samples_us": [5]}))
    assert ledger.latency(cell)["p99.9"] == 19_979


def test_a_run_that_is_done_again_replaces_its_part_of_the_document() -> None:
    begin, end = document.marks_of("bench-peers")
    page = f"before\n\n{begin}\n{end}\n\nafter\n"
    once = document.replaced(page, "bench-peers", "first")
    assert once == f"before\n\n{begin}\n\nfirst\n\n{end}\n\nafter\n"
    assert document.replaced(once, "bench-peers", "second") == once.replace("first", "second")
    for wrong in ("nothing", f"{end} {begin}", f"{begin} {begin} {end}", f"{begin} {end} {begin}"):
        with pytest.raises(ValueError, match="no part between"):
            document.replaced(wrong, "bench-peers", "first")


def test_the_document_has_a_place_for_each_run() -> None:
    page = Path("docs/performance.md").read_text()
    for name in ("bench-peers", "bench-peers-full"):
        assert document.replaced(page, name, "first") != page


def test_tables_and_pictures_go_into_the_document(ledger: Ledger, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(document.marks_of("bench-peers")))
    ledger.add(Entry(Cell(FLOOD, THEIRS, size=KIB), 0, {"failed": "no <ring>"}))
    for turn, cores in enumerate((0.1, 0.04)):
        noise = {"others_cores": cores, "stolen_cores": 2 * cores}
        ledger.add(Entry(Cell(IDLE, OURS), turn, {"noise": noise}))
    compare.write(ledger, judge(ledger), page, "bench-peers")
    told = page.read_text()
    assert "Other things took 0.07 (0.04–0.10) cores meanwhile; the host" in told
    assert "machine took 0.14 (0.08–0.20)." in told
    assert "- corosync: flood, 3 nodes, MTU 1500, 1024 B: no <ring>" in told
    for file in ("bench-peers-rates.svg", "bench-peers-latencies.svg"):
        assert f"]({file})" in told
        drawing = ElementTree.fromstring((tmp_path / file).read_text())
        assert drawing.tag.endswith("svg")
        assert "http" not in (tmp_path / file).read_text().replace("http://www.w3.org/2000/svg", "")


def test_what_was_measured_is_judged_without_root(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--judge", "--json", "--results", str(tmp_path / "results.jsonl")]
    assert compare.main(words) == 1  # a bar is missed
    told = json.loads(capsys.readouterr().out)
    assert told["bars"]["fail-over"] == {"value": None, "bound": 0.6, "holds": None}
    assert told["latencies_us"]["corosync: steady, 3 nodes, MTU 1500, 100 B"]["p50"] == 667
    assert len(told["cells"]) == len(ledger.entries)


def test_samples_are_thinned_by_chance_and_kept_in_order() -> None:
    assert takes.thinned([3, 1, 2], 3) == [1, 2, 3]
    kept = takes.thinned(list(range(1_000, 0, -1)), 100)
    assert len(kept) == 100
    assert kept == sorted(kept)


def test_a_clients_last_line_counts_when_it_is_whole() -> None:
    told = "view 5 1 2 3\ndelivered 1000 70\ndelivered 2000 170\ndelivered 30"
    assert facts(told, "delivered") == [[1_000, 70], [2_000, 170]]
    assert [window_of(size) for size in (64, KIB, 8 * KIB, 64 * KIB, KIB * KIB)] == [
        500,
        500,
        200,
        50,
        4,
    ]


def test_what_a_redis_answers_is_understood() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(
            b"+PONG\r\n:7\r\n*-1\r\n"
            b"*1\r\n*2\r\n$5\r\nbench\r\n*2\r\n*2\r\n$3\r\n1-0\r\n*0\r\n*2\r\n$3\r\n1-1\r\n*0\r\n"
            b"-ERR no such command\r\n"
        )
        replies = marks.Replies(here)
        assert [replies.next(), replies.next()] == [b"PONG", 7]
        assert marks.names_of(replies.next()) == []
        assert marks.names_of(replies.next()) == [b"1-0", b"1-1"]
        with pytest.raises(OSError, match="no such command"):
            replies.next()
    assert marks.command(b"XADD", b"m") == b"*2\r\n$4\r\nXADD\r\n$1\r\nm\r\n"


def test_what_a_nats_server_says_is_understood_and_its_pings_are_answered() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"INFO {}\r\nPING\r\nMSG _INBOX.0.a 1 4\r\n{ok}\r\n-ERR 'no'\r\n")
        subject = marks.Subject(here, b"_INBOX.0")
        assert subject.next() == b"{ok}"
        with pytest.raises(OSError, match="no"):
            subject.next()
        subject.publish(b"bench", b"ab", 2)
        told = there.recv(1_000)
        assert told.startswith(b'CONNECT {"verbose":false}\r\nSUB _INBOX.0.* 1\r\nPONG\r\n')
        assert told.endswith(b"PUB bench _INBOX.0.a 2\r\nab\r\n" * 2)


def test_a_nats_server_that_has_no_leader_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "ANSWERS_S", 0.05)
    asked: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        for answer in (b"", b'MSG _INBOX.make.a 1 15\r\n{"error": "no"}\r\n', MADE):
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"INFO {}\r\n")
                asked.append(connection.recv(1_000))
                connection.sendall(answer)
                while connection.recv(1_000):  # until whoever asked has gone
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=(listening,), daemon=True)
        server.start()
        marks._make_stream(listening.getsockname()[1], 3)
        server.join(10)
    assert len(asked) == 3


def test_costs_are_told_beside_the_first_way_of_their_kind() -> None:
    turns = [{"delivered_per_s": rate, "daemons_us": 2.0} for rate in (400.0, 900.0, 500.0)]
    assert costs.medians(turns) == {"delivered_per_s": 500.0, "daemons_us": 2.0}
    told = costs.table({"sealing": {"sealed": turns[0], "insecure": turns[2]}})
    assert told.splitlines()[1].split() == [
        "sealing",
        "insecure",
        "delivered_per_s",
        "500.00",
        "(1.25),",
        "daemons_us",
        "2.00",
        "(1.00)",
    ]
