"""`evensong up`: a cluster on this machine, what it says of losses, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evensong import Message
from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.daemon.settings import load
from evensong.sync import connect
from tests.daemon.local import DEADLINE_S, wait_for


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def running(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Run `up` on a directory until the caller is done; give it and its daemons' pids."""
    command = [sys.executable, "-m", "evensong.cli.main", "up", "--json", *options]
    with subprocess.Popen(
        [*command, "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        try:
            assert up.stdout is not None
            told = json.loads(up.stdout.readline())
            yield up, [daemon["pid"] for daemon in told["daemons"]]
        finally:
            up.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_up_leaves_no_daemon_behind(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "cluster"
    with running(directory) as (up, pids):
        assert main(["status", "--all", str(directory)]) == EXIT_OK
        up.send_signal(number)
        assert up.wait(DEADLINE_S) == (EXIT_OK if number == signal.SIGINT else -number)
    assert len(pids) == 3
    wait_for("the daemons to be gone", lambda: not any(map(is_running, pids)))
    assert "left in good order" in (directory / "n1" / "log").read_text()


def rings(directory: Path, capsys: pytest.CaptureFixture[str]) -> list[list[int]]:
    """Return the members of the ring of each daemon that answers."""
    capsys.readouterr()
    main(["status", "--all", "--json", str(directory)])
    return [daemon["members"] for daemon in json.loads(capsys.readouterr().out)["daemons"]]


def test_the_others_go_on_when_one_is_killed_and_up_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "cluster"
    with running(directory) as (up, pids):
        os.kill(pids[2], signal.SIGKILL)
        wait_for("a ring of two", lambda: rings(directory, capsys) == [[1, 2], [1, 2]])
        assert main(["doctor", str(directory / "n1.toml")]) == EXIT_VIOLATION
        found = capsys.readouterr().out.partition("found:")[2]
        assert "n3" in found
        os.kill(pids[0], signal.SIGTERM)
        wait_for("a ring of one", lambda: rings(directory, capsys) == [[2]])
        os.kill(pids[1], signal.SIGTERM)
        assert up.wait(DEADLINE_S) == EXIT_UNREACHABLE
        assert up.stderr is not None
        assert up.stderr.read().splitlines() == [
            f"evensong: n3 was killed by signal 9; start it again: "
            f"evensong daemon {directory / 'n3.toml'}",
            f"evensong: n1 left in good order; start it again: "
            f"evensong daemon {directory / 'n1.toml'}",
            f"evensong: n2 left in good order; start it again: "
            f"evensong daemon {directory / 'n2.toml'}",
            "evensong: no daemon is left",
        ]


def test_a_directory_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, "--nodes", "1") as (up, _):
        assert main(["up", "--dir", str(tmp_path)]) == EXIT_UNREACHABLE
        assert "n1: another daemon uses it" in capsys.readouterr().err
        assert rings(tmp_path, capsys) == [[1]]
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE_S) == EXIT_OK


def test_a_cluster_that_is_there_is_started_as_it_is_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, "--nodes", "2", "--profile", "wan", "--trace", "events") as (up, _):
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE_S) == EXIT_OK
    settings = load(tmp_path / "n2.toml")
    assert (settings.profile, settings.trace) == ("wan", "events")
    for options, said in (
        (["--nodes", "3"], "holds a cluster of 2 nodes, not 3"),
        (["--profile", "fast"], "n1.toml: says wan, not --profile fast"),
        (["--trace", "off"], "n1.toml: says events, not --trace off"),
        (["--insecure"], "n1.toml: has keys, against --insecure"),
    ):
        assert main(["up", "--dir", str(tmp_path), *options]) == EXIT_USAGE
        assert said in capsys.readouterr().err
    with running(tmp_path, "--profile", "wan") as (_, pids):
        assert len(pids) == 2


def test_a_cluster_of_the_second_engine_is_used_as_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [str(tmp_path / f"n{node}.toml") for node in (1, 2)]
    with running(tmp_path, "--nodes", "2", "--engine", "transis"):
        with connect(tmp_path / "n2") as es, es.join("g") as group:
            assert main(["send", configs[0], "g", "one", "two", "--safe"]) == EXIT_OK
            events = [group.next_event(DEADLINE_S) for _ in range(3)]
        assert [one.payload for one in events if isinstance(one, Message)] == [b"one", b"two"]
        capsys.readouterr()
        assert main(["status", configs[1]]) == EXIT_OK
        told = capsys.readouterr().out
        assert "stable in view" in told
        assert "token" not in told
        assert main(["config", "check", configs[1]]) == EXIT_OK
        assert 'engine = "transis"' in capsys.readouterr().out
        assert main(["config", "tune", configs[1], "--seconds", "2"]) == EXIT_USAGE
        assert "runs transis, which has no token" in capsys.readouterr().err
    assert main(["up", "--dir", str(tmp_path), "--engine", "totem"]) == EXIT_USAGE
    assert "n1.toml: says transis, not --engine totem" in capsys.readouterr().err


def test_impatience_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evensong", "up", "--nodes", "2", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as up:
        assert up.stdout is not None
        assert json.loads(up.stdout.readline())["directory"].startswith(str(tmp_path))
        while up.poll() is None and list(tmp_path.iterdir()):
            up.send_signal(signal.SIGINT)
            time.sleep(0.001)
    assert list(tmp_path.iterdir()) == []
