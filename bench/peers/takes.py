"""How a cell is measured, once the daemons run."""

import random
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers import floors
from bench.peers.cells import (
    CHANCE,
    FLOOD,
    FLOOR,
    HALF,
    IDLE,
    MEMORY,
    OURS,
    RING,
    STEADY,
    TUNE,
    Cell,
    Times,
)
from bench.peers.corosync import Corosync
from bench.peers.figures import cpu_s
from bench.peers.ledger import Figures, Ledger
from bench.peers.network import CannotMeasure, Network
from bench.peers.ours import HEADERS, Evensong
from evensong.bench.groups import Load, Place, load_with
from evensong.daemon.orders import WRAPPING

Cluster = Evensong | Corosync
STEADY_RATE = 100
CHANCE_RATE = 1_000
WARM_UP_S = 1.0
LOOKS_S = 5.0  # between two looks at a daemon's memory
SETTLED_S = 60.0  # after which memory should not grow


Measure = Callable[[], Figures]


def take(cell: Cell, cluster: Cluster, ledger: Ledger, times: Times) -> Figures:
    """Measure a cell with a system's daemons."""
    if cell.kind in (FLOOD, TUNE):
        return flood(cluster, cell, times.flood)
    if cell.kind == RING:
        return ring(cluster, cell, times.flood)
    if cell.kind == IDLE:
        return idle(cluster, cell, times.idle)
    if cell.kind == MEMORY:
        return memory(cluster, cell, times.memory)
    node = 2  # not where the token rests
    if cell.kind == STEADY:
        cluster.probe(node, cell.size, STEADY_RATE, STEADY_RATE)
        took = cluster.probe(node, cell.size, STEADY_RATE, int(STEADY_RATE * times.steady))
    elif cell.kind == CHANCE:
        cluster.chance(node, cell.size, CHANCE_RATE, WARM_UP_S)
        took = cluster.chance(node, cell.size, CHANCE_RATE, times.chance)
    else:
        assert cell.kind == HALF
        return half(cluster, cell, ledger, times)
    return {"samples_us": thinned(took, times.samples_max), "samples": len(took)}


def thinned(samples: list[int], most: int) -> list[int]:
    """Return as many of the samples as are kept, drawn by chance, ascending."""
    kept = samples if len(samples) <= most else random.Random(1).sample(samples, most)
    return sorted(kept)


def _pids(cluster: Cluster, cell: Cell) -> list[int]:
    return [cluster.pid(node) for node in range(1, cell.nodes + 1)]


def _places(cluster: Evensong, cell: Cell) -> list[Place]:
    nodes = range(1, cell.nodes + 1)
    return [Place(cluster.state(node), cluster.pid(node)) for node in nodes]


def flood(cluster: Cluster, cell: Cell, seconds: float) -> Figures:
    """Have a client at every node send as fast as it may; count what one of them hears."""
    if isinstance(cluster, Evensong):
        load = Load(cell.size, cell.service, cell.way, 0)
        heard = load_with(_places(cluster, cell), load, seconds)
        return {
            "delivered_per_s": round(heard.delivered_per_s, 1),
            "daemons_cpu_us": round(heard.daemons_cpu_us, 4),
            "cpu_us": round(heard.cpu_us, 4),
            "resent": heard.resent,
            "samples_us": thinned(heard.samples_us, 500),
        }
    cluster.flood(cell.size)
    try:
        time.sleep(WARM_UP_S)
        began, before = _told_next(cluster)
        cpu_before = sum(map(cpu_s, _pids(cluster, cell)))
        time.sleep(seconds)
        ended, after = _told_next(cluster)
        cpu = sum(map(cpu_s, _pids(cluster, cell))) - cpu_before
    finally:
        cluster.stop_flood()
    delivered = after - before
    return {
        "delivered_per_s": round(1e6 * delivered / (ended - began), 1),
        "daemons_cpu_us": round(1e6 * cpu / max(1, delivered), 4),
    }


def _told_next(cluster: Corosync) -> tuple[int, int]:
    """Wait until the client tells its count again; return when it did, and the count."""
    before = cluster.counted()
    until = time.monotonic() + 30
    while (told := cluster.counted()) == before:
        if time.monotonic() > until:
            raise CannotMeasure(f"{cluster.name}: nothing is delivered any more")
        time.sleep(0.005)
    return told


def ring(cluster: Cluster, cell: Cell, seconds: float) -> Figures:
    """Have the daemons themselves send packets of the path's size: the ring alone."""
    assert isinstance(cluster, Evensong)
    cluster.flood(cell.mtu - HEADERS - WRAPPING)
    time.sleep(WARM_UP_S)
    began, before = time.monotonic(), cluster.delivered()
    time.sleep(seconds)
    delivered = cluster.delivered() - before
    lasted = time.monotonic() - began
    cluster.stop_flood()
    return {"packets_per_s": round(delivered / lasted)}


def idle(cluster: Cluster, cell: Cell, seconds: float) -> Figures:
    """Let nothing happen; return what share of a core a daemon takes."""
    time.sleep(1)
    pids = _pids(cluster, cell)
    began, before = time.monotonic(), list(map(cpu_s, pids))
    time.sleep(seconds)
    lasted = time.monotonic() - began
    used = [now - then for now, then in zip(map(cpu_s, pids), before, strict=True)]
    return {"cpu_share": round(statistics.median(used) / lasted, 5)}


def flood_of(cell: Cell) -> Cell:
    """Return the flood that tells what a system delivers at most where half of it is asked for."""
    return cell._replace(kind=FLOOD, way="batch" if cell.system == OURS else "")


def half(cluster: Cluster, cell: Cell, ledger: Ledger, times: Times) -> Figures:
    """Have all send half of what this system delivered when it was flooded."""
    flooded = ledger.values(flood_of(cell), "delivered_per_s")
    if not flooded:
        raise CannotMeasure(f"{cell}: there is no flood to take the half of")
    rate = int(statistics.median(flooded) / 2)
    if isinstance(cluster, Evensong) and cell.way:
        load = Load(cell.size, cell.service, cell.way, rate, "chance")
        heard = load_with(_places(cluster, cell), load, times.half)
        took, delivered = heard.samples_us, heard.delivered_per_s
    else:
        took = cluster.chance_by_all(cell.size, rate, times.half)
        delivered = len(took) / times.half
    kept = thinned(took, times.samples_max)
    return {
        "rate": rate,
        "delivered_per_s": round(delivered),
        "samples": len(took),
        "samples_us": kept,
    }


def memory(cluster: Cluster, cell: Cell, seconds: float) -> Figures:
    """Flood for long, and look at the daemons' memory all the while."""
    pids = _pids(cluster, cell)
    seen: list[tuple[float, float]] = []
    looking = _Looking(pids, seen)
    if isinstance(cluster, Evensong):
        with looking:
            load = Load(cell.size, cell.service, cell.way, 0)
            rate = load_with(_places(cluster, cell), load, seconds).delivered_per_s
    else:
        with looking:
            rate = float(str(flood(cluster, cell, seconds)["delivered_per_s"]))
    settled = [rss for at, rss in seen if at >= min(SETTLED_S, seconds / 2)]
    if not settled:
        raise CannotMeasure(f"{cell}: too short to look at memory")
    return {
        "delivered_per_s": round(rate),
        "rss_mib": max(settled),
        "growth": round(settled[-1] / settled[0], 4),
        "rss_mib_by_s": seen,
    }


class _Looking:
    """Looks at the memory of processes every few seconds, in a thread, as long as it is entered."""

    def __init__(self, pids: list[int], seen: list[tuple[float, float]]) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(pids, seen), daemon=True)

    def _look(self, pids: list[int], seen: list[tuple[float, float]]) -> None:
        began = time.monotonic()
        while True:
            seen.append((round(time.monotonic() - began, 1), max(map(rss_mib, pids))))
            if self._over.wait(LOOKS_S):
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def rss_mib(pid: int) -> float:
    """Return the memory that a process has, in MiB."""
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1_024, 1)
    return 0.0


def take_floor(cell: Cell, network: Network, times: Times) -> Figures:
    """Measure a floor, for which no daemon runs."""
    assert cell.kind == FLOOR
    return floors.measure(network, cell.way, cell.mtu - HEADERS, times.flood)
