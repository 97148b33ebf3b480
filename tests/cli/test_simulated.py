import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evensong.cli import paper, simulated
from evensong.cli.command import EXIT_OK, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.sim.evs import Violation
from evensong.sim.history import History
from evensong.sim.run import Outcome, run_recorded
from evensong.sim.setup import Setup
from evensong.trace.parquet import read_trace

DEMO = [sys.executable, "-m", "evensong.cli.main", "demo", "--simulated"]


def told(out: Path, *words: str, **environment: str) -> str:
    """Run the demo in a process of its own and return what it prints."""
    done = subprocess.run(
        [*DEMO, "--out", str(out), *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_it_is_the_same_story_in_every_process(tmp_path: Path) -> None:
    first = told(tmp_path, PYTHONHASHSEED="1")
    picture = (tmp_path / "demo.svg").read_bytes()
    assert told(tmp_path, PYTHONHASHSEED="2", NO_COLOR="1") == first
    assert (tmp_path / "demo.svg").read_bytes() == picture
    assert "\x1b" not in first
    for stage in ("1  Five", "3  p3 crashes", "5  The network splits", "7  Was every promise"):
        assert stage in first
    assert "all hold, no violation" in first
    assert "detected after" in first


def test_colours_are_for_terminals_and_those_who_want_them(tmp_path: Path) -> None:
    assert "\x1b[" in told(tmp_path, FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[3" not in told(tmp_path, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color")


def test_json_has_the_figures_and_the_files_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--simulated", "--json", "--seed", "4", "--out", str(tmp_path)]) == EXIT_OK
    result = json.loads(capsys.readouterr().out)
    assert result["violations"] == 0
    assert result["messages"] > 500
    assert result["deliveries"] > 3 * result["messages"]
    assert result["messages_per_second"] > 1_000
    not_passed = {name: was for name, was in result["properties"].items() if was != "pass"}
    assert not_passed == {"LV-3": "vacuous"}  # nothing has to be formed in the calm at its end
    assert 5 < result["detection_ms"] < 20
    assert 5 < result["recovery_ms"] < 40
    members = [view["members"] for view in result["views"]]
    assert members[:3] == [[1, 2, 3, 4, 5], [1, 2, 4, 5], [1, 2, 3, 4, 5]]
    assert [1, 2, 3] in members
    assert [4, 5] in members
    assert members[-1] == [1, 2, 3, 4, 5]
    assert result["views"][1]["cause"] == "token loss"
    picture, trace = map(Path, result["files"])
    assert ElementTree.fromstring(picture.read_text(encoding="utf-8")).tag.endswith("svg")
    history = read_trace(trace)["demo"]
    rows = sum(len(life.deliveries) for life in history.lives.values())
    assert rows == result["deliveries"]


def test_a_second_time_takes_the_place_of_the_first(tmp_path: Path) -> None:
    words = ["demo", "--simulated", "--json", "--out", str(tmp_path)]
    assert main(words) == EXIT_OK
    assert main(words) == EXIT_OK
    assert sorted(read_trace(tmp_path / "trace")) == ["demo"]


def test_without_rich_and_pyarrow_it_tells_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["demo", "--simulated", "--out", str(tmp_path)]) == EXIT_OK
    with_both = capsys.readouterr().out.splitlines()
    for module in (paper, simulated):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert main(["demo", "--simulated", "--out", str(tmp_path)]) == EXIT_OK
    without = capsys.readouterr().out.splitlines()
    assert [line for line in with_both if "run_id=" not in line] == without


def test_a_broken_promise_is_told_and_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(setup: Setup) -> tuple[Outcome, History]:
        outcome, history = run_recorded(setup)
        object.__setattr__(outcome, "violations", (Violation("EVS3", "p1 lost its voice"),))
        return outcome, history

    monkeypatch.setattr(simulated, "run_recorded", broken)
    assert main(["demo", "--simulated", "--out", str(tmp_path)]) == EXIT_VIOLATION
    printed = capsys.readouterr().out
    assert "BROKEN  EVS3: p1 lost its voice" in printed
    assert "all hold" not in printed


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file", encoding="utf-8")
    assert main(["demo", "--simulated", "--out", str(taken)]) == EXIT_USAGE
    assert str(taken) in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_broken_promise(tmp_path: Path) -> None:
    command = [*DEMO, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 141
