"""Deaths, losses and progress of jobs; what executors do is swapped where it must go wrong.

The functions that stand in are made inside others: so Spark sends them as they are, and executors
need not be able to import tests.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensong import __version__
from evensong.errors import SparkFailed
from evensong.sim.campaign import Done
from evensong.spark.campaign.conduct import (
    Conductor,
    Part,
    Simulate,
    again,
    due_parts,
    noted_interrupts,
)
from evensong.spark.campaign.plan import SEEDS_PER_PART, Campaign
from evensong.spark.campaign.store import Store
from evensong.spark.campaign.tasks import Ran, run_seeds
from evensong.spark.files import Folder

SMALL = Campaign(range(10), nodes=2, messages=5)


def conductor(
    spark: SparkSession, directory: Path, simulate: Simulate, campaign: Campaign = SMALL
) -> Conductor:
    return Conductor(spark, campaign, Store(Folder(spark, str(directory)), campaign), simulate)


def conduct(
    spark: SparkSession, directory: Path, simulate: Simulate, campaign: Campaign = SMALL
) -> list[Done]:
    runs: list[Done] = []
    parts = due_parts(campaign, {})
    conductor(spark, directory, simulate, campaign).run(parts, runs.extend, lambda steps: None)
    return sorted(runs, key=lambda done: done.task.seed)


def dying_at(seed_of_death: int, marker: Path | None = None) -> Simulate:
    """Return what kills its own process at a seed, each time or only until there is a marker."""

    def simulate(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        for seed in seeds:
            if seed == seed_of_death and not (marker is not None and marker.exists()):
                if marker is not None:
                    marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from run_seeds(campaign, [seed])

    return simulate


def test_every_seed_comes_back_once_and_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    def alike(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        ((done, _),) = run_seeds(campaign, [0])
        return (Ran(Done(campaign.task(seed), done.outcome)) for seed in seeds)

    steps: list[int] = []
    runs: list[Done] = []
    campaign = Campaign(range(5, 5 + SEEDS_PER_PART + 3), nodes=2, messages=0)
    one = conductor(spark, tmp_path, alike, campaign)
    one.get_ready()
    one.run(due_parts(campaign, {}), runs.extend, steps.append)
    assert sorted(done.task.seed for done in runs) == list(campaign.seeds)
    assert sum(steps) == len(campaign.seeds)
    assert min(steps) >= 0
    kept = dict(Store(Folder(spark, str(tmp_path)), campaign).finished())
    assert sorted(kept, key=lambda part: part.start) == list(campaign.parts())
    stored = [done for part in kept.values() for done in part]
    assert sorted(stored, key=lambda done: done.task.seed) == sorted(
        runs, key=lambda done: done.task.seed
    )


def test_a_seed_that_kills_its_process_is_lost_and_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = conduct(spark, tmp_path, dying_at(6))
    assert [done.task.seed for done in runs] == list(SMALL.seeds)
    (lost,) = [done for done in runs if done.outcome is None]
    assert lost.task.seed == 6
    assert lost.text.startswith("the process that ran it died, alone as well: Python worker exited")
    assert len(lost.text.splitlines()) == 1
    assert "Consider" not in lost.text  # what Spark advises is about Spark


def test_a_process_that_dies_once_costs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    runs = conduct(spark, tmp_path / "out", dying_at(6, tmp_path / "died"))
    assert (tmp_path / "died").exists()
    assert [done.task.seed for done in runs] == list(SMALL.seeds)
    assert all(done.outcome is not None for done in runs)


def test_when_all_runs_of_a_part_are_lost_the_rest_is_not_tried(
    spark: SparkSession, tmp_path: Path
) -> None:
    def lose(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        return (Ran(Done(campaign.task(seed), None, "it raised: no disk")) for seed in seeds)

    with pytest.raises(SparkFailed, match="all runs of seeds 0:10 were lost; of the first: it "):
        conduct(spark, tmp_path, lose)

    # Those that are tried again and lost again are not all: others of their part are known.
    known = Done(SMALL.task(0), next(run_seeds(SMALL, [0])).done.outcome)
    runs: list[Done] = []
    part = Part(SMALL.seeds, range(1, 10), (known,))
    conductor(spark, tmp_path, lose).run([part], runs.extend, lambda steps: None)
    assert [done.task.seed for done in runs] == list(range(1, 10))


def test_an_error_that_is_no_death_ends_it_and_its_jobs(
    spark: SparkSession, tmp_path: Path
) -> None:
    def raising(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        raise ImportError("no such module here")

    with pytest.raises(Exception, match="no such module here"):
        conduct(spark, tmp_path, raising)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_an_interrupt_ends_the_jobs(spark: SparkSession, tmp_path: Path) -> None:
    def endless(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
        signal.pause()
        yield from ()

    def interrupt(_: int) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    one = conductor(spark, tmp_path, endless)
    with pytest.raises(KeyboardInterrupt):
        one.run(due_parts(SMALL, {}), lambda runs: None, interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (tmp_path / "runs").exists()


def test_an_interrupt_is_noted_and_the_second_breaks_off() -> None:
    with noted_interrupts() as is_interrupted:
        assert not is_interrupted()
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_executors_of_another_version_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evensong.spark.campaign.conduct.__version__", "9.9")
    with pytest.raises(SparkFailed, match=f"executors have evensong {__version__}, and this is 9"):
        conductor(spark, tmp_path, run_seeds).get_ready()


def test_only_what_is_not_there_is_due() -> None:
    campaign = Campaign(range(3 * SEEDS_PER_PART))
    first, second, third = campaign.parts()
    run, lost = Done(campaign.task(0), None), Done(campaign.task(1), None, "lost")
    finished = {first: Part(first, ()), third: again(third, [lost])}
    assert list(due_parts(campaign, finished)) == [Part(second, second), Part(third, [1])]
    assert again(first, []) == Part(first, [])
    assert run.outcome is None


def test_lost_runs_are_due_again_beside_what_is_known(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    conduct(spark, tmp_path, dying_at(6))
    finished = {part: again(part, runs) for part, runs in store.finished()}
    (part,) = due_parts(SMALL, finished)
    assert list(part.due) == [6]
    assert len(part.known) == 9
    runs: list[Done] = []
    conductor(spark, tmp_path, run_seeds).run([part], runs.extend, lambda steps: None)
    assert [done.task.seed for done in runs] == [6]
    ((_, kept),) = store.finished()
    assert [done.task.seed for done in kept] == list(SMALL.seeds)
    assert all(done.outcome is not None for done in kept)
