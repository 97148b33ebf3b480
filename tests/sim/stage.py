"""A world for directed schedules: every step is checked, every effect can be answered by a test."""

from typing import TYPE_CHECKING, Final

from evensong.core.effects import Effect, Service
from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import Parameters
from evensong.sim import evs, inject
from evensong.sim.check import Invariants
from evensong.sim.engines import TOTEM
from evensong.sim.faults import Calm
from evensong.sim.history import History
from evensong.sim.machine import Processor
from evensong.sim.setup import Options, Setup
from evensong.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SETTLE_US: Final = 3_000_000


class Stage:
    """A ring of processors under the invariants, with hooks for what a schedule waits for."""

    def __init__(self, *nodes: ProcessorId, parameters: Parameters | None = None) -> None:
        self.parameters = parameters if parameters is not None else Parameters()
        self.invariants = Invariants()
        self.history = History()
        self.on_effect: Callable[[Processor, Effect], None] = lambda processor, effect: None
        self.on_step: Callable[[Processor], None] = lambda processor: None
        options = Options(nodes, parameters=self.parameters)
        self.world = World(Setup(options), TOTEM, self.history, self)

    # -- the observer of its world -----------------------------------------------------------

    def began(self, processor: Processor) -> None:
        self.invariants.began(processor)

    def effect(self, processor: Processor, effect: Effect) -> None:
        self.invariants.effect(processor, effect)
        self.on_effect(processor, effect)

    def stepped(self, processor: Processor) -> None:
        self.invariants.stepped(processor)
        self.on_step(processor)

    def ended(self, processor: Processor) -> None:
        self.invariants.ended(processor)

    # -- what a schedule does ----------------------------------------------------------------

    def form(self) -> None:
        """Let everybody form one ring."""
        world = self.world
        assert world.run_until(world.is_quiet, SETTLE_US, 100)

    def send(self, node: ProcessorId, *bodies: bytes, safe: bool = False) -> None:
        """Let a client hand messages over."""
        processor = self.world.by_node[node]
        assert processor.core is not None
        service = Service.SAFE if safe else Service.AGREED
        for body in bodies:
            processor.queue.submit_body(body, service)
        self.world.tell(processor, processor.core)

    def run(self, for_us: int) -> None:
        """Let time pass."""
        self.world.run(self.world.now + for_us)

    def forget(self) -> None:
        """Answer nothing any more."""
        self.on_effect = lambda processor, effect: None
        self.on_step = lambda processor: None

    def check_end(self, *stay_down: ProcessorId) -> None:
        """Heal everything; all must converge, and the whole run must keep its promises."""
        world = self.world
        self.forget()
        inject.strike(world, Calm(0, stay_down))
        assert world.run_until(world.is_quiet, world.now + SETTLE_US), "it does not converge"
        self.invariants.check_everything()
        world.quiesce()
        verdicts = evs.check(self.history)
        assert verdicts.holds, verdicts.explain()
