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
CONTINUES: Final = frozenset([FIRST, MIDDLE])
PLACES_MAX: Final = 2**16 - 1  # of one packet


def encode_packet(unit_id: UnitId, places: int, frames: Sequence[bytes]) -> bytes:
    """Lay a packet out."""
    return PACKET.pack(*unit_id, places, VERSION, 0, len(frames)) + b"".join(frames)


def decode_packet(payload: bytes) -> tuple[tuple[ProcessorId, int, int], list[FrameAt]]:
    """Find a packet's unit and frames, every header checked; the contents are left alone."""
    size = len(payload)
    if size < PACKET_SIZE:
        raise MalformedFrame("packet: size")
    sender, incarnation, origin_no, count, version, flags, frames = PACKET.unpack_from(payload)
    if version != VERSION or flags:
        raise MalformedFrame("packet: version")
    if not frames:
        raise MalformedFrame("packet: empty")
    found: list[FrameAt] = []
    at = PACKET_SIZE
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
