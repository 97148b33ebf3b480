"""Nodes on the simulator's network: real rings, real faults, random sessions above them."""

from dataclasses import replace
from random import Random

from evensong.core.core import Source
from evensong.core.effects import Deliver, Effect, Install
from evensong.core.groups.events import SessionId
from evensong.core.groups.frame import SAFE, encode_whole
from evensong.core.groups.layer import State
from evensong.core.groups.limits import Limits
from evensong.core.ids import ProcessorId, RingId
from evensong.core.node import Node
from evensong.core.stable import StableRecord
from evensong.core.totem.parameters import Parameters
from evensong.sim import evs
from evensong.sim.engines import TOTEM, Engine
from evensong.sim.groups.facts import Facts
from evensong.sim.groups.watch import Watcher
from evensong.sim.history import History, LifeId
from evensong.sim.limits import calm_of, settle_us
from evensong.sim.machine import Processor
from evensong.sim.setup import Setup
from evensong.sim.world import World

LIMITS = Limits(payload_max=600)
NAMES = ("g", "h", "i")


def make_node(
    my_id: ProcessorId,
    record: StableRecord,
    incarnation: int,
    parameters: Parameters,
    rng: Random,
    source: Source,
) -> Node:
    return Node(my_id, record, incarnation, parameters, rng, LIMITS, (1, 2, 3))


NODES = Engine(make_node, TOTEM.kinds)


def node_of(processor: Processor) -> Node:
    core = processor.core
    assert isinstance(core, Node)
    return core


class Onlooker:
    """Holds what every node tells its sessions against the promises."""

    def __init__(self) -> None:
        self.world: World
        self.exchanging: dict[tuple[LifeId, RingId], tuple[int, int]] = {}  # from when to when
        self.facts = Facts()
        self.watchers: dict[ProcessorId, Watcher] = {}
        self.lives: dict[LifeId, Node] = {}

    def began(self, processor: Processor) -> None:
        node = node_of(processor)
        self.watchers[processor.node] = Watcher(processor.node, node.groups, self.facts)
        self.lives[processor.node, processor.incarnation] = node

    def effect(self, processor: Processor, effect: Effect) -> None:
        watcher = self.watchers[processor.node]
        if isinstance(effect, Deliver):
            for message in effect.messages():
                watcher.expect(message)
        elif isinstance(effect, Install):
            watcher.installs(transitional=effect.configuration.transitional)

    def stepped(self, processor: Processor) -> None:
        groups = node_of(processor).groups
        self.watchers[processor.node].see(groups.drain())
        if groups.state is State.EXCHANGING:
            key = ((processor.node, processor.incarnation), groups.configuration.conf_id)
            began, _ = self.exchanging.get(key, (self.world.now, 0))
            self.exchanging[key] = (began, self.world.now)

    def ended(self, processor: Processor) -> None:
        pass


class Simulated:
    """One run: a setup's faults, and sessions that follow from the seed."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup = replace(setup, workload=())
        self.rng = Random(seed)
        self.onlooker = Onlooker()
        self.history = History()
        self.world = World(self.setup, NODES, self.history, self.onlooker, is_asleep=True)
        self.onlooker.world = self.world
        for processor in self.world.processors:
            self.world.boot(processor)
        self.numbers: dict[tuple[Node, SessionId], int] = {}
        self.bodies = 0

    def run(self, stride_us: int = 2_000) -> None:
        world = self.world
        calm_at = calm_of(self.setup)
        while world.now < calm_at:
            world.run(min(calm_at, world.now + self.rng.randint(1, stride_us)))
            for _ in range(self.rng.randint(0, 4)):
                self.talk()
        limit = calm_at + 2 * settle_us(self.setup)
        assert world.run_until(self.is_settled, limit), "it does not settle"
        longest = max(
            [end - began for began, end in self.onlooker.exchanging.values() if began > calm_at],
            default=0,
        )
        assert longest <= 2 * self.setup.options.parameters.token_loss, "D7"
        self.onlooker.facts.check_together()

    def is_settled(self) -> bool:
        nodes = [node_of(processor) for processor in self.world.live()]
        is_idle = all(
            node.groups.state is State.REGULAR and not node.groups.queue.queued_bytes
            for node in nodes
        )
        return is_idle and self.world.is_quiet()

    def check_order(self) -> list[evs.Violation]:
        """Return how the packets themselves break extended virtual synchrony."""
        lives = self.onlooker.lives
        self.world.quiesce({life: node.groups.queue.origin.last_no for life, node in lives.items()})
        verdicts = evs.check(self.history)
        return [one for verdict in verdicts.by_property.values() for one in verdict.samples]

    def talk(self) -> None:
        awake = [one for one in self.world.live() if not one.paused]
        if not awake:
            return
        processor = self.rng.choice(awake)
        node = node_of(processor)
        now = processor.clock.local(self.world.now)
        self.act(node, now)
        if processor.core is node:
            self.world.tell(processor, node)

    def act(self, node: Node, now: int) -> None:
        rng = self.rng
        sessions = sorted(node.groups.sessions.open)
        lot = rng.randrange(20)
        if not sessions or (lot == 0 and len(sessions) < 4):
            session = node.open_session("ann", 0, now)
            node.join(session, rng.choice(NAMES), 0, now)
            return
        session = rng.choice(sessions)
        if lot == 1:
            node.join(session, rng.choice(NAMES), 0, now)
        elif lot == 2:
            node.leave_group(session, rng.choice(NAMES), 0, now)
        elif lot == 3 and rng.random() < 0.3:
            node.close_session(session, now)
        else:
            self.send(node, session, now)

    def send(self, node: Node, session: SessionId, now: int) -> None:
        rng = self.rng
        set_no = rng.randrange(len(NAMES))
        names = (NAMES[set_no], NAMES[0])[: rng.randint(1, 2)]
        first_no = self.numbers.get((node, session), 1)
        sizes = [rng.randint(600, 5_000)] if rng.random() < 0.1 else [rng.randint(0, 90)] * 3
        bodies = tuple([self.body(size) for size in sizes])
        self.numbers[node, session] = first_no + len(bodies)
        flags = SAFE if rng.random() < 0.3 else 0
        node.define_set(session, set_no, names, 0)
        names = tuple(dict.fromkeys(names))
        member = node.groups.sessions.open[session].member
        self.onlooker.facts.sent(member, first_no, names, bodies, flags)
        node.send(session, encode_whole(session, first_no, set_no, flags, bodies), 0, now)

    def body(self, size: int) -> bytes:
        self.bodies += 1
        return (b"%d." % self.bodies).ljust(size, b"x")
