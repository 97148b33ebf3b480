"""Which messages go into which frame: as many as fit, since a frame is what everybody handles.

And out of it again: messages of one size, the common case, are cut apart by one call.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from evensong.core.groups.frame import (
    COUNT_MAX,
    HEADER_SIZE,
    TABLED_MAX,
    Head,
    decode_head,
    messages_of,
)
from evensong.errors import MalformedFrame

SMALL: Final = 64  # bytes of a message, on average; an object of its own takes some 50 more


def as_bytes(payload: bytes) -> bytes:
    """Return the payload as it is now, whatever the program does with its buffer later."""
    return payload if type(payload) is bytes else bytes(memoryview(payload))


def pack(payloads: Sequence[bytes], frame_max: int) -> Iterator[Sequence[bytes]]:
    """Cut a sequence into the contents of frames, in order, none longer than it may be.

    A message that is too long for company goes alone; the daemon cuts it into pieces.

    >>> [len(frame) for frame in pack([b"credo"] * 100, 300)]
    [39, 39, 22]
    """
    if not payloads:
        return
    lengths = list(map(len, payloads))
    longest = max(lengths)
    room = frame_max - HEADER_SIZE
    if longest == min(lengths):  # the common case: no counting needed
        step = min(room // (2 + longest), COUNT_MAX) if longest <= TABLED_MAX else 1
        step = max(step, 1)
        for at in range(0, len(payloads), step):
            yield payloads[at : at + step]
        return
    begin = 0
    left = room
    for at, length in enumerate(lengths):
        cost = 2 + length
        is_open = at > begin
        if is_open and (
            cost > left
            or length > TABLED_MAX
            or lengths[begin] > TABLED_MAX
            or at - begin == COUNT_MAX
        ):
            yield payloads[begin:at]
            begin = at
            left = room
        left -= cost
    yield payloads[begin:]


def unpack(frame: bytes | memoryview, count: int) -> Sequence[bytes]:
    """Cut a frame of so many messages apart; one whose table is false raises `MalformedFrame`.

    >>> from evensong.core.groups.frame import encode_whole
    >>> unpack(encode_whole(1, 1, 0, 0, [b"Ave", b"Maria"]), 2)
    [b'Ave', b'Maria']
    """
    at = HEADER_SIZE + 2 * count
    table = bytes(frame[HEADER_SIZE:at])
    if count < 2 or table != table[:2] * count:
        return messages_of(frame)
    length = int.from_bytes(table[:2], "big")
    if len(frame) - at != count * length:
        raise MalformedFrame("frame: table")
    return _cutter(length, count).unpack_from(frame, at)


def are_small(frame: bytes | memoryview, count: int) -> bool:
    """Whether a frame's messages take much more room by themselves.

    Nobody may come for them for a while, and queues are bounded by the bytes in them.
    """
    return len(frame) < count * SMALL


def take_out(frame: bytes | memoryview) -> tuple[Head, bytes | Sequence[bytes]]:
    """Take a frame out of where it was read: its header, and its messages or itself."""
    head = decode_head(frame)
    if not are_small(frame, head.places):
        with suppress(MalformedFrame):  # whoever reads it will see
            return head, unpack(frame, head.places)
    return head, bytes(frame)


@lru_cache(maxsize=64)
def _cutter(length: int, count: int) -> struct.Struct:
    return struct.Struct(f"{length}s" * count)


def part_names(bodies: Sequence[bytes]) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
    """Take ids and payloads apart; what cannot be raises `MalformedFrame`.

    >>> part_names([b"\\x03a17buy 5"])
    (('a17',), (b'buy 5',))
    """
    ids: list[str] = []
    payloads: list[bytes] = []
    for body in bodies:
        at = 1 + body[0] if body else 0
        if at < 2 or at > len(body):
            raise MalformedFrame("message: id")
        try:
            ids.append(body[1:at].decode())
        except UnicodeDecodeError:
            raise MalformedFrame("message: id") from None
        payloads.append(body[at:])
    return tuple(ids), tuple(payloads)
