"""What is true of all daemons of a run together: the ground on which their promises are judged.

Messages as they were sent, the place of each, the members of each view, directories by place, and
who was told what between two views. `relevant` counts how often each promise had something to say,
`happened` what came about in the run: a promise that nothing was about is not proven by silence.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias, final

from evensong.core.groups.events import MemberId, OrderId, SessionId, View, ViewId
from evensong.core.groups.frame import BASIC, UNORDERED
from evensong.core.groups.packet import FrameAt, decode_packet
from evensong.core.ids import ProcessorId, RingId
from evensong.errors import InvariantBroken

Key: TypeAlias = tuple[ProcessorId, int, SessionId]
MessageId: TypeAlias = tuple[ProcessorId, int, SessionId, int]
Place: TypeAlias = tuple[RingId, int, int]
Heard: TypeAlias = tuple[tuple[MessageId, bool], ...]  # with whether its sender wanted it back


class Span(NamedTuple):
    """What one member was told between two views of a group."""

    view: View  # the second
    member: MemberId
    heard: Heard


def broken(promise: str, text: str) -> NoReturn:
    """End the run: a promise does not hold."""
    raise InvariantBroken(promise, text)


@final
class Facts:
    """What is true of all daemons together."""

    def __init__(self, *, has_sides: bool = False) -> None:
        # Whether sides of a partition may give one message different places.
        self._has_sides: Final = has_sides
        self._other_orders: Final[dict[tuple[MessageId, RingId], OrderId]] = {}
        self.bodies: Final[dict[MessageId, bytes]] = {}
        self.groups: Final[dict[MessageId, tuple[str, ...]]] = {}
        self.flags: Final[dict[MessageId, int]] = {}
        self.causes: Final[dict[MessageId, tuple[MessageId, ...]]] = {}
        self.orders: Final[dict[MessageId, OrderId]] = {}
        self.views: Final[dict[tuple[str, ViewId], tuple[MemberId, ...]]] = {}
        self.digests: Final[dict[tuple[RingId, tuple[ProcessorId, ...], int], int]] = {}
        self.spans: Final[dict[tuple[str, ViewId, ViewId], list[Span]]] = {}
        self.pairs: Final[set[tuple[str, str]]] = set()  # which events met which states
        self.relevant: Final[dict[str, int]] = {}
        self.happened: Final[dict[str, int]] = {}
        # Of what is not ordered: under which view of a group its sender, if it is in it, sent it,
        # whom it saw there, and the configuration in which it went out.
        self.seen: Final[dict[tuple[MessageId, str], ViewId]] = {}
        self.due: Final[dict[MemberId, list[tuple[MessageId, str]]]] = {}
        self.sent_in: Final[dict[MessageId, RingId]] = {}
        self._packets: Final[dict[bytes, tuple[tuple[int, int, int], list[FrameAt]]]] = {}

    def sent(
        self,
        member: MemberId,
        first_no: int,
        groups: tuple[str, ...],
        bodies: Sequence[bytes],
        flags: int,
        causes: tuple[MessageId, ...] = (),
    ) -> None:
        """Note messages that a process is about to send, and what it was told since its last."""
        for index, body in enumerate(bodies):
            message = (*member[:3], first_no + index)
            self.bodies[message] = body
            self.groups[message] = groups
            self.flags[message] = flags
            self.causes[message] = causes

    def is_loose(self, flags: int) -> bool:
        """Whether a message with these flags is not ordered; a ring orders everything."""
        return self._has_sides and bool(flags & UNORDERED)

    def saw(self, message: MessageId, group: str, view: View) -> None:
        """Note under which view a message is sent that is not ordered."""
        self.seen[message, group] = view.view_id
        for member in view.members:
            self.due.setdefault(member, []).append((message, group))

    def order_of(self, message: MessageId, ring_id: RingId) -> OrderId | None:
        """Return the place of a message, as it is known among the places of some ring."""
        known = self.orders.get(message)
        if known is None or not self._has_sides or known.ring_id == ring_id:
            return known
        return self._other_orders.get((message, ring_id))

    def settle_order(self, message: MessageId, order: OrderId) -> OrderId:
        """Take in a place of a message; return the one that it had there before, or this one."""
        known = self.order_of(message, order.ring_id)
        if known is not None:
            self.count("G4")
            return known
        if message in self.orders:
            self._other_orders[message, order.ring_id] = order
        else:
            self.orders[message] = order
        return order

    def packet(self, payload: bytes) -> tuple[tuple[int, int, int], list[FrameAt]]:
        """Take a packet apart; everybody gets the same one."""
        found = self._packets.get(payload)
        if found is None:
            found = self._packets[payload] = decode_packet(payload)
        return found

    def count(self, promise: str) -> None:
        """Note that a promise had something to say."""
        self.relevant[promise] = self.relevant.get(promise, 0) + 1

    def note(self, what: str, times: int = 1) -> None:
        """Note that something came about."""
        self.happened[what] = self.happened.get(what, 0) + times

    def check_together(self) -> None:
        """G2: who goes together from a view to the next has got the same messages between them."""
        for spans in self.spans.values():
            for view, member, heard in spans:
                for _, other, other_heard in spans:
                    if other in view.stayed and member in view.stayed and other != member:
                        self.count("G2")
                        mine = self._sorted(without(heard, other))
                        if mine != self._sorted(without(other_heard, member)):
                            text = f"{member} and {other} came to {view} with different messages"
                            broken("G2", f"{text}: {differing(heard, other_heard)}")

    def _sorted(self, heard: list[MessageId]) -> tuple[list[MessageId], list[MessageId]]:
        """Return what was ordered, and apart what was causal, in no order; BASIC need not agree."""
        loose = {one: self.flags[one] for one in heard if self.is_loose(self.flags[one])}
        causal = sorted(one for one, flags in loose.items() if not flags & BASIC)
        return [one for one in heard if one not in loose], causal


def without(heard: Heard, member: MemberId) -> list[MessageId]:
    """Leave out what the other one sent and did not want to have back."""
    return [one for one, discarded in heard if not (discarded and one[:3] == member[:3])]


def differing(heard: Heard, other: Heard) -> str:
    """Say where two lists of messages part."""
    for index, (one, two) in enumerate(zip(heard, other, strict=False)):
        if one != two:
            return f"number {index} is {one[0]} and {two[0]}"
    return f"{len(heard)} and {len(other)} messages"
