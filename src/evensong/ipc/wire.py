"""The bytes of what clients and daemons say; frames.py says what it means.

A frame is `length:u32 opcode:u8 request_id:u32` and a body; numbers are big-endian, and a text is
a byte of length and UTF-8. Each `encode_` returns a whole frame, each `decode_` takes a body and
either reads all of it or raises `MalformedFrame`, whatever the bytes are.

    order  ring_seq:u64 ring_rep:u32 seq:u64 sub:u32; all 0 where something is not ordered
    member daemon:u32 incarnation:u64 session:u32 user:text

    HELLO        version:u16 user:text           WELCOME      member frame_max:u32 message_max:u32
    JOIN         group:text                                   window:u64
    LEAVE        group:text                      DESTINATION  number:u32 member count:u16 | texts
    SET          set_no:u32 count:u16 | texts    DELIVER      number:u32 order conf_seq:u64
    SEND         a frame of core/groups                       conf_rep:u32 flags:u8 | the frame,
    CONSUMED     size:u64                                     or an own one's header
    PING                                         VIEW         see views.py
    BYE                                          LEFT         order group:text
    GROUPS                                       RECEIPT      first_no:u64 count:u16 order
    SAFE_LINES   wanted:u8                                    comes_back:u8
                                                 SAFE_LINE    ring_seq:u64 ring_rep:u32 seq:u64
    flags of VIEW and CONFIG:                    CONFIG       seq:u64 rep:u32 flags:u8 count:u16 |
    1 primary, 2 transitional                                 daemons:u32
    flags of DELIVER:                            ERROR        code:u8
    1 reduced, 2 own                             THROTTLE     on:u8
                                                 SLOW         queued:u64 limit:u64
                                                 PONG
                                                 GROUPS_ARE   last:u8 count:u16 | name:text
                                                              count:u32 | members
                                                 FAREWELL     why:u8 text
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from evensong.core.groups.control import decode_text, encode_text
from evensong.core.groups.events import (
    Destination,
    ErrorCode,
    MemberId,
    OrderId,
    Reconfigured,
    View,
)
from evensong.core.groups.frame import HEADER_SIZE
from evensong.core.groups.limits import COPIED_MAX
from evensong.core.ids import NO_RING, ProcessorId, RingId
from evensong.errors import MalformedFrame
from evensong.ipc import frames
from evensong.ipc.frames import (
    Bye,
    Consumed,
    Deliver,
    Destined,
    Farewell,
    Frame,
    GroupsAre,
    HasLeft,
    Hello,
    Join,
    Leave,
    ListGroups,
    Ping,
    Pong,
    Receipt,
    Refused,
    Request,
    SafeLine,
    SafeLines,
    Send,
    SetGroups,
    Slow,
    Throttled,
    Told,
    Welcome,
    Why,
)
from evensong.ipc.pieces import (
    MANY,
    ORDER,
    must_end,
    only_flag,
    only_text,
    put_member,
    put_order,
    put_texts,
    read_member,
    read_members,
    read_order,
    read_texts,
    unpack,
)
from evensong.ipc.splitter import HEAD
from evensong.ipc.unsent import Part
from evensong.ipc.views import PRIMARY, TRANSITIONAL, put_view, read_view

SMALL_MAX: Final = 65_536  # bytes of whatever a client says but SEND
TOLD_LEAST: Final = 16 * 2**20  # a view may take so much, however small messages are
PORTION: Final = 32_768  # bytes of members in one GROUPS_ARE
REDUCED: Final = 1
OWN: Final = 2

_VERSION: Final = struct.Struct("!H")
_COUNTED: Final = struct.Struct("!IH")  # a number, and how many texts follow
_WELCOME: Final = struct.Struct("!IIQ")
_DELIVER: Final = struct.Struct("!IQIQIQIB")
_DELIVER_ALL: Final = struct.Struct("!IBIIQIQIQIB")  # the frame's head and that of the body
_RECEIPT: Final = struct.Struct("!QHQIQIB")
_SAFE_LINE: Final = struct.Struct("!QIQ")
_CONFIG: Final = struct.Struct("!QIBH")
_SLOW: Final = struct.Struct("!QQ")
_SIZE: Final = struct.Struct("!Q")
_PART: Final = struct.Struct("!BH")
_SHORT: Final = struct.Struct("!H")

DELIVER_SIZE: Final = _DELIVER.size
NO_ORDER: Final = OrderId(NO_RING, 0, 0)


def request_max(message_max: int) -> int:
    """Return how long the body of what a client says may be."""
    return max(SMALL_MAX, HEADER_SIZE + message_max)


def told_max(message_max: int) -> int:
    """Return how long the body of what a daemon says may be."""
    return max(TOLD_LEAST, DELIVER_SIZE + HEADER_SIZE + message_max)


def encode(opcode: int, request_id: int, body: bytes) -> bytes:
    """Put a head before a body."""
    return HEAD.pack(len(body), opcode, request_id) + body


# -- client to daemon --------------------------------------------------------------------------


def encode_hello(request_id: int, user: str, version: int = frames.VERSION) -> bytes:
    """Say who one is; the name has at most 255 bytes, as every text here."""
    return encode(frames.HELLO, request_id, _VERSION.pack(version) + encode_text(user))


def decode_hello(body: bytes) -> Hello:
    """Read a HELLO."""
    (version,) = unpack(_VERSION, body, 0)
    user, at = decode_text(body, _VERSION.size)
    must_end(body, at)
    return Hello(version, user)


def encode_join(request_id: int, group: str) -> bytes:
    """Ask to be a member."""
    return encode(frames.JOIN, request_id, encode_text(group))


def decode_join(body: bytes) -> Join:
    """Read a JOIN."""
    return Join(only_text(body))


def encode_leave(request_id: int, group: str) -> bytes:
    """Ask to be no member any more."""
    return encode(frames.LEAVE, request_id, encode_text(group))


def decode_leave(body: bytes) -> Leave:
    """Read a LEAVE."""
    return Leave(only_text(body))


def encode_set(request_id: int, set_no: int, groups: Sequence[str]) -> bytes:
    """Name a destination."""
    return encode(frames.SET, request_id, _COUNTED.pack(set_no, len(groups)) + put_texts(groups))


def decode_set(body: bytes) -> SetGroups:
    """Read a SET."""
    set_no, count = unpack(_COUNTED, body, 0)
    names, at = read_texts(body, _COUNTED.size, count)
    must_end(body, at)
    return SetGroups(set_no, names)


def encode_send(request_id: int, frame: bytes) -> bytes:
    """Hand over a frame of kind WHOLE."""
    return b"".join(send_parts(request_id, frame))


def send_parts(request_id: int, frame: bytes) -> tuple[bytes, bytes]:
    """Return what goes before a frame, and the frame, which is not copied for it."""
    return HEAD.pack(len(frame), frames.SEND, request_id), frame


def decode_send(body: bytes) -> Send:
    """Read a SEND; whether the frame is one is looked at where it is queued."""
    return Send(body)


def encode_consumed(size: int) -> bytes:
    """Say that so many bytes more are done with."""
    return encode(frames.CONSUMED, 0, _SIZE.pack(size))


def decode_consumed(body: bytes) -> Consumed:
    """Read a CONSUMED."""
    must_end(body, _SIZE.size)
    return Consumed(*unpack(_SIZE, body, 0))


def encode_ping(request_id: int) -> bytes:
    """Ask whether the daemon is there."""
    return encode(frames.PING, request_id, b"")


def decode_ping(body: bytes) -> Ping:
    """Read a PING."""
    must_end(body, 0)
    return Ping()


def encode_bye(request_id: int = 0) -> bytes:
    """Go."""
    return encode(frames.BYE, request_id, b"")


def decode_bye(body: bytes) -> Bye:
    """Read a BYE."""
    must_end(body, 0)
    return Bye()


def encode_groups(request_id: int) -> bytes:
    """Ask which groups there are."""
    return encode(frames.GROUPS, request_id, b"")


def decode_groups(body: bytes) -> ListGroups:
    """Read a GROUPS."""
    must_end(body, 0)
    return ListGroups()


def encode_safe_lines(wanted: bool) -> bytes:
    """Say whether safe lines are wanted."""
    return encode(frames.SAFE_LINES, 0, bytes([wanted]))


def decode_safe_lines(body: bytes) -> SafeLines:
    """Read a SAFE_LINES."""
    return SafeLines(only_flag(body))


# -- daemon to client --------------------------------------------------------------------------


def encode_welcome(
    request_id: int, member: MemberId, frame_max: int, message_max: int, window: int
) -> bytes:
    """Open a session."""
    body = put_member(member) + _WELCOME.pack(frame_max, message_max, window)
    return encode(frames.WELCOME, request_id, body)


def decode_welcome(body: bytes) -> Welcome:
    """Read a WELCOME."""
    member, at = read_member(body, 0)
    must_end(body, at + _WELCOME.size)
    return Welcome(member, *unpack(_WELCOME, body, at))


def encode_destination(number: int, destination: Destination) -> bytes:
    """Say what a number stands for."""
    sender, groups = destination.sender, destination.groups
    body = MANY.pack(number) + put_member(sender) + _SHORT.pack(len(groups)) + put_texts(groups)
    return encode(frames.DESTINATION, 0, body)


def decode_destination(body: bytes) -> Destined:
    """Read a DESTINATION."""
    (number,) = unpack(MANY, body, 0)
    sender, at = read_member(body, MANY.size)
    (count,) = unpack(_SHORT, body, at)
    groups, at = read_texts(body, at + _SHORT.size, count)
    must_end(body, at)
    return Destined(number, Destination(sender, groups))


def encode_deliver(
    number: int, order: OrderId | None, conf_id: RingId, reduced: bool, frame: Part
) -> tuple[bytes, Part]:
    """Hand over a frame, which is not copied for it: what goes before it, and the frame."""
    ring_id, seq, sub = order or NO_ORDER
    length = DELIVER_SIZE + len(frame)
    fields = (frames.DELIVER, 0, number, *ring_id, seq, sub, *conf_id, reduced)
    return _DELIVER_ALL.pack(length, *fields), frame


def encode_own(
    number: int, order: OrderId | None, conf_id: RingId, reduced: bool, frame: Part
) -> bytes:
    """Tell the sender of a frame that it is delivered: its header, without the content."""
    ring_id, seq, sub = order or NO_ORDER
    length = DELIVER_SIZE + HEADER_SIZE
    fields = (frames.DELIVER, 0, number, *ring_id, seq, sub, *conf_id, OWN | reduced)
    return _DELIVER_ALL.pack(length, *fields) + frame[:HEADER_SIZE]


def decode_deliver(body: bytes | memoryview) -> Deliver:
    """Read a DELIVER; the frame in it, or its header, is left as it is."""
    if len(body) < DELIVER_SIZE:
        raise MalformedFrame("ipc: cut short")
    number, ring_seq, ring_rep, seq, sub, conf_seq, conf_rep, flags = _DELIVER.unpack_from(body)
    if flags > REDUCED | OWN:
        raise MalformedFrame("ipc: flag")
    is_own = flags & OWN != 0
    if is_own:
        must_end(body, DELIVER_SIZE + HEADER_SIZE)
    order = OrderId(RingId(ring_seq, ring_rep), seq, sub) if seq else None
    conf_id = RingId(conf_seq, conf_rep)
    whole = memoryview(body) if len(body) > COPIED_MAX else body
    return Deliver(number, order, conf_id, flags & REDUCED != 0, is_own, whole[DELIVER_SIZE:])


def encode_view(view: View) -> bytes:
    """Show a group; views.py says how."""
    return encode(frames.VIEW, 0, put_view(view))


def decode_view(body: bytes) -> View:
    """Read a VIEW."""
    return read_view(body)


def encode_left(request_id: int, group: str, order: OrderId) -> bytes:
    """Say that the client has left."""
    return encode(frames.LEFT, request_id, put_order(order) + encode_text(group))


def decode_left(body: bytes) -> HasLeft:
    """Read a LEFT."""
    order = read_order(body)
    group, at = decode_text(body, ORDER.size)
    must_end(body, at)
    return HasLeft(group, order)


def encode_receipt(first_no: int, count: int, order: OrderId | None, comes_back: bool) -> bytes:
    """Say where a frame came to be, and whether its sender gets it."""
    ring_id, seq, sub = order or NO_ORDER
    body = _RECEIPT.pack(first_no, count, *ring_id, seq, sub, comes_back)
    return encode(frames.RECEIPT, 0, body)


def decode_receipt(body: bytes) -> Receipt:
    """Read a RECEIPT."""
    must_end(body, _RECEIPT.size)
    first_no, count, ring_seq, ring_rep, seq, sub, comes_back = _RECEIPT.unpack(body)
    if comes_back > 1:
        raise MalformedFrame("ipc: flag")
    order = OrderId(RingId(ring_seq, ring_rep), seq, sub) if seq else None
    return Receipt(first_no, count, order, comes_back == 1)


def encode_safe_line(ring_id: RingId, seq: int) -> bytes:
    """Say how far everybody has everything."""
    return encode(frames.SAFE_LINE, 0, _SAFE_LINE.pack(*ring_id, seq))


def decode_safe_line(body: bytes) -> SafeLine:
    """Read a SAFE_LINE."""
    must_end(body, _SAFE_LINE.size)
    ring_seq, ring_rep, seq = _SAFE_LINE.unpack(body)
    return SafeLine(RingId(ring_seq, ring_rep), seq)


def encode_config(
    conf_id: RingId, members: Sequence[ProcessorId], *, primary: bool, transitional: bool
) -> bytes:
    """Say which daemons are together."""
    flags = (PRIMARY if primary else 0) | (TRANSITIONAL if transitional else 0)
    daemons = struct.pack(f"!{len(members)}I", *members)
    return encode(frames.CONFIG, 0, _CONFIG.pack(*conf_id, flags, len(members)) + daemons)


def decode_config(body: bytes) -> Reconfigured:
    """Read a CONFIG."""
    seq, rep, flags, count = unpack(_CONFIG, body, 0)
    if flags > PRIMARY | TRANSITIONAL:
        raise MalformedFrame("ipc: flag")
    must_end(body, _CONFIG.size + 4 * count)
    return Reconfigured(
        RingId(seq, rep),
        struct.unpack_from(f"!{count}I", body, _CONFIG.size),
        primary=bool(flags & PRIMARY),
        transitional=bool(flags & TRANSITIONAL),
    )


def encode_error(request_id: int, code: ErrorCode) -> bytes:
    """Refuse a request."""
    return encode(frames.ERROR, request_id, bytes([code.value]))


def decode_error(body: bytes) -> Refused:
    """Read an ERROR."""
    must_end(body, 1)
    try:
        return Refused(ErrorCode(body[0]))
    except ValueError:
        raise MalformedFrame("ipc: code") from None


def encode_throttle(is_on: bool) -> bytes:
    """Ask the client to stop sending, or to go on."""
    return encode(frames.THROTTLE, 0, bytes([is_on]))


def decode_throttle(body: bytes) -> Throttled:
    """Read a THROTTLE."""
    return Throttled(only_flag(body))


def encode_slow(queued: int, limit: int) -> bytes:
    """Warn a client that takes too little."""
    return encode(frames.SLOW, 0, _SLOW.pack(queued, limit))


def decode_slow(body: bytes) -> Slow:
    """Read a SLOW."""
    must_end(body, _SLOW.size)
    return Slow(*_SLOW.unpack(body))


def encode_pong(request_id: int) -> bytes:
    """Answer a PING."""
    return encode(frames.PONG, request_id, b"")


def decode_pong(body: bytes) -> Pong:
    """Read a PONG."""
    must_end(body, 0)
    return Pong()


def encode_groups_are(
    request_id: int, groups: Iterable[tuple[str, Sequence[MemberId]]]
) -> list[bytes]:
    """Say which groups there are, in as many frames as it takes."""
    bodies: list[list[bytes]] = [[]]
    room = PORTION
    for name, members in groups:
        encoded = [*map(put_member, members)]
        at = 0
        while at < len(encoded):
            if room <= 0:
                bodies.append([])
                room = PORTION
            end = at
            while end < len(encoded) and room > 0:
                room -= len(encoded[end])
                end += 1
            head = encode_text(name) + MANY.pack(end - at)
            room -= len(head)
            bodies[-1].append(head + b"".join(encoded[at:end]))
            at = end
    last = len(bodies) - 1
    return [
        encode(frames.GROUPS_ARE, request_id, _PART.pack(at == last, len(body)) + b"".join(body))
        for at, body in enumerate(bodies)
    ]


def decode_groups_are(body: bytes) -> GroupsAre:
    """Read a GROUPS_ARE."""
    is_last, count = unpack(_PART, body, 0)
    if is_last > 1:
        raise MalformedFrame("ipc: flag")
    at = _PART.size
    groups: list[tuple[str, tuple[MemberId, ...]]] = []
    for _ in range(count):
        name, at = decode_text(body, at)
        members, at = read_members(body, at)
        groups.append((name, members))
    must_end(body, at)
    return GroupsAre(bool(is_last), tuple(groups))


def encode_farewell(request_id: int, why: Why, text: str = "") -> bytes:
    """Hang up; the text is for people, and cut if it is long."""
    short = text.encode(errors="replace")[:255].decode(errors="ignore")
    return encode(frames.FAREWELL, request_id, bytes([why.value]) + encode_text(short))


def decode_farewell(body: bytes) -> Farewell:
    """Read a FAREWELL."""
    text, at = decode_text(body, 1)
    must_end(body, at)
    try:
        return Farewell(Why(body[0]), text)
    except ValueError:
        raise MalformedFrame("ipc: reason") from None


# -- all of them -------------------------------------------------------------------------------

REQUESTS: Final[dict[int, Callable[[bytes], Request]]] = {
    frames.HELLO: decode_hello,
    frames.JOIN: decode_join,
    frames.LEAVE: decode_leave,
    frames.SET: decode_set,
    frames.SEND: decode_send,
    frames.CONSUMED: decode_consumed,
    frames.PING: decode_ping,
    frames.BYE: decode_bye,
    frames.GROUPS: decode_groups,
    frames.SAFE_LINES: decode_safe_lines,
}
TOLD: Final[dict[int, Callable[[bytes], Told]]] = {
    frames.WELCOME: decode_welcome,
    frames.DESTINATION: decode_destination,
    frames.DELIVER: decode_deliver,
    frames.VIEW: decode_view,
    frames.LEFT: decode_left,
    frames.RECEIPT: decode_receipt,
    frames.SAFE_LINE: decode_safe_line,
    frames.CONFIG: decode_config,
    frames.ERROR: decode_error,
    frames.THROTTLE: decode_throttle,
    frames.SLOW: decode_slow,
    frames.PONG: decode_pong,
    frames.GROUPS_ARE: decode_groups_are,
    frames.FAREWELL: decode_farewell,
}


def decode_request(frame: Frame) -> Request:
    """Read what a client says."""
    decode = REQUESTS.get(frame.opcode)
    if decode is None:
        raise MalformedFrame("ipc: kind")
    return decode(frame.body)


def decode_told(frame: Frame) -> Told:
    """Read what a daemon says."""
    decode = TOLD.get(frame.opcode)
    if decode is None:
        raise MalformedFrame("ipc: kind")
    return decode(frame.body)
