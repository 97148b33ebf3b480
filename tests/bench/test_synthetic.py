"""Synthetic traces are sound, and what is planted in one breaks what it should."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.spark import EXPECTED, planted_units
from bench.synthetic import PLANTS, make
from bench.synthetic.plan import PLANT_NODE, n_rows, plan
from evensong.sim import evs
from evensong.sim.evs.groups import check_groups
from evensong.spark.auditing import run_audit
from evensong.spark.properties import BY_ENGINE
from evensong.trace.parquet import read_trace
from tests.spark.traces import Audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CYCLES = 2
ROWS = 1  # as few as the plan allows, which is some twenty thousand


def test_a_clean_trace_passes_and_is_about_everything(tmp_path: Path) -> None:
    histories = read_trace(make(tmp_path, 1, cycles=CYCLES))
    assert sorted(histories) == ["calm", "long"]
    verdicts = [evs.check(history) for history in histories.values()]
    assert [verdict.failed for verdict in verdicts] == [(), ()]
    passed = {name for verdict in verdicts for name in verdict.having(evs.Status.PASS)}
    assert passed == set(evs.PROPERTIES)


def test_a_clean_trace_is_about_every_promise_to_clients(tmp_path: Path) -> None:
    for history in read_trace(make(tmp_path, 1, cycles=CYCLES)).values():
        verdict = check_groups(history)
        assert verdict.failed == ()
        assert verdict.having(evs.Status.VACUOUS) == ()


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_breaks_what_is_expected(plant: str, tmp_path: Path) -> None:
    history = read_trace(make(tmp_path, 1, plant, cycles=CYCLES))["long"]
    assert {*evs.check(history).failed, *check_groups(history).failed} == EXPECTED[plant]


@pytest.fixture(scope="module")
def audited(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """A clean trace and one with each plant, in one audit: a run is named for what is in it."""
    made, runs = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("runs")
    for plant in ("", *PLANTS):
        trace = make(made, ROWS, plant, cycles=CYCLES)
        (trace / "run_id=long").rename(runs / f"run_id={plant or 'long'}")
        if not plant:
            (trace / "run_id=calm").rename(runs / "run_id=calm")
            shutil.copytree(runs / "run_id=long", trace / "run_id=long")  # plants begin with it
    return Audited(run_audit(spark, [str(runs)]))


def test_the_audit_finds_no_property_vacuous_and_none_broken(audited: Audited) -> None:
    assert not audited.failed("long") | audited.failed("calm")
    assert audited.having("long", "pass") | audited.having("calm", "pass") == set(
        BY_ENGINE["totem"]
    )


@pytest.mark.parametrize("plant", PLANTS)
def test_the_audit_finds_what_is_planted_and_names_it(audited: Audited, plant: str) -> None:
    assert audited.failed(plant) == EXPECTED[plant]
    told = [
        text
        for (run, _), one in audited.verdicts.items()
        if (run, one.status) == (plant, "fail")
        for text in one.samples
    ]
    (ring,) = (ring for rings in plan(ROWS, plant, CYCLES) for ring in rings if ring.plant)
    for name in (f"p{PLANT_NODE}", *planted_units(ring)):
        assert any(name in text for text in told), (name, told)


def test_traces_have_about_the_size_that_was_asked_for() -> None:
    assert 0.95 < n_rows(plan(80_000_000)) / 80_000_000 < 1.05
    assert sum(len(rings) for rings in plan(80_000_000)) == 199


def test_what_is_planted_has_a_name() -> None:
    (ring,) = (ring for rings in plan(10_000_000, "swap") for ring in rings if ring.plant)
    one, other = planted_units(ring)
    assert one.partition("/")[0] != other.partition("/")[0]
