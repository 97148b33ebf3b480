import inspect
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from evensong.errors import BadScenario, BadTrace
from evensong.sim import campaign
from evensong.sim.campaign import Done, Task, _Worker
from evensong.sim.run import Outcome
from evensong.sim.setup import setup_to_json
from evensong.sim.swarm import swarm
from evensong.sim.tally import Tally
from evensong.trace.parquet import read_trace

TASKS = [Task(seed, nodes=3, messages=30) for seed in range(4)]


def tally_of(results: Iterator[Done]) -> Tally:
    tally = Tally()
    for done in results:
        tally.add(done)
    return tally


def workers_of(results: Generator[Done]) -> list[_Worker]:
    return list(inspect.getgeneratorlocals(results)["workers"])


def test_one_job_and_two_come_to_the_same() -> None:
    one = tally_of(campaign.results(TASKS, 1))
    two = tally_of(campaign.results(TASKS, 2))
    assert one.runs == two.runs == len(TASKS)
    assert one.to_plain() == two.to_plain()
    assert one.digests == two.digests


def test_a_worker_that_dies_is_known_by_its_run_and_replaced() -> None:
    results = campaign.results(TASKS, 2)
    done = [next(results)]
    victim = workers_of(results)[0]
    assert victim.process.pid is not None
    os.kill(victim.process.pid, signal.SIGKILL)
    done.extend(results)
    assert sorted(one.task.seed for one in done) == [task.seed for task in TASKS]
    dead = [one for one in done if one.outcome is None]
    assert [one.task for one in dead] == [victim.task]
    assert "SIGKILL" in dead[0].text
    tally = tally_of(iter(done))
    assert [one.task for one in tally.lost()] == [victim.task]
    assert tally.failures() == []
    assert tally.runs == len(TASKS) - 1
    plain = tally.to_plain()
    assert (plain["violations"], plain["lost"]) == (0, [victim.task.seed])


def test_closing_ends_the_workers() -> None:
    results = campaign.results(TASKS, 2)
    next(results)
    workers = workers_of(results)
    results.close()
    assert workers
    assert not any(worker.process.is_alive() for worker in workers)


def test_every_run_writes_a_trace_of_its_own(tmp_path: Path) -> None:
    tasks = [Task(seed, nodes=2, messages=5, trace=str(tmp_path)) for seed in (3, 4)]
    outcomes = [done.outcome for done in campaign.results(tasks, 1)]
    traced = read_trace(tmp_path)
    assert sorted(traced) == ["3", "4"]
    for outcome, history in zip(outcomes, traced.values(), strict=True):
        assert isinstance(outcome, Outcome)
        rows = sum(len(life.deliveries) for life in history.lives.values())
        assert rows == outcome.deliveries


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_trace_that_cannot_be_written_ends_the_campaign(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "run_id=0").mkdir()
    tasks = [Task(seed, nodes=2, messages=5, trace=str(tmp_path)) for seed in (0, 1)]
    with pytest.raises(BadTrace, match="already there"):
        list(campaign.results(tasks, jobs))


def test_a_plan_from_a_file_is_the_run_it_was_saved_from(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(setup_to_json(swarm(3, 3, 30)), encoding="utf-8")
    task = Task(3, plan=str(path))
    assert campaign.perform(task).digest == campaign.perform(Task(3, 3, 30)).digest
    assert task.command() == f"evensong sim --plan {path}"
    assert task.run_id() == "p"


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for content, complaint in [(b"\xff\xfe", "is not text"), (b"[", "line 1"), (b"{}", "options")]:
        path.write_bytes(content)
        with pytest.raises(BadScenario, match=complaint) as refused:
            campaign.load_setup(str(path))
        assert str(path) in str(refused.value)


def test_the_command_repeats_the_task() -> None:
    assert Task(4).command() == "evensong sim --seed 4"
    assert Task(4, 3, 0).command() == "evensong sim --seed 4 --nodes 3 --messages 0"
