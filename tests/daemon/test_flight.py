import json
import signal
from pathlib import Path
from random import Random

from evensong.cli.main import main
from evensong.core.effects import StateChange
from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.core.stable import FIRST_START
from evensong.core.totem.parameters import PROFILES
from evensong.core.totem.ring import SingleRing
from evensong.daemon.flight import BYTES_MAX, ENTRIES_MAX, FILES_MAX, Flight
from evensong.daemon.sight import Sight
from evensong.sim.workload import Queue
from tests.daemon.local import LocalCluster

RING = RingId(4, 1)


def test_what_went_differently_is_remembered_in_order() -> None:
    flight = Flight(9, 3, 1, 7, "demo", "this boot", 300_000)
    flight.install(Configuration(RING, NO_RING, (1, 2), transitional=False, cause="start"), 2)
    flight.look = lambda change, now: Sight(now, "4.1", 8, 5, 11, f"2:{change.about}")
    flight.change_state(StateChange("gather", RING, "token loss", 2, (1, 3), (2,)), 3)
    flight.change_state(StateChange("commit", RING, "consensus", 0), 3)
    ring = SingleRing(1, FIRST_START, 1, PROFILES["lan"], Random(0), Queue(1, 1))
    for _, timer in ring.alarms():
        timer.start(0)
    flight.note_timers(ring.alarms(), 10**9)
    flight.note_drops({"key": 2}, 5)
    flight.note_drops({"key": 2}, 6)
    flight.note_drops({"key": 5, "replay": 1}, 7)
    flight.note_lag(20_000, 8)
    flight.end("fail", 9, "halted")
    told = [list(entry.values())[1:] for entry in flight.entries()]
    assert told == [
        ["start", 9, "0000000000000003", 7, "demo", "this boot", 300_000],
        ["conf", "4.1", False, "1 2", "start"],
        ["state", "gather", "4.1", "token loss", 2, "1 3", "2"],
        ["sight", 3, "4.1", 8, 5, 11, "2:2"],
        ["state", "commit", "4.1", "consensus", 0, "", ""],
        ["timer", "token loss"],
        ["timer", "token retransmit"],
        ["timer", "consensus"],
        ["timer", "join"],
        ["drop", "key", 2],
        ["drop", "key", 3],
        ["drop", "replay", 1],
        ["lag", 20_000],
        ["end", "fail", "halted"],
    ]


def test_the_oldest_is_forgotten_and_the_rest_stays_small(tmp_path: Path) -> None:
    flight = Flight(9, 3, 1)
    for number in range(ENTRIES_MAX + 5):
        flight.change_state(StateChange("gather", RING, "x" * 1_000, number), number)
    entries = flight.entries()
    assert len(entries) == ENTRIES_MAX
    assert [entries[0]["what"], entries[1]["about"]] == ["start", 6]  # whose it is, is kept
    flight.write(tmp_path)
    assert (tmp_path / "flight-9.jsonl").stat().st_size < 4 * 1024 * 1024


def test_a_large_ring_makes_it_remember_fewer_entries_and_all_of_their_members(
    tmp_path: Path,
) -> None:
    flight = Flight(9, 3, 1)
    members = tuple(range(4_000_000_000, 4_000_000_128))
    for number in range(ENTRIES_MAX):
        flight.install(Configuration(RING, NO_RING, members, transitional=False, cause=""), number)
    entries = flight.entries()
    assert 1_000 < len(entries) < ENTRIES_MAX
    assert entries[-1]["members"] == " ".join(map(str, members))
    assert entries[-1]["t_us"] == ENTRIES_MAX - 1
    flight.write(tmp_path)
    assert (tmp_path / "flight-9.jsonl").stat().st_size <= BYTES_MAX


def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    for incarnation in range(95, 103):  # over a change in the number of digits
        Flight(incarnation, 3, 1).write(tmp_path)
    kept = sorted(int(path.stem.removeprefix("flight-")) for path in tmp_path.iterdir())
    assert kept == list(range(103 - FILES_MAX, 103))


def test_without_room_for_it_a_daemon_still_ends(tmp_path: Path) -> None:
    Flight(9, 3, 1).write(tmp_path / "gone")
    assert not list(tmp_path.iterdir())


def test_a_running_daemon_tells_and_a_stopped_one_leaves_a_file(
    tmp_path: Path,
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        entries = cluster.ask(1, do="flight")["entries"]
        assert isinstance(entries, list)
        assert [entry["what"] for entry in entries][:2] == ["start", "conf"]
        assert main(["trace", "flight", str(cluster.config(1))]) == 0
        cluster.signal(1, signal.SIGTERM)
        assert cluster.reap(1) == 0
        (path,) = cluster.state(1).glob("flight-*.jsonl")
        written = [json.loads(line) for line in path.read_text().splitlines()]
        assert written[: len(entries)] == entries
        assert written[-1]["what"] == "end"
        assert written[-1]["how"] == "stop"
