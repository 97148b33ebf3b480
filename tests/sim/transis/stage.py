"""A broadcast domain for directed schedules: every step is checked, and what was done is told."""

from evensong.core.effects import Broadcast, Deliver, Effect, Install, Service
from evensong.core.ids import ProcessorId, RingId
from evensong.core.transis.frames import KIND_NAMES
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.parameters import Parameters
from evensong.core.unit import body_of
from evensong.sim import inject
from evensong.sim.engines import engine_of
from evensong.sim.faults import Calm, Crash, Cut, Fault
from evensong.sim.history import History
from evensong.sim.machine import Processor
from evensong.sim.network import DELAY, DROP, HOLD, Rule
from evensong.sim.setup import TRANSIS, Options, Setup
from evensong.sim.transis.check import LansisInvariants
from evensong.sim.transis.judge import check
from evensong.sim.world import World

SETTLE_US = 3_000_000
KIND_BY_NAME = {name: kind for kind, name in KIND_NAMES.items()}


class Stage:
    """Processors under the invariants; `told` is what each delivered and installed."""

    def __init__(self, *nodes: ProcessorId, seed: int = 0, **parameters: int) -> None:
        self.parameters = Parameters(**parameters)
        self.invariants = LansisInvariants()
        self.history = History()
        self.delivered: dict[ProcessorId, list[str]] = {node: [] for node in nodes}
        self.views: dict[ProcessorId, list[tuple[ProcessorId, ...]]] = {node: [] for node in nodes}
        self.transitional: set[RingId] = set()
        self.datagrams: list[bytes] = []
        self.sent: list[tuple[int, ProcessorId, str]] = []
        options = Options(nodes, seed, engine=TRANSIS, lansis=self.parameters)
        self.world = World(Setup(options), engine_of(options), self.history, self, is_asleep=True)
        for processor in self.world.processors:
            self.world.boot(processor)

    def began(self, processor: Processor) -> None:
        self.invariants.began(processor)

    def effect(self, processor: Processor, effect: Effect) -> None:
        self.invariants.effect(processor, effect)
        if isinstance(effect, Deliver):
            for message in effect.messages():
                is_reduced = effect.conf_id in self.transitional
                told = body_of(message.payload).decode() + ("'" if is_reduced else "")
                self.delivered[processor.node].append(told)
        elif isinstance(effect, Install):
            if effect.configuration.transitional:
                self.transitional.add(effect.configuration.conf_id)
            else:
                self.views[processor.node].append(effect.configuration.members)
        elif isinstance(effect, Broadcast):
            self.datagrams.append(effect.datagram)
            self.sent.append((self.world.now, processor.node, KIND_NAMES[effect.datagram[0]]))

    def stepped(self, processor: Processor) -> None:
        self.invariants.stepped(processor)

    def ended(self, processor: Processor) -> None:
        self.invariants.ended(processor)

    # -- what a schedule does ----------------------------------------------------------------

    def form(self) -> None:
        """Let everybody be in one view."""
        world = self.world
        assert world.run_until(world.is_quiet, SETTLE_US, 100)
        for views in self.views.values():
            views.clear()
        self.sent.clear()

    def core(self, node: ProcessorId) -> Lansis:
        core = self.world.by_node[node].core
        assert isinstance(core, Lansis)
        return core

    def send(self, node: ProcessorId, *bodies: str, service: Service = Service.AGREED) -> None:
        """Let a client hand messages over."""
        processor = self.world.by_node[node]
        assert processor.core is not None
        for body in bodies:
            processor.queue.submit_body(body.encode(), service)
        self.world.tell(processor, processor.core)

    def run(self, us: int) -> None:
        self.world.run(self.world.now + us)

    def strike(self, fault: Fault) -> None:
        inject.strike(self.world, fault)

    def crash(self, node: ProcessorId) -> None:
        self.strike(Crash(0, node))

    def cut_off(self, node: ProcessorId) -> None:
        """Let nobody hear it, and it nobody."""
        self.strike(Cut(0, node, 0))
        self.strike(Cut(0, 0, node))

    def rule(
        self,
        action: str,
        kind: str,
        source: ProcessorId = 0,
        target: ProcessorId = 0,
        times: int = 2**31,
        delay_us: int = 0,
        seq: int | None = None,
    ) -> None:
        """Act on datagrams of a kind."""
        assert action in (DROP, HOLD, DELAY)
        made = Rule(
            action, KIND_BY_NAME[kind], source, target, times=times, delay_us=delay_us, seq=seq
        )
        self.world.network.add_rule(made)

    def finish(self) -> None:
        """Calm everything, converge, and hold the whole against the promises."""
        world = self.world
        self.strike(Calm(0))
        assert world.run_until(world.is_quiet, world.now + SETTLE_US, 500)
        world.quiesce()
        assert self.invariants.look_back().violations == []
        verdicts = check(self.history)
        assert verdicts.holds, verdicts.explain()
