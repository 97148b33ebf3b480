"""Runs one node on a real socket and a real clock; the other driver is `sim/world.py`.

One thread, one loop: datagrams first, then timers. The core's effects are performed in order, so
what follows a `Persist` is sent after the disk has it. Data is handed over before the tokens that
overtook it, Joins and the like after them [SRP §4]. What the node tells its sessions is handed over
when a turn's effects have been performed and transmitted: the ring goes before its clients, except
for a message by itself.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import getitem
from random import Random
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never, final

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Halt,
    Install,
    Packet,
    Part,
    Persist,
    SafeLine,
    Sent,
    StateChange,
    TokenVisit,
    Unicast,
    WindowGrown,
)
from evensong.core.engine import CHANGING, STEADY, TOTEM, Parameters, name_of
from evensong.core.groups.events import Delivered, SessionEvent
from evensong.core.groups.limits import Limits
from evensong.core.ids import Configuration, ProcessorId
from evensong.core.node import Node
from evensong.core.run import Run
from evensong.core.stable import StableRecord
from evensong.core.timer import NEVER
from evensong.core.totem import wire
from evensong.daemon.burst import Burst
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.lag import Lag
from evensong.daemon.listener import Listener
from evensong.daemon.opening import Opener
from evensong.daemon.outbox import Feed, Outbox, marked
from evensong.daemon.seal import PIECES_AT, Key, Refused, Sealer, pieces_of
from evensong.daemon.settings import Address
from evensong.daemon.stable import StableStore
from evensong.daemon.transmitter import Transmitter
from evensong.daemon.watch import Watch

RECV_DRAIN_MAX: Final = 1_024  # datagrams read before a token among them is handed over
ASIDE: Final = 64  # frames of this kind and above are not the ring's
TOKENS: Final = frozenset([wire.TOKEN, wire.COMMIT, wire.PART])
ONLY_REGULAR: Final = frozenset([wire.REGULAR])
CHORES_US: Final = 1_000_000
SLEPT_US: Final = 20  # to ask what is ready takes 2 or 3; to sleep and be woken, more
BREAKS_MAX: Final = 64  # that are remembered
LITTLE_BYTES: Final = 16_384  # of messages for which the ring may wait
FEW_FRAMES: Final = 16  # for which it does while the token stays here
unpack_header: Final = wire.HEADER.unpack_from
STRANGER: Final = 0  # whom refusals are booked on that no peer can be blamed for


Heard = TypeVar("Heard", Sent, Deliver, TokenVisit)
Chore: TypeAlias = Callable[[int], None]  # something small, done when it is time
Tell: TypeAlias = Callable[[list[SessionEvent]], None]  # hands on what sessions are told


def clock() -> int:
    """Return the time in microseconds; it never jumps."""
    return time.monotonic_ns() // 1_000


class Timed(Protocol):
    """Something that wants to be called at a time it names itself."""

    deadline: int

    def expire(self, now: int) -> None:
        """Do what is due."""
        ...


def _is_little(events: list[SessionEvent], frames_max: int) -> bool:
    """Whether clients are told a frame, or a few, and nothing large."""
    sizes = [len(event.frame) for event in events if isinstance(event, Delivered)]
    return 0 < len(sizes) <= frames_max and sum(sizes) <= LITTLE_BYTES


def _ignore_events(_events: list[SessionEvent]) -> None:
    """Do nothing: there are no sessions."""


def _ignore_time(_now: int) -> None:
    """Do nothing: nobody is told anything."""


def _ignore_frame(_frame: bytes) -> None:
    """Do nothing: nobody is there for frames that are not the ring's."""


class Life(NamedTuple):
    """What names one run of a daemon."""

    node: ProcessorId
    incarnation: int
    boot: int


class Counts(NamedTuple):
    """Packets, but for those in which daemons tell each other their directories."""

    sent: int
    own_delivered: int
    delivered: int


class Break(NamedTuple):
    """A ring that came to its end here."""

    at: int
    configuration: Configuration
    cause: str
    about: ProcessorId
    lag_us: int  # how late this daemon itself had been just before


@final
class Driver:
    """One life of a daemon's ring."""

    def __init__(
        self,
        life: Life,
        record: StableRecord,
        parameters: Parameters,
        datagram_size: int,
        limits: Limits,
        electorate: tuple[ProcessorId, ...],
        sealer: Sealer,
        opener: Opener,
        datagrams: Datagrams,
        store: StableStore,
        peers: Iterable[ProcessorId],
        listeners: Iterable[Listener],
    ) -> None:
        self.life: Final = life
        self.outbox: Final = Outbox()
        self.core: Final = Node(
            life.node,
            record,
            life.incarnation,
            parameters,
            Random(life.boot),
            limits,
            electorate,
            self.outbox,
        )
        self.tell: Tell = _ignore_events
        self.write_few: Chore = _ignore_time
        self.watch: Final = Watch()
        self.lag: Final = Lag(parameters.patience())
        self.configuration: Configuration | None = None
        self.installed_at = 0  # when that configuration was delivered
        self.change: StateChange | None = None
        self.breaks: Final[deque[Break]] = deque(maxlen=BREAKS_MAX)
        self.sent = 0
        self.delivered = 0
        self.delivered_by: Final[Counter[ProcessorId]] = Counter()  # by who sent them
        self.heard_at: Final[dict[ProcessorId, int]] = {}
        self.refusals: Final[dict[tuple[str, ProcessorId], int]] = {}  # reason, claimed peer
        self.ignored: frozenset[ProcessorId] = frozenset()
        self.is_busy = False  # does not sleep while the core rests
        self.chores: Final[list[Chore]] = []
        self.aside: Callable[[bytes], None] = _ignore_frame
        self.timed: Final[list[Timed]] = []
        self.expiring: Final[list[Chore]] = []  # told before timers of the ring fire
        self.turn_ends: Final[list[Chore]] = []  # told when all of a turn is done
        self.how = ""  # "stop" or "fail" once it is over
        self.why = ""
        self._woke_at = 0  # when this turn began
        self._has_slept = False  # before this turn: nothing was ready when the loop asked
        self._is_unrecorded = False  # the core is in a ring that the disk has not
        has_rows = name_of(parameters) == TOTEM
        self._transmitter: Final = Transmitter(sealer, datagrams, datagram_size, has_rows=has_rows)
        self._opener: Final = opener
        self._datagrams: Final = datagrams
        self._store: Final = store
        self._peers = frozenset(peers)
        hearing = tuple(listeners)
        self._hear_send: Final = _those_who_want(Listener.send, hearing)
        self._hear_deliver: Final = _those_who_want(Listener.deliver, hearing)
        self._hear_visit: Final = _those_who_want(Listener.visit, hearing)
        self._listeners: Final = hearing
        self._leave_grace_us: Final = 2 * parameters.patience()
        self._leave_by = NEVER
        self._chores_at = clock()
        for descriptor in datagrams.filenos():
            # Behind clients: what they say now need not wait until the token comes again.
            self.watch.add(descriptor, self._on_datagrams, is_last=True)

    # The loop

    def run(self) -> None:
        """Drive the ring until it has left, halted or been stopped."""
        core, watch, lag = self.core, self.watch, self.lag
        lag.begin_turn(clock(), NEVER)
        core.start(clock())
        self.perform()
        while not self.how:
            core_due = core.deadline()
            due = min(core_due, self._leave_by, self._chores_at, lag.turn_by())
            for timed in self.timed:
                due = min(due, timed.deadline)
            asked_at = clock()
            may_sleep = not self.is_busy or not core.rests()
            ready = watch.wait(due - asked_at) if may_sleep else watch.look(due - asked_at)
            woke_at = self._woke_at = clock()
            self._has_slept = woke_at - asked_at >= SLEPT_US
            lag.begin_turn(woke_at, due)  # here: datagrams may make the core forgive and forget
            watch.dispatch(ready)
            self.outbox.refill()
            now = clock()
            # A timer that was started meanwhile is not due yet: the deadline of before tells.
            if now >= core_due and now >= core.deadline() and not self.how:
                for told in self.expiring:
                    told(now)
                core.expire(now)
                self.perform()
            for timed in self.timed:
                if now >= timed.deadline:
                    timed.expire(now)
            if now >= self._chores_at:
                self._do_chores(now)
            if self._leave_by != NEVER:
                self._leave_if_done(now)
            for told in self.turn_ends:
                told(now)
            lag.end_turn(clock())

    def _on_datagrams(self, _events: int) -> None:
        runs: list[Run] = []
        regulars: list[bytes] = []
        tokens: list[bytes] = []
        others: list[bytes] = []
        opener = self._opener
        opener.begin_turn()
        for burst in self._drained():
            data, size = burst
            is_many = size < len(data)
            if is_many and (whole := opener.open_long(burst)) is not None:
                frames = [whole] if self._admits(whole, burst) else []
            elif is_many and pieces_of(data) > 1:
                frames = self._opened_long(burst)
            elif is_many and (run := opener.open_burst(burst)) is not None:
                kinds = {*map(getitem, run.buffers, run.starts)}
                _, transmitter, _ = unpack_header(run.buffers[0], run.starts[0])
                if not self._is_admitted(transmitter, min(kinds), len(run.starts)):
                    continue
                if kinds == ONLY_REGULAR:
                    if wire.is_repair(run.buffers[0], run.starts[0]):
                        self._transmitter.row_size.repaired(clock())
                    runs.append(run)
                    continue
                frames = run.frames()
            else:
                frames = self._opened(burst)
            for frame in frames:
                kind = frame[0]
                if kind == wire.ROW:
                    regulars.append(frame)
                elif kind == wire.REGULAR:
                    if wire.is_repair(frame):
                        self._transmitter.row_size.repaired(clock())
                    regulars.append(frame)
                elif kind in TOKENS:
                    tokens.append(frame)
                elif kind >= ASIDE:
                    self.aside(frame)
                else:
                    others.append(frame)
        if runs or regulars:
            self._hand_over(runs, regulars)
        if tokens:
            self._hand_over((), tokens)
        if others:
            self._hand_over((), others)

    def _hand_over(self, runs: Sequence[Run], frames: Sequence[bytes]) -> None:
        if not self.how:
            self.core.receive_all(runs, frames, clock())
            self.perform()

    def _opened_long(self, burst: Burst) -> list[bytes]:
        """Return the frames of peers in it, each of which was cut into some of these pieces."""
        data, size = burst
        frames: list[bytes] = []
        at = 0
        while at < len(data):
            cut = size * max(1, data[at + PIECES_AT] if at + PIECES_AT < len(data) else 1)
            part = Burst(data[at : at + cut], size) if at or cut < len(data) else burst
            at += cut
            frame = self._opener.open_long(part)
            if frame is None:
                frames += self._opened(part)
            elif self._admits(frame, part):
                frames.append(frame)
        return frames

    def _admits(self, frame: bytes, burst: Burst) -> bool:
        kind, transmitter, _ = unpack_header(frame)
        return self._is_admitted(transmitter, kind, -(-len(burst.data) // burst.size))

    def _opened(self, burst: Burst) -> list[bytes]:
        """Return the frames of peers in it, each looked at by itself."""
        frames: list[bytes] = []
        opener = self._opener
        for datagram in burst.split():
            is_piece = pieces_of(datagram) > 1
            try:
                frame = opener.open_piece(datagram) if is_piece else opener.open(datagram)
            except Refused as refused:
                self.refuse(refused.reason, refused.transmitter)
                continue
            if frame is not None:
                kind, transmitter, _ = unpack_header(frame)
                if self._is_admitted(transmitter, kind, 1):
                    frames.append(frame)
        return frames

    def _drained(self) -> Iterable[Burst]:
        drained = self._datagrams.drain(RECV_DRAIN_MAX, has_waited=self._has_slept)
        if self._datagrams.is_echoing():
            mine = self._transmitter.sealer.name
            return (burst for burst in drained if not burst.data.startswith(mine))
        return drained

    def _is_admitted(self, transmitter: ProcessorId, kind: int, datagrams: int) -> bool:
        """Whether these come from a peer; if so, and if they are the ring's, it was heard."""
        if transmitter in self.ignored:
            self.refuse("ignored", transmitter, datagrams)
        elif transmitter in self._peers:
            if kind < ASIDE:
                self.heard_at[transmitter] = self._woke_at
            return True
        elif transmitter == self.life.node:
            return True  # a twin of mine is the core's business
        else:
            self.refuse("not a peer", transmitter, datagrams)
        return False

    def refuse(self, reason: str, claimed: ProcessorId, datagrams: int = 1) -> None:
        """Count datagrams that had no effect."""
        key = (reason, claimed if claimed in self._peers else STRANGER)
        self.refusals[key] = self.refusals.get(key, 0) + datagrams

    # What the core asks for

    def perform(self) -> None:
        """Perform the node's effects, and tell its sessions what is to be told.

        The ring goes before its clients, but for a message by itself, and for a few where the token
        stays: whoever sent them waits for them, and the ring waits no longer than a write or two
        take.
        """
        before = self.delivered
        self._perform_effects()
        events = self._drain_events()
        few = self._told_first(self.delivered - before) if events else 0
        if few and _is_little(events, few):
            self.tell(events)
            self.write_few(clock())
            events = self._drain_events()
        self._transmit()
        while events or self.core.has_effects():
            self.tell(events)  # it may hang up on a session, and so have something to send
            if self.core.has_effects():
                self._perform_effects()
                self._transmit()
            events = self._drain_events()

    def _told_first(self, delivered: int) -> int:
        """How many frames clients may be told before what was sent is transmitted."""
        if self.core.rests():
            return FEW_FRAMES
        return 1 if delivered == 1 else 0

    def _drain_events(self) -> list[SessionEvent]:
        """Return what sessions are to be told; nothing that may rest on a ring not on record."""
        events = self.core.drain_events()
        return [] if self._is_unrecorded else events

    def _transmit(self) -> None:
        self._transmitter.flush(clock())
        self.core.groups.queue.width = self._transmitter.width()

    def _perform_effects(self) -> None:
        """Perform effects in order; what goes to the others waits until it is transmitted."""
        now = clock()
        transmitter = self._transmitter
        for effect in self.core.drain():
            if isinstance(effect, Broadcast):
                transmitter.broadcast(effect.datagram)
            elif isinstance(effect, Sent):
                self.sent += len(effect.packets)
                if effect.outgoing is not None:
                    transmitter.broadcast(effect.outgoing)
                for hear_send in self._hear_send:
                    hear_send(effect, now)
            elif isinstance(effect, Deliver):
                self._count(effect.parts)
                for hear_deliver in self._hear_deliver:
                    hear_deliver(effect, now)
            elif isinstance(effect, Unicast):
                transmitter.unicast(effect)
            elif isinstance(effect, TokenVisit):
                if effect.resent:
                    transmitter.row_size.repaired(now)
                for hear_visit in self._hear_visit:
                    hear_visit(effect, now)
            elif isinstance(effect, SafeLine):
                pass  # the node has told its sessions
            elif isinstance(effect, WindowGrown):
                for listener in self._listeners:
                    listener.grow_window(effect, now)
            elif isinstance(effect, StateChange):
                self._change_state(effect, now)
            elif isinstance(effect, Install):
                self.configuration = effect.configuration
                self.installed_at = now
                for listener in self._listeners:
                    listener.install(effect.configuration, now)
            elif isinstance(effect, Persist):
                transmitter.flush(now)
                if not self._persist(effect.record):
                    return
            elif isinstance(effect, Halt):
                transmitter.flush(now)
                self._end("fail", effect.reason)
                return
            else:
                assert_never(effect)

    def _count(self, parts: Sequence[Part]) -> None:
        for part in parts:
            count = part.last_seq - part.first_seq + 1
            self.delivered += count
            self.delivered_by[part.sender_id] += count

    def _change_state(self, change: StateChange, now: int) -> None:
        before, self.change = self.change, change
        if change.state in CHANGING:
            if before is not None and before.state in STEADY:
                assert self.configuration is not None
                lag_us = self.lag.suspect_us(now)
                self.breaks.append(
                    Break(now, self.configuration, change.cause, change.about, lag_us)
                )
            self._datagrams.resolve_again()  # a peer may have moved
        for listener in self._listeners:
            listener.change_state(change, now)

    def _persist(self, record: bytes) -> bool:
        """Make the record durable; False if that failed, and then nothing after it may happen."""
        try:
            self._store.write(record)
        except OSError as error:
            self._is_unrecorded = True
            self._end("fail", f"the ring's record cannot be stored: {error.strerror}")
            return False
        return True

    # What others of this process ask for

    def submit(self, packets: Iterable[Packet]) -> None:
        """Name packets as units of this life, queue them and wake the ring."""
        self._queue(map(marked, packets))

    def _queue(self, packets: Iterable[Packet]) -> None:
        self.outbox.packets.extend(packets)
        if not self.how:
            self.core.submit(clock())
            self.perform()

    def feed(self, more: Feed, ahead: int) -> None:
        """Submit marked packets as fast as the ring takes them, so many waiting at any time."""
        self.outbox.feed = more
        self._queue(more(ahead))

    def ignore(self, peers: Iterable[ProcessorId]) -> None:
        """Neither hear these peers nor speak to them: a partition, for tests."""
        self.ignored = frozenset(peers)
        self._datagrams.ignore(self.ignored)

    def seal(self, frame: bytes) -> bytes:
        """Seal a frame as this life's next datagram."""
        return self._transmitter.sealer.seal(frame)

    def overhead(self) -> int:
        """How many bytes sealing adds to a frame."""
        return self._transmitter.sealer.overhead

    def lives(self) -> dict[tuple[ProcessorId, int, int], int]:
        """Return how far each life that was heard has counted: id, incarnation, boot."""
        return self._opener.lives()

    def set_peers(self, peers: Mapping[ProcessorId, Address]) -> None:
        """Hear and speak to these from now on."""
        self._peers = frozenset(peers)
        self._datagrams.set_peers(peers)
        for gone in self.heard_at.keys() - self._peers:
            del self.heard_at[gone]

    def set_keys(self, cluster: str, keys: tuple[Key, ...]) -> None:
        """Seal with the first of these and accept them all from now on."""
        self._opener.accept_keys(keys)
        key = keys[0] if keys else None
        if key != self._transmitter.sealer.key:
            sealer = Sealer(cluster, key, *self.life)
            # A key that comes back meets none of its nonces again: the counter only ever rises.
            sealer.counter = self._transmitter.sealer.counter
            self._transmitter.sealer = sealer

    def counts(self) -> Counts:
        """Return how many packets went which way, but for what daemons tell each other."""
        node, exchanged = self.life.node, self.core.groups.exchanged
        own = exchanged.get(node, 0)
        return Counts(
            self.sent - own,
            self.delivered_by[node] - own,
            self.delivered - sum(exchanged.values()),
        )

    def is_leaving(self) -> bool:
        """Whether it has been told to leave."""
        return self._leave_by != NEVER

    def leave(self) -> None:
        """Depart in good order: once what was submitted is delivered here, or a grace is over."""
        if self._leave_by == NEVER:
            self._leave_by = clock() + self._leave_grace_us

    def stop(self, why: str) -> None:
        """Stop at once, without a word to the others."""
        self._end("fail", why)

    def _leave_if_done(self, now: int) -> None:
        is_idle = not self.core.backlog() and self.sent == self.delivered_by[self.life.node]
        if not self.how and (is_idle or now >= self._leave_by):
            self.core.leave(now)
            self.perform()
            self._end("stop", "leave")

    def _end(self, how: str, why: str) -> None:
        if not self.how:
            self.how = how
            self.why = why
            for listener in self._listeners:
                listener.end(how, clock(), why)

    def _do_chores(self, now: int) -> None:
        self._chores_at = now + CHORES_US
        for chore in self.chores:
            chore(now)


def _those_who_want(
    method: Callable[[Listener, Heard, int], None], listeners: tuple[Listener, ...]
) -> tuple[Callable[[Heard, int], None], ...]:
    """Return a method of all listeners that define it."""
    name = method.__name__
    return tuple(getattr(one, name) for one in listeners if getattr(type(one), name) is not method)
