"""What a core asks its driver to do.

`drain()` returns these as a program: the driver (`daemon/driver.py`) or the simulator
(`sim/world.py`) performs them in order, so what comes after a `Persist` happens after the disk has
it. No effect waits for a reply. The union is closed: whoever performs it handles every member or
does not type-check.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import count
from typing import Final, NamedTuple, Protocol, TypeAlias, final

from evensong.core.ids import Configuration, ProcessorId, RingId


class Service(Enum):
    """What the sender asked of a message's delivery.

    A ring orders everything, so whoever asks it for less asks for AGREED: the layer above sees to
    that. The values of AGREED and SAFE are the ring's on the wire.
    """

    AGREED = 1
    SAFE = 2
    BASIC = 3  # once, to every active member
    CAUSAL = 4  # and after everything that its sender had seen


class Packet(NamedTuple):
    """What the layer above hands over when it can be sent."""

    service: Service
    payload: bytes
    timestamp: int = 0  # Lamport time, decided at the moment of sending; several rings need it


@final
class Broadcast:
    """Send a datagram to every other processor of the cluster; it may get lost."""

    __slots__ = ("datagram",)

    def __init__(self, datagram: bytes) -> None:
        self.datagram: Final = datagram


@final
class Unicast:
    """Send a datagram to one processor; it may get lost."""

    __slots__ = ("datagram", "to")

    def __init__(self, to: ProcessorId, datagram: bytes) -> None:
        self.to: Final = to
        self.datagram: Final = datagram


class Outgoing(Protocol):
    """Messages to be broadcast, in the form that suits whoever carries them."""

    def datagrams(self) -> list[bytes]:
        """Return a frame for each."""
        ...

    def rows(self, packets_max: int, bytes_max: int) -> list[bytes]:
        """Return frames that have many in them; a frame that gets lost takes them all along."""
        ...


@final
class Sent:
    """Packets of ours got their places in the order, `first_seq` and those after it.

    They are to be broadcast as `outgoing` lays them out; on a ring of one, none is. An engine that
    orders by votes knows no place yet: then `first_seq` is 0, and each packet has its own `Sent`.
    """

    __slots__ = ("first_seq", "outgoing", "packets", "ring_id")

    def __init__(
        self,
        ring_id: RingId,
        first_seq: int,
        packets: Sequence[Packet],
        outgoing: Outgoing | None = None,
    ) -> None:
        self.ring_id: Final = ring_id
        self.first_seq: Final = first_seq
        self.packets: Final = packets  # at least one
        self.outgoing: Final = outgoing

    def last_seq(self) -> int:
        """Return the place of the last one."""
        return self.first_seq + len(self.packets) - 1


class Ordered(Protocol):
    """A message with its place in the order, as an engine hands it over."""

    @property
    def ring_id(self) -> RingId:
        """Where it was sequenced: (ring_id, seq) is its place."""

    @property
    def seq(self) -> int:
        """Its number there; 0 if its service asks for no place in a total order."""

    @property
    def sender_id(self) -> ProcessorId:
        """Who sent it first."""

    @property
    def service(self) -> Service:
        """What the sender asked for."""

    @property
    def timestamp(self) -> int:
        """The sender's Lamport time."""

    @property
    def payload(self) -> bytes:
        """What the layer above gave."""


class Part(Protocol):
    """Messages of one sender with successive places in the order, kept together."""

    @property
    def ring_id(self) -> RingId:
        """Where they were sequenced."""

    @property
    def first_seq(self) -> int:
        """The place of the first,"""

    @property
    def last_seq(self) -> int:
        """and of the last."""

    @property
    def sender_id(self) -> ProcessorId:
        """Who sent them first."""

    @property
    def service(self) -> Service:
        """What the sender asked for, the same for all."""

    def at(self, seq: int) -> Ordered:
        """Return the message at this place."""
        ...

    def cut(self, first_seq: int, last_seq: int) -> "Part":
        """Return what lies between two of its places, both included."""
        ...

    def payloads(self) -> list[bytes]:
        """Return what the layer above gave, of each."""
        ...

    def where(self, seq: int) -> tuple[bytes, int, int]:
        """Return what the payload at this place lies in, and from where to where: no copy."""
        ...

    def bytes_at(self, at: int) -> set[int]:
        """Return which bytes stand at this place of the payloads; some are shorter: undefined."""
        ...


@final
class Deliver:
    """Hand messages to the layer above, in this order, in the configuration `conf_id`.

    A busy ring delivers hundreds at a time. Who only counts looks at the parts: a message is made
    an object of its own when somebody wants to see it.
    """

    __slots__ = ("after_gap", "conf_id", "parts", "safe_line")

    def __init__(
        self,
        conf_id: RingId,
        parts: Sequence[Part],
        safe_line: int,
        *,
        after_gap: bool,
    ) -> None:
        self.conf_id: Final = conf_id
        self.parts: Final = parts  # at least one
        self.safe_line: Final = safe_line  # all members have everything up to here
        # A message before it is lost to this configuration, or who is cut off from it may have
        # ordered otherwise.
        self.after_gap: Final = after_gap

    def messages(self) -> Iterator[Ordered]:
        """Yield each message."""
        for part in self.parts:
            yield from map(part.at, range(part.first_seq, part.last_seq + 1))

    def count(self) -> int:
        """How many they are."""
        count = 0
        for part in self.parts:
            count += part.last_seq - part.first_seq + 1
        return count


@final
class Install:
    """Hand a configuration change to the layer above."""

    __slots__ = ("configuration",)

    def __init__(self, configuration: Configuration) -> None:
        self.configuration: Final = configuration


@final
class SafeLine:
    """Every member of the ring has all of its messages up to `seq`; at most one a token visit."""

    __slots__ = ("ring_id", "seq")

    def __init__(self, ring_id: RingId, seq: int) -> None:
        self.ring_id: Final = ring_id
        self.seq: Final = seq


@final
class Persist:
    """Make the record durable before anything that follows."""

    __slots__ = ("record",)

    def __init__(self, record: bytes) -> None:
        self.record: Final = record


@final
class StateChange:
    """For the trace: the membership moved to another state, and why."""

    __slots__ = ("about", "cause", "failed", "proposed", "ring_id", "state")

    def __init__(
        self,
        state: str,
        ring_id: RingId,
        cause: str,
        about: ProcessorId,
        proposed: tuple[ProcessorId, ...] = (),
        failed: tuple[ProcessorId, ...] = (),
    ) -> None:
        self.state: Final = state
        self.ring_id: Final = ring_id
        self.cause: Final = cause
        self.about: Final = about  # the processor it is about, or 0
        self.proposed: Final = proposed  # in Gather: with whom it wants to form a ring,
        self.failed: Final = failed  # and whom it has given up


@final
class TokenVisit:
    """For the trace: what one visit of the token did."""

    __slots__ = ("aru", "fcc", "resent", "ring_id", "sent", "seq", "token_seq", "was_held")

    def __init__(
        self,
        ring_id: RingId,
        token_seq: int,
        seq: int,
        aru: int,
        fcc: int,
        sent: int,
        resent: int,
        *,
        was_held: bool = False,
    ) -> None:
        self.ring_id: Final = ring_id
        self.token_seq: Final = token_seq  # as forwarded
        self.seq: Final = seq
        self.aru: Final = aru
        self.fcc: Final = fcc
        self.sent: Final = sent
        self.resent: Final = resent
        self.was_held: Final = was_held  # it stayed for a while, though nothing was to be sent


@final
class WindowGrown:
    """For the trace: more messages than before in this view are unacknowledged by somebody."""

    __slots__ = ("bound", "size", "view_id")

    def __init__(self, view_id: RingId, size: int, bound: int) -> None:
        self.view_id: Final = view_id
        self.size: Final = size
        self.bound: Final = bound  # what it may never exceed


@final
class Halt:
    """Stop this processor with an error; the core does nothing more."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason


Effect: TypeAlias = (
    Broadcast
    | Unicast
    | Sent
    | Deliver
    | Install
    | SafeLine
    | Persist
    | StateChange
    | TokenVisit
    | WindowGrown
    | Halt
)


def unbundled(effects: Iterable[Effect]) -> list[Effect]:
    """Return the same program with a step for each packet and for its broadcast."""
    each: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Sent) and effect.outgoing is not None:
            seqs, datagrams = count(effect.first_seq), effect.outgoing.datagrams()
            for seq, packet, datagram in zip(seqs, effect.packets, datagrams, strict=False):
                each.append(Sent(effect.ring_id, seq, [packet]))
                each.append(Broadcast(datagram))
        else:
            each.append(effect)
    return each
