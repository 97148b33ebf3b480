"""The units that simulated clients send: identity first, so order is checked without trusting it.

A unit is named by its origin before any protocol touches it: (sender, incarnation, origin_no). The
name travels inside the payload, with a body derived from it, so a checker recognises a unit that
was altered, invented or attributed to somebody else.
"""

import struct
import zlib
from typing import Final, NamedTuple

from evensong.core.ids import ProcessorId

# sender:u32 incarnation:u64 origin_no:u64 | body
UNIT: Final = struct.Struct("!IQQ")


class UnitId(NamedTuple):
    """A unit's identity, fixed before ordering."""

    sender: ProcessorId
    incarnation: int
    origin_no: int  # from 1, without gaps, in the order in which the sender's client spoke

    def __str__(self) -> str:
        return f"{self.sender}/{self.incarnation}:{self.origin_no}"


def encode_unit(unit_id: UnitId, body: bytes) -> bytes:
    """Lay a unit out as the payload of a packet."""
    return UNIT.pack(*unit_id) + body


def decode_unit(payload: bytes) -> UnitId:
    """Read a unit's identity off its payload."""
    return UnitId(*UNIT.unpack_from(payload))


def digest(payload: bytes) -> int:
    """Return a hash of the content, the same in every process."""
    return zlib.crc32(payload) << 32 | zlib.adler32(payload)
