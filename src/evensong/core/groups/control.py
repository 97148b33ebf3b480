"""Control messages: how a group's members, destinations and directories are told, in the order.

Content of frames of kind CONTROL. Text is a length:u8 and so many bytes of UTF-8.

    JOIN, LEAVE, GONE   op:u8 request_id:u32 user:text group:text       GONE has neither
    SET                 op:u8 is_end:u8 user:text count:u8 names:text*  the frame has the number
    STATE               op:u8 part:u32 parts:u32 chunk                  see exchange.py
    AS_OF               op:u8 counter:u64                               begins a BASIC packet

A SET that does not fit a packet is told in several; they count as one when the last has come.
What a BASIC packet says holds for itself alone, since it may come before or after any other: it
brings the SETs of its frames along, and AS_OF says how many changes its sender's directory had
seen, so that nobody who is a member by then is passed over.
"""

import struct
from typing import Final, NamedTuple

from evensong.core.groups.events import is_group_name, is_user_name, parse_private_name
from evensong.core.groups.frame import CONTROL, HEADER, HEADER_SIZE
from evensong.core.groups.limits import GROUPS_MAX
from evensong.errors import MalformedFrame

JOIN: Final = 1
LEAVE: Final = 2
GONE: Final = 3
SET: Final = 4
STATE: Final = 5
AS_OF: Final = 6

WISH: Final = struct.Struct("!BI")
SET_HEAD: Final = struct.Struct("!BB")
STATE_HEAD: Final = struct.Struct("!BII")
AS_OF_BODY: Final = struct.Struct("!BQ")
PARTS_MAX: Final = 2**20  # of a directory; at a thousand bytes each a gigabyte


class Wish(NamedTuple):
    """What a session asks: to join, to leave, or to be counted as gone."""

    op: int
    request_id: int
    user: str
    group: str


class SetPart(NamedTuple):
    """Some names of a destination; the last part makes it complete."""

    is_end: bool
    user: str
    names: tuple[str, ...]


class StatePart(NamedTuple):
    """A piece of a directory."""

    part: int
    parts: int
    chunk: bytes


class AsOf(NamedTuple):
    """What comes with it is for members as of this change of the directory."""

    counter: int


def control_frame(session: int, content: bytes, group_set: int = 0) -> bytes:
    """Lay out a frame of kind CONTROL."""
    return HEADER.pack(CONTROL, 0, session, 0, group_set, 1, len(content)) + content


def encode_wish(op: int, request_id: int, user: str, group: str) -> bytes:
    """Lay out a JOIN, LEAVE or GONE."""
    return WISH.pack(op, request_id) + encode_text(user) + encode_text(group)


def encode_sets(user: str, names: tuple[str, ...], content_max: int) -> list[bytes]:
    """Lay out a destination in as many SETs as it takes, none longer than `content_max`."""
    head_size = SET_HEAD.size + len(encode_text(user)) + 1
    portions: list[list[bytes]] = [[]]
    room = content_max - head_size
    for name in names:
        text = encode_text(name)
        if len(text) > room:
            portions.append([])
            room = content_max - head_size
        portions[-1].append(text)
        room -= len(text)
        assert room >= 0
    last = len(portions) - 1
    return [
        SET_HEAD.pack(SET, index == last)
        + encode_text(user)
        + bytes([len(portion)])
        + b"".join(portion)
        for index, portion in enumerate(portions)
    ]


def encode_as_of(counter: int) -> bytes:
    """Lay out an AS_OF."""
    return AS_OF_BODY.pack(AS_OF, counter)


def encode_state(state: bytes, content_max: int) -> list[bytes]:
    """Lay out an encoded directory in as many STATEs as it takes."""
    chunk = content_max - STATE_HEAD.size
    starts = range(0, max(1, len(state)), chunk)
    return [
        STATE_HEAD.pack(STATE, part, len(starts)) + state[start : start + chunk]
        for part, start in enumerate(starts)
    ]


def decode_control(content: bytes) -> Wish | SetPart | StatePart | AsOf:
    """Read a control message."""
    if not content:
        raise MalformedFrame("control: empty")
    op = content[0]
    if op in (JOIN, LEAVE, GONE):
        return _decode_wish(content)
    if op == SET:
        return _decode_set(content)
    if op == STATE:
        return _decode_state(content)
    if op == AS_OF and len(content) == AS_OF_BODY.size:
        return AsOf(AS_OF_BODY.unpack(content)[1])
    raise MalformedFrame("control: kind")


def _decode_wish(content: bytes) -> Wish:
    if len(content) < WISH.size:
        raise MalformedFrame("control: size")
    op, request_id = WISH.unpack_from(content)
    user, at = decode_text(content, WISH.size)
    group, at = decode_text(content, at)
    if at != len(content) or not is_user_name(user):
        raise MalformedFrame("control: member")
    if is_group_name(group) == (op == GONE) or (op == GONE and group):
        raise MalformedFrame("control: group")
    return Wish(op, request_id, user, group)


def _decode_set(content: bytes) -> SetPart:
    if len(content) < SET_HEAD.size:
        raise MalformedFrame("control: size")
    _, is_end = SET_HEAD.unpack_from(content)
    user, at = decode_text(content, SET_HEAD.size)
    if is_end > 1 or not is_user_name(user) or at >= len(content):
        raise MalformedFrame("control: set")
    count = content[at]
    if not 0 < count <= GROUPS_MAX:
        raise MalformedFrame("control: set")
    at += 1
    names: list[str] = []
    for _ in range(count):
        name, at = decode_text(content, at)
        if not is_address(name):
            raise MalformedFrame("control: name")
        names.append(name)
    if at != len(content):
        raise MalformedFrame("control: size")
    return SetPart(bool(is_end), user, tuple(names))


def _decode_state(content: bytes) -> StatePart:
    if len(content) < STATE_HEAD.size:
        raise MalformedFrame("control: size")
    _, part, parts = STATE_HEAD.unpack_from(content)
    if not part < parts <= PARTS_MAX:
        raise MalformedFrame("control: part")
    return StatePart(part, parts, content[STATE_HEAD.size :])


def is_address(name: str) -> bool:
    """Whether messages can be sent to it: a group's name or a private one."""
    return is_group_name(name) or parse_private_name(name) is not None


def is_state(payload: bytes, at: int, length: int) -> bool:
    """Whether the control message there is a STATE; what it holds is not looked at."""
    return length > 0 and payload[at] == STATE


def encode_text(text: str) -> bytes:
    """Lay text out behind its length."""
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def decode_text(content: bytes, at: int) -> tuple[str, int]:
    """Read text; return it and where it ends."""
    if at >= len(content):
        raise MalformedFrame("text: cut short")
    end = at + 1 + content[at]
    if end > len(content):
        raise MalformedFrame("text: cut short")
    try:
        return content[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        raise MalformedFrame("text: not UTF-8") from None


WISH_FRAME_MAX: Final = HEADER_SIZE + WISH.size + 2 + 32 + 64  # the longest of a session's wishes
