"""What a daemon has to send: one lane a session, taken in turns by bytes, packed when asked for.

The engine pulls packets when the token is here. Packing then fills each packet from the daemon's
own control frames first, then from the lanes, each for about DEFICIT bytes a turn, so that a large
message does not stop the other sessions of its daemon [TPG]. Within a lane the order never changes.

Rules:
- A packet is agreed or safe as a whole. One that has frames and is agreed closes before a frame
  that must be safe; an agreed frame may follow a safe one, it would wait behind it anyway.
- A frame too large for a packet is cut; FIRST fills up the packet at hand. Only LAST makes it
  whole, so only LAST needs a safe packet: pieces before it have lower seqs. A frame that would fit
  an empty packet waits for one: to put pieces together costs every daemon more than full packets
  gain.
- Where the engine has services without a total order, a packet is of one of these as a whole, too,
  and shares with ordered frames nothing but announcements. A CAUSAL frame that is cut is CAUSAL in
  all its pieces. A BASIC packet may overtake any other, so it brings along what it refers to; one
  that has no room for that goes as CAUSAL. Joins and leaves are SAFE there: unordered.py says why.
- A destination is announced, in the lane, before the first frame to it in a configuration.
- A packet is as large as a datagram holds, or up to `width` times that where many datagrams travel
  as one. What may be pulled is told, and counted, in datagrams' worth.
- At a regular configuration a frame that is cut and whose LAST was not pulled begins again, and
  announcements too: newcomers have seen neither.
Invariant: queued_bytes is the sum over lanes and control frames; no lane without items is in turns.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from evensong.core.effects import Packet, Service
from evensong.core.groups.control import (
    AS_OF_BODY,
    control_frame,
    encode_as_of,
    encode_sets,
)
from evensong.core.groups.directory import Directory
from evensong.core.groups.events import Closed, Destination, SessionEvent, SessionId, Throttle
from evensong.core.groups.frame import (
    BASIC,
    CAUSAL,
    FIRST,
    HEADER,
    HEADER_SIZE,
    LAST,
    MIDDLE,
    SAFE,
    TOTAL,
    UNORDERED,
    Head,
)
from evensong.core.groups.limits import CHUNK_LEAST, DEFICIT, RESERVED, Limits
from evensong.core.groups.packet import (
    ALONE_TAIL,
    NUMBERED,
    PACKET_SIZE,
    PLACES_MAX,
    VERSION,
    encode_packet,
)
from evensong.core.ids import ProcessorId
from evensong.core.unit import Origin, UnitId

AS_OF_SIZE: Final = HEADER_SIZE + AS_OF_BODY.size


@final
class _Item:
    """A frame that waits in a lane."""

    __slots__ = ("destination", "frame", "head", "is_announcement", "service")

    def __init__(
        self, frame: bytes, head: Head, destination: Destination | None, service: Service | None
    ) -> None:
        self.frame: Final = frame
        self.head: Final = head
        self.destination: Final = destination  # None for control frames
        self.service: Final = service  # that its packet must have; None: any but BASIC
        self.is_announcement = False


def _control_item(frame: bytes, service: Service | None) -> _Item:
    return _Item(frame, Head(*HEADER.unpack_from(frame)), None, service)


def _piece_service(item: _Item) -> Service:
    """Return the service of a piece that is not the last: only that one makes a frame whole."""
    return Service.CAUSAL if item.service is Service.CAUSAL else Service.AGREED


@final
class _Lane:
    """The frames of one session, in its order."""

    __slots__ = ("announced", "deficit", "is_closing", "items", "offset", "queued")

    def __init__(self) -> None:
        self.items: Final[deque[_Item]] = deque()
        self.queued = 0  # bytes
        self.offset = 0  # of the first item's content, if it is cut: bytes that were pulled
        self.deficit = 0
        self.announced: Final[dict[int, Destination]] = {}  # by number, in this configuration
        self.is_closing = False


@final
class _Filling:
    """A packet that is being filled."""

    __slots__ = ("brought", "frames", "places", "room", "service")

    def __init__(self, room: int) -> None:
        self.frames: Final[list[bytes]] = []
        self.places = 0
        self.room = room
        self.service: Service | None = None  # None: announcements alone, or nothing
        self.brought: Final[set[tuple[SessionId, int]]] = set()  # destinations, if it is BASIC

    def takes(self, size: int, places: int, service: Service | None) -> bool:
        """Whether a frame of this size and so many places may go in."""
        if self.frames and service is not self.service and not self._suits(service):
            return False
        return size <= self.room and self.places + places <= PLACES_MAX

    def _suits(self, service: Service | None) -> bool:
        """Whether frames of another service may share it."""
        mine = self.service
        if service is None:
            return mine is not Service.BASIC
        if service is Service.AGREED:
            return mine is None or mine is Service.SAFE
        # Agreed frames must not wait for a safe one, and it must not hurry.
        return service is Service.CAUSAL and mine is None

    def add(self, frame: bytes, places: int, service: Service | None) -> None:
        """Put a frame in."""
        self.frames.append(frame)
        self.places += places
        self.room -= len(frame)
        if service is not None and self.service is not Service.SAFE:
            self.service = service
        assert self.room >= 0
        assert self.places <= PLACES_MAX


@final
class SendQueue:
    """The engine's source at one daemon."""

    __slots__ = (
        "_directory",
        "_events",
        "_incarnation",
        "_lanes",
        "_limits",
        "_my_id",
        "_own",
        "_room",
        "_throttled",
        "_turns",
        "_wide",
        "has_unordered",
        "origin",
        "queued_bytes",
        "width",
    )

    def __init__(
        self,
        my_id: ProcessorId,
        incarnation: int,
        limits: Limits,
        events: list[SessionEvent],
        directory: Directory,
        *,
        has_unordered: bool,
    ) -> None:
        self._directory: Final = directory
        self.has_unordered: Final = has_unordered  # the engine has services without total order
        self._my_id: Final = my_id
        self._incarnation: Final = incarnation
        self._limits: Final = limits
        self._events: Final = events
        self._room: Final = limits.payload_max - PACKET_SIZE  # for frames, in a plain packet
        self.width = 1  # how many times as large as a plain one a packet may be
        self._lanes: Final[dict[SessionId, _Lane]] = {}
        self._turns: Final[deque[SessionId]] = deque()  # lanes with items; the first has its turn
        self._own: Final[deque[bytes]] = deque()  # control frames of the daemon itself
        self._throttled: Final[dict[SessionId, _Lane]] = {}
        self._wide = 0  # uncut frames of more than half a packet: no two of them share one
        self.queued_bytes = 0
        self.origin: Final = Origin(my_id, incarnation)

    @property
    def uncut_max(self) -> int:
        """How long a frame may be that is not cut; longer ones are."""
        return self._room

    # -- what is to be sent ------------------------------------------------------------------

    def open(self, session: SessionId) -> None:
        """Make a lane for a session."""
        assert session not in self._lanes
        self._lanes[session] = _Lane()

    def push(self, frame: bytes, head: Head, destination: Destination) -> bool:
        """Append a frame to its session's lane; False if the session has too much queued."""
        session = head.session
        lane = self._lanes[session]
        service = self._service_of(head, destination)
        if not self._append(session, lane, _Item(frame, head, destination, service)):
            return False
        if 4 * self.queued_bytes > 3 * self._limits.queue_bytes_max:
            self._throttle(session, lane)
        return True

    def push_control(self, session: SessionId, frame: bytes) -> bool:
        """Append a control frame to a session's lane, likewise; control is never throttled."""
        return self._append(session, self._lanes[session], self._wish_item(frame))

    def close(self, session: SessionId, farewell: bytes) -> None:
        """End a lane: what it has goes out, then the farewell, then `Closed`."""
        lane = self._lanes[session]
        if farewell:
            if not lane.items:
                self._turns.append(session)
            lane.items.append(self._wish_item(farewell))
            self._enter(lane, lane.items[-1])  # however full it is
        lane.is_closing = True
        self._throttled.pop(session, None)
        if not lane.items:
            self._drop_lane(session)

    def put_first(self, frames: list[bytes]) -> None:
        """Send control frames of the daemon itself, ahead of all sessions."""
        self._own.extend(frames)
        self.queued_bytes += sum(map(len, frames))

    def restart(self) -> None:
        """Begin again in a new regular configuration whatever its members could not use."""
        self.queued_bytes -= sum(map(len, self._own))
        self._own.clear()
        for lane in self._lanes.values():
            lane.announced.clear()
            while lane.items and lane.items[0].is_announcement:
                self._forget_first(lane)
            self._count(lane, lane.offset)
            lane.offset = 0

    def queued(self, session: SessionId) -> int:
        """How many bytes wait in a session's lane."""
        lane = self._lanes.get(session)
        return lane.queued if lane is not None else 0

    # -- the engine's source -----------------------------------------------------------------

    def backlog(self) -> int:
        """How much waits, in plain packets: never more than `pull` would give."""
        return max(-(-self.queued_bytes // self._room), self._wide)

    def pull(self, plain_max: int) -> list[Packet]:
        """Fill packets, at most as much as so many plain ones hold."""
        packets: list[Packet] = []
        left = plain_max
        while self.queued_bytes and left > 0:
            if packets and left < self.width and self._may_wait(left, plain_max):
                break
            packets.append(self._fill(min(self.width, left)))
            left -= self.weight(packets[-1:])
            if self._turns and not self._own:
                middles = self._middles(self._turns[0], left)
                packets += middles
                left -= self.weight(middles)
        if packets and self._throttled:
            self._relent()
        return packets

    def _may_wait(self, left: int, plain_max: int) -> bool:
        """Whether what comes next would be cut now, and not by a visit that begins with it."""
        if self._own or not self._turns:
            return False
        lane = self._lanes[self._turns[0]]
        plain = self._limits.payload_max
        size = PACKET_SIZE + len(lane.items[0].frame)
        return not lane.offset and left * plain < size <= min(self.width, plain_max) * plain

    def weight(self, packets: Sequence[Packet]) -> int:
        """How many plain packets hold as much."""
        plain = self._limits.payload_max
        return sum([-(-len(packet.payload) // plain) for packet in packets])

    def _fill(self, width: int) -> Packet:
        filling = _Filling(width * self._limits.payload_max - PACKET_SIZE)
        own = self._own
        while own and filling.takes(len(own[0]), 1, Service.AGREED):
            self.queued_bytes -= len(own[0])
            filling.add(own.popleft(), 1, Service.AGREED)
        turns = self._turns
        while not own and turns and self._take_turn(turns[0], filling):
            pass
        assert filling.frames
        origin = self.origin
        origin.last_no += 1
        unit_id = UnitId(self._my_id, self._incarnation, origin.last_no)
        service = filling.service or Service.AGREED
        return Packet(service, encode_packet(unit_id, filling.places, filling.frames))

    def _take_turn(self, session: SessionId, filling: _Filling) -> bool:
        """Take from the lane whose turn it is; False if the packet must close first."""
        lane = self._lanes[session]
        if lane.deficit <= 0:
            lane.deficit += DEFICIT
        while lane.items and lane.deficit > 0:
            room = filling.room
            if not self._take(session, lane, filling):
                return False
            lane.deficit -= room - filling.room
        self._turns.popleft()
        if lane.items:
            self._turns.append(session)
        else:
            lane.deficit = 0
            if lane.is_closing:
                self._drop_lane(session)
        return True

    def _take(self, session: SessionId, lane: _Lane, filling: _Filling) -> bool:
        """Put the lane's first frame, or a piece of it, into the packet; False if it can't go."""
        item = lane.items[0]
        if item.service is Service.BASIC:
            return self._take_basic(session, lane, item, filling)
        if item.destination is not None and not lane.offset:
            set_no = item.head.group_set
            if lane.announced.get(set_no) is not item.destination:
                self._announce(session, lane, set_no, item.destination)
                return True
        size = len(item.frame)
        is_too_long = size > (self._wide_room() if filling.frames else filling.room)
        if lane.offset or is_too_long:
            return self._take_piece(lane, item, filling)
        if not filling.takes(size, item.head.places, item.service):
            return False
        filling.add(item.frame, item.head.places, item.service)
        self._forget_first(lane)
        return True

    def _take_basic(self, session: SessionId, lane: _Lane, item: _Item, filling: _Filling) -> bool:
        """Put a frame in that may overtake all others, with what it refers to."""
        assert item.destination is not None
        key = (session, item.head.group_set)
        extra: list[bytes] = []
        if not filling.frames:
            extra.append(control_frame(0, encode_as_of(self._directory.counter)))
        if key not in filling.brought:
            extra += self._sets_of(item.head, item.destination)
        size = len(item.frame) + sum(map(len, extra))
        if not filling.takes(size, item.head.places + len(extra), Service.BASIC):
            return False
        for frame in extra:
            filling.add(frame, 1, Service.BASIC)
        filling.brought.add(key)
        filling.add(item.frame, item.head.places, Service.BASIC)
        self._forget_first(lane)
        return True

    def _wide_room(self) -> int:
        """How long a frame may be that an empty packet holds."""
        return self.width * self._limits.payload_max - PACKET_SIZE

    def _take_piece(self, lane: _Lane, item: _Item, filling: _Filling) -> bool:
        head = item.head
        begin = HEADER_SIZE + lane.offset
        left = len(item.frame) - begin
        extra = 0 if lane.offset else TOTAL.size
        room = filling.room - HEADER_SIZE - extra
        is_last = left <= room
        places = head.places if is_last else 0
        service = item.service if is_last else _piece_service(item)
        if not is_last and room < CHUNK_LEAST:
            return False
        if not filling.takes(HEADER_SIZE, places, service):
            return False
        chunk = item.frame[begin : begin + room]
        total = b"" if lane.offset else TOTAL.pack(head.length)
        kind = LAST if is_last else MIDDLE if lane.offset else FIRST
        header = HEADER.pack(kind, *head[1:5], places, len(total) + len(chunk))
        filling.add(header + total + chunk, places, service)
        if is_last:
            self._forget_first(lane)
        else:
            self._count(lane, -len(chunk))
            lane.offset += len(chunk)
        return True

    def _middles(self, session: SessionId, plain_max: int) -> list[Packet]:
        """Fill packets with the middle of a frame that is being cut, while it is its turn.

        They are alike but for their numbers, so that all of them are made at once.
        """
        lane = self._lanes[session]
        head = lane.items[0].head
        frame = lane.items[0].frame
        room = self.width * self._limits.payload_max - PACKET_SIZE
        size = room - HEADER_SIZE
        count = min(plain_max // self.width, (len(frame) - HEADER_SIZE - lane.offset - 1) // size)
        if len(self._turns) > 1:
            count = min(count, lane.deficit // room)
        if not lane.offset or count <= 0:
            return []
        begin = HEADER_SIZE + lane.offset
        first_no = self.origin.last_no + 1
        alike = ALONE_TAIL.pack(0, VERSION, 0, 1, MIDDLE, *head[1:5], 0, size)
        payloads = [
            NUMBERED.pack(self._my_id, self._incarnation, number)
            + alike
            + frame[begin + at : begin + at + size]
            for number, at in enumerate(range(0, count * size, size), first_no)
        ]
        self.origin.last_no += count
        lane.offset += count * size
        lane.deficit -= count * room
        self._count(lane, -count * size)
        service = _piece_service(lane.items[0])
        return [Packet(service, payload) for payload in payloads]

    def _announce(
        self, session: SessionId, lane: _Lane, set_no: int, destination: Destination
    ) -> None:
        """Put a destination's announcement before the frame that needs it."""
        lane.announced[set_no] = destination
        for frame in reversed(self._sets_of(lane.items[0].head, destination)):
            item = _control_item(frame, None)
            item.is_announcement = True
            lane.items.appendleft(item)
            self._enter(lane, item)

    def _sets_of(self, head: Head, destination: Destination) -> list[bytes]:
        """Return how the destination of a frame is told."""
        user, groups = destination.sender.user, destination.groups
        contents = encode_sets(user, groups, self._room - HEADER_SIZE)
        return [control_frame(head.session, content, head.group_set) for content in contents]

    # -- services ----------------------------------------------------------------------------

    def _service_of(self, head: Head, destination: Destination) -> Service:
        """Return the service of the packet in which a frame ends."""
        flags = head.flags
        # By notes of libraries, as by joins, members agree at which place to take a state: what is
        # CAUSAL must be on the same side of it for all of them. unordered.py says why it is.
        is_note = self.has_unordered and destination.groups[-1].startswith(RESERVED)
        if flags & SAFE or is_note:
            return Service.SAFE
        if not self.has_unordered or not flags & UNORDERED:
            return Service.AGREED
        if flags & CAUSAL:
            return Service.CAUSAL
        assert flags & BASIC
        company = sum(map(len, self._sets_of(head, destination))) + AS_OF_SIZE
        is_uncut = HEADER_SIZE + head.length + company <= self._room
        return Service.BASIC if is_uncut else Service.CAUSAL

    def _wish_item(self, frame: bytes) -> _Item:
        return _control_item(frame, Service.SAFE if self.has_unordered else Service.AGREED)

    # -- counts ------------------------------------------------------------------------------

    def _append(self, session: SessionId, lane: _Lane, item: _Item) -> bool:
        assert not lane.is_closing
        if lane.queued + len(item.frame) > self._limits.session_bytes_max:
            return False
        if not lane.items:
            self._turns.append(session)
        lane.items.append(item)
        self._enter(lane, item)
        return True

    def _enter(self, lane: _Lane, item: _Item) -> None:
        self._wide += self._is_wide(item)
        self._count(lane, len(item.frame))

    def _forget_first(self, lane: _Lane) -> None:
        item = lane.items.popleft()
        self._wide -= self._is_wide(item)
        self._count(lane, lane.offset - len(item.frame))
        lane.offset = 0

    def _count(self, lane: _Lane, size: int) -> None:
        lane.queued += size
        self.queued_bytes += size
        assert lane.queued >= 0

    def _is_wide(self, item: _Item) -> bool:
        return self._room < 2 * len(item.frame) <= 2 * self._room

    def _drop_lane(self, session: SessionId) -> None:
        del self._lanes[session]
        self._events.append(Closed(session))

    # -- throttling --------------------------------------------------------------------------

    def _throttle(self, session: SessionId, lane: _Lane) -> None:
        """Ask a session to stop that has at least its share of a queue that is nearly full."""
        has_share = lane.queued * len(self._turns) >= self.queued_bytes
        if has_share and session not in self._throttled:
            self._throttled[session] = lane
            self._events.append(Throttle(session, is_on=True))

    def _relent(self) -> None:
        """Let sessions send again: all when the queue is nearly empty, else whose lane is."""
        is_low = 4 * self.queued_bytes < self._limits.queue_bytes_max
        relieved = [one for one, lane in self._throttled.items() if is_low or not lane.items]
        for session in relieved:
            del self._throttled[session]
            self._events.append(Throttle(session, is_on=False))
