"""What a campaign says when something around it breaks: disks, pipes, processes, numbers."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.core.totem.ring import SingleRing
from evensong.sim import campaign
from evensong.sim.campaign import Done, Task
from evensong.trace.parquet import read_trace

SMALL = ["--nodes", "3", "--messages", "30"]
ALL_SEEDS = ["--seeds", "0:9223372036854775807"]


def sim(*words: str) -> int:
    return main(["sim", *words])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[" * 100_000, "setup: line 1: more than 50 brackets deep"),
        ('{"options": {"nodes": [1, 2], "seed": %s}}' % ("1" * 5_000), "options.seed: a number"),
        ('{"options": {"nodes": [1], "parameters": {"miss_count": 1%s}}}' % ("0" * 19), "<="),
    ],
)
def test_a_plan_out_of_bounds_is_named_and_2(
    content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(content, encoding="utf-8")
    assert sim("--plan", str(plan)) == EXIT_USAGE
    told = capsys.readouterr().err
    assert told.startswith(f"evensong: {plan}: ")
    assert complaint in told


def dying(tasks: Iterator[Task], deaths: int, runs: int) -> Generator[Done]:
    """Stand in for the workers: the first of them die, some others do their work."""
    for _ in range(deaths):
        yield Done(next(tasks), None, "the process that ran it died: SIGKILL")
    for _ in range(runs):
        task = next(tasks)
        yield Done(task, campaign.perform(task))


def test_all_the_seeds_there_are_take_no_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "results", lambda tasks, jobs: dying(iter(tasks), 0, 2))
    assert sim(*ALL_SEEDS, "--json", "--digest", "--trace", str(tmp_path), *SMALL) == EXIT_OK
    result = json.loads(capsys.readouterr().out)
    assert (result["runs"], sorted(result["digests"])) == (2, ["0", "1"])
    assert sim(*ALL_SEEDS, "--trace", str(tmp_path), *SMALL) == EXIT_USAGE
    assert "run_id=0: a trace of that name is already there" in capsys.readouterr().err
    assert sim("--seeds", "2:9223372036854775808", "--trace", str(tmp_path), *SMALL) == EXIT_OK


def test_a_run_that_is_lost_is_no_broken_promise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "results", lambda tasks, jobs: dying(iter(tasks), 2, 1))
    assert sim("--seeds", "4:7", *SMALL) == EXIT_UNREACHABLE
    told = capsys.readouterr().out
    assert told.startswith("1 run (4:7) in ")
    assert "every promise kept; 2 further runs LOST" in told.splitlines()[0]
    assert "lost: seed 4: the process that ran it died: SIGKILL" in told
    assert "repeat: evensong sim --seed 5 --nodes 3 --messages 30" in told
    assert sim("--seeds", "4:7", "--json", *SMALL) == EXIT_UNREACHABLE
    result = json.loads(capsys.readouterr().out)
    assert (result["lost"], result["violations"], result["runs"]) == ([4, 5], 0, 1)


def test_when_all_are_lost_nothing_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "results", lambda tasks, jobs: dying(iter(tasks), 12, 0))
    assert sim("--seeds", "0:12", *SMALL) == EXIT_UNREACHABLE
    told = capsys.readouterr().out
    assert "nothing is known; 12 further runs LOST" in told
    assert told.endswith("and 2 more; --json lists all\n")


def test_a_broken_promise_counts_for_more_than_a_lost_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> None:
        raise OverflowError("a number too large")

    monkeypatch.setattr(SingleRing, "submit", stumble)
    monkeypatch.setattr(campaign, "results", lambda tasks, jobs: dying(iter(tasks), 1, 1))
    assert sim("--seeds", "4:6", "--json", *SMALL) == EXIT_VIOLATION
    result = json.loads(capsys.readouterr().out)
    assert result["lost"] == [4]
    (failure,) = result["failures"]
    assert (failure["seed"], failure["property"]) == (5, "bug")


def fill_after(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full after so many files."""
    write = pq.write_table
    left = iter(range(files))

    def write_table(*what: object, **how: object) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        write(*what, **how)

    monkeypatch.setattr(pq, "write_table", write_table)


def test_a_full_disk_leaves_what_was_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_after(13, monkeypatch)  # three files a processor: the second run gets half of its own
    words = ["--seeds", "0:5", "--jobs", "1", "--trace", str(tmp_path), *SMALL]
    assert sim(*words) == EXIT_USAGE
    told = capsys.readouterr()
    assert told.out.startswith("1 run (0:5) in ")
    assert told.err == (
        f"evensong: {tmp_path}/run_id=1: cannot be written: No space left on device\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run_id=0"]
    assert list(read_trace(tmp_path)) == ["0"]


def test_the_cause_of_the_end_is_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_after(9, monkeypatch)
    words = ["--seeds", "0:5", "--jobs", "1", "--trace", str(tmp_path), "--json", *SMALL]
    assert sim(*words) == EXIT_USAGE
    result = json.loads(capsys.readouterr().out)
    assert result["runs"] == 1
    assert "No space left on device" in result["trouble"]


def test_a_demo_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["demo", "--simulated", "--json", "--out", str(tmp_path)]) == EXIT_OK
    before = sorted(tmp_path.rglob("*"))
    fill_after(4, monkeypatch)
    assert main(["demo", "--simulated", "--json", "--out", str(tmp_path)]) == EXIT_USAGE
    assert "run_id=demo: cannot be written: No space left" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    assert list(read_trace(tmp_path / "trace")) == ["demo"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["sim", "--help"],
        ["sim", "--seed", "1", *SMALL],
        ["demo", "--simulated", "--out", "o"],
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_one_line_and_3(words: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evensong.cli.main", *words],
            env={**os.environ, "PYTHONUNBUFFERED": ""},  # argparse would swallow the error
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == EXIT_UNREACHABLE, done.stderr
    assert done.stderr == "evensong: output: No space left on device\n"


def test_without_an_output_the_exit_code_is_all_there_is() -> None:
    command = f"{sys.executable} -m evensong.cli.main sim --seed 1 {' '.join(SMALL)} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (EXIT_OK, "")
