"""The audit: traces in, a verdict on every promise out.

It never says that something holds which it could not see: what is damaged is refused by name, and
what is missing makes verdicts inconclusive.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evensong.errors import BadTrace
from evensong.spark.history import LIFE, History
from evensong.spark.places import find_places, foreign_services
from evensong.spark.properties import PROPERTIES
from evensong.spark.reading import Trace, read_places
from evensong.spark.scratch import scratch_directory
from evensong.spark.verdicts import FAIL, Verdict, judge_all, over_all_runs
from evensong.trace.judge import BROKEN, HOLDS, INCONCLUSIVE, OF_ORDER
from evensong.trace.spool import LEVELS

if TYPE_CHECKING:
    from evensong.spark.places import Place

Told = Callable[[str, int, int], None]


class Audit(NamedTuple):
    """What an audit found."""

    history: History
    verdicts: list[Verdict]  # one a run and property
    refused: list[str]  # what could not be read, and why
    n_events: int  # rows of all tables
    seconds: float

    @property
    def runs(self) -> list[str]:
        """The runs that were judged."""
        return sorted({life.run_id for life in self.history.known_lives})

    @property
    def overall(self) -> list[Verdict]:
        """One verdict a property, over all runs."""
        return over_all_runs(self.verdicts)

    @property
    def n_violations(self) -> int:
        """How often anything was broken."""
        return sum(verdict.n_violations for verdict in self.verdicts)

    @property
    def doubts(self) -> dict[str, list[str]]:
        """Why a run is no proof, though nothing in it is broken; by run."""
        found = {run_id: _doubts(self, run_id) for run_id in self.runs}
        return {run_id: doubts for run_id, doubts in found.items() if doubts}

    @property
    def verdict(self) -> str:
        """One word for all of it, as `evensong trace check` says it."""
        if any(verdict.status == FAIL for verdict in self.verdicts):
            return BROKEN
        return INCONCLUSIVE if self.doubts or self.refused or not self.runs else HOLDS


def _doubts(audit: Audit, run_id: str) -> list[str]:
    lives = [life for life in audit.history.known_lives if life.run_id == run_id]
    unseen = [life for life in lives if life.is_blank or life.is_bare]
    absent = [life for life in audit.history.absent if life.run_id == run_id]
    levels = sorted({life.level for life in unseen if life.level != LEVELS[-1]})
    n_cut = sum(life.level == LEVELS[-1] for life in unseen)
    verdicts = [one for one in audit.verdicts if one.run_id == run_id]
    order = [one for one in verdicts if one.property in OF_ORDER]
    is_silent = bool(order) and not any(one.n_checked for one in order)
    told = (
        (levels, f"messages were not traced (level {', '.join(levels)})"),
        (n_cut, f"{n_cut} lives are without their beginning"),
        (absent, f"{len(absent)} lives have no trace here"),
        (is_silent and not unseen, "nothing was delivered in what is here"),
        (not verdicts, f"nothing that was asked is promised by {lives[0].engine}"),
    )
    return [doubt for is_so, doubt in told if is_so]


def run_audit(
    spark: SparkSession,
    paths: Iterable[str],
    properties: Iterable[str] | None = None,
    *,
    keep_going: bool = False,
    running_end: str = "",
    told: Told | None = None,
    scratch: Path | None = None,
) -> Audit:
    """Judge the traces at some paths.

    Unless it is told to keep going, what cannot be read ends it. `running_end` is how lives of
    daemons that still run are taken to end; `told` hears what is being done. Whoever goes on with
    the history afterwards gives a directory as `scratch`, where spools are converted to.
    """
    started = time.perf_counter()
    chosen = list(properties) if properties is not None else None
    for name in chosen or ():
        if name not in PROPERTIES:
            raise BadTrace(f"no property is called {name!r}; there are {', '.join(PROPERTIES)}")
    with nullcontext(scratch) if scratch else scratch_directory() as converted:
        places, refused = find_places(spark, paths, converted, running_end=running_end)
        _stop_if(refused, keep_going)
        if not places:
            raise BadTrace(refused[0] if refused else "no trace was given")
        history, more = _history(spark, places, keep_going=keep_going)
        verdicts = judge_all(history, chosen, told)
        n_events = sum(life.n_events for life in history.known_lives) + _n_rows(history)
    seconds = time.perf_counter() - started
    return Audit(history, verdicts, [*refused, *more], n_events, seconds)


def _stop_if(refused: list[str], keep_going: bool) -> None:
    if refused and not keep_going:
        raise BadTrace(refused[0])


def _history(
    spark: SparkSession, places: "Sequence[Place]", *, keep_going: bool
) -> tuple[History, list[str]]:
    """Return the history of all runs that can be put together, and what is wrong with others."""
    trace = read_places(spark, places)
    last_ends = {whose: place.last_end for place in places for whose in place.nodes}
    history = History(spark, trace, last_ends)
    refused: dict[str, str] = {}
    # Where events tell nothing, what else is wrong is not asked: nothing would come of it.
    checks = [_senseless, _misfits]
    if any(place.has_other_services for place in places):
        checks.insert(1, foreign_services)
    for find in checks:
        more = find(history)
        if more:
            _stop_if(sorted(more.values()), keep_going)
            refused |= more
            history = History(spark, _without(trace, refused), last_ends)
    if not history.known_lives:
        raise BadTrace(next(iter(refused.values()), f"{places[0].base}: has no events in it"))
    return history, sorted(refused.values())


def _senseless(history: History) -> dict[str, str]:
    """Return what makes events of a run no trace."""
    return history.refused


def _without(trace: Trace, runs: Iterable[str]) -> Trace:

    return Trace(*(table.where(~F.col("run_id").isin(*runs)) for table in trace))


def _misfits(history: History) -> dict[str, str]:
    """Return what makes rows of a run no trace: positions missing, lives without events."""
    found: dict[str, str] = {}
    for part in history.parts:
        found |= _misfits_of(part)
    return found


def _misfits_of(history: History) -> dict[str, str]:
    totals = history.account.totals
    strange = totals.join(history.lives, list(LIFE), "left_anti")
    found = {
        row["run_id"]: f"node {row['node']}/{row['incarnation']} of run {row['run_id']}: "
        "has deliveries and no events"
        for row in strange.collect()
    }
    for row in totals.where("first <> 0 or last + 1 <> n_deliveries").collect():
        found[row["run_id"]] = (
            f"node {row['node']}/{row['incarnation']} of run {row['run_id']}: has "
            f"{row['n_deliveries']} deliveries at positions {row['first']} to {row['last']}: some "
            "are missing, or rows of different runs are mixed"
        )
    return found


def _n_rows(history: History) -> int:
    """Return the number of deliveries and sends."""
    sums = []
    for part in history.parts:
        sums.append(part.account.totals.agg({"n_deliveries": "sum"}).first())
        sums.append(part.account.sent.agg({"n_sends": "sum"}).first())
    return sum(int(row[0] or 0) for row in sums if row is not None)
