"""The bars of the comparison as data: what is asked of which figure, and whether it is so.

A bar that the run has not measured is neither held nor missed.
"""

import statistics
from typing import NamedTuple

from bench.peers.cells import (
    CHANCE,
    FAILOVER,
    FLOOD,
    FLOOR,
    HALF,
    IDLE,
    KIB,
    MEMORY,
    OURS,
    RING,
    STEADY,
    THEIRS,
    UDP,
    Cell,
)
from bench.peers.ledger import Ledger

RATE, CPU, P50, P99 = "delivered_per_s", "daemons_cpu_us", "p50", "p99"
RATIO, SHARE = "ratio", "cpu_share"
RSS, GROWTH = "rss_mib", "growth"


class Bar(NamedTuple):
    """What is asked: a figure of ours, by itself or over that of somebody else."""

    name: str
    figure: str
    ours: Cell
    theirs: Cell | None
    bound: float
    aim: float | None = None
    is_least: bool = False  # the bound is the least it may be, else the most


class Verdict(NamedTuple):
    """How a bar stands."""

    bar: Bar
    value: float | None  # None: not measured

    @property
    def holds(self) -> bool | None:
        return None if self.value is None else self._is_within(self.bar.bound)

    @property
    def is_at_aim(self) -> bool:
        aim = self.bar.aim
        return self.value is not None and aim is not None and self._is_within(aim)

    def _is_within(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.bar.is_least else self.value <= bound

    def word(self) -> str:
        """Say it in a word."""
        if self.holds is None:
            return "not measured"
        return "at the aim" if self.is_at_aim else "holds" if self.holds else "MISSED"


def _rates(nodes: int, mtu: int, size: int, way: str, bound: float, aim: float) -> Bar:
    said = f"{size // KIB} KiB" if size >= KIB else f"{size} B"
    return Bar(
        f"{nodes} nodes, MTU {mtu}, {said}, by {way}: delivered/s",
        RATE,
        Cell(FLOOD, OURS, nodes, mtu, size, way),
        Cell(FLOOD, THEIRS, nodes, mtu, size),
        bound,
        aim,
        is_least=True,
    )


def _latency(name: str, figure: str, kind: str, size: int, bound: float, aim: float | None) -> Bar:
    ours, theirs = Cell(kind, OURS, size=size), Cell(kind, THEIRS, size=size)
    return Bar(name, figure, ours, theirs, bound, aim)


BARS: tuple[Bar, ...] = (
    *(_rates(3, 1_500, size, "batch", 10, 15) for size in (64, 100)),
    *(_rates(3, 1_500, size, "message", 2, 4) for size in (64, 100)),
    _rates(3, 1_500, KIB, "batch", 4, 6),
    *(_rates(3, 1_500, size, "batch", 3, 5) for size in (8 * KIB, 64 * KIB)),
    *(_rates(3, 9_000, size, "batch", 3, 10) for size in (100, KIB)),
    *(_rates(3, 9_000, size, "batch", 1.3, 2) for size in (8 * KIB, 64 * KIB)),
    *(_rates(8, 1_500, size, "batch", 5, 10) for size in (100, KIB)),
    _latency("p50 at 100/s, 100 B", P50, STEADY, 100, 1.15, 0.9),
    _latency("p50 at 1000/s by chance, 1 KiB", P50, CHANCE, KIB, 1.15, 0.9),
    Bar("CPU of an idle daemon, of a core", SHARE, Cell(IDLE, OURS), None, 0.05),
    _latency("p99 at half of the own saturation, 1 KiB", P99, HALF, KIB, 1.0, None),
    Bar(
        "CPU of the daemons for a delivered message of 100 B",
        CPU,
        Cell(FLOOD, OURS, way="batch"),
        Cell(FLOOD, THEIRS),
        0.25,
        0.1,
    ),
    Bar("fail-over", RATIO, Cell(FAILOVER, OURS, size=KIB), None, 0.6, 0.35),
    Bar(
        "the ring's share of the floor: segments of one call, sealed, no order",
        "packets_per_s",
        Cell(RING, OURS),
        Cell(FLOOR, UDP, way="sealed"),
        0.6,
        0.8,
        is_least=True,
    ),
    Bar(
        "memory of a daemon after ten minutes, MiB", RSS, Cell(MEMORY, OURS, way="batch"), None, 150
    ),
    Bar(
        "memory at the end over memory after the first minute",
        GROWTH,
        Cell(MEMORY, OURS, way="batch"),
        None,
        1.05,
    ),
)


def judge(ledger: Ledger, bars: tuple[Bar, ...] = BARS) -> list[Verdict]:
    """Return how each bar stands."""
    return [Verdict(bar, _value(ledger, bar)) for bar in bars]


def _value(ledger: Ledger, bar: Bar) -> float | None:
    ours = _figure(ledger, bar.ours, bar.figure)
    if bar.theirs is None:
        return ours
    theirs = _figure(ledger, bar.theirs, bar.figure)
    return ours / theirs if ours is not None and theirs else None


def _figure(ledger: Ledger, cell: Cell, name: str) -> float | None:
    """Return a figure of a cell: of the samples of all turns, or the median of the turns."""
    if name in (P50, P99):
        return ledger.latency(cell).get(name)
    values = ledger.values(cell, name)
    return statistics.median(values) if values else None
