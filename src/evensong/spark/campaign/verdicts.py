"""One table of judgements over a whole campaign: a row for each run and property.

The simulator has judged every run while it had the whole history in memory. The runs whose traces
are kept are judged a second time, from their traces, by the audit; the two must not contradict each
other. All of it is written by the driver, so that executors need no disk that they share with it.
"""

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from evensong.sim.campaign import Done
from evensong.sim.evs import Status
from evensong.sim.run import Counts

if TYPE_CHECKING:
    from evensong.spark.campaign.plan import Campaign
    from evensong.spark.verdicts import Verdict

SIMULATOR: Final = "simulator"
AUDIT: Final = "audit"
DECIDED: Final = (Status.PASS.value, Status.FAIL.value)

SCHEMA: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("property", pa.string()),
        ("judge", pa.string()),
        ("status", pa.string()),
        ("n_checked", pa.int64()),
        ("n_unknown", pa.int64()),
        ("n_violations", pa.int64()),
        ("samples", pa.list_(pa.string())),
    ]
)

Row: TypeAlias = dict[str, object]
Statuses: TypeAlias = Mapping[str, Mapping[str, Status]]  # by run and property


def of_simulator(runs: Iterable[Done], campaign: "Campaign") -> list[Row]:
    """Return the simulator's verdicts on runs, by seed; of lost runs there are none."""
    found: list[Row] = []
    for task, outcome, _ in sorted(runs, key=lambda done: done.task.seed):
        if outcome is None:
            continue
        for name, status in campaign.statuses(outcome).items():
            broken = [one.text for one in outcome.violations if one.property_id == name]
            found.append(
                {
                    "run_id": task.run_id(),
                    "property": name,
                    "judge": SIMULATOR,
                    "status": status.value,
                    **outcome.counts.get(name, Counts(0, 0, len(broken)))._asdict(),
                    "samples": broken,
                }
            )
    return found


def of_audit(verdicts: "Iterable[Verdict]") -> list[Row]:
    """Return the audit's verdicts in the same form, by run and property."""
    ordered = sorted(verdicts, key=lambda one: (one.run_id, one.property))
    return [
        {name: value for name, value in one._asdict().items() if name in SCHEMA.names}
        | {"judge": AUDIT}
        for one in ordered
    ]


def to_parquet(rows: list[Row]) -> bytes:
    """Return verdicts as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), buffer, compression="zstd")
    return buffer.getvalue()


class Audited(NamedTuple):
    """What the audit said of the traces that are kept."""

    runs: int
    disagreements: list[str]  # run and property
    refused: list[str]  # traces that it could not judge, and why

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Self:
        """Return what was written down of it."""
        runs, differing, refused = (plain[name] for name in cls._fields)
        assert isinstance(runs, int)
        assert isinstance(differing, list)
        assert isinstance(refused, list)
        return cls(runs, differing, refused)


def disagreements(verdicts: "Iterable[Verdict]", statuses: Statuses) -> list[str]:
    """Name the runs and properties of which one judge says that they hold and one that not."""
    found = []
    for one in verdicts:
        status = statuses.get(one.run_id, {}).get(one.property)
        is_decided = status is not None and {status.value, one.status} <= set(DECIDED)
        if status is not None and is_decided and status.value != one.status:
            found.append(f"{one.run_id} {one.property}")
    return sorted(found)
