"""Processors, network and clock in one loop: the driver of the simulator.

Virtual time is an integer of microseconds and moves from event to event. The world performs what a
core asks, in order, exactly as a daemon's driver does; the same setup gives the same run, in every
process. One heap holds arrivals and wake-ups (the hot path), another the agenda: faults, what
clients submit, and the ends of faults that last a while.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol, TypeAlias, assert_never, final, runtime_checkable

from evensong.core.core import Core
from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Halt,
    Install,
    Persist,
    SafeLine,
    Sent,
    StateChange,
    TokenVisit,
    Unicast,
    WindowGrown,
    unbundled,
)
from evensong.core.ids import ProcessorId
from evensong.core.run import run_of
from evensong.core.timer import NEVER
from evensong.sim import inject
from evensong.sim.engines import Engine
from evensong.sim.faults import CRASH_TORN, EVERYBODY, REPAIRS, CrashIn, Ended, Fault, When
from evensong.sim.history import Aux, History, LifeId
from evensong.sim.limits import limits_of
from evensong.sim.machine import NO_FUSE, Clock, Inbox, Processor
from evensong.sim.network import Entry, Network
from evensong.sim.setup import CLOCKS, CORES, DRIVERS, NETWORK, Setup, derive
from evensong.sim.workload import Burst, Queue


class Observer(Protocol):
    """Who looks on: invariants, probes, storytellers. Calls come right after the fact."""

    def began(self, processor: Processor) -> None:
        """A life was started; its first effects follow."""
        ...

    def effect(self, processor: Processor, effect: Effect) -> None:
        """An effect was performed."""
        ...

    def stepped(self, processor: Processor) -> None:
        """A call into the core is over and all of its effects are performed."""
        ...

    def ended(self, processor: Processor) -> None:
        """A life is over: crashed, left or halted."""
        ...


@runtime_checkable
class Paired(Protocol):
    """A core that keeps which events met which states."""

    def pairs(self) -> set[tuple[str, str]]:
        """Return the pairs of state and event."""
        ...


@dataclass(frozen=True, slots=True)
class Errand:
    """Something that whoever drives the world does at a moment: a client acts."""

    do: Callable[[], None]


AgendaItem: TypeAlias = Fault | Burst | Ended | Errand


@final
class World:
    """One run of the simulator."""

    def __init__(
        self,
        setup: Setup,
        engine: Engine,
        history: History | None = None,
        observer: Observer | None = None,
        *,
        is_asleep: bool = False,
        bounds: Aux = (),
    ) -> None:
        options = setup.options
        self.options: Final = options
        self.engine: Final = engine
        self.history: Final = history
        self.observer: Final = observer
        self._limits: Final = (*limits_of(options), *bounds)  # told at every start
        self.now = 0
        self.datagrams = 0  # copies handed to a core
        self.deliveries = 0
        self.installs = 0
        self.steps = 0  # calls into cores other than `receive`
        self.submitted: Final[dict[LifeId, Queue]] = {}  # every life's queue; `origin_no` counts
        self.halts: Final[list[tuple[ProcessorId, str]]] = []
        self.pairs: Final[set[tuple[str, str]]] = set()
        self.faults: Final[dict[str, int]] = {}  # by kind, as they struck
        self.ambushes: Final[list[When]] = []  # faults that wait for a state
        self.sprung: Final[list[Fault]] = []  # those whose state has come
        self.disarmed: Final[list[Fault]] = []  # those that a calm came before
        self.faults_in_change = 0  # that struck while somebody changed the membership
        self._horizon = 0  # events up to here may happen before the agenda is looked at
        self._stopped = False  # somebody reached the wanted state
        self._wanted: tuple[ProcessorId, str] | None = None
        self._heap: Final[list[Entry]] = []
        self._serial: Final = count()
        self._agenda: Final[list[tuple[int, int, AgendaItem]]] = []
        self._agenda_serial: Final = count()
        self._tokens: Final = engine.kinds.token
        self._others: Final = len(options.nodes) - 1  # copies of a broadcast
        self.driver_rng: Final = derive(options.seed, DRIVERS)
        self.processors: Final = [self._build(node) for node in options.nodes]
        self.by_node: Final = {processor.node: processor for processor in self.processors}
        rng = derive(options.seed, NETWORK)
        self.network: Final = Network(
            self.processors, options.weather, engine.kinds, rng, self._heap, self._serial
        )
        for item in (*setup.plan, *setup.workload):
            self.schedule(item.at_us, item)
        for processor in self.processors:
            if not is_asleep:  # else a `Restart` starts each
                self.boot(processor)

    def _build(self, node: ProcessorId) -> Processor:
        options = self.options
        rng = derive(options.seed, CLOCKS, node)
        offset_us = rng.randint(0, options.skew_us_max)
        ppm = rng.randint(-options.drift_ppm_max, options.drift_ppm_max)
        kinds = self.engine.kinds
        inbox = Inbox(kinds.regular, kinds.token, options.recv_drain_max)
        clock, is_timed = Clock(offset_us, ppm), bool(options.send_us or options.visit_us)
        return Processor(node, clock, inbox, options.cost_us, is_timed=is_timed)

    # The loop

    def schedule(self, at: int, item: AgendaItem) -> None:
        """Put a fault, a submission or the end of a fault on the agenda."""
        heappush(self._agenda, (at, next(self._agenda_serial), item))
        self._horizon = min(self._horizon, at - 1)

    def run(self, until: int) -> None:
        """Let everything happen up to and at virtual time `until`."""
        self._stopped = False
        agenda = self._agenda
        while not self._stopped:
            bound = min(until, agenda[0][0] - 1) if agenda else until
            self._run_events(bound)
            if self._horizon < bound:
                continue  # stopped, or something earlier has come up on the agenda
            if bound == until:
                self.now = until
                return
            at, _, item = heappop(agenda)
            self.now = max(self.now, at)
            self._attend_to(item)

    def run_until_state(self, node: ProcessorId, state: str, limit: int) -> bool:
        """Run to the very effect by which a processor enters a state; False if it does not."""
        self._wanted = (node, state)
        self.run(limit)
        reached = self._wanted is None
        self._wanted = None
        return reached

    def run_until(self, holds: Callable[[], bool], limit: int, stride_us: int = 1_000) -> bool:
        """Run until a condition holds, looking every `stride_us`; False if `limit` comes first."""
        while not holds():
            if self.now >= limit:
                return False
            self.run(min(limit, self.now + stride_us))
        return True

    def _run_events(self, until: int) -> None:
        heap = self._heap
        tokens = self._tokens
        self._horizon = until
        while heap and heap[0][0] <= self._horizon:
            at, _, processor, datagram = heappop(heap)
            self.now = at
            if datagram is None:
                if at == processor.wake_at:
                    self._wake(processor)
                continue
            core = processor.core
            if core is None:
                continue
            if processor.ready and not (heap and heap[0][0] == at and datagram[0] in tokens):
                self.datagrams += 1
                core.receive(datagram, processor.clock.local(at))
                self._perform(processor, core)
            else:
                self._enqueue(processor, datagram)

    def _enqueue(self, processor: Processor, datagram: bytes) -> None:
        """Let a datagram wait: its processor is busy or suspended, or data arrives with a token."""
        inbox = processor.inbox
        if len(inbox) >= self.options.receive_buffer:
            inbox.dropped += 1
            return
        inbox.put(datagram)
        processor.ready = False
        if not processor.paused:
            self._wake_by(processor, processor.busy_until)

    def _wake_by(self, processor: Processor, at: int) -> None:
        at = max(at, self.now)
        if at < processor.wake_at:
            processor.wake_at = at
            heappush(self._heap, (at, next(self._serial), processor, None))

    def _wake(self, processor: Processor) -> None:
        """Do what is due: datagrams that wait, then timers (or the reverse after a suspension)."""
        core = processor.core
        processor.wake_at = NEVER
        if core is None or processor.paused:
            return
        now = self.now
        processor.wake_at = -1  # no step on the way needs to arm one
        if now >= processor.busy_until:
            inbox = processor.inbox
            while len(inbox) and processor.core is core and now >= processor.busy_until:
                row = inbox.take_row()
                self.datagrams += len(row)
                processor.busy_until = now + len(row) * processor.cost_us
                if row[0][0] in self._tokens:
                    processor.busy_until += self.options.visit_us
                core.receive_run(run_of(row), processor.clock.local(now))
                self._perform(processor, core)
            processor.weigh()
            if processor.core is core:
                self.expire_due(processor, core)
        if processor.core is core:
            processor.wake_at = NEVER
            self.rearm(processor, core)

    def rearm(self, processor: Processor, core: Core) -> None:
        """See to the next wake-up."""
        at = processor.busy_until
        if not len(processor.inbox):
            at = max(at, processor.clock.virtual(core.deadline()))
        self._wake_by(processor, at)

    def expire_due(self, processor: Processor, core: Core) -> None:
        """Call `expire` if a timer is due."""
        local = processor.clock.local(self.now)
        if core.deadline() <= local:
            self.steps += 1
            core.expire(local)
            self._perform(processor, core)

    # What cores ask for

    def _perform(self, processor: Processor, core: Core) -> None:
        """Perform a core's effects in order, then see to its next wake-up."""
        now = self.now
        network = self.network
        observer = self.observer
        life = processor.life
        effects = unbundled(core.drain())
        if processor.fuse != NO_FUSE:
            effects = apart(effects)
        for effect in effects:
            if processor.fuse != NO_FUSE and self._burn(processor, effect):
                return
            if isinstance(effect, Broadcast):
                leaves = self._leaves(processor, self._others) if processor.is_timed else now
                network.broadcast(processor.node, effect.datagram, leaves)
            elif isinstance(effect, Deliver):
                count = effect.count()
                self.deliveries += count
                processor.n_delivered += count
                last = effect.parts[-1]
                processor.last_delivery = last.ring_id, last.last_seq
                if life is not None:
                    life.deliver(effect, now)
            elif isinstance(effect, Unicast):
                leaves = self._leaves(processor, 1) if processor.is_timed else now
                network.unicast(processor.node, effect.to, effect.datagram, leaves)
            elif isinstance(effect, Sent):
                processor.last_sent = effect
                processor.n_sent += len(effect.packets)
                if life is not None:
                    life.send(effect, now)
            elif isinstance(effect, TokenVisit):
                if life is not None:
                    life.visit(effect, now)
            elif isinstance(effect, WindowGrown):
                if life is not None:
                    life.grow_window(effect, now)
            elif isinstance(effect, SafeLine):
                pass  # the layers above need it; a run has none
            elif isinstance(effect, StateChange):
                self._change_state(processor, effect)
            elif isinstance(effect, Install):
                self.installs += 1
                processor.configuration = effect.configuration
                processor.n_delivered = processor.n_sent = 0
                if life is not None:
                    life.install(effect.configuration, now)
            elif isinstance(effect, Persist):
                processor.store.write(effect.record)
            elif isinstance(effect, Halt):
                self.halts.append((processor.node, effect.reason))
                if observer is not None:
                    observer.effect(processor, effect)
                self.end(processor, "fail", f"halt: {effect.reason}")
                return
            else:
                assert_never(effect)
            if observer is not None:
                observer.effect(processor, effect)
        if observer is not None:
            observer.stepped(processor)
        at = processor.clock.virtual(core.deadline())
        if at < processor.wake_at:
            self._wake_by(processor, max(at, processor.busy_until))

    def _leaves(self, processor: Processor, copies: int) -> int:
        """Let a processor send so many copies, after all else it is busy with; return when."""
        spent = copies * self.options.send_us
        processor.busy_until = max(processor.busy_until, self.now) + spent
        return processor.busy_until

    def _change_state(self, processor: Processor, change: StateChange) -> None:
        processor.state = change.state.lower()
        if processor.life is not None:
            processor.life.change_state(change, self.now)
        if processor.doom is not None and processor.doom[0] == processor.state:
            processor.fuse = processor.doom[1]
            processor.fuse_kind = CrashIn.kind
            processor.doom = None
        for ambush in [one for one in self.ambushes if one.state == processor.state]:
            if ambush.node in (EVERYBODY, processor.node):
                self.ambushes.remove(ambush)
                at = self.now + ambush.after_us
                self.sprung.append(replace(ambush.then, at_us=at))
                self.schedule(at, self.sprung[-1])
        if self._wanted == (processor.node, processor.state):
            self._wanted = None
            self._stopped = True
            self._horizon = -1

    def _burn(self, processor: Processor, effect: Effect) -> bool:
        """Shorten the fuse before an effect; True if the processor crashed instead of it."""
        if processor.torn:
            if not isinstance(effect, Persist):
                return False
            processor.store.tear(effect.record)
        elif processor.fuse:
            processor.fuse -= 1
            return False
        self.count_fault(processor.fuse_kind)
        self.end(processor, "fail", processor.fuse_kind)
        return True

    # Lives

    def boot(self, processor: Processor, *, torn: bool = False) -> None:
        """Start a life of a processor; `torn` ends it in the middle of its first write."""
        record = processor.boot(self.now)
        if torn:
            processor.torn = True
            processor.fuse = 0
            processor.fuse_kind = CRASH_TORN
        options = self.options
        node, incarnation = processor.node, processor.incarnation
        rng = derive(options.seed, CORES, node, incarnation)
        queue = processor.queue
        core = self.engine.make(node, record, incarnation, options.parameters, rng, queue)
        self.submitted[node, incarnation] = queue
        if self.history is not None:
            processor.life = self.history.begin(node, incarnation, self.now, self._limits)
        processor.core = core
        if self.observer is not None:
            self.observer.began(processor)
        self.steps += 1
        core.start(processor.clock.local(self.now))
        self._perform(processor, core)

    def end(self, processor: Processor, how: str, cause: str) -> None:
        """End a life: `fail` (nothing more happens) or `stop` (it left in good order)."""
        core = processor.core
        assert core is not None
        if isinstance(core, Paired):
            self.pairs.update(core.pairs())
        if processor.life is not None:
            processor.life.end(how, self.now, cause)
        processor.halt(self.now)
        if self.observer is not None:
            self.observer.ended(processor)
        processor.life = None

    def leave(self, processor: Processor) -> None:
        """Let a processor depart in good order."""
        core = processor.core
        assert core is not None
        self.steps += 1
        core.leave(processor.clock.local(self.now))
        self._perform(processor, core)
        if processor.core is core:
            processor.left = True
            self.end(processor, "stop", "leave")

    def quiesce(self, submitted: Mapping[LifeId, int] | None = None) -> None:
        """End the run: close every life that still runs, and say how much each was handed over.

        That is what its queue has seen, unless the units come from elsewhere and are given.
        """
        for processor in self.live():
            core = processor.core
            assert core is not None
            if isinstance(core, Paired):
                self.pairs.update(core.pairs())
            if processor.life is not None:
                whose = (processor.node, processor.incarnation)
                told = submitted if submitted is not None else self.handed_over()
                aux = (("submitted", str(told.get(whose, 0))),)
                processor.life.end("quiesce", self.now, aux=aux)

    def handed_over(self) -> dict[LifeId, int]:
        """Return how many units every life's queue has seen."""
        return {life: queue.origin_no for life, queue in self.submitted.items()}

    def live(self) -> list[Processor]:
        """Return the processors that run, suspended ones too."""
        return [processor for processor in self.processors if processor.core is not None]

    def count_fault(self, kind: str) -> None:
        """Count a fault by kind as it strikes, and whether a membership change is under way."""
        self.faults[kind] = self.faults.get(kind, 0) + 1
        states = [processor.state for processor in self.processors if processor.core is not None]
        if kind not in REPAIRS:
            self.faults_in_change += any(state in states for state in self.engine.changing)

    # The agenda

    def _attend_to(self, item: AgendaItem) -> None:
        if isinstance(item, Burst):
            self.submit(item)
        elif isinstance(item, Errand):
            item.do()
        elif isinstance(item, Ended):
            inject.end(self, item.fault)
        else:
            inject.strike(self, item)

    def submit(self, burst: Burst) -> None:
        """Let a client hand over its units; whoever cannot be reached gets none."""
        processor = self.by_node[burst.node]
        core = processor.core
        if core is None or processor.paused:
            return
        processor.queue.submit(burst)
        self.tell(processor, core)

    def tell(self, processor: Processor, core: Core) -> None:
        """Tell a core that there is something to send."""
        self.steps += 1
        core.submit(processor.clock.local(self.now))
        self._perform(processor, core)

    def pause(self, processor: Processor) -> None:
        """Suspend a processor."""
        if not processor.paused:
            processor.paused_at = self.now
        processor.paused = True
        processor.weigh()

    def resume(self, processor: Processor) -> None:
        """Let a suspended processor go on; timers or datagrams come first, as it happens."""
        core = processor.core
        if core is None or not processor.paused:
            return
        processor.paused = False
        processor.weigh()
        if processor.life is not None:
            processor.life.note_lag(self.now - processor.paused_at, self.now)
        if self.driver_rng.random() < 0.5:
            self.expire_due(processor, core)
        if processor.core is core:
            self._wake_by(processor, self.now)

    # What is true of the whole

    def is_converged(self) -> bool:
        """Whether all that can hear each other are settled in one configuration, queues empty."""
        live = {processor.node: processor for processor in self.live()}
        if any(processor.state != self.engine.settled for processor in live.values()):
            return False  # who hears whom takes longer to find out
        return all(
            self._is_ring([live[node] for node in component])
            for component in self.network.components(list(live))
        )

    def _is_ring(self, processors: list[Processor]) -> bool:
        members = tuple(processor.node for processor in processors)
        first = processors[0].configuration
        for processor in processors:
            configuration = processor.configuration
            if (
                processor.state != self.engine.settled
                or processor.paused
                or configuration is None
                or first is None
                or configuration.transitional
                or configuration.conf_id != first.conf_id
                or configuration.members != members
                or processor.queue.packets
            ):
                return False
        return True

    def is_quiet(self) -> bool:
        """Whether it is converged and everything sent on a ring is delivered by its members."""
        if not self.is_converged():
            return False
        if not self.engine.has_places:
            return all(self._is_delivered(processor) for processor in self.live())
        for processor in self.live():
            sent = processor.last_sent
            configuration = processor.configuration
            assert configuration is not None
            if sent is None or sent.ring_id != configuration.conf_id:
                continue
            for member in configuration.members:
                got = self.by_node[member].last_delivery
                if got is None or got[0] != sent.ring_id or got[1] < sent.last_seq():
                    return False
        return True

    def _is_delivered(self, processor: Processor) -> bool:
        """Whether a processor has delivered all that its members sent in their configuration."""
        configuration = processor.configuration
        assert configuration is not None
        sent = sum(self.by_node[member].n_sent for member in configuration.members)
        return processor.n_delivered == sent


def apart(effects: list[Effect]) -> list[Effect]:
    """Return the effects with each delivery by itself: a crash may come between any two."""
    each: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Deliver):
            where, line, gap = effect.conf_id, effect.safe_line, effect.after_gap
            for part in effect.parts:
                seqs = range(part.first_seq, part.last_seq + 1)
                pieces = [[part.cut(seq, seq)] for seq in seqs]
                each.extend(Deliver(where, piece, line, after_gap=gap) for piece in pieces)
        else:
            each.append(effect)
    return each
