"""What processors of a broadcast domain say to each other [Transis §3, §4].

A message of the causal graph is named by (sender, incarnation, counter). Within a view counters
are told from the sender's `base` on: its first message there has the number 1, so that a new view's
graph has no gap. A message and all its retransmissions are the same bytes (`frame`).
"""

from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId, RingId

ViewId: TypeAlias = RingId  # view_no, and a hash of who went into it by which message
Ack: TypeAlias = tuple[ProcessorId, int]  # a member and a number of its messages in the view

REGULAR: Final = 33  # the kinds of the other engines are below
NULL: Final = 34
JOIN: Final = 35
RETR: Final = 36
NACK: Final = 37
AJ: Final = 38
PING: Final = 39
PONG: Final = 40
LEAVE: Final = 41
KIND_NAMES: Final = {
    REGULAR: "regular",
    NULL: "null",
    JOIN: "join",
    RETR: "retr",
    NACK: "nack",
    AJ: "aj",
    PING: "ping",
    PONG: "pong",
    LEAVE: "leave",
}
IN_GRAPH: Final = (REGULAR, NULL, JOIN)


class Entry(NamedTuple):
    """A member as of one view: after the next it is another entry, after a restart as well."""

    proc: ProcessorId
    incarnation: int
    view_no: int

    def __str__(self) -> str:
        return f"{self.proc}@{self.view_no}"


class Proposal(NamedTuple):
    """Who should be in the next view: `joint` without `failed`. Both ascend."""

    joint: tuple[Entry, ...]
    failed: tuple[Entry, ...]

    def required(self) -> list[Entry]:
        """Return whose agreement it takes."""
        failed = self.failed
        return [entry for entry in self.joint if entry not in failed]


class Head(NamedTuple):
    """How every frame begins: who transmits it, and in which view it is."""

    kind: int
    transmitter: ProcessorId
    incarnation: int
    view_id: ViewId


@final
class Message:
    """A message of the causal graph, as its sender made it."""

    __slots__ = (
        "acks",
        "counter",
        "frame",
        "incarnation",
        "is_slow",
        "kind",
        "number",
        "payload",
        "proposal",
        "sender_id",
        "service",
        "timestamp",
        "view_id",
    )

    def __init__(
        self,
        kind: int,
        service: Service,
        sender_id: ProcessorId,
        incarnation: int,
        view_id: ViewId,
        counter: int,
        number: int,
        acks: tuple[Ack, ...],
        timestamp: int,
        payload: bytes,
        proposal: Proposal | None,
        is_slow: bool,
        frame: bytes,
    ) -> None:
        self.kind: Final = kind
        self.service: Final = service  # of a regular message
        self.sender_id: Final = sender_id
        self.incarnation: Final = incarnation
        self.view_id: Final = view_id  # in which it was sent
        self.counter: Final = counter  # from 1 in each life, without gaps
        self.number: Final = number  # counter - base: from 1 in each view
        self.acks: Final = acks
        self.timestamp: Final = timestamp
        self.payload: Final = payload
        self.proposal: Final = proposal  # of a JOIN
        self.is_slow: Final = is_slow  # its sender falls behind
        self.frame: Final = frame  # everything above, as bytes

    def entry(self) -> Entry:
        """Return its sender, as of the view in which it was sent."""
        return Entry(self.sender_id, self.incarnation, self.view_id.seq)


class Nack(NamedTuple):
    """Somebody lacks messages of a view: (sender, from, to), numbers that are both included."""

    ranges: tuple[tuple[ProcessorId, int, int], ...]


class AttemptJoin(NamedTuple):
    """Somebody heard strangers and tells them who is in its view [Transis §4]."""

    members: tuple[tuple[ProcessorId, int], ...]  # with their incarnations
