"""Rings of many in the simulator, on virtual time, with what things cost real daemons.

Every processor has a core of its own there, which one machine cannot give to many. A step of
virtual time is a tenth of a microsecond, for costs are finer than one.
"""

import random
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from bench.growing.models import Costs, packets_a_rotation
from bench.peers.network import CannotMeasure
from evensong.core.effects import Effect, Install, TokenVisit
from evensong.core.totem.parameters import LAN
from evensong.sim.engines import TOTEM
from evensong.sim.faults import Crash, Restart
from evensong.sim.machine import Processor
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from evensong.sim.world import World

STEPS = 10  # of virtual time, in a microsecond
MS = 1_000 * STEPS
BODY = 16  # bytes: what a packet costs does not depend on it here
BUFFER = 8_192  # datagrams that wait before the kernel drops
FORMS_MS = 60_000
STRIDE = MS


class Simulated(NamedTuple):
    """What a ring did."""

    rotation_us: float
    packets_per_s: float
    failover_ms: list[float]  # of each kill
    changes: int  # of membership during the flood; each is a false suspicion


class Watching:
    """Looks on: when the token came to the first, and who installed what when."""

    def __init__(self) -> None:
        self.visits: list[tuple[int, int]] = []  # when, and how many packets were ordered by then
        self.installed: dict[int, tuple[int, tuple[int, ...]]] = {}  # by node: when, members
        self.installs = 0
        self.world: World | None = None

    def began(self, processor: Processor) -> None:
        """Nothing to see."""

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Note visits and configurations."""
        now = self.world.now if self.world is not None else 0
        if isinstance(effect, TokenVisit):
            if processor.node == 1:
                self.visits.append((now, effect.seq))
        elif isinstance(effect, Install) and not effect.configuration.transitional:
            self.installs += 1
            self.installed[processor.node] = (now, effect.configuration.members)

    def stepped(self, processor: Processor) -> None:
        """Nothing to see."""

    def ended(self, processor: Processor) -> None:
        """Nothing to see."""


class Bench:
    """A simulated ring that is flooded and hurt."""

    def __init__(self, nodes: int, costs: Costs, seed: int = 1) -> None:
        self.nodes = tuple(range(1, nodes + 1))
        options = Options(
            self.nodes,
            seed,
            Weather(latency_us=round(costs.hop * STEPS)),
            LAN.stretched(STEPS),
            cost_us=round(costs.receive * STEPS),
            send_us=round(costs.send * STEPS),
            visit_us=round(costs.visit * STEPS),
            recv_drain_max=LAN.window_size,
            receive_buffer=BUFFER,
        )
        self.seen = Watching()
        self.world = World(Setup(options), TOTEM, None, self.seen)
        self.seen.world = self.world
        self.wait_for_ring()

    def wait_for_ring(self) -> None:
        """Run until all are one ring and have nothing to send."""
        world = self.world
        if not world.run_until(world.is_converged, world.now + FORMS_MS * MS, STRIDE):
            raise CannotMeasure(f"{len(self.nodes)} simulated processors form no ring")

    def flood(self, rotations: int) -> None:
        """Give everybody as much to send as so many full rotations carry."""
        units = -(-rotations * packets_a_rotation(len(self.nodes)) // len(self.nodes))
        for node in self.nodes:
            self.world.schedule(self.world.now + 1, Burst(self.world.now + 1, node, units, BODY))

    def flooded(self, rotations: int) -> tuple[float, float, int]:
        """Flood; return the rotation in us, packets a second, and changes of membership."""
        self.flood(rotations + 2)
        visits, installs = self.seen.visits, self.seen.installs
        first = len(visits) + 2  # behind the rotation in which it began
        world = self.world

        def is_over() -> bool:
            return len(visits) > first + rotations - 1

        if not world.run_until(is_over, world.now + FORMS_MS * MS, STRIDE):
            raise CannotMeasure(f"the token is lost among {len(self.nodes)} simulated processors")
        seen = visits[first : first + rotations]
        took = [after - before for (before, _), (after, _) in pairwise(seen)]
        (began, ordered), (ended, in_all) = seen[0], seen[-1]
        rate = 1e6 * STEPS * (in_all - ordered) / (ended - began)
        self.wait_for_ring()
        return median(took) / STEPS, rate, self.seen.installs - installs

    def kill(self, victim: int, after_us: int, rotations: int) -> float:
        """Kill one in a flood; return how soon the last survivor goes on, in ms."""
        world, installed = self.world, self.seen.installed
        self.flood(rotations)
        killed_at = world.now + after_us * STEPS
        world.schedule(killed_at, Crash(killed_at, victim))
        survivors = [node for node in self.nodes if node != victim]

        def is_over() -> bool:
            told = [installed[node] for node in survivors]
            return all(at > killed_at and victim not in members for at, members in told)

        if not world.run_until(is_over, killed_at + FORMS_MS * MS, STRIDE):
            raise CannotMeasure(f"{len(survivors)} simulated survivors do not go on")
        took = max(installed[node][0] for node in survivors) - killed_at
        again = world.now + MS
        world.schedule(again, Restart(again, victim))
        world.run(again)
        self.wait_for_ring()
        return took / MS


def simulate(nodes: int, costs: Costs, kills: int, rotations: int) -> Simulated:
    """Let so many processors flood for some rotations, and kill one several times."""
    bench = Bench(nodes, costs)
    rotation, rate, changes = bench.flooded(rotations)
    rng = random.Random(nodes)
    full = int(rotation)
    took = [
        bench.kill(1 + number % nodes, full + rng.randrange(2 * full), 6) for number in range(kills)
    ]
    return Simulated(rotation, rate, took, changes)
