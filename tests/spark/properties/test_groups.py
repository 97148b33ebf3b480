"""Spark's verdicts on groups are those of the judge in memory, case by case."""

from pathlib import Path

from pyspark.sql import SparkSession

from evensong.sim.evs.groups import GROUP_PROPERTIES, check_groups
from evensong.sim.evs.verdict import Verdicts
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import History
from evensong.spark.history import History as SparkHistory
from evensong.spark.places import find_places
from evensong.spark.properties.groups import GROUPS
from evensong.spark.reading import read_places
from evensong.spark.verdicts import Verdict, judge
from evensong.trace.parquet import write_trace
from tests.sim.group_cases import CASES, CLEAN
from tests.sim.group_language import story

SEEDS = range(6)
KILLED = CLEAN.replace("m1, m2, m4, close slow consumer", "m1, m2") + "end r open"
SILENT = CLEAN.replace("r.1: v3, say m3,", "r.1: v3,") + "end r open"
ABSENT = "\n".join(line for line in CLEAN.splitlines() if "r.1: v3" not in line)


def verdicts_on(spark: SparkSession, runs: dict[str, History], where: Path) -> list[Verdict]:
    """Judge runs on Spark, all together."""
    for run_id, history in runs.items():
        write_trace(history, where / "trace", run_id)
    found = find_places(spark, [str(where / "trace")], where)
    assert not found.refused
    read = SparkHistory(spark, read_places(spark, found.places))
    return [one for group in GROUPS for one in judge(read, group, sorted(runs), set())]


def plain(verdicts: Verdicts) -> dict[str, tuple[str, int, int, int]]:
    return {
        name: (one.status.value, one.n_checked, one.n_unknown, one.n_violations)
        for name, one in verdicts.by_property.items()
    }


def compare(spark: SparkSession, runs: dict[str, History], where: Path) -> None:
    found: dict[str, dict[str, tuple[str, int, int, int]]] = {run_id: {} for run_id in runs}
    samples = {}
    for one in verdicts_on(spark, runs, where):
        counts = (one.status, one.n_checked, one.n_unknown, one.n_violations)
        found[one.run_id][one.property] = counts
        samples[one.run_id, one.property] = one.samples
    for run_id, history in runs.items():
        assert found[run_id] == plain(check_groups(history)), (run_id, samples)


def test_every_promise_is_asked_here_too() -> None:
    assert [one.id for one in GROUPS] == list(GROUP_PROPERTIES)


def test_each_case_breaks_what_it_breaks_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    texts = {"clean": CLEAN, "killed": KILLED, "silent": SILENT, "absent": ABSENT}
    texts.update((f"case-{number}", one.text) for number, one in enumerate(CASES))
    compare(spark, {name: story(text) for name, text in texts.items()}, tmp_path)


def test_runs_with_clients_have_the_same_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    runs = {str(seed): run_recorded(draw(seed))[1] for seed in SEEDS}
    compare(spark, runs, tmp_path)


def test_a_trace_without_clients_has_nothing_to_say(spark: SparkSession, tmp_path: Path) -> None:
    ring = History()
    life = ring.begin(1, 1, 0)
    life.end("quiesce", 1)
    assert {one.status for one in verdicts_on(spark, {"x": ring}, tmp_path)} == {"vacuous"}
