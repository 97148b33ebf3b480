"""A cluster of simulated daemons for tests: faults at will, and time that passes when told to.

Everything follows from the seed and from what the test does, so a failure repeats. The daemons are
the real ones without their sockets, and what they tell their clients is held against the promises
of groups all the while: a test that fails by `InvariantBroken` has found a mistake of evensong.
"""

from collections.abc import Collection, Iterable
from typing import Final, final

from evensong.core.engine import ENGINES, TOTEM
from evensong.core.groups.limits import MESSAGE_MAX, Limits
from evensong.core.ids import PROCESSORS_MAX, ProcessorId
from evensong.core.totem.parameters import Parameters
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.errors import BadRequest, Unreachable
from evensong.sim import inject
from evensong.sim.faults import Crash, Fault, Heal, Partition, Pause, Restart, Resume
from evensong.sim.groups.crowd import Crowd, nodes_engine
from evensong.sim.groups.process import MESSAGE
from evensong.sim.machine import Processor
from evensong.sim.setup import CLIENTS, Options, Setup, Weather, derive
from evensong.sim.world import World
from evensong.testing.client import Client

SECOND_US: Final = 1_000_000
PAUSE_US: Final = 200  # a client takes up to this until it says what its state needs to be said
SETTLE_S: Final = 60.0


def cluster(
    nodes: int,
    seed: int = 0,
    *,
    latency_us: int = 100,
    jitter_us: int = 50,
    loss: float = 0.0,
    engine: str = TOTEM,
) -> "Cluster":
    """Start daemons 1 to `nodes` and wait until they are one ring, or one view of Transis.

    >>> es = cluster(3, seed=1)
    >>> ann, bob = es.client(1, "ann"), es.client(2, "bob")
    >>> bob.join("orders")
    >>> es.settle()
    >>> _ = ann.send("orders", b"buy 5")
    >>> es.settle()
    >>> bob.events()[-1].payload
    b'buy 5'
    """
    if not 0 < nodes <= PROCESSORS_MAX:
        raise BadRequest(f"{nodes} daemons; a ring has 1 to {PROCESSORS_MAX}")
    if not 0 <= loss < 1:
        raise BadRequest(f"loss {loss} is no probability below 1")
    if latency_us < 0 or jitter_us < 0:
        raise BadRequest(f"latency_us {latency_us}, jitter_us {jitter_us}: neither is below 0")
    if engine not in ENGINES:
        raise BadRequest(f"engine: takes one of {', '.join(ENGINES)}; got {engine!r}")
    weather = Weather(latency_us=latency_us, jitter_us=jitter_us, loss=loss)
    started = Cluster(tuple(range(1, nodes + 1)), seed, weather, engine)
    started.settle()
    return started


@final
class Cluster:
    """Daemons, the network between them, and their clients."""

    def __init__(
        self, nodes: tuple[ProcessorId, ...], seed: int, weather: Weather, engine: str
    ) -> None:
        self.nodes: Final = nodes
        self.seed: Final = seed
        limits = Limits(message_max=MESSAGE_MAX + len(MESSAGE))  # what marks it is not the test's
        parameters = Parameters.for_ring(len(nodes))
        lansis = LansisParameters.for_domain(len(nodes))
        options = Options(nodes, seed, weather, parameters, engine=engine, lansis=lansis)
        self._crowd: Final = Crowd(limits, derive(seed, CLIENTS), PAUSE_US, options)
        made = nodes_engine(limits, options)
        self._world: Final = World(Setup(options), made, None, self._crowd, is_asleep=True)
        self._crowd.world = self._world
        for processor in self._world.processors:
            self._world.boot(processor)

    def __repr__(self) -> str:
        return f"<cluster of {len(self.nodes)}, seed {self.seed}, at {self.now:.6f} s>"

    @property
    def now(self) -> float:
        """Virtual time, in seconds since the start."""
        return self._world.now / SECOND_US

    def client(self, node: ProcessorId, name: str = "client") -> Client:
        """Connect a client to a daemon."""
        processor = self._processor(node)
        if processor.core is None or processor.paused:
            raise Unreachable(f"daemon {node} does not run")
        return Client(self._crowd, processor, name)

    def _processor(self, node: ProcessorId) -> Processor:
        processor = self._world.by_node.get(node)
        if processor is None:
            raise BadRequest(f"{node} is none of the daemons {self.nodes}")
        return processor

    # Faults

    def partition(self, *components: Collection[ProcessorId]) -> None:
        """Let only daemons of one component hear each other; who is in none hears nobody."""
        named = [node for component in components for node in component]
        for node in named:
            self._processor(node)
        if len(set(named)) != len(named):
            raise BadRequest("a daemon is in one component only")
        alone = [(node,) for node in self.nodes if node not in named]
        parts = (*(tuple(component) for component in components), *alone)
        self._strike(Partition(self._world.now, parts))

    def heal(self) -> None:
        """Let all daemons hear each other again."""
        self._strike(Heal(self._world.now))

    def crash(self, *nodes: ProcessorId) -> None:
        """Stop daemons without a word; their clients lose their connection."""
        for node in self._running(nodes):
            self._strike(Crash(self._world.now, node))

    def restart(self, *nodes: ProcessorId) -> None:
        """Start daemons again with what their disks have; it takes them a moment."""
        for node in nodes:
            if self._processor(node).core is not None:
                raise BadRequest(f"daemon {node} runs")
        for node in nodes:
            self._strike(Restart(self._world.now, node))
        self._world.run(self._world.now + 2 * inject.RESTART_US)

    def pause(self, *nodes: ProcessorId) -> None:
        """Suspend daemons: they hear and do nothing, and do not know it."""
        for node in self._running(nodes):
            self._strike(Pause(self._world.now, node))

    def resume(self, *nodes: ProcessorId) -> None:
        """Let suspended daemons go on."""
        for node in self._running(nodes):
            self._strike(Resume(self._world.now, node))

    def _running(self, nodes: Iterable[ProcessorId]) -> list[ProcessorId]:
        chosen = list(nodes)
        for node in chosen:
            if self._processor(node).core is None:
                raise BadRequest(f"daemon {node} does not run")
        return chosen

    def _strike(self, fault: Fault) -> None:
        inject.strike(self._world, fault)

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise BadRequest("time does not go back")
        self._world.run(self._world.now + round(seconds * SECOND_US))

    def settle(self, seconds_max: float = SETTLE_S) -> None:
        """Let time pass until all who hear each other are one ring and nothing is under way."""
        suspended = [one.node for one in self._world.live() if one.paused]
        if suspended:
            raise BadRequest(f"{suspended} are suspended, nothing can settle: use `advance`")
        limit = self._world.now + round(seconds_max * SECOND_US)
        if not self._world.run_until(self._crowd.is_quiet, limit):
            text = f"the cluster does not settle within {seconds_max} s"
            raise Unreachable(f"{text}: {self.describe()}")
        self._crowd.facts.check_together()
        self._crowd.facts.spans.clear()  # everybody has come so far: they need not be seen again

    def describe(self) -> str:
        """Say how each daemon is."""
        said = []
        for processor in self._world.processors:
            if processor.core is None:
                said.append(f"{processor.node} is down")
            elif processor.paused:
                said.append(f"{processor.node} is suspended")
            else:
                said.append(f"{processor.node} is {processor.state} in {processor.configuration}")
        return "; ".join(said)
