"""Which rings there were, who was in them, and what was planted where."""

from typing import Final, NamedTuple

NODES: Final = tuple(range(1, 9))
SIDES: Final = (NODES[:5], NODES[5:])
CYCLES: Final = 66  # with the last ring of all, 199 configurations
BATCH: Final = 20  # units a visit
LEFT_BEHIND: Final = BATCH  # sent in the last visit, and safe to nobody when the ring breaks
FRAME_EVERY: Final = 4  # one unit in so many is a client's frame
UNIT_US: Final = 10
PAUSE_US: Final = 20_000
PLANT_NODE: Final = 2
Nodes = tuple[int, ...]


class Ring(NamedTuple):
    """One configuration: who is in it, and what was sent there."""

    seq: int
    members: tuple[int, ...]
    n_regular: int  # delivered by all members while the ring was whole
    n_left: int  # delivered after that, in a transitional configuration
    heirs: Nodes  # who delivers what was left behind: they go on with its sender
    t_us: int
    sent_before: dict[int, int]  # by each member, in earlier rings
    plant: str = ""

    @property
    def id(self) -> str:
        """Its name in the trace."""
        return f"{self.seq}.{self.members[0]}"

    @property
    def n_sent(self) -> int:
        """All that was sent in it."""
        return self.n_regular + self.n_left

    @property
    def planted_at(self) -> int:
        """The index of the unit with which something is wrong, if anything is."""
        if self.plant == "early":
            return self.n_regular  # safe, and left behind
        middle = self.n_regular // 2 // BATCH * BATCH  # the first of a visit: its sender is another
        return middle + 5 if self.plant == "missing" else middle


class Stay(NamedTuple):
    """A node in a ring: from where on, in which of its configurations, and what came after."""

    ring: Ring
    start: int  # deliveries made before
    told: int  # frames that the client had been told before
    conf_no: int
    follows: str  # the id of the configuration before
    came: Nodes  # who came from there with it
    together: Nodes  # who goes on with it; nobody: it stays to the end

    @property
    def transitional_id(self) -> str:
        """The configuration after the ring has broken."""
        return f"{self.ring.seq + 2}.{self.together[0]}"


def plan(rows: int, plant: str = "", cycles: int = CYCLES) -> list[list[Ring]]:
    """Return the rings of the long run in order, those at the same time together."""
    # A whole ring has twice as much as each of its sides: 12 parts a cycle, and a quarter on top.
    share = rows * FRAME_EVERY // ((FRAME_EVERY + 1) * cycles * 12)
    phases: list[list[Ring]] = []
    sent = dict.fromkeys(NODES, 0)
    seq, now = 4, PAUSE_US
    for number in range(2 * cycles + 1):
        is_last = number == 2 * cycles
        rings = []
        for members in SIDES if number % 2 else (NODES,):
            step = BATCH * len(members)
            least = 4 * step
            n_regular = max(least, (share // 2 if number % 2 else share) // step * step)
            n_left = 0 if is_last else LEFT_BEHIND
            heirs = members if number % 2 else SIDES[0]
            here = plant if number == cycles // 2 * 2 else ""
            rings.append(Ring(seq, members, n_regular, n_left, heirs, now, dict(sent), here))
        for ring in rings:
            for member in ring.members:
                sent[member] += ring.n_regular // len(ring.members)
            sent[ring.members[0]] += ring.n_left
        phases.append(rings)
        seq += 4
        now = max(ring.t_us + ring.n_sent * UNIT_US for ring in rings) + PAUSE_US
    return phases


def calm() -> list[list[Ring]]:
    """Return the one ring of the short run."""
    n_regular = BATCH * len(NODES) * 10
    return [[Ring(4, NODES, n_regular, 0, NODES, PAUSE_US, dict.fromkeys(NODES, 0))]]


def stays_of(node: int, phases: list[list[Ring]]) -> list[Stay]:
    """Return the rings that a node was in."""
    stays: list[Stay] = []
    start = told = conf_no = 0
    follows = "0.0"
    came: Nodes = ()
    mine = [next(ring for ring in rings if node in ring.members) for rings in phases]
    for ring, after in zip(mine, [*mine[1:], None], strict=True):
        together = (
            tuple(one for one in ring.members if one in after.members) if after is not None else ()
        )
        stay = Stay(ring, start, told, conf_no, follows, came, together)
        stays.append(stay)
        start += delivered(node, ring)
        told += len(frames(node, ring))
        conf_no += 2
        follows, came = (stay.transitional_id, together) if together else ("", ())
    return stays


def delivered(node: int, ring: Ring) -> int:
    """Return how many units of a ring a node delivered."""
    is_lacking = ring.plant == "missing" and node == PLANT_NODE
    return ring.n_regular + (ring.n_left if node in ring.heirs else 0) - is_lacking


def frames(node: int, ring: Ring) -> range:
    """Return the indices of the units that are frames, of those that a node's client was told."""
    return range(0, ring.n_sent if node in ring.heirs else ring.n_regular, FRAME_EVERY)


def n_rows(phases: list[list[Ring]]) -> int:
    """Return how many deliveries there are, by nodes and to clients."""
    return sum(
        delivered(node, ring) + len(frames(node, ring))
        for rings in phases
        for ring in rings
        for node in ring.members
    )
