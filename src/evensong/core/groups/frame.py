"""Frames: what one process hands over in one go, and what its receivers get.

A frame has one sender, one destination and one service; it holds one message or several. A daemon
reads its header and nothing more; the messages are cut apart by the library of whoever receives
them. All numbers are big-endian.

    offset size  field
         0    1  kind       1 WHOLE, 2 FIRST, 3 MIDDLE, 4 LAST, 5 CONTROL
         1    1  flags      1 SAFE, 8 CAUSAL, 16 BASIC, at most one of them (else agreed);
                            2 SELF_DISCARD (not to the sender itself),
                            4 NAMED (messages begin with an id: for libraries)
         2    4  session    of the sender, at its daemon; 0 for the daemon itself
         6    8  first_no   the session's number of the first message; the next ones count on
        14    4  group_set  the destination, a number that the session has defined
        18    2  places     WHOLE, LAST: messages, at least 1; FIRST, MIDDLE: 0; CONTROL: 1
        20    4  length     of what follows the header
        24       content

    content of WHOLE, places = 1  the message: all of it
    content of WHOLE, places > 1  places * u16: the messages' lengths; then the messages, joined
    content of FIRST              u32: the length of a WHOLE's content; then its first piece
    content of MIDDLE and LAST    the next piece
    content of CONTROL            see control.py

`places` says how many places of the order a frame takes: messages have their places where their
frame ends, and a control message takes one too, so that a view has a place of its own. In a packet
that is not ordered (CAUSAL, BASIC) it counts the same and means no places.
Sessions hand over and receive frames of kind WHOLE only. One that is too large for a packet is cut
by the sender's daemon and put together by the receiver's. So a program that has much to say says it
in few frames, and packets are full whatever the sizes of its messages.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from evensong.core.groups.limits import LENGTH_MAX
from evensong.errors import MalformedFrame

# kind:u8 flags:u8 session:u32 first_no:u64 group_set:u32 places:u16 length:u32 | content
HEADER: Final = struct.Struct("!BBIQIHI")
HEADER_SIZE: Final = HEADER.size
TOTAL: Final = struct.Struct("!I")
MESSAGE_NO_MAX: Final = 2**62  # adding a count to it stays encodable
COUNT_MAX: Final = 2**16 - 1
TABLED_MAX: Final = 2**16 - 1  # bytes of a message in a frame of several

WHOLE: Final = 1
FIRST: Final = 2
MIDDLE: Final = 3
LAST: Final = 4
CONTROL: Final = 5

SAFE: Final = 1
SELF_DISCARD: Final = 2
NAMED: Final = 4
CAUSAL: Final = 8
BASIC: Final = 16
UNORDERED: Final = CAUSAL | BASIC
FLAGS: Final = SAFE | SELF_DISCARD | NAMED | UNORDERED
SERVICES: Final = frozenset([0, SAFE, CAUSAL, BASIC])  # what flags may say of it


class Head(NamedTuple):
    """A frame's header."""

    kind: int
    flags: int
    session: int
    first_no: int
    group_set: int
    places: int
    length: int


def encode_frame(head: Head, content: bytes) -> bytes:
    """Lay a frame out; its length is taken from the content."""
    return HEADER.pack(*head[:6], len(content)) + content


def encode_whole(
    session: int, first_no: int, group_set: int, flags: int, messages: Sequence[bytes]
) -> bytes:
    """Lay out a frame of whole messages, at least one; of several none may be beyond 65535 bytes.

    >>> len(encode_whole(session=1, first_no=1, group_set=0, flags=0, messages=[b"credo"]))
    29
    """
    count = len(messages)
    assert 0 < count <= COUNT_MAX
    lengths = [*map(len, messages)]
    table = struct.pack(f"!{count}H", *lengths) if count > 1 else b""
    length = len(table) + sum(lengths)
    header = HEADER.pack(WHOLE, flags, session, first_no, group_set, count, length)
    return b"".join([header, table, *messages])


def whole_size(messages: Sequence[bytes]) -> int:
    """Return how many bytes a frame of these messages would take."""
    count = len(messages)
    return HEADER_SIZE + (2 * count if count > 1 else 0) + sum(map(len, messages))


def as_agreed(frame: bytes) -> bytes:
    """Return a frame that asks for less as one that asks for agreed delivery."""
    return frame[:1] + bytes([frame[1] & ~UNORDERED]) + frame[2:]


def decode_head(buffer: bytes | memoryview, at: int = 0) -> Head:
    """Read a frame's header, checked against itself and against the end of the buffer."""
    if len(buffer) - at < HEADER_SIZE:
        raise MalformedFrame("frame: header")
    head = Head(*HEADER.unpack_from(buffer, at))
    kind, flags, _, first_no, _, places, length = head
    if length > LENGTH_MAX or length > len(buffer) - at - HEADER_SIZE:
        raise MalformedFrame("frame: length")
    if flags & ~FLAGS or first_no > MESSAGE_NO_MAX:
        raise MalformedFrame("frame: field")
    if flags & (SAFE | UNORDERED) not in SERVICES:
        raise MalformedFrame("frame: service")
    if kind == WHOLE:
        if not places or (places > 1 and 2 * places > length):
            raise MalformedFrame("frame: places")
    elif kind == LAST:
        if not places:
            raise MalformedFrame("frame: places")
    elif kind == CONTROL:
        if places != 1:
            raise MalformedFrame("frame: places")
    elif kind in (FIRST, MIDDLE):
        if places:
            raise MalformedFrame("frame: places")
    else:
        raise MalformedFrame("frame: kind")
    return head


def has_table(frame: bytes, places: int) -> bool:
    """Whether a whole frame of several messages can be cut into them."""
    at = HEADER_SIZE + 2 * places
    if len(frame) < at:
        return False
    lengths: tuple[int, ...] = struct.unpack_from(f"!{places}H", frame, HEADER_SIZE)
    return sum(lengths) == len(frame) - at


def messages_of(frame: bytes | memoryview) -> list[bytes]:
    """Cut a frame of kind WHOLE into its messages.

    >>> messages_of(encode_whole(1, 1, 0, 0, [b"buy 5", b"", b"sell 3"]))
    [b'buy 5', b'', b'sell 3']
    """
    head = decode_head(frame)
    if head.kind != WHOLE or head.length != len(frame) - HEADER_SIZE:
        raise MalformedFrame("frame: not one whole")
    count = head.places
    if count == 1:
        return [bytes(frame[HEADER_SIZE:])]
    frame = bytes(frame)
    at = HEADER_SIZE + 2 * count
    lengths: tuple[int, ...] = struct.unpack_from(f"!{count}H", frame, HEADER_SIZE)
    if sum(lengths) != len(frame) - at:
        raise MalformedFrame("frame: table")
    messages: list[bytes] = []
    for length in lengths:
        messages.append(frame[at : at + length])
        at += length
    return messages
