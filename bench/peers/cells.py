"""What is measured: cells, and the order in which a run goes through them.

A cell is one figure of one system: so many nodes, such a path, such messages. A run takes turns:
each turn goes through every place (nodes and path), there through the systems, in the other order
every second turn, and with each system's daemons running through all of its cells.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

OURS, THEIRS, UDP, NATS, REDIS = "evensong", "corosync", "udp", "nats", "redis"
FLOOD, RING, IDLE, STEADY, CHANCE, HALF, MEMORY, TUNE, FLOOR, FAILOVER, MARK = (
    "flood",
    "ring",
    "idle",
    "steady",
    "chance",
    "half",
    "memory",
    "tune",
    "floor",
    "failover",
    "mark",
)
KIB = 1_024
MIB = KIB * KIB
LARGEST = 1_000_000  # nearly 1 MiB: corosync's client does not take more in one piece
FLOORS = ("plain", "gso", "sealed")
# Settings of corosync that are tried at each MTU; the best one is what it is measured with.
TUNINGS: dict[str, tuple[str, ...]] = {
    "usual": (),
    "window": ("window_size: 300", "max_messages: 28"),
    "wide": ("window_size: 300", "max_messages: 100"),
    "path": ("window_size: 300", "max_messages: 28", "netmtu: {netmtu}"),
}
NETMTU_LESS = 100  # than the path: what is left for headers and the tag


def tuned(name: str, mtu: int) -> tuple[str, ...]:
    """Return the lines of corosync's settings for a path."""
    return tuple(line.format(netmtu=mtu - NETMTU_LESS) for line in TUNINGS[name])


class Cell(NamedTuple):
    """One figure of one system."""

    kind: str
    system: str
    nodes: int = 3
    mtu: int = 1_500
    size: int = 100  # of a message
    way: str = ""  # how ours is used, which setting of corosync is tried, which floor
    service: str = "agreed"

    def __str__(self) -> str:
        said = [self.kind, f"{self.nodes} nodes", f"MTU {self.mtu}", f"{self.size} B", self.way]
        if self.service != "agreed":
            said.append(self.service)
        return f"{self.system}: {', '.join(filter(None, said))}"


class Times(NamedTuple):
    """How long each kind takes, in seconds, without its warm-up."""

    flood: float = 3.0
    idle: float = 4.0
    steady: float = 6.0
    chance: float = 5.0
    half: float = 4.0
    memory: float = 600.0
    kills: int = 12
    suspicion: float = 30.0  # of flood, before the kills of fail-over
    samples_max: int = 10_000  # of a latency that are kept of each turn
    long: float = 0.0  # of flood of the best settings for fail-over; 0: only the usual ones

    def of(self, cell: Cell) -> float:
        """About how long a cell takes, with all that is around it but for starting daemons."""
        if cell.kind == FAILOVER and self.long:
            each = self.suspicion + 8 + self.kills * 4.5
            return 6 * each + 2 * (self.long + 8)
        if cell.kind == FAILOVER:
            return 2 * (self.suspicion + 8) + 3 * self.kills * 4.5
        lasts = {
            IDLE: self.idle,
            STEADY: self.steady,
            CHANCE: self.chance,
            HALF: self.half,
            MEMORY: self.memory,
        }
        return lasts.get(cell.kind, self.flood) + 3.5


class Stop(NamedTuple):
    """The cells of one system at one place, in one turn."""

    turn: int
    cells: tuple[Cell, ...]

    def start_s(self) -> float:
        """About how long its daemons take to start and to end."""
        return 3.0 + 0.5 * self.cells[0].nodes if self.cells[0].system in (OURS, THEIRS) else 0.5


SHORT_TIMES = Times()
BRIEF_TIMES = Times(1, 1, 1, 1, 1, 6, 2, 2, 1_000)  # nothing is to be concluded from it
FULL_TIMES = Times(
    flood=4.0,
    steady=40.0,
    chance=8.0,
    half=8.0,
    kills=20,
    suspicion=120.0,
    samples_max=25_000,
    long=600.0,
)


def tunings(mtus: Iterable[int]) -> Iterator[Stop]:
    """Yield what finds out corosync's best settings; each has daemons of its own."""
    for mtu in mtus:
        for name in TUNINGS:
            sizes = (100, KIB)
            yield Stop(0, tuple(Cell(TUNE, THEIRS, 3, mtu, size, name) for size in sizes))


def turning(turns: int, places: Sequence[Sequence[tuple[Cell, ...]]]) -> Iterator[Stop]:
    """Yield the stops of all turns; who comes first at a place changes from turn to turn."""
    for turn in range(turns):
        for stops in places:
            for cells in stops if turn % 2 == 0 else stops[::-1]:
                yield Stop(turn, cells)


def short(turns: int) -> list[Stop]:
    """Return what `make bench-peers` goes through."""
    floods = (64, 100, KIB, 8 * KIB, 64 * KIB)
    places = [
        [
            (*_floods(OURS, 3, 1_500, floods), *_latencies(OURS, 3), Cell(RING, OURS)),
            (*_floods(THEIRS, 3, 1_500, floods), *_latencies(THEIRS, 3)),
            tuple(Cell(FLOOR, UDP, way=way) for way in FLOORS),
        ],
        [
            _floods(OURS, 3, 9_000, floods[1:]),
            _floods(THEIRS, 3, 9_000, floods[1:]),
        ],
        [_floods(OURS, 8, 1_500, (100, KIB)), _floods(THEIRS, 8, 1_500, (100, KIB))],
    ]
    failover = Stop(0, (Cell(FAILOVER, OURS, size=KIB),))
    return [*tunings((1_500, 9_000)), *turning(turns, places), failover]


def full(turns: int) -> list[Stop]:
    """Return what `make bench-peers-full` goes through: hours, so it can be stopped at any time."""
    sizes = (64, 100, KIB, 8 * KIB, 64 * KIB, 256 * KIB, LARGEST)
    places: list[list[tuple[Cell, ...]]] = []
    for nodes, mtu in ((3, 1_500), (3, 9_000), (2, 1_500), (5, 1_500), (8, 1_500)):
        ours = [*_floods(OURS, nodes, mtu, sizes)]
        ours += [Cell(FLOOD, OURS, nodes, mtu, size, "batch", "safe") for size in sizes]
        theirs = [*_floods(THEIRS, nodes, mtu, sizes)]
        place = [
            (*ours, *_latencies(OURS, nodes, mtu), Cell(RING, OURS, nodes, mtu)),
            (*theirs, *_latencies(THEIRS, nodes, mtu)),
        ]
        if nodes == 3:
            place.append(tuple(Cell(FLOOR, UDP, 3, mtu, way=way) for way in FLOORS))
        places.append(place)
    marks = [
        tuple(Cell(MARK, system, size=size) for size in (100, KIB)) for system in (NATS, REDIS)
    ]
    places[0] += marks
    last = [
        Stop(0, (Cell(MEMORY, OURS, way="batch"),)),
        Stop(0, (Cell(MEMORY, THEIRS),)),
        Stop(0, (Cell(FAILOVER, OURS, size=KIB),)),
    ]
    return [*tunings((1_500, 9_000)), *turning(turns, places), *last]


def _floods(system: str, nodes: int, mtu: int, sizes: Iterable[int]) -> tuple[Cell, ...]:
    way = "batch" if system == OURS else ""
    cells = [Cell(FLOOD, system, nodes, mtu, size, way) for size in sizes]
    if system == OURS:
        singly = [one._replace(way="message") for one in cells if one.size in (64, 100)]
        cells += singly
    return tuple(cells)


def _latencies(system: str, nodes: int, mtu: int = 1_500) -> tuple[Cell, ...]:
    cells = (
        Cell(IDLE, system, nodes, mtu),
        Cell(STEADY, system, nodes, mtu, 100),
        Cell(CHANCE, system, nodes, mtu, KIB),
        Cell(HALF, system, nodes, mtu, KIB),
    )
    return (*cells, cells[-1]._replace(way="batch")) if system == OURS else cells


def seconds(stops: Iterable[Stop], times: Times) -> float:
    """Return about how long these take."""
    return sum(stop.start_s() + sum(map(times.of, stop.cells)) for stop in stops if stop.cells)
