from pathlib import Path

import pytest

from evensong.core.totem.frames import RegularToken
from evensong.core.totem.ordering import Ring
from evensong.sim.campaign import broken_by, perform
from evensong.sim.groups.run import run_recorded
from evensong.spark.campaign import tasks
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.tasks import Ran, run_seeds
from evensong.trace.parquet import read_trace

SMALL = Campaign(range(4), nodes=3, messages=30)


def write(ran: Ran, directory: Path) -> None:
    for name, content in ran.trace:
        path = directory / f"run_id={ran.done.task.run_id()}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def hasty(self: Ring, token: RegularToken) -> bool:
    """Take a safe line from a single visit of the token: a planted mistake."""
    is_safer = token.aru > self.my_safe and self.buffer.aru >= token.aru
    if is_safer:
        self.my_safe = min(token.seq, self.buffer.aru)
    return is_safer


def failing(campaign: Campaign) -> Ran:
    return next(ran for ran in run_seeds(campaign, range(40)) if ran.trace)


def test_a_seed_gives_the_run_that_sim_gives() -> None:
    runs = list(run_seeds(SMALL, [0, 1]))
    assert [ran.done.task.seed for ran in runs] == [0, 1]
    for ran in runs:
        assert ran.done.outcome is not None
        assert ran.done.outcome.digest == perform(ran.done.task).digest
        assert ran.trace == ()


def test_a_run_that_raises_is_told_with_its_traceback_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scarce(setup: object) -> object:
        if setup == SMALL.task(1).setup():
            raise MemoryError("no room for seed 1")
        return run_recorded(SMALL.task(0).setup())

    monkeypatch.setattr(tasks, "run_recorded", scarce)
    kept, raised, kept_too = run_seeds(SMALL, [0, 1, 2])
    assert kept.done.outcome is not None
    assert kept_too.done.outcome is not None
    assert raised.done.outcome is None
    assert raised.done.task.seed == 1
    assert "MemoryError: no room for seed 1" in raised.done.text
    assert "in scarce" in raised.done.text


def test_the_trace_of_a_failing_run_comes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ring, "advance_safe_line", hasty)
    ran = failing(Campaign(range(40)))
    assert ran.done.outcome is not None
    assert ran.done.outcome.violations
    write(ran, tmp_path)
    (history,) = read_trace(tmp_path).values()
    delivered = sum(len(life.deliveries) for life in history.lives.values())
    assert delivered == ran.done.outcome.deliveries > 0


def test_the_trace_of_a_passing_run_comes_if_it_was_asked_for() -> None:
    campaign = Campaign(range(4), nodes=3, messages=30, traces=2)
    runs = list(run_seeds(campaign, campaign.seeds))
    assert [bool(ran.trace) for ran in runs] == [True, False, True, False]


def test_a_failing_run_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ring, "advance_safe_line", hasty)
    ran = failing(Campaign(range(40)))
    assert ran.done.outcome is not None
    broken = ran.done.outcome.violations[0].property_id
    shrunk = tasks.shrink(ran.done.task, broken, 1_000, 3_600)
    assert shrunk.setup is not None
    assert shrunk.is_smallest
    assert len(shrunk.setup.plan) < len(ran.done.task.setup().plan)
    assert broken in broken_by(shrunk.setup)


def test_shrinking_ends_when_time_is_up_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "broken_by", lambda setup: frozenset({"I5"}))
    readings = iter([0.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr("time.monotonic", lambda: next(readings))
    shrunk = tasks.shrink(SMALL.task(0), "I5", 1_000, 2.5)
    assert shrunk.setup is not None
    assert (shrunk.is_smallest, shrunk.runs) == (False, 3)
    assert shrunk.setup != SMALL.task(0).setup()


def test_a_shrinking_that_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def scarce(setup: object) -> object:
        raise MemoryError("no room")

    monkeypatch.setattr(tasks, "broken_by", scarce)
    shrunk = tasks.shrink(SMALL.task(0), "I5", 10, 60)
    assert shrunk.setup is None
    assert "MemoryError: no room" in shrunk.text
