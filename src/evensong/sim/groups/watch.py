"""The promises of the group layer, held against all that sessions are told, as it is told.

D1 directories equal, D2 counter rises, D3 last view equals directory, D4 bytes queued, D5
unfinished messages, D6 packets; G1 and G3 to G8 as docs/simulator.md says them. D7 is judged by the
run, G2 by `Facts`, since it compares streams that are whole. What is not ordered has no place: it
is told where it comes, what is BASIC perhaps a little later. G4 asks nothing of it, and of what is
BASIC G5 only that it does not come behind what was sent later, G8 nothing.
"""

from collections import deque
from typing import Final, final

from evensong.core.effects import Ordered, Sent, Service
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
    BASIC,
    CONTROL,
    FIRST,
    HEADER_SIZE,
    LAST,
    SAFE,
    SELF_DISCARD,
    UNORDERED,
    WHOLE,
    decode_head,
    messages_of,
)
from evensong.core.groups.layer import Groups, State
from evensong.core.groups.packet import PACKET_SIZE
from evensong.core.groups.sessions import NO_SESSION
from evensong.core.ids import ProcessorId, RingId
from evensong.errors import MalformedFrame
from evensong.sim.groups.facts import Facts, Key, MessageId, Place, Span, broken

LOOSE: Final = (Service.CAUSAL, Service.BASIC)
WHOLE_CHECK_EVERY: Final = 50  # steps; in between, only what has changed is looked at
CAUSES: Final = {
    Cause.JOIN: "joins",
    Cause.LEAVE: "leaves",
    Cause.DISCONNECT: "disconnects",
    Cause.NETWORK: "network views",
}


@final
class Stream:
    """What one session has been told."""

    def __init__(self, member: MemberId) -> None:
        self.member: Final = member
        self.name: Final = str(member)
        self.place: Place = (RingId(0, 0), 0, 0)
        self.order: OrderId | None = None
        self.views: Final[dict[str, View]] = {}  # of groups it is in
        self.since: Final[dict[str, ViewId]] = {}  # the views of its joining
        self.heard: Final[dict[str, list[tuple[MessageId, bool]]]] = {}  # since its last view
        self.last_nos: Final[dict[Key, int]] = {}
        self.got: Final[set[MessageId]] = set()
        self.too_late: Final[set[MessageId]] = set()  # what came because of them has come before
        self.since_sent: Final[list[MessageId]] = []  # told since it last sent something


@final
class Watcher:
    """Looks on at one daemon."""

    def __init__(self, node: ProcessorId, groups: Groups, facts: Facts) -> None:
        self.node: Final = node
        self.groups: Final = groups
        self.facts: Final = facts
        self.streams: Final[dict[SessionId, Stream]] = {}
        self.counter = 0
        self.told: Final[list[SessionEvent]] = []
        # Not told or skipped yet, in the order in which the layer is given it; a wish is nobody's.
        # What is not ordered has seq 0.
        self.expected: Final[deque[tuple[OrderId, MessageId | None]]] = deque()
        # What is BASIC and not told yet, with the sessions that were to get it when it came.
        self.basic: Final[dict[MessageId, list[SessionId]]] = {}
        self.slot = 0
        self.is_reduced = False  # the configuration is transitional
        self.begun: Final[dict[Key, int]] = {}  # messages whose FIRST came in this configuration
        self.cut: Final[set[MessageId]] = set()  # those that a change of it left without their end
        self._steps = 0
        self._slot_seen = -1
        self._seen = (-1, -1, -1)  # the layer as it was looked at last
        self._digest = 0
        self._coming_back: SessionId = NO_SESSION  # whose own frame is told next

    # What the layer is given

    def expect(self, message: Ordered) -> None:
        """Note which messages end in a packet that the layer is given."""
        self.slot = message.seq or self.slot
        try:
            (sender, incarnation, _), frames = self.facts.packet(message.payload)
        except MalformedFrame as malformed:
            broken("D6", f"processor {self.node}: delivers no packet: {malformed.reason}")
        sub = 0
        for kind, _, session, first_no, _, places, _, _ in frames:
            key = (sender, incarnation, session)
            if kind == FIRST:
                self.begun[key] = first_no
            elif kind in (WHOLE, LAST):
                self._expect_end(message, key, first_no, sub, places, is_last=kind == LAST)
            elif kind == CONTROL and message.seq:
                self.expected.append((OrderId(message.ring_id, message.seq, sub), None))
            sub += places

    def _expect_end(
        self, message: Ordered, key: Key, first_no: int, sub: int, places: int, *, is_last: bool
    ) -> None:
        if is_last:
            self.begun.pop(key, None)
            if (*key, first_no) in self.cut:
                self.facts.note("fragments across changes")
        for index in range(places):
            name = (*key, first_no + index)
            if message.service is Service.BASIC:
                self.basic[name] = self._recipients(name) if name in self.facts.groups else []
                continue
            order = OrderId(message.ring_id, message.seq, sub + index if message.seq else 0)
            self.expected.append((order, name))

    def installs(self, *, transitional: bool) -> None:
        """Note that the layer is given a configuration."""
        self.slot = 0
        self.cut.update((*key, first_no) for key, first_no in self.begun.items())
        if not transitional:
            self.begun.clear()

    def sends(self, sent: Sent, payload_max: int) -> None:
        """D6: a packet is as long as its frames, in bounds, and of the service of its frames."""
        for service, payload, _ in sent.packets:
            self.facts.count("D6")
            try:
                (node, incarnation, _), frames = self.facts.packet(payload)
            except MalformedFrame as malformed:
                broken("D6", f"processor {self.node}: sends no packet: {malformed.reason}")
            length = PACKET_SIZE + sum(HEADER_SIZE + frame[6] for frame in frames)
            if length != len(payload) or length > payload_max:
                broken("D6", f"processor {self.node}: a packet of {len(payload)}, frames {length}")
            ends = [frame for frame in frames if frame[0] in (WHOLE, LAST)]
            if service is not Service.SAFE and any(frame[1] & SAFE for frame in ends):
                broken("D6", f"processor {self.node}: a safe frame in an agreed packet")
            loose = [bool(frame[1] & UNORDERED) for frame in ends]
            if loose and {*loose} != {service in LOOSE}:
                broken("D6", f"processor {self.node}: a packet of {service} is not all of it")
            for _, _, session, first_no, _, places, _, _ in ends:
                for number in range(first_no, first_no + places):
                    self.facts.sent_in[node, incarnation, session, number] = sent.ring_id

    # What sessions are told

    def see(self, events: list[SessionEvent], *, keep: bool = True) -> None:
        """Check what sessions are told, then what is true of the layer now."""
        self._steps += 1
        if not events and self.slot == self._slot_seen and self._steps % WHOLE_CHECK_EVERY:
            return  # the token came by, or a timer went off
        self._slot_seen = self.slot
        if keep:
            self.told.extend(events)
        for event in events:
            if isinstance(event, Delivered):
                self._see_frame(event)
            elif isinstance(event, ViewChange):
                self._see_view(event)
            elif isinstance(event, Left):
                self._skip_to(event.order)
                del self.streams[event.session].views[event.group]
                del self.streams[event.session].since[event.group]
            elif isinstance(event, Receipt):
                if event.session not in self.groups.sessions.open:
                    self._broken("G3", f"a receipt for session {event.session}, which is closed")
                self._coming_back = event.session if event.comes_back else NO_SESSION
            elif isinstance(event, Reconfigured):
                self.is_reduced = event.transitional
                if not event.transitional:
                    self._skip_to(OrderId(event.conf_id, 0, 0))
        if self.groups.held_packets():
            self.facts.note("held-back packets")
            if self.basic:
                self.facts.note("basic messages that waited")
        else:
            self._skip_to(None)
            self._see_basic()
        self._see_layer()

    def stream(self, session: SessionId) -> Stream:
        """Return what an open session has been told."""
        if session not in self.streams:
            self.streams[session] = Stream(self.groups.sessions.open[session].member)
        return self.streams[session]

    def _open(self) -> list[SessionId]:
        return sorted(self.groups.sessions.open)

    def _recipients(self, message: MessageId) -> list[SessionId]:
        """Who must get a message now, by the views that sessions were shown."""
        groups = self.facts.groups[message]
        found = []
        for session in self._open():
            stream = self.stream(session)
            is_sender = message[:3] == stream.member[:3]
            if is_sender and self.facts.flags[message] & SELF_DISCARD:
                continue
            if any(group in stream.views or group == stream.name for group in groups):
                found.append(session)
        return found

    def _skip_to(self, order: OrderId | None) -> None:
        """Whatever comes before and was not delivered had nobody here to go to (G3)."""
        while self.expected and (order is None or self.expected[0][0] < order):
            self._skip()

    def _skip_before(self, view_id: ViewId) -> None:
        """Do so up to a view: places are counted through a configuration and the one behind it.

        Who goes on alone may deliver in the next one, where they begin again, within the same step.
        """
        while self.expected:
            ring_id, seq, sub = self.expected[0][0]
            if ring_id.seq > view_id.conf_id.seq or (seq, sub) >= (view_id.seq, view_id.sub):
                break
            self._skip()

    def _see_basic(self) -> None:
        """What is BASIC and was not told had nobody to go to, neither when it came nor now (G3)."""
        for message, due in self.basic.items():
            missed = [one for one in due if one in self._recipients(message)]
            if missed:
                self._broken("G3", f"message {message} was not told to sessions {missed}")
        self.basic.clear()

    def _skip_until(self, message: MessageId) -> None:
        """Whatever came before a message that is not ordered had nobody here to go to (G3)."""
        while self.expected and self.expected[0][1] != message:
            self._skip()
        if not self.expected or self.expected.popleft()[0].seq:
            self._broken("G4", f"message {message} is told where it did not come")

    def _skip(self) -> None:
        _, message = self.expected.popleft()
        if message is not None and message in self.facts.groups:
            missed = self._recipients(message)
            if missed:
                self._broken("G3", f"message {message} was not told to sessions {missed}")

    def _see_frame(self, event: Delivered) -> None:
        facts = self.facts
        head = decode_head(event.frame)
        if head.kind != WHOLE or head.length != len(event.frame) - HEADER_SIZE:
            self._broken("G6", f"a frame of kind {head.kind} is no whole")
        sender = event.destination.sender
        groups = event.destination.groups
        mine = [one for one in event.sessions if self.stream(one).member[:3] == sender[:3]]
        if event.own != self._coming_back or mine != [event.own] * bool(event.own):
            self._broken("G3", f"of {sender} to {event.sessions}, told as one of {event.own}")
        self._coming_back = NO_SESSION
        if event.order is not None:
            self._skip_to(event.order)
        for index, body in enumerate(messages_of(event.frame)):
            message = (*sender[:3], head.first_no + index)
            order = event.order and event.order._replace(sub=event.order.sub + index)
            if facts.is_loose(head.flags) != (order is None):
                self._broken("G4", f"message {message} with flags {head.flags} is at {order}")
            if order is None:
                if self.basic.pop(message, None) is None:
                    self._skip_until(message)
                elif not head.flags & BASIC:
                    self._broken("D6", f"{message} came as BASIC")
                facts.note("basic messages" if head.flags & BASIC else "causal messages")
            elif not self.expected or self.expected.popleft() != (order, message):
                self._broken("G4", f"message {message} is not the next at {order}")
            if facts.bodies[message] != body or facts.groups[message] != groups:
                self._broken("G6", f"message {message} is not as it was sent")
            if len(event.frame) > self.groups.queue.uncut_max:
                facts.count("G6")
            known = order and facts.settle_order(message, order)
            if known != order:
                self._broken("G4", f"{message} is at {order} and at {known}")
            if list(event.sessions) != self._recipients(message):
                due = self._recipients(message)
                self._broken("G3", f"{message} goes to {list(event.sessions)}, not to {due}")
            facts.count("G3")
            if len(groups) > 1:
                facts.note("multi-group messages")
            for session in event.sessions:
                self._see_message(self.stream(session), message, order, event)

    def _see_message(
        self, stream: Stream, message: MessageId, order: OrderId | None, event: Delivered
    ) -> None:
        if message in stream.got:
            self._broken("G6", f"{stream.name} gets {message} twice")
        if order is None:
            self._see_loose(stream, message, event)
        else:
            if stream.order is not None and stream.order >= order:
                self._broken("G4", f"{stream.name} gets {message} at {order} after {stream.order}")
            stream.order = order
            self._move(stream, (event.conf_id, order.seq, order.sub))
        last_no = stream.last_nos.get(message[:3], 0)
        if last_no >= message[3]:
            self._broken("G5", f"{stream.name} gets {message} after number {last_no}")
        if last_no:
            self.facts.count("G5")
        if order is None and self.facts.flags[message] & BASIC:
            stream.got.add(message)  # it may come before what was sent before it
        else:
            stream.last_nos[message[:3]] = message[3]
            self._see_causes(stream, message, order)
        discarded = bool(self.facts.flags[message] & SELF_DISCARD)
        for group in event.destination.groups:
            if group in stream.views:
                stream.heard[group].append((message, discarded))
        if event.reduced != self.is_reduced:
            self._broken("G7", f"{message} is told with reduced = {event.reduced}")

    def _see_loose(self, stream: Stream, message: MessageId, event: Delivered) -> None:
        """G7, of what has no place: it comes in no view before the one in which it was sent.

        Whoever parts from its sender may not have been shown that one: then it is `reduced`.
        """
        if event.conf_id < stream.place[0]:
            self._broken("G7", f"{stream.name} is led back to {event.conf_id} by {message}")
        if event.reduced:
            return
        for group in event.destination.groups:
            seen = self.facts.seen.get((message, group))
            view = stream.views.get(group)
            if seen is not None and view is not None:
                self.facts.count("G7")
                if view.view_id < seen:
                    text = f"gets {message} in {view.view_id} of {group}, sent in {seen}"
                    self._broken("G7", f"{stream.name} {text}")

    def _see_causes(self, stream: Stream, message: MessageId, order: OrderId | None) -> None:
        """G8: what its sender had been told before it sent this comes before this."""
        facts = self.facts
        groups = facts.groups[message]
        for cause in facts.causes[message]:
            known = order and facts.order_of(cause, order.ring_id)
            if known is not None and order is not None and known >= order:
                text = f"{message} at {order} was sent after {cause} was told to its sender"
                self._broken("G8", f"{text}, which is at {known}")
            if cause not in stream.got:
                stream.too_late.add(cause)
            elif facts.groups[cause] != groups:
                facts.count("G8")
        if message in stream.too_late:
            self._broken("G8", f"{stream.name} gets {message} after what was sent because of it")
        stream.got.add(message)
        stream.since_sent.append(message)

    def _move(self, stream: Stream, place: Place) -> None:
        if stream.place > place:
            self._broken("G7", f"{stream.name} is led back from {stream.place} to {place}")
        stream.place = place
        self.facts.count("G7")

    def _see_view(self, event: ViewChange) -> None:
        view = event.view
        view_id = view.view_id
        facts = self.facts
        if view_id.seq:
            self._skip_before(view_id)
        if (view.group, view_id) in facts.views:
            facts.count("G1")
        known = facts.views.setdefault((view.group, view_id), view.members)
        if known != view.members:
            self._broken("G1", f"{view} has members {known} elsewhere")
        facts.note(CAUSES[view.cause])
        if len(view.components) > 1:
            facts.note("merges of views")
        self._see_difference(view)
        for session in event.sessions:
            stream = self.stream(session)
            before = stream.views.get(view.group)
            if stream.member not in view.members:
                self._broken("G7", f"{stream.name} is shown {view}, without itself")
            self._move(stream, view_id[:3])
            if before is None:
                if view.subject != stream.member or view.cause is not Cause.JOIN:
                    self._broken("G7", f"the first view of {stream.name} is not its own: {view}")
                stream.since[view.group] = view_id
            else:
                if before.view_id >= view_id:
                    self._broken("G7", f"{stream.name} is shown {view} after {before}")
                span = (view.group, before.view_id, view_id)
                heard = tuple(stream.heard[view.group])
                facts.spans.setdefault(span, []).append(Span(view, stream.member, heard))
            stream.views[view.group] = view
            stream.heard[view.group] = []

    def _see_difference(self, view: View) -> None:
        """A view says rightly who came, who went and who came with whom."""
        joined, left, stayed = set(view.joined), set(view.left), set(view.stayed)
        parts = [member for component in view.components for member in component]
        is_right = (
            joined | stayed == set(view.members)
            and not joined & stayed
            and not left & stayed
            and sorted(parts) == sorted(view.members)
            and (not stayed or any(stayed <= set(part) for part in view.components))
        )
        if not is_right:
            self._broken("G1", f"{view} contradicts itself: {joined=} {left=} {stayed=} {parts=}")

    # What is true of the layer

    def _see_layer(self) -> None:
        groups = self.groups
        directory = groups.directory
        is_due = self._steps % WHOLE_CHECK_EVERY == 0
        seen = (directory.version, directory.counter, len(self.streams))
        if seen != self._seen or is_due:
            if directory.counter < self.counter:
                self._broken("D2", f"the counter of views fell to {directory.counter}")
            if 0 < self.counter < directory.counter:
                self.facts.count("D2")
            self.counter = directory.counter
            self._digest = directory.digest()
            self._see_sessions()
            self._seen = (directory.version, directory.counter, len(self.streams))
        self._see_unfinished()
        if groups.state is not State.EXCHANGING:
            key = (groups.configuration.conf_id, groups.together, self.slot)
            known = self.facts.digests.get(key)
            if known is None:
                self.facts.digests[key] = self._digest
                return
            self.facts.count("D1")
            if known != self._digest:
                self._broken("D1", f"another has a different directory at {key}")

    def _see_sessions(self) -> None:
        groups = self.groups
        directory = groups.directory
        for name, group in directory.groups.items():
            if not group.entries:
                self._broken("D3", f"group {name} is kept without members")
        for session in self._open():
            queued = groups.queue.queued(session)
            if queued > groups.sessions.limits.session_bytes_max:
                self._broken("D4", f"session {session} has {queued} bytes queued")
            if queued:
                self.facts.count("D4")
            stream = self.stream(session)
            if set(stream.views) != directory.groups_of.get(stream.member, set()):
                self._broken("D3", f"{stream.name} was shown {sorted(stream.views)}")
            for name, view in stream.views.items():
                if view.members != directory.groups[name].members():
                    self._broken("D3", f"{stream.name} was last shown {view}")
                if groups.state is State.REGULAR and view.primary != groups.primary:
                    self._broken("D3", f"{stream.name} takes itself for {view.primary=}")
                self.facts.count("D3")

    def _see_unfinished(self) -> None:
        """D5: an unfinished message has its beginning in this configuration."""
        for key, unfinished in self.groups.assembly.unfinished.items():
            self.facts.count("D5")
            if self.begun.get(key) != unfinished.first_no:
                self._broken("D5", f"message {unfinished.first_no} of {key} is kept unfinished")

    def _broken(self, promise: str, text: str) -> None:
        broken(promise, f"processor {self.node}: {text}")
