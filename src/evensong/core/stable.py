"""The record that must survive a crash: the ceiling of ring sequence numbers.

What is stored is a ceiling rather than the last value: it is raised by a stride and made durable
before a ring seq above it is used, so that hundreds of membership changes cost one write. A restart
begins above the ceiling, so no ring id is ever used twice.
"""

import struct
import zlib
from typing import Final, NamedTuple

from evensong.errors import CorruptRecord

# magic:4s version:u16 | ring_seq:u64 incarnation:u64 timestamp_high:u64 | crc:u32
RECORD: Final = struct.Struct("!4sHQQQI")
MAGIC: Final = b"EVSR"
VERSION: Final = 1


class StableRecord(NamedTuple):
    """What a processor remembers across restarts."""

    ring_seq: int  # ceiling: no ring id above it has been put on the wire
    incarnation: int
    timestamp_high: int = 0


FIRST_START: Final = StableRecord(0, 0)


def encode_record(record: StableRecord) -> bytes:
    """Lay the record out, with its checksum."""
    body = RECORD.pack(MAGIC, VERSION, *record, 0)[: -struct.calcsize("!I")]
    return body + struct.pack("!I", zlib.crc32(body))


def decode_record(stored: bytes) -> StableRecord:
    """Read a record back. An unreadable one is an error, never a silent zero."""
    if len(stored) != RECORD.size:
        raise CorruptRecord(f"stable record has {len(stored)} bytes, not {RECORD.size}")
    magic, version, ring_seq, incarnation, timestamp_high, crc = RECORD.unpack(stored)
    if magic != MAGIC or version != VERSION:
        raise CorruptRecord(f"stable record of another kind: {magic!r} version {version}")
    if crc != zlib.crc32(stored[:-4]):
        raise CorruptRecord("stable record fails its checksum")
    return StableRecord(ring_seq, incarnation, timestamp_high)
