"""Samples and what is said of them; and how noisy the machine was meanwhile."""

import os
import resource
import statistics
import time
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq in the first line of /proc/stat
STEAL = 7


def quantile(samples: list[int], share: float) -> int:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Spread(NamedTuple):
    """What many samples come to."""

    samples: int
    least: float
    p50: float
    p90: float
    p99: float
    most: float

    @classmethod
    def of(cls, samples: list[int], unit: int) -> "Spread":
        return cls(
            len(samples),
            min(samples) / unit,
            statistics.median(samples) / unit,
            quantile(samples, 0.9) / unit,
            quantile(samples, 0.99) / unit,
            max(samples) / unit,
        )


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, its dead children apart."""
    return sum(map(int, _stat(pid)[11:13])) / TICKS_PER_S


def _stat(pid: int) -> list[str]:
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()


def _descendants_s() -> float:
    """Return the CPU time of everything this process has started, dead or alive, and its own."""
    used = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = _stat(int(entry.name))
            except OSError:
                continue  # it has ended
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            spent[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS_PER_S
    waiting = list(children.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        used += spent[pid]
        waiting += children.get(pid, ())
    return used


class Noise:
    """What else the machine did since this was made, in cores."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._machine = self._look()
        self._own_s = _descendants_s()

    def _look(self) -> tuple[float, float]:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        busy = sum(int(fields[index]) for index in BUSY)
        return busy / TICKS_PER_S, int(fields[STEAL]) / TICKS_PER_S

    def so_far(self) -> dict[str, float]:
        took = time.monotonic() - self._began
        busy, stolen = self._look()
        others = busy - self._machine[0] - (_descendants_s() - self._own_s)
        return {
            "cores": os.cpu_count() or 0,
            "others_cores": round(max(0.0, others) / took, 3),
            "stolen_cores": round((stolen - self._machine[1]) / took, 3),
        }


def wake_lateness_us(seconds: float = 2.0) -> list[int]:
    """Return how late a sleep of a millisecond ends on this machine, over and over."""
    late: list[int] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        due = time.monotonic_ns() + 1_000_000
        time.sleep(0.001)
        late.append((time.monotonic_ns() - due) // 1_000)
    return late
