"""Notes: what the members of a group tell each other about their state, as messages of the group.

place: ring_seq:u64 ring_rep:u32 seq:u64 sub:u32
EMPTY   op:u8 place                                          I have no state at this view
READY   op:u8 place                                          I have the state of this place
OFFER   op:u8 place flags:u8 size:u64 count:u16 | kin        here comes mine, and whose it is too
        flags: 1 several sides have met, 2 our last view was primary
        kin:   daemon:u32 incarnation:u64 session:u32
CHUNK   op:u8 place offset:u64 | bytes                       a piece of it
"""

import struct
from typing import Final, NamedTuple, TypeAlias

from evensong.core.ids import ProcessorId, RingId
from evensong.errors import MalformedFrame

EMPTY: Final = 1
READY: Final = 2
OFFER: Final = 3
CHUNK: Final = 4

MET: Final = 1
PRIMARY: Final = 2

PLACE: Final = struct.Struct("!BQIQI")
OFFER_HEAD: Final = struct.Struct("!BQH")
KEY: Final = struct.Struct("!IQI")
OFFSET: Final = struct.Struct("!Q")
SNAPSHOT_MAX: Final = 2**40

Key: TypeAlias = tuple[ProcessorId, int, int]  # a member without its name
Place: TypeAlias = tuple[RingId, int, int]  # configuration of delivery, seq, sub


class Empty(NamedTuple):
    """The sender has no state at this view."""

    place: Place


class Ready(NamedTuple):
    """The sender has the state of this place, and all that came after."""

    place: Place


class Offer(NamedTuple):
    """The sender's state at this place follows in chunks; all of `kin` have the same."""

    place: Place
    has_met: bool  # several sides have met: nobody goes on before all are heard
    was_primary: bool
    size: int
    kin: tuple[Key, ...]


class Chunk(NamedTuple):
    """A piece of a state that was offered."""

    place: Place
    offset: int
    piece: bytes


Note: TypeAlias = Empty | Ready | Offer | Chunk


def encode_note(note: Note) -> bytes:
    """Lay a note out."""
    if isinstance(note, Empty):
        return _head(EMPTY, note.place)
    if isinstance(note, Ready):
        return _head(READY, note.place)
    if isinstance(note, Chunk):
        return _head(CHUNK, note.place) + OFFSET.pack(note.offset) + note.piece
    flags = (MET if note.has_met else 0) | (PRIMARY if note.was_primary else 0)
    kin = b"".join([KEY.pack(*key) for key in note.kin])
    return _head(OFFER, note.place) + OFFER_HEAD.pack(flags, note.size, len(note.kin)) + kin


def _head(op: int, place: Place) -> bytes:
    ring_id, seq, sub = place
    return PLACE.pack(op, *ring_id, seq, sub)


def decode_note(content: bytes) -> Note:
    """Read a note."""
    if len(content) < PLACE.size:
        raise MalformedFrame("note: size")
    op, ring_seq, ring_rep, seq, sub = PLACE.unpack_from(content)
    place = (RingId(ring_seq, ring_rep), seq, sub)
    rest = content[PLACE.size :]
    if op == OFFER:
        return _decode_offer(place, rest)
    if op == CHUNK:
        if len(rest) < OFFSET.size:
            raise MalformedFrame("note: size")
        return Chunk(place, OFFSET.unpack_from(rest)[0], rest[OFFSET.size :])
    if rest or op not in (EMPTY, READY):
        raise MalformedFrame("note: kind")
    return Empty(place) if op == EMPTY else Ready(place)


def _decode_offer(place: Place, rest: bytes) -> Offer:
    if len(rest) < OFFER_HEAD.size:
        raise MalformedFrame("note: size")
    flags, size, count = OFFER_HEAD.unpack_from(rest)
    if flags > MET | PRIMARY or size > SNAPSHOT_MAX or not count:
        raise MalformedFrame("note: offer")
    if len(rest) != OFFER_HEAD.size + count * KEY.size:
        raise MalformedFrame("note: kin")
    kin: list[Key] = list(KEY.iter_unpack(rest[OFFER_HEAD.size :]))
    return Offer(place, bool(flags & MET), bool(flags & PRIMARY), size, tuple(kin))
