"""One connection to a daemon, without the connection: bytes in, bytes out, and what they mean.

Whoever drives it feeds what was read, writes what `take_parts` returns after every call, and says
when the connection is `lost`. Nothing here waits: calls return answers that are to come, streams
that fill, flights that end. So one dialogue serves programs with asyncio, programs without, and
tests.

What is sent in one go is written in one go. Messages that follow each other, to one destination and
of one service, share a frame until it is full or is asked for.

What is sent is kept until it has been heard: of a frame that comes back to its sender the daemon
tells the place only, and its messages are made of what was sent.

The window: at most `SEND_WINDOW` bytes are under way, handed over and not yet ordered; beyond
that, or when the daemon asks for a pause, `can_send` is false, and whoever honours it waits for
room.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from evensong.client.flights import Answer, Flight, Wakes
from evensong.client.message import Delivery
from evensong.client.outgoing import OpenFrame, Sent
from evensong.client.packing import take_out
from evensong.client.refusals import REASONS, refusal, words_of
from evensong.client.replica import NOTES, Policy, Replica, Replication, notes_of
from evensong.client.rules import GROUP_RULE, check_destination, may_be_group, several
from evensong.client.safety import Safety
from evensong.client.streams import Parcel, Stream, Streams
from evensong.core.groups.events import (
    Destination,
    ErrorCode,
    MemberId,
    Reconfigured,
    View,
)
from evensong.core.groups.frame import COUNT_MAX, HEADER_SIZE, SAFE, TABLED_MAX, encode_whole
from evensong.core.groups.limits import SETS_MAX
from evensong.core.groups.transfer import CHUNK_BYTES
from evensong.errors import (
    AlreadyMember,
    BadName,
    ConnectionClosed,
    ConnectionLost,
    EvensongError,
    MalformedFrame,
    NotMember,
    TooLarge,
)
from evensong.ipc import frames, wire
from evensong.ipc.splitter import HEAD_SIZE, Splitter

SEND_WINDOW: Final = 2**20  # bytes
NOTE_WINDOW: Final = 2**18  # beyond it notes wait: messages should not wait long behind a snapshot
NOTE_ROOM: Final = 64  # bytes of a note that are not snapshot
SENDING: Final = 2**31  # request ids of frames have this bit, those of other requests have not

Listing: TypeAlias = dict[str, tuple[MemberId, ...]]


class _Joining(NamedTuple):
    request_id: int
    answer: Answer[Stream]
    withdrawn: bool
    replica: Replica | None
    policy: Policy


class _Route(NamedTuple):
    """Where what comes for a destination goes."""

    destination: Destination
    names: tuple[str, ...]
    is_note: bool


@final
class Dialogue:
    """What one program says to its daemon, and hears from it."""

    __slots__ = (
        "_asked",
        "_consumed",
        "_flights",
        "_goodbye",
        "_is_over",
        "_joining",
        "_leaving",
        "_listing",
        "_next_no",
        "_next_set",
        "_open_frame",
        "_output",
        "_replications",
        "_request_id",
        "_returning",
        "_routes",
        "_sent",
        "_sets",
        "_slow_left",
        "_splitter",
        "_unread",
        "_window",
        "ended",
        "frame_max",
        "in_flight",
        "is_slow",
        "is_throttled",
        "member",
        "message_max",
        "room",
        "safety",
        "streams",
        "welcome",
    )

    def __init__(self, user: str) -> None:
        self._output: Final[list[bytes]] = []
        self._splitter: Final = Splitter(wire.told_max(0))
        self._request_id = 1
        self._asked: Final[dict[int, Callable[[EvensongError], None]]] = {}
        self._joining: Final[dict[str, _Joining]] = {}
        self._leaving: Final[dict[str, Answer[None]]] = {}
        self._returning: Final[dict[str, _Joining]] = {}  # wait until the group is left
        self._listing: Final[dict[int, tuple[Answer[Listing], Listing]]] = {}
        self._replications: Final[dict[str, Replication]] = {}
        self._flights: Final[dict[int, Flight]] = {}  # by number of the first message
        self._open_frame: OpenFrame | None = None
        self._sent: Final = Sent()
        self._sets: Final[dict[tuple[str, ...], int]] = {}
        self._next_set = 0
        self._next_no = 1
        self._routes: Final[dict[int, _Route]] = {}
        self._consumed = 0  # bytes that the daemon was not told of
        self._window = 0
        self._unread = 0  # bytes that were told and are not consumed
        self._slow_left = 0  # bytes to consume until the daemon's warning is void
        self._goodbye: Answer[None] | None = None
        self._is_over = False  # nothing more will be heard
        self.member = MemberId(0, 0, 0, user)
        self.frame_max = 0
        self.message_max = 0
        self.in_flight = 0  # bytes handed over and not yet ordered
        self.is_throttled = False
        self.is_slow = False  # the daemon has warned, and what waited then is not consumed yet
        self.ended: EvensongError | None = None  # why nothing can be asked any more
        self.room: Final = Wakes()  # called when there may be room for another message
        self.safety: Final = Safety()
        self.streams: Final = Streams(self._consume)
        self.welcome: Final[Answer[None]] = Answer()
        self._asked[1] = self.welcome.fail
        self._output.append(wire.encode_hello(1, user))

    # -- what the program asks ---------------------------------------------------------------

    def join(self, group: str, replica: Replica | None, policy: Policy) -> Answer[Stream]:
        """Ask to be a member; the answer is the group's stream, which begins with its view."""
        self._check_open()
        if not may_be_group(group):
            raise BadName(f"a group cannot be called {group!r}: {GROUP_RULE}")
        is_leaving = group in self._leaving
        is_inside = group in self.streams.groups or group in self._joining
        if group in self._returning or (is_inside and not is_leaving):
            raise AlreadyMember(f"{group}: {REASONS[ErrorCode.ALREADY_MEMBER]}")
        answer: Answer[Stream] = Answer()

        def refuse(error: EvensongError) -> None:
            waiting = self._joining if group in self._joining else self._returning
            del waiting[group]
            answer.fail(error)

        self._returning[group] = _Joining(self._ask(refuse), answer, False, replica, policy)
        if not is_leaving:
            self._on_outside(group)
        return answer

    def withdraw(self, group: str) -> None:
        """Undo a joining whose answer nobody waits for any more."""
        returning = self._returning.pop(group, None)
        joining = self._joining.get(group)
        if returning is not None:
            self._asked.pop(returning.request_id, None)
        elif self.ended is None and (joining is not None or group in self.streams.groups):
            if joining is not None:
                self._joining[group] = joining._replace(withdrawn=True, replica=None)
            else:
                self.streams.abandon(self.streams.groups[group])
            self._leave(group, Answer())

    def leave(self, group: str) -> Answer[None]:
        """Ask to be no member any more; the group's stream ends before the answer comes."""
        self._check_open()
        if group not in self.streams.groups or group in self._leaving:
            raise NotMember(f"{group}: {REASONS[ErrorCode.NOT_MEMBER]}")
        return self._leave(group, Answer())

    def _leave(self, group: str, answer: Answer[None]) -> Answer[None]:
        def refuse(error: EvensongError) -> None:
            answer.fail(error)
            self._on_outside(group)

        self._leaving[group] = answer
        self._say(wire.encode_leave(self._ask(refuse), group))
        return answer

    def _on_outside(self, group: str) -> None:
        """Let whoever waits for the group to be left join it now."""
        self._leaving.pop(group, None)
        if self.ended is None and group in self._returning:
            joining = self._joining[group] = self._returning.pop(group)
            self._say(wire.encode_join(joining.request_id, group))

    def list_groups(self) -> Answer[Listing]:
        """Ask which groups there are, and who is in them."""
        self._check_open()
        answer: Answer[Listing] = Answer()
        request_id = self._ask(answer.fail)
        self._listing[request_id] = (answer, {})
        self._say(wire.encode_groups(request_id))
        return answer

    def bye(self) -> Answer[None]:
        """Say goodbye, once; what was sent before goes out. Nothing can be asked after it."""
        if self._goodbye is None:
            self._check_open()
            self.ended = ConnectionClosed("the connection was closed by this program")
            self._goodbye = Answer()
            self.streams.let_go()  # else what was not read could hold the answer up
            self._close_frame()
            self._output.append(wire.encode_bye())
        return self._goodbye

    def _ask(self, refuse: Callable[[EvensongError], None]) -> int:
        self._request_id = self._request_id % (SENDING - 1) + 1
        self._asked[self._request_id] = refuse
        return self._request_id

    def _say(self, encoded: bytes) -> None:
        """Put out a request, behind the messages that were sent before it."""
        self._close_frame()
        self._output.append(encoded)

    def _check_open(self) -> None:
        if self.ended is not None:
            raise self.ended.with_traceback(None)  # else it grows with every call
        assert self.frame_max, "the daemon has not welcomed us yet"

    # -- messages out ------------------------------------------------------------------------

    def can_send(self) -> bool:
        """Whether there is room for another message; true also if sending would raise."""
        return self.ended is not None or (self.in_flight < SEND_WINDOW and not self.is_throttled)

    def destination(self, to: str | Sequence[str]) -> int:
        """Return the number of a destination, which the daemon is told if it does not know it."""
        names = (to,) if isinstance(to, str) else several(to)
        known = self._sets.get(names)
        if known is not None:
            return known
        check_destination(to, names)
        return self._define(names)

    def _define(self, names: tuple[str, ...]) -> int:
        set_no = self._next_set
        self._next_set = (set_no + 1) % SETS_MAX
        for old, number in list(self._sets.items())[:1]:
            if number == set_no:  # the oldest makes room
                del self._sets[old]
        self._sets[names] = set_no
        self._say(wire.encode_set(0, set_no, names))
        return set_no

    def check_size(self, size: int) -> None:
        """Refuse a message that the daemon would not take."""
        if size > self.message_max:
            raise TooLarge(size, self.message_max)

    def send(self, to: str | Sequence[str], payload: bytes, flags: int) -> tuple[Flight, int]:
        """Send a message; return its frame, and which of the frame's messages it is."""
        frame = self._open_frame
        size = len(payload)
        if (
            frame is None
            or frame.to != to
            or frame.flags != flags
            or frame.left < size + 2
            or size > self.message_max
        ):
            frame = self._begin_frame(to, size, flags)
        flight = frame.flight
        index = flight.count
        frame.messages.append(payload)
        frame.left -= size + 2
        flight.count += 1
        flight.size += size + 2
        self.in_flight += size + 2
        self._next_no += 1
        return flight, index

    def _begin_frame(self, to: str | Sequence[str], size: int, flags: int) -> OpenFrame:
        """Open a frame for a message of this size and those that follow it."""
        self._check_open()
        self.check_size(size)
        set_no = self.destination(to)
        self._close_frame()
        left = min(self.frame_max, TABLED_MAX) - HEADER_SIZE
        flight = self._take_off(0, HEADER_SIZE, flags)
        self._open_frame = OpenFrame(flight, to, set_no, flags, left)
        return self._open_frame

    def send_frame(self, set_no: int, payloads: Sequence[bytes], flags: int) -> Flight:
        """Send several messages that fit into one frame, or one that is alone in its.

        The sequence is kept: whoever hands it over changes it no more.
        """
        self._check_open()
        self._close_frame()
        count = len(payloads)
        assert 0 < count <= COUNT_MAX
        first_no = self._next_no
        frame = encode_whole(self.member.session, first_no, set_no, flags, payloads)
        flight = self._take_off(count, len(frame), flags)
        self._next_no += count
        self._put_out(first_no, frame, payloads)
        return flight

    def _take_off(self, count: int, size: int, flags: int) -> Flight:
        first_no = self._next_no
        flight = Flight(self.member, first_no, count, size, is_safe=bool(flags & SAFE))
        self._flights[first_no] = flight
        self.in_flight += size
        return flight

    def _close_frame(self) -> None:
        frame = self._open_frame
        if frame is not None:
            self._open_frame = None
            first_no = frame.flight.first_no
            session = self.member.session
            encoded = encode_whole(session, first_no, frame.set_no, frame.flags, frame.messages)
            self._put_out(first_no, encoded, frame.messages)

    def _put_out(self, first_no: int, frame: bytes, messages: Sequence[bytes]) -> None:
        self._sent.keep(first_no, frame, messages)
        self._output.extend(wire.send_parts(_request_of(first_no), frame))

    def watch_safe(self, flight: Flight) -> None:
        """Find out who holds a frame; its flight changes when that is known."""
        if not self.safety.wants_lines and not flight.is_safe and self.ended is None:
            self.safety.wants_lines = True
            self._say(wire.encode_safe_lines(wanted=True))
        if not flight.is_delivered:
            flight.wakes.add(lambda: self._watch_ordered(flight))
        else:
            self._watch_ordered(flight)

    def _watch_ordered(self, flight: Flight) -> None:
        if flight.order is None:
            return
        if self._is_over and flight.held is None:
            flight.lost = flight.lost or str(self.ended)
            flight.wakes.call()
        else:
            self.safety.watch(flight)

    # -- bytes -------------------------------------------------------------------------------

    def take_parts(self) -> list[bytes]:
        """Return what is to be written, in parts."""
        if self._replications and self.ended is None:
            self._send_notes()
        self._close_frame()
        if not self._output:
            return []
        parts = self._output[:]
        self._output.clear()
        return parts

    def take_output(self) -> bytes:
        """Return the same in one piece."""
        return b"".join(self.take_parts())

    def _send_notes(self) -> None:
        for group, replication in self._replications.items():
            while self.in_flight < NOTE_WINDOW and not self.is_throttled:
                note = replication.transfer.next_note()
                if note is None:
                    break
                names = (group, NOTES)
                set_no = self._sets.get(names)
                if set_no is None:
                    set_no = self._define(names)
                self.send_frame(set_no, [note], 0)

    def feed(self, chunk: bytes | memoryview) -> None:
        """Take in what was read; the chunk may be overwritten after that."""
        if self._is_over:
            return  # it may never end
        try:
            for opcode, request_id, body in self._splitter.split(chunk):
                self._hear(opcode, request_id, body)
        except MalformedFrame as malformed:
            self.lost(f"the daemon said what is no frame of this release: {malformed}")
            return
        if self.room and self.can_send():
            self.room.call()

    def lost(self, reason: str) -> None:
        """Take in that the connection is gone; everything that waits is answered."""
        if self._goodbye is not None:
            if not self._goodbye.is_done:
                self._end(None, reason)
                self._goodbye.give(None)
            return
        if self.ended is None:
            self.ended = ConnectionLost(reason)
            self._end(self.ended, reason)

    def _end(self, error: EvensongError | None, reason: str) -> None:
        self._is_over = True
        self.streams.end(error)
        refusals = list(self._asked.values())
        self._asked.clear()
        for refuse in refusals:
            refuse(ConnectionLost(reason))
        for flight in [*self._flights.values(), *self.safety.forget()]:
            flight.lost = reason
            flight.wakes.call()
        self._flights.clear()
        self._sent.clear()
        self._open_frame = None
        self.room.call()

    def _consume(self, size: int) -> None:
        """Count bytes that are done with; the daemon is told when they are many."""
        self._consumed += size
        self._unread -= size
        if self.is_slow:
            self._slow_left -= size
            self.is_slow = self._slow_left > 0
        if 4 * self._consumed >= self._window and self._window and not self._is_over:
            self._output.append(wire.encode_consumed(self._consumed))
            self._consumed = 0

    # -- what the daemon says ----------------------------------------------------------------

    def _hear(self, opcode: int, request_id: int, body: bytes | memoryview) -> None:
        """Take in one frame; its body may be overwritten after that."""
        size = HEAD_SIZE + len(body)
        self._unread += size
        if opcode == frames.DELIVER:
            self._on_deliver(wire.decode_deliver(body), size)
            return
        body = bytes(body)
        if opcode == frames.VIEW:
            self._on_view(wire.decode_view(body), size)
            return
        self._consume(size)
        told = wire.decode_told(frames.Frame(opcode, request_id, body))
        if isinstance(told, frames.Receipt):
            self._on_receipt(told)
        elif isinstance(told, frames.Destined):
            self._on_destination(told)
        elif isinstance(told, frames.SafeLine):
            self.safety.on_line(told.ring_id, told.seq)
        elif isinstance(told, Reconfigured):
            self.safety.on_configuration(told)
        elif isinstance(told, frames.Throttled):
            self.is_throttled = told.is_on
        elif isinstance(told, frames.HasLeft):
            self._on_left(request_id, told.group)
        elif isinstance(told, frames.Refused):
            self._on_refused(request_id, told.code)
        elif isinstance(told, frames.Welcome):
            self._on_welcome(told)
        elif isinstance(told, frames.GroupsAre):
            self._on_groups(request_id, told)
        elif isinstance(told, frames.Slow):
            self._slow_left = told.queued + self._unread
            self.is_slow = True
        elif isinstance(told, frames.Farewell):
            self.lost(words_of(told))

    def _on_welcome(self, welcome: frames.Welcome) -> None:
        if self.frame_max:
            raise MalformedFrame("welcomed twice")
        self._asked.pop(1, None)
        self.member = welcome.member
        self.frame_max = welcome.frame_max
        self.message_max = welcome.message_max
        self._window = welcome.window
        self._splitter.body_max = wire.told_max(welcome.message_max)
        self.streams.private_name = str(welcome.member)
        self.welcome.give(None)

    def _on_destination(self, told: frames.Destined) -> None:
        groups = told.destination.groups
        group = notes_of(groups)
        names = (group,) if group else groups
        self._routes[told.number] = _Route(told.destination, names, bool(group))

    def _on_deliver(self, told: frames.Deliver, size: int) -> None:
        route = self._routes.get(told.number)
        if route is None:
            raise MalformedFrame("a destination that was not told")
        content: bytes | Sequence[bytes]
        if told.is_own:
            head, content = self._sent.take(told.frame)
            size += head.length  # left out, and counted by the daemon
            self._unread += head.length
        else:
            head, content = take_out(told.frame)
        if route.is_note and not self.streams.has_state(route.names[0]):
            self._consume(size)
            return
        delivery = Delivery(
            route.destination, told.order, told.conf_id, head, content, reduced=told.reduced
        )
        self.streams.put(route.names, Parcel(delivery, size))

    def _on_view(self, view: View, size: int) -> None:
        group = view.group
        joining = self._joining.get(group)
        stream: Stream | None = None
        if joining is not None and self.member in view.members:
            del self._joining[group]
            del self._asked[joining.request_id]
            if joining.replica is not None:
                chunk_bytes = max(1, min(CHUNK_BYTES, self.message_max - NOTE_ROOM))
                self._replications[group] = Replication(
                    self.member, joining.replica, joining.policy, chunk_bytes
                )
            stream = self.streams.open(group, self._replications.get(group))
        self.streams.put((group,), Parcel(view, size))
        if joining is not None and stream is not None:
            if joining.withdrawn:
                self.streams.abandon(stream)
            joining.answer.give(stream)

    def _on_left(self, request_id: int, group: str) -> None:
        self._asked.pop(request_id, None)
        self._replications.pop(group, None)
        self.streams.close(group)
        answer = self._leaving.pop(group, None)
        if answer is not None:
            answer.give(None)
        self._on_outside(group)

    def _on_receipt(self, receipt: frames.Receipt) -> None:
        first_no, count, order, comes_back = receipt
        flight = self._flights.pop(first_no, None)
        if flight is None or flight.count != count:
            raise MalformedFrame("a receipt for what was not sent")
        if not comes_back:
            self._sent.drop(first_no)
        self.in_flight -= flight.size
        flight.is_delivered = True
        flight.order = order
        if order is not None:
            self.safety.on_ordered(flight)
        flight.wakes.call()

    def _on_refused(self, request_id: int, code: ErrorCode) -> None:
        if request_id >= SENDING:
            for first_no, flight in self._flights.items():
                if _request_of(first_no) == request_id:
                    del self._flights[first_no]
                    self._sent.drop(first_no)
                    self.in_flight -= flight.size
                    flight.refused = REASONS[code]
                    flight.wakes.call()
                    return
            return
        refuse = self._asked.pop(request_id, None)
        if refuse is not None:
            refuse(refusal(code))

    def _on_groups(self, request_id: int, told: frames.GroupsAre) -> None:
        asked = self._listing.get(request_id)
        if asked is None:
            return
        answer, listing = asked
        for name, members in told.groups:
            listing[name] = listing.get(name, ()) + members
        if told.is_last:
            del self._listing[request_id]
            self._asked.pop(request_id, None)
            answer.give(listing)


def _request_of(first_no: int) -> int:
    return SENDING | (first_no & (SENDING - 1))
