"""How many packets a second a ring of daemons orders on this machine, beside the floor.

Every daemon floods; what counts is what one of them delivers. The ways in which a ring can run take
turns with the floor, so that a busy machine slows all of them alike.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from evensong.bench import floor
from evensong.cli.up import Cluster, lay_out
from evensong.core.groups.packet import FOREIGN
from evensong.core.totem.wire import REGULAR_FRAME
from evensong.core.unit import UNIT
from evensong.daemon.control import Answer, ask
from evensong.daemon.seal import ENVELOPE, TAG_SIZE

WARM_UP_S: Final = 1.0
MESSAGE: Final = 100  # bytes of a small message, of which a packet holds many
LENGTH_FIELD: Final = 2
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Way(NamedTuple):
    """One way in which a ring can run."""

    name: str
    is_sealed: bool
    in_bursts: bool
    trace: str = "off"

    def settings(self) -> str:
        """Return the lines that make daemons run so."""
        gso = "auto" if self.in_bursts else "off"
        return f'testing = true\ngso = "{gso}"\ntrace = "{self.trace}"\n'

    def payload(self, datagram: int) -> int:
        """Return how many bytes a message has whose datagram has so many."""
        tag = TAG_SIZE if self.is_sealed else 0
        return datagram - ENVELOPE.size - REGULAR_FRAME.size - UNIT.size - len(FOREIGN) - tag


PLAIN: Final = Way("one by one, unsealed", is_sealed=False, in_bursts=False)
BURSTS: Final = Way("in bursts, unsealed", is_sealed=False, in_bursts=True)
SEALED: Final = Way("in bursts, sealed", is_sealed=True, in_bursts=True)
WAYS: Final = (PLAIN, BURSTS, SEALED)
TRACED: Final = (
    SEALED._replace(name="sealed, trace views", trace="views"),
    SEALED._replace(name="sealed, trace events", trace="events"),
)


class Turn(NamedTuple):
    """What one run of a ring came to."""

    packets_per_s: float  # delivered at one daemon
    cpu_us: float  # of all daemons together, for each packet ordered
    view_changes: int  # while it was flooded; none on a machine that is not overloaded
    trace_bytes: float  # on disk at one daemon, for each packet delivered there


def measure(
    ways: tuple[Way, ...],
    nodes: int,
    size: int,
    seconds: float,
    turns: int,
    advance: Callable[[], None],
) -> tuple[list[float], dict[Way, list[Turn]]]:
    """Let the floor and each way take turns; return the floor's rates and each way's turns."""
    floors: list[float] = []
    taken: dict[Way, list[Turn]] = {way: [] for way in ways}
    for _ in range(turns):
        floors.append(floor.measure(size, seconds))
        advance()
        for way in ways:
            taken[way].append(_take_turn(way, nodes, size, seconds))
            advance()
    return floors, taken


def _take_turn(way: Way, nodes: int, size: int, seconds: float) -> Turn:
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
        directory = Path(made)
        configs = lay_out(
            directory, nodes, "lan", is_insecure=not way.is_sealed, extra=way.settings()
        )
        cluster = Cluster(configs)
        try:
            cluster.start()
            cluster.wait_for_one_ring()
            return _flood(way, cluster, configs, size, seconds)
        finally:
            cluster.stop()


def _flood(way: Way, cluster: Cluster, configs: list[Path], size: int, seconds: float) -> Turn:
    states = [cluster.state_of(config) for config in configs]
    flood = {"do": "flood", "size": way.payload(size), "seconds": 3 * seconds + 10}
    for state in states:
        ask(state, flood)
    time.sleep(WARM_UP_S)
    pids = [process.pid for process in cluster.processes.values()]
    before, cpu_before, began = ask(states[0], {"do": "status"}), _cpu_s(pids), time.monotonic()
    time.sleep(seconds)
    after, cpu_after, ended = ask(states[0], {"do": "status"}), _cpu_s(pids), time.monotonic()
    for state in states:
        ask(state, {**flood, "seconds": 0})
    delivered = _count(after, "delivered") - _count(before, "delivered")
    cluster.stop()  # what it traced is on disk then
    return Turn(
        delivered / (ended - began),
        1e6 * (cpu_after - cpu_before) / max(1, delivered),
        _count(after, "configurations") - _count(before, "configurations"),
        _traced(states[0]) / max(1, _count(after, "delivered")),
    )


def _count(status: Answer, name: str) -> int:
    count = status[name]
    assert isinstance(count, int)
    return count


def _cpu_s(pids: list[int]) -> float:
    """Return the processor time that these processes have used."""
    used = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / TICKS


def _traced(state: Path) -> int:
    trace = state / "trace"
    return sum(one.stat().st_size for one in trace.rglob("*") if one.is_file())


def messages_in(size: int) -> int:
    """Return how many small messages a packet of so many bytes holds."""
    return SEALED.payload(size) // (MESSAGE + LENGTH_FIELD)


def median(amounts: list[float]) -> float:
    """Return the median."""
    return statistics.median(amounts)
