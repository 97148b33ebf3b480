"""All clients of a simulated world, and who watches what they are told.

The crowd is the world's observer. After each step of a daemon it takes the session events, lets the
watcher hold them against the promises, and hands them to the processes they name. What a process
wants to say then goes onto the world's agenda.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final, final

from evensong.core.core import Source
from evensong.core.effects import Deliver, Effect, Install, Sent
from evensong.core.groups.events import (
    Delivered,
    Error,
    Left,
    Receipt,
    SessionId,
    ViewChange,
)
from evensong.core.groups.layer import State
from evensong.core.groups.limits import Limits
from evensong.core.ids import ProcessorId, RingId
from evensong.core.node import Node
from evensong.core.stable import StableRecord
from evensong.core.totem.parameters import Parameters
from evensong.sim.engines import Engine, engine_of
from evensong.sim.groups.facts import Facts
from evensong.sim.groups.process import Process, Saying
from evensong.sim.groups.record import Recorder
from evensong.sim.groups.replica import MakeReplica
from evensong.sim.groups.watch import Watcher
from evensong.sim.history import LifeId
from evensong.sim.machine import Processor
from evensong.sim.rules import rules_of
from evensong.sim.setup import TRANSIS, Options
from evensong.sim.world import Errand, World

if TYPE_CHECKING:
    from evensong.core.engine import Parameters as EngineParameters

RETRY_US: Final = 1_000  # until a process tries again to reach a suspended daemon


def node_of(processor: Processor) -> Node:
    """Return the node that a processor runs."""
    core = processor.core
    assert isinstance(core, Node)
    return core


def nodes_engine(limits: Limits, options: Options) -> Engine:
    """Return what runs a whole node on every processor, on the engine that options name."""
    electorate = options.nodes
    own: EngineParameters = options.parameters
    if options.engine == TRANSIS:
        own = options.lansis

    def make(
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> Node:
        return Node(my_id, record, incarnation, own, rng, limits, electorate)

    return replace(engine_of(options), make=make)


@final
class Crowd:
    """Every client of a run."""

    def __init__(self, limits: Limits, rng: Random, pause_us: int, options: Options) -> None:
        self.world: World
        self.facts: Final = Facts(has_sides=options.engine == TRANSIS)
        self.limits: Final = limits
        self.processes: Final[dict[ProcessorId, dict[SessionId, Process]]] = {}
        self.watchers: Final[dict[ProcessorId, Watcher]] = {}
        self.recorders: Final[dict[ProcessorId, Recorder]] = {}  # where there is a history
        self.lives: Final[dict[LifeId, Node]] = {}
        # From when to when a daemon exchanged directories, by configuration.
        self.exchanges: Final[dict[tuple[LifeId, RingId], tuple[int, int]]] = {}
        self.waking = 0  # processes that will say something soon
        self._rng: Final = rng
        self._pause_us: Final = pause_us
        self.below: Final = rules_of(options).watcher()  # of the engine's invariants

    # The observer's calls

    def began(self, processor: Processor) -> None:
        """Watch a new life."""
        self.below.began(processor)
        node = node_of(processor)
        self.watchers[processor.node] = Watcher(processor.node, node.groups, self.facts)
        self.processes[processor.node] = {}
        self.lives[processor.node, processor.incarnation] = node
        if processor.life is not None:
            self.recorders[processor.node] = Recorder(processor.life)

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Note what a daemon's groups were given, and what it sent."""
        self.below.effect(processor, effect)
        if isinstance(effect, Deliver):
            watcher = self.watchers[processor.node]
            for message in effect.messages():
                watcher.expect(message)
        elif isinstance(effect, Install):
            self.watchers[processor.node].installs(transitional=effect.configuration.transitional)
        elif isinstance(effect, Sent):
            self.watchers[processor.node].sends(effect, self.limits.payload_max)
            if processor.node in self.recorders:
                self.recorders[processor.node].send(effect, self.world.now)

    def stepped(self, processor: Processor) -> None:
        """Check what the step told the sessions, and tell them."""
        self.below.stepped(processor)
        node = node_of(processor)
        groups = node.groups
        events = node.drain_events()
        if events and processor.node in self.recorders:
            self.recorders[processor.node].tell(events, self.world.now)
        self.watchers[processor.node].see(events, keep=False)
        if groups.state is State.EXCHANGING:
            key = ((processor.node, processor.incarnation), groups.configuration.conf_id)
            began, _ = self.exchanges.get(key, (self.world.now, 0))
            self.exchanges[key] = (began, self.world.now)
        processes = self.processes[processor.node]
        for event in events:
            if isinstance(event, Delivered):
                for session in event.sessions:
                    if processes[session].hear(event):
                        self.wake(processes[session])
                    elif processes[session].questions:
                        self._answer(processes[session])
            elif isinstance(event, ViewChange):
                for session in event.sessions:
                    if processes[session].see_view(event.view):
                        self.wake(processes[session])
            elif isinstance(event, Left):
                processes[event.session].see_left(event.group)
            elif isinstance(event, Receipt):
                processes[event.session].ordered += event.count
            elif isinstance(event, Error) and event.session in processes:
                processes[event.session].refuse(event)
        for process in processes.values():
            if process.shown and process.when_shown is not None:
                self.let_read(process)

    def ended(self, processor: Processor) -> None:
        """A daemon is gone, and its clients with it."""
        self.below.ended(processor)
        for process in self.processes[processor.node].values():
            self._forget_wake(process)
        self.processes[processor.node] = {}

    # Processes

    def open(self, processor: Processor, user: str, make_replica: MakeReplica) -> Process:
        """Start a process at a daemon that runs."""
        now = processor.clock.local(self.world.now)
        watcher = self.watchers[processor.node]
        process = Process(processor, user, watcher, make_replica, now)
        self.processes[processor.node][process.session] = process
        return process

    def tell(self, process: Process) -> None:
        """Let the daemon perform what a process has just asked for."""
        if process.processor.core is process.node:
            self.world.tell(process.processor, process.node)

    def close(self, process: Process) -> None:
        """End a process in good order."""
        if process.processor.node in self.recorders:
            self.recorders[process.processor.node].close(process.session, "asked", self.world.now)
        process.close(process.processor.clock.local(self.world.now))
        self._forget_wake(process)
        self.tell(process)

    def wake(self, process: Process, after_us: int | None = None) -> None:
        """Let a process say something soon."""
        if process.is_waking:
            return
        process.is_waking = True
        self.waking += 1
        if after_us is None:
            after_us = self._rng.randint(1, self._pause_us)
        self.world.schedule(self.world.now + after_us, Errand(lambda: self._speak(process)))

    def let_read(self, process: Process) -> None:
        """Let a process that reads by itself do so soon."""
        if not process.is_reading:
            process.is_reading = True
            self.waking += 1
            at = self.world.now + self._rng.randint(1, self._pause_us)
            self.world.schedule(at, Errand(lambda: self._read(process)))

    def _read(self, process: Process) -> None:
        process.is_reading = False
        self.waking -= 1
        if process.when_shown is not None:
            process.when_shown()

    def _forget_wake(self, process: Process) -> None:
        if process.is_waking:
            process.is_waking = False
            self.waking -= 1

    def _speak(self, process: Process) -> None:
        if not process.is_waking:
            return  # it has ended since
        self._forget_wake(process)
        if not process.is_alive():
            return
        if process.processor.paused or process.is_crowded():
            self.wake(process, RETRY_US)
            return
        saying = process.next_saying()
        if saying is None:
            return
        self.say(process, saying)
        if process.is_alive():
            self.wake(process)

    def say(self, process: Process, saying: Saying) -> None:
        """Let a process send now."""
        process.say(saying, process.processor.clock.local(self.world.now))
        self.tell(process)

    def _answer(self, process: Process) -> None:
        process.answer()
        if process.outbox:
            self.wake(process)

    def all(self) -> list[Process]:
        """Return the processes that live, by daemon and session."""
        return [
            process
            for node in sorted(self.processes)
            for process in self.processes[node].values()
            if process.is_alive()
        ]

    # What is true of the whole

    def is_quiet(self) -> bool:
        """Whether nothing is under way any more, neither on rings nor in groups."""
        if self.waking:
            return False
        for processor in self.world.live():
            groups = node_of(processor).groups
            if groups.state is not State.REGULAR or groups.queue.queued_bytes:
                return False
        return self.world.is_quiet()

    def describe(self) -> str:
        """Say which daemons and which replicas are not at rest."""
        said = []
        for processor in self.world.live():
            groups = node_of(processor).groups
            if groups.state is not State.REGULAR or groups.queue.queued_bytes:
                state = groups.state.name.lower()
                said.append(f"{processor.node} is {state}, {groups.queue.queued_bytes} bytes wait")
        for process in self.all():
            waiting = [name for name, one in process.replicas.items() if not one.transfer.is_live()]
            if waiting:
                said.append(f"{process.member} waits for the state of {', '.join(waiting)}")
            if process.is_waking:
                said.append(f"{process.member} is about to speak")
        return "; ".join(said) or "groups are at rest"

    def submitted(self) -> dict[LifeId, int]:
        """Return how many packets every life handed to its ring."""
        return {life: node.groups.queue.origin.last_no for life, node in self.lives.items()}
