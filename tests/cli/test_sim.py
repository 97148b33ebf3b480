import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.sim.coverage import REACHABLE
from evensong.sim.setup import setup_to_json
from evensong.sim.swarm import swarm
from evensong.trace.parquet import read_trace

SMALL = ["--nodes", "3", "--messages", "30"]
KEYS = {
    "runs",
    "violations",
    "failures",
    "deliveries",
    "configurations",
    "datagrams",
    "faults",
    "fault_events",
    "runs_with_fault_in_change",
    "runs_with_fault_in_commit_or_recovery",
    "pairs_reached",
    "pairs_unreached",
    "seconds",
    "properties",
    "seeds",
}
# The command line with a broken ring in it: a safe line is taken from a single visit.
PLANTED = """
import sys
from evensong.core.totem.ordering import Ring

def hasty(self, token):
    is_safer = token.aru > self.my_safe and self.buffer.aru >= token.aru
    if is_safer:
        self.my_safe = min(token.seq, self.buffer.aru)
    return is_safer

if __name__ == "__main__":
    Ring.advance_safe_line = hasty
    from evensong.cli.main import main
    sys.exit(main(sys.argv[1:]))
"""


def sim(*words: str) -> int:
    return main(["sim", *words])


def planted(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PLANTED, "sim", "--jobs", "1", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def last_object(printed: str) -> dict[str, object]:
    value = json.loads(printed.splitlines()[-1])
    assert isinstance(value, dict)
    return value


def test_a_clean_campaign_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "0:3", "--jobs", "1", *SMALL) == EXIT_OK
    printed = capsys.readouterr().out
    assert printed.startswith("3 runs (0:3) in ")
    assert "every promise kept" in printed
    assert f"of {len(REACHABLE)} pairs that can happen" in printed
    assert "reproduce" not in printed


def test_json_is_one_object_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "0:3", "--jobs", "1", "--json", *SMALL) == EXIT_OK
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1
    result = last_object(printed)
    assert result.keys() >= KEYS
    assert result["runs"] == 3
    assert result["violations"] == 0
    assert result["failures"] == []
    assert result["seeds"] == "0:3"
    faults, events = result["faults"], result["fault_events"]
    assert isinstance(faults, dict)
    assert isinstance(events, dict)
    assert faults["calm"] == events["calm"] == 3
    assert faults.keys() == events.keys()
    reached, unreached = result["pairs_reached"], result["pairs_unreached"]
    assert isinstance(reached, list)
    assert isinstance(unreached, list)
    assert "operational/token" in reached
    assert len(reached) + len(unreached) == len(REACHABLE)
    properties = result["properties"]
    assert isinstance(properties, dict)
    assert properties["I1"] == {"pass": 3, "fail": 0, "vacuous": 0, "inconclusive": 0}
    assert all(sum(counts.values()) == 3 for counts in properties.values())


def test_any_number_of_jobs_gives_the_same_result(capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for jobs in ("1", "2"):
        assert sim("--seeds", "0:4", "--jobs", jobs, "--json", "--digest", *SMALL) == EXIT_OK
        result = last_object(capsys.readouterr().out)
        del result["seconds"]
        results.append(result)
    assert results[0] == results[1]


def test_the_digest_is_the_same_in_every_process() -> None:
    digests = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "evensong.cli.main", "sim", "--seed", "7", "--digest"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.append(done.stdout)
    assert re.fullmatch(r"[0-9a-f]{32}\n", digests[0])
    assert digests[0] == digests[1]


def test_digests_of_several_runs_come_with_their_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "3:5", "--jobs", "1", "--digest", *SMALL) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "4"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--seeds", "5:2"], "'5:2'"),
        (["--seeds", "5"], "'5': expected A:B"),
        (["--seeds", "a:b"], "'a' is not a whole number"),
        (["--seed", "-1"], "-1 is not within"),
        (["--seed", "1", "--nodes", "0"], "0 is not within 1 to 128"),
        (["--seed", "1", "--nodes", "129"], "129 is not within 1 to 128"),
        (["--seed", "1", "--jobs", "0"], "--jobs"),
        (["--seed", "1", "--seeds", "0:2"], "not allowed with"),
        ([], "required"),
    ],
)
def test_bad_usage_is_named(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        sim(*words)
    assert stopped.value.code == EXIT_USAGE
    assert complaint in capsys.readouterr().err


def test_a_plan_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.json"
    assert sim("--plan", str(missing)) == EXIT_USAGE
    assert str(missing) in capsys.readouterr().err
    odd = tmp_path / "odd.json"
    odd.write_text('{"options": {"nodes": [1, 2]}, "plan": [{"kind": "flood"}]}', encoding="utf-8")
    assert sim("--plan", str(odd)) == EXIT_USAGE
    complaint = capsys.readouterr().err
    assert str(odd) in complaint
    assert "plan[0].kind: 'flood'" in complaint


def test_a_plan_goes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--plan", str(tmp_path / "p.json"), "--nodes", "3") == EXIT_USAGE
    assert "--nodes" in capsys.readouterr().err


def test_a_saved_plan_is_the_run_of_its_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "seven.json"
    plan.write_text(setup_to_json(swarm(7)), encoding="utf-8")
    assert sim("--plan", str(plan), "--digest") == EXIT_OK
    from_file = capsys.readouterr().out
    assert sim("--seed", "7", "--digest") == EXIT_OK
    assert capsys.readouterr().out == from_file


def test_traces_are_written_and_never_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", "0:2", "--jobs", "1", "--trace", str(tmp_path), *SMALL]
    assert sim(*words) == EXIT_OK
    assert sorted(read_trace(tmp_path)) == ["0", "1"]
    capsys.readouterr()
    assert sim(*words) == EXIT_USAGE
    assert "run_id=0" in capsys.readouterr().err


def test_a_broken_ring_is_caught_and_its_command_repeats_it(tmp_path: Path) -> None:
    caught = planted("--seeds", "0:20", "--stop-at", "1", cwd=tmp_path)
    assert caught.returncode == EXIT_VIOLATION, caught.stderr
    assert "BROKE A PROMISE" in caught.stdout
    repeat = re.search(r"^reproduce: evensong sim (.*)$", caught.stdout, re.MULTILINE)
    assert repeat
    again = planted(*shlex.split(repeat[1]), "--json", cwd=tmp_path)
    assert again.returncode == EXIT_VIOLATION
    result = last_object(again.stdout)
    failures = result["failures"]
    assert isinstance(failures, list)
    assert result["violations"] == len(failures) > 0
    first = failures[0]
    assert first["command"] == f"evensong sim {repeat[1]}"
    assert f"{first['property']}: {first['text']}" in caught.stdout


def test_a_failing_run_is_shrunk_to_a_plan_that_fails(tmp_path: Path) -> None:
    words = ["--seeds", "0:20", "--stop-at", "1", "--shrink", "--out", "small", *SMALL]
    caught = planted(*words, cwd=tmp_path)
    assert caught.returncode == EXIT_VIOLATION, caught.stderr
    commands = re.findall(r"^reproduce: evensong sim (--plan .*)$", caught.stdout, re.MULTILINE)
    assert len(commands) == 1
    again = planted(*shlex.split(commands[0]), cwd=tmp_path)
    assert again.returncode == EXIT_VIOLATION
    # With the ring as it is, the same plan passes.
    plan = tmp_path / commands[0].removeprefix("--plan ")
    assert sim("--plan", str(plan)) == EXIT_OK


def processes_of(group: int) -> list[str]:
    """Return the processes of a group, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8")
            except OSError:
                continue  # it ended meanwhile
            state, _, pgrp = stat.rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(entry.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_what_is_known_and_no_process(jobs: str, tmp_path: Path) -> None:
    words = ["sim", "--seeds", "0:1000", "--jobs", jobs, "--json", "--trace", str(tmp_path)]
    command = [sys.executable, "-m", "evensong.cli.main", *words, *SMALL]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as campaign:
        try:
            while len(list(tmp_path.glob("run_id=*"))) < 5 and campaign.poll() is None:
                time.sleep(0.02)  # until it is well under way
            assert len(processes_of(campaign.pid)) >= int(jobs)
            os.killpg(campaign.pid, signal.SIGINT)
            out, err = campaign.communicate(timeout=30)
        finally:
            if campaign.poll() is None:
                os.killpg(campaign.pid, signal.SIGKILL)
    assert campaign.returncode == EXIT_INTERRUPTED, err
    result = last_object(out)
    assert result["interrupted"] is True
    assert result["violations"] == 0
    assert result["runs"] in range(1, 1000)
    assert "Traceback" not in err
    assert f"interrupted after {result['runs']} of 1000 runs" in err
    deadline = time.monotonic() + 10
    while processes_of(campaign.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(campaign.pid) == []
    assert all(path.name.startswith("run_id=") for path in tmp_path.iterdir())
    assert len(read_trace(tmp_path)) >= 5  # each is whole
