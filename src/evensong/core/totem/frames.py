"""What processors of a ring say to each other [SRP §4, §5].

The transmitter of a datagram and its incarnation stand in the header of every frame (`wire.py`);
`sender_id` is the originator of a message and survives its retransmission by somebody else.
"""

from collections.abc import Callable
from itertools import repeat
from operator import add, getitem
from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import Service
from evensong.core.ids import NO_PROCESSOR, ProcessorId, RingId
from evensong.core.run import Spans

ENCAP: Final = 1  # the payload is a message of the old ring, exchanged in recovery
RETX: Final = 2  # a retransmission; for diagnosis only
FLAGS: Final = ENCAP | RETX

byte_at: Final[Callable[[bytes, int], int]] = getitem

Range: TypeAlias = tuple[int, int]  # first seq, count


@final
class RegularMessage(NamedTuple):
    """A message with its place in the order: (ring_id, seq) never names two payloads."""

    sender_id: ProcessorId
    ring_id: RingId
    seq: int
    service: Service
    flags: int
    timestamp: int
    payload: bytes

    @property
    def first_seq(self) -> int:
        """Return its place: alone it is a stretch of one."""
        return self.seq

    @property
    def last_seq(self) -> int:
        """Return its place."""
        return self.seq

    def at(self, seq: int) -> "RegularMessage":
        """Return the message at a place of the stretch."""
        assert seq == self.seq
        return self

    def cut(self, first_seq: int, last_seq: int) -> "RegularMessage":
        """Return what lies between two places of the stretch, both included."""
        assert first_seq == last_seq == self.seq
        return self

    def payloads(self) -> list[bytes]:
        """Return the payload of each message of the stretch."""
        return [self.payload]

    def where(self, seq: int) -> tuple[bytes, int, int]:
        """Return what the payload at a place lies in, and from where to where."""
        assert seq == self.seq
        return self.payload, 0, len(self.payload)

    def bytes_at(self, at: int) -> set[int]:
        """Return which bytes stand at this place of the payloads."""
        return {*self.payload[at : at + 1]}


@final
class Stretch:
    """Messages of one sender with successive places, taken in together and alike but for them."""

    __slots__ = (
        "_flags",
        "_run",
        "_skip",
        "first_seq",
        "last_seq",
        "ring_id",
        "sender_id",
        "service",
        "timestamp",
    )

    def __init__(
        self,
        sender_id: ProcessorId,
        ring_id: RingId,
        first_seq: int,
        service: Service,
        flags: int,
        timestamp: int,
        run: Spans,
        skip: int,
    ) -> None:
        self.sender_id: Final = sender_id
        self.ring_id: Final = ring_id
        self.first_seq: Final = first_seq
        self.last_seq: Final = first_seq + len(run[0]) - 1
        self.service: Final = service
        self.timestamp: Final = timestamp
        self._flags: Final = flags
        self._run: Final = run
        self._skip: Final = skip  # what comes before the payload in each frame of the run

    def at(self, seq: int) -> RegularMessage:
        """Return the message at a place of the stretch."""
        which = seq - self.first_seq
        buffers, starts, stops = self._run
        return RegularMessage(
            self.sender_id,
            self.ring_id,
            seq,
            self.service,
            self._flags,
            self.timestamp,
            buffers[which][starts[which] + self._skip : stops[which]],
        )

    def cut(self, first_seq: int, last_seq: int) -> "Stretch":
        """Return what lies between two places of the stretch, both included."""
        if (first_seq, last_seq) == (self.first_seq, self.last_seq):
            return self
        which = slice(first_seq - self.first_seq, last_seq - self.first_seq + 1)
        buffers, starts, stops = self._run
        return Stretch(
            self.sender_id,
            self.ring_id,
            first_seq,
            self.service,
            self._flags,
            self.timestamp,
            (buffers[which], starts[which], stops[which]),
            self._skip,
        )

    def payloads(self) -> list[bytes]:
        """Return the payload of each message of the stretch."""
        skip = self._skip
        return [buffer[start + skip : stop] for buffer, start, stop in zip(*self._run, strict=True)]

    def where(self, seq: int) -> tuple[bytes, int, int]:
        """Return what the payload at a place lies in, and from where to where."""
        which = seq - self.first_seq
        buffers, starts, stops = self._run
        return buffers[which], starts[which] + self._skip, stops[which]

    def bytes_at(self, at: int) -> set[int]:
        """Return which bytes stand at this place of the payloads, without a copy of any."""
        buffers, starts, _ = self._run
        if isinstance(starts, range):  # equally long, in one buffer
            first, last = (start + self._skip + at for start in (starts[0], starts[-1]))
            buffer = buffers[0]
            return {*buffer[first : last + 1 : starts.step]} if last < len(buffer) else set()
        try:
            return {*map(byte_at, buffers, map(add, starts, repeat(self._skip + at)))}
        except IndexError:
            return set()


Kept: TypeAlias = RegularMessage | Stretch


@final
class RegularToken:
    """The right to broadcast, and what the ring knows of its messages. Mutable while it is held."""

    __slots__ = (
        "aru",
        "aru_id",
        "backlog",
        "fcc",
        "retrans_flg",
        "retrans_setter",
        "ring_id",
        "rtr",
        "seq",
        "timestamp",
        "token_seq",
    )

    def __init__(
        self,
        ring_id: RingId,
        token_seq: int = 0,
        seq: int = 0,
        aru: int = 0,
        aru_id: ProcessorId = NO_PROCESSOR,
        fcc: int = 0,
        backlog: int = 0,
        retrans_flg: bool = False,
        retrans_setter: ProcessorId = NO_PROCESSOR,
        timestamp: int = 0,
        rtr: list[Range] | None = None,
    ) -> None:
        self.ring_id: Final = ring_id
        self.token_seq = token_seq  # rises on every forward; tells duplicates apart
        self.seq = seq  # the highest seq broadcast on the ring
        self.aru = aru  # everybody has received all up to here, as far as known
        self.aru_id = aru_id  # who lowered the aru, and alone may raise it
        self.fcc = fcc  # messages broadcast in the last rotation
        self.backlog = backlog  # messages that waited as each processor last forwarded the token
        self.retrans_flg = retrans_flg  # in recovery: somebody still has old messages to exchange
        self.retrans_setter = retrans_setter
        self.timestamp = timestamp
        self.rtr: list[Range] = rtr if rtr is not None else []  # requests; ascending, disjoint


@final
class Join:
    """A proposal of a membership: proc_set without fail_set."""

    __slots__ = ("fail_set", "incarnation", "proc_set", "ring_seq", "sender_id")

    def __init__(
        self,
        sender_id: ProcessorId,
        incarnation: int,
        proc_set: frozenset[ProcessorId],
        fail_set: frozenset[ProcessorId],
        ring_seq: int,
    ) -> None:
        self.sender_id: Final = sender_id
        self.incarnation: Final = incarnation
        self.proc_set: Final = proc_set
        self.fail_set: Final = fail_set
        self.ring_seq: Final = ring_seq  # the largest that the sender knows of


class MembEntry(NamedTuple):
    """What a member tells of its old ring while the commit token passes for the first time."""

    member_id: ProcessorId
    filled: bool
    old_ring_id: RingId
    my_aru: int
    high_delivered: int  # a lower bound of what is safe on the old ring, known in common from here
    high_received: int  # for diagnosis only
    received_flg: bool
    obligation: frozenset[ProcessorId]
    gateway_id: ProcessorId = NO_PROCESSOR
    group_digest: int = 0


@final
class CommitToken:
    """Goes twice around the proposed ring: it collects, then it tells. Mutable while it is held."""

    __slots__ = ("memb", "minor", "ring_id", "rotation", "timestamp", "token_seq")

    def __init__(
        self,
        ring_id: RingId,
        memb: list[MembEntry],
        token_seq: int = 0,
        rotation: int = 1,
        timestamp: int = 0,
        minor: int = 0,
    ) -> None:
        self.ring_id: Final = ring_id
        self.memb: Final = memb  # ascending by id, the representative first
        self.token_seq = token_seq
        self.rotation = rotation
        self.timestamp = timestamp
        self.minor = minor  # the wire's minor version that every member speaks

    def member_ids(self) -> tuple[ProcessorId, ...]:
        """Return the proposed members in ring order."""
        return tuple(entry.member_id for entry in self.memb)

    def memb_index(self) -> int:
        """Return how many entries are filled."""
        return sum(entry.filled for entry in self.memb)


@final
class Beacon:
    """A ring's sign of life, for rings that do not know of each other."""

    __slots__ = ("memb_count", "ring_id")

    def __init__(self, ring_id: RingId, memb_count: int) -> None:
        self.ring_id: Final = ring_id
        self.memb_count: Final = memb_count


@final
class HoldCancel:
    """Somebody has traffic: the holder of an idle ring's token lets it go."""

    __slots__ = ("ring_id",)

    def __init__(self, ring_id: RingId) -> None:
        self.ring_id: Final = ring_id


@final
class Leave:
    """An orderly departure."""

    __slots__ = ("ring_id",)

    def __init__(self, ring_id: RingId) -> None:
        self.ring_id: Final = ring_id
