"""Traces for tests: histories in a few words, written as runs of one trace and audited together."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evensong.core.transis.dag import ORDERED
from evensong.sim.evs.groups import check_groups
from evensong.sim.history import History
from evensong.spark.auditing import Audit
from evensong.spark.properties import OF_GROUPS
from evensong.trace.directory import settle
from evensong.trace.judge import Judgement, judge
from evensong.trace.parquet import read_run, write_trace


class Said(NamedTuple):
    """What an audit says of one run and property."""

    status: str
    n_checked: int
    n_unknown: int
    n_violations: int


class Audited:
    """One audit over many runs."""

    def __init__(self, found: Audit) -> None:
        self.found = found
        self.verdicts = {(one.run_id, one.property): one for one in found.verdicts}

    def said(self, run_id: str, property_id: str) -> Said:
        one = self.verdicts[run_id, property_id]
        return Said(one.status, one.n_checked, one.n_unknown, one.n_violations)

    def having(self, run_id: str, status: str) -> set[str]:
        return {
            name
            for (run, name), one in self.verdicts.items()
            if (run, one.status) == (run_id, status)
        }

    def failed(self, run_id: str) -> set[str]:
        return self.having(run_id, "fail")


def write_histories(directory: Path, runs: Mapping[str, History]) -> None:
    """Write every history as a run of one trace."""
    for name, run in runs.items():
        write_trace(run, directory, name)


def judged_in_memory(directory: Path, run_id: str) -> Judgement:
    """Judge a run as `evensong trace check` does."""
    lives = read_run(directory / f"run_id={run_id}")
    for node in {one.life.node for one in lives}:
        settle([one for one in lives if one.life.node == node], "")
    return judge(lives)


def has_unordered(history: History) -> bool:
    """Whether sessions were told what has no place: Spark only says that there is some."""
    told = (
        one for life in history.lives.values() for heard in life.heard.values() for one in heard
    )
    return any(one.service not in ORDERED for one in told)


def disagreements(audited: Audited, directory: Path, run_id: str) -> list[str]:
    """Return where the audit says something else than the in-memory check, counts included."""
    found = []
    judged = judged_in_memory(directory, run_id)
    is_open = has_unordered(judged.history)
    verdicts = judged.verdicts.by_property | check_groups(judged.history).by_property
    for name, verdict in verdicts.items():
        if (run_id, name) not in audited.verdicts:
            continue  # it was not asked
        memory = Said(
            verdict.status.value, verdict.n_checked, verdict.n_unknown, verdict.n_violations
        )
        if is_open and name in OF_GROUPS[1:]:
            status = audited.said(run_id, name).status
            if status not in ("inconclusive", memory.status) or status == "pass":
                found.append(f"run {run_id}, {name}: Spark says {status}, memory {memory.status}")
            continue
        spark = audited.said(run_id, name)
        if spark != memory:
            found.append(f"run {run_id}, {name}: Spark says {spark}, memory {memory}")
    return found
