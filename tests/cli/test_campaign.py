"""`evensong campaign`, on the session that the tests share and in processes of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VIOLATION,
)
from evensong.cli.main import main
from evensong.sim.campaign import Done
from evensong.sim.coverage import REACHABLE
from evensong.spark import auditing
from evensong.spark.campaign import conduct
from evensong.spark.campaign.conduct import Conductor
from evensong.spark.campaign.plan import SEEDS_PER_PART, Campaign
from evensong.spark.campaign.tasks import Ran, run_seeds
from evensong.trace.parquet import read_trace
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Seeds
from tests.mutants.run import SOURCES

SMALL = ["--nodes", "3", "--messages", "30"]
TOTAL = SEEDS_PER_PART * 2
TINY = ["--seeds", f"0:{TOTAL}", "--nodes", "2", "--messages", "3", "--json"]
OWN_SESSION = ["--driver-memory", "1g", "--conf", "spark.sql.shuffle.partitions=1"]
MUTANT = next(one for one in MUTANTS if one.name == "released before it is everywhere")


def campaign(*words: str) -> int:
    return main(["campaign", *words])


def last_object(printed: str) -> dict[str, object]:
    value = json.loads(printed.splitlines()[-1])
    assert isinstance(value, dict)
    return value


def tables(directory: Path) -> dict[str, object]:
    """Return what the seeds alone decide: every table, without what is measured."""
    runs = pq.read_table(directory / "runs").drop_columns(["seconds"]).sort_by("seed")
    verdicts = pq.read_table(directory / "verdicts")
    order = [("run_id", "ascending"), ("property", "ascending"), ("judge", "ascending")]
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    return {
        "runs": runs.to_pylist(),
        "verdicts": verdicts.sort_by(order).to_pylist(),
        "summary": summary,
    }


def test_a_campaign_is_summed_up_and_kept(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_too = ["--keep-traces", "2", "--no-audit"]
    words = ["--seeds", "0:6", "--output", str(tmp_path), *kept_too, *SMALL]
    assert campaign(*words) == EXIT_OK
    told = capsys.readouterr().out
    assert re.search(r"^Spark was ready after \d+\.\d s$", told, re.MULTILINE)
    assert re.search(r"^6 runs \(0:6\) in \d+\.\d s: every promise kept$", told, re.MULTILINE)
    assert f"of {len(REACHABLE)} pairs that can happen" in told
    assert "never: " in told
    assert "rarest, in runs: " in told
    assert told.endswith(f"kept in {tmp_path}\n")
    assert sorted(read_trace(tmp_path / "traces")) == ["0", "3"]
    kept = tables(tmp_path)
    verdicts = kept["verdicts"]
    assert isinstance(verdicts, list)
    one = next(row for row in verdicts if (row["run_id"], row["property"]) == ("5", "EVS1.2"))
    assert (one["judge"], one["status"], one["samples"]) == ("simulator", "pass", [])
    assert one["n_checked"] > 0

    # Once more: everything is there, and nothing is done again.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    assert campaign(*words) == EXIT_OK
    assert f"6 runs found in {tmp_path}" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()} == before
    assert tables(tmp_path) == kept


def test_json_is_what_sim_says_and_more(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert campaign("--seeds", "0:5", "--output", str(tmp_path), "--json", *SMALL) == EXIT_OK
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1
    result = last_object(printed)
    assert main(["sim", "--seeds", "0:5", "--jobs", "1", "--json", *SMALL]) == EXIT_OK
    said_by_sim = last_object(capsys.readouterr().out)
    for key in said_by_sim.keys() - {"seconds", "trouble"}:
        assert result[key] == said_by_sim[key], key
    assert result["found"] == 0
    assert result["output"] == str(tmp_path)
    assert (result["traces"], result["shrunk"]) == ([], [])
    assert isinstance(result["session_seconds"], float)


def test_a_trace_that_is_kept_goes_through_the_audit(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A few properties are enough here: each costs Spark some queries, however small the trace.
    few = partial(auditing.run_audit, properties=["EVS1.2", "EVS4", "TM1"])
    monkeypatch.setattr(auditing, "run_audit", few)
    words = ["--seeds", "0:2", "--output", str(tmp_path), "--keep-traces", "1", *SMALL]
    assert campaign(*words) == EXIT_OK
    assert "1 trace judged by the audit, too: it agrees" in capsys.readouterr().out
    rows = pq.read_table(tmp_path / "verdicts").to_pylist()
    audited = {row["property"]: row for row in rows if row["judge"] == "audit"}
    assert {row["run_id"] for row in audited.values()} == {"0"}
    assert audited["EVS1.2"]["status"] == "pass"
    simulated = {
        row["property"] for row in rows if (row["judge"], row["run_id"]) == ("simulator", "0")
    }
    assert simulated > audited.keys() == {"EVS1.2", "EVS4", "TM1"}


def test_clients_are_judged_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", "0:2", "--clients", "--output", str(tmp_path), "--json", *SMALL]
    assert campaign(*words) == EXIT_OK
    result = last_object(capsys.readouterr().out)
    properties = result["properties"]
    assert isinstance(properties, dict)
    assert properties["G1"]["pass"] == 2
    assert "happened" in result


def test_the_second_engine_is_judged_by_what_it_promises(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = partial(auditing.run_audit, properties=["EVS1.2", "LA1", "LM1"])
    monkeypatch.setattr(auditing, "run_audit", few)
    words = ["--seeds", "0:3", "--engine", "transis", *SMALL]
    where = ["--output", str(tmp_path), "--keep-traces", "1", "--json"]
    assert campaign(*words, *where) == EXIT_OK
    result = last_object(capsys.readouterr().out)
    assert result.pop("audit") == {"runs": 1, "disagreements": [], "refused": []}
    assert result.pop("traces") == ["0"]
    assert main(["sim", "--jobs", "1", "--json", *words]) == EXIT_OK
    said_by_sim = last_object(capsys.readouterr().out)
    for key in said_by_sim.keys() - {"seconds", "trouble"}:
        assert result[key] == said_by_sim[key], key
    properties = result["properties"]
    assert isinstance(properties, dict)
    assert properties["LA1"]["pass"] == 3
    assert "EVS4" not in properties
    assert campaign("--seeds", "0:3", *SMALL, "--output", str(tmp_path)) == EXIT_USAGE
    assert "its engine is transis, not totem" in capsys.readouterr().err


def test_a_directory_that_is_taken_is_refused_in_a_sentence(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", "0:2", *SMALL]
    assert campaign(*words, "--output", str(tmp_path / "one")) == EXIT_OK
    capsys.readouterr()
    assert campaign("--seeds", "0:3", *SMALL, "--output", str(tmp_path / "one")) == EXIT_USAGE
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "another campaign is there, its seeds is 0:2, not 0:3" in told
    assert campaign(*words, "--output", str(tmp_path)) == EXIT_USAGE
    assert "holds something else, and no campaign" in capsys.readouterr().err


def test_a_lost_run_is_named_is_3_and_is_tried_again(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose_one(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        for ran in run_seeds(campaign, seeds):
            is_lost = ran.done.task.seed == 1
            yield Ran(Done(ran.done.task, None, "it raised: no memory")) if is_lost else ran

    words = ["--seeds", "0:4", "--output", str(tmp_path), *SMALL]
    with monkeypatch.context() as patched:
        patched.setattr(conduct, "Conductor", partial(Conductor, simulate=lose_one))
        assert campaign(*words) == EXIT_UNREACHABLE
        told = capsys.readouterr().out
        assert "every promise kept; 1 further run LOST" in told
        assert "lost: seed 1: it raised: no memory\nrepeat: evensong sim --seed 1 --nodes 3" in told
        assert campaign(*words, "--json") == EXIT_UNREACHABLE
        result = last_object(capsys.readouterr().out)
        assert (result["lost"], result["found"]) == ([1], 3)
        assert result["losses"] == [
            {
                "seed": 1,
                "text": "it raised: no memory",
                "command": "evensong sim --seed 1 --nodes 3 --messages 30",
            }
        ]
    assert campaign(*words, "--json") == EXIT_OK
    assert last_object(capsys.readouterr().out)["runs"] == 4


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--seeds", "5:2"], "there is no seed from 5 up to 2"),
        (["--seeds", "0:9223372036854775807"], "at most 100,000,000 seeds"),
        (["--seeds", "0:2", "--keep-traces", "some"], "'some' is not a whole number"),
        (["--seeds", "0:2", "--conf", "x"], "not of the form"),
        ([], "--seeds"),
    ],
)
def test_bad_usage_is_named(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        campaign(*words)
    assert stopped.value.code == EXIT_USAGE
    assert complaint in capsys.readouterr().err


def own(*words: str) -> list[str]:
    return [sys.executable, "-m", "evensong", "campaign", *words, *OWN_SESSION]


def environment(sources: Path = SOURCES) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}


def until_a_part_is_there(process: "subprocess.Popen[str]", directory: Path) -> None:
    while not list(directory.glob("runs/seeds-*")) and process.poll() is None:
        time.sleep(0.02)
    assert process.poll() is None, "it ended before it could be stopped"


def processes_that_name(directory: Path) -> list[int]:
    """Return the processes with a directory on their command line or in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if str(directory).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended meanwhile, or is none of ours
    return found


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a campaign that was not stopped."""
    directory = tmp_path_factory.mktemp("whole")
    assert campaign(*TINY, "--output", str(directory)) == EXIT_OK
    return directory


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_what_was_stopped_goes_on_and_comes_to_the_same(
    stop: signal.Signals, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = tmp_path / "stopped"
    mark = {**environment(), "EVENSONG_TEST": str(tmp_path)}
    with subprocess.Popen(
        own(*TINY, "--output", str(stopped), "--master", "local[1]"),
        env=mark,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until_a_part_is_there(process, stopped)
            if stop == signal.SIGKILL:
                process.kill()
            else:
                os.killpg(process.pid, stop)
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while processes_that_name(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_that_name(tmp_path) == []
    if stop == signal.SIGINT:
        assert process.returncode == EXIT_INTERRUPTED, err
        result = last_object(out)
        assert result["interrupted"] is True
        assert f"interrupted after {result['runs']} of {TOTAL} runs; the same command goes" in err
        assert "Traceback" not in err

    # It goes on elsewhere, and comes to what comes of it in one piece.
    before = {path: path.stat().st_mtime_ns for path in stopped.glob("runs/seeds-*")}
    assert len(before) == 1
    assert campaign(*TINY, "--output", str(stopped)) == EXIT_OK
    assert last_object(capsys.readouterr().out)["found"] == SEEDS_PER_PART * len(before)
    after = {path: path.stat().st_mtime_ns for path in stopped.glob("runs/seeds-*")}
    assert before.items() < after.items()
    assert tables(stopped) == tables(whole)


@pytest.fixture
def mutated(tmp_path: Path) -> Path:
    """Return sources with a planted bug."""
    copy = tmp_path / "src"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    target = copy / MUTANT.path
    target.write_text(MUTANT.plant(target.read_text(encoding="utf-8")), encoding="utf-8")
    return copy


def test_a_planted_bug_is_found_kept_and_shrunk(mutated: Path, tmp_path: Path) -> None:
    assert isinstance(MUTANT.killer, Seeds)
    output = tmp_path / "found"
    words = ["--seeds", f"{MUTANT.killer.first}:{MUTANT.killer.last}", "--output", str(output)]
    bounds = ["--shrink", "1", "--shrink-seconds", "5", "--no-audit", "--master", "local[2]"]
    command = own(*words, *bounds, "--json")
    found = subprocess.run(
        command, env=environment(mutated), capture_output=True, text=True, check=False
    )
    assert found.returncode == EXIT_VIOLATION, found.stderr
    result = last_object(found.stdout)
    failures, shrunk = result["failures"], result["shrunk"]
    assert isinstance(failures, list)
    assert isinstance(shrunk, list)
    assert result["lost"] == []
    seeds = sorted({str(failure["seed"]) for failure in failures})
    assert seeds
    assert sorted(read_trace(output / "traces")) == seeds == result["traces"]
    assert failures[0]["command"] == f"evensong sim --seed {failures[0]['seed']}"
    rows = pq.read_table(output / "runs").to_pylist()
    assert {str(row["seed"]) for row in rows if row["status"] == "failed"} == set(seeds)

    # The shrunk plan fails by the planted bug and by nothing else.
    (plan,) = shrunk
    repeat = [sys.executable, "-m", *plan["command"].split()]
    bad = subprocess.run(repeat, env=environment(mutated), capture_output=True, check=False)
    assert bad.returncode == EXIT_VIOLATION
    assert main(plan["command"].split()[1:]) == EXIT_OK
