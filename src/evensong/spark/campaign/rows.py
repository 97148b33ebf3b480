"""What a run leaves behind: one row, and from the row the run again, as far as it was judged.

A passing run is folded into this: how every property fared and on how many rows, what was reached
and what happened, and a digest of everything observable, by which a repeated run can be compared.
`seconds` alone is not decided by the seed.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from evensong.sim import coverage
from evensong.sim.campaign import Done
from evensong.sim.evs import Status, Violation
from evensong.sim.rules import BY_ENGINE
from evensong.sim.run import Counts, Outcome
from evensong.spark.campaign.plan import Campaign

PASSED: Final = "passed"
FAILED: Final = "failed"
LOST: Final = "lost"  # nothing is known of it: it raised, or its process died

_COUNTS: Final = pa.map_(pa.string(), pa.int64())
_VERDICT: Final = pa.struct(
    [
        ("property", pa.string()),
        ("status", pa.string()),
        ("n_checked", pa.int64()),
        ("n_unknown", pa.int64()),
        ("n_violations", pa.int64()),
    ]
)
SCHEMA: Final = pa.schema(
    [
        ("seed", pa.int64()),
        ("status", pa.string()),
        ("trouble", pa.string()),  # of a lost run: the exception, or how the process died
        ("violations", pa.list_(pa.struct([("property", pa.string()), ("text", pa.string())]))),
        ("verdicts", pa.list_(_VERDICT)),
        ("is_cut_short", pa.bool_()),  # at a broken promise: the rest was not judged
        ("deliveries", pa.int64()),
        ("configurations", pa.int64()),
        ("datagrams", pa.int64()),
        ("faults", _COUNTS),
        ("faults_in_change", pa.int64()),
        ("pairs", pa.list_(pa.string())),  # state/event
        ("happened", _COUNTS),
        ("digest", pa.string()),
        ("calm_us", pa.int64()),
        ("virtual_us", pa.int64()),
        ("seconds", pa.float64()),
    ]
)

Row = dict[str, object]


def to_parquet(runs: Iterable[Done], campaign: Campaign) -> bytes:
    """Return runs as a Parquet file, by seed."""
    ordered = sorted(runs, key=lambda done: done.task.seed)
    table = pa.Table.from_pylist([to_row(done, campaign) for done in ordered], SCHEMA)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(content: bytes, campaign: Campaign) -> list[Done]:
    """Return the runs of a Parquet file."""
    table = pq.read_table(io.BytesIO(content), schema=SCHEMA)
    return [from_row(row, campaign) for row in table.to_pylist(maps_as_pydicts="strict")]


def to_row(done: Done, campaign: Campaign) -> Row:
    """Fold a run into a row."""
    outcome = done.outcome
    if outcome is None:
        return {"seed": done.task.seed, "status": LOST, "trouble": done.text}
    return {
        "seed": done.task.seed,
        "status": FAILED if outcome.violations else PASSED,
        "violations": [
            {"property": one.property_id, "text": one.text} for one in outcome.violations
        ],
        "verdicts": _verdicts(outcome, campaign),
        "is_cut_short": not outcome.statuses,
        "deliveries": outcome.deliveries,
        "configurations": outcome.configurations,
        "datagrams": outcome.datagrams,
        "faults": dict(sorted(outcome.faults.items())),
        "faults_in_change": outcome.faults_in_change,
        "pairs": [coverage.say(pair) for pair in sorted(outcome.pairs)],
        "happened": dict(sorted(outcome.happened.items())),
        "digest": outcome.digest,
        "calm_us": outcome.calm_us,
        "virtual_us": outcome.virtual_us,
        "seconds": outcome.seconds,
    }


def _verdicts(outcome: Outcome, campaign: Campaign) -> list[Row]:
    unknown = Counts(0)
    return [
        {"property": name, "status": status.value, **outcome.counts.get(name, unknown)._asdict()}
        for name, status in campaign.statuses(outcome).items()
    ]


def from_row(row: Mapping[str, object], campaign: Campaign) -> Done:
    """Return the run that was folded into a row."""
    task = campaign.task(_whole(row["seed"]))
    if row["status"] == LOST:
        return Done(task, None, str(row["trouble"]))
    verdicts = [] if row["is_cut_short"] else _rows(row["verdicts"])
    rules = BY_ENGINE[campaign.engine]
    watched = {*rules.invariants}.difference(rules.hindsight)
    judged = [one for one in verdicts if one["property"] not in watched]
    outcome = Outcome(
        violations=tuple(
            Violation(str(one["property"]), str(one["text"])) for one in _rows(row["violations"])
        ),
        statuses={str(one["property"]): Status(one["status"]) for one in judged},
        deliveries=_whole(row["deliveries"]),
        configurations=_whole(row["configurations"]),
        datagrams=_whole(row["datagrams"]),
        faults=_counts(row["faults"]),
        faults_in_change=_whole(row["faults_in_change"]),
        pairs=frozenset(_pair(text) for text in _texts(row["pairs"])),
        digest=str(row["digest"]),
        calm_us=_whole(row["calm_us"]),
        virtual_us=_whole(row["virtual_us"]),
        seconds=_number(row["seconds"]),
        happened=_counts(row["happened"]),
        counts={
            str(one["property"]): Counts(
                _whole(one["n_checked"]), _whole(one["n_unknown"]), _whole(one["n_violations"])
            )
            for one in judged
        },
    )
    return Done(task, outcome)


def _pair(text: str) -> tuple[str, str]:
    state, _, event = text.partition("/")
    return state, event


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _number(value: object) -> float:
    assert isinstance(value, float)
    return value


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(one) for one in value]


def _rows(value: object) -> list[Row]:
    assert isinstance(value, list)
    return value


def _counts(value: object) -> dict[str, int]:
    assert isinstance(value, dict)
    return value
