"""A simulated processor: its clock, receive buffer, stable store and the engine it runs.

Invariant: `ready` holds only while the processor neither is suspended nor has a cost for anything
and its inbox is empty; then an arriving datagram may be handed over at once.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.core.stable import FIRST_START, StableRecord, decode_record
from evensong.core.timer import NEVER
from evensong.sim.workload import Queue

if TYPE_CHECKING:
    from evensong.core.core import Core
    from evensong.core.effects import Sent
    from evensong.sim.history import Life

MILLION: Final = 1_000_000
ROW_MAX: Final = 64  # messages that are handed over together
HEAD_SIZE: Final = 13  # kind, transmitter and incarnation: so every engine's frames begin
NO_FUSE: Final = -1


@final
class Clock:
    """What a processor takes for the time: offset and rate against virtual time, in integers."""

    __slots__ = ("_local", "_virtual", "ppm")

    def __init__(self, offset_us: int, ppm: int) -> None:
        self._local = offset_us  # what it showed at `_virtual`
        self._virtual = 0
        self.ppm = ppm

    def local(self, virtual: int) -> int:
        """Return what the clock shows at a virtual time."""
        elapsed = virtual - self._virtual
        if self.ppm:
            elapsed += elapsed * self.ppm // MILLION
        return self._local + elapsed

    def virtual(self, local: int) -> int:
        """Return the first virtual time at which the clock shows `local` or more."""
        if local == NEVER:
            return NEVER
        elapsed = local - self._local
        if self.ppm:
            elapsed = -(-elapsed * MILLION // (MILLION + self.ppm))
        return self._virtual + elapsed

    def set_rate(self, ppm: int, virtual: int) -> None:
        """Run at another rate from now on; the clock does not jump."""
        assert ppm > -MILLION
        self._local = self.local(virtual)
        self._virtual = virtual
        self.ppm = ppm


@final
class Store:
    """The stable record on a disk, byte by byte: written to a temporary file, then renamed."""

    __slots__ = ("record", "temporary", "writes")

    def __init__(self) -> None:
        self.record = b""
        self.temporary = b""
        self.writes = 0

    def write(self, record: bytes) -> None:
        """Make the record durable."""
        self.temporary = record
        self.record = self.temporary  # the rename is atomic
        self.temporary = b""
        self.writes += 1

    def tear(self, record: bytes) -> None:
        """Stop in the middle of a write: half of the temporary file is there, no rename."""
        self.temporary = record[: len(record) // 2]

    def read(self) -> StableRecord:
        """Return what a restart finds; a leftover temporary file is no record."""
        return decode_record(self.record) if self.record else FIRST_START


@final
class Inbox:
    """The receive buffer. A token waits for the data before it, at most `drain_max` datagrams.

    Joins and the like that are met on the way come after the token [SRP §4].
    """

    __slots__ = (
        "_drained",
        "_regular",
        "_token",
        "drain_max",
        "dropped",
        "late",
        "others",
        "tokens",
    )

    def __init__(self, regular: frozenset[int], token: frozenset[int], drain_max: int) -> None:
        self._regular: Final = regular
        self._token: Final = token
        self.drain_max: Final = drain_max
        self.tokens: Final[deque[bytes]] = deque()
        self.others: Final[deque[bytes]] = deque()
        self.late: Final[list[bytes]] = []
        self._drained = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.tokens) + len(self.others) + len(self.late)

    def put(self, datagram: bytes) -> None:
        """Let a datagram wait."""
        if datagram[0] in self._token:
            self.tokens.append(datagram)
        else:
            self.others.append(datagram)

    def take(self) -> bytes:
        """Return the datagram to be handed over next."""
        if not self.tokens:
            return self.others.popleft()
        while self.others and self._drained < self.drain_max:
            self._drained += 1
            datagram = self.others.popleft()
            if datagram[0] in self._regular:
                return datagram
            self.late.append(datagram)
        self._drained = 0
        self.others.extendleft(reversed(self.late))
        self.late.clear()
        return self.tokens.popleft()

    def take_row(self) -> list[bytes]:
        """Return what is handed over together next: messages of one transmitter, or a datagram."""
        row = [self.take()]
        if row[0][0] in self._regular:
            head = row[0][:HEAD_SIZE]
            others = self.others
            while others and len(row) < ROW_MAX and others[0].startswith(head):
                if self.tokens and self._drained >= self.drain_max:
                    break
                row.append(self.take())
        return row

    def clear(self) -> None:
        """Forget everything, as a restart does."""
        self.tokens.clear()
        self.others.clear()
        self.late.clear()
        self._drained = 0


@final
class Processor:
    """One processor over all of its lives."""

    __slots__ = (
        "busy_until",
        "clock",
        "configuration",
        "core",
        "cost_us",
        "doom",
        "down_since",
        "fuse",
        "fuse_kind",
        "inbox",
        "incarnation",
        "is_timed",
        "last_delivery",
        "last_sent",
        "left",
        "life",
        "n_delivered",
        "n_sent",
        "node",
        "paused",
        "paused_at",
        "queue",
        "ready",
        "state",
        "store",
        "torn",
        "wake_at",
    )

    def __init__(
        self, node: ProcessorId, clock: Clock, inbox: Inbox, cost_us: int, *, is_timed: bool = False
    ) -> None:
        self.node: Final = node
        self.clock: Final = clock
        self.inbox: Final = inbox
        self.store: Final = Store()
        self.cost_us = cost_us
        self.is_timed: Final = is_timed  # sending or visits have a cost
        self.core: Core | None = None  # None while it is down
        self.queue = Queue(node, 0)
        self.life: Life | None = None  # where its history goes, if there is one
        self.incarnation = 0
        self.down_since = -MILLION
        self.left = False
        self._forget()

    def _forget(self) -> None:
        self.state = ""  # in small letters, as the core announced it last
        self.configuration: Configuration | None = None
        self.last_sent: Sent | None = None
        self.last_delivery: tuple[RingId, int] | None = None  # where it was sequenced
        self.n_delivered = self.n_sent = 0  # units in the present configuration
        self.busy_until = 0
        self.paused = False
        self.paused_at = 0
        self.wake_at = NEVER  # the wake-up in the heap that counts
        self.fuse = NO_FUSE  # effects until it crashes
        self.fuse_kind = ""  # which kind of fault lit it
        self.torn = False  # it crashes in its next write instead
        self.doom: tuple[str, int] | None = None  # state in which the fuse is lit, and its length
        self.inbox.clear()
        self.weigh()

    def boot(self, now: int) -> StableRecord:
        """Begin a new life and return what is remembered of the ones before."""
        assert self.core is None
        record = self.store.read()
        self.incarnation = max(record.incarnation + 1, now // 1_000)
        self.queue = Queue(self.node, self.incarnation)
        self.left = False
        self._forget()
        return record

    def halt(self, now: int) -> None:
        """Stop running; the store stays."""
        self.core = None
        self.down_since = now
        self.fuse = NO_FUSE
        self.doom = None
        self.torn = False

    def weigh(self) -> None:
        """Find out whether datagrams may be handed over as they arrive."""
        is_free = not self.cost_us and not self.is_timed
        self.ready = is_free and not self.paused and not len(self.inbox)

    def is_up(self) -> bool:
        """Whether it runs (or is merely suspended)."""
        return self.core is not None
