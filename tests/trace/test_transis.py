"""A run of the second engine goes to files, comes back as it was, and is judged as one."""

from pathlib import Path

import pytest

from evensong.cli.main import main
from evensong.core.effects import Service
from evensong.sim.run import run_recorded
from evensong.sim.transis.judge import check
from evensong.sim.transis.swarm import swarm
from evensong.trace.parquet import read_trace, write_trace


def test_services_reduced_messages_and_windows_survive_the_way_through_files(
    tmp_path: Path,
) -> None:
    _, history = run_recorded(swarm(2, 4, 120))
    write_trace(history, tmp_path, "2")
    (read,) = read_trace(tmp_path).values()
    assert read.lives.keys() == history.lives.keys()
    services = set()
    for name, life in history.lives.items():
        again = read.lives[name]
        assert again.deliveries == life.deliveries
        assert again.sends == life.sends
        assert [event.etype for event in again.events] == [event.etype for event in life.events]
        services |= {row.service for row in life.deliveries}
    assert services >= {Service.AGREED}
    assert check(read) == check(history)


def test_a_trace_is_held_to_what_its_own_engine_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, history = run_recorded(swarm(2, 4, 120))
    write_trace(history, tmp_path, "2")
    assert main(["trace", "check", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "LA1" in told  # of Transis
    assert "EVS7.1" not in told  # of a ring
