"""What clients do in a run, as data: who joins, leaves, sends and ends, when and where.

A client is named by its processor and a seat there. Whoever acts from an empty seat first opens a
session and joins the seat's own group, so that any act can be dropped while shrinking and the rest
still means something. Groups whose names begin with a capital letter have replicated state.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from evensong.core.ids import ProcessorId

JOIN: Final = "join"
LEAVE: Final = "leave"
SEND: Final = "send"
ASK: Final = "ask"  # a message that whoever sits in a first seat answers, to the seat's own group
CLOSE: Final = "close"
KINDS: Final = (JOIN, LEAVE, SEND, ASK, CLOSE)
GROUPS: Final = ("Ann", "Bea", "cid", "dan")
SEATS: Final = 3  # clients of one processor
PRIVATE: Final = "@"  # `@2.1` is the private name of whoever sits, or sat last, in seat 1 at 2


@dataclass(frozen=True, slots=True)
class Act:
    """One client does one thing."""

    at_us: int
    node: ProcessorId
    seat: int
    kind: str
    groups: tuple[str, ...] = ()
    size: int = 20  # bytes of a message
    count: int = 1  # messages in one frame
    safe: bool = False
    discard: bool = False  # the sender does not want it back
    causal: bool = False  # instead of safe or agreed,
    basic: bool = False  # or this; a ring takes either as agreed


@dataclass(frozen=True, slots=True)
class Clients:
    """All that clients do, and how groups are set."""

    acts: tuple[Act, ...] = ()
    payload_max: int = 600
    chunk_bytes: int = 300  # of a snapshot, in one message
    pause_us: int = 200  # a client takes up to this to answer
    primary_wins: bool = False


Acts: TypeAlias = tuple[Act, ...]


def own_group(seat: int) -> str:
    """Return the group that whoever takes a seat joins first."""
    return GROUPS[seat % len(GROUPS)]


def has_state(group: str) -> bool:
    """Whether members of a group keep a replicated state."""
    return group[:1].isupper()
