"""Verdicts: what each property says of each run, and of all of them.

A violation outweighs what is unknown, which outweighs what held. A property without a single row
that it is about is vacuous: that proves nothing. Where messages were not recorded, whatever is
about messages is inconclusive.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evensong.spark.properties import (
    BY_ENGINE,
    OF_CONFIGURATIONS,
    OF_GROUPS,
    PROPERTIES,
    Finding,
    Property,
)
from evensong.spark.tables import small_table

if TYPE_CHECKING:
    from evensong.spark.history import History

PASS: Final = "pass"
FAIL: Final = "fail"
VACUOUS: Final = "vacuous"
INCONCLUSIVE: Final = "inconclusive"
SAMPLES_MAX: Final = 5
SCHEMA: Final = (
    "run_id string, property string, status string, n_checked bigint, n_unknown bigint, "
    "n_violations bigint, samples array<string>, took_ms bigint"
)


class Verdict(NamedTuple):
    """The verdict on one property in one run, or in all."""

    run_id: str
    property: str
    status: str
    n_checked: int
    n_unknown: int
    n_violations: int
    samples: list[str]
    took_ms: int


def judge_all(
    history: "History",
    property_ids: Iterable[str] | None = None,
    told: Callable[[str, int, int], None] | None = None,
) -> list[Verdict]:
    """Judge every run by every property; `told` hears of each that is begun."""
    asked = list(property_ids or PROPERTIES)
    chosen = {
        part: [name for name in BY_ENGINE[part.engine] if name in asked] for part in history.parts
    }
    total = sum(map(len, chosen.values()))
    begun = 0
    telling = threading.Lock()

    def tell(name: str) -> None:
        nonlocal begun
        with telling:
            if told is not None:
                told(name, begun, total)
            begun += 1

    return [
        verdict
        for part, names in chosen.items()
        for verdict in _judge_part(part, [PROPERTIES[name] for name in names], tell)
    ]


def _judge_part(
    history: "History", chosen: list[Property], tell: Callable[[str], None]
) -> list[Verdict]:
    """Judge every run of one engine."""
    runs = sorted({life.run_id for life in history.known_lives})
    bare = {life.run_id for life in history.known_lives if life.is_bare}

    def judge_one(one: Property) -> list[Verdict]:
        tell(one.id)
        return judge(history, one, runs, bare)

    found = _in_two_lanes(history, judge_one, chosen)
    return [verdict for verdicts in found for verdict in verdicts]


def _in_two_lanes(
    history: "History", judge_one: Callable[[Property], list[Verdict]], chosen: list[Property]
) -> list[list[Verdict]]:
    """Judge what is about groups beside everything else: while one is planned, the other runs."""
    _ = history.spans  # what the lanes share must be there before; nothing else is
    with ThreadPoolExecutor(1) as ring, ThreadPoolExecutor(1) as groups:
        lanes = [groups if one.id in OF_GROUPS else ring for one in chosen]
        found = [lane.submit(judge_one, one) for lane, one in zip(lanes, chosen, strict=True)]
        try:
            return [one.result() for one in found]
        except BaseException:
            for one in found:
                one.cancel()
            raise


def judge(history: "History", one: Property, runs: list[str], bare: set[str]) -> list[Verdict]:
    """Judge every run by one property."""
    started = time.perf_counter()
    finding = one.judge(history)
    rows = {row["run_id"]: row for row in _by_run(finding).collect()}
    took_ms = round((time.perf_counter() - started) * 1000)
    verdicts = []
    for run_id in runs:
        if run_id in bare and one.id not in OF_CONFIGURATIONS:
            verdicts.append(Verdict(run_id, one.id, INCONCLUSIVE, 0, 0, 0, [], took_ms))
            continue
        row = rows.get(run_id)
        n_checked = int(row["n_checked"]) if row else 0
        n_unknown = int(row["n_unknown"]) if row else 0
        n_violations = int(row["n_violations"]) if row else 0
        status = status_of(n_checked, n_unknown, n_violations)
        samples = list(row["samples"]) if row else []
        verdicts.append(
            Verdict(run_id, one.id, status, n_checked, n_unknown, n_violations, samples, took_ms)
        )
    return verdicts


def _by_run(finding: Finding) -> DataFrame:
    """Return counts and samples of a finding by run, in one query."""
    counts = finding.checked.selectExpr(
        "run_id", "n_checked", "n_unknown", "0L as n_violations", "cast(null as string) as text"
    )
    broken = finding.violations.selectExpr(
        "run_id", "0L as n_checked", "0L as n_unknown", "1L as n_violations", "text"
    )
    stories = F.slice(F.array_sort(F.collect_list("text")), 1, SAMPLES_MAX)
    return (
        counts.union(broken)
        .groupBy("run_id")
        .agg(
            F.sum("n_checked").alias("n_checked"),
            F.sum("n_unknown").alias("n_unknown"),
            F.sum("n_violations").alias("n_violations"),
            stories.alias("samples"),
        )
    )


def status_of(n_checked: int, n_unknown: int, n_violations: int) -> str:
    """Return what counts come to."""
    if n_violations:
        return FAIL
    if n_unknown:
        return INCONCLUSIVE
    return PASS if n_checked else VACUOUS


def over_all_runs(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return one verdict a property, over all runs."""
    by_property: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_property.setdefault(verdict.property, []).append(verdict)
    summed = []
    for name, found in by_property.items():
        n_checked, n_unknown, n_violations = (
            sum(counts) for counts in zip(*(one[3:6] for one in found), strict=True)
        )
        status = status_of(n_checked, n_unknown, n_violations)
        if status in (PASS, VACUOUS) and any(one.status == INCONCLUSIVE for one in found):
            status = INCONCLUSIVE
        samples = [
            f"run {one.run_id}: {text}" for one in found for text in one.samples[:SAMPLES_MAX]
        ]
        summed.append(
            Verdict(
                "", name, status, n_checked, n_unknown, n_violations, samples[:SAMPLES_MAX],
                max(one.took_ms for one in found),
            )
        )  # fmt: skip
    return summed


def verdict_table(history: "History", verdicts: Iterable[Verdict]) -> DataFrame:
    """Return verdicts as a DataFrame: one row a run and property."""
    return small_table(history.spark, [tuple(one) for one in verdicts], SCHEMA)
