"""Spark's verdicts on groups are those of the judge in memory, case by case and count by count."""

from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from bench.synthetic import make
from evensong.sim.evs.groups import GROUP_PROPERTIES, check_groups
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import History
from evensong.spark.history import History as SparkHistory
from evensong.spark.places import find_places
from evensong.spark.properties.groups import GROUPS
from evensong.spark.reading import read_places
from evensong.spark.verdicts import Verdict, judge
from evensong.trace.parquet import read_trace, write_trace
from tests.sim.group_cases import CASES, CLEAN
from tests.sim.group_language import story

Counts: TypeAlias = tuple[str, int, int, int]  # status, checked, unknown, violations

SEEDS = (0, 3, 10, 41)
TEXTS = {
    "clean": CLEAN,
    "killed": CLEAN.replace("m1, m2, m4, close slow consumer", "m1, m2") + "end r open",
    "silent": CLEAN.replace("r.1: v3, say m3,", "r.1: v3,") + "end r open",
    "absent": "\n".join(line for line in CLEAN.splitlines() if "r.1: v3" not in line),
    **{one.name.replace(" ", "-").replace("'", ""): one.text for one in CASES},
}
RING_ALONE = "ring-alone"


def histories() -> dict[str, History]:
    """Return all runs: told ones, simulated ones, and one without clients."""
    runs = {name: story(text) for name, text in TEXTS.items()}
    runs.update((f"seed-{seed}", run_recorded(draw(seed))[1]) for seed in SEEDS)
    runs[RING_ALONE] = History()
    runs[RING_ALONE].begin(1, 1, 0).end("quiesce", 1)
    return runs


@pytest.fixture(scope="module")
def runs() -> dict[str, History]:
    return histories()


@pytest.fixture(scope="module")
def verdicts(
    spark: SparkSession, runs: dict[str, History], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Verdict]:
    """Judge all runs on Spark, together: a session and a plan cost more than they do."""
    where = tmp_path_factory.mktemp("groups")
    for run_id, history in runs.items():
        write_trace(history, where / "trace", run_id)
    found = find_places(spark, [str(where / "trace")], where)
    assert not found.refused
    read = SparkHistory(spark, read_places(spark, found.places))
    told = [one for group in GROUPS for one in judge(read, group, sorted(runs), set())]
    return {(one.run_id, one.property): one for one in told}


def test_every_promise_is_asked_here_too() -> None:
    assert [one.id for one in GROUPS] == list(GROUP_PROPERTIES)


@pytest.mark.parametrize("run_id", [*TEXTS, *(f"seed-{seed}" for seed in SEEDS), RING_ALONE])
def test_verdicts_and_counts_are_those_of_the_judge_in_memory(
    run_id: str, runs: dict[str, History], verdicts: dict[tuple[str, str], Verdict]
) -> None:
    on_spark: dict[str, Counts] = {}
    in_memory: dict[str, Counts] = {}
    for name, one in check_groups(runs[run_id]).by_property.items():
        in_memory[name] = (one.status.value, one.n_checked, one.n_unknown, one.n_violations)
        other = verdicts[run_id, name]
        on_spark[name] = (other.status, other.n_checked, other.n_unknown, other.n_violations)
    assert on_spark == in_memory


@pytest.mark.parametrize("broken", CASES, ids=lambda one: one.name)
def test_what_is_broken_fails_and_nothing_else(
    broken: tuple[str, object, frozenset[str]], verdicts: dict[tuple[str, str], Verdict]
) -> None:
    name, _, fails = broken
    run_id = name.replace(" ", "-").replace("'", "")
    failed = {one.id for one in GROUPS if verdicts[run_id, one.id].status == "fail"}
    assert failed == fails
    for one in failed:
        assert verdicts[run_id, one].samples


def test_a_witness_names_client_frame_and_view(
    verdicts: dict[tuple[str, str], Verdict],
) -> None:
    assert verdicts["not-told-what-came-last", "G3"].samples == [
        "2/1.1 was not told 1/1.1:5, which others under view 4.1:5.0:5 of b were"
    ]


def test_a_trace_without_clients_has_nothing_to_say(
    verdicts: dict[tuple[str, str], Verdict],
) -> None:
    assert {verdicts[RING_ALONE, one.id].status for one in GROUPS} == {"vacuous"}


def test_what_is_as_it_was_sent_is_judged_without_a_look_at_frames(
    spark: SparkSession, tmp_path: Path
) -> None:
    trace = make(tmp_path, 1, cycles=1)
    found = find_places(spark, [str(trace)], tmp_path)
    read = SparkHistory(spark, read_places(spark, found.places))
    assert read.streams.is_as_sent
    told = [one for group in GROUPS for one in judge(read, group, ["calm", "long"], set())]
    assert "by_frame" not in vars(read.streams)
    in_memory = {
        (run_id, name): (one.status.value, one.n_checked)
        for run_id, history in read_trace(trace).items()
        for name, one in check_groups(history).by_property.items()
    }
    assert {(one.run_id, one.property): (one.status, one.n_checked) for one in told} == in_memory
