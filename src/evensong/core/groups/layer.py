"""The group layer of one daemon: session calls and an engine's deliveries in, session events out.

Everything here is a function of the delivered order and of configurations, so daemons that have
gone together are equal at every place of it [TPG].

How directories stay equal. `together` is the daemons that have gone with this one, through every
transitional configuration, since the directory was last known to be equal in a whole regular one.
All of them compute the same set. If a regular configuration has nobody else, nothing need be said.
Else its components are such sets, and the lowest of each tells its directory (exchange.py);
whatever is delivered meanwhile is held back. When all components have been heard, which everybody
finds at the same place of the order, directories are merged, each changed group is shown once, and
the held packets follow. If the configuration ends first, what was heard is forgotten, and the held
packets are delivered in the transitional configuration that ends it, to the groups as this
component knows them: joins and leaves of other components' members mean nothing to it there.

What is not ordered has no place: see unordered.py. A directory is restricted to `together` when a
transitional configuration is installed, and its groups that lose members are shown at once, as
transitional views. The regular one then shows every group that has changed, and none twice.

| event              | REGULAR          | EXCHANGING                        | TRANSITIONAL         |
| ------------------ | ---------------- | --------------------------------- | -------------------- |
| frame with messages| deliver          | hold                              | deliver, reduced     |
| BASIC, as of later | hold             | hold                              | deliver, reduced     |
| join, leave, gone  | apply, show      | hold                              | if together: as left |
| set                | keep             | hold                              | keep                 |
| state              | ignore           | take; all heard: merge, show,     | ignore               |
|                    |                  | release → REGULAR                 |                      |
| transitional conf. | restrict, show   | forget states, restrict, show,    | –                    |
|                    | → TRANSITIONAL   | → TRANSITIONAL, release           |                      |
| regular conf.,     | –                | –                                 | show changed         |
| nobody else        |                  |                                   | → REGULAR            |
| regular conf.,     | –                | –                                 | lowest tells its     |
| others too         |                  |                                   | state → EXCHANGING   |
| safe line          | tell             | hold the latest                   | tell                 |

A dash cannot happen: configurations alternate. A daemon begins as if in a transitional one, alone.

`primary` is static: the daemons of the configuration are a majority of the electorate that was
configured; docs/protocols/groups.md says what it would take to go by the last primary one.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias, assert_never, final

from evensong.core.effects import Deliver, SafeLine
from evensong.core.groups.assembly import Assembly, whole_frame
from evensong.core.groups.control import (
    GONE,
    JOIN,
    AsOf,
    SetPart,
    StatePart,
    Wish,
    control_frame,
    decode_control,
    encode_state,
    is_state,
)
from evensong.core.groups.directory import Directory, Group
from evensong.core.groups.events import (
    Cause,
    Delivered,
    Error,
    ErrorCode,
    Left,
    MemberId,
    OrderId,
    Receipt,
    Reconfigured,
    SafeUpTo,
    SessionEvent,
    SessionId,
    ViewChange,
)
from evensong.core.groups.exchange import Exchange, encode_component
from evensong.core.groups.frame import CONTROL, HEADER_SIZE, LAST, MIDDLE, SELF_DISCARD, WHOLE
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import (
    ALONE_SIZE,
    FOREIGN,
    KIND_AT,
    PACKET_SIZE,
    VERSION_AT,
    FrameAt,
    alike,
    decode_packet,
    frame_in,
    lone_middle,
    lone_whole,
)
from evensong.core.groups.routes import Route, Routes
from evensong.core.groups.sendqueue import SendQueue
from evensong.core.groups.sessions import NO_SESSION, Sessions
from evensong.core.groups.unordered import is_basic, read_basic
from evensong.core.groups.views import Change, has_majority, is_changed, make_view
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.errors import MalformedFrame

ONLY_FOREIGN: Final = frozenset(FOREIGN)
A_MIDDLE: Final = bytes((MIDDLE,))
Placed: TypeAlias = tuple[ProcessorId, RingId, int, bytes]  # sender, ring, seq, payload
EARLY_MAX: Final = 2**14  # BASIC packets that may wait; no window is so large


class State(Enum):
    """How this daemon's directory stands to the others'."""

    REGULAR = "equal to that of every daemon of the regular configuration"
    EXCHANGING = "not yet: components of the regular configuration tell theirs"
    TRANSITIONAL = "equal to that of the daemons that have gone together"


@final
class Groups:
    """Process groups at one daemon.

    Below is an engine, from which deliveries come in one order, and which pulls packets from
    `queue`. Above are sessions, one for each connected process. Whoever drives it calls `drain`
    after each call and hands the events on, in order; a call that leaves `queue.backlog()` above
    zero should be followed by the engine's `submit`. core/node.py does all this.
    """

    __slots__ = (
        "_early",
        "_events",
        "_exchange",
        "_held",
        "_incarnation",
        "_my_id",
        "_safe_line",
        "assembly",
        "conf_id",
        "configuration",
        "directory",
        "drops",
        "electorate",
        "exchanged",
        "primary",
        "queue",
        "routes",
        "sessions",
        "state",
        "together",
    )

    def __init__(
        self,
        my_id: ProcessorId,
        incarnation: int,
        limits: Limits,
        electorate: tuple[ProcessorId, ...],
        *,
        has_unordered: bool = False,
    ) -> None:
        limits.check()
        self._my_id: Final = my_id
        self._incarnation: Final = incarnation
        self._events: Final[list[SessionEvent]] = []
        self.electorate = electorate
        self.directory: Final = Directory()
        self.queue: Final = SendQueue(
            my_id, incarnation, limits, self._events, self.directory, has_unordered=has_unordered
        )
        self.sessions: Final = Sessions(
            my_id, incarnation, limits, self.queue, self.directory, self._events
        )
        self.routes: Final = Routes(self.directory, self.sessions)
        self.assembly: Final = Assembly()
        self.configuration = Configuration(
            NO_RING, NO_RING, (my_id,), transitional=True, cause="start"
        )
        self.conf_id = NO_RING  # as views and deliveries name the configuration
        self.state = State.TRANSITIONAL
        self.primary = False
        self.together: tuple[ProcessorId, ...] = (my_id,)  # ascending
        self._exchange = Exchange(self.configuration, self.together)
        self._held: list[Placed] = []  # Invariant: empty unless EXCHANGING
        self._early: list[Placed] = []  # Invariant: empty unless REGULAR; all BASIC
        self._safe_line: SafeLine | None = None  # the latest that is held back
        self.drops: Final[dict[str, int]] = {}  # what had no effect, by reason
        self.exchanged: Final[dict[ProcessorId, int]] = {}  # packets of daemons' own, by sender

    # -- sessions ----------------------------------------------------------------------------

    def open_session(self, user: str, request_id: int = 0) -> SessionId:
        """Open a session; `Welcome` follows, or `Error` and NO_SESSION."""
        return self.sessions.open_session(user, request_id)

    def close_session(self, session: SessionId) -> None:
        """End a session: `Closed` follows when the last of what it has sent was pulled."""
        self.sessions.close_session(session)

    def join(self, session: SessionId, group: str, request_id: int = 0) -> None:
        """Ask to be a member; a `ViewChange` with the session in it follows, or `Error`."""
        self.sessions.join(session, group, request_id)

    def leave(self, session: SessionId, group: str, request_id: int = 0) -> None:
        """Ask to be no member any more; `Left` follows, or `Error`."""
        self.sessions.leave(session, group, request_id)

    def define_set(
        self, session: SessionId, set_no: int, groups: Sequence[str], request_id: int = 0
    ) -> None:
        """Name a destination, of 1 to 64 groups and private names, by a number up to 1023."""
        self.sessions.define_set(session, set_no, groups, request_id)

    def send(self, session: SessionId, frame: bytes, request_id: int = 0) -> None:
        """Send a frame of kind WHOLE; `Receipt` follows when it is delivered here, or `Error`."""
        self.sessions.send(session, frame, request_id)

    # -- what comes from the engine ----------------------------------------------------------

    def on_install(self, configuration: Configuration) -> None:
        """Take in a transitional or a regular configuration."""
        self.configuration = configuration
        self.conf_id = configuration.conf_id
        self.primary = has_majority(configuration.members, self.electorate)
        self._events.append(
            Reconfigured(
                configuration.conf_id,
                configuration.members,
                primary=self.primary,
                transitional=configuration.transitional,
            )
        )
        if configuration.transitional:
            self.enter_transitional()
            return
        assert self.state is State.TRANSITIONAL
        # Whoever is new has seen neither earlier pieces nor announcements: all senders begin again.
        self.assembly.clear()
        self.routes.clear()
        self.queue.restart()
        if self.together == configuration.members:
            self.enter_regular()
        else:
            self.enter_exchanging()

    def on_deliver(self, deliver: Deliver) -> None:
        """Take in packets, in order."""
        for part in deliver.parts:
            sender_id, ring_id, first_seq = part.sender_id, part.ring_id, part.first_seq
            if first_seq == part.last_seq and self.state is not State.EXCHANGING:
                payload, at, end = part.where(first_seq)
                if not payload.startswith(FOREIGN, at + VERSION_AT, end):
                    self._take(sender_id, ring_id, first_seq, payload, at, end)
                continue
            if part.bytes_at(VERSION_AT) == ONLY_FOREIGN:
                continue
            payloads = part.payloads()
            at = 0
            while at < len(payloads):
                payload = payloads[at]
                if payload.startswith(FOREIGN, VERSION_AT):
                    at += 1
                elif self.state is State.EXCHANGING:
                    self._hold((sender_id, ring_id, first_seq + at, payload))
                    at += 1
                elif payload[KIND_AT : KIND_AT + 1] == A_MIDDLE:
                    at = self._take_middles(sender_id, ring_id, first_seq, payloads, at)
                else:
                    self._take(sender_id, ring_id, first_seq + at, payload)
                    at += 1

    def on_safe_line(self, line: SafeLine) -> None:
        """Take in that everybody has the ring's messages up to some seq."""
        if self.state is State.EXCHANGING:
            self._safe_line = line  # its messages have not been shown yet
        else:
            self._events.append(SafeUpTo(line.ring_id, line.seq))

    # -- states ------------------------------------------------------------------------------

    def enter_transitional(self) -> None:
        """Go on with those who go on with us; deliver to them what was held back."""
        assert self.state is not State.TRANSITIONAL
        self.state = State.TRANSITIONAL
        while self._early:  # what is safe all deliver, and so whatever an honest one waits for
            self._early.pop()
            self._drop("basic: as of a change that never came")
        members = self.configuration.members
        self.together = tuple([one for one in self.together if one in members])
        # Two components whose exchange was cut short may go on together: their views differ, so the
        # lowest of mine stands in the name for the lowest of all. The rest of the name stays, for
        # an engine may need more than a lowest member to tell configurations apart: 1. Four agree
        # to go on. 2. The last of them sees that all have, and does. 3. The others have given it
        # up by then and go on without it: by the same number, with the same lowest member.
        seq, rep = self.conf_id
        self.conf_id = RingId(seq, rep ^ members[0] ^ self.together[0])
        lost = self.directory.restrict(self.together)
        change = self._network_change()
        for name in lost:
            group = self.directory.groups.get(name)
            if group is not None:
                self._show(name, group, change, self.together)
        self._release()

    def enter_regular(self) -> None:
        """Nobody else came: the directory is everybody's as it is."""
        self.state = State.REGULAR
        self._show_changed(self._network_change(), self.together)

    def enter_exchanging(self) -> None:
        """Others came: tell them what we know, ahead of all else, and wait for what they know."""
        self.state = State.EXCHANGING
        self._exchange = Exchange(self.configuration, self.together)
        if self._my_id == self.together[0]:
            state = encode_component(self.together, self.directory.counter, self.directory.states())
            contents = encode_state(state, self.queue.uncut_max - HEADER_SIZE)
            self.queue.put_first([control_frame(0, content) for content in contents])

    def _merge(self) -> None:
        """All components have been heard: show what the groups have become, and go on."""
        exchange = self._exchange
        together = self.together
        self.state = State.REGULAR
        self.together = self.configuration.members
        self.directory.merge(exchange.counter(), exchange.groups())
        change = self._network_change()
        change.component_of = {one: exchange.component_of(one) for one in self.together}
        self._show_changed(change, together)
        self._release()

    def _release(self) -> None:
        """Deliver what was held back."""
        held, self._held = self._held, []
        for packet in held:
            self._take(*packet)
        line, self._safe_line = self._safe_line, None
        if line is not None:
            self._events.append(SafeUpTo(line.ring_id, line.seq))

    # -- packets -----------------------------------------------------------------------------

    def _hold(self, packet: Placed) -> None:
        """Keep a packet until directories are equal; only states are looked for in it."""
        self._held.append(packet)
        sender_id, _, seq, payload = packet
        try:
            _, frames = decode_packet(payload)
        except MalformedFrame:
            return  # it will be counted when it is released
        for kind, _, _, _, _, _, length, at in frames:
            if kind == CONTROL and seq and is_state(payload, at, length):
                self._exchange.hear(sender_id, payload[at : at + length])
        if seq and self._exchange.is_complete():
            self._merge()

    def _take_middles(
        self,
        sender_id: ProcessorId,
        ring_id: RingId,
        first_seq: int,
        payloads: Sequence[bytes],
        at: int,
    ) -> int:
        """Take pieces of one frame that follow each other, together; return where they end."""
        piece = lone_middle(payloads[at])
        if piece is None or piece[0] != sender_id:
            self._take(sender_id, ring_id, first_seq + at, payloads[at])
            return at + 1
        end = alike(payloads, at)
        chunks = [memoryview(payload)[ALONE_SIZE:] for payload in payloads[at:end]]
        self.assembly.add_middles(piece[:3], piece[3], chunks)
        return end

    def _take(
        self,
        sender_id: ProcessorId,
        ring_id: RingId,
        seq: int,
        payload: bytes,
        begin: int = 0,
        end: int = -1,
    ) -> None:
        """Take a packet apart, frame by frame: headers only. It may be a part of what it is in."""
        lone = lone_whole(payload, begin, end) if seq else None
        if lone is not None and lone[0] == sender_id:
            _, flags, session, first_no, group_set, places, stop = lone
            frame = frame_in(payload, begin + PACKET_SIZE, stop)
            route = self.routes.find(sender_id, session, group_set)
            order = OrderId(ring_id, seq, 0)
            self._deliver(sender_id, session, route, flags, first_no, places, order, frame)
            return  # it is no change that others may be as of
        try:
            (sender, incarnation, _), frames = decode_packet(payload, begin, end)
            if sender != sender_id:
                raise MalformedFrame("packet: of another sender")
        except MalformedFrame as malformed:
            self._drop(malformed.reason)
            return
        if not seq and is_basic(payload, frames[0]):
            assert not begin  # what has no place comes by itself
            self._take_basic((sender_id, ring_id, seq, payload), incarnation, frames)
            return
        sub = own = 0
        for kind, flags, session, first_no, group_set, places, length, at in frames:
            place = OrderId(ring_id, seq, sub) if seq else None
            origin = (sender, incarnation, session)
            if kind == WHOLE:
                frame = frame_in(payload, at - HEADER_SIZE, at + length)
                route = self.routes.find(sender, session, group_set)
                self._deliver(sender, session, route, flags, first_no, places, place, frame)
            elif kind == CONTROL:
                own += not session
                self._on_control(origin, group_set, payload[at : at + length], place)
            else:
                content = memoryview(payload)[at : at + length]
                chunks = self.assembly.add(origin, kind, first_no, content)
                if chunks is not None:
                    assert kind == LAST
                    frame = whole_frame(flags, session, first_no, group_set, places, chunks)
                    route = self.routes.find(sender, session, group_set)
                    if places > 1 and 2 * places > len(frame) - HEADER_SIZE:
                        self._drop("frame: places")
                    else:
                        self._deliver(sender, session, route, flags, first_no, places, place, frame)
            sub += places
        if own and own == len(frames):
            self.exchanged[sender] = self.exchanged.get(sender, 0) + 1
        if self._early and seq:  # it may be the change that they are as of
            early, self._early = self._early, []
            for packet in early:
                self._take(*packet)

    def _take_basic(self, packet: Placed, incarnation: int, frames: Sequence[FrameAt]) -> None:
        """Take a packet that may have overtaken others, unless it is of later than now."""
        sender, _, _, payload = packet
        try:
            as_of, found = read_basic(sender, incarnation, payload, frames)
        except MalformedFrame as malformed:
            self._drop(malformed.reason)
            return
        if self.state is State.REGULAR and as_of > self.directory.counter:
            self._early.append(packet)
            if len(self._early) > EARLY_MAX:
                self._early.pop()
                self._drop("basic: too early")
            return
        for member, names, flags, first_no, places, frame in found:
            route = self.routes.bring(member, names)
            self._deliver(sender, member.session, route, flags, first_no, places, None, frame)

    def _deliver(
        self,
        sender: ProcessorId,
        session: SessionId,
        route: Route | None,
        flags: int,
        first_no: int,
        places: int,
        order: OrderId | None,
        frame: bytes | memoryview,
    ) -> None:
        """Hand a frame to whoever is a member here, at this place of the order."""
        if route is None:
            self._drop("frame: to a set that was not announced")
            return
        if route.version != self.directory.version:
            self.routes.refresh(route)
        recipients = route.recipients
        is_mine = sender == self._my_id
        if is_mine and flags & SELF_DISCARD:
            recipients = tuple([one for one in recipients if one != session])
        own = session if is_mine and session in recipients else NO_SESSION
        if is_mine and session in self.sessions.open:
            self._events.append(Receipt(session, first_no, places, order, own != NO_SESSION))
        if recipients:
            to, reduced = route.destination, self.state is State.TRANSITIONAL
            delivered = Delivered(recipients, to, order, frame, self.conf_id, reduced, own)
            self._events.append(delivered)

    # -- control messages --------------------------------------------------------------------

    def _on_control(
        self,
        origin: tuple[ProcessorId, int, int],
        group_set: int,
        content: bytes,
        order: OrderId | None,
    ) -> None:
        try:
            control = decode_control(content)
        except MalformedFrame as malformed:
            self._drop(malformed.reason)
            return
        if isinstance(control, SetPart):
            member = MemberId(*origin, control.user)
            if not self.routes.announce(member, group_set, control):
                self._drop("set: cannot be")
        elif isinstance(control, Wish):
            if order is None:
                self._drop("wish: without a place")
            elif origin[0] in self.together:
                self._on_wish(MemberId(*origin, control.user), control, order)
        elif isinstance(control, StatePart):
            pass  # it has been taken in while its packet was held, or came too late
        elif isinstance(control, AsOf):
            self._drop("as of: not at the head of a packet without a place")
        else:
            assert_never(control)

    def _on_wish(self, member: MemberId, wish: Wish, order: OrderId) -> None:
        if wish.op == JOIN:
            self._on_join(member, wish, order)
        elif wish.op == GONE:
            self.routes.forget(member)
            for name in self.directory.names_of(member):
                group = self.directory.leave(name, member)
                assert group is not None
                self._show_departure(name, group, Cause.DISCONNECT, member, order)
        else:
            self._on_leave(member, wish, order)

    def _on_join(self, member: MemberId, wish: Wish, order: OrderId) -> None:
        is_here = self.sessions.is_here(member)
        if is_here:
            self.sessions.open[member.session].joins_under_way -= 1
            self.sessions.open[member.session].wishes_under_way -= 1
        group = self.directory.join(wish.group, member, order)
        if group is not None:
            change = self._change(Cause.JOIN, member, order)
            self._show(wish.group, group, change, self.together)
        elif is_here:
            self._events.append(Error(member.session, ErrorCode.ALREADY_MEMBER, wish.request_id))

    def _on_leave(self, member: MemberId, wish: Wish, order: OrderId) -> None:
        group = self.directory.leave(wish.group, member)
        is_here = self.sessions.is_here(member)
        if is_here:
            self.sessions.open[member.session].wishes_under_way -= 1
        if group is not None:
            if is_here:
                self._events.append(Left(member.session, wish.group, order, wish.request_id))
            self._show_departure(wish.group, group, Cause.LEAVE, member, order)
        elif is_here:
            self._events.append(Error(member.session, ErrorCode.NOT_MEMBER, wish.request_id))

    # -- views -------------------------------------------------------------------------------

    def _show_departure(
        self, name: str, group: Group, cause: Cause, member: MemberId, order: OrderId
    ) -> None:
        if group.entries:
            self._show(name, group, self._change(cause, member, order), self.together)

    def _change(self, cause: Cause, subject: MemberId, order: OrderId) -> Change:
        self.directory.counter += 1
        return Change(
            self.conf_id,
            cause,
            self.directory.counter,
            primary=self.primary,
            transitional=self.state is State.TRANSITIONAL,
            seq=order.seq,
            sub=order.sub,
            subject=subject,
        )

    def _network_change(self) -> Change:
        """All groups that a change of the network concerns are shown under one number."""
        self.directory.counter += 1
        return Change(
            self.conf_id,
            Cause.NETWORK,
            self.directory.counter,
            primary=self.primary,
            transitional=self.state is State.TRANSITIONAL,
        )

    def _show_changed(self, change: Change, together: tuple[ProcessorId, ...]) -> None:
        """Show, in a regular configuration, each group that is not as its last regular view."""
        for name in sorted(self.directory.groups):
            group = self.directory.groups[name]
            if is_changed(group, primary=self.primary):
                self._show(name, group, change, together)

    def _show(
        self, name: str, group: Group, change: Change, together: tuple[ProcessorId, ...]
    ) -> None:
        view = make_view(name, group, change, together)
        sessions = tuple([one.session for one in view.members if self.sessions.is_here(one)])
        if sessions:
            self._events.append(ViewChange(sessions, view))

    # -- what comes out ----------------------------------------------------------------------

    def drain(self) -> list[SessionEvent]:
        """Return the session events since the last drain, in order."""
        events = self._events[:]
        self._events.clear()
        return events

    def held_packets(self) -> int:
        """How many packets are held back."""
        return len(self._held) + len(self._early)

    def _drop(self, reason: str) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + 1
