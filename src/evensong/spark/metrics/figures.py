"""The tables of measurements as the plain values that a report is made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from evensong.report.model import (
    ONE_WAY,
    OWN,
    Change,
    Fairness,
    Interval,
    Life,
    Load,
    Run,
    Stay,
    Timing,
    Verdict,
)
from evensong.spark.session import is_tiny

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

RUNS_MAX: Final = 12  # that a page shows in full


def runs(
    tables: "Mapping[str, DataFrame]",
    verdicts: Mapping[str, Sequence[Verdict]],
    advance: Callable[[], None] = lambda: None,
    most: int = RUNS_MAX,
) -> tuple[list[Run], int]:
    """Return runs as plain values, and how many there are in all.

    If there are more than a page can show, those are taken first that broke something.
    """
    lives = tables["lives"].collect()
    everybody = sorted({*(row.run_id for row in lives), *verdicts}, key=_natural)
    shown = sorted(everybody, key=lambda name: _rank(verdicts.get(name, ())))[:most]

    def rows_of(name: str) -> "dict[str, list[Row]]":
        table = tables[name]
        chosen = table if len(shown) == len(everybody) else table.where(table.run_id.isin(shown))
        by_run: dict[str, list[Row]] = {}
        for row in lives if name == "lives" else chosen.collect():
            by_run.setdefault(row.run_id, []).append(row)
        return by_run

    rows: dict[str, dict[str, list[Row]]] = {}
    # Of tiny data, one table is computed while another is planned; what they share is kept.
    lanes = 2 if is_tiny(tables["lives"].sparkSession) else 1
    with ThreadPoolExecutor(lanes) as pool:
        for name, by_run in zip(tables, pool.map(rows_of, tables), strict=True):
            rows[name] = by_run
            advance()
    found = [
        _run(name, {table: by_run.get(name, []) for table, by_run in rows.items()}, verdicts)
        for name in sorted(shown, key=_natural)
    ]
    return found, len(everybody)


def _natural(name: str) -> tuple[int, str]:
    """Order seeds as the numbers that they are."""
    return (int(name), name) if name.isdecimal() else (-1, name)


def _rank(verdicts: Sequence[Verdict]) -> int:
    return 0 if any(one.status == "fail" for one in verdicts) else 1


def _run(
    run_id: str, rows: "Mapping[str, list[Row]]", verdicts: Mapping[str, Sequence[Verdict]]
) -> Run:
    origins = {(row.node, row.incarnation): row.origin_us for row in rows["lives"]}
    lives = tuple(_life(row) for row in rows["lives"])
    latency = rows["latency"]
    density = rows["latency_density"]
    return Run(
        run_id,
        lives,
        tuple(_stays(rows["stays"], lives, origins)),
        rows["throughput"][0].width_us if rows["throughput"] else 0,
        tuple(
            Interval(row.node, row.service, row.at_us, row.messages, row.bytes)
            for row in rows["throughput"]
        ),
        tuple(
            Load(
                row.node,
                row.messages_sent,
                row.bytes_sent,
                row.share,
                row.messages_delivered,
                row.bytes_delivered,
                row.visits,
                row.packets_sent,
                row.packets_resent,
            )
            for row in rows["load"]
        ),
        tuple(
            Fairness(
                row.conf_id, row.members, row.messages, row.jain, row.least_share, row.most_share
            )
            for row in rows["fairness"]
        ),
        tuple(_timings(latency, density, OWN)),
        tuple(_timings(latency, density, ONE_WAY)),
        tuple(_timing(f"n{row.node}", row, ()) for row in rows["rotation"]),
        tuple(_timing("all nodes", row, _bins(rows["rotation_density"])) for row in rows["rounds"]),
        tuple(_change(row) for row in rows["changes"]),
        tuple(verdicts.get(run_id, ())),
    )


def _life(row: "Row") -> Life:
    return Life(
        row.node,
        row.incarnation,
        row.clock,
        row.level,
        row.has_beginning,
        row.ended,
        row.gaps,
        row.configurations,
        row.events,
        row.from_us - row.origin_us,
        row.to_us - row.origin_us,
    )


def _stays(
    rows: "Sequence[Row]", lives: Sequence[Life], origins: Mapping[tuple[int, int], int]
) -> Iterable[Stay]:
    ends = {(life.node, life.incarnation): life.to_us for life in lives}
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        whose = (row.node, row.incarnation)
        origin = origins[whose]
        is_next = following is not None and (following.node, following.incarnation) == whose
        to_us = following.t_us - origin if following is not None and is_next else ends[whose]
        yield Stay(
            row.node,
            row.incarnation,
            row.conf_id,
            row.conf_kind == "transitional",
            tuple(row.members),
            row.cause or "",
            row.t_us - origin,
            to_us,
        )


def _timings(rows: "Sequence[Row]", density: "Sequence[Row]", kind: str) -> Iterable[Timing]:
    for row in rows:
        if row.kind == kind:
            mine = [one for one in density if (one.kind, one.service) == (kind, row.service)]
            yield _timing(row.service, row, _bins(mine))


def _timing(name: str, row: "Row", bins: tuple[tuple[float, float, int], ...]) -> Timing:
    return Timing(name, row.n, row.mean_us, row.p50_us, row.p90_us, row.p99_us, row.max_us, bins)


def _bins(rows: "Sequence[Row]") -> tuple[tuple[float, float, int], ...]:
    return tuple((row.from_us, row.to_us, row.n) for row in rows)


def _change(row: "Row") -> Change:
    origin = row.origin_us
    return Change(
        row.conf_id,
        tuple(row.members),
        tuple(row.left),
        tuple(row.joined),
        row.cause,
        row.noticed_by,
        row.noticed_us - origin,
        row.agreed_us - origin if row.agreed_us >= 0 else None,
        row.installed_us - origin,
        row.took_us is not None,
        row.silence_us,
        row.blow or "",
        row.detect_us,
    )
