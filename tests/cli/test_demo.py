"""The demonstration on real daemons: played, judged, told, broken and interrupted."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evensong.cli import demo
from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VIOLATION,
)
from evensong.cli.main import main
from evensong.cli.summary import PROMISES
from evensong.cli.up import Cluster
from evensong.core.engine import ENGINES, TOTEM, TRANSIS
from evensong.demo import play
from evensong.demo.play import Narrator, Play, Record
from evensong.errors import SparkUnavailable
from evensong.sim.campaign import Task
from evensong.sim.history import History
from evensong.sim.rules import LANSIS, RING
from evensong.sim.run import run_recorded
from evensong.sim.swarm import swarm
from evensong.spark.properties import BY_ENGINE
from evensong.trace.directory import read_directory
from evensong.trace.parquet import write_trace
from tests.daemon.local import DEADLINE_S, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Performing = Callable[[Path, argparse.Namespace, Narrator], Record]
SHORT = ["--calm", "0.4", "--no-report"]
ALL = [1, 2, 3, 4, 5]


def running_below(directory: Path) -> list[str]:
    """Return the command lines of processes that name a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it ended meanwhile
        if str(directory) in line:
            found.append(line)
    return found


def replaying(source: Path, record: Record) -> Performing:
    """Return a performance whose daemons have left the traces that lie there."""

    def perform(directory: Path, args: argparse.Namespace, live: Narrator) -> Record:
        shutil.copytree(source, directory, dirs_exist_ok=True)
        return record

    return perform


def plant_another_order(trace: Path) -> None:
    """Let a daemon's trace say that it delivered two messages the other way round."""
    [(whose, lives)] = read_directory(trace).items()
    history = History()
    for one in lives:
        history.lives[one.life.node, one.life.incarnation] = one.life
    rows = lives[-1].life.deliveries
    at = next(n for n in range(len(rows) - 1) if rows[n].conf_no == rows[n + 1].conf_no)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    shutil.rmtree(trace)
    write_trace(history, trace, whose[0])


def test_daemons_are_hurt_and_their_traces_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[Record] = []
    performing = demo._perform

    def perform(directory: Path, args: argparse.Namespace, live: demo._Live) -> Record:
        records.append(performing(directory, args, live))
        return records[-1]

    monkeypatch.setattr(demo, "_perform", perform)
    kept = tmp_path / "kept"
    code = main(["demo", "--json", *SHORT, "--keep", str(kept)])
    printed = capsys.readouterr()
    assert code == EXIT_OK, printed
    assert running_below(kept) == []
    check_told(printed.err)
    check_result(json.loads(printed.out))
    assert main(["trace", "check", str(kept)]) == EXIT_OK
    assert "left in good order" in (kept / "n3" / "log").read_text()

    monkeypatch.setattr(demo, "_perform", replaying(kept, records[0]))
    capsys.readouterr()
    assert main(["demo", "--no-report"]) == EXIT_OK
    told = capsys.readouterr().out
    assert "every promise was kept" in told
    assert "after" in re.findall(r"n3 was killed.*\n.*noticed (.*) by n\d: ", told)[0]
    assert "the same order at each" in told

    plant_another_order(kept / "n2" / "trace")
    assert main(["demo", "--no-report"]) == EXIT_VIOLATION
    told = capsys.readouterr().out
    assert "BROKEN   EVS6.1" in told
    assert "BROKEN   all deliver in one order" in told
    assert "NOT every promise was kept" in told
    assert main(["demo", "--json", "--no-report"]) == EXIT_VIOLATION
    result = json.loads(capsys.readouterr().out)
    assert result["kept"] is False
    assert result["violations"] > 0


def test_the_second_engine_is_hurt_and_judged_by_what_it_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = tmp_path / "kept"
    words = ["demo", "--engine", "transis", "--json", "--keep", str(keep), *SHORT]
    assert main(words) == EXIT_OK
    printed = capsys.readouterr()
    assert "their traces are held against what Transis promises" in printed.err
    told = json.loads(printed.out)
    assert told["kept"]
    assert told["violations"] == 0
    assert "EVS4" not in told["properties"]
    for name in ("LV1", "LV2", "LC1", "LA1", "LS1", "LM1", "LW1"):
        assert told["properties"][name]["checked"] > 0, name
    acts = {one["act"] for one in told["changes"] if one["act"]}
    assert acts == {"start", "kill", "restart", "partition", "merge"}
    (killed,) = [one for one in told["changes"] if one["act"] == "kill"]
    assert killed["cause"] == "silent"


def test_without_spark_there_is_no_report_and_all_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SparkUnavailable("there is no Java here")

    args = argparse.Namespace(no_report=False, engine=None, report=None, keep=tmp_path)
    monkeypatch.setattr("evensong.demo.reported.report_on", fail)
    assert demo._report(tmp_path, args, demo._Live(None)) is None
    assert "no report: there is no Java here" in capsys.readouterr().out
    args.no_report = True
    assert demo._report(tmp_path, args, demo._Live(None)) is None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_the_demonstration_ends_with_a_report(
    engine: str,
    spark: "SparkSession",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = swarm(3) if engine == TOTEM else Task(3, messages=60, engine=engine).setup()
    _, history = run_recorded(setup)
    write_trace(history, tmp_path / "n1" / "trace", "up")
    args = argparse.Namespace(no_report=False, engine=engine, report=None, keep=tmp_path)
    reported = demo._report(tmp_path, args, demo._Live(None))
    assert reported is not None
    assert reported.page == tmp_path / "report.html"
    assert reported.is_kept()
    assert reported.n_properties == len(BY_ENGINE[engine])
    page = reported.page.read_text(encoding="utf-8")
    assert ("one order in a view" in page) is (engine == TRANSIS)
    assert "the traces of this demonstration" in page
    assert str(tmp_path) not in page


def check_told(narration: str) -> None:
    steps = (
        "5 daemons start: n1 n2 n3 n4 n5",
        "n1 n2 n3 n4 n5 are one ring",
        "n3 is killed: kill -9",
        "n1 n2 n4 n5 are one ring",
        "n3 is started again",
        "the network is split: n1 n2 n3 | n4 n5",
        "n4 n5 are one ring",
        "the network is healed",
        "every daemon is told to stop",
    )
    places = [narration.find(f"  {step}") for step in steps]
    assert -1 not in places, narration
    assert places == sorted(places)
    assert "\x1b" not in narration
    assert "\r" not in narration


def check_result(result: dict[str, object]) -> None:
    assert result["kept"] is True
    assert result["trouble"] == ""
    assert result["nodes"] == ALL
    assert result["violations"] == 0
    assert result["complete"] is True
    numbers = {name: result[name] for name in ("messages", "deliveries", "messages_per_second")}
    assert all(isinstance(number, int) and number > 0 for number in numbers.values()), numbers
    latency = result["latency_ms"]
    assert isinstance(latency, dict)
    assert latency.keys() == {"agreed", "safe"}
    for one in latency.values():
        assert one["samples"] > 0
        assert 0 < one["p50"] <= one["p99"]
    last = result["last_ring"]
    assert isinstance(last, dict)
    assert last["members"] == ALL
    assert last["equal_orders"] is True
    assert last["messages"] > 0
    properties = result["properties"]
    assert isinstance(properties, dict)
    assert {one["status"] for one in properties.values()} <= {"pass", "inconclusive", "vacuous"}
    for name in ("EVS1.1", "EVS3", "EVS4", "EVS6.3", "TM1", "TG"):
        assert properties[name]["checked"] > 0
    check_changes(result["changes"])


def check_changes(changes: object) -> None:
    """Each thing that was done led to the rings it should lead to, perhaps by detours."""
    assert isinstance(changes, list)
    wanted: tuple[tuple[str, list[int], list[int]], ...] = (
        ("start", ALL, []),
        ("kill", [1, 2, 4, 5], [3]),
        ("restart", ALL, []),
        ("partition", [1, 2, 3], [4, 5]),
        ("partition", [4, 5], [1, 2, 3]),
        ("merge", ALL, []),
    )
    for act, members, left in wanted:
        found = [one for one in changes if one["act"] == act and one["members"] == members]
        assert found, (act, members, changes)
        assert set(found[-1]["left"]) <= set(left)
        assert found[-1]["recover_ms"] > 0
        assert found[-1]["detect_ms"] is None or act != "start"


def test_every_property_is_part_of_one_promise() -> None:
    promised = sorted(name for names in PROMISES.values() for name in names)
    assert promised == sorted({*RING.properties, *LANSIS.properties})


def test_a_daemon_that_dies_by_itself_is_told_and_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Play) -> None:
        first = next(iter(self._cluster.processes.values()))
        first.kill()
        first.wait()
        self._be_calm(self._calm_s)

    monkeypatch.setattr(Play, "_kill", die)
    kept = tmp_path / "kept"
    words = ["demo", *SHORT, "--nodes", "4", "--keep", str(kept)]
    assert main(words) == EXIT_VIOLATION
    assert "NOT every promise was kept: n1 has stopped by itself" in capsys.readouterr().out
    assert running_below(kept) == []


def test_a_daemon_that_does_not_leave_in_good_order_is_told_and_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill_all(self: Cluster) -> None:
        for config in list(self.processes):
            one = self.processes[config]
            self.kill(config)
            self.processes[config] = one

    monkeypatch.setattr(Play, "go_on", lambda self: None)
    monkeypatch.setattr(Cluster, "stop", kill_all)
    words = ["demo", "--json", "--no-report", "--nodes", "4", "--keep", str(tmp_path / "kept")]
    assert main(words) == EXIT_VIOLATION
    assert "n1 ended with -9" in json.loads(capsys.readouterr().out)["trouble"]


def test_a_reader_that_leaves_leaves_no_daemon_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evensong.cli.main", "demo", *SHORT, "--keep"]
    kept = tmp_path / "kept"
    with subprocess.Popen([*command, str(kept)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE_S) == EXIT_PIPE
    assert running_below(kept) == []


def test_daemons_that_cannot_start_are_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "SETTINGS", "nonsense = true\n")
    kept = tmp_path / "kept"
    assert main(["demo", "--keep", str(kept)]) == EXIT_UNREACHABLE
    assert "nonsense" in capsys.readouterr().err
    assert running_below(kept) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "evensong.cli.main", "demo", "--calm", "60"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert any("keeps the ledger" in line for line in process.stdout)
            assert len(running_below(tmp_path)) == len(ALL)
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == EXIT_INTERRUPTED
        finally:
            process.kill()
    wait_for("the daemons to be gone", lambda: running_below(tmp_path) == [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--nodes", "3"], "not within 4 to 16"),
        (["--nodes", "many"], "not within 4 to 16"),
        (["--calm", "-1"], "not within 0.1 to 60 seconds"),
        (["--calm", "nan"], "not within 0.1 to 60 seconds"),
        (["--seed", "2"], "--seed: only with --simulated"),
        (["--simulated", "--nodes", "5"], "--nodes: only without --simulated"),
    ],
)
def test_bad_input_is_refused(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["demo", *words])
    except SystemExit as stopped:
        code = stopped.code
    assert code == EXIT_USAGE
    assert problem in capsys.readouterr().err


def test_what_lies_in_a_directory_is_not_mixed_with_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n1").mkdir()
    assert main(["demo", "--keep", str(tmp_path)]) == EXIT_USAGE
    assert "takes a new or an empty directory" in capsys.readouterr().err
