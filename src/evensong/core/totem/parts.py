"""Control frames larger than a datagram travel as numbered parts; a missing part loses the frame.

Only the commit token of a large ring needs this. What is kept is bounded: one unfinished frame a
transmitter, and no more transmitters than a ring can have.
"""

import struct
from typing import Final, final

from evensong.core.ids import PROCESSORS_MAX, ProcessorId
from evensong.core.totem.wire import HEADER, PART
from evensong.errors import MalformedFrame

# header | frame_no:u32 part:u8 parts:u8 | chunk
PART_FRAME: Final = struct.Struct("!BIQIBB")
PARTS_MAX: Final = 64
FRAME_MAX: Final = 32_768  # twice the largest commit token


def split(frame: bytes, frame_no: int, datagram_max: int) -> list[bytes]:
    """Return the frame as datagrams: itself if it fits, else its parts."""
    if len(frame) <= datagram_max:
        return [frame]
    _, transmitter, incarnation = HEADER.unpack_from(frame)
    chunk = datagram_max - PART_FRAME.size
    starts = range(0, len(frame), chunk)
    assert len(starts) <= PARTS_MAX
    return [
        PART_FRAME.pack(PART, transmitter, incarnation, frame_no, part, len(starts))
        + frame[start : start + chunk]
        for part, start in enumerate(starts)
    ]


@final
class _Unfinished:
    __slots__ = ("chunks", "frame_no", "incarnation", "parts", "room")

    def __init__(self, incarnation: int, frame_no: int, parts: int) -> None:
        self.incarnation: Final = incarnation
        self.frame_no: Final = frame_no
        self.parts: Final = parts
        self.chunks: Final[dict[int, bytes]] = {}
        self.room = FRAME_MAX


@final
class Parts:
    """Puts frames together again."""

    __slots__ = ("unfinished",)

    def __init__(self) -> None:
        self.unfinished: Final[dict[ProcessorId, _Unfinished]] = {}

    def add(self, datagram: bytes) -> bytes | None:
        """Take a part in; return the frame if it was the last one missing."""
        if len(datagram) <= PART_FRAME.size:
            raise MalformedFrame("part: size")
        _, transmitter, incarnation, frame_no, part, parts = PART_FRAME.unpack_from(datagram)
        if not 2 <= parts <= PARTS_MAX or part >= parts:
            raise MalformedFrame("part: count")
        frame = self.unfinished.get(transmitter)
        if frame is None or (frame.incarnation, frame.frame_no, frame.parts) != (
            incarnation,
            frame_no,
            parts,
        ):
            frame = self._begin(transmitter, incarnation, frame_no, parts)
        if part in frame.chunks:
            return None
        chunk = datagram[PART_FRAME.size :]
        frame.room -= len(chunk)
        if frame.room < 0:
            del self.unfinished[transmitter]
            raise MalformedFrame("part: frame too large")
        frame.chunks[part] = chunk
        if len(frame.chunks) < parts:
            return None
        del self.unfinished[transmitter]
        whole = b"".join([frame.chunks[index] for index in range(parts)])
        if len(whole) < HEADER.size or HEADER.unpack_from(whole)[1:] != (transmitter, incarnation):
            raise MalformedFrame("part: not its transmitter's frame")
        if whole[0] == PART:
            raise MalformedFrame("part: of a part")
        return whole

    def _begin(
        self, transmitter: ProcessorId, incarnation: int, frame_no: int, parts: int
    ) -> _Unfinished:
        self.unfinished.pop(transmitter, None)
        if len(self.unfinished) >= PROCESSORS_MAX:
            del self.unfinished[next(iter(self.unfinished))]  # the oldest
        frame = _Unfinished(incarnation, frame_no, parts)
        self.unfinished[transmitter] = frame
        return frame
