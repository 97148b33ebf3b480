"""A ring in a world that is judged all along, for directed schedules in Python."""

from collections.abc import Sequence

from evensong.core.effects import Effect, Service, StateChange, TokenVisit
from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import Parameters
from evensong.sim import evs, inject
from evensong.sim.check import Invariants, machine_of
from evensong.sim.engines import TOTEM
from evensong.sim.faults import Fault, Heal, Partition, Restart
from evensong.sim.history import History
from evensong.sim.machine import Processor
from evensong.sim.network import DROP, HOLD, Rule
from evensong.sim.setup import PARAMETERS, Options, Setup
from evensong.sim.story import Audience
from evensong.sim.world import World

ALWAYS = 2**31
LIMIT_US = 3_000_000
KINDS = TOTEM.kinds.names


class Census:
    """Counts what each processor does in each state, and its visits of the token on the way."""

    def __init__(self) -> None:
        self.effects: dict[tuple[ProcessorId, str], int] = {}
        self.visits: dict[tuple[ProcessorId, str], int] = {}
        self.fcc_max = 0
        self._state: dict[ProcessorId, str] = {}

    def began(self, processor: Processor) -> None:
        self._state[processor.node] = ""

    def ended(self, processor: Processor) -> None:
        pass

    def stepped(self, processor: Processor) -> None:
        self._state[processor.node] = processor.state

    def effect(self, processor: Processor, effect: Effect) -> None:
        node = processor.node
        key = (node, self._state[node])
        if isinstance(effect, StateChange) and effect.state != "operational":
            self._state[node] = effect.state  # what installs a ring still belongs to Recovery
            return
        self.effects[key] = self.effects.get(key, 0) + 1
        if isinstance(effect, TokenVisit):
            self.visits[key] = self.visits.get(key, 0) + 1
            self.fcc_max = max(self.fcc_max, effect.fcc)


class Trial:
    """One run: make it, let things happen, then `conclude`."""

    def __init__(
        self,
        nodes: Sequence[ProcessorId],
        parameters: Parameters = PARAMETERS,
        rings: Sequence[Sequence[ProcessorId]] = (),
    ) -> None:
        self.history = History()
        self.census = Census()
        self.parameters = parameters
        options = Options(tuple(nodes), parameters=parameters)
        audience = Audience(Invariants(), self.census)
        self.world = World(Setup(options), TOTEM, self.history, audience, is_asleep=True)
        if rings:
            self.strike(Partition(0, tuple(tuple(ring) for ring in rings)))
        for processor in self.world.processors:
            self.world.boot(processor)
        self.settle()

    def strike(self, fault: Fault) -> None:
        inject.strike(self.world, fault)

    def send(self, node: ProcessorId, text: str, *, safe: bool = True, times: int = 1) -> None:
        processor = self.world.by_node[node]
        core = processor.core
        assert core is not None
        for _ in range(times):
            service = Service.SAFE if safe else Service.AGREED
            processor.queue.submit_body(text.encode(), service)
        self.world.tell(processor, core)

    def drop(
        self, frame: str, source: ProcessorId, target: ProcessorId, skip: int = 0, times: int = 1
    ) -> None:
        rule = Rule(DROP, KINDS[frame], source, target, skip=skip, times=times)
        self.world.network.add_rule(rule)

    def hold(self, frame: str, source: ProcessorId, target: ProcessorId = 0) -> None:
        self.world.network.add_rule(Rule(HOLD, KINDS[frame], source, target, times=ALWAYS))

    def release(self, frame: str, source: ProcessorId, target: ProcessorId) -> int:
        rule = Rule(HOLD, KINDS[frame], source, target)
        return self.world.network.release_matching(rule, self.world.now)

    def part(self, *components: Sequence[ProcessorId]) -> None:
        self.strike(Partition(0, tuple(tuple(component) for component in components)))

    def heal(self) -> None:
        self.strike(Heal(0))
        self.world.network.forget_rules()

    def run(self, for_us: int) -> None:
        self.world.run(self.world.now + for_us)

    def reach(self, node: ProcessorId, state: str) -> None:
        assert self.world.run_until_state(node, state, self.world.now + LIMIT_US)

    def reach_promise(self, node: ProcessorId) -> None:
        processor = self.world.by_node[node]

        def has_promised() -> bool:
            machine = machine_of(processor)
            return machine.recovery is not None and machine.old.ending.received_flg

        assert self.world.run_until(has_promised, self.world.now + LIMIT_US, 10)

    def settle(self) -> None:
        world = self.world
        assert world.run_until(world.is_quiet, world.now + LIMIT_US), "never quiet"

    def restart_all(self) -> None:
        for processor in self.world.processors:
            if not processor.is_up():
                self.strike(Restart(0, processor.node))

    def members(self, node: ProcessorId) -> tuple[ProcessorId, ...]:
        configuration = self.world.by_node[node].configuration
        assert configuration is not None
        return configuration.members

    def rings_installed(self) -> int:
        return len({conf.conf_id for life in self.history.lives.values() for conf in life.confs})

    def conclude(self) -> None:
        """Heal, let everything come to rest with everybody back, and judge the whole history."""
        self.heal()
        self.world.network.release(self.world.now)
        self.settle()
        self.restart_all()
        self.settle()
        self.world.quiesce()
        verdicts = evs.check(self.history)
        assert verdicts.holds, verdicts.explain()
        assert not self.world.halts
