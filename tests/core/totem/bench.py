"""Cores wired by hand: nothing happens but what a test does, or lets happen in order.

A `Desk` is one core with its outbox; a `Bench` is a few of them and the datagrams between them,
carried one at a time in the order in which they were sent. After every call the deadline is read,
as a driver does.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Install,
    Ordered,
    Packet,
    Service,
    Unicast,
    unbundled,
)
from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.core.stable import FIRST_START, StableRecord
from evensong.core.timer import NEVER, Timer
from evensong.core.totem import wire
from evensong.core.totem.frames import (
    CommitToken,
    Join,
    MembEntry,
    RegularMessage,
    RegularToken,
)
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.states import State, StateMachine

HOP_US = 10
STEPS_MAX = 50_000


class Outbox:
    """What waits to be sent."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []

    def put(self, *payloads: bytes, service: Service = Service.AGREED) -> None:
        self.packets.extend(Packet(service, payload) for payload in payloads)

    def backlog(self) -> int:
        return len(self.packets)

    def weight(self, packets: Sequence[Packet]) -> int:
        return len(packets)

    def pull(self, packets_max: int) -> list[Packet]:
        taken = self.packets[:packets_max]
        del self.packets[:packets_max]
        return taken


class Desk:
    """One core, called by hand; every call returns the effects that it had."""

    def __init__(
        self,
        my_id: ProcessorId,
        parameters: Parameters | None = None,
        record: StableRecord = FIRST_START,
        incarnation: int = 1,
    ) -> None:
        self.my_id = my_id
        self.outbox = Outbox()
        self.core = SingleRing(
            my_id,
            record,
            incarnation,
            parameters if parameters is not None else Parameters(),
            Random(my_id),
            self.outbox,
        )
        self.now = 0

    @property
    def machine(self) -> StateMachine:
        return self.core.machine

    @property
    def state(self) -> State:
        return self.core.machine.state

    @property
    def drops(self) -> dict[str, int]:
        return self.core.machine.drops

    def start(self) -> list[Effect]:
        self.core.start(self.now)
        return self._drained()

    def receive(self, datagram: bytes) -> list[Effect]:
        self.core.receive(datagram, self.now)
        return self._drained()

    def submit(self, *payloads: bytes, service: Service = Service.AGREED) -> list[Effect]:
        self.outbox.put(*payloads, service=service)
        self.core.submit(self.now)
        return self._drained()

    def expire(self, now: int) -> list[Effect]:
        self.now = now
        self.core.expire(now)
        return self._drained()

    def wait(self) -> list[Effect]:
        """Let the next timer fire."""
        deadline = self.core.deadline()
        assert deadline != NEVER
        return self.expire(deadline)

    def wait_for(self, timer: Timer) -> list[Effect]:
        """Let timers fire in their order up to and with this one."""
        deadline = timer.deadline
        effects: list[Effect] = []
        while self.now < deadline:
            effects = self.wait()
        assert self.now == deadline
        return effects

    def leave(self) -> list[Effect]:
        self.core.leave(self.now)
        return self._drained()

    def _drained(self) -> list[Effect]:
        self.core.deadline()
        return unbundled(self.core.drain())


class Bench:
    """A few desks and what is on its way between them."""

    def __init__(self, *nodes: ProcessorId, parameters: Parameters | None = None) -> None:
        self.desks = {node: Desk(node, parameters) for node in nodes}
        self.flight: deque[tuple[ProcessorId, ProcessorId, bytes]] = deque()
        self.loses: Callable[[ProcessorId, ProcessorId, bytes], bool] = _loses_nothing
        self.told: list[tuple[ProcessorId, Effect]] = []
        self.now = 0

    def __getitem__(self, node: ProcessorId) -> Desk:
        return self.desks[node]

    def start(self) -> None:
        for desk in self.desks.values():
            self.take(desk.my_id, desk.start())

    def take(self, node: ProcessorId, effects: list[Effect]) -> list[Effect]:
        """Send what a call asked for on its way."""
        for effect in effects:
            self.told.append((node, effect))
            if isinstance(effect, Broadcast):
                for target in self.desks:
                    if target != node:
                        self._send(node, target, effect.datagram)
            elif isinstance(effect, Unicast) and effect.to in self.desks:
                self._send(node, effect.to, effect.datagram)
        return effects

    def _send(self, source: ProcessorId, target: ProcessorId, datagram: bytes) -> None:
        if not self.loses(source, target, datagram):
            self.flight.append((source, target, datagram))

    def submit(
        self, node: ProcessorId, *payloads: bytes, service: Service = Service.AGREED
    ) -> list[Effect]:
        return self.take(node, self.desks[node].submit(*payloads, service=service))

    def step(self) -> None:
        """Carry one datagram or, if none is on its way, let the next timer fire."""
        due = min(self.desks.values(), key=lambda desk: (desk.core.deadline(), desk.my_id))
        deadline = due.core.deadline()
        if not self.flight or deadline <= self.now:
            self._advance(max(self.now, deadline))
            self.take(due.my_id, due.expire(self.now))
            return
        self._advance(self.now + HOP_US)
        _, target, datagram = self.flight.popleft()
        self.take(target, self.desks[target].receive(datagram))

    def _advance(self, now: int) -> None:
        self.now = now
        for desk in self.desks.values():
            desk.now = now

    def run_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            if holds():
                return
            self.step()
        raise AssertionError("it never came to that")

    def run(self, for_us: int) -> None:
        until = self.now + for_us
        self.run_until(lambda: self.now >= until)

    def is_ring(self, *nodes: ProcessorId) -> bool:
        return all(
            self.desks[node].state is State.OPERATIONAL
            and self.desks[node].machine.ring.members == nodes
            for node in nodes
        )

    def payloads(self, node: ProcessorId) -> list[bytes]:
        return delivered([effect for teller, effect in self.told if teller == node])


def _loses_nothing(source: ProcessorId, target: ProcessorId, datagram: bytes) -> bool:
    return False


def loses_tokens(source: ProcessorId, target: ProcessorId, datagram: bytes) -> bool:
    return datagram[0] == wire.TOKEN


def ring_of(*nodes: ProcessorId, parameters: Parameters | None = None) -> Bench:
    """Return a bench whose desks are one operational ring."""
    bench = Bench(*nodes, parameters=parameters)
    bench.start()
    bench.run_until(lambda: bench.is_ring(*nodes))
    bench.run(5 * len(nodes) * HOP_US)
    return bench


def reach(
    state: State, node: ProcessorId = 2, parameters: Parameters | None = None
) -> tuple[Bench, Desk]:
    """Return a bench of 1, 2 and 3, and a desk of it that is in a state after an operational ring.

    The others are where the protocol has led them by then.
    """
    bench = ring_of(1, 2, 3, parameters=parameters)
    desk = bench[node]
    if state is State.OPERATIONAL:
        return bench, desk
    bench.loses = loses_tokens
    if state is State.GATHER:
        bench.flight.clear()
        bench.take(node, desk.wait_for(desk.machine.timers.token_loss))
        bench.now = desk.now
    else:
        bench.run_until(lambda: desk.state is state)
    bench.loses = _loses_nothing
    return bench, desk


# -- what was said ---------------------------------------------------------------------------


def datagrams(effects: list[Effect], kind: int) -> list[bytes]:
    sent = [one.datagram for one in effects if isinstance(one, Broadcast | Unicast)]
    return [datagram for datagram in sent if datagram[0] == kind]


def tokens(effects: list[Effect]) -> list[RegularToken]:
    return [wire.decode_token(datagram) for datagram in datagrams(effects, wire.TOKEN)]


def joins(effects: list[Effect]) -> list[Join]:
    return [wire.decode_join(datagram) for datagram in datagrams(effects, wire.JOIN)]


def commits(effects: list[Effect]) -> list[CommitToken]:
    return [wire.decode_commit(datagram) for datagram in datagrams(effects, wire.COMMIT)]


def messages(effects: list[Effect]) -> list[RegularMessage]:
    return [wire.decode_regular(datagram) for datagram in datagrams(effects, wire.REGULAR)]


def delivered(effects: list[Effect]) -> list[bytes]:
    return [one.payload for one in ordered(effects)]


def ordered(effects: list[Effect]) -> list[Ordered]:
    """Return the messages delivered, in order."""
    return [one for effect in effects if isinstance(effect, Deliver) for one in effect.messages()]


def installed(effects: list[Effect]) -> list[Configuration]:
    return [effect.configuration for effect in effects if isinstance(effect, Install)]


# -- frames as somebody else would send them -------------------------------------------------


def message(
    ring_id: RingId,
    seq: int,
    sender: ProcessorId,
    payload: bytes = b"x",
    *,
    service: Service = Service.AGREED,
    flags: int = 0,
) -> RegularMessage:
    return RegularMessage(sender, ring_id, seq, service, flags, 0, payload)


def regular(
    ring_id: RingId,
    seq: int,
    sender: ProcessorId,
    payload: bytes = b"x",
    *,
    service: Service = Service.AGREED,
    flags: int = 0,
    transmitter: ProcessorId = 0,
) -> bytes:
    said = message(ring_id, seq, sender, payload, service=service, flags=flags)
    return wire.encode_regular(said, 0, transmitter or sender, 1)


def next_token(desk: Desk) -> RegularToken:
    """Return the token as it would come to a desk next, with nothing to do."""
    ring = desk.machine.ring
    token_seq = max(ring.my_token_seq, 0) + len(ring.members) - 1
    fcc, backlog = ring.flow.my_trc, ring.flow.my_pbl
    token = RegularToken(ring.ring_id, token_seq, fcc=fcc, backlog=backlog)
    token.seq = token.aru = max(ring.buffer.high, ring.seqs_visited[-1])
    return token


def token_from(transmitter: ProcessorId, token: RegularToken) -> bytes:
    return wire.encode_token(token, transmitter, 1)


def join_from(
    sender: ProcessorId,
    proc_set: set[ProcessorId],
    fail_set: set[ProcessorId] | None = None,
    ring_seq: int = 0,
    incarnation: int = 1,
) -> bytes:
    said = Join(sender, incarnation, frozenset(proc_set), frozenset(fail_set or set()), ring_seq)
    return wire.encode_join(said)


def entry(
    member: ProcessorId,
    old_ring_id: RingId,
    *,
    my_aru: int = 0,
    high_delivered: int = 0,
    received_flg: bool = False,
    obligation: set[ProcessorId] | None = None,
) -> MembEntry:
    owed = frozenset(obligation if obligation is not None else {member})
    return MembEntry(member, True, old_ring_id, my_aru, high_delivered, my_aru, received_flg, owed)
