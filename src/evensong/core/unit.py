"""Units: identity first, so that order is checked without trusting whoever made it.

A unit is what a packet carries, named by its origin before any protocol touches it: (sender,
incarnation, origin_no). The name travels inside the payload, so a checker recognises a unit that
was altered, invented or attributed to somebody else.
"""

import struct
import zlib
from collections.abc import Sequence
from itertools import repeat
from operator import add
from typing import Final, NamedTuple, final

from evensong.core.ids import NO_PROCESSOR, ProcessorId

# sender:u32 incarnation:u64 origin_no:u64 count:u16 | body
UNIT: Final = struct.Struct("!IQQH")


class UnitId(NamedTuple):
    """A unit's identity, fixed before ordering."""

    sender: ProcessorId
    incarnation: int
    origin_no: int  # from 1, without gaps, in the order in which the sender's client spoke

    def __str__(self) -> str:
        return f"{self.sender}/{self.incarnation}:{self.origin_no}"


NO_UNIT: Final = UnitId(NO_PROCESSOR, 0, 0)  # what a payload names that is too short to be a unit


def encode_unit(unit_id: UnitId, body: bytes, count: int = 1) -> bytes:
    """Lay a unit of `count` messages out as the payload of a packet."""
    return UNIT.pack(*unit_id, count) + body


def decode_unit(payload: bytes) -> UnitId:
    """Read a unit's identity off its payload, whatever that is."""
    if len(payload) < UNIT.size:
        return NO_UNIT
    sender, incarnation, origin_no, _ = UNIT.unpack_from(payload)
    return UnitId(sender, incarnation, origin_no)


def body_of(payload: bytes) -> bytes:
    """Return what a unit carries."""
    return payload[UNIT.size :]


def digest(payload: bytes) -> int:
    """Return a hash of the content, the same in every process."""
    return zlib.crc32(payload)


@final
class Origin:
    """Names the units of one life, in the order in which they are handed over."""

    __slots__ = ("_incarnation", "_node", "last_no")

    def __init__(self, node: ProcessorId, incarnation: int) -> None:
        self._node: Final = node
        self._incarnation: Final = incarnation
        self.last_no = 0

    def unit(self, body: bytes) -> bytes:
        """Make the next unit."""
        self.last_no += 1
        return UNIT.pack(self._node, self._incarnation, self.last_no, 1) + body

    def units(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Make the next units: `unit` for all at once."""
        numbers = range(self.last_no + 1, self.last_no + 1 + len(bodies))
        self.last_no += len(bodies)
        heads = map(UNIT.pack, repeat(self._node), repeat(self._incarnation), numbers, repeat(1))
        return [*map(add, heads, bodies)]
