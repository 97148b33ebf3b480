"""Synthetic traces are sound, and what is planted in one breaks what it should."""

from pathlib import Path

import pytest

from bench.spark import EXPECTED, planted_units
from bench.synthetic import PLANTS, make, n_rows, plan
from evensong.sim import evs
from evensong.trace.parquet import read_trace

CYCLES = 2
NEED_MORE = {"TF1", "LV-1"}  # are told of limits and of clients, which a history does not have


def test_a_clean_trace_passes_and_is_about_everything(tmp_path: Path) -> None:
    histories = read_trace(make(tmp_path, 1, cycles=CYCLES))
    assert sorted(histories) == ["calm", "long"]
    verdicts = [evs.check(history) for history in histories.values()]
    assert [verdict.failed for verdict in verdicts] == [(), ()]
    passed = {name for verdict in verdicts for name in verdict.having(evs.Status.PASS)}
    assert passed == set(evs.PROPERTIES) - NEED_MORE


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_breaks_what_is_expected(plant: str, tmp_path: Path) -> None:
    history = read_trace(make(tmp_path, 1, plant, cycles=CYCLES))["long"]
    assert set(evs.check(history).failed) == EXPECTED[plant]


def test_traces_have_about_the_size_that_was_asked_for() -> None:
    assert 0.95 < n_rows(plan(80_000_000)) / 80_000_000 < 1.05
    assert sum(len(rings) for rings in plan(80_000_000)) == 199


def test_what_is_planted_has_a_name() -> None:
    (ring,) = (ring for rings in plan(10_000_000, "swap") for ring in rings if ring.plant)
    one, other = planted_units(ring)
    assert one.partition("/")[0] != other.partition("/")[0]
