"""Packets: what the ring orders, a unit's head and whole frames behind it.

    unit: sender:u32 incarnation:u64 origin_no:u64 count:u16     core/unit.py
    version:u8 flags:u8 frames:u16                               flags: none yet, 0
    frames                                                       frame.py, one behind the other

The unit's count says how many places of the order the packet takes, the sum over its frames; a
packet in the middle of a large message takes none. The packet is a unit as any other, so the check
of the order works on packets, whatever is in them. Either all of a packet is read or nothing.
A unit whose version is 0 is no packet of groups but a test's: groups pass over it.
"""

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from evensong.core.groups.frame import (
    CONTROL,
    FIRST,
    FLAGS,
    HEADER,
    HEADER_SIZE,
    LAST,
    MESSAGE_NO_MAX,
    MIDDLE,
    WHOLE,
)
from evensong.core.groups.limits import COPIED_MAX
from evensong.core.ids import ProcessorId
from evensong.core.unit import UNIT, UnitId
from evensong.errors import MalformedFrame

# unit | version:u8 flags:u8 frames:u16 | frames
PACKET: Final = struct.Struct("!IQQHBBH")
PACKET_SIZE: Final = PACKET.size
VERSION: Final = 1
VERSION_AT: Final = UNIT.size
FOREIGN: Final = b"\0"  # what is not for groups, behind the unit's head

# kind flags session first_no group_set places length, and where the content begins
FrameAt: TypeAlias = tuple[int, int, int, int, int, int, int, int]
unpack_header: Final = HEADER.unpack_from
unpack_packet: Final = PACKET.unpack_from
# A packet that holds one frame: both heads at once.
ALONE: Final = struct.Struct("!IQQHBBHBBIQIHI")
ALONE_SIZE: Final = ALONE.size
# The same with what is left alone left out, and what must be so in one piece:
# sender:u32 count:u16 | version flags frames kind | flags session first_no group_set places length
LONE: Final = struct.Struct("!I16xH5sBIQIHI")
ONE_WHOLE: Final = struct.pack("!BBHB", VERSION, 0, 1, WHOLE)
unpack_lone: Final = LONE.unpack_from
# sender flags session first_no group_set places, and where it ends
LoneFrame: TypeAlias = tuple[ProcessorId, int, int, int, int, int, int]
NUMBERED: Final = struct.Struct("!IQQ")  # it begins so, and goes on so
ALONE_TAIL: Final = struct.Struct("!HBBHBBIQIHI")
ORIGIN_NO: Final = slice(12, 20)  # all that differs in the heads of like pieces of one frame
KIND_AT: Final = PACKET.size
CONTINUES: Final = frozenset([FIRST, MIDDLE])
PLACES_MAX: Final = 2**16 - 1  # of one packet


def encode_packet(unit_id: UnitId, places: int, frames: Sequence[bytes]) -> bytes:
    """Lay a packet out."""
    return PACKET.pack(*unit_id, places, VERSION, 0, len(frames)) + b"".join(frames)


def decode_packet(
    payload: bytes, at: int = 0, end: int = -1
) -> tuple[tuple[ProcessorId, int, int], list[FrameAt]]:
    """Find a packet's unit and frames, every header checked; the contents are left alone.

    It may be a part of what it came in.
    """
    size = len(payload) if end < 0 else end
    if size - at < PACKET_SIZE:
        raise MalformedFrame("packet: size")
    sender, incarnation, origin_no, count, version, flags, frames = unpack_packet(payload, at)
    if version != VERSION or flags:
        raise MalformedFrame("packet: version")
    if not frames:
        raise MalformedFrame("packet: empty")
    found: list[FrameAt] = []
    at += PACKET_SIZE
    for _ in range(frames):
        if size - at < HEADER_SIZE:
            raise MalformedFrame("packet: cut short")
        kind, marks, session, first_no, group_set, places, length = unpack_header(payload, at)
        at += HEADER_SIZE
        if length > size - at:
            raise MalformedFrame("packet: frame beyond its end")
        if marks > FLAGS or first_no > MESSAGE_NO_MAX:
            raise MalformedFrame("packet: field of a frame")
        if kind == WHOLE:
            if places != 1 and (not places or 2 * places > length):
                raise MalformedFrame("packet: places of a frame")
        elif kind in CONTINUES:
            if places:
                raise MalformedFrame("packet: places of a frame")
        elif not places or (kind != LAST and (kind != CONTROL or places > 1)):
            raise MalformedFrame("packet: kind of a frame")
        found.append((kind, marks, session, first_no, group_set, places, length, at))
        at += length
        count -= places
    if at != size or count:
        raise MalformedFrame("packet: sum")
    return (sender, incarnation, origin_no), found


def frame_in(payload: bytes, begin: int, end: int) -> bytes | memoryview:
    """Return a frame where it lies, if it is long and most of what it lies in.

    Others are copied. Else a small frame that waits for a slow client would keep all that it came
    in, or a view as large as itself, and queues are bounded by what is in them.
    """
    size = end - begin
    if size <= COPIED_MAX or 2 * size < len(payload):
        return payload[begin:end]
    return memoryview(payload)[begin:end]


def lone_whole(payload: bytes, at: int = 0, end: int = -1) -> LoneFrame | None:
    """Return what is said of a packet that holds a WHOLE and nothing else; None for all others.

    It is `decode_packet` in one step, for what a busy ring carries. What is wrong is left to that.
    """
    stop = len(payload) if end < 0 else end
    if stop - at < ALONE_SIZE:
        return None
    fields = unpack_lone(payload, at)
    sender, count, begins, marks, session, first_no, group_set, places, length = fields
    is_sound = (
        begins == ONE_WHOLE
        and marks <= FLAGS
        and first_no <= MESSAGE_NO_MAX
        and count == places
        and (places == 1 or 0 < 2 * places <= length)
        and length == stop - at - ALONE_SIZE
    )
    return (sender, marks, session, first_no, group_set, places, stop) if is_sound else None


def lone_middle(payload: bytes) -> tuple[ProcessorId, int, int, int] | None:
    """Return whose piece a packet is that holds a MIDDLE and nothing else; None for all others.

    That is sender, incarnation, session and first_no. What is wrong is left to `decode_packet`.
    """
    if len(payload) < ALONE_SIZE or payload[KIND_AT] != MIDDLE:
        return None
    (sender, incarnation, _, count, version, flags, frames, _, marks, *frame) = ALONE.unpack_from(
        payload
    )
    session, first_no, _, places, length = frame
    is_sound = (
        (frames, version) == (1, VERSION)
        and not (count or flags or places)
        and marks <= FLAGS
        and first_no <= MESSAGE_NO_MAX
        and length == len(payload) - ALONE_SIZE
    )
    return (sender, incarnation, session, first_no) if is_sound else None


def alike(payloads: Sequence[bytes], at: int) -> int:
    """Return where packets end whose heads and sizes are like those of the one at a place."""
    model = payloads[at]
    size = len(model)
    origin, rest = model[: ORIGIN_NO.start], model[ORIGIN_NO.stop : ALONE_SIZE]
    begin, stop = ORIGIN_NO.start, ORIGIN_NO.stop
    for end in range(at + 1, len(payloads)):
        payload = payloads[end]
        if payload[stop:ALONE_SIZE] != rest or payload[:begin] != origin or len(payload) != size:
            return end
    return len(payloads)
