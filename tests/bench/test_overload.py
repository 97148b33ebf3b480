"""Overload in small: what is bounded is, and nothing is left; never how fast."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import overload
from bench.overload import AGAIN, CALM, CLIENT, WAYS, Load, Overload, Queues, Turn, stopped_often
from bench.peers import document
from tests.bench.processes import descendants

NOISE = {"cores": 2, "others_cores": 0.1, "stolen_cores": 0.0}
BOUNDS = {"to_send": 4 << 20, "to_client": 64 << 20}
TURN = Turn(
    400_000,
    390_000,
    400_000,
    "",
    50_000,
    90_000,
    80_000,
    [0.34, 0.33, 0.33],
    0,
    1,
    7,
    9_000,
    Queues(1 << 20, 2 << 20, 0, 0),
    BOUNDS,
)


def test_what_one_that_is_slow_costs_is_a_ratio_of_its_own_turn() -> None:
    slow = [TURN._replace(delivered_per_s=rate) for rate in (100_000, 300_000)]
    calm = [TURN, TURN._replace(delivered_per_s=600_000)]
    told = Overload(Load(), {CALM: calm, CLIENT: slow}, NOISE)
    assert told.ratios(CLIENT, "delivered_per_s") == [0.25, 0.5]
    assert json.loads(told.as_json())["ratios"][CLIENT]["delivered_per_s"] == 0.375
    rows = told.table().splitlines()
    assert "| a slow client | 200,000 (100,000–300,000) | 0.38 (0.25–0.50) |" in rows[3]
    bounded = [row for row in rows if "of 65,536" in row]
    assert bounded[1] == (
        "| a slow client | 1,024 of 4,096 | 2,048 of 65,536 | 0.330–0.340 | 0, 2 | 14 of 18,000 "
        "| 0 of 2 |"
    )


def test_the_largest_queues_of_all_looks_are_kept() -> None:
    def status(to_send: int, *queued: int) -> dict[str, object]:
        sessions = [{"queued": one, "unconsumed": 2 * one} for one in queued]
        return {"backlog": len(queued), "clients": {"to_send": to_send, "sessions": sessions}}

    seen = Queues()
    for one in (status(5, 1, 9), status(7, 3), status(2)):
        seen = seen.with_status(one)
    assert seen == Queues(7, 9, 18, 2, 3)


def test_the_document_has_a_place_for_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(Path("docs/performance.md").read_text())
    overload.write(Overload(Load(), {CALM: [TURN]}, NOISE), page)
    assert "| undisturbed | 400,000 | 1.00 |" in page.read_text()
    begin, end = document.marks_of(overload.NAME)
    assert page.read_text().count(begin) == page.read_text().count(end) == 1


def test_a_process_that_is_stopped_often_runs_afterwards() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = Path("/proc", str(process.pid), "stat")
    seen = set()
    try:
        with stopped_often(process.pid):
            until = time.monotonic() + 60
            while "T" not in seen and time.monotonic() < until:
                time.sleep(0.001)
                seen.add(state.read_text().rpartition(")")[2].split()[0])
        assert "T" in seen
        assert state.read_text().rpartition(")")[2].split()[0] != "T"
    finally:
        process.kill()
        process.communicate()


def test_two_daemons_are_overloaded_and_what_is_bounded_is() -> None:
    load = Load(2, 100, 2.0, 0.2)  # some looks at queues, however busy the machine
    told = overload.measure([CALM, CLIENT], 1, load)
    for (turn,) in told.turns.values():
        assert turn.delivered_per_s > 0
        assert turn.p50_us > 0
        assert sum(turn.shares) == pytest.approx(1)
        assert turn.queues.looks >= 2
        assert turn.queues.to_send <= turn.bounds["to_send"]
        assert turn.queues.to_client <= turn.bounds["to_client"]
    assert not descendants()


def test_every_way_is_there_once_and_a_second_undisturbed_one() -> None:
    assert len(set(WAYS)) == 5
    assert WAYS[0] == CALM
    assert WAYS[-1] == AGAIN


def test_interrupted_it_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = ["--nodes", "2", "--turns", "1", "--seconds", "60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.overload", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    _wait(lambda: any("bench.eager" in one for one in _running(tmp_path)))  # daemons run as well
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())
    _wait(lambda: not _running(tmp_path))  # a client that was just being started ends by itself


def _wait(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def _running(directory: Path) -> list[str]:
    """Return what runs and names something in this directory."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has ended
            if str(directory) in command:
                found.append(command)
    return found
