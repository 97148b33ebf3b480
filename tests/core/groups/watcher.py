"""The promises of the group layer, held against all that sessions are told, as it is told.

D1 directories equal, D2 counter rises, D3 last view equals directory, D4 bytes queued; G1 to G7 as
docs/protocols/groups.md says them. `Facts` are shared by all daemons of a run; G2 compares streams
when they are whole.
"""

from collections import deque

from evensong.core.effects import Ordered
from evensong.core.groups.events import (
    Cause,
    Delivered,
    Left,
    MemberId,
    OrderId,
    Receipt,
    Reconfigured,
    SessionEvent,
    SessionId,
    View,
    ViewChange,
    ViewId,
)
from evensong.core.groups.frame import (
    HEADER_SIZE,
    LAST,
    SELF_DISCARD,
    WHOLE,
    decode_head,
    messages_of,
)
from evensong.core.groups.layer import Groups, State
from evensong.core.groups.packet import decode_packet
from evensong.core.ids import ProcessorId, RingId

MessageId = tuple[ProcessorId, int, SessionId, int]
Place = tuple[RingId, int, int]


class Facts:
    """What is true of all daemons together."""

    def __init__(self) -> None:
        self.bodies: dict[MessageId, bytes] = {}
        self.groups: dict[MessageId, tuple[str, ...]] = {}
        self.flags: dict[MessageId, int] = {}
        self.orders: dict[MessageId, OrderId] = {}
        self.views: dict[tuple[str, ViewId], tuple[MemberId, ...]] = {}
        self.digests: dict[tuple[RingId, tuple[ProcessorId, ...], int], int] = {}
        self.spans: dict[tuple[str, ViewId, ViewId], list[tuple[View, MemberId, Heard]]] = {}
        self.pairs: set[tuple[str, str]] = set()  # which events met which states
        self.relevant: dict[str, int] = {}  # how often each promise had something to say

    def sent(
        self,
        member: MemberId,
        first_no: int,
        groups: tuple[str, ...],
        bodies: tuple[bytes, ...],
        flags: int,
    ) -> None:
        for index, body in enumerate(bodies):
            message = (*member[:3], first_no + index)
            self.bodies[message] = body
            self.groups[message] = groups
            self.flags[message] = flags

    def count(self, promise: str) -> None:
        self.relevant[promise] = self.relevant.get(promise, 0) + 1

    def check_together(self) -> None:
        """G2: who goes together from a view to the next has got the same messages between them."""
        for spans in self.spans.values():
            for view, member, heard in spans:
                for _, other, other_heard in spans:
                    if other in view.stayed and member in view.stayed and other != member:
                        self.count("G2")
                        assert without(heard, other) == without(other_heard, member), "G2"


Heard = tuple[tuple[MessageId, bool], ...]  # with whether its sender wanted it back


def without(heard: Heard, member: MemberId) -> list[MessageId]:
    """Leave out what the other one sent and did not want to have back."""
    return [one for one, discarded in heard if not (discarded and one[:3] == member[:3])]


class Stream:
    """What one session has been told."""

    def __init__(self, member: MemberId) -> None:
        self.member = member
        self.place: Place = (RingId(0, 0), 0, 0)
        self.order: OrderId | None = None
        self.views: dict[str, View] = {}  # of groups it is in
        self.heard: dict[str, list[tuple[MessageId, bool]]] = {}  # since its last view
        self.last_nos: dict[tuple[ProcessorId, int, SessionId], int] = {}


class Watcher:
    """Looks on at one daemon."""

    def __init__(self, node: ProcessorId, groups: Groups, facts: Facts) -> None:
        self.node = node
        self.groups = groups
        self.facts = facts
        self.streams: dict[SessionId, Stream] = {}
        self.counter = 0
        self.told: list[SessionEvent] = []
        self.expected: deque[tuple[OrderId, MessageId]] = deque()  # not delivered or skipped yet
        self.slot = 0
        self.is_reduced = False  # the configuration is transitional
        self.ring_id = RingId(0, 0)  # of the regular configuration that is, or was last

    def expect(self, message: Ordered) -> None:
        """Note which messages end in a packet that the layer is given."""
        self.slot = message.seq
        (sender, incarnation, _), frames = decode_packet(message.payload)
        sub = 0
        for kind, _, session, first_no, _, places, _, _ in frames:
            if kind in (WHOLE, LAST):
                for index in range(places):
                    order = OrderId(message.ring_id, message.seq, sub + index)
                    identity = (sender, incarnation, session, first_no + index)
                    self.expected.append((order, identity))
            sub += places

    def see(self, events: list[SessionEvent]) -> None:
        """Check what sessions are told, then what is true of the layer now."""
        for event in events:
            self.told.append(event)
            if isinstance(event, Delivered):
                self._see_frame(event)
            elif isinstance(event, ViewChange):
                self._see_view(event)
            elif isinstance(event, Left):
                self._skip_to(event.order)
                stream = self.streams[event.session]
                del stream.views[event.group]
            elif isinstance(event, Receipt):
                assert event.session in self.groups.sessions.open
            elif isinstance(event, Reconfigured):
                self.is_reduced = event.transitional
                if not event.transitional:
                    self.ring_id = event.conf_id
        if not self.groups.held_packets():
            self._skip_to(None)
        self._see_layer()

    def _open(self) -> list[SessionId]:
        return sorted(self.groups.sessions.open)

    def _stream(self, session: SessionId) -> Stream:
        if session not in self.streams:
            self.streams[session] = Stream(self.groups.sessions.open[session].member)
        return self.streams[session]

    def _recipients(self, message: MessageId) -> list[SessionId]:
        """Who must get a message now, by the views that sessions were shown."""
        groups = self.facts.groups[message]
        found = []
        for session in self._open():
            stream = self._stream(session)
            is_sender = message[:3] == stream.member[:3]
            if is_sender and self.facts.flags[message] & SELF_DISCARD:
                continue
            if any(group in stream.views or group == str(stream.member) for group in groups):
                found.append(session)
        return found

    def _skip_to(self, order: OrderId | None) -> None:
        """Whatever comes before and was not delivered had nobody here to go to (G3)."""
        while self.expected and (order is None or self.expected[0][0] < order):
            _, message = self.expected.popleft()
            if message in self.facts.groups:
                assert self._recipients(message) == [], f"G3: {message} was not delivered"

    def _see_frame(self, event: Delivered) -> None:
        head = decode_head(event.frame)
        assert head.kind == WHOLE
        assert head.length == len(event.frame) - HEADER_SIZE
        sender = event.destination.sender
        self._skip_to(event.order)
        for index, body in enumerate(messages_of(event.frame)):
            message = (*sender[:3], head.first_no + index)
            order = event.order._replace(sub=event.order.sub + index)
            assert self.expected.popleft() == (order, message), "out of order"
            assert self.facts.bodies[message] == body, "G6"
            assert self.facts.groups[message] == event.destination.groups
            assert self.facts.orders.setdefault(message, order) == order, "G4"
            assert list(event.sessions) == self._recipients(message), "G3"
            self.facts.count("G3")
            for session in event.sessions:
                self._see_message(self._stream(session), message, order, event)

    def _see_message(
        self, stream: Stream, message: MessageId, order: OrderId, event: Delivered
    ) -> None:
        assert stream.order is None or stream.order < order, "G4"
        stream.order = order
        self._move(stream, (event.conf_id, order.seq, order.sub))
        last_no = stream.last_nos.get(message[:3], 0)
        assert last_no < message[3], "G5"
        stream.last_nos[message[:3]] = message[3]
        discarded = bool(self.facts.flags[message] & SELF_DISCARD)
        for group in event.destination.groups:
            if group in stream.views:
                stream.heard[group].append((message, discarded))
        assert event.reduced == self.is_reduced

    def _move(self, stream: Stream, place: Place) -> None:
        assert stream.place <= place, "G7"
        stream.place = place
        self.facts.count("G7")

    def _see_view(self, event: ViewChange) -> None:
        view = event.view
        view_id = view.view_id
        if view_id.seq:
            self._skip_to(OrderId(self.ring_id, view_id.seq, view_id.sub))
        known = self.facts.views.setdefault((view.group, view_id), view.members)
        assert known == view.members, "G1"
        self.facts.count("G1")
        self._see_difference(view)
        for session in event.sessions:
            stream = self._stream(session)
            assert stream.member in view.members
            self._move(stream, view_id[:3])
            before = stream.views.get(view.group)
            if before is None:
                assert view.subject == stream.member, "the first view is the joiner's own"
                assert view.cause is Cause.JOIN
            else:
                assert before.view_id < view_id
                heard = tuple(stream.heard[view.group])
                span = (view.group, before.view_id, view_id)
                self.facts.spans.setdefault(span, []).append((view, stream.member, heard))
            stream.views[view.group] = view
            stream.heard[view.group] = []

    def _see_difference(self, view: View) -> None:
        assert set(view.joined) | set(view.stayed) == set(view.members)
        assert not set(view.joined) & set(view.stayed)
        assert not set(view.left) & set(view.stayed)
        parts = [member for component in view.components for member in component]
        assert sorted(parts) == sorted(view.members)
        assert any(set(view.stayed) <= set(part) for part in view.components) or not view.stayed

    def _see_layer(self) -> None:
        groups = self.groups
        directory = groups.directory
        for group in directory.groups.values():
            assert group.entries
        assert directory.counter >= self.counter, "D2"
        self.counter = directory.counter
        for session in self._open():
            assert groups.queue.queued(session) <= groups.sessions.limits.session_bytes_max, "D4"
            stream = self._stream(session)
            member = stream.member
            assert set(stream.views) == directory.groups_of.get(member, set()), "D3"
            for name, view in stream.views.items():
                assert view.members == directory.groups[name].members(), "D3"
                self.facts.count("D3")
        if groups.state is not State.EXCHANGING:
            key = (groups.configuration.conf_id, groups.together, self.slot)
            digest = directory.digest()
            assert self.facts.digests.setdefault(key, digest) == digest, "D1"
            self.facts.count("D1")
