import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evensong.bench import ring
from evensong.bench.floor import RECEIVERS
from evensong.bench.ring import SEALED, TRACED, WAYS, Turn, Way
from evensong.cli.command import EXIT_INTERRUPTED
from evensong.cli.main import main
from tests.daemon.local import DEADLINE_S, wait_for

ADVANCED: list[int] = []


def test_a_ring_is_measured_beside_the_floor() -> None:
    way = TRACED[-1]
    floors, taken = ring.measure((way,), 2, 600, 1, 1, lambda: ADVANCED.append(1))
    assert len(ADVANCED) == 2
    (base,) = floors
    ((turn,),) = taken.values()
    assert base > 0
    assert turn.packets_per_s > 0
    assert turn.cpu_us > 0
    assert 0 < turn.trace_bytes < 600  # less than what was delivered


def receivers(parent: int) -> list[Path]:
    """Return where the processes are shown that it has spawned by `multiprocessing`."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    shown = [Path(f"/proc/{child}") for child in children]
    return [child for child in shown if b"spawn_main" in (child / "cmdline").read_bytes()]


def is_deaf(child: Path) -> bool:
    """Whether it blocks SIGINT."""
    (blocked,) = re.findall(r"SigBlk:\s*(\w+)", (child / "status").read_text())
    return bool(int(blocked, 16) & 1 << signal.SIGINT - 1)


def test_an_interrupt_ends_a_measurement_in_one_line() -> None:
    command = [sys.executable, "-m", "evensong.cli.start", "bench", "ring", "--seconds", "600"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as bench:
        try:
            wait_for("the receivers", lambda: len(receivers(bench.pid)) == RECEIVERS)
            assert all(map(is_deaf, receivers(bench.pid)))
            os.killpg(bench.pid, signal.SIGINT)
            assert bench.wait(DEADLINE_S) == EXIT_INTERRUPTED
            assert bench.stderr is not None
            assert bench.stderr.read() == b"evensong: interrupted\n"
        finally:
            bench.kill()


@pytest.mark.parametrize("what", ["ring", "groups"])
def test_a_measurement_that_is_terminated_leaves_nothing_behind(what: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evensong", "bench", what, "--seconds", "1", "--turns", "100"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as bench:
        try:
            wait_for("a key", lambda: bool(list(tmp_path.glob("evensong-bench-*/cluster.key"))))
            bench.send_signal(signal.SIGTERM)
            # In the middle of an import, the interpreter ends itself by SIGINT after all is done.
            assert bench.wait(DEADLINE_S) in (EXIT_INTERRUPTED, -signal.SIGINT)
        finally:
            bench.kill()
    assert list(tmp_path.glob("evensong-*")) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_datagram_has_the_size_that_was_asked_for(way: Way) -> None:
    from evensong.core.groups.packet import FOREIGN
    from evensong.core.totem.wire import REGULAR_FRAME
    from evensong.core.unit import Origin
    from evensong.daemon.seal import Sealer, make_key

    key = make_key(bytes(32)) if way.is_sealed else None
    unit = Origin(1, 1).unit(FOREIGN + bytes(way.payload(1_400)))
    assert len(Sealer("c", key, 1, 1, 1).seal(bytes(REGULAR_FRAME.size) + unit)) == 1_400


def measured(
    ways: tuple[Way, ...], nodes: int, *_: object
) -> tuple[list[float], dict[Way, list[Turn]]]:
    assert nodes == 3
    turns = [Turn(90_000, 20.0, 0, 24.0), Turn(100_000, 18.0, 2, 36.0), Turn(80_000, 19.0, 0, 12.0)]
    return [50_000.0, 40_000.0, 40_000.0], dict.fromkeys(ways, turns)


def test_each_turn_is_held_against_the_floor_of_the_same_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ring, "measure", measured)
    assert main(["bench", "ring", "--nodes", "3", "--trace", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["floor_per_s"]["median"] == 40_000
    assert len(told["ways"]) == len(WAYS) + len(TRACED)
    way = told["ways"][WAYS.index(SEALED)]
    assert (way["sealed"], way["gso"], way["trace"]) == (True, True, "off")
    assert way["packets_per_s"] == {
        "median": 90_000,
        "min": 80_000,
        "max": 100_000,
        "all": [90_000, 100_000, 80_000],
    }
    assert way["of_floor"]["all"] == [1.8, 2.5, 2.0]
    assert way["of_floor"]["median"] == 2.0
    assert way["view_changes"] == 2
    assert way["trace_bytes_per_100_byte_message"] == 24 / 12
    assert main(["bench", "ring"]) == 0
    table = capsys.readouterr().out
    assert "plain UDP, no order" in table
    assert "2.00 of the floor" in table


@pytest.mark.parametrize("wrong", [["--nodes", "1"], ["--size", "5000"], ["--turns", "x"], []])
def test_bad_input_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "ring", *wrong] if wrong else ["bench", "nothing"]
    try:
        code: object = main(words)
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    told = capsys.readouterr().err
    assert "within" in told or "200 to 1452 bytes" in told or not wrong


@pytest.mark.parametrize(
    ("what", "option"),
    [
        ("ring", ["--api", "message"]),
        ("ring", ["--service", "safe"]),
        ("ring", ["--rate", "0"]),
        ("groups", ["--trace"]),
        ("groups", ["--cores"]),
        ("ring", ["--cores"]),
    ],
)
def test_what_one_measurement_does_not_take_is_refused(
    what: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", what, *option]) == 2
    assert f"{option[0]}: bench {what} does not take it" in capsys.readouterr().err
